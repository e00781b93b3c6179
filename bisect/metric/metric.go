// Package metric reads numbers off the launches of a program: which metrics and cases an outcome holds, and
// the one number, its level, that stands for a launch.
//
// A [Metric] is what a number is about, a [Channel] one series of numbers: a metric of one case, of all its cases
// together, or of one kernel that may change its name. Levels are logarithms, larger is worse, so that 0.01
// is about 1 %. One launch gives one number of each channel: samples inside a process are not replicates
// (judge.md 1.3).
//
// The package must not know searches, comparisons or noise.
package metric

import (
	"math"
	"slices"
	"strings"

	"github.com/montanaflynn/stats"

	"github.com/kbisect/kbisect/bisect"
)

// Metric is a number that "slow" may be about.
type Metric struct {
	Name   string // a series of the outcome, "wall", or "phase.NAME"
	Higher bool   // larger is better
	Told   bool   `json:",omitempty"` // Higher was said; otherwise the units of the values decide, see [Metric.Direction]

	DefaultUnit string `json:",omitempty"` // of values that come without a unit

	// Exact is a number of what was built: one launch tells it for good, and nothing need be run for it.
	// It may be 0, which counts as a half: from nothing to something is a step, whose ratio says only that.
	Exact bool

	// Counted is a number that the kernel gives of all processes of a launch: it has no cases.
	Counted bool `json:",omitempty"`

	// Fallback is a number that is searched for only where the good end gives no other: the wall time of a program that
	// sends samples scatters more than these, and launches may be made so that only samples count.
	Fallback bool `json:",omitempty"`

	// Fastest is the number by the fastest tenth of a launch's samples, or the highest where more is better, instead of
	// their median.
	Fastest bool `json:",omitempty"`
}

// zeroAs stands for 0 in an exact metric, which has no logarithm; all other values of such a metric are whole numbers.
const zeroAs = 0.5

// The rules that a search and a comparison share.
const (
	MaxPairs     = 120  // pairs of launches that may be made to separate two candidates; after that this machine is too noisy
	MaxUnfit     = 24   // launches in a row whose times may not be compared
	EffectMargin = 0.67 // share of the smallest effect that is worth a search, as it is known with an error

	ClearlyDiffer = 4.0 // standard deviations by which the ends must differ
	MinEndPairs   = 4   // pairs of launches of both ends without which noise is not measured
)

// OfProcess reports a metric of the process as a whole, which is not sent by the program: the wall time, a phase, or a
// counter of the kernel. It has no cases, and the first launches of the ends, made only to see how they end, may show
// another value than later ones.
func (m Metric) OfProcess() bool {
	return m.Counted || m.Name == "wall" || strings.HasPrefix(m.Name, "phase.")
}

// fromNothing reports a number of which a kernel should have none at all: one that is not there has none, and one that
// comes with some is a step. Every kernel has registers.
func (m Metric) fromNothing() bool { return m.Exact && (m.Name == "spills" || m.Name == "stack") }

// Cases are the cases of a metric for which an outcome holds a usable value, in the order in which they were sent; the
// case of a program without cases is "".
func Cases(m Metric, o bisect.Outcome) []string {
	var out []string
	seen := map[string]bool{}
	for i, s := range o.Series {
		if s.Metric != m.Name || seen[s.Case] {
			continue
		}
		if _, ok := m.Level(bisect.Outcome{Series: o.Series[i : i+1]}); ok {
			seen[s.Case] = true
			out = append(out, s.Case)
		}
	}
	return out
}

// Names joins the names of metrics for people.
func Names(ms []Metric) string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Name)
	}
	return strings.Join(out, ", ")
}

// Value is the number that a launch gave for one case of a metric or, for "", the geometric mean over all cases.
func (m Metric) Value(o bisect.Outcome, one string) (float64, bool) {
	c := Channel{Metric: m, Case: one, All: one == ""}
	y, ok := c.Level(o)
	return c.Value(y), ok && (c.All || !m.OfProcess())
}

// Sent lists the metrics of which a launch gave a value.
func Sent(o bisect.Outcome) []string { return SentByBoth(o, o) }

// Unit is what a launch counts a metric in.
func (m Metric) Unit(o bisect.Outcome) string { return Channel{Metric: m, All: true}.Unit(o) }

