package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/figures"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
	"github.com/kbisect/kbisect/bisect/sets"
)

func measurement() *report.Measurement {
	memory, one := int64(3<<30), "n1"
	return &report.Measurement{
		Schema: report.MeasurementSchema, Session: "m1", Result: "ok", Verdict: "Each of 6 launches passes.", Candidate: report.CommitInfo{ID: samples.GoodID, Subject: "x"}.Candidate("HEAD"),
		Phases: []report.PhaseTimes{{Phase: "load", Times: report.Summary{N: 5, Median: 2, Min: 1.5, Max: 3}, Cold: report.Summary{N: 1, Median: 90}}},
		Wall:   report.Summary{N: 6, Median: 12, Min: 11, Max: 100}, Memory: &memory, Warnings: []string{}, Totals: report.Totals{Candidates: 1, Trials: 6, Wall: 80},
		Metrics: []report.MetricSummary{{Metric: "time", Case: &one, Unit: "s", Better: "lower", Values: report.Summary{N: 6, Median: 1e-3, Low: report.Unknown(), High: report.Unknown()}, Within: report.Unknown()}},
		Devices: []report.DeviceState{{Name: "H100", Clock: report.Summary{N: 6, Min: 1590, Max: 1980}, Throttled: []string{"thermal", "power"}, Shared: []string{}}},
	}
}

func explanation() *report.Explanation {
	e := &report.Explanation{
		Schema: report.ExplanationSchema, Session: "e1", Result: "explained", A: report.CommitInfo{ID: samples.GoodID}.Candidate("HEAD^"), B: report.CommitInfo{ID: samples.BadID}.Candidate("HEAD"),
		Rows:  []figures.Row{figures.Numbers("resources", "gemm", "registers per thread", "", figures.SortRegisters, 40, 168), figures.Texts("kernels", "gemm", "block", figures.SortConfig, "128 x 1 x 1", "256 x 1 x 1"), figures.Texts("resources", "gemm", "limited by", figures.SortLimit, "warps", "registers")},
		Added: []string{"helper"}, Gone: []string{}, Missing: []string{"no ncu"}, Profilers: []string{}, Devices: []string{}, Warnings: []string{},
		Builds: []report.BuildEnd{{Side: "B", Seconds: 61, Tail: "one\ntwo\nthree\nfour\nfive\nsix\n\n"}, {Side: "A", Failure: &report.Failure{Class: bisect.BuildFailed, Why: "exit 2"}, Seconds: 2}},
	}
	e.Rank(nil)
	return e
}

func history(commits int) *report.History {
	s := report.HistorySeries{Devices: []string{"GPU-1"}, Command: []string{"./bench"}, Build: []string{"make"}, Metric: "time", Unit: "s", Better: "lower"}
	for i := range commits {
		c := report.HistoryCommit{Commit: samples.CommitID(i), Subject: samples.Hostile, Date: "2026-11-21T07:45:12Z", Launches: 3, Values: report.Summary{N: 3, Median: report.Number(1 + i), Low: report.Unknown(), High: report.Unknown()}, Ratio: report.Number(1 + i)}
		s.Commits = append(s.Commits, c)
	}
	return &report.History{Schema: report.HistorySchema, Shown: commits, All: commits, Series: []report.HistorySeries{s}}
}

