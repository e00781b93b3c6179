package source

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	graphv2 "github.com/go-git/go-git/v5/plumbing/format/commitgraph/v2"
)

// history walks the graph of commits. It remembers parents and dates, and
// takes them from the commit-graph file where there is a trustworthy one.
type history struct {
	read  *reader
	graph *commitGraph
	nodes map[string]node
}

// node is what a walk needs of a commit.
type node struct {
	parents []string
	date    int64 // committer date, seconds since 1970
}

func newHistory(r *reader) *history {
	h := &history{read: r, nodes: map[string]node{}}
	// Like git, distrust the file where history is not as the objects say.
	if len(r.feat.shallow) == 0 && !r.feat.replace && !r.feat.grafts {
		h.graph = openCommitGraph(r.commonDir)
	}
	return h
}

// node returns one commit of the graph.
func (h *history) node(id string) (node, error) {
	if n, ok := h.nodes[id]; ok {
		return n, nil
	}
	n, ok := h.graph.lookup(id)
	if !ok {
		data, err := readObject(h.read.objs, id, "commit")
		if err != nil {
			return node{}, fmt.Errorf("walk history: %w", err)
		}
		n = parseNode(data)
	}
	if h.read.feat.shallow[id] {
		n.parents = nil
	}
	h.nodes[id] = n
	return n, nil
}

// confirms reports whether the commits themselves agree with a range that was found by the commit-graph file: all
// of the range have the parents that it says, and good reaches what lies before the range and nothing in it. From good
// it goes back as far as the range does, by dates; where these mislead it, the file is not confirmed.
func (h *history) confirms(ctx context.Context, good string, ids []string, firstParent bool) bool {
	within, before := map[string]bool{}, map[string]bool{}
	for _, id := range ids {
		within[id] = true
	}
	oldest := int64(math.MaxInt64)
	real := func(id string) (node, bool) {
		data, err := readObject(h.read.objs, id, "commit")
		n := parseNode(data)
		return n, err == nil && slices.Equal(n.parents, h.nodes[id].parents)
	}
	for _, id := range ids {
		n, same := real(id)
		if !same || ctx.Err() != nil {
			return false
		}
		oldest = min(oldest, n.date)
		for i, p := range n.parents {
			if !within[p] && (i == 0 || !firstParent) {
				before[p] = true
			}
		}
	}
	for id := range before {
		n, same := real(id)
		if !same {
			return false
		}
		oldest = min(oldest, n.date)
	}
	type dated struct {
		id string
		node
	}
	seen, next := map[string]bool{}, []dated{}
	meet := func(id string) bool {
		if seen[id] {
			return true
		}
		seen[id] = true
		n, same := real(id)
		i, _ := slices.BinarySearchFunc(next, n.date, func(d dated, date int64) int { return cmp.Compare(d.date, date) })
		next = slices.Insert(next, i, dated{id, n})
		delete(before, id)
		return same && !within[id]
	}
	for ok := meet(good); len(next) > 0; {
		last := next[len(next)-1]
		if next = next[:len(next)-1]; !ok || last.date < oldest || ctx.Err() != nil {
			return ok && ctx.Err() == nil && len(before) == 0
		}
		for _, p := range last.parents {
			ok = ok && meet(p)
		}
	}
	return len(before) == 0
}

// parseNode reads what a walk needs from a commit object.
func parseNode(data []byte) node {
	var n node
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		if len(line) == 0 {
			break
		}
		if id, ok := bytes.CutPrefix(line, []byte("parent ")); ok {
			n.parents = append(n.parents, string(id))
		} else if who, ok := bytes.CutPrefix(line, []byte("committer ")); ok {
			n.date = identDate(who)
		}
		data = rest
	}
	return n
}

// identDate is the time in an author or committer line, 0 where it has none.
func identDate(who []byte) int64 {
	fields := bytes.Fields(who[bytes.LastIndexByte(who, '>')+1:])
	if len(fields) == 0 {
		return 0
	}
	sec, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return sec
}

// ancestors returns every commit reachable from start, itself included. The
// whole history is walked: dates cannot be trusted to stop earlier.
func (h *history) ancestors(ctx context.Context, start string) (map[string]bool, error) {
	return h.mark(ctx, []string{start}, func(string) bool { return true })
}

