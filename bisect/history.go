package bisect

import (
	"fmt"
	"math"
	"slices"
)

// Commit is one commit of the range under search, as plain data.
type Commit struct {
	ID      string
	Parents []string // all parents, in git's order, inside the range or not
	InRange []int    // indices of the parents inside the range; each below the commit's own
	Key     string   // fingerprint of the inputs that build and run read; equal keys share one answer
	Neutral bool     // inputs equal to those of every parent: never a culprit, never built
	Prior   float64  // relative weight as a culprit; 0 stands for 1
}

// History is the state of a search for the first bad commit: who is still suspected, and what to
// test next. The range excludes everything that the good end reaches; its last commit is the bad
// end. A commit is bad when it is the culprit or descends from it.
type History struct {
	commits []Commit
	state   []state
	skipped []bool
	ratio   float64 // what a bad answer costs, in units of a good one
	spare   int     // tests left beyond those of even splits
}

type state byte

const (
	suspect  state = iota // every bad commit reaches it and no good one does
	innocent              // a good commit reaches it
	beside                // some bad commit does not reach it
)

// spread is the assumed chance that the neighbour of an untestable commit is untestable too:
// broken commits come in runs, from the change that broke the build to the one that fixed it.
const spread = 0.8

// unequal is the ratio of the costs of the two answers from which the split is uneven. Below it an
// uneven split saves less than a tenth, and a search that takes no more tests than git bisect is worth
// more. spareTests are how many more it may take where a bad answer is dearer than that.
const (
	unequal    = 3
	spareTests = 4
)

// NewHistory begins a search over commits, which must stand parents first with the bad end last.
func NewHistory(commits []Commit) (*History, error) {
	if len(commits) == 0 {
		return nil, fmt.Errorf("the range holds no commits")
	}
	for i, c := range commits {
		for _, p := range c.InRange {
			if p < 0 || p >= i {
				return nil, fmt.Errorf("commit %d (%s) does not stand after its parent %d", i, c.ID, p)
			}
		}
	}
	h := &History{commits: commits, state: make([]state, len(commits)), skipped: make([]bool, len(commits)), spare: spareTests}
	h.Bad(len(commits) - 1)
	return h, nil
}

// clone copies the state of a search.
func (h *History) clone() *History {
	out := *h
	out.state, out.skipped = slices.Clone(h.state), slices.Clone(h.skipped)
	return &out
}

// Costs tells what a bad answer is expected to cost, in units of a good one. Where that is much, Next
// asks for commits that are more likely good, so that fewer answers are bad ones.
func (h *History) Costs(bad float64) { h.ratio = bad }

// Len is the number of commits in the range.
func (h *History) Len() int { return len(h.commits) }

// Good clears commit i and all its ancestors.
func (h *History) Good(i int) {
	for j, in := range h.ancestors(i) {
		if in {
			h.state[j] = innocent
		}
	}
}

// Bad clears every suspect that commit i does not reach. It changes nothing and returns false when
// no suspect would be left: the history is not monotone there, or holds several steps, and the
// search keeps to one of them.
func (h *History) Bad(i int) bool {
	in := h.ancestors(i)
	left := false
	for j, s := range h.state {
		left = left || s == suspect && in[j] && !h.commits[j].Neutral
	}
	if !left {
		return false
	}
	for j := range h.state {
		if h.state[j] == suspect && !in[j] {
			h.state[j] = beside
		}
	}
	return true
}

// Skip marks commit i as untestable: it stays a suspect and is not asked for again.
func (h *History) Skip(i int) { h.skipped[i] = true }

// Suspected reports whether commit i may still be the culprit.
func (h *History) Suspected(i int) bool { return h.state[i] == suspect && !h.commits[i].Neutral }

// ancestors marks i and everything that it reaches inside the range.
func (h *History) ancestors(i int) []bool { return Ancestors(h.commits, i) }

// Suspect is a commit that may be the culprit, with its probability.
type Suspect struct {
	Index       int
	Probability float64
}

// Suspects lists the commits that may still be the culprit, oldest first.
func (h *History) Suspects() []Suspect {
	var out []Suspect
	var total float64
	for i := range h.commits {
		if h.Suspected(i) {
			out = append(out, Suspect{i, h.weight(i)})
			total += h.weight(i)
		}
	}
	for i := range out {
		out[i].Probability /= total
	}
	return out
}

