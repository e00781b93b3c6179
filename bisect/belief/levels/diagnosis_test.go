package levels_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kbisect/kbisect/bisect/belief/levels"
)

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
