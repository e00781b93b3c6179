package find_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// manyCases is a search over a program that times n cases, of which the middle one is slower from commit 8
// of 12 on. launched is told the number of each launch when it has ended.
func manyCases(n int, launched func(int)) *search.Search {
	rng := rand.New(rand.NewPCG(4, 2))
	launches := 0
	commits := make([]bisect.Commit, 12)
	at := map[string]int{"good": -1}
	for i := range commits {
		commits[i] = bisect.Commit{ID: fmt.Sprintf("c%03d", i), Key: fmt.Sprint(i), Parents: []string{"good"}}
		if i > 0 {
			commits[i].InRange, commits[i].Parents = []int{i - 1}, []string{commits[i-1].ID}
		}
		at[commits[i].ID] = i
	}
	s := sampler(func(r bisect.Request) (bisect.Outcome, error) {
		launches++
		o := bisect.Outcome{Class: bisect.OK, At: float64(launches), Wall: 1}
		for k := range n {
			y := float64(10+k) * (1 + 0.004*rng.NormFloat64())
			if k == n/2 && at[r.Candidate.Commit] >= 8 {
				y *= 1.2
			}
			o.Series = append(o.Series, number("time", fmt.Sprintf("n=%d", k), y))
		}
		launched(launches)
		return o, nil
	})
	return &search.Search{
		Commits: commits, Good: bisect.Candidate{Commit: "good"}, Sampler: s,
		Options: search.Options{Metrics: []metric.Metric{{Name: "time"}}, Effect: 0.03, Error: 0.01},
	}
}

// One case of thousands is found; where each case is looked for among all, this takes minutes.
func TestSlowdownManyCases(t *testing.T) {
	launches := 0
	f, err := find.Culprits(t.Context(), manyCases(3000, func(n int) { launches = n }))
	if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != "c008" || f.Complaint.Metric != "time of n=1500" {
		t.Fatal(err, f.Result, f.Culprits, f.Complaint, f.Err)
	}
	t.Logf("%d launches", launches)
}

// What is computed between launches ends with the context, too.
func TestSlowdownManyCasesInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	launches := 0
	f, err := find.Culprits(ctx, manyCases(100, func(n int) {
		if launches = n; n == 2 {
			cancel()
		}
	}))
	if err != nil || f.Result != bisect.Interrupted || launches != 2 {
		t.Fatal(err, f.Result, launches)
	}
}
