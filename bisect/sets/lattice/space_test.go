package lattice

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// space draws a space of few atoms. What an atom requires has a higher number or a lower one, but never in a circle.
func space(t *rapid.T, groups bool) *Space {
	n := rapid.IntRange(1, 7).Draw(t, "atoms")
	rank := rapid.Permutation(First(n).Atoms()).Draw(t, "ranks")
	atoms := make([]Atom, n)
	for i := range atoms {
		atoms[i].Weight = float64(rapid.IntRange(1, 4).Draw(t, "weight"))
		atoms[i].Suspicion = float64(rapid.IntRange(1, 3).Draw(t, "suspicion"))
		for j := range n {
			switch {
			case j != i && rapid.IntRange(0, 7).Draw(t, "excludes") == 0:
				atoms[i].Excludes = append(atoms[i].Excludes, j)
			case rank[j] < rank[i] && rapid.IntRange(0, 3).Draw(t, "requires") == 0:
				atoms[i].Requires = append(atoms[i].Requires, j)
			}
		}
		if groups {
			atoms[i].Group = rapid.SampledFrom([]string{"", "", "g", "h"}).Draw(t, "group")
		}
	}
	s, err := NewSpace(atoms)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// subsets lists all sets of n atoms.
func subsets(n int) (list []Set) {
	for bits := range uint64(1) << n {
		list = append(list, Set{bits}.trim())
	}
	return list
}

// closed reports whether a set holds all that its atoms require, by the definition.
func closed(s *Space, set Set) bool {
	for _, i := range set.Atoms() {
		for _, d := range s.Atom(i).Requires {
			if !set.Has(d) {
				return false
			}
		}
	}
	return true
}

// What a space works out agrees with the definitions, over all sets of a few atoms.
func TestSpaceAgainstDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := space(t, false)
		all := subsets(s.Len())
		for _, set := range all {
			var least, most Set // the smallest closed set above, and the largest below
			for _, c := range all {
				if !closed(s, c) {
					continue
				}
				if set.In(c) && (least == nil || c.Len() < least.Len()) {
					least = c
				}
				if c.In(set) && c.Len() > most.Len() {
					most = c
				}
			}
			if got := s.Close(set); !got.Equal(least) {
				t.Fatalf("Close(%v) is %v, want %v", set.Atoms(), got.Atoms(), least.Atoms())
			}
			if got := s.Drop(s.Whole(), s.Whole().Minus(set)); !got.Equal(most) {
				t.Fatalf("all without %v leaves %v, want %v", s.Whole().Minus(set).Atoms(), got.Atoms(), most.Atoms())
			}
			valid := closed(s, set)
			for _, i := range set.Atoms() {
				for _, o := range s.Atom(i).Excludes {
					valid = valid && !set.Has(o)
				}
			}
			if got := s.Valid(set); got != valid {
				t.Fatalf("Valid(%v) is %v", set.Atoms(), got)
			}
			fit := s.Fit(set)
			if !s.Valid(fit) || !fit.In(s.Close(set)) || valid && !fit.Equal(set) {
				t.Fatalf("Fit(%v) is %v", set.Atoms(), fit.Atoms())
			}
			sorted := s.Sorted(set)
			if !Of(sorted...).Equal(set) || len(sorted) != set.Len() {
				t.Fatalf("Sorted(%v) is %v", set.Atoms(), sorted)
			}
			for k, i := range sorted {
				if s.Needs(i).Meets(Of(sorted[k+1:]...)) {
					t.Fatalf("%d stands before what it needs: %v", i, sorted)
				}
				if k > 0 && !s.Before(sorted[k-1], i) {
					t.Fatalf("%v is not in the order of Before", sorted)
				}
			}
		}
		for _, pair := range s.Conflicts() {
			if x := s.Sorted(pair); s.Close(pair).Equal(pair) && s.Users(x[1]).Len() == 1 && !s.Fit(pair).Equal(Of(x[0])) {
				t.Fatalf("of %v the earlier stays, not %v", x, s.Fit(pair).Atoms())
			}
		}
		for i := range s.Len() {
			for j := range s.Len() {
				if s.Needs(i).Has(j) != s.Users(j).Has(i) {
					t.Fatalf("%d needs %v, and %d is used by %v", i, s.Needs(i).Atoms(), j, s.Users(j).Atoms())
				}
			}
		}
	})
}

