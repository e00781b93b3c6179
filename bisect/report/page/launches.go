package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// view is the launches behind a document, with what the document calls them. One view serves a search, a comparison
// and a measurement, which differ in what a candidate is named and how it is coloured.
type view struct {
	session  string
	launches []report.Launch
	limits   map[string]float64
	at       func(bisect.Candidate) int // place among others
	name     func(bisect.Candidate) string
	state    func(bisect.Candidate) State
	purpose  map[bisect.Purpose]string // other names than their own
}

// view is the launches of a search.
func (f *finder) view() view {
	states := map[string]State{}
	for _, x := range f.places() {
		states[x.Commit] = x.State
	}
	v := view{
		session: f.Session, launches: f.ledger.Launches, limits: f.ledger.Limits,
		at:    func(c bisect.Candidate) int { return f.at[c.Commit] },
		state: func(bisect.Candidate) State { return "" },
	}
	// Tests within a culprit have commits of their own that are in no history; "part of it" says so.
	v.name = func(c bisect.Candidate) string {
		name := words.Short(c.Commit)
		switch {
		case f.Axis == report.AxisFlags:
			return v.away(c)
		case c.Commit == f.Ends.Good && c.Assign == "":
			name += " (good end)"
		case c.Assign != "":
			name += ":" + c.Assign
		case !f.searched(c):
			name += " (part of it)"
		}
		return name
	}
	if f.Axis != report.AxisHistory {
		v.state = v.worst
		return v
	}
	v.state = func(c bisect.Candidate) State {
		if !f.searched(c) {
			return ""
		}
		return states[c.Commit]
	}
	return v
}

// sides is the launches of two candidates, or of one. The first launch of a candidate tells which side it is: the
// purposes of the two ends serve every command that compares.
func sides(session string, l report.Ledger, names [2]string, purposes map[bisect.Purpose]string) view {
	v := view{session: session, launches: l.Launches, limits: l.Limits, purpose: purposes}
	v.at = func(bisect.Candidate) int { return 0 }
	v.state = v.worst
	v.name = func(c bisect.Candidate) string {
		for _, x := range l.Launches {
			if x.Candidate == c {
				if side := map[bisect.Purpose]string{bisect.EndGood: names[0], bisect.EndBad: names[1]}[x.Purpose]; side != "" {
					return c.Brief() + " (" + side + ")"
				}
			}
		}
		return c.Brief()
	}
	return v
}

// worst is the state of the worst launch of a candidate.
func (v view) worst(c bisect.Candidate) (s State) {
	for _, l := range v.launches {
		if l.Candidate == c && (s == "" || l.Outcome.Class != bisect.OK) {
			s = launchState(l.Outcome.Class)
		}
	}
	return s
}

// away names a candidate by the flags that it has set away from their base, or, where these are most of them, by those
// that it leaves at their base.
func (v view) away(c bisect.Candidate) string {
	// Dozens of flags make names too long to read. What differs from the nearer end is what matters.
	base, top, all := v.assigned(bisect.EndGood), v.assigned(bisect.EndBad), settings(c.Assign)
	if len(all) != len(base) || len(all) != len(top) {
		return setName(all)
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
		return setName(on)
	case len(off) == 0:
		return "everything on"
	}
	return "all but " + strings.Join(off, " ")
}

// assigned are the flags of an end.
func (v view) assigned(end bisect.Purpose) []string {
	i := slices.IndexFunc(v.launches, func(l report.Launch) bool { return l.Purpose == end })
	if i < 0 {
		return nil
	}
	return settings(v.launches[i].Candidate.Assign)
}

// settings splits what a candidate has set, "compile=off,graph=on", into its flags.
func settings(assign string) []string {
	return strings.FieldsFunc(assign, func(r rune) bool { return r == ',' })
}

// called is a purpose in the words of the document: the two ends are A and B, or merge base and HEAD.
func (v view) called(p bisect.Purpose) string { return cmp.Or(v.purpose[p], string(p)) }

