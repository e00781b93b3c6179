package sets

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect/sets/internal/odds"
)

// maxRounds is how often a search of one guilty set begins again after its answers contradicted it.
const maxRounds = 4

// finder finds a minimal guilty set inside a failing one by prefix search, and verifies it.
type finder struct {
	t        *tester
	s        *scope
	f        *Finding
	midpoint bool
	cuts     Cuts
	hunt     *odds.Hunt // how far the search for a set is; nil: there is none
	proving  Set        // the set that is verified; empty: none
}

// shrink finds a minimal guilty set inside within, which fails: the shortest prefix of the atoms that
// fails ends in an atom of the set; keep that atom, and go on with those before it. (Binary search for the
// next necessary element: Marques-Silva, Janota and Belov, minimal sets over monotone predicates, CAV 2013.
// The weighted cuts are our own.)
//
// The kept set is closed and what is required stands in front, so every set tested is valid. What cannot be
// judged is read as a pass: along the prefixes of an order in which what is needed stands in front,
// "builds and fails" stays true once it is.
func (s *finder) shrink(within Set) (Set, error) {
	for tries := 1; ; tries++ {
		kept, stray, err := s.descend(within, tries < maxRounds)
		if err != nil || !stray {
			return kept, err
		}
	}
}

// descend goes down to a guilty set once. Where checked, it stops at a failure that turns out to be stray.
func (s *finder) descend(within Set, checked bool) (kept Set, stray bool, err error) {
	order := s.s.space.Sorted(s.t.memory.smallest(within))
	missing := odds.SizePrior()
	for len(order) > 0 {
		suspicion := make([]float64, len(order))
		for k, a := range order {
			suspicion[k] = s.s.space.Atom(a).Suspicion
		}
		belief := odds.NewMissing(missing, suspicion)
		s.hunt = odds.NewHunt(kept.Len(), len(order), missing)
		p, err := s.boundary(kept, order, belief)
		if err != nil || p == 0 {
			return kept, false, err
		}
		if checked && p == len(order) {
			if a, err := s.again(kept.Or(Of(order...))); err != nil || a != Fail {
				return nil, true, err
			}
		}
		missing = belief.After(p)
		kept = kept.Or(s.s.space.Needs(order[p-1]))
		order = without(order[:p-1], kept)
	}
	return kept, false, nil
}

