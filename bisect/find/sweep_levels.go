package find

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
	"github.com/kbisect/kbisect/bisect/search/question"
)

// The rules of the search for every step of a metric (judge.md 7, "Several culprits": 16 probes, three launches each).
const (
	passes          = 3   // launches of each probe
	rises           = 2.5 // standard deviations by which a probe must lie above the one before it
	sureShare       = 0.5 // of a rise that its culprit must have: the largest of many looks larger than it is
	maxPartLaunches = 240 // in all, inside a part of the range
	maxRampLaunches = 34  // the same, of a range that no single step explains
)

// named is a culprit whose place and step are known.
type named struct {
	index int
	step  float64 // logarithm, larger is worse
	bisect.Culprit
}

// levelSweep is the search for what one step does not explain: every culprit of a range or, where no single step was
// found although the ends differ (a ramp), the largest of many.
type levelSweep struct {
	r      *search.Run
	q      *question.Level
	named  []named
	claims int      // parts in which a culprit may be found
	open   []string // parts of the range that were not looked at, and why
	survey *survey
	fixed  []rise // pairs of probes between which the metric got better
}

// survey is the levels of the ends and of the probes between them, oldest first, relative to the good end.
type survey struct {
	levels.Profile
	whole bool // all launches were made
}

// rise is a pair of neighbouring probes of different levels.
type rise struct {
	lo, hi   int // indices of the commits
	step, sd float64
}

// sweepLevels goes on where the search for one step has ended. First it compares the step that was found with the
// difference between the ends, which finds staircases; then it probes the whole range, since a step that was fixed
// again leaves no trace at the ends. The rises between probes are searched, largest first.
func (j *job) sweepLevels(q *question.Level) error {
	e := &levelSweep{r: j.r, q: q}
	if q.Ramp {
		j.r.Most = min(j.r.Most, question.RampMost)
	}
	for _, c := range j.r.Account.Finding.Culprits {
		if err := e.name(belief.GoodEnd, j.r.Span.Bad(), c); err != nil {
			return err
		}
	}
	if err := e.probe(); err != nil {
		return err
	}
	rising := e.survey.rising(metric.EffectMargin * j.r.Least)
	e.claims = len(rising)
	for _, p := range rising {
		if !j.r.Search.All && len(e.named) > 0 {
			break
		}
		if e.explained(p.lo, p.hi) || j.r.Account.Finding.Result == bisect.Inconclusive && !q.Ramp && e.holdsSuspects(p.lo, p.hi) {
			continue
		}
		// On a ramp, smaller steps are part of it: without All the answer is a step of a quarter of the whole, with it
		// four equal steps, each of which is only just a quarter, must be found as well.
		notable := 0.0
		switch d, _ := e.survey.Ends(); {
		case q.Ramp && j.r.Search.All:
			notable = d / 8 / metric.EffectMargin
		case q.Ramp:
			notable = d / 4 / metric.EffectMargin
		}
		if err := e.search(p.lo, p.hi, max(j.r.Least, sureShare*p.step, notable)); err != nil {
			return err
		}
	}
	e.conclude()
	return nil
}

// explained reports whether the only commit between two is a known culprit.
func (e *levelSweep) explained(lo, hi int) bool {
	_, index := bisect.Between(e.r.Span.Commits, lo, hi)
	return len(index) == 1 && slices.ContainsFunc(e.named, func(n named) bool { return n.index == index[0] })
}

// holdsSuspects reports whether all suspects that the search has left open lie between two commits: searching there
// again would tell nothing new.
func (e *levelSweep) holdsSuspects(lo, hi int) bool {
	_, index := bisect.Between(e.r.Span.Commits, lo, hi)
	return !slices.ContainsFunc(e.r.Account.Finding.Suspects, func(s bisect.SuspectCommit) bool { return !slices.Contains(index, e.r.Span.Index[s.Commit]) })
}

