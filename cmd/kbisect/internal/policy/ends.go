package policy

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Ends completes a policy for its commits: which they are, what of the repository their build and run read, and the
// names that files had in older commits. It changes the policy.
type Ends struct {
	p    *Policy
	repo *source.Repo
}

// EndsOf returns the ends of p, whose commits are in repo.
func EndsOf(p *Policy, repo *source.Repo) Ends { return Ends{p, repo} }

// FlagEnds resolves what a search over flags is about: one commit, which becomes both ends, and the flags of the
// configuration. All errors are usage errors.
func (e Ends) FlagEnds(ctx context.Context, q *Request) (err error) {
	if len(e.p.Flags) == 0 {
		return exit.Usagef("--axis flags: there are no flags to search\nhint: name the switches of the project in %s, one [[flag]] each, the safe value first", config.FileName)
	}
	if q.GoodSet {
		return exit.Usagef("--axis flags searches the flags of one commit, --bad REV (default HEAD), and takes no --good\nhint: kbisect run --good REV searches the commits")
	}
	if e.p.Bad, err = e.repo.Resolve(ctx, q.Bad); err != nil {
		return exit.Usagef("--bad: %w", err)
	}
	e.p.Good = e.p.Bad
	_, err = config.FlagSpace(e.p.Flags)
	return exit.Usage(err)
}

// HunkEnds resolves between which commits hunks are searched: --commit and its first parent, or --good and --bad. All
// errors are usage errors; a commit without a parent is one.
func (e Ends) HunkEnds(ctx context.Context, q *Request) (err error) {
	if q.Commit == "" {
		if q.Good == "" {
			return exit.Usagef("--axis hunks needs --commit REV, or --good REV and --bad REV")
		}
		if e.p.Bad, err = e.repo.Resolve(ctx, q.Bad); err != nil {
			return exit.Usagef("--bad: %w", err)
		}
		if e.p.Good, err = e.repo.Resolve(ctx, q.Good); err != nil {
			return exit.Usagef("--good: %w", err)
		}
		return e.Check(ctx)
	}
	if q.GoodSet || q.BadSet {
		return exit.Usagef("--commit already names both ends, the commit and its first parent; remove --good and --bad")
	}
	if e.p.Bad, err = e.repo.Resolve(ctx, q.Commit); err != nil {
		return exit.Usagef("--commit: %w", err)
	}
	commit, err := e.repo.Commit(e.p.Bad)
	if err != nil {
		return exit.Usage(err)
	}
	if len(commit.Parents) == 0 {
		return exit.Usagef("--commit %s is the first commit and has no parent to compare with", bisect.ShortID(e.p.Bad))
	}
	e.p.Good = commit.Parents[0]
	return e.Check(ctx)
}

// CheckPaths adds the headers that the sources of the ends include to the paths, and then checks the paths as
// [Ends.CheckNamed] does.
func (e Ends) CheckPaths() error {
	e.AddHeaders(e.p.Good, e.p.Bad)
	return e.CheckNamed()
}

// CheckNamed refuses a path that is in neither end: with a misspelt path every commit would look equal to its
// parent, and nothing would be tested.
func (e Ends) CheckNamed() error {
	for _, name := range e.p.Paths {
		if e.brings(name) || e.follows(name) {
			continue
		}
		held := false
		for _, end := range []string{e.p.Good, e.p.Bad} {
			has, err := e.repo.Has(end, name)
			if err != nil {
				return exit.Usage(err)
			}
			held = held || has
		}
		if !held {
			return exit.Usagef("path %q is in neither end\nhint: paths and --path are relative to the top of the repository", name)
		}
	}
	return e.checkScripts()
}

// brings reports whether every candidate is given a file at the path, whatever its commit holds.
func (e Ends) brings(name string) bool {
	return slices.ContainsFunc(e.p.Plan.Files, func(f kernels.File) bool {
		return f.Source == "" && path.Join(e.p.Plan.Dir, f.Name) == path.Clean(name)
	})
}

// checkScripts refuses a good end (for two revisions, the first) that lacks a script or source named by the plan: it
// cannot be good. The bad end may lack it, since that may be the fault that is searched for. Without this check the
// search would build and launch both ends before it failed.
func (e Ends) checkScripts() error {
	if e.p.Good == "" || e.p.OwnScripts {
		return nil
	}
	for _, name := range e.p.Scripts {
		if e.brings(name) || e.follows(name) {
			continue
		}
		held, err := e.repo.Has(e.p.Good, name)
		if err != nil || held {
			continue // what needs the commit reports that it cannot be read
		}
		hint := "is " + name + " relative to the top of the repository?"
		if st, err := os.Stat(filepath.Join(e.repo.WorkDir(), filepath.FromSlash(name))); e.repo.WorkDir() != "" && err == nil && st.Mode().IsRegular() {
			hint = fmt.Sprintf("the work tree has it: [run] files = [%q] copies it into every candidate", name)
		}
		return exit.Usagef("%s does not hold %s\nhint: %s", bisect.ShortID(e.p.Good), name, hint)
	}
	return nil
}
