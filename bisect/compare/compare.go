// Package compare tells whether candidate B is worse than candidate A, by launches of both in pairs.
//
// An [Experiment] makes the launches and comes to a [Result] with one [Contrast] for each number. A difference is
// believed when a rank test rejects chance: Mann and Whitney's test over all launches or Wilcoxon's signed rank
// test over the pairs, which does not mind a machine that drifts; both are exact. Their error is shared
// among the looks taken and, by Holm's method, among the numbers compared. The tests and intervals stand on
// their own as functions: [MannWhitney], [SignedRank], [RatioOfMedians], [Describe].
//
// The package must not know about histories: it compares two candidates and blames neither.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Answer is what a comparison of two candidates came to.
type Answer string

// The answers.
const (
	Worse  Answer = "regression"
	Better Answer = "improvement"
	Alike  Answer = "no-difference" // none as large as is looked for
	Open   Answer = "cannot-tell"

	Accepted Answer = "accepted" // of one number: worse, as is known and let pass
)

// Experiment sets candidate B against candidate A by launches in pairs, A B, B A and so on, until it is clear for
// every number that they give whether B is worse, better or neither. The answer holds with the error asked for however
// often one has looked and however many numbers there are.
//
// Launches of A have the purpose of a good end and those of B that of a bad one, so that A and B may be the same
// candidate. A Sampler that remembers its outcomes resumes a comparison.
//
// Where B has failed more often than A, launches go on after the numbers have their answers, until it is clear whether
// that is chance; if B fails and A does not, they are never called alike.
type Experiment struct {
	A, B    bisect.Candidate
	Names   [2]string // of A and B in what is said of them; "A" and "B" where empty
	Sampler bisect.Sampler

	Metrics  []metric.Metric // what is compared
	Fallback *metric.Metric  // is compared where no launch gives any of Metrics; may be nil
	Effect   float64         // smallest change worth finding, as a fraction: 0.03; 0 stands for 0.005
	Error    float64         // chance that an answer is wrong; 0 stands for 0.01
	Pairs    int             // exactly so many; 0: as many as it takes, up to 120
	Purpose  bisect.Purpose  // of launches of B; "": that of a bad end
	Seed     uint64          // of the bootstrap

	// Every asks for an answer for each number: when one has got worse, those that are still open have as
	// many pairs again.
	Every bool
	// Accepts reports a number that is worse by no more than is let pass. The case is empty where all are
	// meant; ratio is B's over A's. May be nil.
	Accepts func(m metric.Metric, one string, ratio float64) bool

	// Enough ends an experiment of a number of pairs before the last one, though not before MinPairs, if the bounds known
	// by then are all that is asked for. May be nil.
	Enough func([]Contrast) bool

	Spent  func() bool            // reports that the budget is used up; may be nil
	OnPair func(n int, s []Sofar) // is called after every pair, with what is known then; may be nil
}

// Sofar is what is known of one contrast while a comparison goes on.
type Sofar struct {
	Name   string
	Bound  Interval // see Contrast
	Answer Answer
}

// MinPairs are needed before anything is said of a difference.
const MinPairs = 5

// Result is what a comparison showed. After an error it holds what was known until then.
type Result struct {
	Answer    Answer
	ByClass   bool   // the answer rests on how launches ended, not on a number
	Why       string // of such an answer, or why none could be given
	Class     bisect.Class
	Phase     string // of the launches that failed
	Contrasts []Contrast
	Sides     [2]Side // of A and of B
	Pairs     int     // both launches of which count
	Spent     bool    // the budget was used up before the answer
	Hopeless  bool    // as many pairs as may be made would not have given one
	Warnings  []string
}

// Side counts the launches of one candidate.
type Side struct {
	Launches int
	Counted  int             // that gave a number
	WarmUps  int             // processes that filled empty caches before a launch that counts
	Left     []LeftOut       // launches that do not count
	Marked   []LeftOut       // launches that count in spite of something
	Failed   int             // that did not end well
	Failure  *bisect.Outcome // the first of these
}

// LeftOut is a number of launches with the reason they share.
type LeftOut struct {
	Why string
	N   int
}

// run is the state of one Experiment.
type run struct {
	*Experiment
	ctx       context.Context
	want      criteria
	c         Result
	kept      []paired    // the launches that count
	contrasts []*contrast // nil until both sides have ended well; empty where no number of A's can be compared
	unfit     int         // launches in a row that do not count
	worse     int         // the pair after which a number was worse for the first time
	names     [2]string
	cut       bool // the budget cut a launch off
}

// paired is a launch that counts, with its place.
type paired struct {
	pair, side int
	o          bisect.Outcome
}

// Run compares. An error is machine trouble, an interruption or, as an [*UnknownMetricError] or
// [*metric.DirectionError], a request that cannot be met.
func (c *Experiment) Run(ctx context.Context) (Result, error) {
	r := &run{Experiment: c, ctx: ctx, want: c.criteria(), names: c.Names}
	if r.names == [2]string{} {
		r.names = [2]string{"A", "B"}
	}
	r.c.Answer = Open
	err := r.all()
	r.c.Contrasts = r.describe()
	return r.c, err
}

