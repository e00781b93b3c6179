package judge

import (
	"math"
	"slices"
)

// What the bank takes for granted before it has seen anything: 0.9 % noise per launch, little drift.
var firstNoise = Noise{SD: 0.009, Rate: 1e-3 * 0.009 * 0.009}

const (
	firstFit    = 8   // launches at which the noise is fitted first
	fitWindow   = 300 // at most so many of the latest launches are looked at
	modeWindow  = 80  // for two modes, which cost more to follow
	minModes    = 12  // launches without which there is no talk of two modes
	latestModes = 150 // launches after which one mode stays one mode
	modeGain    = 6.0 // by how much two modes must be likelier, as a logarithm
)

// drifts are the drift rates tried, as shares of the launch variance per second.
var drifts = []float64{0, 1e-4, 5e-4, 2e-3, 6e-3, 2e-2, 6e-2}

// spreads are the standard deviations of one launch that are tried: 0.15 % to 6 %.
func spreads() []float64 {
	var out []float64
	for s := 0.0015; s < 0.06; s *= math.Exp(0.25) {
		out = append(out, s)
	}
	return out
}

// refit chooses the noise under which the launches are likeliest, given that the likeliest set holds
// the culprit, and runs all filters anew.
func (m *Model) refit() {
	seen := m.seen(fitWindow)
	one := seen.fitOne(m.noise)
	best := one.noise
	if len(m.launches) > latestModes && !m.noise.modes() { // they would have shown by now
		m.settle(best)
		return
	}
	if two, ok := m.seen(modeWindow).fitTwo(one.noise, m.noise); ok {
		best = two
	}
	m.settle(best)
}

