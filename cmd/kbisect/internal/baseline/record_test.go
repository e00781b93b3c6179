package baseline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/store"
)

// TestMain lets the test binary be the process that watches over a tool, such as the compiler that is asked for its
// version.
func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	os.Exit(m.Run())
}

// recorded records HEAD of a new repository, of which launch n shows what show returns. It returns what was kept and
// printed, with the store.
func recorded(t *testing.T, q policy.Request, note string, show func(n int) (bisect.Outcome, error)) (all []Kept, st *store.Store, printed string, err error) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	r := gittest.New(t)
	r.Write(t, "run.sh", "#!/bin/sh\n")
	r.Commit(t, "the base")
	q.Name, q.Dir, q.Quiet, q.Argv = "baseline record", r.Dir, true, []string{"./run.sh"}
	var out bytes.Buffer
	n := 0
	err = Record(t.Context(), session.Env{
		Request: &q, Display: progress.New(io.Discard, true, false), Version: "test",
		Output: session.Output{Stdout: &out, Write: func(report.Document, report.Ledger) error { return nil }, Print: func(d report.Document, _ report.Ledger) error {
			fmt.Fprintln(&out, d.(*report.Measurement).Verdict)
			return nil
		}},
		Sampler: func(*session.Session) bisect.Sampler {
			return bisect.SamplerFunc(func(context.Context, bisect.Request) (bisect.Outcome, error) {
				n++
				return show(n)
			})
		},
	}, nil, note)
	repo, openErr := source.Open(r.Dir)
	if openErr != nil {
		t.Fatal(openErr)
	}
	t.Cleanup(func() { repo.Close() })
	if st, openErr = store.Open(store.Dir(repo.CommonDir()), store.ReadOnly); openErr != nil {
		t.Fatal(openErr)
	}
	t.Cleanup(func() { st.Close() })
	all, listErr := List(st)
	if listErr != nil {
		t.Fatal(listErr)
	}
	return all, st, out.String(), err
}

func well(n int) (bisect.Outcome, error) {
	y := 2 + 0.01*float64(n)
	return bisect.Outcome{
		Class: bisect.OK, Wall: y + 1, Phases: []bisect.PhaseTime{{Name: "build", Seconds: 9}, {Name: "load", Seconds: 1}},
		Series: []bisect.Series{{Metric: "time", Case: "n1", Unit: "s", Values: []float64{y}}, {Metric: "rate", Unit: "GB/s", Values: []float64{1 / y, 2 / y}}},
	}, nil
}

// What is recorded holds every number of every launch, lets searches start from its commit, and is read back from its
// own file.
func TestRecord(t *testing.T) {
	all, st, printed, err := recorded(t, policy.Request{Launches: 3}, "before the\x1b[2J rewrite", well)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %d baselines", err, len(all))
	}
	b := all[0]
	var names []string
	for _, l := range b.Levels {
		names = append(names, fmt.Sprintf("%s %d", l.Name(), len(l.Values)))
	}
	if got, want := strings.Join(names, ", "), "time of n1 3, rate 3, wall 3, phase.load 3"; got != want {
		t.Errorf("levels %s, want %s", got, want)
	}
	if b.Imported || b.Launches != 3 || b.Subject != "the base" || b.Version != "test" || b.Config.Run != "./run.sh" || b.Levels[0].Median != 2.02 {
		t.Errorf("%+v", b)
	}
	for _, want := range []string{"Recorded. All 3 launches passed.\n", "note      before the [2J rewrite\n", "time of n1  lower"} {
		if !strings.Contains(printed, want) {
			t.Errorf("no %q in\n%s", want, printed)
		}
	}
	goods, err := st.Goods()
	if err != nil || len(goods) != 1 || goods[0].Commit != b.Commit || goods[0].Session != b.Session || goods[0].Detail != "a baseline, 3 launches passed" {
		t.Errorf("%+v, %v", goods, err)
	}
	var file bytes.Buffer
	if err := report.WriteJSON(&file, b.Baseline); err != nil {
		t.Fatal(err)
	}
	if back, err := Read(&file); err != nil || back.Commit != b.Commit || len(back.Levels) != len(b.Levels) || back.Note != b.Note {
		t.Errorf("%+v, %v", back, err)
	}
}

