package chart

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

// Launches are those of a document, with what the document calls them. The functions must answer for every candidate
// and purpose in All.
type Launches struct {
	All    []report.Launch
	Limits map[string]float64
	At     func(bisect.Candidate) int // place among others
	Name   func(bisect.Candidate) string
	State  func(bisect.Candidate) State
	Called func(bisect.Purpose) string
}

// Ended is the state of a launch that ended in a class.
func Ended(c bisect.Class) State {
	switch c {
	case bisect.OK:
		return Good
	case bisect.Skip, bisect.BuildFailed:
		return Skipped
	}
	return Bad
}

// Phases are the times of the phases, for each candidate, in seconds.
type Phases struct {
	Names      []string
	Limits     []float64 // by phase; 0: none
	Whole      float64   // limit of a run without its build; 0: none
	Candidates []Timed
}

// Timed is one candidate. Seconds holds medians over its launches, Worst the longest times, both indexed like
// Phases.Names; 0 for a phase that it never reached.
type Timed struct {
	Name    string
	State   State
	Seconds []float64 // by phase
	Worst   []float64 // by phase, over all launches
	N       int
	Ended   string // how, unless all ended well
	key     string
}

// Phases gathers the phases in the order in which they run, and for each candidate their median and longest times. A
// phase that a candidate never reached takes no room in its bar.
func (l Launches) Phases() Phases {
	// PhaseCosts has the order: phases come as programs enter them, whatever launch saw them first.
	c := Phases{Whole: l.Limits[bisect.WholeTrial]}
	index := map[string]int{}
	for _, r := range (report.Ledger{Launches: l.All}).PhaseCosts() {
		index[r.Phase] = len(c.Names)
		c.Names = append(c.Names, words.Printable(r.Phase))
		c.Limits = append(c.Limits, l.Limits[r.Phase])
	}
	var order []bisect.Candidate
	times, count, ended := map[bisect.Candidate][][]float64{}, map[bisect.Candidate]int{}, map[bisect.Candidate]string{}
	for _, x := range l.All {
		id := x.Candidate
		if times[id] == nil {
			times[id] = make([][]float64, len(c.Names))
			order = append(order, id)
		}
		count[id]++
		for _, t := range x.Outcome.Phases {
			times[id][index[t.Name]] = append(times[id][index[t.Name]], t.Seconds)
		}
		if x.Outcome.Class != bisect.OK {
			ended[id] = words.Printable(x.Outcome.Describe())
		}
	}
	slices.SortStableFunc(order, func(a, b bisect.Candidate) int { return l.At(a) - l.At(b) })
	for _, id := range order {
		x := Timed{Name: words.Cut(words.Printable(l.Name(id)), 48), State: l.State(id), N: count[id], Ended: ended[id], key: l.key(id)}
		for _, seen := range times[id] {
			median := report.Median(seen)
			if !median.Known() {
				median = 0
			}
			x.Seconds = append(x.Seconds, float64(median))
			// Limits stop the longest launch, not the median, so it is kept beside that.
			x.Worst = append(x.Worst, slices.Max(append(seen, 0)))
		}
		c.Candidates = append(c.Candidates, x)
	}
	return c
}

// key links the marks of a commit to those along the range; "" for a candidate with flags.
func (l Launches) key(c bisect.Candidate) string {
	if c.Assign != "" {
		return ""
	}
	return key(l.At(c))
}

// MostCandidates is how many candidates the pictures of the phases hold: the ends, and those nearest to the culprit.
const MostCandidates = 24

// nearest keeps the ends and the candidates around the culprit or, without one, around the first bad commit.
func nearest(all []Timed) []Timed {
	if len(all) <= MostCandidates {
		return all
	}
	// Neighbours of the answer are what it is compared with.
	centre := slices.IndexFunc(all, func(c Timed) bool { return c.State == Culprit })
	if centre < 0 {
		centre = max(0, slices.IndexFunc(all, func(c Timed) bool { return c.State == Bad }))
	}
	// The first and the last stay, as what everything is compared with; the others are the window around the answer.
	from := min(max(1, centre-MostCandidates/2), len(all)-MostCandidates+1)
	middle := slices.Clone(all[from : from+MostCandidates-2])
	return append(append([]Timed{all[0]}, middle...), all[len(all)-1])
}

// colour is the class of the bars of phase i. There are ten colours; they repeat.
func colour(i int) string { return fmt.Sprintf("f-%d", i%10) }

// legend are the colours of the phases.
func (c Phases) legend() (out []Key) {
	for i, name := range c.Names {
		out = append(out, Key{"", colour(i), words.Cut(name, 40)})
	}
	return out
}

