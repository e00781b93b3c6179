package odds

import (
	"encoding/binary"
	"math"
)

// MostTree is the largest number of places for which the optimal tree is worked out, which takes n³/6 steps (sets.md
// 4a).
const MostTree = 400

// Prices are the mean costs of the two answers of a test, in seconds.
type Prices struct{ Fail, Pass float64 }

// Cut says where to test next when the place looked for is i with weight w[i]: a failure leaves the places up to the
// cut, a pass those behind it. There must be at least two places. A memo that is not nil keeps the cuts that were
// worked out; it is not safe for concurrent use.
func Cut(w []float64, c Prices, memo map[string]int) int {
	if memo == nil {
		return cut(w, c)
	}
	key := make([]byte, 0, 8*len(w)+16)
	for _, x := range append([]float64{c.Fail, c.Pass}, w...) {
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(x))
	}
	m, ok := memo[string(key)]
	if !ok {
		m = cut(w, c)
		memo[string(key)] = m
	}
	return m
}

// cut chooses the method: halves where nothing is believed, the optimal tree, or its share where that takes too long.
func cut(w []float64, c Prices) int {
	total := 0.0
	for _, x := range w {
		total += x
	}
	switch {
	case !(total > 0):
		return Middle(len(w))
	case len(w) > MostTree:
		return fraction(w, failShare(c.Fail/c.Pass)*total)
	}
	return treeCut(w, c)
}

// Middle is the cut that halves n places.
func Middle(n int) int { return n/2 - 1 }

// Least is the smallest m from lo to hi at which something holds, by halving. It must hold at hi, and go on holding
// once it does; it is not asked at hi. An error is that of holds.
func Least(lo, hi int, holds func(m int) (bool, error)) (int, error) {
	for lo < hi {
		m := lo + Middle(hi-lo+1)
		yes, err := holds(m)
		switch {
		case err != nil:
			return 0, err
		case yes:
			hi = m
		default:
			lo = m + 1
		}
	}
	return lo, nil
}

// treeCut is the first cut of the optimal alphabetic tree with unequal prices of the two answers:
// C[a][b] = min over m of C[a][m] + C[m+1][b] + fail·W(a..m) + pass·W(m+1..b). It takes n³/6 steps.
func treeCut(w []float64, c Prices) int {
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
				v := row[m] + col[m+1] + (c.Fail-c.Pass)*sum[m+1]
				if v < best {
					best, at = v, m
				}
			}
			best += c.Pass*sum[b+1] - c.Fail*sum[a]
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

// failShare is the best chance of a failure when one costs r times a pass and places are many: in the
// cheapest code of two letters of lengths r and 1 (Varn 1971) the long one has probability z^r, where
// z^r + z = 1.
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
