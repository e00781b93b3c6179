package warden

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
	"github.com/kbisect/kbisect/pipeline/proc/internal/perf"
	"github.com/kbisect/kbisect/pipeline/proc/internal/self"
)

// start starts the leader, in a control group where there can be one, and returns
// the time of the start on the clock of Monotonic. It closes the ends, the leader's descriptors from standard output on.
func start(o Order, ends []int, score *self.Score) (t *tree, at int64, err error) {
	defer func() {
		for _, fd := range ends {
			syscall.Close(fd)
		}
	}()
	if len(ends) < 2 {
		return nil, 0, errors.New("the descriptors of the program did not arrive")
	}
	t = &tree{over: make(chan struct{})}
	group := cgroup.Make(string(o.Group), o.Memory)
	defer score.Raise()() // until the leader runs, which keeps it
	onThread(t.over, func() {
		if err = pin(o.CPUs, o.Nice); err != nil {
			return
		}
		if o.Count != nil {
			if t.counter, err = perf.Open(*o.Count); err != nil {
				return
			}
		}
		if o.Sandbox != nil {
			if err = o.Sandbox.enter(); err != nil {
				return
			}
		}
		for _, t.group = range []*cgroup.Group{group, nil} { // an error may be the program's as well as the group's
			at = Monotonic()
			if t.leader, err = startIn(t.group, o, ends); err == nil || t.group == nil {
				if err == nil && o.Nice > 0 {
					t.nice.Store(int64(o.Nice))
					go t.weigh()
				}
				return
			}
		}
	})
	if t.group == nil {
		group.Remove()
	}
	return t, at, err
}

// onThread calls f on a thread of its own that stays until the tree is over: the parent death signal
// comes when the thread that forked ends, not the process. What f does to the
// thread must not affect the supervisor.
func onThread(over <-chan struct{}, f func()) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		f()
		close(done)
		<-over
	}()
	<-done
}

// startIn starts the leader as a member of g.
func startIn(g *cgroup.Group, o Order, ends []int) (pid int, err error) {
	null, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(null)
	files := []uintptr{uintptr(null)}
	for _, fd := range ends {
		files = append(files, uintptr(fd))
	}
	attr := &syscall.ProcAttr{
		Dir:   string(o.Dir),
		Env:   toStrings(o.Env),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if g != nil {
		fd, err := g.Open()
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

// place is where a process runs: what its first thread has, which is what others can change and what a program that it
// starts inherits.
type place struct {
	nice int
	cpus unix.CPUSet
}

// placed is the place of this process.
func placed() (p place) {
	p.nice, _ = unix.Getpriority(unix.PRIO_PROCESS, 0)
	_ = unix.SchedGetaffinity(0, &p.cpus)
	return p
}

// weigh sets the nice value of the leader's session, which is what counts between sessions where the kernel schedules
// them as groups (autogroup, sched(7)). Everybody may lower it to 0, but others than root not often.
func (t *tree) weigh() {
	for range 20 {
		t.weighing.Lock()
		nice := strconv.FormatInt(t.nice.Load(), 10)
		err := os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", t.leader), []byte(nice), 0)
		t.weighing.Unlock()
		if !errors.Is(err, unix.EAGAIN) {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// hurry takes back what a nice value costs the tree. What left the leader's session or process group keeps it.
func (t *tree) hurry() {
	t.nice.Store(0)
	go t.weigh()
	if own, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PGRP, t.leader, 20-own) // only root may
	}
}

// maxCPUs is more than any kernel knows.
const maxCPUs = 1 << 13

// pin binds the calling thread, and what it starts, to processors and sets its
// nice value. The kernel silently drops processors that do not exist or are
// not ours.
func pin(cpus []int, nice int) error {
	if nice != 0 {
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
			return fmt.Errorf("nice %d: %v\nhint: only root may lower it", nice, err)
		}
	}
	if len(cpus) == 0 {
		return nil
	}
	want := unix.NewCPUSet(maxCPUs)
	for _, n := range cpus {
		if n >= 0 {
			want.Set(n)
		}
	}
	got := unix.NewCPUSet(maxCPUs)
	if unix.SchedSetaffinityDynamic(0, want) == nil { // else all are missing
		_ = unix.SchedGetaffinityDynamic(0, got)
	}
	var missing []string
	for _, n := range cpus {
		if n < 0 || !got.IsSet(n) {
			missing = append(missing, strconv.Itoa(n))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("processors not available: %s\nhint: Cpus_allowed_list in /proc/self/status names those that are", strings.Join(missing, ", "))
	}
	return nil
}
