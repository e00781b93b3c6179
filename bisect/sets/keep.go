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

// confirm tests a safe set until it has passed three times, or as often as it takes.
func (r *run) confirm(s *Safe) error {
	const times = 3
	for r.repeats > 1 && r.mem.at(s.Atoms).seen.pass < times {
		if _, _, err := r.launch(s.Atoms, Keeping, false); err != nil {
			return err
		}
	}
	a := Pass
	if r.repeats > 1 {
		var err error
		if a, _, err = r.votes(s.Atoms, Keeping, hidden, false); err != nil {
			return err
		}
	}
	if s.Confirmed = a == Pass; !s.Confirmed {
		r.warn("the safe set %s did not pass every time: it is not confirmed", r.names(s.Atoms))
	}
	return nil
}

// recommend times the most valuable safe sets against nothing on and names the fastest; nothing on is
// one of them. Sets whose intervals overlap are as fast as each other, and the more valuable one wins.
func (r *run) recommend() error {
	if r.Time == nil {
		return nil
	}
	timed := r.f.Safe[:min(mostTimed, len(r.f.Safe))]
	for i := range timed {
		s := &timed[i]
		effect, err := r.Time(r.ctx, r.turn(s.Atoms))
		if err != nil {
			return err
		}
		s.Effect = &effect
		r.tell()
	}
	failed := map[*Safe]bool{}
	for s := r.fastest(timed, failed); s != nil && r.gains(*s.Effect); s = r.fastest(timed, failed) {
		best := *s
		r.f.Recommended = &best // also where the budget ends before it is confirmed
		if !s.Confirmed {
			if err := r.confirm(s); err != nil {
				return err
			}
		}
		if best = *s; s.Confirmed {
			return nil
		}
		failed[s] = true
	}
	r.f.Recommended = &Safe{Confirmed: true, Effect: &bisect.Effect{Metric: timed[0].Effect.Metric, Ratio: 1, Low: 1, High: 1}} // nothing on
	return nil
}

// gains reports that a set is no slower than nothing on.
func (r *run) gains(e bisect.Effect) bool {
	const slower = 1.02 // beyond this a set is not recommended even where its interval holds 1
	low, _ := r.span(e)
	return low <= 1 && (r.more() || e.Ratio <= slower) && (!r.more() || e.Ratio >= 1/slower)
}

// fastest is the fastest of timed sets but for some, or nil; the first is the most valuable.
func (r *run) fastest(timed []Safe, not map[*Safe]bool) (best *Safe) {
	low := 0.0
	for i := range timed {
		if l, high := r.span(*timed[i].Effect); !not[&timed[i]] && (best == nil || high < low) {
			best, low = &timed[i], l
		}
	}
	return best
}

// more reports that more of what is timed is better.
func (r *run) more() bool { return r.Higher != nil && r.Higher() }

// span is the interval of an effect, less being better.
func (r *run) span(e bisect.Effect) (low, high float64) {
	if r.more() {
		return 1 / e.High, 1 / e.Low
	}
	return e.Low, e.High
}
