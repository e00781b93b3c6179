package belief

import (
	"math"

	"github.com/kbisect/kbisect/bisect"
)

// Levels is the belief about one history: which commit brought the step, how large it is, how the
// machine drifts and how noisy it is. All launches of all commits inform all of it.
//
// Commits that no launch so far tells apart form a set, and each set has a filter of its own that
// takes its members for the culprit, see partition.
type Levels struct {
	parts    partition
	launches []Launch
	noise    Noise
	refitAt  int       // number of launches at which the noise is fitted again
	offset   []float64 // by commit, added to its launches; nil: none
}

// NewLevels begins without a launch. A prior of 0 clears a commit.
func NewLevels(commits []bisect.Commit, prior []float64) *Levels {
	return newLevels(commits, prior, firstNoise)
}

// NewExactLevels begins a belief about numbers without noise, where the ends differ by step.
func NewExactLevels(commits []bisect.Commit, prior []float64, step float64) *Levels {
	return newLevels(commits, prior, exactly(step))
}

func newLevels(commits []bisect.Commit, prior []float64, n Noise) *Levels {
	return &Levels{parts: newPartition(commits, prior, newFilter(n)), noise: n, refitAt: firstFit}
}

// Noise is what the launches so far scatter by.
func (m *Levels) Noise() Noise { return m.noise }

// Launches is the number of launches taken in.
func (m *Levels) Launches() int { return len(m.launches) }

// Offset adds to every later launch of a commit what its place in the slice holds: known steps are taken off so.
func (m *Levels) Offset(by []float64) { m.offset = by }

// Add takes in one launch.
func (m *Levels) Add(l Launch) {
	if m.offset != nil && l.Index != GoodEnd {
		l.Y += m.offset[l.Index]
	}
	if len(m.launches) > 0 {
		l.Y -= m.launches[0].Y // the first launch is the zero of the scale
	}
	if l.Index != GoodEnd && m.parts.tested[l.Index] == nil {
		m.parts.split(l.Index)
	}
	kept := l
	if len(m.launches) == 0 {
		l.Y = 0
	}
	if m.noise.Exact {
		l.Y = m.noise.nearer(l.Y)
	}
	m.launches = append(m.launches, kept)
	for j := range m.parts.sets {
		m.parts.sets[j].filter.add(l, m.parts.holds(l.Index, j), m.noise)
	}
	if len(m.launches) >= m.refitAt && !m.noise.Exact {
		m.refit()
		m.refitAt = len(m.launches) + len(m.launches)/4 + 2
	}
}

// scaled returns launch i on the scale of the filters.
func (m *Levels) scaled(i int) Launch {
	l := m.launches[i]
	if i == 0 {
		l.Y = 0
	}
	return l
}

// Top is the likeliest set of commits that no launch tells apart, oldest first, with its probability.
func (m *Levels) Top() (members []int, p float64) {
	j, p := m.parts.top()
	return m.parts.members(j), p
}

// Decided returns the commits that hold the culprit with probability 1-delta and that no usable commit tells apart.
func (m *Levels) Decided(delta float64, usable func(int) bool) (members []int, ok bool) {
	j, p := m.parts.top()
	if p < 1-delta {
		return nil, false
	}
	members = m.parts.members(j)
	return members, !m.Parted(members, usable)
}

// Parted reports that some usable commit would tell the members of a set apart.
func (m *Levels) Parted(members []int, usable func(int) bool) bool {
	return parted(m.parts.graph, len(m.parts.commits), members, usable)
}

// Weights returns the probability of each commit to be the culprit.
func (m *Levels) Weights() []float64 { return m.parts.weights() }

// Bad is the probability that commit i is bad.
func (m *Levels) Bad(i int) float64 { return m.parts.bad(i) }

// Credible lists the likeliest commits that together hold the share p, oldest first.
func (m *Levels) Credible(p float64) []bisect.Suspect {
	var all []bisect.Suspect
	trifle := (1 - p) / float64(len(m.parts.commits)) // all that weigh less add up to less than 1-p
	for i, w := range m.parts.weights() {
		if m.parts.of[i] >= 0 && w >= trifle {
			all = append(all, bisect.Suspect{Index: i, Probability: w})
		}
	}
	return likeliest(all, p)
}

// Misfit implements Belief.
func (m *Levels) Misfit(int) Misfit { return checkLevels(m) }

// Step is the size of the step with its standard deviation, averaged over the sets.
func (m *Levels) Step() (mean, sd float64) {
	post := m.parts.posterior()
	var square float64
	for j, s := range m.parts.sets {
		g := s.filter.merged()
		mean += post[j] * g.step
		square += post[j] * (g.step*g.step + g.vD)
	}
	return mean, math.Sqrt(max(0, square-mean*mean))
}

// MidLaunch says what a launch of a commit in the middle of the suspects would tell of a step, in nats, and the
// variance of such a launch, drift since the one before included.
func (m *Levels) MidLaunch(step float64) (info, variance float64) {
	gap := 0.0 // mean time between two launches, seconds
	if n := len(m.launches); n >= 2 {
		gap = (m.launches[n-1].At - m.launches[0].At) / float64(n-1)
	}
	variance = m.noise.effective() + m.noise.Rate*gap
	return view{weight: 1, sum: step / 2, squares: step * step / 2, bad: 0.5, entropy: -1, chance: 1}.information(variance), variance
}

// RampOdds is the logarithm of the odds of an even ramp against one step: the Bayes factor of a commit's share
// of the prior as the share of the step that it shows (judge.md 7, "ramp").
func (m *Levels) RampOdds() float64 {
	mass := m.parts.graph.Masses(m.parts.prior)
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
	step := make([]float64, len(m.parts.sets))
	for j, s := range m.parts.sets {
		step[j] = math.Log(s.mass/total) + s.filter.logL
	}
	return f.logL - logSum(step)
}
