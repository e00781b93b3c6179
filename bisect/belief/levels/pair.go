package levels

import (
	"math"
	"math/bits"

	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// MinPairs is the number of pairs of launches without which a claim is not decided, but one of a step that lies far above
// all that launches were seen to scatter by: of that one pair is enough.
const MinPairs = 2

// When a step lies far above the noise.
const (
	FarAbove  = 20.0 // standard deviations of a launch
	pairStep  = 1.05 // nearly a factor of three: a neighbour that takes half of the device costs a factor of two
	nearLevel = 8.0  // no launch may have been off its level by more than the step over this
	fewFar    = 7    // launches that tell that of a far step; of others FirstFit do

	// FarStep is a factor of six: further than a disturbance takes a launch.
	FarStep = 1.79
)

// StepTest is the fresh test of "the culprit is slower than its parent by the step": a sequential
// likelihood ratio over pairs of launches that stand side by side in time (judge.md 2, "Stop and confirm").
type StepTest struct {
	Step    float64 // the step of the search
	pairs   []pair
	repeats []pair  // what two launches of one commit differ by, where these are known
	off     float64 // the furthest that a launch was off its level by, infinite where that is not known
	null    Noise   // fitted as if there were no step
	before  sight   // launches before the test, as the claim sees them; none: the claim stands alone
	zero    float64 // of their scale
}

// Claim begins the test of "commit i brought the step" after the launches that a belief has taken in so far: they say where
// the levels of both sides lie.
func Claim(m *Belief, i int) StepTest {
	d, _ := m.Step()
	c := StepTest{Step: d}
	if m.offset != nil || len(m.launches) == 0 {
		return c
	}
	c.zero = m.launches[0].Y
	// Launches of which only a bound is known say where a level lies, too, so that this is more than what the noise is fitted to.
	for k := range m.launches {
		l := m.scaled(k)
		c.before.launches = append(c.before.launches, l)
		c.before.bad = append(c.before.bad, m.parts.holds(l.Index, m.parts.of[i]))
	}
	return c
}

// pair is two launches: of parent and culprit, or one after the other of one commit.
type pair [2]belief.Launch

// x is what they differ by, a logarithm.
func (p pair) x() float64 { return p[1].Y - p[0].Y }

// gap is the seconds between them.
func (p pair) gap() float64 { return p[1].At - p[0].At }

// Turned reports that a pair of launches begins with the second side. Two pairs in a row are turned against each other, so that
// steady drift cancels out. Which of the two comes first follows the Rudin-Shapiro sequence, which keeps step with no period:
// what disturbs launches at regular times falls on both sides.
func Turned(pair int) bool {
	n := uint(pair/2) + 2 // the sequence begins with three equal terms
	return (bits.OnesCount(n&(n>>1))+pair)%2 == 1
}

// Add takes in one pair of launches.
func (c *StepTest) Add(parent, culprit belief.Launch) {
	c.pairs = append(c.pairs, pair{parent, culprit})
}

// Pairs is the number of pairs taken in.
func (c *StepTest) Pairs() int { return len(c.pairs) }

// Beside lets the launches of a belief say how often the level of one commit jumps as far as the step.
func (c *StepTest) Beside(m *Belief) {
	c.repeats = c.repeats[:0]
	before := map[[2]int]belief.Launch{}
	for i := range m.launches {
		l := m.scaled(i)
		at := [2]int{l.Index, l.Device}
		if b, ok := before[at]; ok && !b.Censored && !l.Censored {
			c.repeats = append(c.repeats, pair{b, l})
		}
		before[at] = l
	}
	c.off = math.Inf(1)
	if n := len(m.launches); n >= FirstFit || n >= fewFar && c.Step >= FarStep {
		c.off = furthest(m)
	}
	if m.noise.often() {
		c.null = withoutStep(m)
	}
}

// least is how many pairs decide a claim. A single one has to show the step that was searched for, and not another. For
// smaller steps one pair is not enough: where a neighbour slows launches by 65 % at times, one pair named a commit in
// 2.5 % of 600 searches in which nothing had changed, and two pairs in none (the cell "A/A loaded, period of 4 s" of
// bench-judge).
func (c *StepTest) least(n Noise) int {
	if c.Step > pairStep && c.Step > FarAbove*n.SD && !n.Modes() && c.off > 0 && c.off < c.Step/nearLevel && len(c.pairs) > 0 && math.Abs(c.pairs[0].x()-c.Step) < c.Step/nearLevel {
		return 1
	}
	return MinPairs
}

// LogOdds is the logarithm of the odds of a step against none, under the noise as it is known now. The
// range may hold several steps, of which this is one: a half of the whole is a step too. And launches of any commit may
// jump as far as the step now and then, as those of a machine with two modes or with a neighbour do: before any launch the
// further, the less likely. (Modes that were measured are 4 to 13 % apart.)
//
// Where many launches are held up, few pairs hold two that were not. There the level of each side comes from all of its
// launches, and it may be that of the launches before the test: both sides are then where the claim says, or both good or
// both bad.
func (c *StepTest) LogOdds(n Noise) float64 {
	const apart = 0.25
	odds := func(whole, half, none float64) float64 {
		return belief.LogAdd(math.Log(0.9)+whole, math.Log(0.1)+half) - none
	}
	if n.often() {
		none := c.sidesUnder(n, 0)
		if c.null.SD > 0 { // the noise was fitted as if the step were there
			none = max(none, c.sidesUnder(c.null, 0))
		}
		whole, half := c.sidesUnder(n, c.Step), c.sidesUnder(n, c.Step/2)
		if len(c.before.launches) > 0 {
			f := c.before.run(n)
			good, bad := c.follow(f, n, false, false), c.follow(f, n, true, true)
			whole, none = belief.LogAdd(whole, c.follow(f, n, false, true)), belief.LogAdd(none, belief.LogAdd(good, bad)-math.Ln2)
		}
		return odds(whole, half, none)
	}
	of := func(step float64, jumps bool) (sum float64) {
		density := n.logPair
		if jumps {
			density = func(u, gap float64) float64 { return n.logJump(u, gap, c.Step) }
			sum = math.Log(0.1) - c.Step*c.Step/(2*apart*apart)
		}
		for _, p := range c.pairs {
			sum += density(p.x()-step, p.gap())
		}
		for _, p := range c.repeats {
			sum += density(p.x(), p.gap())
		}
		return sum
	}
	whole, half, none := of(c.Step, false), of(c.Step/2, false), of(0, false)
	if c.Step > 4*n.SD { // nearer levels are noise
		whole, half, none = belief.LogAdd(whole, of(c.Step, true)), belief.LogAdd(half, of(c.Step/2, true)), belief.LogAdd(none, of(0, true))
	}
	return odds(whole, half, none)
}

// sidesUnder is the log-likelihood of the launches of both sides where these are a step apart.
func (c *StepTest) sidesUnder(n Noise, step float64) float64 {
	if len(c.pairs) == 0 {
		return 0
	}
	f := newFilter(n)
	f.parts[0].step, f.parts[0].vD = step, n.SD*n.SD
	f.at = min(c.pairs[0][0].At, c.pairs[0][1].At)
	c.inOrder(func(l belief.Launch, culprit bool) {
		l.Y -= c.pairs[0][0].Y
		f.add(l, culprit, n)
	})
	return f.logL
}

// follow is the log-likelihood of the launches of the test after those before it, which f has seen, where parent and
// culprit are bad or not.
func (c *StepTest) follow(f filter, n Noise, parent, culprit bool) float64 {
	before := f.logL
	f = f.clone()
	c.inOrder(func(l belief.Launch, ofCulprit bool) {
		l.Y -= c.zero
		f.add(l, ofCulprit && culprit || !ofCulprit && parent, n)
	})
	return f.logL - before
}

// inOrder calls f with the launches of the test as they were made.
func (c *StepTest) inOrder(f func(l belief.Launch, culprit bool)) {
	for _, p := range c.pairs {
		first := 0
		if p[1].At < p[0].At {
			first = 1
		}
		f(p[first], first == 1)
		f(p[1-first], first == 0)
	}
}

// Median is the plain median of the ratios.
func (c *StepTest) Median() float64 {
	v := make([]float64, len(c.pairs))
	for i, p := range c.pairs {
		v[i] = p.x()
	}
	return metric.Median(v)
}

// Deviation is the standard deviation of that median: 1.2533, the root of pi/2, times that of a mean.
func (c *StepTest) Deviation(n Noise) float64 {
	v := 2 * (n.SD*n.SD + n.Share*(1-n.Share)*n.Mode*n.Mode + n.Share*n.Wide*n.Wide)
	for _, p := range c.pairs {
		v += n.Rate * math.Abs(p.gap()) / float64(len(c.pairs))
	}
	return 1.2533 * math.Sqrt(v/float64(len(c.pairs)))
}

// Decided returns +1 when the claim stands, -1 when it falls and 0 while that is open, where alpha
// is the chance of either mistake. What is not worse in the middle of the pairs does not stand, whatever
// the noise is taken for.
func (c *StepTest) Decided(n Noise, alpha float64) int {
	if n.Exact && len(c.pairs) > 0 {
		if c.pairs[0].x() > 0 {
			return 1
		}
		return -1
	}
	enough := math.Log((1 - alpha) / alpha)
	switch l := c.LogOdds(n); {
	case len(c.pairs) < c.least(n):
		return 0
	case l > enough && c.Median() > 0:
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
	v, w := n.ofPair(gap), n.Wide*n.Wide
	one := func(u, v float64) float64 {
		return belief.LogAdd(math.Log(0.95)+logNormal(u, v), math.Log(0.05)+logNormal(u, v+n.dirt()*n.dirt()))
	}
	if !n.Modes() {
		return one(u, v)
	}
	first, apart, second := (1-n.Share)*(1-n.Share), n.Share*(1-n.Share), n.Share*n.Share
	return belief.LogSum([]float64{
		math.Log(first) + one(u, v), math.Log(apart) + one(u-n.Mode, v+w), math.Log(apart) + one(u+n.Mode, v+w), math.Log(second) + one(u, v+2*w),
	})
}

// ofPair is the variance of the difference of two launches of equal level.
func (n Noise) ofPair(gap float64) float64 { return 2*n.SD*n.SD + n.Rate*math.Abs(gap) }

// logJump is logPair where every second difference is a jump of a size, or of about this size.
func (n Noise) logJump(u, gap, size float64) float64 {
	v := n.ofPair(gap)
	jump := func(u float64) float64 {
		return math.Log(0.125) + belief.LogAdd(logNormal(u, v), logNormal(u, v+size*size/4))
	}
	return belief.LogSum([]float64{math.Log(0.5) + n.logPair(u, gap), jump(u - size), jump(u + size)})
}

// normalMAD turns the median absolute deviation of normal values into their standard deviation.
const normalMAD = 1.4826
