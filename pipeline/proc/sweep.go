package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
// Where trials have control groups, those of this user with such a cookie are
// killed and removed first, so that a process that wiped its environment and
// lost its parent is found too; without groups it is not. The error is a
// *StuckError when a process cannot be killed.
func Sweep(cookiePrefix string) (killed int, err error) {
	if cookiePrefix == "" {
		return 0, errors.New("sweep: empty cookie prefix")
	}
	return sweep(func(cookie string) bool { return strings.HasPrefix(cookie, cookiePrefix) })
}

// sweep kills the processes whose cookie matches.
func sweep(match func(cookie string) bool) (killed int, err error) {
	hit := make(map[process]bool)
	for _, g := range groupsOf(match) {
		if err := sweepGroup(g, hit); err != nil {
			return len(hit), err
		}
	}
	// Twice nobody: a process on its way through exec has no environment.
	err = sweepAll(func() ([]process, error) { return carriers(match) }, 2, hit)
	return len(hit), err
}

// sweepAll kills a population until it was empty several times in a row.
func sweepAll(all population, times int, hit map[process]bool) error {
	stop := time.Now().Add(defaultKillBound)
	for clean := 0; clean < times; time.Sleep(5 * time.Millisecond) {
		list, err := strike(all)
		if err != nil {
			return err
		}
		note(list, hit)
		if clean++; len(list) > 0 {
			clean = 0
		}
		if len(list) > 0 && time.Now().After(stop) {
			return &StuckError{After: defaultKillBound, Processes: describe(list)}
		}
	}
	return nil
}

// sweepGroup kills what is in a group and removes it, unless we are in it.
func sweepGroup(g *group, hit map[process]bool) error {
	members, err := g.members()
	if err != nil {
		return err
	}
	all, err := snapshot()
	if err != nil {
		return err
	}
	spared := ancestors(all, os.Getpid())
	for _, p := range members {
		if spared[p.pid] {
			return nil
		}
	}
	if g.kill() {
		note(members, hit)
		g.empties(containedBound)
	}
	if err := sweepAll(g.members, 1, hit); err != nil {
		return err
	}
	g.remove() // at worst an empty folder stays
	return nil
}

// note adds those of a list that are alive to hit.
func note(list []process, hit map[process]bool) {
	for _, p := range list {
		if p.alive() {
			hit[process{pid: p.pid, start: p.start}] = true
		}
	}
}

// groupsOf lists the control groups of this user whose cookie matches, anywhere
// in the hierarchy: the search that left them may have run in another session.
func groupsOf(match func(cookie string) bool) []*group {
	var out []*group
	seen := make(map[string]bool)
	for _, m := range version2.mounts() {
		_ = filepath.WalkDir(m.point, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			cookie, found := strings.CutPrefix(d.Name(), groupPrefix)
			if !found || !match(cookie) || !ownFolder(path) {
				return nil
			}
			if !seen[cookie] { // once, if mounted twice
				out = append(out, &group{dir: path})
			}
			seen[cookie] = true
			return fs.SkipDir
		})
	}
	return out
}

// ownFolder reports whether a folder belongs to this user: to a process the one
// in /proc.
func ownFolder(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
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
	return ownFolder("/proc/" + strconv.Itoa(p.pid))
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
