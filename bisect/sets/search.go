package sets

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// Search looks for guilty sets.
type Search struct {
	Space      *Space
	Oracle     Oracle
	Bad        Set // everything on; empty: the whole space, less what excludes itself
	Goal       Goal
	Claims     []Claim
	Repeats    int                                               // tests that each answer of a certificate rests on at least; 0 stands for 2; 1: each set is run once; below 0: no certificate
	Midpoint   bool                                              // halve, for at most k(⌈log2 n⌉+1) tests for k of n atoms, whatever they cost
	FailCost   float64                                           // seconds of a failure, as far as is known before the first; 0: as the bad end
	PassCost   float64                                           // seconds of a pass; 0: as the good end
	Spent      func() bool                                       // reports that the budget is used up; may be nil
	Known      []Test                                            // of earlier searches of the same changes
	Cuts       Cuts                                              // shared by searches that are made again; may be nil
	Expand     func(atom int) []Atom                             // the parts of a composite atom, asked for once it is guilty; may be nil
	Divided    bool                                              // these parts are the atom itself, divided; else what they show is tested anew
	Time       func(context.Context, Set) (bisect.Effect, error) // times a safe set against nothing on; may be nil
	Higher     func() bool                                       // more of what Time measures is better; asked after it, may be nil
	Words      func(Set) string                                  // a set for people; nil: the names of its atoms
	OnTest     func(Test)                                        // progress; may be nil
	OnProgress func(Progress)                                    // is told after every test; may be nil
}

const (
	maxRounds   = 4      // certificates of one guilty set before it is given up
	mostVotes   = 40     // tests of one set before it is left undecided
	mostPast    = 16     // times that the early limit is raised for one guilty set
	mostListed  = 8      // seeds named as not excluded
	mostTimed   = 5      // safe sets timed
	likely      = 0.4    // doubt of a pass that a first look may leave
	dismissed   = 0.02   // doubt of a pass that lets a set go
	hidden      = 0.0001 // doubt of a pass that a certificate rests on
	mistaken    = 0.005  // doubt of a failure
	suspectness = 8      // weight of a claimed atom
)

// run is the state of one search.
type run struct {
	*Search
	ctx     context.Context
	f       Finding
	mem     *memory
	nth     map[string]int
	noted   map[string]bool // inferred answers in the ledger
	cost    map[Answer]mean
	past    float64
	space   *Space
	base    *Space // not turned round
	top     Set    // everything on
	repeats int
	masked  []Set        // pass although they hold a set that fails
	blocked []Set        // seeds without an answer
	opaque  map[int]bool // composite atoms that are more than their parts
	inexact bool         // a cheapest seed could not be proven the cheapest
	odds    float64      // chance that the prefix that is tested next fails

	hunt       *hunt // for a guilty set, that is under way
	seed       Set   // that is tested
	weighs     mean  // tests that one counts for
	divided    bool  // the parts of a composite atom were asked for
	enumerated bool
	inner      Progress // of a search within this one
}

var errSpent = errors.New("the budget is used up")

// Find runs the search. Machine trouble and interruption are part of the Finding, with what is known
// until then; an error means that the search could not begin.
func (s *Search) Find(ctx context.Context) (Finding, error) {
	r, err := s.begin(ctx)
	if err != nil {
		return Finding{}, err
	}
	err = r.all()
	r.conclude(err)
	return r.f, nil
}

func (s *Search) begin(ctx context.Context) (*run, error) {
	own := *s
	r := &run{Search: &own, ctx: ctx, mem: newMemory(s.Repeats == 1 || s.Repeats < 0), nth: map[string]int{}, noted: map[string]bool{}, opaque: map[int]bool{}, cost: map[Answer]mean{}, repeats: s.Repeats}
	r.f.Monotone = true
	if r.repeats == 0 {
		r.repeats = 2
	}
	space, err := suspected(s.Space, s.Claims)
	if err != nil {
		return nil, err
	}
	r.space, r.base = space, space
	if r.top = s.Bad; len(r.top) == 0 {
		r.top = space.Fit(space.Whole())
	}
	if len(r.top) == 0 || !r.top.In(First(space.Len())) || !space.Valid(r.top) {
		return nil, fmt.Errorf("the bad end (%d changes on) is no set that may be run", r.top.Len())
	}
	for _, c := range s.Claims {
		if len(c.Atoms) == 0 || !c.Atoms.In(First(space.Len())) {
			return nil, fmt.Errorf("claim %q names no changes that are searched", c.Name)
		}
	}
	return r, nil
}

// suspected returns the space with the claimed atoms in front.
func suspected(s *Space, claims []Claim) (*Space, error) {
	atoms := s.clone()
	for _, c := range claims {
		for _, i := range c.Atoms.And(First(len(atoms))).Atoms() {
			atoms[i].Suspicion = max(atoms[i].Suspicion, suspectness)
		}
	}
	return NewSpace(atoms)
}

func (r *run) all() error {
	if ok, err := r.ends(); err != nil || !ok {
		return err
	}
	r.recall()
	r.hunt = newHunt(r.top)
	r.tell()
	if err := r.claimsAlone(); err != nil {
		return err
	}
	if err := r.enumerate(); err != nil {
		return err
	}
	if err := r.claimsWithout(); err != nil {
		return err
	}
	if err := r.keep(); err != nil {
		return err
	}
	return r.slowCauses()
}

// recall takes in what earlier searches have shown.
func (r *run) recall() {
	for _, t := range r.Known {
		if t.Inferred || !r.space.Valid(r.turn(t.Set)) {
			continue
		}
		t.Purpose = Recorded
		r.f.Tests = append(r.f.Tests, t)
		r.mem.add(r.turn(t.Set), t.Result, len(r.f.Tests)-1)
	}
}

// conclude fills in the rest of the finding, whatever ended the search.
func (r *run) conclude(err error) {
	r.f.Space = r.base
	r.f.Spent = errors.Is(err, errSpent)
	if err != nil && !r.f.Spent {
		r.f.Err, r.f.Result = err, bisect.Broken
		if r.ctx.Err() != nil || errors.Is(err, context.Canceled) {
			r.f.Result = bisect.Interrupted
		}
	}
	if r.f.Result == "" {
		r.f.Result = bisect.Inconclusive
		if slices.ContainsFunc(r.f.Minimal, func(g Guilty) bool { return g.Certified || r.repeats < 0 }) {
			r.f.Result = bisect.Found
		}
	}
	if r.f.Result != bisect.NoDifference && len(r.f.Tests) > 1 {
		r.listLeft()
		r.judgeClaims()
	}
	if len(r.f.Minimal) == 0 && r.f.Result != bisect.NoDifference {
		r.f.Narrowed = r.mem.smallest(r.top)
	}
	r.count()
}

func (r *run) warn(format string, args ...any) {
	r.f.Warnings = append(r.f.Warnings, fmt.Sprintf(format, args...))
}

// names lists the atoms of a set for people.
func (r *run) names(set Set) string {
	if r.Words != nil && !r.f.Reversed && len(set) > 0 {
		return r.Words(set)
	}
	text := ""
	for i, a := range set.Atoms() {
		if i > 0 {
			text += ", "
		}
		text += r.space.name(a)
	}
	if text == "" {
		return "nothing"
	}
	return text
}
