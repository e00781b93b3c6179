package levels

import (
	"math"
	"testing"
)

// The order of pairs cancels steady drift, and no disturbance of a fixed period falls on one side.
func TestTheOrderOfPairsKeepsStepWithNothing(t *testing.T) {
	const pairs = 64
	difference := func(level func(launch int) float64) (sum float64) {
		for k := range pairs {
			side := level(2*k+1) - level(2*k)
			if Turned(k) {
				side = -side
			}
			sum += side / pairs
		}
		return sum
	}
	if d := difference(func(i int) float64 { return float64(i) }); math.Abs(d) > 1e-12 {
		t.Errorf("drift: the sides differ by %g", d)
	}
	for period := 2; period <= 16; period++ {
		for busy := range period {
			d := difference(func(i int) float64 {
				if i%period == busy {
					return 1
				}
				return 0
			})
			if math.Abs(d) > 0.25 {
				t.Errorf("every %d launches, at launch %d: the sides differ by %.2f", period, busy, d)
			}
		}
	}
}
