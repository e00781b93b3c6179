package search

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// What a step keeps of the belief is short, in order, and holds all but the least of it; a likely commit stands alone.
func TestMasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 200).Draw(t, "weights")
		sum := 0.0
		for i, w := range weights {
			weights[i] = math.Pow(w, float64(rapid.IntRange(1, 9).Draw(t, "power")))
			sum += weights[i]
		}
		if sum == 0 {
			return
		}
		for i := range weights {
			weights[i] /= sum
		}
		kept, at := 0.0, -1
		all := masses(weights)
		for _, m := range all {
			own := 0.0
			for _, w := range weights[m.from : m.to+1] {
				own += w
				if w >= 1.0/16 && m.to > m.from {
					t.Fatalf("%g is one of %d", w, m.to-m.from+1)
				}
			}
			if m.from <= at || math.Abs(own-m.p) > 1e-9 {
				t.Fatalf("%+v after %d, with %g", m, at, own)
			}
			kept, at = kept+m.p, m.to
		}
		if kept < 0.99 || len(all) > 33 {
			t.Fatalf("%d runs hold %g", len(all), kept)
		}
	})
}
