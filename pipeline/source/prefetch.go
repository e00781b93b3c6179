package source

import (
	"context"
	"fmt"
	"strings"
)

// prefetch brings the objects of one commit that a partial clone lacks in one
// request; git would else fetch them one by one as they are read. It uses the
// options of git's own fetch on demand.
func (g *gitcmd) prefetch(ctx context.Context, commit string) error {
	if !g.partial {
		return nil
	}
	// A fetch of missing trees shows which blobs are missing, too.
	for range 4 {
		ids, err := g.missing(commit)
		if err != nil || len(ids) == 0 || ctx.Err() != nil {
			return ctx.Err() // what is still missing is fetched when read
		}
		_, err = g.run(strings.NewReader(strings.Join(ids, "\n")+"\n"),
			"-c", "fetch.negotiationAlgorithm=noop", "fetch", g.promisor(), "--quiet", "--no-tags",
			"--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin")
		if err != nil {
			return fmt.Errorf("commit %s: fetch %d missing objects: %w\nhint: check the connection to the remote, or git fetch --refetch --no-filter",
				short(commit), len(ids), err)
		}
	}
	return nil
}

func (g *gitcmd) missing(commit string) ([]string, error) {
	out, err := g.run(nil, "rev-list", "--objects", "--missing=print", "--no-walk", commit)
	if err != nil {
		return nil, err
	}
	var ids []string
	for line := range strings.SplitSeq(out, "\n") {
		if id, ok := strings.CutPrefix(line, "?"); ok && isFullID(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// promisor names the remote that has promised the missing objects.
func (g *gitcmd) promisor() string {
	if name, err := g.run(nil, "config", "extensions.partialClone"); err == nil && strings.TrimSpace(name) != "" {
		return strings.TrimSpace(name)
	}
	out, err := g.run(nil, "config", "--name-only", "--get-regexp", `^remote\..*\.promisor$`)
	key, _, _ := strings.Cut(out, "\n")
	if err != nil || key == "" {
		return "origin"
	}
	return strings.TrimSuffix(strings.TrimPrefix(key, "remote."), ".promisor")
}
