package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// phaseChart is the time by phase: a stacked bar for each candidate, and each phase against its limit.
type phaseChart struct {
	Phases     []string    `json:"phases"`
	Limits     []float64   `json:"limits"` // by phase, seconds; 0: none
	Whole      float64     `json:"whole"`  // limit of a run without its build; 0: none
	Candidates []candidate `json:"candidates"`
}

// candidate is one bar: medians over the launches.
type candidate struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`
	Seconds []float64 `json:"seconds"` // by phase
	Worst   []float64 `json:"worst"`   // by phase, over all launches
	N       int       `json:"n"`
	Ended   string    `json:"ended"` // how, unless all ended well
}

// mostBars is how many candidates the picture of the phases holds; those nearest to the culprit stay.
const mostBars = 24

func (p *pager) phases() Section {
	s := Section{ID: "phases", Title: "Phases of each candidate, and their limits"}
	c := p.phaseChart()
	if len(c.Phases) == 0 {
		return s
	}
	s.Words = "Where the time of a candidate goes: medians over its launches. The second picture holds the longest time of each phase against the limit of that phase."
	s.Tables = []Table{c.table()}
	if t := p.coldWarm(); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	if n := len(c.Candidates); n > mostBars {
		c.Candidates = p.nearest(c.Candidates)
		s.Words += fmt.Sprintf(" The pictures hold the %d candidates nearest to the answer, of %d.", mostBars, n)
	}
	s.Charts = []Chart{{Kind: "phases", Label: "Seconds by phase for each candidate, stacked", Data: c}}
	if c.Whole > 0 || slices.ContainsFunc(c.Limits, func(l float64) bool { return l > 0 }) {
		s.Charts = append(s.Charts, Chart{Kind: "limits", Label: "Longest time of each phase as a share of its limit", Data: c})
	}
	return s
}

func (p *pager) phaseChart() phaseChart {
	c := phaseChart{Whole: p.in.Limits[bisect.WholeTrial]}
	index := map[string]int{}
	for _, r := range p.in.Economics() {
		index[r.Phase] = len(c.Phases)
		c.Phases = append(c.Phases, printable(r.Phase))
		c.Limits = append(c.Limits, p.in.Limits[r.Phase])
	}
	times := map[string][][]float64{}
	ended, count := map[string]string{}, map[string]int{}
	brief, outcomes := map[string]bisect.Candidate{}, map[string]string{}
	for _, l := range p.in.Launches {
		id := l.Candidate.String()
		if times[id] == nil {
			times[id], brief[id] = make([][]float64, len(c.Phases)), l.Candidate
		}
		count[id]++
		for _, t := range l.Outcome.Phases {
			times[id][index[t.Name]] = append(times[id][index[t.Name]], t.Seconds)
		}
		if outcomes[id] == "" || l.Outcome.Class != bisect.OK {
			outcomes[id] = launchState(l.Outcome.Class)
		}
		if l.Outcome.Class != bisect.OK {
			ended[id] = printable(l.Outcome.Describe())
		}
	}
	states := map[string]string{}
	for _, x := range p.places() {
		states[x.Commit] = x.State
	}
	for _, id := range p.candidates() {
		x := candidate{Name: printable(p.candidateName(brief[id])), N: count[id], Ended: ended[id]}
		switch {
		case p.Axis != historyAxis:
			x.State = outcomes[id]
		case p.searched(brief[id]):
			x.State = states[brief[id].Commit]
		}
		for _, v := range times[id] {
			x.Seconds = append(x.Seconds, max(0, median(v)))
			x.Worst = append(x.Worst, slices.Max(append(v, 0)))
		}
		c.Candidates = append(c.Candidates, x)
	}
	return c
}

// candidates are the keys of what was launched, along the range.
func (p *pager) candidates() []string {
	var out []string
	at := map[string]int{}
	for _, l := range p.in.Launches {
		id := l.Candidate.String()
		if _, known := at[id]; !known {
			at[id] = p.at[l.Candidate.Commit]
			out = append(out, id)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return at[a] - at[b] })
	return out
}

func (p *pager) candidateName(c bisect.Candidate) string {
	name := short(c.Commit)
	if p.Axis == "flags" {
		return cut(p.away(c), 48)
	}
	a, b := p.sides()
	switch {
	case p.isComparison() && a.Commit != b.Commit && (c.Commit == a.Commit || c.Commit == b.Commit):
		side, other := p.names()
		name += " (" + map[bool]string{true: side, false: other}[c.Commit == a.Commit] + ")"
	case p.in.Good.ID == c.Commit && c.Assign == "" && !p.isComparison():
		name += " (good end)"
	}
	if c.Assign != "" {
		name += ":" + c.Assign
	} else if !p.searched(c) {
		name += " (part of it)"
	}
	return cut(name, 48)
}

// away names a candidate by the flags that it has set away from their base, or, where these are most of
// them, by those that it leaves at their base.
func (p *pager) away(c bisect.Candidate) string {
	base, top, all := p.assigned(bisect.EndGood), p.assigned(bisect.EndBad), words(c.Assign)
	if len(all) != len(base) || len(all) != len(top) {
		return setWords(all)
	}
	var on, off []string
	whole := true // no flag has a value between the ends
	for i, word := range all {
		switch {
		case word == base[i] && word != top[i]:
			off = append(off, word)
		case word != base[i]:
			on, whole = append(on, word), whole && word == top[i]
		}
	}
	switch {
	case !whole || len(on) <= 3 || len(off) >= len(on):
		return setWords(on)
	case len(off) == 0:
		return "everything on"
	}
	return "all but " + strings.Join(off, " ")
}

// assigned are the flags of an end.
func (p *pager) assigned(end bisect.Purpose) []string {
	i := slices.IndexFunc(p.in.Launches, func(l Launch) bool { return l.Purpose == end })
	if i < 0 {
		return nil
	}
	return words(p.in.Launches[i].Candidate.Assign)
}

func words(assign string) []string {
	return strings.FieldsFunc(assign, func(r rune) bool { return r == ',' })
}

// nearest keeps the ends and the candidates around the culprit, or around the first bad one.
func (p *pager) nearest(all []candidate) []candidate {
	centre := slices.IndexFunc(all, func(c candidate) bool { return c.State == "culprit" })
	if centre < 0 {
		centre = max(0, slices.IndexFunc(all, func(c candidate) bool { return c.State == "bad" }))
	}
	from := min(max(1, centre-mostBars/2), len(all)-mostBars+1)
	middle := slices.Clone(all[from : from+mostBars-2])
	return append(append([]candidate{all[0]}, middle...), all[len(all)-1])
}

func (c phaseChart) table() Table {
	t := Table{Title: "Seconds by phase: medians, after / the longest", Columns: []string{"candidate", "launches"}, Right: []int{1}, Behind: true}
	for i, name := range c.Phases {
		t.Columns = append(t.Columns, name)
		t.Right = append(t.Right, i+2)
	}
	t.Columns = append(t.Columns, "ended")
	limits := []string{"limit", ""}
	for _, l := range c.Limits {
		limits = append(limits, orNone(l))
	}
	whole := ""
	if c.Whole > 0 {
		whole = "whole run: " + secs(c.Whole)
	}
	t.Rows = append(t.Rows, append(limits, whole))
	t.States = append(t.States, "")
	for _, x := range c.Candidates {
		row := []string{x.Name, fmt.Sprint(x.N)}
		for i, v := range x.Seconds {
			cell := digits(v)
			if x.N > 1 {
				cell += " / " + digits(x.Worst[i])
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, append(row, x.Ended))
		t.States = append(t.States, x.State)
	}
	return t
}

func orNone(limit float64) string {
	if limit == 0 {
		return "none"
	}
	return secs(limit)
}

func (p *pager) coldWarm() Table {
	t := Table{Title: "First process with empty caches (cold) and later ones (warm), medians", Columns: []string{"phase", "good cold", "good warm", "bad cold", "bad warm"}, Right: []int{1, 2, 3, 4}}
	for _, r := range p.in.ColdWarm() {
		t.Rows = append(t.Rows, []string{r.Phase, orDash(r.GoodCold), orDash(r.GoodWarm), orDash(r.BadCold), orDash(r.BadWarm)})
	}
	return t
}
