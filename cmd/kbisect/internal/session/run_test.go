package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/store"
)

// bench is a repository of two commits, and what a session of it printed and wrote.
type bench struct {
	*gittest.Repo
	env     Env
	out     bytes.Buffer
	printed []report.Document
	broken  error // what writing a result ends with
}

// newBench makes a bench of which launch n of a side, A (the first commit) or B, shows what show returns.
func newBench(t *testing.T, show func(side string, n int) (bisect.Outcome, error)) *bench {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	b := &bench{Repo: gittest.New(t)}
	b.Write(t, "run.sh", "#!/bin/sh\n")
	first := b.Commit(t, "the base")
	b.Write(t, "run.sh", "#!/bin/sh\n:\n")
	b.Commit(t, "wider")
	made := map[string]int{}
	b.env = Env{
		Request: &policy.Request{Name: "compare", Dir: b.Dir, Quiet: true, Argv: []string{"./run.sh"}, Launches: 3},
		Display: progress.New(io.Discard, true, false), Version: "test",
		Output: Output{
			Stdout: &b.out,
			Print: func(d report.Document, _ report.Ledger) error {
				b.printed = append(b.printed, d)
				return b.broken
			},
			Write: func(report.Document, report.Ledger) error { return nil },
		},
		Sampler: func(*Session) bisect.Sampler {
			return bisect.SamplerFunc(func(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
				side := "B"
				if r.Candidate.Commit == first {
					side = "A"
				}
				made[side]++
				return show(side, made[side])
			})
		},
	}
	return b
}

// kept is the only session in the store.
func (b *bench) kept(t *testing.T) store.Session {
	t.Helper()
	repo, err := source.Open(b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	st, err := ReadStore(repo)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	all, err := st.Sessions(0)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	return all[0]
}

func codeOf(err error) int {
	var e *exit.Error
	switch {
	case err == nil:
		return exit.OK
	case errors.As(err, &e):
		return e.Code
	}
	return exit.Internal
}

// times is a launch that ends well with a time of so many seconds, of which the last digits scatter.
func times(seconds float64, n int) bisect.Outcome {
	y := seconds * (1 + 0.001*float64(n*7%5))
	return bisect.Outcome{Class: bisect.OK, Wall: y + 1, Phases: []bisect.PhaseTime{{Name: "measure", Seconds: y}}, Series: []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{y, y}}}}
}

func crash(why string) bisect.Outcome {
	return bisect.Outcome{Class: bisect.Crash, Phase: "run", Why: why, Exit: 139, Wall: 1}
}

