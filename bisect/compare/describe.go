package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/montanaflynn/stats"
	"golang.org/x/perf/benchmath"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Summary says what the launches of one candidate gave, one number a launch, in the unit of the metric. What too few
// launches cannot tell is unknown (bisect.Unknown). Its JSON is part of the documents of package report.
type Summary struct {
	N      int           `json:"n"`
	Median bisect.Number `json:"median"`
	Low    bisect.Number `json:"low"` // 95 % interval of the median, by order statistics: needs 6 launches
	High   bisect.Number `json:"high"`
	Min    bisect.Number `json:"min"`
	Max    bisect.Number `json:"max"`
	Spread bisect.Number `json:"spread"` // of one launch, as a fraction of the median: 1.4826 times the median absolute deviation
}

// Words is the median with its interval, in the unit in which it is read best.
func (s Summary) Words(unit string) string {
	out := words.Quantity(float64(s.Median), unit)
	if scale, _ := words.Prefixed(float64(s.Median), unit); s.Median.Known() && s.Low.Known() {
		out += fmt.Sprintf(" (%s to %s)", words.Figure(float64(s.Low)*scale), words.Figure(float64(s.High)*scale))
	}
	return out
}

// confidence of every interval that is described.
const confidence = 0.95

// Describe describes the numbers of some launches.
func Describe(values []float64) Summary {
	none, number := bisect.Unknown(), func(v float64) bisect.Number { return bisect.Number(v) }
	d := Summary{N: len(values), Median: none, Low: none, High: none, Min: none, Max: none, Spread: none}
	if d.N == 0 {
		return d
	}
	s := sample(values) // sorted
	sum := benchmath.AssumeNothing.Summary(s, confidence)
	d.Median, d.Min, d.Max = number(sum.Center), number(s.Values[0]), number(s.Values[d.N-1])
	if !math.IsInf(sum.Lo, 0) && !math.IsInf(sum.Hi, 0) {
		d.Low, d.High = number(sum.Lo), number(sum.Hi)
	}
	if mad, err := stats.MedianAbsoluteDeviation(s.Values); err == nil && d.N > 1 && d.Median != 0 {
		d.Spread = number(1.4826 * mad / math.Abs(sum.Center))
	}
	return d
}

// sample is a copy of values for package benchmath.
func sample(values []float64) *benchmath.Sample {
	t := benchmath.DefaultThresholds
	return benchmath.NewSample(slices.Clone(values), &t)
}

// holm corrects the p of several tests for their number, each in its place (Holm 1979, the step-down method). The
// results keep the order of the p.
func holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ps[i], ps[j]) })
	out := make([]float64, len(ps))
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, ps[i]*float64(len(ps)-rank)))
		out[i] = least
	}
	return out
}