// search looks for a culprit after lo, up to hi, with a step of at least least (a logarithm), and for more around it.
// The part is a run of its own over levels less the known steps. It ends after maxPartLaunches: what takes longer is
// reported as open. What turns out to be untestable in it is untestable in the whole range.
func (e *levelSweep) search(lo, hi int, least float64) error {
	r := e.r
	if r.Over() != "" || len(e.named) >= maxNamed {
		e.skip(lo, hi)
		return nil
	}
	sub, index := search.Within(r, lo, hi)
	if sub.Span.Blind && !r.Span.Blind { // commits of equal inputs
		return nil
	}
	most := maxPartLaunches
	if e.q.Ramp {
		most = maxRampLaunches
	}
	q := &question.Level{Faster: e.q.Faster, InPairs: e.q.InPairs, Channel: e.q.Channel, Channels: []metric.Channel{e.q.Channel}, Part: &question.Part{Offset: e.offsets(lo, index), Claims: e.claims}}
	sub.Later = r.Later
	sub.Question, sub.Least, sub.Most = q, least, r.Ledger.Launches+min(most, r.Most-r.Ledger.Launches)
	for k, i := range index {
		sub.Span.Usable[k] = sub.Span.Usable[k] && (r.Span.Usable[i] || i == hi)
	}
	err := sub.Locate()
	for k, i := range index {
		r.Span.Usable[i] = r.Span.Usable[i] && sub.Span.Usable[k]
	}
	f, whole := &sub.Account.Finding, &r.Account.Finding
	whole.Spent = whole.Spent || f.Spent
	if err != nil {
		return err
	}
	switch {
	case f.Result == bisect.Found:
		whole.Warnings = append(whole.Warnings, f.Warnings...)
		return e.name(lo, hi, f.Culprits[0])
	case f.Spent:
		e.skip(lo, hi)
	case f.Result == bisect.NoDifference:
		e.levelled(lo, hi, sub.Belief.(*levels.Belief))
	case f.Result == bisect.Inconclusive && f.Ends.Differ && len(f.Suspects) > 0 && r.Search.All:
		r.Account.Warn(fmt.Sprintf("%s gets worse between %s and %s as well; the culprit of that is one of %d commits, such as %s",
			e.q.Channel.Name(), bisect.ShortID(r.Span.Id(lo)), bisect.ShortID(r.Span.Id(hi)), len(f.Suspects), bisect.ShortID(f.Suspects[0].Commit)))
	}
	return nil
}

// offsets are what takes the steps of known culprits out of the levels of a part, by its commits: the steps that a
// commit holds and lo does not, or the other way round.
func (e *levelSweep) offsets(lo int, index []int) []float64 {
	out := make([]float64, len(index))
	for _, c := range e.named {
		holds := bisect.Descendants(e.r.Span.Commits, c.index)
		before := lo != belief.GoodEnd && holds[lo]
		for k, i := range index {
			switch {
			case before && !holds[i]:
				out[k] += c.step
			case holds[i] && !before:
				out[k] -= c.step
			}
		}
	}
	return out
}

// levelled corrects the survey where a rise turned out to hold no step. The probe at its end had risen by chance,
// having been picked for that; what the search of the part measured takes its place.
func (e *levelSweep) levelled(lo, hi int, m *levels.Belief) {
	if e.survey == nil || m.Noise().Exact {
		return
	}
	_, within := bisect.Between(e.r.Span.Commits, lo, hi)
	i, k := slices.Index(e.survey.At, lo), slices.Index(e.survey.At, hi)
	if i < 0 || k < 0 || hi == e.r.Span.Bad() || slices.ContainsFunc(e.named, func(n named) bool { return slices.Contains(within, n.index) }) {
		return
	}
	d, sd := m.Step()
	e.survey.Move(k, i, d, sd)
}

// skip notes a part of the range that is left alone because launches or the budget are used up.
func (e *levelSweep) skip(lo, hi int) {
	e.open = append(e.open, fmt.Sprintf("from %s to %s", bisect.ShortID(e.r.Span.Id(lo)), bisect.ShortID(e.r.Span.Id(hi))))
}

// name takes in a culprit that was found after lo, up to hi. Where its step is not all that these two differ by, the
// parts before and after it are searched, for steps of at least a quarter of it (judge.md 7).
func (e *levelSweep) name(lo, hi int, c bisect.Culprit) error {
	n := named{e.r.Span.Index[c.Commit], e.logStep(c.Effect), c}
	if slices.ContainsFunc(e.named, func(o named) bool { return o.index == n.index }) {
		return nil
	}
	e.named = append(e.named, n)
	if !e.r.Search.All {
		return nil
	}
	before, ok := e.parent(n.index, lo)
	if !ok || e.agree(lo, before, n.index, hi) {
		return nil
	}
	least := max(e.r.Least, n.step/4)
	if before != lo {
		if err := e.search(lo, before, least); err != nil {
			return err
		}
	}
	if n.index != hi {
		return e.search(n.index, hi, least)
	}
	return nil
}

// logStep is the step of an effect as a logarithm; larger is worse.
func (e *levelSweep) logStep(x *bisect.Effect) float64 {
	if e.q.Channel.Metric.Higher != e.q.Faster {
		return -math.Log(x.Ratio)
	}
	return math.Log(x.Ratio)
}

