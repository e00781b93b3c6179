package proc

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The values of Result.OOMWhere.
const (
	oomTrial   = "trial"
	oomMachine = "machine"
)

// account fills r with what the tree has used. The group knows more than the
// list of children: also those whose parent never waited for them.
func (s *supervisor) account(r *report) {
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &use) == nil { // all that were reaped, by us or below
		r.User = time.Duration(use.Utime.Nano())
		r.System = time.Duration(use.Stime.Nano())
		r.MaxRSS = use.Maxrss * 1024
	}
	user, system := s.group.number("cpu.stat", "user_usec"), s.group.number("cpu.stat", "system_usec")
	if user >= 0 && system >= 0 {
		r.User = time.Duration(user) * time.Microsecond
		r.System = time.Duration(system) * time.Microsecond
	}
	r.Peak = max(0, s.group.number("memory.peak", ""))
	r.OOM = oomWhere(oom{
		killed:  s.group.number("memory.events", "oom_kill"),
		limit:   s.group.number("memory.events", "oom"),
		above:   aboveOOM() > s.oomBefore,
		foreign: s.foreignKill(),
	})
}

// oom is what is known of memory running out during a trial.
type oom struct {
	killed  int64 // processes of the group that the kernel killed for memory, -1 unknown
	limit   int64 // how often the group came to its own limit, -1 unknown
	above   bool  // aboveOOM rose
	foreign bool  // a process of the tree was ended by a SIGKILL that was not ours
}

// oomWhere says whose memory ran out, "" if it did not. A member of the group is
// also killed, and counted there, when the machine or a group above has no
// memory left: only what came to its own limit has itself to blame.
func oomWhere(o oom) string {
	switch {
	case o.killed > 0 && o.limit > 0:
		return oomTrial
	case o.killed > 0, o.killed < 0 && o.above && o.foreign:
		return oomMachine
	}
	return ""
}

// ownOOM counts the processes that the kernel killed for memory in the memory
// group of this process; -1 without one. What happens in other groups of the
// machine does not count. A child starts in the same group.
func ownOOM() int64 {
	for _, dir := range memoryV1.own() {
		if n := (&group{dir: dir}).number("memory.oom_control", "oom_kill"); n >= 0 {
			return n
		}
	}
	for _, dir := range version2.own() {
		if n := nearestOOM(dir); n >= 0 {
			return n
		}
	}
	return -1
}

// nearestOOM is ownOOM in version 2. A group for which the memory controller is
// off is charged to the next group above that has it.
func nearestOOM(dir string) int64 {
	for g := (&group{dir: dir}); g.has("cgroup.procs"); g.dir = filepath.Dir(g.dir) {
		for _, file := range []string{"memory.events.local", "memory.events"} { // local since Linux 5.2
			if n := g.number(file, "oom_kill"); n >= 0 {
				return n
			}
		}
	}
	return -1
}

// aboveOOM counts the kills for memory that may have hit a tree without a memory
// group of its own: those in our group or, when that is unknown, anywhere.
func aboveOOM() int64 {
	if n := ownOOM(); n >= 0 {
		return n
	}
	return machineOOM()
}

// machineOOM counts the processes that the kernel has ever killed for memory.
func machineOOM() int64 {
	b, _ := os.ReadFile("/proc/vmstat")
	return numberIn(string(b), "oom_kill")
}

// foreignKill reports whether a process of the tree was ended by a SIGKILL that
// we did not send. Of the descendants we see those that lost their parent; of
// the others a shell tells, by exit status 137.
func (s *supervisor) foreignKill() bool {
	const shellKilled = 128 + int(unix.SIGKILL)
	own := s.overFirst && s.reaped && (s.status.Signal() == unix.SIGKILL || s.status.ExitStatus() == shellKilled)
	return own || s.orphanKilled
}