// Suspects come first among atoms that need nothing, and equal ones stay in their order.
func TestSuspectsComeFirst(t *testing.T) {
	s, err := NewSpace([]Atom{{}, {Suspicion: 2}, {Requires: []int{4}, Suspicion: 9}, {}, {Suspicion: 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Sorted(s.Whole()), []int{4, 2, 1, 0, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Values of one flag exclude each other, and one stands in for another that is required. Spare ones are in no whole.
func TestGroups(t *testing.T) {
	s, err := NewSpace([]Atom{{Group: "opt"}, {Group: "opt", Spare: true}, {Requires: []int{0}}, {Group: "other"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set   Set
		valid bool
	}{
		{nil, true}, {Of(0), true}, {Of(1), true}, {Of(0, 1), false}, {Of(2), false},
		{Of(0, 2), true}, {Of(1, 2), true}, {Of(2, 3), false}, {Of(0, 3), true},
	} {
		if got := s.Valid(c.set); got != c.valid {
			t.Errorf("%v: %v", c.set.Atoms(), got)
		}
	}
	if got := s.Whole(); !got.Equal(Of(0, 2, 3)) {
		t.Errorf("whole %v", got.Atoms())
	}
	if got := s.Fit(Of(1, 2)); !s.Valid(got) {
		t.Errorf("Fit leaves %v", got.Atoms())
	}
}

// A set in which all parts stand for their atom is as valid, and weighs as much.
func TestExpand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := space(t, true)
		i := rapid.IntRange(0, s.Len()-1).Draw(t, "expanded")
		parts := make([]Atom, rapid.IntRange(1, 3).Draw(t, "parts"))
		before := s.Atoms()
		e, err := s.Expand(i, parts)
		if err != nil {
			t.Fatal(err)
		}
		all := Set{}
		for k := range parts {
			all = all.Or(Of(s.Len() + k))
		}
		if whole := s.Whole().Minus(Of(i)).Or(all); !e.Whole().Equal(whole) || e.Len() != s.Len()+len(parts) {
			t.Fatalf("all changes are %v, want %v", e.Whole().Atoms(), whole.Atoms())
		}
		plain := s.Atom(i).Group == "" && len(s.Atom(i).Excludes) == 0
		for j := range s.Len() { // exclusions of the atom itself stay with it, as do values that stand in for it
			plain = plain && !slices.Contains(s.Atom(j).Excludes, i)
		}
		for _, set := range subsets(s.Len()) {
			mapped := set
			if set.Has(i) {
				mapped = set.Minus(Of(i)).Or(all)
			}
			if math.Abs(s.Weight(set)-e.Weight(mapped)) > 1e-9 {
				t.Fatalf("%v weighs %v, and %v expanded", set.Atoms(), s.Weight(set), e.Weight(mapped))
			}
			if plain && s.Valid(set) != e.Valid(mapped) {
				t.Fatalf("%v is valid: %v, expanded: %v", set.Atoms(), s.Valid(set), e.Valid(mapped))
			}
		}
		if after := s.Atoms(); len(after) != len(before) || !slices.EqualFunc(before, after, func(a, b Atom) bool { return slices.Equal(a.Requires, b.Requires) }) {
			t.Fatal("the space itself was changed")
		}
	})
}

// One more requirement makes no more sets valid, and never one of a circle.
func TestRequire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := space(t, false)
		if s.Len() < 2 {
			return
		}
		i, d := rapid.IntRange(0, s.Len()-1).Draw(t, "who"), rapid.IntRange(0, s.Len()-1).Draw(t, "what")
		r, err := s.Require(i, d)
		var cycle *CycleError
		if circle := i != d && s.Needs(d).Has(i); circle != errors.As(err, &cycle) || circle != (err != nil) && i != d {
			t.Fatalf("%d requires %d: %v", i, d, err)
		}
		if err != nil {
			return
		}
		for _, set := range subsets(s.Len()) {
			if want := s.Valid(set) && (!set.Has(i) || set.Has(d)); r.Valid(set) != want {
				t.Fatalf("%v: %v, want %v", set.Atoms(), r.Valid(set), want)
			}
		}
	})
}

// What no space can be made of, and why.
func TestNewSpaceErrors(t *testing.T) {
	for _, c := range []struct {
		atoms []Atom
		want  string
	}{
		{nil, "expected between 1 and 4096 changes, got 0"},
		{make([]Atom, MaxAtoms+1), "got 4097"},
		{[]Atom{{}, {Name: "b", Weight: -1}}, "change b: weight and suspicion must be positive, got -1 and 1"},
		{[]Atom{{Suspicion: math.NaN()}}, "change 0: weight and suspicion must be positive, got 1 and NaN"},
		{[]Atom{{Name: "a", Requires: []int{1}}}, "change a: invalid requirement or exclusion: 1 is not the number of another change"},
		{[]Atom{{}, {Excludes: []int{1}}}, "change 1: invalid requirement or exclusion: 1 is not"},
		{[]Atom{{}, {Excludes: []int{-1}}}, "-1 is not"},
		{[]Atom{{Requires: []int{1}}, {Requires: []int{2}}, {Name: "c", Requires: []int{0}}}, "cyclic requirements, so that none of these can be on: 0 needs 1 needs c needs 0"},
	} {
		if _, err := NewSpace(c.atoms); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if _, err := NewSpace(make([]Atom, MaxAtoms)); err != nil {
		t.Errorf("the most atoms: %v", err)
	}
}

func TestStepReadsBack(t *testing.T) {
	for _, s := range []Step{{Flag: "compile", From: "default", To: "max-autotune"}, {Flag: "mode", From: "a: b", To: "c->d"}} {
		if got, ok := ParseStep(s.String()); !ok || got != s {
			t.Errorf("%s: %+v, %v", s, got, ok)
		}
	}
	for _, hunk := range []string{"kernels/a.cu:10-24", "a: b.cu:3", "a->b.cu:3", ""} {
		if got, ok := ParseStep(hunk); ok {
			t.Errorf("%s: %+v", hunk, got)
		}
	}
}
