package source

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Repo is an open repository. It is safe for concurrent use.
type Repo struct {
	layout
	feat     features
	warnings []string
	haveGit  bool

	made *madeObjects // by Diff.Apply

	mu   sync.Mutex // guards objs and hist
	objs objects
	hist *history
}

// Commit is one commit as its object says.
type Commit struct {
	ID      string   // full id in hex
	Parents []string // ids, none for a root or at the border of a shallow clone
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
	r := &Repo{layout: l, feat: feat, made: newMadeObjects()}
	_, lookErr := exec.LookPath("git")
	r.haveGit = lookErr == nil
	objs, warnings, err := openObjects(l, feat)
	if err != nil {
		return nil, fmt.Errorf("open repository %s: %w", l.commonDir, err)
	}
	r.objs, r.warnings = overlay{objs, r.made}, warnings
	if len(feat.shallow) > 0 {
		r.warnings = append(r.warnings, fmt.Sprintf("the clone is shallow: history ends at %d of its commits", len(feat.shallow)))
	}
	if feat.grafts {
		r.warnings = append(r.warnings, "info/grafts is ignored\nhint: git replace --convert-graft-file")
	}
	r.hist = newHistory(objs, l, feat)
	if out, err := l.command("config", "--get", "core.autocrlf").Output(); err == nil && strings.TrimSpace(string(out)) == "true" {
		r.warnings = append(r.warnings, "core.autocrlf is not followed: candidates have the line ends that are committed")
	}
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
			// Readable, but the replacements stay unseen.
			if g, err := openGoGit(l); err == nil && probe(g) == nil {
				return g, []string{"replace refs are ignored because the git program was not found\nhint: install git"}, nil
			}
		}
		return nil, nil, fmt.Errorf("the git program is needed to read it because %s, and none was found\nhint: install git and put it on PATH", reason)
	}
	if _, err := runGit(l, nil, "rev-parse", "--git-dir"); err != nil {
		return nil, nil, err
	}
	g, err := openGitCmd(l, feat.partial)
	if err != nil {
		return nil, nil, err
	}
	warnings = append(warnings, "read through the git program because "+reason)
	return g, warnings, nil
}

// probe reads the commit at HEAD, its tree and its references. An unborn HEAD
// is no fault.
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
	return r.objs.close()
}

// Backend names what reads the objects: "go-git" or "git".
func (r *Repo) Backend() string { return r.objs.name() }

// Warnings says what is unusual about the repository.
func (r *Repo) Warnings() []string { return append([]string(nil), r.warnings...) }

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
	return r.objs.refs()
}

// Resolve returns the id of the commit that a revision names, following
// tags. It fails with a *NotFoundError when there is none.
func (r *Repo) Resolve(rev string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resolve(rev)
}

func (r *Repo) resolve(rev string) (string, error) {
	id, err := r.objs.resolve(rev)
	if err == nil && id == "" && r.haveGit && r.objs.name() != "git" {
		id, err = gitRevParse(r.layout, rev)
	}
	if isMissing(err) && len(r.feat.shallow) > 0 { // beyond the border
		return "", r.notFound(rev, "")
	}
	if err != nil {
		return "", fmt.Errorf("revision %q: %w", rev, err)
	}
	if id == "" {
		return "", r.notFound(rev, "")
	}
	commit, err := peel(r.objs, id)
	if isMissing(err) {
		return "", r.notFound(rev, err.Error())
	}
	if err != nil {
		return "", r.notFound(rev, err.Error())
	}
	return commit, nil
}

func (r *Repo) notFound(rev, reason string) error {
	e := &NotFoundError{Rev: rev, Reason: reason, Shallow: len(r.feat.shallow) > 0}
	if names, err := r.objs.refs(); err == nil && !isFullID(rev) {
		if base, steps := splitRev(rev); reason == "" && len(steps) > 0 {
			if id, err := r.objs.resolve(base); err == nil && id != "" { // the name is right
				names = nil
				e.Lacks = base
			}
		}
		e.Near = nearNames(rev, names)
		e.Empty = rev == "HEAD" && reason == ""
	}
	return e
}

// Commit reads one commit by its full id.
func (r *Repo) Commit(id string) (Commit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commit(id)
}

func (r *Repo) commit(id string) (Commit, error) {
	c, err := readCommit(r.objs, id)
	if isMissing(err) {
		return Commit{}, r.notFound(id, err.Error())
	}
	if r.feat.shallow[id] {
		c.Parents = nil
	}
	return c, err
}

// IsAncestor reports whether commit a is reachable from commit b; a commit is
// its own ancestor. Both are full ids.
func (r *Repo) IsAncestor(a, b string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hist.reaches(context.Background(), b, a)
}

// MergeBase returns a best common ancestor of two commits, "" when there is
// none. Of several, the newest by commit date is returned.
func (r *Repo) MergeBase(a, b string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hist.mergeBase(context.Background(), a, b)
}
