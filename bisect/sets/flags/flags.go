// Package flags turns the settings of a program under test into a space that package sets searches: each
// value that a flag can take away from its base is an atom, and the terms NAME=VALUE of what flags require and
// exclude become requirements and exclusions of atoms. [Flags] also reads sets of atoms back as values.
//
// The package knows nothing about how a value reaches the program, nor about tests.
package flags

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// Flag is one setting of a program under test. Requires and Excludes apply only while it is away from its base.
type Flag struct {
	Name     string
	Values   []string // the first is the safe base
	Bad      string   // its value among all changes; empty: the last value
	Ordered  bool     // each value is a step beyond the one before: the least guilty step is searched for
	Requires []string // terms NAME=VALUE and NAME!=VALUE that must hold where it is not at its base
	Excludes []string // terms that must not hold
	Parts    []string `json:",omitempty"` // settings NAME=VALUE that the bad value stands for: searched in its place once it is blamed
}

// Flags is a space made of flags. A flag of two values is one atom. An ordered flag has an atom for each step up to
// its bad value, each of which requires the one before. Any other flag has an atom for its bad value, and spare ones
// for the values that are neither base nor bad. A set of the space is thus an assignment of values: with nothing on,
// every flag is at its base.
type Flags struct {
	Space *lattice.Space
	Notes []string // what was done to the flags, for people
	flags []Flag
	atoms []step
	whole map[int]int // flags that are parts, with the flag of which they are
}

// step is what an atom stands for, as indices of a flag and of one of its values: an ordered flag has at least this
// value, any other flag exactly this one.
type step struct{ flag, value int }

// Error says what is wrong with one flag, so that a caller can point at its place in the configuration.
type Error struct {
	Flag string
	err  error
}