// Remaining is the number of suspects.
func (h *History) Remaining() int {
	n := 0
	for i := range h.commits {
		if h.Suspected(i) {
			n++
		}
	}
	return n
}

func (h *History) weight(i int) float64 {
	switch {
	case !h.Suspected(i):
		return 0
	case h.commits[i].Prior > 0:
		return h.commits[i].Prior
	}
	return 1
}

// Next returns the commit to test: the suspect that splits the weight of the suspects most evenly,
// exact on the DAG; where a bad answer costs much more than a good one ([History.Costs]), the one that
// promises most information for its expected cost. Near untestable commits the expected gain counts the chance that this one
// is untestable as well, so that the search leaves a run of broken commits instead of walking through it.
// When no suspect can be tested, a commit beside them may still tell them apart.
// ok is false when nothing does.
func (h *History) Next() (next int, ok bool) {
	if next, ok = h.best(h.with(suspect)); ok {
		return next, true
	}
	return h.best(h.with(suspect, beside))
}

// best picks among the listed commits, oldest first.
func (h *History) best(list []int) (next int, ok bool) {
	parents := h.induced(list)
	weight := make([]float64, len(list))
	total := 0.0
	for i, c := range list {
		weight[i] = h.weight(c)
		total += weight[i]
	}
	mass := masses(parents, weight)
	far := h.distances(list, parents)
	best, worst := 0.0, 0.0
	for i, c := range list {
		if h.skipped[c] || h.commits[c].Neutral {
			continue
		}
		if v := h.gain(mass[i], total, far[i]); v > best*(1+1e-12) {
			best, next, ok = v, c, true
			worst = max(mass[i], total-mass[i])
		}
	}
	if h.ratio >= unequal && ok {
		h.spare -= max(0, 1+halvings(worst)-halvings(total))
	}
	return next, ok
}

// halvings is how many even splits part a weight down to one of 1.
func halvings(weight float64) int { return int(math.Ceil(math.Log2(max(1, weight)) - 1e-9)) }

// gain is the worth of testing a commit on whose side lies mass of total, distance steps away from
// the nearest untestable commit (0: there is none).
func (h *History) gain(mass, total float64, distance int) float64 {
	even := min(mass, total-mass)
	if even <= 1e-12*total {
		return 0
	}
	uneven := h.ratio >= unequal && 1+halvings(max(mass, total-mass))-halvings(total) <= h.spare
	if distance == 0 && h.ratio < unequal {
		return even
	}
	p := even / total
	bits := -p*math.Log2(p) - (1-p)*math.Log2(1-p)
	switch {
	case uneven:
		p = mass / total
		bits /= p*h.ratio + 1 - p
	case h.ratio >= unequal:
		bits /= 1e3 * h.ratio // only where nothing is within the spare tests
	}
	if distance > 0 {
		bits *= 1 - math.Pow(spread, float64(distance))
	}
	return bits
}

// with lists the commits in one of the states, oldest first.
func (h *History) with(states ...state) []int {
	var out []int
	for i, s := range h.state {
		if slices.Contains(states, s) {
			out = append(out, i)
		}
	}
	return out
}

// induced returns the parents of the listed commits among the listed commits, by position.
func (h *History) induced(list []int) [][]int {
	at := make([]int, len(h.commits)) // position + 1
	parents := make([][]int, len(list))
	for i, c := range list {
		at[c] = i + 1
		for _, p := range h.commits[c].InRange {
			if at[p] > 0 {
				parents[i] = append(parents[i], at[p]-1)
			}
		}
	}
	return parents
}

// distances returns how many steps along the history lie between each listed commit and the
// nearest untestable one; 0 everywhere when there is none.
func (h *History) distances(left []int, parents [][]int) []int {
	far := make([]int, len(left))
	var queue []int
	for i, c := range left {
		if h.skipped[c] {
			queue = append(queue, i)
		}
	}
	if len(queue) == 0 {
		return far
	}
	near := make([][]int, len(left))
	for i, ps := range parents {
		near[i] = append(near[i], ps...)
		for _, p := range ps {
			near[p] = append(near[p], i)
		}
	}
	for i := range far {
		far[i] = len(left) + 1 // not connected: as good as far away
	}
	for _, i := range queue {
		far[i] = 0
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, j := range near[queue[0]] {
			if far[j] > len(left) {
				far[j] = far[queue[0]] + 1
				queue = append(queue, j)
			}
		}
	}
	return far
}
