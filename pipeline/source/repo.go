// Package source reads a Git repository for a search over its history.
//
// It and the packages below it are all that knows Git. It answers three questions:
//
//   - which commits lie between a good and a bad end ([Repo.Range]), in an
//     order in which parents come before children;
//   - which of them cannot matter, because what the build reads is the same
//     as in every parent (the fingerprint [RangeCommit.Key]);
//   - what differs between two commits ([Repo.Compare]), and which commit has
//     some of it ([Comparison.Compose]); such a commit exists in memory alone.
//
// Package export turns commits into folders that can be built, and package hunks cuts a comparison
// into pieces; this one must not know either.
//
// The user's work tree, index, HEAD and refs are only ever read. Objects come from one of two back
// ends behind one small interface, see package objects. A [Repo] may be used by several goroutines.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
	"github.com/kbisect/kbisect/pipeline/source/internal/inputkey"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
	"github.com/kbisect/kbisect/pipeline/source/internal/synthetic"
	"github.com/kbisect/kbisect/pipeline/source/internal/trees"
)

// ErrNoRepository is what [Open] finds where there is no repository at all.
var ErrNoRepository = objects.ErrNoRepository

// What is wrong with a commit, and not with the machine.
type (
	UnsupportedError = objects.UnsupportedError
	MissingError     = objects.MissingError
)

// Repo is an open repository. It is safe for concurrent use.
type Repo struct {
	warnings  []string
	autocrlf  chan struct{}      // closed once converts is known
	converts  bool               // git would change line endings of this repository
	synthetic *synthetic.Objects // by Comparison.Compose
	held      *trees.Held        // by its exports

	mu   sync.Mutex // guards read
	read *reader
}

// reader finds and reads commits for one goroutine at a time.
type reader struct {
	objects.Repo
	haveGit bool
	known   map[string]Commit // that were read as a whole, by id
	list    *commits.List
}

// Open finds the repository that holds dir, looking upward from it, and chooses the back end that
// can read it.
func Open(dir string) (*Repo, error) {
	l, err := objects.Locate(dir)
	if err != nil {
		return nil, err
	}
	from, warnings, err := objects.Open(l)
	if err != nil {
		return nil, err
	}
	r := &Repo{warnings: warnings, synthetic: synthetic.New(), held: &trees.Held{}}
	from.Objects = synthetic.Overlay{Reader: from.Objects, Made: r.synthetic}
	_, lookErr := exec.LookPath("git")
	r.read = &reader{Repo: from, haveGit: lookErr == nil, known: map[string]Commit{}, list: newList(from.Features)}
	if len(from.Features.Shallow) > 0 {
		r.warnings = append(r.warnings,
			fmt.Sprintf("the clone is shallow: history ends at %d of its commits", len(from.Features.Shallow)))
	}
	if from.Features.Grafts {
		r.warnings = append(r.warnings, "info/grafts is ignored\nhint: git replace --convert-graft-file")
	}
	r.autocrlf = make(chan struct{})
	go func() { // a process takes as long as choosing the first commit
		defer close(r.autocrlf)
		out, err := l.Command(context.Background(), "config", "--get", "core.autocrlf").Output()
		r.converts = err == nil && strings.TrimSpace(string(out)) == "true"
	}()
	return r, nil
}

// Close releases the handles. Exports stay open.
func (r *Repo) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	<-r.autocrlf
	return r.read.Objects.Close()
}

// Backend names what reads the objects: "go-git" or "git".
func (r *Repo) Backend() string { return r.read.Objects.Name() }

// Warnings says what is unusual about the repository.
func (r *Repo) Warnings() []string {
	all := slices.Clone(r.warnings)
	if <-r.autocrlf; r.converts {
		all = append(all, "core.autocrlf is ignored: candidates have the line endings that are committed")
	}
	return all
}

// WorkDir is the root of the user's work tree, "" in a bare repository.
func (r *Repo) WorkDir() string { return r.read.WorkDir }

// CommonDir is the absolute path of the folder with the objects and refs; linked worktrees share
// it.
func (r *Repo) CommonDir() string { return r.read.CommonDir }

// GitDir is the absolute path of the folder with this work tree's HEAD.
func (r *Repo) GitDir() string { return r.read.GitDir }

// Refs lists the branches and tags, those of remotes too, by their short names.
func (r *Repo) Refs() ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.Objects.Refs()
}

