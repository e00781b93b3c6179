package levels

import (
	"math"

	"github.com/kbisect/kbisect/bisect/metric"
)

// How many times more launches a search needs than its first one promises: Sharp where one launch settles a commit,
// and up to blunt more where one hardly tells anything, since drift takes its share and the last suspects, side by
// side, are the hardest to tell apart. From simulations.
const (
	Sharp = 1.3
	blunt = 2.0
)

const (
	Searching = -1  // stands for the pairs of the ends once they are known to differ
	farChange = 3.0 // a ratio: where not even such a change would be found, none would
)

// Plan foretells launches from what is still to be found out.
type Plan struct {
	Entropy float64 // of the suspects, nats
	Odds    float64 // that prove, a logarithm
}

// Search is the launches of search and proof for a step of change, a logarithm, where a launch has the given variance.
// The search gains per launch what one in the middle of the suspects tells, in nats; the proof adds pairs until their
// likelihood ratio reaches the odds.
func (p Plan) Search(change, variance float64) float64 {
	info := math.Ln2 * -math.Expm1(-change*change/(8*math.Ln2*variance)) // see Belief.MidLaunch
	return p.Entropy/info*(Sharp+blunt*(1-info/math.Ln2)) + 2*max(MinPairs, p.Pairs(change, variance))
}

// Pairs is how many pairs the proof takes: a pair of variance 2v adds change²/(4v) to the log-likelihood ratio on
// average.
func (p Plan) Pairs(change, variance float64) float64 {
	return 4 * p.Odds * variance / (change * change)
}

// All is the launches of everything, of which so many pairs of the ends were made. The ends are compared until the
// change stands out by ClearlyDiffer standard deviations, which fall with the square root of the number of pairs. It
// is infinite where the comparison or the proof would give up before.
func (p Plan) All(change, variance float64, pairs int) float64 {
	n := 0.0
	if pairs != Searching {
		need := metric.ClearlyDiffer * metric.ClearlyDiffer * 2 * variance / (change * change)
		if need > metric.MaxPairs {
			return math.Inf(1)
		}
		n = 2 * max(0, max(metric.MinEndPairs, need)-float64(pairs))
	}
	if p.Pairs(change, variance) > metric.MaxPairs {
		return math.Inf(1)
	}
	return n + p.Search(change, variance)
}

// Findable is the smallest change above the given one, as a logarithm, that so many launches find; 0 where there is
// none.
func (p Plan) Findable(change, variance float64, pairs int, within float64) float64 {
	lo, hi := change, math.Log(farChange)
	if p.All(hi, variance, pairs) > within {
		return 0
	}
	for range 40 {
		if x := (lo + hi) / 2; p.All(x, variance, pairs) > within {
			lo = x
		} else {
			hi = x
		}
	}
	return hi
}
