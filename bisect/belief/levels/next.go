package levels

import (
	"math"

	"github.com/kbisect/kbisect/bisect/belief"
)

// quantiles are the shares of the posterior at which a commit never launched may be tried (judge.md 2, "Next action").
var quantiles = []float64{0.35, 0.5, 0.65}

// Next returns the launch that promises most information per second: an end or a commit launched before, which show
// where the level is now, or a new commit. As the machine drifts and the level grows uncertain, an end becomes the
// best choice, so that references need no schedule (judge.md 2, "Next action").
func (m *Belief) Next(p belief.Prices) (belief.Action, bool) {
	post := m.parts.posterior()
	means := m.parts.outlook(p.Device)
	entropy := belief.Entropy(post)
	best, found := belief.Action{}, false
	consider := func(i int, v view) {
		if i != belief.GoodEnd && !p.Usable(i) {
			return
		}
		a := belief.Action{Index: i, Info: v.information(m.noise.effective()), Cost: p.Launch(i, 0)}
		if a.Info > 1e-12 && (!found || a.Info/a.Cost > best.Info/best.Cost) {
			best, found = a, true
		}
	}
	last := len(m.parts.commits) - 1
	consider(belief.GoodEnd, m.parts.certain(belief.GoodEnd, post, means, entropy))
	consider(last, m.parts.certain(last, post, means, entropy))
	for i := range m.parts.commits { // in order, so that equal worth is decided alike every time
		if m.parts.tested[i] != nil && i != last {
			consider(i, m.parts.certain(i, post, means, -1))
		}
	}
	at := quantiles
	if p.Quantile > 0 {
		at = []float64{p.Quantile}
	}
	for _, i := range m.Nearest(at, p) {
		v := m.parts.halves(i, post, means)
		v.chance = p.Testable(i)
		consider(i, v)
	}
	return best, found
}

// outlook is the belief of every set about a device, by set.
func (p *partition) outlook(device int) []gaussian {
	out := make([]gaussian, len(p.sets))
	for j, s := range p.sets {
		out[j] = s.filter.on(device).merged()
	}
	return out
}

// view collects what the sets predict about one launch, weighted by their probabilities.
type view struct {
	weight, sum, squares float64
	variance             float64 // mean variance of the prediction, without the launch's own noise
	bad                  float64 // probability that the commit is bad
	entropy              float64 // what there is to learn; below 0: that of bad
	chance               float64 // that there is anything to learn: the commit can be tested
}

func (v *view) add(w float64, g gaussian, x float64) {
	mean := g.d + x*g.step
	v.weight += w
	v.sum += w * mean
	v.squares += w * mean * mean
	v.variance += w * g.spread(x)
	v.bad += w * x
}

// information is H·(1 - exp(-V/2H)) (judge.md 2, "Next action"): V, the variance of the means over the noise of the
// launch, is what a weak launch tells; H is all that there is to learn.
func (v view) information(noise float64) float64 {
	h := v.entropy
	if h < 0 {
		h = belief.BinaryEntropy(v.bad / v.weight)
	}
	if h <= 0 {
		return 0
	}
	mean := v.sum / v.weight
	between := max(0, v.squares/v.weight-mean*mean)
	signal := between / (v.variance/v.weight + noise)
	return v.chance * h * (1 - math.Exp(-signal/(2*h)))
}

// certain is the view of a commit about which every set knows whether it is bad.
func (p *partition) certain(i int, post []float64, means []gaussian, entropy float64) view {
	v := view{entropy: entropy, chance: 1}
	for j := range p.sets {
		x := 0.0
		if p.holds(i, j) {
			x = 1
		}
		v.add(post[j], means[j], x)
	}
	return v
}

// halves is the view of a new commit, which splits some of the sets: both halves count, each with its share of the
// prior of the set.
func (p *partition) halves(i int, post []float64, means []gaussian) view {
	in := make([]float64, len(p.sets))
	for k, r := range p.reach(i) {
		if j := p.of[k]; r && j >= 0 {
			in[j] += p.prior[k]
		}
	}
	v := view{entropy: -1}
	for j, s := range p.sets {
		share := min(1, in[j]/s.mass)
		v.add(post[j]*share, means[j], 1)
		v.add(post[j]*(1-share), means[j], 0)
	}
	return v
}

// Nearest lists the commits never launched that lie nearest to some quantiles of the posterior and
// tell some of it apart.
func (m *Belief) Nearest(quantiles []float64, p belief.Prices) []int {
	return belief.Nearest(m.parts.badness(), func(i int) bool { return m.parts.tested[i] == nil }, quantiles, p)
}
