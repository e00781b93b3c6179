package levels

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect/belief"
)

// What is assumed of one launch (judge.md 2, "Model"). Levels are logarithms of times, so that 0.01 is about 1 %.
const (
	dirty     = 0.03 // chance that something disturbed a launch
	dirtyMean = 0.10 // mean of what a disturbance adds, exponentially distributed,
	dirtyMore = 3    // or so many standard deviations of a launch, if that is more
	maxParts  = 4    // Gaussians that one filter keeps while launches fall into two modes or the level may have changed
	jumps     = 0.01 // chance that the level changes for good before a launch, where it was seen to
	surprise  = 4.0  // standard deviations off from which a launch may show that
)

// Noise describes the launches of one machine. SD, Mode and Step are logarithms.
type Noise struct {
	SD    float64 // s: of one launch inside a mode
	Rate  float64 // q: variance that the level gains per second, as a random walk
	Mode  float64 // offset of the second mode; 0: the launches know only one
	Share float64 // of the launches that fall into the second mode
	Wide  float64 // by what launches of the second mode scatter besides: each is held up by another amount; 0: as those of the first
	Jumps float64 // chance that the level changes for good before a launch, as clocks do; 0: it only drifts
	Step  float64 // where to look for the step first: one more mode apart all looks nearly alike
	Exact bool    // the numbers have no noise, and Step is that of the ends
}

// exactly is the noise of numbers that have none, where the ends differ by step.
func exactly(step float64) Noise { return Noise{SD: 5e-4, Step: step, Exact: true} }

// nearer takes a number for that of the nearer end. Where the numbers climb in several steps, the search then finds
// the one that crosses the middle.
func (n Noise) nearer(y float64) float64 {
	if y > n.Step/2 {
		return n.Step
	}
	return 0
}

// Modes reports whether launches fall into two modes.
func (n Noise) Modes() bool { return n.Mode != 0 }

// often reports whether so many launches are held up that few pairs hold two that are not.
func (n Noise) often() bool {
	const many = 1.0 / 3
	return n.Wide > 0 && n.Share > many
}

// dirt is the mean of what a disturbance adds.
func (n Noise) dirt() float64 { return max(dirtyMean, dirtyMore*n.SD) }

// effective is the variance of a launch that hides its level. Modes far apart can be recognised and hide nothing; modes
// close together add to the noise.
func (n Noise) effective() float64 {
	v := n.SD * n.SD
	if n.Modes() {
		v = 1/((1-n.Share)/v+n.Share/n.ofMode(1)) + n.Share*(1-n.Share)*n.Mode*n.Mode*math.Exp(-n.Mode*n.Mode/(9*v))
	}
	return v
}

// ofMode is the variance of a launch inside a mode, 0 or 1.
func (n Noise) ofMode(mode int) float64 { return n.SD*n.SD + float64(mode)*n.Wide*n.Wide }

// gaussian is a joint belief about the level d of the good side now and the step D, given one way of assigning the
// launches to the two modes.
type gaussian struct {
	w          float64 // share of this way among all of them
	d, step    float64 // means of d and D
	vd, vc, vD float64 // their variances and, between these, the covariance
	lanes      []lane  // of the other devices, by number; never written to
}

// lane is the level of one device given the step D: normal, with mean a + b·D and variance v. Given the step, the
// levels of two devices are independent, so that their times are never compared.
type lane struct{ a, b, v float64 }

// turn puts the level of the device from away into its lane and makes d the level of the device to.
func (g *gaussian) turn(from, to int) {
	lanes := slices.Grow(slices.Clone(g.lanes), max(from, to)+1)
	for len(lanes) <= max(from, to) {
		lanes = append(lanes, lane{v: 1}) // as little is known as of the first one before its launch
	}
	b := g.vc / g.vD
	lanes[from] = lane{g.d - b*g.step, b, max(0, g.vd-b*g.vc)}
	x := lanes[to]
	g.d, g.vc, g.vd, g.lanes = x.a+x.b*g.step, x.b*g.vD, x.v+x.b*x.b*g.vD, lanes
}

