package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is one process as /proc showed it.
type process struct {
	pid     int
	start   uint64 // clock ticks since boot: with pid it names one process for good
	ppid    int
	state   byte
	flags   uint64 // of the kernel, PF_*
	threads int
	command string
}

// alive reports whether p runs. A process whose first thread has ended shows as
// a zombie while others run.
func (p process) alive() bool {
	return p.threads > 1 || p.state != 'Z' && p.state != 'X'
}

// signal sends sig to p, never to another process that got its number since.
func (p process) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if now, gone := readProcess(p.pid); gone != nil || now.start != p.start {
		return
	}
	if err != nil { // before Linux 5.3, or no descriptor left
		_ = unix.Kill(p.pid, sig)
		return
	}
	_ = unix.PidfdSendSignal(fd, sig, nil, 0)
}

// read returns a file of p in /proc, "" if it cannot be read.
func (p process) read(name string) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, name))
	return string(bytes.TrimSpace(b))
}

// link reads a symbolic link of p in /proc, "" if that is not allowed.
func (p process) link(name string) string {
	s, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", p.pid, name))
	return s
}

// running reports whether a child of parent has not begun to end. A thread
// that ends is marked before its descriptors are closed.
func running(pid, parent int) bool {
	const exiting = 0x4 // PF_EXITING
	if p, err := readProcess(pid); err != nil || p.ppid != parent {
		return false
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		if p, err := readStat(file); err == nil && p.state != 'Z' && p.flags&exiting == 0 {
			return true
		}
	}
	return false
}

// snapshot lists all processes. It is not taken at one instant.
func snapshot() ([]process, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var list []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			list = append(list, p)
		}
	}
	return list, nil
}

func readProcess(pid int) (process, error) {
	return readStat("/proc/" + strconv.Itoa(pid) + "/stat")
}

func readStat(file string) (process, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return process{}, err
	}
	return parseStat(string(b))
}

// parseStat reads a line of /proc/PID/stat. The name in it is the program's
// choice and may hold spaces and parentheses.
func parseStat(s string) (process, error) {
	open, end := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("no name in stat line %q", s)
	}
	f := strings.Fields(s[end+1:])
	if len(f) < 20 {
		return process{}, fmt.Errorf("stat line %q is too short", s)
	}
	p := process{command: s[open+1 : end], state: f[0][0]}
	var errs [5]error
	p.pid, errs[0] = strconv.Atoi(strings.TrimSpace(s[:open]))
	p.ppid, errs[1] = strconv.Atoi(f[1])
	p.threads, errs[2] = strconv.Atoi(f[17])
	p.start, errs[3] = strconv.ParseUint(f[19], 10, 64)
	p.flags, errs[4] = strconv.ParseUint(f[6], 10, 64)
	return p, errors.Join(errs[:]...)
}

// descendants lists all processes below root, without it.
func descendants(root int) ([]process, error) {
	list, err := snapshot()
	if err != nil {
		return nil, err
	}
	return closure(list, func(p process) bool { return p.ppid == root }), nil
}

// closure returns the processes of list that have the property, and all below
// them.
func closure(list []process, property func(process) bool) []process {
	below := make(map[int][]process)
	var out []process
	seen := make(map[int]bool)
	add := func(p process) {
		if !seen[p.pid] {
			seen[p.pid] = true
			out = append(out, p)
		}
	}
	for _, p := range list {
		below[p.ppid] = append(below[p.ppid], p)
		if property(p) {
			add(p)
		}
	}
	for i := 0; i < len(out); i++ {
		for _, p := range below[out[i].pid] {
			add(p)
		}
	}
	return out
}

// adopted lists the children that this process got as the subreaper: they go to
// its first thread.
func adopted() []int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	return numbers(string(b))
}

// children lists the children of this process, dead ones included.
func children() []int {
	var out []int
	files, _ := filepath.Glob("/proc/self/task/*/children")
	if len(files) == 0 { // a kernel without CONFIG_PROC_CHILDREN
		list, _ := snapshot()
		for _, p := range list {
			if p.ppid == os.Getpid() {
				out = append(out, p.pid)
			}
		}
	}
	for _, file := range files {
		b, _ := os.ReadFile(file) // none if the thread has ended
		out = append(out, numbers(string(b))...)
	}
	return out
}

func numbers(s string) []int {
	var out []int
	for _, f := range strings.Fields(s) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
}
