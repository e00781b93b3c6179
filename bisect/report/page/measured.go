package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/chart"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// measurementPage is about one candidate: its phases, metrics and devices. A result that is neither "ok" nor the
// machine's is the class of the launches that failed.
func measurementPage(d *report.Measurement, l report.Ledger) Page {
	v := sides(d.Session, l, [2]string{}, map[bisect.Purpose]string{bisect.EndGood: "launch"})
	v.name = func(c bisect.Candidate) string { return c.Brief() }
	// The document describes them at length, while the timeline needs their names only.
	var devices []string
	for _, x := range d.Devices {
		devices = append(devices, x.Name)
	}
	var f rows
	what := tested(strings.Contains(d.Candidate.Revision, ":"))
	f.row(sideRow("commit", l, d.Candidate))
	// Only a cgroup knows it, which not every machine lets kbisect use.
	if d.Memory != nil {
		f.add("memory", fmt.Sprintf("%.0f MiB at most", float64(*d.Memory)/(1<<20)))
	}
	f.add("error", report.Text(d.Error))
	p := one(Page{Session: d.Session, Result: d.Result, State: cmp.Or(contrastState(d.Result), Bad), Headline: cmp.Or(d.Verdict, d.Result), Totals: totals(d.Totals, what), Next: report.Next(d, l)}, f)
	p.Sections = []Section{measuredPhases(d), measuredMetrics(d, v), measuredDevices(d), notes(d.Warnings), launched([2]string{"launches"}, d.Candidate), v.timeline(devices), v.phases(), v.cost(d.Totals, what, nil, ""), v.table(nil)}
	return p
}

// measuredPhases has a column for empty caches only where a launch began with such.
func measuredPhases(d *report.Measurement) Section {
	t := Table{Title: "Seconds of each phase", Columns: []string{"phase", "median", "min to max", "with empty caches"}}
	cleared := false
	for _, x := range d.Phases {
		cold := ""
		if x.Cold.N > 0 {
			cleared, cold = true, words.Quantity(float64(x.Cold.Median), "s")
		}
		t.Rows = append(t.Rows, []string{x.Phase, words.Quantity(float64(x.Times.Median), "s"), extremes(x.Times, "s"), cold})
	}
	if len(t.Rows) > 0 {
		// It is more than the sum of its phases: what the program does before, between and after them is in it.
		t.Rows = append(t.Rows, []string{"whole launch", words.Quantity(float64(d.Wall.Median), "s"), extremes(d.Wall, "s"), ""})
	}
	if !cleared {
		t.Columns = t.Columns[:3]
		for i := range t.Rows {
			t.Rows[i] = t.Rows[i][:3]
		}
	}
	return Section{ID: "times", Title: "Phases", Brief: true, Tables: []Table{t}}
}

// measuredMetrics says of a metric with two modes that it has them, since its median lies in only one.
func measuredMetrics(d *report.Measurement, v view) Section {
	t := Table{Title: "One number a launch, the median of its samples", Columns: []string{"metric", "better", "median (95 % CI)", "min to max", "spread", "launches", "samples", "spread within"}, Right: []string{"spread", "launches", "samples", "spread within"}, Few: []string{"metric", "better", "median (95 % CI)", "min to max", "spread"}}
	for _, x := range d.Metrics {
		t.Rows = append(t.Rows, []string{x.Name(), x.Better, x.Values.Words(x.Unit), extremes(x.Values, x.Unit), words.Percent(float64(x.Values.Spread)), fmt.Sprint(x.Values.N), fmt.Sprint(x.Samples), words.Percent(float64(x.Within))})
		if m := x.Modes; m != nil {
			t.Notes = append(t.Notes, fmt.Sprintf("%s falls into two groups: %s, and in %s of the launches %s.", x.Name(), words.Quantity(float64(m.Low), x.Unit), words.Percent(float64(m.Share)), words.Quantity(float64(m.High), x.Unit)))
		}
	}
	s := Section{ID: "metrics", Title: "Metrics", Brief: true, Tables: []Table{t}}
	// As many as are drawn of a comparison; the table has the others.
	var ones []chart.One
	for _, x := range d.Metrics[:min(len(d.Metrics), mostLaunched)] {
		middle := float64(x.Values.Median)
		ones = append(ones, chart.One{Metric: x.Metric, Case: report.Text(x.Case), Unit: x.Unit, Title: words.Printable(x.Name()), Middle: middle, Mid: []float64{middle}, Low: []float64{float64(x.Values.Low)}, High: []float64{float64(x.Values.High)}, States: []State{Good}})
	}
	if launched := v.drawn().Launched(ones, []chart.Side{{Purpose: bisect.EndGood, Name: "launches"}}, 0, "against the median"); len(launched.Rows) > 0 {
		s.Charts = []Chart{{Label: "Every launch, with the median and its 95 % interval", Picture: launched}}
	}
	return s
}

