package odds

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Verdict is what is settled about a set, whatever its tests say.
type Verdict int8

// The verdicts.
const (
	Open     Verdict = iota
	Guilty           // it is guilty
	Innocent         // it is not
)

// Tally is how often tests of one set failed and passed, and what is settled about it.
type Tally struct {
	Fail, Pass int
	Verdict    Verdict
}

func (t Tally) compare(o Tally) int {
	return cmp.Or(cmp.Compare(t.Fail, o.Fail), cmp.Compare(t.Pass, o.Pass), cmp.Compare(t.Verdict, o.Verdict))
}

// Chances is the belief about two chances: that a guilty set fails when it is tested, and that any other
// set does. It is learned from the tallies of all sets, each of which counts by its own tests only: a
// mask, which lets a set pass that holds a guilty one, is not a chance.
type Chances struct {
	weights  rates
	evidence map[Tally]evidence // worked out once
	guilty   map[Tally]float64
}

// rates are weights of pairs of a chance of hits and one of strays.
type rates [nHits][nStrays]float64

const nHits, nStrays = 8, 5

// hits and strays are the chances considered, with the belief in each before anything is known:
// complaints that come every time, and nothing else that fails, are by far the most likely. So few passes
// suffice until a set that is guilty passes: then the first chance is out, whatever was believed.
func hits() (chance, belief [nHits]float64) {
	return [nHits]float64{1, 0.95, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2},
		[nHits]float64{0.85, 0.05, 0.04, 0.018, 0.016, 0.013, 0.009, 0.004}
}

func strays() (chance, belief [nStrays]float64) {
	return [nStrays]float64{0, 0.02, 0.05, 0.1, 0.2}, [nStrays]float64{0.7, 0.1, 0.1, 0.07, 0.03}
}

// evidence is the likelihood of a tally if its set is guilty, by hits, and if it is not, by strays.
type evidence struct {
	guilty   [nHits]float64
	innocent [nStrays]float64
}

// evidence is binomial: every test of a set fails with the same chance.
func (t Tally) evidence() (e evidence) {
	fail, pass := float64(t.Fail), float64(t.Pass)
	chances, _ := hits()
	others, _ := strays()
	if t.Verdict != Innocent {
		for i, p := range chances {
			e.guilty[i] = math.Pow(p, fail) * math.Pow(1-p, pass)
		}
	}
	if t.Verdict != Guilty {
		for j, q := range others {
			e.innocent[j] = math.Pow(q, fail) * math.Pow(1-q, pass)
		}
	}
	return e
}

// of is the evidence of a tally, remembered: sets are many, and their tallies few.
func (c *Chances) of(t Tally) evidence {
	e, ok := c.evidence[t]
	if !ok {
		if c.evidence == nil {
			c.evidence = map[Tally]evidence{}
		}
		e = t.evidence()
		c.evidence[t] = e
	}
	return e
}

// Learn replaces what is believed by what the tallies of all sets say; count has the number of sets with each. It is
// Bayes' rule over the pairs of chances, a set being guilty or not with even odds.
func (c *Chances) Learn(count map[Tally]int) {
	hits, common := hits()
	strays, rare := strays()
	var w rates
	for _, t := range slices.SortedFunc(maps.Keys(count), Tally.compare) { // equal answers give equal sums, to the last bit
		e, n := c.of(t), count[t]
		for i := range w {
			for j := range w[i] {
				w[i][j] += float64(n) * math.Log((e.guilty[i]+e.innocent[j])/2)
			}
		}
	}
	most, sum := math.Inf(-1), 0.0
	for i := range w {
		for j := range w[i] {
			if strays[j] >= hits[i] {
				w[i][j] = math.Inf(-1)
			}
			most = max(most, w[i][j])
		}
	}
	c.weights, c.guilty = rates{}, map[Tally]float64{}
	if math.IsInf(most, -1) { // nothing explains what was settled
		return
	}
	for i := range w {
		for j := range w[i] {
			w[i][j] = common[i] * rare[j] * math.Exp(w[i][j]-most)
			sum += w[i][j]
		}
	}
	for i := range w {
		for j := range w[i] {
			c.weights[i][j] = w[i][j] / sum
		}
	}
}

// Guilty is the probability that a set with this tally is guilty, if before its tests that was as likely as not.
// [Chances.Learn] must have been called.
func (c *Chances) Guilty(t Tally) float64 {
	p, ok := c.guilty[t]
	if !ok {
		p = c.weights.guilty(c.of(t))
		c.guilty[t] = p
	}
	return p
}

// guilty averages the posterior of a set over the pairs of chances, by how likely these are.
func (w rates) guilty(e evidence) float64 {
	sum, all := 0.0, 0.0
	for i := range w {
		for j, x := range w[i] {
			if both := e.guilty[i] + e.innocent[j]; both > 0 {
				sum += x * e.guilty[i] / both
				all += x
			}
		}
	}
	if all == 0 {
		return 0.5
	}
	return sum / all
}
