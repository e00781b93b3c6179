package progress

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/pipeline"
)

// What a search expects is said when nothing else has been for a while.
func TestProgressTellsWhatASearchExpects(t *testing.T) {
	var said bytes.Buffer
	p := &Display{area: liveArea{out: &said}, pace: pace{began: time.Now().Add(-settled)}, told: time.Now()}
	p.Begin(100, 100)
	said.Reset()
	b := search.Progress{Suspects: 12.3, ExpectedLaunches: 20.4, ExpectedSeconds: 300}
	p.Belief(b)
	if got := p.pace.expected(); got < 299*time.Second || got > 300*time.Second || said.Len() > 0 {
		t.Errorf("expects %v, said %q", got, said.String())
	}
	p.told = time.Now().Add(-2 * silence)
	p.Belief(b)
	p.Belief(b)
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "12 suspects left, about 20 launches and 5m0s to go") {
		t.Errorf("said %q", got)
	}
	said.Reset()
	p.Step(bisect.Step{Commit: "0123456789", Role: "search", Remaining: 9, Verdict: bisect.Verdict{Call: bisect.Good}})
	if got := said.String(); !strings.Contains(got, "9 left") || !strings.Contains(got, "to go") {
		t.Errorf("said %q", got)
	}
}

// TestProgressOnlyFalls: the time to go falls with the clock and with what is said, and rises only with a reason, which is
// printed. The share done never falls.
func TestProgressOnlyFalls(t *testing.T) {
	var said bytes.Buffer
	p := &Display{area: liveArea{out: &said}, pace: pace{began: time.Now()}, told: time.Now()}
	p.Begin(100, 100)
	said.Reset()
	last, done := time.Hour, 0.0
	for _, b := range []search.Progress{
		{Done: 0.1, ExpectedSeconds: 300, ExpectedLaunches: 30}, {Done: 0.2, ExpectedSeconds: 250, ExpectedLaunches: 25}, {Done: 0.2, ExpectedSeconds: 260, ExpectedLaunches: 25},
		{Done: 0.2, ExpectedSeconds: 500, ExpectedLaunches: 40, Reason: search.Intermittent}, {Done: 0.5, ExpectedSeconds: 100, ExpectedLaunches: 8},
	} {
		p.Belief(b)
		left := p.pace.expected()
		if left > last && b.Reason == "" || p.pace.done < done || p.pace.done != b.Done {
			t.Errorf("%+v: %v to go after %v, %.2f done after %.2f", b, left, last, p.pace.done, done)
		}
		last, done = left, p.pace.done
	}
	if got, want := said.String(), "about 40 launches and 8m20s to go now: the complaint does not come in every launch\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	p.BeginPart()
	if p.pace.expected() != 0 {
		t.Errorf("%v to go of another part", p.pace.expected())
	}
}

// What a search over sets expects becomes time by what its tests have taken: what lies between them is added,
// and of tests made side by side each counts less.
func TestProgressExpectsOfSets(t *testing.T) {
	const second = time.Second
	for _, x := range []struct {
		took        time.Duration
		p           sets.Progress
		slots       int
		least, most time.Duration
	}{
		{20 * second, sets.Progress{Made: 10, Spent: 10, Tests: 4, Seconds: 6}, 1, 5 * second, 11 * second},
		{20 * second, sets.Progress{Made: 10, Spent: 10, Tests: 4, Seconds: 6, Timed: 2, Launch: 2}, 1, 130 * second, 140 * second},
		{10 * second, sets.Progress{Made: 10, Spent: 20, Tests: 4, Seconds: 8}, 2, second, 5 * second},
		{second, sets.Progress{Made: 10, Spent: 20, Tests: 4, Seconds: 8}, 1, 3 * second, 9 * second}, // remembered
	} {
		p := &Display{area: liveArea{out: io.Discard}, pace: pace{began: time.Now().Add(-x.took)}}
		p.BeginSets(6, 6, "flag")
		p.Remaining(sets.Progress{}, x.slots)
		p.part = p.pace.began
		p.Remaining(x.p, x.slots)
		if got := p.pace.expected(); got < x.least || got > x.most {
			t.Errorf("%+v after %v: %v", x.p, x.took, got)
		}
	}
}

