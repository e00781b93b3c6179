package metric

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// Channel is one number that a launch gives: a metric of one case, of all cases together, or of a kernel.
type Channel struct {
	Metric Metric
	Case   string   // one shape, input or kernel; "" where all are meant
	All    bool     // the geometric mean over the cases
	of     []string // these cases; nil: whatever a launch gives
	units  []string // that both ends give it in; nil: any
	kernel *kernel  // of an exact metric: how to find the case
}

// Level is the number of one launch as a logarithm, larger being worse; false where it gives none that can be compared
// with that of the ends.
func (c Channel) Level(o bisect.Outcome) (float64, bool) {
	switch {
	case c.kernel != nil:
		f, ok := c.Figure(o)
		return f.Level, ok
	case c.of != nil && c.Lacks(o) != "":
		return 0, false // a mean over fewer cases is another number
	}
	o = c.part(o)
	if c.otherUnits(o) {
		return 0, false // 10 without a unit and 0.01 s have no ratio
	}
	return c.Metric.Level(o)
}

// part is an outcome with only the series of the channel's cases.
func (c Channel) part(o bisect.Outcome) bisect.Outcome {
	switch {
	case !c.All:
		return partOf(o, c.Case)
	case c.of != nil:
		of := setOf(c.of)
		o.Series = slices.DeleteFunc(slices.Clone(o.Series), func(s bisect.Series) bool { return !of[s.Case] })
	}
	return o
}

// otherUnits reports whether values of the channel's cases come in other units than at the ends.
func (c Channel) otherUnits(part bisect.Outcome) bool {
	return c.units != nil && !slices.Equal(c.units, c.Metric.units(part))
}

// within is the channel bound to the units in which an end gives it; launches in others have no level.
func (c Channel) within(end bisect.Outcome) Channel {
	c.units = c.Metric.units(c.part(end))
	return c
}

// Lacks names what a launch gives no comparable value of; "" if nothing is missing.
func (c Channel) Lacks(o bisect.Outcome) string {
	if c.kernel != nil {
		if _, ok := c.Figure(o); !ok {
			return c.Name()
		}
		return ""
	}
	if _, ok := c.Metric.Log(o); !ok {
		return c.Name()
	} else if c.Metric.OfProcess() {
		return ""
	}
	if !c.All {
		o = partOf(o, c.Case)
	}
	given := setOf(Cases(c.Metric, o))
	for _, one := range c.of {
		if !given[one] {
			return Channel{Metric: c.Metric, Case: one}.Name()
		}
	}
	if !c.All && !given[c.Case] {
		return c.Name()
	}
	if c.otherUnits(c.part(o)) {
		return c.Name() + " " + inUnits(c.units)
	}
	return ""
}

// Name is the metric, with the case that the number is of: "time of m=512".
func (c Channel) Name() string {
	if c.All || c.Case == "" {
		return c.Metric.Name
	}
	return c.Metric.Name + " of " + c.Case
}

// Fastest is the channel by the fastest tenth of each launch's samples, or by their medians.
func (c Channel) Fastest(yes bool) Channel {
	c.Metric.Fastest = yes
	return c
}

// Switched are channels of which those of one metric are taken by the fastest tenth, or by medians.
func Switched(channels []Channel, m Metric, fastest bool) []Channel {
	out := slices.Clone(channels)
	for k, c := range out {
		if c.Metric == m {
			out[k] = c.Fastest(fastest)
		}
	}
	return out
}

// partOf is an outcome with only the series of one case.
func partOf(o bisect.Outcome, one string) bisect.Outcome {
	var of []bisect.Series
	for i := range o.Series {
		if o.Series[i].Case == one {
			of = append(of, o.Series[i])
		}
	}
	o.Series = of
	return o
}

// Parts is an outcome with its series sorted by case. Programs send thousands of cases; so none need be searched for
// among all.
type Parts struct {
	whole bisect.Outcome
	by    map[string][]bisect.Series
}

// NewParts sorts the series of an outcome by case.
func NewParts(o bisect.Outcome) Parts {
	p := Parts{o, make(map[string][]bisect.Series, len(o.Series))}
	for _, s := range o.Series {
		p.by[s.Case] = append(p.by[s.Case], s)
	}
	return p
}

// Of is as much of the outcome as tells the number of a channel. For a kernel that is not there under any of its names
// it is the whole.
func (p Parts) Of(c Channel) bisect.Outcome {
	o := p.whole
	switch {
	case c.kernel != nil:
		var own []bisect.Series
		for _, n := range c.kernel.names {
			own = append(own, p.by[n]...)
		}
		if slices.ContainsFunc(own, func(s bisect.Series) bool { return s.Metric == c.Metric.Name }) {
			o.Series = own
		}
	case !c.All:
		o.Series = p.by[c.Case]
	}
	return o
}

func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

// Channels lists what both ends, g good and b bad, have sent, each metric as a whole before its cases. The whole is
// over the cases that both ends have in one unit. Exact metrics are left out (Kernels).
func Channels(ms []Metric, g, b bisect.Outcome) []Channel {
	var out []Channel
	sent := false // the good end has sent one of those that are not to fall back on, which come first
	for _, m := range ms {
		_, inGood := m.Log(g)
		_, inBad := m.Log(b)
		sent = sent || inGood && !m.Fallback
		if !inGood || !inBad || m.Exact || m.Fallback && sent {
			continue
		}
		if m.OfProcess() {
			out = append(out, Channel{Metric: m, All: true})
			continue
		}
		shared := alike(m, g, b)
		if shared == nil && (len(Cases(m, g)) > 1 || len(Cases(m, b)) > 1 || len(m.units(g)) > 1 || !slices.Equal(m.units(g), m.units(b))) {
			continue
		}
		out = append(out, Channel{Metric: m, All: true, of: shared}.within(g))
		for _, name := range shared {
			if len(shared) > 1 {
				out = append(out, Channel{Metric: m, Case: name}.within(g))
			}
		}
	}
	return out
}