// all launches pair after pair until there is an answer or no more may be launched. How launches end is looked at
// before any number: a side that never ends well has none.
func (r *run) all() error {
	for n := 1; ; n++ {
		if err := r.pair(n); err != nil {
			return err
		}
		if r.byClass() {
			return nil
		}
		if err := r.choose(); err != nil {
			return err
		}
		if r.contrasts != nil && len(r.contrasts) == 0 {
			r.c.Pairs = complete(r.kept)
			r.complain()
			return nil
		}
		r.judge()
		if r.OnPair != nil && !r.cut {
			r.OnPair(n, sofar(r.contrasts, r.want))
		}
		if r.done(n) && !r.follow() {
			r.settle()
			r.complain()
			return nil
		}
	}
}

// pair makes the nth pair, from 1. Each second pair is launched the other way round, so that a steady drift favours
// neither side. If the budget cuts off its second launch, the first one still counts by itself.
func (r *run) pair(n int) error {
	for k := range 2 {
		side := k
		if n%2 == 0 {
			side = 1 - k
		}
		req := bisect.Request{Candidate: r.A, Purpose: bisect.EndGood, Nth: r.c.Sides[side].Launches, Timing: true}
		if side == 1 {
			req.Candidate, req.Purpose = r.B, cmp.Or(r.Purpose, bisect.EndBad)
		}
		o, err := r.Sampler.Sample(r.ctx, req)
		if r.cut = errors.Is(err, bisect.ErrSpent); r.cut {
			return nil
		}
		if err != nil {
			return err
		}
		if r.c.Sides[side].Note(o) {
			r.unfit = 0
			if r.contrasts == nil {
				if _, err := metric.Directed(r.Metrics, o); err != nil {
					return err // one launch tells, and the next could not help
				}
			}
			l := paired{n, side, o}
			r.kept = append(r.kept, l)
			r.spread(l)
		} else {
			r.unfit++
		}
	}
	return nil
}

// Note counts a launch and reports whether its numbers count.
func (s *Side) Note(o bisect.Outcome) bool {
	s.Launches++
	if len(o.Cold) > 0 {
		s.WarmUps++
	}
	switch {
	case o.Class != bisect.OK:
		s.Failed++
		if s.Failure == nil {
			s.Failure = &o
		}
		s.Left = leave(s.Left, "failed: "+o.Describe())
	case o.Unfit != "":
		s.Left = leave(s.Left, o.Unfit)
	default:
		for _, m := range o.Marks {
			s.Marked = leave(s.Marked, m.String())
		}
		s.Counted++
		return true
	}
	return false
}

// leave counts one more launch for a reason.
func leave(all []LeftOut, why string) []LeftOut {
	for i := range all {
		if all[i].Why == why {
			all[i].N++
			return all
		}
	}
	return append(all, LeftOut{why, 1})
}

// spread hands a launch to every contrast.
func (r *run) spread(l paired) {
	p := metric.NewParts(l.o)
	for _, c := range r.contrasts {
		l.o = p.Of(c.channel)
		c.add(l)
	}
}

// complete is the number of pairs of which both launches count.
func complete(kept []paired) int {
	n := 0
	for i := 1; i < len(kept); i++ {
		if kept[i].pair == kept[i-1].pair {
			n++
		}
	}
	return n
}

// choose makes the contrasts of a comparison: the numbers that both sides give, by the first launch of each side that
// ended well. Until there is one of each it does nothing. What later launches leave out or add changes nothing. An
// error says that no number can be compared; with Every, which must answer for each number of A, contrasts is empty
// instead.
func (r *run) choose() error {
	if r.contrasts != nil || r.c.Sides[0].Counted == 0 || r.c.Sides[1].Counted == 0 {
		return nil
	}
	var first [2]bisect.Outcome
	for _, l := range slices.Backward(r.kept) {
		first[l.side] = l.o
	}
	var unknown error
	r.Metrics, unknown = metric.Directed(r.Metrics, first[:]...)
	if unknown != nil {
		return unknown
	}
	cs := metric.InBoth(r.Metrics, first)
	sends := [2]bool{sends(r.Metrics, first[0]), sends(r.Metrics, first[1])}
	if len(cs) == 0 && r.Fallback != nil && !sends[0] && !sends[1] {
		if cs = metric.InBoth([]metric.Metric{*r.Fallback}, first); len(cs) > 0 {
			r.warn(fmt.Sprintf("no launch gave a value of %s: %s is compared instead", metric.Names(r.Metrics), r.Fallback.Name))
		}
	}
	if len(cs) == 0 {
		e := &UnknownMetricError{Wanted: metric.Names(r.Metrics), Sent: metric.SentByBoth(first[0], first[1])}
		switch {
		case sends[0] && !sends[1]:
			e.Only = r.names[0]
		case sends[1] && !sends[0]:
			e.Only = r.names[1]
		}
		if clash := metric.Clashes(r.Metrics, first, r.names); clash != nil {
			e.Clash = clash[0]
		}
		if r.Every && e.Clash == "" && names(r.Metrics, first[0]) {
			r.contrasts = []*contrast{}
			return nil
		}
		return e
	}
	for _, m := range r.Metrics {
		if !m.OfProcess() && len(metric.Cases(m, first[0]))+len(metric.Cases(m, first[1])) == 0 && cs[0].Metric != *cmp.Or(r.Fallback, &metric.Metric{}) {
			r.warn(fmt.Sprintf("no launch gave a value of %s: it is not compared", m.Name))
		}
	}
	for _, c := range cs {
		if was := c.Was(); was != "" {
			r.warn(fmt.Sprintf("%s of %s is taken for %s of %s: a kernel of the same function, with other template arguments", was, r.names[0], c.Case, r.names[1]))
		}
	}
	for _, w := range metric.OneSided(r.Metrics, first, r.names) {
		r.warn(w)
	}
	p := metric.NewParts(first[0])
	for _, c := range cs {
		r.contrasts = append(r.contrasts, newContrast(c, p.Of(c)))
	}
	for _, l := range r.kept {
		r.spread(l)
	}
	return nil
}

