package fileaccess

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Differs returns a function that tells, for each commit of a range and each of its parents, what differs of what builds and
// launches have opened; a commit is nil where that cannot be told. Several goroutines may call it.
//
// In a large range, unless each commit counts, a line of commits without forks and merges is not compared commit by commit where
// its ends differ in nothing that was opened: whatever changed between them changed back, and no other commit has it. halving is
// how many pairs of commits may be compared then for each time that this is expected to halve the range; it returns nil where
// that is not enough. If each counts, it always is for two thousand.
func Differs(ctx context.Context, repo *source.Repo, commits []bisect.Commit, each bool) func(opened []string, halving int) [][]bisect.Difference {
	return newComparer(ctx, commits, each, func(from, to string) ([]source.TreeChange, error) {
		both, err := source.CompareTrees(ctx, repo, from, to)
		if err != nil {
			return nil, err
		}
		return both.Changes, nil
	}).differs
}

const (
	alwaysCompared = 256 // commits, whatever that costs; more are a large range
	eachCompared   = 2e3 // if each commit counts: a second
	samples        = 16  // of them, which tell how many of a range differ from their parents
	perPair        = 100 // changes between two commits that take as long to list as it takes to compare two commits
	mostKept       = 500 // changes between the ends of a line, which are listed again beyond
)

// comparer compares the commits of a range.
type comparer struct {
	ctx     context.Context
	commits []bisect.Commit
	links   []bool // by commit: one parent, and one child, of the range
	each    bool   // no commit is skipped
	large   bool   // comparing has to pay
	changes func(from, to string) ([]source.TreeChange, error)

	mu    sync.Mutex
	known map[[2]string]pair

	// Of one call:
	opened Opened
	dense  bool // so many commits differ that none is skipped
	left   int  // pairs that may still be compared, whether or not they are known: a resumed search knows others
	out    [][]bisect.Difference
}

// pair is what two commits differ by.
type pair struct {
	changes []source.TreeChange
	dropped bool // they were too many to keep
	cost    int  // in pairs of commits
	err     error
}

func newComparer(ctx context.Context, commits []bisect.Commit, each bool, list func(from, to string) ([]source.TreeChange, error)) *comparer {
	few := len(commits) <= alwaysCompared
	c := &comparer{ctx: ctx, commits: commits, each: each || few, large: !few && !(each && len(commits) <= eachCompared), changes: list, known: map[[2]string]pair{}}
	children := make([]int, len(commits))
	for _, x := range commits {
		for _, k := range x.InRange {
			children[k]++
		}
	}
	for i, x := range commits {
		c.links = append(c.links, len(x.Parents) == 1 && children[i] == 1)
	}
	return c
}

// differs is what Differs returns.
func (c *comparer) differs(opened []string, halving int) [][]bisect.Difference {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened, c.left, c.out = NewOpened(opened), math.MaxInt, make([][]bisect.Difference, len(c.commits))
	differ, n := 0.5, min(samples, len(c.commits))
	for k := range n {
		if slices.Max(append(c.ofParents(k*len(c.commits)/n), bisect.Same)) > bisect.Same {
			differ++
		}
	}
	share := differ / float64(n+1)
	c.dense = c.each || share > 0.25
	if worth := float64(halving) * -math.Log2(share); c.large && worth < float64(len(c.commits)) {
		c.left = int(worth)
	}
	if c.dense && c.left < len(c.commits) {
		return nil
	}
	for first := 0; first < len(c.commits) && c.left >= 0; {
		last := first
		for !c.dense && last+1 < len(c.commits) && c.links[last] && slices.Equal(c.commits[last+1].InRange, []int{last}) && len(c.commits[last+1].Parents) == 1 {
			last++
		}
		c.split(first, last+1)
		first = last + 1
	}
	if c.left < 0 || c.ctx.Err() != nil {
		return nil
	}
	return c.out
}

// split compares the commits from first to before end, each of which but the first has the one before as its only parent, which
// has no other child.
func (c *comparer) split(first, end int) {
	switch p := c.commits[first].Parents; {
	case c.left < 0 || c.ctx.Err() != nil:
	case end-first == 1:
		c.out[first] = c.ofParents(first)
	case len(p) == 1 && c.difference(p[0], c.commits[end-1].ID, mostKept) == bisect.Same:
		for i := first; i < end; i++ {
			c.out[i] = []bisect.Difference{bisect.Same}
		}
	default:
		middle := (first + end) / 2
		c.split(first, middle)
		c.split(middle, end)
	}
}

// ofParents is what a commit differs by from each of its parents; nil where that cannot be told, as beyond the border of a
// shallow clone.
func (c *comparer) ofParents(i int) (out []bisect.Difference) {
	for _, p := range c.commits[i].Parents {
		d := c.difference(p, c.commits[i].ID, math.MaxInt)
		if c.known[[2]string{p, c.commits[i].ID}].err != nil {
			return nil
		}
		out = append(out, d)
	}
	return out
}

// difference is the most that two commits differ by. No more changes than most are kept for when more has been opened.
func (c *comparer) difference(from, to string, most int) (d bisect.Difference) {
	id := [2]string{from, to}
	p, known := c.known[id]
	if !known || p.dropped {
		list, err := c.changes(from, to)
		p = pair{err: err, cost: 1 + len(list)/perPair}
		for _, x := range list {
			p.changes = append(p.changes, compact(x))
		}
		if c.known[id] = p; len(list) > most {
			c.known[id] = pair{dropped: true, cost: p.cost}
		}
	}
	c.left -= p.cost
	if p.err != nil {
		return bisect.Different
	}
	for _, x := range p.changes {
		d = max(d, c.opened.Difference(x))
	}
	return d
}

// compact is what [Opened.Difference] looks at of a change, without the trees that it was found in.
func compact(x source.TreeChange) source.TreeChange {
	mode := func(e *source.Entry) *source.Entry {
		if e == nil {
			return nil
		}
		return &source.Entry{Mode: e.Mode}
	}
	return source.TreeChange{Path: strings.Clone(x.Path), Folder: strings.Clone(x.Folder), Old: mode(x.Old), New: mode(x.New)}
}
