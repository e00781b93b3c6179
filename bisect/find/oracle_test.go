package find

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets"
)

// sampled is a Sampler made of a function.
type sampled func(r bisect.Request) (bisect.Outcome, error)

func (s sampled) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) { return s(r) }

// Launches by which sets are compared with the good end have names of their own, counted from those of the
// comparison of the ends.
func TestSetOracleCountsItsLaunches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	next, now := map[bisect.TrialID]int{}, 0.0
	o := &SetOracle{
		Candidate: func(s sets.Set) (bisect.Candidate, error) {
			return bisect.Candidate{Commit: map[bool]string{true: "slow", false: "quick"}[s.Len() > 0]}, nil
		},
		Options: plain,
	}
	o.Sampler = sampled(func(r bisect.Request) (bisect.Outcome, error) {
		id := r.ID()
		id.Nth = 0
		if r.Nth != next[id] {
			t.Errorf("launch %d of %s for %s, want %d", r.Nth, r.Candidate, r.Purpose, next[id])
		}
		next[id]++
		y := 0.005 * rng.NormFloat64()
		if r.Candidate.Commit == "slow" {
			y += 0.1
		}
		now += 10
		return bisect.Outcome{Class: bisect.OK, Wall: 9, At: now, Series: []bisect.Series{{Metric: "time", Values: []float64{math.Exp(y)}}}}, nil
	})
	all := sets.Of(0)
	for n, r := range []sets.Request{
		{Set: sets.Set{}, Purpose: sets.Baseline}, {Set: all, Purpose: sets.AllChanges},
		{Set: all, Purpose: sets.Prefix}, {Set: sets.Set{}, Purpose: sets.Prefix}, {Set: all, Purpose: sets.AllChanges, Nth: 1},
	} {
		x, err := o.Test(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]sets.Answer{true: sets.Fail, false: sets.Pass}[r.Set.Len() > 0]; x.Answer != want {
			t.Errorf("test %d: %v, want %v", n, x.Answer, want)
		}
	}
}
