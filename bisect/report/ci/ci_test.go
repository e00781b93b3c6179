package ci_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/ci"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
)

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
	for name, g := range samples.Gates() {
		var out bytes.Buffer
		if err := ci.JUnit(&out, g); err != nil {
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
	for name, g := range samples.Gates() {
		g.Changed = []report.Place{{File: "kernels/a.cu", Start: 10, End: 24}}
		var out bytes.Buffer
		if err := ci.SARIF(&out, g, "v1"); err != nil {
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
	for name, g := range samples.Gates() {
		text := ci.Annotation(g)
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
	for name, g := range samples.Gates() {
		lines := strings.Split(strings.TrimSuffix(ci.Outputs(g), "\n"), "\n")
		if len(lines) != 3 || lines[0] != "result="+strings.Replace(g.Result, "infra", "error", 1) || !strings.HasPrefix(lines[1], "ratio=") || !strings.HasPrefix(lines[2], "culprit=") {
			t.Errorf("%s: %q", name, lines)
		}
	}
}