// Resolve returns the id of the commit that a revision names, following tags. It fails where there
// is none. One such as HEAD~5000 takes a walk.
func (r *Repo) Resolve(ctx context.Context, rev string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.resolve(ctx, rev)
}

// Inside is what package export reads a repository by: where it lies and what reads its objects,
// what is known of its commits, and the most that any of them has held. Nobody above this folder
// can name these types.
func Inside(r *Repo) (from objects.Repo, list *commits.List, held *trees.Held) {
	return r.read.Repo, r.read.list, r.held
}

// Head returns the id of the commit that is checked out, for which nothing has to be walked.
func Head(r *Repo) (string, error) { return r.Resolve(context.Background(), "HEAD") }

// Commit reads one commit by its full id.
func (r *Repo) Commit(id string) (Commit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.commit(id)
}

// IsAncestor reports whether commit a is reachable from commit b; a commit is its own ancestor.
// Both are full ids.
func (r *Repo) IsAncestor(ctx context.Context, a, b string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, err := r.read.reached(ctx, b, []string{a})
	return found[a] != nil, err
}

// MergeBases returns the best common ancestors of two commits, of which branches that merged each
// other have several: first that on the line of first parents of a, the others from the newest by
// commit date on.
func (r *Repo) MergeBases(ctx context.Context, a, b string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.mergeBases(ctx, a, b)
}

// Range lists good..bad. The ends are revisions. It fails where there is no range: good is not an
// ancestor of bad, or both are one commit.
func (r *Repo) Range(ctx context.Context, good, bad string, opt RangeOptions) (*Range, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	paths, err := ParsePaths(opt.Paths)
	if err != nil {
		return nil, err
	}
	goodID, err := r.read.resolve(ctx, good)
	if err != nil {
		return nil, fmt.Errorf("good end: %w", err)
	}
	badID, err := r.read.resolve(ctx, bad)
	if err != nil {
		return nil, fmt.Errorf("bad end: %w", err)
	}
	if goodID == badID {
		return nil, &emptyRangeError{Commit: goodID}
	}
	for {
		r.read.list.Distrust()
		rng, err := r.read.rangeOf(ctx, goodID, badID, paths, opt.FirstParent)
		if !r.read.list.Wrong() {
			return rng, err
		}
	}
}

// Misled reports that a commit which was read is not what the range rests on: the commit-graph or
// the fingerprints that are kept lie. No commit is exported any more until the range is made again,
// from commits alone.
func Misled(r *Repo) bool { return r.read.list.Wrong() }

// Vouch reads all commits on a shortest way through a range from its bad end down to one of its
// commits, and the inputs of that one and of its parents. It leaves the Repo misled where one of
// them has other parents or inputs.
func Vouch(ctx context.Context, r *Repo, rng *Range, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	children, from := map[int]int{}, len(rng.Commits)-1 // by which each was met
	at := from
	for queue := []int{from}; rng.Commits[at].ID != id; at = queue[0] {
		for _, p := range rng.Commits[at].InRange {
			if _, met := children[p]; !met {
				children[p] = at
				queue = append(queue, p)
			}
		}
		if queue = queue[1:]; len(queue) == 0 {
			return nil
		}
	}
	k := newKeys(r.read.Objects, rng.paths)
	for _, i := range append([]int{at}, rng.Commits[at].InRange...) {
		c, err := r.read.readCommit(rng.Commits[i].ID)
		if err != nil {
			return err
		}
		if key, err := keyOf(k, c.ID, c.Tree); err != nil || rng.Commits[i].Key != "" && rng.Commits[i].Key != key {
			r.read.list.Refuse()
			return cmp.Or(err, k.Drop(keptDir(r.read.Layout)))
		}
	}
	for ; at != from; at = children[at] {
		_, err := r.read.readCommit(rng.Commits[children[at]].ID)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// Key is the input fingerprint of one commit, as RangeCommit.Key.
func (r *Repo) Key(id string, paths []string) (string, error) {
	clean, err := ParsePaths(paths)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.read.commit(id)
	if err != nil {
		return "", err
	}
	key, err := newKeys(r.read.Objects, clean).Of(c.Tree)
	if errors.Is(err, inputkey.ErrMalformed) {
		err = objects.Unreadable("%v", err)
	}
	if err != nil {
		return "", fmt.Errorf("fingerprint of commit %s: %w", objects.Short(id), err)
	}
	return key, nil
}

// Has reports whether a commit holds anything at a path.
func (r *Repo) Has(id, path string) (bool, error) {
	key, err := r.Key(id, []string{path})
	if err != nil {
		return false, err
	}
	nothing := inputkey.New([]string{path}, nil).Empty(len(id))
	return key != nothing, nil
}

// File reads one file of a commit; found is false where the commit has no file at that path. A link
// gives its target.
func (r *Repo) File(id, name string) (data []byte, found bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.read.commit(id)
	if err != nil {
		return nil, false, err
	}
	at := Entry{Mode: objects.ModeTree, ID: c.Tree}
	for _, part := range strings.Split(path.Clean(name), "/") {
		if !at.IsTree() {
			return nil, false, nil
		}
		entries, err := objects.ReadTree(r.read.Objects, at.ID)
		if err != nil {
			return nil, false, fmt.Errorf("read %s of commit %s: %w", name, objects.Short(id), err)
		}
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == part })
		if i < 0 {
			return nil, false, nil
		}
		at = entries[i]
	}
	if at.IsTree() || at.Mode == ModeGitlink {
		return nil, false, nil
	}
	data, err = objects.Read(r.read.Objects, at.ID, "blob")
	if err != nil {
		return nil, false, fmt.Errorf("read %s of commit %s: %w", name, objects.Short(id), err)
	}
	return data, true, nil
}

