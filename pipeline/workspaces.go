package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// workspaces are the open workspaces of a pipeline, by name. They lie below a root on the disk or, for candidates that
// need no build, below one in memory, where thousands of small files are written many times faster.
type workspaces struct {
	config *Config // of the pipeline
	root   *workspace.Root
	memory *workspace.Root // in memory; nil if there is none
	open   map[string]*workspace.Workspace
	proofs int                         // workspaces of proofs so far, which numbers their folders
	next   []*workspace.Workspace      // of proofs to come, where interpreters may wait
	turn   int                         // which of its workspaces launches of the search are made in, see turns
	soon   map[bisect.Candidate]string // the workspaces of those that the search has begun before their turn, or will
}

// openMemory makes a root in memory, if candidates may lie there and fit, else the disk is used. Where a launch has a
// limit on its memory they may not, since the files could count against it. Processes may read the other root.
func (ws *workspaces) openMemory(ctx context.Context) {
	c := ws.config
	if c.Memory.Dir == "" || len(c.Recipe.Plan.Build) > 0 || len(c.Devices) > 0 || c.Limits.RunMemory > 0 {
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

// leaveMemory removes what lies in memory. From now on everything lies on the disk.
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

// searches are the workspaces for launches of the search, see turns: while a process tears down in one and another stands
// still in its teardown, a third is free.
var searches = []string{"search", "search-2", "search-3"}

// inMemory is the workspace in memory. Launches whose times are compared are made on the disk, where their files
// lie when the user runs them.
const inMemory = "memory"

// name is that of the workspace for a request. The ends have their own, since they are launched again and again and
// keep their builds and caches; each side of a confirmation has a fresh one, in which nothing of the search is left.
func (ws *workspaces) name(r bisect.Request) string {
	if ws.config.single(r) {
		if ws.memory != nil && !r.Timing {
			return inMemory
		}
		return "search"
	}
	switch r.Purpose {
	case bisect.EndGood:
		return "good"
	case bisect.EndBad:
		return "bad"
	case bisect.ConfirmCulprit, bisect.ConfirmParent:
		return string(r.Purpose) + "-" + trial.FileName(r.Candidate)
	case bisect.Searching:
		return cmp.Or(ws.soon[r.Candidate], searches[ws.turn])
	}
	return "search"
}

// turns chooses one of the workspaces of a search for a launch: the one that has the candidate, or else one with an
// interpreter that is ready, and in which no process tears down, so that the next candidate is written and loads meanwhile.
// Where candidates are built, builds ahead have workspaces enough.
func turns(p *Pipeline, r bisect.Request) {
	ws := &p.workspaces
	ws.turn = 0
	if r.Purpose != bisect.Searching || ws.soon[r.Candidate] != "" || !r.Timing || p.prestart == nil || p.clean || len(p.Config.Recipe.Plan.Build) > 0 || ws.of(r) == nil {
		return
	}
	best, most := 0, -1
	for ws.turn = range searches {
		if Holds(p, r) {
			return
		}
		suits, w := 0, ws.of(r)
		if w != nil && p.prestart.Ready(w) {
			suits += 2
		}
		if w == nil || !p.prestart.In(w) {
			suits++
		}
		if suits > most {
			best, most = ws.turn, suits
		}
	}
	ws.turn = best
}

// forget lets the search make use of nothing any more that its launches have compiled.
func (ws *workspaces) forget() {
	clear(ws.soon)
	for _, name := range searches {
		if w := ws.open[name]; w != nil {
			w.Caches.Warmed = bisect.Candidate{}
		}
	}
}

// of is the workspace for a request, or nil if it was not opened.
func (ws *workspaces) of(r bisect.Request) *workspace.Workspace { return ws.open[ws.name(r)] }

// Holds reports that a pipeline at rest has a workspace in which what a request launches is built.
func Holds(p *Pipeline, r bisect.Request) bool {
	w := p.workspaces.of(r)
	return w != nil && p.Config.Recipe.Holds(w, r.Candidate)
}

// recovered is [Holds] after a launch, which may have failed, unless its process still tears down.
func recovered(p *Pipeline, r bisect.Request) bool {
	if w := p.workspaces.of(r); w != nil && !p.prestart.In(w) {
		workspace.Recover(w)
	}
	return Holds(p, r)
}

// ends are the open workspaces of both ends. What was compiled there serves the candidates of a search, so that only what
// differs is compiled again. The proof begins with empty caches, and after a contradiction so does the search.
func (ws *workspaces) ends() (open []*workspace.Workspace) {
	for _, why := range []bisect.Purpose{bisect.EndGood, bisect.EndBad} {
		if w := ws.of(bisect.Request{Purpose: why, Timing: true}); w != nil {
			open = append(open, w)
		}
	}
	return open
}

// get opens the workspace for a request, or returns the open one. The first clean launch of a candidate gets a new
// workspace. Where one workspace serves all requests a clean switch would do instead, but not for files that the plan
// brings along: these are taken for unchanged by their size and time alone.
func (ws *workspaces) get(r bisect.Request) (*workspace.Workspace, error) {
	name := ws.name(r)
	folder := name
	if r.Clean && r.Nth == 0 && (!ws.config.single(r) || len(ws.config.Recipe.Plan.Keep) > 0) {
		if err := ws.drop(name); err != nil {
			return nil, err
		}
		if n := len(ws.next); n > 0 && r.Timing {
			ws.open[name], ws.next = ws.next[n-1], ws.next[:n-1]
		}
		ws.proofs++ // builds ahead may still have the folder of an earlier proof
		folder += fmt.Sprint("-", ws.proofs)
	}
	if w, ok := ws.open[name]; ok {
		return w, nil
	}
	root := ws.root
	if name == inMemory {
		root = ws.memory
	}
	w, err := ws.make(root, folder)
	if err == nil {
		ws.open[name] = w
	}
	return w, err
}

// make opens a workspace in a folder.
func (ws *workspaces) make(root *workspace.Root, folder string) (*workspace.Workspace, error) {
	w := root.New(folder)
	if err := w.CheckFolder(); err != nil {
		return nil, err
	}
	return w, w.Open(ws.config.Recipe.Opening())
}

// expect opens workspaces for the next proofs, both sides of two.
func (ws *workspaces) expect() []*workspace.Workspace {
	for len(ws.next) < 4 {
		ws.proofs++
		w, err := ws.make(ws.root, fmt.Sprint("proof-", ws.proofs))
		if err != nil { // the proof will meet it
			break
		}
		w.Expects = true
		ws.next = append(ws.next, w)
	}
	return ws.next
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

// close removes all workspaces, beside one another, and both roots. It goes on after an error, and returns the first one.
func (ws *workspaces) close() error {
	all := slices.AppendSeq(slices.Clone(ws.next), maps.Values(ws.open))
	errs := make([]error, len(all))
	var removed sync.WaitGroup
	for i, w := range all {
		removed.Go(func() { errs[i] = w.Remove() })
	}
	removed.Wait()
	clear(ws.open)
	if ws.memory != nil {
		errs = append(errs, ws.leaveMemory())
	}
	return cmp.Or(append(errs, ws.root.Close())...)
}

// checkWorkspace returns an error if no trial can succeed in the workspace of a request: the disk is full, or the
// folder was removed. removed names files there that the trial needed and that were removed while it ran. After a trial
// that passed only the folder itself is looked for, which is cheap.
func (ws *workspaces) checkWorkspace(ctx context.Context, r bisect.Request, well bool) (removed []string, err error) {
	w := ws.of(r)
	switch {
	case w == nil:
		return nil, ws.root.Check()
	case !well:
		removed = trial.Removed(ctx, ws.config.Recipe, w)
	case w.Gone():
		removed = []string{"its folder"}
	}
	return removed, w.Check()
}
