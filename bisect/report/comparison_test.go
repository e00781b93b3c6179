package report_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
)

func TestSentence(t *testing.T) {
	overall := samples.Contrast("regression", "", 1.14)
	overall.AllCases = true
	for _, x := range []struct {
		doc  *report.Comparison
		why  string
		want string
	}{
		{samples.Comparison("regression", samples.Contrast("regression", "", 1.2)), "", "B is worse: time +20.0 % (99 % CI +18.0 to +22.0 %), lower is better."},
		{samples.Comparison("regression", samples.Contrast("no-difference", "n1", 1), samples.Contrast("regression", "n2", 1.1), samples.Contrast("regression", "n3", 1.3)), "",
			"B is worse: 2 of 3 metrics, most of all time of n3 +30.0 % (99 % CI +28.0 to +32.0 %), lower is better."},
		{samples.Comparison("regression", overall, samples.Contrast("no-difference", "n1", 1), samples.Contrast("regression", "n2", 1.3)), "",
			"B is worse: time, all cases +14.0 % (99 % CI +12.0 to +16.0 %), lower is better; 1 of 2 cases, most n2 (+30.0 %)."},
		{samples.Comparison("improvement", samples.Contrast("improvement", "", 0.8)), "", "B is better: time -20.0 % (99 % CI -22.0 to -18.0 %), lower is better."},
		{samples.Comparison("no-difference", samples.Contrast("no-difference", "", 1)), "", "No difference of 3 % or more: time changes by -2.00 to +2.00 %, lower is better."},
		{samples.Comparison("cannot-tell", samples.Contrast("cannot-tell", "n1", 1.05), samples.Contrast("cannot-tell", "n2", 1)), "",
			"Cannot tell: 2 of 2 metrics undecided after 8 pairs, above all time of n2 +0.00 % (99 % CI -2.00 to +2.00 %), lower is better; 8 pairs show a change of 2.1 % four times in five, looked for is 3 %."},
		{samples.Comparison("cannot-tell"), "A fails", "Cannot tell: A fails."},
		{samples.Comparison("improvement"), "A fails in 2 of 2 launches", "B is better: A fails in 2 of 2 launches."},
		{samples.Comparison("interrupted"), "", "Interrupted; the launches made so far are kept."},
	} {
		if x.doc.Conclude(x.why, ""); !strings.HasPrefix(x.doc.Verdict, x.want) {
			t.Errorf("%s\nwant %s", x.doc.Verdict, x.want)
		}
	}
	same := samples.Comparison("no-difference", samples.Contrast("no-difference", "", 1))
	same.SameCommit = true
	if same.Conclude("", ""); !strings.Contains(same.Verdict, "the same commit") {
		t.Error(same.Verdict)
	}
}

// TestHeading: a heading leaves out the interval on which its verdict rests, which stands whole beside it; a verdict that
// rests on anything else stays as it is.
func TestHeading(t *testing.T) {
	for _, x := range []struct {
		doc        *report.Comparison
		why, after string
		head       string
		change     string
	}{
		{samples.Comparison("regression", samples.Contrast("regression", "n2", 1.1), samples.Contrast("regression", "n3", 1.3)), "", " B does not report x.",
			"B is worse: 2 of 2 metrics, most of all time of n3 +30.0 %. B does not report x.", "time of n3 +30.0 % (99 % CI +28.0 to +32.0 %), lower is better"},
		{samples.Comparison("no-difference", samples.Contrast("no-difference", "", 1)), "", "", "No difference of 3 % or more: time changes by -2.00 to +2.00 %, lower is better.", ""},
		{samples.Comparison("cannot-tell", samples.Contrast("cannot-tell", "n1", 1.05)), "A fails", "", "Cannot tell: A fails.", ""},
		{samples.Comparison("cannot-tell", samples.Contrast("cannot-tell", "n1", 1.05)), "", "",
			"Cannot tell: 1 of 1 metrics undecided after 8 pairs, above all time of n1 +5.0 %; 8 pairs show a change of 2.1 % four times in five, looked for is 3 %.", "time of n1 +5.0 % (99 % CI +3.0 to +7.0 %), lower is better"},
	} {
		x.doc.Conclude(x.why, x.after)
		if head, change := x.doc.Heading(); head != x.head || change != x.change {
			t.Errorf("%s\n%s\nwant %s\n%s", head, change, x.head, x.change)
		}
	}
}

// TestGateReason: the verdict is the word of the result and its reason.
func TestGateReason(t *testing.T) {
	for name, g := range samples.Gates() {
		reason := report.Text(g.Reason)
		switch g.Result {
		case report.GatePass, report.GateRegression, report.GateImprovement:
			if _, said, _ := strings.Cut(g.Verdict, ": "); reason == "" || said != reason+"." {
				t.Errorf("%s: %q of %q", name, reason, g.Verdict)
			}
		default:
			if reason != "" {
				t.Errorf("%s: %q", name, reason)
			}
		}
	}
}

// TestDocumentsHaveEveryKey writes empty documents: nothing may be missing, and what is not known is null.
func TestDocumentsHaveEveryKey(t *testing.T) {
	for _, doc := range []any{
		samples.Comparison("cannot-tell", report.Contrast{P: report.Number(math.NaN()), Holm: report.Number(math.Inf(1))}),
		&report.Measurement{Phases: []report.PhaseTimes{}, Metrics: []report.MetricSummary{{}}, Devices: []report.DeviceState{}},
		&report.History{Series: []report.HistorySeries{{Commits: []report.HistoryCommit{{}}}}},
	} {
		var out bytes.Buffer
		if err := report.WriteJSON(&out, doc); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		typ := reflect.TypeOf(doc).Elem()
		for _, field := range reflect.VisibleFields(typ) {
			if field.Anonymous {
				continue
			}
			tag := field.Tag.Get("json")
			if _, ok := got[tag]; !ok || strings.Contains(tag, ",") || tag != strings.ToLower(tag) {
				t.Errorf("%s.%s: key %q", typ.Name(), field.Name, tag)
			}
		}
		if strings.Contains(out.String(), "NaN") {
			t.Error(out.String())
		}
	}
	var back report.Comparison
	var out bytes.Buffer
	doc := samples.Comparison("regression", samples.Contrast("regression", "n1", 1.2))
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

// TestGateKeys: every key is there, and nothing is NaN.
func TestGateKeys(t *testing.T) {
	for name, g := range samples.Gates() {
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
