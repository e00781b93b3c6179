package sets_test

import (
	"context"
	"fmt"

	"github.com/kbisect/kbisect/bisect/sets"
)

// test is an oracle of one function, which says whether a set fails.
type test func(on sets.Set) bool

func (fails test) Test(_ context.Context, r sets.Request) (sets.Result, error) {
	if fails(r.Set) {
		return sets.Result{Answer: sets.Fail}, nil
	}
	return sets.Result{Answer: sets.Pass}, nil
}

// Atoms may require each other, and weigh more or less. With the goal All the search names every minimal
// guilty set and every maximal safe one, and says whether that is proven.
func ExampleSearch() {
	space, err := sets.NewSpace([]sets.Atom{
		{Name: "compile"},
		{Name: "fullgraph", Requires: []int{0}},
		{Name: "cudagraph", Weight: 3},
		{Name: "fp8"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	search := sets.Search{
		Space: space,
		Goal:  sets.All,
		Oracle: test(func(on sets.Set) bool {
			return on.Has(2) && on.Has(0) || on.Has(3) // a graph of compiled code hangs, and so does FP8
		}),
	}
	names := func(set sets.Set) (names []string) {
		for _, i := range set.Atoms() {
			names = append(names, space.Atom(i).Name)
		}
		return names
	}
	found, err := search.Find(context.Background())
	for _, g := range found.Minimal {
		fmt.Println("guilty:", names(g.Atoms), "verified:", g.Verified)
	}
	for _, s := range found.Safe {
		fmt.Println("safe:", names(s.Atoms), "the most that can be kept:", s.Maximum)
	}
	fmt.Println("complete:", found.Complete, err)
	// Output:
	// guilty: [compile cudagraph] verified: true
	// guilty: [fp8] verified: true
	// safe: [cudagraph] the most that can be kept: true
	// safe: [compile fullgraph] the most that can be kept: false
	// complete: true <nil>
}

// A hypothesis is a claim: these atoms bring the complaint. Each gets a verdict.
func ExampleSearch_claims() {
	space, err := sets.NewSpace(make([]sets.Atom, 6))
	if err != nil {
		fmt.Println(err)
		return
	}
	search := sets.Search{
		Space: space,
		Goal:  sets.All,
		Oracle: test(func(on sets.Set) bool {
			return on.Has(1) || on.Has(3) && on.Has(4)
		}),
		Claims: []sets.Claim{{"one", sets.Of(1)}, {"one or both", sets.Of(1, 3, 4)}, {"three", sets.Of(3)}, {"five", sets.Of(5)}},
	}
	found, err := search.Find(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	means := map[sets.Verdict]string{
		sets.Confirmed:    "brings it, and nothing else does",
		sets.NotTheOnly:   "brings it, and so does something else",
		sets.Combination:  "brings it only with other atoms",
		sets.Refuted:      "has nothing to do with it",
		sets.NotSupported: "has nothing to do with it, as far as is known",
		sets.Undecided:    "cannot be judged",
	}
	for _, c := range found.Claims {
		fmt.Printf("%s: %s\n", c.Name, means[c.Verdict])
	}
	// Output:
	// one: brings it, and so does something else
	// one or both: brings it, and nothing else does
	// three: brings it only with other atoms
	// five: has nothing to do with it
}
