package belief

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
)

// A commit that lies apart from its side is found, and launches that follow the model hardly ever contradict it.
func TestLevelsMisfit(t *testing.T) {
	commits := bisect.Linear("good", "a", "b", "c", "d", "e", "f")
	alarms := 0
	for seed := range uint64(200) {
		for _, odd := range []float64{0, 0.05} {
			rng := rand.New(rand.NewPCG(seed, 8))
			m := NewLevels(commits, slices.Repeat([]float64{1}, 6))
			for n := range 48 {
				i := []int{GoodEnd, 5, 1, 2, 3, 4}[n%6]
				y := 0.005 * rng.NormFloat64()
				if i >= 3 {
					y += 0.1
				}
				if i == 4 {
					y += odd
				}
				m.Add(Launch{Index: i, At: float64(10 * n), Y: y})
			}
			switch x := m.Misfit(0); {
			case odd > 0 && (!x.Misfits() || x.Index != 4):
				t.Errorf("seed %d: commit 4 lies 5 %% above the others: %+v", seed, x)
			case odd == 0 && x.Misfits():
				alarms++
			}
		}
	}
	if alarms > 3 {
		t.Errorf("%d of 200 histories that follow the model are said not to", alarms)
	}
}

func TestFailuresMisfit(t *testing.T) {
	commits := bisect.Linear("good", "a", "b", "c", "d")
	e := NewFailures(commits, []float64{1, 1, 1, 1}, 0.02, false)
	for n := range 12 {
		e.Add(Launch{Index: 0})
		e.Add(Launch{Index: 1, Failed: true})
		e.Add(Launch{Index: 3, Failed: true})
		e.Add(Launch{Index: 2, Failed: n%6 == 0}) // bad by its place, and hardly fails
	}
	if x := e.Misfit(1); !x.Misfits() || x.Index != 2 {
		t.Errorf("%+v", x)
	}
	even := NewFailures(commits, []float64{1, 1, 1, 1}, 0.02, false)
	for n := range 12 {
		for _, i := range []int{1, 2, 3} {
			even.Add(Launch{Index: i, Failed: n%2 == 0})
		}
	}
	if x := even.Misfit(1); x.Misfits() {
		t.Errorf("%+v", x)
	}
}

// Fisher's tea: 3 of 4 against 1 of 4 has the two-sided probability 34/70.
func TestFisher(t *testing.T) {
	if p := fisher(Tally{3, 1}, Tally{1, 3}); math.Abs(p-34.0/70) > 1e-12 {
		t.Errorf("%v", p)
	}
	if p := fisher(Tally{0, 0}, Tally{1, 3}); p != 1 {
		t.Errorf("%v", p)
	}
}
