package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
)

// hostile is a name that a program under test may send.
const hostile = "n|1 <b>`x`</b> @all %0A::error::\n::warning::]]>\x00"

// gate is a document of a result.
func gate(result string, code int, cs ...report.Contrast) report.Gate {
	c := comparison(result, cs...)
	g := report.Gate{
		Schema: report.GateSchema, Session: &c.Session, Result: result, ExitCode: code, Into: "origin/main", Base: c.A, Head: c.B, Effect: c.Effect,
		ErrorRate: c.ErrorRate, Pairs: c.Pairs, Contrasts: append([]report.Contrast{}, cs...), Accepted: []report.Acceptance{}, Changed: []report.Place{},
		Devices: []string{}, Warnings: []string{},
	}
	g.Verdict = g.Sentence("")
	return g
}

// gates are documents of every kind.
func gates() map[string]report.Gate {
	one := "n1"
	all := map[string]report.Gate{
		"pass":        gate(report.GatePass, 0, contrast(report.GatePass, "n1", 1), contrast(report.GatePass, hostile, 1)),
		"improvement": gate(report.GateImprovement, 0, contrast(report.GateImprovement, "n1", 0.8)),
		"regression":  gate(report.GateRegression, 1, contrast(report.GateRegression, "n1", 1.2), contrast(report.GatePass, "n2", 1), contrast(report.GateOpen, "n3", 1.01), contrast(report.GateRegression, hostile, 1.1)),
		"open":        gate(report.GateOpen, 3, contrast(report.GateOpen, "n1", 1.02), contrast(report.GatePass, "n2", 1)),
		"tolerated":   gate(report.GateOpen, 0, contrast(report.GateOpen, "n1", 1.02)),
		"infra":       gate("infra", 5),
		"interrupted": gate("interrupted", 130),
		"no numbers":  gate(report.GateOpen, 3),
	}
	accepted := gate(report.GatePass, 0, contrast(report.GateAccepted, "n1", 1.2))
	accepted.Accepted = []report.Acceptance{{Metric: "time", Case: &one, Limit: 1.25, Reason: "because | of", Seen: true}, {Metric: "time", Limit: 2, Reason: "old"}}
	accepted.Verdict = accepted.Sentence("")
	all["accepted"] = accepted
	for _, class := range []bisect.Class{bisect.Timeout, bisect.Wrong, bisect.Crash, bisect.BuildFailed} {
		g := gate(report.GateRegression, 1)
		g.Failure = &report.Failure{Class: class, Why: "exit 7"}
		g.Verdict = g.Sentence("HEAD fails in 2 of 2 launches")
		all[string(class)] = g
	}
	skip := gate(report.GateOpen, 3)
	skip.Failure = &report.Failure{Class: bisect.Skip, Why: "no such shape"}
	all["skip"] = skip
	flaky := gate(report.GateOpen, 3, contrast(report.GatePass, "n1", 1))
	flaky.Failure = &report.Failure{Class: bisect.Crash, Why: "SIGSEGV"}
	flaky.Verdict = flaky.Sentence("HEAD fails in 1 of 40 launches, the merge base in none of 40")
	all["flaky"] = flaky
	flaky.ExitCode = 0
	all["flaky, tolerated"] = flaky
	lacking, unknown := contrast(report.GateOpen, "n2", math.NaN()), "HEAD does not report it\x00"
	lacking.Why, lacking.B.Median, lacking.Visible = &unknown, report.Number(math.NaN()), report.Number(math.NaN())
	all["gone"] = gate(report.GateOpen, 3, contrast(report.GatePass, "n1", 1), lacking)
	idle, why := gate(report.GatePass, 0), "equal inputs"
	idle.NotLaunched, idle.Session = &why, nil
	idle.Verdict = idle.Sentence("")
	all["idle"] = idle
	trouble := "device lost\nat pair 3"
	infra := all["infra"]
	infra.Error = &trouble
	all["infra"] = infra
	sure := 0.99
	blamed := all["regression"]
	blamed.Culprit = &report.GateCulprit{
		Commit: strings.Repeat("c", 40), Subject: hostile, Confidence: &sure, Confirmed: true, Class: bisect.Slow,
		Places: []report.Place{{File: "a dir/k%1,:.cu", Start: 3, End: 9}, {File: "b", Start: 1, End: 1}},
	}
	all["blamed"] = blamed
	return all
}

