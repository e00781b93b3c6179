package bisect_test

import (
	"context"
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/search"
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

	s := search.Search{
		Commits: commits,
		Good:    bisect.Candidate{Commit: "v1.0"},
		Sampler: sampler,
	}
	finding, err := find.Culprits(context.Background(), &s)
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
