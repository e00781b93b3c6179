package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

var good, bad, culpritID = strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)

func launch(commit string, why bisect.Purpose, o bisect.Outcome) Launch {
	return Launch{Candidate: bisect.Candidate{Commit: commit}, Purpose: why, Outcome: o}
}

func found() Input {
	o := bisect.Outcome{Class: bisect.OK, Wall: 2, Built: true, Build: 3, Phases: []bisect.PhaseTime{{Name: "build", Seconds: 3}, {Name: "load", Seconds: 2}}}
	hang := bisect.Outcome{Class: bisect.Timeout, Phase: "load", Why: "load reached its limit of 3s", Wall: 3, CacheHit: true, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 3}}, Warnings: []string{"odd"}}
	return Input{
		Session: "s1", GPUHour: 3600, Wall: 90 * time.Second, Devices: []string{"NVIDIA H200"},
		Good: CommitInfo{ID: good, Subject: "old"}, Bad: CommitInfo{ID: bad, Subject: "new"},
		Commits: map[string]CommitInfo{culpritID: {ID: culpritID, Subject: "tune: search harder", Author: "Mira", Email: "m@x", When: time.Unix(0, 0).UTC(), Files: []File{{"modified", "src/tune.c"}}}},
		Finding: bisect.Finding{
			Result: bisect.Found, Complaint: bisect.Complaint{Class: bisect.Timeout, Phase: "load"}, Range: 40, Matter: 30, Inferred: 1,
			Culprits: []bisect.Culprit{{Commit: culpritID, Parents: []string{good}, Class: bisect.Timeout, Phase: "load", Confidence: 0.997, Confirmed: true}},
			Steps:    []bisect.Step{{Commit: good, Role: "good end", Verdict: bisect.Verdict{Call: bisect.Good, Why: "ok"}}, {Commit: culpritID, Role: "search", Verdict: bisect.Verdict{Call: bisect.Bad, Why: "timeout"}, Remaining: 1}},
		},
		Launches: []Launch{launch(good, bisect.EndGood, o), launch(culpritID, bisect.Searching, hang)},
	}
}

// Phases that only some launches have stand where they happen.
func TestMergePhases(t *testing.T) {
	var order []string
	for _, launch := range []string{"load measure teardown", "build load import compile", "load import compile warmup capture measure teardown", "first load"} {
		var ps []bisect.PhaseTime
		for _, name := range strings.Fields(launch) {
			ps = append(ps, bisect.PhaseTime{Name: name})
		}
		order = MergePhases(order, ps)
	}
	if got := strings.Join(order, " "); got != "build first load import compile warmup capture measure teardown" {
		t.Error(got)
	}
}

