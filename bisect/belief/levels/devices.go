package levels

import "github.com/kbisect/kbisect/bisect/metric"

// OnDevice is what one device says of the step between the ends.
type OnDevice struct {
	Device   int // from 1
	Step     float64
	Launches int // of the end that has fewer
}

// Odd finds the device whose step is farthest from that of the others, or of two from that of the first, and how far that is
// in standard deviations.
func Odd(all []OnDevice, squares, free float64) (which OnDevice, others, z float64) {
	_, variance, n := anyMachine.Given(squares, free)
	for k, x := range all {
		// Two devices cannot say which of them is odd: the first one is taken for right.
		if k == 0 && len(all) == 2 {
			continue
		}
		var rest []float64
		for j, y := range all {
			if j != k {
				rest = append(rest, y.Step)
			}
		}
		m := metric.Median(rest)
		t := (x.Step - m) * (x.Step - m) / (variance * 2 / float64(x.Launches) * (1 + 1/float64(len(rest))))
		if far := asNormal(t, n); far > z {
			which, others, z = x, m, far
		}
	}
	return which, others, z
}