// junit is an element of a report.
type junit struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []junit    `xml:",any"`
	Text     string     `xml:",chardata"`
}

func (j junit) attr(name string) string {
	for _, a := range j.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// count counts the elements of a name below one.
func (j junit) count(name string) int {
	n := 0
	for _, c := range j.Children {
		n += c.count(name)
		if c.XMLName.Local == name {
			n++
		}
	}
	return n
}

// TestJUnit: the counts are right, and every result is a failure, an error or skipped as it should be.
func TestJUnit(t *testing.T) {
	want := map[string][3]int{ // failures, errors, skipped
		"pass": {}, "improvement": {}, "accepted": {}, "idle": {}, "regression": {2, 0, 1}, "blamed": {2, 0, 1}, "open": {0, 1, 0}, "tolerated": {0, 0, 1},
		"infra": {0, 1, 0}, "interrupted": {0, 1, 0}, "no numbers": {0, 1, 0}, "skip": {0, 0, 1},
		"flaky": {0, 1, 0}, "flaky, tolerated": {0, 0, 1}, "gone": {0, 1, 0},
		"timeout": {1, 0, 0}, "wrong": {1, 0, 0}, "crash": {1, 0, 0}, "build-failed": {0, 0, 1},
	}
	for name, g := range gates() {
		var out bytes.Buffer
		if err := report.JUnit(&out, g); err != nil {
			t.Fatal(err)
		}
		var doc junit
		if err := xml.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out.String())
		}
		suite := doc.Children[0]
		for _, x := range []struct{ attr, element string }{{"tests", "testcase"}, {"failures", "failure"}, {"errors", "error"}, {"skipped", "skipped"}} {
			if got := suite.attr(x.attr); got != fmt.Sprint(doc.count(x.element)) {
				t.Errorf("%s: %s says %s, there are %d", name, x.attr, got, doc.count(x.element))
			}
		}
		if got := [3]int{doc.count("failure"), doc.count("error"), doc.count("skipped")}; got != want[name] {
			t.Errorf("%s: %v, want %v\n%s", name, got, want[name], out.String())
		}
	}
}

// TestSARIF checks the rules, and what GitHub's code scanning asks for.
func TestSARIF(t *testing.T) {
	want := map[string]string{
		"pass": "", "improvement": "", "accepted": "", "idle": "", "tolerated": "KB-CANNOT-TELL", "regression": "KB-SLOW KB-SLOW", "blamed": "KB-SLOW KB-SLOW",
		"open": "KB-CANNOT-TELL", "no numbers": "KB-CANNOT-TELL", "skip": "KB-CANNOT-TELL", "infra": "", "interrupted": "",
		"flaky": "KB-CANNOT-TELL", "flaky, tolerated": "KB-CANNOT-TELL", "gone": "KB-CANNOT-TELL",
		"timeout": "KB-TIMEOUT", "wrong": "KB-WRONG", "crash": "KB-CRASH", "build-failed": "KB-BUILD",
	}
	for name, g := range gates() {
		g.Changed = []report.Place{{File: "kernels/a.cu", Start: 10, End: 24}}
		var out bytes.Buffer
		if err := report.SARIF(&out, g, "v1"); err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Schema  string `json:"$schema"`
			Version string `json:"version"`
			Runs    []struct {
				Tool struct {
					Driver struct {
						Name  string
						Rules []struct{ ID string }
					}
				}
				Invocations []struct{ ExecutionSuccessful *bool }
				Results     []struct {
					RuleID    string
					RuleIndex int
					Level     string
					Message   struct{ Text string }
					Locations []struct {
						PhysicalLocation struct {
							ArtifactLocation struct{ URI, URIBaseID string }
							Region           struct{ StartLine, EndLine int }
						}
					}
					PartialFingerprints map[string]string
				}
			}
		}
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Version != "2.1.0" || len(doc.Runs) != 1 || doc.Runs[0].Tool.Driver.Name == "" || doc.Runs[0].Results == nil || doc.Runs[0].Invocations[0].ExecutionSuccessful == nil {
			t.Errorf("%s:\n%s", name, out.String())
		}
		var rules []string
		prints := map[string]bool{}
		for _, r := range doc.Runs[0].Results {
			rules = append(rules, r.RuleID)
			if doc.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || !slices.Contains([]string{"error", "warning"}, r.Level) || r.Message.Text == "" || len(r.Locations) != 1 {
				t.Fatalf("%s: %+v", name, r)
			}
			l := r.Locations[0].PhysicalLocation
			u, err := url.Parse(l.ArtifactLocation.URI)
			if err != nil || u.IsAbs() || strings.HasPrefix(u.Path, "/") || l.Region.StartLine < 1 || l.Region.EndLine < l.Region.StartLine {
				t.Errorf("%s: %+v %v", name, l, err)
			}
			if name == "blamed" && u.Path != "a dir/k%1,:.cu" {
				t.Errorf("the file is %q", u.Path)
			}
			print := r.PartialFingerprints["kbisectNumber/v1"]
			if prints[print] || len(print) != 64 {
				t.Errorf("%s: fingerprint %q", name, print)
			}
			prints[print] = true
		}
		if got := strings.Join(rules, " "); got != want[name] {
			t.Errorf("%s: %q, want %q", name, got, want[name])
		}
	}
}

