package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// The rules of the search for every step of a metric.
const (
	passes          = 3   // launches of each probe
	rises           = 2.5 // standard deviations by which a probe must lie above the one before it
	falls           = 3.0 // and below, to be called fixed
	sureShare       = 0.5 // of a rise that its culprit must have: it was picked for being large
	maxPartLaunches = 240 // in all, inside a part of the range
)

// named is a culprit whose place and step are known.
type named struct {
	index int
	step  float64 // logarithm, larger is worse
	bisect.Culprit
}

// levelSweep is the search for what one step does not explain: all culprits of a range or, where one step
// was looked for and none was found, the largest of many.
type levelSweep struct {
	r      *run
	q      *level
	named  []named
	open   []string // parts of the range that were not looked at, and why
	survey *survey
}

// survey is the levels of the ends and of probes between them, oldest first.
type survey struct {
	belief.Profile
	whole bool // all launches were made
}

// rise is a pair of neighbouring probes of different levels.
type rise struct {
	lo, hi int // indices of the commits
	step   float64
}

// sweepLevels goes on where the search for one step has ended. First it compares the step that was found
// with the whole, which finds staircases; then it looks at probes all over the range, since steps that
// were fixed in between leave no trace at the ends.
func (j *job) sweepLevels(q *level) error {
	e := &levelSweep{r: j.r, q: q}
	if q.ramp {
		j.r.most = min(j.r.most, rampMost)
	}
	for _, c := range j.r.out.f.Culprits {
		if err := e.name(belief.GoodEnd, j.r.span.bad(), c); err != nil {
			return err
		}
	}
	if err := e.probe(); err != nil {
		return err
	}
	for _, p := range e.survey.rising(metric.EffectMargin * j.r.least) {
		if !j.r.s.All && len(e.named) > 0 {
			break
		}
		if e.explained(p.lo, p.hi) || j.r.out.f.Result == bisect.Inconclusive && !q.ramp && e.holdsSuspects(p.lo, p.hi) {
			continue
		}
		notable := 0.0 // the smallest step that ends the search for one where there seemed to be none
		if d, _ := e.survey.ends(); q.ramp {
			notable = d / 4 / metric.EffectMargin
		}
		if err := e.search(p.lo, p.hi, max(j.r.least, sureShare*p.step, notable)); err != nil {
			return err
		}
	}
	e.conclude()
	return nil
}

// explained reports that nothing lies between two commits but a culprit.
func (e *levelSweep) explained(lo, hi int) bool {
	_, index := bisect.Between(e.r.span.commits, lo, hi)
	return len(index) == 1 && slices.ContainsFunc(e.named, func(n named) bool { return n.index == index[0] })
}

// holdsSuspects reports that all that the search has left open lies between two commits.
func (e *levelSweep) holdsSuspects(lo, hi int) bool {
	_, index := bisect.Between(e.r.span.commits, lo, hi)
	return !slices.ContainsFunc(e.r.out.f.Suspects, func(s bisect.SuspectCommit) bool { return !slices.Contains(index, e.r.span.index[s.Commit]) })
}

// search looks for a culprit after lo, up to hi, and for more around it.
func (e *levelSweep) search(lo, hi int, least float64) error {
	r := e.r
	if r.over() != "" || len(e.named) >= maxNamed {
		e.skip(lo, hi)
		return nil
	}
	sub, index := within(r, lo, hi)
	if sub.span.blind && !r.span.blind { // commits of equal inputs
		return nil
	}
	q := &level{faster: e.q.faster, channel: e.q.channel, channels: []metric.Channel{e.q.channel}, part: &part{e.offsets(lo, index)}}
	sub.q, sub.least, sub.most = q, least, r.led.launches+min(maxPartLaunches, r.most-r.led.launches)
	for k, i := range index {
		sub.span.usable[k] = sub.span.usable[k] && (r.span.usable[i] || i == hi)
	}
	err := sub.search()
	for k, i := range index {
		r.span.usable[i] = r.span.usable[i] && sub.span.usable[k]
	}
	f, whole := &sub.out.f, &r.out.f
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
		e.levelled(lo, hi, sub.b.(*belief.Levels))
	case f.Result == bisect.Inconclusive && f.Ends.Differ && len(f.Suspects) > 0 && r.s.All:
		r.out.warn(fmt.Sprintf("%s gets worse between %s and %s as well; the culprit of that is one of %d commits, such as %s",
			e.q.channel.Name(), bisect.ShortID(r.span.id(lo)), bisect.ShortID(r.span.id(hi)), len(f.Suspects), bisect.ShortID(f.Suspects[0].Commit)))
	}
	return nil
}

