package sets

import "math"

// Progress is what a search has taken and will probably still take. It is an estimate: how many guilty
// sets there are beyond those met, and what the parts of a composite atom show, is known only once they come up.
type Progress struct {
	Made    int     // tests so far
	Spent   float64 // seconds of these
	Tests   float64 // still to be made
	Seconds float64 // of these, by what answers have cost so far
	Timed   int     // safe sets that are still to be timed, which are no tests
	Launch  float64 // seconds of a launch that passes
}

// hunt is how far the search for one guilty set is.
type hunt struct {
	kept    int     // atoms of it that are known
	nats    float64 // what there is to learn of where the next one stands
	more    float64 // atoms expected besides
	among   int     // atoms that these are among
	proving Set     // the set, while it is certified
}

// newHunt is one of which nothing is known.
func newHunt(among Set) *hunt {
	n := among.Len()
	return &hunt{nats: math.Log(float64(n + 1)), more: fitting(beyond(sizePrior()), n), among: n}
}

// size is how many atoms the guilty set is expected to have.
func (h *hunt) size() float64 {
	if len(h.proving) > 0 {
		return float64(h.proving.Len())
	}
	return float64(h.kept) + 1 + h.more
}

// tell reports the progress.
func (r *run) tell() {
	if r.OnProgress == nil {
		return
	}
	p := r.left()
	for _, t := range r.f.Tests {
		if !t.Inferred && t.Purpose != Recorded {
			p.Made++
			p.Spent += t.Seconds
		}
	}
	r.OnProgress(p)
}

// left estimates what is still to be done: the guilty set that is looked for, its certificate, the seeds
// that will then be left, claims that are not answered, and the safe sets to be timed.
func (r *run) left() Progress {
	price := prices{r.cost[Fail].usual(r.FailCost), r.cost[Pass].usual(r.PassCost)}
	passes, fails := r.enough()
	each := r.weighs.or(1) // a test may count for several
	pass, fail := r.leftOfClaims(), 0.0
	open := r.leftOfSeeds()
	if h := r.hunt; h != nil {
		p, f := h.search(price)
		pass, fail = pass+p, fail+f
		p, f = r.leftOfProof(passes, fails)
		pass, fail = pass+p/each, fail+f/each
	}
	if r.Divided && r.Expand != nil && !r.divided { // what is guilty will be looked into
		const parts = 4
		p, f := (&hunt{nats: math.Log(parts), among: parts}).search(price)
		pass, fail = pass+p+(passes-r.nothing(passes))/each, fail+f+fails/each
	}
	pass += open * passes / each
	if r.seed != nil && open > 0 {
		pass -= min(passes, float64(r.mem.tally(r.seed).pass)) / each
	}
	out := Progress{Tests: pass + fail, Seconds: pass*price.pass + fail*price.fail, Launch: min(price.pass, r.PassCost)}
	if r.Time != nil {
		out.Timed = min(mostTimed, len(r.f.Safe)+int(math.Round(open)))
		for _, s := range r.f.Safe {
			if s.Effect != nil {
				out.Timed--
			}
		}
	}
	out.Tests += r.inner.Tests
	out.Seconds += r.inner.Seconds
	return out
}

// search estimates the tests that find the rest of a guilty set: the optimal tree learns, from a test
// whose failures have their best share, that share's entropy; and one test more says that nothing is missing.
func (h *hunt) search(c prices) (pass, fail float64) {
	if len(h.proving) > 0 {
		return 0, 0
	}
	const rest = 0.3 // of a test, by which whole tests overshoot
	q := failShare(c.fail / c.pass)
	each := -q*math.Log(q) - (1-q)*math.Log(1-q)
	n := h.nats/each + h.more*math.Log(float64(max(2, h.among)))/each + rest*(1+h.more)
	n = min(n, float64(h.among)*(1+h.more)) // however dear failures are, there are no more places
	return n*(1-q) + 1, n * q
}

