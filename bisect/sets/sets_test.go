package sets_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/sets"
)

// What Minimal names fails and passes without any one of its items, what Kept leaves out is as little as
// can be, and the order of the items stays.
func TestMinimalAndKept(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 21))
		items := rng.Perm(1 + rng.IntN(12))
		var guilty [][]int
		for range 1 + rng.IntN(3) {
			guilty = append(guilty, rng.Perm(len(items))[:1+rng.IntN(min(3, len(items)))])
		}
		holds := func(some, set []int) bool {
			return !slices.ContainsFunc(set, func(x int) bool { return !slices.Contains(some, x) })
		}
		fails := func(_ context.Context, some []int) (bool, error) {
			return slices.ContainsFunc(guilty, func(g []int) bool { return holds(some, g) }), nil
		}
		minimal, err := sets.Minimal(t.Context(), items, fails)
		if bad, _ := fails(t.Context(), minimal); err != nil || !bad {
			t.Fatalf("seed %d: %v %v", seed, minimal, err)
		}
		for i := range minimal {
			if bad, _ := fails(t.Context(), slices.Delete(slices.Clone(minimal), i, i+1)); bad {
				t.Fatalf("seed %d: %v fails without %d", seed, minimal, minimal[i])
			}
		}
		kept, err := sets.Kept(t.Context(), items, fails)
		if bad, _ := fails(t.Context(), kept); err != nil || bad {
			t.Fatalf("seed %d: kept %v %v", seed, kept, err)
		}
		most := 0
		for bits := range 1 << len(items) {
			var some []int
			for i, x := range items {
				if bits>>i&1 == 1 {
					some = append(some, x)
				}
			}
			if bad, _ := fails(t.Context(), some); !bad {
				most = max(most, len(some))
			}
		}
		place := func(x int) int { return slices.Index(items, x) }
		inOrder := slices.IsSortedFunc(kept, func(a, b int) int { return place(a) - place(b) })
		if len(kept) != most || !inOrder {
			t.Fatalf("seed %d: kept %v of %v, %d could be", seed, kept, items, most)
		}
	}
}

// Where the two ends do not differ in the expected way there is nothing to name.
func TestMinimalAndKeptWithoutAnAnswer(t *testing.T) {
	items := []string{"a", "b", "c"}
	between := func(n int) (bool, error) {
		if n == 1 || n == 2 {
			return false, errors.New("the machine is gone")
		}
		return n == 3, nil
	}
	for _, c := range []struct {
		name  string
		items []string
		fails func(n int) (bool, error)
		kept  []string
		err   string
	}{
		{"nothing fails", items, func(int) (bool, error) { return false, nil }, items, ""},
		{"everything fails", items, func(int) (bool, error) { return true, nil }, nil, ""},
		{"turned round", items, func(n int) (bool, error) { return n == 0, nil }, nil, "it fails with no items and passes with all of them"},
		{"an error", items, between, nil, "the machine is gone"},
		{"no items", nil, func(int) (bool, error) { return true, nil }, nil, "expected between 1 and 4096 changes, got 0"},
	} {
		fails := func(_ context.Context, some []string) (bool, error) { return c.fails(len(some)) }
		same := func(err error) bool {
			if c.err == "" {
				return err == nil
			}
			return err != nil && strings.Contains(err.Error(), c.err)
		}
		if got, err := sets.Minimal(t.Context(), c.items, fails); got != nil || !same(err) {
			t.Errorf("%s: minimal %v, %v", c.name, got, err)
		}
		if got, err := sets.Kept(t.Context(), c.items, fails); !slices.Equal(got, c.kept) || !same(err) {
			t.Errorf("%s: kept %v, %v", c.name, got, err)
		}
	}
}
