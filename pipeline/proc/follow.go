package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
	"github.com/kbisect/kbisect/pipeline/proc/internal/warden"
)

// errGone says that a warden died that had served before. Another one starts the program, again if need be: only one
// that runs can have killed it.
var errGone = errors.New("the supervising process was gone")

// await waits until the leader runs.
func (t *trial) await() error {
	limit := time.After(helloBound)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C: // the program may run already, and stop this process
			trials.tend()
		case <-limit:
			return t.abandon("did not start in time")
		case r, ok := <-t.warden.reports:
			switch {
			case !ok && t.warden.used:
				t.warden.close()
				return cleared(t.spec, errGone)
			case !ok:
				return t.died("ended before the program was started")
			case r.Event == warden.EventRefused:
				return t.refused(r)
			case r.Event == warden.EventStarted:
				t.started(r)
				return nil
			}
		}
	}
}

// started notes the start of the leader. The clock of the report is the one
// that time.Now reads, with another origin.
func (t *trial) started(r warden.Report) {
	t.mono, t.leader = r.Mono, r.Leader
	if t.spec.Sandbox != nil {
		t.leader = ps.Outside(t.warden.cmd.Process.Pid, r.Leader)
	}
	t.result.Contained = bySubreaper
	if r.Grouped {
		t.result.Contained = byGroup
	}
	if t.spec.Sandbox != nil {
		t.result.Contained = byNamespace
	}
	now := warden.Monotonic() // before the other clock is read, so that no limit comes before its time
	t.start = time.Now().Add(time.Duration(r.Mono - now))
	t.result.Started = t.start
	t.clock.start(t.start)
}

// wait waits for the turn of a program that was started before it, and returns the context that bounds the rest. Where it
// has ended meanwhile, or is not wanted any more, its tree is gone afterwards and t.over is true.
func wait(ctx context.Context, t *trial) (context.Context, error) {
	defer t.key.Close() // without a word in it, the program exits
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	done, turns, gate := ctx.Done(), t.gate.turn, t.gate.pause
	owed := 0 // answers of the warden to what it was asked
	stand := func() {
		was := t.frozen
		if t.freeze(); t.frozen != was {
			owed++
		}
	}
	var next *turn
	for next == nil || t.frozen || owed > 0 {
		hold := t.hold
		if owed > 0 || t.silent != nil { // the warden answers first
			hold = nil
		}
		select {
		case <-look.C:
			trials.tend()
		case <-done:
			done, turns = nil, nil
			t.canceled = true
			t.warden.kill(-1)
			t.silent = t.silence()
		case on := <-gate:
			t.paused = on
			stand()
		case on := <-hold:
			t.held = on
			stand()
		case x := <-turns:
			next, turns, gate = &x, nil, nil
			t.paused = false
			stand()
		case <-t.silent:
			return ctx, t.silenced()
		case r, ok := <-t.warden.reports:
			switch {
			case !ok:
				return ctx, t.died("died")
			case r.Event == warden.EventFrozen, r.Event == warden.EventThawed:
				if owed--; !t.ending() {
					t.silent = nil
				}
			case r.Event == warden.EventEnded:
				turns, gate = nil, nil
				t.silent = t.silence()
			case r.Event == warden.EventGone:
				t.over = true
				return ctx, t.gone(r)
			}
		}
	}
	close(next.taken)
	t.spec, t.before = next.spec, ps.LastPID()
	out, err := newOutput(t.spec)
	if err != nil {
		t.warden.close()
		return next.ctx, cleared(t.spec, err)
	}
	t.out, t.clock = out, newPhases(t.spec)
	t.mono, t.start = warden.Monotonic(), time.Now() // in this order, as above
	t.result.Started = t.start
	t.clock.start(t.start)
	_, _ = t.key.Write(next.say) // one that is dead shows in the reports
	return next.ctx, nil
}

