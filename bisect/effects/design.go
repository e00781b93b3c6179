package effects

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// baseEvery is how many runs of a design lie between two of the base configuration, which show what the machine itself
// does meanwhile (sets.md 4d).
const baseEvery = 8

// hadamard returns a square matrix of +1 and -1 whose rows, and columns, are orthogonal, with +1 along its first row
// and column; nil where it knows none. It knows the orders that the constructions of Sylvester (1867) and Paley (1933)
// reach, and doublings of these: up to 72 all multiples of 4 but 52.
func hadamard(n int) [][]int8 {
	var h [][]int8
	switch {
	case n <= 16 && bits.OnesCount(uint(n)) == 1:
		return sylvester(n)
	case n%4 != 0:
		return nil
	case prime(n-1) && (n-1)%4 == 3:
		h = paley(n - 1)
	case prime(n/2-1) && (n/2-1)%4 == 1:
		h = paleyTwo(n/2 - 1)
	default:
		half := hadamard(n / 2)
		if half == nil {
			return nil
		}
		h = kronecker(half, sylvester(2))
	}
	normalise(h)
	return h
}

// designSize is the smallest order from n upwards that hadamard knows.
func designSize(n int) int {
	for hadamard(n) == nil {
		n++
	}
	return n
}

// sylvester is the matrix of Sylvester (1867) for a power of two.
func sylvester(n int) [][]int8 {
	h := square(n)
	for i := range h {
		for j := range h {
			h[i][j] = 1 - 2*int8(bits.OnesCount(uint(i&j))%2)
		}
	}
	return h
}

// conference is the matrix of order q+1 from which both of Paley's constructions start: quadratic residues modulo a
// prime q, bordered, with a zero diagonal and orthogonal rows. It is symmetric for q = 1 modulo 4 and skew for q = 3.
func conference(q int) [][]int8 {
	residue := make([]int8, q)
	for i := range residue {
		residue[i] = -1
	}
	for i := range q {
		residue[i*i%q] = 1
	}
	residue[0] = 0
	c := square(q + 1)
	for i := range q {
		c[0][i+1], c[i+1][0] = 1, residue[q-1] // -1 is a residue for q = 1 only
		for j := range q {
			c[i+1][j+1] = residue[(i-j+q)%q]
		}
	}
	return c
}

// paley is the first construction of Paley (1933), of order q+1 for a prime q = 3 modulo 4.
func paley(q int) [][]int8 {
	h := conference(q)
	for i := range h {
		h[i][i]++
	}
	return h
}

// paleyTwo is his second construction, of order 2q+2 for a prime q = 1 modulo 4.
func paleyTwo(q int) [][]int8 {
	h := kronecker(conference(q), sylvester(2))
	for i := 0; i < len(h); i += 2 { // zeroes of the diagonal
		h[i][i], h[i][i+1], h[i+1][i], h[i+1][i+1] = 1, -1, -1, -1
	}
	return h
}

// kronecker is the Kronecker product: that of two Hadamard matrices is one.
func kronecker(a, b [][]int8) [][]int8 {
	h := square(len(a) * len(b))
	for i := range h {
		for j := range h {
			h[i][j] = a[i/len(b)][j/len(b)] * b[i%len(b)][j%len(b)]
		}
	}
	return h
}

// normalise makes the first row and column all ones. That keeps the columns orthogonal, and leaves one for the
// constant.
func normalise(h [][]int8) {
	for j, first := range h[0] {
		for i := range h {
			h[i][j] *= first
		}
	}
	for _, row := range h {
		first := row[0]
		for j := range row {
			row[j] *= first
		}
	}
}

func square(n int) [][]int8 {
	h := make([][]int8, n)
	for i := range h {
		h[i] = make([]int8, n)
	}
	return h
}

func prime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}

// signs is one row of a design: +1 and -1 in all columns of the matrix, those of the atoms first.
type signs []int8

// on is the configuration of n atoms that the row asks for.
func (r signs) on(n int) (x flagSet) {
	for j, sign := range r[:min(n, len(r))] {
		if sign > 0 {
			x |= 1 << j
		}
	}
	return x
}

// twoLevel is a design for n atoms of size rows, a known order of hadamard above n. With fold each row is followed by
// its mirror image, which frees the contrasts of single atoms from those of pairs. Up to 4 atoms in up to 16 rows get
// every combination. Which column serves which atom is drawn anew each time, so that two designs confuse different
// terms.
func twoLevel(n, size int, fold bool, rng *rand.Rand) []signs {
	h := hadamard(size)
	cols := rng.Perm(size - 1)
	if n <= 4 && size <= 16 { // columns 1, 2, 4 and 8 of Sylvester's matrix count in binary
		slices.SortStableFunc(cols, func(a, b int) int { return bits.OnesCount(uint(a+1)) - bits.OnesCount(uint(b+1)) })
	}
	var rows []signs
	for _, hrow := range h {
		row, mirror := make(signs, size-1), make(signs, size-1)
		for j, c := range cols {
			row[j], mirror[j] = hrow[c+1], -hrow[c+1]
		}
		rows = append(rows, row)
		if fold {
			rows = append(rows, mirror)
		}
	}
	return rows
}

// shuffled puts rows into random order, with a nil row, the base configuration, before every
// baseEvery of them.
func shuffled(rows []signs, rng *rand.Rand) []signs {
	rows = slices.Clone(rows)
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	var out []signs
	for i, r := range rows {
		if i%baseEvery == 0 {
			out = append(out, nil)
		}
		out = append(out, r)
	}
	return out
}
