package sets

import (
	"fmt"
	"slices"
	"strings"
)

// claims tests named hypotheses (sets.md 4e). They stand in the finding with the atoms that they are about, and get
// their verdicts there in the end.
type claims struct {
	tester *tester
	scope  *scope
	found  *Finding
}

// alone is a claimed set with what it requires; without is all changes but the claim.
func (c claims) alone(atoms Set) Set   { return c.scope.space.Close(atoms).And(c.scope.top) }
func (c claims) without(atoms Set) Set { return c.scope.space.Drop(c.scope.top, atoms) }

// testAlone tests each claimed set by itself, which mostly passes and so is cheap.
func (c claims) testAlone() error {
	for _, j := range c.found.Claims {
		if set := c.alone(j.Atoms); c.scope.space.Valid(set) && j.Atoms.In(c.scope.top) {
			if _, err := c.tester.ask(set, claimAlone); err != nil {
				return err
			}
		}
	}
	return nil
}

// testWithout tests all changes but each claimed set; mostly a known guilty set that does without the claim answers
// that. Where the claim alone fails and everything but it passes, a guilty set inside the claim is looked for.
func (c claims) testWithout(e *enumeration) error {
	for k := range c.found.Claims {
		atoms := c.found.Claims[k].Atoms // they may be divided on the way
		if !atoms.In(c.scope.top) {
			continue
		}
		without, err := c.tester.ask(c.without(atoms), claimWithout)
		if err != nil {
			return err
		}
		set := c.alone(atoms)
		known := slices.ContainsFunc(minimalOf(c.found.Minimal), func(g Set) bool { return g.In(set) })
		if a, _, _ := c.tester.memory.infer(set); a != Fail || without != Pass || known {
			continue
		}
		if g, err := e.finder.minimal(set); err != nil {
			return err
		} else if g != nil {
			if err := e.blame(*g); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge gives every claim its verdict, from what is known by now.
func (c claims) judge() {
	for k := range c.found.Claims {
		j := &c.found.Claims[k]
		if !j.Atoms.In(c.scope.top) {
			j.Verdict, j.Why = Undecided, "it is not among the changes searched"
			continue
		}
		alone, without := c.alone(j.Atoms), c.without(j.Atoms)
		j.Alone, _, _ = c.tester.memory.infer(alone)
		j.Without, _, _ = c.tester.memory.infer(without)
		for _, g := range minimalOf(c.found.Minimal) {
			switch {
			case g.In(without):
				j.Others = append(j.Others, g)
			case !g.In(alone):
				j.With = append(j.With, g.Minus(alone))
			case g.Len() < alone.Len() && (len(j.Only) == 0 || g.Len() < j.Only.Len()):
				j.Only = g
			}
		}
		j.Verdict, j.Why = c.verdict(j)
	}
}

// told is what is known of a set, and that it was not launched itself where the answer follows from another set.
func (c claims) told(set Set) string {
	a, from, ok := c.tester.memory.infer(set)
	if ok && !from.Equal(set) {
		return string(a) + " (inferred)"
	}
	return string(a)
}

// verdict is the table of sets.md 4e: what the claim alone and everything without it say together.
func (c claims) verdict(j *Judged) (Verdict, string) {
	both := fmt.Sprintf("alone: %s; all but it: %s", c.told(c.alone(j.Atoms)), c.told(c.without(j.Atoms)))
	switch {
	case j.Alone == "" || j.Without == "":
		return Undecided, "not all its tests were made"
	case j.Alone == Unjudged:
		return Undecided, "by itself it cannot be judged"
	case j.Without == Unjudged:
		return Undecided, "without it nothing can be judged"
	case j.Alone == Fail && j.Without == Pass && len(j.Only) > 0:
		return Confirmed, both + "; only " + c.scope.names(j.Only) + " is needed"
	case j.Alone == Fail && j.Without == Pass:
		return Confirmed, both
	case j.Alone == Fail:
		return NotTheOnly, both + "; so does " + c.listed(j.Others)
	case len(j.With) > 0:
		why := both + "; it also takes " + c.listed(j.With)
		if j.Without == Fail {
			why += "; another cause exists"
		}
		return Combination, why
	case j.Without == Pass:
		return Undecided, both + "; what it combines with was not found"
	case c.found.Complete:
		return Refuted, both + "; it is in none of the guilty sets, which are all known"
	}
	return NotSupported, both + "; not all guilty sets are known"
}

func (c claims) listed(list []Set) string {
	if len(list) == 0 {
		return "something else"
	}
	var names []string
	for _, s := range list {
		names = append(names, c.scope.names(s))
	}
	return strings.Join(names, "; or ")
}

// open counts the tests of claims that nothing answers yet.
func (c claims) open() (n float64) {
	for _, j := range c.found.Claims {
		for _, set := range []Set{c.alone(j.Atoms), c.without(j.Atoms)} {
			if _, _, known := c.tester.memory.infer(set); !known && j.Atoms.In(c.scope.top) && c.scope.space.Valid(set) {
				n++
			}
		}
	}
	return n
}