// units are those of the values that a launch gives, sorted.
func (m Metric) units(o bisect.Outcome) (out []string) {
	for i := range o.Series {
		if s := &o.Series[i]; s.Metric == m.Name && len(s.Values) > 0 && !slices.Contains(out, s.Unit) {
			out = append(out, s.Unit)
		}
	}
	slices.Sort(out)
	return out
}

// given counts the launches that give a value of each case.
func (m Metric) given(launches []bisect.Outcome) map[string]int {
	n := map[string]int{}
	for _, o := range launches {
		for _, one := range Cases(m, o) {
			n[one]++
		}
	}
	return n
}

// Level returns the number that stands for one process: the logarithm of the median or of the fastest tenth of its
// samples, averaged over its cases, with the sign turned so that larger is worse. ok is false where there is none, or
// where it must not be compared (Outcome.Unfit, Outcome.Only).
func (m Metric) Level(o bisect.Outcome) (float64, bool) {
	v, ok := m.Log(o)
	ok = ok && (o.Unfit == "" || m.Exact) && (o.Only == "" || o.Only == m.Name)
	if m.Higher {
		v = -v
	}
	return v, ok
}

// mostValue and its inverse bound what counts as a measurement. A number beyond is a mistake of the program, and
// squares of ratios of such numbers would overflow in a belief, which would launch one commit again and again.
const mostValue = 1e100

func usable(v float64) bool { return 1/mostValue < v && v < mostValue }

// Log is the logarithm of the median or of the fastest tenth of a launch's samples, averaged over the cases; false where
// no case has one above 0.
func (m Metric) Log(o bisect.Outcome) (float64, bool) {
	if m.Name == "wall" && !m.Counted {
		return math.Log(o.Wall), o.Wall > 0
	}
	if phase, ok := strings.CutPrefix(m.Name, "phase."); ok {
		for _, p := range o.Phases {
			if p.Name == phase && p.Seconds > 0 {
				return math.Log(p.Seconds), true
			}
		}
		return 0, false
	}
	sum, n := 0.0, 0
	for _, s := range o.Series {
		if s.Metric != m.Name {
			continue
		}
		v := Median(s.Values)
		switch {
		case m.Fastest:
			v = m.fastest(s.Values)
		case m.Exact && v >= 0:
			v = max(v, zeroAs)
		}
		if !usable(v) {
			continue
		}
		sum += math.Log(v)
		n++
	}
	return sum / float64(max(n, 1)), n > 0
}

// fastest is the mean of the best tenth of samples, of one at least; NaN where there are none.
func (m Metric) fastest(samples []float64) float64 {
	best := slices.Sorted(slices.Values(samples))
	if m.Higher {
		slices.Reverse(best)
	}
	mean, _ := stats.Mean(best[:min(len(best), max(1, (len(best)+5)/10))]) // the error says that it is empty
	return mean
}

// Even reports that launches give at least so many samples of each case that they give, all of them usable, and none gives
// 1.5 times as many of a case as another: else their fastest tenths are not alike.
func (m Metric) Even(launches []bisect.Outcome, least int) bool {
	seen := map[string][2]int{} // fewest and most samples of a case
	for _, o := range launches {
		for _, s := range o.Series {
			if s.Metric != m.Name {
				continue
			}
			n := len(s.Values)
			x, known := seen[s.Case]
			if !known {
				x = [2]int{n, n}
			}
			x = [2]int{min(x[0], n), max(x[1], n)}
			unusable := func(v float64) bool { return !usable(v) }
			if seen[s.Case] = x; x[0] < least || 2*x[1] > 3*x[0] || slices.ContainsFunc(s.Values, unusable) {
				return false
			}
		}
	}
	return len(seen) > 0
}

// Median is the median of v, NaN where it is empty.
func Median(v []float64) float64 {
	m, _ := stats.Median(v) // the error says that it is empty
	return m
}

// SentByBoth lists, sorted, the metrics that both launches have values of, wall time and phases among them.
func SentByBoth(g, b bisect.Outcome) []string {
	names := []string{"wall"}
	for _, p := range g.Phases {
		names = append(names, "phase."+p.Name)
	}
	for _, s := range g.Series {
		names = append(names, s.Metric)
	}
	names = slices.DeleteFunc(names, func(n string) bool { _, ok := (Metric{Name: n}).Log(b); return !ok })
	slices.Sort(names)
	return slices.Compact(names)
}