// enough is how many tests of a set a certificate takes, as far as chances are known: to pass, and to fail,
// of which one is left out.
func (r *run) enough() (passes, fails float64) {
	if r.repeats < 2 {
		return float64(max(0, r.repeats)), 0
	}
	n, m := r.repeats, r.repeats
	for a := undecided; n < mostVotes && a != Pass; n++ {
		a, _ = r.mem.surely(tally{pass: n}, hidden)
	}
	for a := undecided; m < mostVotes && a != Fail; m++ {
		a, _ = r.mem.surely(tally{fail: m}, mistaken)
	}
	return float64(n - 1), float64(m)
}

// leftOfProof are the tests of a certificate that are not made yet.
func (r *run) leftOfProof(passes, fails float64) (pass, fail float64) {
	h := r.hunt
	if len(h.proving) == 0 {
		single := max(0, 2-h.size()) // about how likely it is one atom, without which nothing is on
		return h.size()*passes - single*r.nothing(passes), fails
	}
	for _, a := range h.proving.Atoms() {
		if t := r.mem.tally(r.space.Drop(h.proving, Of(a))); t.final != Pass {
			pass += max(0, passes-float64(t.pass))
		}
	}
	return pass, max(0, fails-float64(r.mem.tally(h.proving).fail))
}

// nothing is how many of the tests that a certificate takes have been made of nothing on.
func (r *run) nothing(passes float64) float64 {
	return min(passes, float64(r.mem.tally(nil).pass))
}

// leftOfSeeds is how many maximal safe sets are still to be tested, if no guilty set comes up that is not
// known: each leaves out a least set that hits all of them.
func (r *run) leftOfSeeds() float64 {
	switch {
	case r.Goal == One:
		return 0
	case r.Goal == Keep:
		return float64(max(0, 1-len(r.f.Safe)))
	case r.enumerated:
		return 0
	}
	var known []Set
	for _, g := range r.f.Minimal {
		known = append(known, g.Atoms)
	}
	n := float64(len(leastHits(known)))
	if r.hunt != nil {
		n *= r.hunt.size()
	}
	return max(0, n-float64(len(r.f.Safe)+len(r.blocked)))
}

// leastHits lists the minimal sets that hit all of the sets, as long as they are not very many.
func leastHits(list []Set) []Set {
	const many = 64
	hits := []Set{nil}
	for _, g := range list {
		var next []Set
		for _, h := range hits {
			if h.Meets(g) {
				next = outermost(next, h, func(s, t Set) bool { return t.In(s) })
				continue
			}
			for _, a := range g.Atoms() {
				next = outermost(next, h.Or(Of(a)), func(s, t Set) bool { return t.In(s) })
			}
		}
		if hits = next; len(hits) > many {
			return hits
		}
	}
	return hits
}

// leftOfClaims counts the claims' tests that nothing answers yet; they mostly pass.
func (r *run) leftOfClaims() (n float64) {
	for _, c := range r.Claims {
		for _, s := range []Set{r.alone(c), r.without(c)} {
			if _, _, known := r.mem.infer(s); !known && c.Atoms.In(r.top) && r.space.Valid(s) {
				n++
			}
		}
	}
	return n
}

// fitting is no more atoms beyond the next one than there are.
func fitting(more float64, among int) float64 { return min(more, float64(max(0, among-1))) }

// entropy is that of weights, in nats.
func entropy(w []float64) (h float64) {
	sum := 0.0
	for _, x := range w {
		sum += x
	}
	for _, x := range w {
		if x > 0 {
			h -= x / sum * math.Log(x/sum)
		}
	}
	return h
}

// beyond is how many atoms are expected to be missing beyond the next one.
func beyond(missing []float64) float64 {
	sum, n := 0.0, 0.0
	for k, w := range missing {
		sum += w
		n += w * float64(max(0, k-1))
	}
	if sum == 0 {
		return 0
	}
	return n / sum
}
