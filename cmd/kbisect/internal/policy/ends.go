package policy

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// ends prepares a policy for the commits that it is about: which they are, what of the repository their
// build and run read, and the names that files had in older commits.
type ends struct {
	p    *Policy
	repo *source.Repo
}

// EndsOf is for a policy and the repository of its commits.
func EndsOf(p *Policy, repo *source.Repo) ends { return ends{p, repo} }

// FlagEnds reads what a search over flags is about: one commit, and the flags of the configuration.
func (r ends) FlagEnds(q *Request) (err error) {
	if len(r.p.Flags) == 0 {
		return exit.Usagef("--axis flags: there are no flags to search\nhint: name the switches of the project in %s, one [[flag]] each, the safe value first", config.FileName)
	}
	if q.GoodSet {
		return exit.Usagef("--axis flags searches the switches of one commit, --bad REV (default HEAD); --good does not belong to it\nhint: kbisect run --good REV searches the commits")
	}
	if r.p.Bad, err = r.repo.Resolve(q.Bad); err != nil {
		return exit.Usagef("--bad: %w", err)
	}
	r.p.Good = r.p.Bad
	_, err = config.FlagSpace(r.p.Flags)
	return exit.Usage(err)
}

// HunkEnds reads between which commits hunks are searched: a commit and its first parent, or any two.
func (r ends) HunkEnds(ctx context.Context, q *Request) (err error) {
	if q.Commit == "" {
		if q.Good == "" {
			return exit.Usagef("--axis hunks needs --commit REV, whose changes are searched, or --good REV and --bad REV")
		}
		if r.p.Bad, err = r.repo.Resolve(q.Bad); err != nil {
			return exit.Usagef("--bad: %w", err)
		}
		if r.p.Good, err = r.repo.Resolve(q.Good); err != nil {
			return exit.Usagef("--good: %w", err)
		}
		return r.Check(ctx)
	}
	if q.GoodSet || q.BadSet {
		return exit.Usagef("--commit names both ends, the commit and its first parent: --good and --bad do not belong to it")
	}
	if r.p.Bad, err = r.repo.Resolve(q.Commit); err != nil {
		return exit.Usagef("--commit: %w", err)
	}
	commit, err := r.repo.Commit(r.p.Bad)
	if err != nil {
		return exit.Usage(err)
	}
	if len(commit.Parents) == 0 {
		return exit.Usagef("--commit %s is the first commit: there is nothing before it to compare with", wording.Short(r.p.Bad))
	}
	r.p.Good = commit.Parents[0]
	return r.Check(ctx)
}

// CheckPaths completes the paths by what the sources of the ends include, and checks those that were named.
func (r ends) CheckPaths() error {
	r.AddHeaders(r.p.Good, r.p.Bad)
	return r.CheckNamed()
}

// CheckNamed refuses a path that neither end holds: by a slip in one, every commit would look equal.
func (r ends) CheckNamed() error {
	for _, name := range r.p.Paths {
		if r.brings(name) || r.follows(name) {
			continue
		}
		inGood, err := r.repo.Has(r.p.Good, name)
		if err != nil {
			return exit.Usage(err)
		}
		inBad, err := r.repo.Has(r.p.Bad, name)
		if err != nil {
			return exit.Usage(err)
		}
		if !inGood && !inBad {
			return exit.Usagef("path %q: neither end holds it\nhint: paths and --path count from the top of the repository", name)
		}
	}
	return r.checkScripts()
}

// brings reports whether every candidate gets a file at the path.
func (r ends) brings(name string) bool {
	return slices.ContainsFunc(r.p.Plan.Files, func(f kernels.File) bool {
		return f.Source == "" && path.Join(r.p.Plan.Dir, f.Name) == path.Clean(name)
	})
}

// checkScripts refuses a good end, or the first of two revisions, without a script or a source that the
// plan names: it cannot be good.
func (r ends) checkScripts() error {
	if r.p.Good == "" || r.p.OwnScripts {
		return nil
	}
	for _, name := range r.p.Scripts {
		if r.brings(name) || r.follows(name) {
			continue
		}
		held, err := r.repo.Has(r.p.Good, name)
		if err != nil || held {
			continue // a commit that cannot be read is told by what needs it
		}
		hint := "is " + name + " written from the top of the repository?"
		if st, err := os.Stat(filepath.Join(r.repo.WorkDir(), filepath.FromSlash(name))); r.repo.WorkDir() != "" && err == nil && st.Mode().IsRegular() {
			hint = fmt.Sprintf("the work tree has one: [run] files = [%q] puts it into every candidate", name)
		}
		return exit.Usagef("%s does not hold %s\nhint: %s", wording.Short(r.p.Good), name, hint)
	}
	return nil
}

func (p *Policy) RangeOptions() source.RangeOptions {
	return source.RangeOptions{FirstParent: p.FirstParent, Paths: p.Paths}
}
