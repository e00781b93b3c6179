package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
	"github.com/kbisect/kbisect/pipeline/proc/internal/self"
	"github.com/kbisect/kbisect/pipeline/proc/internal/warden"
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

	// lookEvery is how often a trial under way is looked after.
	lookEvery = 500 * time.Millisecond
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
	self.Threads()
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
	return end(ctx, newTrial(s, out), o)
}

// GateVariable is the environment variable that holds the number of the descriptor at which a program waits that was
// started before its turn, see [Start].
const GateVariable = "KBISECT_GATE"

// Held is a program that was started before its turn and waits for it.
type Held struct {
	spec   Spec
	turn   chan turn
	pause  chan bool
	cancel context.CancelFunc
	done   chan struct{} // closed when its tree is gone
	result Result
	err    error
}

// turn lets a program begin whose output, limits and callbacks are known only now.
type turn struct {
	ctx   context.Context
	spec  Spec
	say   []byte // what it reads at its gate
	taken chan struct{}
}

// Start starts a program before its turn. It is expected to do nothing that shows until it has read the descriptor that
// [GateVariable] names to its end, and to exit where it finds nothing there. No time counts until then.
//
// Of s, everything must be as it will be in [Held.Run] but Output, Watch, Closed, OnOutput, Pause, OnPause and the limits;
// Protocol must be set, and Sandbox must not.
func Start(ctx context.Context, s Spec) (*Held, error) {
	s = s.withDefaults()
	s.Output, s.Pause, s.Limit, s.PhaseLimit, s.held = "", nil, 0, 0, true
	o, err := s.order()
	if err != nil {
		return nil, err
	}
	out, err := newOutput(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	h := &Held{spec: s, turn: make(chan turn), pause: make(chan bool, 1), cancel: cancel, done: make(chan struct{})}
	t := newTrial(s, out)
	t.gate = h
	go func() {
		defer close(h.done)
		defer cancel()
		h.result, h.err = end(ctx, t, o)
	}()
	return h, nil
}

// Run lets the program begin and returns as [Run] does; say is what it reads at its gate, not empty. ok is false where it
// has ended before its turn: then nothing is known of it.
func (h *Held) Run(ctx context.Context, s Spec, say []byte) (res Result, ok bool, err error) {
	s = s.withDefaults()
	s.Cookie, s.held = h.spec.Cookie, true
	x := turn{ctx, s, say, make(chan struct{})}
	select {
	case h.turn <- x:
	case <-h.done:
		return Result{}, false, nil
	}
	<-h.done
	select {
	case <-x.taken:
		return h.result, true, h.err
	default:
		return Result{}, false, nil
	}
}

// Freeze brings it to a halt while it waits, or lets it go on. Only the newest word counts.
func (h *Held) Freeze(on bool) {
	select {
	case <-h.pause:
	default:
	}
	h.pause <- on
}

// Gone reports that it has ended before its turn.
func (h *Held) Gone() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// Close ends it, and returns when its processes are gone.
func (h *Held) Close() {
	h.cancel()
	<-h.done
}

func newTrial(s Spec, out *output) *trial {
	t := &trial{oom: cgroup.OwnOOM(), before: ps.LastPID(), spec: s, clock: newPhases(s), out: out, begun: make(chan struct{}), left: make(chan struct{}), hold: make(chan bool)}
	t.result.Exit = -1
	return t
}

// end runs a trial to its end.
func end(ctx context.Context, t *trial, o warden.Order) (Result, error) {
	err := t.run(ctx, o)
	t.result.Tail, t.result.OutputBytes = t.out.last.bytes(), t.out.total
	if saved := t.out.finish(); err == nil {
		err = saved
	}
	return t.result, err
}

// order resolves the program of s.
func (s Spec) order() (warden.Order, error) {
	if len(s.Argv) == 0 {
		return warden.Order{}, &StartError{Err: syscall.EINVAL}
	}
	group := cgroup.Name(s.Cookie)
	if s.subreaper {
		group = ""
	}
	dir, err := workDir(s.Dir)
	if err != nil {
		return warden.Order{}, &StartError{Path: s.Argv[0], Err: fmt.Errorf("working directory: %w", err)}
	}
	path, err := lookPath(s.Argv[0], dir, s.Env)
	if err != nil {
		return warden.Order{}, &StartError{Path: s.Argv[0], Err: err}
	}
	env := append(slices.Clone(s.Env), cookieVariable+"="+s.Cookie)
	if s.Protocol != "" {
		for _, name := range append([]string{s.Protocol}, s.Aliases...) {
			env = append(env, fmt.Sprintf("%s=%d", name, warden.LeaderProtocolFD))
		}
	}
	if s.held {
		env = append(env, fmt.Sprintf("%s=%d", GateVariable, warden.LeaderGateFD))
	}
	return warden.Order{
		Path:    []byte(path),
		Dir:     []byte(dir),
		Argv:    toBytes(s.Argv),
		Env:     toBytes((&exec.Cmd{Env: env}).Environ()), // the last of equal names: getenv in C would take the first
		Bound:   s.killBound,
		Group:   []byte(group),
		Memory:  s.MemoryMax,
		CPUs:    s.CPUs,
		Nice:    s.Nice,
		Count:   s.count,
		Hold:    s.WaitOutput,
		Sandbox: s.Sandbox.order(path, dir, s.Env),
	}, nil
}

// trial is one Run under way.
type trial struct {
	spec   Spec
	warden *client
	clock  *phases
	out    *output
	pipes  readers
	begun  chan struct{} // closed when started is known, or nothing will start
	start  time.Time     // of the leader; read it after begun
	mono   int64         // the same on the warden's clock

	result   Result
	canceled bool           // we ended it, because of ctx
	greedy   bool           // we ended it, because of its memory
	timeout  *Timeout       // we ended it, because of a limit
	over     bool           // the leader has ended
	open     *warden.Report // of its end, while its output is still open
	paused   bool           // the caller wants it to stand still
	held     bool           // the user does, who stops this process
	frozen   bool           // it was told to
	hold     chan bool      // says whether the user does
	left     chan struct{}  // closed when hold is no longer read
	leader   int            // its pid
	oom      int64          // ownOOM at the start
	before   int            // LastPID at the start
	gate     *Held          // it waits for its turn there; nil: it begins at once
	key      *os.File       // what it reads then
	silent   <-chan time.Time
}

// run starts the tree, follows it and waits for its pipes.
func (t *trial) run(ctx context.Context, o warden.Order) error {
	err := trials.enter(t, func() error { return t.begin(o) })
	defer trials.leave(t)
	if t.warden != nil {
		defer t.warden.dismiss()
	}
	if err == nil && t.gate != nil && !t.result.KilledParent {
		ctx, err = wait(ctx, t)
	}
	close(t.begun)
	if err != nil {
		t.pipes.close()
		return err
	}
	if !t.result.KilledParent && !t.over {
		err = t.follow(ctx)
	}
	t.pipes.drain()
	killed, names, swept := strays(t.spec, t.before)
	t.result.Leftover, t.result.Strays = t.result.Leftover+killed, names
	if err == nil {
		err = swept
	}
	if lowered := trials.limits.Restore(); len(lowered) > 0 {
		return &self.LimitError{Lowered: lowered}
	}
	return err
}

// begin starts warden and leader.
func (t *trial) begin(o warden.Order) error {
	ends, err := t.openPipes()
	defer closeAll(ends)
	if err != nil {
		return err
	}
	for {
		t.warden, err = engage(o, t.spec.Sandbox, ends)
		if err != nil {
			return err
		}
		if err = t.await(); !errors.Is(err, errGone) {
			return err
		}
	}
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
	if t.spec.held {
		r, w, failed := pipe(false)
		if failed != nil {
			return nil, failed
		}
		t.key = w
		defer func() { ends = append(ends, r) }()
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
	if t.spec.Closed == nil || t.leader == 0 || !ps.Running(t.leader, t.warden.cmd.Process.Pid) {
		return
	}
	if stamp := t.clock.stamp(at); !t.clock.over(stamp) {
		t.clock.apply(t.spec.Closed(stamp), at)
	}
}

func toBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}
