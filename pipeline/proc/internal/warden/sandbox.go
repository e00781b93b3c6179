package warden

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Sandbox is what the leader and its descendants find. The whole file system is there, read-only, but /tmp,
// /var/tmp, /run and /dev are their own. They have no privileges, and no process outside is visible to them.
type Sandbox struct {
	Write   [][]byte // folders that they may write, in place
	Read    [][]byte // folders that they find although they lie in one that is their own
	Tmp     []byte   // one of Write: /tmp and /var/tmp
	Devices [][]byte // device nodes besides those of every program
	Hide    [][]byte // sockets of programs outside
}

// Capabilities are what a warden in a user namespace of its own needs there: to signal, to hand down none of them, to
// switch the loopback device on, to read what its children run, and to mount.
func Capabilities() []uintptr {
	return []uintptr{unix.CAP_KILL, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN}
}

// sandboxError is a step of making a sandbox that the kernel refused.
type sandboxError struct {
	step string
	err  error
}

func (e *sandboxError) Error() string { return e.step + ": " + e.err.Error() }
func (e *sandboxError) Unwrap() error { return e.err }

// step names what failed.
func step(name string, err error) error {
	if err == nil {
		return nil
	}
	return &sandboxError{name, err}
}

// ownNamespaces completes the namespaces in which this process was started as the first one: the warden's own /proc
// shows their processes. The ids, user and group, are those outside; there are none without a user namespace.
func ownNamespaces(ids []string) error {
	if len(ids) == 2 {
		for _, f := range [][2]string{{"setgroups", "deny"}, {"uid_map", ids[0] + " " + ids[0] + " 1"}, {"gid_map", ids[1] + " " + ids[1] + " 1"}} {
			if err := os.WriteFile("/proc/self/"+f[0], []byte(f[1]), 0); err != nil {
				return step("keep user and group in a user namespace", err)
			}
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return step("separate the mounts", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return step("mount /proc", err)
	}
	loopback()
	return nil
}

// loopback switches the loopback device on, which a new network namespace has off: profilers and distributed programs
// talk to themselves. A container may forbid it; most programs do not miss it.
func loopback() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if lo, err := unix.NewIfreq("lo"); err == nil {
		lo.SetUint16(unix.IFF_UP)
		_ = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
	}
}

// own lists the folders whose content the leader does not see.
func own() []string { return []string{"/tmp", "/var/tmp", "/run", "/dev"} }

// kept lists what of /run programs need: how names are looked up where the network is on, and the
// libraries of NixOS.
func kept() []string {
	return []string{"/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/opengl-driver", "/run/current-system"}
}

// nodes lists the devices of every program.
func nodes() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
}

// mount is a copy of a mount that is nowhere yet.
type mount struct {
	fd int
	at string
}

// enter puts the calling thread, and what it starts from now on, into the sandbox. The thread has a file system and
// privileges of its own then: the others of the warden still manage control groups.
func (b *Sandbox) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return step("separate the leader's mounts", err)
	}
	writable, err := clones(toStrings(b.Write))
	if err != nil {
		return err
	}
	tmp, err := clones([]string{string(b.Tmp), string(b.Tmp)})
	if err != nil {
		return err
	}
	if err := readOnly("/", true); err != nil { // what is copied from now on is read-only too
		return err
	}
	seen, err := clones(existing(hidden(slices.Concat(kept(), toStrings(b.Read)))))
	if err != nil {
		return err
	}
	devices, err := clones(existing(slices.Concat(nodes(), toStrings(b.Devices))))
	if err != nil {
		return err
	}
	if err := attach(mount{tmp[0].fd, "/tmp"}); err != nil {
		return err
	}
	if link, err := filepath.EvalSymlinks("/var/tmp"); err == nil && link == "/var/tmp" {
		if err := attach(mount{tmp[1].fd, link}); err != nil {
			return err
		}
	}
	if err := fresh("/run"); err != nil {
		return err
	}
	if err := ownDevices(devices); err != nil {
		return err
	}
	for _, m := range slices.Concat(seen, writable) { // the writable may lie in what is seen
		_ = os.MkdirAll(m.at, 0o755) // fails where attach says so
		if err := attach(m); err != nil {
			return err
		}
	}
	if err := hide(toStrings(b.Hide)); err != nil {
		return err
	}
	if err := ownProc(); err != nil {
		return err
	}
	return dropPrivileges()
}

