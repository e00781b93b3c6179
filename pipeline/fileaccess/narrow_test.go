package fileaccess

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source"
)

// history makes a comparer of a history in memory. write says which file a commit writes; each time it is another content.
// From a fork on, commits in turn are made on a branch, which the next commit of the main line merges.
func history(n, fork int, write func(i int) string) (c *comparer, compared *int) {
	c, compared = &comparer{index: map[string]int{}, known: map[[2]string]pair{}}, new(int)
	content := map[string]map[string]int{"good": {}}
	main, branch := "good", ""
	for i := range n {
		x := bisect.Commit{ID: fmt.Sprint(i), Parents: []string{main}}
		files := map[string]int{write(i): i + 1}
		if branch != "" {
			x.Parents = append(x.Parents, branch)
		}
		for _, p := range x.Parents {
			for name, at := range content[p] {
				files[name] = max(files[name], at)
			}
		}
		onBranch := fork > 0 && i > 0 && i%fork == 0 && i < n-1
		if branch = ""; onBranch {
			branch = x.ID
		} else {
			main = x.ID
		}
		content[x.ID], c.index[x.ID] = files, i
		c.commits = append(c.commits, x)
	}
	c.changes = func(from, to string) (out []Change, err error) {
		*compared++
		for name := range content[to] {
			if content[from][name] != content[to][name] {
				e := &source.Entry{Mode: source.ModeFile}
				out = append(out, Change{TreeChange: source.TreeChange{Path: name, Old: e, New: e}})
			}
		}
		return out, nil
	}
	return c, compared
}

// TestDiffersAlongLines: what is said of a line of commits without looking at each is what each shows.
func TestDiffersAlongLines(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n, rare := 1+rng.IntN(400), 1+rng.IntN(100)
		names := make([]string, n)
		for i := range names {
			if names[i] = "other"; rng.IntN(rare) == 0 {
				names[i] = fmt.Sprint("read", rng.IntN(3))
			}
		}
		c, _ := history(n, rng.IntN(6), func(i int) string { return names[i] })
		for _, opened := range [][]string{{"read0"}, {"read0", "read1", "read2"}} { // more has been opened the second time
			out, set := c.differs(opened, math.MaxInt), NewOpened(opened)
			skipped := map[string]bool{} // of a merge that is like its first parent
			for i := n - 1; i >= 0; i-- {
				for k, p := range c.commits[i].Parents {
					same := true
					changes, _ := c.changes(p, c.commits[i].ID)
					for _, change := range changes {
						same = same && set.Difference(change) == bisect.Same
					}
					switch {
					case k > 0:
						skipped[p] = skipped[p] || out[i] == nil || out[i][0] == bisect.Same
					case out[i] == nil && !skipped[c.commits[i].ID]:
						t.Fatalf("seed %d: nothing is said of commit %d", seed, i)
					case out[i] != nil && same != (out[i][0] == bisect.Same):
						t.Fatalf("seed %d: commit %d is the same as its parent: %v, it is said to differ by %v", seed, i, same, out[i])
					}
				}
			}
		}
	}
}

// TestDiffersWhereItPays: few pairs of commits are compared where few commits count, and next to none where it would not pay.
func TestDiffersWhereItPays(t *testing.T) {
	c, compared := history(100_000, 0, func(i int) string {
		if i == 70_000 {
			return "read"
		}
		return "other"
	})
	if out := c.differs([]string{"read"}, 60); out == nil || out[70_000][0] != bisect.Different || out[70_001][0] != bisect.Same || *compared > 60 {
		t.Errorf("%d pairs were compared: %v", *compared, out != nil)
	}
	before := *compared
	if c.differs([]string{"read", "new"}, 60); *compared != before {
		t.Errorf("%d pairs were compared again", *compared-before)
	}
	for _, every := range []int{1, 20} {
		c, compared := history(3000, 0, func(i int) string {
			if i%every == 0 {
				return "read"
			}
			return "other"
		})
		if out := c.differs([]string{"read"}, 30); out != nil || *compared > 200 {
			t.Errorf("one in %d: %d pairs were compared: %v", every, *compared, out != nil)
		}
		if out := c.differs([]string{"read"}, math.MaxInt); out == nil || out[1][0] == bisect.Same != (every > 1) {
			t.Errorf("one in %d: nothing is said", every)
		}
	}
}
