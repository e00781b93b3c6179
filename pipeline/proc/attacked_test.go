package proc

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

// shellOfKbisect is how a script finds the process above its supervisor.
const shellOfKbisect = "K=$(cut -d' ' -f4 /proc/$PPID/stat); "

// runner is a kbisect that runs a script as a trial, as a process of its own. It has its own session, as what dead wardens
// leave has: tests of it run beside no test in which a warden is killed.
func runner(t *testing.T, way, script, limit string) *exec.Cmd {
	t.Helper()
	s := contained(posing(t, "runs", script, limit), way)
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stderr = append(s.Env, "PROC_TEST_COOKIE="+s.Cookie), s.Dir, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// resultOf reads what a runner printed last.
func resultOf(t *testing.T, out []byte) (r Result) {
	t.Helper()
	text := strings.TrimSpace(string(out))
	if err := json.Unmarshal([]byte(text[strings.LastIndexByte(text, '\n')+1:]), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// Whoever stops kbisect, its supervisor or both gains nothing: limits hold, and the trial comes to its end.
func TestKbisectStopped(t *testing.T) {
	bothWays(t, func(t *testing.T, way string) {
		t.Parallel()
		for name, c := range map[string]struct {
			script, limit string
			holds         func(Result) bool
		}{
			"once":                           {"kill -STOP $K; exit 5", "1m", func(r Result) bool { return r.Exit == 5 && !r.StoppedParent }},
			"and hangs":                      {"kill -STOP $K; sleep 1000", "1s", func(r Result) bool { return r.Timeout != nil && !r.StoppedParent }},
			"with its supervisor":            {"kill -STOP $K; kill -STOP $PPID; exit 5", "1m", func(r Result) bool { return r.Exit == 5 }},
			"with it, and hangs":             {"kill -STOP $K $PPID; sleep 1000", "1s", func(r Result) bool { return r.Timeout != nil }},
			"and kills its supervisor":       {"setsid sleep 1000 & kill -STOP $K; kill -KILL $PPID; sleep 1000", "1m", func(r Result) bool { return r.KilledParent }},
			"again and again":                {"while :; do kill -STOP $K; done", "1m", func(r Result) bool { return r.StoppedParent && r.Timeout == nil && r.Signal == syscall.SIGKILL }},
			"its supervisor again and again": {"while :; do kill -STOP $PPID; done", "1s", func(r Result) bool { return r.Timeout != nil }},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if strings.HasPrefix(name, "its supervisor") && os.Getenv("KBISECT_ATTACK") == "" {
					t.Skip("make attack runs it: a supervisor that does not answer is waited for")
				}
				out, err := runner(t, way, shellOfKbisect+c.script, c.limit).Output()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if r := resultOf(t, out); !c.holds(r) {
					t.Errorf("%+v", r)
				}
			})
		}
	})
}

// Ctrl-Z stops kbisect and its trial until somebody continues them, and is not charged to the trial.
func TestStoppedByUser(t *testing.T) {
	bothWays(t, func(t *testing.T, way string) {
		t.Parallel()
		master, slave := openTerminal(t)
		cmd := runner(t, way, "echo ready >&$FD; i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i+1)); done; exit 5", "4s")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		slave.Close()
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if _, err := master.WriteString("\x1a"); err != nil {
			t.Fatal(err)
		}
		stopped := func() bool {
			p, err := ps.Read(cmd.Process.Pid)
			return err == nil && p.State == 'T'
		}
		eventually(t, "stopped", stopped)
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) { // beyond the limit
			if !stopped() {
				t.Fatal("it was continued")
			}
		}
		_ = cmd.Process.Signal(unix.SIGCONT)
		rest, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, rest)
		}
		if r := resultOf(t, rest); r.Exit != 5 || r.Timeout != nil || r.Paused < 4*time.Second || r.Stall == 0 {
			t.Errorf("%+v", r)
		}
	})
}