// Bars shows where the time of each candidate goes. The limit of the run is drawn where it is not so far off that the
// bars would shrink to nothing.
func (c Phases) Bars() Rows {
	out := Rows{Keys: c.legend()}
	longest := 0.0
	for _, x := range nearest(c.Candidates) {
		row := Row{Name: x.Name, State: x.State, Value: words.Cut(x.Ended, 40), Key: x.key}
		at := 0.0
		for i, s := range x.Seconds {
			if s == 0 {
				continue
			}
			title := fmt.Sprintf("%s: %s, longest %s", c.Names[i], words.Seconds(s), words.Seconds(x.Worst[i]))
			if c.Limits[i] > 0 {
				title += fmt.Sprintf("\n%s of its limit of %s", words.Percent(x.Worst[i]/c.Limits[i]), words.Limit(c.Limits[i]))
			}
			row.Bars = append(row.Bars, Bar{From: at, To: at + s, Class: colour(i), Title: title})
			at += s
		}
		if x.Ended == "" {
			row.Value = words.Seconds(at)
		}
		longest = max(longest, at)
		out.Rows = append(out.Rows, row)
	}
	if c.Whole > 0 && c.Whole < 3*longest {
		longest = max(longest, c.Whole)
		out.Lines = []Line{{At: c.Whole, Text: "limit of a run " + words.Limit(c.Whole)}}
	}
	out.Axis = scale("seconds", true, 0, longest)
	return out
}

// Sample is one reading of a device, before or after a launch. Launch counts from 1, as the tables do; temperature is
// in °C, power in watts. A reading of 0 is one that the device did not give.
type Sample struct {
	At          float64 // seconds since the job began
	Launch      int
	After       bool
	SMClock     float64 `json:"sm_clock"`  // MHz
	MemClock    float64 `json:"mem_clock"` // MHz
	Temperature float64 `json:"temperature"`
	PowerW      float64 `json:"power_w"`
	Throttled   string
	Shared      string
}

// Device is what one device went through over the job, reading by reading in order of the launches.
type Device struct {
	Name    string
	Samples []Sample
	uuid    string
}

// Devices are those that the launches report; known are the devices as a document lists them, whose names are used. A
// launch whose notes cannot be read (another version wrote them, or the device was lost) is left out.
func (l Launches) Devices(known []string) (out []Device) {
	for i, x := range l.All {
		for _, n := range x.Outcome.Devices {
			var before, after Sample
			// Readings are kept as the device gave them: their keys are those of the tags of Sample.
			if json.Unmarshal(n.Before, &before) != nil || json.Unmarshal(n.After, &after) != nil {
				continue
			}
			before.At, before.Launch, before.After, before.Throttled, before.Shared = x.Outcome.At, i+1, false, "", ""
			after.At, after.Launch, after.After = x.Outcome.At+x.Outcome.Wall, i+1, true
			after.Throttled, after.Shared = words.Printable(n.Throttled), words.Printable(n.Shared)
			k := slices.IndexFunc(out, func(d Device) bool { return d.uuid == n.UUID })
			if k < 0 {
				// A device that the document does not list is called by its id.
				name := n.UUID
				for _, d := range known {
					if n.UUID != "" && strings.Contains(d, n.UUID) {
						name = d
					}
				}
				k, out = len(out), append(out, Device{Name: words.Printable(name), uuid: n.UUID})
			}
			out[k].Samples = append(out[k].Samples, before, after)
		}
	}
	return out
}

// Sizes of the timeline, chosen so that a page stays below 200 kB and no bar is too thin to be seen.
const (
	mostPoints = 150       // readings of a trace
	closest    = 1.0 / 250 // share of the whole time; launches closer together become one bar
)

// Timeline is every launch in time: a lane for each device and purpose, more where launches overlap, one for builds,
// and below them what the devices went through. Launches taken over from elsewhere (From, Shared) took no time here.
func (l Launches) Timeline(devices []Device) Rows {
	out := Rows{Lanes: true}
	var order []string
	lanes := map[string][]track{}
	end := 0.0
	// The end is needed first, since how close two bars may be depends on it.
	for _, x := range l.All {
		end = max(end, x.Outcome.At+x.Outcome.Wall)
	}
	var states []Dot
	for i, x := range l.All {
		o := x.Outcome
		if o.From != "" || o.Shared != "" { // nothing was run for it
			continue
		}
		state := Ended(o.Class)
		states = append(states, Dot{State: state})
		lane := l.lane(x, devices)
		b := bars{from: o.At, to: o.At + o.Wall, state: state, title: fmt.Sprintf("launch %d: %s\n%s to %s: %s", i+1, l.Name(x.Candidate), words.Seconds(o.At), words.Seconds(o.At+o.Wall), words.Cut(words.Printable(o.Describe()), 60)), key: l.key(x.Candidate)}
		if lanes[lane] == nil {
			order = append(order, lane)
		}
		lanes[lane] = put(lanes[lane], b)
		// When a build began is not known: it is drawn as if it had ended when its launch began.
		if o.Built && o.Build > 0 {
			const builds = "build"
			if lanes[builds] == nil {
				order = append(order, builds)
			}
			lanes[builds] = put(lanes[builds], bars{from: max(0, o.At-o.Build), to: o.At, title: fmt.Sprintf("build for launch %d: %s\n%s", i+1, words.Seconds(o.Build), l.Name(x.Candidate)), key: b.key})
		}
	}
	out.Axis = scale("seconds since the job began", true, 0, end)
	for _, name := range order {
		for i, t := range lanes[name] {
			row := Row{Name: name, Bars: t.bars(end * closest)}
			if i > 0 {
				row.Name = ""
			}
			out.Rows = append(out.Rows, row)
		}
	}
	for _, d := range devices {
		out.Rows = append(out.Rows, d.traces(len(devices) > 1)...)
	}
	for _, k := range keys(states) {
		out.Keys = append(out.Keys, Key{"", "f-" + string(k.State), "ended " + k.Text})
	}
	return out
}

