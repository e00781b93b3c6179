package prestart

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// tearsDown leaves a process to a pool that takes so long to tear down while it runs. Of its last part, the kernel's, it says
// that it stands still, but goes on, as a process at its very end may.
func tearsDown(p *Pool, user, kernel time.Duration) *Leaver {
	var s proc.Spec
	x := NewLeaver(&workspace.Workspace{}, &s)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for left := user; left > 0; {
			began := time.Now()
			select {
			case <-time.After(left):
				left = 0
			case halt := <-s.Pause:
				if left -= time.Since(began); halt {
					s.OnPause(true)
					for <-s.Pause {
					}
				}
			}
		}
		for end := time.After(kernel); ; {
			select {
			case <-end:
				return
			case halt := <-s.Pause:
				if halt {
					s.OnPause(true)
				}
			}
		}
	}()
	p.Leave(x, func() {}, func() bool { <-over; return true })
	return x
}

// One process stands still from Halt to Release, at most for the given patience; the others are awaited. One that ended
// meanwhile did not block the launch.
func TestHalt(t *testing.T) {
	for _, x := range []struct {
		name         string
		user, kernel time.Duration // of its teardown
		before       time.Duration // it had torn down for so long
		others       bool          // one that began with it
		busy         time.Duration // from Halt to Release
		waits, takes time.Duration // in Halt, and until it is gone
		late         bool
	}{
		{name: "it stands still", user: time.Second, busy: 3 * time.Second, takes: 4 * time.Second},
		{name: "one of two stands still", user: time.Second, before: 100 * time.Millisecond, others: true, busy: 3 * time.Second, waits: 900 * time.Millisecond, takes: 4 * time.Second},
		{name: "it is in the way", user: time.Second, busy: 10 * time.Second, takes: 10 * time.Second, late: true},
		{name: "it is at its very end", user: time.Second, kernel: time.Second, before: 1500 * time.Millisecond, busy: 10 * time.Second, takes: 10 * time.Second},
		{name: "it is gone", user: time.Second, before: 2 * time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(t.Context(), t.TempDir())
				if x.others {
					tearsDown(p, x.user, 0)
					time.Sleep(time.Millisecond)
				}
				tearsDown(p, x.user, x.kernel)
				time.Sleep(x.before)
				synctest.Wait()
				began := time.Now()
				p.Halt(5 * time.Second)
				if waited := time.Since(began); waited.Round(10*time.Millisecond) != x.waits {
					t.Errorf("Halt took %v, want %v", waited, x.waits)
				}
				if p.Leaving() {
					t.Error("one goes on")
				}
				time.Sleep(x.busy)
				if late := p.Release(); late != x.late || p.Leaves() == x.late {
					t.Errorf("late: %v, want %v; the next may leave: %v", late, x.late, p.Leaves())
				}
				p.Await(nil)
				if took := time.Since(began).Round(10 * time.Millisecond); took > x.takes+x.waits {
					t.Errorf("it was gone after %v, want %v", took, x.takes)
				}
				time.Sleep(time.Minute)
				if p.Release() || p.Leaves() == x.late || p.Leaving() {
					t.Error("it was late long after its end")
				}
			})
		})
	}
}

// A launch is paused once, before it does what must not run beside another; that the other one had to go on is known at its
// end, even if a second process of the launch has torn down since.
func TestTurn(t *testing.T) {
	for _, x := range []struct {
		name string
		busy time.Duration
		late bool
	}{{"in time", time.Second, false}, {"in the way", 10 * time.Second, true}} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w := New(t.Context(), t.TempDir()), &workspace.Workspace{}
				tearsDown(p, time.Second, 0)
				turn := NewTurn(p, w, func() time.Duration { return 5 * time.Second })
				pause := w.Share.Pause
				turn.Enter("load", true, 0)
				if len(pause) > 0 || !p.Leaving() {
					t.Error("its load waits")
				}
				turn.Enter("measure", false, 0)
				synctest.Wait()
				if len(pause) != 2 || !<-pause || <-pause || p.Leaving() {
					t.Error("it is not paused until the other one stands still")
				}
				time.Sleep(x.busy)
				turn.Enter("teardown", true, 0)
				turn.Enter("load", true, 0) // of a second process
				turn.Enter("measure", false, 0)
				turn.Enter("teardown", true, 0)
				if late := turn.End(); late != x.late || len(pause) > 0 || w.Share.Pause != nil {
					t.Errorf("late: %v, want %v; %d words more", late, x.late, len(pause))
				}
				p.Await(nil)
			})
		})
	}
}

// A launch stands still while a device may be busy with what another one has launched, although nothing tears down, and once more
// if that one has gone on.
func TestTurnDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workspace.Workspace{}
		turn := NewTurn(New(t.Context(), t.TempDir()), w, func() time.Duration { return time.Second })
		pause := w.Share.Pause
		turn.Enter("compile", true, time.Second)
		for _, phase := range []string{"warmup", "measure"} {
			turn.Enter(phase, false, time.Second)
			time.Sleep(999 * time.Millisecond)
			if synctest.Wait(); len(pause) != 1 || !<-pause {
				t.Errorf("in %s it does not stand still", phase)
			}
			time.Sleep(time.Millisecond)
			if synctest.Wait(); len(pause) != 1 || <-pause {
				t.Errorf("in %s it does not go on", phase)
			}
			turn.Enter("check", false, 0)
		}
		turn.End()
	})
}
