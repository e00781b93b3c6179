package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// The rules of the search for every culprit.
const (
	maxNamed  = 12  // culprits; then the rest of the range is left alone
	rises     = 2.5 // standard deviations by which a probe must lie above the one before it
	falls     = 3.0 // and below, to be called fixed
	sureShare = 0.5 // of a rise that its culprit must have: it was picked for being large
)

// named is a culprit whose place and step are known.
type named struct {
	index int
	step  float64 // logarithm, larger is worse
	bisect.Culprit
}

// multiStep is the search for what one step does not explain: all culprits of a range or, where one step
// was looked for and none was found, the largest of many.
type multiStep struct {
	run    *slowdownRun
	named  []named
	open   []string // parts of the range that were not looked at, and why
	survey *survey
}

// sweep goes on where the search for one step has ended. First it compares the step that was found
// with the whole, which finds staircases; then it looks at probes all over the range, since steps that
// were fixed in between leave no trace at the ends.
func (r *slowdownRun) sweep() error {
	e := &multiStep{run: r}
	if r.ramp {
		own := *r.SlowdownSearch
		own.Launches = min(r.most(), rampMost)
		r.SlowdownSearch = &own
	}
	for _, c := range r.f.Culprits {
		if err := e.name(belief.GoodEnd, len(r.commits)-1, c); err != nil {
			return err
		}
	}
	s, err := r.probes(e.named)
	if err != nil {
		return err
	}
	e.survey = s
	for _, p := range s.rising(metric.EffectMargin * r.least()) {
		if !r.All && len(e.named) > 0 {
			break
		}
		if e.explained(p.lo, p.hi) || r.f.Result == bisect.Inconclusive && !r.ramp && e.holdsSuspects(p.lo, p.hi) {
			continue
		}
		if err := e.search(p.lo, p.hi, max(r.least(), sureShare*p.step, e.notable())); err != nil {
			return err
		}
	}
	e.conclude()
	return nil
}

// notable is the smallest step that ends the search for one where there seemed to be none.
func (e *multiStep) notable() float64 {
	if !e.run.ramp {
		return 0
	}
	d, _ := e.survey.ends()
	return d / 4 / metric.EffectMargin
}

// explained reports that nothing lies between two commits but a culprit.
func (e *multiStep) explained(lo, hi int) bool {
	_, index := bisect.Between(e.run.commits, lo, hi)
	return len(index) == 1 && slices.ContainsFunc(e.named, func(n named) bool { return n.index == index[0] })
}

// holdsSuspects reports that all that the search has left open lies between two commits.
func (e *multiStep) holdsSuspects(lo, hi int) bool {
	_, index := bisect.Between(e.run.commits, lo, hi)
	return !slices.ContainsFunc(e.run.f.Suspects, func(s bisect.SuspectCommit) bool { return !slices.Contains(index, e.run.index[s.Commit]) })
}

// search looks for a culprit after lo, up to hi, and for more around it.
func (e *multiStep) search(lo, hi int, least float64) error {
	if e.run.over() || len(e.named) >= maxNamed {
		e.skip(lo, hi)
		return nil
	}
	sub, _ := e.run.within(lo, hi, least, e.named)
	if sub.blind && !e.run.blind { // commits of equal inputs
		return nil
	}
	err := sub.all()
	e.run.settle(sub)
	if err != nil {
		return err
	}
	switch f := sub.f; {
	case f.Result == bisect.Found:
		e.run.f.Warnings = append(e.run.f.Warnings, f.Warnings...)
		return e.name(lo, hi, f.Culprits[0])
	case f.Spent:
		e.skip(lo, hi)
	case f.Result == bisect.NoDifference:
		e.levelled(lo, hi, sub.model)
	case f.Result == bisect.Inconclusive && f.Ends.Differ && len(f.Suspects) > 0 && e.run.All:
		e.run.warn(fmt.Sprintf("%s gets worse between %s and %s as well; the culprit of that is one of %d commits, such as %s",
			e.run.picked.Name(), bisect.ShortID(e.run.id(lo)), bisect.ShortID(e.run.id(hi)), len(f.Suspects), bisect.ShortID(f.Suspects[0].Commit)))
	}
	return nil
}

