package levels

import (
	"cmp"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// firstNoise is assumed before anything was seen: 0.9 % noise per launch and little drift (the centre of the penalties
// of judge.md 2, "Noise fit").
var firstNoise = Noise{SD: 0.009, Rate: 1e-3 * 0.009 * 0.009}

// FirstFit is the number of launches at which the noise is first fitted (judge.md 2, "Noise fit"). Until then
// firstNoise stands for any machine.
const FirstFit = 8

const (
	fitWindow    = 300 // at most so many of the latest launches are looked at
	modeWindow   = 80  // for two modes, which cost more to follow
	settledModes = 50  // with so many the modes of the last fit are the only ones to begin with
	minModes     = 12  // launches without which there is no talk of two modes
	latestModes  = 150 // launches after which one mode stays one mode
	modeGain     = 4.0 // by how much two modes must be likelier, as a logarithm
)

// drifts are the drift rates tried, as multiples of the variance of a launch, per second.
var drifts = []float64{0, 1e-4, 5e-4, 2e-3, 6e-3, 2e-2, 6e-2}

// spreadStep is the step between the standard deviations of one launch that are tried, a logarithm.
const spreadStep = 0.25

// spreads are these standard deviations: from 0.15 % to a factor of 4.
func spreads() []float64 {
	var out []float64
	for s := 0.0015; s < 1.5; s *= math.Exp(spreadStep) {
		out = append(out, s)
	}
	return out
}

// refit chooses the noise under which the launches are likeliest, given that the likeliest set holds
// the culprit, and runs all filters anew.
func (m *Belief) refit() {
	best := m.seen(fitWindow).fitLevel(m.noise)
	if m.noise.Modes() || len(m.launches) <= latestModes { // later they would have shown by now
		if two, ok := m.seen(modeWindow).fitTwo(best, m.noise); ok {
			best = two
		}
	}
	m.noise = wider(best, len(m.launches))
	m.replay()
}

// wider makes up for a fit: a fitted spread is too small by about its own error.
func wider(fitted Noise, launches int) Noise {
	k := 1 + 2/float64(launches)
	fitted.SD *= k
	fitted.Rate *= k * k * k
	return fitted
}

// withoutStep is the noise under which the launches are likeliest if no commit brought a step.
func withoutStep(m *Belief) Noise {
	s := m.seen(modeWindow)
	clear(s.bad)
	two, _ := s.fitTwo(s.fitLevel(m.noise), Noise{})
	return wider(two, len(m.launches))
}

// sight is the launches as one set sees them, without those of which only a bound is known, which says nothing of the
// noise: bad[i] says that launch i is of a commit that holds the culprit.
type sight struct {
	launches []belief.Launch
	bad      []bool
}

// side is of the launches of one device those of commits that hold the culprit, or the others.
type side struct {
	device int
	bad    bool
}

func (m *Belief) seen(window int) sight {
	j, _ := m.parts.top()
	var s sight
	for i := max(0, len(m.launches)-window); i < len(m.launches); i++ {
		if l := m.scaled(i); !l.Censored {
			s.launches = append(s.launches, l)
			s.bad = append(s.bad, m.parts.holds(l.Index, j))
		}
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

// score is the penalised likelihood (judge.md 2, "Noise fit") of the launches under a noise: it is pulled towards what
// machines are like, a spread near 0.9 % and a drift of a thousandth of its variance per second.
func (s sight) score(n Noise) fit {
	return fit{n, penalised(s.run(n).logL, n.SD, n.Rate/(n.SD*n.SD))}
}

// penalised is a log-likelihood less the penalties of judge.md 2 for a spread sd and a drift of r times its variance.
func penalised(logL, sd, r float64) float64 {
	ds := math.Log(sd / 0.009)
	return logL - ds*ds/2 - math.Abs(math.Log((r+3e-5)/1e-3))/4
}

// fitLevel fits the noise of launches of a single mode. Their level only drifts, unless it is likelier by modeGain that it
// changes for good now and then.
func (s sight) fitLevel(last Noise) Noise {
	one := s.fitOne(last)
	if !s.moves() {
		return one.noise
	}
	if more := s.fitJumps(one.noise); more.score > one.score+modeGain {
		return more.noise
	}
	return one.noise
}

// moves reports that of the launches of one side and device some before a moment and some after it lie apart by more than
// they scatter from one to the next, by their medians, as where the level has changed for good. It saves the fit where nothing
// calls for it.
func (s sight) moves() bool {
	const (
		few, enough = 3, 5 // launches before and after; enough where there are many: of three, two may be disturbed by chance
		many        = 20
		apart       = 4 // standard deviations of a launch
	)
	sides := map[side][]float64{}
	var off []float64
	for i, l := range s.launches {
		at := side{l.Device, s.bad[i]}
		if y := sides[at]; len(y) > 0 {
			off = append(off, math.Abs(l.Y-y[len(y)-1]))
		}
		sides[at] = append(sides[at], l.Y)
	}
	sd := max(spreads()[0], normalMAD*metric.Median(off)/math.Sqrt2)
	for _, y := range sides {
		n := few
		if len(y) > many {
			n = enough
		}
		for i := n; i+n <= len(y); i++ {
			if math.Abs(metric.Median(y[i:i+n])-metric.Median(y[i-n:i])) > apart*sd {
				return true
			}
		}
	}
	return false
}

// fitJumps fits a level that changes for good now and then, where n is the fit of one that only drifts: what seemed to be
// spread and drift may be much less.
func (s sight) fitJumps(n Noise) (best fit) {
	best.score = math.Inf(-1)
	try := func(sd, drift float64) {
		if f := s.score(Noise{SD: sd, Rate: drift * sd * sd, Jumps: jumps}); f.score > best.score {
			best = f
		}
	}
	for sd := n.SD; sd > 0.99*spreads()[0]; sd *= math.Exp(-2 * spreadStep) {
		try(sd, 0)
		try(sd, min(2e-3, n.Rate/(n.SD*n.SD)))
	}
	sd, drift := best.noise.SD, best.noise.Rate/(best.noise.SD*best.noise.SD)
	try(sd*math.Exp(spreadStep), drift)
	try(sd*math.Exp(-spreadStep), drift)
	try(best.noise.SD, 5e-4)
	return best
}

// fitOne fits spread and drift for launches of a single mode: first on every second point of the grid, then on those
// around the best. With many launches the spread stays near that of the last fit, which saves most of the grid.
func (s sight) fitOne(last Noise) fit {
	const many, near = 40, 0.7
	sds := spreads()
	best, at := fit{score: math.Inf(-1)}, [2]int{}
	try := func(i, k int) {
		if i < 0 || k < 0 || i >= len(sds) || k >= len(drifts) {
			return
		}
		sd := sds[i]
		if len(s.launches) >= many && !last.Modes() && last.Jumps == 0 && math.Abs(math.Log(sd/last.SD)) > near {
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

// replay runs the launches through the filters again, under the present noise. Sets that no launch has separated yet
// share a filter until one does. Sets that hardly count keep theirs, at their distance from the likeliest one: that
// bounds the time of a decision.
func (m *Belief) replay() {
	top, _ := m.parts.top()
	old := m.parts.sets[top].filter.logL
	alive, gone := m.parts.worthwhile(len(m.launches), m.noise.Modes())
	groups := [][]int{alive}
	filters := []filter{newFilter(m.noise)}
	seen := make([]bool, len(m.parts.commits))
	for i := range m.launches {
		l := m.scaled(i)
		if l.Index != belief.GoodEnd && !seen[l.Index] {
			seen[l.Index] = true
			groups, filters = m.parts.divide(groups, filters, l.Index)
		}
		for k := range groups {
			filters[k].add(l, m.parts.holds(l.Index, groups[k][0]), m.noise)
		}
	}
	for k, group := range groups {
		for _, j := range group {
			m.parts.sets[j].filter = filters[k].clone()
		}
	}
	for _, j := range gone {
		m.parts.sets[j].filter.logL += m.parts.sets[top].filter.logL - old
	}
}

// worthwhile divides the sets into those that a replay follows and the others. The likely ones are followed, with many
// launches no more of them than there is time for.
func (p *partition) worthwhile(launches int, modes bool) (alive, gone []int) {
	const (
		few, many = 100, 300 // launches
		work      = 30_000   // launches times Gaussians that are followed
		least     = 12       // sets that are followed in any case
	)
	negligible, steps := 1e-7, launches
	if steps > many {
		negligible = 1e-5
	}
	if modes {
		steps *= 2 * maxParts
	}
	post := p.posterior()
	order := make([]int, len(p.sets))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(post[b], post[a]) })
	n := len(order)
	for n > 1 && launches > few && (post[order[n-1]] < negligible || n > max(least, work/steps)) {
		n--
	}
	alive, gone = order[:n], order[n:]
	slices.Sort(alive)
	return alive, gone
}
