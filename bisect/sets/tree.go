package sets

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// mostTree is the largest number of places for which the optimal tree is worked out.
const mostTree = 400

// prices are the mean costs of an answer, in seconds.
type prices struct{ fail, pass float64 }

// cut says where to test next when the place looked for is i with weight w[i]: a failure leaves the
// places up to the cut, a pass those behind it. There are at least two places.
func cut(w []float64, c prices) int {
	total := 0.0
	for _, x := range w {
		total += x
	}
	switch {
	case !(total > 0):
		return middle(len(w))
	case len(w) > mostTree:
		return fraction(w, failShare(c.fail/c.pass)*total)
	}
	return treeCut(w, c)
}

// Cuts keeps the cuts that were worked out, for searches that take the same way again. It serves one
// goroutine.
type Cuts map[string]int

// at is cut, worked out once.
func (c Cuts) at(w []float64, p prices) int {
	if c == nil {
		return cut(w, p)
	}
	key := make([]byte, 0, 8*len(w)+16)
	for _, x := range append([]float64{p.fail, p.pass}, w...) {
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(x))
	}
	m, ok := c[string(key)]
	if !ok {
		m = cut(w, p)
		c[string(key)] = m
	}
	return m
}

// middle is the cut that halves n places.
func middle(n int) int { return n/2 - 1 }

// treeCut is the first cut of the optimal alphabetic tree with unequal prices of the two answers:
// C[a][b] = min over m of C[a][m] + C[m+1][b] + fail·W(a..m) + pass·W(m+1..b). It takes n³/6 steps.
func treeCut(w []float64, c prices) int {
	n := len(w)
	sum := make([]float64, n+1)
	for i, x := range w {
		sum[i+1] = sum[i] + x
	}
	left := make([]float64, n*n)  // left[a*n+b] = C[a][b]
	right := make([]float64, n*n) // right[b*n+a] = C[a][b]: the inner loop reads both in order
	first := 0
	for a := n - 2; a >= 0; a-- {
		for b := a + 1; b < n; b++ {
			best, at := math.Inf(1), 0
			row, col := left[a*n:a*n+n], right[b*n:b*n+n]
			for m := a; m < b; m++ {
				v := row[m] + col[m+1] + (c.fail-c.pass)*sum[m+1]
				if v < best {
					best, at = v, m
				}
			}
			best += c.pass*sum[b+1] - c.fail*sum[a]
			left[a*n+b], right[b*n+a] = best, best
			first = at // the last pair worked out is the whole
		}
	}
	return first
}

// fraction is the cut whose weight in front is nearest to share, and leaves something on both sides.
func fraction(w []float64, share float64) int {
	sum := 0.0
	for m, x := range w[:len(w)-1] {
		if sum+x/2 >= share && m > 0 {
			return m - 1
		}
		sum += x
	}
	return len(w) - 2
}

// failShare is the best chance of a failure when one costs r times a pass and places are many: the
// code whose two letters have lengths r and 1, z^r + z = 1, uses the long one z^r of the time.
func failShare(r float64) float64 {
	lo, hi := 0.0, 1.0
	for range 60 {
		if z := (lo + hi) / 2; math.Pow(z, r)+z < 1 {
			lo = z
		} else {
			hi = z
		}
	}
	return 1 - lo
}

// ceilLog2 is the number of halvings that single out one of n.
func ceilLog2(n int) int {
	if n < 2 {
		return 0
	}
	return bits.Len(uint(n - 1))
}
