// Package belief holds what launches say about where a change is.
//
// A [Belief] takes in launches and says which commit to launch next and when the culprit is known. [Failures] is the
// belief about launches that fail or pass, always or at two unknown rates (judge.md 7). The belief about a metric is in
// package levels. [DeviceLog] says what launches tell of the machine besides their times.
//
// A belief knows launches and their times. It must not know a commit's name, a file or a clock of its own; it launches
// nothing, and the same launches in the same order give the same belief. All logarithms are natural, information is in
// nats, and a slice with an entry for each commit is indexed like the range.
package belief

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// GoodEnd stands for the good end where a launch names its commit by its index in the range.
const GoodEnd = -1

// Launch is one launch as a belief sees it. The list of launches is the whole state of a search: the same list leads
// to the same decisions.
type Launch struct {
	Index    int     // of the commit in the range, or GoodEnd
	At       float64 // seconds since the job began
	Failed   bool    // it showed the failure that is searched for
	Y        float64 // logarithm of the metric, larger is worse
	Censored bool    // Y is a bound: the launch was stopped, and would have shown more
	Device   int     // that it was made on, from 0: each has a level and a drift of its own
}

// Belief is what launches say about which commit of a range brought a change. The hypotheses are the commits: a commit
// is bad if it is the culprit or descends from it. A commit whose prior is 0 is not a hypothesis.
type Belief interface {
	// Add takes in one launch.
	Add(l Launch)
	// Next returns the launch that promises most information per second: of an end, of a commit launched before, or of
	// a new one. ok is false where no launch promises any.
	Next(p Prices) (a Action, ok bool)
	// Decided returns the commits that hold the culprit with probability 1-delta: one, or several that no usable commit
	// can tell apart.
	Decided(delta float64, usable func(i int) bool) (members []int, ok bool)
	// Parted reports whether some usable commit would tell the members of a set apart.
	Parted(members []int, usable func(i int) bool) bool
	// Nearest lists the usable commits never launched that lie nearest to some quantiles of the culprit's place.
	Nearest(quantiles []float64, p Prices) []int
	// Weights returns the probability of each commit to be the culprit. The caller must not write to it.
	Weights() []float64
	// Bad is the probability that commit i is bad.
	Bad(i int) float64
	// Misfit checks the model against the launches, given the culprit.
	Misfit(culprit int) Misfit
	// Credible lists, oldest first, the likeliest commits that together hold the share p of the probability that the
	// culprit is a commit at all.
	Credible(p float64) []bisect.Suspect
}

// Action is a launch to make next.
type Action struct {
	Index int     // of the commit, or GoodEnd
	Info  float64 // what it is expected to tell of the culprit, nats
	Cost  float64 // expected seconds
}

// Prices says what launches cost, and which commits can be launched at all. Pass, Fail and Usable are needed.
type Prices struct {
	Pass, Fail float64             // seconds of a launch that passes, and of one that fails
	Build      float64             // seconds that a commit never launched costs besides
	Ready      func(i int) float64 // how much of its build a commit has behind it, at most 1; i may be GoodEnd; nil: nothing
	Usable     func(i int) bool    // it can be launched
	Chance     func(i int) float64 // that a commit never launched can be tested; nil: all can
	Device     int                 // on which the launch will be made
	Quantile   float64             // of the culprit's place at which a commit never launched is tried; 0: some about the middle
	Taken      func(i int) int     // launches of a commit that are made at the same time; nil: none
}

// Launch is the expected price, in seconds, of a launch of commit i that fails with chance fail.
func (p Prices) Launch(i int, fail float64) float64 {
	cost := p.Pass
	if fail > 0 {
		cost += fail * (p.Fail - p.Pass)
	}
	cost += (1 - p.done(i)) * BuildShare * p.Build
	if p.Taken != nil { // one more of the same tells less
		cost *= 1 + float64(p.Taken(i))
	}
	return cost
}

// Testable is the chance that commit i can be tested, if it was never launched.
func (p Prices) Testable(i int) float64 {
	if p.Chance == nil {
		return 1
	}
	return p.Chance(i)
}

