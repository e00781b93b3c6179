package sets

import (
	"math"
	"testing"
)

// The weights of the chances sum up to one, and follow the tallies: what is known to be guilty and fails
// in every other test is no complaint that comes every time.
func TestRates(t *testing.T) {
	of := func(x tally) *evidence { return x.evidence() }
	sum := func(w rates) (all, every float64) {
		for i := range w {
			for j := range w[i] {
				all += w[i][j]
				if i == 0 {
					every += w[i][j]
				}
			}
		}
		return all, every
	}
	sure := newRates(map[tally]int{{4, 0, Fail}: 1, {0, 9, Pass}: 3}, of)
	half := newRates(map[tally]int{{4, 4, Fail}: 1, {0, 9, Pass}: 3}, of)
	for _, w := range []rates{sure, half} {
		if all, _ := sum(w); math.Abs(all-1) > 1e-9 {
			t.Errorf("weights sum up to %v", all)
		}
	}
	if _, every := sum(sure); every < 0.5 {
		t.Errorf("four failures of four: %v", every)
	}
	if _, every := sum(half); every != 0 {
		t.Errorf("four failures of eight: %v", every)
	}
	few, many := tally{pass: 3}, tally{pass: 12}
	if a, b := sure.guilty(few.evidence()), half.guilty(few.evidence()); a >= b || b < hidden {
		t.Errorf("three passes leave a doubt of %v, and of %v where the complaint comes every other time", a, b)
	}
	if a, b := half.guilty(many.evidence()), half.guilty(few.evidence()); a >= b/4 {
		t.Errorf("twelve passes leave a doubt of %v, three of %v", a, b)
	}
	none := newRates(map[tally]int{{1, 0, Pass}: 1, {0, 1, Fail}: 1}, of)
	if all, _ := sum(none); all < 0.99 {
		t.Errorf("odd ends: %v", all)
	}
}
