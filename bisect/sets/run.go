package sets

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets/internal/odds"
	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// run joins the parts of one search. All of them read and write the finding, which holds what the search knows so far,
// the memory of the tester, and the scope.
type run struct {
	tester *tester
	scope  *scope
	found  *Finding
	all    *enumeration
	claims claims
}

func (s *Search) begin(ctx context.Context) (*run, error) {
	space, err := suspected(s.Space, s.Claims)
	if err != nil {
		return nil, err
	}
	scope := &scope{space: space, base: space, top: space.Fit(space.Whole()), words: s.Words}
	if len(scope.top) == 0 {
		return nil, errors.New("no change may be on: each breaks a requirement or an exclusion")
	}
	f := &Finding{Monotone: true}
	for _, c := range s.Claims {
		if len(c.Atoms) == 0 || !c.Atoms.In(lattice.First(space.Len())) {
			return nil, fmt.Errorf("invalid claim %q: it names no changes that are searched", c.Name)
		}
		f.Claims = append(f.Claims, Judged{Name: c.Name, Atoms: c.Atoms})
	}
	t := &tester{
		ctx: ctx, oracle: s.Oracle, scope: scope, spent: s.Spent, onTest: s.OnTest, repeats: s.Repeats,
		memory: newMemory(s.Repeats == 1 || s.Repeats < 0),
		noted:  map[string]bool{}, cost: map[Answer]odds.Mean{},
	}
	if t.repeats == 0 {
		t.repeats = 2
	}
	finder := &finder{tester: t, scope: scope, found: f, cuts: s.Cuts}
	all := &enumeration{tester: t, scope: scope, found: f, finder: finder, goal: s.Goal, expand: s.Expand, divided: s.Divided, opaque: map[int]bool{}}
	return &run{t, scope, f, all, claims{t, scope, f}}, nil
}

// suspected returns the space with claimed atoms more suspected, so that they stand in front (sets.md 4e: weight 8).
func suspected(s *Space, claims []Claim) (*Space, error) {
	const suspicion = 8 // gains more where claims are right than it loses where they are wrong
	atoms := s.Atoms()
	for _, c := range claims {
		for _, i := range c.Atoms.And(lattice.First(len(atoms))).Atoms() {
			atoms[i].Suspicion = max(atoms[i].Suspicion, suspicion)
		}
	}
	return NewSpace(atoms)
}

// search makes the tests: the ends, claims alone, guilty and safe sets, all but the claims, and what can
// be kept.
func (r *run) search(s *Search) error {
	if ok, err := (ends{r.tester, r.scope, r.found}).differ(); err != nil || !ok {
		return err
	}
	r.all.finder.hunt = odds.NewHunt(0, r.scope.top.Len(), odds.SizePrior())
	left := &estimate{tester: r.tester, scope: r.scope, found: r.found, all: r.all, claims: r.claims, timed: s.Time != nil}
	report := func() {
		if s.OnProgress != nil {
			s.OnProgress(left.now())
		}
	}
	report()
	r.tester.after = report
	if err := r.claims.testAlone(); err != nil {
		return err
	}
	if err := r.all.run(); err != nil {
		return err
	}
	if err := r.claims.testWithout(r.all); err != nil {
		return err
	}
	return (&keeper{tester: r.tester, scope: r.scope, found: r.found, time: s.Time}).run(r.all, report)
}

// conclude fills in the rest of the finding, whatever ended the search.
func (r *run) conclude(err error) Finding {
	f := r.found
	f.Tests, f.Counts, f.Space = r.tester.ledger, r.tester.counts(), r.scope.base
	f.Spent = errors.Is(err, bisect.ErrSpent)
	if err != nil && !f.Spent {
		f.Err, f.Result = err, bisect.Broken
		if r.tester.ctx.Err() != nil || errors.Is(err, context.Canceled) {
			f.Result = bisect.Interrupted
		}
	}
	if f.Result == "" {
		f.Result = bisect.Inconclusive
		if slices.ContainsFunc(f.Minimal, func(g Guilty) bool { return g.Verified || r.tester.repeats < 0 }) {
			f.Result = bisect.Found
		}
	}
	if f.Result == bisect.NoDifference || len(f.Tests) < 2 {
		f.Claims = nil
	} else {
		f.NotExcluded = r.all.notExcluded()
		r.claims.judge()
	}
	return *f
}

