package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	// defaultKillBound is how long a warden tries to kill before processes count as
	// stuck.
	defaultKillBound = 10 * time.Second

	// slack is how much longer than that a warden may stay silent.
	slack = 20 * time.Second

	// helloBound bounds the start of a warden.
	helloBound = 60 * time.Second

	// drainBound is how long the pipes of a dead tree may stay silent without
	// coming to their end, and drainTotal how long reading them may take.
	drainBound = 3 * time.Second
	drainTotal = time.Minute

	// wakeEvery is how often a warden is looked after that the program may have stopped.
	wakeEvery = 500 * time.Millisecond
)

// Run starts the program of s and returns when its process tree is gone: all
// lines that it sent have been delivered, and every process that it left
// behind, wherever it hid, has been killed.
//
// When ctx is done the tree gets SIGTERM and, within 500 ms, SIGKILL (see also
// Spec.Grace); Run then returns a Result with Canceled set and a nil error.
//
// The error is a *StartError when the program cannot be started and a
// *StuckError when a process cannot be killed. Any other error is the machine's.
// With an error the Result holds what is known.
func Run(ctx context.Context, s Spec) (Result, error) {
	s = s.withDefaults()
	o, err := s.order()
	if err != nil {
		return Result{Exit: -1}, err
	}
	if ctx.Err() != nil {
		return Result{Exit: -1, Canceled: true}, nil
	}
	out, err := newOutput(s)
	if err != nil {
		return Result{Exit: -1}, err
	}
	t := &trial{oom: ownOOM(), spec: s, clock: newPhases(s), out: out, begun: make(chan struct{})}
	t.result.Exit = -1
	err = t.run(ctx, o)
	t.result.Tail, t.result.OutputBytes = out.last.bytes(), out.total
	if saved := out.finish(); err == nil {
		err = saved
	}
	return t.result, err
}

// order resolves the program of s.
func (s Spec) order() (order, error) {
	if len(s.Argv) == 0 {
		return order{}, &StartError{Err: syscall.EINVAL}
	}
	group := groupName(s.Cookie)
	if s.subreaper {
		group = ""
	}
	dir, err := workDir(s.Dir)
	if err != nil {
		return order{}, &StartError{Path: s.Argv[0], Err: fmt.Errorf("working directory: %w", err)}
	}
	path, err := lookPath(s.Argv[0], dir, s.Env)
	if err != nil {
		return order{}, &StartError{Path: s.Argv[0], Err: err}
	}
	env := []string{CookieVariable + "=" + s.Cookie}
	if s.Protocol != "" {
		for _, name := range append([]string{s.Protocol}, s.Aliases...) {
			env = append(env, fmt.Sprintf("%s=%d", name, leaderProtocolFD))
		}
	}
	return order{
		Path:     []byte(path),
		Dir:      []byte(dir),
		Argv:     toBytes(s.Argv),
		Env:      toBytes(mergeEnv(s.Env, env...)),
		Protocol: s.Protocol != "",
		Bound:    s.killBound,
		Group:    []byte(group),
		Memory:   s.MemoryMax,
		CPUs:     s.CPUs,
		Nice:     s.Nice,
		Hold:     s.WaitOutput,
	}, nil
}

// trial is one Run under way.
type trial struct {
	spec   Spec
	warden *warden
	clock  *phases
	out    *output
	pipes  readers
	begun  chan struct{} // closed when started is known, or nothing will start
	start  time.Time     // of the leader; read it after begun
	mono   int64         // the same on the warden's clock

	result   Result
	canceled bool     // we ended it, because of ctx
	timeout  *Timeout // we ended it, because of a limit
	over     bool     // the leader has ended
	held     *report  // of its end, while its output is still open
	frozen   bool     // the caller wants it to stand still
	leader   int      // its pid
	oom      int64    // ownOOM at the start
	silent   <-chan time.Time
}

