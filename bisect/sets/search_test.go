package sets

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

func said(f Finding, words string) bool {
	return strings.Contains(strings.Join(f.Warnings, "\n"), words)
}

func TestEnds(t *testing.T) {
	s := space(t, plainAtoms(6, [2]int{4, 1}))
	f := find(t, Search{Space: s, Oracle: guilty()})
	if f.Result != bisect.NoDifference || !said(f, "with all changes it passes, and with none as well") || f.Counts.Tests > 6 {
		t.Errorf("%s %q", f.Result, f.Warnings)
	}
	f = find(t, Search{Space: s, Oracle: guilty([]int{})})
	if f.Result != bisect.NoDifference || !said(f, "with all changes it shows the complaint, and with none as well") {
		t.Errorf("%s %q", f.Result, f.Warnings)
	}
	o := guilty()
	o.builds = func(on Set) bool { return len(on) == 0 }
	if f = find(t, Search{Space: s, Oracle: o}); f.Result != bisect.Inconclusive || !said(f, "hint: leave the value that does not build out") {
		t.Errorf("%s %q", f.Result, f.Warnings)
	}
}

// All changes that fail in some launches only are not taken for passing.
func TestRareBadEnd(t *testing.T) {
	found := 0
	for seed := range uint64(100) {
		o := guilty([]int{2})
		o.hidden, o.seed = 0.5, seed
		f := find(t, Search{Space: space(t, plainAtoms(4)), Oracle: o})
		ends := 0
		for _, x := range f.Tests {
			if x.Purpose == AllChanges {
				ends++
			}
		}
		switch {
		case f.Result == bisect.Found && f.Minimal[0].Atoms.Equal(Of(2)):
			found++
		case f.Result != bisect.NoDifference || ends != 5:
			t.Errorf("seed %d: %s after %d tests of all changes", seed, f.Result, ends)
		}
	}
	if found < 90 {
		t.Errorf("found in %d of 100", found)
	}
}

// Verdicts agree with the table of the design, worked out from the truth.
func TestClaimsAgainstBruteForce(t *testing.T) {
	seen := map[Verdict]int{}
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 6))
		w := randomWorld(rng, true, false)
		s := space(t, w.atoms)
		o := w.oracle()
		search := Search{Space: s, Oracle: o, Goal: Goal(seed % 3), Repeats: once}
		for i := range 1 + rng.IntN(4) {
			search.Claims = append(search.Claims, Claim{fmt.Sprint(i), Of(rng.Perm(w.n)[:1+rng.IntN(2)]...)})
		}
		f := find(t, search)
		minimal, _, _ := w.truth(s)
		for i, j := range f.Claims {
			alone, without := s.Close(j.Atoms), s.Drop(s.Whole(), j.Atoms)
			fails := func(on Set) bool { return o.seconds(on) > 180 }
			meets := slices.ContainsFunc(minimal, func(m Set) bool { return !m.In(without) })
			want := map[[2]bool]Verdict{{true, false}: Confirmed, {true, true}: NotTheOnly, {false, false}: Combination}[[2]bool{fails(alone), fails(without)}]
			switch {
			case want != "":
			case meets && f.Complete:
				want = Combination
			case f.Complete:
				want = Refuted
			case slices.ContainsFunc(f.Minimal, func(g Guilty) bool { return !g.Atoms.In(without) }):
				want = Combination
			default:
				want = NotSupported
			}
			if j.Verdict != want {
				t.Fatalf("seed %d, claim %d %v: %s (%s), want %s\n%+v", seed, i, j.Atoms.Atoms(), j.Verdict, j.Why, want, w)
			}
			if j.Verdict == Confirmed && len(j.Only) > 0 && (!j.Only.In(alone) || !contains(minimal, j.Only)) {
				t.Fatalf("seed %d: only %v is needed?", seed, j.Only.Atoms())
			}
			launched := slices.ContainsFunc(f.Tests, func(x Test) bool { return !x.Inferred && x.Set.Equal(alone) })
			if strings.HasPrefix(j.Why, "alone: ") && strings.Contains(strings.Split(j.Why, ";")[0], "(inferred)") == launched {
				t.Fatalf("seed %d, claim %d: launched alone: %v, but %s", seed, i, launched, j.Why)
			}
			seen[want]++
		}
	}
	if len(seen) != 5 {
		t.Errorf("not all verdicts came up: %v", seen)
	}
}

