package levels

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// A commit that lies apart from its side is found, and launches that follow the model hardly ever contradict it.
func TestLevelsMisfit(t *testing.T) {
	commits := bisect.Linear("good", "a", "b", "c", "d", "e", "f")
	alarms := 0
	for seed := range uint64(100) {
		for _, odd := range []float64{0, 0.05} {
			rng := rand.New(rand.NewPCG(seed, 8))
			m := New(commits, slices.Repeat([]float64{1}, 6))
			for n := range 48 {
				i := []int{belief.GoodEnd, 5, 1, 2, 3, 4}[n%6]
				y := 0.005 * rng.NormFloat64()
				if i >= 3 {
					y += 0.1
				}
				if i == 4 {
					y += odd
				}
				m.Add(belief.Launch{Index: i, At: float64(10 * n), Y: y})
			}
			switch x := m.Misfit(0); {
			case odd > 0 && (!x.Misfits() || x.Index != 4):
				t.Errorf("seed %d: commit 4 lies 5 %% above the others: %+v", seed, x)
			case odd == 0 && x.Misfits():
				alarms++
			}
		}
	}
	if alarms > 1 {
		t.Errorf("%d of 100 histories that follow the model are said not to", alarms)
	}
}
