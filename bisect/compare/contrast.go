package compare

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Contrast is the comparison of one number that launches give: a metric of one case, or of all of them.
type Contrast struct {
	Metric metric.Metric
	Case   string
	All    bool   // the geometric mean over all cases
	Unit   string // "" for a count
	A, B   Summary
	Pairs  int // both launches of which gave the number

	Ratio    Interval // of the medians, B over A
	P        float64  // Mann–Whitney, two-sided
	Adjusted float64  // P, corrected by Holm for the number of contrasts

	Bound    Interval // of the ratio, B over A; holds with the error asked for, however often one looked
	Doubt    float64  // chance of such a difference without a cause, corrected for looks and contrasts
	Smallest float64  // change that so many launches would have shown four times in five, as a fraction
	Answer   Answer
	Why      string // why there is no answer, unless there are too few pairs
	Was      string // the number's name in A, "stack of f<16>", where the kernel has another one in B
}

// About reports whether a contrast is about the metric and case that launches call by these names. Kernels of one
// function count as the same, as their template arguments change.
func (k Contrast) About(name, one string) bool {
	return k.Metric.Name == name && (k.All || k.Case == one || k.Metric.Exact && metric.Family(k.Case) == metric.Family(one))
}

// contrast collects the launches of a Contrast. Levels are logarithms and larger is worse, whatever the direction of
// the metric; index 0 is A and 1 is B.
type contrast struct {
	channel metric.Channel
	unit    string
	cases   []string     // that the first launch gave values of
	levels  [2][]float64 // of both sides
	pairs   [][2]float64 // levels of launches side by side
	last    paired
	answer  Answer
}

func newContrast(c metric.Channel, o bisect.Outcome) *contrast {
	return &contrast{channel: c, unit: c.Unit(o), cases: metric.Cases(c.Metric, o), answer: Open}
}

// add takes in one launch. A mean over all cases is left out where a launch lacks one of the cases.
func (c *contrast) add(l paired) {
	y, ok := c.channel.Level(l.o)
	if !ok || c.channel.All && len(metric.Cases(c.channel.Metric, l.o)) != len(c.cases) {
		return
	}
	c.levels[l.side] = append(c.levels[l.side], y)
	if before, ok := c.channel.Level(c.last.o); ok && c.last.pair == l.pair {
		both := [2]float64{before, y}
		if l.side == 0 {
			both[0], both[1] = both[1], both[0]
		}
		c.pairs = append(c.pairs, both)
	}
	c.last = l
}

// caseName is the case that the numbers are of; "" where they are of several or there are no cases.
func (c *contrast) caseName() string {
	if c.channel.All && len(c.cases) == 1 {
		return c.cases[0]
	}
	return c.channel.Case
}

// steps are the differences of the pairs, logarithms of B over A.
func (c *contrast) steps() []float64 {
	out := make([]float64, len(c.pairs))
	for i, p := range c.pairs {
		out[i] = p[1] - p[0]
	}
	return out
}

// How the error that a comparison may make is shared between its two rank tests. Mann and Whitney's needs few launches;
// Wilcoxon's goes by the differences within pairs, and so does not mind a machine that drifts.
const (
	shareSum  = 0.8
	sharePair = 0.2
)

// looks is by how much the chance of an error grows when one looks after every pair, up to 120, and stops at will.
// TestCompareHolds measures it.
const looks = 12

// criteria are what an answer must meet.
type criteria struct {
	allowed float64 // chance of a wrong answer
	least   float64 // smallest change worth finding, as a logarithm
	looks   float64 // by how much a chance grows because one looks after every pair
	seed    uint64  // of the bootstrap
	accepts func(m metric.Metric, one string, ratio float64) bool
}

// criteria fills in the defaults.
func (c *Experiment) criteria() criteria {
	w := criteria{allowed: 0.01, least: math.Log1p(0.005), looks: looks, seed: c.Seed, accepts: c.Accepts}
	if c.Error > 0 {
		w.allowed = c.Error
	}
	if c.Effect > 0 {
		w.least = math.Log1p(c.Effect)
	}
	if c.Pairs > 0 {
		w.looks = 1 // nothing is decided before the last pair; a few looks by Enough cost less than the tests are strict, TestCompareEnough
	}
	return w
}

// doubt is the chance of a difference as clear as this one without a cause, where often is criteria.looks. It is
// Bonferroni's bound over the two tests, weighted by their shares.
func (c *contrast) doubt(often float64) float64 {
	return min(1, often*min(MannWhitney(c.levels[0], c.levels[1])/shareSum, SignedRank(c.steps())/sharePair))
}