// filter is a Kalman filter (judge.md 2, "Bank"): it follows level and step through the launches on the assumption that
// the culprit lies in one set of commits: y = d(t) + D·x + e, where x is 1 for a launch of a commit that holds the
// culprit.
type filter struct {
	parts []gaussian
	logL  float64 // logarithm of the likelihood of all launches so far
	at    float64 // time of the last launch on the device

	device int       // that d is the level of
	last   []float64 // time of the last launch on the others
}

// turn makes d the level of the device that the next launch is on.
func (f *filter) turn(device int) {
	if device == f.device {
		return
	}
	for i := range f.parts {
		f.parts[i].turn(f.device, device)
	}
	last := make([]float64, max(len(f.last), f.device+1, device+1))
	copy(last, f.last)
	last[f.device] = f.at
	f.device, f.at, f.last = device, last[device], last
}

// on is the filter with d as the level of a device; f stays as it is.
func (f filter) on(device int) filter {
	if device != f.device {
		f = f.clone()
		f.turn(device)
	}
	return f
}

// newFilter knows nothing: its variances of 1 are a factor of 2.7 in either direction. The exceptions are numbers
// without noise, and two modes: while there are few launches, the modes can be mistaken for each other at one end, and
// so for a step that is larger or smaller by their offset. There the fit says which of these steps is meant.
func newFilter(n Noise) filter {
	g := gaussian{w: 1, vd: 1, vD: 1}
	switch {
	case n.Exact:
		g.step, g.vD = n.Step, n.SD*n.SD
	case n.Modes():
		g.step, g.vD = n.Step, n.Mode*n.Mode/9
	}
	return filter{parts: []gaussian{g}}
}

func (f filter) clone() filter {
	f.parts = append([]gaussian(nil), f.parts...)
	return f
}

// add takes in one launch; bad says that the commit holds the culprit in the set of this filter.
func (f *filter) add(l belief.Launch, bad bool, n Noise) {
	x := 0.0
	if bad {
		x = 1
	}
	f.take(l, x, n)
}

// take takes in one launch of a commit that shows the share x of the step: all or nothing, or a part as on a ramp. Between
// launches the level has gained the variance Rate·dt.
func (f *filter) take(l belief.Launch, x float64, n Noise) {
	f.turn(l.Device)
	dt := max(0, l.At-f.at)
	f.at = l.At
	if n.Modes() || len(f.parts) > 1 {
		f.branch(l, x, dt, n)
		return
	}
	g := &f.parts[0]
	g.vd += n.Rate * dt
	p := g.prospect(x, n.SD*n.SD)
	p.sure = n.Exact
	if nu := l.Y - g.d - x*g.step; n.Jumps > 0 && !l.Censored && nu*nu > surprise*surprise*p.v && p.v < dirtyMean*dirtyMean {
		f.jump(l, p, n)
		return
	}
	f.logL += math.Log(g.learn(p, l, 0))
}

// jump takes in one launch that lies far from what the filter expects: it was disturbed, or the level has changed and stays
// where it is now.
func (f *filter) jump(l belief.Launch, p prospect, n Noise) {
	stays, moved := f.parts[0], f.parts[0]
	moved.vd += dirtyMean * dirtyMean
	stays.w = (1 - n.Jumps) * stays.learn(p, l, 0)
	moved.w = n.Jumps * moved.learn(moved.prospect(p.x, n.SD*n.SD), l, 0)
	total := stays.w + moved.w
	f.logL += math.Log(total)
	stays.w, moved.w = stays.w/total, moved.w/total
	f.parts = append(f.parts[:0], stays, moved)
}

// branch takes in one launch that may belong to either mode. Every Gaussian becomes two, and the least of them are
// merged again, so that no more than maxParts are left.
func (f *filter) branch(l belief.Launch, x, dt float64, n Noise) {
	var next [2 * maxParts]gaussian
	k, total := 0, 0.0
	for _, g := range f.parts {
		g.vd += n.Rate * dt
		for mode, share := range [2]float64{1 - n.Share, n.Share} {
			p := g.prospect(x, n.ofMode(mode))
			h := &next[k]
			*h = g
			h.w *= share * h.learn(p, l, float64(mode)*n.Mode)
			total += h.w
			k++
		}
	}
	for i := range next[:k] {
		next[i].w /= total
	}
	f.logL += math.Log(total)
	f.parts = append(f.parts[:0], reduce(next[:k], maxParts)...)
}

