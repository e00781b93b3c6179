package bisect

import "slices"

// Graph is the shape of a history, prepared for many questions about what its commits reach. It is never changed after
// NewGraph.
type Graph struct{ strands strands }

// NewGraph prepares a range, whose commits must stand behind their parents.
func NewGraph(commits []Commit) *Graph {
	parents := make([][]int, len(commits))
	for i, c := range commits {
		parents[i] = c.InRange
	}
	return &Graph{squeeze(parents)}
}

// Masses returns, for every commit, the total weight of the commits of the range that it reaches,
// itself included.
func (g *Graph) Masses(weight []float64) []float64 {
	out := slices.Clone(weight)
	g.strands.masses(out)
	return out
}

// ToMasses is Masses in place: it replaces the weights.
func (g *Graph) ToMasses(weight []float64) { g.strands.masses(weight) }

// Ancestors marks commit i and everything that it reaches inside the range.
func Ancestors(commits []Commit, i int) []bool {
	in := make([]bool, len(commits))
	in[i] = true
	for j := i; j >= 0; j-- {
		if in[j] {
			for _, p := range commits[j].InRange {
				in[p] = true
			}
		}
	}
	return in
}

// strands is a history with its linear runs joined: a commit whose only parent has only that one
// child continues its parent's strand, so that a strand is always reached as a whole from outside.
type strands struct {
	strand []int   // of each commit
	before []int   // the commit before it in its strand, or -1
	up     [][]int // the strands that each strand's first commit descends from
	last   []int   // the last strand that descends directly from each; itself where none does
}

func squeeze(parents [][]int) strands {
	children := make([]int, len(parents))
	for _, ps := range parents {
		for _, p := range ps {
			children[p]++
		}
	}
	g := strands{strand: make([]int, len(parents)), before: make([]int, len(parents))}
	for i, ps := range parents {
		if len(ps) == 1 && children[ps[0]] == 1 {
			g.strand[i], g.before[i] = g.strand[ps[0]], ps[0]
			continue
		}
		g.strand[i], g.before[i] = len(g.up), -1
		up := make([]int, 0, len(ps))
		for _, p := range ps {
			if s := g.strand[p]; !slices.Contains(up, s) {
				up = append(up, s)
			}
		}
		g.up, g.last = append(g.up, up), append(g.last, len(g.up))
		for _, p := range up {
			g.last[p] = len(g.up) - 1
		}
	}
	return g
}

// masses replaces the weight of each commit by the total weight that it reaches.
func (g strands) masses(weight []float64) {
	total := make([]float64, len(g.up))
	for i, w := range weight {
		if b := g.before[i]; b >= 0 {
			weight[i] += weight[b] // of the commit's strand, up to and with the commit
		}
		total[g.strand[i]] += w
	}
	below := g.reach(total)
	for i, s := range g.strand {
		weight[i] += below[s] - total[s]
	}
}

// reach returns the weight that each strand reaches, its own included. Reachability is computed for 64 strands at a
// time: one pass over the strands after them, with one word each, which ends once everything that later strands
// descend from reaches the whole block. That takes E·S/64 word operations at most and never the full matrix; strands
// without weight cost nothing.
func (g strands) reach(total []float64) []float64 {
	n, root := len(total), 0                                 // root: the last strand whose parent is the good end
	sum, onwards := make([]float64, n), make([]float64, n+1) // onwards: of a strand and all after it
	row := make([]uint64, n)
	open := make([]int, n+1) // what stands before a strand, the good end too, and is a parent of it or of a later one
	for s, last := range g.last {
		open[s+1]++
		open[last+1]--
		if len(g.up[s]) == 0 {
			root = s
		}
	}
	open[0]++
	open[root+1]--
	for s := range n {
		open[s+1] += open[s]
	}
	var table [8][256]float64
	for first := 0; first < n; first += 64 {
		last := min(first+64, n)
		if !slices.ContainsFunc(total[first:last], func(w float64) bool { return w != 0 }) {
			continue
		}
		byteSums(total[first:last], &table)
		all, whole := ^uint64(0)>>(64-(last-first)), 0.0
		for b := range table {
			whole += table[b][255]
		}
		full := 0 // of the open strands, those that reach all of the block
		for s := first; s < n; s++ {
			if s >= last && full == open[s] {
				onwards[s] += whole
				break
			}
			var r uint64
			if s < last {
				r = 1 << (s - first)
			}
			for _, p := range g.up[s] {
				if p >= first { // nothing before the block reaches into it
					r |= row[p]
					if g.last[p] == s && row[p] == all {
						full--
					}
				}
			}
			if row[s] = r; r == all { // as what comes after a merge does
				sum[s] += whole
				if g.last[s] > s {
					full++
				}
				continue
			}
			for b := 0; r != 0; b, r = b+1, r>>8 {
				sum[s] += table[b][r&255]
			}
		}
	}
	after := 0.0
	for s := range sum {
		after += onwards[s]
		sum[s] += after
	}
	return sum
}

// byteSums tabulates in t the sums of all subsets of up to 64 weights, eight at a time.
func byteSums(w []float64, t *[8][256]float64) {
	for b := range t {
		for bit := range 8 {
			if i := 8*b + bit; i < len(w) {
				for v := 1 << bit; v < 2<<bit; v++ {
					t[b][v] = t[b][v-1<<bit] + w[i]
				}
			} else {
				for v := 1 << bit; v < 2<<bit; v++ {
					t[b][v] = t[b][v-1<<bit]
				}
			}
		}
	}
}

// Distances returns how many steps along the history, in either direction, lie between each commit and the nearest of
// some others; len(commits)+1 where none is connected.
func Distances(commits []Commit, from []int) []int {
	near := make([][]int, len(commits))
	for i, c := range commits {
		for _, p := range c.InRange {
			near[i], near[p] = append(near[i], p), append(near[p], i)
		}
	}
	far := make([]int, len(commits))
	for i := range far {
		far[i] = len(commits) + 1
	}
	for _, i := range from {
		far[i] = 0
	}
	for queue := slices.Clone(from); len(queue) > 0; queue = queue[1:] {
		for _, j := range near[queue[0]] {
			if far[j] > len(commits) {
				far[j] = far[queue[0]] + 1
				queue = append(queue, j)
			}
		}
	}
	return far
}
