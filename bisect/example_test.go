package bisect_test

import (
	"context"
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
)

// A history is a list of names here, and a trial is a function call. The search asks for the commits that tell
// most, launches the culprit and its parent anew, and answers with its certainty.
func Example() {
	commits := bisect.Linear("v1.0", "fix docs", "tile 128", "rename flag", "async copy", "bump version", "v1.1")

	launches := 0
	sampler := bisect.SamplerFunc(func(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
		launches++
		switch r.Candidate.Commit {
		case "async copy", "bump version", "v1.1":
			return bisect.Outcome{Class: bisect.Crash, Phase: "measure", Why: "SIGSEGV", Wall: 2}, nil
		}
		return bisect.Outcome{Class: bisect.OK, Wall: 10}, nil
	})

	search := bisect.Search{
		Commits: commits,
		Good:    bisect.Candidate{Commit: "v1.0"},
		Judge:   &judge.Plain{Sampler: sampler},
	}
	finding, err := search.Find(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	culprit := finding.Culprits[0]
	fmt.Printf("%s: %q introduced a %s, confidence %.1f %%\n", finding.Result, culprit.Commit, finding.Complaint, 100*culprit.Confidence)
	fmt.Printf("%d commits, %d launches\n", finding.Range, launches)
	// Output:
	// found: "async copy" introduced a crash, confidence 100.0 %
	// 6 commits, 11 launches
}

// A judge may do without launches: this one knows the answers, and the history has a branch that is merged.
func ExampleHistory() {
	h, err := bisect.NewHistory([]bisect.Commit{
		{ID: "a", Parents: []string{"good"}},
		{ID: "b", Parents: []string{"a"}, InRange: []int{0}},
		{ID: "side", Parents: []string{"a"}, InRange: []int{0}},
		{ID: "merge", Parents: []string{"b", "side"}, InRange: []int{1, 2}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	names := []string{"a", "b", "side", "merge"}
	bad := map[string]bool{"side": true, "merge": true}
	for {
		i, ok := h.Next()
		if !ok {
			break
		}
		fmt.Printf("%s is bad: %v\n", names[i], bad[names[i]])
		if bad[names[i]] {
			h.Bad(i)
		} else {
			h.Good(i)
		}
	}
	for _, s := range h.Suspects() {
		fmt.Println("first bad:", names[s.Index])
	}
	// Output:
	// b is bad: false
	// side is bad: true
	// first bad: side
}