// prospect is what a Gaussian expects of a launch, its mode aside.
type prospect struct {
	x    float64 // whether the commit is bad
	a, b float64 // covariances of d and of D with the launch
	bell         // of a clean launch
	wide bell    // of one that was displaced to either side
	sure bool    // nothing disturbs a launch: it is a number of the build
}

// bell is a normal density around 0.
type bell struct{ v, inv, peak float64 }

func newBell(v float64) bell { return bell{v, 1 / v, 1 / math.Sqrt(2*math.Pi*v)} }

func (b bell) at(u float64) float64 { return b.peak * math.Exp(-0.5*u*u*b.inv) }

// prospect is what g expects of a launch that scatters by the variance own.
func (g *gaussian) prospect(x, own float64) prospect {
	v := g.spread(x) + own
	return prospect{x: x, a: g.vd + x*g.vc, b: g.vc + x*g.vD, bell: newBell(v), wide: newBell(v + dirtyMean*dirtyMean)}
}

// learn is the Kalman update (judge.md 2; y = d + D·x + e). It conditions g on a launch with the given offset of its
// mode and returns the launch's predictive density. A launch is clean with probability 1-dirty; one that is not says
// nothing about level and step, so that the gain is multiplied by the chance that it was clean. Where these are known
// less well than what a disturbance adds, it says as much as its size allows.
func (g *gaussian) learn(p prospect, l belief.Launch, offset float64) float64 {
	nu := l.Y - offset - g.d - p.x*g.step // innovation
	clean, soiled, move, shrink := 0.0, 0.0, nu, 1.0
	if l.Censored {
		clean, move, shrink = tail(nu, p.v)
		soiled = math.Exp(-max(0, nu) / dirtyMean)
	} else {
		clean, soiled = p.at(nu), soil(nu, p.wide)
	}
	if p.sure {
		soiled = 0
	}
	vague := g.spread(p.x) > dirtyMean*dirtyMean && !l.Censored && !p.sure
	if vague {
		soiled = p.wide.at(nu - dirtyMean)
	}
	total := (1-dirty)*clean + dirty*soiled + math.SmallestNonzeroFloat64
	w := (1 - dirty) * clean / total
	if vague {
		*g = merge(g.given(p, p.bell, nu, w), g.given(p, p.wide, nu-dirtyMean, 1-w))
		return total
	}
	kd, kD := w*p.a*p.inv, w*p.b*p.inv // Kalman gains
	g.d += kd * move
	g.step += kD * move
	g.vd -= shrink * kd * p.a
	g.vc -= shrink * kd * p.b
	g.vD -= shrink * kD * p.b
	return total
}

// given is the part of g, with this share of its weight, that takes a launch to lie nu above what it expects, within
// b.
func (g gaussian) given(p prospect, b bell, nu, share float64) gaussian {
	kd, kD := p.a*b.inv, p.b*b.inv
	return gaussian{g.w * share, g.d + kd*nu, g.step + kD*nu, g.vd - kd*p.a, g.vc - kd*p.b, g.vD - kD*p.b, g.lanes}
}

// spread is the variance of d + x·D.
func (g gaussian) spread(x float64) float64 { return g.vd + x*(2*g.vc+g.vD) }

// tail is what a value that is known only to exceed nu says under a normal of variance s: its probability, how far the
// mean moves, and how much of the information of an observed value it gives. These are the mean and the variance of a
// truncated normal.
func tail(nu, s float64) (chance, move, shrink float64) {
	sd := math.Sqrt(s)
	a := nu / sd
	if a > 30 { // as good as seen
		return 0, nu, 1
	}
	chance = math.Erfc(a/math.Sqrt2) / 2
	hazard := sd * normal(nu, s) / chance
	return chance, sd * hazard, hazard * (hazard - a)
}

