package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
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
	// Warnings say what may be missing, such as the history before a shallow clone.
	Warnings []string
}

// RangeCommit is one commit of a range.
type RangeCommit struct {
	ID      string   // full id in hex
	Parents []string // ids, none for a root
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

// rangeOf is a range between two commits.
func (r *reader) rangeOf(ctx context.Context, good, bad string, paths []string, firstParent bool) (*Range, error) {
	list, err := r.between(ctx, good, bad, firstParent)
	if err != nil {
		return nil, err
	}
	return r.newRange(ctx, good, list, paths, firstParent)
}

// newRange reads the commits of a range and computes their fingerprints.
func (r *reader) newRange(ctx context.Context, good string, list []*commits.Node, paths []string, firstParent bool) (*Range, error) {
	k := &commitKeys{read: r, keyer: newKeyer(r.objs, paths), known: make(map[string]string, len(list))}
	rng := &Range{Commits: make([]RangeCommit, 0, len(list))}
	var err error
	if rng.Good, err = r.commit(good); err != nil {
		return nil, err
	}
	if rng.GoodKey, err = k.of(good); err != nil {
		return nil, err
	}
	index := make(map[string]int, len(list))
	cut := 0
	for i, c := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rc, err := k.rangeCommit(c, index, firstParent)
		if err != nil {
			return nil, err
		}
		if r.feat.shallow[c.ID] {
			cut++
		}
		index[c.ID] = i
		rng.Commits = append(rng.Commits, rc)
	}
	if cut > 0 {
		rng.Warnings = append(rng.Warnings, fmt.Sprintf("commits in the range without their parents, because the clone is shallow: %d\nhint: git fetch --unshallow", cut))
	}
	rng.Bad, err = r.commit(list[len(list)-1].ID)
	return rng, err
}

// commitKeys remembers the fingerprints of commits, of the range and of its
// border.
type commitKeys struct {
	read  *reader
	keyer *keyer
	known map[string]string
}

func (k *commitKeys) of(id string) (string, error) {
	if key, ok := k.known[id]; ok {
		return key, nil
	}
	c := k.read.list.Listed(id)
	if c == nil {
		var err error
		if c, err = k.read.node(id); err != nil {
			return "", err
		}
	}
	return k.ofCommit(c)
}

func (k *commitKeys) ofCommit(c *commits.Node) (string, error) {
	key, err := k.keyer.key(c.Tree)
	if unsupported := (*UnsupportedError)(nil); errors.As(err, &unsupported) {
		key, err = "unreadable "+c.Tree, nil // like no other; it is set aside when it is exported
	}
	if err != nil {
		return "", fmt.Errorf("fingerprint of commit %s: %w", short(c.ID), err)
	}
	k.known[c.ID] = key
	return key, nil
}

