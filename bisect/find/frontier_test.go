package find

import (
	"context"
	"fmt"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/search"
)

// foreseen makes trials of a line of commits, and counts the rounds of builds that a machine would need which makes so
// many at a time, each as long as the others.
type foreseen struct {
	bad    string // fails from here on
	built  map[bisect.Request]bool
	wishes []bisect.Request
	width  int
	rounds int
}

// build is what of a request its build depends on.
func build(r bisect.Request) bisect.Request {
	return bisect.Request{Candidate: r.Candidate, Purpose: r.Purpose, Clean: r.Clean}
}

func (f *foreseen) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	if !f.built[build(r)] {
		f.rounds++
		f.built[build(r)] = true
		n := f.width - 1
		for _, w := range f.wishes {
			if w = build(w); n > 0 && !f.built[w] {
				f.built[w] = true
				n--
			}
		}
	}
	if r.Candidate.Commit >= f.bad {
		return bisect.Outcome{Class: bisect.Wrong, Wall: 1, Built: true, Build: 8}, nil
	}
	return bisect.Outcome{Class: bisect.OK, Wall: 1, Built: true, Build: 8}, nil
}

// The builds that are foreseen are those that are asked for: with 15 at a time each round settles four levels.
func TestForeseenBuildsAreAskedFor(t *testing.T) {
	for _, c := range []struct{ commits, width, most int }{{791, 1, 15}, {200, 2, 10}, {791, 15, 6}, {60, 15, 5}, {2, 15, 4}} {
		worst := 0
		for k := range 12 {
			var commits []bisect.Commit
			for i := range c.commits {
				commit := bisect.Commit{ID: fmt.Sprintf("c%05d", i+1), Parents: []string{fmt.Sprintf("c%05d", i)}}
				if i > 0 {
					commit.InRange = []int{i - 1}
				}
				commits = append(commits, commit)
			}
			at := min(c.commits-1, (2*k+1)*c.commits/24)
			f := &foreseen{bad: commits[at].ID, built: map[bisect.Request]bool{}, width: c.width}
			s := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "c00000"}, Sampler: f, Width: c.width}
			s.Ahead = func(next []bisect.Request) { f.wishes = next }
			s.Untouched = func([]string) []bool { return make([]bool, len(commits)) } // that the ends may still narrow the search delays nothing
			found, err := Culprits(t.Context(), s)
			if err != nil || len(found.Culprits) != 1 || found.Culprits[0].Commit != commits[at].ID {
				t.Fatalf("%d commits, the bad one %d: %+v, %v", c.commits, at, found.Culprits, err)
			}
			worst = max(worst, f.rounds)
		}
		t.Logf("%d commits, %d builds at a time: at most %d rounds", c.commits, c.width, worst)
		if worst > c.most {
			t.Errorf("%d commits, %d builds at a time: %d rounds, want at most %d", c.commits, c.width, worst, c.most)
		}
	}
}
