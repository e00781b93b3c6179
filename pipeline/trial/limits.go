package trial

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// Limits bound a trial, as the user gives them. 0 is no limit.
type Limits struct {
	Build  time.Duration
	Run    time.Duration            // the whole trial without the build
	Phases map[string]kernels.Limit // by phase; may be nil

	BuildMemory int64 `json:",omitempty"` // bytes, 0 for no limit
	RunMemory   int64 `json:",omitempty"` // likewise, of each process tree of a launch
}

// Relative reports a limit that is a multiple of what the good end takes.
func (l Limits) Relative() bool {
	for _, phase := range l.Phases {
		if phase.Times > 0 {
			return true
		}
	}
	return false
}

const teardown = protocol.Teardown

// Reference is what launches of the good end have shown. Limits may be multiples of its times; and how much it
// sends shows when another program has sent its last line, so that what follows is its teardown. The zero value
// knows nothing.
type Reference struct {
	Times   map[string]time.Duration // the longest in each phase, and as [bisect.WholeTrial]
	Speaks  *bool                    // whether programs of this project send protocol lines; nil while unknown
	Shape   *protocol.Shape          // how much they send; nil while unknown
	Varies  bool                     // they do not always send as much
	Covers  bool                     // what is compared covers the load of a program: nothing may disturb that
	Longest float64                  // of the times that a program gives which sends no lines, in seconds
}

// Learn takes in a launch of the good end that ended well. Times is replaced and never changed, since the bounds of
// a build ahead may hold the old map.
func (g *Reference) Learn(o bisect.Outcome) {
	g.Speaks = &o.Speaks
	g.learnShape(o)
	times := maps.Clone(g.Times)
	if times == nil {
		times = map[string]time.Duration{}
	}
	longer := func(phase string, seconds float64) {
		times[phase] = max(times[phase], time.Duration(seconds*float64(time.Second)))
	}
	for _, ph := range o.Phases {
		longer(ph.Name, ph.Seconds)
	}
	longer(bisect.WholeTrial, o.Wall)
	g.Times = times
}

// LearnCovered looks whether the samples of a launch that ended well are longer than all that came after the load of the
// program, or whether its time as a whole is compared in place of samples. Of a program that sends no lines it is not known
// when it has loaded; anything but a time, such as a rate, may cover that.
func (g *Reference) LearnCovered(p Recipe, o bisect.Outcome) {
	const least = 0.1 // seconds of the load
	after := 0.0
	g.Covers = g.Covers || Whole(p, o)
	for _, ph := range o.Phases {
		if !loads(ph.Name) {
			after += ph.Seconds
		}
	}
	for _, s := range o.Series {
		for _, v := range s.Values {
			v, unit := metric.Base(v, s.Unit)
			g.Covers = g.Covers || s.Metric == p.SampleMetric && unit == "s" && v > after+least || !o.Speaks && unit != "s"
			if !o.Speaks {
				g.Longest = max(g.Longest, v)
			}
		}
	}
}

// StartCounts reports that what is compared covers the start of a process, or may, so that nothing may disturb it.
func (g *Reference) StartCounts(p Recipe) bool {
	return p.WholeTimed || g.Covers || p.FallsBack && g.Speaks == nil
}

// learnShape keeps how much good launches send; the least of it, if programs do not always send as much.
func (g *Reference) learnShape(o bisect.Outcome) {
	var s protocol.Shape
	switch {
	case len(o.Shape) == 0 || json.Unmarshal(o.Shape, &s) != nil:
		return
	case g.Shape == nil:
		g.Shape = &s
		return
	}
	same := g.Shape.Before == s.Before && g.Shape.Result == s.Result && maps.Equal(g.Shape.Kinds, s.Kinds)
	least, comparable := g.Shape.Least(s)
	if !comparable {
		least.Kinds = map[string]int{"never": 1} // matches no program, so that no line is taken for the last
	}
	g.Shape, g.Varies = &least, g.Varies || !same
}

// Bounds are the limits of one trial: the user's and, if the request is in a hurry, the time after which no good
// run could still be in a phase. They are never changed.
type Bounds struct {
	Limits Limits
	Good   map[string]time.Duration // see [Reference]
	Hurry  string                   // see [bisect.Request]
	Past   float64                  // likewise, seconds

	// Unprobed says that Python runs without the probe, so that its imports and compilations count to the
	// phases in which they happen.
	Unprobed bool
}

// Bounds are the bounds of a request by what is known now.
func (g *Reference) Bounds(l Limits, r bisect.Request) Bounds {
	return Bounds{Limits: l, Good: g.Times, Hurry: r.Hurry, Past: r.Past}
}

// limit is the user's limit of a phase, "build" and [bisect.WholeTrial] included; 0 is none.
func (b Bounds) limit(phase string) time.Duration {
	switch phase {
	case "build":
		return b.Limits.Build
	case bisect.WholeTrial:
		return b.Limits.Run
	}
	l, ok := b.Limits.Phases[phase]
	if !ok { // "check" is the limit of test/check, benchmark/check and so on
		l = b.Limits.Phases[phase[strings.LastIndexByte(phase, '/')+1:]]
	}
	return l.For(b.Good[phase])
}

// inForce is what bounds a phase while it runs; 0 is nothing.
func (b Bounds) inForce(phase string) time.Duration {
	full := b.limit(phase)
	if soon := b.soon(phase); soon > 0 && (full == 0 || soon < full) {
		full = soon
	}
	return b.withProbed(phase, full)
}

// soon is the limit of a phase that hurry sets; 0 is none.
func (b Bounds) soon(phase string) time.Duration {
	past := time.Duration(b.Past * float64(time.Second))
	switch {
	case b.Hurry == bisect.SlowTrial && phase == bisect.WholeTrial:
		return past
	case b.Hurry == phase && (phase != "build" || b.Good[phase] > 0): // the good end may come from the build cache
		return max(patience(b.Good[phase]), patience(past))
	}
	return 0
}

// allowed is how long a phase may have taken whose length is known only afterwards.
func (b Bounds) allowed(phase string) time.Duration { return b.withProbed(phase, b.limit(phase)) }

// withProbed adds to the limit of a phase those of the phases that only the probe would separate from it.
func (b Bounds) withProbed(phase string, limit time.Duration) time.Duration {
	if limit <= 0 || !b.Unprobed || phase == teardown || phase == bisect.WholeTrial || slices.Contains(kernels.ProbePhases(), phase) {
		return limit
	}
	for _, p := range kernels.ProbePhases() {
		limit += b.limit(p)
	}
	return limit
}

// patience is [bisect.Patience] as a duration.
func patience(good time.Duration) time.Duration {
	return time.Duration(bisect.Patience(good.Seconds()) * float64(time.Second))
}

// hurried reports whether a time-out in a phase came from hurry and not from the user's limit, and why.
func (b Bounds) hurried(phase string) (why string, ok bool) {
	limit, full := b.inForce(phase), b.limit(phase)
	if b.soon(phase) == 0 || full > 0 && limit >= full {
		return "", false
	}
	in := "in " + phase
	if phase == bisect.WholeTrial {
		in = "as a whole"
	}
	return fmt.Sprintf("stopped after %v, where the good end takes %.3g s %s", limit.Round(time.Millisecond), b.Good[phase].Seconds(), in), true
}
