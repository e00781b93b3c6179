package question

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
)

// Level asks which commit made a metric worse. Its belief is [levels.Belief].
type Level struct {
	Channel  metric.Channel   // what is searched for
	Channels []metric.Channel // what the ends are compared by
	Exact    exactNumbers
	Faster   bool
	InPairs  bool       // launches are on any device, each whose times count beside one of the good end
	Part     *Part      // what a run inside a part of the range knows beforehand; nil: of the whole
	Ramp     bool       // no step explains the launches
	noise    float64    // of the ends, where few launches told them apart; 0: launches told it
	once     bool       // one of each did, on a machine of which nothing was known
	medians  bool       // the fastest tenth of a launch's samples turned out to mislead
	failed   int        // proofs that did not bear out the search
	contests []*contest // of the proofs since the ends were compared: their pairs speak on
	after    float64    // seconds after which a launch of the search is known to be slow, see search.SlowAfter; 0: never
	slow     float64    // the level that it then has at least
}

// Part is what is known before a run inside a part of the range begins.
type Part struct {
	Offset []float64 // by commit: what takes its level to that of a history without the known culprits
	Claims int       // parts in which a culprit may be found: the proofs share the error
}

// Sign takes levels to those of the metric itself.
func (q *Level) Sign() float64 {
	if q.Faster {
		return -1
	}
	return 1
}

// number is the metric at a level.
func (q *Level) number(y float64) float64 { return q.Channel.Value(q.Sign() * y) }

// class is what the search is about.
func (q *Level) class() bisect.Class {
	if q.Faster {
		return bisect.Improved
	}
	return bisect.Slow
}

// Rules implements search.Question.
func (q *Level) Rules() search.Rules {
	return search.Rules{Timed: true, Beside: !q.Channel.Metric.Exact, Credible: 0.99, Launches: math.MaxInt, Vain: metric.MaxUnfit}
}

// Missing implements search.Question.
func (q *Level) Missing(o bisect.Outcome) string {
	if q.Channel.Metric.Exact {
		return "its build does not report " + q.Channel.Name()
	}
	return "it sent no value of " + cmp.Or(q.Channel.Lacks(o), q.Channel.Name())
}

// AsProof implements search.Question: launches for the proof come in pairs, and do not rest on the one that the search picked.
func (q *Level) AsProof(*search.Run, int) (bool, error) { return false, nil }

// Shape implements search.Question.
func (q *Level) Shape(r *bisect.Request, patient bool) {
	r.Timing = true
	if r.Purpose == bisect.Searching && q.after > 0 && !patient {
		r.Hurry, r.Past = bisect.SlowTrial, q.after
	}
	if !r.Purpose.IsEnd() && !q.Channel.Metric.OfProcess() {
		r.Wants = q.Channel.Metric.Name
	}
	r.BuildOnly = r.BuildOnly || q.Channel.Metric.Exact
}

// Read implements search.Question.
func (q *Level) Read(t search.Trial) (belief.Launch, search.Answer) {
	m, l := q.Channel.Metric, belief.Launch{At: t.At, Device: max(0, t.On-1)}
	switch {
	case q.InPairs && !t.Timing && !m.Exact && t.Class == bisect.OK: // its device is like no other
		return l, search.Unfit
	case m.OfProcess() && !t.Timing:
		return l, search.Unfit
	case t.ShownSlow() && q.after > 0:
		l.Y, l.Censored = q.slow, true
		return l, search.Speaks
	case t.Class == bisect.Timeout && m.Name == "wall" && !m.Higher && !q.Faster:
		y, ok := m.Level(bisect.Outcome{Wall: t.Wall})
		if l.Y, l.Censored = y, true; ok {
			return l, search.Speaks
		}
		return l, search.Unfit
	case t.Outcome.Untestable():
		return l, search.Silent
	case t.Class != bisect.OK:
		return l, search.Another
	}
	y, ok := q.Channel.Level(t.Outcome)
	l.Y = q.Sign() * y
	switch {
	case ok:
		return l, search.Speaks
	case t.Unfit != "":
		return l, search.Unfit
	}
	return l, search.Silent
}

// Verdict implements search.Question.
func (q *Level) Verdict(r *search.Run, t search.Visit) bisect.Verdict {
	p := r.Belief.Bad(t.At)
	v := bisect.Verdict{Class: bisect.OK, Trials: t.N, Probability: max(p, 1-p)}
	switch {
	case p > 0.9:
		v.Call, v.Class = bisect.Bad, q.class()
	case p < 0.1:
		v.Call = bisect.Good
	default:
		v.Call, v.Probability = bisect.Untestable, 1
	}
	// Of the two sides the likelier is put into words, with its probability.
	how := words.Direction(q.Sign() > 0)
	if p < 0.5 {
		how, p = "not "+how, 1-p
	}
	v.Why = fmt.Sprintf("%s: %s (%s), %s", q.Channel.Name(), how, words.Confidence(p), words.Count(t.N, "launch"))
	if q.Channel.Metric.Exact {
		v.Why = fmt.Sprintf("%s: %s", q.Channel.Name(), exactValue(q, r.Ledger, r.Span.Id(t.At)))
	}
	return v
}

