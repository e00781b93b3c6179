package proc

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// busy is a loop with children, one in a session of its own and one orphaned;
// all are under way when it says so.
const busy = `loop() { while :; do :; done; }
	loop & setsid sh -c 'while :; do :; done' & (loop &) ; sleep 0.2; echo ready >&$FD; `

// used is the processor time that a tree has used, in ticks of 10 ms.
func used(t *testing.T, cookie string) (ticks uint64) {
	t.Helper()
	for _, p := range alive(t, cookie) {
		stat := p.File("stat")
		f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		for _, field := range f[11:13] {
			n, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				t.Error(err)
			}
			ticks += n
		}
	}
	return ticks
}

// begin starts s and returns when its first line has come.
func begin(ctx context.Context, s Spec) (wait func() (Result, error)) {
	ready, done := make(chan struct{}, 1000), make(chan struct{})
	var r Result
	var err error
	next := s.Watch
	s.Watch = func(line string, at time.Duration) Transition {
		ready <- struct{}{}
		if next == nil {
			return Transition{}
		}
		return next(line, at)
	}
	go func() { r, err = Run(ctx, s); close(done) }()
	select {
	case <-ready:
	case <-done:
	}
	go func() { // who pauses what has not begun, or is over, must not wait for ever
		<-done
		for range s.Pause {
		}
	}()
	return func() (Result, error) { <-done; return r, err }
}

func TestPause(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way string) {
		pause := make(chan bool)
		s := contained(shell(t, busy+"i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 5"), way)
		s.Pause = pause
		var pauses []bool // whether it stood still
		s.OnPause = func(still bool) { pauses = append(pauses, still) }
		wait := begin(t.Context(), s)
		for range 2 {
			pause <- true
			pause <- true // twice is once
			frozen := standstill(t, s.Cookie)
			time.Sleep(300 * time.Millisecond)
			if now := used(t, s.Cookie); now != frozen {
				t.Errorf("used %d ticks while frozen", now-frozen)
			}
			pause <- false
			eventually(t, "moves again", func() bool { return used(t, s.Cookie) != frozen })
		}
		r, err := wait()
		if err != nil || r.Exit != 5 || r.Paused < 500*time.Millisecond || !slices.Equal(pauses, []bool{true, true}) {
			t.Errorf("%+v, %v; stood still: %v", r, err, pauses)
		}
	})
}

// standstill waits until a tree uses no time, and returns what it has used.
func standstill(t *testing.T, cookie string) (ticks uint64) {
	t.Helper()
	eventually(t, "stands still", func() bool {
		ticks = used(t, cookie)
		time.Sleep(100 * time.Millisecond)
		return used(t, cookie) == ticks
	})
	return ticks
}

func TestPauseHoldsLimits(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way string) {
		pause := make(chan bool)
		s := contained(shell(t, "echo ready >&$FD; sleep 0.5; echo later >&$FD; sleep 1000"), way)
		s.Pause = pause
		s.Phase, s.PhaseLimit, s.Limit = "run", 3*time.Second, 4*time.Second
		var times []time.Duration
		s.Watch = func(line string, at time.Duration) Transition {
			times = append(times, at)
			if line == "later" {
				return Transition{Phase: line, Limit: 200 * time.Millisecond}
			}
			return Transition{}
		}
		wait := begin(t.Context(), s)
		pause <- true
		time.Sleep(4500 * time.Millisecond)
		close(pause)
		r, err := wait()
		if err != nil || r.Timeout == nil || r.Timeout.Phase != "later" || r.Timeout.Whole || r.Paused < 4*time.Second {
			t.Fatalf("%+v, %v", r, err)
		}
		if took := r.Timeout.Elapsed; took < 200*time.Millisecond || took > 4*time.Second || r.Wall > 4*time.Second+s.Grace {
			t.Errorf("%+v, time-out %+v", r, r.Timeout)
		}
		if len(times) != 2 || times[1] > 4*time.Second || !slices.IsSorted(times) {
			t.Errorf("lines at %v", times)
		}
	})
}

