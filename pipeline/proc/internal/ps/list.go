package ps

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// All lists all processes. They are read one after the other, so that one which starts meanwhile may be missing. It
// fails only if /proc cannot be read.
func All() ([]Process, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := Read(pid); err == nil {
			list = append(list, p)
		}
	}
	return list, nil
}

// LastPID is the number that was given to a process last, 0 if that is not known.
func LastPID() (pid int) {
	b, _ := ReadFile("/proc/loadavg")
	if f := strings.Fields(string(b)); len(f) > 0 {
		pid, _ = strconv.Atoi(f[len(f)-1])
	}
	return pid
}

// Since lists the processes that were started after [LastPID] returned first, and that still exist. It reads nothing
// of older ones, as a list of all processes would.
func Since(first int) []Process {
	const few = 256 // up to this many, trying each number costs less than listing /proc
	last := LastPID()
	var list []Process
	look := func(pid int) {
		if p, err := Read(pid); err == nil {
			list = append(list, p)
		}
	}
	if first <= last && last-first <= few {
		for pid := first + 1; pid <= last; pid++ {
			look(pid)
		}
		return list
	}
	names, _ := os.ReadDir("/proc")
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		// Numbers start again from the lowest after the highest, so last may be less than first.
		if err == nil && (first > last && (pid > first || pid <= last) || first < pid && pid <= last) {
			look(pid)
		}
	}
	return list
}

// Descends reports whether p is a child of a process, or of one of its descendants. It reads the parents as they are
// now; where one has ended, p belongs to whoever adopted it.
func (p Process) Descends(from int) bool {
	for range 1000 { // a number that is given to another process meanwhile might close a circle
		if p.PPID == from {
			return true
		}
		var err error
		if p, err = Read(p.PPID); err != nil {
			return false
		}
	}
	return false
}

// Below lists all descendants of root, without root itself. It fails if [All] does.
func Below(root int) ([]Process, error) {
	list, err := All()
	if err != nil {
		return nil, err
	}
	return Closure(list, func(p Process) bool { return p.PPID == root }), nil
}

// Closure returns the processes of list that have the property, and all their descendants in it.
func Closure(list []Process, property func(Process) bool) []Process {
	below := make(map[int][]Process)
	var out []Process
	seen := make(map[int]bool)
	add := func(p Process) {
		if !seen[p.PID] {
			seen[p.PID] = true
			out = append(out, p)
		}
	}
	for _, p := range list {
		below[p.PPID] = append(below[p.PPID], p)
		if property(p) {
			add(p)
		}
	}
	for i := 0; i < len(out); i++ {
		for _, p := range below[out[i].PID] {
			add(p)
		}
	}
	return out
}

// Adopted lists the children that this process got as the subreaper, dead ones included: the kernel gives them to its
// first thread. Without CONFIG_PROC_CHILDREN the kernel does not say which these are; then it lists all children.
func Adopted() []int {
	text, err := ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		return children(os.Getpid())
	}
	return numbers(text)
}

// children lists the children of all threads of a process.
func children(parent int) []int {
	var out []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if len(files) == 0 { // a kernel without CONFIG_PROC_CHILDREN
		list, _ := All()
		for _, p := range list {
			if p.PPID == parent {
				out = append(out, p.PID)
			}
		}
	}
	for _, file := range files {
		out = append(out, PIDs(file)...) // none if the thread has ended
	}
	return out
}

// Outside returns the number in our PID namespace of the child of a process that has the number inside in a namespace
// below ours; 0 if there is none.
func Outside(parent, inside int) int {
	for _, pid := range children(parent) {
		if slices.Contains(strings.Fields(Process{PID: pid}.status("NSpid")), strconv.Itoa(inside)) {
			return pid
		}
	}
	return 0
}

// PIDs reads a file of process numbers, such as cgroup.procs; it returns none if the file cannot be read.
func PIDs(file string) []int {
	b, _ := ReadFile(file)
	return numbers(b)
}

// numbers are the numbers in a text; other words are left out.
func numbers(text []byte) (out []int) {
	for _, f := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// Ancestors returns pid and the processes of list above it, as a set.
func Ancestors(list []Process, pid int) map[int]bool {
	parent := make(map[int]int, len(list))
	for _, p := range list {
		parent[p.PID] = p.PPID
	}
	out := make(map[int]bool)
	for ; pid > 0 && !out[pid]; pid = parent[pid] {
		out[pid] = true
	}
	return out
}
