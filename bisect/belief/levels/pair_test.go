package levels

import (
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// Two pairs bear out a large step on a quiet machine. Where launches of one commit have jumped as far, they do not.
func TestJumpsOfOneCommitCallForMorePairs(t *testing.T) {
	const step, alpha = 0.5, 0.005
	for _, c := range []struct {
		name  string
		jumps []float64 // of launches of the good end
		least int       // pairs that bear out the step
		most  int
	}{
		{"nothing known", nil, 2, 3},
		{"quiet", []float64{0, 0, 0, 0, 0, 0}, 2, 2},
		{"one disturbed", []float64{0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 2, 6},
		{"every third", []float64{0, 0.5, 0, 0, 0.55, 0, 0, 0.5, 0, 0, 0.6, 0}, 4, 12},
	} {
		m := New([]bisect.Commit{{ID: "a"}}, []float64{1})
		for i, y := range c.jumps {
			m.Add(belief.Launch{Index: belief.GoodEnd, At: float64(i), Y: -10 + y})
		}
		test := StepTest{Step: step}
		test.Beside(m)
		n := Noise{SD: 0.01}
		for test.Pairs() < 30 && test.Decided(n, alpha) == 0 {
			test.Add(step, 1)
		}
		if got := test.Pairs(); got < c.least || got > c.most || test.Decided(n, alpha) < 1 {
			t.Errorf("%s: %d pairs, odds e^%.1f, want %d to %d", c.name, got, test.LogOdds(n), c.least, c.most)
		}
	}
}

// However far a few pairs lie apart on a machine whose launches scatter widely, they are no step.
func TestFarPairsOfANoisyMachineAreNoStep(t *testing.T) {
	test := StepTest{Step: 0.54} // of a search on a loaded machine, where nothing differed
	test.Add(2.16, 0.1)
	test.Add(2.15, 0.1)
	if n := (Noise{SD: 0.382}); test.Decided(n, 0.005) != 0 {
		t.Errorf("two pairs decide %d with odds e^%.1f", test.Decided(n, 0.005), test.LogOdds(n))
	}
}
