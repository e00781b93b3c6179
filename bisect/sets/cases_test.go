package sets

import (
	"slices"
	"strings"
	"testing"
)

// once is a verification without repeats.
const once = 1

// Round 9: compile mode, fullgraph (requires compile), graph capture, warm-up, import time.
func TestCaseRound9(t *testing.T) {
	atoms := plainAtoms(5, [2]int{1, 0})
	for _, claims := range []bool{false, true} {
		o := guilty([]int{0, 4})
		s := Search{Space: space(t, atoms), Oracle: o, Goal: All, Repeats: once}
		limit := 8
		if claims {
			limit += 5
			for _, c := range []struct {
				name string
				atom int
			}{{"mode", 0}, {"fullgraph", 1}, {"graph", 2}, {"warm-up", 3}, {"import", 4}} {
				s.Claims = append(s.Claims, Claim{c.name, Of(c.atom)})
			}
		}
		f := find(t, s)
		same(t, "guilty", minimalSets(f), Of(0, 4))
		same(t, "safe", safeSets(f), Of(0, 1, 2, 3), Of(2, 3, 4))
		if !f.Complete || !f.Minimal[0].Verified || f.Safe[0].Weight != 4 || !f.Safe[0].Maximum {
			t.Errorf("complete %v, %+v, keep %+v", f.Complete, f.Minimal, f.Safe)
		}
		price(f).within(t, limit, 2, 460+60)
		for _, r := range o.asked {
			if r.Set.Has(1) && !r.Set.Has(0) {
				t.Errorf("invalid set run: %v", r.Set.Atoms())
			}
		}
		if !claims {
			price(f).within(t, 8, 2, 460)
			continue
		}
		for i, want := range []Verdict{Combination, Refuted, Refuted, Refuted, Combination} {
			if f.Claims[i].Verdict != want {
				t.Errorf("claim %s: %s (%s), want %s", f.Claims[i].Name, f.Claims[i].Verdict, f.Claims[i].Why, want)
			}
		}
		same(t, "mode with", f.Claims[0].With, Of(4))
		same(t, "import with", f.Claims[4].With, Of(0))
	}
}

func TestCaseStar(t *testing.T) {
	f := find(t, Search{Space: space(t, plainAtoms(16)), Oracle: guilty([]int{2, 5}, []int{2, 9}, []int{2, 14}), Goal: All, Repeats: once})
	same(t, "guilty", minimalSets(f), Of(2, 5), Of(2, 9), Of(2, 14))
	same(t, "safe", safeSets(f), all(16, 2), all(16, 5, 9, 14))
	if !f.Complete || f.Safe[0].Weight != 15 || !f.Safe[0].Maximum {
		t.Errorf("complete %v, keep %+v", f.Complete, f.Safe)
	}
	price(f).within(t, 30, 30, 2500)
}

func TestCaseMixed(t *testing.T) {
	sets := [][]int{{11}, {4, 27}, {1, 16, 30}}
	f := find(t, Search{Space: space(t, plainAtoms(32)), Oracle: guilty(sets...), Goal: All, Repeats: once})
	same(t, "guilty", minimalSets(f), Of(11), Of(4, 27), Of(1, 16, 30))
	if !f.Complete || len(f.Safe) != 6 || f.Safe[0].Weight != 29 {
		t.Errorf("complete %v, %d safe sets, keep %+v", f.Complete, len(f.Safe), f.Safe[0])
	}
	price(f).within(t, 55, 55, 3200)
	o := guilty(sets...)
	o.early = 36
	f = find(t, Search{Space: space(t, plainAtoms(32)), Oracle: o, Goal: All, Repeats: -1})
	same(t, "guilty", minimalSets(f), Of(11), Of(4, 27), Of(1, 16, 30))
	price(f).within(t, 45, 45, 1000)
}

// Atom 2 fails unless 5 is on and 7 is off.
func TestCaseMask(t *testing.T) {
	order := []int{2, 5, 0, 1, 3, 4, 6, 7} // the atoms as numbered by the case
	at := func(name int) int { return slices.Index(order, name) }
	o := guilty()
	o.seconds = func(on Set) float64 {
		if on.Has(at(2)) && (!on.Has(at(5)) || on.Has(at(7))) {
			return 1000
		}
		return 12
	}
	atoms := plainAtoms(8)
	for i, n := range order {
		atoms[i].Name = "f" + string(rune('0'+n))
	}
	for _, goal := range []Goal{One, All} {
		f := find(t, Search{Space: space(t, atoms), Oracle: o, Repeats: once, Goal: goal})
		same(t, "guilty", minimalSets(f), Of(at(2)))
		if f.Monotone || f.Complete || !strings.Contains(strings.Join(f.Warnings, "\n"), "non-monotone: f5 masks f2") {
			t.Errorf("monotone %v, complete %v, warnings %q", f.Monotone, f.Complete, f.Warnings)
		}
		price(f).within(t, 10+int(goal)/2, 3, 640) // a seed more where all are asked for
	}
}

func TestCaseHunks(t *testing.T) {
	needs := [][2]int{{7, 3}, {3, 1}, {9, 8}, {10, 2}}
	oracle := func() *table {
		o := guilty([]int{7})
		o.builds = func(on Set) bool {
			return !slices.ContainsFunc(needs, func(q [2]int) bool { return on.Has(q[0]) && !on.Has(q[1]) })
		}
		return o
	}
	check := func(f Finding, tests, fails int) {
		t.Helper()
		same(t, "guilty", minimalSets(f), Of(1, 3, 7))
		for _, m := range f.Minimal[0].Members {
			if want := map[int]Role{1: Carrier, 3: Carrier, 7: Culprit}[m.Atom]; m.Role != want {
				t.Errorf("hunk %d is a %s", m.Atom, m.Role)
			}
		}
		same(t, "safe", safeSets(f), all(12, 7))
		if !f.Complete {
			t.Errorf("not complete: %v %q", keys(f.NotExcluded), f.Warnings)
		}
		price(f).within(t, tests, fails, 1e9)
	}
	check(find(t, Search{Space: space(t, plainAtoms(12)), Oracle: oracle(), Goal: All, Repeats: once}), 16, 5)
	check(find(t, Search{Space: space(t, plainAtoms(12, needs...)), Oracle: oracle(), Goal: All, Repeats: once}), 8, 5)
}

func TestCaseSlowIsNotTimeout(t *testing.T) {
	o := guilty()
	o.early = 36
	o.seconds = func(on Set) float64 {
		switch {
		case Of(3, 8).In(on):
			return 1000
		case on.Has(3):
			return 60
		}
		return 12
	}
	for _, goal := range []Goal{One, All} {
		o.asked = nil
		f := find(t, Search{Space: space(t, plainAtoms(10)), Oracle: o, Goal: goal, Repeats: once})
		same(t, "guilty", minimalSets(f), Of(3, 8))
		if len(f.Slow) != 1 || !f.Slow[0].Atoms.Equal(Of(3)) || f.Slow[0].Slow != 5 {
			t.Errorf("slow %+v", f.Slow)
		}
		full := 0
		for _, r := range o.asked {
			if r.Full && r.Purpose != Baseline && r.Purpose != AllChanges {
				full++
			}
		}
		if full > 2 {
			t.Errorf("%d tests at the full limit", full)
		}
		if goal == All && (!f.Complete || f.Minimal[0].Class != "timeout") {
			t.Errorf("complete %v, %+v", f.Complete, f.Minimal)
		}
		price(f).within(t, 30, 15, 900)
	}
}
