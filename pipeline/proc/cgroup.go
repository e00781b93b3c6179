package proc

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
)

const (
	// groupPrefix begins the name of every control group of ours; the cookie
	// follows.
	groupPrefix = "kbisect-"

	// frozenBound is how long a tree is given to come to a halt. A process that
	// waits inside a driver may not heed; the rest stands still all the same.
	frozenBound = 2 * time.Second

	// removeBound is how long an empty group may resist its removal.
	removeBound = 2 * time.Second
)

// The values of Result.Contained.
const (
	byGroup     = "cgroup"
	bySubreaper = "subreaper"
)

// group is a control group (version 2) that holds a tree. A nil *group is the
// want of one: it does nothing and holds nobody.
type group struct{ dir string }

// groupName returns the name of the group for a cookie, "" if it cannot be a
// file name.
func groupName(cookie string) string {
	if len(cookie) > 200 || strings.ContainsAny(cookie, "/\x00\n") {
		return ""
	}
	return groupPrefix + cookie
}

// makeGroup makes a group below that of this process, or returns nil. One that
// exists already may be in use; it is left alone.
func makeGroup(name string, memory int64) *group {
	if name == "" {
		return nil
	}
	for _, parent := range version2.own() {
		g := &group{dir: filepath.Join(parent, name)}
		if os.Mkdir(g.dir, 0o755) == nil {
			g.limitMemory(parent, memory)
			return g
		}
	}
	return nil
}

// limitMemory bounds the memory of g where the kernel lets us. The controller
// may be off for the children of our group; it can be turned on only where no
// process is in the way, which is to say in the root.
func (g *group) limitMemory(parent string, bytes int64) {
	own, _ := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if strings.Contains(" "+strings.TrimSpace(string(own))+" ", " memory ") && !g.has("memory.max") {
		(&group{dir: parent}).write("cgroup.subtree_control", "+memory")
	}
	if bytes > 0 {
		g.write("memory.max", strconv.FormatInt(bytes, 10))
	}
}

// open returns a descriptor to start a process in g with.
func (g *group) open() (int, error) {
	return unix.Open(g.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

func (g *group) has(file string) bool {
	_, err := os.Stat(filepath.Join(g.dir, file))
	return err == nil
}

// write writes a file of g without creating it.
func (g *group) write(file, text string) bool {
	if g == nil {
		return false
	}
	f, err := os.OpenFile(filepath.Join(g.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err == nil
}

// kill kills all processes of g and below in one stroke, which no fork
// outruns. It reports whether the kernel could (since 5.14).
func (g *group) kill() bool { return g.write("cgroup.kill", "1") }

// freeze stops or continues all processes of g. It reports whether the kernel
// could; that all have come to a halt is awaited within a bound.
func (g *group) freeze(on bool) bool {
	want := 0
	if on {
		want = 1
	}
	if !g.write("cgroup.freeze", strconv.Itoa(want)) {
		return false
	}
	if on {
		within(frozenBound, func() bool { return g.number("cgroup.events", "frozen") == 1 })
	}
	return true
}

// empties waits for the end of the last process in g.
func (g *group) empties(bound time.Duration) bool {
	return within(bound, func() bool { return g.number("cgroup.events", "populated") != 1 })
}

// members lists the processes of g and below.
func (g *group) members() ([]process, error) {
	var out []process
	for _, dir := range g.tree() {
		b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // none if it is gone
		for _, pid := range numbers(string(b)) {
			if p, err := readProcess(pid); err == nil {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// tree lists the folders of g, lowest first: a program may have made groups of
// its own.
func (g *group) tree() []string {
	var out []string
	_ = filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			out = append([]string{path}, out...)
		}
		return nil
	})
	return out
}

// remove removes g, in which nobody is left but the last to leave.
func (g *group) remove() bool {
	if g == nil {
		return true
	}
	return within(removeBound, func() bool {
		for _, dir := range g.tree() {
			_ = syscall.Rmdir(dir)
		}
		_, err := os.Stat(g.dir)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// number reads the number behind a key of a file of g, or the file's only one
// for an empty key; it is -1 where there is none.
func (g *group) number(file, key string) int64 {
	if g == nil {
		return -1
	}
	b, _ := os.ReadFile(filepath.Join(g.dir, file))
	return numberIn(string(b), key)
}

// numberIn finds "key number" among lines.
func numberIn(text, key string) int64 {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if key == "" && len(f) == 1 || len(f) == 2 && f[0] == key {
			if n, err := strconv.ParseInt(f[len(f)-1], 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

// within waits for a condition and reports whether it came true in time.
func within(bound time.Duration, ok func() bool) bool {
	stop := time.Now().Add(bound)
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(stop) {
			return false
		}
		time.Sleep(wait)
	}
}

// Delegated names a control group (version 2) in which trials can have groups of their own, and
// whether there is one.
func Delegated() (dir string, ok bool) {
	for _, dir := range version2.own() {
		probe := filepath.Join(dir, fmt.Sprintf("%sprobe-%d", groupPrefix, os.Getpid()))
		if os.Mkdir(probe, 0o755) == nil {
			return dir, unix.Rmdir(probe) == nil
		}
	}
	return "", false
}
