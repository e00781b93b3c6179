package judge

import (
	"math"
)

// The rules by which a gradual change is told from a step.
const (
	rampGain     = 8.0 // by how much an even ramp must be likelier than any step, as a logarithm
	rampLaunches = 60  // launches that a search may take before that alone ends it
	rampMost     = 400 // launches of a search for a gradual change, in all
)

// ramps reports that an even ramp over the range explains the launches far better than one step
// anywhere, and that the search is not about to end.
func (r *bankRun) ramps() bool {
	if r.part != nil || r.launches < rampLaunches && r.failed+r.restarts == 0 || len(r.model.tested) < 5 {
		return false
	}
	return r.model.ramp() > rampGain
}

// ramp is the logarithm of the odds of an even ramp against one step.
func (m *Model) ramp() float64 {
	mass := m.graph.Masses(m.prior)
	total := mass[len(mass)-1]
	f := newFilter(m.noise)
	for i := range m.launches {
		l := m.scaled(i)
		x := 0.0
		if l.Index != GoodEnd {
			x = mass[l.Index] / total
		}
		f.lean(l, x, m.noise)
	}
	step := make([]float64, len(m.sets))
	for j, s := range m.sets {
		step[j] = math.Log(s.mass/total) + s.filter.logL
	}
	return f.logL - logSum(step)
}

// lean takes in one launch of a commit that shows the share x of the step.
func (f *filter) lean(l Launch, x float64, n Noise) {
	dt := max(0, l.At-f.at)
	f.at = l.At
	if n.modes() {
		f.branch(l, x, dt, n)
		return
	}
	g := &f.parts[0]
	g.vd += n.Rate * dt
	f.logL += math.Log(g.learn(g.prospect(x, n.SD), l, 0))
}