// measuredDevices is the state in which the launches left each device.
func measuredDevices(d *report.Measurement) Section {
	// The name comes last: with its UUID and driver it is long, and only a last column is never cut.
	t := Table{Title: "After a launch, min to max", Columns: []string{"SM clock, MHz", "°C", "W", "throttled", "shared", "device"}}
	for _, x := range d.Devices {
		t.Rows = append(t.Rows, []string{extremes(x.Clock, ""), extremes(x.Temperature, ""), extremes(x.Power, ""), cmp.Or(strings.Join(x.Throttled, "; "), "no"), cmp.Or(strings.Join(x.Shared, "; "), "no"), x.Name})
	}
	return Section{ID: "state", Title: "Devices", Brief: true, Tables: []Table{t}}
}

// extremes are the least and the greatest value.
func extremes(s report.Summary, unit string) string {
	return words.Range(float64(s.Min), float64(s.Max), unit)
}

// explanationPage is about A against B. The summary is the headline, so the notes of the table leave it out.
func explanationPage(d *report.Explanation, l report.Ledger) Page {
	names := [2]string{"A", "B"}
	v := sides(d.Session, l, names, map[bisect.Purpose]string{bisect.EndGood: "A", bisect.EndBad: "B"})
	what := tested(d.A.Commit == d.B.Commit)
	var f rows
	headline := cmp.Or(d.Summary, d.Result)
	for i, r := range d.Moved { // one is the answer, the others explain it
		if i == 0 {
			headline = "Largest change: " + r.Words(true)
			continue
		}
		f.add("with it", r.Words(d.Moved[i-1].Kernel != r.Kernel))
	}
	f.add("limited by", d.Limiter())
	f.row(sideRow("A", l, d.A))
	f.row(sideRow("B", l, d.B))
	f.add("error", report.Text(d.Error))
	p := one(Page{Session: d.Session, Result: d.Result, Headline: headline, Totals: totals(d.Totals, what), Next: report.Next(d, l)}, f)
	x := d.Table("A against B", "A", "B")
	// A side that does not build may be all there is to explain, so the end of what it said is quoted.
	builds := Section{ID: "builds", Title: "Builds that failed", Brief: true}
	for _, b := range d.Builds {
		why := ""
		if b.Failure != nil {
			why = b.Failure.Why
		}
		r := Row{Name: "build of " + b.Side, Text: fmt.Sprintf("%s, after %s", why, words.Seconds(b.Seconds))}
		lines := strings.Split(words.Lines(b.Tail), "\n")
		for _, line := range lines[max(0, len(lines)-5):] {
			r.Lines = append(r.Lines, DiffLine{Kind: "note", Text: line})
		}
		builds.Facts = append(builds.Facts, r)
	}
	p.Sections = []Section{
		{ID: "explain", Title: "Why they differ", Brief: true, List: x.Notes[1:], Tables: []Table{{Title: x.Title, Columns: x.Columns, Rows: x.Rows, Right: names[:], First: x.Changed}}},
		builds, notes(d.Warnings), launched(names, d.A, d.B), v.timeline(d.Devices), v.phases(), v.cost(d.Totals, what, d.Devices, ""), v.table(nil),
	}
	return p
}

// mostSeries is how many series a page shows.
// Every device, command and metric makes one, and the JSON has all.
const mostSeries = 24

