package belief

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
)

// The order of launches that fail or pass says nothing.
func TestFailuresDoNotDependOnTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	commits := bisect.Linear("good", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o")
	for i := 3; i < len(commits); i += 4 {
		commits[i].InRange = append(commits[i].InRange, i-3) // a merge
	}
	type launch struct {
		i      int
		failed bool
	}
	var launches []launch
	for range 30 {
		i := rng.IntN(16) - 1
		launches = append(launches, launch{i, i >= 0 && bisect.Ancestors(commits, i)[6] && rng.IntN(4) > 0})
	}
	var want Posterior
	for round := range 5 {
		e := NewFailures(commits, slices.Repeat([]float64{1}, 15), false)
		for _, l := range launches {
			e.Add(Launch{Index: l.i, Failed: l.failed})
		}
		got := e.Posterior()
		if round == 0 {
			want = got
		}
		total := got.Alike
		for i, w := range got.Weight {
			total += w
			if math.Abs(w-want.Weight[i]) > 1e-12 {
				t.Errorf("commit %d: %v, and %v in another order", i, w, want.Weight[i])
			}
		}
		if math.Abs(total-1) > 1e-9 || math.Abs(got.Alike-want.Alike) > 1e-12 {
			t.Errorf("probabilities add up to %v", total)
		}
		rng.Shuffle(len(launches), func(i, k int) { launches[i], launches[k] = launches[k], launches[i] })
	}
}

// What to launch next depends on the launches alone, not on whether anybody asked for a decision before.
func TestNextDoesNotDependOnWhatWasAsked(t *testing.T) {
	commits, prior := bisect.Linear("good", slices.Repeat([]string{"x"}, 16)...), slices.Repeat([]float64{1}, 16)
	prices := Prices{Pass: 10, Fail: 20, Usable: func(int) bool { return true }}
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 4))
		asked, not := NewFailures(commits, prior, false), NewFailures(commits, prior, false)
		for n := range 80 {
			asked.Decided(0.005, prices.Usable)
			a, okA := asked.Next(prices)
			b, okB := not.Next(prices)
			if a != b || okA != okB {
				t.Fatalf("seed %d, after %d launches: %+v, and %+v after a decision", seed, n, b, a)
			}
			l := Launch{Index: a.Index, Failed: rng.Float64() < 0.02 || a.Index >= 9 && rng.IntN(3) == 0}
			asked.Add(l)
			not.Add(l)
		}
	}
}
