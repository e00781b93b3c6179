package progress

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/pipeline"
)

// What a search expects replaces the guess by the number of candidates, and is said when nothing else
// has been for a while.
func TestProgressTellsWhatASearchExpects(t *testing.T) {
	var said bytes.Buffer
	p := &Display{line: statusLine{out: &said}, began: time.Now(), last: time.Now(), told: time.Now()}
	p.Begin(100, 100)
	said.Reset()
	b := search.Progress{Suspects: 12.3, Probability: 0.2, ExpectedLaunches: 20.4, ExpectedSeconds: 300}
	p.Belief(b)
	if got := p.expected(); got < 299*time.Second || got > 300*time.Second || said.Len() > 0 {
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
	p := &Display{line: statusLine{out: &said}, began: time.Now(), last: time.Now(), told: time.Now()}
	p.Begin(100, 100)
	said.Reset()
	last, done := time.Hour, 0.0
	for _, b := range []search.Progress{
		{Done: 0.1, ExpectedSeconds: 300, ExpectedLaunches: 30}, {Done: 0.2, ExpectedSeconds: 250, ExpectedLaunches: 25}, {Done: 0.2, ExpectedSeconds: 260, ExpectedLaunches: 25},
		{Done: 0.2, ExpectedSeconds: 500, ExpectedLaunches: 40, Reason: search.Intermittent}, {Done: 0.5, ExpectedSeconds: 100, ExpectedLaunches: 8},
	} {
		p.Belief(b)
		left := p.expected()
		if left > last && b.Reason == "" || p.share() < done || p.share() != b.Done {
			t.Errorf("%+v: %v to go after %v, %.2f done after %.2f", b, left, last, p.share(), done)
		}
		last, done = left, p.share()
	}
	if got, want := said.String(), "about 40 launches and 8m20s to go now: the complaint does not come in every launch\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	p.BeginPart()
	if p.expected() != 0 {
		t.Errorf("%v to go of another part", p.expected())
	}
}

// TestProgressShare: what is done grows to the end of the proof, and not before.
func TestProgressShare(t *testing.T) {
	p := &Display{line: statusLine{out: io.Discard}, began: time.Now(), last: time.Now(), told: time.Now()}
	p.Begin(16, 16)
	last := -1.0
	for _, s := range []bisect.Step{
		{Role: "good end"}, {Role: "search", Remaining: 8}, {Role: "search", Remaining: 3}, {Role: "search", Remaining: 1},
		{Role: "culprit"}, {Role: "parent"}, {Role: "parent"},
	} {
		s.Commit = "0123456789"
		p.Step(s)
		if got := p.share(); got < last || got > 1 || (got == 1) != (s.Role == "parent") {
			t.Errorf("%s: %.3f done, before %.3f", s.Role, got, last)
		}
		last = p.share()
	}
	p = &Display{line: statusLine{out: io.Discard}}
	p.Begin(1, 1)
	if got := p.share(); got != 0 {
		t.Errorf("one suspect: %g done", got)
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
		p := &Display{line: statusLine{out: io.Discard}, began: time.Now().Add(-x.took)}
		p.BeginSets(6, 6, "flags")
		p.Remaining(sets.Progress{}, x.slots)
		p.part = p.began
		p.Remaining(x.p, x.slots)
		if got := p.expected(); got < x.least || got > x.most {
			t.Errorf("%+v after %v: %v", x.p, x.took, got)
		}
	}
}

// Beside the bar stands what is done in each slot, and nothing of those that have nothing to do.
func TestProgressOfSlots(t *testing.T) {
	p := New(io.Discard, false, false)
	for slot, commit := range []string{"aaaa", "bbbb"} {
		p.Activity(pipeline.Activity{Request: bisect.Request{Candidate: bisect.Candidate{Commit: commit}}, Doing: "load", Limit: time.Minute, Slot: slot})
	}
	if s := p.Status(); !strings.Contains(s, " | aaaa: load (limit 1m0s), ") || !strings.Contains(s, " | bbbb: load (limit 1m0s), ") {
		t.Error(s)
	}
	p.Idle(0)
	if s := p.Status(); strings.Contains(s, "aaaa") || !strings.Contains(s, "bbbb") {
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