// Belief implements search.Question.
func (q *Level) Belief(r *search.Run) belief.Belief { return q.levels(r) }

func (q *Level) levels(r *search.Run) *levels.Belief {
	m := levels.New(r.Span.Commits, r.Span.Prior)
	if q.Channel.Metric.Exact {
		m = levels.NewExact(r.Span.Commits, r.Span.Prior, q.Exact.Step(q.Exact.pick))
	}
	if q.Part != nil {
		m.Offset(q.Part.Offset)
	}
	return m
}

// When the ends count as different, and when a search gives up.
const (
	Remarkable    = 3.0 // standard deviations by which what is only remarked on must stand out
	FewEndPairs   = 2   // pairs that may begin a search, which is to bear out what they show
	minAlikePairs = 8   // before the ends are called alike: modes of the machine may hide a step at first
	minPartPairs  = 3   // new pairs of the ends of a part of the range: it was chosen for what the old ones showed
	maxPartPairs  = 20  // after these it stays open whether they differ

	scatters = 2.5 // times the noise of the ends that launches must scatter by to call for more of the ends

	doubtEvery = 20 // launches of a step that is hard to see: then it is asked whether another number shows one

	rampGain     = 8.0 // by how much an even ramp must be likelier than any step, as a logarithm
	rampLaunches = 60  // launches that a search may take before that alone ends it
	RampMost     = 400 // launches of a search for a gradual change, in all
)

// Expected implements search.Question.
func (q *Level) Expected(r *search.Run) search.Outlook {
	return expected(r, r.Belief.(*levels.Belief), 0)
}

// Settled implements search.Question: an even ramp explains the launches far better than one step anywhere, or the step of the
// ends has turned out to be less than is worth a search, or is still not to be told from none after many launches.
func (q *Level) Settled(r *search.Run, decided bool) (done, acted bool, err error) {
	var sides func(search.Trial) int
	if decided {
		sides = believed(r)
	}
	if byMedians(q, r, sides) {
		return false, true, nil
	}
	m := r.Belief.(*levels.Belief)
	if decided || q.Channel.Metric.Exact {
		if doubtful(q, m) {
			acted, err = moreOfEnds(r)
		}
		return false, acted, err
	}
	if err := (foresight{q, r}).look(m, q.Channel, levels.Searching, worse); err != nil {
		return false, false, err
	}
	made := r.Ledger.Launches - r.From
	// Beyond many launches a step of this size is not worth more. A part of the range is short, and its launches are fewer.
	few, many := rampLaunches, 400
	if q.Part != nil {
		few, many = rampLaunches/3, 60
	}
	if len(r.Span.Commits) >= 5 && (made >= few || q.failed+r.Rounds > 0) && m.RampOdds() > rampGain {
		q.Ramp = true
		return true, false, nil
	}
	d, sd := m.Step()
	if d <= 2*sd && made%doubtEvery == doubtEvery-1 && newStage(q, r).better() {
		r.Rounds++ // the ends are compared again by all launches
		return false, true, nil
	}
	gone := (refuted(r, 3) || d <= 2*sd && made >= many) && r.Over() == ""
	if gone || doubtful(q, m) {
		if acted, err := moreOfEnds(r); acted {
			return false, true, err
		}
		if once := q.once; once && !gone {
			q.once = false
			if _, st := newStage(q, r).settled(r.Least); st != worse { // more launches do not tell the ends apart
				r.Rounds++ // the ends are compared again by all launches
				return false, true, nil
			}
		}
	}
	if !gone {
		return false, false, nil
	}
	if whole, err := levels.FitProfile([]int{belief.GoodEnd, r.Span.Bad()}, q.Ledger(r, nil)).Diff(0, 1); q.Part == nil && whole > metric.EffectMargin*r.Least && whole > metric.ClearlyDiffer*err {
		return false, false, nil // they differ all the same: one step does not explain what lies between
	}
	q.unconfirmed(r)
	return true, false, nil
}

// doubtful reports that few launches told the ends apart, and that launches scatter far more than was assumed, or lie elsewhere.
func doubtful(q *Level, m *levels.Belief) bool {
	if q.noise == 0 || q.Channel.Metric.Exact || m.Launches() < levels.FirstFit {
		return false
	}
	d, _ := m.Step()
	_, v := m.MidLaunch(d)
	return math.Sqrt(v) > max(scatters*q.noise, d/levels.FarAbove) || levels.EndsOff(m)
}

// moreOfEnds launches an end once more, the good one first, if it was launched too few times to measure the noise.
func moreOfEnds(r *search.Run) (acted bool, err error) {
	for i, n := range endLaunches(r) {
		if at := []int{belief.GoodEnd, r.Span.Bad()}[i]; n < metric.MinEndPairs && r.Over() == "" {
			_, err := r.Try(r.Span.Id(at), r.Span.Purpose(at))
			return true, err
		}
	}
	return false, nil
}

