package effects

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The assignment that is recommended is predicted to be as good as any, keeps all that makes no
// difference, and is valid.
func TestBest(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	r := Ranking{Effects: []Effect{{Terms: []string{"a"}, Ratio: 1.3}, {Terms: []string{"b"}, Ratio: 0.85}, {Terms: []string{"c", "d"}, Ratio: 1.5}}}
	got := r.Best(names, nil)
	if got[0] || !got[1] || got[2] == got[3] || !got[4] || !got[5] {
		t.Errorf("%v", got)
	}
	r.Higher = true
	if got = r.Best(names, nil); !slices.Equal(got, []bool{true, false, true, true, true, true}) {
		t.Errorf("more is better: %v", got)
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 21))
		r := Ranking{Higher: seed%2 == 0}
		for range rng.IntN(5) {
			e := Effect{Ratio: math.Exp(rng.NormFloat64() / 4)}
			for _, k := range rng.Perm(len(names))[:1+rng.IntN(3)] {
				e.Terms = append(e.Terms, names[k])
			}
			r.Effects = append(r.Effects, e)
		}
		valid := func(on []bool) []bool { on = slices.Clone(on); on[3] = on[3] && on[1]; return on }
		got := r.Best(names, valid)
		if !slices.Equal(got, valid(got)) {
			t.Fatalf("seed %d: %v is not valid", seed, got)
		}
		least := math.Inf(1)
		for bits := range 1 << len(names) {
			on := make([]bool, len(names))
			for k := range on {
				on[k] = bits>>k&1 == 1
			}
			least = min(least, r.predict(names, valid(on)))
		}
		if got := r.predict(names, got); got > least+1e-9 {
			t.Fatalf("seed %d: %v, but %v can be had", seed, got, least)
		}
	}
}
