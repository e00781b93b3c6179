package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/store"
)

// branch is a repository with a branch off main and a device that is made up: a launch of a commit shows what show
// returns for the text of its file "n".
type branch struct {
	*gittest.Repo
	dir     string // for files that the gate writes
	env     session.Env
	options Options
	printed []*report.Gate
	shown   strings.Builder // what the display showed
}

func newBranch(t *testing.T, commits []string, show func(n string, nth int) (bisect.Outcome, error)) *branch {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	b := &branch{Repo: gittest.New(t), dir: t.TempDir()}
	b.Write(t, "run.sh", "#!/bin/sh\n")
	b.Write(t, "n", "base")
	b.Write(t, config.FileName, "version = 1\npaths = [\"run.sh\", \"n\"]\n[run]\ncommand = [\"./run.sh\"]\n")
	b.Commit(t, "the base")
	b.Git(t, "checkout", "-q", "-b", "feature")
	for _, text := range commits {
		b.Write(t, "n", text)
		b.Write(t, "doc", text)
		b.Commit(t, text)
	}
	nth := map[string]int{}
	b.options = Options{CannotTell: "fail", Env: func(string) string { return "" }}
	b.env = session.Env{
		Request: &policy.Request{Name: "gate", Dir: b.Dir}, Display: progress.New(&b.shown, false, false), Version: "test",
		Output: session.Output{
			Stdout: io.Discard,
			Print: func(d report.Document, _ report.Ledger) error {
				b.printed = append(b.printed, d.(*report.Gate))
				return nil
			},
			Write: func(report.Document, report.Ledger) error { return nil },
		},
		Sampler: func(s *session.Session) bisect.Sampler {
			return bisect.SamplerFunc(func(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
				text, _, err := s.Repo.File(r.Candidate.Commit, "n")
				if err != nil {
					return bisect.Outcome{}, err
				}
				nth[string(text)]++
				return show(string(text), nth[string(text)])
			})
		},
	}
	return b
}

// run gates the branch, and returns the document and the exit code.
func (b *branch) run(t *testing.T) (*report.Gate, int) {
	t.Helper()
	before := len(b.printed)
	code := func(err error) int {
		var e *exit.Error
		switch {
		case err == nil:
			return exit.OK
		case errors.As(err, &e):
			return e.Code
		}
		return exit.Internal
	}
	err := Run(t.Context(), b.env, b.options, nil, code)
	if err != nil {
		t.Log(err)
	}
	if len(b.printed) == before {
		return nil, code(err)
	}
	return b.printed[len(b.printed)-1], code(err)
}

// timing is a launch with a time of so many seconds.
func timing(seconds float64, nth int) bisect.Outcome {
	y := seconds * (1 + 0.001*float64(nth*7%5))
	return bisect.Outcome{Class: bisect.OK, Wall: y, Series: []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{y}}}}
}

// slowFrom makes launches of these commits half as slow again.
func slowFrom(slow ...string) func(string, int) (bisect.Outcome, error) {
	return func(n string, nth int) (bisect.Outcome, error) {
		if slices.Contains(slow, n) {
			return timing(1.5, nth), nil
		}
		return timing(1, nth), nil
	}
}

