package belief

import (
	"math"
	"testing"
)

// The sum agrees with the integral over both rates.
func TestLogExceedsIsTheIntegral(t *testing.T) {
	const cells = 4000
	beta := func(x, a, b float64) float64 {
		return math.Exp((a-1)*math.Log(x) + (b-1)*math.Log1p(-x) - logBeta(a, b))
	}
	for _, c := range [][2]Tally{{}, {{3, 2}, {1, 9}}, {{1, 7}, {4, 20}}, {{12, 0}, {0, 30}}, {{30, 70}, {25, 90}}} {
		bad, good := c[0], c[1]
		below, want := 0.0, 0.0
		for i := range cells {
			x := (float64(i) + 0.5) / cells
			g := beta(x, noisyFails+float64(good.Fails), noisyPasses+float64(good.Passes)) / cells
			want += beta(x, badFails+float64(bad.Fails), badPasses+float64(bad.Passes)) / cells * (below + g/2)
			below += g
		}
		if got := math.Exp(logExceeds(bad, good)); math.Abs(got-want) > 1e-4 {
			t.Errorf("bad %+v, good %+v: %g, want %g", bad, good, got, want)
		}
	}
}

// Good commits that fail often are believed in when they are seen to, and only then.
func TestNoisyShare(t *testing.T) {
	for _, c := range []struct {
		bad, good Tally
		low, high float64
	}{
		{Tally{4, 0}, Tally{0, 10}, 0, 0.02},
		{Tally{4, 0}, Tally{1, 200}, 0, 0.02},
		{Tally{8, 0}, Tally{6, 24}, 0.95, 1},
		{Tally{5, 5}, Tally{6, 24}, 0.95, 1},
	} {
		if got := ofRuns.noisyShare(c.bad, c.good); got < c.low || got > c.high {
			t.Errorf("%+v %+v: %g", c.bad, c.good, got)
		}
	}
}
