package page

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/chart"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
	"github.com/kbisect/kbisect/bisect/sets"
)

func pageOf(in report.Input) Page { return New(report.NewSearch(in), in.Ledger) }

func flagsPage(t *testing.T) Page {
	t.Helper()
	doc, l := samples.Flags()
	d, err := report.Read(doc, "f1")
	if err != nil {
		t.Fatal(err)
	}
	return New(d, l)
}

func ids(p Page) (out []string) {
	for _, s := range p.Sections {
		out = append(out, s.ID)
	}
	return out
}

// A section is there exactly when its data is.
func TestSections(t *testing.T) {
	for _, c := range []struct {
		name string
		page Page
		want string
	}{
		{"slow", pageOf(samples.Slow()), "notes diff explain proof search timeline phases cost launches"},
		{"timeout", pageOf(samples.Found()), "notes proof search timeline phases cost launches"},
		{"flags", flagsPage(t), "sets claims keep effects timeline phases cost launches"},
		{"nothing", pageOf(report.Input{Finding: bisect.Finding{Result: bisect.Broken}}), ""},
	} {
		if got := strings.Join(ids(c.page), " "); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func section(t *testing.T, p Page, id string) Section {
	t.Helper()
	i := slices.IndexFunc(p.Sections, func(s Section) bool { return s.ID == id })
	if i < 0 {
		t.Fatalf("no section %s in %v", id, ids(p))
	}
	return p.Sections[i]
}

func TestMarkedDiff(t *testing.T) {
	marks := []report.Hunk{{File: "gemm.cu", Start: 11, End: 12, Role: sets.Culprit}}
	var guilty []string
	for _, l := range parseDiff(samples.Slow().Diffs[samples.CommitID(40)], marks) {
		if l.Role == "culprit" {
			guilty = append(guilty, fmt.Sprintf("%s %d %d", l.Kind, l.Old, l.New))
		}
	}
	if want := []string{"del 11 0", "add 0 11", "add 0 12"}; !slices.Equal(guilty, want) {
		t.Errorf("%q, want %q", guilty, want)
	}
}

// Guilty lines stand in the order of files and lines, neighbours as one block, then the places that are only required.
func TestGuiltyLinesInOrder(t *testing.T) {
	line := func(file string, n int, role sets.Role) report.Hunk {
		return report.Hunk{File: file, Start: n, End: n, Role: role, Text: fmt.Sprintf("+%d\n", n)}
	}
	var got []string
	for _, r := range guiltyRows([]report.Hunk{line("b.c", 24, sets.Culprit), line("b.c", 17, sets.Culprit), line("b.c", 18, sets.Culprit), line("b.c", 16, sets.Carrier), line("b.c", 19, sets.Carrier), line("a.c", 30, sets.Culprit)}) {
		text := r.Text
		for _, l := range r.Lines {
			text += " " + l.Text
		}
		got = append(got, text)
	}
	if want := []string{"a.c:30 +30", "b.c:17-18 +17 +18", "b.c:24 +24", "b.c:16, b.c:19 (required to build, not the cause)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	const diff = "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -3,0 +4,1 @@\n+%[1]s\n"
	marks := []report.Hunk{line("b.c", 4, sets.Carrier), line("c.c", 4, sets.Culprit)}
	got = nil
	for _, l := range guiltyFirst(parseDiff(fmt.Sprintf(diff+strings.ReplaceAll(diff, "[1]", "[2]")+strings.ReplaceAll(diff, "[1]", "[3]"), "a.c", "b.c", "c.c"), marks)) {
		if l.Kind == "add" {
			got = append(got, l.Text)
		}
	}
	if want := []string{"+c.c", "+b.c", "+a.c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// An effect has the values before and after it, which differ by just as much as it says, but not where it is of several
// cases together.
func TestValuesOfAnEffect(t *testing.T) {
	launch := func(commit string, purpose bisect.Purpose, seconds ...float64) report.Launch {
		o := bisect.Outcome{Class: bisect.OK}
		for i, v := range seconds {
			o.Series = append(o.Series, bisect.Series{Metric: "time", Case: fmt.Sprint("n", i), Unit: "s", Values: []float64{v}})
		}
		return report.Launch{Candidate: bisect.Candidate{Commit: commit}, Purpose: purpose, Outcome: o}
	}
	c := report.Culprit{Commit: "c", Parents: []string{"p"}, Effect: &report.Effect{Metric: "time", Ratio: 1.5}}
	for _, x := range []struct {
		one, want string
		launches  []report.Launch
	}{
		{"", "; before 10.60 ms, after 15.90 ms", []report.Launch{launch("p", bisect.ConfirmParent, .0123), launch("c", bisect.ConfirmCulprit, .0137), launch("c", bisect.Searching, 9)}},
		{"", "", []report.Launch{launch("p", bisect.ConfirmParent, .0123, 1), launch("c", bisect.ConfirmCulprit, .0137, 1)}},
		{"n1", "; before 1.155 s, after 1.732 s", []report.Launch{launch("p", bisect.ConfirmParent, .0123, 1), launch("c", bisect.ConfirmCulprit, .0137, 2)}},
		{"", "", []report.Launch{launch("c", bisect.ConfirmCulprit, .0137)}},
	} {
		if c.Effect.Case = x.one; values(report.Ledger{Launches: x.launches}, c) != x.want {
			t.Errorf("%q, want %q", values(report.Ledger{Launches: x.launches}, c), x.want)
		}
	}
}

// Once there is a culprit, a commit without a verdict is not a suspect: the answer did not need it.
func TestStripOfAnAnswer(t *testing.T) {
	in := samples.Slow()
	in.Finding.Steps = append(in.Finding.Steps, bisect.Step{Commit: samples.CommitID(2), Role: bisect.RoleSearch, Verdict: bisect.Verdict{Call: bisect.Untestable, Class: bisect.OK}})
	s := New(report.NewSearch(in), in.Ledger).Strip
	if slices.Contains(s.States, Unsure) || !slices.Contains(s.States, Culprit) || s.Unmarked() != "not needed" {
		t.Errorf("%q %s", s.States, s.Caption())
	}
	in.Finding.Result, in.Finding.Culprits = bisect.Inconclusive, nil
	if s = New(report.NewSearch(in), in.Ledger).Strip; !slices.Contains(s.States, Unsure) || s.Unmarked() != "not tested" {
		t.Errorf("%q %s", s.States, s.Caption())
	}
	// So is a commit that was launched before there was time to judge it.
	in.Ledger.Launches = append(in.Ledger.Launches, report.Launch{Candidate: bisect.Candidate{Commit: samples.CommitID(3)}, Purpose: bisect.Searching})
	if s = New(report.NewSearch(in), in.Ledger).Strip; s.States[3] != Unsure {
		t.Errorf("%q", s.States)
	}
	in.Ledger.Launches = in.Ledger.Launches[:len(in.Ledger.Launches)-1]
	// A verdict stands beside the suspects, and makes none: not that of a bad end, which may be the culprit itself.
	last := len(s.States) - 1
	in.Finding.Suspects = []bisect.SuspectCommit{{Commit: samples.CommitID(last), Probability: 0.5}, {Commit: samples.CommitID(3), Probability: 0.5}}
	s = New(report.NewSearch(in), in.Ledger).Strip
	if !slices.Equal(s.Suspects, []int{3, last}) || s.States[last] != Bad || s.States[3] != "" || s.Unmarked() != "not a suspect" || !strings.Contains(s.Caption(), "shaded ones, 2.") {
		t.Errorf("%v %q %s", s.Suspects, s.States, s.Caption())
	}
}

// A column in which no row has anything is left out, and the numbers of the others stay right.
func TestFilledTable(t *testing.T) {
	x := Table{Columns: []string{"a", "b", "c", "d"}, Rows: [][]string{{"1", "", "3", ""}, {"", "", "6", "7"}}, Right: []string{"b", "c"}, Few: []string{"d", "a", "b"}}.filled()
	if !slices.Equal(x.Columns, []string{"a", "c", "d"}) || !slices.Equal(x.Rows[1], []string{"", "6", "7"}) || x.Numeric(0) || !x.Numeric(1) || !slices.Equal(x.Narrow().Columns, []string{"d", "a"}) {
		t.Errorf("%+v", x)
	}
}

// The card of a gate has what the culprit changed, and what else the branch made better.
func TestGateCard(t *testing.T) {
	g := samples.Gate(report.GateRegression, 1, samples.Contrast(report.GateRegression, "n1", 1.2), samples.Contrast(report.GateImprovement, "n2", 0.8))
	g.Culprit = &report.GateCulprit{Commit: samples.CommitID(40), Places: []report.Place{{File: "gemm.cu", Start: 11, End: 12}}}
	l := samples.Slow().Ledger
	l.Forge = "https://forge.example/c/"
	p := New(g, l)
	rows := map[string]Row{}
	for _, r := range p.Cards[0].Rows {
		rows[r.Name] = r
	}
	if len(rows["lines"].Lines) != 3 || rows["culprit"].Link != "https://forge.example/c/"+samples.CommitID(40) || !strings.HasPrefix(rows["better"].Text, "time of n2 -20.0 %") {
		t.Errorf("%+v", rows)
	}
	if d := section(t, p, "diff").Diff; len(d.Lines) < 8 {
		t.Errorf("%+v", d)
	}
	const diff = "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -3,0 +4,1 @@\n+%[1]s\n"
	l.Diffs = map[string]string{samples.CommitID(40): fmt.Sprintf(diff, "NOTES") + fmt.Sprintf(diff, "gemm.cu")}
	g.Culprit.Places = []report.Place{{File: "gemm.cu", Start: 4, End: 4}, {File: "NOTES", Start: 4, End: 4}}
	for _, r := range New(g, l).Cards[0].Rows {
		if r.Name == "lines" && r.Lines[0].Text != "+gemm.cu" {
			t.Errorf("the largest change comes first: %+v", r.Lines)
		}
	}
}

// A candidate is named by the flags that are away from their base, or by those that are not.
func TestAway(t *testing.T) {
	base, top := "a=0,b=0,c=0,d=0,t=1", "a=1,b=1,c=1,d=1,t=3"
	v := view{launches: []report.Launch{{Candidate: bisect.Candidate{Assign: base}, Purpose: bisect.EndGood}, {Candidate: bisect.Candidate{Assign: top}, Purpose: bisect.EndBad}}}
	for assign, want := range map[string]string{
		base: "the base", top: "everything on", "a=0,b=1,c=0,d=0,t=2": "b=1 t=2", "a=1,b=1,c=1,d=1,t=1": "all but t=1",
		"a=1,b=1,c=1,d=0,t=2": "a=1 b=1 c=1 t=2", "a=1,b=1,c=1,d=1,t=2": "a=1 b=1 c=1 d=1 t=2", "b=0,c=0,x=2": "b=0 c=0 x=2", "": "the base",
	} {
		if got := v.away(bisect.Candidate{Assign: assign}); got != want {
			t.Errorf("%s is %q, want %q", assign, got, want)
		}
	}
}

// Each test names its set, and says how it was answered.
func TestTestTable(t *testing.T) {
	tests := section(t, flagsPage(t), "sets").Tables
	m := tests[len(tests)-1]
	if want := []string{"search", "fail, timeout", "run", "2.50 s", "compile=max graph=on"}; !slices.Equal(m.Rows[4], want) || m.States[4] != Bad {
		t.Errorf("row %q (%s), want %q", m.Rows[4], m.States[4], want)
	}
}

func FuzzParseDiff(f *testing.F) {
	f.Add("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n b\n", "x", 1, 1, false)
	f.Fuzz(func(t *testing.T, text, file string, start, end int, old bool) {
		lines := parseDiff(text, []report.Hunk{{File: file, Start: start, End: end, Old: old, Role: sets.Culprit}})
		if want := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1; len(lines) != want {
			t.Fatalf("%d lines of %d", len(lines), want)
		}
	})
}

// What was tested after the search over the commits, parts of the culprit and settings of flags, has bars among
// the phases and is no commit of the range.
func TestPagePartsOfAChange(t *testing.T) {
	in := samples.Slow()
	before := pageOf(samples.Guilty())
	o := in.Launches[0].Outcome
	for _, c := range []bisect.Candidate{{Commit: samples.CommitID(99)}, {Commit: samples.CommitID(40), Assign: "graph=off"}} {
		in.Launches = append(in.Launches, report.Launch{Candidate: c, Purpose: bisect.Searching, Outcome: o})
	}
	p := pageOf(in)
	if was, is := section(t, before, "search").Charts, section(t, p, "search").Charts; !reflect.DeepEqual(was, is) {
		t.Errorf("the pictures of the search have changed: %+v, they were %+v", is, was)
	}
	names := map[string]State{}
	for _, c := range section(t, p, "phases").Charts[0].Picture.(chart.Rows).Rows {
		names[c.Name] = c.State
	}
	for name, want := range map[string]State{samples.CommitID(99)[:10] + " (part of it)": "", samples.CommitID(40)[:10] + ":graph=off": "", samples.CommitID(40)[:10]: "culprit"} {
		if state, there := names[name]; !there || state != want {
			t.Errorf("%q is %q, want %q, among %q", name, state, want, names)
		}
	}
}

// Text shows the rows that changed before others where there are too many, and keeps their order.
func TestBoundedRows(t *testing.T) {
	x := Table{Columns: []string{"row"}, First: []int{5, 11, 17, 99}}
	for i := range 20 {
		x.Rows = append(x.Rows, []string{fmt.Sprint(i)})
	}
	for most, want := range map[int]string{5: "[0 1 5 11 17] 15", 2: "[5 11] 18", 30: fmt.Sprint(allRows(20), 0), 0: fmt.Sprint(allRows(20), 0)} {
		rows, left := x.Bounded(most)
		if got := fmt.Sprint(rows, left); got != want {
			t.Errorf("at most %d: %s, want %s", most, got, want)
		}
	}
}

func allRows(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}
