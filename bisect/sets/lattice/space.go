package lattice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Atom is one change that can be on or off.
type Atom struct {
	Name      string
	Weight    float64 // value of keeping it; 0 stands for 1
	Suspicion float64 // relative weight as a culprit; 0 stands for 1
	Requires  []int   // atoms that must be on with it; another atom of the same group will do
	Excludes  []int   // atoms that must not be on with it
	Group     string  // atoms of one group are values of one flag: at most one is on; empty: none
	Spare     bool    // another value of its group, off among all changes: tried once the group is guilty
}

// Step is what an atom of flags stands for: one value of a flag instead of another. Stored documents keep it as its
// text, which reads back as the same step unless From holds an arrow; the name of a flag holds no colon.
type Step struct{ Flag, From, To string }

// String names the atom, "compile: default->max-autotune".
func (s Step) String() string { return s.Flag + ": " + s.From + "->" + s.To }

// ParseStep reads what String writes; ok is false for the name of another kind of atom, such as a hunk.
func ParseStep(name string) (s Step, ok bool) {
	flag, values, colon := strings.Cut(name, ": ")
	from, to, arrow := strings.Cut(values, "->")
	return Step{flag, from, to}, colon && arrow
}

// Space is what may be on together. A set is valid when it is closed under what its atoms require and
// holds no two that exclude each other; only valid sets are ever run.
type Space struct {
	atoms     []Atom
	needs     []Set // each atom with all that it requires, directly or not
	users     []Set // each atom with all that require it
	order     []int // what is required before what requires it, then the most suspected first
	place     []int // of each atom in order
	conflicts []Set // pairs
	whole     Set   // all atoms but the spare ones
}

// NewSpace checks the atoms and works out who needs whom. The errors name the atom: a weight that is not positive, a
// number that is not another atom, requirements in a circle (a [*CycleError]).
func NewSpace(atoms []Atom) (*Space, error) {
	if len(atoms) == 0 || len(atoms) > MaxAtoms {
		return nil, fmt.Errorf("expected between 1 and %d changes, got %d", MaxAtoms, len(atoms))
	}
	s := &Space{atoms: slices.Clone(atoms)}
	for i := range s.atoms {
		a := &s.atoms[i]
		a.Weight, a.Suspicion = cmp.Or(a.Weight, 1), cmp.Or(a.Suspicion, 1)
		if !(a.Weight > 0 && a.Suspicion > 0) {
			return nil, fmt.Errorf("change %s: weight and suspicion must be positive, got %v and %v", s.Name(i), a.Weight, a.Suspicion)
		}
		for _, o := range slices.Concat(a.Requires, a.Excludes) {
			if o < 0 || o >= len(atoms) || o == i {
				return nil, fmt.Errorf("change %s: invalid requirement or exclusion: %d is not the number of another change", s.Name(i), o)
			}
		}
		if !a.Spare {
			s.whole = s.whole.Or(Of(i))
		}
	}
	s.conflicts = pairs(s.atoms)
	return s, s.connect()
}

// Len is the number of atoms, spare ones included.
func (s *Space) Len() int { return len(s.atoms) }

// Atom returns atom i.
func (s *Space) Atom(i int) Atom { return s.atoms[i] }

// Whole is the set of all atoms but the spare ones.
func (s *Space) Whole() Set { return s.whole }

// Needs is atom i with all that it requires, directly or not.
func (s *Space) Needs(i int) Set { return s.needs[i] }

// Users is atom i with all that require it, directly or not.
func (s *Space) Users(i int) Set { return s.users[i] }

// Conflicts lists the pairs that exclude each other.
func (s *Space) Conflicts() []Set { return s.conflicts }

// Before reports whether atom i stands in front of atom j, as in [Space.Sorted].
func (s *Space) Before(i, j int) bool { return s.place[i] < s.place[j] }

// Name is the name of atom i, or its number.
func (s *Space) Name(i int) string { return cmp.Or(s.atoms[i].Name, fmt.Sprint(i)) }

// pairs lists the pairs of atoms that exclude each other, or are values of one flag.
func pairs(atoms []Atom) (list []Set) {
	for i, a := range atoms {
		for _, o := range a.Excludes {
			list = append(list, Of(i, o))
		}
		if a.Group == "" {
			continue
		}
		for j := range i {
			if atoms[j].Group == a.Group {
				list = append(list, Of(i, j))
			}
		}
	}
	return list
}

// CycleError says that an atom requires itself, through others.
type CycleError struct {
	Atom int
	Way  string // back to it, for people
}

// Error implements error.
func (e *CycleError) Error() string {
	return "cyclic requirements, so that none of these can be on: " + e.Way
}