// TestBarMovesWithTheClock: within a launch the bar moves all the time, never as far as the launch leads, never backwards, and
// not to the end before the work is done.
func TestBarMovesWithTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(io.Discard, false, false)
		p.Belief(search.Progress{Done: 0.28, ExpectedLaunches: 6, ExpectedSeconds: 60})
		last := p.pace.now()
		if last != 0.28 {
			t.Errorf("it begins at %g", last)
		}
		for range 100 { // of a launch that was expected to take 10 s
			time.Sleep(3 * time.Second)
			now := p.pace.now()
			if now <= last || now >= 0.28+0.72/6 {
				t.Fatalf("%g after %g", now, last)
			}
			last = now
		}
		p.Belief(search.Progress{Done: 0.3, ExpectedLaunches: 5, ExpectedSeconds: 50})
		if now := p.pace.now(); now != last {
			t.Errorf("%g after %g", now, last)
		}
		for name, tell := range map[string]func(){
			"pairs": func() { p.Launched(1, 4, "") }, "sets": func() { p.pace.expect(30, 10) },
		} {
			p.BeginPart()
			tell()
			before := p.pace.now()
			time.Sleep(time.Second)
			if now := p.pace.now(); now <= before || now >= 1 {
				t.Errorf("%s: %g after %g", name, now, before)
			}
		}
		p.BeginPart()
		p.Belief(search.Progress{Done: 0.5, ExpectedLaunches: 4, ExpectedSeconds: 4})
		for i := range 6 { // nothing is said in between
			if now, want := p.pace.now(), 0.5+float64(min(i, 3))/8; now != want {
				t.Errorf("%g after %d launches of 4", now, i)
			}
			p.Launch(bisect.Outcome{}, 0)
		}
		p.Launched(4, 4, "")
		if p.pace.now() != 1 {
			t.Errorf("%g at the end", p.pace.now())
		}
	})
}

// TestCost: launches that were made count, with their price where that of an hour is known; those of other sessions do not.
func TestCost(t *testing.T) {
	p := New(io.Discard, false, false)
	if s := p.status(); strings.Contains(s, "launch") {
		t.Error(s)
	}
	p.Launch(bisect.Outcome{Wall: 1800}, 2.5)
	p.Launch(bisect.Outcome{Wall: 900}, 2.5)
	p.Launch(bisect.Outcome{Wall: 900, From: "another"}, 2.5)
	if s := p.status(); !strings.Contains(s, ", 2 launches, price 1.88") {
		t.Error(s)
	}
}

// TestConfirmingIsCounted: launches of a proof are counted, each once whatever its phases, as long as they last.
func TestConfirmingIsCounted(t *testing.T) {
	p := New(io.Discard, false, false)
	launch := func(purpose bisect.Purpose, nth int) string {
		r := bisect.Request{Candidate: bisect.Candidate{Commit: "aaaa"}, Purpose: purpose, Nth: nth}
		p.Activity(pipeline.Activity{Request: r, Doing: "build"})
		p.Activity(pipeline.Activity{Request: r, Doing: "load"})
		return p.running()
	}
	if s := launch(bisect.Searching, 0); strings.Contains(s, "confirming") {
		t.Error(s)
	}
	for _, x := range []struct {
		purpose bisect.Purpose
		nth     int
		left    float64
		want    string
	}{
		{bisect.ConfirmParent, 0, 5, "confirming: 1 of 1 | load, "}, {bisect.ConfirmParent, 1, 4, "confirming: 2 of 5 | "}, {bisect.ConfirmCulprit, 0, 3, "confirming: 3 of 5 | "},
	} {
		if s := launch(x.purpose, x.nth); !strings.Contains(s, x.want) {
			t.Errorf("%s, want %s", s, x.want)
		}
		p.Belief(search.Progress{ExpectedLaunches: x.left, Later: 1, Done: 0.5, ExpectedSeconds: 3})
	}
	if s := launch(bisect.Searching, 1); strings.Contains(s, "confirming") {
		t.Error(s)
	}
}

// Below the bar stands what is done in each slot, and nothing of those that have nothing to do.
func TestProgressOfSlots(t *testing.T) {
	p := New(io.Discard, false, false)
	for slot, commit := range []string{"aaaa", "bbbb"} {
		p.Activity(pipeline.Activity{Request: bisect.Request{Candidate: bisect.Candidate{Commit: commit}}, Doing: "load", Limit: time.Minute, Slot: slot})
	}
	if s := p.running(); !strings.HasPrefix(s, "  load (limit 60 s), ") || !strings.Contains(s, ": aaaa | load (limit 60 s), ") || !strings.HasSuffix(s, ": bbbb") {
		t.Error(s)
	}
	p.Idle(0)
	if s := p.running(); strings.Contains(s, "aaaa") || !strings.Contains(s, "bbbb") {
		t.Error(s)
	}
}

// Warnings are printed even when nothing else is, and control characters never are.
func TestQuietShowsWarningsOnly(t *testing.T) {
	var out bytes.Buffer
	p := New(&out, true, false)
	p.Say("one step")
	p.Warn("disk\x1b full")
	slog.New(LogHandler{UI: p, Level: slog.LevelWarn}.WithAttrs([]slog.Attr{slog.String("slot", "1")})).Warn("slow", "took", "3s")
	if got, want := out.String(), "kbisect: warning: disk  full\nkbisect: warning: slow, slot 1, took 3s\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
