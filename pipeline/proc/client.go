package proc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
	"github.com/kbisect/kbisect/pipeline/proc/internal/self"
	"github.com/kbisect/kbisect/pipeline/proc/internal/warden"
)

// Warden makes this process a warden if [Run] has started it as one, and then
// does not return. Otherwise it returns false at once. It must be the first
// thing that main does.
func Warden() bool {
	if warden.Main() {
		return true
	}
	// What a warden leaves behind that its program has killed comes to us, wherever it hid; and no program
	// under test reads or writes our memory and descriptors. Where the kernel refuses either, Sweep is left.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = self.Close()
	trials.limits = self.ReadLimits()
	trials.alarm = self.NewAlarm()
	self.OnStop(trials.hold, trials.release)
	return false
}

// trials are those of this process that run.
var trials running

// running is what trials under way have in common: the process that they are to leave alone.
type running struct {
	begin  sync.RWMutex // who begins one reads, who holds all writes
	mu     sync.Mutex
	all    map[*trial]bool
	held   bool
	alarm  *self.Alarm // set while programs run that might stop this process
	limits self.Limits // of this process, before any program ran
}

// enter begins a trial.
func (r *running) enter(t *trial, begin func() error) error {
	r.begin.RLock()
	defer r.begin.RUnlock()
	r.change(func() {
		if r.all == nil {
			r.all = map[*trial]bool{}
		}
		r.all[t] = true
	})
	return begin()
}

// leave ends a trial.
func (r *running) leave(t *trial) {
	close(t.left)
	r.change(func() { delete(r.all, t) })
}

func (r *running) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	r.alarm.Set(len(r.all) > 0 && !r.held)
}

// tend keeps this process going; at the end of a trial those limits are told that stay low.
func (r *running) tend() {
	r.change(func() { r.limits.Restore() })
}

// hold freezes all trials, since the user stops this process. Idle wardens end: they would continue it.
func (r *running) hold() {
	r.begin.Lock()
	r.freeze(true)
	Close()
}

// release lets them go on.
func (r *running) release() {
	r.freeze(false)
	r.begin.Unlock()
}

func (r *running) freeze(on bool) {
	var all []*trial
	r.change(func() { r.held, all = on, slices.Collect(maps.Keys(r.all)) })
	for _, t := range all {
		for range 2 { // it takes the second when its warden has acted on the first
			select {
			case t.hold <- on:
			case <-t.left:
			}
		}
	}
}

// supervisors are the wardens of this process. They tell its own children from those that it got by the death of a
// warden; like the children, they are the process's and not a caller's.
var supervisors = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// adopted lists the processes that dead wardens have left to this one, and all below them: they are in no session
// of ours. The caller holds the lock of supervisors.
func adopted() ([]ps.Process, error) {
	list, err := ps.All()
	if err != nil {
		return nil, err
	}
	own, err := unix.Getsid(0)
	if err != nil {
		return nil, err
	}
	return ps.Closure(list, func(p ps.Process) bool {
		return p.PPID == os.Getpid() && p.Session != own && !supervisors.pids[p.PID]
	}), nil
}

// sweepAdopted kills and reaps what dead wardens have left.
func sweepAdopted() error {
	supervisors.Lock()
	defer supervisors.Unlock()
	err := sweepAll(adopted, 2, map[ps.ID]bool{})
	left, listErr := adopted()
	for _, p := range left {
		_, _ = unix.Wait4(p.PID, nil, unix.WNOHANG, nil)
	}
	return errors.Join(err, listErr)
}

// maxIdle is how many wardens are kept. More trials than that at one time take long enough for a start.
const maxIdle = 4

// idle are wardens that wait for their next order: to start one costs more than most programs that it is to watch.
var idle = make(chan *client, maxIdle)

// takeIdle returns one, nil if there is none.
func takeIdle() *client {
	select {
	case c := <-idle:
		return c
	default:
		return nil
	}
}

// Close ends the wardens that are idle. They end with this process too, but a little later.
func Close() {
	for c := takeIdle(); c != nil; c = takeIdle() {
		c.close()
	}
}

// client is kbisect's end of a warden.
type client struct {
	cmd     *exec.Cmd
	control *os.File
	reports <-chan warden.Report
	done    chan struct{} // closed when reports are no longer read
	stderr  *limited
	once    sync.Once     // for close
	reaped  chan struct{} // closed when it has been
	used    bool          // a tree before was its own
	again   bool          // it can take another one
}

// engage has a warden start what an order says; ends are the descriptors of the leader, from standard output on.
func engage(o warden.Order, box *Sandbox, ends []*os.File) (*client, error) {
	if box == nil {
		for w := takeIdle(); w != nil; w = takeIdle() {
			if !w.stopped() && w.order(o, ends) == nil {
				return w, nil
			}
			w.close() // somebody has ended or stopped it meanwhile
		}
	}
	w, err := startWarden(box)
	if err == nil {
		_ = w.order(o, ends) // one that is dead sends no reports
	}
	return w, err
}

