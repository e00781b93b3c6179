package effects

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// result makes the ranking of a study that has ended.
type result struct {
	lab  *lab
	fit  *fit
	done *confirmation
}

// ranking fits the best model to all launches and reports those of its terms that are confirmed.
func (s result) ranking() Ranking {
	r := Ranking{Launches: s.lab.launches, Failed: s.lab.failed, Complete: !s.lab.spent && s.lab.failed == 0, Higher: s.lab.study.Higher, Warnings: s.warnings()}
	if len(s.lab.runs) == 0 {
		return r
	}
	r.Smallest = s.fit.smallest()
	terms := s.fit.best()
	f := s.fit.solve(s.lab.runs, columns(s.lab.runs, terms))
	total := s.total(&r)
	for i, t := range terms {
		beta, unit := f.sum(i + 1)
		e := s.lab.effect(t, estimate{beta, s.fit.noise.sd * unit, s.fit.noise.df})
		if total != 0 {
			e.Share = beta / total
		}
		switch x := s.done.tests[t]; {
		case x == nil || x.verdict == 0: // suspected, and not decided
			r.Complete = false
		case max(e.High, 1/e.Low) >= 1+s.lab.study.Effect:
			r.Effects = append(r.Effects, e)
		}
	}
	slices.SortStableFunc(r.Effects, func(a, b Effect) int {
		return cmp.Compare(math.Abs(math.Log(b.Ratio)), math.Abs(math.Log(a.Ratio)))
	})
	return r
}

// total sets Ranking.Total, what everything on costs against everything off, and returns its logarithm; 0 where it may
// be nothing, so that no share of it is stated. It is the sum of the confirmed effects unless the launches with
// everything on contradict that: then these launches count, and the ranking is not complete.
func (s result) total(r *Ranking) float64 {
	all, terms := everything(s.lab.runs, s.lab.all()), s.done.confirmed()
	if !slices.Contains(all, 1) {
		r.Warnings = append(r.Warnings, "the effect of all flags together is not known: no such launch was usable")
		return 0
	}
	own := len(terms) + 1
	f := s.fit.solve(s.lab.runs, columns(s.lab.runs, terms))
	rest := s.fit.solve(s.lab.runs, slices.Insert(columns(s.lab.runs, terms), own, all))
	var in []int
	for i, t := range terms {
		if s.lab.all().holds(t) {
			in = append(in, i+1)
		}
	}
	beta, unit := rest.sum(own)
	if math.Abs(beta) > max(math.Log1p(s.lab.study.Effect), studentT(0.002, s.fit.noise.df)*s.fit.noise.sd*unit) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("all flags together make %s beyond what the confirmed effects explain: more of them than three may act together", percent(math.Exp(beta))))
		r.Complete = false
		f, in = rest, append(in, own)
	}
	log, unit := f.sum(in...)
	e := s.lab.effect(0, estimate{log, s.fit.noise.sd * unit, s.fit.noise.df})
	r.Total = &bisect.Effect{Ratio: e.Ratio, Low: e.Low, High: e.High}
	if e.Low <= 1 && e.High >= 1 {
		return 0
	}
	return log
}

// warnings are what the user should know before trusting the ranking.
func (s result) warnings() []string {
	out := []string{}
	if s.lab.spent {
		out = append(out, "the budget was used up before the study was done")
	}
	if n := s.lab.failed; n > 0 {
		out = append(out, fmt.Sprintf("%d of %d launches gave no number and were left out; the first: %s", n, s.lab.launches, s.lab.failure))
	}
	for a := range s.lab.study.Atoms {
		if b, ok := s.fit.merged[a]; ok {
			out = append(out, fmt.Sprintf("%s and %s were never set apart: the result of %s is that of both", s.lab.study.Atoms[b], s.lab.study.Atoms[a], s.lab.study.Atoms[b]))
		}
	}
	return out
}