// levelled takes what a part of the range turned out to differ by, which is no step, for the level of the
// probe at its end: that had risen by chance.
func (e *multiStep) levelled(lo, hi int, m *belief.Levels) {
	if e.survey == nil || m == nil || m.Noise().Exact {
		return
	}
	_, within := bisect.Between(e.run.commits, lo, hi)
	i, k := slices.Index(e.survey.At, lo), slices.Index(e.survey.At, hi)
	if i < 0 || k < 0 || hi == len(e.run.commits)-1 || slices.ContainsFunc(e.named, func(n named) bool { return slices.Contains(within, n.index) }) {
		return
	}
	d, sd := m.Step()
	e.survey.Move(k, i, d, sd)
}

func (e *multiStep) skip(lo, hi int) {
	e.open = append(e.open, fmt.Sprintf("from %s to %s", bisect.ShortID(e.run.id(lo)), bisect.ShortID(e.run.id(hi))))
}

// name takes in a culprit that was found after lo, up to hi. Where its own step is not what these two
// differ by, the parts before and after it are searched.
func (e *multiStep) name(lo, hi int, c bisect.Culprit) error {
	n := named{e.run.index[c.Commit], e.logStep(c.Effect), c}
	if slices.ContainsFunc(e.named, func(o named) bool { return o.index == n.index }) {
		return nil
	}
	e.named = append(e.named, n)
	if !e.run.All {
		return nil
	}
	before, ok := e.parent(n.index, lo)
	if !ok || e.agree(lo, before, n.index, hi) {
		return nil
	}
	least := max(e.run.least(), n.step/4)
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
func (e *multiStep) logStep(x *bisect.Effect) float64 {
	if e.run.picked.Metric.Higher != e.run.Faster {
		return -math.Log(x.Ratio)
	}
	return math.Log(x.Ratio)
}

// parent is the first parent of a commit, or lo where that lies before it.
func (e *multiStep) parent(i, lo int) (int, bool) {
	c := e.run.commits[i]
	if len(c.Parents) == 0 {
		return lo, true
	}
	p, known := e.run.index[c.Parents[0]]
	if !known || p == belief.GoodEnd {
		return belief.GoodEnd, lo == belief.GoodEnd
	}
	if lo != belief.GoodEnd && bisect.Ancestors(e.run.commits, lo)[p] {
		return lo, true
	}
	return p, e.run.usable[p]
}

// agree reports that the step from before to culprit is all that lo and hi differ by.
func (e *multiStep) agree(lo, before, culprit, hi int) bool {
	at := []int{lo}
	for _, i := range []int{before, culprit, hi} {
		if !slices.Contains(at, i) {
			at = append(at, i)
		}
	}
	l := belief.FitProfile(at, e.run.ledger())
	place := func(i int) int { return slices.Index(at, i) }
	below, sdBelow := l.Diff(0, place(before))
	above, sdAbove := l.Diff(place(culprit), place(hi))
	whole, _ := l.Diff(0, place(hi))
	return math.Abs(below) < min(3*sdBelow, 0.25*whole) && math.Abs(above) < min(3*sdAbove, 0.25*whole) || place(before) == 0 && place(culprit) == place(hi)
}

// conclude orders the culprits, gives each its share of the whole, and says what is left.
func (e *multiStep) conclude() {
	f := &e.run.f
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
	f.Levels = e.levels()
	e.tellProbes()
	switch gradual := differ && d > zEnd*sd && d > metric.EffectMargin*e.run.least(); {
	case len(e.named) > 0:
		f.Result, f.Complaint.Class, f.Complaint.Metric = bisect.Found, bisect.Slow, e.run.picked.Name()
	case e.run.ramp && gradual && !f.Spent && e.survey.whole:
		f.Result, f.Suspects, f.Gradual = bisect.Inconclusive, nil, true
		e.run.warn(fmt.Sprintf("gradual: no single culprit: the ends differ by a factor of %.3f in %s, and an even ramp explains the launches better than a step; no segment between two probes holds a quarter of it",
			e.run.effect(d, sd).Ratio, e.run.picked.Name()))
	case e.run.ramp:
		e.run.inconclusive()
	case f.Result == bisect.NoDifference && !e.survey.whole:
		f.Result = bisect.Inconclusive // alike ends say nothing of what lies between
	}
	e.remarks(d, sum, differ)
}

// levels are those of the probes, for the report.
func (e *multiStep) levels() []bisect.Level {
	var out []bisect.Level
	s := e.survey
	for k, i := range s.At {
		d, sd := s.Diff(0, k)
		if sd > 0.5 { // no launch of it gave a number
			continue
		}
		out = append(out, bisect.Level{Commit: e.run.id(i), Effect: *e.run.effect(d, sd)})
	}
	return out
}

// tellProbes reports the probes as judgements.
func (e *multiStep) tellProbes() {
	made := map[int]int{}
	for _, l := range e.run.ledger() {
		made[l.Index]++
	}
	for k, l := range e.run.f.Levels {
		if k == 0 || k == len(e.run.f.Levels)-1 {
			continue
		}
		n := made[e.run.index[l.Commit]]
		v := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: 1, Trials: n, Ratio: &l.Effect}
		v.Why = fmt.Sprintf("%s %s times the good end's, launched %d times", e.run.picked.Name(), ratio(&l.Effect), n)
		if d := e.logStep(&l.Effect); d > metric.EffectMargin*e.run.least() {
			v.Call, v.Class = bisect.Bad, bisect.Slow
		}
		e.run.step(bisect.Step{Commit: l.Commit, Role: bisect.RoleProbe, Verdict: v, Remaining: len(e.run.f.Suspects)})
	}
}

