package sets

import (
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// learnFrom reads dependencies off a guilty set: where it does not build without one of its atoms,
// something behind that atom needs it.
func (r *run) learnFrom(g Guilty) error {
	order := r.space.sorted(g.Atoms)
	last := order[len(order)-1]
	for k := len(order) - 2; k >= 0; k-- {
		e := r.mem.entries[r.space.Drop(g.Atoms, Of(order[k])).Key()]
		if e == nil || e.undecided == 0 || e.class != bisect.BuildFailed {
			continue
		}
		// which of those behind it is not known; if the last one is it, or needs it, then the last needs this
		certain := true
		for _, x := range order[k+1:] {
			certain = certain && r.space.needs[last].Has(x)
		}
		if certain {
			if err := r.learn(last, order[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// learn takes in that an atom does not build without another one.
func (r *run) learn(atom, needs int) error {
	if r.space.needs[atom].Has(needs) {
		return nil
	}
	space, err := r.space.require(atom, needs)
	if err != nil {
		return err
	}
	r.space = space
	r.f.Learned = append(r.f.Learned, Dependency{atom, needs})
	r.f.Safe = slices.DeleteFunc(r.f.Safe, func(s Safe) bool { return !space.Valid(s.Atoms) })
	return nil
}

// whyNoBuild finds out which atom of a seed does not build without one that was taken out: the last
// atom of the first prefix that does not build. It reports whether anything was learned.
func (r *run) whyNoBuild(seed Set) (bool, error) {
	if e := r.mem.entries[seed.Key()]; e == nil || e.class != bisect.BuildFailed {
		r.warn("without %s it can neither pass nor show the complaint: left open", r.names(r.top.Minus(seed)))
		return false, nil
	}
	order := r.space.sorted(seed)
	absent := r.space.sorted(r.top.Minus(seed))
	lo := 1
	for lo < len(order) && r.space.place[order[lo-1]] < r.space.place[absent[0]] {
		lo++ // what stands in front of everything absent builds
	}
	for hi := len(order); lo < hi; {
		m := lo + middle(hi-lo+1)
		a, err := r.test(Of(order[:m]...), Builds)
		if err != nil {
			return false, err
		}
		if a == Unresolved {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return r.whichNeeded(Of(order[:lo]...), order[lo-1], absent)
}

// whichNeeded finds which of the absent atoms the last one of a prefix needs.
func (r *run) whichNeeded(prefix Set, last int, absent []int) (learned bool, err error) {
	absent = slices.DeleteFunc(slices.Clone(absent), func(d int) bool { return r.space.place[d] > r.space.place[last] })
	all := prefix.Or(Of(absent...))
	for _, d := range absent {
		if len(absent) > 1 {
			set := r.space.Drop(all, Of(d))
			if !set.Has(last) {
				continue
			}
			if a, err := r.test(set, Builds); err != nil {
				return false, err
			} else if a != Unresolved {
				continue
			}
		}
		if err := r.learn(last, d); err != nil {
			return false, err
		}
		learned = true
	}
	if !learned {
		r.warn("without %s it does not build, for no single reason that was found: left open", r.names(r.top.Minus(prefix)))
	}
	return learned, nil
}
