package sets

import "math"

// tally is how often tests of one set failed and passed, and what is settled of it.
type tally struct {
	fail, pass int
	final      Answer
}

// rates are weights of pairs of two chances: that a guilty set fails when it is tested, and that any
// other set does. Every set counts by its own tests only: a mask, which lets a set pass that holds a
// guilty one, is no chance.
type rates [nHits][nStrays]float64

const nHits, nStrays = 8, 5

// hits and strays are the chances that are thought of, with the belief in each before anything is known:
// complaints that come every time, and nothing else that fails, are by far the most likely. So passes are
// few until a set that is guilty passes: then the first chance is out, whatever was believed.
func hits() (chance, belief [nHits]float64) {
	return [nHits]float64{1, 0.95, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2},
		[nHits]float64{0.85, 0.05, 0.04, 0.018, 0.016, 0.013, 0.009, 0.004}
}

func strays() (chance, belief [nStrays]float64) {
	return [nStrays]float64{0, 0.02, 0.05, 0.1, 0.2}, [nStrays]float64{0.7, 0.1, 0.1, 0.07, 0.03}
}

// evidence is the chance of a tally if its set is guilty, by hits, and if it is not, by strays.
type evidence struct {
	guilty   [nHits]float64
	innocent [nStrays]float64
}

func (t tally) evidence() *evidence {
	fail, pass := float64(t.fail), float64(t.pass)
	var e evidence
	chances, _ := hits()
	others, _ := strays()
	if t.final != Pass {
		for i, p := range chances {
			e.guilty[i] = math.Pow(p, fail) * math.Pow(1-p, pass)
		}
	}
	if t.final != Fail {
		for j, q := range others {
			e.innocent[j] = math.Pow(q, fail) * math.Pow(1-q, pass)
		}
	}
	return &e
}

// newRates weighs the chances by the tallies of sets.
func newRates(count map[tally]int, of func(tally) *evidence) (w rates) {
	hits, common := hits()
	strays, rare := strays()
	for t, n := range count {
		e := of(t)
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
	if math.IsInf(most, -1) { // nothing explains what was settled
		return rates{}
	}
	for i := range w {
		for j := range w[i] {
			w[i][j] = common[i] * rare[j] * math.Exp(w[i][j]-most)
			sum += w[i][j]
		}
	}
	for i := range w {
		for j := range w[i] {
			w[i][j] /= sum
		}
	}
	return w
}

// guilty is how likely a set with this evidence is a guilty one, when before its tests it was as likely
// as not.
func (w rates) guilty(e *evidence) float64 {
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
