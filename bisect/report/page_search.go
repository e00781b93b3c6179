package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// searchChart is the search over the commits: for each metric a dot for every launch and a level for
// every commit, and below them what was judged.
type searchChart struct {
	Metrics []metricPoints `json:"metrics"` // that of the complaint first
	Commits []place        `json:"commits"` // those launched or judged, along the range
	Length  int            `json:"length"`  // of the range, the good end included
	Ordered bool           `json:"ordered"`
}

// place is a commit on the axis.
type place struct {
	At      int    `json:"at"`
	Commit  string `json:"commit"`
	Subject string `json:"subject"`
	State   string `json:"state"` // good, bad, skip, other, unsure, culprit or "" where nothing was judged
	Why     string `json:"why"`
}

// metricPoints are the values of one metric.
type metricPoints struct {
	Name   string        `json:"name"`
	Unit   string        `json:"unit"`
	Limit  float64       `json:"limit"` // 0: none
	Points []metricPoint `json:"points"`
	Levels []medianOf    `json:"levels"`
}

// metricPoint is one launch: the median of what it measured.
type metricPoint struct {
	At     int     `json:"at"`
	Y      float64 `json:"y"`
	Launch int     `json:"launch"` // its number in the table of launches
	Low    float64 `json:"low"`    // least and largest sample in it
	High   float64 `json:"high"`
	N      int     `json:"n"`
	Ended  string  `json:"ended"` // how, unless it ended well
}

// medianOf is the median over the launches of one commit.
type medianOf struct {
	At   int     `json:"at"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	N    int     `json:"n"`
	How  string  `json:"how"` // what the interval is
}

// historyAxis is the axis of a search over commits.
const historyAxis = "history"

// wall is the metric of the time that a whole run took.
const wall = "wall"

func (p *pager) search() Section {
	s := Section{ID: "search", Title: "The search over the commits"}
	commits := p.places()
	if len(commits) == 0 || p.Axis != historyAxis && len(p.Steps) == 0 {
		return s
	}
	c := searchChart{Commits: commits, Metrics: p.metrics(), Length: p.length(), Ordered: p.ordered}
	s.Words = "From the good end on the left to the bad end on the right: a dot for each launch, a bar for the median of a commit with its interval, and below what each commit was judged to be."
	if !p.ordered {
		s.Missing = "The order of the commits is not known any more (the repository does not hold the range): they stand in the order in which they were launched."
	}
	if len(p.in.Launches) > 0 {
		s.Charts = []Chart{{Kind: "search", Label: "Launches, levels and verdicts of the tested commits along the range", Data: c}}
	}
	if len(p.Steps) > 0 {
		s.Tables = []Table{p.stepTable()}
	}
	for _, m := range c.Metrics {
		s.Tables = append(s.Tables, p.levelTable(m))
	}
	return s
}

// length is the number of places on the axis; where the order of the range is known, parts of a change that
// were tested later have their places behind it.
func (p *pager) length() int {
	if p.ordered {
		return len(p.in.Order)
	}
	return len(p.at)
}

// searched reports that a candidate is a commit of the range as it is, rather than a part of a change or a
// setting of flags, which were tested after the search over the commits.
func (p *pager) searched(c bisect.Candidate) bool {
	return p.Axis != historyAxis || c.Assign == "" && (!p.ordered || p.at[c.Commit] < len(p.in.Order))
}

// places are the commits that were launched or judged, along the range, as they were judged last.
func (p *pager) places() []place {
	found := map[string]*place{}
	get := func(id string) *place {
		if found[id] == nil {
			found[id] = &place{At: p.at[id], Commit: id, Subject: printable(p.in.info(id).Subject)}
		}
		return found[id]
	}
	for _, l := range p.in.Launches {
		if p.searched(l.Candidate) {
			get(l.Candidate.Commit)
		}
	}
	for _, s := range p.Steps {
		x := get(s.Commit)
		x.State, x.Why = state(s), printable(s.Verdict.Why)
	}
	for id := range p.culprits {
		get(id).State = "culprit"
	}
	var out []place
	for _, x := range found {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b place) int { return cmp.Compare(a.At, b.At) })
	return out
}

// state is the word of a verdict by which it is drawn.
func state(s step) string { return s.Verdict.Word() }

func (p *pager) stepTable() Table {
	t := Table{Title: "What was judged, in order", Columns: []string{"role", "commit", "subject", "verdict", "sure", "left", "evidence"}, Right: []int{4, 5}}
	for _, s := range p.Steps {
		left, sure, why := "", "", s.Verdict.Why
		if s.Role == "search" {
			left = fmt.Sprint(s.Remaining)
		}
		if s.Verdict.Probability > 0 && s.Verdict.Call != bisect.Untestable {
			sure = fmt.Sprintf("%.4g %%", 100*s.Verdict.Probability)
		}
		if s.Inferred {
			why = "equal inputs: " + why
		}
		t.Rows = append(t.Rows, []string{s.Role, short(s.Commit), p.in.info(s.Commit).Subject, s.Verdict.Word(), sure, left, why})
		t.States = append(t.States, state(s))
	}
	return t
}

func (p *pager) levelTable(m metricPoints) Table {
	t := Table{Title: "Levels of " + m.Name + inUnit(m.Unit), Columns: []string{"commit", "place", "median", "low", "high", "launches", "interval"}, Right: []int{1, 2, 3, 4, 5}, Behind: true}
	ids := map[int]string{}
	for id, i := range p.at {
		ids[i] = id
	}
	for _, l := range m.Levels {
		t.Rows = append(t.Rows, []string{p.named(ids[l.At]), fmt.Sprint(l.At), digits(l.Y), digits(l.Low), digits(l.High), fmt.Sprint(l.N), l.How})
	}
	return t
}

func inUnit(unit string) string {
	if unit == "" {
		return ""
	}
	return ", " + unit
}

// digits is a number with the digits that matter.
func digits(v float64) string { return fmt.Sprintf("%.4g", v) }
