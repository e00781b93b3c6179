package find_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// What launches scattered by in earlier sessions saves launches of the ends on a machine that is as quiet as it was. One
// that is not has its culprit found all the same, with no fewer launches of the proof.
func TestPastSessions(t *testing.T) {
	const quiet = `{"preset":"quiet","step_log":0.262,"commits":281,"noise":{"process_sd":0.002}}`
	const noisy = `{"preset":"noisy","step_log":0.1,"commits":64}`
	const far, loaded = `{"preset":"typical","step_log":2.26,"commits":354}`, `{"good_seconds":0.05,"launch_seconds":0.05,"build_seconds":0,"commits":8,"step_log":2.26,"noise":{"process_sd":0.25,"contaminated":0.8,"contaminated_mean":1.5,"burst":4}}`
	for _, c := range []struct {
		name, spec string
		past, most float64 // most launches in the mean
		few        bool    // one launch of each end begins the search
	}{
		{"quiet, nothing known", quiet, 0, 16, false}, // 8.2 of the search, 3 or 4 of the ends, 4 of the proof
		{"quiet, known to be", quiet, 0.002, 15, true},
		{"quiet, 10 times as noisy before", quiet, 0.02, 15, true},
		{"a tenfold step, nothing known", far, 0, 14, false}, // 8.5 of the search, one pair of the ends, one of the proof
		{"a tenfold step under bursts of load", loaded, 0, 90, false},
		{"noisy, nothing known", noisy, 0, 40, false},
		{"noisy, 10 times as quiet before", noisy, 0.002, 40, false},
	} {
		s, err := simulate.ReadSpec([]byte(c.spec))
		if err != nil {
			t.Fatal(err)
		}
		launches, wrong, early := 0, 0, 0
		const searches = 30
		for seed := range uint64(searches) {
			d := simulate.NewDevice(s, seed)
			b := slowdown(d, d)
			b.Past = func(metric.Channel) bisect.Scatter { return bisect.Scatter{SD: c.past} }
			f, err := find.Culprits(t.Context(), b)
			if err != nil || f.Err != nil {
				t.Fatal(err, f.Err)
			}
			launches += d.Launches
			if f.Ends.Past.SD > 0 {
				early++
			}
			if f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(d.Culprits()[0]) || !f.Culprits[0].Confirmed {
				wrong++
				t.Log(seed, f.Result, f.Ends.Why, f.Culprits, f.Warnings)
			}
		}
		t.Logf("%s: %.1f launches, %d begun by what was known", c.name, float64(launches)/searches, early)
		if wrong > 1 || float64(launches)/searches > c.most {
			t.Errorf("%s: %d not found, %.1f launches, want at most %v", c.name, wrong, float64(launches)/searches, c.most)
		}
		if c.few && early < searches/2 || c.past == 0 && early > 0 {
			t.Errorf("%s: %d of %d searches begun by what was known", c.name, early, searches)
		}
	}
}

// Three launches of the ends are enough where the two of one end agree beside the step, and a difference that any machine may
// show takes more.
func TestThreeLaunchesOfTheEnds(t *testing.T) {
	commits := line(16)
	for _, x := range []struct {
		again float64 // what the second launch of an end takes, over the first
		step  float64
		want  int
	}{{1.002, 1.3, 3}, {1.02, 1.3, 4}, {1.002, 1.02, 8}} {
		ends := 0
		_, err := find.Culprits(t.Context(), &search.Search{
			Commits: commits, Good: bisect.Candidate{Commit: "good"}, Sampler: sampler(func(r bisect.Request) (bisect.Outcome, error) {
				time := 100.0
				if slices.IndexFunc(commits, func(c bisect.Commit) bool { return c.ID == r.Candidate.Commit }) >= 7 {
					time *= x.step
				}
				if r.Purpose == bisect.EndGood || r.Purpose == bisect.EndBad {
					if ends++; ends == 3 {
						time *= x.again
					}
				}
				return bisect.Outcome{Class: bisect.OK, Wall: 1, Series: []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{time}}}}, nil
			}),
			Options: search.Options{Find: bisect.Slow, Metrics: []metric.Metric{{Name: "time"}}, Effect: 0.01, Error: 0.01},
		})
		if err != nil || ends != x.want {
			t.Errorf("%+v: %d launches of the ends, %v", x, ends, err)
		}
	}
}

// A machine that was quiet in earlier sessions and now changes its speed with every second launch has its culprit found all the
// same: the few launches of the ends are doubted where others like them lie elsewhere.
func TestMachineThatIsNoLongerQuiet(t *testing.T) {
	const culprit = 15
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 9))
		launches := 0
		_, s := tenfold(seed, 24, culprit)
		s.Past = func(metric.Channel) bisect.Scatter { return bisect.Scatter{SD: 0.003, Launches: 150} }
		first := int(seed % 4)
		s.Sampler = sampler(func(r bisect.Request) (bisect.Outcome, error) {
			time := 100 * math.Exp(0.003*rng.NormFloat64())
			if slices.IndexFunc(s.Commits, func(c bisect.Commit) bool { return c.ID == r.Candidate.Commit }) >= culprit {
				time *= 1.2
			}
			if (launches+first)/2%2 == 1 {
				time *= 1.15
			}
			launches++
			return bisect.Outcome{Class: bisect.OK, Wall: 1, At: float64(2 * launches), Series: []bisect.Series{{Metric: "time", Unit: "us", Values: []float64{time}}}}, nil
		})
		f, err := find.Culprits(t.Context(), s)
		if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(culprit+1) {
			t.Errorf("seed %d: %s, %+v after %d launches, want %s; %v", seed, f.Result, f.Culprits, launches, simulate.ID(culprit+1), err)
		}
	}
}
