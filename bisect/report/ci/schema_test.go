package ci_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/ci"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
)

// sarifShapes says of each object of the schema of SARIF 2.1.0 that a gate writes which properties it may
// have, as far as kbisect uses them, and of what kind; ! marks those that the schema requires. The schema
// itself lets no object have others than those it knows.
func sarifShapes() map[string]map[string]string {
	return map[string]map[string]string{
		"log":          {"$schema": "uri", "version!": "one of 2.1.0", "runs!": "list of run"},
		"run":          {"tool!": "tool", "invocations": "list of invocation", "automationDetails": "automation", "columnKind": "one of utf16CodeUnits unicodeCodePoints", "results": "list of result"},
		"tool":         {"driver!": "component"},
		"component":    {"name!": "text", "version": "text", "rules": "set of rule"},
		"rule":         {"id!": "text", "name": "text", "shortDescription": "multiformat", "fullDescription": "multiformat"},
		"multiformat":  {"text!": "text"},
		"invocation":   {"executionSuccessful!": "truth", "exitCode": "whole", "toolExecutionNotifications": "list of notification"},
		"notification": {"message!": "message", "level": "one of none note warning error"},
		"automation":   {"id": "text"},
		"result":       {"message!": "message", "ruleId": "text", "ruleIndex": "whole from -1", "level": "one of none note warning error", "locations": "list of location", "partialFingerprints": "texts"},
		"message":      {"text!": "text"}, // or an id, which kbisect has none of
		"location":     {"physicalLocation": "physical"},
		"physical":     {"artifactLocation!": "artifact", "region": "region"}, // or an address
		"artifact":     {"uri": "uri", "uriBaseId": "text"},
		"region":       {"startLine": "whole from 1", "endLine": "whole from 1"},
	}
}

// conforms lists what speaks against a value being of a kind.
func conforms(at string, v any, kind string) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	text, isText := v.(string)
	number, isNumber := v.(float64)
	list, isList := v.([]any)
	object, isObject := v.(map[string]any)
	rest := kind[strings.LastIndex(kind, " ")+1:]
	switch {
	case kind == "text" && !isText, kind == "truth" && v != true && v != false:
		complain("%v is no %s", v, kind)
	case kind == "uri":
		if _, err := url.Parse(text); !isText || err != nil || strings.ContainsAny(text, " <>\"\\^`{|}") {
			complain("%v is no URI", v)
		}
	case strings.HasPrefix(kind, "one of "):
		if !isText || !slices.Contains(strings.Fields(kind)[2:], text) {
			complain("%v is not %s", v, kind)
		}
	case strings.HasPrefix(kind, "whole"):
		least := math.Inf(-1)
		fmt.Sscanf(kind, "whole from %g", &least)
		if !isNumber || number != math.Trunc(number) || number < least {
			complain("%v is no %s", v, kind)
		}
	case kind == "texts":
		for k, x := range object {
			wrong = append(wrong, conforms(at+"."+k, x, "text")...)
		}
		if !isObject {
			complain("no object")
		}
	case strings.HasPrefix(kind, "list of "), strings.HasPrefix(kind, "set of "):
		seen := map[string]bool{}
		for i, x := range list {
			wrong = append(wrong, conforms(fmt.Sprintf("%s[%d]", at, i), x, rest)...)
			b, _ := json.Marshal(x)
			if strings.HasPrefix(kind, "set") && seen[string(b)] {
				complain("number %d is there twice", i)
			}
			seen[string(b)] = true
		}
		if !isList {
			complain("no list")
		}
	case kind != "text" && kind != "truth":
		return conformsObject(at, object, isObject, kind)
	}
	return wrong
}

func conformsObject(at string, object map[string]any, is bool, kind string) (wrong []string) {
	shape, known := sarifShapes()[kind]
	if !known || !is {
		return []string{fmt.Sprintf("%s: no object, or no such kind as %s", at, kind)}
	}
	for k, v := range object {
		of := shape[k]
		if of == "" {
			of = shape[k+"!"]
		}
		if of == "" {
			wrong = append(wrong, at+": unknown property "+k)
			continue
		}
		wrong = append(wrong, conforms(at+"."+k, v, of)...)
	}
	for k := range shape {
		if name, must := strings.CutSuffix(k, "!"); must && object[name] == nil {
			wrong = append(wrong, at+": no "+name)
		}
	}
	return wrong
}

