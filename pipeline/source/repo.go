// Package source reads a Git repository for a search over its history, and
// turns commits into folders that can be built.
//
// It is the only package that knows Git. It answers four questions:
//
//   - which commits lie between a good and a bad end ([Repo.Range]), in an
//     order in which parents come before children;
//   - which of them cannot matter, because what the build reads is the same
//     as in every parent (the fingerprint [RangeCommit.Key]);
//   - how one commit's files look on disk ([Export]): a private folder, the
//     slot, is moved from tree to tree by touching only what differs;
//   - what differs between two commits ([Repo.Compare]), and which commit has
//     some of it ([Comparison.Compose]); such a commit exists in memory alone.
//     Package hunks builds on this.
//
// The user's work tree, index, HEAD and refs are only ever read. Objects come
// from one of two back ends behind one small interface: package packs with the
// go-git library, which all exports of a Repo share, or a long-lived "git
// cat-file --batch" an export for the kinds of repository these cannot read
// (SHA-256, reftable, partial clones). Everything above that interface is
// written once.
//
// A [Repo] may be used by several goroutines; an [Export] belongs to one at a
// time.
package source

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
	"github.com/kbisect/kbisect/pipeline/source/internal/inputs"
	"github.com/kbisect/kbisect/pipeline/source/internal/made"
)

// Repo is an open repository. It is safe for concurrent use.
type Repo struct {
	layout
	feat     features
	warnings []string
	autocrlf chan struct{} // closed once converts is known
	converts bool          // git would change line endings of this repository
	made     *made.Objects // by Comparison.Compose
	held     *knownSize    // by its exports

	mu   sync.Mutex // guards read
	read *reader
}

// reader finds and reads commits for one goroutine at a time.
type reader struct {
	layout
	feat    features
	objs    objects
	haveGit bool
	known   map[string]Commit // that were read as a whole, by id
	list    *commits.List
}

// Commit is one commit as its object says.
type Commit struct {
	ID      string   // full id in hex
	Parents []string // ids, none for a root or where it is cut
	Cut     bool     // the clone is shallow and ends here
	Tree    string   // id of the root tree
	Author  string
	Email   string
	When    time.Time // the author's date
	Subject string    // first paragraph of the message on one line
}

// Open finds the repository that holds dir, looking upward from it, and
// chooses the back end that can read it.
func Open(dir string) (*Repo, error) {
	l, err := locate(dir)
	if err != nil {
		return nil, err
	}
	feat, err := inspect(l)
	if err != nil {
		return nil, err
	}
	r := &Repo{layout: l, feat: feat, made: made.New(), held: &knownSize{}}
	objs, warnings, err := openObjects(l, feat)
	if err != nil {
		return nil, fmt.Errorf("open repository %s: %w", l.commonDir, err)
	}
	r.warnings = warnings
	_, lookErr := exec.LookPath("git")
	r.read = &reader{layout: l, feat: feat, objs: overlay{objs, r.made}, haveGit: lookErr == nil, known: map[string]Commit{}, list: newList(feat)}
	if len(feat.shallow) > 0 {
		r.warnings = append(r.warnings, fmt.Sprintf("the clone is shallow: history ends at %d of its commits", len(feat.shallow)))
	}
	if feat.grafts {
		r.warnings = append(r.warnings, "info/grafts is ignored\nhint: git replace --convert-graft-file")
	}
	r.autocrlf = make(chan struct{})
	go func() { // a process takes as long as choosing the first commit
		defer close(r.autocrlf)
		out, err := l.command(context.Background(), "config", "--get", "core.autocrlf").Output()
		r.converts = err == nil && strings.TrimSpace(string(out)) == "true"
	}()
	return r, nil
}

// openObjects chooses by probing: go-git unless the repository's features or
// a failed first read ask for git.
func openObjects(l layout, feat features) (objects, []string, error) {
	var warnings []string
	reason := feat.needGit
	if reason == "" {
		g, err := openGoGit(l)
		if err == nil {
			if err = probe(g); err == nil {
				return g, nil, nil
			}
			g.close()
		}
		reason = fmt.Sprintf("go-git cannot read it (%v)", err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		if feat.replace && !feat.partial {
			// It can be read, but replacements are ignored.
			if g, err := openGoGit(l); err == nil && probe(g) == nil {
				return g, []string{"replace refs are ignored because the git program was not found\nhint: install git"}, nil
			}
		}
		return nil, nil, hint.Add(fmt.Errorf("the git program is needed to read it because %s, and none was found", reason), "install git and put it on PATH")
	}
	if _, err := runGit(context.Background(), l, nil, "rev-parse", "--git-dir"); err != nil {
		return nil, nil, err
	}
	g, err := openGitCmd(l, feat)
	if err != nil {
		return nil, nil, err
	}
	warnings = append(warnings, "read through the git program because "+reason)
	return g, warnings, nil
}

// probe reads the commit at HEAD, its tree and its references. An unborn HEAD
// is not an error.
func probe(g *gogit) error {
	id, err := g.ref("HEAD")
	if err != nil || id == "" {
		return err
	}
	c, err := readCommit(g, id)
	if err != nil {
		return err
	}
	_, err = readTree(g, c.Tree)
	return err
}

// Close releases the handles. Exports stay open.
func (r *Repo) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	<-r.autocrlf
	return r.read.objs.close()
}

