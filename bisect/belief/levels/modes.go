package levels

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect/belief"
)

// fitTwo fits two modes, and says whether the launches call for them: they must be likelier by modeGain than with one
// mode (one) on the same launches, and some commit must fall into both. last is the fit before.
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
	if math.IsInf(best.score, -1) {
		return one, false
	}
	best = s.polish(best)
	if best.score < alone.score+modeGain || best.noise.Mode < 3*best.noise.SD { // nearer ones only widen the noise
		return one, false
	}
	return best.noise, s.mixed(best.noise)
}

// mixed reports whether launches of a commit fall now into one mode and now into the other. Where every commit keeps
// to one of them, disturbed launches aside, it is the commits that differ: the range holds several steps.
func (s sight) mixed(n Noise) bool {
	pure := n
	pure.Mode = 0
	before := map[[2]int]belief.Launch{}
	odds := 0.0
	for _, l := range s.launches {
		at := [2]int{l.Index, l.Device}
		if b, ok := before[at]; ok && !b.Censored && !l.Censored {
			odds += n.logPair(l.Y-b.Y, l.At-b.At) - pure.logPair(l.Y-b.Y, l.At-b.At)
		}
		before[at] = l
	}
	return odds > 0
}

// starts are first guesses of two modes: the fit before, the widest split of the values, of all launches and of the
// good side alone, and a split into launches that lie near the least of their side and others that were held up.
func (s sight) starts(one, last Noise) []Noise {
	var out []Noise
	if last.Modes() {
		out = append(out, last)
		if len(s.launches) >= settledModes {
			return out
		}
	}
	g := s.run(one).merged()
	flat := make([]float64, len(s.launches))
	by := map[int][]float64{} // of devices
	for i, l := range s.launches {
		flat[i] = l.Y
		if s.bad[i] {
			flat[i] -= g.step
		}
		by[l.Device] = append(by[l.Device], flat[i])
	}
	if len(by) > 1 {
		for i, l := range s.launches {
			flat[i] -= mean(by[l.Device])
		}
	}
	out = append(out, splitModes(flat, one, g.step)...)
	var good []float64
	for i := range s.launches {
		if !s.bad[i] {
			good = append(good, flat[i])
		}
	}
	out = append(out, splitModes(good, one, g.step)...)
	return append(out, s.heldUp(one)...)
}

// heldUp is a first guess of launches of which many are held up, each by another amount, from how far each lies above
// the least of its side: the split in two normals, the lower of them narrow, under which the launches are likeliest. It
// is nil where that gives no two clear parts.
func (s sight) heldUp(one Noise) []Noise {
	least := map[side]float64{}
	for i, l := range s.launches {
		at := side{l.Device, s.bad[i]}
		if y, ok := least[at]; !ok || l.Y < y {
			least[at] = l.Y
		}
	}
	above := make([]float64, len(s.launches))
	for i, l := range s.launches {
		above[i] = l.Y - least[side{l.Device, s.bad[i]}]
	}
	slices.Sort(above)
	deviation := func(v []float64) float64 { return max(0.0015, math.Sqrt(squares(v)/float64(len(v)-1))) }
	const fewest = 4
	best, cut := math.Inf(-1), 0
	for c := fewest; c <= len(above)-fewest; c++ {
		low, high := above[:c], above[c:]
		n, m, near, far := float64(len(low)), float64(len(high)), deviation(low), deviation(high)
		if logL := n*math.Log(n/near) + m*math.Log(m/far); logL > best && far > near && mean(high)-mean(low) > 3*near {
			best, cut = logL, c
		}
	}
	if cut == 0 {
		return nil
	}
	low, high, first := above[:cut], above[cut:], s.launches[0].Device
	near, far := deviation(low), deviation(high)
	return []Noise{{
		SD: near, Rate: min(one.Rate, 2e-3*near*near), Mode: mean(high) - mean(low), Wide: math.Sqrt(far*far - near*near),
		Share: float64(len(high)) / float64(len(above)), Step: least[side{first, true}] - least[side{first, false}],
	}}
}

// splitModes splits values in two so that the sum of squares within both parts is least; nil where that gives no two
// clear parts.
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

// climb improves a guess: offset and share by what the filter assigns to each mode, for each of the steps that the
// modes may be mistaken for.
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
	return best
}

// polish improves the best of the guesses: spread and drift on their grids.
func (s sight) polish(best fit) fit {
	best.noise.Step = s.run(best.noise).merged().step
	for range 2 {
		before := best.score
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
		if best.score == before {
			break
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

// modeScore is score with a preference for modes that both hold a fair share of the launches; what happens less often
// than every tenth time is a disturbance.
func (s sight) modeScore(n Noise) fit {
	f := s.score(n)
	f.score += math.Log(n.Mode/3) + math.Log(4*n.Share*(1-n.Share)) + math.Log(1.0001-math.Exp(-n.Mode*n.Mode/(8*n.SD*n.SD)))
	return f
}

// assign is one step of expectation maximisation: the filter, as it was before each launch, shares the launch out
// between the modes, and offset and share follow from that.
func (s sight) assign(n Noise) Noise {
	f := newFilter(n)
	var w, u, q [2]float64 // of each mode: weights by precision, weighted innovations, and what these scatter by besides
	count, second := 1.0, n.Share
	for i, l := range s.launches {
		if i >= 2 { // the first launches of both ends set the scale
			f.turn(l.Device)
			p := f.assign(l, s.bad[i], n, &w, &u, &q)
			count, second = count+1, second+p
		}
		f.add(l, s.bad[i], n)
	}
	if w[0] > 0 && w[1] > 0 {
		if mode := u[1]/w[1] - u[0]/w[0]; mode > n.SD {
			n.Mode = mode
		}
		if n.Wide > 0 {
			n.Wide = math.Sqrt(max(n.SD*n.SD, q[1]/w[1]))
		}
	}
	n.Share = min(0.95, max(0.05, second/count))
	return n
}

// assign returns the probability that a launch fell into the second mode, and adds to w, u and q what it says about the
// modes. All Gaussians of the filter contribute.
func (f filter) assign(l belief.Launch, bad bool, n Noise, w, u, q *[2]float64) float64 {
	x := 0.0
	if bad {
		x = 1
	}
	type say struct{ p, nu, v float64 }
	var says [2 * maxParts]say
	total, second := dirty*n.Share*0.1, dirty*n.Share*n.Share*0.1
	for k, g := range f.parts {
		level := g.spread(x) + n.Rate*max(0, l.At-f.at)
		v, w := level+n.ofMode(0), level+n.ofMode(1)
		nu := l.Y - g.d - x*g.step
		a, b := g.w*(1-n.Share)*normal(nu, v), g.w*n.Share*normal(nu-n.Mode, w)
		says[2*k], says[2*k+1] = say{a, nu, v}, say{b, nu, w}
		total, second = total+a+b, second+b
	}
	for k, s := range says[:2*len(f.parts)] {
		w[k%2] += s.p / total / s.v
		u[k%2] += s.p / total / s.v * s.nu
		off := s.nu - float64(k%2)*n.Mode
		q[k%2] += s.p / total / s.v * (off*off - s.v + float64(k%2)*n.Wide*n.Wide)
	}
	return second / total
}
