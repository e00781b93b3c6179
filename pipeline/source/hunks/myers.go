package hunks

// maxEdits bounds the search for the middle of a shortest script.
const maxEdits = 256

// middle returns a point on a shortest edit script of two ranges that begin
// and end differently: Myers' search from both ends at once. After maxEdits
// steps it takes the point that got furthest. ok is false when nothing
// matches.
func middle(a, b []int32) (x, y int, ok bool) {
	n, m := len(a), len(b)
	limit := min((n+m+1)/2, maxEdits)
	zero := limit + 1
	fwd, rev := newFront(zero, 1, a, b), newFront(zero, -1, a, b)
	delta := n - m
	for d := range limit {
		if x, y, met := fwd.advance(d, rev, delta, delta%2 != 0); met {
			return x, y, inside(x, y, n, m)
		}
		if x, y, met := rev.advance(d, fwd, delta, delta%2 == 0); met {
			return x, y, inside(x, y, n, m)
		}
	}
	if limit < maxEdits {
		return 0, 0, false
	}
	x, y = fwd.furthest()
	if u, v := rev.furthest(); u+v > x+y {
		x, y = n-u, m-v
	}
	return x, y, inside(x, y, n, m)
}

// inside reports whether a point divides the ranges in two.
func inside(x, y, n, m int) bool { return x+y > 0 && x+y < n+m }

// front holds how far paths have got on each diagonal, from one end.
type front struct {
	a, b       []int32
	dir        int   // 1 from the beginning, -1 from the end
	zero       int   // index of diagonal 0
	v          []int // consumed lines of a, -1 where no path has been
	skip, stop int   // diagonals that have left the range on either side
}

// newFront is a front before its first step: only the diagonal 1 has been reached, from outside (Myers 1986, figure 2).
func newFront(zero, dir int, a, b []int32) *front {
	f := &front{a: a, b: b, dir: dir, zero: zero, v: make([]int, 2*zero+1)}
	for i := range f.v {
		f.v[i] = -1
	}
	f.v[zero+1] = 0
	return f
}

// equal compares the lines that follow when x of a and y of b are consumed.
func (f *front) equal(x, y int) bool {
	if f.dir < 0 {
		return f.a[len(f.a)-1-x] == f.b[len(f.b)-1-y]
	}
	return f.a[x] == f.b[y]
}

// advance takes every path one edit further. With check it reports where one
// meets a path of the other front.
func (f *front) advance(d int, other *front, delta int, check bool) (x, y int, met bool) {
	n, m := len(f.a), len(f.b)
	for k := -d + f.skip; k <= d-f.stop; k += 2 {
		at := f.zero + k
		if k == -d || k != d && f.v[at-1] < f.v[at+1] {
			x = f.v[at+1]
		} else {
			x = f.v[at-1] + 1
		}
		y = x - k
		for x < n && y < m && f.equal(x, y) {
			x, y = x+1, y+1
		}
		f.v[at] = x
		switch {
		case x > n:
			f.stop += 2
		case y > m:
			f.skip += 2
		case check:
			o := f.zero + delta - k
			if o < 0 || o >= len(other.v) || other.v[o] < 0 || x < n-other.v[o] {
				continue
			}
			if f.dir < 0 {
				return n - x, m - y, true
			}
			return x, y, true
		}
	}
	return 0, 0, false
}

// furthest returns the point at which most lines are consumed.
func (f *front) furthest() (x, y int) {
	for at, u := range f.v {
		v := u - (at - f.zero)
		if u >= 0 && u <= len(f.a) && v >= 0 && v <= len(f.b) && u+v > x+y {
			x, y = u, v
		}
	}
	return x, y
}
