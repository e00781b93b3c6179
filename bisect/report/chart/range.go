package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Range is a search over commits as it is drawn: where each commit stands, what was launched, and how it was judged.
// Places count commits from the good end, which is at 0.
type Range struct {
	*report.Search
	Ledger   report.Ledger
	At       map[string]int // place by commit, the good end at 0
	Length   int            // places
	Places   []Place        // that were launched or judged, along the range
	Searched func(bisect.Candidate) bool
}

// Place is a commit on the axis; At is the number of commits behind the good end. Subject and Why are printable.
type Place struct {
	At      int
	Commit  string
	Subject string
	State   State // "" where nothing was judged
	Why     string
}

// Metric holds the values of one metric, all in Unit, which is chosen for them.
type Metric struct {
	Name   string
	Unit   string
	Limit  float64 // 0: none
	Points []Point
	Levels []Level
	of     string // the metric of which this is one case, or the only value; "" for one that no program sends
	all    string // the metric of which this is all cases together
}

// Point is one launch: the median of what it measured, with its least and largest sample, in the unit of the metric.
type Point struct {
	At     int
	Y      float64
	Launch int     // its number in the table of launches
	Low    float64 // least and largest sample in it
	High   float64
	N      int
	Ended  string // how, unless it ended well
}

// Level is the median over the launches of one commit, with an interval; How says which.
type Level struct {
	At           int
	Y, Low, High float64
	N            int
	How          string // what the interval is
}

// The metrics that no program sends: of a whole run, and of a phase, of which the name follows.
const (
	wall      = "wall"
	phaseName = "phase."
)

// Metrics collects what launches measured: the metric of the complaint first, then times of the program, other
// numbers, the time of the whole run, and the phases; at most mostMetrics, and phases only if one comes first.
func (r Range) Metrics() []Metric {
	var all []*Metric
	// The first launch to name a metric says its unit and its place among metrics of equal rank.
	get := func(name, unit string) *Metric {
		for _, m := range all {
			if m.Name == name {
				return m
			}
		}
		if unit == "1" { // a ratio, or a count
			unit = ""
		}
		all = append(all, &Metric{Name: name, Unit: unit})
		return all[len(all)-1]
	}
	// A limit belongs to a metric even where no launch has come near it: the drawing shows how much room was left.
	get(wall, "s").Limit = r.Ledger.Limits[bisect.WholeTrial]
	for i, l := range r.Ledger.Launches {
		if !r.Searched(l.Candidate) {
			continue
		}
		o := l.Outcome
		add := func(name, unit string, values []float64) {
			if len(values) == 0 {
				return
			}
			x := Point{At: r.At[l.Candidate.Commit], Y: float64(report.Median(values)), Low: slices.Min(values), High: slices.Max(values), N: len(values), Launch: i + 1}
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
			name, unit := words.Printable(bisect.Effect{Metric: s.Metric, Case: s.Case}.Name()), words.Printable(s.Unit)
			add(name, unit, s.Values)
			get(name, unit).of = words.Printable(s.Metric)
		}
		for _, t := range o.Phases {
			name := phaseName + words.Printable(t.Name)
			add(name, "s", []float64{t.Seconds})
			get(name, "s").Limit = r.Ledger.Limits[t.Name]
		}
	}
	all = append(r.allCases(), all...)
	var out []Metric
	for _, m := range all {
		if len(m.Points) > 0 {
			m.scale()
			m.Levels = r.levels(*m)
			out = append(out, *m)
		}
	}
	slices.SortStableFunc(out, func(a, b Metric) int { return cmp.Compare(r.rank(a), r.rank(b)) })
	// Phases that nothing was searched for have pictures of their own, candidate by candidate (see Phases).
	for i, m := range out {
		if i > 0 && (i == mostMetrics || r.rank(m) == 5) {
			return out[:i]
		}
	}
	return out
}

// mostMetrics is how many metrics are drawn along the range, one picture each.
const mostMetrics = 6