// remarks says what was not searched, what was fixed and what the culprits do not explain.
func (e *multiStep) remarks(d, sum float64, differ bool) {
	if len(e.open) > 0 {
		e.run.warn("not searched for more culprits, the budget or the launches were used up: " + lists(e.open, 3))
	}
	if !e.survey.whole {
		e.run.warn("the sweep over the whole range was not finished, the budget or the launches were used up: what was introduced and fixed in between may have been missed")
	} else if e.run.All {
		e.run.warn(fmt.Sprintf("a slowdown that was fixed within %s, or that is less than about %.2g %%, is not seen by the sweep of %d probes",
			count(e.survey.widest(e.run.commits), "commit"), 100*math.Expm1(e.survey.blind()), len(e.survey.At)-2))
	}
	for _, p := range e.survey.falling(e.run.least()) {
		if !e.run.All {
			break
		}
		commits, _ := bisect.Between(e.run.commits, p.lo, p.hi)
		where := "by " + bisect.ShortID(e.run.id(p.hi))
		if len(commits) > 1 {
			where = fmt.Sprintf("by one of %d commits after %s, up to %s", len(commits), bisect.ShortID(e.run.id(p.lo)), bisect.ShortID(e.run.id(p.hi)))
		}
		e.run.warn(fmt.Sprintf("fixed %s: %s falls to %.3f times", where, e.run.picked.Name(), e.run.effect(-p.step, 0).Ratio))
	}
	if differ && e.run.All && len(e.named) > 0 && sum < 0.6*d && d-sum > e.run.least() {
		e.run.warn(fmt.Sprintf("the culprits named make %.0f %% of the difference between the ends: the rest came in steps too small to be told apart", 100*sum/d))
	}
}

// lists joins the first n texts and counts the others.
func lists(texts []string, n int) string {
	out := ""
	for i, t := range texts {
		if i == n {
			return out + fmt.Sprintf(" and %d more", len(texts)-n)
		}
		if i > 0 {
			out += ", "
		}
		out += t
	}
	return out
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