// follow waits until the tree is gone, and ends it when a limit is reached or
// ctx is done.
func (t *trial) follow(ctx context.Context) error {
	defer t.clock.stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	done, pause, hurry := ctx.Done(), t.spec.Pause, t.spec.Hurry
	var open <-chan struct{}
	ran := time.Now()
	defer func() { t.result.Stall += stall(ran) }()
	for {
		t.result.Stall += stall(ran)
		ran = time.Now()
		hold := t.hold
		if t.silent != nil { // the warden answers first
			hold = nil
		}
		select {
		case <-look.C:
			trials.tend()
			if !t.ending() && t.spec.MemoryMax > 0 && held(t.warden.cmd.Process.Pid) > t.spec.MemoryMax {
				t.greedy = true
				t.release()
				t.warden.kill(-1)
				t.silent = t.silence()
			}
		case <-done:
			done = nil
			t.canceled = t.timeout == nil
			t.release()
			t.warden.kill(min(t.spec.Grace, cancelGrace))
			t.silent = t.silence()
		case on, ok := <-pause:
			if !ok {
				pause = nil
			}
			t.paused = on
			t.freeze()
		case <-hurry:
			hurry = nil // nothing answers
			_ = t.warden.send(warden.Command{Do: warden.DoHurry})
		case on := <-hold:
			t.held = on
			t.freeze()
		case <-t.clock.timer.C:
			limit := t.clock.expired()
			if limit == nil || t.canceled {
				continue
			}
			t.timeout = limit
			t.release()
			t.warden.kill(t.spec.Grace)
			t.silent = t.silence()
		case <-open:
			open = nil
			t.release()
			t.warden.kill(-1)
			t.silent = t.silence()
		case <-t.silent:
			return t.silenced()
		case r, ok := <-t.warden.reports:
			switch {
			case !ok:
				return t.died("died")
			case r.Event == warden.EventEnded && t.spec.WaitOutput && !r.Killed:
				t.open, open = &r, t.pipes.over()
			case r.Event == warden.EventEnded:
				t.ended(r)
				t.silent, pause = t.silence(), nil
			case r.Event == warden.EventFrozen, r.Event == warden.EventThawed:
				t.stands(r)
			case r.Event == warden.EventGone:
				return t.gone(r)
			}
		}
	}
}

// held is how many bytes the processes below root hold that they share with no other.
func held(root int) (sum int64) {
	all, _ := ps.Below(root)
	for _, p := range all {
		var size, resident, shared int64
		if _, err := fmt.Sscan(p.File("statm"), &size, &resident, &shared); err == nil {
			sum += (resident - shared) * int64(os.Getpagesize())
		}
	}
	return sum
}

// stall returns for how long this process did not run since ran: it should wake up
// every lookEvery.
func stall(ran time.Time) time.Duration {
	const usual = 2 * lookEvery
	if gap := time.Since(ran); gap > usual {
		return gap
	}
	return 0
}

// silence fires when the warden has had enough time to end the tree.
func (t *trial) silence() <-chan time.Time {
	return time.After(t.spec.Grace + t.spec.killBound + slack)
}

// ended notes the end of the leader.
func (t *trial) ended(r warden.Report) {
	t.clock.stop()
	t.over = true
	wall := time.Duration(r.Mono - t.mono)
	t.result.Wall = t.clock.read(t.start.Add(wall))
	t.result.Paused = wall - t.result.Wall
	if r.Killed {
		t.result.Timeout, t.result.Canceled = t.timeout, t.canceled
		t.result.Halted = r.Halted
	}
}

// release notes the end of a leader whose output was waited for. If a limit or ctx
// ended the wait, that counts as the end of the leader.
func (t *trial) release() {
	if t.open == nil {
		return
	}
	r := *t.open
	t.open = nil
	if t.timeout == nil && !t.canceled {
		t.ended(r)
		return
	}
	r.Killed, r.Mono = true, warden.Monotonic()
	t.ended(r)
	t.result.Held = t.timeout != nil
}

// gone notes the end of the tree.
func (t *trial) gone(r warden.Report) error {
	t.release() // the warden may have been signalled from outside
	t.result.User, t.result.System, t.result.MaxRSS = r.User, r.System, r.MaxRSS
	t.result.Instructions, t.result.Enabled, t.result.Counted = r.Counted.N, r.Counted.Enabled, r.Counted.Ran
	t.result.Leftover = r.Leftover
	t.warden.again = r.Again
	t.result.StoppedParent = r.Stopper
	t.result.MemoryPeak = r.Peak
	t.result.OOMKilled, t.result.OOMWhere = r.OOM != "" && r.OOM != "near", r.OOM
	if t.result.OOMKilled {
		t.result.OOMOwn = max(r.Peak, r.MaxRSS) > cgroup.Memory()/2
	}
	if t.greedy {
		t.result.OOMKilled, t.result.OOMWhere = true, "trial"
	}
	if r.Reaped {
		status := syscall.WaitStatus(r.Status)
		t.result.Exit = status.ExitStatus() // -1 after a signal
		if status.Signaled() {
			t.result.Signal = status.Signal()
		}
	}
	if len(r.Stuck) > 0 && t.spec.Sandbox != nil { // by numbers that mean something here
		if left, err := ps.Below(t.warden.cmd.Process.Pid); err == nil {
			r.Stuck = ps.Describe(left)
		}
	}
	if len(r.Stuck) > 0 {
		return &StuckError{After: t.spec.killBound, Processes: r.Stuck}
	}
	return nil
}

