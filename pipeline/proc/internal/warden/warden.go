package warden

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
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

// supervise runs a warden from the order to the end of the tree.
func supervise() error {
	runtime.LockOSThread() // so that onThread takes another
	s := &supervisor{
		reports:  json.NewEncoder(os.NewFile(reportFD, "reports")),
		children: make(chan os.Signal, 1),
	}
	if os.Getpid() == 1 {
		if err := ownNamespaces(os.Args[1:]); err != nil {
			s.report(refusal(err))
			return nil
		}
	}
	score := self.OpenScore()
	if err := isolate(); err != nil {
		return err
	}
	s.alarm, _ = self.NewAlarm()
	s.alarm.Set(true)
	signal.Notify(s.children, unix.SIGCHLD)
	s.report(Report{Event: EventHello})
	control := json.NewDecoder(os.NewFile(controlFD, "control"))
	var o Order
	if err := control.Decode(&o); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	s.oomBefore = cgroup.AboveOOM()
	t, started, err := start(o, score)
	if err != nil {
		s.report(refusal(err))
		return nil
	}
	s.tree, s.pause.tree = t, t
	s.bound, s.hold, s.limits = o.Bound, o.Hold, self.ReadLimits()
	s.report(Report{Event: EventStarted, Mono: started, Leader: t.leader, Grouped: t.group != nil})
	s.commands = commands(control)
	s.ended = watch(t.leader)
	s.run()
	return nil
}

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
func commands(control *json.Decoder) <-chan Command {
	c := make(chan Command)
	go func() {
		defer close(c)
		for {
			var next Command
			if control.Decode(&next) != nil {
				return
			}
			c <- next
		}
	}()
	return c
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
