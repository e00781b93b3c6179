package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// workspaces are the open workspaces of a pipeline, by name.
type workspaces struct {
	config *Config // of the pipeline
	root   *workspace.Root
	memory *workspace.Root // in memory; nil if there is none
	open   map[string]*workspace.Workspace
}

// openMemory makes a root in memory, if candidates may lie there and fit. Its processes may read the other root.
func (ws *workspaces) openMemory(ctx context.Context) {
	c := ws.config
	if c.Memory.Dir == "" || len(c.Recipe.Plan.Build) > 0 || len(c.Devices) > 0 || c.Limits.RunMemory > 0 { // what lies there may count as a launch's own
		return
	}
	root, err := workspace.OpenInMemory(ctx, c.Memory, c.Dir, c.Session)
	if err != nil {
		c.Recipe.Log.Debug("candidates do not lie in memory", "err", err)
		return
	}
	if ws.memory = root; ws.root.Sandbox != nil {
		box := *ws.root.Sandbox
		box.Read = append(slices.Clip(box.Read), ws.root.Dir)
		root.Sandbox = &box
	}
}

// leaveMemory removes what lies in memory. From now on everything lies in the other root.
func (ws *workspaces) leaveMemory() error {
	err := errors.Join(ws.drop(inMemory), ws.memory.Close())
	ws.memory = nil
	return err
}

// leaveCrowded leaves memory if too much of it was taken. The trial that was made meanwhile is void: it shows
// nothing about its candidate.
func (ws *workspaces) leaveCrowded(ctx context.Context) (void bool, err error) {
	if ctx.Err() != nil || !ws.memory.Crowded() {
		return false, nil
	}
	ws.config.Recipe.Log.Info("the files of candidates need much memory, and lie on the disk from now on")
	if err := ws.leaveMemory(); err != nil {
		return true, &bisect.InfraError{What: "removing the files of candidates from memory", Err: err}
	}
	return true, nil
}

// inMemory is the workspace in memory. Launches whose times are compared are made on the disk, where their files
// lie when the user runs them.
const inMemory = "memory"

// home is the root in which the workspace of a name lies.
func (ws *workspaces) home(name string) *workspace.Root {
	if name == inMemory {
		return ws.memory
	}
	return ws.root
}

// name is that of the workspace for a request. The ends have their own, since they are launched again and again,
// and each side of a confirmation has a fresh one.
func (ws *workspaces) name(r bisect.Request) string {
	switch {
	case ws.config.single(r) && ws.memory != nil && !r.Timing:
		return inMemory
	case ws.config.single(r):
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
	w := ws.home(name).New(name)
	if err := w.CheckFolder(); err != nil {
		return nil, err
	}
	if err := w.Open(ws.config.Recipe.Opening()); err != nil {
		return nil, err
	}
	ws.open[name] = w
	return w, nil
}

// drop removes a workspace, if it is open.
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
	if ws.memory != nil {
		if err := ws.leaveMemory(); err != nil && first == nil {
			first = err
		}
	}
	if err := ws.root.Close(); err != nil && first == nil {
		first = err
	}
	return first
}

// checkWorkspace returns an error if no trial can succeed in the workspace of a request, and what the one that has just
// ended, well or not, needed there and was removed.
func (ws *workspaces) checkWorkspace(ctx context.Context, r bisect.Request, well bool) (lost []string, err error) {
	w := ws.of(r)
	switch {
	case w == nil:
		return nil, ws.root.Check()
	case !well:
		lost = trial.Lost(ctx, ws.config.Recipe, w)
	case w.Gone():
		lost = []string{"its folder"}
	}
	return lost, w.Check()
}
