package sets

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect/sets/internal/odds"
)

// maxRounds is how often the search for one guilty set begins again after its answers contradicted it (sets.md 4g).
const maxRounds = 4

// finder finds a minimal guilty set inside a failing one by prefix search, and verifies it.
type finder struct {
	tester  *tester
	scope   *scope
	found   *Finding
	cuts    Cuts
	hunt    *odds.Hunt // how far the search for a set is; nil: there is none
	proving Set        // the set that is verified; empty: none
}

// shrink finds a minimal guilty set inside within, which fails (sets.md 4a): the shortest prefix of the atoms that
// fails ends in an atom of the set; keep that atom, and go on with those before it. (Binary search for the next
// necessary element: Marques-Silva, Janota and Belov, minimal sets over monotone predicates, CAV 2013. The weighted
// cuts are our own.)
//
// The kept set is closed and what is required stands in front, so every set tested is valid. What cannot be judged is
// read as a pass: in an order in which everything stands behind what it needs, "builds and fails" stays true along the
// prefixes once it is true.
func (f *finder) shrink(within Set) (Set, error) {
	for tries := 1; ; tries++ {
		kept, stray, err := f.descend(within, tries < maxRounds)
		if err != nil || !stray {
			return kept, err
		}
	}
}

// descend goes down to a guilty set once. Where checked, it stops at a failure that turns out to be stray, that is, by
// chance.
func (f *finder) descend(within Set, checked bool) (kept Set, stray bool, err error) {
	order := f.scope.space.Sorted(f.tester.memory.smallest(within))
	missing := odds.SizePrior()
	for len(order) > 0 {
		suspicion := make([]float64, len(order))
		for k, a := range order {
			suspicion[k] = f.scope.space.Atom(a).Suspicion
		}
		belief := odds.NewMissing(missing, suspicion)
		f.hunt = odds.NewHunt(kept.Len(), len(order), missing)
		p, err := f.boundary(kept, order, belief)
		if err != nil || p == 0 {
			return kept, false, err
		}
		if checked && p == len(order) {
			if a, err := f.again(kept.Or(Of(order...))); err != nil || a != Fail {
				return nil, true, err
			}
		}
		missing = belief.After(p)
		kept = kept.Or(f.scope.space.Needs(order[p-1]))
		order = without(order[:p-1], kept)
	}
	return kept, false, nil
}

// again tests a set a second time whose only test failed and on which all that was found since rests: where nothing
// less fails, it may have failed by chance.
func (f *finder) again(set Set) (Answer, error) {
	e := f.tester.memory.entries[set.Key()]
	if f.tester.memory.steady || e == nil || e.final != "" || e.seen != (odds.Tally{Fail: 1}) {
		return Fail, nil
	}
	return f.tester.retest(set, Prefix, dismissed)
}

// without lists the atoms that are not in a set.
func without(order []int, set Set) (left []int) {
	for _, a := range order {
		if !set.Has(a) {
			left = append(left, a)
		}
	}
	return left
}

// boundary finds the least p for which the kept set and the first p atoms fail; all of them do, and the
// kept set is tested by itself unless it is empty.
func (f *finder) boundary(kept Set, order []int, belief odds.Missing) (int, error) {
	set := func(p int) Set { return kept.Or(Of(order[:p]...)) }
	weights := belief.Positions(f.ruled(kept, order))
	lo, hi := 0, len(order)
	if len(kept) == 0 {
		lo = 1
	}
	lo, hi = f.narrow(set, lo, hi)
	other := Pass // the last answer that was not a failure
	for tests := 0; lo < hi; tests++ {
		w := weights[lo : hi+1]
		f.hunt.Nats = odds.Entropy(w)
		m := lo + f.cut(w, tests, other)
		f.tester.chance = odds.Share(w, m-lo)
		switch a, err := f.tester.ask(set(m), Prefix); {
		case err != nil:
			return 0, err
		case a == Fail:
			hi = m
		default:
			lo, other = m+1, a
		}
	}
	return lo, nil
}

// cut is the place to test next. The cheapest order of tests may be long where luck is bad: beyond three times what
// halving needs at most, the rest is halved (sets.md 4a, guard).
func (f *finder) cut(w []float64, tests int, other Answer) int {
	if tests >= 3*(odds.CeilLog2(f.scope.top.Len())+1) {
		return odds.Middle(len(w))
	}
	return odds.Cut(w, f.tester.prices(other), f.cuts)
}

