package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/chart"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/sets"
)

// setName names a set by its parts; one without any is the base.
func setName(parts []string) string { return cmp.Or(strings.Join(parts, " "), "the base") }

// guiltySet is the evidence for a guilty set.
func guiltySet(s report.MinimalSet, tests []report.SetTest) []Row {
	var out rows
	// An inferred answer does not show how often a set fails.
	n, failed := 0, 0
	for _, x := range tests {
		if !x.Inferred && x.Name() == s.Name() {
			if n++; x.Answer == sets.Fail {
				failed++
			}
		}
	}
	often := "repeatedly"
	if n > 1 {
		if often = fmt.Sprintf("in %d of %d tests", failed, n); s.Class != bisect.Slow { // which takes several launches a test
			often = fmt.Sprintf("in %d of %d launches", failed, n)
		}
	}
	// Verification is what tells the parts of a set from each other.
	if !s.Certified {
		out.add("confidence", "not verified")
		return out
	}
	if len(s.Culprits) == 0 {
		out.add("confidence", "fails in repeated trials; without any of its parts it cannot be judged, so the parts cannot be separated")
	} else {
		out.add("confidence", fmt.Sprintf("fails %s; passes %s", often, strings.Join(s.Undone(), ", or ")))
	}
	if required := s.Required(); len(required) > 0 {
		out.add("required", strings.Join(required, ", ")+" (not decided: without it the run fails in another way)")
	}
	// Another value of the same flag may be the simplest way out.
	for _, o := range s.Others {
		out.add("instead", o.Name+": "+string(o.Answer))
	}
	return out
}

// endsAs says how a set fails.
func endsAs(class bisect.Class, phase *string) string {
	if class == "" || phase == nil {
		return string(class) + report.Text(phase)
	}
	return string(class) + " in " + *phase
}

// setsSection is what was found of sets, and all tests. Its title says whether there may be more.
func setsSection(d *report.Search) Section {
	what := "flags"
	if d.Axis == report.AxisHunks {
		what = "hunks"
	}
	s := Section{ID: "sets", Title: "Sets of " + what + " that were tested"}
	// "All" is said only where it is proven: a reader would look no further.
	switch {
	case len(d.MinimalSets) > 0 && d.Complete:
		s.Title = "All minimal sets of " + what + " that fail"
	case len(d.MinimalSets) > 0:
		s.Title = "Minimal sets of " + what + " that fail; there may be more"
	}
	// What the list of tests does not tell comes before it.
	slow := Table{Title: "Slow sets that do not show the complaint", Columns: []string{"set", "against the base", "time"}}
	for _, x := range d.SlowSets {
		slow.Rows = append(slow.Rows, []string{x.Name(), fmt.Sprintf("%.1f times slower", x.Ratio), words.Seconds(x.Seconds)})
	}
	open := Table{Title: "Not excluded: sets within these may fail as well", Columns: []string{"set"}, Most: 3}
	for _, x := range d.NotExcluded {
		open.Rows = append(open.Rows, []string{x.Name()})
	}
	s.Tables = []Table{slow, open, testTable(d)}
	if m, ok := chart.Sets(d); ok {
		s.Charts = []Chart{{Label: "Settings that were tested: the flags that differ from the base, and the result", Picture: m}}
	}
	return s
}

// testTable is a row for each test, in the order in which they were made.
func testTable(d *report.Search) Table {
	t := Table{Title: "All tests", Columns: []string{"purpose", "result", "how", "time", "set"}, Right: []string{"time"}, Detail: true}
	for _, x := range d.Tests {
		how, took := "run", words.Seconds(x.Seconds)
		// What follows from other tests took no time.
		if x.Inferred {
			how, took = "inferred", ""
		}
		state, result := chart.Answered(x)
		t.Rows, t.States = append(t.Rows, []string{string(x.Purpose), result, how, took, x.Name()}), append(t.States, state)
	}
	return t
}

// claims are the hypotheses of the user, and what the tests say about them.
// A claim that is confirmed is coloured as bad: it names what breaks the program.
func claims(d *report.Search) Section {
	t := Table{Title: "Claims and verdicts", Columns: []string{"verdict", "claim", "settings", "with", "others", "evidence"}}
	for _, c := range d.Hypotheses {
		t.Rows = append(t.Rows, []string{strings.ReplaceAll(string(c.Verdict), "-", " "), c.Name, strings.Join(c.Claim, " "), strings.Join(c.With, "; "), strings.Join(c.Others, "; "), c.Why})
		t.States = append(t.States, map[sets.Verdict]State{sets.Confirmed: Bad, sets.Combination: Other, sets.Refuted: Good, sets.NotSupported: Good}[c.Verdict])
	}
	return Section{ID: "claims", Title: "Claims", Tables: []Table{t}}
}

// keep are the safe sets with their speed against the base: the recommended one, the one that keeps the most, and
// those to which nothing can be added.
func keep(d *report.Search) Section {
	t := Table{Title: "Safe sets", Columns: []string{"what", "against the base (95 % CI)", "confirmed", "set"}}
	row := func(x report.SafeSet, what string) {
		timed := ""
		if x.Ratio != nil && x.Low != nil && x.High != nil {
			timed = changeOf(*x.Ratio, *x.Low, *x.High)
		}
		if metrics := slices.Sorted(maps.Keys(x.Metric)); timed != "" && len(metrics) > 0 {
			timed = metrics[0] + " " + timed
			if x.Better != "" { // a search that was kept by an older kbisect does not tell
				t.Notes = []string{"Against the base: " + metrics[0] + ", " + x.Better + " is better."}
			}
		}
		confirmed := "no"
		if x.Confirmed {
			confirmed = "yes"
		}
		t.Rows = append(t.Rows, []string{what, timed, confirmed, x.Name()})
		t.States = append(t.States, Good)
	}
	recommended := ""
	if r := d.Recommended; r != nil {
		recommended = r.Name()
		row(*r, "recommended")
	}
	// The recommended set may also be the one that keeps the most, and is then listed as both.
	for _, x := range d.SafeSets {
		switch {
		case d.Recommended != nil && x.Name() == recommended && !x.Maximum:
		case x.Maximum:
			row(x, "the most")
		case x.Maximal:
			row(x, "or")
		}
	}
	if d.Recommended != nil && len(d.Recommended.Parts()) > 1 && d.Recommended.Ratio != nil {
		t.Notes = append(t.Notes, "Each set was timed as a whole; kbisect compare shows what one change costs or gains.")
	}
	return Section{ID: "keep", Title: "What you can keep", Tables: []Table{t}}
}

// effects are what single flags and their combinations cost or gain.
func effects(d *report.Search) Section {
	advice := slices.DeleteFunc([]string{report.Text(d.Advice)}, func(x string) bool { return x == "" })
	t := Table{Title: "Effects on the metric", Columns: []string{"flag", "metric", "better", "change (95 % CI)"}}
	// A term of several flags is what they do together, beyond what each does alone.
	for _, e := range d.Effects {
		t.Rows = append(t.Rows, []string{strings.Join(e.Terms, " with "), e.Metric, e.Better, words.Interval(e.Ratio, e.Low, e.High, 0.95)})
	}
	return Section{ID: "effects", Title: "What the flags cost and gain", List: advice, Tables: []Table{t}}
}
