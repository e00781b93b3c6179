package prestart

import (
	"context"
	"slices"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Leaver is a process that tears down beside what comes next once it has sent its last line, if a pool takes it over.
type Leaver struct {
	w     *workspace.Workspace
	done  chan struct{} // closed when it is gone
	pause chan bool     // see [proc.Spec.Pause]
	still chan bool     // what [proc.Spec.OnPause] was told last
	halt  bool          // it stands still, by [Pool.Halt]; guarded by the pool's mutex, as is ever
	ever  bool          // it stood still at some time
	end   func()        // ends it
}

// NewLeaver prepares the process of a spec, which starts in a workspace next, for [Pool.Leave].
func NewLeaver(w *workspace.Workspace, s *proc.Spec) *Leaver {
	x := &Leaver{w: w, done: make(chan struct{}), pause: w.Share.Pause, still: make(chan bool, 1)}
	if x.pause == nil {
		x.pause = make(chan bool)
		s.Pause = x.pause
	}
	s.OnPause = func(still bool) {
		x.forget()
		x.still <- still
	}
	return x
}

// forget drops what OnPause was told.
func (x *Leaver) forget() {
	select {
	case <-x.still:
	default:
	}
}

// set stops the process or lets it go on. It never replaces an unread message: a stop that follows an unread start would
// then change nothing, and OnPause would never be called.
func (x *Leaver) set(halt bool) {
	select {
	case x.pause <- halt:
	case <-x.done:
	}
}

// Leaves reports whether processes may tear down beside the next launch. They may not after one of them failed during its
// teardown or blocked the next launch; see Stay.
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

// Leave takes over a process that has sent its last line. end ends it, and is called if ctx of the pool ends. well waits for
// its end and reports whether it was a good one; it runs in a goroutine of the pool's.
func (p *Pool) Leave(x *Leaver, end func(), well func() bool) {
	stop := context.AfterFunc(p.ctx, end)
	p.mu.Lock()
	x.end = end
	p.leaving = append(p.leaving, x)
	p.mu.Unlock()
	go func() {
		defer close(x.done)
		defer stop()
		if well() {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if x.ever { // which may be why, however unlikely
			p.awaits = true
		} else {
			p.stays = true
		}
	}()
}

// Leaving reports whether a process tears down, and does not stand still.
func (p *Pool) Leaving() bool {
	if p == nil {
		return false
	}
	all := left(p, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(all, func(x *Leaver) bool { return !x.halt })
}

// In reports whether a process of a workspace is still there.
func (p *Pool) In(w *workspace.Workspace) bool { return len(left(p, w)) > 0 }

// Await waits for those in a workspace that still tear down, or, for nil, in any.
func (p *Pool) Await(w *workspace.Workspace) {
	all := left(p, w)
	for _, x := range all {
		release(p, x)
	}
	for _, x := range all {
		<-x.done
	}
}

// Halt returns when nothing of those that tear down runs any more: the last one stands still, unless it is at its very end,
// and the others are gone, so that no more than one holds memory of the device beside the launch in turn. If [Pool.Release]
// does not follow within patience, the launch in turn may wait for what the last one holds: it is let go. Once one that stood
// still has ended badly, all are awaited.
func (p *Pool) Halt(patience time.Duration) {
	all := left(p, nil)
	for i, x := range all {
		if i == len(all)-1 && stop(p, x) {
			p.mu.Lock()
			x.halt = true
			p.stuck = time.AfterFunc(patience, func() {
				if slices.Contains(left(p, x.w), x) && release(p, x) {
					p.Stay()
					p.late.Store(true)
				}
			})
			p.mu.Unlock()
			return
		}
		<-x.done
	}
}

// stop stops it, and reports whether it stands still; else it is gone or ends. One that was at its very end may be gone soon
// although it was said to stand still.
func stop(p *Pool, x *Leaver) (still bool) {
	p.mu.Lock()
	no := p.awaits
	x.ever = x.ever || !no
	p.mu.Unlock()
	if no {
		return false
	}
	x.forget()
	x.set(true)
	select {
	case still = <-x.still:
	case <-x.done:
	}
	if !still {
		x.set(false)
	}
	return still
}

// release lets one go on, if Halt has stopped it.
func release(p *Pool, x *Leaver) (halted bool) {
	p.mu.Lock()
	halted, x.halt = x.halt, false
	p.mu.Unlock()
	if halted {
		x.set(false)
	}
	return halted
}

// Release lets the one go on that Halt has stopped. late is true if it had to go on before.
func (p *Pool) Release() (late bool) {
	if p == nil {
		return false
	}
	p.mu.Lock()
	if p.stuck != nil {
		p.stuck.Stop()
	}
	p.mu.Unlock()
	for _, x := range left(p, nil) {
		release(p, x)
	}
	return p.late.Swap(false)
}

// left are the processes in a workspace, or in any, that still tear down.
func left(p *Pool, w *workspace.Workspace) (out []*Leaver) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = slices.DeleteFunc(p.leaving, func(x *Leaver) bool {
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
