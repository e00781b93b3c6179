package bisect

// Masses returns, for every commit, the total weight of the commits of the range that it reaches,
// itself included. weight is not negative.
func Masses(commits []Commit, weight []float64) []float64 {
	parents := make([][]int, len(commits))
	for i, c := range commits {
		parents[i] = c.InRange
	}
	return masses(parents, weight)
}

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

// masses returns, for every commit of a history, the total weight of the commits that it reaches,
// itself included. parents[i] lists the parents of i, all below i; weight is not negative.
//
// Linear runs are squeezed into strands first: a commit whose only parent has only that one child
// continues its parent's strand, so that a strand is always reached as a whole from outside.
// Reachability among strands is then computed for 64 strands at a time: one pass over all strands
// with one word each. That is E·S/64 word operations and never the full matrix.
func masses(parents [][]int, weight []float64) []float64 {
	g := squeeze(parents, weight)
	below := g.reach()
	out := make([]float64, len(parents))
	for i := range out {
		s := g.strand[i]
		out[i] = below[s] - g.total[s] + g.prefix[i]
	}
	return out
}

// strands is a history with its linear runs joined.
type strands struct {
	strand []int     // of each commit
	prefix []float64 // weight of the commit's strand up to and with the commit
	total  []float64 // weight of each strand
	up     [][]int   // the strands that each strand's first commit descends from
}

func squeeze(parents [][]int, weight []float64) strands {
	children := make([]int, len(parents))
	for _, ps := range parents {
		for _, p := range ps {
			children[p]++
		}
	}
	g := strands{strand: make([]int, len(parents)), prefix: make([]float64, len(parents))}
	for i, ps := range parents {
		if len(ps) == 1 && children[ps[0]] == 1 {
			s := g.strand[ps[0]]
			g.strand[i], g.prefix[i] = s, g.prefix[ps[0]]+weight[i]
			g.total[s] += weight[i]
			continue
		}
		g.strand[i], g.prefix[i] = len(g.total), weight[i]
		g.total = append(g.total, weight[i])
		up := make([]int, 0, len(ps))
		for _, p := range ps {
			up = append(up, g.strand[p])
		}
		g.up = append(g.up, up)
	}
	return g
}

// reach returns the weight that each strand reaches, its own included.
func (g strands) reach() []float64 {
	n := len(g.total)
	sum := make([]float64, n)
	row := make([]uint64, n)
	for first := 0; first < n; first += 64 {
		last := min(first+64, n)
		table := byteSums(g.total[first:last])
		for s := first; s < n; s++ {
			var r uint64
			if s < last {
				r = 1 << (s - first)
			}
			for _, p := range g.up[s] {
				if p >= first { // nothing before the block reaches into it
					r |= row[p]
				}
			}
			row[s] = r
			for b := 0; r != 0; b, r = b+1, r>>8 {
				sum[s] += table[b][r&255]
			}
		}
	}
	return sum
}

// byteSums tabulates the sums of all subsets of up to 64 weights, eight at a time.
func byteSums(w []float64) *[8][256]float64 {
	var t [8][256]float64
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
	return &t
}