// Backend names what reads the objects: "go-git" or "git".
func (r *Repo) Backend() string { return r.read.objs.name() }

// Warnings says what is unusual about the repository.
func (r *Repo) Warnings() []string {
	all := slices.Clone(r.warnings)
	if <-r.autocrlf; r.converts {
		all = append(all, "core.autocrlf is ignored: candidates have the line endings that are committed")
	}
	return all
}

// WorkDir is the root of the user's work tree, "" in a bare repository.
func (r *Repo) WorkDir() string { return r.workDir }

// CommonDir is the absolute path of the folder with the objects and refs;
// linked worktrees share it.
func (r *Repo) CommonDir() string { return r.commonDir }

// GitDir is the absolute path of the folder with this work tree's HEAD.
func (r *Repo) GitDir() string { return r.gitDir }

// Refs lists the branches and tags, those of remotes too, by their short names.
func (r *Repo) Refs() ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.objs.refs()
}

// Digest is equal for two moments in which an export of the same commit holds the same: tags, attributes and the
// configuration of filters are. Branches and remotes do not count.
func Digest(ctx context.Context, r *Repo) (string, error) {
	dir, err := newHandle(r.layout, r.feat, nil, nil).readGit(ctx)
	if err != nil {
		return "", fmt.Errorf("read the settings of %s: %w", r.commonDir, err)
	}
	sum, counts := sha256.New(), true
	config, _ := os.ReadFile(filepath.Join(r.commonDir, "config")) // it was read when the repository was opened
	for line := range bytes.Lines(config) {
		if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("[")) {
			counts = !bytes.HasPrefix(line, []byte("[branch ")) && !bytes.HasPrefix(line, []byte("[remote "))
		}
		if counts {
			fmt.Fprintf(sum, "%s\n", line)
		}
	}
	fmt.Fprintln(sum, dir.Digest())
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Resolve returns the id of the commit that a revision names, following
// tags. It fails where there is none. One such as HEAD~5000 takes a walk.
func (r *Repo) Resolve(ctx context.Context, rev string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.resolve(ctx, rev)
}

// Head returns the id of the commit that is checked out, for which nothing has to be walked.
func Head(r *Repo) (string, error) { return r.Resolve(context.Background(), "HEAD") }

// Commit reads one commit by its full id.
func (r *Repo) Commit(id string) (Commit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.commit(id)
}

// IsAncestor reports whether commit a is reachable from commit b; a commit is
// its own ancestor. Both are full ids.
func (r *Repo) IsAncestor(ctx context.Context, a, b string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, err := r.read.reached(ctx, b, []string{a})
	return found[a] != nil, err
}

// MergeBases returns the best common ancestors of two commits, of which branches that merged each other have several: first
// that on the line of first parents of a, the others from the newest by commit date on.
func (r *Repo) MergeBases(ctx context.Context, a, b string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.mergeBases(ctx, a, b)
}

// Range lists good..bad. The ends are revisions. It fails where there
// is no range: good is not an ancestor of bad, or both are one commit.
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

// Misled reports that a commit which was read is not what the range rests on: the commit-graph or the fingerprints that are
// kept lie. No commit is exported any more until the range is made again, from commits alone.
func Misled(r *Repo) bool { return r.read.list.Wrong() }

