package sets

import (
	"context"
	"math"

	"github.com/kbisect/kbisect/bisect"
)

const (
	mostSlow = 3   // slow sets searched for
	slowTime = 3   // times what nothing on takes: slow
	slowLate = 0.3 // seconds above that, at least: processes that take no time differ by much
)

// slowCauses finds sets that are slow without showing the complaint, where that is a time-out: launches
// that pass in many times the usual time show them, also well within the early limit.
func (r *run) slowCauses() error {
	if r.f.Reversed || r.space.Len() != r.Space.Len() || len(r.f.Minimal) == 0 || r.f.Minimal[0].Class != bisect.Timeout {
		return nil
	}
	for range mostSlow {
		t, ok := r.slowest()
		if !ok {
			return nil
		}
		o := &slowOracle{r, max(2, math.Sqrt(t.Slow))}
		s := Search{Space: r.space, Oracle: o, Bad: t.Set, Repeats: r.Repeats, Known: o.known(t.Set)}
		if r.OnProgress != nil {
			s.OnProgress = func(p Progress) { r.inner = p }
		}
		f, err := s.Find(r.ctx)
		r.inner = Progress{}
		if err == nil {
			err = f.Err
		}
		if err != nil || len(f.Minimal) == 0 {
			return err
		}
		g := f.Minimal[0]
		g.Slow, g.Seconds, g.Class, g.Phase, g.Tests = t.Slow, t.Seconds, bisect.Slow, "", nil
		r.f.Slow = append(r.f.Slow, g)
	}
	return nil
}

// slowest is the smallest set that passed slowly in each of its tests, two at least, and holds none that is
// known for it. Of its tests it returns the fastest.
func (r *run) slowest() (best Test, ok bool) {
	fastest, tests := map[string]Test{}, map[string]int{}
	for _, t := range r.f.Tests {
		if t.Inferred || t.Answer != Pass || t.Slow <= 0 {
			continue
		}
		key := t.Set.Key()
		if f, seen := fastest[key]; !seen || t.Slow < f.Slow {
			fastest[key] = t
		}
		tests[key]++
	}
	for _, row := range r.f.Tests { // in their order, for the same choice in every run
		t := fastest[row.Set.Key()]
		if tests[row.Set.Key()] < 2 || t.Slow < slowTime || t.Seconds*(1-1/t.Slow) < slowLate {
			continue
		}
		_, known := member(minimalOf(r.f.Slow), func(s Set) bool { return s.In(t.Set) })
		if !known && len(t.Set) > 0 && (!ok || t.Set.Len() < best.Set.Len()) {
			best, ok = t, true
		}
	}
	return best, ok
}

func minimalOf(list []Guilty) (out []Set) {
	for _, g := range list {
		out = append(out, g.Atoms)
	}
	return out
}

// slowOracle answers whether sets are slow, by tests of another search.
type slowOracle struct {
	*run
	limit float64 // times what nothing on takes
}

// Test implements [Oracle]. The ends are known.
func (o *slowOracle) Test(_ context.Context, q Request) (Result, error) {
	switch q.Purpose {
	case EndGood:
		return Result{Answer: Pass}, nil
	case EndBad:
		return Result{Answer: Fail}, nil
	}
	res, _, err := o.launch(q.Set, Slowness, true)
	return o.read(res), err
}

func (o *slowOracle) read(res Result) Result {
	if res.Answer == Pass && res.Slow >= o.limit {
		res.Answer = Fail
	}
	res.Early, res.Between = false, false
	return res
}

// known are the tests made so far of what lies within a set.
func (o *slowOracle) known(within Set) (out []Test) {
	for _, t := range o.f.Tests {
		if !t.Inferred && t.Answer == Pass && t.Slow > 0 && t.Set.In(within) {
			t.Result = o.read(t.Result)
			out = append(out, t)
		}
	}
	return out
}
