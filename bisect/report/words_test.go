package report_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
)

// The headline says of each way to fail what the culprit did.
func TestHeadlineOfEachFailure(t *testing.T) {
	effect := func(metric, one string, ratio float64, higher bool) *bisect.Effect {
		return &bisect.Effect{Metric: metric, Case: one, Ratio: ratio, Low: ratio - .01, High: ratio + .01, Higher: higher}
	}
	exact := func(value, parent float64) *bisect.Effect {
		return &bisect.Effect{Metric: "registers", Case: "gemm", Ratio: value / parent, Exact: &bisect.Exact{Value: value, Parent: parent}}
	}
	for _, c := range []struct {
		culprit bisect.Culprit
		want    string
	}{
		{bisect.Culprit{Class: bisect.Timeout, Phase: "load"}, "introduces a timeout in load"},
		{bisect.Culprit{Class: bisect.Timeout}, "introduces a timeout"},
		{bisect.Culprit{Class: bisect.Crash, Phase: "load"}, "makes loading crash"},
		{bisect.Culprit{Class: bisect.Wrong}, "makes the run fail"},
		{bisect.Culprit{Class: bisect.BuildFailed}, "breaks the build"},
		{bisect.Culprit{Class: bisect.Skip}, "introduces skip"},
		{bisect.Culprit{Class: bisect.Slow}, "makes it slower"},
		{bisect.Culprit{Class: bisect.Improved}, "makes it faster"},
		{bisect.Culprit{Class: bisect.Slow, Effect: effect("time", "", 1.049, false)}, "makes `time` 4.9 % slower"},
		{bisect.Culprit{Class: bisect.Slow, Effect: effect("time", "m=512", 2.5, false)}, "makes `time` of m=512 2.5 times slower"},
		{bisect.Culprit{Class: bisect.Improved, Effect: effect("phase.load", "", 0.8, false)}, "makes `phase.load` 20.0 % faster"},
		{bisect.Culprit{Class: bisect.Improved, Effect: effect("wall", "", 0.8, false)}, "makes `wall` 20.0 % faster"},
		{bisect.Culprit{Class: bisect.Slow, Effect: effect("throughput", "", 0.8, true)}, "makes `throughput` 20.0 % lower (worse)"},
		{bisect.Culprit{Class: bisect.Slow, Effect: effect("memory", "", 1.5, false)}, "makes `memory` 50.0 % higher (worse)"},
		{bisect.Culprit{Class: bisect.Slow, Effect: exact(64, 56)}, "raises registers of gemm to 64 from 56 (+14.3 %, lower is better)"},
		{bisect.Culprit{Class: bisect.Improved, Effect: exact(56, 64)}, "lowers registers of gemm to 56 from 64 (-12.5 %, lower is better)"},
		{bisect.Culprit{Class: bisect.Slow, Effect: exact(728, 0)}, "raises registers of gemm to 728 from 0 (lower is better)"},
		{bisect.Culprit{Class: bisect.Improved, Effect: exact(0, 728)}, "lowers registers of gemm to 0 from 728 (lower is better)"},
		{bisect.Culprit{Class: bisect.Crash, Merge: true}, "merge cccccccccc makes the run crash"},
	} {
		c.culprit.Commit = samples.CulpritID
		want := c.want
		if !c.culprit.Merge {
			want = samples.CulpritID[:10] + " " + want
		}
		d := report.NewSearch(report.Input{Finding: bisect.Finding{Result: bisect.Found, Culprits: []bisect.Culprit{c.culprit}}})
		if d.Headline != want {
			t.Errorf("%+v: %s\nwant %s", c.culprit, d.Headline, want)
		}
		if said := report.CulpritWords(d.Culprits[0]); want != said {
			t.Errorf("a culprit among several: %s, want %s", said, want)
		}
	}
}

