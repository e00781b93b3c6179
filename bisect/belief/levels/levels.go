// Package levels holds what launches say about a metric.
//
// [Belief] says which commit brought the step, how large it is, how the machine drifts and how noisy it is (judge.md 2,
// a bank of Kalman filters). Metrics without noise are levels that one launch settles, see [NewExact].
//
// [StepTest] is the fresh test of one claim by pairs of launches. [Profile] gives the levels of commits without a
// history that ties them together. [Diagnose] says what is wrong with the machine.
//
// The package sees numbers, times and the shape of a history. It must not know where a number comes from, or what a
// search does with its answers. Levels and steps are logarithms, larger is worse; times are seconds since the job
// began.
package levels

import (
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Belief is the belief about one history: which commit brought the step, how large it is, how the machine drifts and
// how noisy it is. All launches of all commits inform all of it; it implements belief.Belief.
//
// Commits that no launch so far tells apart form a set, and each set has a filter of its own that takes its members
// for the culprit (partition). A launch of a new commit splits sets; a new fit of the noise runs all launches through
// all filters again.
type Belief struct {
	parts    partition
	launches []belief.Launch
	noise    Noise
	refitAt  int       // number of launches at which the noise is fitted again
	offset   []float64 // by commit, added to its launches; nil: none
}

// New begins without a launch. A prior of 0 clears a commit.
func New(commits []bisect.Commit, prior []float64) *Belief {
	return begin(commits, prior, firstNoise)
}

// NewExact begins a belief about numbers without noise, where the ends differ by step. The first launch must be of the
// good end: it is the zero of the scale.
func NewExact(commits []bisect.Commit, prior []float64, step float64) *Belief {
	return begin(commits, prior, exactly(step))
}

func begin(commits []bisect.Commit, prior []float64, n Noise) *Belief {
	return &Belief{parts: newPartition(commits, prior, newFilter(n)), noise: n, refitAt: FirstFit}
}

// Noise is what the launches so far scatter by.
func (m *Belief) Noise() Noise { return m.noise }

// Launches is the number of launches taken in.
func (m *Belief) Launches() int { return len(m.launches) }

// Offset sets what is added to every later launch of a commit, by its index: known steps are taken off that way.
func (m *Belief) Offset(by []float64) { m.offset = by }

// Add takes in one launch.
func (m *Belief) Add(l belief.Launch) {
	if m.offset != nil && l.Index != belief.GoodEnd {
		l.Y += m.offset[l.Index]
	}
	if len(m.launches) > 0 {
		l.Y -= m.launches[0].Y // the first launch is the zero of the scale
	}
	m.parts.culprit, m.parts.below = nil, nil
	if l.Index != belief.GoodEnd && m.parts.tested[l.Index] == nil {
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
func (m *Belief) scaled(i int) belief.Launch {
	l := m.launches[i]
	if i == 0 {
		l.Y = 0
	}
	return l
}

// Top is the likeliest set of commits that no launch tells apart, oldest first, with its probability.
func (m *Belief) Top() (members []int, p float64) {
	j, p := m.parts.top()
	return m.parts.members(j), p
}

// Decided returns the commits that hold the culprit with probability 1-delta and that no usable commit tells apart.
func (m *Belief) Decided(delta float64, usable func(int) bool) (members []int, ok bool) {
	j, p := m.parts.top()
	if p < 1-delta {
		return nil, false
	}
	members = m.parts.members(j)
	return members, !m.Parted(members, usable)
}

// Parted reports that some usable commit would tell the members of a set apart.
func (m *Belief) Parted(members []int, usable func(int) bool) bool {
	return belief.Parted(m.parts.graph, len(m.parts.commits), members, usable)
}

// Weights returns the probability of each commit to be the culprit.
func (m *Belief) Weights() []float64 { return m.parts.weights() }

// Bad is the probability that commit i is bad.
func (m *Belief) Bad(i int) float64 { return m.parts.bad(i) }

// Credible lists the likeliest commits that together hold the share p, oldest first.
func (m *Belief) Credible(p float64) []bisect.Suspect {
	return belief.Likeliest(m.parts.weights(), p)
}

// Misfit implements Belief.
func (m *Belief) Misfit(int) belief.Misfit { return checkLevels(m) }

// Step is the size of the step with its standard deviation, averaged over the sets by their probabilities.
func (m *Belief) Step() (mean, sd float64) {
	post := m.parts.posterior()
	var square float64
	for j, s := range m.parts.sets {
		g := s.filter.merged()
		mean += post[j] * g.step
		square += post[j] * (g.step*g.step + g.vD)
	}
	return mean, math.Sqrt(max(0, square-mean*mean))
}

// furthest is how far a launch was off the median of its side at most, as the likeliest set sees the sides.
func furthest(m *Belief) (most float64) {
	s := m.seen(len(m.launches))
	for _, bad := range []bool{false, true} {
		var y []float64
		for i, l := range s.launches {
			if s.bad[i] == bad {
				y = append(y, l.Y)
			}
		}
		middle := metric.Median(y)
		for _, v := range y {
			most = max(most, math.Abs(v-middle))
		}
	}
	return most
}

// EndsOff reports that launches of an end lie off the others of its side, as the likeliest set sees the sides, by far more than
// launches scatter and by a fair part of the step: either those were disturbed, or the machine changes in a way that is not
// seen through yet.
func EndsOff(m *Belief) bool {
	const far = 5 // standard deviations of a launch
	s := m.seen(len(m.launches))
	d, _ := m.Step()
	for _, bad := range []bool{false, true} {
		var end, others []float64
		for i, l := range s.launches {
			switch {
			case s.bad[i] != bad:
			case l.Index == belief.GoodEnd || l.Index == len(m.parts.commits)-1:
				end = append(end, l.Y)
			default:
				others = append(others, l.Y)
			}
		}
		if len(end) > 0 && len(others) > 0 && math.Abs(metric.Median(end)-metric.Median(others)) > max(far*m.noise.SD, d/nearLevel) {
			return true
		}
	}
	return false
}

// MidLaunch says what a launch of a commit in the middle of the suspects would tell of a step, in nats, and the
// variance of such a launch, drift since the one before included.
func (m *Belief) MidLaunch(step float64) (info, variance float64) {
	gap := 0.0 // mean time between two launches, seconds
	if n := len(m.launches); n >= 2 {
		gap = (m.launches[n-1].At - m.launches[0].At) / float64(n-1)
	}
	variance = m.noise.effective() + m.noise.Rate*gap
	return view{weight: 1, sum: step / 2, squares: step * step / 2, bad: 0.5, entropy: -1, chance: 1}.information(variance), variance
}

// RampOdds is the logarithm of the odds of an even ramp against one step (judge.md 7, "ramp"). On a ramp, a commit
// shows that share of the step which the commits up to it have of the prior.
func (m *Belief) RampOdds() float64 {
	mass := m.parts.graph.Masses(m.parts.prior)
	total := mass[len(mass)-1]
	f := newFilter(m.noise)
	for i := range m.launches {
		l := m.scaled(i)
		x := 0.0
		if l.Index != belief.GoodEnd {
			x = mass[l.Index] / total
		}
		f.take(l, x, m.noise)
	}
	step := make([]float64, len(m.parts.sets))
	for j, s := range m.parts.sets {
		step[j] = math.Log(s.mass/total) + s.filter.logL
	}
	return f.logL - belief.LogSum(step)
}
