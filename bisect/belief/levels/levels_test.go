package levels_test

import (
	"math"
	"math/rand/v2"
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

// Devices of unequal speed show the step as one device does: how much faster one of them is makes no difference.
func TestDevicesHaveLevelsOfTheirOwn(t *testing.T) {
	commits := []bisect.Commit{{ID: "a"}, {ID: "b", InRange: []int{0}}, {ID: "c", InRange: []int{1}}}
	told := func(apart [3]float64) (step, sd, weight, profile float64) {
		m, noise := levels.New(commits, []float64{1, 1, 1}), rand.New(rand.NewPCG(1, 2))
		var made []belief.Launch
		for n := range 12 {
			for k, i := range []int{belief.GoodEnd, 2, 1, 0} {
				l := belief.Launch{Index: i, At: float64(40*n + 10*k), Device: (n + k) % 3}
				l.Y = 0.004*noise.NormFloat64() + apart[l.Device]
				if i >= 1 {
					l.Y += 0.03
				}
				m.Add(l)
				made = append(made, l)
			}
		}
		step, sd = m.Step()
		profile, _ = levels.FitProfile([]int{belief.GoodEnd, 2}, made).Diff(0, 1)
		return step, sd, m.Weights()[1], profile
	}
	step, sd, weight, profile := told([3]float64{})
	if math.Abs(step-0.03) > 2*sd || weight < 0.99 || math.Abs(profile-0.03) > 0.005 {
		t.Errorf("step %v ± %v, %v, profile %v", step, sd, weight, profile)
	}
	other, sd2, weight2, profile2 := told([3]float64{0, 0.3, -0.2})
	if math.Abs(other-step) > 1e-3 || math.Abs(sd2/sd-1) > 0.1 || weight2 < 0.99 || math.Abs(profile2-profile) > 1e-3 {
		t.Errorf("step %v ± %v, %v, profile %v; on equal devices %v ± %v, %v", other, sd2, weight2, profile2, step, sd, profile)
	}
}