// hidden are the paths of a list that lie in a folder of the leader's own.
func hidden(paths []string) (out []string) {
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err == nil && slices.ContainsFunc(own(), func(dir string) bool { return strings.HasPrefix(real, dir+"/") || strings.HasPrefix(path, dir+"/") }) {
			out = append(out, path)
		}
	}
	slices.Sort(out) // outer folders first
	return slices.Compact(out)
}

func existing(paths []string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}

// clones copies mounts with all below them. The copies keep working wherever something is mounted later.
func clones(paths []string) (out []mount, err error) {
	for _, path := range paths {
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return nil, step("copy the mount of "+path, err)
		}
		out = append(out, mount{fd, path})
	}
	return out, nil
}

// attach mounts a copy in its place, once.
func attach(m mount) error {
	defer unix.Close(m.fd)
	return step("mount "+m.at, unix.MoveMount(m.fd, "", unix.AT_FDCWD, m.at, unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// readOnly makes a mount read-only or writable, the former with all below it.
func readOnly(path string, on bool) error {
	attr, flags := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}, uint(0)
	if on {
		attr, flags = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}, unix.AT_RECURSIVE
	}
	return step("make "+path+" read-only", unix.MountSetattr(unix.AT_FDCWD, path, flags, &attr))
}

// fresh mounts an empty file system.
func fresh(at string) error {
	return step("mount "+at, unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"))
}

// ownDevices makes a /dev of these nodes and of what needs no device.
func ownDevices(devices []mount) error {
	if err := fresh("/dev"); err != nil {
		return err
	}
	for _, m := range devices {
		err := os.MkdirAll(filepath.Dir(m.at), 0o755)
		if err == nil {
			err = os.WriteFile(m.at, nil, 0o644)
		}
		if err != nil {
			return step("make "+m.at, err)
		}
		if err := attach(m); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, "/dev/"+link); err != nil {
			return step("make /dev/"+link, err)
		}
	}
	for _, dir := range []string{"/dev/pts", "/dev/shm"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return step("make "+dir, err)
		}
	}
	// Programs are mapped from /dev/shm at times, so that noexec would break them.
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return step("mount /dev/shm", err)
	}
	return step("mount /dev/pts", unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"))
}

// hide covers sockets: a read-only file system does not keep anyone from talking to those who listen there, who
// would do outside what is forbidden inside.
func hide(sockets []string) error {
	for _, path := range sockets {
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
			continue
		}
		null, err := clones([]string{"/dev/null"})
		if err != nil {
			return err
		}
		if err := attach(mount{null[0].fd, path}); err != nil {
			return err
		}
	}
	return nil
}

// ownProc leaves what a process says of itself writable, and nothing that is the machine's: its owner, root, needs
// no privilege to write it.
func ownProc() error {
	machine, err := clones(existing([]string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi", "/proc/mtrr"}))
	if err != nil {
		return err
	}
	if err := readOnly("/proc", false); err != nil {
		return err
	}
	for _, m := range machine {
		if err := attach(m); err != nil {
			return err
		}
	}
	return nil
}

// dropPrivileges takes all capabilities from the calling thread, and the ways to gain any.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return step("forbid new privileges", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) { // the kernel has no more of them
			break
		}
		if err != nil {
			return step(fmt.Sprintf("drop capability %d", c), err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return step("drop ambient capabilities", err)
	}
	none := [2]unix.CapUserData{}
	return step("drop capabilities", unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]))
}
