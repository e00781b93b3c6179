package workspace

import (
	"context"
	"maps"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/fileaccess"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Notes are what processes of a workspace have opened in its export, since it was made: a build takes over what an earlier
// one has made of files that have not changed since, and an interpreter what it has compiled of them.
type Notes struct {
	opened map[string]bool
	blind  bool // of some process it is not known
}

// Add takes in what a process has opened; not ok: that is not known.
func (n *Notes) Add(opened []string, ok bool) {
	if n.opened == nil {
		n.opened = map[string]bool{}
	}
	for _, at := range opened {
		n.opened[at] = true
	}
	n.blind = n.blind || !ok || len(n.opened) > fileaccess.MaxOpened
}

// Opened lists the files and folders, sorted, by their paths from the root of the export; nil where that is not known, or
// nothing was opened.
func (n *Notes) Opened() []string {
	if n.blind {
		return nil
	}
	return slices.Sorted(maps.Keys(n.opened))
}

// Note begins to note what is opened in the export, before a process is run; done ends it, when the process and all that it
// started are gone. Quiet is for processes whose times count: nothing of it runs beside them. For told see [fileaccess.Start].
func (w *Workspace) Note(quiet bool, told func(opened []string)) (done func()) {
	recorder := fileaccess.Start(w.Dir, quiet, told)
	return func() { w.Notes.Add(recorder.Stop()) }
}

// Unnoticed reports whether a process which opened all this in one commit, as [Notes.Opened] lists it, notices nothing in another
// one, whatever they differ by in paths for which but is true. An error is that of reading the repository.
func Unnoticed(ctx context.Context, repo *source.Repo, one, another string, opened []string, but func(path string) bool) (bool, error) {
	both, err := source.CompareTrees(ctx, repo, one, another)
	if err != nil {
		return false, err
	}
	known, seen := opened != nil, fileaccess.NewOpened(opened)
	return !slices.ContainsFunc(both.Changes, func(c source.TreeChange) bool {
		return !but(c.Path) && !(known && seen.Difference(c) == bisect.Same)
	}), nil
}
