package judge

import (
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// channel is one number that a launch gives: a metric of one case, or of all cases together.
type channel struct {
	metric Metric
	one    string // the case
	all    bool   // the mean over the cases
}

// level is the number of one launch, larger is worse.
func (c channel) level(o bisect.Outcome) (float64, bool) {
	if !c.all {
		o.Series = slices.DeleteFunc(slices.Clone(o.Series), func(s bisect.Series) bool { return s.Case != c.one })
	}
	return c.metric.level(o)
}

func (c channel) name() string {
	if c.all || c.one == "" {
		return c.metric.Name
	}
	return c.metric.Name + " of " + c.one
}

// channels lists what both ends have sent, the whole of a metric before its cases.
func channels(ms []Metric, g, b bisect.Outcome) []channel {
	var out []channel
	for _, m := range ms {
		_, inGood := m.log(g)
		_, inBad := m.log(b)
		if !inGood || !inBad || m.Exact {
			continue
		}
		out = append(out, channel{metric: m, all: true})
		var cases []string
		for _, s := range g.Series {
			if s.Metric == m.Name && !slices.Contains(cases, s.Case) {
				cases = append(cases, s.Case)
			}
		}
		if len(cases) < 2 {
			continue
		}
		for _, name := range cases {
			c := channel{metric: m, one: name}
			if _, ok := c.level(b); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

// ofProcess reports a metric that the first launches of the ends, made to see what they end as, may
// not show as the later ones do.
func (m Metric) ofProcess() bool { return m.Name == "wall" || strings.HasPrefix(m.Name, "phase.") }
