package chart

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/sets"
)

// Changed is a change with its interval: of a metric, or by a flag. All three numbers are ratios.
type Changed struct {
	Group            string
	Name             string
	State            State
	Ratio, Low, High float64
	Value            string // the change in words
	Title            string
}

// mostChanges is how many rows a picture of changes has; the tables have all of them.
const mostChanges = 120

// Forest draws changes with their intervals. all must hold those of one group together. band is the change that
// matters, as a fraction.
func Forest(all []Changed, band float64, name string) Rows {
	out := Rows{Lines: []Line{{At: 1, Text: "no change", Plain: true}}}
	var values []float64
	out.Band = &[2]float64{1 / (1 + band), 1 + band}
	values = append(values, out.Band[0], out.Band[1])
	// Callers have put what matters first, so that the bound cuts off what does not.
	for _, x := range all[:min(len(all), mostChanges)] {
		row := Row{Group: x.Group, Name: x.Name, State: x.State, Value: x.Value}
		row.Span = &Span{Low: x.Low, Mid: x.Ratio, High: x.High, State: x.State, Title: x.Title}
		out.Rows = append(out.Rows, row)
		// The scale follows an interval to three times its middle: one without bounds would leave no room for the
		// others.
		values = append(values, x.Ratio, max(x.Low, x.Ratio/3), min(x.High, x.Ratio*3))
	}
	out.Axis = ratios(name, values...)
	return out
}

// Side is one of the candidates that are compared: the purpose of its launches, and its name.
type Side struct {
	Purpose bisect.Purpose
	Name    string
}

// One is a metric whose launches are drawn. Low, Mid, High and States are indexed like the sides; numbers are in Unit,
// NaN where they are not known. Values are drawn as shares of Middle; a metric without one (0) is left out.
type One struct {
	Metric, Case string
	Unit         string
	Title        string
	Middle       float64 // of which values are shares
	Low, High    []float64
	Mid          []float64 // of the sides, with their intervals; NaN where not known
	States       []State
}

// Launched draws every launch that counts, by metric and side, as shares of One.Middle. Where caches were used, only
// launches with warm ones count, as in the comparison itself. band is the change that matters, as a fraction; 0 for
// none.
func (l Launches) Launched(metrics []One, sides []Side, band float64, name string) Rows {
	out := Rows{}
	var values []float64
	if band > 0 {
		out.Band = &[2]float64{1 / (1 + band), 1 + band}
		values = append(values, out.Band[0], out.Band[1])
	}
	// The first launch of a program with caches fills them, and does not measure the kernel.
	warm := slices.ContainsFunc(l.All, func(x report.Launch) bool { return x.Outcome.Caches == "warm" })
	for _, m := range metrics {
		if !(m.Middle > 0) {
			continue
		}
		for k, side := range sides {
			row := Row{Group: m.Title, Name: side.Name, Value: words.Quantity(m.Mid[k], m.Unit)}
			if finite(m.Mid[k]) {
				row.Span = &Span{Low: m.Low[k] / m.Middle, Mid: m.Mid[k] / m.Middle, High: m.High[k] / m.Middle, State: m.States[k], Title: "median " + row.Value}
			}
			for i, x := range l.All {
				o := x.Outcome
				if x.Purpose != side.Purpose || o.Class != bisect.OK || o.Unfit != "" || warm && o.Caches == "cold" {
					continue
				}
				for _, s := range o.Series {
					if v := float64(report.Median(s.Values)); s.Metric == m.Metric && s.Case == m.Case && finite(v) {
						row.Dots = append(row.Dots, Dot{X: v / m.Middle, State: "", Title: fmt.Sprintf("launch %d: %s", i+1, words.Quantity(v, m.Unit))})
						values = append(values, v/m.Middle)
					}
				}
			}
			// A side without launches that count has no row at all.
			if len(row.Dots) > 0 {
				out.Rows = append(out.Rows, row)
				if row.Span != nil {
					values = append(values, row.Span.Mid)
				}
			}
		}
	}
	out.Axis = ratios(name, values...)
	return out
}

