package compare

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if !(math.Abs(got-want) <= by) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestKnown holds the tests against published examples: those of R's help on wilcox.test, whose exact p
// enumerating gives as well, and Holm's own procedure by hand.
func TestKnown(t *testing.T) {
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	near(t, "rank sum, permeability", MannWhitney(x, y), 0.2544, 5e-5)
	near(t, "rank sum, 5 and 5 apart", MannWhitney([]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}), 2.0/252, 1e-12)
	near(t, "rank sum, all equal", MannWhitney([]float64{3, 3, 3}, []float64{3, 3, 3}), 1, 0)
	before := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	after := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	d := make([]float64, len(before))
	for i := range d {
		d[i] = before[i] - after[i]
	}
	near(t, "signed rank, depression", SignedRank(d), 0.0390625, 1e-12)
	near(t, "signed rank, zeros only", SignedRank([]float64{0, 0}), 1, 0)
	for i, want := range []float64{0.03, 0.06, 0.06, 0.9} {
		near(t, "Holm", holm([]float64{0.0075, 0.02, 0.03, 0.9})[i], want, 1e-12)
	}
}

func TestDescribe(t *testing.T) {
	d := Describe([]float64{3, 1, 2, 5, 4, 100})
	near(t, "median", float64(d.Median), 3.5, 0)
	near(t, "low", float64(d.Low), 1, 0)
	near(t, "high", float64(d.High), 100, 0)
	near(t, "spread", float64(d.Spread), 1.4826*1.5/3.5, 1e-12)
	if d := Describe([]float64{1, 2, 3, 4, 5}); d.Low.Known() || d.Min != 1 || d.Max != 5 {
		t.Errorf("five launches give no 95 %% interval: %+v", d)
	}
	if d := Describe(nil); d.N != 0 || d.Median.Known() {
		t.Errorf("nothing: %+v", d)
	}
}

// subsets calls f with the indices of every subset of n.
func subsets(n int, f func(in func(int) bool)) {
	for s := range uint(1) << n {
		f(func(i int) bool { return s>>i&1 == 1 })
	}
}

// TestEnumerated counts the null distributions out and compares, ties included.
func TestEnumerated(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 60 {
		n, m := 1+rng.IntN(5), 1+rng.IntN(5)
		all := make([]float64, n+m)
		for i := range all {
			all[i] = float64(rng.IntN(6))
		}
		u := func(in func(int) bool) (u float64) {
			for i := range all {
				for j := range all {
					if in(i) && !in(j) {
						u += 0.5 * float64(1+cmpSign(all[i]-all[j]))
					}
				}
			}
			return u
		}
		center := float64(n*m) / 2
		got := math.Abs(u(func(i int) bool { return i < n }) - center)
		count, extreme := 0.0, 0.0
		for s := range uint(1) << (n + m) {
			if bits.OnesCount(s) == n {
				count++
				if math.Abs(u(func(i int) bool { return s>>i&1 == 1 })-center) >= got-1e-9 {
					extreme++
				}
			}
		}
		near(t, "rank sum by counting", MannWhitney(all[:n], all[n:]), extreme/count, 1e-9)
	}
	for range 60 {
		x := make([]float64, 1+rng.IntN(9))
		for i := range x {
			x[i] = float64(rng.IntN(9) - 4)
		}
		near(t, "signed rank by counting", SignedRank(x), countedSignedRank(x), 1e-9)
	}
}

func cmpSign(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// countedSignedRank turns the signs round in every way.
func countedSignedRank(x []float64) float64 {
	x = slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return v == 0 })
	rank := func(i int) float64 {
		r := 0.5
		for j := range x {
			r += 0.5 * float64(1+cmpSign(math.Abs(x[i])-math.Abs(x[j])))
		}
		return r
	}
	total, seen := 0.0, 0.0
	for i := range x {
		total += rank(i)
		if x[i] > 0 {
			seen += rank(i)
		}
	}
	count, extreme := 0.0, 0.0
	subsets(len(x), func(in func(int) bool) {
		w := 0.0
		for i := range x {
			if in(i) {
				w += rank(i)
			}
		}
		count++
		if math.Abs(w-total/2) >= math.Abs(seen-total/2)-1e-9 {
			extreme++
		}
	})
	return extreme / count
}

