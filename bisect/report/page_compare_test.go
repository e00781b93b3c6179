package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
)

// pageOf is the page of a document with a launch of either side.
func pageOf(t *testing.T, doc any, a, b string) report.Page {
	t.Helper()
	var text bytes.Buffer
	if err := report.WriteJSON(&text, doc); err != nil {
		t.Fatal(err)
	}
	var in report.Input
	for _, l := range []report.Launch{{Candidate: bisect.Candidate{Commit: a}, Purpose: bisect.EndGood}, {Candidate: bisect.Candidate{Commit: b}, Purpose: bisect.EndBad}} {
		l.Outcome = bisect.Outcome{Class: bisect.OK, Wall: 1, Phases: []bisect.PhaseTime{{Name: "measure", Seconds: 1}}}
		in.Launches = append(in.Launches, l)
	}
	p, err := report.NewPage(text.Bytes(), in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A gate and a comparison are pages too: the verdict, each number with its interval, who was launched as what.
func TestPageOfComparison(t *testing.T) {
	for name, g := range gates() {
		p := pageOf(t, g, g.Base.Commit, g.Head.Commit)
		var b bytes.Buffer
		if err := report.Markdown(&b, p, report.MarkdownLimit); err != nil {
			t.Fatal(err)
		}
		if want := strings.Map(func(r rune) rune { return map[bool]rune{true: -1, false: r}[r < ' '] }, g.Verdict); !strings.HasPrefix(want, p.Headline[:20]) {
			t.Errorf("%s: headline %q, verdict %q", name, p.Headline, want)
		}
		first := p.Sections[0]
		if n := len(g.Contrasts); n > 0 && (first.ID != "numbers" || len(first.Tables[0].Rows) != n || len(first.Charts) != 1) || n == 0 && first.ID == "numbers" {
			t.Errorf("%s: %d numbers, %+v", name, n, first)
		}
		for _, want := range []string{"| aaaaaaaaaa (merge base) |", "| bbbbbbbbbb (HEAD) |", "| HEAD | 1 |"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, b.String())
			}
		}
	}
	c := comparison("regression", contrast("regression", "n1", 1.2), contrast("no-difference", "", 1), contrast("cannot-tell", "n2", 1))
	c.Verdict = "B is worse: so it is."
	p := pageOf(t, c, c.A.Commit, c.B.Commit)
	table := p.Sections[0].Tables[0]
	if p.Headline != c.Verdict || len(table.Rows) != 3 || table.Columns[4] != "B / A" || table.States[0] != "bad" || table.States[1] != "good" || table.States[2] != "unsure" || table.Rows[0][4] != "1.200 (1.180 to 1.220)" {
		t.Errorf("%q %+v", p.Headline, table)
	}
	var blamed []string
	for _, f := range pageOf(t, gates()["blamed"], "a", "b").Facts {
		blamed = append(blamed, f.Name+": "+f.Text)
	}
	if all := strings.Join(blamed, "\n"); !strings.Contains(all, "Culprit: cccccccccc is the first bad commit, 99 % sure") || !strings.Contains(all, "b:1") {
		t.Errorf("%s", all)
	}
}
