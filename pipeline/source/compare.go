package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/synthetic"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// What stands in trees, and what is to change there, as packages objects, trees and synthetic have it.
type (
	Entry      = objects.Entry
	TreeChange = trees.Change
	Edit       = synthetic.Edit
	Synthetic  = synthetic.Commit // of [Comparison.Compose], as data for another process
)

// The modes of an Entry.
const (
	ModeFile    = objects.ModeFile
	ModeExec    = objects.ModeExec
	ModeLink    = objects.ModeLink
	ModeGitlink = objects.ModeGitlink
)

// FileChange is one file that differs between a commit and its first parent.
type FileChange struct {
	Path    string // relative to the root; the new name of a renamed file
	OldPath string // only for renamed files
	// Kind is "added", "deleted", "modified", "renamed" (same content under another name) or "mode"
	// (same content, other kind of file).
	Kind string
}

// ChangedFiles compares a commit with its first parent, a root with the empty tree, sorted by path.
// Only unchanged files count as renamed.
func (r *Repo) ChangedFiles(ctx context.Context, id string) ([]FileChange, error) {
	c, err := r.Commit(id)
	if err != nil {
		return nil, err
	}
	parent := ""
	if len(c.Parents) > 0 {
		parent = c.Parents[0]
	}
	return r.Changes(ctx, parent, id)
}

// Changes lists the files that differ between any two commits, sorted by path; from may be "" for
// the empty tree. Only unchanged files count as renamed.
func (r *Repo) Changes(ctx context.Context, from, to string) ([]FileChange, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.compare(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("changes from %s to %s: %w", objects.Short(from), objects.Short(to), err)
	}
	return fileChanges(c.Changes), nil
}

// fileChanges names the changes, and joins files that only moved.
func fileChanges(changes []TreeChange) []FileChange {
	var out []FileChange
	gone := map[string][]string{} // blob id and mode to deleted paths
	for _, ch := range changes {
		if ch.New == nil {
			key := ch.Old.ID + fmt.Sprint(ch.Old.Mode)
			gone[key] = append(gone[key], ch.Path)
		}
	}
	moved := map[string]bool{}
	for _, ch := range changes {
		switch {
		case ch.New == nil:
		case ch.Old != nil && ch.Old.ID == ch.New.ID:
			out = append(out, FileChange{Path: ch.Path, Kind: "mode"})
		case ch.Old != nil:
			out = append(out, FileChange{Path: ch.Path, Kind: "modified"})
		default:
			fc := FileChange{Path: ch.Path, Kind: "added"}
			key := ch.New.ID + fmt.Sprint(ch.New.Mode)
			if from := gone[key]; len(from) > 0 {
				fc.Kind, fc.OldPath = "renamed", from[0]
				gone[key], moved[from[0]] = from[1:], true
			}
			out = append(out, fc)
		}
	}
	for _, ch := range changes {
		if ch.New == nil && !moved[ch.Path] {
			out = append(out, FileChange{Path: ch.Path, Kind: "deleted"})
		}
	}
	slices.SortFunc(out, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Comparison is two commits side by side, file by file. It stays valid as long as its Repo is open,
// and is safe for concurrent use.
type Comparison struct {
	From, To string // commit ids; From is "" for the empty tree
	Changes  []TreeChange

	repo     *Repo
	fromTree string
}

// Compare lists what differs between two commits, given by their full ids; from may be "" for the
// empty tree. A partial clone fetches what it lacks of both.
func (r *Repo) Compare(ctx context.Context, from, to string) (*Comparison, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, commit := range []string{from, to} {
		if commit == "" {
			continue
		}
		if err := r.read.Objects.Prefetch(ctx, commit); err != nil {
			return nil, err
		}
	}
	return r.compare(ctx, from, to)
}

// CompareTrees is Compare of the names and ids alone: a partial clone fetches no contents.
func CompareTrees(ctx context.Context, r *Repo, from, to string) (*Comparison, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.compare(ctx, from, to)
}

// compare is Compare where r.mu is held and nothing is fetched.
func (r *Repo) compare(ctx context.Context, from, to string) (*Comparison, error) {
	both := &Comparison{From: from, To: to, repo: r}
	if from != "" {
		c, err := r.read.commit(from)
		if err != nil {
			return nil, err
		}
		both.fromTree = c.Tree
	}
	c, err := r.read.commit(to)
	if err != nil {
		return nil, err
	}
	w := trees.NewWalk(ctx, r.read.Layout, trees.Size{})
	err = w.Diff(r.read.Objects, "", both.fromTree, c.Tree, func(ch TreeChange) error {
		both.Changes = append(both.Changes, ch)
		return nil
	})
	return both, err
}

// Blob returns the content of a file or link; ok is false where it is larger than limit bytes or
// not a blob.
func (c *Comparison) Blob(id string, limit int64) (data []byte, ok bool, err error) {
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	kind, size, r, err := c.repo.read.Objects.Open(id)
	if err != nil {
		return nil, false, err
	}
	r.Close()
	if kind != "blob" || size > limit {
		return nil, false, nil
	}
	data, err = objects.Read(c.repo.read.Objects, id, "blob")
	return data, err == nil, err
}

// Compose returns a commit that has the files of From after edits, and From as its parent. It
// exists in memory alone, but its id serves like that of any commit in the methods of the Repo, and
// in an export of it, as long as the Repo is open. Equal files give equal ids.
func (c *Comparison) Compose(edits []Edit) (string, error) {
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	id, err := synthetic.Compose(c.repo.read.Objects, c.repo.synthetic, c.fromTree, c.From, c.To, edits)
	if err != nil {
		return "", fmt.Errorf("compose a commit between %s and %s: %w", objects.Short(c.From), objects.Short(c.To), err)
	}
	return id, nil
}

// SyntheticOf is a commit of [Comparison.Compose]; ok is false for one that the repository holds.
func SyntheticOf(r *Repo, commit string) (Synthetic, bool) { return r.synthetic.Pack(commit) }

// Adopt makes a commit of another process known to a repository that holds what it was made from.
func Adopt(r *Repo, m Synthetic) error { return r.synthetic.Unpack(m) }
