package sets

import (
	"fmt"
	"slices"
)

// proof is what the certificate of a set came to.
type proof int

const (
	proven  proof = iota
	smaller       // it fails without one of its atoms
	sand          // it does not fail at all, or not reliably
	slow          // it is slow, and ends within the full limit
)

// minimal finds a minimal guilty set inside within, which failed, and certifies it. It is nil when
// within turns out not to fail after all, or when nothing stands up to the certificate.
func (r *run) minimal(within Set) (*Guilty, error) {
	start := within
	for tries, raised := 1, 0; tries <= maxRounds; {
		m, err := r.shrink(within)
		if err != nil {
			return nil, err
		}
		g, what, less, err := r.certify(m)
		if err != nil {
			return nil, err
		}
		switch within = start; {
		case what == proven:
			return g, r.explainMask(m)
		case what == slow && raised < mostPast: // an answer, not a contradiction
			raised++
		default:
			tries++
		}
		if what == smaller { // goes on below a set that repeated tests saw fail
			within = less
		} else if a, err := r.ask(start, Prefix); err != nil || a != Fail {
			return nil, err
		}
	}
	r.warn("%d certificates contradicted the search below %s: the complaint does not come and go with these changes alone", maxRounds, r.names(start))
	return nil, nil
}

// certify tests by repeated runs that a set passes without any one of its atoms, and fails. A few
// passes come first, since they are cheap; how many it takes in the end depends on how often the set fails.
// With smaller comes the smaller set that fails.
func (r *run) certify(m Set) (*Guilty, proof, Set, error) {
	g := &Guilty{Atoms: m}
	for _, i := range m.Atoms() {
		g.Members = append(g.Members, Member{Atom: i})
	}
	if r.repeats < 0 {
		r.evidence(g)
		return g, proven, nil, nil
	}
	r.hunt = &hunt{proving: m}
	defer func() { r.hunt = nil }()
	what, less, err := r.needed(g, likely)
	if err != nil || what != proven {
		return nil, what, less, err
	}
	a, res, err := r.sure(m, dismissed)
	switch {
	case err != nil:
		return nil, 0, nil, err
	case res.Between:
		g.Slow, g.Seconds = res.Slow, res.Seconds
		r.isSlow(g)
		return nil, slow, nil, nil
	case a != Fail:
		return nil, sand, nil, nil
	}
	if what, less, err := r.needed(g, hidden/float64(len(g.Members))); err != nil || what != proven { // by what is known of chances by now
		return nil, what, less, err
	}
	g.Certified = true
	r.evidence(g)
	return g, proven, nil, nil
}

// needed sees for each atom of a set, unless another one requires it, that the set without it does not
// fail, and writes down the roles; else it returns the first set that does, or cannot be told.
func (r *run) needed(g *Guilty, doubt float64) (proof, Set, error) {
	for k := range g.Members {
		m := &g.Members[k]
		m.Role = Carrier
		if r.space.users[m.Atom].And(g.Atoms).Len() > 1 {
			continue
		}
		if what, less, err := r.leaveOut(g, doubt, m); err != nil || what != proven {
			return what, less, err
		}
	}
	return r.paired(g, doubt)
}

// leaveOut sees that a set without some members does not fail: where it passes, they are to blame.
func (r *run) leaveOut(g *Guilty, doubt float64, members ...*Member) (proof, Set, error) {
	var out Set
	for _, m := range members {
		out = out.Or(Of(m.Atom))
	}
	less := r.space.Drop(g.Atoms, out)
	switch a, _, err := r.sure(less, doubt); {
	case err != nil || a == undecided:
		return sand, nil, err
	case a == Fail:
		return smaller, less, nil
	case a == Pass:
		for _, m := range members {
			m.Role = Culprit
		}
	}
	return proven, nil, nil
}

// paired leaves out two atoms at a time of a set that cannot be tried without any one of them, such as a declaration
// and its use: without both it may fail as well, and they are innocent.
func (r *run) paired(g *Guilty, doubt float64) (proof, Set, error) {
	const most = 5 // atoms, of which there are 10 pairs
	n := len(g.Members)
	if n < 3 || n > most || slices.ContainsFunc(g.Members, func(m Member) bool { return m.Role == Culprit }) {
		return proven, nil, nil
	}
	for i := range n {
		for j := range i {
			x, y := &g.Members[i], &g.Members[j]
			if r.space.Drop(g.Atoms, Of(x.Atom, y.Atom)).Len() != n-2 { // others go with them
				continue
			}
			if what, less, err := r.leaveOut(g, doubt, x, y); err != nil || what != proven {
				return what, less, err
			}
		}
	}
	return proven, nil, nil
}

