package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

const (
	// prefix begins the name of every control group of ours; the cookie
	// follows.
	prefix = "kbisect-"

	// frozenBound is how long a tree is given to come to a halt. A process that
	// waits inside a driver may not obey; the others stand still all the same.
	frozenBound = 2 * time.Second

	// removeBound is how long an empty group may resist its removal.
	removeBound = 2 * time.Second
)

// A Group is a control group of version 2 that holds a process tree. A nil *Group
// stands for none: its methods do nothing.
type Group struct{ Dir string }

// Name returns the name of the group for a cookie, "" if it cannot be a file name.
func Name(cookie string) string {
	if len(cookie) > 200 || strings.ContainsAny(cookie, "/\x00\n") {
		return ""
	}
	return prefix + cookie
}

// Make makes a group below that of this process, or returns nil. One that exists
// already may be in use; it is left alone. The memory limit is in bytes, 0 for none;
// it holds only where the memory controller can be had.
func Make(name string, memory int64) *Group {
	if name == "" {
		return nil
	}
	for _, parent := range version2.own() {
		g := &Group{Dir: filepath.Join(parent, name)}
		if os.Mkdir(g.Dir, 0o755) == nil {
			g.limitMemory(parent, memory)
			return g
		}
	}
	return nil
}

// Open returns a descriptor to start a process in g with.
func (g *Group) Open() (int, error) {
	return unix.Open(g.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

func (g *Group) has(file string) bool {
	_, err := os.Stat(filepath.Join(g.Dir, file))
	return err == nil
}

// write writes a file of g without creating it.
func (g *Group) write(file, text string) bool {
	if g == nil {
		return false
	}
	f, err := os.OpenFile(filepath.Join(g.Dir, file), os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err == nil
}

// Kill kills all processes of g and below in one stroke, which no fork
// outruns. It reports whether the kernel could (since 5.14).
func (g *Group) Kill() bool { return g.write("cgroup.kill", "1") }

// Freeze stops or continues all processes of g. It reports whether the kernel
// could, and whether all came to a halt within a bound.
func (g *Group) Freeze(on bool) (could, still bool) {
	want := 0
	if on {
		want = 1
	}
	if !g.write("cgroup.freeze", strconv.Itoa(want)) {
		return false, false
	}
	return true, on && ps.Within(frozenBound, func() bool { return g.number("cgroup.events", "frozen") == 1 })
}

// Empties waits for the end of the last process in g, and reports whether it came
// within the bound.
func (g *Group) Empties(bound time.Duration) bool {
	return ps.Within(bound, func() bool { return g.number("cgroup.events", "populated") != 1 })
}

// Members lists the processes of g and below.
func (g *Group) Members() ([]ps.Process, error) {
	var out []ps.Process
	for _, dir := range g.tree() {
		for _, pid := range ps.PIDs(filepath.Join(dir, "cgroup.procs")) { // none if it is gone
			if p, err := ps.Read(pid); err == nil {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// tree lists the folders of g, lowest first: a program may have made groups of
// its own.
func (g *Group) tree() []string {
	var out []string
	_ = filepath.WalkDir(g.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			out = append([]string{path}, out...)
		}
		return nil
	})
	return out
}

// Remove removes g and the groups below it; a process that is about to end may
// delay it. It reports whether it could within a bound.
func (g *Group) Remove() bool {
	if g == nil {
		return true
	}
	if unix.Rmdir(g.Dir) == nil { // as a rule it holds no others
		return true
	}
	return ps.Within(removeBound, func() bool {
		for _, dir := range g.tree() {
			_ = syscall.Rmdir(dir)
		}
		_, err := os.Stat(g.Dir)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// Delegated returns a control group in which trials can have groups of their own,
// and whether there is one.
func Delegated() (dir string, ok bool) {
	for _, dir := range version2.own() {
		probe := filepath.Join(dir, fmt.Sprintf("%sprobe-%d", prefix, os.Getpid()))
		if os.Mkdir(probe, 0o755) == nil {
			return dir, unix.Rmdir(probe) == nil
		}
	}
	return "", false
}

// Find lists the control groups of this user with a matching cookie, anywhere in
// the hierarchy: the search that left them may have run in another session.
func Find(match func(cookie string) bool) []*Group {
	var out []*Group
	seen := make(map[string]bool)
	for _, m := range version2.mounts() {
		_ = filepath.WalkDir(m.point, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			cookie, found := strings.CutPrefix(d.Name(), prefix)
			if !found || !match(cookie) || !own(path) {
				return nil
			}
			if !seen[cookie] { // once, if mounted twice
				out = append(out, &Group{Dir: path})
			}
			seen[cookie] = true
			return fs.SkipDir
		})
	}
	return out
}

// own reports whether a folder belongs to this user.
func own(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
