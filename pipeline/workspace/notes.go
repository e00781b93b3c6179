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

// NoteLaunch is [Workspace.Note] for a whole launch of the candidate, whose own notes the contents keep.
func NoteLaunch(w *Workspace, quiet bool) (done func()) {
	w.Contents.Noted = true
	recorder := fileaccess.Start(w.Dir, quiet, nil)
	return func() {
		opened, ok := recorder.Stop()
		w.Notes.Add(opened, ok)
		w.Contents.Ran = opened
	}
}

// Launched is what a launch of a commit may have noticed of it besides what was built.
type Launched struct {
	Opened []string               // see [Contents.Ran]; nil: not known
	Built  []string               // what the build alone has read, which decides where it is not known
	Covers func(path string) bool // whether a path may matter
	Guess  bool                   // it looked for no file that is not there, in folders that it did not list
}

// Same reports whether it notices nothing of what differs in another commit. An error is that of reading the repository.
func (l Launched) Same(ctx context.Context, repo *source.Repo, one, another string) (bool, error) {
	both, err := source.CompareTrees(ctx, repo, one, another)
	if err != nil {
		return false, err
	}
	seen := fileaccess.NewOpened(l.Opened)
	return !slices.ContainsFunc(both.Changes, func(c source.TreeChange) bool {
		switch d := seen.Difference(c); {
		case !l.Covers(c.Path):
			return false
		case l.Opened == nil:
			return !slices.Contains(l.Built, c.Path)
		default:
			return d != bisect.Same && !(l.Guess && d == bisect.Nearby && !seen.Listed(c.Folder))
		}
	}), nil
}
