package proc

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
	"github.com/kbisect/kbisect/pipeline/proc/internal/warden"
)

// poseVariable makes the test binary pose as a program under test.
const poseVariable = "PROC_TEST_POSE"

// wayVariable says how a posing kbisect is to contain its trials.
const wayVariable = "PROC_TEST_WAY"

// bothWays runs a test with control groups and without.
func bothWays(t *testing.T, test func(t *testing.T, way string)) {
	t.Helper()
	t.Run(byGroup, func(t *testing.T) {
		needGroup(t)
		test(t, byGroup)
	})
	t.Run(bySubreaper, func(t *testing.T) { test(t, bySubreaper) })
}

// everyWay runs a test in a sandbox too.
func everyWay(t *testing.T, test func(t *testing.T, way string)) {
	t.Helper()
	bothWays(t, test)
	t.Run(byNamespace, func(t *testing.T) {
		needSandbox(t)
		test(t, byNamespace)
	})
}

// needSandbox skips a test where no sandbox can be made.
func needSandbox(t *testing.T) {
	t.Helper()
	if err := CheckSandbox(t.Context(), t.TempDir()); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
}

// openSandbox is one in which programs of tests find all that they do outside.
func openSandbox(way string) *Sandbox {
	if way != byNamespace {
		return nil
	}
	// The test program, which poses as others, and its folder may lie in another temporary folder.
	self, err := os.Executable()
	here, wdErr := os.Getwd()
	if err := errors.Join(err, wdErr); err != nil {
		panic(err)
	}
	return &Sandbox{Write: []string{os.TempDir()}, Tmp: os.TempDir(), Read: []string{filepath.Dir(self), here}}
}

// needGroup skips a test where no control group can be made.
func needGroup(t *testing.T) {
	t.Helper()
	g := cgroup.Make(cgroup.Name("test-"+rand.Text()), 0)
	if g == nil {
		t.Skip("NOT TESTED: no cgroup v2 is delegated to this process")
	}
	if !g.Remove() {
		t.Fatalf("cannot remove %s", g.Dir)
	}
}

// contained returns s with its way set.
func contained(s Spec, way string) Spec {
	s.subreaper, s.Sandbox = way == bySubreaper, openSandbox(way)
	s.Env = append(s.Env, wayVariable+"="+way)
	return s
}

func TestMain(m *testing.M) {
	Warden()
	if name := os.Getenv(poseVariable); name != "" {
		os.Exit(pose(name, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// pose is the main function of the nasty programs.
func pose(name string, args []string) int {
	switch name {
	case "graceful":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		say("phase: wait")
		<-c
		say("phase: teardown")
		return 7
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		say("phase: stubborn")
		time.Sleep(time.Hour)
	case "phases": // enters each phase and hangs in the last
		for _, p := range args {
			say("phase: " + p)
		}
		time.Sleep(time.Hour)
	case "escape": // leaves a stubborn child in its own session, with all pipes
		spawn("stubborn")
		time.Sleep(200 * time.Millisecond)
	case "daemon": // forks twice
		spawn("escape")
	case "fill":
		buf := bytes.Repeat([]byte("0123456789abcde\n"), 4096)
		for range 200 << 20 / len(buf) {
			_, _ = os.Stdout.Write(buf)
		}
	case "dial":
		if _, err := net.Dial(args[0], args[1]); err != nil {
			fmt.Println(err)
			return 1
		}
	case "echo": // talks to itself
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			_, err = net.Dial("tcp", l.Addr().String())
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	case "kbisect": // runs a trial and says when it is under way
		runInside()
	case "limited": // runs a trial in a memory group that it enters first
		if err := os.WriteFile(args[0]+"/cgroup.procs", []byte("0"), 0); err != nil {
			fmt.Println(err)
			return 1
		}
		if _, err := unix.Mmap(-1, 0, 60<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil { // so that kbisect is the largest of many
			fmt.Println(err)
			return 1
		}
		r, err := Run(context.Background(), Spec{Argv: []string{"sh", "-c", args[1]}, Env: os.Environ(), subreaper: os.Getenv(wayVariable) == bySubreaper, Sandbox: openSandbox(os.Getenv(wayVariable))})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		_ = json.NewEncoder(os.Stdout).Encode(r)
	case "idles": // a kbisect between two trials
		if _, err := Run(context.Background(), Spec{Argv: []string{"true"}, Env: os.Environ()}); err != nil {
			fmt.Println(err)
		}
		fmt.Println("idle")
		time.Sleep(time.Hour)
	case "runs": // runs a shell script as a trial
		s := Spec{Argv: []string{"sh", "-c", args[0]}, Env: append(os.Environ(), poseVariable+"="), Protocol: "FD", Cookie: os.Getenv("PROC_TEST_COOKIE"), Grace: -1, killBound: time.Second}
		s.subreaper, s.Sandbox = os.Getenv(wayVariable) == bySubreaper, openSandbox(os.Getenv(wayVariable))
		s.Limit, _ = time.ParseDuration(args[1])
		s.Watch = func(line string, _ time.Duration) Transition {
			fmt.Println(line)
			return Transition{}
		}
		r, err := Run(context.Background(), s)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		_ = json.NewEncoder(os.Stdout).Encode(r)
	case "old kernel": // has no mount_setattr, which Linux 5.12 brought
		const mountSetattr = 442
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the system call
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: mountSetattr, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			fmt.Println(err)
			return 1
		}
		if _, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); err != 0 {
			fmt.Println(err)
			return 1
		}
		fmt.Println(CheckSandbox(context.Background(), os.TempDir()))
	case "stuck":
		s := Spec{Argv: args, Protocol: "FD", Cookie: os.Getenv("PROC_TEST_COOKIE"), killBound: 500 * time.Millisecond}
		s.subreaper, s.Sandbox = os.Getenv(wayVariable) == bySubreaper, openSandbox(os.Getenv(wayVariable))
		r, err := Run(context.Background(), s)
		fmt.Println("exit", r.Exit, err)
	}
	return 0
}

// say writes a protocol line.
func say(line string) {
	_, _ = fmt.Fprintln(os.NewFile(warden.LeaderProtocolFD, "protocol"), line)
}

// spawn starts another pose in a session of its own and leaves it alone.
func spawn(name string) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), poseVariable+"="+name)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(warden.LeaderProtocolFD, "protocol")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
}