// A claim that cannot be tested is undecided, with its reason.
func TestUndecidedClaims(t *testing.T) {
	o := guilty([]int{2})
	o.builds = func(on Set) bool { return !on.Has(3) || on.Has(1) }
	f := find(t, Search{Space: space(t, plainAtoms(5)), Oracle: o, Claims: []Claim{{"three", Of(3)}}, Goal: All})
	if j := f.Claims[0]; j.Verdict != Undecided || j.Why != "by itself it cannot be judged" {
		t.Errorf("%s (%s)", j.Verdict, j.Why)
	}
}

// Answers that are wrong now and then do not verify a wrong set; what could not be decided is
// said to be so.
func TestNoise(t *testing.T) {
	for _, x := range []struct{ hidden, false_, wrong float64 }{{0, 0.02, 0.005}, {0.05, 0.05, 0.01}, {0.1, 0.02, 0.015}, {0.2, 0, 0.05}} {
		const trials = 200
		wrong, right := 0, 0
		for seed := range uint64(trials) {
			rng := rand.New(rand.NewPCG(seed, 7))
			m := rng.Perm(16)[:2]
			o := guilty(m)
			o.hidden, o.false_, o.seed = x.hidden, x.false_, seed
			f := find(t, Search{Space: space(t, plainAtoms(16)), Oracle: o})
			switch {
			case len(f.Minimal) == 0 && f.Result == bisect.Found:
				t.Fatalf("seed %d: found nothing", seed)
			case len(f.Minimal) == 0:
			case f.Minimal[0].Atoms.Equal(Of(m...)):
				right++
			case f.Minimal[0].Verified:
				wrong++
			}
		}
		t.Logf("hidden %v, false %v: %d right, %d wrong of %d", x.hidden, x.false_, right, wrong, trials)
		if float64(wrong) > x.wrong*trials || right < trials*9/10 {
			t.Errorf("hidden %v, false %v: %d right, %d wrong of %d", x.hidden, x.false_, right, wrong, trials)
		}
	}
}

// A complaint that comes in some launches only: what is verified is minimal, whatever the chance, and no
// list is said to be complete that is not.
func TestVerificationHolds(t *testing.T) {
	const trials = 8 // a cell
	wrong, right, all := 0, 0, 0
	for _, rate := range []float64{0.3, 0.5, 0.7, 1} {
		for _, n := range []int{8, 32} {
			for k := 1; k <= 3; k++ {
				for seed := range uint64(trials) {
					m := rand.New(rand.NewPCG(seed, uint64(10*n+k))).Perm(n)[:k]
					o := guilty(m)
					o.hidden, o.seed = 1-rate, seed
					f := find(t, Search{Space: space(t, plainAtoms(n)), Oracle: o, Goal: Goal(seed % 2 * uint64(All))})
					all++
					wrongly := slices.ContainsFunc(f.Minimal, func(g Guilty) bool { return g.Verified && !g.Atoms.Equal(Of(m...)) })
					switch {
					case wrongly || f.Complete && len(f.Minimal) != 1:
						t.Logf("rate %v n=%d k=%d seed %d: %v, want %v", rate, n, k, seed, keys(minimalSets(f)), m)
						wrong++
					case len(f.Minimal) == 1 || f.Result == bisect.NoDifference && rate < 0.5: // five passes of all changes
						right++
					}
				}
			}
		}
	}
	t.Logf("%d right, %d wrong of %d", right, wrong, all)
	if wrong > all/100 || right < all*95/100 {
		t.Errorf("%d right, %d wrong of %d", right, wrong, all)
	}
}