// The headline is of the launch that had the whole of its limits, and of the commit as it is.
func TestHeadlineIsOfTheWholeLimit(t *testing.T) {
	in := found()
	early := in.Launches[1].Outcome
	early.Early, early.Why = true, "stopped after 1s"
	part := launch(culpritID, bisect.Searching, early)
	part.Candidate.Assign = "hunks=1"
	part.Outcome.Early, part.Outcome.Why = false, "a part of it"
	in.Launches = append([]Launch{launch(culpritID, bisect.Searching, early)}, append(in.Launches, launch(culpritID, bisect.Searching, early), part)...)
	var b bytes.Buffer
	if err := Text(&b, in); err != nil || !strings.Contains(b.String(), "timeout in load (load reached its limit of 3s)\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Keys that do not apply are empty lists or null, never missing.
func TestJSONHasEveryKeyOfTheContract(t *testing.T) {
	for _, result := range []bisect.Result{bisect.Found, bisect.Inconclusive, bisect.NoDifference, bisect.Broken, bisect.Interrupted} {
		in := found()
		in.Finding.Result = result
		if result != bisect.Found {
			in.Finding.Culprits, in.Finding.Complaint, in.Launches = nil, bisect.Complaint{}, nil
		}
		var b bytes.Buffer
		if err := JSON(&b, in); err != nil {
			t.Fatal(err)
		}
		var d map[string]any
		if err := json.Unmarshal(b.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"culprits", "suspects", "levels", "minimal_sets", "safe_sets", "effects", "hypotheses", "warnings"} {
			if _, ok := d[key].([]any); !ok {
				t.Errorf("%s: %s is %v, not a list", result, key, d[key])
			}
		}
		for _, key := range []string{"schema", "session", "axis", "result", "complaint", "recommended", "complete", "ends", "totals"} {
			if _, ok := d[key]; !ok {
				t.Errorf("%s: no key %s", result, key)
			}
		}
		totals := d["totals"].(map[string]any)
		for _, key := range []string{"candidates", "trials", "inferred", "builds", "cache_hits", "wall_s", "device_s", "cost"} {
			if _, ok := totals[key]; !ok {
				t.Errorf("%s: no key totals.%s", result, key)
			}
		}
		if d["schema"] != Schema || d["result"] != string(result) {
			t.Errorf("%v %v", d["schema"], d["result"])
		}
	}
}

func TestTotals(t *testing.T) {
	got := found().Totals()
	if got.Candidates != 2 || got.Trials != 2 || got.Builds != 1 || got.CacheHits != 1 || got.Inferred != 1 || got.Device != 5 || *got.Cost != 5 {
		t.Errorf("%+v cost %v", got, *got.Cost)
	}
	in := found()
	in.GPUHour = 0
	if in.Totals().Cost != nil {
		t.Error("a cost without a price")
	}
}

func TestEconomics(t *testing.T) {
	want := []Spent{{"build", 3, 1, 0, 3}, {"load", 5, 2, 1, 3}}
	got := found().Economics()
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
}

func TestTextSaysWhoWhatAndHowSure(t *testing.T) {
	var b bytes.Buffer
	if err := Text(&b, found()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"cccccccccc is the first bad commit: timeout in load (load reached its limit of 3s)",
		"author   Mira <m@x>", "subject  tune: search harder", "modified  src/tune.c",
		"99.7 %, confirmed", "40 commits in the range, 30 that can matter", "5.0000 at 3600.00 an hour",
		"NVIDIA H200", "commit cccccccccc: odd", "git show cccccccccc",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// A complaint that shows only in some launches says in how many.
func TestTextSaysHowOften(t *testing.T) {
	in := found()
	in.Finding.Culprits[0].Rate = &bisect.Rate{Failed: 13, Launches: 19}
	var b, doc bytes.Buffer
	if err := errors.Join(Text(&b, in), JSON(&doc, in)); err != nil || !strings.Contains(b.String(), "fails in about 68 % of its launches (13 of 19") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if !strings.Contains(doc.String(), `"failed": 13`) {
		t.Error(doc.String())
	}
}

func TestTextOfEveryResult(t *testing.T) {
	in := found()
	in.Finding.Culprits = nil
	in.Finding.Suspects = []bisect.SuspectCommit{{Commit: culpritID, Probability: 0.5, Why: "does not build"}, {Commit: bad, Probability: 0.5}}
	in.Error = "device lost\nhint: reset it"
	for result, want := range map[bisect.Result]string{
		bisect.Inconclusive: "the culprit is one of 2 commits",
		bisect.NoDifference: "Nothing to search for",
		bisect.Broken:       "no commit is accused.\n  device lost\n  hint: reset it",
		bisect.Interrupted:  "kbisect run --resume",
	} {
		in.Finding.Result = result
		var b bytes.Buffer
		if err := Text(&b, in); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v\n%s", result, err, b.String())
		}
	}
}

func TestColdWarm(t *testing.T) {
	phases := func(load float64) []bisect.PhaseTime { return []bisect.PhaseTime{{Name: "load", Seconds: load}} }
	launch := func(commit, caches string, load float64) Launch {
		return Launch{Candidate: bisect.Candidate{Commit: commit}, Outcome: bisect.Outcome{Class: bisect.OK, Caches: caches, Phases: phases(load)}}
	}
	in := Input{Good: CommitInfo{ID: "g"}, Bad: CommitInfo{ID: "b"}}
	in.Launches = []Launch{launch("g", "cold", 9), launch("b", "cold", 8), launch("x", "warm", 5)}
	if rows := in.ColdWarm(); rows != nil {
		t.Errorf("nothing ran on warm caches: %+v", rows)
	}
	in.Launches = append(in.Launches, launch("g", "warm", 1), launch("g", "warm", 3), launch("g", "", 7))
	if rows := in.ColdWarm(); len(rows) != 1 || rows[0] != (Starts{"load", 9, 2, 8, -1}) {
		t.Errorf("%+v", rows)
	}
}

// Every culprit is a section with its share; a gradual change has none, and its levels are a table.
func TestSeveralCulpritsAndNone(t *testing.T) {
	in := found()
	share := 0.62
	second := in.Finding.Culprits[0]
	second.Commit, second.Class, second.Phase, second.Share = bad, bisect.Slow, "", &share
	second.Effect = &bisect.Effect{Metric: "time", Ratio: 1.05, Low: 1.04, High: 1.06}
	in.Finding.Culprits = append(in.Finding.Culprits, second)
	in.Finding.Levels = []bisect.Level{{Commit: good, Effect: bisect.Effect{Metric: "time", Ratio: 1, Low: 1, High: 1}}, {Commit: bad, Effect: *second.Effect}}
	in.Finding.Spent = true
	var text, doc bytes.Buffer
	if err := errors.Join(Text(&text, in), JSON(&doc, in)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 culprits, oldest first", "Culprit 1 of 2: cccccccccc is a first bad commit: timeout in load", "Culprit 2 of 2: bbbbbbbbbb is a first bad commit: slow in time",
		"share    62 % of the difference", "time against the good end", "bbbbbbbbbb  1.050  (1.040 to 1.060)  new", "git show bbbbbbbbbb", "--resume",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	var d Document
	if err := json.Unmarshal(doc.Bytes(), &d); err != nil || len(d.Culprits) != 2 || d.Culprits[0].Share != nil || *d.Culprits[1].Share != share || len(d.Levels) != 2 || d.Levels[1].Ratio != 1.05 || d.Complete {
		t.Errorf("%v %+v", err, d)
	}
	in.Finding.Culprits, in.Finding.Result, in.Finding.Gradual, in.Finding.Spent = nil, bisect.Inconclusive, true, false
	text.Reset()
	if err := Text(&text, in); err != nil || !strings.Contains(text.String(), "gradual: no single culprit") || !strings.Contains(text.String(), "time against the good end") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// A case that is slow is named wherever the culprit is, with what the metric did over all cases.
func TestReportNamesTheCase(t *testing.T) {
	in := found()
	c := &in.Finding.Culprits[0]
	c.Class, c.Phase = bisect.Slow, ""
	c.Effect = &bisect.Effect{Metric: "time", Case: "128", Ratio: 1.12, Low: 1.11, High: 1.13}
	c.Besides = []bisect.Effect{{Metric: "time", Ratio: 1.014, Low: 1.01, High: 1.018}}
	in.Finding.Complaint = bisect.Complaint{Class: bisect.Slow, Metric: "time of 128"}
	var text, doc, page bytes.Buffer
	if err := errors.Join(Text(&text, in), JSON(&doc, in)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"is the first bad commit: slow in time of 128\n", "effect   time of 128 1.120 times its parent's (95 % interval 1.110 to 1.130)\n",
		"besides  time 1.014 times its parent's (95 % interval 1.010 to 1.018) over all cases\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	var d Document
	if err := json.Unmarshal(doc.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	own := d.Culprits[0]
	if own.Effect.Metric != "time" || *own.Effect.Case != "128" || len(own.Besides) != 1 || own.Besides[0].Case != nil || own.Besides[0].Ratio != 1.014 {
		t.Errorf("%+v", own)
	}
	if err := Markdown(&page, pageOf(t, in), 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"**Effect:** time of 128 1.120 times", "**Besides:** time 1.014 times", "slow in time of 128"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
}

// A number without noise goes up or down; nothing is slow of registers. What launches warn of stands once.
func TestReportExactWords(t *testing.T) {
	for _, c := range []struct {
		class bisect.Class
		exact bisect.Exact
		want  string
	}{
		{bisect.Slow, bisect.Exact{Value: 40}, "is the first bad commit: spills of k went up\n"},
		{bisect.Improved, bisect.Exact{Parent: 40}, "is the first better commit: spills of k went down\n"},
	} {
		in := found()
		in.Finding.Complaint = bisect.Complaint{Class: c.class, Metric: "spills of k"}
		x := &in.Finding.Culprits[0]
		x.Class, x.Phase, x.Effect = c.class, "", &bisect.Effect{Metric: "spills", Case: "k", Ratio: 80, Low: 80, High: 80, Exact: &c.exact}
		for i := range in.Launches {
			in.Launches[i].Outcome.Warnings = []string{"nvbench skipped copy: too big"}
		}
		in.Launches[0].Outcome.Warnings = append(in.Launches[0].Outcome.Warnings, "alone")
		var text, doc, page bytes.Buffer
		if err := errors.Join(Text(&text, in), JSON(&doc, in), Markdown(&page, pageOf(t, in), 0)); err != nil {
			t.Fatal(err)
		}
		const said = "commits aaaaaaaaaa, cccccccccc: nvbench skipped copy: too big"
		if s := text.String(); !strings.Contains(s, c.want) || !strings.Contains(s, said) || strings.Count(s, "nvbench") != 1 || !strings.Contains(s, "commit "+in.Launches[0].Candidate.Brief()+": alone") {
			t.Errorf("no %q or no %q in\n%s", c.want, said, s)
		}
		if s := doc.String(); !strings.Contains(s, fmt.Sprintf("%q", c.class)) || !strings.Contains(page.String(), "spills of k went") {
			t.Errorf("%s\n%s", s, page.String())
		}
	}
}