// TestAnnotation: at most one line a gate, whatever the names are.
func TestAnnotation(t *testing.T) {
	for name, g := range gates() {
		text := g.Annotation()
		if g.Result == report.GatePass || g.Result == report.GateImprovement || g.Result == "interrupted" {
			if text != "" {
				t.Errorf("%s: %q", name, text)
			}
			continue
		}
		if !regexp.MustCompile(`\A::(error|warning) (file=[^:,\n]+,line=\d+,endLine=\d+,)?title=[^:,\n]+::[^\n\r]+\n\z`).MatchString(text) {
			t.Errorf("%s: %q", name, text)
		}
		if name == "blamed" && !strings.HasPrefix(text, "::error file=a dir/k%251%2C%3A.cu,line=3,endLine=9,") {
			t.Error(text)
		}
	}
	for name, g := range gates() {
		lines := strings.Split(strings.TrimSuffix(g.Outputs(), "\n"), "\n")
		if len(lines) != 3 || lines[0] != "result="+g.Result || !strings.HasPrefix(lines[1], "ratio=") || !strings.HasPrefix(lines[2], "culprit=") {
			t.Errorf("%s: %q", name, lines)
		}
	}
}

// TestMarkdown: names stay text, and the page stays below its limit.
func TestMarkdown(t *testing.T) {
	for name, g := range gates() {
		for _, limit := range []int{1 << 20, 2000, 700, 50, 0} {
			text := g.Markdown(limit)
			if len(text) > limit {
				t.Errorf("%s: %d bytes of %d", name, len(text), limit)
			}
			if strings.ContainsAny(text, "\x00@") || strings.Contains(text, "<b>") {
				t.Errorf("%s: %s", name, text)
			}
		}
		for _, line := range strings.Split(g.Markdown(1<<20), "\n") {
			bars := strings.Count(line, "|") - strings.Count(line, `\|`)
			if strings.HasPrefix(line, "|") && bars != 4 && bars != 6 {
				t.Errorf("%s: a row of %d bars: %s", name, bars, line)
			}
		}
	}
	many := gate(report.GateRegression, 1)
	for i := range 5000 {
		many.Contrasts = append(many.Contrasts, contrast(report.GatePass, fmt.Sprint("case ", i), 1))
	}
	many.Contrasts = append(many.Contrasts, contrast(report.GateRegression, "the bad one", 1.3))
	text := many.Markdown(20_000)
	if len(text) > 20_000 || !strings.Contains(text, "the bad one") || !regexp.MustCompile(`\d+ more are not shown`).MatchString(text) {
		t.Errorf("%d bytes", len(text))
	}
}