// Where two atoms mask a third, the set named still is one that fails and passes without any one of its
// atoms, and completeness is claimed only where nothing was seen.
func TestMasks(t *testing.T) {
	seen := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 8))
		n := 4 + rng.IntN(8)
		p := rng.Perm(n)
		o := guilty()
		o.seconds = func(on Set) float64 {
			if on.Has(p[0]) && (!on.Has(p[1]) || on.Has(p[2])) {
				return 1000
			}
			return 12
		}
		f := find(t, Search{Space: space(t, plainAtoms(n)), Oracle: o, Goal: Goal(seed % 3)})
		for _, g := range f.Minimal {
			for _, i := range g.Atoms.Atoms() {
				if o.seconds(g.Atoms) < 180 || o.seconds(g.Atoms.Minus(Of(i))) > 180 {
					t.Fatalf("seed %d: %v is not minimal", seed, g.Atoms.Atoms())
				}
			}
		}
		if said(f, "non-monotone") == f.Monotone || f.Complete && !f.Monotone || len(f.Minimal) == 0 {
			t.Fatalf("seed %d: monotone %v, complete %v, %q", seed, f.Monotone, f.Complete, f.Warnings)
		}
		if !f.Monotone {
			seen++
		}
	}
	if seen < 40 {
		t.Errorf("seen in %d of 400", seen)
	}
}

// replay gives back the answers of a ledger, then asks the oracle.
type replay struct {
	known map[string]Result
	then  Oracle
	asked int
}

func (p *replay) Test(ctx context.Context, r Request) (Result, error) {
	if res, ok := p.known[fmt.Sprint(r.Purpose, r.Set.Key(), r.Nth)]; ok {
		return res, nil
	}
	p.asked++
	return p.then.Test(ctx, r)
}

// A search that is broken off after any number of tests and begun again with their answers takes the
// same way and ends the same; and so does one that is simply made twice.
func TestResume(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 9))
		w := randomWorld(rng, seed%2 == 0, false)
		search := Search{Space: space(t, w.atoms), Goal: All, Claims: []Claim{{"a", Of(rng.IntN(w.n))}}}
		oracle := func() *table {
			o := w.oracle()
			o.hidden, o.seed = 0.05, seed
			return o
		}
		search.Oracle = oracle()
		whole := find(t, search)
		for cut := 1; cut < whole.Counts.Tests; cut += 1 + whole.Counts.Tests/7 {
			o := oracle()
			o.err, o.errAt = errors.New("the power went off"), cut
			search.Oracle = o
			half := find(t, search)
			if half.Result != bisect.Broken || half.Err == nil || half.Counts.Tests != cut {
				t.Fatalf("seed %d: %s after %d of %d tests", seed, half.Result, half.Counts.Tests, cut)
			}
			again := &replay{known: map[string]Result{}, then: oracle()}
			for _, x := range half.Tests {
				if !x.Inferred {
					again.known[fmt.Sprint(x.Purpose, x.Set.Key(), x.Nth)] = x.Result
				}
			}
			search.Oracle = again
			rest := find(t, search)
			whole.Space, rest.Space = nil, nil
			if !reflect.DeepEqual(rest, whole) || again.asked != whole.Counts.Tests-cut {
				t.Fatalf("seed %d: another way after %d tests: %d more, not %d", seed, cut, again.asked, whole.Counts.Tests-cut)
			}
		}
	}
}

