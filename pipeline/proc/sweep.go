package proc

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Sweep kills every process of this user whose environment carries a cookie
// that begins with the prefix, and all below them, and returns how many it
// killed. It is for what is left when both kbisect and a warden were killed.
// This process and those above it are spared.
//
// A process that wiped its environment and lost its parent is not found. The
// error is a *StuckError when a process cannot be killed.
func Sweep(cookiePrefix string) (killed int, err error) {
	if cookiePrefix == "" {
		return 0, errors.New("sweep: empty cookie prefix")
	}
	return sweep(func(cookie string) bool { return strings.HasPrefix(cookie, cookiePrefix) })
}

// sweep kills the processes whose cookie matches.
func sweep(match func(cookie string) bool) (killed int, err error) {
	hit := make(map[process]bool)
	stop := time.Now().Add(defaultKillBound)
	// Twice nobody: a process on its way through exec has no environment.
	for clean := 0; clean < 2; time.Sleep(5 * time.Millisecond) {
		list, err := strike(func() ([]process, error) { return carriers(match) })
		if err != nil {
			return len(hit), err
		}
		for _, p := range list {
			hit[process{pid: p.pid, start: p.start}] = true
		}
		if clean++; len(list) > 0 {
			clean = 0
		}
		if len(list) > 0 && time.Now().After(stop) {
			return len(hit), &StuckError{After: defaultKillBound, Processes: describe(list)}
		}
	}
	return len(hit), nil
}

// carriers lists the processes of this user whose cookie matches, and all below
// them.
func carriers(match func(cookie string) bool) ([]process, error) {
	list, err := snapshot()
	if err != nil {
		return nil, err
	}
	spared := ancestors(list, os.Getpid())
	list = closure(list, func(p process) bool {
		if spared[p.pid] || !p.ours() {
			return false
		}
		cookie, ok := lookup(strings.Split(p.read("environ"), "\x00"), CookieVariable)
		return ok && match(cookie)
	})
	var out []process
	for _, p := range list {
		if !spared[p.pid] && p.alive() {
			out = append(out, p)
		}
	}
	return out, nil
}

// ours reports whether p belongs to this user.
func (p process) ours() bool {
	info, err := os.Stat("/proc/" + strconv.Itoa(p.pid))
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// ancestors returns pid and all above it.
func ancestors(list []process, pid int) map[int]bool {
	parent := make(map[int]int, len(list))
	for _, p := range list {
		parent[p.pid] = p.ppid
	}
	out := make(map[int]bool)
	for ; pid > 0 && !out[pid]; pid = parent[pid] {
		out[pid] = true
	}
	return out
}
