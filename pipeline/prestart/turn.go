package prestart

import (
	"sync"
	"time"

	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Turn is a launch in its turn while a process before it may still tear down. It may load its program, fill memory and
// compile meanwhile. Before it does more it is paused, once, until the other one stands still or is gone. That goes on when
// this one tears down.
type Turn struct {
	pool     *Pool
	w        *workspace.Workspace
	patience func() time.Duration // for which another one may stand still
	pause    chan bool            // room for both words, whether or not anybody reads them
	paused   bool
	late     bool // another one had to go on before its time
	halting  sync.WaitGroup
}

// NewTurn begins the turn of the launch that comes next in a workspace. [Turn.End] must follow.
func NewTurn(p *Pool, w *workspace.Workspace, patience func() time.Duration) *Turn {
	t := &Turn{pool: p, w: w, patience: patience, pause: make(chan bool, 2)}
	w.Share.Pause = t.pause
	return t
}

// Halt returns when nothing that tears down runs any more, see [Pool.Halt].
func (t *Turn) Halt() { t.pool.Halt(t.patience()) }

// Enter says that a phase begins, and whether another process may run beside it. If not, the launch stands still for as long as
// the device may be busy with what others have launched.
func (t *Turn) Enter(phase string, beside bool, drain time.Duration) {
	if leaving := t.pool.Leaving() && !t.paused; !beside && (leaving || drain > 0) {
		t.halting.Wait()
		t.paused = true
		t.pause <- true
		t.halting.Go(func() {
			if leaving {
				t.Halt()
			}
			time.Sleep(drain)
			t.pause <- false
		})
	}
	if phase == "teardown" {
		t.late = t.pool.Release() || t.late // a launch may take two processes
	}
}

// End ends the turn. late is true if another process had to go on before this one tore down.
func (t *Turn) End() (late bool) {
	t.halting.Wait()
	t.w.Share.Pause = nil
	return t.pool.Release() || t.late
}