// ends tests the two ends of a search, nothing on and all changes. They have to differ.
type ends struct {
	tester *tester
	scope  *scope
	found  *Finding
}

// differ reports whether there is something to search; if not, the finding says why.
func (e ends) differ() (bool, error) {
	good, err := e.test(Set{}, Baseline, Pass)
	if err != nil {
		return false, err
	}
	bad, err := e.test(e.scope.top, AllChanges, Fail)
	if err != nil {
		return false, err
	}
	for _, top := range e.otherTops() {
		if good.Answer != Pass || bad.Answer == Fail {
			break
		}
		e.scope.top = top
		if bad, err = e.test(top, AllChanges, Fail); err != nil {
			return false, err
		}
	}
	switch {
	case good.Answer == Unjudged || bad.Answer == Unjudged:
		e.found.Result = bisect.Inconclusive
		e.found.warn("an end cannot be judged: with no changes it is %s, with all of them %s\nhint: leave the value that does not build out (bad = \"...\"), or name with excludes what does not go together", good.Answer, bad.Answer)
		return false, nil
	case good.Answer == bad.Answer:
		e.found.Result = bisect.NoDifference
		word := "shows the complaint"
		if good.Answer == Pass {
			word = "passes"
		}
		e.found.warn("with all changes it %s, and with none as well: there is no difference to search for", word)
		return false, nil
	case good.Answer == Fail:
		e.found.Result = bisect.NoDifference
		e.found.warn("with no changes it shows the complaint, and with all of them it does not\nhint: swap the two ends")
		return false, nil
	}
	e.tester.memory.settleEnd(Set{}, Pass)
	e.tester.memory.settleEnd(e.scope.top, Fail)
	if bad.Class == bisect.Slow { // each test is of many launches
		e.tester.weight = odds.Mean{}.Plus(mostWeight)
	}
	e.tester.expected = odds.Prices{Fail: bad.Seconds, Pass: good.Seconds}
	return true, nil
}

// otherTops lists other largest sets, where some atoms exclude others: for each atom left out of all changes, a set
// that holds it.
func (e ends) otherTops() (out []Set) {
	space := e.scope.space
	covered := e.scope.top
	for _, i := range space.Whole().Minus(e.scope.top).Atoms() {
		if covered.Has(i) {
			continue
		}
		set := space.Close(Of(i))
		for _, k := range space.Sorted(space.Whole()) {
			if more := space.Close(set.Or(Of(k))); space.Valid(more) {
				set = more
			}
		}
		if space.Valid(set) {
			out, covered = append(out, set), covered.Or(set)
		}
	}
	return out
}

// test tests one end. An answer other than expected is tested again until two tests agree. All changes count as
// passing only after five passes, or ten where they failed once, since a complaint may be rare.
func (e ends) test(set Set, why Purpose, expected Answer) (Result, error) {
	count := map[Answer]int{}
	enough := map[Answer]int{Pass: 2, Fail: 2, Unjudged: 2}
	if expected == Fail {
		enough[Pass] = 5
	}
	for {
		res, err := e.tester.launch(set, why, true)
		if err != nil {
			return res, err
		}
		count[res.Answer]++
		if expected == Fail && count[Fail] > 0 {
			enough[Pass] = 10
		}
		if n := count[res.Answer]; n >= enough[res.Answer] || e.tester.repeats < 2 || res.Answer == expected && len(count) == 1 {
			return res, nil
		}
	}
}