// run starts the tree, follows it and waits for its pipes.
func (t *trial) run(ctx context.Context, o order) error {
	err := t.begin(o)
	close(t.begun)
	if t.warden != nil {
		defer t.warden.close()
	}
	if err != nil {
		t.pipes.close()
		return err
	}
	if !t.result.KilledParent {
		err = t.follow(ctx)
	}
	t.pipes.drain()
	return err
}

// begin starts warden and leader.
func (t *trial) begin(o order) error {
	ends, err := t.openPipes()
	defer closeAll(ends)
	if err != nil {
		return err
	}
	t.warden, err = startWarden(o, ends)
	if err != nil {
		return err
	}
	closeAll(ends) // the warden has its own, and their end must be seen
	return t.await()
}

// openPipes makes the pipes of the leader, starts to read them and returns the
// writing ends in the order of their descriptors.
func (t *trial) openPipes() (ends []*os.File, err error) {
	open := func(take func([]byte, time.Time), end func()) {
		if err != nil {
			return
		}
		var w *os.File
		if w, err = t.pipes.open(t.begun, take, end); err == nil {
			ends = append(ends, w)
		}
	}
	open(t.stream(1))
	if t.spec.OnOutput != nil {
		open(t.stream(2))
	} else if err == nil {
		ends = append(ends, ends[0])
	}
	if t.spec.Protocol != "" {
		open(t.protocol())
	}
	return ends, err
}

// stream returns the reader of standard output (1) or standard error (2).
func (t *trial) stream(n int) (take func([]byte, time.Time), end func()) {
	if t.spec.OnOutput == nil {
		return func(p []byte, _ time.Time) { t.out.write(p) }, func() {}
	}
	var at time.Time
	cut := lines{max: maxLine, deliver: func(line string) {
		t.spec.OnOutput(n, line, t.clock.stamp(at))
	}}
	take = func(p []byte, now time.Time) {
		at = now
		t.out.write(p)
		cut.write(p)
	}
	return take, cut.end
}

// protocol returns the reader of the protocol pipe.
func (t *trial) protocol() (take func([]byte, time.Time), end func()) {
	var at time.Time
	cut := lines{max: maxLine, deliver: func(line string) {
		t.result.ProtocolLines++
		if stamp := t.clock.stamp(at); t.spec.Watch != nil && !t.clock.over(stamp) {
			t.clock.apply(t.spec.Watch(line, stamp), at)
		}
	}}
	take = func(p []byte, now time.Time) {
		at = now
		cut.write(p)
	}
	return take, func() {
		cut.end()
		t.closed()
	}
}

// closed tells that the protocol pipe has come to its end, if the leader lives
// on. The pipe of a dying leader is closed before the warden can know of the
// death, but the kernel has marked it.
func (t *trial) closed() {
	at := time.Now()
	if t.spec.Closed == nil || t.leader == 0 || !running(t.leader, t.warden.cmd.Process.Pid) {
		return
	}
	if stamp := t.clock.stamp(at); !t.clock.over(stamp) {
		t.clock.apply(t.spec.Closed(stamp), at)
	}
}

// await waits until the leader runs.
func (t *trial) await() error {
	limit := time.After(helloBound)
	wake := time.NewTicker(wakeEvery)
	defer wake.Stop()
	for {
		select {
		case <-wake.C:
			t.warden.wake()
		case <-limit:
			return t.abandon("did not start in time")
		case r, ok := <-t.warden.reports:
			switch {
			case !ok:
				return t.died("ended before the program was started\nhint: main must call proc.Warden first")
			case r.Event == eventRefused:
				return t.refused(r)
			case r.Event == eventStarted:
				t.started(r)
				return nil
			}
		}
	}
}

// started notes the start of the leader. The clock of the report is the one
// that time.Now reads, with another origin.
func (t *trial) started(r report) {
	t.mono, t.leader = r.Mono, r.Leader
	t.result.Contained = bySubreaper
	if r.Grouped {
		t.result.Contained = byGroup
	}
	t.start = time.Now().Add(time.Duration(r.Mono - monotonic()))
	t.result.Started = t.start
	t.clock.start(t.start)
}