// phaseChart is the time by phase: a stacked bar for each candidate, and each phase against its limit.
type phaseChart struct {
	Phases     []string  `json:"phases"`
	Limits     []float64 `json:"limits"` // by phase, seconds; 0: none
	Whole      float64   `json:"whole"`  // limit of a run without its build; 0: none
	Candidates []bar     `json:"candidates"`
}

// bar is one candidate: medians over the launches.
type bar struct {
	Name    string    `json:"name"`
	State   State     `json:"state"`
	Seconds []float64 `json:"seconds"` // by phase
	Worst   []float64 `json:"worst"`   // by phase, over all launches
	N       int       `json:"n"`
	Ended   string    `json:"ended"` // how, unless all ended well
}

// mostBars is how many candidates the picture of the phases holds; those nearest to the culprit stay.
const mostBars = 24

// phases is where the time of each candidate goes.
func (v view) phases(culprits map[string]bool) Section {
	s := Section{ID: "phases", Title: "Phases of each candidate, and their limits"}
	c := v.phaseChart()
	if len(c.Phases) == 0 {
		return s
	}
	s.Words = "Where the time of a candidate goes: medians over its launches. The second picture shows the longest time of each phase against the limit of that phase."
	s.Tables = []Table{c.table()}
	if n := len(c.Candidates); n > mostBars {
		c.Candidates = nearest(c.Candidates)
		s.Words += fmt.Sprintf(" The pictures hold the %d candidates nearest to the answer, of %d.", mostBars, n)
	}
	s.Charts = []Chart{{Kind: "phases", Label: "Seconds by phase for each candidate, stacked", Data: c}}
	if c.Whole > 0 || slices.ContainsFunc(c.Limits, func(l float64) bool { return l > 0 }) {
		s.Charts = append(s.Charts, Chart{Kind: "limits", Label: "Longest time of each phase as a share of its limit", Data: c})
	}
	return s
}

// phaseChart gathers the phases in the order in which they run, and for each candidate their medians and longest
// times. A phase that a candidate never reached takes no time in its bar.
func (v view) phaseChart() phaseChart {
	c := phaseChart{Whole: v.limits[bisect.WholeTrial]}
	index := map[string]int{}
	for _, r := range (report.Ledger{Launches: v.launches}).PhaseCosts() {
		index[r.Phase] = len(c.Phases)
		c.Phases = append(c.Phases, words.Printable(r.Phase))
		c.Limits = append(c.Limits, v.limits[r.Phase])
	}
	var order []bisect.Candidate
	times, count, ended := map[bisect.Candidate][][]float64{}, map[bisect.Candidate]int{}, map[bisect.Candidate]string{}
	for _, l := range v.launches {
		id := l.Candidate
		if times[id] == nil {
			times[id] = make([][]float64, len(c.Phases))
			order = append(order, id)
		}
		count[id]++
		for _, t := range l.Outcome.Phases {
			times[id][index[t.Name]] = append(times[id][index[t.Name]], t.Seconds)
		}
		if l.Outcome.Class != bisect.OK {
			ended[id] = words.Printable(l.Outcome.Describe())
		}
	}
	slices.SortStableFunc(order, func(a, b bisect.Candidate) int { return v.at(a) - v.at(b) })
	for _, id := range order {
		x := bar{Name: words.Cut(words.Printable(v.name(id)), 48), State: v.state(id), N: count[id], Ended: ended[id]}
		for _, seen := range times[id] {
			median := report.Median(seen)
			if !median.Known() {
				median = 0
			}
			x.Seconds = append(x.Seconds, float64(median))
			x.Worst = append(x.Worst, slices.Max(append(seen, 0)))
		}
		c.Candidates = append(c.Candidates, x)
	}
	return c
}

// nearest keeps the ends and the candidates around the culprit, or around the first bad one.
func nearest(all []bar) []bar {
	centre := slices.IndexFunc(all, func(c bar) bool { return c.State == Culprit })
	if centre < 0 {
		centre = max(0, slices.IndexFunc(all, func(c bar) bool { return c.State == Bad }))
	}
	// The first and the last stay, as what everything is compared with; the others are the window around the answer.
	from := min(max(1, centre-mostBars/2), len(all)-mostBars+1)
	middle := slices.Clone(all[from : from+mostBars-2])
	return append(append([]bar{all[0]}, middle...), all[len(all)-1])
}

