package odds

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The tree is the cheapest there is: no other way to cut costs less.
func TestTreeIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	c := Prices{Fail: 180, Pass: 12}
	var best func(w []float64) float64
	sum := func(w []float64) (s float64) {
		for _, x := range w {
			s += x
		}
		return s
	}
	cost := func(w []float64, m int) float64 {
		return best(w[:m+1]) + best(w[m+1:]) + c.Fail*sum(w[:m+1]) + c.Pass*sum(w[m+1:])
	}
	best = func(w []float64) float64 {
		if len(w) < 2 {
			return 0
		}
		least := math.Inf(1)
		for m := range len(w) - 1 {
			least = min(least, cost(w, m))
		}
		return least
	}
	for range 60 {
		w := make([]float64, 2+rng.IntN(8))
		for i := range w {
			w[i] = rng.Float64()
		}
		if got, want := cost(w, Cut(w, c, nil)), best(w); got > want*(1+1e-9) {
			t.Errorf("%v: %v, not %v", w, got, want)
		}
	}
}

// The shares are those of the design for prices of 1, 2, 3, 5, 10, 15 and 30 passes.
func TestFailShare(t *testing.T) {
	for r, want := range map[float64]float64{1: .5, 2: .382, 3: .318, 5: .245, 10: .165, 15: .128, 30: .081} {
		if got := failShare(r); math.Abs(got-want) > 6e-4 {
			t.Errorf("r=%v: %v, not %v", r, got, want)
		}
	}
}

// The prior of where the last missing change stands is a distribution, and for equal suspicion that of
// the maximum of a random set.
func TestPrior(t *testing.T) {
	s := make([]float64, 20)
	for i := range s {
		s[i] = 1
	}
	w := NewMissing([]float64{0, 0, 1}, s).Positions(make([]bool, 20))
	total := 0.0
	for p, x := range w {
		total += x
		if want := float64(p-1) / 190; p > 0 && math.Abs(x-want) > 1e-12 {
			t.Errorf("p=%d: %v, not %v", p, x, want)
		}
	}
	if math.Abs(total-1) > 1e-12 {
		t.Errorf("sum %v", total)
	}
}

// The weights of the chances sum up to one, and follow the tallies: what is known to be guilty and fails
// in every other test is no complaint that comes every time.
func TestRates(t *testing.T) {
	const hidden = 0.0001 // a doubt that is small
	of := func(count map[Tally]int) *Chances {
		c := &Chances{}
		c.Learn(count)
		return c
	}
	sum := func(c *Chances) (all, every float64) {
		for i, row := range c.weights {
			for _, w := range row {
				all += w
				if i == 0 {
					every += w
				}
			}
		}
		return all, every
	}
	sure := of(map[Tally]int{{4, 0, Guilty}: 1, {0, 9, Innocent}: 3})
	half := of(map[Tally]int{{4, 4, Guilty}: 1, {0, 9, Innocent}: 3})
	for _, c := range []*Chances{sure, half} {
		if all, _ := sum(c); math.Abs(all-1) > 1e-9 {
			t.Errorf("weights sum up to %v", all)
		}
	}
	if _, every := sum(sure); every < 0.5 {
		t.Errorf("four failures of four: %v", every)
	}
	if _, every := sum(half); every != 0 {
		t.Errorf("four failures of eight: %v", every)
	}
	few, many := Tally{Pass: 3}, Tally{Pass: 12}
	if a, b := sure.Guilty(few), half.Guilty(few); a >= b || b < hidden {
		t.Errorf("three passes leave a doubt of %v, and of %v where the complaint comes every other time", a, b)
	}
	if a, b := half.Guilty(many), half.Guilty(few); a >= b/4 {
		t.Errorf("twelve passes leave a doubt of %v, three of %v", a, b)
	}
	none := of(map[Tally]int{{1, 0, Innocent}: 1, {0, 1, Guilty}: 1})
	if all, _ := sum(none); all < 0.99 {
		t.Errorf("odd ends: %v", all)
	}
}