// parent is the first parent of a commit, or lo where the parent is an ancestor of lo; ok is false where it cannot be
// launched or lies outside the part.
func (e *levelSweep) parent(i, lo int) (int, bool) {
	in := e.r.Span
	c := in.Commits[i]
	if len(c.Parents) == 0 {
		return lo, true
	}
	p, known := in.FirstParent(c.Parents)
	if !known || p == belief.GoodEnd {
		return belief.GoodEnd, lo == belief.GoodEnd
	}
	if lo != belief.GoodEnd && bisect.Ancestors(in.Commits, lo)[p] {
		return lo, true
	}
	return p, in.Usable[p]
}

// agree reports whether the step from before to culprit is all that lo and hi differ by: what is left on either side
// is less than three standard deviations and less than a quarter of the whole (judge.md 7).
func (e *levelSweep) agree(lo, before, culprit, hi int) bool {
	at := []int{lo}
	for _, i := range []int{before, culprit, hi} {
		if !slices.Contains(at, i) {
			at = append(at, i)
		}
	}
	l := levels.FitProfile(at, e.q.Ledger(e.r, nil))
	place := func(i int) int { return slices.Index(at, i) }
	below, sdBelow := l.Diff(0, place(before))
	above, sdAbove := l.Diff(place(culprit), place(hi))
	whole, _ := l.Diff(0, place(hi))
	return math.Abs(below) < min(3*sdBelow, 0.25*whole) && math.Abs(above) < min(3*sdAbove, 0.25*whole) || place(before) == 0 && place(culprit) == place(hi)
}

// probe launches commits all over the range: forth, back and forth again, so that neighbours are launched close in
// time and drift does not come between them. The known culprits and their parents are among them, so that no segment
// between other probes contains their steps. It ends early, without an error, where the budget does.
func (e *levelSweep) probe() error {
	at := e.chain()
	e.survey, e.r.Later = &survey{whole: true}, 0
	for n := range passes {
		for k, i := range at {
			search.Tell(e.r, e.r.Belief, search.Outlook{Launches: float64((passes-n)*len(at) - k)})
			if e.r.Over() != "" {
				e.survey.whole = false
				break
			}
			err := e.glance(i)
			if search.Cut(e.r, err) {
				e.survey.whole = false
				break
			}
			if err != nil {
				return err
			}
		}
		slices.Reverse(at)
	}
	at = slices.DeleteFunc(at, func(i int) bool { return !e.r.Span.IsEnd(i) && !e.r.Span.Usable[i] })
	slices.Sort(at)
	e.survey.Profile = levels.FitProfile(at, e.q.Ledger(e.r, nil))
	return nil
}

// chain is what is probed, ascending: the good end, the probes, known culprits with their parents, and the bad end.
func (e *levelSweep) chain() []int {
	in := e.r.Span
	trunk := bisect.Trunk(in.Commits)
	at := bisect.Probes(in.Commits, in.Prior, manyProbes, func(i int) bool { return in.Usable[i] })
	for _, n := range e.named {
		if !slices.Contains(trunk, n.index) {
			continue
		}
		at = append(at, n.index)
		if p, ok := in.FirstParent(in.Commits[n.index].Parents); ok && p != belief.GoodEnd && slices.Contains(trunk, p) && in.Usable[p] {
			at = append(at, p)
		}
	}
	at = append(at, belief.GoodEnd, in.Bad())
	slices.Sort(at) // on the trunk the order of indices is that of descent
	return slices.Compact(at)
}

// glance launches one probe. Times that may not be compared are measured once more; a commit that tells nothing is set
// aside.
func (e *levelSweep) glance(i int) error {
	r := e.r
	if !r.Span.Launchable(i) {
		return nil
	}
	for range 2 {
		t, err := r.Launch(r.Span.Id(i), r.Span.Purpose(i))
		if err != nil {
			return err
		}
		_, a := e.q.Read(t)
		if a == search.Speaks {
			r.Vain = 0
			return nil
		}
		r.Vain++
		if a != search.Unfit && !r.Span.IsEnd(i) && !r.Span.Proven[i] {
			r.Vain, r.Span.Usable[i] = 0, false
			r.Note(i, t.Outcome, a, bisect.Searching)
			return nil
		}
	}
	return nil
}

// Ends is by how much the bad end lies above the good one, a logarithm, with its standard deviation.
func (s *survey) Ends() (d, sd float64) { return s.Diff(0, len(s.At)-1) }

// rising lists the pairs of neighbours of which the later one is worse, largest first.
func (s *survey) rising(least float64) []rise {
	out := s.moves(func(d, sd float64) bool { return d > rises*sd && d > least })
	slices.SortStableFunc(out, func(a, b rise) int { return cmp.Compare(b.step, a.step) })
	return out
}

