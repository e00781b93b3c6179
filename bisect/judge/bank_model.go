package judge

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

// Model is the belief about one history: which commit brought the step, how large it is, how the
// machine drifts and how noisy it is. All launches of all commits inform all of it.
//
// Commits that no launch so far tells apart form a set, and each set has a filter of its own that
// takes its members for the culprit. A commit is bad when it is the culprit or descends from it, so
// that on any DAG a set is: the commits that are reached from the same tested commits.
type Model struct {
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

// NewModel begins without a launch. A prior of 0 clears a commit.
func NewModel(commits []bisect.Commit, prior []float64) *Model {
	return newModel(commits, prior, firstNoise)
}

func newModel(commits []bisect.Commit, prior []float64, n Noise) *Model {
	m := &Model{
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

// Add takes in one launch.
func (m *Model) Add(l Launch) {
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
func (m *Model) scaled(i int) Launch {
	l := m.launches[i]
	if i == 0 {
		l.Y = 0
	}
	return l
}

// holds reports whether tested commit i is bad if the culprit lies in set j.
func (m *Model) holds(i, j int) bool {
	return i != GoodEnd && m.sets[j].member >= 0 && m.tested[i][m.sets[j].member]
}

// split parts every set into what commit c reaches and what it does not. Both halves have had the
// same launches, and so the same filter.
func (m *Model) split(c int) {
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
func (m *Model) posterior() []float64 {
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

// top is the likeliest set with its probability.
func (m *Model) top() (j int, p float64) {
	post := m.posterior()
	for i, q := range post {
		if q > p {
			j, p = i, q
		}
	}
	return j, p
}

// Weights returns the probability of each commit to be the culprit.
func (m *Model) Weights() []float64 {
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
func (m *Model) Credible(p float64) []bisect.Suspect {
	var all []bisect.Suspect
	trifle := (1 - p) / float64(len(m.commits)) // all that weigh less add up to less than 1-p
	for i, w := range m.Weights() {
		if m.set[i] >= 0 && w >= trifle {
			all = append(all, bisect.Suspect{Index: i, Probability: w})
		}
	}
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
func (m *Model) Step() (mean, sd float64) {
	post := m.posterior()
	var square float64
	for j, s := range m.sets {
		g := s.filter.belief()
		mean += post[j] * g.step
		square += post[j] * (g.step*g.step + g.vD)
	}
	return mean, math.Sqrt(max(0, square-mean*mean))
}

// badness is the probability of each commit to be bad. What is next to impossible counts for nothing.
func (m *Model) badness() []float64 {
	weights := m.Weights()
	for i, w := range weights {
		if w < 1e-15 {
			weights[i] = 0
		}
	}
	return m.graph.Masses(weights)
}

// bad is the probability that tested commit i is bad.
func (m *Model) bad(i int) float64 {
	sum := 0.0
	for k, w := range m.Weights() {
		if m.tested[i][k] {
			sum += w
		}
	}
	return sum
}

// members lists the commits of set j, oldest first.
func (m *Model) members(j int) []int {
	var out []int
	for i, k := range m.set {
		if k == j {
			out = append(out, i)
		}
	}
	return out
}