// offsets takes the steps of known culprits out of the levels of the commits of a part: what a commit
// has of them beyond, or short of, the commit at which the part begins.
func (e *levelSweep) offsets(lo int, index []int) []float64 {
	out := make([]float64, len(index))
	for _, c := range e.named {
		holds := bisect.Descendants(e.r.span.commits, c.index)
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

// levelled takes what a part of the range turned out to differ by, which is no step, for the level of the
// probe at its end: that had risen by chance.
func (e *levelSweep) levelled(lo, hi int, m *belief.Levels) {
	if e.survey == nil || m.Noise().Exact {
		return
	}
	_, within := bisect.Between(e.r.span.commits, lo, hi)
	i, k := slices.Index(e.survey.At, lo), slices.Index(e.survey.At, hi)
	if i < 0 || k < 0 || hi == e.r.span.bad() || slices.ContainsFunc(e.named, func(n named) bool { return slices.Contains(within, n.index) }) {
		return
	}
	d, sd := m.Step()
	e.survey.Move(k, i, d, sd)
}

func (e *levelSweep) skip(lo, hi int) {
	e.open = append(e.open, fmt.Sprintf("from %s to %s", bisect.ShortID(e.r.span.id(lo)), bisect.ShortID(e.r.span.id(hi))))
}

// name takes in a culprit that was found after lo, up to hi. Where its own step is not what these two
// differ by, the parts before and after it are searched.
func (e *levelSweep) name(lo, hi int, c bisect.Culprit) error {
	n := named{e.r.span.index[c.Commit], e.logStep(c.Effect), c}
	if slices.ContainsFunc(e.named, func(o named) bool { return o.index == n.index }) {
		return nil
	}
	e.named = append(e.named, n)
	if !e.r.s.All {
		return nil
	}
	before, ok := e.parent(n.index, lo)
	if !ok || e.agree(lo, before, n.index, hi) {
		return nil
	}
	least := max(e.r.least, n.step/4)
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

// logStep is the step of an effect as a logarithm, larger is worse.
func (e *levelSweep) logStep(x *bisect.Effect) float64 {
	if e.q.channel.Metric.Higher != e.q.faster {
		return -math.Log(x.Ratio)
	}
	return math.Log(x.Ratio)
}

// parent is the first parent of a commit, or lo where that lies before it.
func (e *levelSweep) parent(i, lo int) (int, bool) {
	in := e.r.span
	c := in.commits[i]
	if len(c.Parents) == 0 {
		return lo, true
	}
	p, known := in.firstParent(c.Parents)
	if !known || p == belief.GoodEnd {
		return belief.GoodEnd, lo == belief.GoodEnd
	}
	if lo != belief.GoodEnd && bisect.Ancestors(in.commits, lo)[p] {
		return lo, true
	}
	return p, in.usable[p]
}

// agree reports that the step from before to culprit is all that lo and hi differ by.
func (e *levelSweep) agree(lo, before, culprit, hi int) bool {
	at := []int{lo}
	for _, i := range []int{before, culprit, hi} {
		if !slices.Contains(at, i) {
			at = append(at, i)
		}
	}
	l := belief.FitProfile(at, e.q.ledger(e.r, nil))
	place := func(i int) int { return slices.Index(at, i) }
	below, sdBelow := l.Diff(0, place(before))
	above, sdAbove := l.Diff(place(culprit), place(hi))
	whole, _ := l.Diff(0, place(hi))
	return math.Abs(below) < min(3*sdBelow, 0.25*whole) && math.Abs(above) < min(3*sdAbove, 0.25*whole) || place(before) == 0 && place(culprit) == place(hi)
}

// probe launches commits all over the range: forth, back and forth again, so that neighbours stand
// side by side in time and drift does not come between them. The culprits that are known and their
// parents are among them, so that no segment holds their steps.
func (e *levelSweep) probe() error {
	at := e.chain()
	e.survey = &survey{whole: true}
	for range passes {
		for _, i := range at {
			if e.r.over() != "" {
				e.survey.whole = false
				break
			}
			if err := e.glance(i); err != nil {
				return err
			}
		}
		slices.Reverse(at)
	}
	at = slices.DeleteFunc(at, func(i int) bool { return !e.r.span.isEnd(i) && !e.r.span.usable[i] })
	slices.Sort(at)
	e.survey.Profile = belief.FitProfile(at, e.q.ledger(e.r, nil))
	return nil
}

// chain is the good end, the probes and the bad end.
func (e *levelSweep) chain() []int {
	in := e.r.span
	trunk := bisect.Trunk(in.commits)
	at := bisect.Probes(in.commits, in.prior, manyProbes, func(i int) bool { return in.usable[i] })
	for _, n := range e.named {
		if !slices.Contains(trunk, n.index) {
			continue
		}
		at = append(at, n.index)
		if p, ok := in.firstParent(in.commits[n.index].Parents); ok && p != belief.GoodEnd && slices.Contains(trunk, p) && in.usable[p] {
			at = append(at, p)
		}
	}
	at = append(at, belief.GoodEnd, in.bad())
	slices.Sort(at) // on the trunk the order of indices is that of descent
	return slices.Compact(at)
}

// glance launches one probe. A commit that fails is set aside; times that may not be compared are
// measured once more.
func (e *levelSweep) glance(i int) error {
	r := e.r
	if !r.span.launchable(i) {
		return nil
	}
	for range 2 {
		t, err := r.launch(r.span.id(i), r.span.purpose(i))
		if err != nil {
			return err
		}
		_, a := e.q.read(t)
		if a == speaks {
			r.vain = 0
			return nil
		}
		r.vain++
		if a != unfit && !r.span.isEnd(i) && !r.span.proven[i] {
			r.vain, r.span.usable[i] = 0, false
			r.note(i, t.Outcome, a, bisect.Searching)
			return nil
		}
	}
	return nil
}

// ends is how much the bad end lies above the good one.
func (s *survey) ends() (d, sd float64) { return s.Diff(0, len(s.At)-1) }

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
			out = append(out, rise{s.At[k-1], s.At[k], d})
		}
	}
	return out
}