// table holds the values of the picture, the limits in its first row.
func (c phaseChart) table() Table {
	t := Table{Title: "Seconds by phase: median / longest", Columns: []string{"candidate", "launches"}, Right: []int{1}, Detail: true}
	limits := []string{"limit", ""}
	for i, name := range c.Phases {
		t.Columns = append(t.Columns, name)
		t.Right = append(t.Right, i+2)
		limit := "none"
		if c.Limits[i] > 0 {
			limit = words.Seconds(c.Limits[i])
		}
		limits = append(limits, limit)
	}
	t.Columns = append(t.Columns, "ended")
	whole := ""
	if c.Whole > 0 {
		whole = "whole run: " + words.Seconds(c.Whole)
	}
	t.Rows, t.States = append(t.Rows, append(limits, whole)), append(t.States, "")
	for _, x := range c.Candidates {
		row := []string{x.Name, fmt.Sprint(x.N)}
		for i, v := range x.Seconds {
			cell := digits(v)
			if x.N > 1 {
				cell += " / " + digits(x.Worst[i])
			}
			row = append(row, cell)
		}
		t.Rows, t.States = append(t.Rows, append(row, x.Ended)), append(t.States, x.State)
	}
	return t
}

// coldWarm sets first processes with empty caches against later ones.
func coldWarm(d *report.Search, l report.Ledger) Section {
	t := Table{Title: "Medians", Columns: []string{"phase", "good cold", "good warm", "bad cold", "bad warm"}, Right: []int{1, 2, 3, 4}}
	cell := func(n report.Number) string {
		if !n.Known() {
			return "-"
		}
		return words.Seconds(float64(n))
	}
	for _, r := range l.ColdWarm(d.Ends.Good, d.Ends.Bad) {
		t.Rows = append(t.Rows, []string{r.Phase, cell(r.GoodCold), cell(r.GoodWarm), cell(r.BadCold), cell(r.BadWarm)})
	}
	if len(t.Rows) == 0 {
		return Section{}
	}
	return Section{ID: "caches", Title: "First process with empty caches (cold) and later ones (warm)", Tables: []Table{t}}
}

// deviceChart is what one device went through over the job.
type deviceChart struct {
	Name    string         `json:"name"`
	Samples []deviceSample `json:"samples"`
}

// deviceSample is one reading, before or after a launch.
type deviceSample struct {
	At          float64 `json:"at"` // seconds since the job began
	Launch      int     `json:"launch"`
	After       bool    `json:"after"`
	SMClock     float64 `json:"sm_clock"`  // MHz
	MemClock    float64 `json:"mem_clock"` // MHz
	Temperature float64 `json:"temperature"`
	PowerW      float64 `json:"power_w"`
	Throttled   string  `json:"throttled"`
	Shared      string  `json:"shared"`
}

// devices is the state of each device over the job; known are the devices as the document lists them.
func (v view) devices(known []string) Section {
	s := Section{ID: "device", Title: "Devices over the job"}
	var order []string
	found := map[string][]deviceSample{}
	throttled, shared := 0, 0
	for i, l := range v.launches {
		for _, n := range l.Outcome.Devices {
			before, after, ok := readings(n, l.Outcome, i+1)
			if !ok {
				continue
			}
			if found[n.UUID] == nil {
				order = append(order, n.UUID)
			}
			found[n.UUID] = append(found[n.UUID], before, after)
			if n.Throttled != "" {
				throttled++
			}
			if n.Shared != "" {
				shared++
			}
		}
	}
	if len(order) == 0 {
		return s
	}
	s.Words = fmt.Sprintf("Clock, temperature and power before and after each launch. Throttled in %s, shared with other processes in %s.", words.Count(throttled, "launch"), words.Count(shared, "launch"))
	if throttled+shared == 0 {
		s.Words = "Clock, temperature and power before and after each launch. No throttling, no other process."
	}
	for _, id := range order {
		name := id
		for _, d := range known {
			if id != "" && strings.Contains(d, id) {
				name = d
			}
		}
		name = words.Printable(name)
		s.Charts = append(s.Charts, Chart{Kind: "device", Label: "Clock, temperature and power of " + name + " over the job", Data: deviceChart{name, found[id]}})
		s.Tables = append(s.Tables, deviceTable(name, found[id]))
	}
	return s
}

