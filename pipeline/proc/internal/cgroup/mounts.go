package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

// hierarchy names one tree of control groups: a controller of version 1, such
// as "memory", or "" for version 2.
type hierarchy string

const (
	version2 hierarchy = ""
	memoryV1 hierarchy = "memory"
)

// mount is a file system of control groups as /proc/self/mountinfo shows it.
type mount struct {
	root  string // which group of the hierarchy is mounted
	point string // where
}

// own lists the folders that show the control group of this process: usually
// one, and none on a machine without the hierarchy. With both versions in use,
// version 2 is not mounted in its usual place.
func (h hierarchy) own() []string {
	self, _ := ps.ReadFile("/proc/self/cgroup")
	path, ok := h.path(string(self))
	if !ok {
		return nil
	}
	var out []string
	for _, m := range visible()[h] {
		if dir, ok := m.folder(path); ok {
			out = append(out, dir)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, m := range h.showing(path) {
		dir, _ := m.folder(path)
		out = append(out, dir)
	}
	return out
}

// showing lists the mounts that show the group at path with this process in it.
func (h hierarchy) showing(path string) []mount {
	return slices.DeleteFunc(h.mounts(), func(m mount) bool {
		dir, ok := m.folder(path)
		return !ok || !h.holds(dir, os.Getpid())
	})
}

// visible are the mounts that showed the groups of this process when they were first asked for. Looking for the process in
// each takes longer than the rest of reading what its group has used.
var visible = sync.OnceValue(func() map[hierarchy][]mount {
	self, _ := ps.ReadFile("/proc/self/cgroup")
	all := map[hierarchy][]mount{}
	for _, h := range []hierarchy{version2, memoryV1} {
		if path, ok := h.path(string(self)); ok {
			all[h] = h.showing(path)
		}
	}
	return all
})

// mounts lists where the hierarchy is mounted.
func (h hierarchy) mounts() []mount {
	return h.parseMounts(mountinfo())
}

// mountinfo is what was mounted when it was first asked for: a process looks at every trial.
var mountinfo = sync.OnceValue(func() string {
	info, _ := ps.ReadFile("/proc/self/mountinfo")
	return string(info)
})

// path finds the line of the hierarchy in /proc/PID/cgroup: number,
// controllers, path. Version 2 has no controllers there.
func (h hierarchy) path(text string) (path string, ok bool) {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && h.among(f[1]) {
			return f[2], strings.HasPrefix(f[2], "/")
		}
	}
	return "", false
}

// among reports whether a list of controllers is that of the hierarchy.
func (h hierarchy) among(controllers string) bool {
	return slices.Contains(strings.Split(controllers, ","), string(h))
}

// parseMounts finds the mounts of the hierarchy in /proc/PID/mountinfo: number,
// parent, device, root, mount point, options, any number of optional fields, a
// hyphen, type, source, options.
func (h hierarchy) parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		i := slices.Index(f, "-")
		if i < 6 || i+3 >= len(f) {
			continue
		}
		if h == version2 && f[i+1] == "cgroup2" || h != version2 && f[i+1] == "cgroup" && h.among(f[i+3]) {
			out = append(out, mount{root: unescape(f[3]), point: unescape(f[4])})
		}
	}
	return out
}

// unescape undoes the octal escapes of mountinfo: \040 is a space.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// folder returns where the group at path is to be seen in m. A mount may show
// a part of the hierarchy only.
func (m mount) folder(path string) (string, bool) {
	if m.root != "/" {
		rest, ok := strings.CutPrefix(path, m.root)
		if !ok || rest != "" && rest[0] != '/' {
			return "", false
		}
		path = rest
	}
	if slices.Contains(strings.Split(path, "/"), "..") { // outside of our cgroup namespace
		return "", false
	}
	return filepath.Join(m.point, path), true
}

// holds reports whether dir is a group of the hierarchy with the process in it:
// another mount may hide what mountinfo lists.
func (h hierarchy) holds(dir string, pid int) bool {
	magic := int64(unix.CGROUP_SUPER_MAGIC)
	if h == version2 {
		magic = unix.CGROUP2_SUPER_MAGIC
	}
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || int64(st.Type) != magic {
		return false
	}
	return slices.Contains(ps.PIDs(filepath.Join(dir, "cgroup.procs")), pid)
}