// resolve returns the id of the commit that a revision names.
func (r *reader) resolve(ctx context.Context, rev string) (string, error) {
	id, err := r.Objects.Resolve(ctx, rev)
	if err == nil && id == "" && r.haveGit && r.Objects.Name() != "git" {
		id, err = r.RevParse(ctx, rev)
	}
	if objects.IsMissing(err) && len(r.Features.Shallow) > 0 { // beyond the border
		return "", r.notFound(rev, "")
	}
	if err != nil {
		return "", fmt.Errorf("revision %q: %w", rev, err)
	}
	if _, steps := splitRev(rev); id == "" && steps != "" && !r.haveGit {
		return "", hint.Add(fmt.Errorf("revision %q: the git program is needed to find it, and there is none", rev),
			"install git and put it on PATH, or give the id of the commit")
	}
	if id == "" {
		return "", r.notFound(rev, "")
	}
	commit, err := objects.Peel(r.Objects, id)
	if err != nil {
		return "", r.notFound(rev, err.Error())
	}
	return commit, nil
}

// notFound explains why a revision or id leads to no commit.
func (r *reader) notFound(rev, reason string) error {
	e := &notFoundError{Rev: rev, Reason: reason, Shallow: len(r.Features.Shallow) > 0}
	if names, err := r.Objects.Refs(); err == nil && !objects.IsID(rev) {
		if base, steps := splitRev(rev); reason == "" && steps != "" {
			if id, err := r.Objects.Resolve(context.Background(), base); err == nil && id != "" { // the name is right
				names = nil
				e.Lacks = base
			}
		}
		if reason == "" { // else there is such a name
			e.Near = nearNames(rev, names)
		}
		e.Empty = rev == "HEAD" && reason == ""
	}
	return e
}

// commit reads one commit by its full id.
func (r *reader) commit(id string) (Commit, error) {
	if c, ok := r.known[id]; ok {
		return c, nil
	}
	c, err := r.readCommit(id)
	if err == nil {
		r.known[id] = c
	}
	return c, err
}

// readCommit reads a commit anew.
func (r *reader) readCommit(id string) (Commit, error) {
	data, n, err := r.object(id)
	if err != nil {
		return Commit{}, err
	}
	c := describe(n, data)
	c.Cut = r.Features.Shallow[id]
	return c, nil
}

// object reads the object of a commit and what walks need of it.
func (r *reader) object(id string) ([]byte, *commits.Node, error) {
	n, data, err := objects.ReadCommit(r.Objects, id)
	if objects.IsMissing(err) {
		return nil, nil, r.notFound(id, err.Error())
	}
	if err == nil {
		err = r.list.Check(id, n.Tree, n.Parents)
	}
	if err == nil && r.Features.Shallow[id] {
		n.Parents = nil
	}
	return data, n, err
}
