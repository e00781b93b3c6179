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
	A, B   Description
	Pairs  int // both launches of which gave the number

	Ratio    Interval // of the medians, B over A
	Shift    Interval // of the pairs, B over A: what the pairs say of the ratio by themselves
	Cliff    float64  // Cliff's delta of B against A
	P        float64  // Mann–Whitney, two-sided
	Adjusted float64  // P, corrected by Holm for the number of contrasts

	Bound    Interval // of the ratio, B over A; holds with the error asked for, however often one looked
	Doubt    float64  // chance of such a difference without a cause, corrected for looks and contrasts
	Smallest float64  // change that so many launches would have shown four times in five, as a fraction
	Answer   Answer
	Why      string // there is no answer, where it is not for want of pairs
	Was      string // the number's name in A, "stack of f<16>", where the kernel has another one in B
}

// About reports that a contrast is about what launches call by a name: kernels of one function are taken for one
// another, as their template arguments change.
func (k Contrast) About(name, one string) bool {
	return k.Metric.Name == name && (k.All || k.Case == one || k.Metric.Exact && metric.Family(k.Case) == metric.Family(one))
}

// contrast collects the launches of a Contrast.
type contrast struct {
	metric.Channel
	unit   string
	cases  []string     // that the first launch gave values of
	levels [2][]float64 // of both sides
	pairs  [][2]float64 // levels of launches side by side
	last   paired
	answer Answer
}

func newContrast(c metric.Channel, o bisect.Outcome) *contrast {
	return &contrast{Channel: c, unit: c.Unit(o), cases: metric.Cases(c.Metric, o), answer: Open}
}

// add takes in one launch.
func (c *contrast) add(l paired) {
	y, ok := c.Level(l.o)
	if !ok || c.All && len(metric.Cases(c.Metric, l.o)) != len(c.cases) {
		return
	}
	c.levels[l.side] = append(c.levels[l.side], y)
	if before, ok := c.Level(c.last.o); ok && c.last.pair == l.pair {
		both := [2]float64{before, y}
		if l.side == 0 {
			both[0], both[1] = both[1], both[0]
		}
		c.pairs = append(c.pairs, both)
	}
	c.last = l
}

// caseName is the one case that the numbers are of, "" where there are several or none.
func (c *contrast) caseName() string {
	if c.All && len(c.cases) == 1 {
		return c.cases[0]
	}
	return c.Case
}

// steps are the differences of the pairs, B above A.
func (c *contrast) steps() []float64 {
	out := make([]float64, len(c.pairs))
	for i, p := range c.pairs {
		out[i] = p[1] - p[0]
	}
	return out
}

// The error that a comparison may make is shared between two rank tests. That of Mann and Whitney needs few
// launches; Wilcoxon's takes the pairs for what they are, and so does not mind a machine that drifts.
const (
	shareSum  = 0.8
	sharePair = 0.2
)

// looks is by how much a chance grows when one looks after every pair, up to 120, and stops at will.
// TestCompareHolds measures it.
const looks = 12

// often is how many looks the error must do for.
func (r *run) often() float64 {
	if r.Pairs > 0 {
		return 1
	}
	return looks
}

// doubt is the chance of a difference as clear as this one without a cause.
func (c *contrast) doubt(often float64) float64 {
	return min(1, often*min(MannWhitney(c.levels[0], c.levels[1])/shareSum, SignedRank(c.steps())/sharePair))
}

// bound is the step with the interval that neither test rejects, each with its share of error e; bounds
// that there are too few launches for are infinite.
func (c *contrast) bound(e float64) Interval {
	out := Interval{HodgesLehmann(c.steps()).Value, math.Inf(-1), math.Inf(1)}
	narrow := func(low, high float64) {
		if !math.IsNaN(low) {
			out.Low, out.High = max(out.Low, low), min(out.High, high)
		}
	}
	a, b := c.levels[0], c.levels[1]
	narrow(within(differences(a, b), rankSum(len(a), len(b), e*shareSum/2)))
	narrow(within(averages(c.steps()), signedRank(len(c.pairs), e*sharePair/2)))
	return out
}

// judge answers for every contrast as far as that is possible, and for all of them together.
func (r *run) judge() {
	doubts := make([]float64, len(r.contrasts))
	for i, c := range r.contrasts {
		doubts[i] = c.doubt(r.often())
	}
	for i, doubt := range Holm(doubts) {
		r.contrasts[i].answer = r.answer(r.contrasts[i], doubt)
	}
	r.c.Answer = r.together()
}

