package report_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
)

// contrast is a comparison of one metric.
func contrast(result, one string, ratio float64) report.Contrast {
	c := report.Contrast{Metric: "time", Unit: "s", Result: result, Pairs: 8, Holm: 0.0002, Cliff: 1, Visible: 0.021}
	if one != "" {
		c.Case = &one
	}
	unknown := report.Number(math.NaN())
	c.A = report.Summary{N: 8, Median: 30e-6, Low: 29.9e-6, High: 30.2e-6, Spread: unknown}
	c.B = report.Summary{N: 8, Median: report.Number(30e-6 * ratio), Low: unknown, High: unknown}
	r := report.Number(ratio)
	c.Ratio = report.Estimate{Value: r, Low: r - 0.01, High: r + 0.01}
	c.Bound = report.Estimate{Value: r, Low: r - 0.02, High: r + 0.02}
	return c
}

func comparison(result string, cs ...report.Contrast) report.Comparison {
	id := func(c string) string { return strings.Repeat(c, 40) }
	side := func(rev, c string) report.Candidate {
		return report.CommitInfo{ID: id(c), Subject: "subject of " + rev}.Candidate(rev)
	}
	return report.Comparison{
		Schema: report.ComparisonSchema, Session: "s1", Result: result, A: side("HEAD^", "a"), B: side("HEAD", "b"),
		Effect: 0.03, ErrorRate: 0.01, Pairs: 8, Contrasts: cs, Devices: []string{}, Warnings: []string{},
	}
}

func TestSentence(t *testing.T) {
	for _, x := range []struct {
		doc  report.Comparison
		why  string
		want string
	}{
		{comparison("regression", contrast("regression", "", 1.2)), "", "B is worse: time is 1.200 times A's (95 % interval 1.190 to 1.210)."},
		{comparison("regression", contrast("no-difference", "n1", 1), contrast("regression", "n2", 1.1), contrast("regression", "n3", 1.3)), "",
			"B is worse: time of n3 is 1.300 times A's (95 % interval 1.290 to 1.310); likewise time of n2."},
		{comparison("improvement", contrast("improvement", "", 0.8)), "", "B is better: time is 0.800 times A's"},
		{comparison("no-difference", contrast("no-difference", "", 1)), "", "No difference of 3 % or more: time lies between 0.980 and 1.020 times A's."},
		{comparison("cannot-tell", contrast("cannot-tell", "n1", 1.05), contrast("cannot-tell", "n2", 1)), "", "Cannot tell: after 8 pairs a change of 3 % in time of n1 can be neither shown nor ruled out (it lies between 1.030 and 1.070 times A's), nor in one other."},
		{comparison("cannot-tell"), "A fails", "Cannot tell: A fails."},
		{comparison("improvement"), "A fails in 2 of 2 launches", "B is better: A fails in 2 of 2 launches."},
		{comparison("interrupted"), "", "Interrupted; the launches made so far are kept."},
	} {
		if got := x.doc.Sentence(x.why); !strings.HasPrefix(got, x.want) {
			t.Errorf("%s\nwant %s", got, x.want)
		}
	}
	same := comparison("no-difference", contrast("no-difference", "", 1))
	same.SameCommit = true
	if got := same.Sentence(""); !strings.Contains(got, "the same commit") {
		t.Error(got)
	}
}

func TestComparisonText(t *testing.T) {
	doc := comparison("regression", contrast("regression", "", 1.2))
	doc.Verdict = doc.Sentence("")
	doc.B.Subject = "red \x1b[31m alert"
	doc.B.LeftOut = []report.Excluded{{Why: "throttled", Launches: 2}}
	doc.Warnings = []string{"mind this"}
	var out bytes.Buffer
	if err := report.ComparisonText(&out, doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"B is worse: time is 1.200", "  A  aaaaaaaaaa  HEAD^  subject of HEAD^", "30.00 us (29.90 to 30.20 us)", "36.00 us ", "1.200 (1.190 to 1.210)", "+1.00", "2.0e-04", "2.1 %", "worse",
		"2 left out: throttled", "- mind this", "kbisect run --good HEAD^ --bad HEAD", "kbisect show s1",
	} {
		if !strings.Contains(out.String(), want) && !strings.Contains(out.String(), strings.Replace(want, " us)", ")", 1)) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("a subject drives the terminal")
	}
}

