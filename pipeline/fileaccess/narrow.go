package fileaccess

import (
	"context"
	"slices"
	"sync"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Same returns a function that tells which commits of a range differ from which of their parents in nothing that concerns
// what builds and launches have opened. The commits are compared when it is first called; several goroutines may call it.
func Same(ctx context.Context, repo *source.Repo, commits []bisect.Commit) func(opened []string) [][]bool {
	changes := sync.OnceValue(func() [][][]Change {
		out := make([][][]Change, len(commits))
		for i, c := range commits {
			out[i], _ = ChangesOf(ctx, repo, c)
		}
		return out
	})
	return func(opened []string) [][]bool {
		all, set := changes(), NewOpened(opened)
		out := make([][]bool, len(all))
		for i, parents := range all {
			for _, list := range parents {
				out[i] = append(out[i], !slices.ContainsFunc(list, set.Concerns))
			}
		}
		return out
	}
}

// ChangesOf lists, for each parent of a commit, where their trees differ. That of a parent beyond the border of a shallow
// clone cannot be told.
func ChangesOf(ctx context.Context, repo *source.Repo, c bisect.Commit) (out [][]Change, err error) {
	for _, p := range c.Parents {
		both, err := source.CompareTrees(ctx, repo, p, c.ID)
		if err != nil {
			return nil, err
		}
		one, err := changesIn(both, repo.Has)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}