// historyPage has a section for each series. Series differ in device, command or metric, and are not compared.
func historyPage(h *report.History) Page {
	var f rows
	f.add("note", "launches of different days compare loosely, since machines drift; kbisect compare launches in turn")
	// Sessions pile up over the years, so a history shows the newest commits.
	if h.Shown < h.All {
		f.add("shown", fmt.Sprintf("%d of %s; --limit shows more", h.Shown, words.Count(h.All, "measured commit")))
	}
	p := one(Page{Result: "history", Headline: fmt.Sprintf("%s measured, in %s", words.Count(h.All, "commit"), words.Count(len(h.Series), "series"))}, f)
	for i, s := range h.Series {
		if i == mostSeries {
			p.Sections = append(p.Sections, Section{ID: "more", Title: "More", Missing: fmt.Sprintf("%s more: kbisect history --metric NAME shows one", words.Count(len(h.Series)-i, "series"))})
			break
		}
		p.Sections = append(p.Sections, historySection(s, fmt.Sprintf("series-%d", i+1)))
	}
	return p
}

// historySection is one series: a picture and a table of medians, all in the unit that suits the largest.
func historySection(s report.HistorySeries, id string) Section {
	high := report.Number(math.Inf(-1))
	for _, c := range s.Commits {
		if v := c.Values.Median; v.Known() {
			high = max(high, v)
		}
	}
	// One unit for the whole column: values in several cannot be compared at a glance.
	factor, unit := words.Prefixed(float64(high), words.Printable(s.Unit))
	scale := report.Number(factor)
	series := chart.Series{Name: words.Printable(s.Name()), Unit: strings.TrimSpace(words.Unit(unit))}
	t := Table{Title: "Medians by commit, oldest first (" + id + ")", Columns: []string{"commit", "date", "launches", "median (95 % CI)", "change", "subject"}, Right: []string{"launches"}, Few: []string{"commit", "median (95 % CI)", "change", "subject"}}
	for _, c := range s.Commits {
		x := chart.Measured{
			Commit: bisect.ShortID(c.Commit), Subject: words.Printable(c.Subject), Day: c.Date[:min(10, len(c.Date))], N: c.Launches, Words: words.Printable(c.Words(s.Unit)),
			Change: words.Change(float64(c.Ratio)), Y: float64(c.Values.Median * scale), Low: float64(c.Values.Low * scale), High: float64(c.Values.High * scale),
			// A commit of which some launches ended well has a value.
			Failed: len(c.Failures) > 0 && c.Values.N == 0,
		}
		series.Commits = append(series.Commits, x)
		t.Rows = append(t.Rows, []string{x.Commit, x.Day, fmt.Sprint(x.N), x.Words, x.Change, x.Subject})
		state := State("")
		if x.Failed {
			state = Bad
		}
		t.States = append(t.States, state)
	}
	// What a reader looks for in a history comes as a list as well.
	steps := s.Steps()
	out := Section{
		ID: id, Brief: true, Title: s.Name() + better(s.Better) + "; " + s.On(), Words: historyWords(s, slices.Contains(t.States, Bad)), Tables: []Table{t},
		Charts: []Chart{{Label: "Medians of " + series.Name + " by commit, oldest first", Picture: series.Plane(steps)}},
	}
	for _, x := range steps {
		c := series.Commits[x.At]
		out.List = append(out.List, fmt.Sprintf("%s %s: %s", words.Change(x.Change), c.Commit, c.Subject))
	}
	return out
}

// better says which values of a series are better, where that is known.
func better(direction string) string {
	if direction == "unknown" || direction == "" {
		return ""
	}
	return ", " + direction + " is better"
}

// historyWords says what the picture does not: what a diamond is, and what the changes are against.
func historyWords(s report.HistorySeries, failed bool) string {
	var out []string
	if failed {
		out = append(out, "A diamond: no launch of that commit passed.")
	}
	if s.Base != nil {
		out = append(out, "Changes are against "+bisect.ShortID(*s.Base)+".")
	}
	return strings.Join(out, " ")
}
