// Package sets finds which combination of changes shows a complaint. A change is an [Atom] that can be on
// or off: a flag that leaves its base value, a level of an ordered flag, a hunk of a diff. A set of atoms
// fails when it shows the complaint; a minimal guilty set fails and passes with any of its atoms taken out;
// a maximal safe set passes and fails with any further atom.
//
// A [Search] looks for one set or for all, among atoms that may require or exclude each other, with tests that may
// fail now and then, and with named hypotheses. An [Oracle] makes its tests, and a [Finding] is what it concludes.
//
// A failing test usually costs many times what a passing one does (a time limit against a short run), so
// every search here walks up from the safe side and buys few failures:
//
//   - One guilty set: look for the shortest prefix of the atoms that fails, keep its last atom, and go on
//     below it. Where to cut is an optimal alphabetic tree over a prior and the prices seen so far. Then the set
//     is verified, by repeated runs: it fails, and passes without any one of its atoms.
//   - All of them: the cheapest set of atoms that hits every guilty set known is taken out of the whole.
//     What is left passes, and is a maximal safe set, or fails, and holds a new guilty set. When no such
//     seed is left, the two lists are complete, and only then does the finding say so.
//   - What to keep: seeds come in the order of what they give up, so the first that passes is the most
//     valuable safe set.
//   - Claims: each claimed set alone first (mostly passes), the search with the claimed atoms in front, then
//     everything but the claimed set, which is mostly known by then.
//
// What a superset or a subset has shown is not run again: such answers are inferred, and marked. A set that
// cannot be judged, because it does not build or fails in another way, blames nothing: read as a pass it keeps
// the prefix search exact wherever atoms stand after what they need, and what only carries a culprit comes out
// as an atom whose removal does not build.
//
// Failing is taken to be monotone: what fails goes on failing with more atoms. Verification finds out where
// that, or an answer, was wrong; then what it contradicts is dropped, the search begins again with repeats,
// and the finding says what was seen. A complaint may come in some launches only: the fewer of its tests a
// guilty set fails, the more often every other set must pass before anything is verified.
//
// The package must not know processes, files or clocks. All decisions follow from the answers of the oracle, so that a
// search whose answers are replayed makes the same tests. What only a program with slow, costly launches
// needs (early limits, budgets, prices, progress, answers of earlier searches) is optional in all types.
package sets

import (
	"context"

	"github.com/kbisect/kbisect/bisect"
)

// Goal says how far a search goes.
type Goal int

// The goals.
const (
	One  Goal = iota // one minimal guilty set
	Keep             // on to the most valuable safe set
	All              // every minimal guilty and every maximal safe set
)

// Claim is a named hypothesis: these atoms bring the complaint.
type Claim struct {
	Name  string
	Atoms Set
}

// Cuts keeps where tests cut the candidates, which takes longest to work out, for searches that are repeated with the
// same answers. It is not safe for concurrent use.
type Cuts map[string]int

// Search looks for guilty sets. Space and Oracle must be set; all else may be left at its zero value.
type Search struct {
	Space  *Space
	Oracle Oracle
	Goal   Goal
	Claims []Claim

	// Repeats is the number of tests that each answer of a verified set rests on at least; 0 stands for 2. With 1 each
	// set is tested once; below 0 nothing is verified.
	Repeats int
	Spent   func() bool      // reports that the budget is used up; may be nil
	Cuts    Cuts             // shared by searches that are made again; may be nil
	Words   func(Set) string // a set for people; nil: the names of its atoms

	// Expand lists the parts of a composite atom, and is asked once the atom is guilty; may be nil. The parts
	// are numbered from the length of the space on. Divided says that they are the atom itself, divided; else
	// what they show is tested anew.
	Expand  func(atom int) []Atom
	Divided bool

	// Time compares a safe set with nothing on, by no more launches than it takes until enough accepts what is known.
	// May be nil.
	Time func(ctx context.Context, on Set, enough func(bisect.Effect) bool) (bisect.Effect, error)

	OnTest     func(Test)     // is called after every test; may be nil
	OnProgress func(Progress) // is called after every test between the ends; may be nil
}

// Find runs the search. Machine trouble and interruption are part of the Finding, with what is known
// until then; an error means that the search could not begin.
func (s *Search) Find(ctx context.Context) (Finding, error) {
	r, err := s.begin(ctx)
	if err != nil {
		return Finding{}, err
	}
	err = r.search(s)
	return r.conclude(err), nil
}
