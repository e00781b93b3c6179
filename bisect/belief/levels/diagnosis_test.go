package levels_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
)

// TestExamine finds what is wrong with simulated machines.
func TestExamine(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	series := func(n int, level func(i int) float64) []belief.Launch {
		var out []belief.Launch
		for i := range n {
			out = append(out, belief.Launch{Index: belief.GoodEnd, At: 13 * float64(i), Y: level(i)})
		}
		return out
	}
	for _, x := range []struct {
		name                                    string
		level                                   func(i int) float64
		scattered, troubled, drifting, twoModes bool
	}{
		{"quiet", func(int) float64 { return 0.004 * rng.NormFloat64() }, false, false, false, false},
		{"scattered", func(int) float64 { return 0.03 * rng.NormFloat64() }, true, false, false, false},
		{"neighbour", func(i int) float64 {
			return 0.004*rng.NormFloat64() + map[bool]float64{true: 0.2}[i%10 == 3]*(1+rng.Float64())
		}, false, true, false, false},
		{"drift", func(i int) float64 { return 0.02*float64(i)/40 + 0.001*rng.NormFloat64() }, false, false, true, false},
		{"modes", func(i int) float64 {
			return 0.003*rng.NormFloat64() + map[bool]float64{true: 0.02}[rng.Float64() < 0.5]
		}, false, false, false, true},
	} {
		e := levels.Examine(series(40, x.level))
		if x.name == "modes" { // half of the launches in either: wide by any measure
			x.scattered = e.Scattered()
		}
		if e.Scattered() != x.scattered || e.Troubled() != x.troubled || e.Drifting() != x.drifting || e.TwoModes() != x.twoModes {
			t.Errorf("%s: scattered %v, troubled %v, drifting %v, modes %v: %+v", x.name, e.Scattered(), e.Troubled(), e.Drifting(), e.TwoModes(), e)
		}
	}
	if e := levels.Examine(nil); e.Launches != 0 || e.TwoModes() {
		t.Errorf("nothing: %+v", e)
	}
}

func TestTwoModes(t *testing.T) {
	if low, high, share, ok := levels.TwoModes([]float64{22.5, 22.4, 22.6, 25.5, 25.4, 22.5, 25.6, 22.5, 25.5, 22.4, 25.5, 22.5}); !ok || low != 22.5 || high != 25.5 || share < 0.4 || share > 0.42 {
		t.Errorf("%v %v %v %v", low, high, share, ok)
	}
	rng := rand.New(rand.NewPCG(8, 9))
	wrong := 0
	for range 300 {
		var v []float64
		for range 30 {
			v = append(v, 30*(1+0.01*rng.NormFloat64()))
		}
		if _, _, _, ok := levels.TwoModes(v); ok {
			wrong++
		}
	}
	if wrong > 6 {
		t.Errorf("one mode taken for two in %d of 300", wrong)
	}
}