func TestHeadlineOfEachResult(t *testing.T) {
	suspects := func(n int) []bisect.SuspectCommit { return make([]bisect.SuspectCommit, n) }
	two := []bisect.Culprit{{Commit: samples.CulpritID, Class: bisect.Crash}, {Commit: samples.BadID, Class: bisect.Wrong}}
	for _, c := range []struct {
		finding bisect.Finding
		want    string
	}{
		{bisect.Finding{Result: bisect.Found, Culprits: two}, "2 culprits; the oldest: cccccccccc makes the run crash"},
		{bisect.Finding{Result: bisect.Inconclusive, Suspects: suspects(3)}, "Inconclusive: the culprit is one of 3 commits; no test can tell them apart"},
		{bisect.Finding{Result: bisect.Inconclusive, Suspects: suspects(1)}, "Inconclusive: one suspect is left, not confirmed"},
		{bisect.Finding{Result: bisect.Inconclusive, Suspects: suspects(1), Spent: true}, "Inconclusive: the budget ran out; one suspect is left, not confirmed"},
		{bisect.Finding{Result: bisect.Inconclusive, Suspects: suspects(4), Spent: true}, "Inconclusive: the budget ran out; the culprit is one of 4 commits"},
		{bisect.Finding{Result: bisect.Inconclusive, Spent: true}, "Inconclusive: the budget ran out before the whole range was searched"},
		{bisect.Finding{Result: bisect.Inconclusive, Gradual: true, Complaint: bisect.Complaint{Metric: "time"}}, "Inconclusive: gradual, no single culprit; `time` got worse in steps too small to separate"},
		{bisect.Finding{Result: bisect.Inconclusive, Ends: bisect.Ends{Untestable: true, Why: "the good end does not build"}, Spent: true}, "Inconclusive: the good end does not build"},
		{bisect.Finding{Result: bisect.Inconclusive, Ends: bisect.Ends{Unclear: true, Why: "too noisy"}}, "Inconclusive: too noisy"},
		{bisect.Finding{Result: bisect.NoDifference, Ends: bisect.Ends{Why: "both pass"}}, "No difference between the ends: both pass"},
		{bisect.Finding{Result: bisect.Broken}, "Stopped: machine problem; no commit is blamed"},
		{bisect.Finding{Result: bisect.Interrupted}, "Interrupted; the launches made so far are kept"},
		{bisect.Finding{Result: bisect.Interrupted, Complaint: bisect.Complaint{Class: bisect.Crash}, Suspects: suspects(1)}, "Interrupted; the launches made so far are kept, 1 suspect left"},
	} {
		if got := report.NewSearch(report.Input{Finding: c.finding}).Headline; got != c.want {
			t.Errorf("%+v\n%s\nwant %s", c.finding, got, c.want)
		}
	}
}

