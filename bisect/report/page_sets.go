package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// flagSet is a set of flags or hunks in a finding document.
type flagSet struct {
	Assign    map[string]string  `json:"assign"`
	Hunks     []mark             `json:"hunks"`
	Class     string             `json:"class"`
	Phase     string             `json:"phase"`
	Certified bool               `json:"certified"`
	Culprits  []string           `json:"culprits"`
	Carriers  []string           `json:"carriers"`
	Purpose   string             `json:"purpose"`
	Answer    string             `json:"answer"` // pass, fail, unresolved
	Inferred  bool               `json:"inferred"`
	Seconds   float64            `json:"seconds"`
	Metric    map[string]float64 `json:"metric"`
	Ratio     float64            `json:"ratio"`
	Low       float64            `json:"low"`
	High      float64            `json:"high"`
	Maximum   bool               `json:"maximum"`
	Maximal   bool               `json:"maximal"`
	Confirmed bool               `json:"confirmed"`
}

// claim is a hypothesis of the user and what became of it.
type claim struct {
	Name    string   `json:"name"`
	Claim   []string `json:"claim"`
	Verdict string   `json:"verdict"`
	With    []string `json:"with"`
	Others  []string `json:"others"`
	Why     string   `json:"why"`
}

// atoms are what is set, in a fixed order.
func (s flagSet) atoms() []string {
	out := []string{}
	for name, value := range s.Assign {
		out = append(out, name+"="+value)
	}
	for _, h := range s.Hunks {
		out = append(out, h.where())
	}
	slices.Sort(out)
	return out
}

// words names a set for people.
func (s flagSet) words() string { return setWords(s.atoms()) }

func setWords(atoms []string) string {
	if len(atoms) == 0 {
		return "the base"
	}
	return strings.Join(atoms, " ")
}

// latticeChart is the sets that were tested, by the number of their members, and which holds which.
type latticeChart struct {
	Nodes []latticeNode `json:"nodes"`
	Edges [][2]int      `json:"edges"` // smaller set, larger set
}

type latticeNode struct {
	Name        string   `json:"name"`
	Atoms       []string `json:"atoms"`
	State       string   `json:"state"` // bad, good, skip or "" (not tested)
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

func (p *pager) lattice() Section {
	s := Section{ID: "sets", Title: "The sets of flags"}
	if p.Axis == "hunks" {
		s.Title = "The sets of hunks"
	}
	c := p.latticeChart()
	if len(c.Nodes) == 0 {
		return s
	}
	s.Words = "Every set stands above the smaller sets that it holds; the base, with nothing set, is at the bottom. Guilty, safe and untested sets differ in shape and colour; a dashed ring is an answer that was inferred. Under a set stands its speed against the base, where it was timed."
	switch {
	case p.Complete && len(p.MinimalSets) > 0:
		s.Words += " The minimal guilty sets are all there are."
	case len(p.MinimalSets) > 0:
		s.Words += " There may be more guilty sets than were found."
	}
	s.Charts = []Chart{{Kind: "lattice", Label: "Tested sets, guilty, safe or unresolved, by the number of their members", Data: c.bounded()}}
	s.Tables = []Table{p.guiltyTable(), p.testTable()}
	return s
}

func (p *pager) latticeChart() latticeChart {
	nodes := map[string]*latticeNode{}
	get := func(s flagSet) *latticeNode {
		name := s.words()
		if nodes[name] == nil {
			nodes[name] = &latticeNode{Name: printable(name), Atoms: s.atoms()}
		}
		return nodes[name]
	}
	for _, x := range p.Tests {
		n := get(x)
		if n.State == "" || n.Inferred && !x.Inferred {
			n.State, n.Inferred = answerState(x.Answer), x.Inferred
			n.Text = printable(strings.TrimSpace(x.Class + " " + x.Phase))
		}
	}
	for _, x := range p.MinimalSets {
		n := get(x)
		n.State, n.Minimal, n.Text = "bad", true, printable(strings.TrimSpace(x.Class+" "+x.Phase))
	}
	safe := p.SafeSets
	if p.Recommended != nil {
		safe = append(slices.Clone(safe), *p.Recommended)
		get(*p.Recommended).Recommended = true
	}
	for _, x := range safe {
		n := get(x)
		n.State, n.Ratio, n.Low, n.High = "good", x.Ratio, x.Low, x.High
	}
	if len(nodes) > 0 {
		addUntested(nodes)
	}
	var c latticeChart
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		c.Nodes = append(c.Nodes, *nodes[name])
	}
	slices.SortStableFunc(c.Nodes, func(a, b latticeNode) int { return cmp.Compare(len(a.Atoms), len(b.Atoms)) })
	return c
}

// addUntested adds all further sets of the values seen, where these are few.
func addUntested(nodes map[string]*latticeNode) {
	values := map[string][]string{}
	for _, n := range nodes {
		for _, a := range n.Atoms {
			flag, _, _ := strings.Cut(a, "=")
			if !slices.Contains(values[flag], a) {
				values[flag] = append(values[flag], a)
			}
		}
	}
	total := 1
	for _, v := range values {
		if total *= 1 + len(v); total > mostWhole {
			return
		}
	}
	sets := [][]string{{}}
	for _, flag := range slices.Sorted(maps.Keys(values)) {
		for _, s := range slices.Clone(sets) {
			for _, a := range values[flag] {
				sets = append(sets, append(slices.Clone(s), a))
			}
		}
	}
	for _, atoms := range sets {
		slices.Sort(atoms)
		if name := setWords(atoms); nodes[name] == nil {
			nodes[name] = &latticeNode{Name: printable(name), Atoms: atoms}
		}
	}
}

// bounded keeps the sets that say most where there are too many to draw, and joins each set to the
// largest ones that it holds.
func (c latticeChart) bounded() latticeChart {
	if len(c.Nodes) > mostNodes {
		slices.SortStableFunc(c.Nodes, func(a, b latticeNode) int { return cmp.Compare(b.weight(), a.weight()) })
		c.Nodes = c.Nodes[:mostNodes]
		slices.SortStableFunc(c.Nodes, func(a, b latticeNode) int { return cmp.Compare(len(a.Atoms), len(b.Atoms)) })
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

func (n latticeNode) weight() int {
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

func answerState(answer string) string {
	switch answer {
	case "fail":
		return "bad"
	case "pass":
		return "good"
	}
	return "skip"
}

func (p *pager) guiltyTable() Table {
	t := Table{Title: "Minimal guilty sets", Columns: []string{"set", "ends as", "certified", "to blame", "only needed"}}
	for _, s := range p.MinimalSets {
		t.Rows = append(t.Rows, []string{s.words(), endsAs(s.Class, s.Phase), yes(s.Certified), strings.Join(s.Culprits, ", "), strings.Join(s.Carriers, ", ")})
		t.States = append(t.States, "bad")
	}
	return t
}

// endsAs says how a set fails.
func endsAs(class, phase string) string {
	if class == "" || phase == "" {
		return class + phase
	}
	return class + " in " + phase
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (p *pager) testTable() Table {
	t := Table{Title: "All tests of sets", Columns: []string{"set", "purpose", "answer", "how", "seconds"}, Right: []int{4}, Behind: true}
	for _, x := range p.Tests {
		how := "run"
		if x.Inferred {
			how = "inferred"
		}
		t.Rows = append(t.Rows, []string{x.words(), x.Purpose, strings.TrimSpace(x.Answer + " " + endsAs(x.Class, x.Phase)), how, digits(x.Seconds)})
		t.States = append(t.States, answerState(x.Answer))
	}
	return t
}
