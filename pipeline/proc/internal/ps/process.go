package ps

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is one process as /proc showed it.
type Process struct {
	PID, PPID int
	Session   int    // of which it is a member
	State     byte   // as in /proc/PID/stat: Z is a zombie, for example
	Command   string // the name that the kernel keeps, at most 15 bytes; the program may change it

	start   uint64 // clock ticks since boot
	flags   uint64 // of the kernel, PF_*
	threads int
}

// ID names one process until the next boot: a PID alone may be used again.
type ID struct {
	pid   int
	start uint64
}

// ID returns the identity of p.
func (p Process) ID() ID { return ID{p.PID, p.start} }

// Alive reports whether p runs. A process whose first thread has ended shows as a zombie while its other threads run.
func (p Process) Alive() bool {
	return p.threads > 1 || p.State != 'Z' && p.State != 'X'
}

// Signal sends sig to p, and never to another process that got its number since: the descriptor is opened first, and
// the process behind it is then compared with p. Where there are no such descriptors, the number could still be given
// anew between that comparison and the signal. A process that is gone, or belongs to somebody else, is left alone.
func (p Process) Signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if now, gone := Read(p.PID); gone != nil || now.ID() != p.ID() {
		return
	}
	if err != nil { // before Linux 5.3, or no descriptor left
		_ = unix.Kill(p.PID, sig)
		return
	}
	_ = unix.PidfdSendSignal(fd, sig, nil, 0)
}

// File returns the text of a file of p in /proc, without space around it; "" if it cannot be read.
func (p Process) File(name string) string {
	b, _ := ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID, name))
	return string(bytes.TrimSpace(b))
}

// status is what a line of /proc/PID/status says, see proc_pid_status(5); "" if it cannot be read.
func (p Process) status(key string) string {
	for line := range strings.Lines(p.File("status")) {
		if text, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// signals reports whether one of these signals is in a set of signals of p.
func (p Process) signals(set string, signals ...unix.Signal) bool {
	bits, _ := strconv.ParseUint(p.status(set), 16, 64) // none without an answer
	return slices.ContainsFunc(signals, func(s unix.Signal) bool { return bits>>(s-1)&1 == 1 })
}

// Tracer is the number of the process that traces p, 0 if there is none.
func (p Process) Tracer() int {
	pid, _ := strconv.Atoi(p.status("TracerPid"))
	return pid
}

// Pending reports whether one of these signals has been sent to p as a whole, and has not reached it yet.
func (p Process) Pending(signals ...unix.Signal) bool { return p.signals("ShdPnd", signals...) }

// Catches reports whether p has a handler for a signal.
func (p Process) Catches(sig unix.Signal) bool { return p.signals("SigCgt", sig) }

// Link reads a symbolic link of p in /proc, "" if that is not allowed.
func (p Process) Link(name string) string {
	s, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", p.PID, name))
	return s
}

const exiting = 0x4 // PF_EXITING

// Exiting reports that the kernel is ending p, or its first thread: nothing stops it there.
func (p Process) Exiting() bool { return p.flags&exiting != 0 }

// Running reports whether pid is a child of parent that has not begun to end: at least one thread has not. The kernel
// marks a thread that ends before it closes the descriptors of the process.
func Running(pid, parent int) bool {
	p, err := Read(pid)
	if err != nil || p.PPID != parent {
		return false
	}
	if p.threads == 1 {
		return p.State != 'Z' && p.flags&exiting == 0
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		if p, err := readStat(file); err == nil && p.State != 'Z' && p.flags&exiting == 0 {
			return true
		}
	}
	return false
}

// Read reads one process. It fails if there is none with this number.
func Read(pid int) (Process, error) {
	return readStat("/proc/" + strconv.Itoa(pid) + "/stat")
}

func readStat(file string) (Process, error) {
	b, err := ReadFile(file)
	if err != nil {
		return Process{}, err
	}
	return parseStat(string(b))
}

// parseStat reads a line of /proc/PID/stat, see proc_pid_stat(5). The program chooses the name in it, which may hold
// spaces and parentheses: it ends at the last one. f begins with field 3 of the manual, the state.
func parseStat(s string) (Process, error) {
	open, end := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("no name in stat line %q", s)
	}
	f := strings.Fields(s[end+1:])
	if len(f) < 20 {
		return Process{}, fmt.Errorf("stat line %q is too short", s)
	}
	p := Process{Command: s[open+1 : end], State: f[0][0]}
	var errs [6]error
	p.PID, errs[0] = strconv.Atoi(strings.TrimSpace(s[:open]))
	p.PPID, errs[1] = strconv.Atoi(f[1])
	p.Session, errs[5] = strconv.Atoi(f[3])
	p.threads, errs[2] = strconv.Atoi(f[17])
	p.start, errs[3] = strconv.ParseUint(f[19], 10, 64)
	p.flags, errs[4] = strconv.ParseUint(f[6], 10, 64)
	return p, errors.Join(errs[:]...)
}

// PythonName reports whether a program of that name is a Python interpreter.
func PythonName(name string) bool {
	version, ok := strings.CutPrefix(name, "python")
	return ok && strings.Trim(version, "0123456789.") == ""
}

// Ours reports whether p belongs to this user.
func (p Process) Ours() bool {
	info, err := os.Stat("/proc/" + strconv.Itoa(p.PID))
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
