package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

// supervisorOf runs a script in a shell and returns the number of the process above it.
func supervisorOf(t *testing.T, script string) (pid int, r Result) {
	t.Helper()
	r = run(t, shell(t, "echo $PPID; "+script))
	first, _, _ := strings.Cut(string(r.Tail), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("%v: %q", err, r.Tail)
	}
	return pid, r
}

// One supervising process serves many trials, and keeps nothing of them.
func TestSupervisorServesAgain(t *testing.T) {
	Close()
	pid, busy := supervisorOf(t, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; x=$(head -c 60000000 /dev/zero | tr '\\0' x)")
	again, quiet := supervisorOf(t, "")
	if again != pid {
		t.Errorf("supervised by %d, then by %d", pid, again)
	}
	if used, left := busy.User+busy.System, quiet.User+quiet.System; left > used/2 || quiet.MaxRSS > busy.MaxRSS/2 {
		t.Errorf("the second trial has used %v and %d bytes, the first %v and %d", left, quiet.MaxRSS, used, busy.MaxRSS)
	}
	threads, files := threadsOf(t, pid), filesOf(pid)
	for range 40 {
		if again, _ := supervisorOf(t, "sleep 0.001 & exit 3"); again != pid {
			t.Fatalf("supervised by %d, then by %d", pid, again)
		}
	}
	if now := threadsOf(t, pid); now > threads+10 {
		t.Errorf("%d threads after the first trials, %d after 40 more", threads, now)
	}
	if now := filesOf(pid); now > files+2 {
		t.Errorf("%d open files after the first trials, %d after 40 more", files, now)
	}
	Close()
	if _, err := ps.Read(pid); err == nil {
		t.Error("it is still there")
	}
}

func threadsOf(t *testing.T, pid int) (n int) {
	t.Helper()
	for line := range strings.Lines(ps.Process{PID: pid}.File("status")) {
		if count, ok := strings.CutPrefix(line, "Threads:"); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(count))
		}
	}
	if n == 0 {
		t.Fatalf("process %d has no threads", pid)
	}
	return n
}

// filesOf is 0 where they cannot be seen.
func filesOf(pid int) int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(list)
}

// A supervising process that is not what it was is replaced, whoever did it.
func TestSupervisorReplaced(t *testing.T) {
	for name, change := range map[string]string{
		"killed by its program":              "kill -KILL $PPID; sleep 100",
		"moved by its program":               "renice -n 1 -p $PPID",
		"its limits lowered by its program":  "prlimit --pid $PPID --nofile=64:64",
		"stopped by its program, which ends": "kill -STOP $PPID",
	} {
		t.Run(name, func(t *testing.T) {
			Close()
			pid, r := supervisorOf(t, change)
			if r.Exit != 0 && !r.KilledParent {
				t.Skipf("NOT TESTED: %s: %s", change, r.Tail)
			}
			after, last := supervisorOf(t, "ulimit -n; nice; exit 4")
			if last.Exit != 4 || last.Canceled || last.Timeout != nil {
				t.Errorf("the next trial: %+v", last)
			}
			if f := strings.Fields(string(last.Tail)); len(f) != 3 || f[1] == "64" || f[2] == "1" {
				t.Errorf("the next trial inherits %q", last.Tail)
			}
			if _, err := ps.Read(pid); r.KilledParent && (err == nil || after == pid) {
				t.Errorf("supervised by %d again", pid)
			}
		})
	}
	for name, signals := range map[string][]syscall.Signal{"killed": {syscall.SIGKILL}, "stopped": {syscall.SIGSTOP}} {
		t.Run(name+" while idle", func(t *testing.T) {
			Close()
			pid, _ := supervisorOf(t, "")
			for _, s := range signals {
				if err := syscall.Kill(pid, s); err != nil {
					t.Fatal(err)
				}
			}
			if _, r := supervisorOf(t, "exit 4"); r.Exit != 4 || r.KilledParent {
				t.Errorf("the next trial: %+v", r)
			}
		})
	}
}