// What a comparison comes to is printed, stored and the exit code, all three the same.
func TestCompare(t *testing.T) {
	lost := &bisect.InfraError{What: "launching", Err: errors.New("Xid 79")}
	for _, c := range []struct {
		name    string
		show    func(side string, n int) (bisect.Outcome, error)
		pairs   int
		result  string
		code    int
		verdict string
	}{
		{name: "worse", show: func(side string, n int) (bisect.Outcome, error) {
			return times(map[string]float64{"A": 1, "B": 1.5}[side], n), nil
		}, result: report.GateRegression, code: exit.Regression, verdict: "B is worse: time +5"},
		{name: "better", show: func(side string, n int) (bisect.Outcome, error) {
			return times(map[string]float64{"A": 1, "B": 0.5}[side], n), nil
		}, result: report.GateImprovement, verdict: "B is better: time -5"},
		{name: "alike", show: func(_ string, n int) (bisect.Outcome, error) { return times(1, n), nil }, result: report.NoDifference, verdict: "No difference of 3 % or more: time"},
		{name: "too few pairs", pairs: 5, show: func(_ string, n int) (bisect.Outcome, error) {
			return times(float64(1+n%3), n), nil
		}, result: report.GateOpen, code: exit.Inconclusive, verdict: "Cannot tell: 1 of 1 metrics undecided after 5 pairs"},
		{name: "B fails", show: func(side string, n int) (bisect.Outcome, error) {
			if side == "B" {
				return crash("SIGSEGV"), nil
			}
			return times(1, n), nil
		}, result: report.GateRegression, code: exit.Regression, verdict: "B is worse: "},
		{name: "only A fails", show: func(side string, n int) (bisect.Outcome, error) {
			if side == "A" {
				return crash("SIGSEGV"), nil
			}
			return times(1, n), nil
		}, result: report.GateImprovement, verdict: "B is better: A fails in "},
		{name: "B lost a case", show: func(side string, n int) (bisect.Outcome, error) {
			o := times(1, n)
			o.Series = nil
			for i := range 5 {
				if side == "A" || i < 2 {
					o.Series = append(o.Series, bisect.Series{Metric: "time", Case: fmt.Sprint("n", i), Unit: "s", Values: []float64{1 + 0.001*float64(n%3)}})
				}
			}
			return o, nil
		}, pairs: 5, result: report.NoDifference, verdict: "No difference of 3 % or more: every metric changes by -0.20 to +0.20 %. B does not report time of n2, time of n3, time of n4, which A does"},
		{name: "machine problem", show: func(_ string, n int) (bisect.Outcome, error) {
			if n == 2 {
				return bisect.Outcome{}, lost
			}
			return times(1, n), nil
		}, result: store.Infra, code: exit.Machine, verdict: "Stopped: machine problem"},
		{name: "interrupted", show: func(_ string, n int) (bisect.Outcome, error) {
			if n == 2 {
				return bisect.Outcome{}, context.Canceled
			}
			return times(1, n), nil
		}, result: store.Interrupted, code: exit.Interrupted, verdict: "Interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.show)
			b.env.Request.Pairs, b.env.Request.PairsSet = c.pairs, c.pairs > 0
			err := Compare(t.Context(), b.env, []string{"HEAD^", "HEAD"})
			if got := codeOf(err); got != c.code {
				t.Errorf("exit %d (%v), want %d", got, err, c.code)
			}
			if len(b.printed) != 1 {
				t.Fatalf("%d documents printed", len(b.printed))
			}
			doc := b.printed[0].(*report.Comparison)
			if doc.Result != c.result || !strings.HasPrefix(doc.Verdict, c.verdict) {
				t.Errorf("%s: %s\nwant %s: %s", doc.Result, doc.Verdict, c.result, c.verdict)
			}
			kept := b.kept(t)
			back, err := report.Read(kept.Finding, kept.ID)
			if err != nil || kept.Status != c.result || back.(*report.Comparison).Verdict != doc.Verdict {
				t.Errorf("stored as %s: %s, %v", kept.Status, kept.Finding, err)
			}
			if doc.A.Revision != "HEAD^" || doc.A.Subject != "the base" || doc.B.Subject != "wider" || doc.SameCommit {
				t.Errorf("%+v, %+v", doc.A, doc.B)
			}
		})
	}
}

// One commit against itself says that any difference is noise; a change in the work tree is no part of it.
func TestCompareACommitWithItself(t *testing.T) {
	b := newBench(t, func(_ string, n int) (bisect.Outcome, error) { return times(1, n), nil })
	b.Write(t, "run.sh", "#!/bin/sh\nexit 1\n")
	if err := Compare(t.Context(), b.env, []string{"HEAD", "HEAD"}); err != nil {
		t.Fatal(err)
	}
	doc := b.printed[0].(*report.Comparison)
	if !doc.SameCommit || !strings.HasSuffix(doc.Verdict, "A and B are the same commit: any difference is noise of this machine.") {
		t.Error(doc.Verdict)
	}
	if len(doc.Warnings) == 0 || doc.Warnings[0] != "uncommitted changes in 1 file are not part of HEAD" {
		t.Errorf("%q", doc.Warnings)
	}
}

