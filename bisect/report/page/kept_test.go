package page

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
)

// anySearch draws what a search over commits may have come to.
func anySearch(t *rapid.T) report.Input {
	id := rapid.SampledFrom([]string{samples.GoodID, samples.BadID, samples.CulpritID, samples.CommitID(7)})
	word := rapid.SampledFrom([]string{"", "load", "time", "throughput", samples.Hostile, samples.HostileCase})
	positive := rapid.Float64Range(0.01, 50)
	class := rapid.SampledFrom([]bisect.Class{bisect.OK, bisect.Timeout, bisect.Wrong, bisect.Crash, bisect.BuildFailed, bisect.Skip, bisect.Slow, bisect.Improved})
	effect := rapid.Custom(func(t *rapid.T) *bisect.Effect {
		e := &bisect.Effect{Metric: word.Draw(t, "metric"), Case: word.Draw(t, "case"), Ratio: positive.Draw(t, "ratio"), Higher: rapid.Bool().Draw(t, "higher")}
		e.Low, e.High = e.Ratio*0.9, e.Ratio*1.1
		if rapid.Bool().Draw(t, "exact") {
			e.Exact = &bisect.Exact{Value: e.Ratio * 8, Parent: 8}
		}
		return e
	})
	share := rapid.Custom(func(t *rapid.T) *bisect.Share {
		v := rapid.Float64Range(-3, 3).Draw(t, "value")
		return &bisect.Share{Value: v, Low: v - 0.1, High: v + 0.1}
	})
	culprit := rapid.Custom(func(t *rapid.T) bisect.Culprit {
		c := bisect.Culprit{Commit: id.Draw(t, "culprit"), Parents: []string{samples.GoodID}, Class: class.Draw(t, "class"), Phase: word.Draw(t, "phase"), Confidence: rapid.Float64Range(0, 1).Draw(t, "confidence"), Confirmed: rapid.Bool().Draw(t, "confirmed")}
		if rapid.Bool().Draw(t, "metric") {
			c.Effect = effect.Draw(t, "effect")
			c.Besides = []bisect.Effect{*effect.Draw(t, "besides")}
			c.Share = share.Draw(t, "share")
		} else {
			c.Rate = &bisect.Rate{Failed: rapid.IntRange(0, 9).Draw(t, "failed"), Launches: rapid.IntRange(0, 9).Draw(t, "launches")}
		}
		return c
	})
	step := rapid.Custom(func(t *rapid.T) bisect.Step {
		return bisect.Step{
			Commit: id.Draw(t, "commit"), Role: rapid.SampledFrom([]bisect.Role{bisect.RoleGoodEnd, bisect.RoleSearch, bisect.RoleParent}).Draw(t, "role"), Inferred: rapid.Bool().Draw(t, "inferred"), Remaining: rapid.IntRange(0, 99).Draw(t, "remaining"),
			Verdict: bisect.Verdict{Call: rapid.SampledFrom([]bisect.Call{bisect.Good, bisect.Bad, bisect.Untestable}).Draw(t, "call"), Probability: rapid.Float64Range(0, 1).Draw(t, "probability"), Why: word.Draw(t, "why"), Metric: word.Draw(t, "of"), Class: class.Draw(t, "class"), Ratio: rapid.Ptr(rapid.Custom(func(t *rapid.T) bisect.Effect { return *effect.Draw(t, "e") }), true).Draw(t, "ratio")},
		}
	})
	launch := rapid.Custom(func(t *rapid.T) report.Launch {
		o := bisect.Outcome{Class: class.Draw(t, "class"), Phase: word.Draw(t, "phase"), Why: word.Draw(t, "why"), Wall: positive.Draw(t, "wall"), Tail: word.Draw(t, "tail"), Log: word.Draw(t, "log"), Built: rapid.Bool().Draw(t, "built"), Caches: rapid.SampledFrom([]string{"", "cold", "warm"}).Draw(t, "caches")}
		o.Phases = []bisect.PhaseTime{{Name: word.Draw(t, "name"), Seconds: positive.Draw(t, "seconds")}}
		o.Series = []bisect.Series{{Metric: word.Draw(t, "series"), Unit: rapid.SampledFrom([]string{"", "s", "us", "1", "B/s"}).Draw(t, "unit"), Values: rapid.SliceOfN(positive, 0, 3).Draw(t, "values")}}
		return report.Launch{Candidate: bisect.Candidate{Commit: id.Draw(t, "commit"), Assign: rapid.SampledFrom([]string{"", "fp8=on"}).Draw(t, "assign")}, Purpose: bisect.Searching, Outcome: o}
	})
	in := report.Input{
		Session: "s1", Good: report.CommitInfo{ID: samples.GoodID}, Bad: report.CommitInfo{ID: samples.BadID}, Spent: []report.Spent{{Account: "build", Seconds: float64(rapid.IntRange(0, 9999).Draw(t, "wall"))}}, GPUHour: rapid.Float64Range(0, 9).Draw(t, "price"),
		Error: word.Draw(t, "error"), Devices: rapid.SliceOfN(word, 0, 2).Draw(t, "devices"), Advice: word.Draw(t, "advice"), Warnings: rapid.SliceOfN(word, 0, 2).Draw(t, "warnings"),
		Ledger: report.Ledger{Launches: rapid.SliceOfN(launch, 0, 6).Draw(t, "launches"), Commits: map[string]report.CommitInfo{samples.GoodID: {ID: samples.GoodID, Subject: samples.Hostile}}},
		Finding: bisect.Finding{
			Result:    rapid.SampledFrom([]bisect.Result{bisect.Found, bisect.Inconclusive, bisect.NoDifference, bisect.Broken, bisect.Interrupted}).Draw(t, "result"),
			Complaint: bisect.Complaint{Class: class.Draw(t, "complaint"), Phase: word.Draw(t, "phase"), Metric: word.Draw(t, "metric")},
			Ends:      bisect.Ends{Why: word.Draw(t, "why"), Hint: word.Draw(t, "hint")}, Range: rapid.IntRange(0, 40).Draw(t, "range"), Matter: rapid.IntRange(0, 40).Draw(t, "matter"),
			Steps: rapid.SliceOfN(step, 0, 5).Draw(t, "steps"), Suspects: []bisect.SuspectCommit{{Commit: samples.CommitID(3), Probability: 0.3, Why: word.Draw(t, "suspect")}}[:rapid.IntRange(0, 1).Draw(t, "suspects")],
		},
	}
	if rapid.Bool().Draw(t, "too dear") {
		q := bisect.Quieter{Metric: word.Draw(t, "quieter"), Noise: positive.Draw(t, "less"), Ratio: positive.Draw(t, "by"), Differs: rapid.Bool().Draw(t, "differs"), Launches: positive.Draw(t, "few")}
		in.Finding.Prospect = &bisect.Prospect{Metric: word.Draw(t, "dear"), Noise: positive.Draw(t, "noise"), Change: positive.Draw(t, "change"), Seen: rapid.Bool().Draw(t, "seen"), Made: 8, Launches: positive.Draw(t, "more"), Seconds: positive.Draw(t, "takes"), Left: positive.Draw(t, "left"), Within: positive.Draw(t, "within"), Findable: positive.Draw(t, "findable"), Quieter: []bisect.Quieter{q}[:rapid.IntRange(0, 1).Draw(t, "others")]}
	}
	if in.Finding.Result == bisect.Found {
		in.Finding.Culprits = rapid.SliceOfN(culprit, 1, 3).Draw(t, "culprits")
		if rapid.Bool().Draw(t, "swept") {
			in.Finding.Fixes = []bisect.Fix{{After: samples.GoodID, By: samples.CommitID(7), Commits: 4, Effect: *effect.Draw(t, "fixed"), Share: share.Draw(t, "taken away")}}
			in.Finding.Rest = share.Draw(t, "rest")
		}
	}
	return in
}

