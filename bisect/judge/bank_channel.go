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
}

// level is the number of one launch, larger is worse.
func (c channel) level(o bisect.Outcome) (float64, bool) {
	switch {
	case !c.all:
		o.Series = slices.DeleteFunc(slices.Clone(o.Series), func(s bisect.Series) bool { return s.Case != c.one })
	case c.of != nil && c.lacks(o) != "":
		return 0, false // a mean over fewer cases is another number
	case c.of != nil:
		o.Series = slices.DeleteFunc(slices.Clone(o.Series), func(s bisect.Series) bool { return !slices.Contains(c.of, s.Case) })
	}
	return c.metric.level(o)
}

// lacks names what a launch gives no value of, "" if nothing.
func (c channel) lacks(o bisect.Outcome) string {
	if _, ok := c.metric.log(o); !ok || c.metric.ofProcess() {
		return map[bool]string{false: c.name()}[ok]
	}
	given := cases(c.metric, o)
	for _, one := range c.of {
		if !slices.Contains(given, one) {
			return channel{metric: c.metric, one: one}.name()
		}
	}
	if !c.all && !slices.Contains(given, c.one) {
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
	for _, x := range a {
		if slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// oneSided says which cases only one of two launches gives.
func oneSided(ms []Metric, first [2]bisect.Outcome, sides [2]string) []string {
	var out []string
	for _, m := range ms {
		for side, name := range sides {
			for _, c := range cases(m, first[side]) {
				if !slices.Contains(cases(m, first[1-side]), c) {
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
