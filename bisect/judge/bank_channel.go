package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// channel is one number that a launch gives: a metric of one case, or of all cases together.
type channel struct {
	metric Metric
	one    string   // the case
	all    bool     // the mean over the cases
	of     []string // these cases; nil: whatever a launch gives
	kernel *kernel  // of an exact metric: how to find the case
}

// level is the number of one launch, larger is worse.
func (c channel) level(o bisect.Outcome) (float64, bool) {
	switch {
	case c.kernel != nil:
		f, ok := c.figure(o)
		return f.level, ok
	case !c.all:
		o = partOf(o, c.one)
	case c.of != nil && c.lacks(o) != "":
		return 0, false // a mean over fewer cases is another number
	case c.of != nil:
		of := setOf(c.of)
		o.Series = slices.DeleteFunc(slices.Clone(o.Series), func(s bisect.Series) bool { return !of[s.Case] })
	}
	return c.metric.level(o)
}

// lacks names what a launch gives no value of, "" if nothing.
func (c channel) lacks(o bisect.Outcome) string {
	if c.kernel != nil {
		_, ok := c.figure(o)
		return map[bool]string{false: c.name()}[ok]
	}
	if _, ok := c.metric.log(o); !ok || c.metric.ofProcess() {
		return map[bool]string{false: c.name()}[ok]
	}
	if !c.all {
		o = partOf(o, c.one)
	}
	given := setOf(cases(c.metric, o))
	for _, one := range c.of {
		if !given[one] {
			return channel{metric: c.metric, one: one}.name()
		}
	}
	if !c.all && !given[c.one] {
		return c.name()
	}
	return ""
}

func (c channel) name() string {
	if c.all || c.one == "" {
		return c.metric.Name
	}
	return c.metric.Name + " of " + c.one
}

// partOf leaves of an outcome the series of one case.
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

// parts is an outcome by its cases: where there are thousands of these, none is looked for among all.
type parts struct {
	whole bisect.Outcome
	by    map[string][]bisect.Series
}

func newParts(o bisect.Outcome) parts {
	p := parts{o, make(map[string][]bisect.Series, len(o.Series))}
	for _, s := range o.Series {
		p.by[s.Case] = append(p.by[s.Case], s)
	}
	return p
}

// of is as much of the outcome as a channel is about: of a kernel that is not there by its name, all of it.
func (p parts) of(c channel) bisect.Outcome {
	o := p.whole
	if c.kernel == nil && !c.all {
		o.Series = p.by[c.one]
	}
	if c.kernel != nil {
		for _, n := range c.kernel.names {
			if s := p.by[n]; len(s) > 0 {
				o.Series = s
				break
			}
		}
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

// channels lists what both ends have sent, the whole of a metric before its cases. The whole is of the
// cases that both have.
func channels(ms []Metric, g, b bisect.Outcome) []channel {
	var out []channel
	for _, m := range ms {
		_, inGood := m.log(g)
		_, inBad := m.log(b)
		if !inGood || !inBad || m.Exact {
			continue
		}
		if m.ofProcess() {
			out = append(out, channel{metric: m, all: true})
			continue
		}
		shared := inCommon(cases(m, g), cases(m, b))
		if shared == nil && (len(cases(m, g)) > 1 || len(cases(m, b)) > 1) {
			continue
		}
		out = append(out, channel{metric: m, all: true, of: shared})
		for _, name := range shared {
			if len(shared) > 1 {
				out = append(out, channel{metric: m, one: name})
			}
		}
	}
	return out
}

// inCommon lists what is in both; nil if nothing is.
func inCommon(a, b []string) []string {
	var out []string
	in := setOf(b)
	for _, x := range a {
		if in[x] {
			out = append(out, x)
		}
	}
	return out
}

// oneSided says which cases only one of two launches gives.
func oneSided(ms []Metric, first [2]bisect.Outcome, sides [2]string) []string {
	var out []string
	for _, m := range ms {
		given := [2][]string{cases(m, first[0]), cases(m, first[1])}
		if m.Exact {
			for _, p := range renamed(given) {
				for side := range given {
					given[side] = without(given[side], p[side])
				}
			}
		}
		for side, name := range sides {
			other := setOf(given[1-side])
			for _, c := range given[side] {
				if !other[c] {
					out = append(out, fmt.Sprintf("only %s gives %s: it is not compared", name, channel{metric: m, one: c}.name()))
				}
			}
		}
	}
	return out
}

// ofProcess reports a metric that the first launches of the ends, made to see what they end as, may
// not show as the later ones do.
func (m Metric) ofProcess() bool { return m.Name == "wall" || strings.HasPrefix(m.Name, "phase.") }
