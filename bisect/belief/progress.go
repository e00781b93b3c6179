package belief

import (
	"math"
)

// Entropy is what there is left to learn about the culprit, nats. It takes a set's commits apart only
// as far as a launch could.
func (m *Levels) Entropy() float64 {
	h := 0.0
	for _, w := range m.Weights() {
		if w > 0 {
			h -= w * math.Log(w)
		}
	}
	return h
}

// MidLaunch says what a launch of a commit in the middle of the suspects would tell of a step, in nats, and the
// variance of such a launch, drift since the one before included.
func (m *Levels) MidLaunch(step float64) (info, variance float64) {
	variance = m.effective() + m.noise.Rate*m.gap()
	return view{weight: 1, sum: step / 2, squares: step * step / 2, bad: 0.5, entropy: -1, chance: 1}.information(variance), variance
}

// gap is the mean time between two launches, seconds.
func (m *Levels) gap() float64 {
	n := len(m.launches)
	if n < 2 {
		return 0
	}
	return (m.launches[n-1].At - m.launches[0].At) / float64(n-1)
}
