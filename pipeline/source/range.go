package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
	"github.com/kbisect/kbisect/pipeline/source/internal/inputkey"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// RangeOptions narrows a range.
type RangeOptions struct {
	// FirstParent follows only the first parent of each commit from bad.
	FirstParent bool
	// Paths are files or folders, relative to the root of the repository, that the build and the
	// run read. None means everything.
	Paths []string
}

// Range is the set of commits reachable from bad and not from good.
type Range struct {
	Good, Bad Commit
	GoodKey   string // fingerprint of the good end
	// Commits is ordered so that parents come before children; the last is bad.
	Commits []RangeCommit
	// Warnings say what may be missing, such as the history before a shallow clone.
	Warnings []string

	paths []string
}

// RangeCommit is one commit of a range.
type RangeCommit struct {
	ID      string   // full id in hex
	Parents []string // ids, none for a root
	// InRange are the indices of its parents inside the range, in the order of Parents (only the
	// first parent with FirstParent).
	InRange []int
	// Key is the fingerprint of what the build reads: the id of the tree, or with paths a hash over
	// the entries there. Submodule pins count. It is "" of a commit that a merge has left out, see
	// Neutral.
	Key string
	// Neutral says that the commit cannot be why the bad end is bad. Its Key equals that of every
	// parent considered, those outside the range included; a root is neutral if it holds nothing at
	// the paths; at the border of a shallow clone nothing is. Or it is a merge with the Key of a
	// parent that is the good end or descends from it, so that both are good or both are bad; what
	// leads to the bad end by its other parents only is left out, and neutral too. This is how git
	// log simplifies a history.
	Neutral bool
}

// rangeOf is a range between two commits.
func (r *reader) rangeOf(ctx context.Context, good, bad string, paths []string, firstParent bool) (*Range, error) {
	list, err := r.between(ctx, good, bad, firstParent)
	if err != nil {
		return nil, err
	}
	return r.newRange(ctx, good, list, paths, firstParent)
}

// newRange reads the commits of a range and computes their fingerprints.
func (r *reader) newRange(
	ctx context.Context, good string, list []*commits.Node, paths []string, firstParent bool,
) (*Range, error) {
	k := newKeys(r.Objects, paths)
	if r.list.Trusts() {
		k.Load(keptDir(r.Layout))
		defer k.Keep(keptDir(r.Layout))
	}
	rng := &Range{Commits: make([]RangeCommit, len(list)), paths: paths}
	var err error
	if rng.Good, err = r.commit(good); err != nil {
		return nil, err
	}
	if rng.GoodKey, err = keyOf(k, rng.Good.ID, rng.Good.Tree); err != nil {
		return nil, err
	}
	cut := 0
	for i, c := range list {
		if r.Features.Shallow[c.ID] {
			cut++
		}
		rng.Commits[i] = RangeCommit{ID: c.ID, Parents: c.Parents, InRange: c.InRange, Neutral: true}
	}
	if cut > 0 {
		rng.Warnings = append(rng.Warnings, fmt.Sprintf("commits in the range without their parents, "+
			"because the clone is shallow: %d\nhint: git fetch --unshallow", cut))
	}
	if err := r.simplify(ctx, rng, list, k, firstParent); err != nil {
		return nil, err
	}
	rng.Bad, err = r.commit(list[len(list)-1].ID)
	return rng, err
}

// considered are the parents of a commit that a search follows.
func considered(c *commits.Node, firstParent bool) []string {
	if firstParent && len(c.Parents) > 1 {
		return c.Parents[:1]
	}
	return c.Parents
}

// simplify says, from the bad end down, which commits of a range count and which of these are
// neutral, and gives them keys.
func (r *reader) simplify(
	ctx context.Context, rng *Range, list []*commits.Node, k *inputkey.Keys, firstParent bool,
) (err error) {
	onward := make([]bool, len(list)) // they descend from the good end
	for i, c := range rng.Commits {
		onward[i] = slices.Contains(considered(list[i], firstParent), rng.Good.ID) ||
			slices.ContainsFunc(c.InRange, func(p int) bool { return onward[p] })
	}
	counts := make([]bool, len(list))
	counts[len(list)-1] = true
	key := func(i int) (string, error) {
		c := &rng.Commits[i]
		if c.Key == "" {
			c.Key, err = keyOf(k, c.ID, list[i].Tree)
		}
		return c.Key, err
	}
next:
	for i := len(list) - 1; i >= 0; i-- {
		if !counts[i] {
			continue
		}
		if _, err := key(i); err != nil || ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		c, parents := &rng.Commits[i], considered(list[i], firstParent)
		c.Neutral = !r.Features.Shallow[c.ID] && (len(parents) > 0 || c.Key == k.Empty(len(c.ID)))
		inside := c.InRange
		for _, p := range parents {
			of, at := "", -1
			if len(inside) > 0 && list[inside[0]].ID == p {
				at, inside = inside[0], inside[1:]
				of, err = key(at)
			} else {
				of, err = r.keyOutside(rng, k, p)
			}
			if err != nil {
				return err
			}
			if of != c.Key {
				c.Neutral = false
			} else if len(parents) > 1 && (p == rng.Good.ID || at >= 0 && onward[at]) {
				if c.Neutral = true; at >= 0 {
					counts[at] = true
				}
				continue next
			}
		}
		for _, p := range c.InRange {
			counts[p] = true
		}
	}
	for i := range rng.Commits {
		if !counts[i] { // its key may be known by a merge that has left it out
			rng.Commits[i].Key = ""
		}
	}
	return nil
}

// keyOutside is the key of a commit that is not in a range.
func (r *reader) keyOutside(rng *Range, k *inputkey.Keys, id string) (string, error) {
	if id == rng.Good.ID {
		return rng.GoodKey, nil
	}
	c := r.list.Listed(id)
	if c == nil {
		var err error
		if c, err = r.node(id); err != nil {
			return "", err
		}
	}
	return keyOf(k, id, c.Tree)
}

// newKeys computes fingerprints of trees at clean paths.
func newKeys(o objects.Reader, paths []string) *inputkey.Keys {
	return inputkey.New(paths, func(tree string) ([]byte, error) { return objects.Read(o, tree, "tree") })
}

// keyOf is the fingerprint of a commit. One that cannot be read is like no other; it is set aside
// when it is exported.
func keyOf(k *inputkey.Keys, id, tree string) (string, error) {
	key, err := k.Of(tree)
	if unsupported := (*UnsupportedError)(nil); errors.As(err, &unsupported) || errors.Is(err, inputkey.ErrMalformed) {
		return "unreadable " + tree, nil
	}
	if err != nil {
		return "", fmt.Errorf("fingerprint of commit %s: %w", objects.Short(id), err)
	}
	return key, nil
}

// Paths are files and folders relative to the root of a repository, cleaned. None cover everything.
type Paths []string

// ParsePaths cleans the chosen paths; the result is empty when they cover the whole tree.
func ParsePaths(paths []string) (Paths, error) {
	var out Paths
	for _, p := range paths {
		clean := path.Clean(p)
		if p == "" || path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || strings.Contains(p, "\x00") {
			return nil, fmt.Errorf("path %q is not inside the repository\nhint: give paths relative to its root", p)
		}
		if clean == "." {
			return nil, nil
		}
		out = append(out, clean)
	}
	return out, nil
}

// Cover reports whether file lies at or below one of the paths, or whether one of the paths lies
// below it.
func (p Paths) Cover(file string) bool {
	for _, at := range p {
		if at == file || strings.HasPrefix(file, at+"/") || strings.HasPrefix(at, file+"/") {
			return true
		}
	}
	return len(p) == 0
}