// Requests that cannot be carried out end with what was expected, and nothing is stored.
func TestWrongRequests(t *testing.T) {
	measure := func(e Env, words ...string) error {
		e.Request.Name = "measure"
		return Measure(context.Background(), e, words)
	}
	two := func(e Env, words ...string) error { return Compare(context.Background(), e, words) }
	for _, c := range []struct {
		name string
		run  func(Env, ...string) error
		with func(*policy.Request)
		args string
		want string
	}{
		{"one revision", two, nil, "HEAD", "compare takes two revisions, A and B, not 1\nhint: kbisect compare HEAD^ HEAD [-- COMMAND]"},
		{"three revisions", two, nil, "a b c", "not 3"},
		{"unknown revision", two, nil, "HEAD nowhere", "nowhere"},
		{"few pairs", two, func(q *policy.Request) { q.Pairs, q.PairsSet = 3, true }, "HEAD^ HEAD", "--pairs 3: a comparison needs at least"},
		{"effect", two, func(q *policy.Request) { q.Effect = "fast" }, "HEAD^ HEAD", "--effect"},
		{"error rate", two, func(q *policy.Request) { q.Error, q.ErrorSet = 0.5, true }, "HEAD^ HEAD", "--error 0.5: expected a probability"},
		{"flags without flags", two, nil, "HEAD^ HEAD:fp8=on", "no flags are configured"},
		{"no setting", two, nil, "HEAD^ HEAD:fp8", "invalid setting"},
		{"no repository", two, func(q *policy.Request) { q.Dir = "/" }, "HEAD^ HEAD", "repository"},
		{"two to measure", measure, nil, "HEAD^ HEAD", "measure takes one revision, not [\"HEAD^\" \"HEAD\"]\nhint: kbisect compare A B"},
		{"no launches", measure, func(q *policy.Request) { q.Launches = 0 }, "HEAD", "--launches 0: at least one is needed"},
		{"direction", measure, func(q *policy.Request) { q.Better = "faster" }, "HEAD", "--better faster: expected higher or lower"},
		{"outputs without a build", measure, func(q *policy.Request) { q.Outputs = []string{"out"} }, "HEAD", "--output names what --build makes"},
	} {
		b := newBench(t, func(string, int) (bisect.Outcome, error) { return times(1, 1), nil })
		if c.with != nil {
			c.with(b.env.Request)
		}
		err := c.run(b.env, strings.Fields(c.args)...)
		if codeOf(err) != exit.UsageError || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(b.Dir, ".git", "kbisect")); err == nil {
			t.Errorf("%s: a store was made", c.name)
		}
	}
}

// A measurement describes its launches. It stops early where more would say nothing.
func TestMeasure(t *testing.T) {
	type shown = func(n int) (bisect.Outcome, error)
	well := func(n int) (bisect.Outcome, error) { return times(1, n), nil }
	from := func(k int, o bisect.Outcome) shown {
		return func(n int) (bisect.Outcome, error) {
			if n >= k {
				return o, nil
			}
			return times(1, n), nil
		}
	}
	for _, c := range []struct {
		name     string
		show     shown
		launches int
		metric   string
		result   string
		made     int
		code     int
		verdict  string
	}{
		{"well", well, 4, "", "ok", 4, 0, "All 4 launches passed."},
		{"once", well, 1, "", "ok", 1, 0, "The launch passed."},
		{"never", from(1, crash("SIGSEGV")), 9, "", "crash", 2, exit.Inconclusive, "Both launches failed: crash in run: SIGSEGV."},
		{"sometimes", from(3, crash("SIGSEGV")), 4, "", "crash", 4, exit.Inconclusive, "2 of 4 launches failed: crash in run: SIGSEGV."},
		{"does not build", from(1, bisect.Outcome{Class: bisect.BuildFailed, Why: "exit 2"}), 9, "", "build-failed", 1, exit.Inconclusive, "The launch failed: "},
		{"skips", from(1, bisect.Outcome{Class: bisect.Skip, Why: "no such device"}), 9, "", "skip", 1, exit.Inconclusive, "The launch failed: "},
		{"a metric that is sent", well, 2, "time", "ok", 2, 0, "Both launches passed."},
		{"the time of the process", well, 2, "wall", "ok", 2, 0, "Both launches passed."},
	} {
		b := newBench(t, func(_ string, n int) (bisect.Outcome, error) { return c.show(n) })
		b.env.Request.Name, b.env.Request.Launches, b.env.Request.Metric = "measure", c.launches, c.metric
		err := Measure(t.Context(), b.env, nil)
		if len(b.printed) != 1 {
			t.Errorf("%s: %v, %d documents", c.name, err, len(b.printed))
			continue
		}
		doc := b.printed[0].(*report.Measurement)
		if codeOf(err) != c.code || doc.Result != c.result || doc.Candidate.Launches != c.made || !strings.HasPrefix(doc.Verdict, c.verdict) {
			t.Errorf("%s: exit %d, %s, %d launches: %s", c.name, codeOf(err), doc.Result, doc.Candidate.Launches, doc.Verdict)
		}
		if c.metric != "" && (len(doc.Metrics) != 1 || doc.Metrics[0].Metric != c.metric) {
			t.Errorf("%s: %+v", c.name, doc.Metrics)
		}
		if kept := b.kept(t); kept.Status != c.result || kept.Summary != doc.Verdict || kept.Axis != Measuring || kept.Version != "test" {
			t.Errorf("%s: stored as %+v", c.name, kept)
		}
	}
}