// A stop that a trial leaves behind, so that it shows after its end, is undone; one by Ctrl-Z is not.
func TestStoppedBetweenTrials(t *testing.T) {
	for name, ctrlZ := range map[string]bool{"by a signal": false, "by its user": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := posing(t, "idles")
			master, slave := openTerminal(t)
			cmd := exec.Command(s.Argv[0])
			cmd.Env, cmd.Dir, cmd.Stderr, cmd.Stdin = s.Env, s.Dir, os.Stderr, slave
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			slave.Close()
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "idle\n" {
				t.Fatalf("%q, %v", line, err)
			}
			state := func() byte {
				p, _ := ps.Read(cmd.Process.Pid)
				return p.State
			}
			if ctrlZ {
				_, err = master.WriteString("\x1a")
			} else {
				err = cmd.Process.Signal(unix.SIGSTOP)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !ctrlZ {
				for range 50 { // the stop itself takes a moment
					if state() == 'T' {
						break
					}
					time.Sleep(time.Millisecond)
				}
				eventually(t, "continued", func() bool { return state() != 'T' })
				return
			}
			eventually(t, "stopped", func() bool { return state() == 'T' })
			for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				if state() != 'T' {
					t.Fatal("it was continued")
				}
			}
		})
	}
}

// openTerminal makes a pseudo terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("NOT TESTED: ", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// A program reads and writes neither the descriptors of kbisect nor those of its supervisor, and traces neither: its
// results are its own.
func TestSupervisorsAreClosedToTheProgram(t *testing.T) {
	const script = shellOfKbisect + `for p in $PPID $K; do
		ls /proc/$p/fd && exit 1
		test -n "$(cat /proc/$p/environ)" && exit 2
		for fd in 1 3 4 5 6 7 8 9; do echo '{"Event":"gone","Reaped":true}' >/proc/$p/fd/$fd && exit 3; done
		echo x >/proc/$p/mem && exit 4
		! command -v python3 || python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0) == 0)' $p || exit 5
	done; exit 7`
	cmd := runner(t, bySubreaper, script, "1m")
	asNobody(t, cmd)
	cmd.Stderr = nil
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r := resultOf(t, out); r.Exit != 7 || !r.KilledParent && r.Signal != 0 {
		t.Errorf("%+v %s", r, r.Tail)
	}
}

// Limits that a program lowers are raised again where that is possible, and else named.
func TestLimitsLowered(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("NOT TESTED: no prlimit")
	}
	const all = "--nofile=3: --fsize=0: --nproc=1: --as=1: --cpu=1: --data=1: --stack=1: "
	for name, c := range map[string]struct {
		script string
		nobody bool
		error  string
	}{
		"of kbisect":                        {"prlimit --pid $K " + all + "; exit 5", false, ""},
		"of kbisect, for good":              {"prlimit --pid $K --nofile=3 --fsize=0; exit 5", false, ""},
		"of kbisect, another user's":        {"prlimit --pid $K " + all + "; exit 5", true, ""},
		"of its supervisor":                 {"prlimit --pid $PPID " + all + "; (setsid sleep 1000 &); exit 5", false, ""},
		"of its supervisor, another user's": {"prlimit --pid $PPID --nofile=3 --nproc=1; (setsid sleep 1000 &); exit 5", true, ""},
		"of a user's kbisect, for good":     {"prlimit --pid $K --nofile=3; exit 5", true, "lowered limits of kbisect itself: open files 3\nhint: "},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := runner(t, bySubreaper, shellOfKbisect+c.script, "1m")
			if c.nobody {
				asNobody(t, cmd)
			}
			out, err := cmd.Output()
			if c.error != "" {
				if !strings.Contains(string(out), c.error) {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if r := resultOf(t, out); r.Exit != 5 && !r.KilledParent { // without threads a supervisor may die
				t.Errorf("%+v", r)
			}
		})
	}
}
