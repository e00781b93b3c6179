package find_test

import (
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// What is said at the first third of a job about the rest of it is right within a factor of two, in the
// median.
func TestExpectedLaunches(t *testing.T) {
	for _, spec := range []string{
		`{"preset":"typical","step_log":0.02956}`,
		`{"preset":"quiet","step_log":0.00995}`,
		`{"preset":"noisy","step_log":0.04879}`,
		`{"preset":"typical","step_log":0.04879,"commits":4096}`,
	} {
		s, err := simulate.ReadSpec([]byte(spec))
		if err != nil {
			t.Fatal(err)
		}
		var launches, seconds []float64
		for seed := range uint64(20) {
			l, x := foretold(t, simulate.NewDevice(s, 500+seed))
			launches, seconds = append(launches, l), append(seconds, x)
		}
		slices.Sort(launches)
		slices.Sort(seconds)
		l, x := launches[len(launches)/2], seconds[len(seconds)/2]
		t.Logf("%s: %.2f of the launches, %.2f of the seconds", spec, l, x)
		if min(l, x) < 0.5 || max(l, x) > 2 {
			t.Errorf("%s: expected %.2f of the launches and %.2f of the seconds", spec, l, x)
		}
	}
}

// foretold plays a job and returns what was expected after a third of its launches, as shares of what
// it took.
func foretold(t *testing.T, d *simulate.Device) (launches, seconds float64) {
	t.Helper()
	now := 0.0
	b := slowdown(d, sampler(func(r bisect.Request) (bisect.Outcome, error) {
		o, err := d.Sample(t.Context(), r)
		now = o.At + o.Wall
		return o, err
	}))
	type point struct {
		launches int
		now      float64
		search.Progress
	}
	var all []point
	b.OnProgress = func(p search.Progress) {
		if p.Suspects < 1-1e-9 || p.Probability > 1+1e-9 || !(p.ExpectedLaunches > 0) {
			t.Errorf("%+v", p)
		}
		all = append(all, point{d.Launches, now, p})
	}
	if f, err := find.Culprits(t.Context(), b); err != nil || f.Err != nil {
		t.Fatal(err, f.Err)
	}
	i := slices.IndexFunc(all, func(p point) bool { return 3*p.launches >= d.Launches })
	p := all[i]
	return p.ExpectedLaunches / float64(d.Launches-p.launches), p.ExpectedSeconds / (now - p.now)
}
