package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// python returns a Spec of a Python script with faulthandler enabled.
func python(t *testing.T, way, script string) Spec {
	t.Helper()
	exe, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skipf("NOT TESTED: python3: %v", err)
	}
	s := contained(shell(t, ""), way)
	file := filepath.Join(s.Dir, "submission.py")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Argv = []string{strings.TrimSpace(string(exe)), "-u", file}
	s.Env = append(s.Env, "PYTHONFAULTHANDLER=1")
	s.Grace = 20 * time.Second
	s.Watch = func(line string, _ time.Duration) Transition { return Transition{line, 200 * time.Millisecond} }
	return s
}

const (
	says  = "import os, signal, sys, time\ndef ready():\n    os.write(3, b'measure\\n')\n"
	hangs = "def hang_here():\n    ready()\n    while True: time.sleep(0.1)\n"
)

func TestPythonStacks(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way string) {
		s := python(t, way, says+hangs+"hang_here()\n")
		s.Output = filepath.Join(s.Dir, "out")
		r := run(t, s)
		if r.Signal != syscall.SIGABRT || r.Timeout == nil || r.Timeout.Phase != "measure" || r.Wall > 15*time.Second {
			t.Errorf("%+v", r)
		}
		out, _ := os.ReadFile(s.Output)
		for _, text := range []string{string(out), string(r.Tail)} {
			if !strings.Contains(text, `submission.py", line 6 in hang_here`) {
				t.Errorf("no stack in %q", text)
			}
		}
	})
}

// TestPythonBelowShell: the shell and a stopped child get what they need, too.
func TestPythonBelowShell(t *testing.T) {
	bothWays(t, func(t *testing.T, way string) {
		s := python(t, way, says+hangs+"if os.fork() == 0:\n    os.kill(os.getpid(), signal.SIGSTOP)\nhang_here()\n")
		s.Argv = []string{"sh", "-c", s.Argv[0] + " -u submission.py; echo ended"}
		r := run(t, s)
		if r.Signal != syscall.SIGTERM || r.Timeout == nil || r.Leftover != 0 {
			t.Errorf("%+v", r)
		}
		if n := strings.Count(string(r.Tail), "Aborted"); n != 2 || !strings.Contains(string(r.Tail), "hang_here") {
			t.Errorf("%d stacks in %q", n, r.Tail)
		}
	})
}

// TestPythonWorkers: the stacks of several processes do not run together, and their parent does not go on when one has ended.
func TestPythonWorkers(t *testing.T) {
	t.Parallel()
	const pool = "for _ in range(3):\n    if os.fork() == 0: break\nelse:\n    os.wait()\n    print('went on')\nhang_here()\n"
	whole := regexp.MustCompile(`(?m)^Fatal Python error: Aborted\n\nCurrent thread 0x[0-9a-f]+ .*\(most recent call first\):\n(  File ".*submission.py", line \d+ in [\w<>]+\n)+`)
	bothWays(t, func(t *testing.T, way string) {
		r := run(t, python(t, way, says+hangs+pool))
		if n := len(whole.FindAll(r.Tail, -1)); n != 4 || strings.Contains(string(r.Tail), "went on") || r.Leftover != 0 {
			t.Errorf("%d whole stacks in %q, %d left over", n, r.Tail, r.Leftover)
		}
	})
}

func TestPythonCleansUp(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way string) {
		r := run(t, python(t, way, says+hangs+`
def clean(*_):
    time.sleep(0.3)
    print("cleaned up")
    sys.exit(4)
signal.signal(signal.SIGTERM, clean)
hang_here()
`))
		if r.Exit != 4 || r.Timeout == nil || string(r.Tail) != "cleaned up\n" {
			t.Errorf("%q %+v", r.Tail, r)
		}
	})
}

func TestPythonIgnoresCleanly(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way string) {
		s := python(t, way, says+hangs+"signal.signal(signal.SIGTERM, lambda *_: None)\nhang_here()\n")
		s.Grace = 500 * time.Millisecond
		r := run(t, s)
		if r.Signal != syscall.SIGABRT || r.Timeout == nil || r.Wall < 700*time.Millisecond {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(string(r.Tail), "in hang_here") {
			t.Errorf("no stack in %q", r.Tail)
		}
	})
}

// TestPythonStaysSilent: one that handles SIGABRT itself and goes on is killed.
func TestPythonStaysSilent(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way string) {
		s := python(t, way, says+hangs+"for s in (6, 15): signal.signal(s, lambda *_: None)\nhang_here()\n")
		s.Grace = 300 * time.Millisecond
		if r := run(t, s); r.Signal != syscall.SIGKILL || r.Timeout == nil {
			t.Errorf("%+v", r)
		}
	})
}

func TestPythonWithoutFaulthandler(t *testing.T) {
	t.Parallel()
	s := python(t, byGroup, says+hangs+"hang_here()\n")
	s.Env = append(s.Env, "PYTHONFAULTHANDLER=")
	if r := run(t, s); r.Signal != syscall.SIGTERM || len(r.Tail) > 0 {
		t.Errorf("%q %+v", r.Tail, r)
	}
}