// InCommon lists what is in both; nil if nothing is.
func InCommon(a, b []string) []string {
	var out []string
	in := setOf(b)
	for _, x := range a {
		if in[x] {
			out = append(out, x)
		}
	}
	return out
}

// alike lists the cases that two launches give in one and the same unit; nil if there are none. A launch that gives a
// case in several units, such as 10 and 3 ms, gives no number of it.
func alike(m Metric, a, b bisect.Outcome) (out []string) {
	of, other := NewParts(a), NewParts(b)
	for _, one := range InCommon(Cases(m, a), Cases(m, b)) {
		c := Channel{Metric: m, Case: one}
		if u := m.units(of.Of(c)); len(u) == 1 && slices.Equal(u, m.units(other.Of(c))) {
			out = append(out, one)
		}
	}
	return out
}

// Clashes says, in sentences, which cases two launches give in different units, or in several. sides are the names of
// the launches.
func Clashes(ms []Metric, first [2]bisect.Outcome, sides [2]string) (out []string) {
	of := [2]Parts{NewParts(first[0]), NewParts(first[1])}
	for _, m := range ms {
		for _, one := range InCommon(Cases(m, first[0]), Cases(m, first[1])) {
			c := Channel{Metric: m, Case: one}
			if a, b := m.units(of[0].Of(c)), m.units(of[1].Of(c)); !slices.Equal(a, b) || len(a) > 1 {
				out = append(out, fmt.Sprintf("%s gives %s %s, %s %s", sides[0], c.Name(), inUnits(a), sides[1], inUnits(b)))
			}
		}
	}
	return out
}

// inUnits says in which units values are given.
func inUnits(units []string) string {
	var each []string
	for _, u := range units {
		if u == "" {
			each = append(each, "without a unit")
		} else {
			each = append(each, "in "+u)
		}
	}
	return strings.Join(each, " and ")
}

// OneSided says which cases only one of two launches gives, or both in different units.
func OneSided(ms []Metric, first [2]bisect.Outcome, sides [2]string) []string {
	var out []string
	for _, m := range ms {
		given := [2][]string{Cases(m, first[0]), Cases(m, first[1])}
		if m.Exact {
			for _, p := range Renamed(given[0], given[1], Family) {
				for side := range given {
					given[side] = without(given[side], p[side])
				}
			}
		}
		for side, name := range sides {
			other := setOf(given[1-side])
			for _, c := range given[side] {
				if !other[c] {
					out = append(out, fmt.Sprintf("only %s gives %s: it is not compared", name, Channel{Metric: m, Case: c}.Name()))
				}
			}
		}
	}
	for _, clash := range Clashes(ms, first, sides) {
		out = append(out, clash+": it is not compared")
	}
	return out
}

// InBoth lists what both launches give in the same units: a metric over all of its cases, where these are the same on
// both sides, and case by case.
func InBoth(ms []Metric, first [2]bisect.Outcome) []Channel {
	var out []Channel
	for _, m := range ms {
		if m.OfProcess() {
			out = append(out, Channels([]Metric{m}, first[0], first[1])...)
			continue
		}
		a, b := Cases(m, first[0]), Cases(m, first[1])
		shared := alike(m, first[0], first[1])
		same := len(shared) == len(a) && len(shared) == len(b)
		if same && len(shared) > 0 {
			out = append(out, Channel{Metric: m, All: true}.within(first[0]))
		}
		if same && len(shared) == 1 {
			continue
		}
		for _, c := range shared {
			out = append(out, Channel{Metric: m, Case: c}.within(first[0]))
		}
		if m.Exact {
			for _, p := range Renamed(a, b, Family) {
				out = append(out, Channel{Metric: m, Case: p[1], kernel: &kernel{names: p[:], others: setOf(slices.Concat(a, b))}})
			}
		}
	}
	return out
}

// Unit is the unit of a channel's numbers in a launch; "" for none.
func (c Channel) Unit(o bisect.Outcome) string {
	if c.Metric.OfProcess() && !c.Metric.Counted {
		return "s"
	}
	for _, s := range o.Series {
		if s.Metric == c.Metric.Name && (c.All || c.kernel != nil || s.Case == c.Case) {
			return s.Unit
		}
	}
	return ""
}

// Value is the number that has a level. Exact numbers come out whole, and 0 as 0.
func (c Channel) Value(level float64) float64 {
	v := c.Positive(level)
	switch {
	case !c.Metric.Exact:
		return v
	case v <= zeroAs*1.01:
		return 0
	case math.Abs(v-math.Round(v)) < 1e-9*v: // it was a whole number before the logarithm
		return math.Round(v)
	}
	return v
}

// Positive is the number that has a level, as a ratio takes it: above 0 even where Value is 0.
func (c Channel) Positive(level float64) float64 {
	if c.Metric.Higher {
		level = -level
	}
	return math.Exp(level)
}