// blind is the step between neighbours that may well go unseen.
func (s *survey) blind() float64 {
	worst := 0.0
	for k := 1; k < len(s.At); k++ {
		if _, sd := s.Diff(k-1, k); sd < 0.5 {
			worst = math.Max(worst, sd)
		}
	}
	return 2 * rises * worst
}

// conclude orders the culprits, gives each its share of the whole, and says what is left.
func (e *levelSweep) conclude() {
	r, f := e.r, &e.r.out.f
	d, sd := e.survey.ends()
	differ := f.Ends.Differ && d > 2*sd
	f.Culprits = nil
	slices.SortFunc(e.named, func(a, b named) int { return cmp.Compare(a.index, b.index) })
	sum := 0.0
	for _, n := range e.named {
		if share := n.step / d; differ {
			n.Share = &share
		}
		sum += n.step
		f.Culprits = append(f.Culprits, n.Culprit)
	}
	e.reportProbes()
	switch gradual := differ && d > zEnd*sd && d > metric.EffectMargin*r.least; {
	case len(e.named) > 0:
		f.Result, f.Complaint.Class, f.Complaint.Metric = bisect.Found, bisect.Slow, e.q.channel.Name()
	case e.q.ramp && gradual && !f.Spent && e.survey.whole:
		f.Result, f.Suspects, f.Gradual = bisect.Inconclusive, nil, true
		r.out.warn(fmt.Sprintf("gradual: no single culprit: the ends differ by a factor of %.3f in %s, and an even ramp explains the launches better than a step; no segment between two probes holds a quarter of it",
			e.q.effect(d, sd).Ratio, e.q.channel.Name()))
	case e.q.ramp:
		r.out.inconclusive(r)
	case f.Result == bisect.NoDifference && !e.survey.whole:
		f.Result = bisect.Inconclusive // alike ends say nothing of what lies between
	}
	e.remarks(d, sum, differ)
}