// done is how much of its build commit i has behind it.
func (p Prices) done(i int) float64 {
	if p.Ready == nil {
		return 0
	}
	return p.Ready(i)
}

// Readiness is what it is worth that a commit is ready, as a share of what its launch costs, and of how near it lies to where
// it tells most: enough to decide between two that tell almost as much.
const Readiness = 0.03

// BuildShare is how much of the time of a build counts (judge.md 2, "Next action"): it runs beside the device, ahead
// of its launch. With 0 a search builds 12 to 14.5 commits, with 1 it builds 10.6 to 10.9 (judge.md 3).
const BuildShare = 0.15

// Nearest lists the open and usable commits whose probability to be bad lies nearest to some quantiles, each commit
// once. One that probably cannot be tested must lie nearer to be picked.
func Nearest(bad []float64, open func(i int) bool, quantiles []float64, p Prices) []int {
	type choice struct {
		worth float64
		at    int
	}
	best := slices.Repeat([]choice{{1e-9, -1}}, len(quantiles))
	for i, b := range bad {
		if !(b > 1e-12 && b < 1-1e-12 && open(i) && p.Usable(i)) {
			continue
		}
		testable, ready := p.Testable(i), 1+Readiness*p.done(i)
		for k, q := range quantiles {
			if worth := testable * (1 - math.Abs(b-q)/max(q, 1-q)) * ready; worth > best[k].worth {
				best[k] = choice{worth, i}
			}
		}
	}
	var out []int
	for _, x := range best {
		if x.at >= 0 && !slices.Contains(out, x.at) {
			out = append(out, x.at)
		}
	}
	return out
}

// Likeliest lists the likeliest commits that together reach the share p of all weights, oldest first. Of several equal
// ones at the limit the oldest are taken.
func Likeliest(weights []float64, p float64) (out []bisect.Suspect) {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	trifle := (1 - p) * total / float64(len(weights)) // all that weigh less add up to less than 1-p
	counts := func(w float64) bool { return w > 0 && w >= trifle }
	n := 0
	for _, w := range weights {
		if counts(w) {
			n++
		}
	}
	sorted := make([]float64, 0, n)
	for _, w := range weights {
		if counts(w) {
			sorted = append(sorted, w)
		}
	}
	slices.Sort(sorted) // few of them differ, so that this is fast
	sum := 0.0
	least, ties := 0.0, 0 // of those that are kept
	for ; n > 0 && sum < p*total; n-- {
		if sum += sorted[n-1]; sorted[n-1] != least {
			least, ties = sorted[n-1], 0
		}
		ties++
	}
	out = make([]bisect.Suspect, 0, len(sorted)-n)
	for i, w := range weights {
		if !counts(w) || w < least {
			continue
		}
		if w == least {
			if ties--; ties < 0 {
				continue
			}
		}
		out = append(out, bisect.Suspect{Index: i, Probability: w})
	}
	return out
}

// Parted reports whether one of n commits is usable and reaches some of the members of a set but not all.
func Parted(g *bisect.Graph, n int, members []int, usable func(int) bool) bool {
	if len(members) < 2 {
		return false
	}
	inside := make([]float64, n)
	for _, i := range members {
		inside[i] = 1
	}
	for i, reached := range g.Masses(inside) {
		if usable(i) && reached > 0.5 && reached < float64(len(members))-0.5 {
			return true
		}
	}
	return false
}

// BinaryEntropy is the entropy of an event of probability p, in nats.
func BinaryEntropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log(p) - (1-p)*math.Log(1-p)
}

// Entropy is the entropy of the culprit, in nats, given the probability of each hypothesis. It is fast where
// neighbours have equal weights, as the members of a set do.
func Entropy(weights []float64) (h float64) {
	last, part := 0.0, 0.0
	for _, w := range weights {
		if w != last {
			if last, part = w, 0; w > 0 {
				part = w * math.Log(w)
			}
		}
		h -= part
	}
	return h
}

// LogAdd is ln(e^a + e^b).
func LogAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(a, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// LogSum is the logarithm of the sum of e^x over v; minus infinity of none.
func LogSum(v []float64) float64 {
	sum := math.Inf(-1)
	for _, x := range v {
		sum = LogAdd(sum, x)
	}
	return sum
}