// TestBounds holds the critical values against counting, and the bounds against their meaning: what a test
// rejects lies outside.
func TestBounds(t *testing.T) {
	for n := 1; n <= 10; n++ {
		chance := make([]float64, n*(n+1)/2+1)
		subsets(n, func(in func(int) bool) {
			w := 0
			for i := range n {
				if in(i) {
					w += i + 1
				}
			}
			chance[w] += 1 / float64(uint(1)<<n)
		})
		for _, p := range []float64{0.0005, 0.005, 0.025, 0.1} {
			if got, want := signedRank(n, p), atMost(chance, p); got != want {
				t.Errorf("signed rank, n %d, p %v: %d, counted %d", n, p, got, want)
			}
		}
	}
	near(t, "smallest p of 7 and 7", float64(rankSum(7, 7, 0.00059/2)), 0, 0)
	near(t, "none for 6 and 6", float64(rankSum(6, 6, 0.002/2)), -1, 0)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		n := 4 + rng.IntN(8)
		a, b := make([]float64, n), make([]float64, n)
		for i := range a {
			a[i], b[i] = rng.NormFloat64(), rng.NormFloat64()+1
		}
		const p = 0.04
		low, high := within(differences(a, b), rankSum(n, n, p/2))
		if math.IsNaN(low) {
			continue
		}
		for _, x := range []struct {
			shift    float64
			rejected bool
		}{{low - 1e-6, true}, {low + 1e-6, false}, {high - 1e-6, false}, {high + 1e-6, true}} {
			moved := make([]float64, n)
			for i := range b {
				moved[i] = b[i] - x.shift
			}
			if got := MannWhitney(a, moved); (got <= p) != x.rejected {
				t.Fatalf("n %d, shift %v of (%v, %v): p %v", n, x.shift, low, high, got)
			}
		}
	}
}

// TestIntervalsHold measures how often the 95 % intervals hold the truth, launches being independent.
func TestIntervalsHold(t *testing.T) {
	const trials, drawn = 400, 60 // the bootstrap takes long
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{7, 12} {
		ratio, shift, middle := 0, 0, 0
		for i := range trials {
			a, b, x := make([]float64, n), make([]float64, n), make([]float64, n)
			for i := range a {
				a[i], b[i] = math.Exp(0.01*rng.NormFloat64()), 1.05*math.Exp(0.01*rng.NormFloat64())
				x[i] = math.Log(b[i] / a[i])
			}
			holds := func(i Interval, v float64) int {
				if i.Low <= v && v <= i.High {
					return 1
				}
				return 0
			}
			if i < drawn {
				ratio += holds(RatioOfMedians(a, b, true, 1), 1.05)
			}
			low, high := within(averages(x), signedRank(n, (1-confidence)/2))
			shift += holds(Interval{Low: low, High: high}, math.Log(1.05))
			d := Describe(a)
			middle += holds(Interval{float64(d.Median), float64(d.Low), float64(d.High)}, 1)
		}
		t.Logf("%d launches: bootstrap %d of %d, pairs %d, median %d of %d", n, ratio, drawn, shift, middle, trials)
		if shift < trials*92/100 || middle < trials*92/100 || ratio < drawn*80/100 {
			t.Errorf("%d launches: bootstrap %d, pairs %d, median %d of %d hold", n, ratio, shift, middle, trials)
		}
	}
}

func TestRatioIsRepeatable(t *testing.T) {
	a, b := []float64{1, 2, 3, 4, 5}, []float64{2, 3, 4, 5, 7}
	if RatioOfMedians(a, b, true, 5) != RatioOfMedians(a, b, true, 5) {
		t.Error("the same numbers and seed gave two intervals")
	}
	if got := RatioOfMedians([]float64{2}, []float64{3}, true, 1); got.Value != 1.5 || !math.IsNaN(got.Low) {
		t.Errorf("one launch: %v", got)
	}
}

// TestLooks measures by how much looking after every pair multiplies the chance of an error: less than looks.
func TestLooks(t *testing.T) {
	const series, e = 80, 0.05
	rng := rand.New(rand.NewPCG(9, 9))
	wrong := 0
	for range series {
		var c contrast
		for n := 1; n <= 60; n++ {
			y := [2]float64{rng.NormFloat64(), rng.NormFloat64()}
			c.levels[0], c.levels[1] = append(c.levels[0], y[0]), append(c.levels[1], y[1])
			c.pairs = append(c.pairs, y)
			if n >= MinPairs && (n < 14 || n == 18 || n == 25 || n == 40 || n == 60) && c.doubt(looks) <= e {
				wrong++
				break
			}
		}
	}
	t.Logf("wrong in %d of %d series at an error of %v", wrong, series, e)
	if wrong > 8 { // 4 are allowed on average; 8 are two standard deviations more
		t.Errorf("wrong in %d of %d series at an error of %v", wrong, series, e)
	}
}

// TestExactMeetsNormal holds the three ways to the rank sum against one another where they meet.
func TestExactMeetsNormal(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		n := 20 + rng.IntN(10)
		a, b := make([]float64, n), make([]float64, n)
		for i := range a {
			a[i], b[i] = rng.NormFloat64(), rng.NormFloat64()+0.5
		}
		groups, u := tied(a, b)
		exact := MannWhitney(a, b)
		near(t, "by groups of one", tiedRankSum(groups, n, n, u), exact, 1e-9)
		near(t, "normal", normalRankSum(groups, n, n, u), exact, 0.01)
		for i := range a {
			a[i], b[i] = math.Round(2*a[i]), math.Round(2*b[i])
		}
		groups, u = tied(a, b)
		near(t, "normal with ties", normalRankSum(groups, n, n, u), tiedRankSum(groups, n, n, u), 0.02)
	}
}