func TestBudget(t *testing.T) {
	o := guilty([]int{11}, []int{4, 27}, []int{1, 16, 30})
	for budget := 3; budget < 60; budget += 4 {
		o.asked = nil
		f := find(t, Search{Space: space(t, plainAtoms(32)), Oracle: o, Goal: All, Repeats: once, Spent: func() bool { return len(o.asked) >= budget }})
		if len(o.asked) > budget || f.Complete == f.Spent {
			t.Errorf("budget %d: %d tests, complete %v, spent %v", budget, len(o.asked), f.Complete, f.Spent)
		}
		switch {
		case len(f.Minimal) == 0 && f.Result != bisect.Inconclusive:
			t.Errorf("budget %d: %s", budget, f.Result)
		case len(f.Minimal) > 0 && (f.Result != bisect.Found || f.Spent && len(f.NotExcluded) == 0):
			t.Errorf("budget %d: %s, %d not excluded", budget, f.Result, len(f.NotExcluded))
		}
		cut := guilty([]int{11}, []int{4, 27}, []int{1, 16, 30})
		c := find(t, Search{Space: space(t, plainAtoms(32)), Oracle: cutOff{cut, budget}, Goal: All, Repeats: once})
		if diff := cmp.Diff(f.Minimal, c.Minimal); c.Result != f.Result || c.Spent != f.Spent || diff != "" {
			t.Errorf("cut off at %d: %s, spent %v, not begun: %s, spent %v\n%s", budget, c.Result, c.Spent, f.Result, f.Spent, diff)
		}
	}
}

// cutOff is an oracle whose budget is used up during a test.
type cutOff struct {
	*table
	budget int
}

func (o cutOff) Test(ctx context.Context, r Request) (Result, error) {
	if len(o.asked) == o.budget {
		return Result{}, bisect.ErrSpent
	}
	return o.table.Test(ctx, r)
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := Search{Space: space(t, plainAtoms(9)), Oracle: guilty([]int{4}), OnTest: func(x Test) {
		if x.Purpose == Prefix {
			cancel()
		}
	}}
	if f, err := s.Find(ctx); err != nil || f.Result != bisect.Interrupted || f.Counts.Tests != 3 {
		t.Errorf("%s after %d tests, %v", f.Result, f.Counts.Tests, err)
	}
}

// A composite atom that is guilty is taken apart, and its guilty part is named.
func TestExpand(t *testing.T) {
	const composite, parts = 2, 3 // atoms 5, 6, 7 stand for atom 2
	for part := range parts {
		o := guilty()
		o.seconds = func(on Set) float64 {
			if on.Has(4) && (on.Has(composite) || on.Has(5+part)) || on.Has(0) {
				return 1000
			}
			return 12
		}
		s := Search{Space: space(t, plainAtoms(5, [2]int{3, composite})), Oracle: o, Goal: All, Repeats: once, Expand: func(i int) []Atom {
			if i == composite {
				return []Atom{{Name: "cudagraphs"}, {Name: "autotune"}, {Name: "descent"}}
			}
			return nil
		}}
		s.Claims = []Claim{{"composite", Of(composite)}}
		f := find(t, s)
		same(t, "guilty", minimalSets(f), Of(0), Of(4, 5+part))
		want := all(8, 0, 2, 3, 5+part) // what required the composite atom requires all parts
		same(t, "safe", safeSets(f), all(8, 0, 2, 4), want)
		if !f.Complete || f.Space.Len() != 8 || f.Space.Atom(5).Name != "cudagraphs" || f.Claims[0].Verdict != Combination {
			t.Errorf("complete %v, %d atoms, %+v", f.Complete, f.Space.Len(), f.Claims)
		}
	}
}

// A test of a set goes on counting after an atom of it was divided: its launches have names of their own, or one that is
// remembered would count twice.
func TestDividedCountsOn(t *testing.T) {
	const divided = 1
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		made := map[string]bool{}
		o := oracleFunc(func(r Request) Result {
			on := r.Set
			if on.Has(divided) {
				on = on.Minus(Of(divided)).Or(Of(4, 5))
			}
			if name := fmt.Sprint(on.Key(), r.Purpose, r.Nth); made[name] {
				t.Errorf("seed %d: %v, %s %d is launched again", seed, on.Atoms(), r.Purpose, r.Nth)
			} else {
				made[name] = true
			}
			if Of(0, 4).In(on) && rng.Float64() < 0.7 {
				return Result{Answer: Fail, Class: bisect.Crash, Seconds: 1}
			}
			return Result{Answer: Pass, Class: bisect.OK, Seconds: 1}
		})
		s := Search{Space: space(t, plainAtoms(4)), Oracle: o, Goal: All, Divided: true, Expand: func(i int) []Atom {
			if i == divided {
				return []Atom{{Name: "x"}, {Name: "y"}}
			}
			return nil
		}}
		find(t, s)
	}
}

