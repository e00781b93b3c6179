package report_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/sets"
)

// flagSets is a search over three flags, of which one has two values away from its base.
func flagSets(t *testing.T) *report.Sets {
	t.Helper()
	space, err := sets.NewSpace([]sets.Atom{{Name: "graph=on"}, {Name: "level=1", Group: "level", Spare: true}, {Name: "level=2", Group: "level"}, {Name: "fp8=on"}})
	if err != nil {
		t.Fatal(err)
	}
	assign := func(x sets.Set) map[string]string {
		out := map[string]string{}
		for _, i := range x.Atoms() {
			name, value, _ := strings.Cut(space.Atom(i).Name, "=")
			out[name] = value
		}
		return out
	}
	named := func(x sets.Set) string {
		a := assign(x)
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(a)) {
			parts = append(parts, k+"="+a[k])
		}
		return strings.Join(parts, " ")
	}
	return &report.Sets{
		Finding: sets.Finding{Space: space, Result: bisect.Found}, Words: named, Assign: assign,
	}
}

func flagsDocument(s *report.Sets) *report.Search {
	return report.NewSearch(report.Input{Axis: report.AxisFlags, Sets: s, Finding: bisect.Finding{Result: s.Result}, Advice: "turn graph off"})
}

func guilty(verified bool, members ...sets.Member) sets.Guilty {
	g := sets.Guilty{Members: members, Verified: verified, Class: bisect.Timeout, Phase: "warmup"}
	for _, m := range members {
		g.Atoms = g.Atoms.Or(sets.Of(m.Atom))
	}
	return g
}

