package stopwatch

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSpent: each moment is charged once, to the account in force; of slots only to the one that is followed.
func TestSpent(t *testing.T) {
	now := time.Unix(0, 0)
	w := start("start", func() time.Time { return now })
	pass := func(seconds int) { now = now.Add(time.Duration(seconds) * time.Second) }
	pass(1)
	decided := w.Enter("deciding")
	pass(2)
	w.Doing(1, "build") // nobody waits for it yet
	pass(4)
	over := w.Follow(1)
	pass(8)
	w.Doing(0, "export") // nor for this one
	pass(16)
	w.Doing(1, "run")
	pass(32)
	stored := w.Enter("store")
	w.Doing(1, "teardown")
	pass(64)
	stored()
	pass(128)
	over()
	pass(256)
	decided()
	pass(512)
	got, sum := w.Spent()
	want := "[{start 8m33s} {deciding 4m22s} {teardown 2m8s} {store 1m4s} {run 32s} {build 24s}]"
	if fmt.Sprint(got) != want || sum != 1023*time.Second {
		t.Errorf("got %v, %v\nwant %s", got, sum, want)
	}
	var none *Watch
	none.Enter("a")()
	none.Follow(0)()
	none.Doing(0, "b")
	none.Settle("", "a")
	if got, sum := none.Spent(); got != nil || sum != 0 {
		t.Errorf("nil: %v, %v", got, sum)
	}
}

// TestSettle: what a process was for may be known only when it is over.
func TestSettle(t *testing.T) {
	now := time.Unix(0, 0)
	w := start("start", func() time.Time { return now })
	for i, account := range []string{"? run", "? load", "run"} {
		w.Enter(account)
		now = now.Add(time.Duration(1<<i) * time.Second)
	}
	w.Enter("end")
	w.Settle("? l", "priming")
	w.Settle("? ", "")
	if got, _ := w.Spent(); fmt.Sprint(got) != "[{run 5s} {priming 2s}]" {
		t.Errorf("%v", got)
	}
}

// TestSpentAddsUp: whatever is called in whatever order, the accounts add up to the time that passed.
func TestSpentAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		w := start("start", func() time.Time { return now })
		var leave []func()
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "ns")))
			slot := rapid.IntRange(0, 2).Draw(t, "slot")
			switch rapid.IntRange(0, 5).Draw(t, "call") {
			case 0:
				leave = append(leave, w.Enter(fmt.Sprint(slot)))
			case 1:
				leave = append(leave, w.Follow(slot))
			case 2:
				w.Doing(slot, rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "doing"))
			case 3:
				if n := len(leave); n > 0 {
					leave[n-1]()
					leave = leave[:n-1]
				}
			case 4:
				w.Spent()
			case 5:
				w.Settle("a", rapid.SampledFrom([]string{"", "b"}).Draw(t, "to"))
			}
		}
		all, sum := w.Spent()
		total := time.Duration(0)
		for _, a := range all {
			total += a.Time
		}
		if passed := now.Sub(w.Began()); sum != passed || total != passed {
			t.Fatalf("%v adds up to %v; %v was said, %v passed", all, total, sum, passed)
		}
	})
}

// TestSpentBesideOthers is for the race detector.
func TestSpentBesideOthers(t *testing.T) {
	w := New("start")
	var group sync.WaitGroup
	for slot := range 4 {
		group.Go(func() {
			for range 100 {
				w.Doing(slot, "run")
			}
		})
	}
	for slot := range 4 {
		w.Follow(slot)()
	}
	group.Wait()
	if _, sum := w.Spent(); sum <= 0 || sum > time.Since(w.Began()) {
		t.Errorf("%v", sum)
	}
}
