package ps

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPythonName(t *testing.T) {
	for name, want := range map[string]bool{
		"python": true, "python3": true, "python3.11": true,
		"python3-config": false, "ipython": false, "pythonw": false, "": false,
	} {
		if PythonName(name) != want {
			t.Errorf("%q", name)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	own, _ := os.ReadFile("/proc/self/stat")
	f.Add(string(own))
	f.Add("12 (a) b) c) Z 1 12 12 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 99 0")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parseStat(s)
		if err == nil && !strings.Contains(s, "("+p.Command+")") {
			t.Errorf("%q: %+v", s, p)
		}
	})
}

// A signal is pending from when it is sent until the process hears of it, for which it may be kept waiting.
func TestPending(t *testing.T) {
	cmd := exec.Command("env", "--block-signal=TERM", "sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for p := (Process{PID: cmd.Process.Pid}); p.File("comm") != "sleep"; {
		time.Sleep(time.Millisecond)
	}
	p, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.Pending(unix.SIGTERM, unix.SIGHUP) {
		t.Error("before it is sent")
	}
	p.Signal(unix.SIGTERM)
	if !p.Pending(unix.SIGHUP, unix.SIGTERM) || p.Pending(unix.SIGHUP) {
		t.Errorf("after SIGTERM: %s", p.File("status"))
	}
	if me, err := Read(os.Getpid()); err != nil || p.Catches(unix.SIGTERM) || !me.Catches(unix.SIGTERM) || (Process{PID: -1}).Catches(unix.SIGTERM) {
		t.Errorf("sleep has a handler, or a program in Go has none: %v", err)
	}
}
