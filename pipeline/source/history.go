package source

import (
	"bufio"
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// Questions about the graph of commits are answered from nodes, and ranges from git's commit-graph
// where that has the good end, which may be wrong. So a commit is compared with what was said of it
// whenever it is read, and it is read before it is exported: what is launched, and what is blamed
// with its parents, is what its id vouches for. Dates are anybody's word. They say what to read
// first, and where to stop only after slop commits in a row agree; git's own is 5.
const slop = 10

const (
	newer = 500 // commits that the commit-graph lacks are read at most
	few   = 64  // commits are met before git is asked for a range, which takes a process
)

// newList trusts commits alone where a repository shows another history than its objects do.
func newList(f objects.Features) *commits.List {
	return commits.NewList(len(f.Shallow) == 0 && !f.Replace && !f.Grafts)
}

// keptDir is the folder of the store of a repository, which need not exist.
func keptDir(l objects.Layout) string { return filepath.Join(l.CommonDir, "kbisect") }

// node reads a node, of the commit itself where it is not known.
func (r *reader) node(id string) (*commits.Node, error) {
	if n := r.list.Get(id); n != nil {
		return n, nil
	}
	_, n, err := r.object(id)
	if err == nil {
		r.list.Add(n)
	}
	return n, err
}

// met is a commit that a walk came to.
type met struct {
	*commits.Node
	by     []uint64 // bit i: source i leads to it
	older  int      // how many commits in a row up to it are older than all sources
	queued bool     // its parents do not know by yet; or it is listed, or on its way there
	open   bool     // it is queued, and has to be followed
	at     int      // in the list of a range
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

// walk goes from the sources towards the roots and notes which sources lead to each commit. It ends
// when no commit to be followed is open. Commits that are never followed may lack sources, and
// their ancestors are not met.
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

// Back follows up to n first parents of a commit. It returns where they lead and how many there
// are, which are fewer at a root and where a shallow clone ends.
func Back(ctx context.Context, r *Repo, id string, n int) (at Commit, steps int, err error) {
	for at, err = r.Commit(id); err == nil && steps < n && len(at.Parents) > 0; steps++ {
		if err = ctx.Err(); err == nil {
			at, err = r.Commit(at.Parents[0])
		}
	}
	return at, steps, err
}

// reached returns those of some commits that are ancestors of from, or from itself, among other
// ancestors. The walk stops at ancestors of all of them, which cannot lead to one, and by dates.
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
	if g := r.list.Graph(filepath.Join(r.CommonDir, "objects"), len(good)/2); g != nil {
		if nodes, err := g.Between(good, bad, firstParent, newer, r.node); err == nil && len(nodes) > 0 {
			return nodes, nil
		}
	}
	within, err := r.within(ctx, good, bad)
	if err != nil {
		return nil, err
	}
	for before := -1; before != len(within); {
		// Wrong dates may have hidden that good leads to some of them. Not to descendants of good;
		// and any others have one below them that has no parent among them.
		after, lowest := false, []string{}
		for id, c := range within {
			begins := true
			for _, p := range c.Parents {
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

// within returns the commits of good..bad and, where dates are wrong, maybe some that good leads
// to. A long range is read by git, which takes a third of the time.
func (r *reader) within(ctx context.Context, good, bad string) (all map[string]*met, err error) {
	soon, enough := context.WithCancel(ctx)
	defer enough()
	n, asks := 0, r.haveGit && r.list.Trusts()
	walked, err := r.walk(soon, []string{good, bad}, func(m *met) bool {
		if n++; n > few && asks {
			asks = false
			if all = r.listed(ctx, good, bad); all[bad] != nil {
				enough()
			}
		}
		return m.leads(1) && !m.leads(0)
	})
	if all[bad] != nil {
		return all, ctx.Err()
	}
	maps.DeleteFunc(walked, func(_ string, m *met) bool { return m.leads(0) })
	return walked, err
}

// listed asks git for them; nil where it fails.
func (r *reader) listed(ctx context.Context, good, bad string) map[string]*met {
	cmd := r.Command(ctx, "-c", "core.commitGraph=false",
		"rev-list", "--no-commit-header", "--format=%H %T %P", bad, "^"+good)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil
	}
	all, lines := map[string]*met{}, bufio.NewReader(out) // a line is as long as its commit has parents
	for {
		var line string
		if line, err = lines.ReadString('\n'); err != nil {
			break
		}
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		tree, rest, _ := strings.Cut(rest, " ")
		n := &commits.Node{ID: id, Tree: tree}
		if rest != "" {
			n.Parents = strings.Split(rest, " ")
		}
		all[id] = &met{Node: n}
	}
	if cmd.Wait() != nil || err != io.EOF {
		return nil
	}
	return all
}

// notAncestor explains why good..bad is not a range.
func (r *reader) notAncestor(ctx context.Context, good, bad string) error {
	bases, err := r.mergeBases(ctx, good, bad)
	if err != nil {
		return err
	}
	base := ""
	if len(bases) > 0 {
		base = bases[0]
	}
	shallow := len(r.Features.Shallow) > 0 && base != bad
	return &notAncestorError{Good: good, Bad: bad, MergeBase: base, Shallow: shallow}
}

// firstParents goes down the first parents from bad as long as they are in the range, as git does
// for good..bad --first-parent.
func firstParents(bad string, within map[string]*met) (list []*commits.Node) {
	for m := within[bad]; m != nil; {
		list = append(list, m.Node)
		if len(m.Parents) == 0 {
			break
		}
		m = within[m.Parents[0]]
	}
	slices.Reverse(list)
	return commits.Line(list)
}

// parentsFirst lists a range that ends in bad, each commit after all its parents, branch by branch.
func parentsFirst(bad string, within map[string]*met) []*commits.Node {
	type frame struct {
		*met
		up   []*met // its parents in the range
		next int    // of these still to visit
	}
	var stack []frame
	push := func(m *met) {
		m.queued = true
		up := make([]*met, 0, len(m.Parents))
		for _, p := range m.Parents {
			if parent := within[p]; parent != nil {
				up = append(up, parent)
			}
		}
		stack = append(stack, frame{m, up, 0})
	}
	list := make([]*commits.Node, 0, len(within))
	for push(within[bad]); len(stack) > 0; {
		top := &stack[len(stack)-1]
		if top.next == len(top.up) {
			top.InRange = make([]int, 0, len(top.up))
			for _, parent := range top.up {
				top.InRange = append(top.InRange, parent.at)
			}
			top.at = len(list)
			list, stack = append(list, top.Node), stack[:len(stack)-1]
			continue
		}
		top.next++
		if parent := top.up[top.next-1]; !parent.queued {
			push(parent)
		}
	}
	return list
}

// mergeBases returns the best common ancestors: first that on the line of first parents of a, then
// the newest, of equally old ones that with the smallest id.
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
