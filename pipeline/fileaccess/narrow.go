package fileaccess

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Differs returns a function that tells, for each commit of a range and each of its parents, what differs of what builds and
// launches have opened; a commit is nil where that cannot be told, or where nothing depends on it. Several goroutines may call it.
//
// Commits are compared along lines of first parents: where the ends of a line differ in nothing that was opened, all commits
// between them count as the same, since whatever changed between them changed back. halving is how many pairs of commits may
// be compared for each time that this is expected to halve the range; it returns nil where that is not enough.
func Differs(ctx context.Context, repo *source.Repo, commits []bisect.Commit) func(opened []string, halving int) [][]bisect.Difference {
	c := &comparer{commits: commits, index: map[string]int{}, known: map[[2]string]pair{}}
	c.changes = func(from, to string) ([]Change, error) { return changesBetween(ctx, repo, from, to) }
	for i, x := range commits {
		c.index[x.ID] = i
	}
	return c.differs
}

// comparer compares the commits of a range.
type comparer struct {
	commits []bisect.Commit
	index   map[string]int
	changes func(from, to string) ([]Change, error)

	mu    sync.Mutex
	known map[[2]string]pair

	// Of one call:
	opened Opened
	left   int  // pairs that may still be compared
	dense  bool // so many commits differ that none are skipped
	out    [][]bisect.Difference
}

// pair is what two commits differ by.
type pair struct {
	changes []Change
	err     error
}

// mostKept is how many changes of two commits are kept, for when more has been opened.
const mostKept = 1000

// samples is how many commits are compared with their parents to see how many of the range differ.
const samples = 16

// differs is what Differs returns.
func (c *comparer) differs(opened []string, halving int) [][]bisect.Difference {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened, c.left, c.out = NewOpened(opened), math.MaxInt, make([][]bisect.Difference, len(c.commits))
	differ := 0.5
	for k := range samples {
		if slices.Max(append(c.ofParents(k*len(c.commits)/samples), bisect.Same)) > bisect.Same {
			differ++
		}
	}
	share := differ / (samples + 1)
	c.dense = share > 0.25
	if halvings := -math.Log2(share); float64(halving)*halvings < float64(len(c.commits)) {
		c.left = int(float64(halving) * halvings)
		if c.dense {
			return nil
		}
	}
	for tips := []int{len(c.commits) - 1}; len(tips) > 0 && c.left >= 0; {
		tip := tips[len(tips)-1]
		tips = append(tips[:len(tips)-1], c.line(tip)...)
	}
	if c.left < 0 {
		return nil
	}
	return c.out
}

// line compares the commits of the line of first parents that ends with a commit, as far as they have not been, and returns the
// other parents of its merges.
func (c *comparer) line(tip int) (others []int) {
	var line []int // the last first
	for i, known := tip, true; known && c.out[i] == nil; {
		line = append(line, i)
		c.out[i] = []bisect.Difference{}
		if len(c.commits[i].Parents) == 0 {
			break
		}
		i, known = c.index[c.commits[i].Parents[0]]
	}
	slices.Reverse(line)
	c.split(line)
	for _, i := range line {
		for n, id := range c.commits[i].Parents {
			if k, known := c.index[id]; n > 0 && known && c.out[k] == nil {
				others = append(others, k)
			}
		}
	}
	return others
}

// split compares the commits of a part of a line.
func (c *comparer) split(line []int) {
	first, last := c.commits[line[0]], c.commits[line[len(line)-1]]
	switch {
	case c.left < 0:
	case len(line) == 1:
		c.out[line[0]] = c.ofParents(line[0])
	case !c.dense && len(first.Parents) > 0 && c.difference(first.Parents[0], last.ID) == bisect.Same:
		for _, i := range line { // what other parents bring does not count
			c.out[i] = slices.Repeat([]bisect.Difference{bisect.Different}, len(c.commits[i].Parents))
			c.out[i][0] = bisect.Same
		}
	default:
		c.split(line[:len(line)/2])
		c.split(line[len(line)/2:])
	}
}

// ofParents is what a commit differs by from each of its parents; nil where that cannot be told, as beyond the border of a
// shallow clone.
func (c *comparer) ofParents(i int) (out []bisect.Difference) {
	for _, p := range c.commits[i].Parents {
		d := c.difference(p, c.commits[i].ID)
		if c.known[[2]string{p, c.commits[i].ID}].err != nil {
			return nil
		}
		out = append(out, d)
	}
	return out
}

// difference is the most that two commits differ by.
func (c *comparer) difference(from, to string) (most bisect.Difference) {
	p, known := c.known[[2]string{from, to}]
	if !known {
		c.left--
		p.changes, p.err = c.changes(from, to)
		if len(p.changes) <= mostKept {
			c.known[[2]string{from, to}] = p
		}
	}
	if p.err != nil {
		return bisect.Different
	}
	for _, change := range p.changes {
		most = max(most, c.opened.Difference(change))
	}
	return most
}

// ChangesOf lists, for each parent of a commit, where their trees differ. That of a parent beyond the border of a shallow
// clone cannot be told.
func ChangesOf(ctx context.Context, repo *source.Repo, c bisect.Commit) (out [][]Change, err error) {
	for _, p := range c.Parents {
		one, err := changesBetween(ctx, repo, p, c.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// changesBetween lists where the trees of two commits differ.
func changesBetween(ctx context.Context, repo *source.Repo, from, to string) ([]Change, error) {
	both, err := source.CompareTrees(ctx, repo, from, to)
	if err != nil {
		return nil, err
	}
	return changesIn(both, repo.Has)
}