// What a reader would type next depends on how the search ended.
func TestNextOfASearch(t *testing.T) {
	culprits := []report.Culprit{{Commit: samples.CulpritID}, {Commit: samples.BadID}}
	l := report.Ledger{Launches: []report.Launch{
		samples.Launch(samples.CulpritID, bisect.Searching, bisect.Outcome{Tail: "boom", Log: "/tmp/first run.log"}),
		samples.Launch(samples.CulpritID, bisect.ConfirmCulprit, bisect.Outcome{Tail: "boom", Log: "/tmp/last run.log"}),
		samples.Launch(samples.BadID, bisect.EndBad, bisect.Outcome{Log: "/tmp/empty.log"}),
	}}
	for _, c := range []struct {
		name string
		d    report.Search
		want string
	}{
		{"found", report.Search{Result: bisect.Found, Culprits: culprits[:1]}, "git show cccccccccc; less '/tmp/last run.log'; kbisect show s1"},
		{"found, spent", report.Search{Result: bisect.Found, Culprits: culprits, Spent: true}, "git show cccccccccc; less '/tmp/last run.log'; git show bbbbbbbbbb; kbisect run --resume --budget 10m; kbisect show s1"},
		{"interrupted", report.Search{Result: bisect.Interrupted}, "kbisect run --resume; kbisect show s1"},
		{"machine", report.Search{Result: bisect.Broken}, "kbisect run --resume; kbisect show s1"},
		{"inconclusive", report.Search{Result: bisect.Inconclusive}, "kbisect show s1"},
		{"inconclusive, spent", report.Search{Result: bisect.Inconclusive, Spent: true}, "kbisect run --resume --budget 10m; kbisect show s1"},
		{"no difference", report.Search{Result: bisect.NoDifference, Spent: true}, "kbisect show s1"},
	} {
		c.d.Session = "s1"
		if got := lines(New(&c.d, l)); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func lines(p Page) string {
	var out []string
	for _, x := range p.Next {
		out = append(out, x.Line())
	}
	return strings.Join(out, "; ")
}

// A gate proposes to look for the culprit only where none was looked for, and to accept only a number.
func TestNextOfAGate(t *testing.T) {
	call := report.NewCall(nil, strings.Fields("kbisect gate --base origin/dev --build make -- ./t.sh"))
	session := "g1"
	for _, c := range []struct {
		name string
		gate report.Gate
		want string
	}{
		{"nothing launched", report.Gate{Result: report.GatePass}, ""},
		{"pass", report.Gate{Session: &session, Result: report.GatePass}, "kbisect show g1"},
		{"regression", report.Gate{Session: &session, Result: report.GateRegression}, "kbisect gate --base origin/dev --bisect --build make -- ./t.sh; kbisect gate --base origin/dev --accept REASON --build make -- ./t.sh; kbisect show g1"},
		{"failure", report.Gate{Session: &session, Result: report.GateRegression, Compared: report.Compared{Failure: &report.Failure{Class: bisect.Crash}}}, "kbisect gate --base origin/dev --bisect --build make -- ./t.sh; kbisect show g1"},
		{"culprit known", report.Gate{Session: &session, Result: report.GateRegression, Culprit: &report.GateCulprit{Commit: samples.CulpritID}}, "git show cccccccccc; kbisect gate --base origin/dev --accept REASON --build make -- ./t.sh; kbisect show g1"},
		{"culprit not found", report.Gate{Session: &session, Result: report.GateRegression, Search: &report.GateSearch{Why: "too noisy"}}, "kbisect gate --base origin/dev --accept REASON --build make -- ./t.sh; kbisect show g1"},
		{"budget", report.Gate{Session: &session, Result: report.GateOpen, Compared: report.Compared{BudgetOver: true}}, "kbisect gate --base origin/dev --budget 30m --build make -- ./t.sh; kbisect show g1"},
		{"open", report.Gate{Session: &session, Result: report.GateOpen}, "kbisect show g1"},
	} {
		if got := lines(New(&c.gate, report.Ledger{Call: call})); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// After a comparison the search that goes on from it is proposed: over flags within one commit, else over history.
func TestNextOfAComparison(t *testing.T) {
	side := func(commit, revision string) report.Candidate {
		return report.Candidate{Commit: commit, Revision: revision}
	}
	for _, c := range []struct {
		result string
		a, b   report.Candidate
		want   string
	}{
		{report.GateRegression, side("a1", "v1"), side("b2", "v2"), "kbisect show c1; kbisect run --good v1 --bad v2"},
		{report.GateRegression, side("a1", "HEAD"), side("a1", "HEAD:fp8=on"), "kbisect show c1; kbisect run --axis flags --bad a1"},
		{report.GateRegression, side("a1", "HEAD"), side("a1", "HEAD"), "kbisect show c1"},
		{report.GateImprovement, side("a1", "v1"), side("b2", "v2"), "kbisect show c1"},
	} {
		if got := lines(New(&report.Comparison{Session: "c1", Result: c.result, A: c.a, B: c.b}, report.Ledger{})); got != c.want {
			t.Errorf("%s of %+v, %+v: %s\nwant %s", c.result, c.a, c.b, got, c.want)
		}
	}
}

func TestGateRows(t *testing.T) {
	g := samples.Gates()["blamed"]
	culprit := *g.Culprit
	g.Culprit = &culprit
	for i := range 9 {
		culprit.Places = append(culprit.Places, report.Place{File: fmt.Sprint("f", i), Start: 1, End: 1})
	}
	culprit.Effect = &bisect.Effect{Metric: "rate", Ratio: 0.8, Low: 0.79, High: 0.81, Higher: true}
	p := New(g, report.Ledger{})
	if got, want := rowText(p.Cards[0].Rows, "effect"), "rate -20.0 % (95 % CI -21.0 to -19.0 %), higher is better, against its parent"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if places := rowText(p.Cards[0].Rows, "lines"); strings.Count(places, ", ") != 4 || !strings.HasSuffix(places, " and 6 more") {
		t.Error(places)
	}
	g.Culprit, g.Search = nil, &report.GateSearch{Why: "no test can tell them apart", Suspects: []report.Candidate{{Commit: samples.CulpritID, Subject: "one"}, {Commit: samples.BadID, Subject: "two"}}}
	p = New(g, report.Ledger{})
	if rows := section(t, p, "suspects").Tables[0].Rows; rowText(p.Cards[0].Rows, "culprit") != "not found: no test can tell them apart" || len(rows) != 2 || rows[1][1] != "two" {
		t.Errorf("%+v %q", p.Cards, rows)
	}
	g.Accepted = []report.Acceptance{{New: true}, {New: true}, {Metric: "time", Limit: 1.5, Reason: "old"}}
	if list := section(t, New(g, report.Ledger{}), "metrics").List; len(list) != 1 || !strings.HasPrefix(list[0], "Recorded in kbisect-accepted.toml: 2.") {
		t.Errorf("of a gate that fails, what was not needed may be what it lacks: %q", list)
	}
}

// Only the columns and rows with something to say are there.
func TestMeasurementPage(t *testing.T) {
	m := measurement()
	p := New(m, report.Ledger{})
	if p.State != Good || rowText(p.Cards[0].Rows, "memory") != "3072 MiB at most" || slices.ContainsFunc(p.Sections, func(s Section) bool { return s.ID == "counted" }) {
		t.Errorf("%s %+v", p.State, p.Cards)
	}
	if rows := section(t, p, "times").Tables[0].Rows; len(rows) != 2 || len(rows[0]) != 4 || rows[0][3] != "90.00 s" || rows[1][3] != "" {
		t.Errorf("%q", rows)
	}
	if rows := section(t, p, "state").Tables[0].Rows; !slices.Equal(rows[0], []string{"1590 to 1980", "0 to 0", "0 to 0", "thermal; power", "no", "H100"}) {
		t.Errorf("%q", rows)
	}
	for result, want := range map[string]State{"ok": Good, "timeout": Bad, "crash": Bad, "infra": Unsure, "interrupted": Unsure} {
		m.Result = result
		if got := New(m, report.Ledger{}).State; got != want {
			t.Errorf("%s: %q, want %q", result, got, want)
		}
	}
}

func TestExplanationPage(t *testing.T) {
	p := New(explanation(), report.Ledger{})
	facts := section(t, p, "builds").Facts
	if len(facts) != 2 || facts[0].Name != "build of B" || len(facts[0].Lines) != 5 || facts[0].Lines[0].Text != "two" || facts[1].Text != "exit 2, after 2.00 s" {
		t.Errorf("%+v", facts)
	}
	list := section(t, p, "explain").List
	if p.Headline != "Largest change: registers per thread of gemm 40 to 168 (4.2 times)" || rowText(p.Cards[0].Rows, "limited by") != "registers (A: warps)" || slices.Contains(list, p.Headline) || !slices.Contains(list, "not measured: no ncu") {
		t.Errorf("%q, %q", p.Headline, list)
	}
}

// A history shows its first series and names how to see the others.
func TestHistoryPage(t *testing.T) {
	h := history(3)
	base, caches := samples.CommitID(0), "cold"
	h.All, h.Series[0].Base, h.Series[0].Caches = 9, &base, &caches
	h.Series[0].Commits[1].Values = report.Summary{Median: report.Unknown()}
	h.Series[0].Commits[1].Failures = []report.Failures{{Class: bisect.Timeout, Phase: &caches, Launches: 2}, {Class: bisect.BuildFailed, Phase: &caches, Launches: 1}}
	h.Series[0].Commits[2].Values.N, h.Series[0].Commits[2].Values.Median = 0, report.Unknown()
	p := New(h, report.Ledger{})
	s := section(t, p, "series-1")
	if want := "time, lower is better; on GPU-1; ./bench; cold caches"; s.Title != want || s.Words != "A diamond: no launch of that commit passed. Changes are against 0000000000." {
		t.Errorf("%s: %s", s.Title, s.Words)
	}
	if rows := s.Tables[0].Rows; rows[0][1] != "2026-11-21" || rows[1][3] != "2 timeout in cold, 1 build-failed" || rows[2][3] != "no value" || s.Tables[0].States[1] != Bad || s.Tables[0].States[2] != "" {
		t.Errorf("%q %q", rows, s.Tables[0].States)
	}
	if got := rowText(p.Cards[0].Rows, "shown"); got != "3 of 9 measured commits; --limit shows more" {
		t.Error(got)
	}
	for range mostSeries + 1 {
		h.Series = append(h.Series, h.Series[0])
	}
	if more := section(t, New(h, report.Ledger{}), "more"); more.Missing != "2 series more: kbisect history --metric NAME shows one" {
		t.Error(more.Missing)
	}
}

// A long diff keeps every line that is to blame and its own order, and counts what it leaves out.
func TestBoundedDiff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3*mostDiff).Draw(t, "lines")
		all := make([]DiffLine, n)
		for i := range all {
			all[i] = DiffLine{Kind: "add", New: i + 1}
		}
		guilty := rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 40).Draw(t, "guilty")
		for _, i := range guilty {
			all[i].Role = sets.Culprit
		}
		d := boundedDiff(all)
		if len(d.Lines) != min(n, mostDiff) || d.Cut != n-len(d.Lines) {
			t.Fatalf("%d of %d lines, %d cut", len(d.Lines), n, d.Cut)
		}
		if !slices.IsSortedFunc(d.Lines, func(a, b DiffLine) int { return a.New - b.New }) {
			t.Fatal("out of order")
		}
		for _, i := range guilty {
			if !slices.Contains(d.Lines, all[i]) {
				t.Fatalf("without line %d of %d", i, n)
			}
		}
	})
}