// A gate's result is its exit code, and is stored under the name that other commands read.
func TestGateRun(t *testing.T) {
	crash := bisect.Outcome{Class: bisect.Crash, Why: "SIGSEGV", Wall: 1}
	for _, c := range []struct {
		name    string
		commits []string
		show    func(string, int) (bisect.Outcome, error)
		with    func(*branch)
		result  string
		code    int
		verdict string
	}{
		{name: "pass", commits: []string{"a", "b"}, show: slowFrom(), result: report.GatePass, verdict: "Pass: no change of 3 % or more: time changes by"},
		{name: "regression", commits: []string{"a", "b"}, show: slowFrom("a", "b"), result: report.GateRegression, code: exit.Regression, verdict: "Regression: time +5"},
		{name: "improvement", commits: []string{"a"}, show: slowFrom("base"), result: report.GateImprovement, verdict: "Improvement: time -3"},
		{name: "HEAD crashes", commits: []string{"a"}, show: func(n string, nth int) (bisect.Outcome, error) {
			if n == "a" {
				return crash, nil
			}
			return timing(1, nth), nil
		}, result: report.GateRegression, code: exit.Regression, verdict: "Regression: HEAD fails in "},
		{name: "the base crashes", commits: []string{"a"}, show: func(n string, nth int) (bisect.Outcome, error) {
			if n == "base" {
				return crash, nil
			}
			return timing(1, nth), nil
		}, result: report.GateOpen, code: exit.Inconclusive, verdict: "Cannot tell: the merge base fails, so there is nothing to compare with: crash: SIGSEGV"},
		{name: "noise", commits: []string{"a"}, show: func(_ string, nth int) (bisect.Outcome, error) { return timing(float64(1+nth%3), nth), nil },
			with: func(b *branch) { b.env.Request.Pairs, b.env.Request.PairsSet = 5, true }, result: report.GateOpen, code: exit.Inconclusive, verdict: "Cannot tell: 1 of 1 metrics undecided after 5 pairs"},
		{name: "noise is tolerated", commits: []string{"a"}, show: func(_ string, nth int) (bisect.Outcome, error) { return timing(float64(1+nth%3), nth), nil },
			with: func(b *branch) {
				b.env.Request.Pairs, b.env.Request.PairsSet, b.options.CannotTell = 5, true, "pass"
			}, result: report.GateOpen, verdict: "Cannot tell"},
		{name: "lost device", commits: []string{"a"}, show: func(_ string, nth int) (bisect.Outcome, error) {
			return bisect.Outcome{}, &bisect.InfraError{What: "launching", Err: errors.New("Xid 79")}
		}, result: store.Infra, code: exit.Machine, verdict: "Stopped: machine problem"},
		{name: "interrupted", commits: []string{"a"}, show: func(string, int) (bisect.Outcome, error) { return bisect.Outcome{}, context.Canceled }, result: store.Interrupted, code: exit.Interrupted, verdict: "Interrupted"},
		{name: "no commit", show: slowFrom(), result: report.GatePass, verdict: "Pass: no change: HEAD ("},
		{name: "equal inputs", commits: []string{"a", "base"}, show: slowFrom("a"), result: report.GatePass, verdict: "Pass: equal inputs: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBranch(t, c.commits, c.show)
			if c.with != nil {
				c.with(b)
			}
			g, code := b.run(t)
			if g == nil {
				t.Fatalf("exit %d without a document", code)
			}
			if g.Result != c.result || code != c.code || g.ExitCode != c.code || !strings.HasPrefix(g.Verdict, c.verdict) {
				t.Errorf("%s, exit %d (%d in the document): %s\nwant %s, exit %d: %s", g.Result, code, g.ExitCode, g.Verdict, c.result, c.code, c.verdict)
			}
			if launched := g.NotLaunched == nil; launched != (g.Session != nil) {
				t.Errorf("session %v, not launched %v", g.Session, g.NotLaunched)
			}
		})
	}
}

// The commit that brought a regression is named without a search where only one can be it, and searched for with
// --bisect where several can.
func TestGateNamesTheCommit(t *testing.T) {
	b := newBranch(t, []string{"a"}, slowFrom("a"))
	if g, _ := b.run(t); g.Culprit == nil || !g.Culprit.Only || g.Culprit.Subject != "a" || g.Search != nil || len(g.Culprit.Places) != 1 || g.Culprit.Places[0] != (report.Place{File: "n", Start: 1, End: 1}) {
		t.Errorf("the only commit: %+v, %+v", g.Culprit, g.Search)
	}
	b = newBranch(t, []string{"a", "b", "c", "d"}, slowFrom("c", "d"))
	if g, _ := b.run(t); g.Culprit != nil || g.Search != nil || len(g.Changed) == 0 || g.Changed[0].File != "n" {
		t.Errorf("not asked for: %+v, %+v, changed %+v", g.Culprit, g.Search, g.Changed)
	}
	b.options.Bisect = true
	g, code := b.run(t)
	if g.Culprit == nil || g.Culprit.Subject != "c" || g.Culprit.Only || g.Culprit.Effect == nil || g.Search == nil || g.Search.Result != bisect.Found || code != exit.Regression {
		t.Errorf("searched for: %+v, %+v", g.Culprit, g.Search)
	}
	// A place that a later commit of the branch has moved is shown where HEAD has it.
	if c := g.Culprit; c != nil && (len(c.Places) != 1 || c.Places[0].File != "n") {
		t.Errorf("%+v", c.Places)
	}
}

