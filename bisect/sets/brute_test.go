package sets

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// world is a random truth that can be worked out by looking at every set.
type world struct {
	n       int
	atoms   []Atom
	minimal [][]int  // what fails
	needs   [][2]int // builds need, not told to the search
	tell    bool     // told to it
}

func randomWorld(rng *rand.Rand, tell, excludes bool) world {
	w := world{n: 2 + rng.IntN(9), tell: tell}
	for i := 1; i < w.n; i++ {
		if rng.Float64() < 0.3 {
			w.needs = append(w.needs, [2]int{i, rng.IntN(i)})
		}
	}
	w.atoms = plainAtoms(w.n)
	if tell {
		w.atoms = plainAtoms(w.n, w.needs...)
	}
	for i := range w.atoms {
		w.atoms[i].Weight = float64(1 + rng.IntN(3))
	}
	if excludes && w.n > 3 {
		a := rng.Perm(w.n)
		w.atoms[a[0]].Excludes = []int{a[1]}
	}
	for range 1 + rng.IntN(3) {
		w.minimal = append(w.minimal, rng.Perm(w.n)[:min(w.n, 1+rng.IntN(3))])
	}
	return w
}

func (w world) builds(on Set) bool {
	for _, q := range w.needs {
		if on.Has(q[0]) && !on.Has(q[1]) {
			return false
		}
	}
	return true
}

func (w world) oracle() *table {
	o := guilty(w.minimal...)
	o.builds = w.builds
	return o
}

// truth lists the minimal sets that build and fail and the maximal ones that build and pass, among
// valid ones, and the weight of the best of these.
func (w world) truth(s *Space) (minimal, safe []Set, best float64) {
	o := w.oracle()
	var fails, passes []Set
	for bits := range 1 << w.n {
		on := Set{uint64(bits)}.And(lattice.First(w.n))
		if !w.builds(on) || !s.Valid(on) {
			continue
		}
		if o.seconds(on) > o.limit {
			fails = append(fails, on)
		} else {
			passes = append(passes, on)
			best = max(best, s.Weight(on))
		}
	}
	for _, f := range fails {
		if !slices.ContainsFunc(fails, func(o Set) bool { return o.In(f) && !o.Equal(f) }) {
			minimal = append(minimal, f)
		}
	}
	for _, p := range passes {
		if !slices.ContainsFunc(passes, func(o Set) bool { return p.In(o) && !o.Equal(p) }) {
			safe = append(safe, p)
		}
	}
	return minimal, safe, best
}

// On random monotone truths with requirements, told or not, and exclusions, the two lists are exactly
// those of looking at every set, and nothing invalid is ever run.
func TestAllAgainstBruteForce(t *testing.T) {
	for seed := range uint64(900) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := randomWorld(rng, seed%3 != 0, seed%3 == 1)
		s := space(t, w.atoms)
		o := w.oracle()
		f := find(t, Search{Space: s, Oracle: o, Goal: All, Repeats: once})
		for _, r := range o.asked {
			if !s.Valid(r.Set) {
				t.Fatalf("seed %d: invalid set %v was run", seed, r.Set.Atoms())
			}
		}
		minimal, safe, best := w.truth(s)
		if f.Result == "no-difference" && o.seconds(s.Fit(s.Whole())) <= o.limit { // what excludes itself may leave nothing to find
			continue
		}
		same(t, "guilty", minimalSets(f), minimal...)
		same(t, "safe", safeSets(f), safe...)
		if !f.Complete || f.Result != "found" || len(f.Safe) == 0 || f.Safe[0].Weight != best || !f.Safe[0].Maximum {
			t.Errorf("complete %v, %s, keep %+v, best %v, %q", f.Complete, f.Result, f.Safe, best, f.Warnings)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, w)
		}
	}
}

// One guilty set, with and without suspects, is a minimal one, and the roles of its atoms are right.
func TestOneAgainstBruteForce(t *testing.T) {
	for seed := range uint64(900) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := randomWorld(rng, seed%2 == 0, false)
		for i := range w.atoms {
			if w.tell && rng.IntN(4) == 0 {
				w.atoms[i].Suspicion = 8
			}
		}
		s := space(t, w.atoms)
		o := w.oracle()
		f := find(t, Search{Space: s, Oracle: o, Repeats: 1 + int(seed%3)})
		minimal, _, _ := w.truth(s)
		if len(f.Minimal) != 1 || !f.Minimal[0].Verified {
			t.Fatalf("seed %d: %+v", seed, f)
		}
		if m := f.Minimal[0]; !contains(minimal, m.Atoms) {
			t.Fatalf("seed %d: %v is none of %v", seed, m.Atoms.Atoms(), keys(minimal))
		}
		for _, m := range f.Minimal[0].Members {
			less := f.Minimal[0].Atoms.Minus(Of(m.Atom))
			if want := w.builds(less); (m.Role == Culprit) != want {
				t.Fatalf("seed %d: atom %d is a %s", seed, m.Atom, m.Role)
			}
		}
	}
}

func contains(list []Set, s Set) bool {
	return slices.ContainsFunc(list, s.Equal)
}