// The page of a search that the store has kept is the page that was shown when it ended.
func TestKeptSearchReadsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anySearch(t)
		d := report.NewSearch(in)
		var kept bytes.Buffer
		if err := report.WriteJSON(&kept, d); err != nil {
			t.Fatal(err)
		}
		back, err := report.Read(kept.Bytes(), "s1")
		if err != nil {
			t.Fatal(err)
		}
		if diff := differ(New(d, in.Ledger), New(back, in.Ledger)); diff != "" {
			t.Fatalf("shown (-) and read again (+):\n%s", diff)
		}
	})
}

// differ says in what two pages differ, pictures included.
func differ(was, is Page) string {
	return cmp.Diff(was, is, cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), cmp.Exporter(func(reflect.Type) bool { return true }))
}

// The same for the documents of the other commands.
func TestKeptDocumentsReadTheSame(t *testing.T) {
	documents := map[string]report.Document{
		"comparison":  samples.Comparison(report.GateRegression, samples.Contrast(report.GateRegression, "n1", 1.2), samples.Contrast(report.GateOpen, "", 1)),
		"measurement": measurement(),
		"explanation": explanation(),
		"history":     history(30),
		"no history":  &report.History{Schema: report.HistorySchema},
	}
	for name, g := range samples.Gates() {
		documents["gate, "+name] = g
	}
	for name, d := range documents {
		var kept bytes.Buffer
		if err := report.WriteJSON(&kept, d); err != nil {
			t.Fatal(err)
		}
		back, err := report.Read(kept.Bytes(), "s1")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := differ(New(d, report.Ledger{}), New(back, report.Ledger{})); diff != "" {
			t.Errorf("%s: shown (-) and read again (+):\n%s", name, diff)
		}
	}
}