// A composite atom whose parts do not show what it shows is named as a whole; nothing is said about its
// parts. Another one is taken apart all the same.
func TestOpaque(t *testing.T) {
	parts := func(i int) []Atom {
		if i == 1 || i == 2 {
			return []Atom{{Name: "x"}, {Name: "y"}}
		}
		return nil
	}
	for seed := range 4 {
		atoms := plainAtoms(4)
		atoms[seed].Suspicion = 8
		asked := map[int]bool{}
		next, first := 4, 99 // the number of the next part, and of the first one of atom 2
		o := guilty()
		o.seconds = func(on Set) float64 {
			if Of(1, 3).In(on) || on.Has(0) && (on.Has(2) || on.Has(first)) {
				return 1000
			}
			return 12
		}
		f := find(t, Search{Space: space(t, atoms), Oracle: o, Goal: All, Expand: func(i int) []Atom {
			if i == 2 {
				first = next
			}
			next += len(parts(i))
			if asked[i] && parts(i) != nil {
				t.Errorf("the parts of %d were asked for twice", i)
			}
			asked[i] = true
			return parts(i)
		}})
		part := slices.IndexFunc(minimalSets(f), func(s Set) bool { return s.Has(0) })
		if len(f.Minimal) != 2 || part < 0 || !said(f, "the parts of 1 do not show together what it shows") {
			t.Fatalf("%v %q", keys(minimalSets(f)), f.Warnings)
		}
		same(t, "whole", minimalSets(f)[1-part:2-part], Of(1, 3))
		if got := f.Minimal[part].Atoms; got.Len() != 2 || got.Has(2) || !f.Complete {
			t.Errorf("suspect %d: %v, complete %v", seed, got.Atoms(), f.Complete)
		}
	}
}

// The fastest safe set is recommended; nothing on is one of them.
func TestRecommended(t *testing.T) {
	for _, slower := range []float64{0, 2} {
		s := Search{Space: space(t, plainAtoms(6)), Oracle: guilty([]int{1, 3}), Goal: All, Time: func(_ context.Context, on Set, _ func(bisect.Effect) bool) (bisect.Effect, error) {
			ratio := 1.1 - 0.3*float64(on.Len()%2) + slower
			if on.Has(3) {
				ratio -= 0.2
			}
			return bisect.Effect{Metric: "time", Ratio: ratio}, nil
		}}
		f := find(t, s)
		if !f.Safe[0].Maximum || !f.Safe[0].Confirmed || f.Safe[0].Effect == nil {
			t.Errorf("keep %+v", f.Safe[0])
		}
		want := all(6, 1)
		if slower > 0 {
			want = nil
		}
		if f.Recommended == nil || !f.Recommended.Confirmed || !f.Recommended.Atoms.Equal(want) || f.Recommended.Effect.Metric != "time" {
			t.Errorf("recommended %+v", f.Recommended)
		}
	}
}

// Where more is better the set with most of it is recommended.
func TestRecommendedHigher(t *testing.T) {
	s := Search{Space: space(t, plainAtoms(6)), Oracle: guilty([]int{1, 3}), Goal: All}
	for with, want := range map[int]Set{1: all(6, 3), 3: all(6, 1), 9: nil} {
		s.Time = func(_ context.Context, on Set, _ func(bisect.Effect) bool) (bisect.Effect, error) {
			ratio := 0.8
			if on.Has(with) {
				ratio = 1.4
			}
			return bisect.Effect{Metric: "bandwidth", Ratio: ratio, Low: ratio - 0.1, High: ratio + 0.1, Higher: true}, nil
		}
		if f := find(t, s); f.Recommended == nil || !f.Recommended.Atoms.Equal(want) {
			t.Errorf("with %d: %+v", with, f.Recommended)
		}
	}
}

