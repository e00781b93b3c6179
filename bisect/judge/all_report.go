package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

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
		e.run.warn(fmt.Sprintf("gradual: no single culprit: the ends differ by a factor of %.3f in %s, and an even ramp explains the launches better than a step; no stretch between two probes holds a quarter of it",
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

// remarks says what was not looked at, what was mended and what the culprits do not explain.
func (e *multiStep) remarks(d, sum float64, differ bool) {
	if len(e.open) > 0 {
		e.run.warn("not looked at for more culprits, for want of budget or launches: " + lists(e.open, 3))
	}
	if !e.survey.whole {
		e.run.warn("the sweep over the whole range was not finished, for want of budget or launches: what was mended in between may have been missed")
	} else if e.run.All {
		e.run.warn(fmt.Sprintf("a slowdown that was mended within %s, or that is less than about %.2g %%, is not seen by the sweep of %d probes",
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
		e.run.warn(fmt.Sprintf("mended %s: %s falls to %.3f times", where, e.run.picked.Name(), e.run.effect(-p.step, 0).Ratio))
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