func TestHeadlineOfSets(t *testing.T) {
	one := guilty(true, sets.Member{Atom: 0, Role: sets.Culprit})
	two := guilty(false, sets.Member{Atom: 0, Role: sets.Culprit}, sets.Member{Atom: 3, Role: sets.Culprit})
	for _, c := range []struct {
		name   string
		result bisect.Result
		sets   func(*report.Sets)
		why    string
		want   string
	}{
		{"one flag", bisect.Found, func(s *report.Sets) { s.Minimal = []sets.Guilty{one} }, "", "graph=on causes a timeout in warmup"},
		{"two flags, not verified", bisect.Found, func(s *report.Sets) { s.Minimal = []sets.Guilty{two} }, "", "fp8=on graph=on together cause a timeout in warmup (not verified)"},
		{"two sets", bisect.Found, func(s *report.Sets) { s.Minimal = []sets.Guilty{one, two} }, "", "graph=on causes a timeout in warmup; 1 more minimal set"},
		{"three sets", bisect.Found, func(s *report.Sets) { s.Minimal = []sets.Guilty{one, two, two} }, "", "graph=on causes a timeout in warmup; 2 more minimal sets"},
		{"two values of one flag", bisect.Found, func(s *report.Sets) {
			s.Minimal = []sets.Guilty{guilty(true, sets.Member{Atom: 1, Role: sets.Carrier}, sets.Member{Atom: 2, Role: sets.Culprit})}
		}, "", "level=2 causes a timeout in warmup"},
		{"ranked", bisect.Found, func(*report.Sets) {}, "", "Flags change `rate` (higher is better): turn graph off"},
		{"spent", bisect.Inconclusive, func(s *report.Sets) { s.Spent = true }, "", "Inconclusive: the budget ran out before a cause was confirmed"},
		{"unclear", bisect.Inconclusive, func(*report.Sets) {}, "too noisy", "Inconclusive: too noisy"},
		{"open", bisect.Inconclusive, func(*report.Sets) {}, "", "Inconclusive: no cause was confirmed"},
		{"the ends do not differ", bisect.NoDifference, func(*report.Sets) {}, "both pass", "No difference between the ends: both pass"},
	} {
		s := flagSets(t)
		c.sets(s)
		in := report.Input{Axis: report.AxisFlags, Sets: s, Finding: bisect.Finding{Result: c.result, Ends: bisect.Ends{Why: c.why}}, Advice: "turn graph off"}
		if c.name == "ranked" {
			in.Terms = []report.Term{{Terms: []string{"graph"}, Metric: "rate", Better: "higher", Ratio: 0.5}}
		}
		if got := report.NewSearch(in).Headline; got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// Of a guilty set the document says which parts cause the complaint and which only carry it; a lower value of a flag
// that is guilty itself is a step towards it, and nothing that a reader has to keep.
func TestMinimalSets(t *testing.T) {
	s := flagSets(t)
	g := guilty(true, sets.Member{Atom: 0, Role: sets.Carrier}, sets.Member{Atom: 1, Role: sets.Carrier}, sets.Member{Atom: 2, Role: sets.Culprit})
	g.Others = []sets.Other{{Atom: 1, Answer: sets.Pass}}
	s.Minimal, s.Complete = []sets.Guilty{g}, true
	s.NotExcluded = []sets.Set{sets.Of(0, 3)}
	s.Slow = []sets.Guilty{{Atoms: sets.Of(3), Slow: 2.5, Seconds: 9}}
	s.Tests = []sets.Test{
		{Request: sets.Request{Set: sets.Of(0), Purpose: sets.Prefix}, Result: sets.Result{Answer: sets.Pass, Seconds: 1.5}},
		{Request: sets.Request{Set: sets.Of(0, 2), Purpose: sets.AllChanges}, Result: sets.Result{Answer: sets.Fail, Class: bisect.Timeout, Phase: "warmup"}, Inferred: true},
	}
	d := flagsDocument(s)
	if len(d.MinimalSets) != 1 || !d.Complete {
		t.Fatalf("%+v, complete %v", d.MinimalSets, d.Complete)
	}
	m := d.MinimalSets[0]
	if !slices.Equal(m.Culprits, []string{"level=2"}) || !slices.Equal(m.Carriers, []string{"graph=on", "level=1"}) || !slices.Equal(m.Required(), []string{"graph=on"}) {
		t.Errorf("culprits %q, carriers %q, required %q", m.Culprits, m.Carriers, m.Required())
	}
	var kept report.MinimalSet // as the store keeps it
	if text, err := json.Marshal(m); err != nil || json.Unmarshal(text, &kept) != nil || !slices.Equal(kept.Required(), []string{"graph=on"}) {
		t.Errorf("%v: required of a past search: %q", err, kept.Required())
	}
	if diff := cmp.Diff(m.Others, []report.ValueAnswer{{Name: "level=1", Answer: sets.Pass}}); diff != "" {
		t.Error(diff)
	}
	if d.NotExcluded[0].Name() != "fp8=on graph=on" || d.SlowSets[0].Name() != "fp8=on" || d.SlowSets[0].Ratio != 2.5 || d.SlowSets[0].Seconds != 9 {
		t.Errorf("not excluded %+v, slow %+v", d.NotExcluded, d.SlowSets)
	}
	if x := d.Tests; len(x) != 2 || x[0].Name() != "graph=on" || x[0].Phase != nil || !x[1].Inferred || report.Text(x[1].Phase) != "warmup" || x[1].Assign["level"] != "2" {
		t.Errorf("%+v", x)
	}
}

// A safe set has numbers only where it was timed, and null otherwise.
func TestSafeSets(t *testing.T) {
	s := flagSets(t)
	timed := sets.Safe{Atoms: sets.Of(0, 3), Maximum: true, Confirmed: true, Effect: &bisect.Effect{Metric: "time", Ratio: 0.8, Low: 0.79, High: 0.81}}
	s.Safe = []sets.Safe{timed, {Atoms: sets.Of(2), Maximal: true}, {Atoms: sets.Of(3), Effect: &bisect.Effect{Ratio: 7}}}
	s.Recommended, s.Levels = &timed, map[string]float64{sets.Of(0, 3).Key(): 34.2}
	d := flagsDocument(s)
	if x := d.SafeSets[0]; x.Ratio == nil || *x.Ratio != 0.8 || *x.Low != 0.79 || *x.High != 0.81 || x.Metric["time"] != 34.2 || !x.Maximum || !x.Confirmed {
		t.Errorf("timed: %+v", x)
	}
	for _, x := range d.SafeSets[1:] {
		if x.Ratio != nil || x.Low != nil || x.High != nil || len(x.Metric) != 0 {
			t.Errorf("not timed: %+v", x)
		}
	}
	if d.Recommended == nil || d.Recommended.Name() != "fp8=on graph=on" {
		t.Errorf("recommended: %+v", d.Recommended)
	}
	s.Levels = nil
	if x := flagsDocument(s).SafeSets[0]; len(x.Metric) != 0 || x.Ratio == nil {
		t.Errorf("without its level: %+v", x)
	}
}

func TestHypotheses(t *testing.T) {
	s := flagSets(t)
	s.Claims = []sets.Judged{{Name: "graphs hang", Atoms: sets.Of(0), Verdict: sets.Combination, With: []sets.Set{sets.Of(2), sets.Of(2, 3)}, Others: []sets.Set{sets.Of(3)}, Why: "passes alone"}}
	want := []report.Hypothesis{{Name: "graphs hang", Claim: []string{"graph=on"}, Verdict: sets.Combination, With: []string{"level=2", "fp8=on level=2"}, Others: []string{"fp8=on"}, Why: "passes alone"}}
	if diff := cmp.Diff(flagsDocument(s).Hypotheses, want); diff != "" {
		t.Error(diff)
	}
	s.Assign = nil // of hunks
	if got := flagsDocument(s).Hypotheses[0]; !slices.Equal(got.With, []string{"level=2", "level=2 fp8=on"}) {
		t.Errorf("%+v", got)
	}
}

// Hunks keep their place and text and get the role that the search gave them.
func TestHunkSets(t *testing.T) {
	s := flagSets(t)
	s.Assign = nil
	s.Hunks = []report.Hunk{{File: "a.cu", Start: 3, End: 9}, {File: "b.cu", Start: 7, End: 7, Old: true}, {File: "c.bin"}, {File: "d.cu", Start: 1, End: 2}}
	g := guilty(true, sets.Member{Atom: 0, Role: sets.Culprit}, sets.Member{Atom: 1, Role: sets.Carrier})
	s.Minimal = []sets.Guilty{g}
	d := report.NewSearch(report.Input{Axis: report.AxisHunks, Sets: s, Finding: bisect.Finding{Result: bisect.Found}})
	m := d.MinimalSets[0]
	if len(m.Assign) != 0 || !slices.Equal(m.Parts(), []string{"a.cu:3-9", "b.cu:7 (before the change)"}) {
		t.Errorf("%v %q", m.Assign, m.Parts())
	}
	if len(m.Hunks) != 2 || m.Hunks[0].Role != sets.Culprit || m.Hunks[1].Role != sets.Carrier {
		t.Errorf("%+v", m.Hunks)
	}
	if s.Hunks[0].Role != "" {
		t.Error("the search's own hunks were changed")
	}
	if got := s.Guilty(g); !slices.Equal(got, m.Hunks) {
		t.Errorf("%+v", got)
	}
	if got := (report.Hunk{File: "c.bin"}).Where(); got != "c.bin" {
		t.Errorf("a whole file: %s", got)
	}
	if required := m.Required(); !slices.Equal(required, []string{"level=1"}) {
		t.Errorf("a hunk is no lower value of another: %q", required)
	}
}
