package find_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// A commit that failed once in another way, as on a loaded machine, is launched again before a search ends
// without it; one that always does is set aside after three launches.
func TestOtherFailureIsTriedAgain(t *testing.T) {
	const n, culprit = 9, 5
	for _, class := range []bisect.Class{bisect.Wrong, bisect.Slow} {
		for _, side := range []int{culprit - 1, culprit} { // the parent, the culprit itself
			for times := range 5 {
				commits := straight(n)
				d := planted(commits, culprit, 1, 3)
				d.rate = func(i int, _ bisect.Request) float64 { return step(i, culprit, 0, 1) }
				d.fail = bisect.Outcome{Class: class, Phase: "check", Wall: 10}
				launches, asked := 0, 0
				sample := func(r bisect.Request) (bisect.Outcome, error) {
					launches++
					if r.Candidate.Commit == commits[side].ID {
						if asked++; asked <= times {
							return bisect.Outcome{Class: bisect.Timeout, Phase: "warmup", Wall: 6}, nil
						}
					}
					o, err := d.Sample(t.Context(), r)
					y := 1 + 0.002*float64(launches%5)
					if o.Class == bisect.Slow {
						o.Class, y = bisect.OK, y*1.3
					}
					o.Series = append(o.Series, number("time", "", y))
					return o, err
				}
				b := &search.Search{
					Commits: commits, Good: bisect.Candidate{Commit: simulate.ID(0)}, Sampler: sampler(sample),
					Options: search.Options{Error: 0.01, Effect: 0.03, Metrics: []metric.Metric{{Name: "time"}}},
				}
				f, err := find.Culprits(t.Context(), b)
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%s, commit %d times out %d times", class, side, times)
				switch {
				case times < 3 && (f.Result != bisect.Found || f.Culprits[0].Commit != commits[culprit].ID):
					t.Errorf("%s: %s %+v", what, f.Result, f.Suspects)
				case times >= 3 && (f.Result != bisect.Inconclusive || len(f.Suspects) != 2 || asked != 3):
					t.Errorf("%s: %s %+v, asked %d times", what, f.Result, f.Suspects, asked)
				}
			}
		}
	}
}

// A whole stretch of commits that fail in another way costs a few launches more, no matter how long it is.
func TestOtherFailuresAreTriedAgainAFewTimes(t *testing.T) {
	const n, first, culprit = 40, 8, 20
	search := func(other int) (f bisect.Finding, launches int) {
		d := planted(straight(n), culprit, 1, 3)
		f = d.find(t, sampler(func(r bisect.Request) (bisect.Outcome, error) {
			launches++
			o, err := d.Sample(t.Context(), r)
			i := slices.IndexFunc(d.commits, func(c bisect.Commit) bool { return c.ID == r.Candidate.Commit })
			if i >= first && i < first+other {
				o = bisect.Outcome{Class: bisect.Wrong, Phase: "check", Wall: 5}
			}
			return o, err
		}), search.Options{})
		return f, launches
	}
	f, none := search(0)
	if f.Result != bisect.Found {
		t.Fatal(f.Result, f.Suspects)
	}
	f, many := search(22)
	if f.Result != bisect.Inconclusive || len(f.Suspects) != 23 || many > 22+none+4 {
		t.Errorf("%s, %d suspects, %d launches, %d where nothing fails in another way", f.Result, len(f.Suspects), many, none)
	}
	t.Logf("%d launches, %d where nothing fails in another way", many, none)
}
