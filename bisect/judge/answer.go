package judge

import (
	"fmt"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// answerEnds goes over to the search, or says why there is nothing to search.
func (r *slowdownRun) answerEnds(s *stage, pick int, st state) bool {
	r.picked, r.model = r.channels[pick], s.models[pick]
	e := r.compare(s.levels[pick])
	switch {
	case st == worse:
		e.Differ = true
		e.Complaint = bisect.Complaint{Class: r.class(), Metric: r.picked.Name(), Ends: e.Bad.Ratio}
		e.Bad.Call, e.Bad.Class = bisect.Bad, r.class()
		r.distrust()
	case st == alike && r.opposite():
		r.tellOpposite(&e)
	case st == alike:
		e.Hint = r.smallest()
		if r.restarts > 0 {
			e.Why = "the difference that the first launches of the ends showed was not confirmed: " + e.Why
		}
	case r.f.Spent:
		if min(e.Good.Trials, e.Bad.Trials) < minEndPairs { // a ratio would mislead
			e.Bad.Why, e.Bad.Ratio = "launched too few times to be compared", nil
			e.Why = fmt.Sprintf("%s of %d and %d launches", r.picked.Name(), e.Bad.Trials, e.Good.Trials)
		}
		e.Unclear = true
		e.Why = "the budget was used up before it was clear whether the ends differ: " + e.Why
		e.Hint = "kbisect run --resume --budget 10m goes on where this stopped"
	default:
		e.Unclear = true
		e.Why = "this machine is too noisy to tell whether the ends differ: " + e.Why
		e.Hint = "use a quieter machine or a program that runs longer, or look for a larger change only with [judge] effect"
	}
	r.reportEnds(e)
	switch {
	case st == alike:
		r.f.Result = bisect.NoDifference
	case st == open:
		r.inconclusive()
	}
	return st == worse
}

// class is what the search is about.
func (r *slowdownRun) class() bisect.Class {
	if r.Faster {
		return bisect.Improved
	}
	return bisect.Slow
}

// opposite reports that the ends clearly differ the other way round.
func (r *slowdownRun) opposite() bool {
	d, sd := r.model.Step()
	return d < -r.least() && d < -zEnd*sd
}

// tellOpposite says so, and what to do.
func (r *slowdownRun) tellOpposite(e *bisect.Ends) {
	if r.Faster {
		e.Why = "the bad end is worse, not better: " + e.Why
		e.Hint = "to find what made it worse leave out --improvement"
		return
	}
	e.Why = "the bad end is better, not worse: " + e.Why
	other := metric.Metric{Higher: !r.picked.Metric.Higher}.Better()
	e.Hint = fmt.Sprintf("to find what improved it add --improvement; if %[1]s is better, say better = %[1]q in its [metric], or --better %[1]s", other)
}

// distrust is for ends of equal inputs that differ: something else than the declared inputs matters.
func (r *slowdownRun) distrust() {
	if !r.blind || r.restarts > 0 {
		return
	}
	r.warn("the ends have equal inputs and differ: the paths given leave out something that build or run read, so every commit was searched\nhint: add what is missing to paths (--path)")
	r.f.Matter = len(r.commits)
	if r.Search.Redo != nil {
		r.Search.Redo()
	}
}

// compare puts the comparison of the ends into words.
func (r *slowdownRun) compare(levels [2][]float64) bisect.Ends {
	d, sd := r.model.Step()
	eff := r.effect(d, sd)
	e := bisect.Ends{
		Good: bisect.Verdict{Call: bisect.Good, Probability: 1, Class: bisect.OK, Trials: len(levels[0]), Why: "the reference"},
		Bad:  bisect.Verdict{Call: bisect.Good, Probability: 1, Class: bisect.OK, Trials: len(levels[1]), Ratio: eff},
	}
	e.Bad.Why = fmt.Sprintf("%s %s times the good end's", r.picked.Name(), ratio(eff))
	e.Why = fmt.Sprintf("%s (%s is better), bad end against good end: ratio %s, %d and %d launches", r.picked.Name(), r.picked.Metric.Better(), ratio(eff), len(levels[1]), len(levels[0]))
	if r.picked.Metric.Exact {
		r.exactWords(&e, r.exact.pick)
	}
	if n := r.model.Noise(); n.TwoModes(r.model.Launches()) {
		e.Why += fmt.Sprintf("; launches fall into two modes, %.2g %% apart, %.0f %% into the slower", 100*math.Expm1(n.Mode), 100*n.Share)
	}
	return e
}

// reportEnds keeps the first comparison of the ends; a new beginning only adds a line.
func (r *slowdownRun) reportEnds(e bisect.Ends) {
	first := r.f.Ends.Why == ""
	r.f.Ends, r.f.Complaint = e, e.Complaint
	if first {
		r.step(bisect.Step{Commit: r.Search.Good.Commit, Role: bisect.RoleGoodEnd, Verdict: e.Good})
		r.step(bisect.Step{Commit: r.plain.bad.Commit, Role: bisect.RoleBadEnd, Verdict: e.Bad})
	}
}

// effect states a step with its 95 % interval as a ratio of the metric itself.
func (r *slowdownRun) effect(d, sd float64) *bisect.Effect {
	if r.picked.Metric.Exact {
		sd = 0
	}
	low, high := d-2*sd, d+2*sd
	if r.picked.Metric.Higher != r.Faster {
		d, low, high = -d, -high, -low
	}
	e := &bisect.Effect{Metric: r.picked.Metric.Name, Ratio: math.Exp(d), Low: math.Exp(low), High: math.Exp(high), Higher: r.picked.Metric.Higher}
	if !r.picked.All {
		e.Case = r.picked.Case
	}
	return e
}

func ratio(e *bisect.Effect) string {
	return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Ratio, e.Low, e.High)
}
