package belief

import (
	"math"
)

// Ramp is the logarithm of the odds of an even ramp against one step.
func (m *Levels) Ramp() float64 {
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
	if n.Modes() {
		f.branch(l, x, dt, n)
		return
	}
	g := &f.parts[0]
	g.vd += n.Rate * dt
	f.logL += math.Log(g.learn(g.prospect(x, n.SD), l, 0))
}