// readings are what a device reported before and after a launch; the store keeps them as they came. A launch without
// readable ones (another version wrote them, or the device was lost) is left out of the picture.
func readings(n bisect.DeviceNote, o bisect.Outcome, launch int) (before, after deviceSample, ok bool) {
	if json.Unmarshal(n.Before, &before) != nil || json.Unmarshal(n.After, &after) != nil {
		return before, after, false
	}
	before.At, before.Launch = o.At, launch
	after.At, after.Launch, after.After = o.At+o.Wall, launch, true
	after.Throttled, after.Shared = words.Printable(n.Throttled), words.Printable(n.Shared)
	return before, after, true
}

// deviceTable holds the values of the picture of one device.
func deviceTable(name string, samples []deviceSample) Table {
	t := Table{Title: name, Columns: []string{"launch", "when", "at", "SM clock, MHz", "memory clock, MHz", "°C", "W", "throttled by", "shared with"}, Right: []int{0, 2, 3, 4, 5, 6}, Detail: true}
	for _, x := range samples {
		when, state := "before", State("")
		if x.After {
			when = "after"
		}
		if x.Throttled != "" || x.Shared != "" {
			state = Other
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(x.Launch), when, words.Seconds(x.At), digits(x.SMClock), digits(x.MemClock), digits(x.Temperature), digits(x.PowerW), x.Throttled, x.Shared})
		t.States = append(t.States, state)
	}
	return t
}

const (
	mostLaunches = 3000 // in the table
	mostOutputs  = 4    // ends of outputs that are quoted
)

// table is the list of launches, with the ends of the outputs of those that failed among some commits.
func (v view) table(loud map[string]bool) Section {
	s := Section{ID: "launches", Title: "All launches"}
	t := Table{Title: "Launches, in order", Columns: []string{"no.", "candidate", "purpose", "ended", "build", "run", "at", "remarks"}, Right: []int{0, 4, 5, 6}, Detail: true}
	for i, l := range v.launches {
		if i == mostLaunches {
			t.Notes = append(t.Notes, fmt.Sprintf("%d more: kbisect show %s", len(v.launches)-i, v.session))
			break
		}
		t.Rows = append(t.Rows, v.row(i+1, l))
		t.States = append(t.States, launchState(l.Outcome.Class))
		text := words.Lines(l.Outcome.Tail)
		if len(s.Output) < mostOutputs && loud[l.Candidate.Commit] && l.Outcome.Class != bisect.OK && text != "" {
			s.Output = append(s.Output, Output{fmt.Sprintf("Launch %d of %s: %s", i+1, l.Candidate.Brief(), words.Printable(l.Outcome.Describe())), text})
		}
	}
	if len(t.Rows) > 0 {
		s.Tables = []Table{t}
	}
	return s
}

// row is launch n of the table, counted from 1 as the pictures count them.
func (v view) row(n int, l report.Launch) []string {
	o := l.Outcome
	build := ""
	switch {
	case o.CacheHit:
		build = "cached"
	case o.Built:
		build = words.Seconds(o.Build)
	}
	var remarks []string
	if o.From != "" {
		remarks = append(remarks, "taken over from session "+o.From)
	}
	if o.Caches != "" {
		remarks = append(remarks, o.Caches+" caches")
	}
	if o.Unfit != "" && o.From == "" {
		remarks = append(remarks, "not compared: "+o.Unfit)
	}
	for _, m := range o.Marks {
		remarks = append(remarks, m.String())
	}
	for _, r := range o.Repeated {
		remarks = append(remarks, "repeated: "+r)
	}
	return []string{fmt.Sprint(n), l.Candidate.Brief(), v.called(l.Purpose), o.Describe(), build, words.Seconds(o.Wall), words.Seconds(o.At), strings.Join(remarks, "; ")}
}
