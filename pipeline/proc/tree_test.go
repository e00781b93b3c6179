package proc

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

func TestGrandchildHoldsPipes(t *testing.T) { bothWays(t, testGrandchildHoldsPipes) }

func testGrandchildHoldsPipes(t *testing.T, way string) {
	for _, name := range []string{"escape", "daemon"} {
		t.Run(name, func(t *testing.T) {
			s := contained(posing(t, name), way)
			s.OnOutput = func(int, string, time.Duration) {}
			began := time.Now()
			r := run(t, s)
			if r.Exit != 0 || r.Timeout != nil || r.Leftover == 0 {
				t.Errorf("%+v", r)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestWaitOutput holds the limits until the last writer has gone, as one who reads to the end does.
func TestWaitOutput(t *testing.T) {
	t.Parallel()
	everyWay(t, testWaitOutput)
}

func testWaitOutput(t *testing.T, way string) {
	for _, c := range []struct {
		name, script, output string
		held                 bool
		left                 int // -1: as it happens, since output is closed on the way out
	}{
		{"alone", "echo first; exit 4", "first\n", false, 0},
		{"late", "(sleep 0.3; echo late) & echo first; exit 4", "first\nlate\n", false, -1},
		{"held", "(trap '' TERM; setsid sleep 1000) & echo first; exit 4", "first\n", true, 1},
		{"protocol", "sleep 1000 >/dev/null 2>&1 & echo first; exit 4", "first\n", true, 1},
		{"elsewhere", "sleep 1000 >/dev/null 2>&1 3>&- & echo first; exit 4", "first\n", false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := contained(shell(t, c.script), way)
			s.WaitOutput, s.Limit = true, 20*time.Second
			if c.held {
				s.Limit = 500 * time.Millisecond
			}
			r := run(t, s)
			if r.Held != c.held || (r.Timeout != nil) != c.held || r.Exit != 4 || c.left >= 0 && r.Leftover != c.left || string(r.Tail) != c.output {
				t.Errorf("%+v, output %q", r, r.Tail)
			}
			if c.held && r.Wall < s.Limit {
				t.Errorf("it ended after %v", r.Wall)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := contained(shell(t, "sleep 1000 & echo >&$FD; exit 0"), way)
	s.WaitOutput = true
	s.Watch = func(string, time.Duration) Transition { // the leader is about to end
		time.AfterFunc(300*time.Millisecond, cancel)
		return Transition{}
	}
	if r, err := Run(ctx, s); err != nil || !r.Canceled || r.Held || r.Leftover != 1 {
		t.Errorf("canceled: %+v, %v", r, err)
	}
	s = contained(shell(t, "sleep 1000 & sleep 1000"), way)
	s.WaitOutput, s.Limit, s.Grace = true, 300*time.Millisecond, 20*time.Second
	if r := run(t, s); r.Timeout == nil || r.Held {
		t.Errorf("hanging: %+v", r)
	}
}

func TestLeftoverCount(t *testing.T) {
	t.Parallel()
	everyWay(t, testLeftoverCount)
}

func testLeftoverCount(t *testing.T, way string) {
	r := run(t, contained(shell(t, "sleep 1000 & sleep 1000 & setsid sleep 1000 & sleep 0.3; exit 4"), way))
	if r.Exit != 4 || r.Leftover != 3 {
		t.Errorf("exit %d, leftover %d", r.Exit, r.Leftover)
	}
}

func TestTimeoutKillsTree(t *testing.T) {
	t.Parallel()
	bothWays(t, testTimeoutKillsTree)
}

func testTimeoutKillsTree(t *testing.T, way string) {
	s := shell(t, "trap '' TERM; (trap '' TERM; setsid sleep 1000) & (sleep 1000 &); sleep 1000; sleep 1000")
	s = contained(s, way)
	s.Limit, s.Grace = 500*time.Millisecond, 300*time.Millisecond
	r := run(t, s)
	if r.Signal != syscall.SIGKILL || r.Timeout == nil || r.Leftover == 0 {
		t.Errorf("%+v", r)
	}
}

// TestGraceIsForTheTree: a shell dies of SIGTERM at once, its child cleans up.
func TestGraceIsForTheTree(t *testing.T) {
	t.Parallel()
	everyWay(t, testGraceIsForTheTree)
}

func testGraceIsForTheTree(t *testing.T, way string) {
	s := shell(t, `sh -c 'trap "sleep 0.5; echo clean; exit" TERM; echo ready >&$FD; while :; do sleep 0.05; done' & wait`)
	s = contained(s, way)
	s.Grace = 20 * time.Second
	s.Watch = func(string, time.Duration) Transition { return Transition{"ready", 100 * time.Millisecond} }
	r := run(t, s)
	if !strings.HasSuffix(string(r.Tail), "clean\n") || r.Timeout == nil || r.Leftover != 0 {
		t.Errorf("%q %+v", r.Tail, r)
	}
}

func TestThreadOutlivesMain(t *testing.T) {
	t.Parallel()
	bothWays(t, testThreadOutlivesMain)
}

func testThreadOutlivesMain(t *testing.T, way string) {
	file := program(t, `
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static void *forever(void *p) { for (;;) pause(); return p; }
int main(void) {
	signal(SIGTERM, SIG_IGN);
	if (fork() > 0) { usleep(200000); return 0; }
	setsid();
	pthread_t t;
	pthread_create(&t, 0, forever, 0);
	pthread_exit(0); /* now a zombie that is alive */
}`)
	s := contained(shell(t, "exec "+file), way)
	if r := run(t, s); r.Exit != 0 || r.Leftover != 1 {
		t.Errorf("%+v", r)
	}
}

// TestForkBombs runs programs that fork without end, with a bounded number of
// processes alive.
func TestForkBombs(t *testing.T) { everyWay(t, testForkBombs) }

func testForkBombs(t *testing.T, way string) {
	const head = `
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
`
	bombs := map[string]string{
		// Each process forks its successor, in a new session, and exits.
		"rabbits": `int main(void) {
			for (int i = 0; i < 4; i++) if (fork() == 0) break;
			for (;;) { if (fork() != 0) _exit(0); setsid(); } }`,
		// Each process forks two others and lives for a while.
		"crowd": `int main(void) {
			int *n = mmap(0, 4096, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS, -1, 0);
			signal(SIGTERM, SIG_IGN);
			for (;;) {
				if (__sync_add_and_fetch(n, 1) <= 100) { if (fork() == 0) { setsid(); continue; } }
				else __sync_sub_and_fetch(n, 1);
				usleep(3000);
				if (rand() % 8 == 0 && getppid() == 1) { __sync_sub_and_fetch(n, 1); _exit(0); } } }`,
		// One process forks children without end, each in its own session.
		"fountain": `int main(void) {
			signal(SIGCHLD, SIG_IGN); signal(SIGTERM, SIG_IGN);
			for (;;) { if (fork() == 0) { setsid(); usleep(300000); _exit(0); } usleep(2000); } }`,
	}
	for name, source := range bombs {
		t.Run(name, func(t *testing.T) {
			s := contained(shell(t, "exec "+program(t, head+source)), way)
			if name == "rabbits" { // the leader ends at once
				s.Argv[2] = program(t, head+source) + "& sleep 0.5"
			}
			s.Limit, s.Grace = time.Second, 100*time.Millisecond
			r := run(t, s)
			if r.Leftover == 0 {
				t.Errorf("%+v", r)
			}
			time.Sleep(50 * time.Millisecond)
			assertGone(t, s.Cookie)
		})
	}
}

func TestWardenKilled(t *testing.T) { bothWays(t, testWardenKilled) }

func testWardenKilled(t *testing.T, way string) {
	s := shell(t, "setsid sleep 1000 & sleep 0.2; echo last words >&$FD; kill -KILL $PPID; sleep 1000")
	s = contained(s, way)
	r, err := Run(t.Context(), s)
	if err != nil || !r.KilledParent || r.Signal != syscall.SIGKILL {
		t.Errorf("%+v, error %v", r, err)
	}
	if r.ProtocolLines != 1 || r.Exit != -1 {
		t.Errorf("%+v", r)
	}
	assertGone(t, s.Cookie)
}

// Nothing names a process that has lost its parents, group, session and environment before it kills the warden.
func TestWardenKilledByAStranger(t *testing.T) { bothWays(t, testWardenKilledByAStranger) }

func testWardenKilledByAStranger(t *testing.T, way string) {
	s := contained(shell(t, "env -i setsid sh -c \"(env -i setsid sh -c 'echo \\$\\$ >stranger; sleep 0.3; kill -KILL $PPID; exec sleep 1000' &)\" >&- 2>&- 3>&-; sleep 1000"), way)
	if r, err := Run(t.Context(), s); err != nil || !r.KilledParent {
		t.Errorf("%+v, error %v", r, err)
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "stranger"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := ps.Read(pid); err == nil && p.Alive() {
		p.Signal(unix.SIGKILL)
		t.Errorf("%+v survived", p)
	}
}

// A program may be quicker than the report of its start.
func TestWardenAttackedAtOnce(t *testing.T) {
	for i := range 20 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			s := shell(t, "kill -STOP $PPID; exit 5")
			if r := run(t, s); r.Exit != 5 {
				t.Errorf("%+v", r)
			}
			s = shell(t, "kill -KILL $PPID; sleep 1000")
			if r := run(t, s); !r.KilledParent {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestWardenStopped(t *testing.T) {
	t.Parallel()
	s := shell(t, "kill -STOP $PPID; sleep 0.2; exit 5")
	if r := run(t, s); r.Exit != 5 {
		t.Errorf("%+v", r)
	}
}

func TestWardenIgnoresSignals(t *testing.T) {
	s := shell(t, "kill -INT $PPID; kill -TERM $PPID; kill -HUP $PPID; kill -QUIT $PPID; sleep 0.2; exit 5")
	if r := run(t, s); r.Exit != 5 {
		t.Errorf("%+v", r)
	}
}

// inside returns a kbisect that runs a trial, and the prefix of all its cookies:
// kbisect and its warden carry one, too.
func inside(t *testing.T, way string) (cmd *exec.Cmd, prefix string) {
	t.Helper()
	s := contained(posing(t, "kbisect"), way)
	prefix = s.Cookie
	cmd = exec.Command(s.Argv[0])
	cmd.Env = append(s.Env, "PROC_TEST_COOKIE="+prefix+"-inside", cookieVariable+"="+prefix+"-outside")
	cmd.Env = append(cmd.Env, poseVariable+"=kbisect", "TMPDIR="+os.TempDir())
	cmd.Stderr = os.Stderr
	return cmd, prefix
}

// startInside starts such a kbisect and returns when the trial is under way.
func startInside(t *testing.T, way string) (cmd *exec.Cmd, prefix string) {
	t.Helper()
	cmd, prefix = inside(t, way)
	ready(t, cmd)
	return cmd, prefix
}

// ready starts such a kbisect and waits until its trial is under way.
func ready(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "phase: stubborn\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

func TestKbisectKilled(t *testing.T) { bothWays(t, testKbisectKilled) }

func testKbisectKilled(t *testing.T, way string) {
	cmd, prefix := startInside(t, way)
	if n := len(alive(t, prefix+"-inside")); n < 2 {
		t.Errorf("%d processes in the trial", n)
	}
	groups := len(groupsWith(prefix))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if way == byGroup && groups == 0 {
		t.Error("no control group")
	}
	eventually(t, "tree and warden gone", func() bool { return len(alive(t, prefix)) == 0 && len(groupsWith(prefix)) == 0 })
}

func TestKbisectKilledAnyTime(t *testing.T) {
	t.Parallel()
	everyWay(t, testKbisectKilledAnyTime)
}

func testKbisectKilledAnyTime(t *testing.T, way string) {
	for i := range 10 {
		cmd, prefix := inside(t, way)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*i) * 3 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		eventually(t, "tree and warden gone", func() bool { return len(alive(t, prefix)) == 0 && len(groupsWith(prefix)) == 0 })
	}
}

func TestSweep(t *testing.T) { everyWay(t, testSweep) }

func testSweep(t *testing.T, way string) {
	cmd, prefix := startInside(t, way)
	wardens, err := ps.Below(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, p := range wardens {
			if p.PPID == cmd.Process.Pid {
				p.Signal(sig)
			}
		}
		_ = cmd.Process.Signal(sig)
	}
	_ = cmd.Wait()
	if way == byNamespace {
		eventually(t, "tree gone with its warden", func() bool { return len(alive(t, prefix)) == 0 })
		_, _ = Sweep(prefix) // the empty group
		return
	}
	if n := len(alive(t, prefix)); n == 0 {
		t.Error("nothing left to sweep")
	}
	if n, err := Sweep(prefix + "-other"); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if n, err := Sweep(prefix + "-in"); n == 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if _, err := Sweep(""); err == nil {
		t.Error("empty prefix accepted")
	}
}

// TestStuck runs a kbisect of a user without rights, of which the program
// becomes root and so cannot be killed.
func TestStuck(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only for root")
	}
	file := program(t, `
#include <unistd.h>
int main(void) {
	if (setuid(0) != 0) return 9;
	write(3, "root\n", 5);
	if (fork() != 0) { sleep(1); return 0; }
	setsid();
	sleep(1000);
}`)
	if err := os.Chmod(file, os.ModeSetuid|0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(file), filepath.Dir(filepath.Dir(file))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := shell(t, "")
	cmd := exec.Command("", file)
	cmd.Env = append(s.Env, poseVariable+"=stuck", "PROC_TEST_COOKIE="+s.Cookie)
	asNobody(t, cmd)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "exit 9") {
		t.Skip("set-user-ID is off here")
	}
	if err != nil || !strings.Contains(string(out), "(program, state S") || !strings.Contains(string(out), "\nhint: ") {
		t.Errorf("%v: %s", err, out)
	}
	if n, err := Sweep(s.Cookie); n == 0 || err != nil { // root can
		t.Errorf("swept %d, %v", n, err)
	}
}

// asNobody makes a posing program one of a user without rights, where we are root.
func asNobody(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "test")
	copyFile(t, "/proc/self/exe", exe)
	for _, p := range []string{exe, dir, filepath.Dir(dir)} {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Path, cmd.Err, cmd.Dir = exe, nil, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		// A process that another test forks while the file is open inherits it, and until that process has called exec,
		// running the file fails with ETXTBSY.
		syscall.ForkLock.RLock()
		err = os.WriteFile(to, b, 0o755)
		syscall.ForkLock.RUnlock()
	}
	if err != nil {
		t.Fatal(err)
	}
}
