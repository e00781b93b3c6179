package source

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
)

// Questions about the graph of commits are answered from nodes. Those of a long history come from git, or from the file
// in which an earlier process has kept them; ranges come from git's commit-graph where that has the good end. Any of these
// may be wrong. So a commit is compared with what was said of it whenever it is read, and it is read before it is exported:
// what is launched, and what is blamed with its parents, is what its id vouches for. Dates are anybody's word. They say
// what to read first, and where to stop only after slop commits in a row agree; git's own is 5.
const slop = 10

// many is how many commits are read one by one before git is asked for the rest, which takes a process.
const many = 500

// newList is the list of nodes that is kept beside the store of a repository. Of one that shows another history than its
// objects do, none is kept.
func newList(l layout, f features) *commits.List {
	file := filepath.Join(l.commonDir, "kbisect", "commits")
	if len(f.shallow) > 0 || f.replace || f.grafts {
		file = ""
	}
	return commits.NewList(file, many)
}

// node reads a node, of the commit itself where it is not known.
func (r *reader) node(id string) (*commits.Node, error) {
	if n := r.list.Get(id); n != nil {
		return n, nil
	}
	c, err := r.readCommit(id)
	if err != nil {
		return nil, err
	}
	r.alone++
	n := &commits.Node{ID: c.ID, Tree: c.Tree, Parents: c.Parents, Date: c.date}
	r.list.Add(n)
	return n, nil
}

// listed asks git for the nodes of good..bad. Those that it does not give are read one by one.
func (r *reader) listed(ctx context.Context, good, bad string) {
	if !r.list.Kept() || !r.haveGit {
		return
	}
	if text, err := runGit(ctx, r.layout, nil, "-c", "core.commitGraph=false", "rev-list", "--no-commit-header", "--format="+commits.Format, bad, "^"+good); err == nil {
		r.list.Take(text)
	}
}

// met is a commit that a walk came to.
type met struct {
	*commits.Node
	by     []uint64 // bit i: source i leads to it
	older  int      // it is the last of so many commits in a row that are older than all sources
	queued bool     // its parents do not know by yet
	open   bool     // it is queued, and has to be followed
}

// leads reports whether source i leads to the commit.
func (m *met) leads(i int) bool { return m.by[i/64]>>(i%64)&1 != 0 }

// newestFirst is the queue of a walk.
type newestFirst []*met

func (q newestFirst) Len() int           { return len(q) }
func (q newestFirst) Less(i, k int) bool { return q[i].Date > q[k].Date }
func (q newestFirst) Swap(i, k int)      { q[i], q[k] = q[k], q[i] }
func (q *newestFirst) Push(m any)        { *q = append(*q, m.(*met)) }
func (q *newestFirst) Pop() any {
	last := len(*q) - 1
	m := (*q)[last]
	*q = (*q)[:last]
	return m
}