// Error implements error.
func (e *Error) Error() string { return "flag " + e.Flag + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

func flagErrorf(flag, format string, args ...any) error {
	return &Error{Flag: flag, err: fmt.Errorf(format, args...)}
}

// New makes the space of the flags, whose atoms stand in the order of the flags and of their values. A flag that
// cannot be part of it gives an *Error: too few values, a duplicate, a bad value that is none of its values, a term
// that does not parse, or requirements in a circle.
func New(flags []Flag) (*Flags, error) {
	f := &Flags{flags: slices.Clone(flags), whole: map[int]int{}}
	f.loosen()
	if err := f.readParts(); err != nil {
		return nil, err
	}
	var atoms []lattice.Atom
	for i := range f.flags {
		more, err := f.add(i, len(atoms))
		if err != nil {
			return nil, err
		}
		atoms = append(atoms, more...)
	}
	for a := range atoms {
		if err := f.tie(a, &atoms[a]); err != nil {
			return nil, err
		}
	}
	space, err := lattice.NewSpace(atoms)
	var cycle *lattice.CycleError
	switch {
	case errors.As(err, &cycle):
		return nil, &Error{Flag: f.flags[f.atoms[cycle.Atom].flag].Name, err: err}
	case err != nil:
		return nil, fmt.Errorf("flags: %w", err)
	}
	f.Space = space
	return f, nil
}

// loosen gives up the order of a flag where a term rules out a value in its middle: atoms that each require the one
// before cannot skip a step. A note says so.
func (f *Flags) loosen() {
	for _, g := range f.flags {
		for k, text := range slices.Concat(g.Requires, g.Excludes) {
			flag, value, equal, err := f.term(text)
			leavesOut := equal == (k >= len(g.Requires)) // requires b!=1, or excludes b=1
			if err != nil || !leavesOut {
				continue
			}
			o := &f.flags[flag]
			bad := slices.Index(o.Values, cmp.Or(o.Bad, o.Values[len(o.Values)-1]))
			if o.Ordered && value > 0 && value < bad {
				o.Ordered = false
				f.Notes = append(f.Notes, fmt.Sprintf("the values of %s were searched as if they had no order: a condition of %s leaves out %s, which is in the middle", o.Name, g.Name, o.Values[value]))
			}
		}
	}
}

// add checks flag i and makes its atoms, the first of which will have the index first in the space. It fills in Bad.
// Flags that are parts of a value get no atoms until that value is blamed.
func (f *Flags) add(i, first int) ([]lattice.Atom, error) {
	g := &f.flags[i]
	if len(g.Values) < 2 {
		return nil, flagErrorf(g.Name, "expected a base value and at least one other")
	}
	if slices.ContainsFunc(f.flags[:i], func(o Flag) bool { return o.Name == g.Name }) {
		return nil, flagErrorf(g.Name, "duplicate name")
	}
	for v, name := range g.Values {
		if slices.Contains(g.Values[:v], name) {
			return nil, flagErrorf(g.Name, "duplicate value %q", name)
		}
	}
	g.Bad = cmp.Or(g.Bad, g.Values[len(g.Values)-1])
	bad := slices.Index(g.Values, g.Bad)
	if bad < 1 {
		return nil, flagErrorf(g.Name, "invalid bad value %q: expected one of its values other than the base", g.Bad)
	}
	if _, ok := f.whole[i]; ok {
		return nil, nil
	}
	var atoms []lattice.Atom
	for v := 1; v < len(g.Values); v++ {
		var a lattice.Atom
		switch {
		case g.Ordered && v > bad:
			continue
		case g.Ordered:
			a.Name = lattice.Step{Flag: g.Name, From: g.Values[v-1], To: g.Values[v]}.String()
			a.Weight = 1 / float64(bad) // the steps together are worth one flag, and as suspicious
			a.Suspicion = a.Weight
			if v > 1 {
				a.Requires = []int{first + v - 2}
			}
		default:
			a.Name = lattice.Step{Flag: g.Name, From: g.Values[0], To: g.Values[v]}.String()
			a.Group, a.Spare = g.Name, v != bad
		}
		atoms = append(atoms, a)
		f.atoms = append(f.atoms, step{i, v})
	}
	return atoms, nil
}

// tie translates the terms of its flag into what an atom requires and excludes. All atoms must have been made.
func (f *Flags) tie(a int, atom *lattice.Atom) error {
	g := f.flags[f.atoms[a].flag]
	for _, list := range []struct {
		terms []string
		holds bool
		word  string
	}{{g.Requires, true, "requires"}, {g.Excludes, false, "excludes"}} {
		for _, text := range list.terms {
			flag, value, equal, err := f.term(text)
			if err == nil && flag == f.atoms[a].flag {
				err = fmt.Errorf("invalid term %q: it is about the flag itself", text)
			}
			if err == nil {
				err = f.apply(atom, flag, value, equal == list.holds)
			}
			if err != nil {
				return flagErrorf(g.Name, "%s: %w", list.word, err)
			}
		}
	}
	return nil
}

// Term is a condition on one flag: NAME=VALUE or, with Not, NAME!=VALUE.
type Term struct {
	Flag, Value string
	Not         bool
}

// ParseTerm reads NAME=VALUE or NAME!=VALUE; spaces around the name and the value do not count. ok is false without an
// equals sign. Whether there is such a flag is not checked.
func ParseTerm(s string) (t Term, ok bool) {
	name, value, ok := strings.Cut(s, "=")
	name, t.Not = strings.CutSuffix(name, "!")
	t.Flag, t.Value = strings.TrimSpace(name), strings.TrimSpace(value)
	return t, ok
}

// term finds the indices of the flag and the value of a term; equal is false for NAME!=VALUE.
func (f *Flags) term(text string) (flag, value int, equal bool, err error) {
	t, ok := ParseTerm(text)
	if !ok {
		return 0, 0, false, fmt.Errorf("invalid term %q: expected NAME=VALUE or NAME!=VALUE", text)
	}
	flag = slices.IndexFunc(f.flags, func(g Flag) bool { return g.Name == t.Flag })
	if flag < 0 {
		return 0, 0, false, fmt.Errorf("invalid term %q: unknown flag", text)
	}
	value = slices.Index(f.flags[flag].Values, t.Value)
	if value < 0 {
		return 0, 0, false, fmt.Errorf("invalid term %q: unknown value %q (expected %s)", text, t.Value, strings.Join(f.flags[flag].Values, ", "))
	}
	return flag, value, !t.Not, nil
}

// apply lets an atom be on only while a flag has a value (equal), or has not. Atoms can only require and exclude
// others, so what that means depends on where the value stands and on whether the steps are ordered: a flag is at its
// base while none of its atoms is on, and beyond a value while the step after that one is. An ordered flag that would
// have to go beyond its bad value is an error.
func (f *Flags) apply(atom *lattice.Atom, flag, value int, equal bool) error {
	at := func(v int) []int {
		if i := slices.Index(f.atoms, step{flag, v}); i >= 0 {
			return []int{i}
		}
		return nil
	}
	g := f.flags[flag]
	bad := slices.Index(g.Values, g.Bad)
	switch {
	case equal && value == 0 && g.Ordered, !equal && value == bad && g.Ordered: // stays below a step
		atom.Excludes = append(atom.Excludes, at(max(1, value))...)
	case equal && value == 0: // stays at the base
		for v := range g.Values {
			atom.Excludes = append(atom.Excludes, at(v)...)
		}
	case !equal && value == 0 && g.Ordered: // has left the base, by the first step
		atom.Requires = append(atom.Requires, at(1)...)
	case !equal && value == 0:
		atom.Requires = append(atom.Requires, at(bad)...) // any other value stands in for it
	case g.Ordered && value > bad: // never comes up
		if equal {
			return fmt.Errorf("%s=%s is beyond the bad value %s", g.Name, g.Values[value], g.Bad)
		}
	case equal && g.Ordered: // has got there and no further
		atom.Requires = append(atom.Requires, at(value)...)
		atom.Excludes = append(atom.Excludes, at(value+1)...)
	case equal:
		atom.Requires = append(atom.Requires, at(value)...)
		for v := range g.Values {
			if v != value {
				atom.Excludes = append(atom.Excludes, at(v)...)
			}
		}
	default: // any value but this one
		atom.Excludes = append(atom.Excludes, at(value)...)
	}
	return nil
}

// Assign returns the value of every flag, by name, with the atoms of a set on. Parts are left out while the value that
// stands for them is set: the program knows what it implies.
func (f *Flags) Assign(on lattice.Set) map[string]string {
	values := map[string]string{}
	for _, g := range f.flags {
		values[g.Name] = g.Values[0]
	}
	for i, whole := range f.whole { // what stands for its parts says what they are
		if f.composite(on, whole) {
			delete(values, f.flags[i].Name)
		}
	}
	highest := make([]int, len(f.flags))
	for _, i := range on.And(lattice.First(len(f.atoms))).Atoms() {
		s := f.atoms[i]
		if s.value >= highest[s.flag] { // of steps the last one counts
			highest[s.flag] = s.value
			values[f.flags[s.flag].Name] = f.flags[s.flag].Values[s.value]
		}
	}
	return values
}

// Text writes all flags with the atoms of a set on, in their order: "compile=off,graph=on".
func (f *Flags) Text(on lattice.Set) string { return f.join(f.Assign(on), ",") }

// join writes values in the order of the flags; flags without one are left out.
func (f *Flags) join(values map[string]string, between string) string {
	var parts []string
	for _, g := range f.flags {
		if v, ok := values[g.Name]; ok {
			parts = append(parts, g.Name+"="+v)
		}
	}
	return strings.Join(parts, between)
}

// Away is the value, by name, of every flag that a set takes away from its base.
func (f *Flags) Away(on lattice.Set) map[string]string {
	values := f.Assign(on)
	for _, g := range f.flags {
		if values[g.Name] == g.Values[0] {
			delete(values, g.Name)
		}
	}
	return values
}

// Words writes a set for people: "compile=on graph=on", the flags away from their base in their order.
func (f *Flags) Words(on lattice.Set) string {
	return cmp.Or(f.join(f.Away(on), " "), "all flags at their base")
}

// Claim reads the terms NAME=VALUE of a hypothesis and returns the atoms that take each flag there from its base. A
// term that is unknown, is a part of another value, or lies off the way to the bad value is an error, and so is an
// empty claim.
func (f *Flags) Claim(terms []string) (lattice.Set, error) {
	var set lattice.Set
	for _, text := range terms {
		flag, value, equal, err := f.term(text)
		if err != nil {
			return nil, err
		}
		g := f.flags[flag]
		if whole, ok := f.whole[flag]; ok {
			return nil, fmt.Errorf("%q is a part of %s=%s: claim that instead", text, f.flags[whole].Name, f.flags[whole].Bad)
		}
		if !equal || value == 0 {
			return nil, fmt.Errorf("invalid claim %q: expected a value other than the base %s", text, g.Values[0])
		}
		found := false
		for i, s := range f.atoms {
			if s.flag == flag && (s.value == value || g.Ordered && s.value < value) {
				set = set.Or(lattice.Of(i))
				found = found || s.value == value
			}
		}
		if !found || f.Space.Atom(slices.Index(f.atoms, step{flag, value})).Spare {
			return nil, fmt.Errorf("invalid claim %q: only the values on the way to %s=%s are searched", text, g.Name, g.Bad)
		}
	}
	if len(set) == 0 {
		return nil, errors.New("the claim is empty")
	}
	return set, nil
}