// An accepted regression passes, with what is declared in the work tree; committed, it passes again without a word.
func TestGateAccepts(t *testing.T) {
	b := newBranch(t, []string{"a"}, slowFrom("a"))
	b.options.Accept, b.options.Accepts = " needed\x1b[2J ", true
	g, code := b.run(t)
	if code != exit.OK || g.Result != report.GatePass || len(g.Accepted) != 1 || !g.Accepted[0].New || !g.Accepted[0].Seen || g.Accepted[0].Limit < 1.5 || g.Accepted[0].Commit != g.Head.Commit {
		t.Fatalf("exit %d: %s %+v", code, g.Verdict, g.Accepted)
	}
	text, err := os.ReadFile(filepath.Join(b.Dir, config.AcceptedName))
	if err != nil || !strings.Contains(string(text), "'needed [2J'") || strings.Contains(string(text), "\x1b") {
		t.Errorf("%v\n%s", err, text)
	}
	b.options.Accept, b.options.Accepts = "", false
	if g, code := b.run(t); code != exit.OK || g.Contrasts[0].Result != report.GateAccepted || len(g.Accepted) != 1 || g.Accepted[0].New {
		t.Errorf("again: exit %d, %s %+v", code, g.Verdict, g.Accepted)
	}
	// Merged, it is spent: the next branch has to accept its own.
	b.Git(t, "add", ".")
	b.Git(t, "commit", "-qm", "accepted")
	b.Git(t, "branch", "-f", "main", "HEAD")
	b.Write(t, "n", "b")
	b.Commit(t, "b")
	b.env.Sampler = newBranch(t, nil, func(n string, nth int) (bisect.Outcome, error) {
		return timing(map[string]float64{"a": 1.5, "b": 2.1}[n], nth), nil
	}).env.Sampler
	if g, code := b.run(t); code != exit.Regression || len(g.Accepted) != 0 {
		t.Errorf("the next branch: exit %d, %s %+v", code, g.Verdict, g.Accepted)
	}
	crashing := newBranch(t, []string{"a"}, func(n string, nth int) (bisect.Outcome, error) {
		if n == "a" {
			return bisect.Outcome{Class: bisect.Crash}, nil
		}
		return timing(1, nth), nil
	})
	crashing.options.Accept, crashing.options.Accepts = "needed", true
	if g, code := crashing.run(t); code != exit.Regression || !slices.Contains(g.Warnings, "nothing was accepted: HEAD fails, so there is no number to accept") {
		t.Errorf("a crash: exit %d, %q", code, g.Warnings)
	}
}