// allCases is, for each metric of several cases, their geometric mean against the good end: what verdicts on the
// metric as a whole are about. Only launches that have every case count, since a mean over fewer would be another
// number.
func (r Range) allCases() (out []*Metric) {
	cases, base := map[string][]string{}, map[[2]string][]float64{}
	value := map[[2]string]map[int]float64{} // by metric and case, by launch
	var order []string
	for i, l := range r.Ledger.Launches {
		if !r.Searched(l.Candidate) || l.Outcome.Class != bisect.OK {
			continue
		}
		for _, s := range l.Outcome.Series {
			v := float64(report.Median(s.Values))
			if s.Case == "" || !(v > 0) {
				continue
			}
			k := [2]string{s.Metric, s.Case}
			if value[k] == nil {
				value[k] = map[int]float64{}
				if cases[s.Metric] == nil {
					order = append(order, s.Metric)
				}
				cases[s.Metric] = append(cases[s.Metric], s.Case)
			}
			if value[k][i] = v; r.At[l.Candidate.Commit] == 0 {
				base[k] = append(base[k], v)
			}
		}
	}
	for _, metric := range order {
		if len(cases[metric]) < 2 {
			continue
		}
		m := &Metric{Name: words.Printable(metric) + ", all cases (geometric mean)", all: words.Printable(metric)}
		for i, l := range r.Ledger.Launches {
			sum, n := 0.0, 0
			for _, c := range cases[metric] {
				k := [2]string{metric, c}
				if v, is := value[k][i]; is && len(base[k]) > 0 {
					sum, n = sum+math.Log(v/float64(report.Median(base[k]))), n+1
				}
			}
			if n == len(cases[metric]) {
				y := math.Exp(sum / float64(n))
				m.Points = append(m.Points, Point{At: r.At[l.Candidate.Commit], Y: y, Low: y, High: y, N: 1, Launch: i + 1})
			}
		}
		out = append(out, m)
	}
	return out
}

