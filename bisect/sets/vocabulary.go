package sets

import (
	"context"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// Set, Atom and Space are those of package lattice, named here so that a search needs one import.
type (
	Set   = lattice.Set
	Atom  = lattice.Atom
	Space = lattice.Space
)

// Of returns the set of the atoms given.
func Of(atoms ...int) Set { return lattice.Of(atoms...) }

// NewSpace checks the atoms and works out which of them may be on together.
func NewSpace(atoms []Atom) (*Space, error) { return lattice.NewSpace(atoms) }

// ParseStep reads the name of an atom of flags; ok is false for the name of another kind of atom, such as a hunk.
func ParseStep(name string) (s lattice.Step, ok bool) { return lattice.ParseStep(name) }

// Answer is what a test of a set showed.
type Answer string

// The answers.
const (
	Pass     Answer = "pass"
	Fail     Answer = "fail"       // shows the complaint
	Unjudged Answer = "unresolved" // cannot be judged: it does not build, or fails in another way, and blames nothing
)

// Purpose says why a set is tested; with the set and the ordinal it names the test. The texts are those
// that a store keeps.
type Purpose string

// The purposes of tests that an oracle may treat in its own way.
const (
	Baseline   Purpose = "end-good" // nothing on
	AllChanges Purpose = "end-bad"  // everything on
	Prefix     Purpose = "search"
	Verifying  Purpose = "certify"
	Seeding    Purpose = "seed" // all but the cheapest set that hits every guilty set known
)

const (
	claimAlone   Purpose = "alone"   // a claimed set, and nothing else
	claimWithout Purpose = "without" // all but a claimed set
	valuing      Purpose = "value"   // another value of a guilty flag
	building     Purpose = "builds"
	masking      Purpose = "mask"
	keeping      Purpose = "keep"
	rating       Purpose = "rate" // all changes, for how often what is guilty fails
)

// Request asks for one test: one fresh launch with exactly the atoms of Set on.
type Request struct {
	Set     Set
	Purpose Purpose
	Nth     int     // ordinal among the tests of the same set and purpose, from 0
	Full    bool    // give it the full limit; else it may be stopped where no good run would still be running
	Past    float64 // seconds that some set needs without showing the complaint: not to be stopped before
	Clean   bool    // from a clean export and a clean build
	Chance  float64 // probability of a failure, as far as the search knows
}

// Result is what one test showed.
type Result struct {
	Answer   Answer
	Seconds  float64
	Class    bisect.Class
	Phase    string
	Early    bool    // a failure that rests on being stopped before the full limit
	Between  bool    // a pass that took longer than tests without Full are given: slow, no time-out
	Launches int     // launches that were weighed together for the answer; 0 stands for 1
	Slow     float64 // time as a multiple of that of nothing on; 0: unknown
}

// Oracle tests sets. An error means that the machine is at fault, or that the search was interrupted; it ends the
// search with what is known.
type Oracle interface {
	Test(ctx context.Context, r Request) (Result, error)
}

// Test is one row of the ledger: a test that was run, or an answer that follows from others.
type Test struct {
	Request
	Result
	Inferred bool
}

// Role says what an atom does in a guilty set.
type Role string

// The roles.
const (
	Culprit Role = "culprit" // without it the set passes
	Carrier Role = "carrier" // without it the set cannot be built, or another atom may not be on
)

// Member is one atom of a guilty set.
type Member struct {
	Atom int
	Role Role // empty where nothing was verified
}

// Other is what another value of a guilty flag showed, the rest of the guilty set unchanged.
type Other struct {
	Atom   int
	Answer Answer
}

// Guilty is a minimal set that shows the complaint.
type Guilty struct {
	Atoms    Set
	Members  []Member
	Verified bool // by repeated tests it fails, and does not without any one of its atoms
	Class    bisect.Class
	Phase    string
	Others   []Other
	Slow     float64 // of a set that is slow without showing the complaint: its time as a multiple of that of nothing on
	Seconds  float64 // of such a set: how long it took
}

// Roles are the members with their roles. Where the set cannot be judged without any one of them, so that none can be
// told apart from the others, all are to blame.
func (g Guilty) Roles() []Member {
	if !g.Verified || slices.ContainsFunc(g.Members, func(m Member) bool { return m.Role == Culprit }) {
		return g.Members
	}
	all := slices.Clone(g.Members)
	for k := range all {
		all[k].Role = Culprit
	}
	return all
}

// Safe is a set that does not show the complaint.
type Safe struct {
	Atoms     Set
	Maximal   bool           // no atom can be added
	Maximum   bool           // no safe set is worth more
	Weight    float64        // sum of the weights of its atoms
	Confirmed bool           // by repeated tests
	Effect    *bisect.Effect // against nothing on, where it was timed
}

// Verdict is what became of a claim.
type Verdict string

// The verdicts.
const (
	Confirmed    Verdict = "confirmed"
	Combination  Verdict = "only-in-combination"
	NotTheOnly   Verdict = "not-the-only-cause"
	Refuted      Verdict = "refuted"
	NotSupported Verdict = "not-supported"
	Undecided    Verdict = "undecided"
)

// Judged is a claim with its verdict.
type Judged struct {
	Name    string
	Atoms   Set
	Verdict Verdict
	With    []Set  // only in combination: what each guilty set needs besides the claim
	Only    Set    // confirmed, and already this part of the claim suffices; empty: the whole
	Others  []Set  // guilty sets that do without the claim
	Alone   Answer // the claim, and nothing else
	Without Answer // all but the claim
	Why     string // in words
}

// Counts are totals of a search, its ends included.
type Counts struct {
	Tests    int     // made
	Inferred int     // answers that followed from others
	Seconds  float64 // of all tests
}

// Finding is what a search concluded.
type Finding struct {
	Result      bisect.Result
	Minimal     []Guilty
	Slow        []Guilty // slow, but not the complaint
	Safe        []Safe   // the most valuable first
	Recommended *Safe    // the fastest safe set that was timed
	Claims      []Judged
	Complete    bool  // Minimal and Safe are proven to be all
	NotExcluded []Set // what was not tested and may still show the complaint, the largest sets first
	Monotone    bool  // nothing was seen that speaks against it
	Tests       []Test
	Counts      Counts
	Spent       bool // the budget was used up
	Warnings    []string
	Err         error
	Space       *Space // in which atoms are numbered: composite ones may have been taken apart
}

func (f *Finding) warn(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

func minimalOf(list []Guilty) (out []Set) {
	for _, g := range list {
		out = append(out, g.Atoms)
	}
	return out
}
