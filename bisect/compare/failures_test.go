package compare_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
)

// TestCompareFailuresHold plays seeded comparisons of candidates that crash now and then: what fails alike is
// not accused, what fails more often is found, and a B that failed where A did not is never called alike.
func TestCompareFailuresHold(t *testing.T) {
	const trials = 40
	for _, x := range []struct {
		a, b        float64 // how often they fail
		worse, most int     // trials with that answer, at least and at most
	}{
		{0.02, 0.02, 0, 1}, {0.05, 0.05, 0, 1}, {0.1, 0.1, 0, 2}, {0, 0.3, 32, trials}, {0, 0.5, 38, trials}, {0.05, 0.6, 36, trials},
	} {
		rng := rand.New(rand.NewPCG(41, 42))
		answers := map[compare.Answer]int{}
		for range trials {
			got := run(t, &script{show: func(b bool, _ int) bisect.Outcome {
				if rng.Float64() < map[bool]float64{false: x.a, true: x.b}[b] {
					return failed(bisect.Crash, "measure", "SIGSEGV")
				}
				return times(rng, b, 1)
			}}, compare.Experiment{})
			answers[got.Answer]++
			a, b := got.Sides[0], got.Sides[1]
			if a.Failed == 0 && b.Failed > 0 && (got.Answer == compare.Alike || got.Answer == compare.Better || !got.ByClass && got.Answer == compare.Open) {
				t.Errorf("%s, by class %v, although B failed in %d of %d launches and A in none", got.Answer, got.ByClass, b.Failed, b.Launches)
			}
			if a.Failed+b.Failed > 0 && !got.ByClass && len(got.Warnings) == 0 {
				t.Errorf("%s, and nothing is said of %d and %d failures", got.Answer, a.Failed, b.Failed)
			}
		}
		t.Logf("A fails at %g, B at %g: %v", x.a, x.b, answers)
		if n := answers[compare.Worse]; n < x.worse || n > x.most {
			t.Errorf("A fails at %g, B at %g: %v", x.a, x.b, answers)
		}
	}
}

// TestCompareFailuresBudget: a follow-up ends with the budget, and says so.
func TestCompareFailuresBudget(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	n := 0
	got := run(t, &script{show: func(b bool, i int) bisect.Outcome {
		if n++; b && i == 1 {
			return failed(bisect.Wrong, "check", "sum")
		}
		return times(rng, b, 1)
	}}, compare.Experiment{Spent: func() bool { return n >= 30 }, Names: [2]string{"the merge base", "HEAD"}})
	const why = "HEAD fails in 1 of 15 launches, the merge base in none of 15, too few to tell whether that is chance: wrong in check: sum"
	if got.Answer != compare.Open || !got.Spent || got.Class != bisect.Wrong || got.Why != why {
		t.Errorf("%s, spent %v, %s: %s", got.Answer, got.Spent, got.Class, got.Why)
	}
}
