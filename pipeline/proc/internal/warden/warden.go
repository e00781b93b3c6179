package warden

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
	"github.com/kbisect/kbisect/pipeline/proc/internal/self"
)

// Name is argv[0] of a warden. It is not an environment variable because those
// are inherited.
const Name = "kbisect-warden"

// Main runs a warden and does not return, if this process was started as one.
// Otherwise it returns false at once.
func Main() bool {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return false
	}
	if err := supervise(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
	return true
}

// process is what a warden has for all its trees, which come one after the other.
type process struct {
	reports  *json.Encoder
	commands <-chan Command
	children chan os.Signal // SIGCHLD
	score    *self.Score
	alarm    *self.Alarm // it goes off when this process is stopped
	limits   self.Limits // of this process, before any program ran
	place    place       // likewise
	looks    int         // how often kbisect is still looked at after the end of a tree
}

// supervise runs a warden, as long as orders come and nothing of the tree before is left.
func supervise() error {
	runtime.LockOSThread() // so that onThread takes another
	control := os.NewFile(controlFD, "control")
	p := &process{reports: json.NewEncoder(control), children: make(chan os.Signal, 1)}
	if os.Getpid() == 1 {
		if err := ownNamespaces(os.Args[1:]); err != nil {
			p.report(refusal(err))
			return nil
		}
	}
	p.score = self.OpenScore()
	if err := isolate(); err != nil {
		return err
	}
	p.alarm = self.NewAlarm()
	p.alarm.Set(true)
	signal.Notify(p.children, unix.SIGCHLD)
	p.limits, p.place = self.ReadLimits(), placed()
	p.commands = commands(control)
	p.report(Report{Event: EventHello})
	p.wait()
	return nil
}

// wait takes orders until kbisect is gone or this process is not as it was. A stop of kbisect that a tree leaves behind
// may show only after its end, when nobody else looks: so for a while it is looked for. Before one that its user wants,
// kbisect ends this process.
func (p *process) wait() {
	for {
		var look <-chan time.Time
		if p.looks > 0 {
			look = time.After(lookEvery)
		}
		select {
		case c, ok := <-p.commands: // those that do not start a tree are for one that is gone already
			if !ok || c.Do == DoStart && !p.serve(c) {
				return
			}
		case <-look:
			p.looks--
			if kbisect, err := ps.Read(os.Getppid()); err == nil && kbisect.State == 'T' {
				kbisect.Signal(unix.SIGCONT)
			}
		}
	}
}

// wake continues kbisect, and takes a stop back that it has not acted on yet. It would take back one by Ctrl-Z as well,
// of which kbisect still has to hear.
func wake() {
	if p, err := ps.Read(os.Getppid()); err == nil && !p.Pending(unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU) {
		p.Signal(unix.SIGCONT)
	}
}

// serve starts a tree and follows it to its end. It reports whether another one may follow.
func (p *process) serve(c Command) (again bool) {
	s := &supervisor{process: p, oomBefore: cgroup.AboveOOM(), bound: c.Order.Bound, hold: c.Order.Hold, sandboxed: c.Order.Sandbox != nil}
	p.alarm.Set(true) // while this process was idle it went off, and the program may stop this process at once
	t, started, err := start(*c.Order, c.ends, p.score)
	if err != nil {
		p.report(refusal(err))
		return false
	}
	defer close(t.over)
	s.tree, s.pause.tree = t, t
	p.report(Report{Event: EventStarted, Mono: started, Leader: t.leader, Grouped: t.group != nil})
	s.ended = watch(t.leader)
	return s.run()
}

// report sends r. Errors do not matter: without a reader the commands have ended as well.
func (p *process) report(r Report) { _ = p.reports.Encode(r) }

// isolate prepares this process: no descriptor of kbisect reaches the leader,
// no signal but SIGKILL ends or stops the warden, and orphans become its children.
func isolate() error {
	if err := closeOnExec(); err != nil {
		return fmt.Errorf("mark descriptors: %w", err)
	}
	// Caught and dropped, not ignored: exec would hand SIG_IGN down.
	signal.Notify(make(chan os.Signal, 1))
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	if err := self.Close(); err != nil { // the leader must not write our reports
		return err
	}
	return noCore()
}

// closeOnExec marks all descriptors but the standard ones, also those that C
// code in kbisect opened without the mark.
func closeOnExec() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return err
}

// noCore forbids core dumps. A limit of one byte is less than any dump needs,
// and, other than zero, also keeps the kernel from piping it to a program.
func noCore() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return fmt.Errorf("read core limit: %w", err)
	}
	limit.Cur = min(1, limit.Max)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return fmt.Errorf("set core limit: %w", err)
	}
	return nil
}

func refusal(err error) Report {
	r := Report{Event: EventRefused, Error: err.Error()}
	errors.As(err, &r.Errno)
	if denied := new(sandboxError); errors.As(err, &denied) {
		r.Denied = denied.Error()
	}
	return r
}

// commands reads commands; the channel is closed when kbisect is gone.
func commands(control *os.File) <-chan Command {
	c := make(chan Command)
	go func() {
		defer close(c)
		in := &inbox{fd: int(control.Fd())}
		for dec := json.NewDecoder(in); ; {
			var next Command
			if dec.Decode(&next) != nil {
				return
			}
			if next.Order != nil {
				next.ends, in.ends = in.ends, nil
			}
			c <- next
		}
	}()
	return c
}

// inbox reads a socket and keeps the descriptors that come with the text.
type inbox struct {
	fd   int
	ends []int
}

// Read implements io.Reader.
func (i *inbox) Read(p []byte) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4*maxEnds))
	for {
		n, rn, _, _, err := unix.Recvmsg(i.fd, p, rights, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.EOF
		}
		if messages, err := unix.ParseSocketControlMessage(rights[:rn]); err == nil {
			for _, m := range messages {
				if ends, err := unix.ParseUnixRights(&m); err == nil {
					i.ends = append(i.ends, ends...)
				}
			}
		}
		return n, nil
	}
}

// watch reports when the leader has ended, without reaping it: until then its
// pid and its group cannot be given to others.
func watch(pid int) <-chan int64 {
	c := make(chan int64, 1)
	go func() {
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		c <- Monotonic()
	}()
	return c
}