func sarifOf(t *testing.T, g *report.Gate) (doc any) {
	t.Helper()
	g.Changed = []report.Place{{File: "kernels/a b{1}|.cu", Start: 10, End: 24}}
	var out bytes.Buffer
	if err := ci.SARIF(&out, g, "v1"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestSARIFSchema checks every property that is written against the schema: those it requires, their types,
// enumerations and bounds, and that there are no others. Then that the check would find each kind of fault.
func TestSARIFSchema(t *testing.T) {
	for name, g := range samples.Gates() {
		for _, w := range conforms(name, sarifOf(t, g), "log") {
			t.Error(w)
		}
	}
	result := func(doc any) map[string]any {
		return doc.(map[string]any)["runs"].([]any)[0].(map[string]any)["results"].([]any)[0].(map[string]any)
	}
	for what, spoil := range map[string]func(doc map[string]any){
		"log: no version":                    func(doc map[string]any) { delete(doc, "version") },
		"log.version: 2.0 is not":            func(doc map[string]any) { doc["version"] = "2.0" },
		"log.runs: no list":                  func(doc map[string]any) { doc["runs"] = "none" },
		"log: unknown property kbisect":      func(doc map[string]any) { doc["kbisect"] = 1 },
		"results[0]: no message":             func(doc map[string]any) { delete(result(doc), "message") },
		"results[0].level: fatal is not":     func(doc map[string]any) { result(doc)["level"] = "fatal" },
		"results[0].ruleIndex: -2 is no":     func(doc map[string]any) { result(doc)["ruleIndex"] = -2. },
		"results[0].partialFingerprints.x: ": func(doc map[string]any) { result(doc)["partialFingerprints"].(map[string]any)["x"] = 3. },
		"is there twice": func(doc map[string]any) {
			driver := doc["runs"].([]any)[0].(map[string]any)["tool"].(map[string]any)["driver"].(map[string]any)
			driver["rules"] = append(driver["rules"].([]any), driver["rules"].([]any)[0])
		},
	} {
		doc := sarifOf(t, samples.Gates()["blamed"]).(map[string]any)
		spoil(doc)
		if got := conforms("log", doc, "log"); len(got) != 1 || !strings.Contains(got[0], what) {
			t.Errorf("%q is found as %q", what, got)
		}
	}
}

// junitShape is what the schema of Jenkins (junit-10.xsd) says of an element: what may be in it, and its
// attributes, those that it requires with !.
type junitShape struct {
	children string
	attrs    string
	text     bool
}

func junitShapes() map[string]junitShape {
	outcome := junitShape{attrs: "type message", text: true}
	return map[string]junitShape{
		"testsuites": {children: "testsuite", attrs: "name time tests failures errors"},
		"testsuite": {children: "testsuite properties testcase system-out system-err",
			attrs: "name! tests! failures! errors! group time skipped timestamp hostname id package file log url version"},
		"properties": {children: "property"}, "property": {attrs: "name! value!"},
		"testcase": {children: "skipped error failure rerunFailure rerunError flakyFailure flakyError system-out system-err", attrs: "name! time classname group"},
		"failure":  outcome, "error": outcome, "skipped": outcome, "system-out": {text: true}, "system-err": {text: true},
	}
}

// junitTime is the only type of that schema that is no text; counts are read as numbers all the same.
var (
	junitTime  = regexp.MustCompile(`^(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?$`)
	junitCount = regexp.MustCompile(`^[0-9]+$`)
)

// against lists what speaks against an element by the schema.
func (j junit) against() (wrong []string) {
	name := j.XMLName.Local
	shape, known := junitShapes()[name]
	if !known {
		return []string{"element " + name}
	}
	attrs := strings.Fields(strings.ReplaceAll(shape.attrs, "!", ""))
	for _, a := range j.Attrs {
		of := map[string]*regexp.Regexp{"time": junitTime, "tests": junitCount, "failures": junitCount, "errors": junitCount, "skipped": junitCount}[a.Name.Local]
		if !slices.Contains(attrs, a.Name.Local) || of != nil && !of.MatchString(a.Value) {
			wrong = append(wrong, fmt.Sprintf("%s %s=%q", name, a.Name.Local, a.Value))
		}
	}
	for _, a := range strings.Fields(shape.attrs) {
		if must, is := strings.CutSuffix(a, "!"); is && !slices.ContainsFunc(j.Attrs, func(a xml.Attr) bool { return a.Name.Local == must }) {
			wrong = append(wrong, name+" without "+must)
		}
	}
	if !shape.text && strings.TrimSpace(j.Text) != "" {
		wrong = append(wrong, "text in "+name)
	}
	for _, c := range j.Children {
		if !slices.Contains(strings.Fields(shape.children), c.XMLName.Local) {
			wrong = append(wrong, c.XMLName.Local+" in "+name)
			continue
		}
		wrong = append(wrong, c.against()...)
	}
	return wrong
}

// TestJUnitSchema checks every element and attribute against the schema, and that the check would find faults.
func TestJUnitSchema(t *testing.T) {
	read := func(text string) (doc junit) {
		if err := xml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return doc
	}
	var blamed string
	for name, g := range samples.Gates() {
		var out bytes.Buffer
		if err := ci.JUnit(&out, g); err != nil {
			t.Fatal(err)
		}
		doc := read(out.String())
		if wrong := doc.against(); len(wrong) > 0 || doc.XMLName.Local != "testsuites" {
			t.Errorf("%s: %q", name, wrong)
		}
		if name == "blamed" {
			blamed = out.String()
		}
	}
	for what, spoilt := range map[string]string{
		"testsuite without tests": regexp.MustCompile(`(<testsuite name="[^"]*") tests="\d+"`).ReplaceAllString(blamed, "$1"),
		`testsuite failures="no"`: regexp.MustCompile(`(<testsuite [^>]*failures=)"\d+"`).ReplaceAllString(blamed, `$1"no"`),
		`testsuite time="1e3"`:    regexp.MustCompile(`(<testsuite [^>]*time=)"[^"]*"`).ReplaceAllString(blamed, `$1"1e3"`),
		`testsuite host="x"`:      strings.Replace(blamed, "<testsuite ", `<testsuite host="x" `, 1),
		"failure in testsuite":    strings.Replace(blamed, "</testsuite>", "<failure/></testsuite>", 1),
		"text in testsuite":       strings.Replace(blamed, "</testsuite>", "x</testsuite>", 1),
	} {
		if got := read(spoilt).against(); len(got) != 1 || got[0] != what {
			t.Errorf("%q is found as %q", what, got)
		}
	}
}
