package find_test

import (
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// foretelling are searches whose progress is looked at, and the reasons that they may give for taking longer.
var foretelling = []struct {
	spec     string
	searches int
	low      float64 // least of what is said after a third of the launches, in the median, over what was true
	reasons  []search.Reason
}{
	{`{"preset":"typical","step_log":0.02956}`, 10, 0.5, []search.Reason{search.Noisier, search.Unlucky, search.Contradicted}},
	{`{"preset":"quiet","step_log":0.00995}`, 10, 0.5, []search.Reason{search.Noisier, search.Unlucky}},
	{`{"preset":"noisy","step_log":0.04879}`, 20, 0.5, []search.Reason{search.Noisier, search.Unlucky, search.Contradicted}},
	{`{"preset":"typical","step_log":0.04879,"commits":4096}`, 10, 0.5, []search.Reason{search.Noisier, search.Unlucky}},
	{`{"all":true,"steps":[{"at":70,"log":0.02956},{"at":190,"log":0.04879}]}`, 4, 0.5, []search.Reason{search.FindsMore, search.Noisier, search.Unlucky, search.Contradicted}},
	{`{"hang":{"bad":1,"good":0,"limit":180}}`, 10, 0.5, nil},
	{`{"hang":{"bad":0.7,"good":0,"limit":180}}`, 10, 0.5, []search.Reason{search.Intermittent, search.Unlucky, search.Contradicted, search.Slower}},
	{`{"hang":{"bad":0.3,"good":0,"limit":180}}`, 20, 0.4, []search.Reason{search.Intermittent, search.Unlucky, search.Contradicted, search.Slower}},
	{`{"hang":{"bad":1,"good":0.1,"limit":180}}`, 10, 0.5, []search.Reason{search.Intermittent, search.Unlucky, search.Contradicted, search.Slower}},
}

// The share done never falls. The launches and the seconds to go only fall as well, unless there is a reason; after a third
// of a search they are right within a factor of two, in the median.
func TestForecast(t *testing.T) {
	for _, c := range foretelling {
		s, err := simulate.ReadSpec([]byte(c.spec))
		if err != nil {
			t.Fatal(err)
		}
		var launches, seconds []float64
		given := map[search.Reason]int{}
		for seed := range uint64(c.searches) {
			all, made, end := foretold(t, simulate.NewDevice(s, 500+seed))
			if len(all) == 0 { // the good end fails
				continue
			}
			for i, p := range all[1:] {
				last := all[i]
				if p.Done < last.Done || p.Done < 0 || p.Done > 1 || p.Reason == "" && (p.ExpectedLaunches > last.ExpectedLaunches || p.ExpectedSeconds > last.ExpectedSeconds) {
					t.Errorf("%s, seed %d: %+v after %+v", c.spec, seed, p, last)
				}
				if p.Reason != "" {
					given[p.Reason]++
				}
			}
			if third := all[slices.IndexFunc(all, func(p point) bool { return 3*p.launches >= made })]; third.launches < made {
				launches = append(launches, third.ExpectedLaunches/float64(made-third.launches))
				seconds = append(seconds, third.ExpectedSeconds/(end-third.now))
			}
		}
		for why := range given {
			if !slices.Contains(c.reasons, why) {
				t.Errorf("%s: %s", c.spec, why)
			}
		}
		slices.Sort(launches)
		slices.Sort(seconds)
		l, x := launches[len(launches)/2], seconds[len(seconds)/2]
		t.Logf("%s: %.2f of the launches, %.2f of the seconds, %v in %d searches", c.spec, l, x, given, c.searches)
		if min(l, x) < c.low || max(l, x) > 2 {
			t.Errorf("%s: expected %.2f of the launches and %.2f of the seconds", c.spec, l, x)
		}
	}
}

// point is what was said before a launch.
type point struct {
	launches int
	now      float64
	search.Progress
}

// foretold plays a job and returns what was said on the way, and the launches and the seconds that it took.
func foretold(t *testing.T, d *simulate.Device) (all []point, made int, end float64) {
	t.Helper()
	b := slowdown(d, sampler(func(r bisect.Request) (bisect.Outcome, error) {
		o, err := d.Sample(t.Context(), r)
		end = o.At + o.Wall
		return o, err
	}))
	if d.Hang != nil {
		b.Find = bisect.Timeout
	}
	b.OnProgress = func(p search.Progress) {
		if p.Suspects < 1-1e-9 || !(p.ExpectedLaunches > 0) {
			t.Errorf("%+v", p)
		}
		all = append(all, point{d.Launches, end, p})
	}
	if f, err := find.Culprits(t.Context(), b); err != nil || f.Err != nil {
		t.Fatal(err, f.Err)
	}
	return all, d.Launches, end
}
