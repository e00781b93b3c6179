package sets

import (
	"cmp"
	"slices"

	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// enumeration finds guilty sets one after the other, and the maximal safe sets between them (sets.md 4b). It is MARCO
// with maximal seeds (Liffiton, Previti, Malik and Marques-Silva, Constraints 2016), with the seeds in the order of
// implicit hitting sets.
type enumeration struct {
	tester  *tester
	scope   *scope
	found   *Finding
	finder  *finder
	goal    Goal
	expand  func(atom int) []Atom // the parts of an atom; may be nil
	divided bool                  // parts are the atom itself, divided: what it showed is known of all of them

	blocked  []Set        // seeds without an answer
	inexact  bool         // a cheapest seed could not be proven the cheapest
	opaque   map[int]bool // composite atoms that are more than their parts
	expanded bool         // parts of an atom were asked for
	done     bool
	seed     Set // that is tested
}

// run tests seeds, the most valuable first, until the goal is reached or none is left. A seed is everything but a set
// that hits all guilty sets known. So one that passes is a maximal safe set, and one that fails holds a guilty set
// that is not known yet; when none is left, both lists are complete.
func (e *enumeration) run() error {
	seeds := []Set{e.scope.top}
	for len(seeds) > 0 {
		if err := e.try(seeds[0]); err != nil {
			return err
		}
		if e.goal == One && len(e.found.Minimal) > 0 || e.goal == Keep && len(e.found.Safe) > 0 {
			return nil
		}
		if seeds = e.seeds(1); len(seeds) > 0 {
			continue
		}
		if err := e.recheck(); err != nil {
			return err
		}
		seeds = e.seeds(1)
	}
	e.done = true
	open := slices.ContainsFunc(e.found.Minimal, func(g Guilty) bool { return !g.Verified && e.tester.repeats > 0 })
	e.found.Complete = e.found.Monotone && !e.inexact && len(e.blocked) == 0 && !open
	return nil
}

// try tests one seed and takes in what it shows.
func (e *enumeration) try(seed Set) error {
	answer, g, err := e.test(seed)
	switch {
	case err != nil:
		return err
	case g != nil:
		return e.blame(*g)
	case answer == Pass:
		e.found.Safe = append(e.found.Safe, Safe{Atoms: seed, Maximal: true, Weight: e.scope.space.Weight(seed)})
		return nil
	case answer == Unjudged:
		if learned, err := (requirements{e.tester, e.scope, e.found}).ofSeed(seed); err != nil || learned {
			return err
		}
	}
	e.blocked = append(e.blocked, seed) // or it fails, and no set in it could be verified
	return nil
}

// test asks for the answer to a seed and, when it fails, for a guilty set inside (g is nil if none can be verified). A
// pass is tested as often as that of a verified set, since everything said about safe sets rests on it.
func (e *enumeration) test(seed Set) (answer Answer, g *Guilty, err error) {
	e.seed = seed
	defer func() { e.seed, e.finder.hunt = nil, nil }()
	answer, err = e.tester.ask(seed, Seeding)
	if err == nil && answer == Pass && e.tester.repeats > 1 {
		answer, err = e.tester.vote(seed, Seeding, hidden)
	}
	if err != nil || answer != Fail {
		return answer, nil, err
	}
	if g, err = e.finder.minimal(seed); err == nil && g == nil {
		answer, err = e.tester.ask(seed, Seeding) // it may turn out not to fail
	}
	return answer, g, err
}

// recheck looks again at what rests on tests made before some set answered both ways, and drops what does not hold;
// the search then goes on.
func (e *enumeration) recheck() error {
	if !e.tester.memory.noisy {
		return nil
	}
	var err error
	e.found.Safe = slices.DeleteFunc(e.found.Safe, func(s Safe) bool {
		if err != nil {
			return false
		}
		var a Answer
		if a, err = e.tester.vote(s.Atoms, Seeding, hidden); err == nil && a == undecided {
			e.blocked = append(e.blocked, s.Atoms)
		}
		return err == nil && a != Pass
	})
	e.found.Minimal = slices.DeleteFunc(e.found.Minimal, func(g Guilty) bool {
		if err != nil || !g.Verified {
			return false
		}
		var p proof
		p, err = e.finder.needed(&g, hidden/float64(len(g.Members)))
		return err == nil && p.what != proven
	})
	return err
}

// blame takes in a new guilty set, and finds out what more there is to know about it: requirements, parts, other
// values.
func (e *enumeration) blame(g Guilty) error {
	if slices.ContainsFunc(minimalOf(e.found.Minimal), g.Atoms.Equal) {
		return nil
	}
	if err := (requirements{e.tester, e.scope, e.found}).ofGuilty(g); err != nil {
		return err
	}
	if refined, err := e.refine(g); err != nil || refined {
		return err
	}
	err := e.tryValues(&g)
	e.found.Minimal = append(e.found.Minimal, g)
	return err
}

// seeds returns up to n seeds that are not covered by what is known, the most valuable first.
func (e *enumeration) seeds(n int) (seeds []Set) {
	all := e.scope.space.Whole()
	hit := slices.DeleteFunc(slices.Concat(e.scope.space.Conflicts(), minimalOf(e.found.Minimal)), func(s Set) bool { return !s.In(all) })
	var avoid []Set
	for _, s := range e.found.Safe {
		avoid = append(avoid, all.Minus(s.Atoms))
	}
	for _, s := range e.blocked {
		avoid = append(avoid, all.Minus(s))
	}
	for len(seeds) < n {
		h, ok, exact := lattice.Cheapest(e.scope.space, hit, avoid)
		e.inexact = e.inexact || !exact
		if !ok {
			break
		}
		h = h.And(all)
		seeds = append(seeds, all.Minus(h))
		if avoid = append(avoid, h); len(h) == 0 {
			break
		}
	}
	return seeds
}

// tryValues tests the other values of the flags in a guilty set, with the rest of it unchanged.
func (e *enumeration) tryValues(g *Guilty) error {
	for _, m := range g.Members {
		for j, a := range e.scope.space.Atoms() {
			if !a.Spare || a.Group == "" || a.Group != e.scope.space.Atom(m.Atom).Group {
				continue
			}
			set := e.scope.space.Close(Of(j)).Or(g.Atoms.Minus(Of(m.Atom)))
			if !e.scope.space.Valid(set) {
				continue
			}
			answer, err := e.tester.ask(set, valuing)
			if err != nil {
				return err
			}
			g.Others = append(g.Others, Other{j, answer})
		}
	}
	return nil
}

// notExcluded lists what may still show the complaint, the largest sets first.
func (e *enumeration) notExcluded() (list []Set) {
	const most = 8 // seeds that were not tested
	if e.found.Complete {
		return nil
	}
	list = slices.Clone(e.blocked)
	if len(e.found.Minimal) > 0 {
		list = append(list, e.seeds(most)...)
	}
	slices.SortStableFunc(list, func(a, b Set) int { return cmp.Compare(b.Len(), a.Len()) })
	return list
}

// refine goes on with the parts of a composite atom of a guilty set, if there is one.
func (e *enumeration) refine(g Guilty) (refined bool, err error) {
	for _, m := range g.Members {
		if e.expand == nil || m.Role == Carrier || e.opaque[m.Atom] {
			continue
		}
		parts := e.expand(m.Atom)
		e.expanded = true
		if len(parts) < 2 {
			continue
		}
		if same, err := e.alike(m.Atom, parts, g); err != nil {
			return false, err
		} else if same {
			return true, e.divide(m.Atom, parts, g)
		}
	}
	return false, nil
}

// alike reports whether the parts of an atom show together what it shows in a guilty set. If they do not, the atom is
// named as a whole.
func (e *enumeration) alike(i int, parts []Atom, g Guilty) (bool, error) {
	const tries = 3
	if e.divided {
		return true, nil
	}
	for range tries {
		res, err := e.tester.launch(e.scope.divided(i, len(parts))(g.Atoms), Prefix, false)
		if err != nil || res.Answer == Fail {
			return err == nil, err
		}
	}
	e.opaque[i] = true
	if err := e.scope.addUnused(parts); err != nil {
		return false, err
	}
	e.found.warn("the parts of %s do not show together what it shows: it is named as a whole", e.scope.space.Name(i))
	return false, nil
}

// divide goes on with the parts of a composite atom in its place. Guilty sets that hold the atom are searched again;
// safe sets without it are dropped, since they may be safe with some of the parts.
func (e *enumeration) divide(i int, parts []Atom, g Guilty) error {
	to := e.scope.divided(i, len(parts))
	if err := e.scope.divide(i, parts); err != nil {
		return err
	}
	if !e.divided {
		e.tester.memory.drop(i)
	}
	e.tester.memory.rename(to)
	for k := range e.found.Claims {
		e.found.Claims[k].Atoms = to(e.found.Claims[k].Atoms)
	}
	again := []Guilty{g}
	e.found.Minimal = slices.DeleteFunc(e.found.Minimal, func(o Guilty) bool {
		if o.Atoms.Has(i) {
			again = append(again, o)
		}
		return o.Atoms.Has(i)
	})
	e.found.Safe = slices.DeleteFunc(e.found.Safe, func(s Safe) bool { return !s.Atoms.Has(i) })
	for k := range e.found.Safe {
		e.found.Safe[k].Atoms = to(e.found.Safe[k].Atoms)
	}
	for _, o := range again {
		finer, err := e.finder.minimal(to(o.Atoms))
		if err != nil {
			return err
		}
		if finer == nil {
			e.blocked = append(e.blocked, to(o.Atoms))
			continue
		}
		if err := e.blame(*finer); err != nil {
			return err
		}
	}
	return nil
}
