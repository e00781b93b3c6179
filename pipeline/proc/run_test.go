package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		script string
		exit   int
		signal syscall.Signal
	}{
		{"exit 0", 0, 0},
		{"exit 1", 1, 0},
		{"exit 125", 125, 0},
		{"exit 139", 139, 0},
		{"kill -SEGV $$", -1, syscall.SIGSEGV},
		{"kill -KILL $$", -1, syscall.SIGKILL},
		{"kill -ABRT $$", -1, syscall.SIGABRT},
		{"kill -TERM $$", -1, syscall.SIGTERM},
		{"sh -c 'kill -SEGV $$'; exit $?", 139, 0},
	} {
		t.Run(c.script, func(t *testing.T) {
			before := time.Now()
			r := run(t, shell(t, c.script))
			if r.Exit != c.exit || r.Signal != c.signal {
				t.Errorf("exit %d signal %v, want %d, %v", r.Exit, r.Signal, c.exit, c.signal)
			}
			if r.Timeout != nil || r.Canceled || r.Leftover != 0 {
				t.Errorf("not ended by itself: %+v", r)
			}
			if r.Wall <= 0 || r.MaxRSS < 100<<10 || r.Started.Before(before) || r.Started.Add(r.Wall).After(time.Now()) {
				t.Errorf("accounts: %+v", r)
			}
		})
	}
}

func TestCrashWritesNoCore(t *testing.T) {
	s := shell(t, "ulimit -c; exec "+program(t, `int main(void) { *(volatile int *)0 = 1; }`))
	r := run(t, s)
	if r.Signal != syscall.SIGSEGV || r.Exit != -1 {
		t.Errorf("exit %d signal %v", r.Exit, r.Signal)
	}
	if string(r.Tail) != "0\n" {
		t.Errorf("core limit %q", r.Tail)
	}
	if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
		t.Errorf("left in the working directory: %v", left)
	}
}

func TestTimeoutNamesPhase(t *testing.T) {
	t.Parallel()
	names := []string{"load", "warmup", "capture", "measure"}
	for i := range names {
		t.Run(names[i], func(t *testing.T) {
			s := posing(t, "phases", names[:i+1]...)
			s.Phase, s.PhaseLimit = "start", 30*time.Second
			s.Watch = func(line string, _ time.Duration) Transition {
				name := strings.TrimPrefix(line, "phase: ")
				if name == names[i] {
					return Transition{Phase: name, Limit: 300 * time.Millisecond}
				}
				return Transition{Phase: name, Limit: 30 * time.Second}
			}
			r := run(t, s)
			if r.Timeout == nil || r.Timeout.Phase != names[i] || r.Timeout.Whole {
				t.Fatalf("time-out %+v", r.Timeout)
			}
			if r.Timeout.Elapsed < r.Timeout.Limit || r.Timeout.Limit != 300*time.Millisecond {
				t.Errorf("time-out %+v", r.Timeout)
			}
			if r.Signal != syscall.SIGTERM || r.ProtocolLines != i+1 {
				t.Errorf("signal %v, %d lines", r.Signal, r.ProtocolLines)
			}
		})
	}
}

func TestTimeoutAtStart(t *testing.T) {
	s := shell(t, "sleep 1000")
	s.Phase, s.PhaseLimit = "load", 200*time.Millisecond
	r := run(t, s)
	if r.Timeout == nil || *r.Timeout != (Timeout{Phase: "load", Limit: s.PhaseLimit, Elapsed: r.Timeout.Elapsed}) {
		t.Errorf("time-out %+v", r.Timeout)
	}
}

func TestTimeoutWhole(t *testing.T) {
	s := posing(t, "phases", "load", "measure")
	s.Limit = 5 * time.Second
	s.Watch = func(line string, _ time.Duration) Transition { return Transition{Phase: line, Limit: time.Hour} }
	r := run(t, s)
	if r.Timeout == nil || !r.Timeout.Whole || r.Timeout.Phase != "phase: measure" || r.Timeout.Elapsed < s.Limit {
		t.Errorf("time-out %+v", r.Timeout)
	}
}

func TestPhasesRestartTimer(t *testing.T) {
	t.Parallel()
	s := shell(t, "for i in 1 2 3 4 5 6; do echo again >&$FD; sleep 0.5; done")
	s.Phase, s.PhaseLimit = "load", 10*time.Second
	s.Watch = func(string, time.Duration) Transition { return Transition{"again", 2 * time.Second} }
	if r := run(t, s); r.Timeout != nil || r.Exit != 0 {
		t.Errorf("%+v", r)
	}
}

func TestGrace(t *testing.T) {
	s := posing(t, "graceful")
	var seen []string
	s.Watch = func(line string, _ time.Duration) Transition {
		seen = append(seen, line)
		return Transition{line, 100 * time.Millisecond}
	}
	s.Grace = 20 * time.Second
	r := run(t, s)
	if r.Exit != 7 || r.Timeout == nil || r.Timeout.Phase != "phase: wait" {
		t.Errorf("exit %d, time-out %+v", r.Exit, r.Timeout)
	}
	if len(seen) != 1 || r.ProtocolLines != 2 { // the second came when it was being killed
		t.Errorf("lines %q of %d", seen, r.ProtocolLines)
	}
}