// rangeCommit completes one commit; index has the place of those before it.
func (k *commitKeys) rangeCommit(c *commits.Node, index map[string]int, firstParent bool) (rc RangeCommit, err error) {
	rc = RangeCommit{ID: c.ID, Parents: c.Parents}
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

// neutral is RangeCommit.Neutral.
func (k *commitKeys) neutral(rc RangeCommit, parents []string) (bool, error) {
	if k.read.feat.shallow[rc.ID] {
		return false, nil
	}
	for _, p := range parents {
		key, err := k.of(p)
		if err != nil || key != rc.Key {
			return false, err
		}
	}
	if len(parents) == 0 {
		return rc.Key == k.keyer.empty(len(rc.ID)), nil
	}
	return true, nil
}

// pathNode is one folder or file on the way to the chosen paths.
type pathNode struct {
	wanted bool // this path itself is chosen, with all below it
	kids   map[string]*pathNode
	order  []string // names of kids, sorted
}

// Paths are files and folders relative to the root of a repository, cleaned.
// None cover everything.
type Paths []string

// ParsePaths cleans the chosen paths; the result is empty when they cover
// the whole tree.
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

// Cover reports whether file lies at or below one of the paths, or whether
// one of the paths lies below it.
func (p Paths) Cover(file string) bool {
	for _, at := range p {
		if at == file || strings.HasPrefix(file, at+"/") || strings.HasPrefix(at, file+"/") {
			return true
		}
	}
	return len(p) == 0
}

// keyer computes input fingerprints of trees.
type keyer struct {
	objs objects
	root *pathNode // nil: the whole tree
	memo map[keyMemo]string
}

type keyMemo struct {
	tree string
	node *pathNode
}

func newKeyer(o objects, paths []string) *keyer {
	k := &keyer{objs: o, memo: map[keyMemo]string{}}
	for _, p := range paths {
		if k.root == nil {
			k.root = &pathNode{}
		}
		k.root.add(strings.Split(p, "/"))
	}
	return k
}

func (n *pathNode) add(names []string) {
	if len(names) == 0 {
		n.wanted = true
		return
	}
	kid := n.kids[names[0]]
	if kid == nil {
		kid = &pathNode{}
		if n.kids == nil {
			n.kids = map[string]*pathNode{}
		}
		n.kids[names[0]] = kid
		n.order = append(n.order, names[0])
		slices.Sort(n.order)
	}
	kid.add(names[1:])
}

// key is the tree's id without paths, else a hash over the entries at the
// paths. An absent path contributes nothing.
func (k *keyer) key(tree string) (string, error) {
	if k.root == nil {
		return tree, nil
	}
	lines, err := k.lines(tree, "", k.root)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(lines))
	return hex.EncodeToString(sum[:]), nil
}

// lines lists the chosen entries below one tree. Results are remembered:
// neighbouring commits share most subtrees.
func (k *keyer) lines(tree, dir string, n *pathNode) (string, error) {
	memo := keyMemo{tree, n}
	if s, ok := k.memo[memo]; ok {
		return s, nil
	}
	entries, err := readTree(k.objs, tree)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range n.order {
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.name == name })
		if i < 0 {
			continue
		}
		e, kid, full := entries[i], n.kids[name], path.Join(dir, name)
		switch {
		case kid.wanted, e.Mode == ModeGitlink: // a pin stands for all in the submodule
			fmt.Fprintf(&b, "%q %o %s\n", full, e.Mode, e.ID)
		case e.isTree():
			sub, err := k.lines(e.ID, full, kid)
			if err != nil {
				return "", err
			}
			b.WriteString(sub)
		}
	}
	k.memo[memo] = b.String()
	return b.String(), nil
}

// empty is the key of a tree that holds nothing; idLen is the length of an id
// in hex digits.
func (k *keyer) empty(idLen int) string {
	sum := sha256.Sum256(nil)
	switch {
	case k.root != nil:
		return hex.EncodeToString(sum[:])
	case idLen == 64:
		sum = sha256.Sum256([]byte("tree 0\x00"))
		return hex.EncodeToString(sum[:])
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}

// notAncestorError says that the good end is not an ancestor of the bad one,
// so that there is no range between them.
type notAncestorError struct {
	Good, Bad string // commit ids
	MergeBase string // the best common ancestor, "" when there is none
	Shallow   bool   // the history is cut, so the answer may be wrong
}

func (e *notAncestorError) Error() string {
	msg := fmt.Sprintf("good commit %s is not an ancestor of bad commit %s", short(e.Good), short(e.Bad))
	switch {
	case e.Shallow:
		return msg + " in this shallow clone\nhint: git fetch --unshallow (or git fetch --deepen=1000), then try again"
	case e.MergeBase == e.Bad && e.Bad != "":
		return msg + "; it is a descendant of it\nhint: are the two ends swapped?"
	case e.MergeBase != "":
		return fmt.Sprintf("%s\nhint: use their merge base as the good end: --good %s", msg, e.MergeBase)
	}
	return msg + "; they have no common history\nhint: choose two commits of one history"
}

// emptyRangeError says that both ends are the same commit.
type emptyRangeError struct {
	Commit string // commit id
}

func (e *emptyRangeError) Error() string {
	return fmt.Sprintf("good and bad are the same commit %s\nhint: name an older commit that is still good", short(e.Commit))
}
