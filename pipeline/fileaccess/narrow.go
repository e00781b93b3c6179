package fileaccess

import (
	"context"
	"sync"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Differs returns a function that tells, for each commit of a range and each of its parents, what differs of what builds and
// launches have opened; nil where that cannot be told. The commits are compared when it is first called; several goroutines
// may call it.
func Differs(ctx context.Context, repo *source.Repo, commits []bisect.Commit) func(opened []string) [][]bisect.Difference {
	changes := sync.OnceValue(func() [][][]Change {
		out := make([][][]Change, len(commits))
		for i, c := range commits {
			out[i], _ = ChangesOf(ctx, repo, c)
		}
		return out
	})
	return func(opened []string) [][]bisect.Difference {
		all, set := changes(), NewOpened(opened)
		out := make([][]bisect.Difference, len(all))
		for i, parents := range all {
			for _, list := range parents {
				most := bisect.Same
				for _, c := range list {
					most = max(most, set.Difference(c))
				}
				out[i] = append(out[i], most)
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