// mark walks from the starts through all commits that enter accepts and
// returns those.
func (h *history) mark(ctx context.Context, starts []string, enter func(id string) bool) (map[string]bool, error) {
	seen := map[string]bool{}
	stack := append([]string(nil), starts...)
	for steps := 0; len(stack) > 0; steps++ {
		if steps%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[id] || !enter(id) {
			continue
		}
		seen[id] = true
		n, err := h.node(id)
		if err != nil {
			return nil, err
		}
		stack = append(stack, n.parents...)
	}
	return seen, nil
}

// reaches reports whether to is from or an ancestor of it.
func (h *history) reaches(ctx context.Context, from, to string) (bool, error) {
	found := false
	_, err := h.mark(ctx, []string{from}, func(id string) bool {
		found = found || id == to
		return !found
	})
	return found, err
}

// mergeBase walks b's side down to the first commits that a reaches too, and
// of these drops any that another one reaches.
func (h *history) mergeBase(ctx context.Context, a, b string) (string, error) {
	ofA, err := h.ancestors(ctx, a)
	if err != nil {
		return "", err
	}
	border := map[string]bool{}
	if _, err := h.mark(ctx, []string{b}, func(id string) bool {
		if ofA[id] {
			border[id] = true
		}
		return !ofA[id]
	}); err != nil {
		return "", err
	}
	if len(border) > 1 {
		if err := h.dropReached(ctx, border); err != nil {
			return "", err
		}
	}
	return h.newest(border)
}

// dropReached removes the commits that are ancestors of others in the set.
func (h *history) dropReached(ctx context.Context, border map[string]bool) error {
	var below []string
	for id := range border {
		n, err := h.node(id)
		if err != nil {
			return err
		}
		below = append(below, n.parents...)
	}
	reached, err := h.mark(ctx, below, func(string) bool { return true })
	if err != nil {
		return err
	}
	for id := range border {
		if reached[id] {
			delete(border, id)
		}
	}
	return nil
}

// newest returns the commit with the latest date; of several the one with the
// smallest id, so that the answer does not depend on the walk.
func (h *history) newest(ids map[string]bool) (string, error) {
	best, bestDate := "", int64(0)
	for id := range ids {
		n, err := h.node(id)
		if err != nil {
			return "", err
		}
		if best == "" || n.date > bestDate || n.date == bestDate && id < best {
			best, bestDate = id, n.date
		}
	}
	return best, nil
}

// commitGraph answers from git's commit-graph files held in memory: go-git's
// reader issues many tiny reads, which would be slow on the file itself. A
// nil commitGraph knows nothing.
type commitGraph struct {
	index graphv2.Index
}

// memoryFile is a commit-graph file that has been read.
type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

// openCommitGraph returns nil when there is no graph or it cannot be read:
// it is only a faster copy of what the objects say.
func openCommitGraph(commonDir string) *commitGraph {
	info := filepath.Join(commonDir, "objects", "info")
	if index := openGraphFile(filepath.Join(info, "commit-graph"), nil); index != nil {
		return &commitGraph{index}
	}
	chain, err := os.ReadFile(filepath.Join(info, "commit-graphs", "commit-graph-chain"))
	if err != nil {
		return nil
	}
	var index graphv2.Index
	for _, hash := range strings.Fields(string(chain)) {
		if index = openGraphFile(filepath.Join(info, "commit-graphs", "graph-"+hash+".graph"), index); index == nil {
			return nil
		}
	}
	if index == nil {
		return nil
	}
	return &commitGraph{index}
}

func openGraphFile(path string, parent graphv2.Index) graphv2.Index {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	index, err := graphv2.OpenFileIndexWithParent(memoryFile{bytes.NewReader(data)}, parent)
	if err != nil {
		return nil
	}
	return index
}

// lookup finds a commit; those newer than the file are not in it.
func (g *commitGraph) lookup(id string) (node, bool) {
	if g == nil || len(id) != 40 {
		return node{}, false
	}
	i, err := g.index.GetIndexByHash(plumbing.NewHash(id))
	if err != nil {
		return node{}, false
	}
	data, err := g.index.GetCommitDataByIndex(i)
	if err != nil {
		return node{}, false
	}
	n := node{date: data.When.Unix()}
	for _, p := range data.ParentHashes {
		n.parents = append(n.parents, hex.EncodeToString(p[:]))
	}
	return n, true
}