// scale converts times to the largest unit in which the largest of them is at least 0.1; other units stay as the
// program named them. All points share one unit, as the axis has only one.
func (m *Metric) scale() {
	top := 0.0
	for _, x := range m.Points {
		top = max(top, x.Y)
	}
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

// rank orders the metrics, smallest first: what the complaint or a verdict is about (0), its cases (1), times of the
// program (2), other numbers (3), the time of the whole run (4), and its phases (5).
func (r Range) rank(m Metric) int {
	c := r.Complaint
	if c == nil {
		c = &report.Complaint{}
	}
	metric, phase := report.Text(c.Metric), report.Text(c.Phase)
	switch {
	case r.judgedBy(m), metric != "" && (m.Name == metric || m.all == metric), phase != "" && m.Name == phaseName+phase:
		return 0
	case metric != "" && m.of == words.Printable(metric):
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

// judgedBy reports whether some verdict is about a metric.
func (r Range) judgedBy(m Metric) bool {
	return slices.ContainsFunc(r.Steps, func(s bisect.Step) bool {
		return s.Verdict.Metric != "" && (s.Verdict.Metric == m.Name || s.Verdict.Metric == m.all)
	})
}

// levels are the medians over the launches of each commit that ended well, or over all its launches where none did,
// ordered by place. The interval is that of the verdict where there is one, else from the least to the largest launch.
func (r Range) levels(m Metric) []Level {
	// A launch that failed ended at another place of the program: its times say nothing beside those that passed.
	well, any := map[int][]float64{}, map[int][]float64{}
	for _, x := range m.Points {
		any[x.At] = append(any[x.At], x.Y)
		if x.Ended == "" {
			well[x.At] = append(well[x.At], x.Y)
		}
	}
	out := []Level{}
	// A commit of which every launch failed still has a level: how long they took.
	for i, v := range any {
		if well[i] != nil {
			v = well[i]
		}
		out = append(out, Level{At: i, Y: float64(report.Median(v)), Low: slices.Min(v), High: slices.Max(v), N: len(v), How: "least to largest launch"})
	}
	slices.SortFunc(out, func(a, b Level) int { return cmp.Compare(a.At, b.At) })
	// Without launches of the good end there is nothing that the ratios of the verdicts could be turned into levels by.
	if len(out) == 0 || out[0].At != r.At[r.Ends.Good] {
		return out
	}
	good := out[0].Y
	for _, s := range r.Steps { // the intervals of verdicts are ratios to the good end
		e := s.Verdict.Ratio
		if e == nil || e.Name() != m.Name && !r.judgedBy(m) {
			continue
		}
		for i, l := range out {
			if l.At == r.At[s.Commit] && l.At > 0 {
				out[i].Low, out[i].High, out[i].How = good*e.Low, good*e.High, "95 % interval, against the good end"
			}
		}
	}
	return out
}

// axis is the scale of a metric. Its limit is on it only where it is less than three times the largest value.
func (m Metric) axis() Axis {
	var values []float64
	for _, p := range m.Points {
		values = append(values, p.Y)
	}
	for _, l := range m.Levels {
		values = append(values, l.Low, l.High)
	}
	if m.all != "" {
		return ratios(m.all+", all cases, against the good end", values...)
	}
	name := m.Name
	if m.Unit != "" {
		name += ", " + strings.TrimSpace(words.Unit(m.Unit))
	}
	a := scale(name, false, values...)
	if m.Limit > a.Max && m.Limit < 3*a.Max {
		a.Max = m.Limit * 1.04
	}
	return a
}

// value is a value of a metric with its unit, for people.
func (m Metric) value(v float64) string {
	if m.all != "" {
		return words.Change(v)
	}
	return words.Figure(v) + words.Unit(m.Unit)
}

// limit is the limit of a metric as a line; nil for none.
func (m Metric) limit() *Line {
	if m.Limit <= 0 {
		return nil
	}
	return &Line{At: m.Limit, Text: "limit " + m.value(m.Limit)}
}

// key links the marks of one commit, by its place.
func key(at int) string { return fmt.Sprint(at) }

// heads are the culprits, each with its name.
func (r Range) heads() (out []Line) {
	for _, p := range r.Places {
		if p.State == Culprit {
			out = append(out, Line{At: float64(p.At), Text: "★ " + bisect.ShortID(p.Commit)[:min(7, len(p.Commit))]})
		}
	}
	return out
}

// states are those of the commits, by place.
func (r Range) states() map[int]State {
	out := map[int]State{}
	for _, p := range r.Places {
		out[p.At] = p.State
	}
	return out
}

// strip is every commit of the range, with suspects shaded.
func (r Range) strip() *Strip {
	s := &Strip{}
	for _, p := range r.Places {
		meaning := slices.IndexFunc(meanings, func(k Key) bool { return k.State == p.State })
		title := fmt.Sprintf("%s %s\ncommit %d: %s\n%s", bisect.ShortID(p.Commit), words.Cut(p.Subject, 70), p.At, meanings[meaning].Text, words.Cut(p.Why, 160))
		s.Marks = append(s.Marks, Dot{X: float64(p.At), State: p.State, Key: key(p.At), Title: strings.TrimSpace(title)})
	}
	var places []int
	for _, x := range r.Suspects {
		if at, known := r.At[x.Commit]; known && at < r.Length {
			places = append(places, at)
		}
	}
	slices.Sort(places)
	s.Shade = Runs(places)
	return s
}

// Plane is one metric along the range. first says that it is the one that the search was about: it gets titles for
// whoever points at it, the strip and a legend; the others stay small.
func (r Range) Plane(m Metric, first bool) Plane {
	states := r.states()
	p := Plane{Length: r.Length, Y: m.axis(), Heads: r.heads(), Limit: m.limit()}
	for _, x := range m.Points {
		d := Dot{X: float64(x.At), Y: x.Y, State: states[x.At]}
		if first {
			d.Key = key(x.At)
			d.Title = fmt.Sprintf("launch %d: %s", x.Launch, m.value(x.Y))
			if x.N > 1 {
				d.Title += fmt.Sprintf("\nmedian of %d samples, %s to %s", x.N, words.Figure(x.Low), m.value(x.High))
			}
			if x.Ended != "" {
				d.Title += "\n" + words.Cut(x.Ended, 80)
			}
		}
		p.Dots = append(p.Dots, d)
	}
	for _, l := range m.Levels {
		title := fmt.Sprintf("median %s of %s\n%s to %s: %s", m.value(l.Y), words.Count(l.N, "launch"), m.value(l.Low), m.value(l.High), l.How)
		if !first {
			title = m.value(l.Y)
		}
		p.Spans = append(p.Spans, Span{At: float64(l.At), Low: l.Low, Mid: l.Y, High: l.High, State: states[l.At], Key: key(l.At), Title: title})
		if r.Ledger.Order != nil {
			p.Level = append(p.Level, Dot{X: float64(l.At), Y: l.Y})
		}
	}
	if first {
		p.Name = "place in the range; hollow: not tested; shaded: suspects"
		p.Strip = r.strip()
		if len(p.Strip.Shade) == 0 {
			p.Name = "place in the range; hollow: not tested"
		}
		p.Keys = keys(p.Strip.Marks)
	}
	return p
}

// Strip is the range alone, where launches have no values.
func (r Range) Strip() Plane {
	p := r.Plane(Metric{}, true)
	p.Flat = true
	return p
}

// Belief is where the culprit was thought to be after each step; ok is false where fewer than two steps say so.
func (r Range) Belief() (out Belief, ok bool) {
	out = Belief{Length: r.Length, Heads: r.heads(), Name: "place in the range; the darker, the likelier; the mark is the commit that was judged"}
	for _, s := range r.Steps {
		if len(s.Belief) == 0 {
			continue
		}
		at := r.At[s.Commit]
		x := Believed{Look: Dot{X: float64(at), State: State(s.Verdict.Word()), Key: key(at)}}
		x.Words = fmt.Sprintf("%s %s, %s left", bisect.ShortID(s.Commit), s.Verdict.Word(), words.Count(s.Remaining, "suspect"))
		for _, m := range s.Belief {
			// The range may have changed since a belief was kept: what has no place any more is left out.
			from, known := r.At[m.From]
			to, also := r.At[cmp.Or(m.To, m.From)]
			if known && also && from <= to && to < r.Length {
				x.Runs = append(x.Runs, Mass{from, to, m.P})
			}
		}
		out.Steps = append(out.Steps, x)
	}
	return out, len(out.Steps) > 1
}

// Proof is the launches of some commits side by side, by the metric that the search was about. Commits without
// launches are left out.
func (r Range) Proof(m Metric, roles []Role) Rows {
	out := Rows{Axis: m.axis()}
	if l := m.limit(); l != nil && l.At <= out.Axis.Max {
		out.Lines = []Line{*l}
	}
	states := r.states()
	for _, role := range roles {
		at := r.At[role.Commit]
		row := Row{Name: role.Name + " " + bisect.ShortID(role.Commit), State: states[at], Key: key(at)}
		for _, x := range m.Points {
			if x.At != at {
				continue
			}
			d := Dot{X: x.Y, State: Good, Key: key(at), Title: fmt.Sprintf("launch %d: %s", x.Launch, m.value(x.Y))}
			if x.Ended != "" {
				d.State, d.Title = Bad, d.Title+"\n"+words.Cut(x.Ended, 80)
			} else if s := states[at]; s == Bad || s == Culprit {
				d.State = Bad
			}
			row.Dots = append(row.Dots, d)
		}
		for _, l := range m.Levels {
			if l.At == at {
				row.Span = &Span{Low: l.Low, Mid: l.Y, High: l.High, State: states[at], Title: fmt.Sprintf("median %s\n%s to %s: %s", m.value(l.Y), m.value(l.Low), m.value(l.High), l.How)}
				row.Value = fmt.Sprintf("%s, %s", m.value(l.Y), words.Count(len(row.Dots), "launch"))
			}
		}
		if len(row.Dots) > 0 {
			out.Rows = append(out.Rows, row)
		}
	}
	return out
}

// Role is a commit with its part in a proof.
type Role struct{ Name, Commit string }