// answer judges one contrast: by its step where that is clear and worth it, else by whether what is
// looked for can be ruled out.
func (r *run) answer(c *contrast, doubt float64) Answer {
	if len(c.pairs) < MinPairs {
		return Open
	}
	b := c.bound(r.allowed() / r.often())
	clear := doubt <= r.allowed()
	switch {
	case clear && b.Value >= metric.EffectMargin*r.least():
		if r.Accepts != nil && r.Accepts(c.Metric, c.caseName(), ratioOf(c.Channel, b).Value) {
			return Accepted
		}
		return Worse
	case clear && b.Value <= -metric.EffectMargin*r.least():
		return Better
	case -r.least() <= b.Low && b.High <= r.least():
		return Alike
	}
	return Open
}

// hopeless reports that what is open would still be open after all pairs that may be made, by far: an
// interval narrows with the square root of their number.
func (r *run) hopeless() bool {
	const first, far = 30, 2.5
	for _, c := range r.contrasts {
		if c.answer != Open {
			continue
		}
		n := float64(len(c.pairs))
		b := c.bound(r.allowed() / r.often())
		if n < first || (b.High-b.Low)/2*math.Sqrt(n/metric.MaxPairs) < far*max(r.least(), math.Abs(b.Value)) {
			return false
		}
	}
	return len(r.contrasts) > 0
}

// together is the answer over all contrasts: one that is worse is a regression, whatever the others do.
func (r *run) together() Answer {
	is := func(a Answer) bool {
		return slices.ContainsFunc(r.contrasts, func(c *contrast) bool { return c.answer == a })
	}
	switch {
	case is(Worse):
		return Worse
	case len(r.contrasts) == 0, is(Open):
		return Open
	case is(Better):
		return Better
	}
	return Alike
}

// describe puts what is known into numbers.
func (r *run) describe() []Contrast {
	var out []Contrast
	var ps, doubts []float64
	for _, c := range r.contrasts {
		out = append(out, r.contrast(c))
		ps, doubts = append(ps, out[len(out)-1].P), append(doubts, c.doubt(r.often()))
	}
	ps, doubts = Holm(ps), Holm(doubts)
	for i := range out {
		out[i].Adjusted, out[i].Doubt = ps[i], doubts[i]
	}
	return append(out, r.missing()...)
}

func (r *run) contrast(c *contrast) Contrast {
	var v, each, both [2][]float64
	for side := range 2 {
		for _, y := range c.levels[side] {
			v[side], each[side] = append(v[side], c.Value(y)), append(each[side], c.Positive(y))
		}
		for _, p := range c.pairs {
			both[side] = append(both[side], c.Positive(p[side]))
		}
	}
	x := Contrast{
		Metric: c.Metric, Case: c.caseName(), All: c.All && len(c.cases) > 1, Unit: c.unit, Answer: c.answer, Pairs: len(c.pairs),
		A: Describe(v[0]), B: Describe(v[1]), Cliff: CliffsDelta(v[0], v[1]), P: MannWhitney(v[0], v[1]),
	}
	if c.Kernel != nil {
		x.Was = metric.Channel{Metric: c.Metric, Case: c.Kernel.Names[0]}.Name()
	}
	if len(c.pairs) == len(v[0]) && len(c.pairs) == len(v[1]) {
		x.Ratio = RatioOfMedians(both[0], both[1], true, r.Seed)
	} else {
		x.Ratio = RatioOfMedians(each[0], each[1], false, r.Seed)
	}
	bound := c.bound(r.allowed() / r.often())
	x.Shift, x.Bound = ratioOf(c.Channel, HodgesLehmann(c.steps())), ratioOf(c.Channel, bound)
	alone := r.allowed() / r.often() / float64(len(r.contrasts)) // a number alone must be as clear as that
	wide, z := c.bound(alone), math.Sqrt2*math.Erfcinv(alone)
	x.Smallest = math.Expm1((wide.High - wide.Low) / 2 * (1 + power/z))
	return x
}

// power is the quantile of the normal at 80 %.
const power = 0.8416

// ratioOf turns an interval of steps into one of ratios of the metric itself.
func ratioOf(c metric.Channel, s Interval) Interval {
	if c.Metric.Higher {
		s = Interval{-s.Value, -s.High, -s.Low}
	}
	return Interval{math.Exp(s.Value), math.Exp(s.Low), math.Exp(s.High)}
}

// sofar is what is known now.
func (r *run) sofar() []Sofar {
	var out []Sofar
	for _, c := range r.contrasts {
		out = append(out, Sofar{c.Name(), len(c.pairs), ratioOf(c.Channel, c.bound(r.allowed()/r.often())), c.answer})
	}
	return out
}
