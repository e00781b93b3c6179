package compare

import (
	"cmp"
	"fmt"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// byClass answers by how launches ended, where that says more than any number; false where it does not.
func (r *run) byClass() bool {
	a, b := &r.c.Sides[0], &r.c.Sides[1]
	tell := func(answer Answer, s *Side, why string) bool {
		r.c.Answer, r.c.ByClass, r.c.Why = answer, true, why
		r.c.Class, r.c.Phase = s.Failure.Class, s.Failure.Phase
		return true
	}
	switch {
	case a.neverPasses() && b.neverPasses() && a.Failure.Class == b.Failure.Class:
		return tell(Open, a, fmt.Sprintf("both fail in the same way: A %s; B %s", a.Failure.Describe(), b.Failure.Describe()))
	case a.neverPasses():
		return tell(Open, a, "A fails, so that there is nothing to compare with: "+a.Failure.Describe())
	case b.neverPasses() && b.Failure.Class == bisect.Skip:
		return tell(Open, b, "B cannot be tested: "+b.Failure.Describe())
	case a.Failed == 0 && b.neverPasses(), r.failsMore():
		return tell(Worse, b, fmt.Sprintf("it fails in %s, A in %s: %s", b.failures(), a.failures(), b.Failure.Describe()))
	}
	return false
}

// neverPasses reports a side that has not passed once and will not: two launches failed, or it cannot be built or tested.
func (s *Side) neverPasses() bool {
	ok := s.Launches - s.Failed
	return ok == 0 && s.Failed > 0 && (s.Failed >= 2 || s.Failure.Class == bisect.BuildFailed || s.Failure.Class == bisect.Skip)
}

// failures is how often a side failed, in words.
func (s *Side) failures() string {
	if s.Failed == 0 {
		return fmt.Sprintf("none of %d", s.Launches)
	}
	return fmt.Sprintf("%d of %d launches", s.Failed, s.Launches)
}

// failureLooks is by how much the chance of an error grows when failures are counted after every pair, where both
// sides fail. Where A never does it does not grow: that the first k failures are all of B has a chance of 2^-k,
// however often one looks. TestCompareFailuresHold measures both.
const failureLooks = 10

// maxFollowed is the number of launches of both sides by which failures must be told from chance.
const maxFollowed = 80

// failsMore reports whether B fails in a larger share of its launches than A, with the error asked for.
func (r *run) failsMore() bool {
	limit := r.want.allowed
	if r.c.Sides[0].Failed > 0 {
		limit /= failureLooks
	}
	return r.c.chance() < limit
}

// chance is the probability of so many failures of B if it fails as often as A.
func (c *Result) chance() float64 {
	a, b := c.Sides[0], c.Sides[1]
	return fisher(a.Failed, a.Launches, b.Failed, b.Launches)
}

// follow reports whether launches go on because of failures: B has more of them, but not enough to rule out chance.
func (r *run) follow() bool {
	a, b := r.c.Sides[0], r.c.Sides[1]
	return r.Pairs == 0 && r.c.Answer != Worse && b.Failed > a.Failed && a.Launches+b.Launches < maxFollowed && r.unfit < metric.MaxUnfit && !r.spent()
}

func (r *run) spent() bool { return r.cut || r.Spent != nil && r.Spent() }

// byChance is the chance from which failures are taken to come as often on both sides, where A fails too.
const byChance = 0.1

// settle has the last word where launches have failed now and then. It warns of what is left of that, and numbers do
// not excuse a B that fails where A does not.
func (r *run) settle() {
	a, b := &r.c.Sides[0], &r.c.Sides[1]
	if a.Failed == 0 && b.Failed == 0 {
		return
	}
	counts := fmt.Sprintf("%s fails in %s, %s in %s", r.names[1], b.failures(), r.names[0], a.failures())
	switch {
	case b.Failed <= a.Failed:
		r.warn(fmt.Sprintf("%s: no more often (%s)", counts, cmp.Or(b.Failure, a.Failure).Describe()))
	case r.c.Answer == Worse:
		r.warn(fmt.Sprintf("besides, %s: %s", counts, b.Failure.Describe()))
	case a.Failed > 0 && r.c.chance() >= byChance:
		r.warn(fmt.Sprintf("%s: as often, as far as this number of launches can tell (%s)", counts, b.Failure.Describe()))
	default:
		r.c.Answer, r.c.ByClass, r.c.Spent = Open, true, r.spent()
		r.c.Class, r.c.Phase = b.Failure.Class, b.Failure.Phase
		r.c.Why = fmt.Sprintf("%s, too few to tell whether that is chance: %s", counts, b.Failure.Describe())
	}
}

// fisher is the chance that as many of all failures fall to B, or more, if both sides fail as often: Fisher's exact
// test, one-sided, which sums the hypergeometric distribution.
func fisher(failedA, launchesA, failedB, launchesB int) float64 {
	failed, p := failedA+failedB, 0.0
	all := choose(launchesA+launchesB, failed)
	for k := failedB; k <= min(failed, launchesB); k++ {
		p += math.Exp(choose(launchesB, k) + choose(launchesA, failed-k) - all)
	}
	return p
}

// choose is the logarithm of a binomial coefficient.
func choose(n, k int) float64 {
	if k < 0 || k > n {
		return math.Inf(-1)
	}
	f := func(x int) float64 { l, _ := math.Lgamma(float64(x) + 1); return l }
	return f(n) - f(k) - f(n-k)
}