// runInside is a kbisect that will be killed.
func runInside() {
	s := Spec{Argv: []string{"/proc/self/exe"}, Env: append(os.Environ(), poseVariable+"=daemon"), Protocol: "FD"}
	exe, _ := os.Executable()
	// The leader of this one stays, ignoring SIGTERM, and so does a daemon.
	s.Argv = []string{"sh", "-c", "trap '' TERM; " + exe + "; sleep 1000"}
	s.Cookie = os.Getenv("PROC_TEST_COOKIE")
	s.subreaper, s.Sandbox = os.Getenv(wayVariable) == bySubreaper, openSandbox(os.Getenv(wayVariable))
	s.Watch = func(line string, _ time.Duration) Transition {
		fmt.Println(line)
		return Transition{}
	}
	if os.Getenv("PROC_TEST_PAUSE") != "" {
		pause := make(chan bool, 1)
		s.Pause = pause
		next := s.Watch
		s.Watch = func(line string, at time.Duration) Transition {
			pause <- true
			return next(line, at)
		}
	}
	_, err := Run(context.Background(), s)
	fmt.Println("run returned", err)
}

// posing returns a Spec of the test binary in a pose, with a cookie of its own,
// and checks at the end of the test that nothing of it is left.
func posing(t *testing.T, name string, args ...string) Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := shell(t, "")
	s.Argv = append([]string{exe}, args...)
	s.Env = append(s.Env, poseVariable+"="+name, "GORACE=atexit_sleep_ms=0")
	return s
}

// shell returns a Spec of a shell script.
func shell(t *testing.T, script string) Spec {
	t.Helper()
	s := Spec{
		Argv:     []string{"sh", "-c", script},
		Env:      append(os.Environ(), "LC_ALL=C"),
		Dir:      t.TempDir(),
		Protocol: "FD",
		Limit:    40 * time.Second, // so that a broken test ends
	}
	s = s.withDefaults()
	t.Cleanup(func() { assertGone(t, s.Cookie) })
	return s
}

// program compiles C source.
func program(t *testing.T, source string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "program")
	if err := os.WriteFile(file+".c", []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-O1", "-o", file, file+".c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return file
}

// run runs s and fails the test on an error.
func run(t *testing.T, s Spec) Result {
	t.Helper()
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if way := Getenv(s.Env, wayVariable); way != "" && r.Contained != way {
		t.Errorf("contained by %q", r.Contained)
	}
	return r
}

// alive lists what carries a cookie with the prefix.
func alive(t *testing.T, prefix string) []ps.Process {
	t.Helper()
	list, err := carriers(func(c string) bool { return strings.HasPrefix(c, prefix) })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func assertGone(t *testing.T, cookie string) {
	t.Helper()
	if left := alive(t, cookie); len(left) > 0 {
		t.Errorf("left alive: %+v", left)
		_, _ = Sweep(cookie)
	}
	if left := groupsWith(cookie); len(left) > 0 {
		t.Errorf("left behind: %v", left)
		_, _ = Sweep(cookie)
	}
}

// groupsWith lists the folders of the control groups of a cookie prefix.
func groupsWith(prefix string) (dirs []string) {
	for _, g := range cgroup.Find(func(c string) bool { return strings.HasPrefix(c, prefix) }) {
		dirs = append(dirs, g.Dir)
	}
	return dirs
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
