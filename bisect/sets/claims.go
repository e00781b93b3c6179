package sets

import (
	"fmt"
	"slices"
	"strings"
)

// alone is a claimed set with what it requires; without is everything but the claim.
func (r *run) alone(c Claim) Set   { return r.space.Close(c.Atoms).And(r.top) }
func (r *run) without(c Claim) Set { return r.space.Drop(r.top, c.Atoms) }

// claimsAlone tests each claimed set by itself, which mostly passes and is cheap.
func (r *run) claimsAlone() error {
	for _, c := range r.Claims {
		if s := r.alone(c); r.space.Valid(s) && c.Atoms.In(r.top) {
			if _, err := r.ask(s, Alone); err != nil {
				return err
			}
		}
	}
	return nil
}

// claimsWithout tests everything but each claimed set. Where a guilty set is known that does without
// the claim the answer is inferred.
func (r *run) claimsWithout() error {
	for _, c := range r.Claims {
		if !c.Atoms.In(r.top) {
			continue
		}
		without, err := r.ask(r.without(c), Without)
		if err != nil {
			return err
		}
		s := r.alone(c)
		if a, _, _ := r.mem.infer(s); a != Fail || without != Pass || r.anyInside(s) {
			continue
		}
		if g, err := r.minimal(s); err != nil {
			return err
		} else if g != nil {
			if err := r.blame(*g); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) anyInside(s Set) bool {
	return slices.ContainsFunc(r.f.Minimal, func(g Guilty) bool { return g.Atoms.In(s) })
}

// judgeClaims gives every claim its verdict, from what is known by now.
func (r *run) judgeClaims() {
	for _, c := range r.Claims {
		j := Judged{Name: c.Name, Atoms: c.Atoms}
		if !c.Atoms.In(r.top) {
			j.Verdict, j.Why = UndecidedHere, "it is not part of the bad end"
		} else {
			r.judge(&j, r.alone(c), r.without(c))
		}
		r.f.Claims = append(r.f.Claims, j)
	}
}

func (r *run) judge(j *Judged, alone, without Set) {
	j.Alone, j.Without = r.look(j, alone), r.look(j, without)
	var meet []Guilty
	for _, g := range r.f.Minimal {
		switch {
		case g.Atoms.In(without):
			j.Others = append(j.Others, g.Atoms)
		case g.Atoms.In(alone):
			if g.Atoms.Len() < alone.Len() && (len(j.Only) == 0 || g.Atoms.Len() < j.Only.Len()) {
				j.Only = g.Atoms
			}
		default:
			meet = append(meet, g)
		}
	}
	for _, g := range meet {
		j.With = append(j.With, g.Atoms.Minus(alone))
	}
	j.Verdict, j.Why = r.verdict(j)
}

// look reads an answer that is known and the rows that show it.
func (r *run) look(j *Judged, set Set) Answer {
	a, from, ok := r.mem.infer(set)
	if !ok {
		return ""
	}
	for row, t := range r.f.Tests {
		if !t.Inferred && t.Set.Equal(r.turn(from)) {
			j.Tests = append(j.Tests, row)
		}
	}
	return a
}

// verdict is the table of what the claim alone and everything without it say together.
func (r *run) verdict(j *Judged) (Verdict, string) {
	alone, without := fmt.Sprintf("alone: %s", j.Alone), fmt.Sprintf("all but it: %s", j.Without)
	both := alone + "; " + without
	switch {
	case j.Alone == "" || j.Without == "":
		return UndecidedHere, "not all its tests were made"
	case j.Alone == Unresolved:
		return UndecidedHere, "by itself it could not be tested"
	case j.Without == Unresolved:
		return UndecidedHere, "without it nothing could be tested"
	case j.Alone == Fail && j.Without == Pass && len(j.Only) > 0:
		return Confirmed, both + "; only " + r.names(j.Only) + " is needed"
	case j.Alone == Fail && j.Without == Pass:
		return Confirmed, both
	case j.Alone == Fail:
		return NotTheOnly, both + "; so does " + r.listed(j.Others)
	case len(j.With) > 0:
		why := both + "; it takes " + r.listed(j.With) + " as well"
		if j.Without == Fail {
			why += "; another cause exists"
		}
		return Combination, why
	case j.Without == Pass:
		return UndecidedHere, both + "; what it combines with was not found"
	case r.f.Complete:
		return Refuted, both + "; it is in none of the guilty sets, which are all known"
	}
	return NotSupported, both + "; not all guilty sets are known"
}

func (r *run) listed(list []Set) string {
	var text []string
	for _, s := range list {
		text = append(text, r.names(s))
	}
	if len(text) == 0 {
		return "something else"
	}
	return strings.Join(text, "; or ")
}
