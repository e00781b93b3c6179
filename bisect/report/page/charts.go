package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// searchChart is the search over the commits: for each metric a dot for every launch and a level for every commit,
// and below them the verdicts. The JSON keys of all charts are what web/page.js reads.
type searchChart struct {
	Metrics []metricPoints `json:"metrics"` // that of the complaint first
	Commits []place        `json:"commits"` // those launched or judged, along the range
	Length  int            `json:"length"`  // of the range, the good end included
	Ordered bool           `json:"ordered"`
}

// place is a commit on the axis, the number of commits behind the good end.
type place struct {
	At      int    `json:"at"`
	Commit  string `json:"commit"`
	Subject string `json:"subject"`
	State   State  `json:"state"` // "" where nothing was judged
	Why     string `json:"why"`
}

// metricPoints are the values of one metric, all in Unit, which is chosen for them by scale.
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

// The metrics that no program sends: of a whole run, and of a phase, of which the name follows.
const (
	wall      = "wall"
	phaseName = "phase."
)

// metrics collects what launches measured, that of the complaint first, then times of the program, other numbers,
// the time of the whole run, and the phases.
func (f *finder) metrics() []metricPoints {
	var all []*metricPoints
	get := func(name, unit string) *metricPoints {
		for _, m := range all {
			if m.Name == name {
				return m
			}
		}
		if unit == "1" { // a ratio, or a count
			unit = ""
		}
		all = append(all, &metricPoints{Name: name, Unit: unit})
		return all[len(all)-1]
	}
	// A limit belongs to a metric even where no launch has come near it: the drawing shows how much room was left.
	get(wall, "s").Limit = f.ledger.Limits[bisect.WholeTrial]
	for i, l := range f.ledger.Launches {
		if !f.searched(l.Candidate) {
			continue
		}
		o := l.Outcome
		add := func(name, unit string, values []float64) {
			if len(values) == 0 {
				return
			}
			x := metricPoint{At: f.at[l.Candidate.Commit], Y: float64(report.Median(values)), Low: slices.Min(values), High: slices.Max(values), N: len(values), Launch: i + 1}
			if o.Class != bisect.OK {
				x.Ended = words.Printable(o.Describe())
			}
			m := get(name, unit)
			m.Points = append(m.Points, x)
		}
		// What did not build has not run, and a wall time of 0 would look like the fastest launch of all.
		if o.Class != bisect.BuildFailed {
			add(wall, "s", []float64{o.Wall})
		}
		for _, s := range o.Series {
			add(words.Printable(bisect.Effect{Metric: s.Metric, Case: s.Case}.Name()), words.Printable(s.Unit), s.Values)
		}
		for _, t := range o.Phases {
			name := phaseName + words.Printable(t.Name)
			add(name, "s", []float64{t.Seconds})
			get(name, "s").Limit = f.ledger.Limits[t.Name]
		}
	}
	var out []metricPoints
	for _, m := range all {
		if len(m.Points) > 0 {
			m.scale()
			m.Levels = f.levelsOf(*m)
			out = append(out, *m)
		}
	}
	slices.SortStableFunc(out, func(a, b metricPoints) int { return cmp.Compare(f.rank(a), f.rank(b)) })
	return out
}

// scale writes times in the unit that people would choose: the one in which the largest of them is at least 0.1.
// Other units stay as the program named them.
func (m *metricPoints) scale() {
	top := 0.0
	for _, x := range m.Points {
		top = max(top, x.Y)
	}
	// One unit for all points of a metric, chosen by the largest: axes have only one.
	factor := 1.0
	for _, unit := range []string{"ms", "µs", "ns"} {
		if m.Unit != "s" && factor == 1 || top*factor >= 0.1 || top == 0 {
			break
		}
		m.Unit, factor = unit, factor*1000
	}
	for i := range m.Points {
		x := &m.Points[i]
		x.Y, x.Low, x.High = x.Y*factor, x.Low*factor, x.High*factor
	}
	m.Limit *= factor
}

// rank orders the metrics: what the complaint or a verdict is about, its cases, times of the program, other numbers,
// the time of the whole run, and its phases.
func (f *finder) rank(m metricPoints) int {
	c := f.Complaint
	if c == nil {
		c = &report.Complaint{}
	}
	metric, phase := report.Text(c.Metric), report.Text(c.Phase)
	switch {
	case f.judgedBy(m.Name), metric != "" && m.Name == metric, phase != "" && m.Name == phaseName+phase:
		return 0
	case metric != "" && strings.HasPrefix(m.Name, metric+" of "): // a case of it
		return 1
	case m.Name == wall:
		return 4
	case strings.HasPrefix(m.Name, phaseName):
		return 5
	case !strings.HasSuffix(m.Unit, "s"): // of s, ms, µs, ns
		return 3
	}
	return 2
}

