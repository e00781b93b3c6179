package sets

import (
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

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
	Role Role // empty where nothing was certified
}

// Other is what another value of a guilty flag showed, the rest of the guilty set unchanged.
type Other struct {
	Atom   int
	Answer Answer
}

// Guilty is a minimal set that shows the complaint.
type Guilty struct {
	Atoms     Set
	Members   []Member
	Certified bool // it fails, and does not without any one of its atoms, by repeated tests
	Class     bisect.Class
	Phase     string
	Others    []Other
	Slow      float64 // of a set that is slow without showing the complaint: its time against the good end's
	Seconds   float64 // of such a set: how long it took
	Tests     []int   // rows of the ledger that show it
}

// Roles are the members with their roles. Where the set is good for nothing without any one of them, so
// that none can be told from the others, all are to blame.
func (g Guilty) Roles() []Member {
	if !g.Certified || slices.ContainsFunc(g.Members, func(m Member) bool { return m.Role == Culprit }) {
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
	Test      int            // row of the ledger
}

// Verdict is what became of a claim.
type Verdict string

// The verdicts.
const (
	Confirmed     Verdict = "confirmed"
	Combination   Verdict = "only-in-combination"
	NotTheOnly    Verdict = "not-the-only-cause"
	Refuted       Verdict = "refuted"
	NotSupported  Verdict = "not-supported"
	UndecidedHere Verdict = "undecided"
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
	Tests   []int  // rows of the ledger
}

// Counts are totals of a search, its ends included.
type Counts struct {
	Tests, Pass, Fail, Unresolved, Inferred int
	Seconds                                 float64 // of all tests
	LeastTests                              int     // every minimal guilty and maximal safe set must be tested
	LeastBits                               int     // ceil(log2 of the number of sets of the size found)
	LeastSeconds                            float64 // one failure, and one pass for each atom, of every guilty set
}

// Finding is what a search concluded.
type Finding struct {
	Result      bisect.Result
	Reversed    bool // nothing on shows the complaint: all sets of atoms below are of those turned off
	Minimal     []Guilty
	Slow        []Guilty // slow, but not the complaint
	Safe        []Safe
	Keep        *Safe // the most valuable safe set
	Recommended *Safe // the fastest safe set that was timed
	Claims      []Judged
	Complete    bool  // Minimal and Safe are proven to be all
	NotExcluded []Set // what was not tested and may still show the complaint, the largest sets first
	Narrowed    Set   // inconclusive: the smallest set that failed
	Monotone    bool  // nothing was seen that speaks against it
	Learned     []Dependency
	Tests       []Test
	Counts      Counts
	Spent       bool // the budget was used up
	Warnings    []string
	Err         error
	Space       *Space // in which atoms are numbered: composite ones may have been taken apart
}

// Dependency is a requirement that was found out.
type Dependency struct{ Atom, Needs int }