// TestDocumentsHaveEveryKey writes empty documents: nothing may be missing, and what is not known is null.
func TestDocumentsHaveEveryKey(t *testing.T) {
	for _, doc := range []any{
		comparison("cannot-tell", report.Contrast{P: report.Number(math.NaN()), Holm: report.Number(math.Inf(1))}),
		report.Measurement{Phases: []report.PhaseTimes{}, Metrics: []report.MetricSummary{{}}, Devices: []report.DeviceState{}},
		report.History{Series: []report.HistorySeries{{Commits: []report.HistoryCommit{{}}}}},
	} {
		var out bytes.Buffer
		if err := report.WriteJSON(&out, doc); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		typ := reflect.TypeOf(doc)
		for i := range typ.NumField() {
			tag := typ.Field(i).Tag.Get("json")
			if _, ok := got[tag]; !ok || strings.Contains(tag, ",") || tag != strings.ToLower(tag) {
				t.Errorf("%s.%s: key %q", typ.Name(), typ.Field(i).Name, tag)
			}
		}
		if strings.Contains(out.String(), "NaN") {
			t.Error(out.String())
		}
	}
	var back report.Comparison
	var out bytes.Buffer
	doc := comparison("regression", contrast("regression", "n1", 1.2))
	if err := report.WriteJSON(&out, doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Contrasts[0].A.Median != doc.Contrasts[0].A.Median || back.Contrasts[0].B.Low.Known() {
		t.Errorf("%+v", back.Contrasts[0])
	}
}

func TestHistoryLine(t *testing.T) {
	commit := func(v float64) report.HistoryCommit {
		c := report.HistoryCommit{Commit: strings.Repeat("c", 40), Date: "2026-01-01T00:00:00Z", Launches: 2, Values: report.Summary{N: 2, Median: report.Number(v)}, Ratio: report.Number(math.NaN())}
		if math.IsNaN(v) {
			c.Values.N = 0
			c.Failures = []report.Failures{{Class: bisect.Crash, Launches: 2}}
		}
		return c
	}
	h := report.History{Shown: 4, All: 5, Series: []report.HistorySeries{{Metric: "time", Unit: "s", Command: []string{"./bench"}, Commits: []report.HistoryCommit{commit(1e-3), commit(2e-3), commit(math.NaN()), commit(3e-3)}}}}
	var out bytes.Buffer
	if err := report.HistoryText(&out, h, []rune("012")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"time; no device watched; ./bench\n", "  01x2  1.000 ms to 3.000 ms, oldest first, x failed\n", "2 crash", "4 of 5 measured commits shown"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	h.Series[0].Unit = "1"
	h.Series[0].Commits[3].Failures = nil
	h.Series[0].Commits[2].Values = h.Series[0].Commits[0].Values
	if err := report.HistoryText(&out, h, []rune("▁▄█")); err != nil || !strings.Contains(out.String(), "  ▁▄▁█  0.001000 to 0.003000, oldest first\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestMeasurementText(t *testing.T) {
	nan := report.Number(math.NaN())
	m := report.Measurement{
		Verdict: "Each of 6 launches ended well.", Candidate: report.CommitInfo{ID: strings.Repeat("d", 40), Subject: "x"}.Candidate("HEAD"),
		Phases:  []report.PhaseTimes{{Phase: "load", Times: report.Summary{N: 5, Median: 2, Min: 1.5, Max: 3}, Cold: report.Summary{N: 1, Median: 90}}},
		Wall:    report.Summary{N: 6, Median: 12, Min: 11, Max: 100},
		Metrics: []report.MetricSummary{{Metric: "rate", Unit: "B/s", Values: report.Summary{N: 6, Median: 1.2e12, Low: 1.1e12, High: 1.3e12, Min: 1.1e12, Max: 1.3e12, Spread: 0.02}, Samples: 60, Within: nan, Modes: &report.Modes{Low: 1.1e12, High: 1.3e12, Share: 0.5}}},
		Devices: []report.DeviceState{{Name: "GPU 0", Clock: report.Summary{N: 6, Min: 1980, Median: 1980, Max: 1980}, Throttled: []string{"thermal"}}},
	}
	var out bytes.Buffer
	if err := report.MeasurementText(&out, m); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"with empty caches", "90.00 s", "whole launch  12.00 s", "1.200 TB/s (1.100 to 1.300)", "2 %", "two groups: 1.100 TB/s, and in 50 % of the launches 1.300 TB/s", "on GPU 0", "clock 1980 to 1980 MHz", "held back: thermal"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