// The line in a list of sessions names the subject of a culprit, and of a broken machine what broke.
func TestSummaryOfASearch(t *testing.T) {
	found := samples.Found()
	broken := report.Input{Finding: bisect.Finding{Result: bisect.Broken}, Error: "Xid 79\nin launch 3"}
	for _, c := range []struct {
		in   report.Input
		want string
	}{
		{found, "cccccccccc makes loading exceed its limit of 3 s (before: 2 s): tune: search harder"},
		{broken, "Xid 79"},
		{report.Input{Finding: bisect.Finding{Result: bisect.Broken}}, "Stopped: machine problem; no commit is blamed"},
		{report.Input{Finding: bisect.Finding{Result: bisect.NoDifference, Ends: bisect.Ends{Why: "both pass"}}, Error: "late"}, "No difference between the ends: both pass"},
	} {
		if got := report.NewSearch(c.in).Summary(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	if d := report.NewSearch(found); strings.Contains(report.NewSearch(broken).Headline, "Xid") || d.Summary() == d.Headline {
		t.Error("the summary is the headline")
	}
}

// What the note of a metric rests on, by its result.
func TestGateLine(t *testing.T) {
	one, lacks := "n1", "HEAD does not report it\x1b[2J"
	accepted := []report.Acceptance{{Metric: "time", Case: &one, Limit: 1.25, Reason: "because\x1b[2J"}, {Metric: "memory", Limit: 1.5}}
	contrast := func(result, metric, name string, change func(*report.Contrast)) report.Contrast {
		c := samples.Contrast(result, name, 1.2)
		c.Metric = metric
		if change != nil {
			change(&c)
		}
		return c
	}
	for _, c := range []struct {
		contrast  report.Contrast
		word, why string
	}{
		{contrast(report.GatePass, "time", "n2", nil), "pass", "a change of 3 % is ruled out"},
		{contrast(report.NoDifference, "time", "", nil), "no difference", "a change of 3 % is ruled out"},
		{contrast(report.GateAccepted, "time", "n1", nil), "accepted", "accepted up to +25.0 %: because [2J"},
		{contrast(report.GateRegression, "time", "n1", nil), "regression", "more than the accepted +25.0 %"},
		{contrast(report.GateRegression, "memory", "", nil), "regression", "more than the accepted +50.0 %"},
		{contrast(report.GateRegression, "memory", "n1", nil), "regression", ""}, // accepted of all cases, not of one
		{contrast(report.GateRegression, "time", "", nil), "regression", ""},
		{contrast(report.GateImprovement, "time", "n1", nil), "improvement", ""},
		{contrast(report.GateOpen, "time", "n2", nil), "cannot tell", "8 pairs show a change of 2.1 % four times in five"},
		{contrast(report.GateOpen, "time", "n2", func(c *report.Contrast) { c.Visible = report.Unknown() }), "cannot tell", "too few pairs (8) to show any change"},
		{contrast(report.GateOpen, "time", "n2", func(c *report.Contrast) { c.Why = &lacks }), "cannot tell", "HEAD does not report it [2J"},
	} {
		g := samples.Gate(report.GateOpen, 3, c.contrast)
		g.Accepted = accepted
		if word, why := g.Line(c.contrast); word != c.word || why != c.why {
			t.Errorf("%s of %s: %q, %q; want %q, %q", c.contrast.Result, c.contrast.Name(), word, why, c.word, c.why)
		}
	}
}

func TestGateCulpritSentence(t *testing.T) {
	sure := 0.9999
	for _, c := range []struct {
		culprit report.GateCulprit
		want    string
	}{
		{report.GateCulprit{Only: true}, "cccccccccc is the only commit of the branch that changes the build's or run's inputs"},
		{report.GateCulprit{Class: bisect.Crash, Confirmed: true}, "cccccccccc makes the run crash"},
		{report.GateCulprit{Class: bisect.Slow, Confidence: &sure, Confirmed: true}, "cccccccccc makes it slower, confidence 99.99 %"},
		{report.GateCulprit{Class: bisect.Wrong, Confidence: &sure}, "cccccccccc makes the run fail, confidence 99.99 %, not confirmed"},
	} {
		c.culprit.Commit = samples.CulpritID
		if got := c.culprit.Sentence(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// A gate that could not begin is a document as well, with its error and no control characters in its verdict.
func TestFailedGate(t *testing.T) {
	g := report.FailedGate(errors.New("no merge base\nhint: git fetch"), "no merge base\x1b[2J", 2)
	if g.Verdict != "Stopped: no merge base [2J" || g.ExitCode != 2 || report.Text(g.Error) != "no merge base\nhint: git fetch" || !g.Stopped() || g.Session != nil {
		t.Errorf("%+v", g)
	}
	for result, want := range map[string]bool{report.GateError: true, "infra": true, "interrupted": true, report.GatePass: false, report.GateOpen: false, report.GateRegression: false} {
		if (&report.Gate{Result: result}).Stopped() != want {
			t.Errorf("%s: stopped is %v", result, !want)
		}
	}
}

func TestPlaceAndNames(t *testing.T) {
	one := "n1"
	for want, got := range map[string]string{
		"a.cu:3":                     report.Place{File: "a.cu", Start: 3, End: 3}.String(),
		"a.cu:3-9":                   report.Place{File: "a.cu", Start: 3, End: 9}.String(),
		"time of n1":                 report.Acceptance{Metric: "time", Case: &one}.Name(),
		"time":                       report.MetricSummary{Metric: "time"}.Name(),
		"memory of n1":               report.HistorySeries{Metric: "memory", Case: &one}.Name(),
		"time, all cases":            report.Contrast{Metric: "time", AllCases: true}.Name(),
		"30.00 µs":                   report.Summary{Median: 30e-6, Low: report.Unknown()}.Words("s"),
		"1.000 ms (0.9000 to 12.00)": report.Summary{Median: 1e-3, Low: 0.9e-3, High: 12e-3}.Words("s"),
		"-":                          report.Summary{Median: report.Unknown()}.Words("s"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Two sides of one commit that differ only in their flags lead to a search over flags, two commits to one over history.
func TestFlagsDiffer(t *testing.T) {
	for _, c := range []struct {
		a, b report.Candidate
		want bool
	}{
		{report.Candidate{Commit: "a", Revision: "HEAD"}, report.Candidate{Commit: "a", Revision: "HEAD:fp8=on"}, true},
		{report.Candidate{Commit: "a", Revision: "HEAD"}, report.Candidate{Commit: "a", Revision: "main"}, false},
		{report.Candidate{Commit: "a", Revision: "HEAD:fp8=on"}, report.Candidate{Commit: "a", Revision: "HEAD:fp8=on"}, false},
		{report.Candidate{Commit: "a", Revision: "v1"}, report.Candidate{Commit: "b", Revision: "v2:fp8=on"}, false},
	} {
		if got := (&report.Comparison{A: c.a, B: c.b}).FlagsDiffer(); got != c.want {
			t.Errorf("%+v, %+v: %v", c.a, c.b, got)
		}
	}
}

// A number is itself or null in JSON, and what is no number is an error that leaves nothing half-read.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := report.Number(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.Copysign(0, -1)})).Draw(t, "number"))
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var back report.Number
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if back.Known() != n.Known() || n.Known() && back != n {
			t.Fatalf("%v as %s is read as %v", n, text, back)
		}
	})
	for _, text := range []string{`"1"`, `{}`, `[1]`, `true`} {
		n := report.Number(3)
		if err := json.Unmarshal([]byte(text), &n); err == nil || n.Known() {
			t.Errorf("%s is read as %v, %v", text, n, err)
		}
	}
}

// Every warning of launches is there once, with the commits that it is about; of many only the first is named.
func TestLaunchWarnings(t *testing.T) {
	in := report.Input{Warnings: []string{"shallow"}, Finding: bisect.Finding{Warnings: []string{"noisy", "shallow"}}}
	warn := func(commit string, warnings ...string) {
		in.Launches = append(in.Launches, samples.Launch(commit, bisect.Searching, bisect.Outcome{Warnings: warnings}))
	}
	for _, commit := range []string{"a", "b", "b", "c", "d"} {
		warn(commit, "everywhere")
	}
	warn("e", "alone", "alone")
	warn("a", "two")
	warn("b", "two")
	want := "shallow|noisy|4 commits, such as a: everywhere|commit e: alone|commits a, b: two"
	if got := strings.Join(report.NewSearch(in).Warnings, "|"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// Totals count a candidate once, what was tried within a culprit apart from it, and an answer that another commit's
// launch gave as no trial.
func TestTotalsOfADrill(t *testing.T) {
	a, part := bisect.Candidate{Commit: "a"}, bisect.Candidate{Commit: "a", Assign: "fp8=on"}
	l := report.Ledger{Launches: []report.Launch{
		{Candidate: a, Outcome: bisect.Outcome{Wall: 30, Built: true}}, {Candidate: a, Drill: true, Outcome: bisect.Outcome{Wall: 30, CacheHit: true}},
		{Candidate: part, Drill: true, Outcome: bisect.Outcome{Wall: 60}}, {Candidate: bisect.Candidate{Commit: "b"}, Outcome: bisect.Outcome{Shared: "a"}},
	}}
	got := l.Totals([]report.Spent{{Account: "build", Seconds: 120}, {Account: "run", Seconds: 60}}, 30)
	if got.Candidates != 2 || got.Drilled != 1 || got.Trials != 3 || got.Inferred != 1 || got.Builds != 1 || got.CacheHits != 1 || got.Device != 120 || got.Wall != 180 || *got.Cost != 1 {
		t.Errorf("%+v, cost %v", got, *got.Cost)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct{ in []float64 }{{nil}, {[]float64{3}}, {[]float64{9, 1}}, {[]float64{5, 1, 3}}, {[]float64{4, 1, 3, 2}}} {
		want := map[int]float64{1: 3, 2: 5, 3: 3, 4: 2.5}[len(c.in)]
		first := append([]float64{}, c.in...)
		if got := report.Median(c.in); got.Known() != (len(c.in) > 0) || got.Known() && float64(got) != want {
			t.Errorf("%v: %v, want %v", c.in, got, want)
		}
		for i := range first {
			if first[i] != c.in[i] {
				t.Errorf("%v was put in order to %v", first, c.in)
			}
		}
	}
}

// A step of a history is a level that moved for good measure, not one commit of noise.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		to   report.Number
		want int
	}{{44, 1}, {40.3, 0}} {
		s := report.HistorySeries{}
		for i := range 12 {
			y := report.Number(40)
			if i >= 7 {
				y = c.to
			}
			spread := (c.to - 40) / 8
			s.Commits = append(s.Commits, report.HistoryCommit{Values: report.Summary{Median: y + spread*report.Number(i%2)/5, Low: y - spread, High: y + spread}})
		}
		s.Commits[4].Values.Median = report.Unknown()
		if got := s.Steps(); len(got) != c.want || c.want == 1 && (got[0].At != 7 || math.Abs(got[0].Change-1.1) > 0.005) {
			t.Errorf("%v: %+v", c.to, got)
		}
	}
}
