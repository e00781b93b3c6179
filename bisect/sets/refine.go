package sets

import "slices"

// expand goes on with the parts of a composite atom of a guilty set, if there is one.
func (r *run) expand(g Guilty) (refined bool, err error) {
	for _, m := range g.Members {
		if r.Expand == nil || m.Role == Carrier || r.opaque[m.Atom] {
			continue
		}
		parts := r.Expand(m.Atom)
		r.divided = true
		if len(parts) < 2 {
			continue
		}
		if same, err := r.alike(m.Atom, parts, g); err != nil {
			return false, err
		} else if same {
			return true, r.refine(m.Atom, parts, g)
		}
	}
	return false, nil
}

// inPlace puts the parts of atom i, which come behind the other atoms, in its place.
func (r *run) inPlace(i, parts int) func(Set) Set {
	n := r.space.Len()
	return func(s Set) Set {
		if !s.Has(i) {
			return s
		}
		return s.Minus(Of(i)).Or(First(n + parts).Minus(First(n)))
	}
}

// alike reports whether the parts of an atom show what it shows in a guilty set; else it is named as a
// whole.
func (r *run) alike(i int, parts []Atom, g Guilty) (bool, error) {
	const tries = 3
	for range tries {
		if r.Divided {
			return true, nil
		}
		res, _, err := r.launch(r.inPlace(i, len(parts))(g.Atoms), Prefix, false)
		if err != nil || res.Answer == Fail {
			return err == nil, err
		}
	}
	r.opaque[i] = true
	for k := range parts { // they keep their numbers, and stay off
		parts[k].Spare, parts[k].Group = true, ""
	}
	for _, s := range []**Space{&r.space, &r.base} {
		more, err := NewSpace(append((*s).clone(), parts...))
		if err != nil {
			return false, err
		}
		*s = more
	}
	r.warn("the parts of %s do not show together what it shows: it is named as a whole", r.space.name(i))
	return false, nil
}

// refine goes on with the parts of a composite atom in its place. Guilty sets that hold it are looked
// into again; safe sets without it may be safe with some of the parts.
func (r *run) refine(i int, parts []Atom, g Guilty) error {
	to := r.inPlace(i, len(parts))
	space, err := r.space.expand(i, parts)
	if err != nil {
		return err
	}
	if r.base, err = r.base.expand(i, parts); err != nil {
		return err
	}
	r.space, r.top = space, to(r.top)
	if !r.Divided {
		r.mem.drop(i)
	}
	r.mem.rename(to)
	r.Claims = slices.Clone(r.Claims)
	for k := range r.Claims {
		r.Claims[k].Atoms = to(r.Claims[k].Atoms)
	}
	again := []Guilty{g}
	r.f.Minimal = slices.DeleteFunc(r.f.Minimal, func(o Guilty) bool {
		if o.Atoms.Has(i) {
			again = append(again, o)
		}
		return o.Atoms.Has(i)
	})
	r.f.Safe = slices.DeleteFunc(r.f.Safe, func(s Safe) bool { return !s.Atoms.Has(i) })
	for k := range r.f.Safe {
		r.f.Safe[k].Atoms = to(r.f.Safe[k].Atoms)
	}
	for _, o := range again {
		finer, err := r.minimal(to(o.Atoms))
		if err != nil {
			return err
		}
		if finer == nil {
			r.blocked = append(r.blocked, to(o.Atoms))
			continue
		}
		if err := r.blame(*finer); err != nil {
			return err
		}
	}
	return nil
}