// moves lists the pairs of neighbours whose difference counts, oldest first.
func (s *survey) moves(counts func(d, sd float64) bool) (out []rise) {
	for k := 1; k < len(s.At); k++ {
		if d, sd := s.Diff(k-1, k); counts(d, sd) {
			out = append(out, rise{s.At[k-1], s.At[k], d, sd})
		}
	}
	return out
}

// blind is the step, a logarithm, that may well lie unseen between two neighbours: twice what a rise must have, at the
// noisiest pair. Probes that gave no number (a deviation of 0.5 and more) are left out.
func (s *survey) blind() float64 {
	worst := 0.0
	for k := 1; k < len(s.At); k++ {
		if _, sd := s.Diff(k-1, k); sd < 0.5 {
			worst = math.Max(worst, sd)
		}
	}
	return 2 * rises * worst
}

// conclude puts the culprits in order, gives each its share of the whole, and says what is left.
func (e *levelSweep) conclude() {
	r, f := e.r, &e.r.Account.Finding
	d, sd := e.survey.Ends()
	differ := f.Ends.Differ && d > 2*sd // else shares of the difference would be shares of nothing
	f.Culprits = nil
	slices.SortFunc(e.named, func(a, b named) int { return cmp.Compare(a.index, b.index) })
	for _, n := range e.named {
		f.Culprits = append(f.Culprits, n.Culprit)
	}
	if r.Search.All {
		e.fixes()
	}
	if differ && len(e.named) > 0 {
		division{e}.share()
	}
	e.reportProbes()
	switch gradual := differ && d > metric.ClearlyDiffer*sd && d > metric.EffectMargin*r.Least; {
	case len(e.named) > 0:
		f.Result, f.Complaint.Class, f.Complaint.Metric = bisect.Found, bisect.Slow, e.q.Channel.Name()
	case e.q.Ramp && gradual && !f.Spent && e.survey.whole:
		f.Result, f.Suspects, f.Gradual = bisect.Inconclusive, nil, true
		r.Account.Warn(fmt.Sprintf("gradual: no single culprit: the ends differ by a factor of %.3f in %s, and an even ramp explains the launches better than a step; no segment between two probes holds a quarter of it",
			e.q.Effect(d, sd).Ratio, e.q.Channel.Name()))
	case e.q.Ramp:
		r.Account.Inconclusive(r)
	case f.Result == bisect.NoDifference && !e.survey.whole:
		f.Result = bisect.Inconclusive // alike ends say nothing of what lies between
	}
	e.remarks()
}

// reportProbes records the levels of all probes, and reports those between the ends as judgements.
func (e *levelSweep) reportProbes() {
	f, s := &e.r.Account.Finding, e.survey
	made := map[int]int{}
	for _, l := range e.q.Ledger(e.r, nil) {
		made[l.Index]++
	}
	for k, i := range s.At {
		d, sd := s.Diff(0, k)
		if sd > 0.5 { // the prior alone: no launch of it gave a number
			continue
		}
		l := bisect.Level{Commit: e.r.Span.Id(i), Effect: *e.q.Effect(d, sd)}
		f.Levels = append(f.Levels, l)
		if k == 0 || k == len(s.At)-1 {
			continue
		}
		v := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: 1, Trials: made[i], Ratio: &l.Effect}
		v.Why = fmt.Sprintf("%s, %s", words.Effect(l.Effect), words.Count(made[i], "launch"))
		if d > metric.EffectMargin*e.r.Least {
			v.Call, v.Class = bisect.Bad, bisect.Slow
		}
		e.r.Account.Judged(bisect.Step{Commit: l.Commit, Role: bisect.RoleProbe, Verdict: v, Remaining: len(f.Suspects)})
	}
}

// remarks warns of what was not searched, and of what a sweep cannot see.
func (e *levelSweep) remarks() {
	r, in := e.r, e.r.Span
	if len(e.open) > 0 {
		r.Account.Warn("not searched for more culprits, the budget or the launches were used up: " + words.Listed(e.open, 3))
	}
	if !e.survey.whole {
		r.Account.Warn("the sweep over the whole range was not finished, the budget or the launches were used up: what was introduced and fixed in between may have been missed")
	} else if r.Search.All {
		widest := 0
		for k := 1; k < len(e.survey.At); k++ {
			between, _ := bisect.Between(in.Commits, e.survey.At[k-1], e.survey.At[k])
			widest = max(widest, len(between))
		}
		r.Account.Warn(fmt.Sprintf("a slowdown that was fixed within %s, or that is less than about %.2g %%, is not seen by the sweep of %d probes",
			words.Count(widest, "commit"), 100*math.Expm1(e.survey.blind()), len(e.survey.At)-2))
	}
}