// died decides who killed the warden. The program under test can, because it knows
// its parent's number; the leader then died with the warden. The kernel can, when
// memory runs out: it counts that in the memory group of the warden, which is ours,
// and where kills in other groups do not show. Without such a group it was the
// program: the kernel kills the largest process, and this one, which is larger than
// its warden, is still alive.
func (t *trial) died(why string) error {
	err := t.abandon(why)
	var swept *StuckError
	status, ok := t.warden.ended()
	if errors.As(err, &swept) || !ok || !status.Signaled() || cgroup.OwnOOM() != t.oom || t.spec.Sandbox != nil { // nobody in a sandbox can
		return err
	}
	if t.start.IsZero() { // it was quicker than the report of its start
		t.start = time.Now()
		t.result.Started = t.start
	}
	t.result.KilledParent, t.result.Signal = true, status.Signal()
	t.result.Wall = time.Since(t.start)
	t.result.Timeout, t.result.Canceled = t.timeout, t.canceled
	return nil
}

// silenced gives a warden up that does not answer: if it stands still, the program stops it again and again.
func (t *trial) silenced() error {
	t.result.StoppedParent = t.warden.stopped()
	err := t.abandon("does not answer")
	var swept *StuckError
	if t.result.StoppedParent && !errors.As(err, &swept) {
		t.result.Signal, t.result.Wall = syscall.SIGKILL, time.Since(t.start)
		t.result.Timeout, t.result.Canceled = t.timeout, t.canceled
		return nil
	}
	return err
}

// abandon ends a warden that failed and kills what it leaves behind.
func (t *trial) abandon(why string) error { return cleared(t.spec, t.warden.lost(why)) }

// cleared kills what a warden has left behind that ended for a reason, and returns that.
func cleared(s Spec, err error) error {
	if swept := sweepAdopted(); swept != nil {
		return swept
	}
	if _, swept := sweepTrial(s); swept != nil {
		return swept
	}
	return err
}

// freeze has the warden freeze or thaw the tree. The warden stamps the beginning and
// the end of the pause; until the first is known no limit is applied.
func (t *trial) freeze() {
	on := t.paused || t.held
	if on == t.frozen || t.ending() {
		return
	}
	t.frozen = on
	if on {
		t.clock.hold()
		_ = t.warden.send(warden.Command{Do: warden.DoFreeze})
	} else {
		_ = t.warden.send(warden.Command{Do: warden.DoThaw})
	}
	t.silent = t.silence()
}

// stands notes that the tree stands still, or moves again.
func (t *trial) stands(r warden.Report) {
	at := t.start.Add(time.Duration(r.Mono - t.mono))
	if r.Event == warden.EventFrozen {
		t.clock.pause(at)
		if t.spec.OnPause != nil {
			t.spec.OnPause(r.Still)
		}
	} else {
		t.clock.resume(at)
	}
	if !t.ending() {
		t.silent = nil
	}
}

// ending reports whether the end of the tree is under way.
func (t *trial) ending() bool { return t.canceled || t.greedy || t.timeout != nil || t.over }

// refused turns the report of a failed start into an error.
func (t *trial) refused(r warden.Report) error {
	name := t.spec.Argv[0]
	if r.Denied != "" {
		return &SandboxError{r.Denied, r.Errno}
	}
	switch r.Errno {
	case 0:
		return fmt.Errorf("start %q: %s", name, r.Error)
	case unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE:
		return fmt.Errorf("start %q: %w\nhint: too many processes or open files, or no memory left", name, r.Errno)
	case unix.ENOENT: // it was there a moment ago
		return &StartError{Path: name, Err: errInterpreter}
	}
	return &StartError{Path: name, Err: &fs.PathError{Op: "exec", Path: name, Err: r.Errno}}
}