// judgedBy reports whether the verdicts are about a number.
func (f *finder) judgedBy(name string) bool {
	return slices.ContainsFunc(f.Steps, func(s bisect.Step) bool { return s.Verdict.Metric == name })
}

// levelsOf are the medians over the launches of each commit that ended well, or over all where none did. The interval
// is that of the verdict where it has one, else from the least to the largest.
func (f *finder) levelsOf(m metricPoints) []medianOf {
	// A launch that failed ended at another place of the program: its times say nothing beside those that passed.
	well, any := map[int][]float64{}, map[int][]float64{}
	for _, x := range m.Points {
		any[x.At] = append(any[x.At], x.Y)
		if x.Ended == "" {
			well[x.At] = append(well[x.At], x.Y)
		}
	}
	out := []medianOf{}
	for i, v := range any {
		if well[i] != nil {
			v = well[i]
		}
		out = append(out, medianOf{At: i, Y: float64(report.Median(v)), Low: slices.Min(v), High: slices.Max(v), N: len(v), How: "least to largest launch"})
	}
	slices.SortFunc(out, func(a, b medianOf) int { return cmp.Compare(a.At, b.At) })
	// Without launches of the good end there is nothing that the ratios of the verdicts could be turned into levels by.
	if len(out) == 0 || out[0].At != f.at[f.Ends.Good] {
		return out
	}
	good := out[0].Y
	for _, s := range f.Steps { // the intervals of verdicts are ratios to the good end
		e := s.Verdict.Ratio
		if e == nil || e.Name() != m.Name && !f.judgedBy(m.Name) {
			continue
		}
		for i, l := range out {
			if l.At == f.at[s.Commit] && l.At > 0 {
				out[i].Low, out[i].High, out[i].How = good*e.Low, good*e.High, "95 % interval, against the good end"
			}
		}
	}
	return out
}

// weight is the probability that a commit is the culprit.
type weight struct {
	Name        string  `json:"name"`
	Probability float64 `json:"probability"`
	State       State   `json:"state"`
}

// mostWeights is how many commits the picture of the posterior holds.
const mostWeights = 25

// certainty is how sure the answer is. How it became so, verdict by verdict, stands in the search log.
func (f *finder) certainty() Section {
	s := Section{ID: "certainty", Title: "Certainty"}
	all := f.weights()
	if len(all) == 0 || f.Axis != report.AxisHistory {
		return s
	}
	s.Words = "The probability of being the first bad commit."
	s.Charts = []Chart{{Kind: "who", Label: "Probability of being the first bad commit", Data: all[:min(len(all), mostWeights)]}}
	t := Table{Title: "Probability of being the culprit", Columns: []string{"commit", "probability"}, Right: []int{1}, Detail: true}
	for _, w := range all {
		t.Rows, t.States = append(t.Rows, []string{w.Name, chance(w.Probability)}), append(t.States, w.State)
	}
	s.Tables = []Table{t}
	return s
}

// weights are the culprits and suspects, the likeliest first, then what is left for all others. Confidences of several
// culprits are of different questions and do not add up to one, so that nothing is left over there.
func (f *finder) weights() []weight {
	out := []weight{}
	rest := 1.0
	add := func(commit, subject string, probability float64, state State) {
		out = append(out, weight{words.Printable(words.Short(commit) + " " + cmp.Or(subject, f.ledger.Info(commit).Subject)), probability, state})
		rest -= probability
	}
	for _, c := range f.Culprits {
		add(c.Commit, c.Subject, c.Confidence, Culprit)
	}
	for _, s := range f.Suspects {
		add(s.Commit, s.Subject, s.Probability, Unsure)
	}
	slices.SortStableFunc(out, func(a, b weight) int { return cmp.Compare(b.Probability, a.Probability) })
	if len(out) > 0 && len(f.Culprits) <= 1 && rest > 1e-6 {
		out = append(out, weight{"any other, or none", rest, ""})
	}
	return out
}

// chance is a probability in percent. Unlike [words.Confidence] it may be 100 %: it is of a belief, not of an answer.
func chance(p float64) string { return fmt.Sprintf("%.4g %%", 100*p) }
