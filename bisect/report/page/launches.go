package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/chart"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// view is the launches behind a document, with what the document calls them. One view serves a search, a comparison
// and a measurement, which differ in what a candidate is named and how it is coloured.
// The functions are fields for that reason: a search calls a commit by its place, a comparison by its side.
type view struct {
	session  string
	launches []report.Launch
	limits   map[string]float64
	at       func(bisect.Candidate) int // place among others
	name     func(bisect.Candidate) string
	state    func(bisect.Candidate) State
	purpose  map[bisect.Purpose]string // other names than their own
	flags    bool                      // the ends are settings of flags
}

// sides is the view of two candidates, or of one. The first launch of a candidate tells which side it is on: every
// command that compares uses the purposes of the two ends.
func sides(session string, l report.Ledger, names [2]string, purposes map[bisect.Purpose]string) view {
	v := view{session: session, launches: l.Launches, limits: l.Limits, purpose: purposes}
	// Two candidates have no range; they stay in the order of their launches.
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
// One launch is enough: what fails now and then is not good.
func (v view) worst(c bisect.Candidate) (s State) {
	for _, l := range v.launches {
		if l.Candidate == c && (s == "" || l.Outcome.Class != bisect.OK) {
			s = chart.Ended(l.Outcome.Class)
		}
	}
	return s
}

// away names a candidate by the flags that it sets away from their base or, where those are most of them, by the ones
// that it leaves there.
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

// called is a purpose in the words of the document: its two ends may be A and B, or merge base and HEAD.
func (v view) called(p bisect.Purpose) string { return cmp.Or(v.purpose[p], string(p)) }

// why is the purpose of a launch. A set that is timed to be kept is launched with the purpose of the bad end.
func (v view) why(l report.Launch) string {
	// All changes together are what the first launch of that purpose is of.
	first := slices.IndexFunc(v.launches, func(x report.Launch) bool { return x.Purpose == l.Purpose })
	if v.flags && l.Purpose == bisect.EndBad && l.Candidate != v.launches[first].Candidate {
		return "keep"
	}
	return v.called(l.Purpose)
}

// drawn is the launches as package chart takes them.
func (v view) drawn() chart.Launches {
	return chart.Launches{All: v.launches, Limits: v.limits, At: v.at, Name: v.name, State: v.state, Called: v.called}
}

// phases is where the time of each candidate goes.
func (v view) phases() Section {
	s := Section{ID: "phases", Title: "Phases of each candidate, and their limits"}
	c := v.drawn().Phases()
	if len(c.Names) == 0 {
		return s
	}
	s.Words = "Where the time of a candidate goes: medians over its launches."
	s.Tables = []Table{phaseTable(c)}
	// The table has all of them.
	if n := len(c.Candidates); n > chart.MostCandidates {
		s.Words += fmt.Sprintf(" The picture holds the %d candidates nearest to the answer, of %d.", chart.MostCandidates, n)
	}
	s.Charts = []Chart{{Label: "Seconds by phase for each candidate", Picture: c.Bars()}}
	return s
}

// phaseTable holds the values of the picture, with the limits in its first row.
func phaseTable(c chart.Phases) Table {
	t := Table{Title: "Seconds by phase: median / longest", Columns: []string{"candidate", "launches"}, Right: []string{"launches"}, Detail: true}
	// It stands on top, right above the times that it bounds.
	limits := []string{"limit", ""}
	for i, name := range c.Names {
		t.Columns, t.Right = append(t.Columns, name), append(t.Right, name)
		limit := "none"
		if c.Limits[i] > 0 {
			limit = words.Limit(c.Limits[i])
		}
		limits = append(limits, limit)
	}
	t.Columns = append(t.Columns, "ended")
	whole := ""
	if c.Whole > 0 {
		whole = "whole run: " + words.Limit(c.Whole)
	}
	t.Rows, t.States = append(t.Rows, append(limits, whole)), append(t.States, "")
	for _, x := range c.Candidates {
		row := []string{x.Name, fmt.Sprint(x.N)}
		for i, v := range x.Seconds {
			cell := digits(v)
			// A single launch has no longest time besides its median.
			if x.N > 1 {
				cell += " / " + digits(x.Worst[i])
			}
			row = append(row, cell)
		}
		t.Rows, t.States = append(t.Rows, append(row, x.Ended)), append(t.States, x.State)
	}
	return t
}

// timeline is every launch in time, and the state of each device over the job; known are the devices as the document
// lists them.
func (v view) timeline(known []string) Section {
	s := Section{ID: "timeline", Title: "Timeline"}
	if len(report.Made(v.launches)) == 0 {
		return s
	}
	l := v.drawn()
	devices := l.Devices(known)
	s.Charts = []Chart{{Label: "Launches in time, by what they were for; below them what the device went through", Picture: l.Timeline(devices)}}
	s.Words = "A lane for each purpose of launches, more where they overlap. A build is drawn right before its launch, although it may have been made ahead."
	// Without readings of a device only the lanes of launches are drawn.
	if len(devices) == 0 {
		s.Charts[0].Label = "Launches in time, by what they were for"
		return s
	}
	// In words too: both make times incomparable, and marks in a long picture are easily missed.
	throttled, shared := 0, 0
	for _, d := range devices {
		for _, x := range d.Samples {
			if x.Throttled != "" {
				throttled++
			}
			if x.Shared != "" {
				shared++
			}
		}
		s.Tables = append(s.Tables, deviceTable(d))
	}
	on := " No throttling, no other process."
	if throttled+shared > 0 {
		on = fmt.Sprintf(" Throttled in %s, shared with other processes in %s.", words.Count(throttled, "launch"), words.Count(shared, "launch"))
	}
	s.Words += on
	return s
}

// deviceTable holds the values of the picture of one device.
// There are two rows for each launch, before and after it.
func deviceTable(d chart.Device) Table {
	t := Table{Title: d.Name, Columns: []string{"launch", "when", "at", "SM clock, MHz", "memory clock, MHz", "°C", "W", "throttled by", "shared with"}, Right: []string{"launch", "at", "SM clock, MHz", "memory clock, MHz", "°C", "W"}, Detail: true}
	for _, x := range d.Samples {
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
	t := Table{Title: "Launches, in order", Columns: []string{"no.", "candidate", "purpose", "ended", "build", "run", "at", "remarks"}, Right: []string{"no.", "build", "run", "at"}, Detail: true}
	for i, l := range v.launches {
		if i == mostLaunches {
			t.Notes = append(t.Notes, fmt.Sprintf("%d more: kbisect show %s", len(v.launches)-i, v.session))
			break
		}
		t.Rows = append(t.Rows, v.row(i+1, l))
		t.States = append(t.States, chart.Ended(l.Outcome.Class))
		// Only what culprits printed is quoted (loud), as that is what the answer is about.
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
	// A build that another launch has made already took no time here.
	build := ""
	switch {
	case o.CacheHit:
		build = "cached"
	case o.Built:
		build = words.Seconds(o.Build)
	}
	var remarks []string
	// Whatever may make a launch differ from the others of its commit is a remark.
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
	return []string{fmt.Sprint(n), l.Candidate.Brief(), v.why(l), o.Describe(), build, words.Seconds(o.Wall), words.Seconds(o.At), strings.Join(remarks, "; ")}
}
