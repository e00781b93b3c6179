package sets

import (
	"cmp"
	"slices"
)

// outcome is what a seed came to: a guilty set inside it, or its answer.
type outcome struct {
	answer Answer
	guilty *Guilty
	err    error
}

// enumerate tests seeds, the most valuable first, until the goal is reached or none is left. A seed is
// everything but a set that hits all guilty sets known, so one that passes is a maximal safe set, and
// one that fails holds a guilty set not known yet.
func (r *run) enumerate() error {
	seeds := []Set{r.top}
	for len(seeds) > 0 {
		o := r.try(seeds[0])
		if o.err != nil {
			return o.err
		}
		if err := r.accept(seeds[0], o); err != nil {
			return err
		}
		if r.Goal == One && len(r.f.Minimal) > 0 || r.Goal == Keep && len(r.f.Safe) > 0 {
			return nil
		}
		if seeds = r.seeds(1); len(seeds) > 0 {
			continue
		}
		if err := r.recheck(); err != nil {
			return err
		}
		seeds = r.seeds(1)
	}
	r.enumerated = true
	certain := r.f.Monotone && !r.inexact && len(r.blocked) == 0
	r.f.Complete = certain && !slices.ContainsFunc(r.f.Minimal, func(g Guilty) bool { return !g.Certified && r.repeats > 0 })
	return nil
}

// try tests one seed and, when it fails, finds a guilty set inside. A pass is tested as often as one
// of a certificate: everything said of safe sets rests on it.
func (r *run) try(seed Set) (o outcome) {
	r.seed = seed
	defer func() { r.seed, r.hunt = nil, nil }()
	o.answer, o.err = r.ask(seed, Seed)
	if o.err == nil && o.answer == Pass && r.repeats > 1 {
		o.answer, _, o.err = r.votes(seed, Seed, hidden, false)
	}
	if o.err != nil || o.answer != Fail {
		return o
	}
	if o.guilty, o.err = r.minimal(seed); o.err == nil && o.guilty == nil {
		o.answer, o.err = r.ask(seed, Seed) // it may turn out not to fail
	}
	return o
}

// recheck looks again at what rests on tests made before some set answered both ways, and drops what
// does not stand: then the search goes on.
func (r *run) recheck() error {
	if !r.mem.noisy {
		return nil
	}
	var err error
	r.f.Safe = slices.DeleteFunc(r.f.Safe, func(s Safe) bool {
		if err != nil {
			return false
		}
		var a Answer
		if a, _, err = r.votes(s.Atoms, Seed, hidden, false); err == nil && a == undecided {
			r.blocked = append(r.blocked, s.Atoms)
		}
		return err == nil && a != Pass
	})
	r.f.Minimal = slices.DeleteFunc(r.f.Minimal, func(g Guilty) bool {
		if err != nil || !g.Certified {
			return false
		}
		var what proof
		what, _, err = r.needed(&g, hidden/float64(len(g.Members)))
		return err == nil && what != proven
	})
	return err
}

// accept takes in what a seed came to.
func (r *run) accept(seed Set, o outcome) error {
	switch {
	case o.guilty != nil:
		return r.blame(*o.guilty)
	case o.answer == Pass:
		r.f.Safe = append(r.f.Safe, Safe{Atoms: seed, Maximal: true, Weight: r.space.weight(seed), Test: r.mem.at(seed).row})
	case o.answer == Unresolved:
		learned, err := r.whyNoBuild(seed)
		if err != nil || learned {
			return err
		}
		r.blocked = append(r.blocked, seed)
	default: // it fails, and no set in it could be certified
		r.blocked = append(r.blocked, seed)
	}
	return nil
}

// blame takes in a new guilty set, and asks what more there is to know of it.
func (r *run) blame(g Guilty) error {
	if slices.ContainsFunc(r.f.Minimal, func(o Guilty) bool { return o.Atoms.Equal(g.Atoms) }) {
		return nil
	}
	if err := r.learnFrom(g); err != nil {
		return err
	}
	if refined, err := r.expand(g); err != nil || refined {
		return err
	}
	err := r.tryValues(&g)
	r.f.Minimal = append(r.f.Minimal, g)
	return err
}

// seeds returns up to n seeds that are not covered by what is known, the most valuable first.
func (r *run) seeds(n int) []Set {
	hit := slices.Clone(r.space.conflicts)
	for _, g := range r.f.Minimal {
		hit = append(hit, g.Atoms)
	}
	hit = slices.DeleteFunc(hit, func(s Set) bool { return !s.In(r.universe()) })
	var avoid, seeds []Set
	for _, s := range r.f.Safe {
		avoid = append(avoid, r.universe().Minus(s.Atoms))
	}
	for _, s := range r.blocked {
		avoid = append(avoid, r.universe().Minus(s))
	}
	for len(seeds) < n {
		h, ok, exact := cheapest(r.space, hit, avoid)
		r.inexact = r.inexact || !exact
		if !ok {
			break
		}
		h = h.And(r.universe())
		seeds = append(seeds, r.universe().Minus(h))
		if avoid = append(avoid, h); len(h) == 0 {
			break
		}
	}
	return seeds
}

// universe is what seeds are taken from: all changes, even where some exclude each other, unless the
// bad end was said to be less.
func (r *run) universe() Set {
	if len(r.Bad) > 0 {
		return r.top
	}
	return r.space.whole
}

// tryValues tests the other values of the flags in a guilty set, with the rest of it unchanged.
func (r *run) tryValues(g *Guilty) error {
	for _, m := range g.Members {
		for j, a := range r.space.atoms {
			if !a.Spare || a.Group == "" || a.Group != r.space.atoms[m.Atom].Group {
				continue
			}
			set := r.space.Close(Of(j)).Or(g.Atoms.Minus(Of(m.Atom)))
			if !r.space.Valid(set) {
				continue
			}
			answer, err := r.ask(set, Value)
			if err != nil {
				return err
			}
			g.Others = append(g.Others, Other{j, answer})
		}
	}
	return nil
}

// listLeft names what may still show the complaint: seeds nobody has tested.
func (r *run) listLeft() {
	if r.f.Complete {
		return
	}
	r.f.NotExcluded = slices.Clone(r.blocked)
	if len(r.f.Minimal) > 0 {
		r.f.NotExcluded = append(r.f.NotExcluded, r.seeds(mostListed)...)
	}
	slices.SortStableFunc(r.f.NotExcluded, func(a, b Set) int { return cmp.Compare(b.Len(), a.Len()) })
}
