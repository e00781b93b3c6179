package pipeline

import (
	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// workspaces are those that are open, by name.
type workspaces struct {
	config *Config // of the pipeline
	root   *workspace.Root
	open   map[string]*workspace.Workspace
}

// name gives the ends workspaces of their own, since they are launched again and again, and each side of a
// confirmation a fresh one.
func (ws *workspaces) name(r bisect.Request) string {
	if ws.config.single(r) {
		return "search"
	}
	switch r.Purpose {
	case bisect.EndGood:
		return "good"
	case bisect.EndBad:
		return "bad"
	case bisect.ConfirmCulprit, bisect.ConfirmParent:
		return "confirm-" + trial.FileName(r.Candidate)
	}
	return "search"
}

// of is the workspace for a request, or nil if it was not opened.
func (ws *workspaces) of(r bisect.Request) *workspace.Workspace { return ws.open[ws.name(r)] }

// get opens the workspace for a request.
func (ws *workspaces) get(r bisect.Request) (*workspace.Workspace, error) {
	name := ws.name(r)
	if r.Clean && r.Nth == 0 && (!ws.config.single(r) || len(ws.config.Recipe.Plan.Keep) > 0) { // files that are brought are taken for equal by size and time
		if err := ws.drop(name); err != nil {
			return nil, err
		}
	}
	if w, ok := ws.open[name]; ok {
		return w, nil
	}
	w := ws.root.New(name)
	if err := w.CheckFolder(); err != nil {
		return nil, err
	}
	if err := w.Open(ws.config.Recipe.Opening()); err != nil {
		return nil, err
	}
	ws.open[name] = w
	return w, nil
}

// drop removes a workspace.
func (ws *workspaces) drop(name string) error {
	w, ok := ws.open[name]
	if !ok {
		return nil
	}
	delete(ws.open, name)
	return w.Remove()
}

// close removes all workspaces, and the root.
func (ws *workspaces) close() (first error) {
	for name := range ws.open {
		if err := ws.drop(name); err != nil && first == nil {
			first = err
		}
	}
	if err := ws.root.Close(); err != nil && first == nil {
		first = err
	}
	return first
}

// checkWorkspace returns an error if no trial can succeed in the workspace of a request, and whether its folder is gone.
func (ws *workspaces) checkWorkspace(r bisect.Request) (gone bool, err error) {
	if w := ws.of(r); w != nil {
		return w.Gone(), w.Check()
	}
	return false, ws.root.Check()
}
