package sets

import (
	"context"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// slowCauses finds sets that are slow without showing the complaint, where that is a time-out: tests that
// pass in many times the usual time show them, also well within the early limit. They are found by a
// search of their own, within the slowest set, which the tests of this one answer.
type slowCauses struct {
	tester *tester
	scope  *scope
	found  *Finding
}

func (c slowCauses) run(progress func(Progress)) error {
	const most = 3 // sets searched for
	defer progress(Progress{})
	for range most {
		x, ok := c.slowest()
		if !ok {
			return nil
		}
		o := slowOracle{c.tester, max(2, math.Sqrt(x.Slow))}
		f, err := (&Search{Space: c.scope.space, Oracle: o, Bad: x.Set, Repeats: c.tester.repeats, Known: o.known(x.Set), OnProgress: progress}).Find(c.tester.ctx)
		progress(Progress{})
		if err == nil {
			err = f.Err
		}
		if err != nil || len(f.Minimal) == 0 {
			return err
		}
		g := f.Minimal[0]
		g.Slow, g.Seconds, g.Class, g.Phase = x.Slow, x.Seconds, bisect.Slow, ""
		c.found.Slow = append(c.found.Slow, g)
	}
	return nil
}

// slowest is the smallest set that passed slowly in each of its tests, two at least, and holds none that is
// known for it. Of its tests it returns the fastest.
func (c slowCauses) slowest() (best Test, ok bool) {
	const (
		slow = 3   // times what nothing on takes
		late = 0.3 // seconds above that, at least: processes that take no time differ by much
	)
	fastest, tests := map[string]Test{}, map[string]int{}
	for _, x := range c.tester.ledger {
		if x.Inferred || x.Answer != Pass || x.Slow <= 0 {
			continue
		}
		key := x.Set.Key()
		if f, seen := fastest[key]; !seen || x.Slow < f.Slow {
			fastest[key] = x
		}
		tests[key]++
	}
	for _, row := range c.tester.ledger { // in their order, for the same choice in every run
		x := fastest[row.Set.Key()]
		if tests[row.Set.Key()] < 2 || x.Slow < slow || x.Seconds*(1-1/x.Slow) < late {
			continue
		}
		known := slices.ContainsFunc(minimalOf(c.found.Slow), func(s Set) bool { return s.In(x.Set) })
		if !known && len(x.Set) > 0 && (!ok || x.Set.Len() < best.Set.Len()) {
			best, ok = x, true
		}
	}
	return best, ok
}

// slowOracle answers whether sets are slow, by tests of another search.
type slowOracle struct {
	tester *tester
	limit  float64 // times what nothing on takes
}

// Test implements [Oracle]. The ends are known.
func (o slowOracle) Test(_ context.Context, q Request) (Result, error) {
	switch q.Purpose {
	case Baseline:
		return Result{Answer: Pass}, nil
	case AllChanges:
		return Result{Answer: Fail}, nil
	}
	res, err := o.tester.launch(q.Set, slowness, true)
	return o.read(res), err
}

func (o slowOracle) read(res Result) Result {
	if res.Answer == Pass && res.Slow >= o.limit {
		res.Answer = Fail
	}
	res.Early, res.Between = false, false
	return res
}

// known are the tests made so far of what lies within a set.
func (o slowOracle) known(within Set) (out []Test) {
	for _, x := range o.tester.ledger {
		if !x.Inferred && x.Answer == Pass && x.Slow > 0 && x.Set.In(within) {
			x.Result = o.read(x.Result)
			out = append(out, x)
		}
	}
	return out
}
