package prestart

import (
	"context"
	"slices"

	"github.com/kbisect/kbisect/pipeline/workspace"
)

// leaver is a process that has sent its last line and tears down beside what comes next.
type leaver struct {
	w    *workspace.Workspace
	done chan struct{} // closed when it is gone
}

// Leaves reports whether processes may tear down beside what comes next. They may not once one of them failed while
// it did, or took longer than the next one took to get ready; see Stay.
func (p *Pool) Leaves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.stays && !p.closed
}

// Stay makes every process from now on be waited for.
func (p *Pool) Stay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stays = true
}

// Leave takes over a process in a workspace that has sent its last line. end ends it, and is called if ctx of the
// pool ends. well waits for its end and reports whether it was a good one; it runs in a goroutine of the pool's.
func (p *Pool) Leave(w *workspace.Workspace, end func(), well func() bool) {
	x := leaver{w, make(chan struct{})}
	stop := context.AfterFunc(p.ctx, end)
	p.mu.Lock()
	p.leaving = append(p.leaving, x)
	p.mu.Unlock()
	go func() {
		defer close(x.done)
		defer stop()
		if !well() {
			p.Stay()
		}
	}()
}

// Leaving reports whether a process is still tearing down.
func (p *Pool) Leaving() bool { return len(p.left(nil)) > 0 }

// In reports whether a process of a workspace is still tearing down.
func (p *Pool) In(w *workspace.Workspace) bool { return len(p.left(w)) > 0 }

// Await waits for those in a workspace that still tear down, or, for nil, in any.
func (p *Pool) Await(w *workspace.Workspace) {
	for _, x := range p.left(w) {
		<-x.done
	}
}

// left are the processes in a workspace, or in any, that still tear down.
func (p *Pool) left(w *workspace.Workspace) (out []leaver) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = slices.DeleteFunc(p.leaving, func(x leaver) bool {
		select {
		case <-x.done:
			return true
		default:
			return false
		}
	})
	for _, x := range p.leaving {
		if w == nil || x.w == w {
			out = append(out, x)
		}
	}
	return out
}
