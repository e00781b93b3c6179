package sets

import (
	"context"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets/internal/odds"
)

const (
	mostVotes = 40     // tests of one set before it is left undecided
	likely    = 0.4    // doubt of a pass that a first look may leave
	dismissed = 0.02   // doubt of a pass that clears a set
	hidden    = 0.0001 // doubt of a pass that a verified set rests on
	mistaken  = 0.005  // doubt of a failure
)

// undecided is the answer of tests that go on contradicting each other.
const undecided Answer = ""

// tester makes the tests of one search: it writes the ledger, remembers what tests showed and what they cost, and
// repeats them as often as an answer takes.
type tester struct {
	ctx     context.Context // of Find, which makes one test after the other
	oracle  Oracle
	scope   *scope
	memory  *memory
	ledger  []Test
	repeats int         // tests that a verified answer rests on at least; below 0: nothing is verified
	spent   func() bool // may be nil
	onTest  func(Test)  // may be nil
	after   func()      // is called after each test between the ends; may be nil

	noted    map[string]bool
	cost     map[Answer]odds.Mean
	weight   odds.Mean   // tests that one counts for
	expected odds.Prices // before there is a mean
	past     float64     // seconds that a set took without showing the complaint
	chance   float64     // that the prefix tested next fails
}

// prices are the mean costs of a failure and of another answer so far.
func (t *tester) prices(other Answer) odds.Prices {
	return odds.Prices{Fail: t.cost[Fail].Or(t.expected.Fail), Pass: t.cost[other].Or(t.expected.Pass)}
}

// launch makes one test. Full says that it may take the whole limit.
func (t *tester) launch(set Set, why Purpose, full bool) (Result, error) {
	req := Request{Set: set, Purpose: why, Full: full, Past: t.past, Chance: t.failing(set, why)}
	e := t.memory.at(set)
	req.Nth = e.nth[why]
	req.Clean = why == Verifying && req.Nth == 0 // later ones find it built
	e.nth[why]++
	if t.spent != nil && why != Baseline && why != AllChanges && t.spent() {
		return Result{}, bisect.ErrSpent
	}
	if err := t.ctx.Err(); err != nil {
		return Result{}, err
	}
	res, err := t.oracle.Test(t.ctx, req)
	if err != nil {
		return Result{}, err
	}
	t.record(Test{Request: req, Result: res})
	t.memory.add(set, res)
	if !full {
		t.cost[res.Answer] = t.cost[res.Answer].Plus(res.Seconds)
		t.weight = t.weight.Plus(float64(votes(res)))
	}
	if t.after != nil {
		t.after()
	}
	return res, nil
}

// failing is how likely a test is expected to fail: mostly a set does what it did before, or what others suggest.
func (t *tester) failing(set Set, why Purpose) float64 {
	const (
		surprise = 0.05 // chance that the expected does not come
		needless = 0.1  // chance that a set still fails without an atom that was found to be needed
	)
	switch a, _, ok := t.memory.infer(set); {
	case ok && a == Fail:
		return 1 - surprise
	case ok:
		return surprise
	case why == Prefix:
		return t.chance
	case why == Verifying || why == keeping:
		return needless
	}
	return 0.5
}

// record writes a row of the ledger.
func (t *tester) record(x Test) {
	t.ledger = append(t.ledger, x)
	if t.onTest != nil {
		t.onTest(x)
	}
}

// recordInferred writes an answer that follows from another set into the ledger, once.
func (t *tester) recordInferred(set, from Set, a Answer, why Purpose) {
	key := set.Key() + string(a)
	if from.Equal(set) || t.noted[key] {
		return
	}
	t.noted[key] = true
	t.record(Test{Request: Request{Set: set, Purpose: why}, Result: Result{Answer: a}, Inferred: true})
}

// ask returns the answer to a set: what is known or follows from it, or else what tests show.
func (t *tester) ask(set Set, why Purpose) (Answer, error) {
	for tries := 0; ; tries++ {
		if a, from, ok := t.memory.infer(set); ok {
			t.recordInferred(set, from, a, why)
			return a, nil
		}
		if tries > mostVotes { // neither answer gets ahead
			return Unjudged, nil
		}
		if err := t.calibrate(set); err != nil {
			return "", err
		}
		if _, err := t.launch(set, why, false); err != nil {
			return "", err
		}
	}
}

// testItself returns the answer of tests of this very set: that another set builds says nothing about it.
func (t *tester) testItself(set Set, why Purpose) (Answer, error) {
	if a, ok := t.memory.at(set).answer(); ok {
		return a, nil
	}
	res, err := t.launch(set, why, false)
	return res.Answer, err
}

// vote tests a set until its own tests decide: as often as answers are repeated, and as much more often as the doubt
// allowed takes. What cannot be judged is tested once. It gives up, undecided, after mostVotes.
func (t *tester) vote(set Set, why Purpose, doubt float64) (Answer, error) {
	for range mostVotes {
		if err := t.calibrate(set); err != nil {
			return "", err
		}
		if a, ok := t.memory.voted(set, t.repeats, doubt); ok {
			return a, nil
		}
		if _, err := t.launch(set, why, false); err != nil {
			return "", err
		}
	}
	return undecided, nil
}

// retest makes one more test of a set, and where it passes as many as it takes to be sure of that.
func (t *tester) retest(set Set, why Purpose, doubt float64) (Answer, error) {
	res, err := t.launch(set, why, false)
	if err != nil || res.Answer != Pass {
		return res.Answer, err
	}
	return t.vote(set, why, doubt)
}

// calibrate tests all changes some more where the tests of a set come to no answer: how often a set known to be guilty
// fails says how often another one must be tested.
func (t *tester) calibrate(set Set) error {
	const many, fails, tests = 16, 3, 8
	for {
		own, top := t.memory.at(set).seen, t.memory.at(t.scope.top).seen
		if !t.memory.noisy || own.Fail+own.Pass < many || top.Fail >= fails || top.Fail+top.Pass >= tests {
			return nil
		}
		if _, err := t.launch(t.scope.top, rating, false); err != nil {
			return err
		}
	}
}

// waitFor makes later tests run for longer than a set took that is slow without showing the complaint, and drops
// failures that were stopped earlier than that.
func (t *tester) waitFor(set Set, seconds float64) {
	t.past = max(t.past, seconds)
	t.memory.forgetEarly()
	t.memory.settle(set, Pass)
	delete(t.cost, Fail)
	t.expected.Fail = max(t.expected.Fail, t.past)
}

// counts adds up the ledger.
func (t *tester) counts() (c Counts) {
	for _, x := range t.ledger {
		if x.Inferred {
			c.Inferred++
			continue
		}
		c.Tests++
		c.Seconds += x.Seconds
	}
	return c
}
