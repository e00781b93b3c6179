package sets

import (
	"cmp"
	"context"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// mostTimed is how many safe sets are timed at most.
const mostTimed = 5

// keeper says what can be kept (sets.md 4c): the most valuable safe set, confirmed, and the fastest of those found.
type keeper struct {
	tester *tester
	scope  *scope
	found  *Finding
	time   func(ctx context.Context, on Set, enough func(bisect.Effect) bool) (bisect.Effect, error) // may be nil
}

func (k *keeper) run(e *enumeration, progress func()) error {
	safe := k.found.Safe
	if len(safe) == 0 {
		return nil
	}
	slices.SortStableFunc(safe, func(a, b Safe) int { return cmp.Compare(b.Weight, a.Weight) })
	safe[0].Maximum = k.isMaximum(e, safe[0].Weight)
	if err := k.confirm(&safe[0]); err != nil || k.time == nil {
		return err
	}
	return k.recommend(safe[:min(mostTimed, len(safe))], progress)
}

// isMaximum reports whether every set worth more is known to fail.
func (k *keeper) isMaximum(e *enumeration, weight float64) bool {
	const rounding = 1e-9
	open := slices.Clone(e.blocked)
	if !k.found.Complete {
		open = append(open, e.seeds(1)...)
	}
	return !e.inexact && !slices.ContainsFunc(open, func(s Set) bool { return k.scope.space.Weight(s) > weight+rounding })
}

// confirm tests a safe set until it has passed three times, or as often as it takes.
func (k *keeper) confirm(s *Safe) error {
	const times = 3
	if k.tester.repeats > 1 {
		passes := func() int { return k.tester.memory.tally(s.Atoms).Pass }
		for n := 0; n < mostVotes && passes() < times; n++ {
			if _, err := k.tester.launch(s.Atoms, keeping, false); err != nil {
				return err
			}
		}
		a, err := k.tester.vote(s.Atoms, keeping, hidden)
		if err != nil {
			return err
		}
		s.Confirmed = a == Pass && passes() >= times
	} else {
		s.Confirmed = true
	}
	if !s.Confirmed {
		k.found.warn("the safe set %s did not pass every time: it is not confirmed", k.scope.names(s.Atoms))
	}
	return nil
}

// recommend times safe sets against nothing on, the most valuable first, and recommends the fastest; nothing on is one
// of them. Sets whose intervals overlap count as equally fast, and the more valuable one wins. A set that can no longer
// win is launched no further.
func (k *keeper) recommend(timed []Safe, progress func()) error {
	least := 1.0 // of the fastest set so far, the lower bound; at first that of nothing on
	for i := range timed {
		loses := func(e bisect.Effect) bool { _, low, _ := slowdown(e); return low >= least }
		effect, err := k.time(k.tester.ctx, timed[i].Atoms, loses)
		if err != nil {
			return err
		}
		timed[i].Effect = &effect
		if _, low, high := slowdown(effect); high < least {
			least = low
		}
		progress()
	}
	failed := map[*Safe]bool{}
	for s := fastest(timed, failed); s != nil && gains(*s.Effect); s = fastest(timed, failed) {
		best := *s
		k.found.Recommended = &best // also where the budget ends before it is confirmed
		if !s.Confirmed {
			if err := k.confirm(s); err != nil {
				return err
			}
		}
		if best = *s; s.Confirmed {
			return nil
		}
		failed[s] = true
	}
	k.found.Recommended = &Safe{Confirmed: true, Effect: &bisect.Effect{Metric: timed[0].Effect.Metric, Ratio: 1, Low: 1, High: 1}} // nothing on
	return nil
}

// gains reports whether a set is not slower than the base, with nothing on.
func gains(e bisect.Effect) bool {
	const slower = 1.02 // beyond this a set is not recommended even where its interval holds 1
	ratio, low, _ := slowdown(e)
	return low <= 1 && ratio <= slower
}

// fastest is the fastest of the timed sets other than some; nil for none. Of equally fast ones it is the first, which
// is the most valuable.
func fastest(timed []Safe, not map[*Safe]bool) (best *Safe) {
	least := 0.0
	for i := range timed {
		if _, low, high := slowdown(*timed[i].Effect); !not[&timed[i]] && (best == nil || high < least) {
			best, least = &timed[i], low
		}
	}
	return best
}

// slowdown is an effect with its interval as ratios of which less is better.
func slowdown(e bisect.Effect) (ratio, low, high float64) {
	if e.Higher {
		return 1 / e.Ratio, 1 / e.High, 1 / e.Low
	}
	return e.Ratio, e.Low, e.High
}