// lane is the name of the lane of a launch: its purpose and, where there are several devices, those that it ran on.
func (l Launches) lane(x report.Launch, devices []Device) string {
	name := l.Called(x.Purpose)
	if x.Drill {
		name = "within the culprit"
	}
	// With one device, naming it in every lane would only take room.
	if len(devices) < 2 {
		return name
	}
	var on []string
	for _, n := range x.Outcome.Devices {
		if i := slices.IndexFunc(devices, func(d Device) bool { return d.uuid == n.UUID }); i >= 0 {
			on = append(on, fmt.Sprint(i))
		}
	}
	return "GPU " + cmp.Or(strings.Join(on, "+"), "?") + ": " + name
}

// bars is one launch or build on the timeline, in seconds since the job began.
type bars struct {
	from, to float64
	state    State
	title    string
	key      string
}

// track is launches of a lane that do not overlap, in order of time.
type track []bars

// put adds a launch to the first track in which it has room, else to a new one.
func put(all []track, b bars) []track {
	// Times are sums of floats: launches one after the other may seem to overlap by less than this, in seconds.
	const touch = 1e-6
	for i, t := range all {
		if t[len(t)-1].to <= b.from+touch {
			all[i] = append(t, b)
			return all
		}
	}
	return append(all, track{b})
}

// bars draws a track. Neighbours of one state closer together than `close` (seconds) become one bar.
func (t track) bars(close float64) (out []Bar) {
	for _, b := range t {
		class := "f-" + string(b.state)
		if b.state == "" {
			class = "f-build"
		}
		if n := len(out); n > 0 && out[n-1].Class == class && b.to-out[n-1].From < close {
			out[n-1].To, out[n-1].Title = b.to, "several launches, too close together to draw separately"
			continue
		}
		out = append(out, Bar{From: b.from, To: b.to, Class: class, Key: b.key, Title: b.title})
	}
	return out
}

// traces are the clock, the temperature and the power of a device in time, thinned out to about mostPoints. Where
// clocks were held down or another process was on the device, the trace of the clock has a mark. A device with fewer
// than two readings of a kind has no trace of it.
func (d Device) traces(named bool) (out []Row) {
	for _, of := range []struct {
		name, unit string
		value      func(Sample) float64
	}{{"SM clock", "MHz", func(s Sample) float64 { return s.SMClock }}, {"temperature", "°C", func(s Sample) float64 { return s.Temperature }}, {"power", "W", func(s Sample) float64 { return s.PowerW }}} {
		row := Row{Name: of.name}
		if named {
			row.Name += ", " + words.Cut(d.Name, 16)
		}
		var values []float64
		every := len(d.Samples)/mostPoints + 1
		for i, s := range d.Samples {
			// Throttling is rare and may lie between the readings that are kept, so those are kept too.
			v, marked := of.value(s), s.Throttled != "" || s.Shared != ""
			if v == 0 || i%every != 0 && !(marked && of.unit == "MHz") {
				continue
			}
			when := "before"
			if s.After {
				when = "after"
			}
			x := Dot{X: s.At, Y: v, Title: fmt.Sprintf("%s launch %d: %s %s", when, s.Launch, words.Figure(v), of.unit)}
			if marked && of.unit == "MHz" {
				x.State = Other
				for _, why := range []string{s.Throttled, s.Shared} {
					if why != "" {
						x.Title += "\n" + why
					}
				}
			}
			row.Trace, values = append(row.Trace, x), append(values, v)
		}
		if len(values) < 2 {
			continue
		}
		low, high := slices.Min(values), slices.Max(values)
		row.Value = fmt.Sprintf("%s to %s %s", words.Figure(low), words.Figure(high), of.unit)
		if low == high {
			row.Value = words.Figure(low) + " " + of.unit
		}
		// A clock that moves by a few MHz must not look like one that collapses.
		heights := scale("", false, low, high, low*0.98, high*1.02)
		row.Scale = &heights
		out = append(out, row)
	}
	return out
}