// Every file that was asked for is written, of a gate that could not begin as well; one that cannot be written takes
// nothing from the others, and a regression stays a regression.
func TestGateFiles(t *testing.T) {
	asked := func(b *branch) *Files {
		f := &b.options.Files
		in := func(name string) string { return filepath.Join(b.dir, name) }
		*f = Files{JUnit: in("j.xml"), Markdown: in("m.md"), HTML: in("h.html"), SARIF: in("s.sarif"), GitHub: true, Summary: in("summary"), Outputs: in("outputs")}
		return f
	}
	read := func(file string) string {
		text, _ := os.ReadFile(file) // "" where there is none
		return string(text)
	}
	b := newBranch(t, []string{"a"}, slowFrom("a"))
	f := asked(b)
	if err := os.WriteFile(f.Summary, []byte("earlier\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, code := b.run(t); code != exit.Regression {
		t.Fatalf("exit %d", code)
	}
	for file, want := range map[string]string{f.JUnit: "<testsuite", f.Markdown: "Regression: ", f.HTML: "<html", f.SARIF: `"2.1.0"`, f.Summary: "earlier\n", f.Outputs: "result=regression"} {
		if text := read(file); !strings.Contains(text, want) {
			t.Errorf("%s has no %q:\n%.300s", filepath.Base(file), want, text)
		}
	}
	if shown := b.shown.String(); !strings.Contains(shown, "::error") {
		t.Errorf("no annotation: %s", shown)
	}

	full := newBranch(t, []string{"a"}, slowFrom("a"))
	f = asked(full)
	f.Summary, f.Outputs, f.GitHub = "", "", false
	if err := os.Symlink("/dev/full", f.JUnit); err != nil {
		t.Skip("no /dev/full:", err)
	}
	if _, code := full.run(t); code != exit.Regression || read(f.SARIF) == "" || !strings.Contains(full.shown.String(), "j.xml could not be written") {
		t.Errorf("exit %d, SARIF %q, shown %s", code, read(f.SARIF), full.shown.String())
	}
	passing := newBranch(t, []string{"a"}, slowFrom())
	passing.options.Files.JUnit = "/dev/full"
	if _, code := passing.run(t); code != exit.Machine {
		t.Errorf("a pass whose file could not be written: exit %d", code)
	}

	broken := newBranch(t, []string{"a"}, slowFrom())
	f = asked(broken)
	broken.options.Base = "nosuch"
	if g, code := broken.run(t); g != nil || code != exit.UsageError {
		t.Errorf("exit %d, %+v", code, g)
	}
	if text := read(f.JUnit); !strings.Contains(text, "nosuch") {
		t.Errorf("JUnit of an error: %s", text)
	}
}

// A summary that earlier steps have filled stays as it is, with a warning.
func TestFullStepSummary(t *testing.T) {
	b := newBranch(t, []string{"a"}, slowFrom())
	b.options.Files = Files{GitHub: true, Summary: filepath.Join(b.dir, "summary"), Outputs: filepath.Join(b.dir, "no", "folder")}
	if err := os.WriteFile(b.options.Files.Summary, make([]byte, mostSummary), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, code := b.run(t); code != exit.OK {
		t.Errorf("exit %d", code)
	}
	if info, err := os.Stat(b.options.Files.Summary); err != nil || info.Size() != mostSummary {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	for _, want := range []string{"the step summary is full", "the outputs of the step could not be written"} {
		if !strings.Contains(b.shown.String(), want) {
			t.Errorf("no %q in %s", want, b.shown.String())
		}
	}
}

// --accept is about what the gate before it measured: nothing is launched, and what is recorded lets the next gate pass.
func TestAcceptTakesWhatWasMeasured(t *testing.T) {
	launched := 0
	slow := slowFrom("a")
	b := newBranch(t, []string{"a"}, func(n string, nth int) (bisect.Outcome, error) {
		launched++
		return slow(n, nth)
	})
	first, code := b.run(t)
	if code != exit.Regression || launched == 0 {
		t.Fatalf("exit %d, %d launches", code, launched)
	}
	before := launched
	b.options.Accept, b.options.Accepts = "it is meant", true
	doc, code := b.run(t)
	if code != exit.OK || launched != before || doc.Result != report.GatePass || *doc.Session != *first.Session {
		t.Fatalf("exit %d, %d launches, %+v", code, launched-before, doc)
	}
	if doc.Contrasts[0].Bound != first.Contrasts[0].Bound || len(doc.Accepted) == 0 || doc.Accepted[0].Limit < float64(first.Contrasts[0].Bound.Value) {
		t.Errorf("%+v of %+v", doc.Accepted, first.Contrasts)
	}
	b.options.Accept, b.options.Accepts = "", false
	if doc, code = b.run(t); code != exit.OK || launched == before {
		t.Errorf("the next gate: exit %d, %d launches, %+v", code, launched-before, doc)
	}
}

// What is recorded as accepted lets the same measurement pass, is no more generous than a thousandth, and can be read.
func TestAcceptedLimitAllowsWhatItIsOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		higher := rapid.Bool().Draw(t, "higher")
		value := math.Exp(rapid.Float64Range(-9, 9).Draw(t, "log"))
		k := report.Contrast{Higher: higher, Bound: report.Estimate{Value: report.Number(value), Low: report.Number(value * 0.9), High: report.Number(value * 1.1)}}
		if rapid.Bool().Draw(t, "open") {
			k.Bound.Low, k.Bound.High = 0, report.Number(math.Inf(1))
		}
		limit := acceptedLimit(k)
		a := &acceptances{list: []config.Acceptance{{Metric: "m", Limit: limit}}, seen: make([]bool, 1)}
		if !a.allows(metric.Metric{Name: "m", Higher: higher}, "", value) {
			t.Fatalf("%v, higher %v: %v does not allow it", k.Bound, higher, limit)
		}
		if far := max(math.Abs(limit-value*0.9), math.Abs(limit-value*1.1)); far > 0.2*value+0.0011 {
			t.Fatalf("%v, higher %v: %v", k.Bound, higher, limit)
		}
		text := fmt.Sprintf("[[accepted]]\nmetric = \"m\"\nlimit = %v\nreason = \"r\"\n", limit)
		if _, err := config.ParseAccepted("x", []byte(text)); err != nil {
			t.Fatalf("%v: %v", limit, err)
		}
	})
}
