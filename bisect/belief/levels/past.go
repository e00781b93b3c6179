package levels

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// fewDiffs is the number of differences between neighbours below which earlier launches say nothing about the noise.
const fewDiffs = 8

// Scatter is what launches of the same candidate scattered by. Each series holds the levels of one candidate in one
// session, in the order in which they were made; the result is zero where there are too few. A launch is compared with
// the next one, as the ends are, so that drift does not count. Nine of ten differences are within what is returned: a
// machine that is disturbed, or in two modes, more often than that does not pass for a quiet one.
func Scatter(series [][]float64) (s bisect.Scatter) {
	const within, deviations = 0.9, 1.645
	var off []float64
	for _, y := range series {
		for i := range y[min(1, len(y)):] {
			off = append(off, math.Abs(y[i+1]-y[i])/math.Sqrt2)
		}
		s.Launches += len(y)
	}
	if len(off) < fewDiffs {
		return bisect.Scatter{}
	}
	slices.Sort(off)
	s.SD = max(spreads()[0], off[int(within*float64(len(off)))]/deviations)
	return s
}