// reportProbes reports the levels of the probes, and those between the ends as judgements.
func (e *levelSweep) reportProbes() {
	f, s := &e.r.out.f, e.survey
	made := map[int]int{}
	for _, l := range e.q.ledger(e.r, nil) {
		made[l.Index]++
	}
	for k, i := range s.At {
		d, sd := s.Diff(0, k)
		if sd > 0.5 { // no launch of it gave a number
			continue
		}
		l := bisect.Level{Commit: e.r.span.id(i), Effect: *e.q.effect(d, sd)}
		f.Levels = append(f.Levels, l)
		if k == 0 || k == len(s.At)-1 {
			continue
		}
		v := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: 1, Trials: made[i], Ratio: &l.Effect}
		v.Why = fmt.Sprintf("%s %s times the good end's, launched %d times", e.q.channel.Name(), ratio(&l.Effect), made[i])
		if d > metric.EffectMargin*e.r.least {
			v.Call, v.Class = bisect.Bad, bisect.Slow
		}
		e.r.out.judged(bisect.Step{Commit: l.Commit, Role: bisect.RoleProbe, Verdict: v, Remaining: len(f.Suspects)})
	}
}

// remarks says what was not searched, what was fixed and what the culprits do not explain.
func (e *levelSweep) remarks(d, sum float64, differ bool) {
	r, in := e.r, e.r.span
	if len(e.open) > 0 {
		r.out.warn("not searched for more culprits, the budget or the launches were used up: " + words.Listed(e.open, 3))
	}
	if !e.survey.whole {
		r.out.warn("the sweep over the whole range was not finished, the budget or the launches were used up: what was introduced and fixed in between may have been missed")
	} else if r.s.All {
		widest := 0
		for k := 1; k < len(e.survey.At); k++ {
			between, _ := bisect.Between(in.commits, e.survey.At[k-1], e.survey.At[k])
			widest = max(widest, len(between))
		}
		r.out.warn(fmt.Sprintf("a slowdown that was fixed within %s, or that is less than about %.2g %%, is not seen by the sweep of %d probes",
			words.Count(widest, "commit"), 100*math.Expm1(e.survey.blind()), len(e.survey.At)-2))
	}
	if !r.s.All {
		return
	}
	for _, p := range e.survey.moves(func(d, sd float64) bool { return -d > falls*sd && -d > r.least }) {
		commits, _ := bisect.Between(in.commits, p.lo, p.hi)
		where := "by " + bisect.ShortID(in.id(p.hi))
		if len(commits) > 1 {
			where = fmt.Sprintf("by one of %d commits after %s, up to %s", len(commits), bisect.ShortID(in.id(p.lo)), bisect.ShortID(in.id(p.hi)))
		}
		r.out.warn(fmt.Sprintf("fixed %s: %s falls to %.3f times", where, e.q.channel.Name(), e.q.effect(p.step, 0).Ratio))
	}
	if differ && len(e.named) > 0 && sum < 0.6*d && d-sum > r.least {
		r.out.warn(fmt.Sprintf("the culprits named make %.0f %% of the difference between the ends: the rest came in steps too small to be told apart", 100*sum/d))
	}
}
