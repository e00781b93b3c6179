package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wardenName is argv[0] of a warden. It is not an environment variable because
// those are inherited.
const wardenName = "kbisect-warden"

// Warden makes this process a warden if [Run] has started it as one, and then
// does not return. Otherwise it returns false at once. It must be the first
// thing that main does.
func Warden() bool {
	if len(os.Args) == 0 || os.Args[0] != wardenName {
		return false
	}
	if err := supervise(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
	return true
}

// supervise is the life of a warden.
func supervise() error {
	runtime.LockOSThread() // so that onThread takes another
	if err := isolate(); err != nil {
		return err
	}
	s := &supervisor{
		reports:  json.NewEncoder(os.NewFile(reportFD, "reports")),
		children: make(chan os.Signal, 1),
	}
	signal.Notify(s.children, unix.SIGCHLD)
	s.report(report{Event: eventHello})
	control := json.NewDecoder(os.NewFile(controlFD, "control"))
	var o order
	if err := control.Decode(&o); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	s.oomBefore = aboveOOM()
	pid, started, err := s.start(o)
	if err != nil {
		s.report(refusal(err))
		return nil
	}
	s.leader, s.bound, s.hold = pid, o.Bound, o.Hold
	s.report(report{Event: eventStarted, Mono: started, Leader: pid, Grouped: s.group != nil})
	s.commands = commands(control)
	s.ended = watch(pid)
	s.run()
	return nil
}

// isolate prepares this process: no descriptor of kbisect reaches the leader,
// no signal but SIGKILL ends the warden, and orphans become its children.
func isolate() error {
	if err := closeOnExec(); err != nil {
		return fmt.Errorf("mark descriptors: %w", err)
	}
	// Caught and dropped, not ignored: exec would hand SIG_IGN down.
	signal.Notify(make(chan os.Signal, 1))
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
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

// start starts the leader, in a control group where there can be one, and
// returns when that was.
func (s *supervisor) start(o order) (pid int, at int64, err error) {
	defer closeEnds(o)
	onThread(func() {
		if err = pin(o.CPUs, o.Nice); err != nil {
			return
		}
		if s.group = makeGroup(string(o.Group), o.Memory); s.group != nil {
			at = monotonic()
			if pid, err = startIn(s.group, o); err == nil {
				return
			}
			// The error may be the program's as well as the group's.
			s.group.remove()
			s.group = nil
		}
		at = monotonic()
		pid, err = startIn(nil, o)
	})
	return pid, at, err
}

// onThread calls f on a thread of its own that stays: the parent death signal
// comes when the thread that forked ends, not the process. And what f does to
// the thread, the supervisor is not to suffer from.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		f()
		close(done)
		select {}
	}()
	<-done
}

// closeEnds closes the warden's copies of the leader's descriptors.
func closeEnds(o order) {
	ends := []int{stdoutFD, stderrFD}
	if o.Protocol {
		ends = append(ends, protocolFD)
	}
	for _, fd := range ends {
		syscall.Close(fd)
	}
}

// startIn starts the leader as a member of g.
func startIn(g *group, o order) (pid int, err error) {
	null, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(null)
	files := []uintptr{uintptr(null), stdoutFD, stderrFD}
	if o.Protocol {
		files = append(files, protocolFD)
	}
	attr := &syscall.ProcAttr{
		Dir:   string(o.Dir),
		Env:   toStrings(o.Env),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if g != nil {
		fd, err := g.open()
		if err != nil {
			return 0, err
		}
		defer unix.Close(fd)
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
	}
	for wait := time.Millisecond; ; wait *= 2 {
		pid, _, err = syscall.StartProcess(string(o.Path), toStrings(o.Argv), attr)
		// A program that was just written is busy while some other child, not
		// yet past its exec, holds the descriptor that it was written with.
		if !errors.Is(err, syscall.ETXTBSY) || wait > time.Second {
			break
		}
		time.Sleep(wait)
	}
	return pid, err
}

func refusal(err error) report {
	r := report{Event: eventRefused, Error: err.Error()}
	errors.As(err, &r.Errno)
	return r
}

// commands reads commands; the channel is closed when kbisect is gone.
func commands(control *json.Decoder) <-chan command {
	c := make(chan command)
	go func() {
		defer close(c)
		for {
			var next command
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
		c <- monotonic()
	}()
	return c
}