// Vouch reads all commits on a shortest way through a range from its bad end down to one of its commits, and the inputs of
// that one and of its parents. It leaves the Repo misled where one of them has other parents or inputs.
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
	k := newKeys(r.read.objs, rng.paths)
	for _, i := range append([]int{at}, rng.Commits[at].InRange...) {
		c, err := r.read.readCommit(rng.Commits[i].ID)
		if err != nil {
			return err
		}
		if key, err := keyOf(k, c.ID, c.Tree); err != nil || rng.Commits[i].Key != "" && rng.Commits[i].Key != key {
			r.read.list.Refuse()
			return cmp.Or(err, k.Drop(keptDir(r.layout)))
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
	key, err := newKeys(r.read.objs, clean).Of(c.Tree)
	if errors.Is(err, inputs.ErrMalformed) {
		err = unreadable("%v", err)
	}
	if err != nil {
		return "", fmt.Errorf("fingerprint of commit %s: %w", short(id), err)
	}
	return key, nil
}

// Has reports whether a commit holds anything at a path.
func (r *Repo) Has(id, path string) (bool, error) {
	key, err := r.Key(id, []string{path})
	if err != nil {
		return false, err
	}
	nothing := inputs.New([]string{path}, nil).Empty(len(id))
	return key != nothing, nil
}

// File reads one file of a commit; found is false where the commit has no file at that path. A link gives
// its target.
func (r *Repo) File(id, name string) (data []byte, found bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.read.commit(id)
	if err != nil {
		return nil, false, err
	}
	at := Entry{Mode: modeTree, ID: c.Tree}
	for _, part := range strings.Split(path.Clean(name), "/") {
		if !at.isTree() {
			return nil, false, nil
		}
		entries, err := readTree(r.read.objs, at.ID)
		if err != nil {
			return nil, false, fmt.Errorf("read %s of commit %s: %w", name, short(id), err)
		}
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.name == part })
		if i < 0 {
			return nil, false, nil
		}
		at = entries[i]
	}
	if at.isTree() || at.Mode == ModeGitlink {
		return nil, false, nil
	}
	data, err = readObject(r.read.objs, at.ID, "blob")
	if err != nil {
		return nil, false, fmt.Errorf("read %s of commit %s: %w", name, short(id), err)
	}
	return data, true, nil
}

// resolve returns the id of the commit that a revision names.
func (r *reader) resolve(ctx context.Context, rev string) (string, error) {
	id, err := r.objs.resolve(ctx, rev)
	if err == nil && id == "" && r.haveGit && r.objs.name() != "git" {
		id, err = gitRevParse(ctx, r.layout, rev)
	}
	if isMissing(err) && len(r.feat.shallow) > 0 { // beyond the border
		return "", r.notFound(rev, "")
	}
	if err != nil {
		return "", fmt.Errorf("revision %q: %w", rev, err)
	}
	if _, steps := splitRev(rev); id == "" && steps != "" && !r.haveGit {
		return "", hint.Add(fmt.Errorf("revision %q: the git program is needed to find it, and there is none", rev), "install git and put it on PATH, or give the id of the commit")
	}
	if id == "" {
		return "", r.notFound(rev, "")
	}
	commit, err := peel(r.objs, id)
	if err != nil {
		return "", r.notFound(rev, err.Error())
	}
	return commit, nil
}

// notFound explains why a revision or id leads to no commit.
func (r *reader) notFound(rev, reason string) error {
	e := &notFoundError{Rev: rev, Reason: reason, Shallow: len(r.feat.shallow) > 0}
	if names, err := r.objs.refs(); err == nil && !isFullID(rev) {
		if base, steps := splitRev(rev); reason == "" && steps != "" {
			if id, err := r.objs.resolve(context.Background(), base); err == nil && id != "" { // the name is right
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
	c.Cut = r.feat.shallow[id]
	return c, nil
}

// object reads the object of a commit and what walks need of it.
func (r *reader) object(id string) ([]byte, *commits.Node, error) {
	data, err := readObject(r.objs, id, "commit")
	if isMissing(err) {
		return nil, nil, r.notFound(id, err.Error())
	}
	if err != nil {
		return nil, nil, err
	}
	n, err := parseNode(id, data)
	if err == nil {
		err = r.list.Check(id, n.Tree, n.Parents)
	}
	if err == nil && r.feat.shallow[id] {
		n.Parents = nil
	}
	return data, n, err
}

// notFoundError says that a revision is not a commit of the repository.
type notFoundError struct {
	Rev     string
	Near    []string // branches and tags with similar names
	Shallow bool     // the commit may lie beyond the border of a shallow clone
	Reason  string   // more about it, or ""
	Lacks   string   // the name that exists without the ancestor asked for, or ""
	Empty   bool     // there are no commits yet
}

func (e *notFoundError) Error() string {
	if e.Empty {
		return "this repository has no commits yet\nhint: a search needs at least two"
	}
	msg := fmt.Sprintf("unknown revision %q", e.Rev)
	if e.Reason != "" {
		msg = fmt.Sprintf("revision %q: %s", e.Rev, e.Reason)
	}
	if e.Lacks != "" && !e.Shallow {
		return fmt.Sprintf("%s: %s has no such ancestor\nhint: git log --oneline %[2]s lists its ancestors", msg, e.Lacks)
	}
	if len(e.Near) > 0 {
		msg += "\nhint: did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	if e.Reason == "" && len(e.Near) == 0 && !e.Shallow {
		msg += "\nhint: git log --oneline lists commits; git tag and git branch list names"
	}
	if e.Shallow {
		msg += "\nhint: this clone is shallow; git fetch --unshallow (or git fetch --deepen=1000) brings older commits"
	}
	return msg
}
