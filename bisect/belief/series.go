package belief

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Environment is what a series of launches of one candidate, one after the other, says of the machine.
type Environment struct {
	Launches  int
	Spread    float64 // of one launch against the next: 1.4826 times the median absolute deviation of the levels
	Disturbed int     // launches above the median by 4 spreads and 3 %, or more
	Excess    float64 // what these lost, as a logarithm: the mean
	Burst     float64 // how many of them came in a row: the mean
	Neumann   float64 // von Neumann's ratio: about 1 for launches in any order, less the more the level drifts
	Noise     Noise   // as a search would see it
}

// The bounds of the environment check, of 12 launches or more.
const (
	MinExamined  = 12    // launches that a check needs
	scatterBound = 0.015 // spread
	disturbBound = 3     // disturbed launches, of 30 or fewer; a tenth of more
	driftBound   = 0.45  // von Neumann's ratio
)

// Examine looks at the levels of a series of launches, in the order in which they were made.
func Examine(series []Launch) Environment {
	e := Environment{Launches: len(series), Neumann: math.NaN()}
	y := make([]float64, len(series))
	for i, l := range series {
		y[i] = l.Y
	}
	e.Spread = spread(y)
	e.countDisturbed(y)
	if v := squares(y); len(y) > 1 && v > 0 {
		sum := 0.0
		for i := 1; i < len(y); i++ {
			sum += (y[i] - y[i-1]) * (y[i] - y[i-1])
		}
		e.Neumann = sum / (2 * v)
	}
	if len(series) >= MinExamined {
		e.Noise = fitSeries(series)
	}
	return e
}

// Scattered reports that one launch differs much from the next.
func (e Environment) Scattered() bool { return e.Spread > scatterBound }

// Troubled reports that more launches are disturbed than chance disturbs on a machine of one's own.
func (e Environment) Troubled() bool {
	return e.Disturbed >= disturbBound && e.Disturbed*10 >= e.Launches
}

// Drifting reports that the level moves more from one end of the series to the other than from launch
// to launch.
func (e Environment) Drifting() bool { return e.Neumann < driftBound }

// TwoModes reports that launches fall into two modes.
func (e Environment) TwoModes() bool { return e.Noise.Modes() }

// spread is the robust standard deviation of levels.
func spread(y []float64) float64 {
	m := metric.Median(y)
	off := make([]float64, len(y))
	for i, v := range y {
		off[i] = math.Abs(v - m)
	}
	return normalMAD * metric.Median(off)
}

// countDisturbed finds the launches that something held up.
func (e *Environment) countDisturbed(y []float64) {
	m := metric.Median(y)
	bound := m + max(4*e.Spread, 0.03)
	runs := 0
	for i, v := range y {
		if v <= bound {
			continue
		}
		e.Disturbed++
		e.Excess += v - m
		if i == 0 || y[i-1] <= bound {
			runs++
		}
	}
	if e.Disturbed > 0 {
		e.Excess /= float64(e.Disturbed)
		e.Burst = float64(e.Disturbed) / float64(runs)
	}
}

// fitSeries fits the noise of a search to launches of one candidate. What a search adds to a fit for safety is
// taken off again: it is for series shorter than this.
func fitSeries(series []Launch) Noise {
	m := NewLevels([]bisect.Commit{{ID: "none"}}, []float64{1})
	for _, l := range series {
		l.Index = GoodEnd
		m.Add(l)
	}
	m.refit()
	n, safety := m.noise, 1+2/float64(len(series))
	n.SD /= safety
	n.Rate /= safety * safety * safety
	n.Step = 0
	return n
}

// TwoModes splits the numbers of launches in two where they clearly fall into two groups, each with three
// launches and a tenth of all at least; ok is false where they do not.
func TwoModes(values []float64) (low, high float64, share float64, ok bool) {
	v := slices.Sorted(slices.Values(values))
	if len(v) < minModes || !(v[0] > 0) {
		return 0, 0, 0, false
	}
	logs := make([]float64, len(v))
	for i, x := range v {
		logs[i] = math.Log(x)
	}
	at, gap, few := 0, 0.0, max(3, len(v)/10)
	for i := few; i <= len(v)-few; i++ {
		if g := logs[i] - logs[i-1]; g > gap {
			at, gap = i, g
		}
	}
	if at == 0 || gap < 3*max(spread(logs[:at]), spread(logs[at:])) || gap < 0.01 {
		return 0, 0, 0, false
	}
	return metric.Median(v[:at]), metric.Median(v[at:]), float64(len(v)-at) / float64(len(v)), true
}
