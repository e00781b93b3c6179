package sets

import (
	"cmp"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// keep says what can be kept: the most valuable safe set, confirmed, and the fastest of those found.
func (r *run) keep() error {
	if len(r.f.Safe) == 0 {
		return nil
	}
	slices.SortStableFunc(r.f.Safe, func(a, b Safe) int { return cmp.Compare(b.Weight, a.Weight) })
	best := &r.f.Safe[0]
	best.Maximum = r.proveMaximum(best.Weight)
	defer func() { k := r.f.Safe[0]; r.f.Keep = &k }()
	if err := r.confirm(best); err != nil {
		return err
	}
	return r.recommend()
}

// proveMaximum reports whether nothing that is not known to fail is worth more.
func (r *run) proveMaximum(weight float64) bool {
	const rounding = 1e-9
	open := slices.Clone(r.blocked)
	if !r.f.Complete {
		open = append(open, r.seeds(1)...)
	}
	return !r.inexact && !slices.ContainsFunc(open, func(s Set) bool { return r.space.weight(s) > weight+rounding })
}

// confirm tests a safe set until it has passed three times.
func (r *run) confirm(s *Safe) error {
	const times = 3
	for r.repeats > 1 && r.mem.at(s.Atoms).pass < times {
		res, _, err := r.launch(s.Atoms, Keeping, false)
		if err != nil {
			return err
		}
		if res.Answer != Pass {
			r.warn("the safe set %s did not pass every time (%s): it is not confirmed", r.names(s.Atoms), res.Answer)
			return nil
		}
	}
	s.Confirmed = r.mem.at(s.Atoms).fail == 0
	return nil
}

// recommend times the most valuable safe sets against nothing on and names the fastest; nothing on is
// one of them. Sets whose intervals overlap are as fast as each other, and the more valuable one wins.
func (r *run) recommend() error {
	if r.Time == nil {
		return nil
	}
	var fastest *Safe
	for i := range r.f.Safe[:min(mostTimed, len(r.f.Safe))] {
		s := &r.f.Safe[i]
		effect, err := r.Time(r.ctx, r.turn(s.Atoms))
		if err != nil {
			return err
		}
		s.Effect = &effect
		if fastest == nil || effect.High < fastest.Effect.Low {
			fastest = s
		}
	}
	const slower = 1.02 // beyond this a set is not recommended even where its interval holds 1
	best := *fastest
	if best.Effect.Low > 1 || best.Effect.Ratio > slower {
		best = Safe{Confirmed: true, Effect: &bisect.Effect{Metric: best.Effect.Metric, Ratio: 1, Low: 1, High: 1}}
	}
	r.f.Recommended = &best
	return nil
}