// narrow is what earlier answers leave of the places lo to hi: behind the longest prefix known not to fail, up to the
// shortest one known to.
func (f *finder) narrow(set func(p int) Set, lo, hi int) (int, int) {
	known := func(m int, fails bool) bool {
		a, from, ok := f.tester.memory.infer(set(m))
		if ok = ok && (a == Fail) == fails; ok && a != Unjudged {
			f.tester.recordInferred(set(m), from, a, Prefix)
		}
		return ok
	}
	from, _ := odds.Least(lo, hi, func(m int) (bool, error) { return !known(m, false), nil })
	to, _ := odds.Least(from, hi, func(m int) (bool, error) { return known(m, true), nil })
	return from, to
}

// ruled marks, by place in order, the atoms that are known not to fail with the kept set alone.
func (f *finder) ruled(kept Set, order []int) []bool {
	ruled := make([]bool, len(order))
	if len(order) > odds.MostTree {
		return ruled
	}
	for k, a := range order {
		got, _, ok := f.tester.memory.infer(kept.Or(f.scope.space.Needs(a)))
		ruled[k] = ok && got == Pass
	}
	return ruled
}

// proof is what the verification of a set came to.
type proof struct {
	what outcome
	less Set // of smaller: the set that fails
}

type outcome int

const (
	proven  outcome = iota
	smaller         // it fails without one of its atoms
	stray           // it does not fail at all, or not reliably
	slow            // it is slow, and ends within the full limit
)

// minimal finds a minimal guilty set inside within, which failed, and verifies it. It is nil when within
// turns out not to fail after all, or when nothing can be verified.
func (f *finder) minimal(within Set) (*Guilty, error) {
	const mostSlow = 16 // times that the early limit is raised for one guilty set
	start := within
	for tries, raised := 1, 0; tries <= maxRounds; {
		m, err := f.shrink(within)
		if err != nil {
			return nil, err
		}
		g, p, err := f.verify(m)
		if err != nil {
			return nil, err
		}
		switch within = start; {
		case p.what == proven:
			return g, masks{f.tester, f.scope, f.found}.explain(m)
		case p.what == slow && raised < mostSlow: // an answer, not a contradiction
			raised++
		default:
			tries++
		}
		if p.what == smaller { // goes on below a set that repeated tests saw fail
			within = p.less
		} else if a, err := f.tester.ask(start, Prefix); err != nil || a != Fail {
			return nil, err
		}
	}
	f.found.warn("%d verifications contradicted the search below %s: the complaint depends on more than these changes", maxRounds, f.scope.names(start))
	return nil, nil
}

// verify tests by repeated runs that a set passes without any one of its atoms, and fails. A few passes
// come first, since they are cheap; how many it takes in the end depends on how often the set fails.
func (f *finder) verify(m Set) (*Guilty, proof, error) {
	g := &Guilty{Atoms: m}
	for _, i := range m.Atoms() {
		g.Members = append(g.Members, Member{Atom: i})
	}
	if f.tester.repeats < 0 {
		f.describe(g)
		return g, proof{}, nil
	}
	f.hunt, f.proving = nil, m
	defer func() { f.proving = nil }()
	if p, err := f.needed(g, likely); err != nil || p.what != proven {
		return nil, p, err
	}
	switch a, res, err := f.sure(m, dismissed); {
	case err != nil:
		return nil, proof{}, err
	case res.Between:
		f.describe(g)
		g.Slow, g.Seconds, g.Verified = res.Slow, res.Seconds, true
		f.found.Slow = append(f.found.Slow, *g)
		f.tester.waitFor(m, g.Seconds)
		return nil, proof{what: slow}, nil
	case a != Fail:
		return nil, proof{what: stray}, nil
	}
	// by now it is known how often the set fails, and so how many passes are enough
	if p, err := f.needed(g, hidden/float64(len(g.Members))); err != nil || p.what != proven {
		return nil, p, err
	}
	f.describe(g)
	g.Verified = true
	return g, proof{}, nil
}

// needed checks, for each atom of a set that no other one requires, that the set does not fail without it, and notes
// the roles. The proof ends at the first set that does fail, or cannot be judged.
func (f *finder) needed(g *Guilty, doubt float64) (proof, error) {
	for k := range g.Members {
		m := &g.Members[k]
		m.Role = Carrier
		if f.scope.space.Users(m.Atom).And(g.Atoms).Len() > 1 {
			continue
		}
		if p, err := f.leaveOut(g, doubt, m); err != nil || p.what != proven {
			return p, err
		}
	}
	return f.paired(g, doubt)
}