func TestIgnoresSIGTERM(t *testing.T) {
	s := posing(t, "stubborn")
	s.Grace = 300 * time.Millisecond
	s.Watch = func(line string, _ time.Duration) Transition { return Transition{line, 100 * time.Millisecond} }
	r := run(t, s)
	if r.Signal != syscall.SIGKILL || r.Timeout == nil || r.Wall < 400*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

func TestStoppedProgram(t *testing.T) {
	s := shell(t, "kill -STOP $$; sleep 1000")
	s.Limit, s.Grace = 200*time.Millisecond, 20*time.Second
	if r := run(t, s); r.Signal != syscall.SIGTERM || r.Timeout == nil {
		t.Errorf("%+v", r)
	}
}

func TestCancel(t *testing.T) {
	for _, name := range []string{"graceful", "stubborn"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := posing(t, name)
			s.Grace = time.Hour
			s.Watch = func(string, time.Duration) Transition { cancel(); return Transition{} }
			r, err := Run(ctx, s)
			if err != nil || !r.Canceled || r.Timeout != nil {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r, err := Run(ctx, shell(t, "exit 0")); err != nil || !r.Canceled || !r.Started.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "#!/bin/sh\n", 0o644)
	write("text", "exit 0\n", 0o755)
	write("orphan", "#!/no/such/interpreter\n", 0o755)
	write("ok", "#!/bin/sh\nexit 3\n", 0o755)
	for _, c := range []struct {
		name, program, dir, path string
		want                     error
	}{
		{"no such name", "no-such-program", dir, dir, exec.ErrNotFound},
		{"no PATH", "ok", dir, "", exec.ErrNotFound},
		{"no such file", "./nothing", dir, dir, fs.ErrNotExist},
		{"not executable", "./plain", dir, dir, fs.ErrPermission},
		{"not executable in PATH", "plain", dir, dir, exec.ErrNotFound},
		{"directory", dir, dir, dir, syscall.EISDIR},
		{"no format", "./text", dir, dir, syscall.ENOEXEC},
		{"no interpreter", "./orphan", dir, dir, errInterpreter},
		{"no directory", "ok", filepath.Join(dir, "nothing"), dir, fs.ErrNotExist},
		{"directory is a file", "ok", filepath.Join(dir, "ok"), dir, syscall.ENOTDIR},
		{"relative PATH", "ok", dir, ".", exec.ErrDot},
		{"empty name", "", dir, dir, exec.ErrNotFound},
		{"NUL", "./ok\x00", dir, dir, syscall.EINVAL},
		{"found in PATH", "ok", "/", "/nothing:" + dir, nil},
		{"relative to Dir", "./ok", dir, "", nil},
		{"below Dir", filepath.Base(dir) + "/ok", filepath.Dir(dir), "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Spec{Argv: []string{c.program}, Dir: c.dir}
			if c.path != "" {
				s.Env = []string{"PATH=/nowhere", "PATH=" + c.path}
			}
			r, err := Run(t.Context(), s)
			if c.want == nil {
				if err != nil || r.Exit != 3 {
					t.Errorf("exit %d, %v", r.Exit, err)
				}
				return
			}
			var start *StartError
			if !errors.As(err, &start) || !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if start != nil && start.Path != c.program {
				t.Errorf("path %q", start.Path)
			}
		})
	}
	var start *StartError
	if _, err := Run(t.Context(), Spec{}); !errors.As(err, &start) {
		t.Errorf("no program: %v", err)
	}
}

// TestClean checks what the program inherits.
func TestClean(t *testing.T) {
	leak, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	s := shell(t, `
		for fd in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
			test -e /proc/$$/fd/$fd && echo fd $fd
		done
		readlink /proc/$$/fd/0; echo FD=$FD; echo TWICE=$TWICE; echo $KBISECT_COOKIE
		grep SigIgn /proc/self/status; grep SigBlk /proc/self/status
		grep flags /proc/$$/fdinfo/1; cat`)
	s.Env = append(s.Env, "TWICE=1", "FD=17", "TWICE=2")
	got := string(run(t, s).Tail)
	// Signal 32 belongs to the C library: Go cannot give it back its default, and a parent may ignore it.
	got = strings.Replace(got, "SigIgn:\t0000000080000000", "SigIgn:\t0000000000000000", 1)
	want := "fd 0\nfd 1\nfd 2\nfd 3\n/dev/null\nFD=3\nTWICE=2\n" + s.Cookie +
		"\nSigIgn:\t0000000000000000\nSigBlk:\t0000000000000000\nflags:\t01\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAccounts(t *testing.T) {
	s := shell(t, "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done) & wait; sleep 0.2")
	r := run(t, s)
	if r.User < 10*time.Millisecond || r.Wall < 200*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

func TestManyAtOnce(t *testing.T) {
	done := make(chan error)
	for i := range 8 {
		go func() {
			s := Spec{Argv: []string{"/bin/sh", "-c", fmt.Sprintf("sleep 0.1; exit %d", i)}}
			r, err := Run(t.Context(), s)
			if err == nil && r.Exit != i {
				err = fmt.Errorf("exit %d, want %d", r.Exit, i)
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
