package belief

import "math"

// firstNoise is assumed before anything was seen: 0.9 % noise per launch, little drift.
var firstNoise = Noise{SD: 0.009, Rate: 1e-3 * 0.009 * 0.009}

const (
	firstFit     = 8   // launches at which the noise is fitted first
	fitWindow    = 300 // at most so many of the latest launches are looked at
	modeWindow   = 80  // for two modes, which cost more to follow
	settledModes = 50  // with so many the modes of the last fit are the only ones to begin with
	minModes     = 12  // launches without which there is no talk of two modes
	latestModes  = 150 // launches after which one mode stays one mode
	modeGain     = 6.0 // by how much two modes must be likelier, as a logarithm
)

// drifts are the drift rates tried, as shares of the launch variance per second.
var drifts = []float64{0, 1e-4, 5e-4, 2e-3, 6e-3, 2e-2, 6e-2}

// spreads are the standard deviations of one launch that are tried: 0.15 % to 40 %. Beyond that nothing can be told.
func spreads() []float64 {
	var out []float64
	for s := 0.0015; s < 0.4; s *= math.Exp(0.25) {
		out = append(out, s)
	}
	return out
}

// refit chooses the noise under which the launches are likeliest, given that the likeliest set holds
// the culprit, and runs all filters anew.
func (m *Levels) refit() {
	if !m.noise.Modes() && len(m.launches) > latestModes { // they would have shown by now
		m.settle(m.seen(fitWindow).fitOne(m.noise).noise)
		return
	}
	best := m.seen(fitWindow).fitOne(m.noise).noise
	if two, ok := m.seen(modeWindow).fitTwo(best, m.noise); ok {
		best = two
	}
	m.settle(best)
}

// settle takes a fitted noise for the noise from now on.
func (m *Levels) settle(best Noise) {
	n := float64(len(m.launches))
	best.SD *= 1 + 2/n // a fitted spread is too small by about its own error
	best.Rate *= (1 + 2/n) * (1 + 2/n) * (1 + 2/n)
	m.noise = best
	m.replay()
}

// sight is the launches as the likeliest set sees them.
type sight struct {
	launches []Launch
	bad      []bool
}

func (m *Levels) seen(window int) sight {
	j, _ := m.Top()
	var s sight
	for i := max(0, len(m.launches)-window); i < len(m.launches); i++ {
		s.launches = append(s.launches, m.scaled(i))
		s.bad = append(s.bad, m.holds(m.launches[i].Index, j))
	}
	return s
}

// fit is a noise with its penalised likelihood.
type fit struct {
	noise Noise
	score float64
}

// run follows the launches under a noise.
func (s sight) run(n Noise) filter {
	f := newFilter(n)
	for i, l := range s.launches {
		f.add(l, s.bad[i], n)
	}
	return f
}

// score is the likelihood of the launches under a noise, held towards what machines are like: a
// spread near 0.9 %, a drift of a thousandth of its variance per second.
func (s sight) score(n Noise) fit {
	r := n.Rate / (n.SD * n.SD)
	ds := math.Log(n.SD / 0.009)
	return fit{n, s.run(n).logL - ds*ds/2 - math.Abs(math.Log((r+3e-5)/1e-3))/4}
}

// fitOne fits spread and drift for launches of a single mode: on every second point of the grid first,
// then on those around the best. With many launches the spread stays near that of the last fit.
func (s sight) fitOne(last Noise) fit {
	const many, near = 40, 0.7
	sds := spreads()
	best, at := fit{score: math.Inf(-1)}, [2]int{}
	try := func(i, k int) {
		if i < 0 || k < 0 || i >= len(sds) || k >= len(drifts) {
			return
		}
		sd := sds[i]
		if len(s.launches) >= many && !last.Modes() && math.Abs(math.Log(sd/last.SD)) > near {
			return
		}
		if f := s.score(Noise{SD: sd, Rate: drifts[k] * sd * sd}); f.score > best.score {
			best, at = f, [2]int{i, k}
		}
	}
	for i := 0; i < len(sds); i += 2 {
		for k := 0; k < len(drifts); k += 2 {
			try(i, k)
		}
	}
	coarse := at
	for i := coarse[0] - 1; i <= coarse[0]+1; i++ {
		for k := coarse[1] - 1; k <= coarse[1]+1; k++ {
			if i%2 != 0 || k%2 != 0 {
				try(i, k)
			}
		}
	}
	return best
}