// leaveOut checks that a set does not fail without some members. Where it passes, they are to blame.
func (f *finder) leaveOut(g *Guilty, doubt float64, members ...*Member) (proof, error) {
	var out Set
	for _, m := range members {
		out = out.Or(Of(m.Atom))
	}
	less := f.scope.space.Drop(g.Atoms, out)
	switch a, _, err := f.sure(less, doubt); {
	case err != nil || a == undecided:
		return proof{what: stray}, err
	case a == Fail:
		return proof{smaller, less}, nil
	case a == Pass:
		for _, m := range members {
			m.Role = Culprit
		}
	}
	return proof{}, nil
}

// paired leaves out two atoms at a time of a set that cannot be tried without any single one, such as a declaration
// and its use: without both it may fail as well, and then they are innocent.
func (f *finder) paired(g *Guilty, doubt float64) (proof, error) {
	const most = 5 // atoms, of which there are 10 pairs
	n := len(g.Members)
	if n < 3 || n > most || slices.ContainsFunc(g.Members, func(m Member) bool { return m.Role == Culprit }) {
		return proof{}, nil
	}
	for i := range n {
		for j := range i {
			x, y := &g.Members[i], &g.Members[j]
			if f.scope.space.Drop(g.Atoms, Of(x.Atom, y.Atom)).Len() != n-2 { // others go with them
				continue
			}
			if p, err := f.leaveOut(g, doubt, x, y); err != nil || p.what != proven {
				return p, err
			}
		}
	}
	return proof{}, nil
}

// sure asks for an answer that a verified set may rest on. A failure at an early limit is tested once at the full one;
// if that passes late, the result says so (Between).
func (f *finder) sure(set Set, doubt float64) (Answer, Result, error) {
	if e := f.tester.memory.at(set); e.early && e.fail > 0 {
		if err := f.tester.calibrate(set); err != nil {
			return "", Result{}, err
		}
		if res, err := f.tester.launch(set, Verifying, true); err != nil || res.Between {
			return Pass, res, err
		}
	}
	a, err := f.tester.vote(set, Verifying, doubt)
	if err == nil && (a == Pass || a == Fail) {
		f.tester.memory.settle(set, a)
	}
	return a, Result{}, err
}

// describe reads off how a guilty set fails, at the full limit where that was seen.
func (f *finder) describe(g *Guilty) {
	for _, x := range f.tester.ledger {
		if !x.Inferred && x.Answer == Fail && x.Set.Equal(g.Atoms) && (g.Class == "" || !x.Early) {
			g.Class, g.Phase = x.Class, x.Phase
		}
	}
}

// masks explains why sets passed that hold a guilty one: the answer came by chance, or other atoms mask it.
type masks struct {
	tester *tester
	scope  *scope
	found  *Finding
}

// explain looks at the smallest set that passed although it holds the guilty set m, if there is one.
func (x masks) explain(m Set) error {
	holding := slices.DeleteFunc(x.tester.memory.masked, func(p Set) bool { return !m.In(p) })
	x.tester.memory.masked = nil
	if len(holding) == 0 {
		return nil
	}
	above := slices.MinFunc(holding, func(a, b Set) int { return a.Len() - b.Len() })
	a := Pass
	if x.tester.repeats > 1 {
		var err error
		if a, err = x.tester.retest(above, masking, hidden); err != nil {
			return err
		}
	}
	if a != Pass {
		x.found.warn("%s passed once and failed when tested again: the complaint does not come every time", x.scope.names(above))
		return nil
	}
	return x.find(m, above)
}

// find names what keeps m from failing inside above, which passes.
func (x masks) find(m, above Set) error {
	x.found.Monotone = false
	order := without(x.scope.space.Sorted(above), m)
	last, err := odds.Least(1, len(order), func(k int) (bool, error) {
		a, err := x.test(x.scope.space.Close(m.Or(Of(order[:k]...))))
		return a == Pass, err
	})
	if err != nil {
		return err
	}
	mask := x.scope.names(Of(order[last-1]))
	if last > 1 {
		mask += fmt.Sprintf(" (at least together with some of %s)", x.scope.names(Of(order[:last-1]...)))
	}
	x.found.warn("non-monotone: %s masks %s, which fails without it; other changes may hide more, so no list is complete", mask, x.scope.names(m))
	return nil
}

// test tests a set that holds a guilty one, whose failure must not be inferred.
func (x masks) test(set Set) (Answer, error) {
	if x.tester.memory.noisy {
		return x.tester.vote(set, masking, hidden)
	}
	res, err := x.tester.launch(set, masking, false)
	return res.Answer, err
}
