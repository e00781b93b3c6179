package judge

import "math"

// Bounds of the confirmation, in pairs of launches.
const (
	minConfirm = 3
	maxConfirm = 120
)

// claim is the fresh test of "the culprit is slower than its parent by the step": a sequential
// likelihood ratio over pairs of launches that stand side by side in time.
type claim struct {
	step  float64 // the step of the search
	pairs []pair
}

// pair is one launch of each: the logarithm of culprit over parent, and the seconds between them.
type pair struct{ x, gap float64 }

// add takes in one pair.
func (c *claim) add(x, gap float64) { c.pairs = append(c.pairs, pair{x, gap}) }

// llr is the logarithm of the odds of a step against none, under the noise as it is known now. The
// range may hold several steps, of which this is one: a half of the whole is a step too. And where the
// ends were told apart too fast to see that the machine has two modes, these may be all there is.
func (c *claim) llr(n Noise) float64 {
	unseen := n
	if c.step > 4*n.SD {
		unseen.Mode, unseen.Share = c.step, 0.5
	}
	var whole, half, none, modes float64
	for _, p := range c.pairs {
		whole += n.logPair(p.x-c.step, p.gap)
		half += n.logPair(p.x-c.step/2, p.gap)
		none += n.logPair(p.x, p.gap)
		modes += unseen.logPair(p.x, p.gap)
	}
	return logAdd(math.Log(0.9)+whole, math.Log(0.1)+half) - logAdd(math.Log(0.9)+none, math.Log(0.1)+modes)
}

// median is the plain median of the ratios.
func (c *claim) median() float64 {
	v := make([]float64, len(c.pairs))
	for i, p := range c.pairs {
		v[i] = p.x
	}
	return median(v)
}

// decided returns +1 when the claim stands, -1 when it falls and 0 while that is open, where alpha
// is the chance of either mistake. What is not worse in the middle of the pairs does not stand, whatever
// the noise is taken for.
func (c *claim) decided(n Noise, alpha float64) int {
	if n.Exact && len(c.pairs) > 0 {
		if c.pairs[0].x > 0 {
			return 1
		}
		return -1
	}
	enough := math.Log((1 - alpha) / alpha)
	switch l := c.llr(n); {
	case len(c.pairs) < minConfirm:
		return 0
	case l > enough && c.median() > 0:
		return 1
	case l < -enough:
		return -1
	}
	return 0
}

// logPair is the logarithm of the density of the difference of two launches of equal level: normal,
// with the drift of the time between them, now and then disturbed, and apart by the offset when
// the two fall into different modes.
func (n Noise) logPair(u, gap float64) float64 {
	v := 2*n.SD*n.SD + n.Rate*math.Abs(gap)
	one := func(u float64) float64 {
		return logAdd(math.Log(0.95)+logNormal(u, v), math.Log(0.05)+logNormal(u, v+dirtyMean*dirtyMean))
	}
	if !n.modes() {
		return one(u)
	}
	apart := n.Share * (1 - n.Share)
	return logSum([]float64{
		math.Log(1-2*apart) + one(u), math.Log(apart) + one(u-n.Mode), math.Log(apart) + one(u+n.Mode),
	})
}
