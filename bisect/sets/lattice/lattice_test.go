package lattice

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

// The cheapest hitting set is no dearer than any other, and covers nothing that it must not.
func TestHittingAgainstBruteForce(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 2 + rng.IntN(9)
		atoms := make([]Atom, n)
		for i := range atoms {
			atoms[i].Weight = float64(1 + rng.IntN(3))
			if i > 0 && rng.Float64() < 0.3 {
				atoms[i].Requires = []int{rng.IntN(i)}
			}
		}
		s, err := NewSpace(atoms)
		if err != nil {
			t.Fatal(err)
		}
		var hit, avoid []Set
		for range 1 + rng.IntN(5) {
			hit = append(hit, s.Close(Of(rng.Perm(n)[:1+rng.IntN(min(3, n))]...)))
		}
		for range rng.IntN(3) {
			avoid = append(avoid, s.Drop(s.Whole(), Of(rng.IntN(n))).And(Of(rng.Perm(n)[:1]...)))
		}
		avoid = slices.DeleteFunc(avoid, func(a Set) bool { return len(a) == 0 })
		fits := func(h Set) bool {
			return !slices.ContainsFunc(hit, func(m Set) bool { return !m.Meets(h) }) && !slices.ContainsFunc(avoid, func(a Set) bool { return a.In(h) })
		}
		least := math.Inf(1)
		for bits := range 1 << n {
			if h := (Set{uint64(bits)}).trim(); fits(h) && s.Drop(s.Whole(), h).Equal(s.Whole().Minus(h)) {
				least = min(least, s.Weight(h))
			}
		}
		h, ok, exact := Cheapest(s, hit, avoid)
		if ok != !math.IsInf(least, 1) || !exact || ok && (!fits(h) || s.Weight(h) != least) {
			t.Fatalf("seed %d: %v costs %v, the least is %v", seed, h.Atoms(), s.Weight(h), least)
		}
	}
}

func TestLeastHits(t *testing.T) {
	same := func(got []Set, want ...Set) {
		t.Helper()
		slices.SortFunc(got, func(a, b Set) int { return slices.Compare(a, b) })
		if !slices.EqualFunc(got, want, Set.Equal) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	same(LeastHits([]Set{Of(1, 2), Of(2, 3)}), Of(2), Of(1, 3))
	same(LeastHits(nil), nil)
	var many []Set
	for i := range 20 {
		many = append(many, Of(2*i, 2*i+1))
	}
	if n := len(LeastHits(many)); n != 128 {
		t.Errorf("%d", n)
	}
}