// A hunk covers its own lines of its own file: the new ones, or, where it is of the old version, the old ones.
func TestCoveredLines(t *testing.T) {
	const diff = "diff --git a/old name.cu b/gemm.cu\nrename from old name.cu\n--- \"a/old name.cu\"\t\n+++ b/gemm.cu\n@@ -3,3 +3,3 @@\n same\n-gone\n+new\n+-- not a header\n@@ -20,2 +20,1 @@\n kept\n-removed\n\\ No newline at end of file\ndiff --git a/x.bin b/x.bin\n--- a/x.bin\n+++ b/x.bin\n@@ -1 +1 @@\n-1\n+2"
	for name, c := range map[string]struct {
		hunk report.Hunk
		want []string
	}{
		"new lines, with what they replace": {report.Hunk{File: "gemm.cu", Start: 4, End: 5}, []string{"-gone", "+new", "+-- not a header"}},
		"one of them":                       {report.Hunk{File: "gemm.cu", Start: 5, End: 5}, []string{"+-- not a header"}},
		"lines of the old version":          {report.Hunk{File: "old name.cu", Start: 21, End: 21, Old: true}, []string{"-removed"}},
		"by the new name":                   {report.Hunk{File: "gemm.cu", Start: 21, End: 21, Old: true}, []string{"-removed"}},
		"a whole file":                      {report.Hunk{File: "x.bin"}, []string{"-1", "+2"}},
		"another file":                      {report.Hunk{File: "y.cu", Start: 1, End: 99}, nil},
	} {
		c.hunk.Role = sets.Culprit
		var got []string
		for _, l := range parseDiff(diff, []report.Hunk{c.hunk}) {
			if l.Role != "" {
				got = append(got, l.Text)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	kinds := ""
	for _, l := range parseDiff(diff, nil) {
		kinds += l.Kind[:1]
	}
	if want := "fnnnhsdaahsdnfnnhda"; kinds != want {
		t.Errorf("kinds %s, want %s", kinds, want)
	}
}

// The remarks of a launch say what it suffered from, and what its build cost is not counted twice.
func TestLaunchRow(t *testing.T) {
	v := view{purpose: map[bisect.Purpose]string{bisect.EndGood: "A"}}
	o := bisect.Outcome{
		Class: bisect.Crash, Phase: "load", Why: "signal 11", Wall: 2, At: 70, Built: true, Build: 3, CacheHit: true, Caches: "cold", Unfit: "throttled",
		Marks: []bisect.Mark{{Kind: bisect.Shared, Text: "pid 7"}}, Repeated: []string{"Xid 79"},
	}
	got := v.row(3, report.Launch{Candidate: bisect.Candidate{Commit: samples.GoodID, Assign: "fp8=on"}, Purpose: bisect.EndGood, Outcome: o})
	want := []string{"3", "aaaaaaaaaa:fp8=on", "A", "crash in load: signal 11", "cached", "2.00 s", "1m10s", "cold caches; not compared: throttled; shared: pid 7; repeated: Xid 79"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	o.CacheHit = false
	if got := v.row(1, report.Launch{Purpose: bisect.Searching, Outcome: o}); got[2] != "search" || got[4] != "3.00 s" {
		t.Errorf("%q", got)
	}
}

// The table of launches ends with how many more there are, and quotes few outputs.
func TestManyLaunches(t *testing.T) {
	v := view{session: "s1"}
	for range mostLaunches + 7 {
		v.launches = append(v.launches, samples.Launch(samples.CulpritID, bisect.Searching, bisect.Outcome{Class: bisect.Crash, Tail: "boom\x1b[2J"}))
	}
	s := v.table(map[string]bool{samples.CulpritID: true})
	if x := s.Tables[0]; len(x.Rows) != mostLaunches || len(x.Notes) != 1 || x.Notes[0] != "7 more: kbisect show s1" {
		t.Errorf("%d rows, %q", len(x.Rows), x.Notes)
	}
	if len(s.Output) != mostOutputs || s.Output[0].Text != "boom [2J" {
		t.Errorf("%d outputs, %q", len(s.Output), s.Output[0])
	}
	if quiet := v.table(nil); len(quiet.Output) != 0 {
		t.Errorf("outputs of a commit that is no culprit: %q", quiet.Output)
	}
}

// A device whose readings cannot be read is left out, and one that was held down is counted.
func TestDeviceReadings(t *testing.T) {
	note := func(before, after string) bisect.DeviceNote {
		return bisect.DeviceNote{UUID: "GPU-1", Before: json.RawMessage(before), After: json.RawMessage(after), Throttled: "thermal", Shared: "pid 7"}
	}
	v := sides("s1", report.Ledger{}, [2]string{}, nil)
	for _, n := range []bisect.DeviceNote{note("", ""), note("{", "{}"), note(`{"sm_clock":"fast"}`, "{}"), note(`{"sm_clock":1980,"power_w":99.5}`, `{"sm_clock":1500}`)} {
		v.launches = append(v.launches, report.Launch{Outcome: bisect.Outcome{At: 5, Wall: 2, Devices: []bisect.DeviceNote{n}}})
	}
	s := v.timeline([]string{"H100 GPU-1 (driver 570)"})
	if want := "Throttled in 1 launch, shared with other processes in 1 launch."; !strings.HasSuffix(s.Words, want) {
		t.Errorf("%s, want %s", s.Words, want)
	}
	rows := s.Tables[0].Rows
	if s.Tables[0].Title != "H100 GPU-1 (driver 570)" || len(rows) != 2 || !slices.Equal(rows[0], []string{"4", "before", "5.00 s", "1980", "0", "0", "99.5", "", ""}) || rows[1][2] != "7.00 s" || rows[1][7] != "thermal" || s.Tables[0].States[1] != Other {
		t.Errorf("%q", rows)
	}
}

func TestGuiltySet(t *testing.T) {
	phase := "warmup"
	set := report.MinimalSet{Assignment: report.Assignment{Assign: map[string]string{"graph": "on"}}, Class: bisect.Timeout, Phase: &phase, Certified: true, Culprits: []string{"graph=on", "fp8: off->on"}, Carriers: []string{"jit=on"}, Others: []report.ValueAnswer{{Name: "graph=auto", Answer: sets.Pass}}}
	facts := guiltySet(set, nil)
	for name, want := range map[string]string{"confidence": "fails repeatedly; passes without graph=on, or with fp8=off", "required": "jit=on (not decided: without it the run fails in another way)", "instead": "graph=auto: pass"} {
		if got := rowText(facts, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	tests := []report.SetTest{{Assignment: set.Assignment, Answer: sets.Fail}, {Assignment: set.Assignment, Answer: sets.Pass}, {Assignment: set.Assignment, Answer: sets.Fail, Inferred: true}}
	for class, want := range map[bisect.Class]string{bisect.Timeout: "fails in 1 of 2 launches; ", bisect.Slow: "fails in 1 of 2 tests; "} {
		if set.Class = class; !strings.HasPrefix(rowText(guiltySet(set, tests), "confidence"), want) {
			t.Errorf("%s: %+v, want %s", class, guiltySet(set, tests), want)
		}
	}
	set.Culprits = nil
	if got := rowText(guiltySet(set, nil), "confidence"); !strings.Contains(got, "the parts cannot be separated") {
		t.Error(got)
	}
	set.Certified = false
	if got := guiltySet(set, nil); len(got) != 1 || rowText(got, "confidence") != "not verified" {
		t.Errorf("%+v", got)
	}
}

// The sets that one can keep: the recommended one once, unless it is the most as well.
func TestKeptSets(t *testing.T) {
	ratio, low, high := 0.8, 0.79, 0.81
	timed := report.SafeSet{Assignment: report.Assignment{Assign: map[string]string{"a": "1", "b": "1"}}, Metric: map[string]float64{"time": 3}, Ratio: &ratio, Low: &low, High: &high, Confirmed: true}
	most := report.SafeSet{Assignment: report.Assignment{Assign: map[string]string{"a": "1", "c": "1"}}, Maximum: true}
	other := report.SafeSet{Assignment: report.Assignment{Assign: map[string]string{"c": "1"}}, Maximal: true}
	small := report.SafeSet{Assignment: report.Assignment{Assign: map[string]string{"d": "1"}}}
	table := keep(&report.Search{Recommended: &timed, SafeSets: []report.SafeSet{timed, most, other, small}}).Tables[0]
	want := [][]string{{"recommended", "time -20.0 % (-21.0 to -19.0 %)", "yes", "a=1 b=1"}, {"the most", "", "no", "a=1 c=1"}, {"or", "", "no", "c=1"}}
	if fmt.Sprint(table.Rows) != fmt.Sprint(want) || len(table.Notes) != 1 {
		t.Errorf("%q\nwant %q; notes %q", table.Rows, want, table.Notes)
	}
	if x := keep(&report.Search{SafeSets: []report.SafeSet{small}}).Tables[0]; len(x.Rows) != 0 || len(x.Notes) != 0 {
		t.Errorf("%q %q", x.Rows, x.Notes)
	}
}

// rowText is the text of the first row with a name.
func rowText(all []Row, name string) string {
	for _, r := range all {
		if r.Name == name {
			return r.Text
		}
	}
	return ""
}
