package fileaccess

import (
	"context"
	"sync"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Untouched returns a function that tells which commits of a range change nothing that concerns what builds and
// launches have opened. The commits are compared when it is first called; several goroutines may call it.
func Untouched(ctx context.Context, repo *source.Repo, commits []bisect.Commit) func(opened []string) []bool {
	changes := sync.OnceValue(func() [][]Change {
		out := make([][]Change, len(commits))
		for i, c := range commits {
			out[i] = ChangesOf(ctx, repo, c)
		}
		return out
	})
	return func(opened []string) []bool {
		all, set := changes(), NewOpened(opened)
		out := make([]bool, len(all))
		for i, list := range all {
			out[i] = list != nil && !set.concernsAny(list)
		}
		return out
	}
}

// ChangesOf lists what a commit changes in any of its parents; nil where that cannot be told, as of a root or at the
// border of a shallow clone, and where it is nothing.
func ChangesOf(ctx context.Context, repo *source.Repo, c bisect.Commit) (out []Change) {
	for _, p := range c.Parents {
		both, err := source.CompareTrees(ctx, repo, p, c.ID)
		if err != nil {
			return nil
		}
		one, err := changesIn(both, repo.Has)
		if err != nil {
			return nil
		}
		out = append(out, one...)
	}
	return out
}