// sure asks for an answer that a certificate may rest on. A failure at an early limit is tested at the
// full one, once.
func (r *run) sure(set Set, doubt float64) (Answer, Result, error) {
	e := *r.mem.at(set)
	a, res, err := r.votes(set, Certify, doubt, e.early && e.fail > 0)
	if err != nil || res.Between {
		return a, res, err
	}
	r.settle(set, a)
	return a, Result{}, nil
}

// settle takes in an answer that stands, and sees whether it speaks against others that do.
func (r *run) settle(set Set, a Answer) {
	if a == Unresolved || a == undecided {
		return
	}
	r.mem.settle(set, a)
	if a != Fail {
		return
	}
	for _, e := range r.mem.list {
		if e.final == Pass && set.In(e.set) {
			r.masked = append(r.masked, e.set)
		}
	}
}

// isSlow notes a set that is slow without showing the complaint. From now on such runs are waited for,
// and what was stopped too early is forgotten.
func (r *run) isSlow(g *Guilty) {
	g.Certified = true
	r.evidence(g)
	r.past = max(r.past, g.Seconds)
	r.f.Slow = append(r.f.Slow, *g)
	r.mem.forgetEarly()
	r.mem.settle(g.Atoms, Pass)
	delete(r.cost, Fail)
	r.FailCost = max(r.FailCost, r.past)
}

// evidence lists the rows that show a guilty set, and reads off how it fails.
func (r *run) evidence(g *Guilty) {
	less := map[string]bool{}
	for _, i := range g.Atoms.Atoms() {
		less[r.turn(r.space.Drop(g.Atoms, Of(i))).Key()] = true
	}
	whole := r.turn(g.Atoms)
	for row, t := range r.f.Tests {
		if t.Inferred {
			continue
		}
		if t.Set.Equal(whole) || less[t.Set.Key()] {
			g.Tests = append(g.Tests, row)
		}
		if t.Answer == Fail && t.Set.Equal(whole) && (g.Class == "" || !t.Early) {
			g.Class, g.Phase = t.Class, t.Phase
		}
	}
}

// explainMask looks for the reason why sets passed that hold the guilty set m: an answer that chance
// changed, or atoms that mask it.
func (r *run) explainMask(m Set) error {
	var above Set
	found := false
	for _, p := range slices.Concat(r.mem.dropped, r.masked) {
		if m.In(p) && (!found || p.Len() < above.Len()) {
			above, found = p, true
		}
	}
	r.mem.dropped, r.masked = nil, nil
	if !found {
		return nil
	}
	a := Pass
	if r.repeats > 1 {
		res, _, err := r.launch(above, Masking, false)
		if a = res.Answer; err == nil && a == Pass { // one failure of what holds a guilty set is believed
			a, _, err = r.votes(above, Masking, hidden, false)
		}
		if err != nil {
			return err
		}
	}
	if a != Pass {
		r.warn("%s passed once and failed when tested again: the complaint does not come every time", r.names(above))
		return nil
	}
	return r.findMask(m, above)
}

// findMask names what keeps m from failing inside above, which passes.
func (r *run) findMask(m, above Set) error {
	r.f.Monotone = false
	order := without(r.space.sorted(above), m)
	lo, hi := 1, len(order)
	for lo < hi {
		mid := lo + middle(hi-lo+1)
		a, err := r.masks(r.space.Close(m.Or(Of(order[:mid]...))))
		if err != nil {
			return err
		}
		if a == Pass {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	mask := r.names(Of(order[lo-1]))
	if lo > 1 {
		mask += fmt.Sprintf(" (at least together with some of %s)", r.names(Of(order[:lo-1]...)))
	}
	r.warn("non-monotone: %s masks %s, which fails without it; what more changes hide is not known, so nothing is said to be complete", mask, r.names(m))
	return nil
}

// masks tests a set that holds a guilty one, whose failure is not to be inferred.
func (r *run) masks(set Set) (Answer, error) {
	noisy := r.mem.noisy
	if noisy {
		a, _, err := r.votes(set, Masking, hidden, false)
		return a, err
	}
	res, _, err := r.launch(set, Masking, false)
	return res.Answer, err
}
