package gate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/source"
)

// chooseEnds resolves HEAD and its merge base with the base branch, into x.head, x.base and x.into. HEAD is compared
// with the merge base and not with the tip of that branch, because what others have merged since is not this branch's
// doing. Of several merge bases the one on the base branch's own line of first parents is taken: another is a commit
// of HEAD that the base branch has merged, and may lack what the base branch had before. All errors are usage errors.
func (x *request) chooseEnds(ctx context.Context, repo *source.Repo, asked string, env func(string) string) (err error) {
	if x.head, err = source.Head(repo); err != nil {
		return exit.Usage(err)
	}
	_, full := os.Stat(filepath.Join(repo.CommonDir(), "shallow"))
	shallow := full == nil // part of the history is missing, as in the clones that CI systems make
	var tip string
	if x.into, tip, err = baseBranch(ctx, repo, asked, env, shallow); err != nil {
		return err
	}
	bases, err := repo.MergeBases(ctx, tip, x.head)
	switch {
	case err != nil:
		return exit.Usage(err)
	case len(bases) == 0 && shallow:
		return exit.Usagef("HEAD and %s have no common commit in this shallow clone\n%s", x.into, deepen)
	case len(bases) == 0:
		return exit.Usagef("HEAD and %s have no common history\nhint: name the branch to merge into with --base REV", x.into)
	case len(bases) > 1:
		x.warnings = append(x.warnings, fmt.Sprintf("HEAD and %s have merged each other and have %d merge bases: HEAD is compared with %s, so what only another one (%s) holds counts as a change of HEAD",
			x.into, len(bases), bisect.ShortID(bases[0]), bisect.ShortID(bases[1])))
	}
	x.base = bases[0]
	return nil
}

// deepen is the hint for a clone without the history that is needed.
const deepen = "hint: fetch the whole history: actions/checkout with `fetch-depth: 0`, GitLab with `GIT_DEPTH: \"0\"`, elsewhere git fetch --unshallow"

// baseBranch finds the branch that HEAD is to be merged into, as its name and the id of its tip: the one asked for,
// the one that GitHub or GitLab names in the environment, or the default branch. GitLab may fetch only the branch of
// the merge request, but names the commit of the target branch from which it began; that will do, since the merge base
// is the same.
func baseBranch(ctx context.Context, repo *source.Repo, asked string, env func(string) string, shallow bool) (name, id string, err error) {
	if asked != "" {
		id, err := repo.Resolve(ctx, asked)
		if err != nil && shallow && ctx.Err() == nil {
			return "", "", exit.Usagef("--base: %s is not in this shallow clone\n%s", asked, deepen)
		}
		if err != nil {
			return "", "", exit.Usagef("--base: %w", err)
		}
		return asked, id, nil
	}
	hint := "hint: name the branch to merge into with --base REV"
	if shallow {
		hint = deepen
	}
	for _, variable := range []string{"GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"} {
		branch := env(variable)
		if branch == "" {
			continue
		}
		// A CI clone often has the target branch only as a remote-tracking one.
		names := []string{"refs/remotes/origin/" + branch, "refs/heads/" + branch}
		if sha := env("CI_MERGE_REQUEST_DIFF_BASE_SHA"); sha != "" && variable != "GITHUB_BASE_REF" {
			names = append(names, sha)
		}
		if _, id, ok := firstRevision(ctx, repo, names); ok {
			return "origin/" + branch, id, nil
		}
		return "", "", exit.Usagef("branch %s (from %s) is not in this clone\n%s\nhint: git fetch origin '+refs/heads/%s:refs/remotes/origin/%s' fetches only this branch", branch, variable, hint, branch, branch)
	}
	name, id, ok := firstRevision(ctx, repo, []string{
		"refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master", "refs/heads/main", "refs/heads/master",
	})
	if !ok {
		return "", "", exit.Usagef("no base branch: there is no origin/HEAD, main or master\n%s", hint)
	}
	return name, id, nil
}

// firstRevision is the first of the references that exists, with its short name and the id of its commit.
func firstRevision(ctx context.Context, repo *source.Repo, refs []string) (name, id string, ok bool) {
	i := slices.IndexFunc(refs, func(ref string) bool {
		var err error
		id, err = repo.Resolve(ctx, ref)
		return err == nil
	})
	if i < 0 {
		return "", "", false
	}
	return strings.TrimPrefix(strings.TrimPrefix(refs[i], "refs/remotes/"), "refs/heads/"), id, true
}