// startWarden starts a warden.
func startWarden(box *Sandbox) (*client, error) {
	if os.Args[0] == warden.Name {
		return nil, errors.New("start the supervising process: this process is one itself\nhint: main must call proc.Warden first")
	}
	control, theirs, err := channel()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	w := &client{control: control, done: make(chan struct{}), reaped: make(chan struct{}), stderr: &limited{max: 8 << 10}}
	w.cmd = &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{warden.Name},
		Dir:         "/",
		Stderr:      w.stderr,
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		WaitDelay:   drainBound,
	}
	if box != nil {
		box.isolate(w.cmd)
	}
	supervisors.Lock()
	err = w.cmd.Start()
	if err == nil {
		supervisors.pids[w.cmd.Process.Pid] = true
	}
	supervisors.Unlock()
	if err != nil {
		control.Close()
		if box != nil && !errors.Is(err, unix.EAGAIN) {
			var refused syscall.Errno
			errors.As(err, &refused)
			return nil, &SandboxError{"make namespaces: " + refused.Error(), refused}
		}
		if errors.Is(err, unix.ENOENT) { // it is this program
			return nil, fmt.Errorf("start the supervising process: %v\nhint: kbisect needs /proc: mount -t proc proc /proc", err)
		}
		return nil, fmt.Errorf("start the supervising process: %w", err)
	}
	w.reports = receive(control, w.done)
	return w, nil
}

// channel makes a socket. Our end can be closed while it is in use.
func channel() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket: %w\nhint: raise the limit of open files (ulimit -n)", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, fmt.Errorf("socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "warden"), os.NewFile(uintptr(fds[1]), "control"), nil
}

// order sends an order with its descriptors.
func (w *client) order(o warden.Order, ends []*os.File) error {
	fds := make([]int, len(ends))
	for i, f := range ends {
		fds[i] = int(f.Fd())
	}
	raw, err := w.control.SyscallConn()
	if err != nil {
		return err
	}
	_ = w.control.SetWriteDeadline(time.Now().Add(helloBound))
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), []byte("\n"), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return sent != unix.EAGAIN && sent != unix.EINTR
	})
	if err = errors.Join(err, sent); err == nil {
		err = w.send(warden.Command{Do: warden.DoStart, Order: &o})
	}
	_ = w.control.SetWriteDeadline(time.Time{})
	return err
}

// receive reads reports until their end, or until done is closed.
func receive(f *os.File, done <-chan struct{}) <-chan warden.Report {
	c := make(chan warden.Report, 8)
	go func() {
		defer close(c)
		dec := json.NewDecoder(f)
		for {
			var r warden.Report
			if dec.Decode(&r) != nil {
				return
			}
			select {
			case c <- r:
			case <-done:
				return
			}
		}
	}()
	return c
}

// send writes a message to the warden. One that does not read it is dead or
// hangs, which also shows in its missing reports.
func (w *client) send(c warden.Command) error {
	p, err := json.Marshal(c)
	if err == nil {
		_, err = w.control.Write(append(p, '\n'))
	}
	return err
}

// kill asks the warden to end the tree.
func (w *client) kill(grace time.Duration) {
	_ = w.send(warden.Command{Do: warden.DoEnd, Grace: grace})
}

// stopped reports whether the warden stands still, although its alarm continues it.
func (w *client) stopped() bool {
	p, err := ps.Read(w.cmd.Process.Pid)
	return err == nil && (p.State == 'T' || p.State == 't')
}

// lost ends a warden that has failed and returns why as an error.
func (w *client) lost(why string) error {
	w.close()
	if said := bytes.TrimSpace(w.stderr.bytes()); len(said) > 0 {
		return fmt.Errorf("the supervising process %s; it wrote: %s", why, said)
	}
	return fmt.Errorf("the supervising process %s", why)
}

// dismiss keeps a warden that can take another order, and ends any other.
func (w *client) dismiss() {
	w.used = true
	if w.again {
		w.again = false
		select {
		case idle <- w:
			return
		default:
		}
	}
	w.close()
}

// close ends and reaps the warden, after its last report or without one. In a namespace of its own it cannot be
// reaped before the processes there, and one of them may be stuck.
func (w *client) close() {
	w.once.Do(func() {
		_ = w.cmd.Process.Kill() // quicker than its exit
		w.control.Close()
		close(w.done)
		go func() {
			_ = w.cmd.Wait() // its reports say more than its exit status
			supervisors.Lock()
			delete(supervisors.pids, w.cmd.Process.Pid)
			supervisors.Unlock()
			close(w.reaped)
		}()
	})
	select {
	case <-w.reaped:
	case <-time.After(defaultKillBound):
	}
}

// ended returns how a closed warden ended, and whether that is known.
func (w *client) ended() (syscall.WaitStatus, bool) {
	select {
	case <-w.reaped:
		status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
		return status, ok
	default:
		return 0, false
	}
}

// limited keeps the first bytes written to it.
type limited struct {
	mu  sync.Mutex
	max int
	buf []byte
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p[:min(len(p), l.max-len(l.buf))]...)
	return len(p), nil
}

func (l *limited) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf
}
