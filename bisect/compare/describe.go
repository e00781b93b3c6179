package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/montanaflynn/stats"
	"golang.org/x/perf/benchmath"
)

// Description says what the launches of one candidate gave, in the unit of the metric: one number a
// launch. What too few launches cannot tell is NaN.
type Description struct {
	N         int
	Median    float64
	Low, High float64 // 95 % interval of the median, by order statistics: needs 6 launches
	Min, Max  float64
	Q1, Q3    float64
	Spread    float64 // of one launch, as a fraction of the median: 1.4826 times the median absolute deviation
}

// confidence of every interval that is described.
const confidence = 0.95

// Describe describes the numbers of some launches.
func Describe(values []float64) Description {
	nan := math.NaN()
	d := Description{N: len(values), Median: nan, Low: nan, High: nan, Min: nan, Max: nan, Q1: nan, Q3: nan, Spread: nan}
	if d.N == 0 {
		return d
	}
	s := sample(values) // sorted
	sum := benchmath.AssumeNothing.Summary(s, confidence)
	d.Median, d.Min, d.Max = sum.Center, s.Values[0], s.Values[d.N-1]
	if !math.IsInf(sum.Lo, 0) && !math.IsInf(sum.Hi, 0) {
		d.Low, d.High = sum.Lo, sum.Hi
	}
	if q, err := stats.Quartile(s.Values); err == nil {
		d.Q1, d.Q3 = q.Q1, q.Q3
	}
	if mad, err := stats.MedianAbsoluteDeviation(s.Values); err == nil && d.N > 1 && d.Median != 0 {
		d.Spread = 1.4826 * mad / math.Abs(d.Median)
	}
	return d
}

// sample is a copy of values for package benchmath.
func sample(values []float64) *benchmath.Sample {
	t := benchmath.DefaultThresholds
	return benchmath.NewSample(slices.Clone(values), &t)
}

// CliffsDelta is the chance that a value of b exceeds one of a, less the chance that it falls short
// of it: 0 where the sides are alike, 1 where all of b lies above all of a.
func CliffsDelta(a, b []float64) float64 {
	sum := 0
	for _, x := range a {
		for _, y := range b {
			switch {
			case y > x:
				sum++
			case y < x:
				sum--
			}
		}
	}
	return float64(sum) / float64(len(a)*len(b))
}

// holm corrects the p of several tests for their number, each in its place (Holm 1979, the step-down method).
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
