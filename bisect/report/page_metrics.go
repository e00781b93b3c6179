package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// metrics collects what launches told, that of the complaint first, then the time of the whole run,
// what programs measured, and their phases.
func (p *pager) metrics() []metricPoints {
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
	get(wall, "s").Limit = p.in.Limits[bisect.WholeTrial]
	for i, l := range p.in.Launches {
		if !p.searched(l.Candidate) {
			continue
		}
		o := l.Outcome
		add := func(name, unit string, values []float64) {
			if len(values) == 0 {
				return
			}
			x := metricPoint{At: p.at[l.Candidate.Commit], Y: median(values), Low: slices.Min(values), High: slices.Max(values), N: len(values), Launch: i + 1}
			if o.Class != bisect.OK {
				x.Ended = printable(o.Describe())
			}
			m := get(name, unit)
			m.Points = append(m.Points, x)
		}
		if o.Class != bisect.BuildFailed {
			add(wall, "s", []float64{o.Wall})
		}
		for _, s := range o.Series {
			add(printable(seriesName(s)), printable(s.Unit), s.Values)
		}
		for _, t := range o.Phases {
			name := "phase." + printable(t.Name)
			add(name, "s", []float64{t.Seconds})
			get(name, "s").Limit = p.in.Limits[t.Name]
		}
	}
	var out []metricPoints
	for _, m := range all {
		if len(m.Points) > 0 {
			m.scale()
			m.Levels = p.levels(*m)
			out = append(out, *m)
		}
	}
	slices.SortStableFunc(out, func(a, b metricPoints) int { return cmp.Compare(p.rank(a), p.rank(b)) })
	return out
}

// scale writes times in the unit that people would choose.
func (m *metricPoints) scale() {
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

func seriesName(s bisect.Series) string {
	if s.Case == "" {
		return s.Metric
	}
	return s.Metric + " of " + s.Case
}

// rank puts the metric first that the complaint is about, and times before other numbers.
func (p *pager) rank(m metricPoints) int {
	c, name := p.Complaint, m.Name
	switch {
	case p.judgedBy(name), c.Class == bisect.Timeout && c.Phase != "" && name == "phase."+c.Phase:
		return 0
	case c.Metric != "" && (name == c.Metric || strings.HasPrefix(name, c.Metric+" of ")):
		return 1
	case name == wall:
		return 4
	case strings.HasPrefix(name, "phase."):
		return 5
	case !strings.HasSuffix(m.Unit, "s"): // of s, ms, µs, ns
		return 3
	}
	return 2
}

// judgedBy reports whether the verdicts are about a metric, or about one case of it.
func (p *pager) judgedBy(name string) bool {
	about := func(s step) bool {
		rest, ok := strings.CutPrefix(s.Verdict.Why, name)
		return ok && (strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, " of "))
	}
	return p.Complaint.Metric != "" && slices.ContainsFunc(p.Steps, about)
}

// levels are the medians over the launches of each commit that ended well, or over all where none
// did. The interval is that of the verdict where it has one, else from the least to the largest.
func (p *pager) levels(m metricPoints) []medianOf {
	var at []int
	well, any := map[int][]float64{}, map[int][]float64{}
	for _, x := range m.Points {
		if any[x.At] == nil {
			at = append(at, x.At)
		}
		any[x.At] = append(any[x.At], x.Y)
		if x.Ended == "" {
			well[x.At] = append(well[x.At], x.Y)
		}
	}
	slices.Sort(at)
	out := []medianOf{}
	for _, i := range at {
		v := well[i]
		if v == nil {
			v = any[i]
		}
		out = append(out, medianOf{At: i, Y: median(v), Low: slices.Min(v), High: slices.Max(v), N: len(v), How: "least to largest launch"})
	}
	p.withIntervals(m.Name, out)
	return out
}

// withIntervals takes the intervals of verdicts, which are ratios to the good end.
func (p *pager) withIntervals(metric string, levels []medianOf) {
	if len(levels) == 0 || levels[0].At != p.at[p.Ends.Good] {
		return
	}
	good := levels[0].Y
	for _, s := range p.Steps {
		e := s.Verdict.Ratio
		if e == nil || e.Name() != metric && !p.judgedBy(metric) {
			continue
		}
		for i, l := range levels {
			if l.At == p.at[s.Commit] && l.At > 0 {
				levels[i].Low, levels[i].High, levels[i].How = good*e.Low, good*e.High, "95 % interval, against the good end"
			}
		}
	}
}