// A set is timed until it can no longer be the fastest: it is slower than nothing on, or than the one before.
func TestTimedNoLongerThanNeeded(t *testing.T) {
	bounds := map[int][2]float64{1: {0.5, 0.6}, 3: {0.7, 0.8}} // by the atom that is left out; 3 is timed first
	for _, higher := range []bool{false, true} {
		got := map[int][]bool{}
		s := Search{Space: space(t, plainAtoms(6)), Oracle: guilty([]int{1, 3}), Goal: All}
		s.Time = func(_ context.Context, on Set, enough func(bisect.Effect) bool) (bisect.Effect, error) {
			out := 1
			if on.Has(1) {
				out = 3
			}
			effect := func(low, high float64) bisect.Effect {
				if higher {
					low, high = 1/high, 1/low
				}
				return bisect.Effect{Metric: "m", Ratio: (low + high) / 2, Low: low, High: high, Higher: higher}
			}
			for _, low := range []float64{0.4, 0.7, 0.75, 1, 1.1} {
				got[out] = append(got[out], enough(effect(low, 1.3)))
			}
			return effect(bounds[out][0], bounds[out][1]), nil
		}
		f := find(t, s)
		order := []int{1, 3}
		if f.Safe[0].Atoms.Has(1) {
			order = []int{3, 1}
		}
		least := 1.0
		for _, out := range order {
			var want []bool
			for _, low := range []float64{0.4, 0.7, 0.75, 1, 1.1} {
				want = append(want, low >= least)
			}
			if !slices.Equal(got[out], want) {
				t.Errorf("without %d: %v, want %v", out, got[out], want)
			}
			least = bounds[out][0]
		}
	}
}

// Thousands of hunks are searched in no time, by the fixed fraction instead of the tree.
func TestManyAtoms(t *testing.T) {
	m := []int{17, 900, 4000}
	f := find(t, Search{Space: space(t, plainAtoms(lattice.MaxAtoms)), Oracle: guilty(m), Repeats: once})
	same(t, "guilty", minimalSets(f), Of(m...))
	price(f).within(t, 3*3*13+3, 30, 6000)
}

func TestRefused(t *testing.T) {
	for want, atoms := range map[string][]Atom{
		"cyclic":         {{Requires: []int{1}}, {Requires: []int{0}}},
		"another change": {{Requires: []int{2}}, {}},
		"be positive":    {{Weight: -1}},
		"between 1 and":  {},
	} {
		if _, err := NewSpace(atoms); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	s := space(t, plainAtoms(3, [2]int{2, 0}))
	for _, search := range []Search{{Claims: []Claim{{Name: "none"}}}, {Claims: []Claim{{"far", Of(9)}}}} {
		search.Space, search.Oracle = s, guilty([]int{0})
		if _, err := search.Find(t.Context()); err == nil {
			t.Errorf("%+v was taken", search)
		}
	}
}

// Two changes of which neither builds without the other are innocent beside two that are guilty and alike.
func TestInnocentPair(t *testing.T) {
	for _, goal := range []Goal{One, Keep, All} {
		together := func(on Set, a, b int) bool { return Of(a).In(on) == Of(b).In(on) }
		x := guilty([]int{0, 2})
		x.builds = func(on Set) bool { return together(on, 0, 2) && together(on, 1, 3) }
		f := find(t, Search{Space: space(t, plainAtoms(4)), Oracle: x, Goal: goal})
		if len(f.Minimal) != 1 || !f.Minimal[0].Atoms.Equal(Of(0, 2)) || !f.Minimal[0].Verified {
			t.Errorf("goal %d: %+v", goal, f.Minimal)
		}
	}
}