// connect works out the order and the closures. Suspects come early, with what they need before them.
func (s *Space) connect() error {
	n := len(s.atoms)
	s.needs, s.users = make([]Set, n), make([]Set, n)
	s.order, s.place = nil, make([]int, n)
	byName := make([]int, n)
	for i := range byName {
		byName[i] = i
	}
	slices.SortStableFunc(byName, func(i, j int) int { return cmp.Compare(s.atoms[j].Suspicion, s.atoms[i].Suspicion) })
	state := make([]byte, n)
	for _, i := range byName {
		if way := s.visit(i, state, nil); way != nil {
			var names []string
			for _, i := range way {
				names = append(names, s.Name(i))
			}
			return &CycleError{Atom: way[0], Way: strings.Join(names, " needs ")}
		}
	}
	for k, i := range s.order {
		s.place[i] = k
		for _, d := range s.needs[i].Atoms() {
			s.users[d] = s.users[d].Or(Of(i))
		}
	}
	return nil
}

// visit puts atom i into the order, behind what it requires. Where it requires itself, or comes from what leads
// to one that does, it returns the way round.
func (s *Space) visit(i int, state []byte, from []int) (circle []int) {
	const under, done = 1, 2
	from = append(from, i)
	switch state[i] {
	case under:
		return from[slices.Index(from, i):]
	case done:
		return nil
	}
	state[i] = under
	s.needs[i] = Of(i)
	for _, d := range s.atoms[i].Requires {
		if circle := s.visit(d, state, from); circle != nil {
			return circle
		}
		s.needs[i] = s.needs[i].Or(s.needs[d])
	}
	state[i] = done
	s.order = append(s.order, i)
	return nil
}

// Close returns the set with all that its atoms require.
func (s *Space) Close(set Set) Set {
	for _, i := range set.Atoms() {
		set = set.Or(s.needs[i])
	}
	return set
}

// Drop returns the set without the atoms of what and without all that require them.
func (s *Space) Drop(set, what Set) Set {
	for _, i := range what.Atoms() {
		set = set.Minus(s.users[i])
	}
	return set
}

// Valid reports whether a set may be run. Where an atom is required, another value of the same flag will do.
func (s *Space) Valid(set Set) bool {
	for _, c := range s.conflicts {
		if c.In(set) {
			return false
		}
	}
	for _, i := range set.Atoms() {
		for _, d := range s.atoms[i].Requires {
			sameFlag := func(j int) bool { return s.atoms[d].Group != "" && s.atoms[j].Group == s.atoms[d].Group }
			if !set.Has(d) && !slices.ContainsFunc(set.Atoms(), sameFlag) {
				return false
			}
		}
	}
	return true
}

// Fit returns the set closed, and with every atom dropped that an earlier one excludes.
func (s *Space) Fit(set Set) Set {
	set = s.Close(set)
	for _, c := range s.conflicts {
		if c.In(set) {
			pair := c.Atoms()
			later := pair[0]
			if s.place[pair[1]] > s.place[later] {
				later = pair[1]
			}
			set = s.Drop(set, Of(later))
		}
	}
	return set
}

// Sorted lists the atoms of a set: what is required before what requires it, then the most suspected first.
func (s *Space) Sorted(set Set) []int {
	list := set.Atoms()
	slices.SortFunc(list, func(i, j int) int { return s.place[i] - s.place[j] })
	return list
}

// Weight is the sum of the weights of the atoms of a set.
func (s *Space) Weight(set Set) float64 {
	sum := 0.0
	for _, i := range set.Atoms() {
		sum += s.atoms[i].Weight
	}
	return sum
}

// Atoms returns a copy of the atoms.
func (s *Space) Atoms() []Atom {
	atoms := slices.Clone(s.atoms)
	for i := range atoms {
		atoms[i].Requires = slices.Clone(atoms[i].Requires)
	}
	return atoms
}

// Require returns the space in which atom i also requires another one.
func (s *Space) Require(i, needed int) (*Space, error) {
	atoms := s.Atoms()
	atoms[i].Requires = append(atoms[i].Requires, needed)
	return NewSpace(atoms)
}

// Expand returns the space in which parts, numbered behind the other atoms, stand in the place of atom i. Parts
// require what i did, and what required i requires all of them. Atom i keeps its number and is off for good.
func (s *Space) Expand(i int, parts []Atom) (*Space, error) {
	atoms := s.Atoms()
	var all []int
	for k, p := range parts {
		p.Requires = slices.Concat(p.Requires, s.atoms[i].Requires)
		p.Suspicion = cmp.Or(p.Suspicion, s.atoms[i].Suspicion)
		p.Weight = cmp.Or(p.Weight, s.atoms[i].Weight/float64(len(parts)))
		atoms = append(atoms, p)
		all = append(all, len(s.atoms)+k)
	}
	for j := range atoms {
		if slices.Contains(atoms[j].Requires, i) {
			atoms[j].Requires = append(slices.DeleteFunc(atoms[j].Requires, func(d int) bool { return d == i }), all...)
		}
	}
	atoms[i].Spare, atoms[i].Group = true, ""
	return NewSpace(atoms)
}