func TestKillWhileFrozen(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{-1, 20 * time.Second} {
		everyWay(t, func(t *testing.T, way string) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			pause := make(chan bool)
			s := contained(shell(t, busy+"trap 'echo clean; exit 3' TERM; wait"), way)
			s.Pause, s.Grace = pause, grace
			wait := begin(ctx, s)
			pause <- true
			standstill(t, s.Cookie)
			cancel()
			r, err := wait()
			if err != nil || !r.Canceled || r.Paused <= 0 {
				t.Errorf("%+v, %v", r, err)
			}
			if grace < 0 && r.Signal != syscall.SIGKILL {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestEndsWhereItStands: a tree that stands still and is asked to end does nothing more.
func TestEndsWhereItStands(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, way string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := filepath.Join(t.TempDir(), "done")
		pause := make(chan bool)
		s := contained(shell(t, "echo >"+done+"; echo ready >&$FD; while :; do echo >>"+done+"; done"), way)
		s.Pause, s.Grace = pause, 20*time.Second
		wait := begin(ctx, s)
		pause <- true
		standstill(t, s.Cookie)
		before, err := os.ReadFile(done)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if r, err := wait(); err != nil || !r.Canceled || r.Signal != syscall.SIGTERM {
			t.Errorf("%+v, %v", r, err)
		}
		if after, err := os.ReadFile(done); err != nil || len(after) != len(before) {
			t.Errorf("it went on: %d lines, then %d, %v", len(before), len(after), err)
		}
	})
}

// TestPausedKbisectKilled: nobody thaws, and yet nothing stays.
func TestPausedKbisectKilled(t *testing.T) {
	everyWay(t, func(t *testing.T, way string) {
		cmd, prefix := inside(t, way)
		cmd.Env = append(cmd.Env, "PROC_TEST_PAUSE=1")
		ready(t, cmd)
		standstill(t, prefix+"-inside")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		eventually(t, "tree and warden gone", func() bool { return len(alive(t, prefix)) == 0 && len(groupsWith(prefix)) == 0 })
	})
}

// TestPauseStopped: what was stopped before stays so.
func TestPauseStopped(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way string) {
		pause := make(chan bool)
		s := contained(shell(t, `sleep 1000 & p=$!; kill -STOP $p
			until grep -q 'State:.T' /proc/$p/status; do sleep 0.01; done; echo ready >&$FD; sleep 0.5
			grep State /proc/$p/status; kill -CONT $p; kill $p; wait $p`), way)
		s.Pause = pause
		wait := begin(t.Context(), s)
		pause <- true
		standstill(t, s.Cookie)
		pause <- false
		if r, err := wait(); err != nil || !strings.Contains(string(r.Tail), "T (stopped)") {
			t.Errorf("%s%+v, %v", r.Tail, r, err)
		}
	})
}

// TestClock follows the clock of a trial through two pauses.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPhases(Spec{Limit: time.Hour, Phase: "load", PhaseLimit: 10 * time.Second})
		start := time.Now()
		c.start(start)
		sleep := func(n int) { time.Sleep(time.Duration(n) * time.Second) }
		sleep(3)
		c.hold()
		sleep(1)
		c.pause(time.Now())
		sleep(100)
		if got := c.read(time.Now()); got != 4*time.Second {
			t.Errorf("while frozen: %v", got)
		}
		c.resume(time.Now())
		c.apply(Transition{"measure", 5 * time.Second}, start.Add(3*time.Second)) // came late
		sleep(2)
		c.hold()
		c.pause(time.Now())
		c.resume(time.Now().Add(50 * time.Second))
		sleep(50)
		if c.expired() != nil {
			t.Error("too early")
		}
		<-c.timer.C
		got, want := c.expired(), Timeout{Phase: "measure", Limit: 5 * time.Second, Elapsed: 5 * time.Second}
		if got == nil || *got != want || time.Since(start) != 158*time.Second {
			t.Errorf("%+v after %v", got, time.Since(start))
		}
	})
}

// TestLimitBeforePause: a limit that was reached before all stood still counts,
// and one that was not does not.
func TestLimitBeforePause(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newPhases(Spec{Limit: 10 * time.Second})
			start := time.Now()
			c.start(start)
			c.hold()
			time.Sleep(11 * time.Second)
			if c.expired() != nil {
				t.Error("judged too early")
			}
			at := start.Add(9 * time.Second)
			if late {
				at = start.Add(10500 * time.Millisecond)
			}
			c.pause(at)
			time.Sleep(time.Second)
			if got := c.expired(); (got != nil) != late {
				t.Errorf("late %v: %+v", late, got)
			}
		})
	}
}

// A tree that is paused while its leader ends, inside the kernel too, ends as it would have: nothing is blamed on it.
func TestPauseAtTheEnd(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way string) {
		exe := program(t, `
			#include <pthread.h>
			#include <stdio.h>
			#include <stdlib.h>
			#include <string.h>
			#include <unistd.h>
			static void *idle(void *x) { for (;;) pause(); return x; }
			int main(int argc, char **argv) {
				pthread_t t;
				for (int i = 0; i < 8; i++) pthread_create(&t, 0, idle, 0);
				size_t much = 100 << 20; /* the kernel takes a while to free it */
				memset(malloc(much), 1, much);
				dprintf(atoi(getenv("FD")), "last\n");
				usleep(20000);
				return 0;
			}`)
		ended := 0
		for i := range 30 {
			pause, stands := make(chan bool, 2), make(chan bool, 2)
			s := contained(shell(t, ""), way)
			s.Argv, s.Pause = []string{exe}, pause
			s.OnPause = func(still bool) { stands <- still }
			wait := begin(t.Context(), s)
			time.Sleep(time.Duration(10+i) * time.Millisecond)
			done := make(chan struct{})
			var r Result
			var err error
			go func() {
				defer close(done)
				r, err = wait()
			}()
			pause <- true
			select {
			case <-stands:
			case <-done:
				ended++
			}
			time.Sleep(10 * time.Millisecond)
			pause <- false
			close(pause)
			<-done
			if err != nil || r.Exit != 0 || r.Signal != 0 || r.Timeout != nil || r.Canceled || r.Leftover != 0 {
				t.Errorf("paused after %d ms: %+v, %v", 10+i, r, err)
			}
		}
		t.Logf("%d of 30 had ended before", ended)
	})
}
