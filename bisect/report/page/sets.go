package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/sets"
)

func setName(parts []string) string { return cmp.Or(strings.Join(parts, " "), "the base") }

// setFacts is what a guilty set rests on.
func setFacts(s report.MinimalSet) []Fact {
	var out facts
	out.add("set", s.Name()+": "+endsAs(s.Class, s.Phase))
	if !s.Certified {
		out.add("verified", "no")
		return out
	}
	if len(s.Culprits) == 0 {
		out.add("verified", "fails in repeated trials; without any of its parts it cannot be judged, so that the parts cannot be told apart")
	} else {
		out.add("verified", "fails in repeated trials, passes without "+strings.Join(s.Culprits, ", or without "))
	}
	if required := s.Required(); len(required) > 0 {
		out.add("required", strings.Join(required, ", ")+" (not decided: without it the run fails in another way)")
	}
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

// setsSection is what was found of sets, and all that was tested.
func setsSection(d *report.Search) Section {
	what := "flags"
	if d.Axis == report.AxisHunks {
		what = "hunks"
	}
	s := Section{ID: "sets", Title: "Sets of " + what + " that were tested"}
	switch {
	case len(d.MinimalSets) > 0 && d.Complete:
		s.Title = "All minimal sets of " + what + " that fail"
	case len(d.MinimalSets) > 0:
		s.Title = "Minimal sets of " + what + " that fail; there may be more"
	}
	c := newLattice(d)
	if len(c.Nodes) == 0 {
		return s
	}
	s.Words = "Every set stands above the smaller sets that it holds; the base, with nothing set, is at the bottom. Guilty, safe and untested sets differ in shape and colour; a dashed ring is an inferred answer. Under a set stands its speed against the base, where it was timed."
	guilty := Table{Title: "Minimal sets that fail", Columns: []string{"set", "ends as", "verified", "causes it", "required"}}
	for _, m := range d.MinimalSets {
		guilty.Rows = append(guilty.Rows, []string{m.Name(), endsAs(m.Class, m.Phase), yes(m.Certified), strings.Join(m.Culprits, ", "), strings.Join(m.Required(), ", ")})
		guilty.States = append(guilty.States, Bad)
	}
	slow := Table{Title: "Slow sets that do not show the complaint", Columns: []string{"set", "against the base", "time"}}
	for _, x := range d.SlowSets {
		slow.Rows = append(slow.Rows, []string{x.Name(), fmt.Sprintf("%.1f times slower", x.Ratio), words.Seconds(x.Seconds)})
	}
	open := Table{Title: "Not excluded: sets within these may fail as well", Columns: []string{"set"}, Most: 3}
	for _, x := range d.NotExcluded {
		open.Rows = append(open.Rows, []string{x.Name()})
	}
	tests := Table{Title: "All tests", Columns: []string{"purpose", "answer", "how", "time", "set"}, Right: []int{3}, Detail: true}
	for _, x := range d.Tests {
		how, took := "run", words.Seconds(x.Seconds)
		if x.Inferred {
			how, took = "inferred", ""
		}
		tests.Rows = append(tests.Rows, []string{string(x.Purpose), strings.TrimSpace(string(x.Answer) + " " + endsAs(x.Class, x.Phase)), how, took, x.Name()})
		tests.States = append(tests.States, answerState(x.Answer))
	}
	s.Charts = []Chart{{Kind: "lattice", Label: "Tested sets, guilty, safe or unresolved, by the number of their members", Data: c.bounded()}}
	s.Tables = []Table{guilty, slow, open, tests}
	return s
}

// claims are the hypotheses of the user, and what the tests say about them.
func claims(d *report.Search) Section {
	t := Table{Title: "Claims and verdicts", Columns: []string{"verdict", "claim", "settings", "with", "others", "evidence"}}
	for _, c := range d.Hypotheses {
		t.Rows = append(t.Rows, []string{strings.ReplaceAll(string(c.Verdict), "-", " "), c.Name, strings.Join(c.Claim, " "), strings.Join(c.With, "; "), strings.Join(c.Others, "; "), c.Why})
		t.States = append(t.States, map[sets.Verdict]State{sets.Confirmed: Bad, sets.Combination: Other, sets.Refuted: Good, sets.NotSupported: Good}[c.Verdict])
	}
	return Section{ID: "claims", Title: "Claims", Tables: []Table{t}}
}

// keep are the safe sets, with their speed against the base.
func keep(d *report.Search) Section {
	t := Table{Title: "Safe sets", Columns: []string{"what", "against the base (95 % CI)", "confirmed", "set"}}
	row := func(x report.SafeSet, what string) {
		timed := ""
		if x.Ratio != nil && x.Low != nil && x.High != nil {
			timed = change(report.Estimate{Value: report.Number(*x.Ratio), Low: report.Number(*x.Low), High: report.Number(*x.High)})
		}
		if metrics := slices.Sorted(maps.Keys(x.Metric)); timed != "" && len(metrics) > 0 {
			timed = metrics[0] + " " + timed
		}
		t.Rows = append(t.Rows, []string{what, timed, yes(x.Confirmed), x.Name()})
		t.States = append(t.States, Good)
	}
	recommended := ""
	if r := d.Recommended; r != nil {
		recommended = r.Name()
		row(*r, "recommended")
	}
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
		t.Notes = []string{"Each set was timed as a whole; kbisect compare shows what one change costs or gains."}
	}
	return Section{ID: "keep", Title: "What you can keep", Tables: []Table{t}}
}

