package find

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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

// A launch that confirms a safe set times it as well, in turn with the good end, unless it may be stopped early.
func TestSetOracleTimesSeeds(t *testing.T) {
	for _, timed := range []bool{true, false} {
		for _, class := range []bisect.Class{bisect.Crash, bisect.Timeout} {
			var made []bisect.Request
			o := &SetOracle{
				Candidate: func(s sets.Set) (bisect.Candidate, error) { return bisect.Candidate{Commit: "c" + s.Key()}, nil },
				Options:   plain, Class: true, Timed: timed,
			}
			whole := sets.Of(0, 1)
			o.Sampler = sampled(func(r bisect.Request) (bisect.Outcome, error) {
				made = append(made, r)
				if r.Candidate.Commit == "c"+whole.Key() {
					return bisect.Outcome{Class: class, Phase: "run", Wall: 9}, nil
				}
				return bisect.Outcome{Class: bisect.OK, Wall: 1}, nil
			})
			for _, r := range []sets.Request{
				{Purpose: sets.Baseline}, {Set: whole, Purpose: sets.AllChanges}, {Set: sets.Of(1), Purpose: sets.Prefix},
				{Set: sets.Of(1), Purpose: sets.Seeding}, {Set: sets.Of(1), Purpose: sets.Seeding, Nth: 1}, {Set: whole, Purpose: sets.Seeding},
			} {
				if _, err := o.Test(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			pairs := timed && class == bisect.Crash
			var turns []string
			for _, r := range made[3:] {
				if r.Timing != pairs {
					t.Errorf("timed %v, %s: %+v", timed, class, r)
				}
				turns = append(turns, fmt.Sprintf("%s%d", r.Purpose, r.Nth))
			}
			want := "seed0 seed1 seed0" // the first of the good end is its baseline
			if pairs {
				want = "seed0 seed1 end-good1 seed0"
			}
			if got := strings.Join(turns, " "); got != want {
				t.Errorf("timed %v, %s: %s, want %s", timed, class, got, want)
			}
		}
	}
}
