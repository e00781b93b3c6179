package levels_test

import (
	"math"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
)

// A launch that was stopped says that it would have shown at least so much.
func TestLevelsTakeCensoredLaunches(t *testing.T) {
	commits := []bisect.Commit{{ID: "only"}}
	m := levels.New(commits, []float64{1})
	for i := range 6 {
		m.Add(belief.Launch{Index: belief.GoodEnd, At: float64(20 * i), Y: 0.001 * float64(i%2)})
		m.Add(belief.Launch{Index: 0, At: float64(20*i + 10), Y: 0.5, Censored: true})
	}
	if d, sd := m.Step(); d < 0.45 || math.IsNaN(sd) || sd > 1 {
		t.Errorf("step %v, sd %v", d, sd)
	}
}

// One launch of each end tells the step to within what may have disturbed it, and two of each nearly to within their noise.
func TestFewLaunchesTellTheStep(t *testing.T) {
	m := levels.New([]bisect.Commit{{ID: "only"}}, []float64{1})
	for pair, most := range []float64{0.04, 0.015} {
		m.Add(belief.Launch{Index: belief.GoodEnd, At: float64(20 * pair), Y: 0.001 * float64(pair)})
		m.Add(belief.Launch{Index: 0, At: float64(20*pair + 10), Y: 0.26})
		if d, sd := m.Step(); math.Abs(d-0.26) > sd || sd > most {
			t.Errorf("%d launches of each end: step %v, sd %v, want at most %v", pair+1, d, sd, most)
		}
	}
}
