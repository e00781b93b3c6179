package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is a cgroup2 file system as /proc/self/mountinfo shows it.
type mount struct {
	root  string // which group of the hierarchy is mounted
	point string // where
}

// ownGroups lists the folders in which the version 2 control group of this
// process is to be seen: as a rule one, on a machine without version 2 none.
// With both versions in use, version 2 is mounted somewhere else than usual.
func ownGroups() []string {
	self, _ := os.ReadFile("/proc/self/cgroup")
	path, ok := ownPath(string(self))
	if !ok {
		return nil
	}
	var out []string
	for _, m := range groupMounts() {
		if dir, ok := m.folder(path); ok && holds(dir, os.Getpid()) {
			out = append(out, dir)
		}
	}
	return out
}

// groupMounts lists the cgroup2 mounts.
func groupMounts() []mount {
	info, _ := os.ReadFile("/proc/self/mountinfo")
	return parseMounts(string(info))
}

// ownPath finds the version 2 line of /proc/PID/cgroup.
func ownPath(text string) (path string, ok bool) {
	for line := range strings.Lines(text) {
		if path, ok = strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path, strings.HasPrefix(path, "/")
		}
	}
	return "", false
}

// parseMounts finds the cgroup2 lines of /proc/PID/mountinfo: number, parent,
// device, root, mount point, options, any number of optional fields, a hyphen,
// type, source, options.
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		i := slices.Index(f, "-")
		if i >= 6 && i+1 < len(f) && f[i+1] == "cgroup2" {
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

// holds reports whether dir is a version 2 group with the process in it: what
// was read of mounts may be hidden by others.
func holds(dir string, pid int) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || int64(st.Type) != unix.CGROUP2_SUPER_MAGIC {
		return false
	}
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err == nil && slices.Contains(numbers(string(b)), pid)
}