// What did not end well, or was not launched as often as asked, is no baseline, and no commit is good because of it.
func TestRecordRefuses(t *testing.T) {
	from := func(k int, o bisect.Outcome, err error) func(int) (bisect.Outcome, error) {
		return func(n int) (bisect.Outcome, error) {
			if n >= k {
				return o, err
			}
			return well(n)
		}
	}
	lost := &bisect.InfraError{What: "launching", Err: errors.New("Xid 79")}
	late, _ := well(2)
	late.At = 3600
	for _, c := range []struct {
		name string
		show func(int) (bisect.Outcome, error)
		ask  policy.Request
		code int
		want string
	}{
		{"fails", from(1, bisect.Outcome{Class: bisect.Crash, Why: "SIGSEGV"}, nil), policy.Request{Launches: 3}, exit.Inconclusive, "Not recorded. Both launches failed: crash: SIGSEGV."},
		{"fails once", from(3, bisect.Outcome{Class: bisect.Wrong, Why: "exit 1"}, nil), policy.Request{Launches: 3}, exit.Inconclusive, "Not recorded. 1 of 3 launches failed: wrong: exit 1."},
		{"does not build", from(1, bisect.Outcome{Class: bisect.BuildFailed, Why: "exit 2"}, nil), policy.Request{Launches: 3}, exit.Inconclusive, "Not recorded. The launch failed: build-failed"},
		{"budget", from(2, late, nil), policy.Request{Launches: 4, Budget: time.Minute}, exit.Inconclusive, "Not recorded. The budget was used up after 2 of 4 launches; none failed."},
		{"times do not count", from(1, bisect.Outcome{Class: bisect.OK, Unfit: "throttled"}, nil), policy.Request{Launches: 2}, exit.Inconclusive, "Not recorded. None of 2 launches gave times that count: throttled."},
		{"machine problem", from(2, bisect.Outcome{}, lost), policy.Request{Launches: 3}, exit.Machine, "Not recorded. Stopped: machine problem; no verdict on the candidate."},
		{"interrupted", from(2, bisect.Outcome{}, context.Canceled), policy.Request{Launches: 3}, exit.Interrupted, "Not recorded. Interrupted; the launches made so far are kept."},
		{"another metric", well, policy.Request{Launches: 2, Metric: "tims"}, exit.UsageError, ""},
		{"one launch", well, policy.Request{Launches: 1}, exit.UsageError, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ask.Launches < 2 { // nothing is stored
				err := Record(t.Context(), session.Env{Request: &c.ask}, nil, "")
				if err == nil || !strings.Contains(err.Error(), "--launches 1: at least two are needed to call it good") {
					t.Error(err)
				}
				return
			}
			all, st, printed, err := recorded(t, c.ask, "", c.show)
			var e *exit.Error
			if !errors.As(err, &e) || e.Code != c.code || !strings.HasPrefix(printed, c.want) {
				t.Errorf("%v: %s\nwant exit %d: %s", err, printed, c.code, c.want)
			}
			if goods, goodErr := st.Goods(); len(all) != 0 || len(goods) != 0 || goodErr != nil {
				t.Errorf("%d baselines, %+v, %v", len(all), goods, goodErr)
			}
		})
	}
}

// The versions of Python's packages are part of a machine only where Python runs.
func TestUsesPython(t *testing.T) {
	for _, c := range []struct {
		plan kernels.Plan
		want bool
	}{
		{kernels.Plan{Run: []string{"./bench"}, Build: []string{"make", "-j4"}}, false},
		{kernels.Plan{Run: []string{"/usr/bin/python3.12", "-m", "bench"}}, true},
		{kernels.Plan{Run: []string{"env", "X=1", "bench.py"}}, true},
		{kernels.Plan{Run: []string{"./b"}, Build: []string{"python", "setup.py"}}, true},
		{kernels.Plan{Kind: "torch", Run: []string{"./b"}}, true},
		{kernels.Plan{Kind: "kernelbot"}, true},
		{kernels.Plan{Run: []string{"./ipython.sh"}}, false},
	} {
		if got := usesPython(&policy.Policy{Plan: c.plan}); got != c.want {
			t.Errorf("%+v: %v", c.plan, got)
		}
	}
}

// Only full ids of git are ids, whatever the text.
func TestObjectID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{0, 39, 40, 41, 63, 64, 65}).Draw(t, "length")
		id := rapid.StringOfN(rapid.RuneFrom([]rune("0123456789abcdef")), n, n, -1).Draw(t, "id")
		if ObjectID(id) != (n == 40 || n == 64) {
			t.Fatalf("%q: %v", id, ObjectID(id))
		}
		if n > 0 {
			at := rapid.IntRange(0, n-1).Draw(t, "at")
			if bad := id[:at] + rapid.SampledFrom([]string{"g", "A", " ", "-", "é"[:1]}).Draw(t, "bad") + id[at+1:]; ObjectID(bad) {
				t.Fatalf("%q is taken for an id", bad)
			}
		}
	})
}

// The summary of a list shows the number that the program sent first, in a unit that people read.
func TestMedianOfAList(t *testing.T) {
	b := aBaseline()
	if got := b.Median(); got != "time of n1 2.000 s" {
		t.Error(got)
	}
	b.Levels[0].Metric = "x\x1b[2J"
	if got := b.Median(); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
	b.Levels = nil
	if got := b.Median(); got != "-" {
		t.Error(got)
	}
	all := []Kept{{Baseline: aBaseline()}}
	all[0].Session = "20260102-aaaa"
	if got, err := Choose(t.Context(), all, nil, "20260102"); err != nil || got.Session != all[0].Session || !slices.Equal(got.Levels[0].Values, all[0].Levels[0].Values) {
		t.Errorf("%+v, %v", got, err)
	}
}
