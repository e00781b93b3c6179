package cgroup

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

// Usage is what the processes of a group have used so far; -1 where the kernel
// does not count it.
type Usage struct {
	User, System time.Duration // processor time
	MemoryPeak   int64         // bytes, of all processes together
	Killed       int64         // processes that the kernel killed for memory, for whatever limit
	AtLimit      int64         // how often the group came to its own memory limit
}

// Usage reads the counters of g.
func (g *Group) Usage() Usage {
	cpu, memory := g.text("cpu.stat"), g.text("memory.events")
	micros := func(key string) time.Duration {
		return time.Duration(max(-1, 1000*numberIn(cpu, key)))
	}
	return Usage{
		User: micros("user_usec"), System: micros("system_usec"),
		MemoryPeak: g.number("memory.peak", ""),
		Killed:     numberIn(memory, "oom_kill"),
		AtLimit:    numberIn(memory, "oom"),
	}
}

// OwnOOM counts the processes that the kernel killed for memory in the memory
// group of this process; -1 without one. What happens in other groups of the
// machine does not count. A child starts in the same group.
func OwnOOM() int64 {
	for _, dir := range memoryV1.own() {
		if n := (&Group{Dir: dir}).number("memory.oom_control", "oom_kill"); n >= 0 {
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

// nearestOOM is OwnOOM for version 2. A group for which the memory controller is
// off is charged to the next group above that has it.
func nearestOOM(dir string) int64 {
	for g := (&Group{Dir: dir}); g.has("cgroup.procs"); g.Dir = filepath.Dir(g.Dir) {
		for _, file := range []string{"memory.events.local", "memory.events"} { // local since Linux 5.2
			if n := g.number(file, "oom_kill"); n >= 0 {
				return n
			}
		}
	}
	return -1
}

// AboveOOM counts the kills for memory that may have hit a tree without a memory
// group of its own: those in our group or, when that is unknown, anywhere.
func AboveOOM() int64 {
	if n := OwnOOM(); n >= 0 {
		return n
	}
	return machineOOM()
}

// machineOOM counts the processes that the kernel has ever killed for memory.
func machineOOM() int64 {
	b, _ := ps.ReadFile("/proc/vmstat")
	return numberIn(string(b), "oom_kill")
}

// Memory is how many bytes this process and what it starts may hold: the least limit of its memory groups, or what the
// machine has.
func Memory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	least := int64(info.Totalram) * int64(info.Unit)
	for file, own := range map[string][]string{"memory.limit_in_bytes": memoryV1.own(), "memory.max": version2.own()} {
		for _, dir := range own {
			for g := (&Group{Dir: dir}); g.has("cgroup.procs"); g.Dir = filepath.Dir(g.Dir) {
				if n := g.number(file, ""); n > 0 {
					least = min(least, n)
				}
			}
		}
	}
	return least
}

// Available is how many bytes this process and what it starts may still take before memory runs out, and how many they may
// hold in all. What the kernel keeps of files and can drop counts as free.
func Available() (free, all int64) {
	b, _ := ps.ReadFile("/proc/meminfo")
	free, all = 1024*max(0, numberIn(string(b), "MemAvailable:")), Memory()
	for _, v := range []struct {
		own              []string
		limit, now, file string
	}{
		{memoryV1.own(), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
		{version2.own(), "memory.max", "memory.current", "inactive_file"},
	} {
		for _, dir := range v.own {
			for g := (&Group{Dir: dir}); g.has("cgroup.procs"); g.Dir = filepath.Dir(g.Dir) {
				if limit, now := g.number(v.limit, ""), g.number(v.now, ""); limit > 0 && now >= 0 {
					free = min(free, max(0, limit-now+max(0, g.number("memory.stat", v.file))))
				}
			}
		}
	}
	return free, all
}

// limitMemory bounds the memory of g where the kernel lets us. The controller
// may be off for the children of our group; it can be turned on only where no
// process is in the way, which is to say in the root.
func (g *Group) limitMemory(parent string, bytes int64) {
	own, _ := ps.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if strings.Contains(" "+strings.TrimSpace(string(own))+" ", " memory ") && !g.has("memory.max") {
		(&Group{Dir: parent}).write("cgroup.subtree_control", "+memory")
	}
	if bytes > 0 {
		g.write("memory.max", strconv.FormatInt(bytes, 10))
	}
}

// number reads the number behind a key of a file of g, or the file's only one
// for an empty key; it is -1 where there is none.
func (g *Group) number(file, key string) int64 { return numberIn(g.text(file), key) }

// text is a file of g, "" if there is none.
func (g *Group) text(file string) string {
	if g == nil {
		return ""
	}
	b, _ := ps.ReadFile(filepath.Join(g.Dir, file))
	return string(b)
}

// numberIn finds "key number" among lines, whatever follows it.
func numberIn(text, key string) int64 {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, key)
		if f := strings.Fields(rest); ok && len(f) > 0 {
			if n, err := strconv.ParseInt(f[0], 10, 64); err == nil { // else the key is longer
				return n
			}
		}
	}
	return -1
}