// settle takes a fitted noise for the noise from now on.
func (m *Model) settle(best Noise) {
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

func (m *Model) seen(window int) sight {
	j, _ := m.top()
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

// fitOne fits spread and drift for launches of a single mode. With many launches the spread stays near
// that of the last fit.
func (s sight) fitOne(last Noise) fit {
	const many, near = 40, 0.7
	best := fit{score: math.Inf(-1)}
	for _, sd := range spreads() {
		if len(s.launches) >= many && !last.modes() && math.Abs(math.Log(sd/last.SD)) > near {
			continue
		}
		for _, r := range drifts {
			if f := s.score(Noise{SD: sd, Rate: r * sd * sd}); f.score > best.score {
				best = f
			}
		}
	}
	return best
}

// fitTwo fits two modes, and says whether the launches speak for them: they must be likelier by
// modeGain than with one mode, which is tried on the same launches.
func (s sight) fitTwo(one, last Noise) (Noise, bool) {
	if len(s.launches) < minModes {
		return one, false
	}
	alone := s.score(one)
	best := fit{score: math.Inf(-1)}
	for _, start := range s.starts(one, last) {
		if f := s.climb(start); f.score > best.score {
			best = f
		}
	}
	if best.score < alone.score+modeGain || best.noise.Mode < 3*best.noise.SD { // nearer ones only widen the noise
		return one, false
	}
	return best.noise, true
}

// starts are first guesses of two modes: the fit before, and the widest split of the values.
func (s sight) starts(one, last Noise) []Noise {
	var out []Noise
	if last.modes() {
		out = append(out, last)
		if len(s.launches) >= modeWindow {
			return out
		}
	}
	g := s.run(one).belief()
	flat := make([]float64, len(s.launches))
	for i, l := range s.launches {
		flat[i] = l.Y
		if s.bad[i] {
			flat[i] -= g.step
		}
	}
	out = append(out, splitModes(flat, one, g.step)...)
	var good []float64
	for i, l := range s.launches {
		if !s.bad[i] {
			good = append(good, l.Y)
		}
	}
	return append(out, splitModes(good, one, g.step)...)
}

// splitModes parts values in two such that the squares inside the parts are least.
func splitModes(v []float64, one Noise, step float64) []Noise {
	v = slices.Clone(v)
	slices.Sort(v)
	if len(v) < 6 {
		return nil
	}
	best, cut := math.Inf(1), 0
	for c := 2; c <= len(v)-2; c++ {
		if q := squares(v[:c]) + squares(v[c:]); q < best {
			best, cut = q, c
		}
	}
	sd := max(0.0015, math.Sqrt(best/float64(len(v)-2)))
	mode := mean(v[cut:]) - mean(v[:cut])
	if mode < 3*sd || mode > 0.5 { // one normal, cut in two, has 2.6
		return nil
	}
	share := float64(len(v)-cut) / float64(len(v))
	return []Noise{{SD: sd, Rate: min(one.Rate, 2e-3*sd*sd), Mode: mode, Share: share, Step: step}}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func squares(v []float64) float64 {
	m, sum := mean(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return sum
}

// climb improves a guess: offset and share by what the filter assigns to each mode, then spread and
// drift on their grids.
func (s sight) climb(n Noise) fit {
	for range 2 {
		n = s.assign(n)
	}
	best := s.modeScore(n)
	for _, step := range []float64{n.Step - n.Mode, n.Step, n.Step + n.Mode} {
		n.Step = step
		for range 2 {
			n = s.assign(n)
		}
		best = s.better(best, n)
	}
	best.noise.Step = s.run(best.noise).belief().step
	for range 2 {
		for _, k := range []float64{0.7, 0.85, 1.18, 1.4} {
			n := best.noise
			n.SD, n.Rate = n.SD*k, n.Rate*k*k
			best = s.better(best, n)
		}
		for _, r := range []float64{0, 5e-4, 2e-3, 1e-2} {
			n := best.noise
			n.Rate = r * n.SD * n.SD
			best = s.better(best, n)
		}
	}
	return s.better(best, s.assign(best.noise))
}

func (s sight) better(best fit, n Noise) fit {
	if n.SD < 0.0005 || n.SD > 0.06 {
		return best
	}
	if f := s.modeScore(n); f.score > best.score {
		return f
	}
	return best
}

// modeScore is score with a preference for modes that both hold a fair share of the launches; what
// happens less often than every tenth time is a disturbance.
func (s sight) modeScore(n Noise) fit {
	f := s.score(n)
	f.score += math.Log(n.Mode/3) + math.Log(4*n.Share*(1-n.Share)) + math.Log(1.0001-math.Exp(-n.Mode*n.Mode/(8*n.SD*n.SD)))
	return f
}

// assign is one step of expectation and maximisation: every launch is shared out between the modes
// by the filter before it, and offset and share follow from that.
func (s sight) assign(n Noise) Noise {
	f := newFilter(n)
	var w, u [2]float64 // of each mode: weights by precision, and weighted innovations
	count, second := 1.0, n.Share
	for i, l := range s.launches {
		if i >= 2 { // the first launches of both ends set the scale
			p := f.assign(l, s.bad[i], n, &w, &u)
			count, second = count+1, second+p
		}
		f.add(l, s.bad[i], n)
	}
	if w[0] > 0 && w[1] > 0 {
		if mode := u[1]/w[1] - u[0]/w[0]; mode > n.SD {
			n.Mode = mode
		}
	}
	n.Share = min(0.95, max(0.05, second/count))
	return n
}

// assign returns the chance that a launch fell into the second mode, and adds what it says about the
// offset of the modes: all Gaussians of the filter have their say.
func (f filter) assign(l Launch, bad bool, n Noise, w, u *[2]float64) float64 {
	x := 0.0
	if bad {
		x = 1
	}
	type say struct{ p, nu, v float64 }
	var says [2 * maxParts]say
	total, second := dirty*n.Share*0.1, dirty*n.Share*n.Share*0.1
	for k, g := range f.parts {
		v := g.spread(x) + n.Rate*max(0, l.At-f.at) + n.SD*n.SD
		nu := l.Y - g.d - x*g.step
		a, b := g.w*(1-n.Share)*normal(nu, v), g.w*n.Share*normal(nu-n.Mode, v)
		says[2*k], says[2*k+1] = say{a, nu, v}, say{b, nu, v}
		total, second = total+a+b, second+b
	}
	for k, s := range says[:2*len(f.parts)] {
		w[k%2] += s.p / total / s.v
		u[k%2] += s.p / total / s.v * s.nu
	}
	return second / total
}
