package sets

import (
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets/internal/odds"
	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// scope is what a search is about. It changes on the way: requirements are found out, and guilty atoms are divided
// into their parts.
type scope struct {
	space *Space // what may be on together
	base  *Space // the same as it was given, with the parts: without the requirements found out
	top   Set    // all changes, less those that exclude others
	words func(Set) string
}

// names writes a set for people.
func (s *scope) names(set Set) string {
	switch {
	case len(set) == 0:
		return "nothing"
	case s.words != nil:
		return s.words(set)
	}
	var names []string
	for _, a := range set.Atoms() {
		names = append(names, s.space.Name(a))
	}
	return strings.Join(names, ", ")
}

// divided returns a function that puts the parts of atom i, which are numbered behind the other atoms, in its place.
func (s *scope) divided(i, parts int) func(Set) Set {
	n := s.space.Len()
	return func(set Set) Set {
		if !set.Has(i) {
			return set
		}
		return set.Minus(Of(i)).Or(lattice.First(n + parts).Minus(lattice.First(n)))
	}
}

// divide goes on with parts in the place of atom i.
func (s *scope) divide(i int, parts []Atom) (err error) {
	top := s.divided(i, len(parts))(s.top)
	for _, space := range []**Space{&s.space, &s.base} {
		if *space, err = (*space).Expand(i, parts); err != nil {
			return err
		}
	}
	s.top = top
	return nil
}

// addUnused takes in parts that are not searched. They keep their numbers and stay off.
func (s *scope) addUnused(parts []Atom) (err error) {
	for k := range parts {
		parts[k].Spare, parts[k].Group = true, ""
	}
	for _, space := range []**Space{&s.space, &s.base} {
		if *space, err = NewSpace(append((*space).Atoms(), parts...)); err != nil {
			return err
		}
	}
	return nil
}

// requirements finds out which atoms do not build without which others, where the caller did not say (sets.md 4f).
type requirements struct {
	tester *tester
	scope  *scope
	found  *Finding
}

// learn takes in that an atom does not build without another one. Safe sets that violate the new requirement are
// dropped.
func (q requirements) learn(atom, needs int) error {
	if q.scope.space.Needs(atom).Has(needs) {
		return nil
	}
	space, err := q.scope.space.Require(atom, needs)
	if err != nil {
		return err
	}
	q.scope.space = space
	q.found.Safe = slices.DeleteFunc(q.found.Safe, func(s Safe) bool { return !space.Valid(s.Atoms) })
	return nil
}

// ofGuilty reads requirements off a guilty set: if it does not build without one of its atoms, something behind that
// atom needs it.
func (q requirements) ofGuilty(g Guilty) error {
	order := q.scope.space.Sorted(g.Atoms)
	last := order[len(order)-1]
	for k := len(order) - 2; k >= 0; k-- {
		e := q.tester.memory.entries[q.scope.space.Drop(g.Atoms, Of(order[k])).Key()]
		if e == nil || e.unjudged == 0 || e.class != bisect.BuildFailed {
			continue
		}
		// which of those behind it is not known; if the last one is it, or needs it, then the last needs this
		if slices.ContainsFunc(order[k+1:], func(x int) bool { return !q.scope.space.Needs(last).Has(x) }) {
			continue
		}
		if err := q.learn(last, order[k]); err != nil {
			return err
		}
	}
	return nil
}

// ofSeed finds out which atom of a seed does not build without one that was taken out: the last atom of the first
// prefix that does not build. It returns whether anything was learned.
func (q requirements) ofSeed(seed Set) (bool, error) {
	out := q.scope.top.Minus(seed)
	if e := q.tester.memory.entries[seed.Key()]; e == nil || e.class != bisect.BuildFailed {
		q.found.warn("without %s it fails in another way and cannot be judged: not decided", q.scope.names(out))
		return false, nil
	}
	order, absent := q.scope.space.Sorted(seed), q.scope.space.Sorted(out)
	first := 1
	for first < len(order) && q.scope.space.Before(order[first-1], absent[0]) {
		first++ // what stands in front of everything absent builds
	}
	k, err := odds.Least(first, len(order), func(m int) (bool, error) {
		a, err := q.tester.testItself(Of(order[:m]...), building)
		return a == Unjudged, err
	})
	if err != nil {
		return false, err
	}
	return q.ofLast(Of(order[:k]...), order[k-1], absent)
}

// ofLast finds out which of the absent atoms the last one of a prefix needs.
func (q requirements) ofLast(prefix Set, last int, absent []int) (learned bool, err error) {
	space := q.scope.space
	absent = slices.DeleteFunc(slices.Clone(absent), func(d int) bool { return space.Before(last, d) })
	all := prefix.Or(Of(absent...))
	for _, d := range absent {
		if len(absent) > 1 {
			set := q.scope.space.Drop(all, Of(d))
			if !set.Has(last) {
				continue
			}
			if a, err := q.tester.testItself(set, building); err != nil {
				return false, err
			} else if a != Unjudged {
				continue
			}
		}
		if err := q.learn(last, d); err != nil {
			return false, err
		}
		learned = true
	}
	if !learned {
		q.found.warn("without %s it does not build, for no single reason that was found: not decided", q.scope.names(q.scope.top.Minus(prefix)))
	}
	return learned, nil
}