// effectChart is a change with its interval for each of some names.
type effectChart struct {
	Terms []effectBar `json:"terms"`
}

type effectBar struct {
	Name  string  `json:"name"`
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// effects are what single flags and their combinations cost or gain.
func effects(d *report.Search) Section {
	s := Section{ID: "effects", Title: "What the flags cost and gain"}
	s.List = slices.DeleteFunc([]string{report.Text(d.Advice)}, func(x string) bool { return x == "" })
	t := Table{Title: "Effects on the metric", Columns: []string{"flag", "change (95 % CI)"}}
	var c effectChart
	for _, e := range d.Effects {
		name := strings.Join(e.Terms, " with ")
		c.Terms = append(c.Terms, effectBar{words.Printable(name), e.Ratio, e.Low, e.High})
		t.Rows = append(t.Rows, []string{name, words.Interval(e.Ratio, e.Low, e.High, 0.95)})
	}
	if len(c.Terms) > 0 {
		s.Charts = []Chart{{Kind: "effects", Label: "Change of the metric by flag, with 95 % intervals", Data: c}}
		s.Tables = []Table{t}
	}
	return s
}

// lattice is the sets that were tested, by the number of their members, and which holds which.
type lattice struct {
	Nodes []node   `json:"nodes"`
	Edges [][2]int `json:"edges"` // smaller set, larger set
}

type node struct {
	Name        string   `json:"name"`
	Atoms       []string `json:"atoms"`
	State       State    `json:"state"` // "": not tested
	Inferred    bool     `json:"inferred"`
	Minimal     bool     `json:"minimal"` // guilty, and nothing smaller in it is
	Recommended bool     `json:"recommended"`
	Ratio       float64  `json:"ratio"` // of the metric, against the base; 0: not timed
	Low         float64  `json:"low"`
	High        float64  `json:"high"`
	Text        string   `json:"text"`
}

const (
	mostNodes = 120 // in the picture; the table holds all
	mostWhole = 40  // sets of which the whole lattice is drawn, the untested ones too
)

func newLattice(d *report.Search) lattice {
	nodes := map[string]*node{}
	get := func(a report.Assignment) *node {
		parts := a.Parts()
		name := setName(parts)
		if nodes[name] == nil {
			nodes[name] = &node{Name: words.Printable(name), Atoms: parts}
		}
		return nodes[name]
	}
	failed := func(class bisect.Class, phase *string) string {
		return words.Printable(strings.TrimSpace(string(class) + " " + report.Text(phase)))
	}
	for _, x := range d.Tests {
		// A test that was run says more than one that was inferred, whichever came first.
		n := get(x.Assignment)
		if n.State == "" || n.Inferred && !x.Inferred {
			n.State, n.Inferred, n.Text = answerState(x.Answer), x.Inferred, failed(x.Class, x.Phase)
		}
	}
	for _, x := range d.MinimalSets {
		n := get(x.Assignment)
		n.State, n.Minimal, n.Text = Bad, true, failed(x.Class, x.Phase)
	}
	safe := d.SafeSets
	if d.Recommended != nil {
		safe = append(slices.Clone(safe), *d.Recommended)
		get(d.Recommended.Assignment).Recommended = true
	}
	for _, x := range safe {
		n := get(x.Assignment)
		n.State = Good
		if x.Ratio != nil && x.Low != nil && x.High != nil {
			n.Ratio, n.Low, n.High = *x.Ratio, *x.Low, *x.High
		}
	}
	if len(nodes) > 0 {
		addUntested(nodes)
	}
	var c lattice
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		c.Nodes = append(c.Nodes, *nodes[name])
	}
	slices.SortStableFunc(c.Nodes, bySize)
	return c
}

