package flags

import (
	"slices"

	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// readParts notes which flags are parts of a value of another one, and checks them: only one level of parts, each a
// part of one value, without conditions of or on it. So the parts can be searched as a space of their own.
func (f *Flags) readParts() error {
	for i, g := range f.flags {
		if len(g.Parts) == 1 {
			return flagErrorf(g.Name, "parts: expected at least two, got %s alone", g.Parts[0])
		}
		for _, text := range g.Parts {
			flag, value, equal, err := f.term(text)
			if err != nil {
				return flagErrorf(g.Name, "parts: %w", err)
			}
			o := f.flags[flag]
			_, taken := f.whole[flag]
			switch {
			case !equal || value == 0:
				return flagErrorf(g.Name, "parts: %q must name a value other than the base %s", text, o.Values[0])
			case flag == i || len(o.Parts) > 0:
				return flagErrorf(g.Name, "parts: %s has parts itself", o.Name)
			case taken:
				return flagErrorf(g.Name, "parts: %s is a part already", o.Name)
			case len(o.Requires)+len(o.Excludes) > 0:
				return flagErrorf(g.Name, "parts: a part cannot require or exclude anything, but %s does", o.Name)
			}
			f.whole[flag] = i
		}
	}
	for _, g := range f.flags {
		for _, text := range slices.Concat(g.Requires, g.Excludes) {
			if flag, _, _, err := f.term(text); err == nil {
				if whole, ok := f.whole[flag]; ok {
					return flagErrorf(g.Name, "%q is about a part of %s: name that flag instead", text, f.flags[whole].Name)
				}
			}
		}
	}
	return nil
}

// composite reports whether a flag has the value that stands for its parts.
func (f *Flags) composite(on lattice.Set, flag int) bool {
	bad := slices.Index(f.flags[flag].Values, f.flags[flag].Bad)
	i := slices.Index(f.atoms, step{flag, bad})
	return i >= 0 && on.Has(i)
}

// Expand lists the parts of the value that an atom stands for, as atoms for a space of their own; nil if it has none.
// They get the next indices in f, so that Assign and its like also read sets over the extended list.
func (f *Flags) Expand(atom int) []lattice.Atom {
	s := f.atoms[atom]
	g := f.flags[s.flag]
	if len(g.Parts) == 0 || g.Values[s.value] != g.Bad {
		return nil
	}
	var atoms []lattice.Atom
	for _, text := range g.Parts {
		flag, value, _, _ := f.term(text) // checked when the flags were made
		o := f.flags[flag]
		atoms = append(atoms, lattice.Atom{Name: lattice.Step{Flag: o.Name, From: o.Values[0], To: o.Values[value]}.String()})
		f.atoms = append(f.atoms, step{flag, value})
	}
	return atoms
}