// again tests a set a second time that failed in its only test, on which all that was found since rests:
// where nothing less fails it may have failed by chance.
func (s *finder) again(set Set) (Answer, error) {
	e := s.t.memory.entries[set.Key()]
	if s.t.memory.steady || e == nil || e.final != "" || e.seen != (odds.Tally{Fail: 1}) {
		return Fail, nil
	}
	return s.t.retest(set, Prefix, dismissed)
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
func (s *finder) boundary(kept Set, order []int, belief odds.Missing) (int, error) {
	set := func(p int) Set { return kept.Or(Of(order[:p]...)) }
	weights := belief.Positions(s.ruled(kept, order))
	lo, hi := 0, len(order)
	if len(kept) == 0 {
		lo = 1
	}
	lo, hi = s.narrow(set, lo, hi)
	other := Pass // the last answer that was no failure
	for tests := 0; lo < hi; tests++ {
		w := weights[lo : hi+1]
		s.hunt.Nats = odds.Entropy(w)
		m := lo + s.cut(w, lo, tests, other)
		s.t.chance = odds.Share(w, m-lo)
		switch a, err := s.t.ask(set(m), Prefix); {
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

// cut is the place to test next. The cheapest order of tests may be long where luck is bad: beyond three
// times what halving needs at most, the rest is halved.
func (s *finder) cut(w []float64, lo, tests int, other Answer) int {
	switch {
	case s.midpoint && lo == 0:
		return 0
	case s.midpoint || tests >= 3*(odds.CeilLog2(s.s.top.Len())+1):
		return odds.Middle(len(w))
	}
	return odds.Cut(w, s.t.prices(other), s.cuts)
}

// narrow is what earlier answers leave of the places from lo to hi: behind the longest prefix that is
// known not to fail, up to the shortest that is known to.
func (s *finder) narrow(set func(p int) Set, lo, hi int) (int, int) {
	known := func(m int, fails bool) bool {
		a, from, ok := s.t.memory.infer(set(m))
		if ok = ok && (a == Fail) == fails; ok && a != Unjudged {
			s.t.recordInferred(set(m), from, a, Prefix)
		}
		return ok
	}
	from, _ := odds.Least(lo, hi, func(m int) (bool, error) { return !known(m, false), nil })
	to, _ := odds.Least(from, hi, func(m int) (bool, error) { return known(m, true), nil })
	return from, to
}

// ruled marks the atoms that are known not to fail with the kept set alone.
func (s *finder) ruled(kept Set, order []int) []bool {
	ruled := make([]bool, len(order))
	if len(order) > odds.MostTree {
		return ruled
	}
	for k, a := range order {
		got, _, ok := s.t.memory.infer(kept.Or(s.s.space.Needs(a)))
		ruled[k] = ok && got == Pass
	}
	return ruled
}

// proof is what the verification of a set came to.
type proof int

const (
	proven  proof = iota
	smaller       // it fails without one of its atoms
	stray         // it does not fail at all, or not reliably
	slow          // it is slow, and ends within the full limit
)

// minimal finds a minimal guilty set inside within, which failed, and verifies it. It is nil when within
// turns out not to fail after all, or when nothing can be verified.
func (s *finder) minimal(within Set) (*Guilty, error) {
	const mostSlow = 16 // times that the early limit is raised for one guilty set
	start := within
	for tries, raised := 1, 0; tries <= maxRounds; {
		m, err := s.shrink(within)
		if err != nil {
			return nil, err
		}
		g, what, less, err := s.verify(m)
		if err != nil {
			return nil, err
		}
		switch within = start; {
		case what == proven:
			return g, masks{s.t, s.s, s.f}.explain(m)
		case what == slow && raised < mostSlow: // an answer, not a contradiction
			raised++
		default:
			tries++
		}
		if what == smaller { // goes on below a set that repeated tests saw fail
			within = less
		} else if a, err := s.t.ask(start, Prefix); err != nil || a != Fail {
			return nil, err
		}
	}
	s.f.warn("%d verifications contradicted the search below %s: the complaint depends on more than these changes", maxRounds, s.s.names(start))
	return nil, nil
}

// verify tests by repeated runs that a set passes without any one of its atoms, and fails. A few passes
// come first, since they are cheap; how many it takes in the end depends on how often the set fails.
// With smaller comes the smaller set that fails.
func (s *finder) verify(m Set) (*Guilty, proof, Set, error) {
	g := &Guilty{Atoms: m}
	for _, i := range m.Atoms() {
		g.Members = append(g.Members, Member{Atom: i})
	}
	if s.t.repeats < 0 {
		s.evidence(g)
		return g, proven, nil, nil
	}
	s.hunt, s.proving = nil, m
	defer func() { s.proving = nil }()
	what, less, err := s.needed(g, likely)
	if err != nil || what != proven {
		return nil, what, less, err
	}
	a, res, err := s.sure(m, dismissed)
	switch {
	case err != nil:
		return nil, 0, nil, err
	case res.Between:
		g.Slow, g.Seconds, g.Verified = res.Slow, res.Seconds, true
		s.evidence(g)
		s.f.Slow = append(s.f.Slow, *g)
		s.t.waitFor(m, g.Seconds)
		return nil, slow, nil, nil
	case a != Fail:
		return nil, stray, nil, nil
	}
	// by now it is known how often the set fails, and so how many passes are enough
	if what, less, err := s.needed(g, hidden/float64(len(g.Members))); err != nil || what != proven {
		return nil, what, less, err
	}
	g.Verified = true
	s.evidence(g)
	return g, proven, nil, nil
}

// needed sees for each atom of a set, unless another one requires it, that the set without it does not
// fail, and writes down the roles; else it returns the first set that does, or cannot be told.
func (s *finder) needed(g *Guilty, doubt float64) (proof, Set, error) {
	for k := range g.Members {
		m := &g.Members[k]
		m.Role = Carrier
		if s.s.space.Users(m.Atom).And(g.Atoms).Len() > 1 {
			continue
		}
		if what, less, err := s.leaveOut(g, doubt, m); err != nil || what != proven {
			return what, less, err
		}
	}
	return s.paired(g, doubt)
}

// leaveOut sees that a set without some members does not fail: where it passes, they are to blame.
func (s *finder) leaveOut(g *Guilty, doubt float64, members ...*Member) (proof, Set, error) {
	var out Set
	for _, m := range members {
		out = out.Or(Of(m.Atom))
	}
	less := s.s.space.Drop(g.Atoms, out)
	switch a, _, err := s.sure(less, doubt); {
	case err != nil || a == undecided:
		return stray, nil, err
	case a == Fail:
		return smaller, less, nil
	case a == Pass:
		for _, m := range members {
			m.Role = Culprit
		}
	}
	return proven, nil, nil
}

// paired leaves out two atoms at a time of a set that cannot be tried without any one of them, such as a
// declaration and its use: without both it may fail as well, and they are innocent.
func (s *finder) paired(g *Guilty, doubt float64) (proof, Set, error) {
	const most = 5 // atoms, of which there are 10 pairs
	n := len(g.Members)
	if n < 3 || n > most || slices.ContainsFunc(g.Members, func(m Member) bool { return m.Role == Culprit }) {
		return proven, nil, nil
	}
	for i := range n {
		for j := range i {
			x, y := &g.Members[i], &g.Members[j]
			if s.s.space.Drop(g.Atoms, Of(x.Atom, y.Atom)).Len() != n-2 { // others go with them
				continue
			}
			if what, less, err := s.leaveOut(g, doubt, x, y); err != nil || what != proven {
				return what, less, err
			}
		}
	}
	return proven, nil, nil
}

// sure asks for an answer that a verified set may rest on. A failure at an early limit is tested once at
// the full one; where that passes late, the result says so.
func (s *finder) sure(set Set, doubt float64) (Answer, Result, error) {
	if e := s.t.memory.at(set); e.early && e.fail > 0 {
		if err := s.t.calibrate(set); err != nil {
			return "", Result{}, err
		}
		if res, err := s.t.launch(set, verifying, true); err != nil || res.Between {
			return Pass, res, err
		}
	}
	a, err := s.t.vote(set, verifying, doubt)
	if err == nil && (a == Pass || a == Fail) {
		s.t.memory.settle(set, a)
	}
	return a, Result{}, err
}

// evidence lists the rows that show a guilty set, and reads off how it fails.
func (s *finder) evidence(g *Guilty) {
	less := map[string]bool{}
	for _, i := range g.Atoms.Atoms() {
		less[s.s.on(s.s.space.Drop(g.Atoms, Of(i))).Key()] = true
	}
	whole := s.s.on(g.Atoms)
	for row, x := range s.t.ledger {
		if x.Inferred {
			continue
		}
		if x.Set.Equal(whole) || less[x.Set.Key()] {
			g.Tests = append(g.Tests, row)
		}
		if x.Answer == Fail && x.Set.Equal(whole) && (g.Class == "" || !x.Early) {
			g.Class, g.Phase = x.Class, x.Phase
		}
	}
}

// masks explains why sets passed that hold a guilty one: an answer that came by chance, or atoms that mask it.
type masks struct {
	t *tester
	s *scope
	f *Finding
}

// explain looks at the smallest set that passed and holds the guilty set m, if there is one.
func (x masks) explain(m Set) error {
	var above Set
	found := false
	for _, p := range x.t.memory.masked {
		if m.In(p) && (!found || p.Len() < above.Len()) {
			above, found = p, true
		}
	}
	x.t.memory.masked = nil
	if !found {
		return nil
	}
	a := Pass
	if x.t.repeats > 1 {
		var err error
		if a, err = x.t.retest(above, masking, hidden); err != nil {
			return err
		}
	}
	if a != Pass {
		x.f.warn("%s passed once and failed when tested again: the complaint does not come every time", x.s.names(above))
		return nil
	}
	return x.find(m, above)
}

// find names what keeps m from failing inside above, which passes.
func (x masks) find(m, above Set) error {
	x.f.Monotone = false
	order := without(x.s.space.Sorted(above), m)
	last, err := odds.Least(1, len(order), func(k int) (bool, error) {
		a, err := x.test(x.s.space.Close(m.Or(Of(order[:k]...))))
		return a == Pass, err
	})
	if err != nil {
		return err
	}
	mask := x.s.names(Of(order[last-1]))
	if last > 1 {
		mask += fmt.Sprintf(" (at least together with some of %s)", x.s.names(Of(order[:last-1]...)))
	}
	x.f.warn("non-monotone: %s masks %s, which fails without it; other changes may hide more, so no list is complete", mask, x.s.names(m))
	return nil
}

// test tests a set that holds a guilty one, whose failure must not be inferred.
func (x masks) test(set Set) (Answer, error) {
	if x.t.memory.noisy {
		return x.t.vote(set, masking, hidden)
	}
	res, err := x.t.launch(set, masking, false)
	return res.Answer, err
}