// endLaunches counts the launches of the good and of the bad end that still count.
func endLaunches(r *search.Run) (n [2]int) {
	for side, i := range []int{belief.GoodEnd, r.Span.Bad()} {
		for _, t := range r.Ledger.Of(r.Span.Id(i), "") {
			if l, a := r.Question.Read(t); a == search.Speaks && !l.Censored {
				n[side]++
			}
		}
	}
	return n
}

// refuted reports that a step worth a search lies z standard deviations above the one that is believed in.
func refuted(r *search.Run, z float64) bool {
	d, sd := r.Belief.(*levels.Belief).Step()
	return d+z*sd < metric.EffectMargin*r.Least
}

// unconfirmed ends a search whose ends differed at first and do not after more launches: there is nothing
// to search where a step is ruled out with the error allowed, and no answer where it is not.
func (q *Level) unconfirmed(r *search.Run) {
	m := r.Belief.(*levels.Belief)
	e := &r.Account.Finding.Ends
	e.Differ, e.Untestable = false, false
	e.Why = fmt.Sprintf("the difference that the first launches of the ends showed was not confirmed: %s by all %d launches",
		words.Effect(*q.Effect(m.Step())), m.Launches())
	if refuted(r, max(3, math.Sqrt2*math.Erfcinv(4*r.Search.Delta()))) {
		e.Hint = smallest(r)
		r.Account.Finding.Complaint = bisect.Complaint{}
		r.Account.Finding.Result, r.Account.Finding.Suspects = bisect.NoDifference, nil
		return
	}
	e.Unclear = true
	e.Hint = "use a quieter machine or a program that runs longer, or look for a larger change only with [judge] effect"
	r.Account.Inconclusive(r)
}

// smallest is the hint for ends that are alike.
func smallest(r *search.Run) string {
	return fmt.Sprintf("smallest change looked for: %.3g %%; set [judge] effect to look for a smaller one", 100*math.Expm1(r.Least))
}

// widen is by how much the deviation of a step is larger than the belief says: its noise is fitted to the same launches,
// and what is launched, and for how long, follows from what they said. It makes the intervals hold at their level, see
// TestBenchCoverage.
const widen = 1.35

// Width is half of a 95 % interval of a step, in the standard deviations that the belief states.
const Width = 2 * widen

// Effect states a step with its 95 % interval as a ratio of the metric itself.
func (q *Level) Effect(d, sd float64) *bisect.Effect {
	if q.Channel.Metric.Exact {
		sd = 0
	}
	// Levels are logarithms of what is worse, so that signs turn where more is better, or where improvements are
	// sought.
	low, high := d-Width*sd, d+Width*sd
	if q.Channel.Metric.Higher != q.Faster {
		d, low, high = -d, -high, -low
	}
	e := &bisect.Effect{Metric: q.Channel.Metric.Name, Ratio: math.Exp(d), Low: math.Exp(low), High: math.Exp(high), Higher: q.Channel.Metric.Higher}
	if !q.Channel.All {
		e.Case = q.Channel.Case
	}
	if q.Channel.Metric.Fastest {
		e.Statistic = bisect.FastestTenth
	}
	return e
}

// With is the question about another number of the same launches.
func (q *Level) With(c metric.Channel) *Level {
	other := *q
	other.Channel, other.after = c, 0 // how slow a launch is that was ended is known of one number only
	return &other
}

// Ledger is all launches so far of the range that gave a number; made are their cases sorted, nil: as they are.
func (q *Level) Ledger(r *search.Run, made []metric.Parts) (out []belief.Launch) {
	for n, t := range r.Ledger.Made {
		i, known := r.Span.Index[t.Candidate.Commit]
		if !known || search.IsApart(r.Ledger, t.On) {
			continue
		}
		if made != nil {
			t.Outcome = made[n].Of(q.Channel)
		}
		if l, a := q.Read(t); a == search.Speaks {
			l.Index = i
			out = append(out, l)
		}
	}
	return out
}

// inParts is what every launch so far showed, by its cases.
func inParts(l *search.Ledger) (out []metric.Parts) {
	for _, t := range l.Made {
		out = append(out, metric.NewParts(t.Outcome))
	}
	return out
}

// exactFirst reports that the search is about exact numbers: only these are looked for, they stand before
// the others and got worse, or one of them was found to be what got worse.
func exactFirst(q *Level, least float64) bool {
	return q.Channel.Metric.Exact || len(q.Exact.Channels) > 0 && (len(q.Channels) == 0 || q.Exact.lead && q.Exact.rises(least))
}

// Figure is the number of a commit that was launched, by its newest launch that counts.
func (q *Level) Figure(l *search.Ledger, id string) (f metric.Figure, ok bool) {
	// A later build is a clean one where the search was contradicted.
	for _, t := range slices.Backward(l.Of(id, "")) {
		if f, ok = q.Channel.Figure(t.Outcome); ok && t.Class == bisect.OK {
			return f, true
		}
	}
	return f, false
}

// exactValue is that number for people.
func exactValue(q *Level, l *search.Ledger, id string) string {
	if f, ok := q.Figure(l, id); ok {
		return q.Channel.Words(f)
	}
	return "not known"
}
