package belief

import (
	"math"
	"math/bits"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// Failures is what launches that fail or pass say about which commit is to blame. A bad commit fails always, or at some
// rate; a good one fails at a lower rate, as a rule hardly ever. Both rates are unknown and integrated out (rates.go).
// The order of the launches does not matter.
//
// Plain bisection is what it does by itself: while nothing contradicts it, one launch all but settles a commit, and the
// best launch is that of the midpoint.
type Failures struct {
	commits []bisect.Commit
	graph   *bisect.Graph
	prior   []float64
	kind    kind
	all     Tally
	mass    float64        // of the prior
	by      []Tally        // launches of each commit
	bad     []Tally        // launches of bad commits, for every commit as the culprit
	tested  []int          // commits with launches, in the order of the first one
	reach   map[int][]bool // what each of them reaches
	last    *Posterior     // of the launches so far; nil: not made yet
	doubted *Posterior     // the same as a sceptic sees them; nil: not made yet
	ahead   forecast       // the last one; the next takes its place in memory
}

// NewFailures begins without a launch. prior holds relative weights; 0 clears a commit. certain says that the
// complaint comes always or never, as that of a build does.
func NewFailures(commits []bisect.Commit, prior []float64, certain bool) *Failures {
	e := &Failures{commits: commits, graph: bisect.NewGraph(commits), prior: prior, kind: ofRuns, by: make([]Tally, len(commits)), bad: make([]Tally, len(commits)), reach: map[int][]bool{}}
	if certain {
		e.kind = ofBuilds
	}
	for _, p := range prior {
		e.mass += p
	}
	return e
}

// Of counts the launches of commit i.
func (e *Failures) Of(i int) Tally {
	return e.by[i]
}

// Tested lists the commits with launches, in the order of the first one.
func (e *Failures) Tested() []int { return e.tested }

// Bad is the probability that commit i is bad.
func (e *Failures) Bad(i int) (p float64) {
	reach := e.reach[i]
	if reach == nil {
		reach = bisect.Ancestors(e.commits, i)
	}
	for k, w := range e.Posterior().Weight {
		if reach[k] {
			p += w
		}
	}
	return p
}

// Reaches reports whether commit i, which must have been launched, is commit k or descends from it.
func (e *Failures) Reaches(i, k int) bool { return e.reach[i][k] }

// Weights returns the probability of each commit to be the culprit.
func (e *Failures) Weights() []float64 { return e.Posterior().Weight }

// Credible lists the likeliest commits that together hold the share p of what is left to commits,
// oldest first.
func (e *Failures) Credible(p float64) []bisect.Suspect { return Likeliest(e.Posterior().Weight, p) }

// Add takes in one launch. One of the good end (an index below 0) is good whoever is to blame.
func (e *Failures) Add(l Launch) {
	t := Tally{Passes: 1}
	if l.Failed {
		t = Tally{Fails: 1}
	}
	if e.last != nil { // which keeps what it was made of
		e.bad = slices.Clone(e.bad)
	}
	e.last, e.doubted = nil, nil
	e.all = e.all.Plus(t)
	i := l.Index
	if i < 0 {
		return
	}
	if e.by[i] == (Tally{}) {
		e.reach[i] = bisect.Ancestors(e.commits, i)
		e.tested = append(e.tested, i)
	}
	e.by[i] = e.by[i].Plus(t)
	for k, in := range e.reach[i] {
		if in {
			e.bad[k] = e.bad[k].Plus(t)
		}
	}
}

// Decided returns the likeliest commit, or the set that no usable commit can separate it from. Once a launch shows
// that the complaint is intermittent, or that good commits fail too, a sceptic must agree as well (doubtful). The likelier
// it is that good commits fail often, the surer he must be, since similar rates take many launches to tell apart: so
// sure that at most 1 % of the answers are wrong in each row of TestBenchFailures.
func (e *Failures) Decided(delta float64, usable func(int) bool) (members []int, ok bool) {
	b := e.Posterior()
	k := b.Top()
	if members = []int{k}; b.Weight[k] < 1-delta {
		members = e.Peers(k)
		if b.of(members) < 1-delta || e.Parted(members, usable) {
			return members, false
		}
	}
	if b = e.doubting(); b.kind != doubtful {
		return members, true
	}
	switch share := b.kind.noisyShare(b.Bad[k], b.All.Minus(b.Bad[k])); {
	case share > 0.1:
		delta *= 0.2
	case share > 0.03:
		delta *= 0.7
	default:
		delta *= 2
	}
	return members, b.of(members) >= 1-delta
}

// of is the probability that one of some commits is the culprit.
func (b Posterior) of(members []int) (sum float64) {
	for _, i := range members {
		sum += b.Weight[i]
	}
	return sum
}

// costliest is the most that a failure costs, in passes, while one launch settles a commit. A more uneven split would
// save seconds of launches but visit many commits, each of which has to be built.
const costliest = 6

// alikeWorth is by what share the information of two launches for their cost may differ so that the one is chosen after
// which halving ends sooner. Of 64 commits in a line the 31st promises 1e-4 more than the 32nd, by what the ends leave
// open of the rates, and after it the search may need a test more.
const alikeWorth = 2e-4

// standsOut is the probability from which a commit counts as a leader, one that launches are to tell from all others.
const standsOut = 0.05

// Next returns the launch that promises most information for its expected cost. Where the sceptic has a say, it is what
// promises most to him, and a launch is worth how far it sets each commit, if that is the culprit, apart from all others:
// the extrinsic Jensen-Shannon divergence (Naghshvar, Javidi and Wigger 2015). While no commit stands out, that is the
// information. Near the end, information alone would choose launch after launch of the parent, which is almost certain to
// pass, to rule out small risks; launching the culprit decides sooner.
func (e *Failures) Next(p Prices) (a Action, ok bool) {
	b := e.doubting()
	f := e.forecast(b)
	if b.Bad[b.Top()].Passes == 0 {
		p.Fail = min(p.Fail, costliest*p.Pass)
	}
	best, chosen, halvings := 0.0, 0.0, math.MaxInt
	least := min(p.Pass, p.Fail) * (1 - alikeWorth)
	at, top, slope := 0.5, math.Ln2, 0.0 // a tangent of the entropy, which lies above all of it
	consider := func(i int, share float64) {
		fail, known := f.of(i)
		if share*(top+slope*(fail-at)-known+f.mostApart(i, fail)) <= best*least { // no price makes it the best
			return
		}
		at, top, slope = fail, BinaryEntropy(fail), math.Log((1-fail)/fail)
		info := top - known + f.apart(i, fail)
		if info <= 1e-9 || share*info <= best*least {
			return
		}
		cost := p.Launch(i, fail)
		v, n := share*info/cost, f.halvings(i)
		if v > chosen*(1+alikeWorth) || n == halvings && v > chosen*(1+1e-9) || n < halvings && v > best*(1-alikeWorth) {
			chosen, halvings, a, ok = v, n, Action{i, info, cost}, true
		}
		best = max(best, v)
	}
	consider(GoodEnd, 1)
	for i := range e.commits {
		switch {
		case !p.Usable(i):
		case e.by[i] != (Tally{}):
			consider(i, 1)
		default:
			consider(i, p.Testable(i))
		}
	}
	return a, ok
}

// How many times more launches a search takes than if each were as good as one in the middle of the suspects, and a
// proof than one parent takes. TestBenchFailures compares launches foretold and made.
const (
	searching = 1.2
	proving   = 2.0
)

// Expected estimates the launches until the answer is wrong with a chance of delta at most. It takes the likeliest
// rates p of bad and q of good commits. The search gains from each launch what one of a commit in the middle of the
// suspects tells, h((p+q)/2) - (h(p)+h(q))/2; the proof clears the neighbours of the culprit at the divergence of q
// from p.
func (e *Failures) Expected(delta float64) float64 {
	b := e.Posterior()
	k := b.Top()
	good := b.All.Minus(b.Bad[k])
	p := b.Rate(k)
	q := min(0.9*p, math.Exp(b.kind.logMixed(b.Bad[k], good.Plus(Tally{Fails: 1}))-b.kind.logMixed(b.Bad[k], good)))
	info := BinaryEntropy((p+q)/2) - (BinaryEntropy(p)+BinaryEntropy(q))/2
	clear := q*math.Log(q/p) + (1-q)*math.Log((1-q)/(1-p))
	left := Entropy(b.Weight) + Entropy([]float64{b.Alike})
	doubt := math.Log(min(1, 2*(1-b.Weight[k])) / delta) // what the proof has to take away
	return searching*left/info + proving*max(0, doubt)/clear + 1
}

// Nearest lists the usable commits never launched that lie nearest to some quantiles of the posterior.
func (e *Failures) Nearest(quantiles []float64, p Prices) []int {
	return Nearest(e.graph.Masses(e.Weights()), func(i int) bool { return e.by[i] == (Tally{}) }, quantiles, p)
}

// Posterior is what the launches make of every commit. Weights and Alike add up to 1. It stays as it is when launches
// are added; its slices must not be written to.
type Posterior struct {
	Weight []float64 // probability of each commit to be the culprit
	Alike  float64   // probability that the ends do not differ
	Bad    []Tally   // launches of bad commits, if this commit is the culprit
	All    Tally

	kind kind
}

// byTally calls do for every commit k with of(bad[k]). There are few different tallies, and of is called once for
// each.
func byTally[T any](bad []Tally, of func(Tally) T, do func(k int, x T)) {
	known := map[Tally]T{}
	var last Tally
	var x T
	for k, t := range bad {
		if k == 0 || t != last {
			var ok bool
			if x, ok = known[t]; !ok {
				x = of(t)
				known[t] = x
			}
			last = t
		}
		do(k, x)
	}
}

// Posterior weighs all launches so far.
func (e *Failures) Posterior() Posterior {
	if e.last == nil {
		b := e.posterior(e.kind)
		e.last = &b
	}
	return *e.last
}

// doubting is the posterior of the sceptic once a launch contradicts that the complaint comes always and only in bad
// commits; until then the ordinary one.
func (e *Failures) doubting() Posterior {
	if e.doubted == nil {
		b := e.Posterior()
		if bad := b.Bad[b.Top()]; e.kind != ofBuilds && bad.Passes+b.All.Minus(bad).Fails > 0 {
			b = e.posterior(doubtful)
		}
		e.doubted = &b
	}
	return *e.doubted
}

// Doubt is the probability that a sceptic leaves to the culprit not being in a set. He holds it for as likely as not
// that the complaint comes only sometimes, even if every launch of a bad commit so far has shown it.
func (e *Failures) Doubt(members []int) float64 { return 1 - e.posterior(doubtful).of(members) }

// posterior weighs all launches under the priors of a kind of complaint, by Bayes' rule: prior times the likelihood of
// the launches of bad and of good commits that a culprit implies.
func (e *Failures) posterior(of kind) Posterior {
	b := Posterior{kind: of, Weight: make([]float64, len(e.commits)), Bad: e.bad, All: e.all}
	alike := logAlike(e.all)
	top := alike     // all likelihoods are taken relative to the largest
	logs := b.Weight // each becomes a weight in its place
	byTally(e.bad, func(t Tally) float64 { return b.kind.logMixed(t, e.all.Minus(t)) }, func(k int, l float64) {
		logs[k] = l
		top = max(top, l)
	})
	b.Alike = of.alike / (1 - of.alike) * e.mass * math.Exp(alike-top)
	total, last, like := b.Alike, math.NaN(), 0.0
	for k, p := range e.prior {
		if logs[k] != last {
			last, like = logs[k], math.Exp(logs[k]-top)
		}
		b.Weight[k] = p * like
		total += b.Weight[k]
	}
	for k := range b.Weight {
		b.Weight[k] /= total
	}
	b.Alike /= total
	return b
}

// Top is the likeliest culprit.
func (b Posterior) Top() (k int) {
	for i, w := range b.Weight {
		if w > b.Weight[k] {
			k = i
		}
	}
	return k
}

// Rate is the probability that the next launch of a bad commit fails, if commit k is the culprit; at most 0.99, or
// what the kind holds for certain.
func (b Posterior) Rate(k int) float64 {
	bad, good := b.Bad[k], b.All.Minus(b.Bad[k])
	return min(max(0.99, b.kind.always), failNext(func(t Tally) float64 { return b.kind.logMixed(t, good) }, bad))
}

// SpeaksBad is the log-likelihood ratio, bad over good, of the launches of a commit that does not reach commit k, when
// k is the culprit for all others.
func (b Posterior) SpeaksBad(k int, runs Tally) float64 {
	bad := b.Bad[k]
	good := b.All.Minus(bad).Minus(runs)
	return b.kind.logMixed(bad.Plus(runs), good) - b.kind.logMixed(bad, good.Plus(runs))
}

// Peers lists the suspects that no launch so far tells from commit k, itself included, oldest first.
func (e *Failures) Peers(k int) []int {
	var out []int
	reach := make([][]bool, len(e.tested))
	for n, c := range e.tested {
		reach[n] = e.reach[c]
	}
	for i, p := range e.prior {
		if p > 0 && e.bad[i] == e.bad[k] && !slices.ContainsFunc(reach, func(r []bool) bool { return r[i] != r[k] }) {
			out = append(out, i)
		}
	}
	return out
}

// Parted reports whether some commit that can be launched would tell the members of a set apart.
func (e *Failures) Parted(members []int, usable func(int) bool) bool {
	return Parted(e.graph, len(e.commits), members, usable)
}

// forecast is what the next launch of each commit would show and tell. It holds sums over all hypotheses for a commit
// that is good, and what is to be added for each commit.
type forecast struct {
	fail, known float64   // of the good end: see of
	more, moreH []float64 // by how much those of each commit exceed them
	whole, top  float64   // what more comes to over all suspects, and for the likeliest one
	leaders     []leader
	above       []float64 // of each commit, a sum of 2^n for all leaders n that it reaches
}

// leader is a commit that stands out, with the chances that the next launch of a bad and of a good commit fails if it is to
// blame.
type leader struct{ weight, bad, good float64 }

// forecast looks one launch ahead.
func (e *Failures) forecast(b Posterior) forecast {
	n := len(e.commits)
	if e.ahead.more == nil {
		e.ahead = forecast{more: make([]float64, n), moreH: make([]float64, n), above: make([]float64, n)}
	}
	more, moreH := e.ahead.more, e.ahead.moreH // than if the commit were good
	f := forecast{more: more, moreH: moreH, above: e.ahead.above, leaders: e.ahead.leaders[:0]}
	clear(f.above)
	type rates struct{ bad, badH, good, goodH float64 }
	byTally(b.Bad, func(t Tally) rates {
		g, fail := b.All.Minus(t), Tally{Fails: 1}
		l := b.kind.logMixed(t, g)
		x, y := math.Exp(b.kind.logMixed(t.Plus(fail), g)-l), math.Exp(b.kind.logMixed(t, g.Plus(fail))-l)
		return rates{x, BinaryEntropy(x), y, BinaryEntropy(y)}
	}, func(k int, r rates) {
		w := b.Weight[k]
		more[k], moreH[k] = w*(r.bad-r.good), w*(r.badH-r.goodH)
		f.fail += w * r.good
		f.known += w * r.goodH
		f.whole += more[k]
		f.top = max(f.top, more[k])
		if b.kind == doubtful && w >= standsOut && w < 1-1e-9 {
			f.above[k] = math.Ldexp(1, len(f.leaders))
			f.leaders = append(f.leaders, leader{w, r.bad, r.good})
		}
	})
	e.ahead.leaders = f.leaders
	if len(f.leaders) > 0 {
		e.graph.ToMasses(f.above)
	}
	r := failNext(logAlike, b.All)
	f.fail += b.Alike * r
	f.known += b.Alike * BinaryEntropy(r)
	e.graph.ToMasses(more)
	e.graph.ToMasses(moreH)
	return f
}

// of returns the chance that a launch of commit i fails, and the entropy that knowing the culprit would leave.
func (f forecast) of(i int) (fail, known float64) {
	if i < 0 {
		return f.fail, f.known
	}
	return f.fail + f.more[i], f.known + f.moreH[i]
}

// apart is what a launch of commit i is worth besides its information: how much better it separates each leader from all
// other commits. fail is the chance that it fails.
func (f forecast) apart(i int, fail float64) (more float64) {
	for n, l := range f.leaders {
		p := f.fails(n, i)
		others := min(max((fail-l.weight*p)/(1-l.weight), 1e-12), 1-1e-12)
		more += l.weight * (p*math.Log(fail/others) + (1-p)*math.Log((1-fail)/(1-others)))
	}
	return max(0, more)
}

// mostApart is a bound of apart that takes no logarithm: a divergence is at most (p-q)²/q(1-q).
func (f forecast) mostApart(i int, fail float64) (most float64) {
	for n, l := range f.leaders {
		p := f.fails(n, i)
		others := max(fail-l.weight*p, 1e-12)
		most += l.weight * (p - fail) * (p - fail) / (others * max(1-l.weight-others, 1e-12))
	}
	return most
}

// fails is the chance that the next launch of commit i fails if leader n is to blame.
func (f forecast) fails(n, i int) float64 {
	if i >= 0 && uint64(f.above[i])>>n&1 == 1 {
		return f.leaders[n].bad
	}
	return f.leaders[n].good
}

// halvings is how many halvings the larger part of the suspects takes after a launch of commit i, if they are alike.
func (f forecast) halvings(i int) int {
	more := 0.0
	if i >= 0 {
		more = f.more[i]
	}
	n := math.Round(max(more, f.whole-more) / f.top) // NaN where the launches say nothing of any suspect
	if !(n > 1) {
		return 0
	}
	return bits.Len(uint(n) - 1)
}