func bySize(a, b node) int { return cmp.Compare(len(a.Atoms), len(b.Atoms)) }

// addUntested adds all further sets of the values seen, where these are few.
func addUntested(nodes map[string]*node) {
	values := map[string][]string{}
	for _, n := range nodes {
		for _, a := range n.Atoms {
			flag, _, _ := strings.Cut(a, "=")
			if !slices.Contains(values[flag], a) {
				values[flag] = append(values[flag], a)
			}
		}
	}
	// The whole lattice of few flags shows at a glance what was never tried; that of many would be unreadable.
	total := 1
	for _, v := range values {
		if total *= 1 + len(v); total > mostWhole {
			return
		}
	}
	all := [][]string{{}}
	for _, flag := range slices.Sorted(maps.Keys(values)) {
		for _, s := range slices.Clone(all) {
			for _, a := range values[flag] {
				all = append(all, append(slices.Clone(s), a))
			}
		}
	}
	for _, atoms := range all {
		slices.Sort(atoms)
		if name := setName(atoms); nodes[name] == nil {
			nodes[name] = &node{Name: words.Printable(name), Atoms: atoms}
		}
	}
}

// bounded keeps the sets that say most where there are too many to draw, and joins each set to the largest ones that
// it holds.
func (c lattice) bounded() lattice {
	if len(c.Nodes) > mostNodes {
		slices.SortStableFunc(c.Nodes, func(a, b node) int { return cmp.Compare(b.weight(), a.weight()) })
		c.Nodes = c.Nodes[:mostNodes]
		slices.SortStableFunc(c.Nodes, bySize)
	}
	c.Edges = [][2]int{}
	for j, large := range c.Nodes {
		var held []int // largest first, so that what is inside one of them is known
		for i := j - 1; i >= 0; i-- {
			small := c.Nodes[i].Atoms
			if len(small) >= len(large.Atoms) || !within(small, large.Atoms) {
				continue
			}
			if !slices.ContainsFunc(held, func(k int) bool { return within(small, c.Nodes[k].Atoms) }) {
				held = append(held, i)
			}
		}
		for _, i := range held {
			c.Edges = append(c.Edges, [2]int{i, j})
		}
	}
	return c
}

func (n node) weight() int {
	switch {
	case n.Minimal || n.Recommended || len(n.Atoms) == 0:
		return 4
	case n.Ratio > 0:
		return 3
	case n.State != "" && !n.Inferred:
		return 2
	case n.State != "":
		return 1
	}
	return 0
}

func within(small, large []string) bool {
	return !slices.ContainsFunc(small, func(a string) bool { return !slices.Contains(large, a) })
}

func answerState(answer sets.Answer) State {
	switch answer {
	case sets.Fail:
		return Bad
	case sets.Pass:
		return Good
	}
	return Skipped
}