// TestBenchmarks checks what github-action-benchmark reads.
func TestBenchmarks(t *testing.T) {
	rate := contrast(report.GatePass, "", 1)
	rate.Metric, rate.Unit, rate.Higher = "rate", "B/s", true
	wall := contrast(report.GatePass, "", 1)
	wall.Metric = "wall"
	unknown := contrast(report.GateOpen, "n9", 1)
	unknown.B.Median = report.Number(math.NaN())
	smaller, bigger := gate(report.GatePass, 0, contrast(report.GatePass, "n1", 1.5), rate, wall, unknown).Benchmarks()
	if len(smaller) != 2 || len(bigger) != 1 || smaller[0].Name != "time of n1" || smaller[0].Unit != "us" || math.Abs(smaller[0].Value-45) > 1e-9 || smaller[1].Unit != "s" || bigger[0].Unit != "B/s" {
		t.Errorf("%+v %+v", smaller, bigger)
	}
	for name, g := range gates() {
		smaller, bigger := g.Benchmarks()
		for _, list := range [][]report.Benchmark{smaller, bigger} {
			var out bytes.Buffer
			if err := report.WriteJSON(&out, list); err != nil {
				t.Fatal(err)
			}
			var got []map[string]any
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || got == nil {
				t.Fatalf("%s: %v in %s", name, err, out.String())
			}
			for _, b := range got {
				_, number := b["value"].(float64)
				if name, ok := b["name"].(string); !ok || name == "" || !number || b["unit"] == nil {
					t.Errorf("%v", b)
				}
			}
		}
	}
}

// TestGateText: a line for each number, each verdict with its colour, and nothing that drives the terminal.
func TestGateText(t *testing.T) {
	words := map[string]string{
		"pass": "^Pass: no change of 3 % or more: every number lies between 0.980 and 1.020", "improvement": "^Improvement: time of n1 is 0.800 times",
		"regression": "^Regression: time of n1 is 1.200 times .*likewise time of n", "open": "^Cannot tell: after 8 pairs a change of 3 % in time of n1 can be neither shown nor ruled out; so many pairs show one of 2.1 % four times in five",
		"accepted": `^Pass: no change of 3 % or more that is not accepted; 1 change for the worse accepted\.`, "idle": "^Pass: equal inputs; nothing was launched",
		"wrong": "^Regression: HEAD fails in 2 of 2 launches", "flaky": "^Cannot tell: HEAD fails in 1 of 40 launches", "gone": "cannot tell  time of n2 .* - +HEAD does not report it",
		"infra": "^Stopped by machine trouble", "no numbers": "there are no numbers",
	}
	for name, g := range gates() {
		var plain, painted bytes.Buffer
		if err := report.GateText(&plain, g, false); err != nil {
			t.Fatal(err)
		}
		if err := report.GateText(&painted, g, true); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(plain.String(), "\x1b\x00") || regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(painted.String(), "") != plain.String() {
			t.Errorf("%s: %q", name, painted.String())
		}
		if !regexp.MustCompile(words[name]).MatchString(plain.String()) {
			t.Errorf("%s: no %q in\n%s", name, words[name], plain.String())
		}
		if n := strings.Count(plain.String(), "\n  verdict "); (n == 1) != (len(g.Contrasts) > 0) {
			t.Errorf("%s: %d tables", name, n)
		}
	}
	g := gates()["accepted"]
	var out bytes.Buffer
	if err := report.GateText(&out, g, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"accepted  time of n1", "accepted up to 1.25: because | of", "Accepted, but not needed: time up to 2 (old)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestGateKeys: every key is there, and nothing is NaN.
func TestGateKeys(t *testing.T) {
	for name, g := range gates() {
		var out bytes.Buffer
		if err := report.WriteJSON(&out, g); err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(out.Bytes()))
		d.DisallowUnknownFields()
		var back report.Gate
		if err := d.Decode(&back); err != nil || strings.Contains(out.String(), "NaN") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := d.Token(); err != io.EOF {
			t.Errorf("%s: more than one document", name)
		}
		for _, key := range []string{"session", "not_launched", "failure", "comparisons", "accepted", "culprit", "search", "changed", "error", "exit_code"} {
			if !strings.Contains(out.String(), `"`+key+`":`) {
				t.Errorf("%s: no %s", name, key)
			}
		}
	}
}
