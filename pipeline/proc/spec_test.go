package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		want         int
	}{
		{"ends", "echo last >&$FD", 0},
		{"dies", "echo last >&$FD; kill -SEGV $$", 0},
		{"closes", "echo last >&$FD; exec 3>&-; sleep 0.3", 1},
		{"hands it down", "sleep 0.5 & exec 3>&-; sleep 1", 1},
		{"child holds it", "setsid sleep 1000 & exec 3>&-; sleep 0.2", 0},
		{"says nothing", "exec 3>&-; exec sleep 0.3", 1},
		{"is killed", "sleep 1000", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := shell(t, c.script)
			s.Phase, s.PhaseLimit, s.Grace = "run", 3*time.Second, -1
			n := 0
			s.Closed = func(at time.Duration) Transition {
				if n++; at <= 0 {
					t.Errorf("at %v", at)
				}
				return Transition{}
			}
			if r := run(t, s); n != c.want {
				t.Errorf("called %d times, %+v", n, r)
			}
		})
	}
}

// TestClosedRaces: a program that ends at once has not closed its pipe before.
func TestClosedRaces(t *testing.T) {
	file := program(t, `
#include <pthread.h>
#include <unistd.h>
static void *idle(void *p) { for (;;) pause(); return p; }
int main(void) { pthread_t t; for (int i = 0; i < 8; i++) pthread_create(&t, 0, idle, 0); write(3, "last\n", 5); _exit(0); }`)
	for range 30 {
		s := shell(t, "")
		s.Argv = []string{file}
		s.Closed = func(time.Duration) Transition { t.Error("called"); return Transition{} }
		run(t, s)
	}
}

func TestClosedEntersPhase(t *testing.T) {
	bothWays(t, func(t *testing.T, way string) {
		s := contained(shell(t, "echo last >&$FD; exec 3>&-; sleep 1000"), way)
		s.Closed = func(time.Duration) Transition { return Transition{"teardown", 200 * time.Millisecond} }
		r := run(t, s)
		if r.Timeout == nil || r.Timeout.Phase != "teardown" || r.Timeout.Whole || r.ProtocolLines != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestClosedNotStarted(t *testing.T) {
	s := shell(t, "")
	s.Argv = []string{"/proc/self/mem"}
	s.Closed = func(time.Duration) Transition { t.Error("called"); return Transition{} }
	if _, err := Run(t.Context(), s); err == nil {
		t.Error("started")
	}
}

func TestCPUs(t *testing.T) {
	var ours unix.CPUSet
	if err := unix.SchedGetaffinity(0, &ours); err != nil {
		t.Fatal(err)
	}
	last := 1023
	for !ours.IsSet(last) {
		last--
	}
	s := shell(t, "setsid sh -c 'grep Cpus_allowed_list /proc/self/status'; cut -d' ' -f19 /proc/self/stat; cut -d' ' -f19 /proc/$PPID/stat")
	s.CPUs, s.Nice = []int{last}, 7
	r := run(t, s)
	niceness, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the kernel returns 20 less it
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n7\n%d\n", last, 20-niceness); !strings.HasSuffix(string(r.Tail), want) {
		t.Errorf("%q, want %q", r.Tail, want)
	}
	for _, cpus := range [][]int{{-1}, {last, 1000}, {7000, 100000}} {
		s.CPUs = cpus
		_, err := Run(t.Context(), s)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(cpus[len(cpus)-1])) {
			t.Errorf("%v: %v", cpus, err)
		}
		if err != nil && strings.Contains(err.Error(), fmt.Sprintf("available: %d,", last)) {
			t.Errorf("%v", err)
		}
	}
}

// Where sessions are scheduled as groups, a nice tree yields as a whole, until it is in a hurry.
func TestHurry(t *testing.T) {
	if _, err := os.Stat("/proc/self/autogroup"); err != nil {
		t.Skip("NOT TESTED: this kernel does not schedule sessions as groups")
	}
	slow := filepath.Join(t.TempDir(), "slow")
	s := shell(t, fmt.Sprintf(`until grep -q 'nice 7$' /proc/self/autogroup; do sleep 0.01; done; touch %s; until grep -q 'nice 0$' /proc/self/autogroup; do sleep 0.01; done; cut -d' ' -f19 /proc/self/stat`, slow))
	hurry := make(chan struct{})
	s.Nice, s.Hurry = 7, hurry
	go func() {
		for _, err := os.Stat(slow); err != nil && t.Context().Err() == nil; _, err = os.Stat(slow) {
			time.Sleep(10 * time.Millisecond)
		}
		close(hurry)
	}()
	nice := "7"
	if os.Geteuid() == 0 { // may lower it for each process
		own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			t.Fatal(err)
		}
		nice = fmt.Sprint(20 - own)
	}
	if r := run(t, s); r.Exit != 0 || string(r.Tail) != nice+"\n" {
		t.Errorf("%q, exit %d; want nice %s", r.Tail, r.Exit, nice)
	}
}

func TestAccountsBothWays(t *testing.T) {
	everyWay(t, func(t *testing.T, way string) {
		s := contained(shell(t, "trap '' CHLD; (i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done) & wait; kill -KILL $$"), way)
		if r := run(t, s); r.User < 10*time.Millisecond || r.User+r.System > 2*r.Wall*16 || r.Signal != syscall.SIGKILL {
			t.Errorf("%+v", r)
		}
	})
}
