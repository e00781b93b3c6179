package compare

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kbisect/kbisect/bisect/metric"
)

// Interval is an estimate with the bounds of an interval. Where too few launches give no bounds they are NaN, or
// infinite in an interval that is made of steps (Contrast.Bound).
type Interval struct{ Value, Low, High float64 }

// averages are those of every two of x, each value with itself included, sorted: the Walsh averages.
func averages(x []float64) []float64 {
	var walsh []float64
	for i := range x {
		for j := range i + 1 {
			walsh = append(walsh, (x[i]+x[j])/2)
		}
	}
	slices.Sort(walsh)
	return walsh
}

// differences are those of every value of b and every one of a, sorted.
func differences(a, b []float64) []float64 {
	var all []float64
	for _, x := range a {
		for _, y := range b {
			all = append(all, y-x)
		}
	}
	slices.Sort(all)
	return all
}

// within leaves out k of the sorted values on either side; below 0, there are no bounds.
func within(sorted []float64, k int) (low, high float64) {
	if k < 0 || 2*k >= len(sorted) {
		return math.NaN(), math.NaN()
	}
	return sorted[k], sorted[len(sorted)-1-k]
}

// draws is the number of resamples of a bootstrap.
const draws = 2000

// RatioOfMedians is the median of b over that of a, with the 95 % interval of the percentile bootstrap (Efron 1979)
// over launches, since launches are what scatters independently. paired says that a[i] and b[i] stood side by side in
// time and are drawn together; they must then be of equal length. The same numbers and seed give the same interval;
// its bounds are NaN below two values a side.
func RatioOfMedians(a, b []float64, paired bool, seed uint64) Interval {
	out := Interval{metric.Median(b) / metric.Median(a), math.NaN(), math.NaN()}
	if len(a) < 2 || len(b) < 2 {
		return out
	}
	rng := rand.New(rand.NewPCG(seed, uint64(len(a))<<32|uint64(len(b))))
	as, bs, ratios := make([]float64, len(a)), make([]float64, len(b)), make([]float64, draws)
	for d := range ratios {
		for i := range as {
			k := rng.IntN(len(a))
			as[i] = a[k]
			if paired {
				bs[i] = b[k]
			}
		}
		for i := range bs {
			if !paired {
				bs[i] = b[rng.IntN(len(b))]
			}
		}
		ratios[d] = metric.Median(bs) / metric.Median(as)
	}
	slices.Sort(ratios)
	cut := int(draws * (1 - confidence) / 2)
	out.Low, out.High = ratios[cut], ratios[draws-1-cut]
	return out
}
