package progress

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/pipeline"
)

// Each line says what was done, how far the run is, and how long the rest will take by what is behind it.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := New(&out, false, false)
		said := func(want string) {
			t.Helper()
			if got := strings.TrimSuffix(out.String(), "\n"); got != want {
				t.Errorf("%q\nwant %q", got, want)
			}
			out.Reset()
		}
		time.Sleep(10 * time.Second)
		p.Launched(2, 6, "launch 2 ok")
		said("launch 2 ok | 2 of 6, 33 % done, 10s elapsed, about 20s to go")
		p.Launched(6, 6, "launch 6 ok")
		said("launch 6 ok | 6 of 6, 10s elapsed")
		p.Launched(3, 0, "pair 3")
		said("pair 3")

		p.BeginSets(1, 4, "flag")
		said("1 flag to search, as 4 changes")
		if got := p.status(); got != "flags: 0 %, 10s elapsed" { // a bar that begins anew says what of
			t.Error(got)
		}
		if got := p.Far(); got != "10s elapsed" {
			t.Errorf("nothing is expected yet: %s", got)
		}
		p.Remaining(sets.Progress{}, 1)
		time.Sleep(10 * time.Second)
		p.Remaining(sets.Progress{Made: 5, Spent: 10, Tests: 4, Seconds: 20}, 1)
		p.Test(sets.Test{Request: sets.Request{Purpose: sets.Prefix}, Result: sets.Result{Answer: sets.Fail, Seconds: 2.5}}, func(sets.Set) string { return "fp8=on\x1b[2J" })
		said("search    fail       2.50 s  fp8=on [2J | 20s elapsed") // what is left was said ten seconds ago
		p.Test(sets.Test{Request: sets.Request{Purpose: sets.Prefix}, Result: sets.Result{Answer: sets.Unjudged}, Inferred: true}, func(sets.Set) string { return "x" })
		said("search    no verdict inferred  x | 20s elapsed")
		time.Sleep(silence)
		p.Remaining(sets.Progress{Made: 9, Spent: 80, Tests: 4, Seconds: 300}, 1)
		p.Remaining(sets.Progress{Made: 9, Spent: 80, Tests: 4, Seconds: 20}, 1)
		p.Remaining(sets.Progress{Made: 9, Spent: 80, Tests: 4, Seconds: 300}, 1)
		p.Test(sets.Test{Request: sets.Request{Purpose: sets.Prefix}, Result: sets.Result{Answer: sets.Pass, Seconds: 2.5}}, func(sets.Set) string { return "y" })
		said("search    pass       2.50 s  y | 25 % done, 1m20s elapsed, about 3m58s to go") // the end moves, and does not jump

		for i := range 4 { // the same again is counted
			p.Test(sets.Test{Request: sets.Request{Purpose: sets.Verifying}, Result: sets.Result{Answer: []sets.Answer{sets.Pass, sets.Fail}[i/3]}}, func(sets.Set) string { return "x" })
		}
		said("confirm   pass       0.00 s  x | 1m20s elapsed\nconfirm   2 tests: 2 pass, 0 fail | 1m20s elapsed\nconfirm   fail       0.00 s  x | 1m20s elapsed")

		p.BeginPart()
		time.Sleep(8 * time.Second)
		p.Ranked("fp8=on", 4, 12)
		said("ranking   fp8=on | launch 4, about 12 more, 1m28s elapsed")
		p.End() // without a terminal there is no bar to remove
		p.Say("after")
		said("after")
	})
}

// The first launch of an end is told once, whatever the phases before it; with --verbose, everything is.
func TestActivityIsToldOnce(t *testing.T) {
	activity := func(purpose bisect.Purpose, nth int, doing string, slot int) pipeline.Activity {
		return pipeline.Activity{Request: bisect.Request{Candidate: bisect.Candidate{Commit: "aaaa"}, Purpose: purpose, Nth: nth}, Doing: doing, Slot: slot}
	}
	all := []pipeline.Activity{
		activity(bisect.EndGood, 0, "export", 0), activity(bisect.EndGood, 0, "build", 0), activity(bisect.EndGood, 0, "load", 0),
		activity(bisect.EndGood, 1, "load", 0), activity(bisect.Searching, 0, "load", 1), activity(bisect.EndBad, 0, "build", 1),
	}
	for _, c := range []struct {
		verbose bool
		want    string
	}{
		{false, "good end  aaaa: build\nbad end   slot 2: aaaa: build\n"},
		{true, "aaaa: export\naaaa: build\naaaa: load\naaaa: load\nslot 2: aaaa: load\nslot 2: aaaa: build\n"},
	} {
		var out bytes.Buffer
		p := New(&out, false, c.verbose)
		for _, a := range all {
			p.Activity(a)
		}
		if out.String() != c.want {
			t.Errorf("verbose %v:\n%s\nwant\n%s", c.verbose, out.String(), c.want)
		}
	}
}

// What the log says is a line for people; only warnings are marked as such, and a logger keeps its own attributes to
// itself.
func TestLogLines(t *testing.T) {
	var out bytes.Buffer
	base := slog.New(LogHandler{UI: New(&out, false, true), Level: slog.LevelInfo})
	one, two := base.With("slot", 1), base.With("slot", 2).WithGroup("pipeline")
	one.Debug("too quiet")
	one.Info("built", "took", 3*time.Second)
	two.Warn("slow\x1b[2J")
	base.Error("lost")
	if got, want := out.String(), "built, slot 1, took 3s\nkbisect: warning: slow [2J, slot 2\nkbisect: warning: lost\n"; got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// Slots that report at the same time do not mix their lines.
func TestLinesOfSeveralSlots(t *testing.T) {
	var out bytes.Buffer
	p := New(words.NewWriter(&out), false, false)
	var slots sync.WaitGroup
	for range 4 {
		slots.Go(func() {
			for range 100 {
				p.Say("a line – of text")
			}
		})
	}
	slots.Wait()
	if out.String() != strings.Repeat("a line – of text\n", 400) {
		t.Error("lines were mixed")
	}
}
