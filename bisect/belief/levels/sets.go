package levels

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// partition divides the commits into sets that no launch tells apart. A commit is bad when it is the culprit or
// descends from it; so, on any DAG, a set is the commits that are reached by the same tested commits (judge.md 2,
// "Bank" and "DAG").
type partition struct {
	commits []bisect.Commit
	graph   *bisect.Graph
	prior   []float64 // of each commit
	of      []int     // the set of each commit; -1 where it cannot be the culprit
	sets    []set     // in order of their oldest commit when made
	tested  [][]bool  // of each commit that was launched: what it reaches; nil for the others

	culprit, below []float64 // weights and badness of the launches so far; nil: not made yet
}

// set is a set of commits that no launch tells apart, with the filter that takes its members for the culprit.
type set struct {
	member int     // one of them
	mass   float64 // of the prior
	size   int
	filter filter
}

func (s *set) take(i int, mass float64) {
	if s.size == 0 {
		s.member = i
	}
	s.size++
	s.mass += mass
}

// newPartition begins with one set, of all commits that the bad end reaches and that the prior does not clear.
func newPartition(commits []bisect.Commit, prior []float64, f filter) partition {
	p := partition{
		commits: commits, graph: bisect.NewGraph(commits), prior: prior,
		of: make([]int, len(commits)), tested: make([][]bool, len(commits)),
	}
	last := len(commits) - 1
	p.tested[last] = bisect.Ancestors(commits, last)
	all := set{member: -1, filter: f}
	for i := range commits {
		p.of[i] = -1
		if prior[i] > 0 && p.tested[last][i] {
			p.of[i] = 0
			all.take(i, prior[i])
		}
	}
	p.sets = []set{all}
	return p
}

// holds reports whether commit i, which has been launched, is bad if the culprit lies in set j.
func (p *partition) holds(i, j int) bool {
	return i != belief.GoodEnd && p.sets[j].member >= 0 && p.tested[i][p.sets[j].member]
}

// reach marks what commit i reaches, itself included.
func (p *partition) reach(i int) []bool {
	if r := p.tested[i]; r != nil {
		return r
	}
	return bisect.Ancestors(p.commits, i)
}

// split divides every set into what commit c reaches and what it does not. Both halves have seen the same launches,
// and so start with the same filter.
func (p *partition) split(c int) {
	reach := bisect.Ancestors(p.commits, c)
	p.tested[c] = reach
	old := len(p.sets)
	in, out := make([]set, old), make([]set, old)
	for i, j := range p.of {
		if j >= 0 && reach[i] {
			in[j].take(i, p.prior[i])
		} else if j >= 0 {
			out[j].take(i, p.prior[i])
		}
	}
	to := make([]int, old) // where the commits that c reaches move to
	for j := range old {
		to[j] = j
		if in[j].size == 0 || out[j].size == 0 {
			continue
		}
		to[j] = len(p.sets)
		in[j].filter, out[j].filter = p.sets[j].filter.clone(), p.sets[j].filter
		p.sets[j] = out[j]
		p.sets = append(p.sets, in[j])
	}
	for i, j := range p.of {
		if j >= 0 && reach[i] {
			p.of[i] = to[j]
		}
	}
}

// divide splits groups of sets, each with a filter of its own, by whether the tested commit c reaches them; both
// slices grow together.
func (p *partition) divide(groups [][]int, filters []filter, c int) ([][]int, []filter) {
	for k, group := range groups {
		var in, out []int
		for _, j := range group {
			if p.holds(c, j) {
				in = append(in, j)
			} else {
				out = append(out, j)
			}
		}
		if len(in) > 0 && len(out) > 0 {
			groups[k] = out
			groups, filters = append(groups, in), append(filters, filters[k].clone())
		}
	}
	return groups, filters
}

// posterior returns the probability of each set: prior mass times likelihood times the probability that its step makes
// things worse.
func (p *partition) posterior() []float64 {
	post := make([]float64, len(p.sets))
	for j, s := range p.sets {
		post[j] = math.Log(s.mass) + s.filter.logL + s.filter.worse()
	}
	total := belief.LogSum(post)
	for j := range post {
		post[j] = math.Exp(post[j] - total)
	}
	return post
}

// top is the likeliest set with its probability.
func (p *partition) top() (j int, probability float64) {
	for i, q := range p.posterior() {
		if q > probability {
			j, probability = i, q
		}
	}
	return j, probability
}

// weights returns the probability of each commit to be the culprit; it must not be written to.
func (p *partition) weights() []float64 {
	if p.culprit != nil {
		return p.culprit
	}
	post := p.posterior()
	w := make([]float64, len(p.commits))
	for i, j := range p.of {
		if j >= 0 {
			w[i] = post[j] * p.prior[i] / p.sets[j].mass
		}
	}
	p.culprit = w
	return w
}

// bad is the probability of commit i to be bad.
func (p *partition) bad(i int) float64 {
	reach, sum := p.reach(i), 0.0
	for k, w := range p.weights() {
		if reach[k] {
			sum += w
		}
	}
	return sum
}

// badness is the probability of each commit to be bad; it must not be written to. What is next to impossible counts
// for nothing, so that rounding does not make suspects.
func (p *partition) badness() []float64 {
	if p.below == nil {
		weights := slices.Clone(p.weights())
		for i, w := range weights {
			if w < 1e-15 {
				weights[i] = 0
			}
		}
		p.graph.ToMasses(weights)
		p.below = weights
	}
	return p.below
}

// members lists the commits of set j, oldest first.
func (p *partition) members(j int) []int {
	var out []int
	for i, k := range p.of {
		if k == j {
			out = append(out, i)
		}
	}
	return out
}
