package source

import (
	"context"
	"fmt"
	"slices"
)

// RangeOptions narrows a range.
type RangeOptions struct {
	// FirstParent follows only the first parent of each commit from bad.
	FirstParent bool
	// Paths are files or folders, relative to the root of the repository, that
	// the build and the run read. None means everything.
	Paths []string
}

// Range is the set of commits reachable from bad and not from good.
type Range struct {
	Good, Bad Commit
	GoodKey   string // fingerprint of the good end
	// Commits is ordered so that parents come before children; the last is bad.
	Commits []RangeCommit
	// Warnings tells what may be missing, such as history cut by a shallow clone.
	Warnings []string
}

// RangeCommit is one commit of a range.
type RangeCommit struct {
	Commit
	// InRange are the indices of its parents inside the range, in the order of
	// Parents (only the first parent with FirstParent).
	InRange []int
	// Key is the fingerprint of what the build reads: the id of the tree, or
	// with paths a hash over the entries there. Submodule pins count.
	Key string
	// Neutral says that Key equals that of every parent considered, those
	// outside the range included. A root is neutral if it holds nothing at the
	// paths; at the border of a shallow clone nothing is neutral.
	Neutral bool
}

// Range lists good..bad. The ends are revisions. It fails with a
// *NotAncestorError or an *EmptyRangeError where there is no range.
func (r *Repo) Range(ctx context.Context, good, bad string, opt RangeOptions) (*Range, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	paths, err := parsePaths(opt.Paths)
	if err != nil {
		return nil, err
	}
	goodID, err := r.resolve(good)
	if err != nil {
		return nil, fmt.Errorf("good end: %w", err)
	}
	badID, err := r.resolve(bad)
	if err != nil {
		return nil, fmt.Errorf("bad end: %w", err)
	}
	if goodID == badID {
		return nil, &EmptyRangeError{Commit: goodID}
	}
	ids, err := r.walk(ctx, goodID, badID, opt.FirstParent)
	if err != nil {
		return nil, err
	}
	return r.fill(ctx, goodID, ids, paths, opt.FirstParent)
}

// walk returns the ids of the range, parents first.
func (r *Repo) walk(ctx context.Context, good, bad string, firstParent bool) ([]string, error) {
	old, err := r.hist.ancestors(ctx, good)
	if err != nil {
		return nil, err
	}
	found := false
	ids, err := r.postOrder(ctx, bad, func(id string) bool {
		found = found || id == good
		return !old[id]
	})
	if err != nil {
		return nil, err
	}
	if !found || old[bad] {
		return nil, r.notAncestor(ctx, good, bad)
	}
	if firstParent {
		return r.firstParents(bad, old)
	}
	return ids, nil
}

func (r *Repo) notAncestor(ctx context.Context, good, bad string) error {
	base, err := r.hist.mergeBase(ctx, good, bad)
	if err != nil {
		return err
	}
	shallow := len(r.feat.shallow) > 0 && base != bad
	return &NotAncestorError{Good: good, Bad: bad, MergeBase: base, Shallow: shallow}
}

// firstParents goes down the first parents from bad to the first commit that
// good reaches, as git does for good..bad --first-parent.
func (r *Repo) firstParents(bad string, old map[string]bool) ([]string, error) {
	var ids []string
	for id := bad; !old[id]; {
		ids = append(ids, id)
		n, err := r.hist.node(id)
		if err != nil {
			return nil, err
		}
		if len(n.parents) == 0 {
			break
		}
		id = n.parents[0]
	}
	slices.Reverse(ids)
	return ids, nil
}

// postOrder lists what start reaches through commits that enter accepts, each
// after all its parents, branch by branch.
func (r *Repo) postOrder(ctx context.Context, start string, enter func(string) bool) ([]string, error) {
	type frame struct {
		id   string
		next []string // parents still to visit
	}
	var ids []string
	seen := map[string]bool{}
	var stack []frame
	push := func(id string) error {
		if seen[id] || !enter(id) {
			return nil
		}
		seen[id] = true
		n, err := r.hist.node(id)
		if err != nil {
			return err
		}
		stack = append(stack, frame{id, n.parents})
		return nil
	}
	if err := push(start); err != nil {
		return nil, err
	}
	for steps := 0; len(stack) > 0; steps++ {
		if steps%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		top := &stack[len(stack)-1]
		if len(top.next) == 0 {
			ids = append(ids, top.id)
			stack = stack[:len(stack)-1]
			continue
		}
		parent := top.next[0]
		top.next = top.next[1:]
		if err := push(parent); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// fill reads the commits and computes their fingerprints.
func (r *Repo) fill(ctx context.Context, good string, ids []string, paths []string, firstParent bool) (*Range, error) {
	k := &commitKeys{repo: r, keyer: newKeyer(r.objs, paths), known: map[string]string{}}
	rng := &Range{Commits: make([]RangeCommit, 0, len(ids))}
	var err error
	if rng.Good, err = r.commit(good); err != nil {
		return nil, err
	}
	if rng.GoodKey, err = k.of(good); err != nil {
		return nil, err
	}
	index := make(map[string]int, len(ids))
	cut := 0
	for i, id := range ids {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		rc, err := k.rangeCommit(id, index, firstParent)
		if err != nil {
			return nil, err
		}
		if r.feat.shallow[id] {
			cut++
		}
		index[id] = i
		rng.Commits = append(rng.Commits, rc)
	}
	if cut > 0 {
		rng.Warnings = append(rng.Warnings, fmt.Sprintf("the range holds %d commits whose parents this shallow clone lacks\nhint: git fetch --unshallow", cut))
	}
	rng.Bad = rng.Commits[len(rng.Commits)-1].Commit
	return rng, nil
}

// commitKeys remembers the fingerprints of commits, of the range and of its
// border.
type commitKeys struct {
	repo  *Repo
	keyer *keyer
	known map[string]string
}

func (k *commitKeys) of(id string) (string, error) {
	if key, ok := k.known[id]; ok {
		return key, nil
	}
	c, err := k.repo.commit(id)
	if err != nil {
		return "", err
	}
	return k.ofCommit(c)
}

func (k *commitKeys) ofCommit(c Commit) (string, error) {
	key, err := k.keyer.key(c.Tree)
	if err != nil {
		return "", fmt.Errorf("fingerprint of commit %s: %w", short(c.ID), err)
	}
	k.known[c.ID] = key
	return key, nil
}

func (k *commitKeys) rangeCommit(id string, index map[string]int, firstParent bool) (RangeCommit, error) {
	c, err := k.repo.commit(id)
	if err != nil {
		return RangeCommit{}, err
	}
	rc := RangeCommit{Commit: c}
	if rc.Key, err = k.ofCommit(c); err != nil {
		return RangeCommit{}, err
	}
	parents := c.Parents
	if firstParent && len(parents) > 1 {
		parents = parents[:1]
	}
	for _, p := range parents {
		if i, ok := index[p]; ok {
			rc.InRange = append(rc.InRange, i)
		}
	}
	rc.Neutral, err = k.neutral(rc, parents)
	return rc, err
}

func (k *commitKeys) neutral(rc RangeCommit, parents []string) (bool, error) {
	if k.repo.feat.shallow[rc.ID] {
		return false, nil
	}
	for _, p := range parents {
		key, err := k.of(p)
		if err != nil || key != rc.Key {
			return false, err
		}
	}
	if len(parents) == 0 {
		return rc.Key == k.keyer.empty(len(rc.Tree)), nil
	}
	return true, nil
}
