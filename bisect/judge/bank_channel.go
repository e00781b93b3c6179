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
	one    string // the case
	all    bool   // the mean over the cases
	shared *sharedCases
}

// sharedCases are the cases that both ends give, where one of them gives others as well: a case that comes
// or goes in between makes nothing slower. Of a launch that lacks some of them, the others are held
// against the same ones of the good end.
type sharedCases struct {
	good map[string]float64 // levels of the good end
	mean float64
}

// newSharedCases returns nil where both ends give the same cases, or have none in common.
func newSharedCases(m Metric, g, b bisect.Outcome) *sharedCases {
	inGood, inBad := cases(m, g), cases(m, b)
	x := &sharedCases{good: map[string]float64{}}
	for _, c := range inGood {
		if y, ok := (channel{metric: m, one: c}).level(g); ok && slices.Contains(inBad, c) {
			x.good[c] = y
			x.mean += y
		}
	}
	if n := len(x.good); n == 0 || n == len(inGood) && n == len(inBad) {
		return nil
	}
	x.mean /= float64(len(x.good))
	return x
}

func (x *sharedCases) level(m Metric, o bisect.Outcome) (float64, bool) {
	sum, n := 0.0, 0
	for _, c := range cases(m, o) {
		good, shared := x.good[c]
		if y, ok := (channel{metric: m, one: c}).level(o); ok && shared {
			sum += y - good
			n++
		}
	}
	return x.mean + sum/float64(max(n, 1)), n > 0
}

// oneSided tells of cases that one end alone gives.
func oneSided(ms []Metric, g, b bisect.Outcome) (words []string) {
	ends := []struct {
		name  string
		o, of bisect.Outcome
	}{{"good", g, b}, {"bad", b, g}}
	for _, m := range ms {
		for _, end := range ends {
			other := cases(m, end.of)
			alone := slices.DeleteFunc(cases(m, end.o), func(c string) bool { return slices.Contains(other, c) })
			if len(alone) == 0 {
				continue
			}
			name := channel{metric: m, one: alone[0]}.name()
			if len(alone) > 1 {
				name += fmt.Sprintf(" and %d more", len(alone)-1)
			}
			words = append(words, fmt.Sprintf("only the %s end gives %s: it is left out", end.name, name))
		}
	}
	return words
}

// level is the number of one launch, larger is worse.
func (c channel) level(o bisect.Outcome) (float64, bool) {
	if c.shared != nil {
		return c.shared.level(c.metric, o)
	}
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
		out = append(out, channel{metric: m, all: true, shared: newSharedCases(m, g, b)})
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