// walk goes from the sources towards the roots and notes which sources lead to each commit. It ends when no commit to
// be followed is open. Commits that are never followed may lack sources, and their ancestors are not met.
func (r *reader) walk(ctx context.Context, sources []string, open func(*met) bool) (map[string]*met, error) {
	all, queue, left, oldest := map[string]*met{}, newestFirst{}, 0, int64(math.MaxInt64)
	reach := func(id string, by []uint64, older int) error {
		m, more := all[id], false
		if m == nil {
			c, err := r.node(id)
			if err != nil {
				return fmt.Errorf("walk history: %w", err)
			}
			m = &met{Node: c, by: make([]uint64, len(by)), older: math.MaxInt}
			all[id] = m
		}
		for i, bits := range by {
			more = more || bits&^m.by[i] != 0
			m.by[i] |= bits
		}
		if m.Date >= oldest {
			older = 0
		}
		if older < m.older {
			more, m.older = true, older
		}
		if more && !m.queued {
			m.queued = true
			heap.Push(&queue, m)
		}
		if now := m.queued && open(m); now != m.open {
			if m.open = now; now {
				left++
			} else {
				left--
			}
		}
		return nil
	}
	for i, id := range sources {
		by := make([]uint64, len(sources)/64+1)
		by[i/64] = 1 << (i % 64)
		if err := reach(id, by, 0); err != nil {
			return nil, err
		}
		oldest = min(oldest, all[id].Date)
	}
	for left > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m := heap.Pop(&queue).(*met)
		if m.open {
			left--
		}
		m.queued, m.open = false, false
		for _, p := range m.Parents {
			if err := reach(p, m.by, m.older+1); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// Back follows up to n first parents of a commit. It returns where they lead and how many there are, which are fewer at a
// root and where a shallow clone ends.
func Back(ctx context.Context, r *Repo, id string, n int) (at Commit, steps int, err error) {
	for at, err = r.Commit(id); err == nil && steps < n && len(at.Parents) > 0; steps++ {
		if err = ctx.Err(); err == nil {
			at, err = r.Commit(at.Parents[0])
		}
	}
	return at, steps, err
}

// reached returns those of some commits that are ancestors of from, or from itself, among other ancestors. The walk
// stops at ancestors of all of them, which cannot lead to one, and by dates.
func (r *reader) reached(ctx context.Context, from string, commits []string) (map[string]*met, error) {
	all, err := r.walk(ctx, append([]string{from}, commits...), func(m *met) bool {
		leads := m.leads(0) && m.older < slop
		for i := 1; i <= len(commits) && leads; i++ {
			if !m.leads(i) {
				return true
			}
		}
		return false
	})
	maps.DeleteFunc(all, func(_ string, m *met) bool { return !m.leads(0) })
	return all, err
}

// between returns good..bad, parents first.
func (r *reader) between(ctx context.Context, good, bad string, firstParent bool) ([]*commits.Node, error) {
	if g := r.list.Graph(filepath.Join(r.commonDir, "objects"), len(good)/2); g != nil {
		if nodes, err := g.Between(good, bad, firstParent, many, r.node); err == nil && len(nodes) > 0 {
			return nodes, nil
		}
	}
	before, asked := r.alone, false
	within, err := r.walk(ctx, []string{good, bad}, func(m *met) bool {
		if !asked && r.alone >= before+many {
			asked = true
			r.listed(ctx, good, bad)
		}
		return m.leads(1) && !m.leads(0)
	})
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(within, func(_ string, m *met) bool { return m.leads(0) })
	for before := -1; before != len(within); {
		// Wrong dates may have hidden that good leads to some of them. Not to descendants of good; and any others have
		// one below them that has no parent among them.
		after, lowest := false, []string{}
		for id, m := range within {
			begins := true
			for _, p := range m.Parents {
				after = after || p == good
				begins = begins && p != good && within[p] == nil
			}
			if begins {
				lowest = append(lowest, id)
			}
		}
		if !after {
			return nil, r.notAncestor(ctx, good, bad)
		}
		before = len(within)
		if len(lowest) == 0 {
			break
		}
		old, err := r.reached(ctx, good, lowest)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(within, func(id string, _ *met) bool { return old[id] != nil })
	}
	if firstParent {
		return firstParents(bad, within), nil
	}
	return parentsFirst(bad, within), nil
}

// notAncestor explains why good..bad is no range.
func (r *reader) notAncestor(ctx context.Context, good, bad string) error {
	bases, err := r.mergeBases(ctx, good, bad)
	if err != nil {
		return err
	}
	base := ""
	if len(bases) > 0 {
		base = bases[0]
	}
	shallow := len(r.feat.shallow) > 0 && base != bad
	return &notAncestorError{Good: good, Bad: bad, MergeBase: base, Shallow: shallow}
}

// firstParents goes down the first parents from bad as long as they are in the range, as git does for good..bad --first-parent.
func firstParents(bad string, within map[string]*met) (list []*commits.Node) {
	for m := within[bad]; m != nil; {
		list = append(list, m.Node)
		if len(m.Parents) == 0 || len(list) == len(within) { // a list that lies may go round
			break
		}
		m = within[m.Parents[0]]
	}
	slices.Reverse(list)
	return list
}

// parentsFirst lists a range that ends in bad, each commit after all its parents, branch by branch.
func parentsFirst(bad string, within map[string]*met) (list []*commits.Node) {
	type frame struct {
		id   string
		next []string // parents still to visit
	}
	stack, seen := []frame{{bad, within[bad].Parents}}, map[string]bool{bad: true}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.next) == 0 {
			list = append(list, within[top.id].Node)
			stack = stack[:len(stack)-1]
			continue
		}
		parent := top.next[0]
		top.next = top.next[1:]
		if m := within[parent]; m != nil && !seen[parent] {
			seen[parent] = true
			stack = append(stack, frame{parent, m.Parents})
		}
	}
	return list
}

// mergeBases returns the best common ancestors: first that on the line of first parents of a, then the newest, of
// equally old ones that with the smallest id.
func (r *reader) mergeBases(ctx context.Context, a, b string) (bases []string, err error) {
	all, err := r.walk(ctx, []string{a, b}, func(m *met) bool { return !m.leads(0) || !m.leads(1) })
	if err != nil {
		return nil, err
	}
	onLine := a
	for m := all[a]; m != nil && !(m.leads(0) && m.leads(1)) && len(m.Parents) > 0; m = all[onLine] {
		onLine = m.Parents[0]
	}
	maps.DeleteFunc(all, func(_ string, m *met) bool { return !m.leads(0) || !m.leads(1) })
	under := map[string]bool{}
	for _, m := range all {
		for _, p := range m.Parents {
			under[p] = true
		}
	}
	best := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(id string) bool { return under[id] })
	slices.SortFunc(best, func(x, y string) int {
		switch onLine {
		case x:
			return -1
		case y:
			return 1
		}
		return cmp.Or(cmp.Compare(all[y].Date, all[x].Date), cmp.Compare(x, y))
	})
	for _, id := range best {
		newest := true
		for _, other := range best {
			if other == id {
				continue
			}
			above, err := r.reached(ctx, other, []string{id})
			if err != nil {
				return nil, err
			}
			newest = newest && above[id] == nil
		}
		if newest {
			bases = append(bases, id)
		}
	}
	return bases, nil
}
