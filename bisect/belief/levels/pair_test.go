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
			test.Add(belief.Launch{}, belief.Launch{At: 1, Y: step})
		}
		if got := test.Pairs(); got < c.least || got > c.most || test.Decided(n, alpha) < 1 {
			t.Errorf("%s: %d pairs, odds e^%.1f, want %d to %d", c.name, got, test.LogOdds(n), c.least, c.most)
		}
	}
}

// One pair bears out a step far above all that launches were off their level by, if it shows that step. Where one launch
// was off by a share of the step, where little was seen, or where a neighbour may slow a launch by as much, it takes two.
func TestOnePairBearsOutAStepFarAboveTheNoise(t *testing.T) {
	for _, c := range []struct {
		name      string
		step, off float64 // of the range, and of one of its launches from its level
		launches  int
		shown     float64 // by the pair
		decided   int
	}{
		{"tenfold", 2.3, 0.02, 12, 2.3, 1},
		{"tenfold, one launch off", 2.3, 0.5, 12, 2.3, 0},
		{"tenfold, few launches", 2.3, 0.02, 6, 2.3, 0},
		{"tenfold, one more", 2.3, 0.02, 7, 2.3, 1},
		{"threefold, few launches", 1.1, 0.02, 7, 1.1, 0},
		{"tenfold, the pair shows less", 2.3, 0.02, 12, 1.2, 0},
		{"threefold", 1.1, 0.02, 12, 1.1, 1},
		{"twofold", 0.7, 0.02, 12, 0.7, 0},
		{"tenfold, the pair shows nothing", 2.3, 0.02, 12, 0, 0},
	} {
		commits := []bisect.Commit{{ID: "a"}, {ID: "b", InRange: []int{0}}}
		m := New(commits, []float64{1, 1})
		for i := range c.launches {
			y, at := -10+0.003*float64(i%3), belief.GoodEnd
			if i%2 == 1 {
				y, at = y+c.step, 1
			}
			if i == 4 {
				y += c.off
			}
			m.Add(belief.Launch{Index: at, At: float64(i), Y: y})
		}
		test := StepTest{Step: c.step}
		test.Beside(m)
		test.Add(belief.Launch{}, belief.Launch{At: 1, Y: c.shown})
		if got := test.Decided(Noise{SD: 0.01}, 0.005); got != c.decided {
			t.Errorf("%s: one pair decides %d, want %d; odds e^%.1f", c.name, got, c.decided, test.LogOdds(Noise{SD: 0.01}))
		}
	}
}

// However far a few pairs lie apart on a machine whose launches scatter widely, they are no step.
func TestFarPairsOfANoisyMachineAreNoStep(t *testing.T) {
	test := StepTest{Step: 0.54} // of a search on a loaded machine, where nothing differed
	test.Add(belief.Launch{}, belief.Launch{At: 0.1, Y: 2.16})
	test.Add(belief.Launch{}, belief.Launch{At: 0.1, Y: 2.15})
	if n := (Noise{SD: 0.382}); test.Decided(n, 0.005) != 0 {
		t.Errorf("two pairs decide %d with odds e^%.1f", test.Decided(n, 0.005), test.LogOdds(n))
	}
}