// sends reports that a launch gave one of the metrics.
func sends(ms []metric.Metric, o bisect.Outcome) bool {
	return slices.ContainsFunc(ms, func(m metric.Metric) bool { _, ok := m.Log(o); return ok })
}

// names reports that a launch gave one of the metrics, or reported it without a value that can be compared.
func names(ms []metric.Metric, o bisect.Outcome) bool {
	return sends(ms, o) || slices.ContainsFunc(o.Series, func(s bisect.Series) bool {
		return slices.ContainsFunc(ms, func(m metric.Metric) bool { return m.Name == s.Metric })
	})
}

// judge answers for every contrast as far as that is possible, and for all of them together. Holm's correction needs
// the doubts of all contrasts at once.
func (r *run) judge() {
	doubts := make([]float64, len(r.contrasts))
	for i, c := range r.contrasts {
		doubts[i] = c.doubt(r.want.looks)
	}
	for i, doubt := range holm(doubts) {
		r.contrasts[i].judge(doubt, r.want)
	}
	r.c.Answer = together(r.contrasts)
}

// describe puts what is known into numbers.
func (r *run) describe() []Contrast {
	var out []Contrast
	var ps, doubts []float64
	for _, c := range r.contrasts {
		out = append(out, c.describe(len(r.contrasts), r.want))
		ps, doubts = append(ps, out[len(out)-1].P), append(doubts, c.doubt(r.want.looks))
	}
	ps, doubts = holm(ps), holm(doubts)
	for i := range out {
		out[i].Adjusted, out[i].Doubt = ps[i], doubts[i]
	}
	return append(out, r.missing()...)
}

// UnknownMetricError says that the launches give no value of what was asked for that both sides can be compared by.
type UnknownMetricError struct {
	Wanted string
	Sent   []string // what they do give
	Only   string   // the one side that gives it; "" where both or neither do
	Clash  string   // both give it, in different or in several units; "" where they do not
}

func (e *UnknownMetricError) Error() string {
	s := fmt.Sprintf("no value of %s that can be compared", e.Wanted)
	if e.Only != "" {
		s += fmt.Sprintf(": only %s gives one", e.Only)
	}
	if e.Clash != "" {
		s += ": " + e.Clash
	}
	return s + fmt.Sprintf("\nhint: choose one of %s with --metric", strings.Join(e.Sent, ", "))
}

// done reports whether there is an answer after n pairs, or no more may be launched.
func (r *run) done(n int) bool {
	pairs := complete(r.kept)
	r.c.Pairs = pairs
	switch {
	case r.spent():
		r.c.Spent = r.c.Answer == Open
		return true
	case r.unfit >= metric.MaxUnfit:
		r.warn(fmt.Sprintf("the times of %d launches in a row could not be compared: the device is held back or shared", r.unfit))
		return true
	case r.Pairs > 0:
		return pairs >= r.Pairs || n >= r.Pairs+metric.MaxUnfit || pairs >= MinPairs && r.Enough != nil && r.Enough(r.describe())
	case r.c.Answer == Open && hopeless(r.contrasts, r.want):
		r.c.Hopeless = true
		return true
	}
	return n >= metric.MaxPairs || pairs >= MinPairs && r.c.Answer != Open && r.enough(n)
}

// enough reports whether the numbers that are still open need not be waited for. With Every, they have as many pairs
// again as the first regression took.
func (r *run) enough(n int) bool {
	if !r.Every || r.c.Answer != Worse {
		return true
	}
	if r.worse == 0 {
		r.worse = n
	}
	return n >= 2*r.worse || !slices.ContainsFunc(r.contrasts, func(c *contrast) bool { return c.answer == Open })
}

func (r *run) warn(text string) {
	if !slices.Contains(r.c.Warnings, text) {
		r.c.Warnings = append(r.c.Warnings, text)
	}
}
