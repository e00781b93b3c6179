package levels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// A device that throttles slows all launches from then on, and hides a step of 3 % no longer than the launches around
// that moment. Launches that only drift, or are disturbed now and then, are not taken for such ones.
func TestLevelThatChangesForGood(t *testing.T) {
	const sd, step = 0.008, 0.03
	commits := bisect.Linear("good", "a", "b", "c", "d", "e")
	jumps := 0
	for seed := range uint64(30) {
		for _, throttles := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(seed, 3))
			m := New(commits, slices.Repeat([]float64{1}, 5))
			for n := range 32 {
				l := belief.Launch{Index: []int{belief.GoodEnd, 4, 1, 2}[n%4], At: float64(36 * n), Y: sd * rng.NormFloat64()}
				if l.Index >= 2 {
					l.Y += step
				}
				switch {
				case throttles && n >= 14:
					l.Y += 0.08
				case !throttles && rng.IntN(20) == 0:
					l.Y += 0.1 * rng.ExpFloat64()
				}
				m.Add(l)
			}
			got, off := m.Step()
			switch n := m.Noise(); {
			case throttles && (n.Jumps == 0 || n.SD > 2*sd || math.Abs(got-step) > 4*off || off > 0.01 || m.Weights()[2] < 0.9):
				t.Errorf("seed %d: noise %+v, step %.3f ± %.3f, culprit %.2f", seed, n, got, off, m.Weights())
			case !throttles && n.Jumps > 0:
				jumps++
			}
		}
	}
	if jumps > 2 {
		t.Errorf("the level of %d in 30 machines that keep theirs is said to have changed", jumps)
	}
}

// A step of 20 % on a machine whose level rises by 10 % in the middle of the search, right after a launch of the culprit: two
// modes, and half of the step, explain nearly all of it too.
func TestLevelThatChangesBesideTheCulprit(t *testing.T) {
	m := New(bisect.Linear("good", "a", "b", "c", "d", "culprit", "f", "g"), slices.Repeat([]float64{1}, 7))
	for n, x := range []struct {
		at int
		us float64
	}{{-1, 99.7}, {6, 120.5}, {6, 119.9}, {-1, 100.1}, {6, 120.3}, {-1, 100.1}, {1, 100.4}, {5, 120.9}, {4, 121.3}, {3, 110}, {3, 110.1}, {3, 110.3}, {2, 109.8}, {-1, 110.9}, {4, 132.3}, {3, 110.1}, {4, 132.7}} {
		m.Add(belief.Launch{Index: x.at, At: 0.06 * float64(n), Y: math.Log(x.us)})
	}
	if d, sd := m.Step(); math.Abs(d-math.Log(1.2)) > 2*sd || sd > 0.01 || m.Weights()[4] < 0.99 {
		t.Errorf("step %.3f ± %.3f, noise %+v, culprit %.3f", d, sd, m.Noise(), m.Weights())
	}
}
