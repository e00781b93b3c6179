package sets

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSetAgainstMaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func() (Set, map[int]bool) {
		m := map[int]bool{}
		var s Set
		for range rng.IntN(12) {
			a := rng.IntN(200)
			m[a], s = true, s.Or(Of(a))
		}
		return s, m
	}
	for range 3000 {
		s, ms := draw()
		u, mu := draw()
		if rng.IntN(3) == 0 {
			u = s.Or(u)
			for a := range ms {
				mu[a] = true
			}
		}
		in, meets := true, false
		for a := range ms {
			in, meets = in && mu[a], meets || mu[a]
		}
		for a := range 200 {
			if s.Or(u).Has(a) != (ms[a] || mu[a]) || s.And(u).Has(a) != (ms[a] && mu[a]) || s.Minus(u).Has(a) != (ms[a] && !mu[a]) {
				t.Fatalf("%v %v: atom %d", s.Atoms(), u.Atoms(), a)
			}
		}
		if s.In(u) != in || s.Meets(u) != meets || s.Len() != len(ms) || !slices.Equal(Of(s.Atoms()...), s) {
			t.Fatalf("%v %v", s.Atoms(), u.Atoms())
		}
		if back, err := ParseKey(s.Key()); err != nil || !back.Equal(s) {
			t.Fatalf("%v: key %q, %v, %v", s.Atoms(), s.Key(), back, err)
		}
	}
	if First(128).Len() != 128 || First(130).Len() != 130 || len(First(0)) != 0 {
		t.Error("First")
	}
}

func FuzzParseKey(f *testing.F) {
	for _, key := range []string{"0", "5", "1f", "10000000000000000", "", "x", "-1", "+1"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		s, err := ParseKey(key)
		if err != nil {
			return
		}
		if again, err := ParseKey(s.Key()); err != nil || !again.Equal(s) || s.Len() > 0 && s[len(s)-1] == 0 {
			t.Errorf("%q: %v, then %v %v", key, s, again, err)
		}
	})
}

// The tree is the cheapest there is: no other way to cut costs less.
func TestTreeIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	c := prices{fail: 180, pass: 12}
	var best func(w []float64) float64
	sum := func(w []float64) (s float64) {
		for _, x := range w {
			s += x
		}
		return s
	}
	cost := func(w []float64, m int) float64 {
		return best(w[:m+1]) + best(w[m+1:]) + c.fail*sum(w[:m+1]) + c.pass*sum(w[m+1:])
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
		if got, want := cost(w, cut(w, c)), best(w); got > want*(1+1e-9) {
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

// The prior of where the last missing atom stands is a distribution, and for equal suspicion that of
// the maximum of a random set.
func TestPrior(t *testing.T) {
	s := make([]float64, 20)
	for i := range s {
		s[i] = 1
	}
	w := newRest([]float64{0, 0, 1}, s).positions(make([]bool, 20))
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

// The cheapest hitting set is no dearer than any other, and covers nothing that it must not.
func TestHittingAgainstBruteForce(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := randomWorld(rng, true, false)
		s := space(t, w.atoms)
		var hit, avoid []Set
		for range 1 + rng.IntN(5) {
			hit = append(hit, s.Close(Of(rng.Perm(w.n)[:1+rng.IntN(min(3, w.n))]...)))
		}
		for range rng.IntN(3) {
			avoid = append(avoid, s.Drop(s.Whole(), Of(rng.IntN(w.n))).And(Of(rng.Perm(w.n)[:1]...)))
		}
		avoid = slices.DeleteFunc(avoid, func(a Set) bool { return len(a) == 0 })
		fits := func(h Set) bool {
			return !slices.ContainsFunc(hit, func(m Set) bool { return !m.Meets(h) }) && !slices.ContainsFunc(avoid, func(a Set) bool { return a.In(h) })
		}
		least := math.Inf(1)
		for bits := range 1 << w.n {
			if h := (Set{uint64(bits)}).trim(); fits(h) && s.Drop(s.Whole(), h).Equal(s.Whole().Minus(h)) {
				least = min(least, s.weight(h))
			}
		}
		h, ok, exact := cheapest(s, hit, avoid)
		if ok != !math.IsInf(least, 1) || !exact || ok && (!fits(h) || s.weight(h) != least) {
			t.Fatalf("seed %d: %v costs %v, the least is %v", seed, h.Atoms(), s.weight(h), least)
		}
	}
}
