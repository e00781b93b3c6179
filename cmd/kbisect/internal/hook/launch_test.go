package hook

import (
	"errors"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
)

// TestLaunchesAnswer: only what is clear stops a push.
func TestLaunchesAnswer(t *testing.T) {
	ok, wrong, skip := &bisect.Outcome{Class: bisect.OK}, &bisect.Outcome{Class: bisect.Wrong, Phase: "check", Why: "exit 7"}, &bisect.Outcome{Class: bisect.Skip}
	side := func(launches, failed int) compare.Side { return compare.Side{Launches: launches, Failed: failed} }
	for name, x := range map[string]struct {
		base         string
		first        *bisect.Outcome
		base0, head  compare.Side
		answer       compare.Answer
		spent        bool
		err          error
		want         answer
		why          string
		becomesWorse bool
	}{
		"slower":                       {base: "a", first: ok, base0: side(7, 0), head: side(7, 0), answer: compare.Worse, want: regression},
		"faster":                       {base: "a", first: ok, base0: side(7, 0), head: side(7, 0), answer: compare.Better, want: passes},
		"no difference":                {base: "a", first: ok, base0: side(7, 0), head: side(7, 0), answer: compare.Alike, want: passes},
		"no time for more":             {base: "a", first: ok, base0: side(2, 0), head: side(2, 0), answer: compare.Open, spent: true, want: undecided},
		"more would not help":          {base: "a", first: ok, base0: side(9, 0), head: side(9, 0), answer: compare.Open, want: passes},
		"fails, and its base does not": {base: "a", first: wrong, base0: side(1, 0), head: side(2, 2), answer: compare.Open, spent: true, want: regression, why: "it fails in 2 of 2 launches, A in none of 1: wrong in check: exit 7", becomesWorse: true},
		"fails, no time for its base":  {base: "a", first: wrong, head: side(1, 1), answer: compare.Open, spent: true, want: regression, why: "it fails in 1 of 1 launches, and there was no time to launch A: wrong in check: exit 7", becomesWorse: true},
		"fails without a base":         {first: wrong, head: side(1, 1), answer: compare.Open, want: regression, why: "it fails in 1 of 1 launches: wrong in check: exit 7", becomesWorse: true},
		"fails as its base does":       {base: "a", first: wrong, base0: side(2, 2), head: side(2, 2), answer: compare.Open, want: passes},
		"fails once":                   {base: "a", first: wrong, base0: side(3, 0), head: side(3, 1), answer: compare.Open, spent: true, want: undecided},
		"cannot be tested":             {base: "a", first: skip, head: side(1, 1), answer: compare.Open, want: unchecked},
		"did not end":                  {base: "a", answer: compare.Open, want: undecided},
		"machine problem":              {base: "a", first: ok, answer: compare.Open, err: errors.New("device lost"), want: undecided},
		"ends well without a base":     {first: ok, head: side(1, 0), answer: compare.Open, want: passes},
	} {
		l := launches{base: x.base, first: x.first, err: x.err, got: compare.Result{Answer: x.answer, Spent: x.spent, Sides: [2]compare.Side{x.base0, x.head}}}
		if got := l.answer(); got != x.want || l.got.Why != x.why {
			t.Errorf("%s: %s %q, want %s %q", name, got, l.got.Why, x.want, x.why)
		}
		if x.becomesWorse && (l.got.Answer != compare.Worse || !l.got.ByClass || l.got.Spent) {
			t.Errorf("%s: stored as %+v", name, l.got)
		}
	}
}