// bound is the step as Hodges and Lehmann (1963) estimate it, the median of all averages of two of the differences,
// with the interval that neither test rejects, each with its share of error e; bounds that there are too few launches
// for are infinite.
func (c *contrast) bound(e float64) Interval {
	walsh := averages(c.steps())
	out := Interval{metric.Median(walsh), math.Inf(-1), math.Inf(1)}
	narrow := func(low, high float64) {
		if !math.IsNaN(low) {
			out.Low, out.High = max(out.Low, low), min(out.High, high)
		}
	}
	a, b := c.levels[0], c.levels[1]
	narrow(within(differences(a, b), rankSum(len(a), len(b), e*shareSum/2)))
	narrow(within(walsh, signedRank(len(c.pairs), e*sharePair/2)))
	return out
}

// judge answers by the step where that is clear and large enough, else by whether a step as large as is looked for can
// be ruled out. doubt is that of Holm's correction.
func (c *contrast) judge(doubt float64, w criteria) {
	c.answer = Open
	if len(c.pairs) < MinPairs {
		return
	}
	b := c.bound(w.allowed / w.looks)
	clear := doubt <= w.allowed
	switch {
	case clear && b.Value >= metric.EffectMargin*w.least:
		c.answer = Worse
		if w.accepts != nil && w.accepts(c.channel.Metric, c.caseName(), ratioOf(c.channel, b).Value) {
			c.answer = Accepted
		}
	case clear && b.Value <= -metric.EffectMargin*w.least:
		c.answer = Better
	case -w.least <= b.Low && b.High <= w.least:
		c.answer = Alike
	}
}

// hopeless reports whether all that is open would still be open, by far, after all the pairs that may be made: an
// interval narrows with the square root of their number.
func hopeless(all []*contrast, w criteria) bool {
	const first, far = 30, 2.5
	for _, c := range all {
		if c.answer != Open {
			continue
		}
		n := float64(len(c.pairs))
		b := c.bound(w.allowed / w.looks)
		if n < first || (b.High-b.Low)/2*math.Sqrt(n/metric.MaxPairs) < far*max(w.least, math.Abs(b.Value)) {
			return false
		}
	}
	return len(all) > 0
}

// together is the answer over all contrasts: one that is worse is a regression, whatever the others do.
func together(all []*contrast) Answer {
	is := func(a Answer) bool {
		return slices.ContainsFunc(all, func(c *contrast) bool { return c.answer == a })
	}
	switch {
	case is(Worse):
		return Worse
	case len(all) == 0, is(Open):
		return Open
	case is(Better):
		return Better
	}
	return Alike
}

// describe puts what is known of one of n contrasts into numbers.
func (c *contrast) describe(n int, w criteria) Contrast {
	var v, each, both [2][]float64
	for side := range 2 {
		for _, y := range c.levels[side] {
			v[side], each[side] = append(v[side], c.channel.Value(y)), append(each[side], c.channel.Positive(y))
		}
		for _, p := range c.pairs {
			both[side] = append(both[side], c.channel.Positive(p[side]))
		}
	}
	x := Contrast{
		Metric: c.channel.Metric, Case: c.caseName(), All: c.channel.All && len(c.cases) > 1, Unit: c.unit, Answer: c.answer, Pairs: len(c.pairs),
		A: Describe(v[0]), B: Describe(v[1]), P: MannWhitney(v[0], v[1]),
	}
	if was := c.channel.Was(); was != "" {
		x.Was = metric.Channel{Metric: c.channel.Metric, Case: was}.Name()
	}
	if len(c.pairs) == len(v[0]) && len(c.pairs) == len(v[1]) {
		x.Ratio = RatioOfMedians(both[0], both[1], true, w.seed)
	} else {
		x.Ratio = RatioOfMedians(each[0], each[1], false, w.seed)
	}
	x.Bound = ratioOf(c.channel, c.bound(w.allowed/w.looks))
	alone := w.allowed / w.looks / float64(n)                 // a number alone must be as clear as that
	wide, z := c.bound(alone), math.Sqrt2*math.Erfcinv(alone) // half an interval is z standard errors
	x.Smallest = math.Expm1((wide.High - wide.Low) / 2 * (1 + power/z))
	return x
}

// power is the quantile of the normal at 80 %.
const power = 0.8416

// ratioOf turns an interval of steps, where larger is worse, into one of ratios of the metric itself.
func ratioOf(c metric.Channel, s Interval) Interval {
	if c.Metric.Higher {
		s = Interval{-s.Value, -s.High, -s.Low}
	}
	return Interval{math.Exp(s.Value), math.Exp(s.Low), math.Exp(s.High)}
}

// sofar is what is known now.
func sofar(all []*contrast, w criteria) []Sofar {
	var out []Sofar
	for _, c := range all {
		out = append(out, Sofar{c.channel.Name(), ratioOf(c.channel, c.bound(w.allowed/w.looks)), c.answer})
	}
	return out
}