// follow waits until the tree is gone, and ends it when a limit is reached or
// ctx is done.
func (t *trial) follow(ctx context.Context) error {
	defer t.clock.stop()
	wake := time.NewTicker(wakeEvery)
	defer wake.Stop()
	done, pause := ctx.Done(), t.spec.Pause
	var open <-chan struct{}
	ran := time.Now()
	defer func() { t.result.Stall += stall(ran) }()
	for {
		t.result.Stall += stall(ran)
		ran = time.Now()
		select {
		case <-wake.C:
			t.warden.wake()
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
			t.pause(on)
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
			return t.abandon("is silent")
		case r, ok := <-t.warden.reports:
			switch {
			case !ok:
				return t.died("died")
			case r.Event == eventEnded && t.spec.WaitOutput && !r.Killed:
				t.held, open = &r, t.pipes.over()
			case r.Event == eventEnded:
				t.ended(r)
				t.silent, pause = t.silence(), nil
			case r.Event == eventFrozen, r.Event == eventThawed:
				t.paused(r)
			case r.Event == eventGone:
				return t.gone(r)
			}
		}
	}
}

// stall is for how long this process cannot have run: it wakes up every now and then.
func stall(ran time.Time) time.Duration {
	const usual = 2 * wakeEvery
	if gap := time.Since(ran); gap > usual {
		return gap
	}
	return 0
}

// silence fires when the warden has had time enough to end the tree.
func (t *trial) silence() <-chan time.Time {
	return time.After(t.spec.Grace + t.spec.killBound + slack)
}

// ended notes the end of the leader.
func (t *trial) ended(r report) {
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

// release notes the end of a leader that was waited for beyond it. Where a limit or ctx ended the wait, that
// is how it ended.
func (t *trial) release() {
	if t.held == nil {
		return
	}
	r := *t.held
	t.held = nil
	if t.timeout == nil && !t.canceled {
		t.ended(r)
		return
	}
	r.Killed, r.Mono = true, monotonic()
	t.ended(r)
	t.result.Held = t.timeout != nil
}

// gone notes the end of the tree.
func (t *trial) gone(r report) error {
	t.release() // the warden was told to end it by somebody else
	t.result.User, t.result.System, t.result.MaxRSS = r.User, r.System, r.MaxRSS
	t.result.Leftover = r.Leftover
	t.result.MemoryPeak = r.Peak
	t.result.OOMKilled, t.result.OOMWhere = r.OOM != "", r.OOM
	if r.Reaped {
		status := syscall.WaitStatus(r.Status)
		t.result.Exit = status.ExitStatus() // -1 after a signal
		if status.Signaled() {
			t.result.Signal = status.Signal()
		}
	}
	if len(r.Stuck) > 0 {
		return &StuckError{After: t.spec.killBound, Processes: r.Stuck}
	}
	return nil
}

// died decides who killed the warden. A program under test can, because it knows
// its parent's number; the leader then died with the warden. The kernel can, when
// memory runs out: it says so in the count of the group in which the warden and
// this process are, which what other groups do leaves alone. Where nothing counts,
// it was the program: of two processes of a group the kernel kills the larger one,
// which this one is, and it lives.
func (t *trial) died(why string) error {
	err := t.abandon(why)
	var swept *StuckError
	state := t.warden.cmd.ProcessState
	status, ok := state.Sys().(syscall.WaitStatus)
	if errors.As(err, &swept) || !ok || !status.Signaled() || ownOOM() != t.oom {
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

// abandon gives the warden up and kills what it leaves behind.
func (t *trial) abandon(why string) error {
	err := t.warden.lost(why)
	if _, swept := sweep(func(cookie string) bool { return cookie == t.spec.Cookie }); swept != nil {
		return swept
	}
	return err
}