// A metric that no launch reports is an error that lists those that are; its session has failed.
func TestMeasureAnUnknownMetric(t *testing.T) {
	b := newBench(t, func(_ string, n int) (bisect.Outcome, error) { return times(1, n), nil })
	b.env.Request.Name, b.env.Request.Metric = "measure", "tims"
	err := Measure(t.Context(), b.env, []string{"HEAD^"})
	if codeOf(err) != exit.UsageError || !strings.Contains(err.Error(), "tims") || !strings.Contains(err.Error(), "time") || len(b.printed) != 0 {
		t.Errorf("%v, %d documents", err, len(b.printed))
	}
	if kept := b.kept(t); kept.Status != store.Failed || strings.Contains(kept.Summary, "\n") {
		t.Errorf("stored as %s: %q", kept.Status, kept.Summary)
	}
}

// What took hours to measure is stored before it is printed: a full disk loses the output and not the result.
func TestResultIsKeptWhereItCannotBePrinted(t *testing.T) {
	b := newBench(t, func(_ string, n int) (bisect.Outcome, error) { return times(1, n), nil })
	b.env.Request.Name, b.broken = "measure", errors.New("no space left on device")
	err := Measure(t.Context(), b.env, nil)
	kept := b.kept(t)
	if codeOf(err) != exit.Machine || !strings.Contains(err.Error(), "writing the report: no space left on device\nhint: kbisect show --json "+kept.ID) {
		t.Errorf("%v", err)
	}
	if _, err := report.Read(kept.Finding, kept.ID); err != nil || kept.Status != string(bisect.OK) {
		t.Errorf("stored as %s: %v", kept.Status, err)
	}
}

// A budget ends a measurement after the launch that used it up.
func TestMeasureWithinABudget(t *testing.T) {
	b := newBench(t, func(_ string, n int) (bisect.Outcome, error) {
		o := times(1, n)
		o.At = float64(n * 40)
		return o, nil
	})
	b.env.Request.Name, b.env.Request.Launches, b.env.Request.Budget = "measure", 9, time.Minute
	if err := Measure(t.Context(), b.env, nil); err != nil {
		t.Fatal(err)
	}
	if doc := b.printed[0].(*report.Measurement); doc.Verdict != "The budget was used up after 2 of 9 launches; none failed." {
		t.Error(doc.Verdict)
	}
}

// A repository that another run has is waited for as long as the request allows, or is refused at once.
func TestWaitForAnotherRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		wait   time.Duration
		after  time.Duration // until the other run ends, or the user gives up
		cancel bool
		want   string
	}{
		{"not at all", 0, time.Hour, false, "another run works on this repository"},
		{"not long enough", 3 * time.Second, time.Hour, false, "waited 3.0s: "},
		{"long enough", 3 * time.Second, time.Second, false, ""},
		{"without end", -1, time.Hour, false, ""},
		{"given up", -1, 1100 * time.Millisecond, true, context.Canceled.Error()}, // between two looks at the lock
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			st, err := store.Open(dir, store.ReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			other, err := st.Lock("other")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan struct{})
			go func() {
				defer close(done)
				select {
				case <-time.After(c.after):
				case <-ctx.Done():
				}
				if c.cancel {
					cancel()
				}
				other.Unlock()
			}()
			var said bytes.Buffer
			lock, err := Lock(ctx, Env{Request: &policy.Request{Wait: c.wait}, Display: progress.New(&said, false, false)}, st, "mine")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			if waits := strings.Contains(said.String(), "waiting: "); waits != (c.wait != 0) {
				t.Errorf("%s: said %q", c.name, said.String())
			}
			if err == nil {
				lock.Unlock()
			}
			cancel()
			<-done
		})
	}
}
