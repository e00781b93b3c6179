// Package belief holds what launches say about where a change is.
//
// [Levels] is the belief about a metric: which commit brought the step, how large it is, how the machine drifts and
// how noisy it is (judge.md 2, a bank of Kalman filters). Metrics without noise are levels that one launch settles,
// see [NewExactLevels]. [Failures] is the belief about launches that fail or pass at two unknown rates (judge.md 7).
// [StepTest] is the fresh test of one claim by pairs of launches. [Profile] gives the levels of commits
// without a history that ties them together. [Diagnose], [Examine] and [DeviceLog] say what is wrong with
// the machine.
//
// A belief knows launches and their times. It never sees a commit's name, a file or a clock of its own, it
// launches nothing, and the same launches give the same belief.
package belief

import (
	"cmp"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// GoodEnd stands for the good end where a launch names its commit by its index in the range.
const GoodEnd = -1

// Launch is one launch as the model sees it. A list of launches is the whole state of a search: the
// same list leads to the same decisions.
type Launch struct {
	Index    int     // of the commit in the range, or GoodEnd
	At       float64 // seconds since the job began
	Y        float64 // logarithm of the metric, larger is worse
	Censored bool    // Y is a bound: the launch was stopped, and would have shown more
}

// Levels is the belief about one history: which commit brought the step, how large it is, how the
// machine drifts and how noisy it is. All launches of all commits inform all of it.
//
// Commits that no launch so far tells apart form a set, and each set has a filter of its own that
// takes its members for the culprit. A commit is bad when it is the culprit or descends from it, so
// that on any DAG a set is: the commits that are reached from the same tested commits.
type Levels struct {
	commits  []bisect.Commit
	graph    *bisect.Graph
	prior    []float64 // of each commit
	set      []int     // of each commit; -1 where it cannot be the culprit
	sets     []set     // in order of their oldest commit when made
	tested   [][]bool  // of each commit that was launched: what it reaches
	launches []Launch
	noise    Noise
	refitAt  int       // number of launches at which the noise is fitted again
	offset   []float64 // by commit, added to its launches; nil: none
}

// set is a set of commits that no launch tells apart.
type set struct {
	member int     // one of them
	mass   float64 // of the prior
	size   int
	filter filter
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
	m := &Levels{
		commits: commits, graph: bisect.NewGraph(commits), prior: prior, noise: n, refitAt: firstFit,
		set: make([]int, len(commits)), tested: make([][]bool, len(commits)),
	}
	last := len(commits) - 1
	m.tested[last] = bisect.Ancestors(commits, last)
	all := set{member: -1, filter: newFilter(n)}
	for i := range commits {
		m.set[i] = -1
		if prior[i] > 0 && m.tested[last][i] {
			m.set[i] = 0
			all.take(i, prior[i])
		}
	}
	m.sets = []set{all}
	return m
}

func (s *set) take(i int, mass float64) {
	if s.size == 0 {
		s.member = i
	}
	s.size++
	s.mass += mass
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
	if l.Index != GoodEnd && m.tested[l.Index] == nil {
		m.split(l.Index)
	}
	kept := l
	if len(m.launches) == 0 {
		l.Y = 0
	}
	if m.noise.Exact {
		l.Y = m.noise.nearer(l.Y)
	}
	m.launches = append(m.launches, kept)
	for j := range m.sets {
		m.sets[j].filter.add(l, m.holds(l.Index, j), m.noise)
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

// holds reports whether tested commit i is bad if the culprit lies in set j.
func (m *Levels) holds(i, j int) bool {
	return i != GoodEnd && m.sets[j].member >= 0 && m.tested[i][m.sets[j].member]
}

// split parts every set into what commit c reaches and what it does not. Both halves have had the
// same launches, and so the same filter.
func (m *Levels) split(c int) {
	reach := bisect.Ancestors(m.commits, c)
	m.tested[c] = reach
	old := len(m.sets)
	in, out := make([]set, old), make([]set, old)
	for i, j := range m.set {
		if j >= 0 && reach[i] {
			in[j].take(i, m.prior[i])
		} else if j >= 0 {
			out[j].take(i, m.prior[i])
		}
	}
	to := make([]int, old) // where the commits that c reaches move to
	for j := range old {
		to[j] = j
		if in[j].size == 0 || out[j].size == 0 {
			continue
		}
		to[j] = len(m.sets)
		in[j].filter, out[j].filter = m.sets[j].filter.clone(), m.sets[j].filter
		m.sets[j] = out[j]
		m.sets = append(m.sets, in[j])
	}
	for i, j := range m.set {
		if j >= 0 && reach[i] {
			m.set[i] = to[j]
		}
	}
}

// posterior returns the probability of each set: prior mass times likelihood.
func (m *Levels) posterior() []float64 {
	p := make([]float64, len(m.sets))
	for j, s := range m.sets {
		p[j] = math.Log(s.mass) + s.filter.logL
	}
	total := logSum(p)
	for j := range p {
		p[j] = math.Exp(p[j] - total)
	}
	return p
}

// Top is the likeliest set with its probability.
func (m *Levels) Top() (j int, p float64) {
	post := m.posterior()
	for i, q := range post {
		if q > p {
			j, p = i, q
		}
	}
	return j, p
}

// Weights returns the probability of each commit to be the culprit.
func (m *Levels) Weights() []float64 {
	post := m.posterior()
	w := make([]float64, len(m.commits))
	for i, j := range m.set {
		if j >= 0 {
			w[i] = post[j] * m.prior[i] / m.sets[j].mass
		}
	}
	return w
}

// Credible lists the likeliest commits that together hold the share p, oldest first.
func (m *Levels) Credible(p float64) []bisect.Suspect {
	var all []bisect.Suspect
	trifle := (1 - p) / float64(len(m.commits)) // all that weigh less add up to less than 1-p
	for i, w := range m.Weights() {
		if m.set[i] >= 0 && w >= trifle {
			all = append(all, bisect.Suspect{Index: i, Probability: w})
		}
	}
	return likeliest(all, p)
}

// likeliest keeps the likeliest suspects that together reach the probability p, oldest first.
func likeliest(all []bisect.Suspect, p float64) []bisect.Suspect {
	slices.SortStableFunc(all, func(a, b bisect.Suspect) int { return cmp.Compare(b.Probability, a.Probability) })
	sum, n := 0.0, 0
	for n < len(all) && sum < p {
		sum += all[n].Probability
		n++
	}
	all = all[:n]
	slices.SortFunc(all, func(a, b bisect.Suspect) int { return cmp.Compare(a.Index, b.Index) })
	return all
}

// Step is the size of the step with its standard deviation, averaged over the sets.
func (m *Levels) Step() (mean, sd float64) {
	post := m.posterior()
	var square float64
	for j, s := range m.sets {
		g := s.filter.merged()
		mean += post[j] * g.step
		square += post[j] * (g.step*g.step + g.vD)
	}
	return mean, math.Sqrt(max(0, square-mean*mean))
}

// badness is the probability of each commit to be bad. What is next to impossible counts for nothing.
func (m *Levels) badness() []float64 {
	weights := m.Weights()
	for i, w := range weights {
		if w < 1e-15 {
			weights[i] = 0
		}
	}
	return m.graph.Masses(weights)
}

// Bad is the probability that tested commit i is bad.
func (m *Levels) Bad(i int) float64 {
	sum := 0.0
	for k, w := range m.Weights() {
		if m.tested[i][k] {
			sum += w
		}
	}
	return sum
}

// Members lists the commits of set j, oldest first.
func (m *Levels) Members(j int) []int {
	var out []int
	for i, k := range m.set {
		if k == j {
			out = append(out, i)
		}
	}
	return out
}
