package sets

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// estimates are what a search said of the time still to go, as shares of what it then took: at its
// beginning, in its middle, and at its end in seconds.
func estimates(t *testing.T, s Search) (first, middle, last float64) {
	t.Helper()
	var said []Progress
	s.OnProgress = func(p Progress) { said = append(said, p) }
	f := find(t, s)
	if len(said) < 3 {
		t.Fatalf("%d reports in %d tests", len(said), f.Counts.Tests)
	}
	end := said[len(said)-1]
	if end.Made != f.Counts.Tests || end.Spent != f.Counts.Seconds {
		t.Errorf("%d tests and %.0f s made, %d and %.0f told", f.Counts.Tests, f.Counts.Seconds, end.Made, end.Spent)
	}
	of := func(p Progress) float64 { return p.Seconds / (end.Spent - p.Spent) }
	return of(said[0]), of(said[len(said)/2]), end.Seconds
}

// Where one guilty set is to be found the estimate is mostly between half and three and a half times what it
// takes; a set of one atom takes least. How many further sets there are is not known in advance.
func TestProgressComesTrue(t *testing.T) {
	for _, goal := range []Goal{One, Keep, All} {
		for _, size := range [][2]int{{1, 1}, {2, 1}, {3, 1}, {4, 2}, {16, 2}, {16, 1}, {16, 4}, {64, 2}, {64, 4}} {
			var first, middle []float64
			for seed := range uint64(10) {
				rng := rand.New(rand.NewPCG(seed, 9))
				s := Search{Space: space(t, plainAtoms(size[0])), Oracle: guilty(rng.Perm(size[0])[:size[1]]), Goal: goal}
				a, b, last := estimates(t, s)
				if first, middle = append(first, a), append(middle, b); last != 0 {
					t.Errorf("goal %d, %v, seed %d: %.0f s left at the end", goal, size, seed, last)
				}
			}
			for _, list := range [][]float64{first, middle} {
				slices.Sort(list)
				if list[1] < 0.5 || list[8] > 3.5 {
					t.Errorf("goal %d, %v: %.2f", goal, size, list)
				}
			}
		}
	}
}

// What is known of noise, claims and what is to be timed is part of the estimate.
func TestProgressCounts(t *testing.T) {
	s := space(t, plainAtoms(8))
	told := func(x Search) (list []Progress) {
		x.Space = s
		x.OnProgress = func(p Progress) { list = append(list, p) }
		find(t, x)
		return list
	}
	plain := told(Search{Oracle: guilty([]int{2, 5})})[0]
	claimed := told(Search{Oracle: guilty([]int{2, 5}), Claims: []Claim{{"a", Of(1)}, {"b", Of(3)}}})[0]
	if claimed.Tests != plain.Tests+4 {
		t.Errorf("%.1f tests, with two claims %.1f", plain.Tests, claimed.Tests)
	}
	most := 0.0
	for seed := range uint64(5) {
		noisy := guilty([]int{2, 5})
		noisy.hidden, noisy.seed = 0.4, seed
		for _, p := range told(Search{Oracle: noisy}) {
			most = max(most, p.Tests)
		}
	}
	if most < 2*plain.Tests {
		t.Errorf("%.1f tests at most where four failures of ten are missed, else %.1f", most, plain.Tests)
	}
}
