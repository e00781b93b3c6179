package proc

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/warden"
)

// Sandbox is what a program may reach. The warden is the first process of namespaces of its own then: no process
// outlives it, and none inside can stop or end it, or find any outside. The file system is there, read-only; /tmp,
// /var/tmp, /run and /dev are the program's own, and sockets of others cannot be reached.
type Sandbox struct {
	Write   []string // folders that it may write
	Tmp     string   // one of Write, which it also finds as /tmp and /var/tmp
	Read    []string // what it needs although it may lie in /tmp or /run; HOME, PATH and the program need not be named
	Devices []string // patterns of device nodes besides those of every program
	Network bool     // the machine's network; without it there is the loopback device
}

// SandboxError says that the kernel, or the container that this process runs in, does not allow a sandbox.
type SandboxError struct {
	why     string
	refused unix.Errno
}

// Error implements error.
func (e *SandboxError) Error() string {
	reason, advice := e.reason()
	return fmt.Sprintf("no sandbox can be made here: %s (%s)\nhint: %s", e.why, reason, advice)
}

// Hint is what to do.
func (e *SandboxError) Hint() string {
	_, advice := e.reason()
	return advice
}

// reason looks for the settings that are known to forbid sandboxes.
func (e *SandboxError) reason() (reason, advice string) {
	for _, s := range []struct{ name, forbids, allows string }{
		{"user.max_user_namespaces", "0", "10000"}, {"kernel.unprivileged_userns_clone", "0", "1"}, {"kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
	} {
		text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(s.name, ".", "/"))
		if err == nil && strings.TrimSpace(string(text)) == s.forbids && !privileged() {
			return s.name + " is " + s.forbids, "sudo sysctl " + s.name + "=" + s.allows + ", or run as root"
		}
	}
	if e.refused == unix.ENOSYS {
		return "Linux 5.12 is needed, and this is " + release() + " or a container that hides system calls", "without --sandbox candidates run as you do"
	}
	return "as in most containers", "docker run --privileged lets a container make them; without --sandbox candidates run as you do"
}

// release is that of the kernel.
func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "another kernel"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}

// privileged reports whether namespaces can be made without one for users.
func privileged() bool {
	caps := [2]unix.CapUserData{}
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0])
	return err == nil && os.Geteuid() == 0 && caps[0].Effective>>unix.CAP_SYS_ADMIN&1 == 1
}

// CheckSandbox reports why no sandbox can be made here, and what to do, by making one in an empty folder; nil if it can.
func CheckSandbox(ctx context.Context, dir string) error {
	_, err := Run(ctx, Spec{
		Argv: []string{"/bin/sh", "-c", ":"}, Dir: "/", Env: os.Environ(), Limit: time.Minute,
		Sandbox: &Sandbox{Write: []string{dir}, Tmp: dir},
	})
	return err
}

// isolate has a warden started in namespaces of its own. Root needs none for users; for others it is what allows
// the rest, and the warden keeps user and group in it.
func (b *Sandbox) isolate(cmd *exec.Cmd) {
	attr := cmd.SysProcAttr
	attr.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	if !b.Network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if !privileged() {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		// We cannot write its ids, since we are not dumpable: it does, and exec would take the right to from a user
		// without a name.
		attr.AmbientCaps = warden.Capabilities()
		cmd.Args = append(cmd.Args, strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid()))
	}
}

// order describes b to a warden for a program; nil for none.
func (b *Sandbox) order(program, dir string, env []string) *warden.Sandbox {
	if b == nil {
		return nil
	}
	read := slices.Concat(b.Read, []string{filepath.Dir(under(dir, program)), Getenv(env, "HOME")})
	for _, entry := range filepath.SplitList(Getenv(env, "PATH")) {
		read = append(read, entry)
		if filepath.Base(entry) == "bin" { // of an installation, such as a virtual environment
			read = append(read, filepath.Dir(entry))
		}
	}
	var devices []string
	for _, pattern := range b.Devices {
		found, _ := filepath.Glob(pattern)
		for _, node := range found {
			if info, err := os.Stat(node); err == nil && info.Mode()&os.ModeDevice != 0 {
				devices = append(devices, node)
			}
		}
	}
	slices.Sort(devices)
	devices = slices.Compact(devices)
	return &warden.Sandbox{
		Write: toBytes(b.Write), Tmp: []byte(b.Tmp), Devices: toBytes(devices), Hide: toBytes(sockets()),
		Read: toBytes(slices.DeleteFunc(read, func(dir string) bool { return !filepath.IsAbs(dir) })),
	}
}

// sockets lists where programs of this machine can be talked to: container managers, agents for keys, and the
// like do what they are asked for outside of any sandbox.
func sockets() (out []string) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		// Num RefCount Protocol Flags Type St Inode Path, and the path may hold spaces
		if _, path, ok := strings.Cut(s.Text(), " /"); ok {
			out = append(out, "/"+path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