// Bounds of a matrix of sets: what is legible on a wide screen.
const (
	mostColumns = 24
	mostSets    = 60
)

// Sets draws the tests of a search over flags or hunks, a column for each flag or hunk; ok is false where these are
// too many, or where nothing was tested.
func Sets(d *report.Search) (m Matrix, ok bool) {
	parts := func(a report.Assignment) map[string]string {
		out := map[string]string{}
		for flag, value := range a.Assign {
			out[words.Printable(flag)] = words.Printable(value)
		}
		for _, h := range a.Hunks {
			out[words.Printable(h.Where())] = "✓"
		}
		return out
	}
	columns := map[string]bool{}
	for _, x := range d.Tests {
		for name := range parts(x.Assignment) {
			columns[name] = true
		}
	}
	m.Columns = slices.Sorted(maps.Keys(columns))
	seen := map[string]bool{}
	for _, x := range d.Tests {
		row := MatrixRow{Title: words.Seconds(x.Seconds)}
		row.State, row.Name = Answered(x)
		if x.Inferred {
			row.Name, row.Title = row.Name+", inferred", "inferred, not run"
		}
		set := parts(x.Assignment)
		for _, name := range m.Columns {
			row.Cells = append(row.Cells, set[name])
		}
		// A set that was tested again and ended alike has one row.
		if same := fmt.Sprint(row.Name, row.Cells); !seen[same] && len(m.Rows) < mostSets {
			m.Rows, seen[same] = append(m.Rows, row), true
		}
	}
	return m, len(m.Columns) > 0 && len(m.Columns) <= mostColumns
}

// Answered is how a test of a set ended, as a state and in words. One that cannot be judged is neither good nor bad.
func Answered(x report.SetTest) (State, string) {
	if x.Answer == sets.Pass {
		return Good, string(x.Answer)
	}
	s, state := string(x.Answer), Skipped
	if x.Answer == sets.Fail {
		state = Bad
	}
	if x.Class != "" {
		s += ", " + string(x.Class)
	}
	if x.Class != "" && x.Phase != nil {
		s += " in " + words.Printable(*x.Phase)
	}
	return state, s
}

// Series is what the commits of a history measured, oldest first.
type Series struct {
	Name    string
	Unit    string
	Commits []Measured
}

// Measured is one commit of a series, in the unit of the series; a number that is not known is NaN.
type Measured struct {
	Commit, Subject, Day string
	Y, Low, High         float64
	N                    int
	Words                string // the median, or how launches ended
	Change               string
	Failed               bool
}

// Plane draws the medians with their intervals, and marks the steps. A commit whose launches failed stands at the
// bottom.
func (s Series) Plane(steps []report.Step) Plane {
	p := Plane{Length: len(s.Commits), Name: "measured commits, oldest first"}
	var values []float64
	for _, c := range s.Commits {
		values = append(values, c.Y, c.Low, c.High)
	}
	name := s.Name
	if s.Unit != "" {
		name += ", " + s.Unit
	}
	p.Y = scale(name, false, values...)
	for i, c := range s.Commits {
		p.Places = append(p.Places, c.Commit[:min(7, len(c.Commit))])
		title := fmt.Sprintf("%s %s\n%s %s", c.Commit, words.Cut(c.Subject, 70), c.Day, c.Words)
		if c.Change != "-" && c.Change != "" {
			title += "\n" + c.Change
		}
		title += "\n" + words.Count(c.N, "launch")
		switch {
		case c.Failed:
			p.Dots = append(p.Dots, Dot{X: float64(i), Y: p.Y.Min, State: Bad, Key: key(i), Title: title})
		case finite(c.Y):
			p.Level = append(p.Level, Dot{X: float64(i), Y: c.Y})
			p.Spans = append(p.Spans, Span{At: float64(i), Low: c.Low, Mid: c.Y, High: c.High, Key: key(i), Title: title})
		}
	}
	for _, x := range steps {
		c := s.Commits[x.At]
		p.Heads = append(p.Heads, Line{At: float64(x.At), Text: change(math.Round(x.Change*1000)/1000) + " " + c.Commit[:min(7, len(c.Commit))]})
	}
	return p
}
