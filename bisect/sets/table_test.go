package sets

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// table is an Oracle that knows the truth.
type table struct {
	seconds func(on Set) float64 // how long it would take without a limit
	builds  func(on Set) bool
	limit   float64
	early   float64 // limit of tests that are not full; 0: none
	hidden  float64 // chances that a failure passes, and a pass fails
	false_  float64
	seed    uint64
	mu      sync.Mutex
	asked   []Request
	err     error
	errAt   int
}

// guilty is a table in which every superset of one of the sets fails.
func guilty(sets ...[]int) *table {
	return &table{limit: 180, seconds: func(on Set) float64 {
		for _, m := range sets {
			if Of(m...).In(on) {
				return 1000
			}
		}
		return 12
	}}
}

func (t *table) Test(_ context.Context, r Request) (Result, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = append(t.asked, r)
	if t.err != nil && len(t.asked) > t.errAt {
		return Result{}, t.err
	}
	if t.builds != nil && !t.builds(r.Set) {
		return Result{Answer: Unjudged, Seconds: 25, Class: bisect.BuildFailed}, nil
	}
	limit := t.limit
	if t.early > 0 && !r.Full {
		limit = min(t.limit, max(t.early, 1.25*r.Past))
	}
	took := t.disturbed(r)
	if took > limit {
		return Result{Answer: Fail, Seconds: limit, Class: bisect.Timeout, Phase: "warmup", Early: limit < t.limit}, nil
	}
	return Result{Answer: Pass, Seconds: took, Class: bisect.OK, Slow: took / 12, Between: t.early > 0 && took > max(t.early, 1.25*r.Past)}, nil
}

func (t *table) disturbed(r Request) float64 {
	took := t.seconds(r.Set)
	rng := rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, t.seed, r.Purpose, r.Set.Key(), r.Nth))))
	x := rng.Float64()
	switch {
	case took > t.limit && x < t.hidden:
		return 12
	case took <= t.limit && x < t.false_ && r.Purpose != Baseline:
		return 1000
	}
	return took
}

// oracleFunc is an Oracle of one function.
type oracleFunc func(Request) Result

func (f oracleFunc) Test(_ context.Context, r Request) (Result, error) { return f(r), nil }

// plainAtoms are n atoms without ties, with the requirements given as pairs.
func plainAtoms(n int, requires ...[2]int) []Atom {
	atoms := make([]Atom, n)
	for _, q := range requires {
		atoms[q[0]].Requires = append(atoms[q[0]].Requires, q[1])
	}
	return atoms
}

func space(t testing.TB, atoms []Atom) *Space {
	t.Helper()
	s, err := NewSpace(atoms)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func find(t testing.TB, s Search) Finding {
	t.Helper()
	f, err := s.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// spent counts the tests that were run between the ends.
type spent struct {
	tests, fails int
	seconds      float64
}

func price(f Finding) (p spent) {
	for _, x := range f.Tests {
		if !x.Inferred && x.Purpose != Baseline && x.Purpose != AllChanges {
			p.tests++
			p.seconds += x.Seconds
			if x.Answer == Fail {
				p.fails++
			}
		}
	}
	return p
}

func (p spent) within(t testing.TB, tests, fails int, seconds float64) {
	t.Helper()
	t.Logf("%d tests, %d failures, %.0f s", p.tests, p.fails, p.seconds)
	if p.tests > tests || p.fails > fails || p.seconds > seconds {
		t.Errorf("%+v: at most %d tests, %d failures, %.0f s", p, tests, fails, seconds)
	}
}

// keys are the sets of a finding in a fixed order.
func keys(list []Set) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, fmt.Sprint(s.Atoms()))
	}
	slices.Sort(out)
	return out
}

func minimalSets(f Finding) (list []Set) {
	for _, g := range f.Minimal {
		list = append(list, g.Atoms)
	}
	return list
}

func safeSets(f Finding) (list []Set) {
	for _, s := range f.Safe {
		list = append(list, s.Atoms)
	}
	return list
}

func same(t testing.TB, what string, got []Set, want ...Set) {
	t.Helper()
	if !slices.Equal(keys(got), keys(want)) {
		t.Errorf("%s: %v, want %v", what, keys(got), keys(want))
	}
}

func all(n int, less ...int) Set { return lattice.First(n).Minus(Of(less...)) }