// reduce keeps the n heaviest Gaussians and merges each of the others into the nearest of these. It reorders parts.
func reduce(parts []gaussian, n int) []gaussian {
	const trifle = 1e-3
	for i := 1; i < len(parts); i++ { // few enough for an insertion sort
		g, j := parts[i], i
		for ; j > 0 && g.w > parts[j-1].w; j-- {
			parts[j] = parts[j-1]
		}
		parts[j] = g
	}
	kept := parts[:min(n, len(parts))]
	for _, g := range parts[len(kept):] {
		best, at := math.Inf(1), 0
		for i, k := range kept {
			if d := math.Abs(k.d-g.d) + math.Abs(k.step-g.step); d < best {
				best, at = d, i
			}
		}
		kept[at] = merge(kept[at], g)
	}
	for len(kept) > 1 && kept[len(kept)-1].w < trifle {
		kept[0].w += kept[len(kept)-1].w
		kept = kept[:len(kept)-1]
	}
	return kept
}

// merge is the Gaussian with the mean and the covariance of the mixture of a and b (moment matching).
func merge(a, b gaussian) gaussian {
	w := a.w + b.w
	if !(w > 0) {
		return a
	}
	p, q := a.w/w, b.w/w
	dd, dD := a.d-b.d, a.step-b.step
	return gaussian{
		lanes: mergedLanes(a, b, p, q), w: w, d: p*a.d + q*b.d, step: p*a.step + q*b.step,
		vd: p*a.vd + q*b.vd + p*q*dd*dd,
		vc: p*a.vc + q*b.vc + p*q*dd*dD,
		vD: p*a.vD + q*b.vD + p*q*dD*dD,
	}
}

// mergedLanes are the levels of the other devices in the mixture of a and b.
func mergedLanes(a, b gaussian, p, q float64) []lane {
	if len(a.lanes) == 0 || &a.lanes[0] == &b.lanes[0] {
		return a.lanes
	}
	out := make([]lane, len(a.lanes))
	for k, x := range a.lanes {
		// Given the step a launch of another device tells nothing of this one, so that the lanes of a and b differ by
		// what was merged before, if at all.
		y := b.lanes[k]
		d := x.a - y.a
		out[k] = lane{p*x.a + q*y.a, p*x.b + q*y.b, p*x.v + q*y.v + p*q*d*d}
	}
	return out
}

// merged is the one Gaussian nearest to what the filter holds.
func (f filter) merged() gaussian {
	g := f.parts[0]
	for _, h := range f.parts[1:] {
		g = merge(g, h)
	}
	return g
}

// worse is the logarithm of the probability that the step is above 0: a change for the better is not searched for.
func (f filter) worse() float64 {
	chance := 0.0
	z := math.Inf(-1)
	for _, g := range f.parts {
		sd := math.Sqrt(max(g.vD, 1e-12))
		chance += g.w * math.Erfc(-g.step/sd/math.Sqrt2) / 2
		z = max(z, g.step/sd)
	}
	if chance < 1e-200 {
		return -z * z / 2
	}
	return math.Log(chance)
}

// logNormal is the logarithm of the density of a normal with variance v at u.
func logNormal(u, v float64) float64 { return -0.5 * (math.Log(2*math.Pi*v) + u*u/v) }

// normal is that density.
func normal(u, v float64) float64 { return math.Exp(-0.5*u*u/v) / math.Sqrt(2*math.Pi*v) }

// soil is the density of a disturbed launch that lies nu off (judge.md 2, f_cont): mostly slower by an exponential
// amount, now and then displaced to either side.
func soil(nu float64, wide bell) float64 {
	const near = 3 * dirtyMean // the exponential is the larger one up to here
	slow := 0.0
	if nu >= 0 {
		slow = 0.9 / dirtyMean * math.Exp(nu*(-1/dirtyMean))
	}
	if nu >= 0 && nu < near {
		return slow
	}
	return max(slow, 1e-12, 0.1*wide.at(nu))
}
