package find_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// runner launches a line of commits of which each takes as long as its metric says, plus its own set-up. It ends a launch
// in a hurry as a pipeline does.
type runner struct {
	rng   *rand.Rand
	level []float64 // of the metric, a logarithm, by index
	setUp []float64 // seconds, by index
	held  float64   // chance that the machine holds up a launch for three seconds
	now   float64   // seconds
	ended int
}

func (d *runner) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	level, setUp := 0.0, 0.5
	for i := range d.level {
		if simulate.ID(i+1) == r.Candidate.Commit {
			level, setUp = d.level[i], d.setUp[i]
		}
	}
	o := bisect.Outcome{Class: bisect.OK, Wall: setUp + 0.7*math.Exp(level), At: d.now, Built: true}
	if d.rng.Float64() < d.held && r.Purpose == bisect.Searching {
		o.Wall += 3
	}
	o.Series = []bisect.Series{{Metric: "time", Unit: "ms", Values: []float64{math.Exp(level + 0.003*d.rng.NormFloat64())}}}
	if r.Hurry == bisect.SlowTrial && o.Wall > r.Past {
		o = bisect.Outcome{Class: bisect.Timeout, Phase: "run", Early: true, Wall: r.Past, At: d.now}
		d.ended++
	}
	d.now += o.Wall + 1
	return o, nil
}

// tenfold is n commits of which the culprit and all after it take ten times as long.
func tenfold(seed uint64, n, culprit int) (*runner, *search.Search) {
	d := &runner{rng: rand.New(rand.NewPCG(seed, 19)), level: make([]float64, n), setUp: make([]float64, n)}
	s := &search.Search{Good: bisect.Candidate{Commit: simulate.ID(0)}, Sampler: d, Options: search.Options{Metrics: []metric.Metric{{Name: "time"}}, Effect: 0.03}}
	for i := range n {
		c := bisect.Commit{ID: simulate.ID(i + 1), Parents: []string{simulate.ID(i)}}
		if d.setUp[i] = 0.5; i > 0 {
			c.InRange = []int{i - 1}
		}
		if i >= culprit {
			d.level[i] = math.Log(10)
		}
		s.Commits = append(s.Commits, c)
	}
	return d, s
}

// A launch of the search that takes far longer than a good one is ended, since it is slow. The culprit stays the right one
// where the machine held up a launch of a good commit, and where one takes long that is not slow: every proof launches
// its commits in full.
func TestSlowLaunchesAreEnded(t *testing.T) {
	const n = 64
	for name, change := range map[string]func(d *runner, culprit int){
		"plain":                                func(*runner, int) {},
		"now and then the machine holds it up": func(d *runner, _ int) { d.held = 0.1 },
		"commits before it take long to start": func(d *runner, culprit int) {
			for i := culprit / 2; i < culprit; i++ {
				d.setUp[i] = 5
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := 0
			for seed := range uint64(25) {
				culprit := 1 + int(seed)*5%(n-2)
				d, s := tenfold(seed, n, culprit)
				change(d, culprit)
				f, err := find.Culprits(t.Context(), s)
				if err != nil || len(f.Culprits) != 1 || f.Culprits[0].Commit != simulate.ID(culprit+1) || !f.Culprits[0].Confirmed {
					t.Errorf("seed %d: %s, %+v, want %s; %v, %q", seed, f.Result, f.Culprits, simulate.ID(culprit+1), err, f.Warnings)
				}
				ended += d.ended
			}
			if ended == 0 {
				t.Error("no launch was ended")
			}
		})
	}
}

// Launches run to their ends where that a launch takes long says nothing of the metric.
func TestLaunchesThatMayNotBeSlowRunToTheirEnds(t *testing.T) {
	const n, culprit = 64, 40
	for name, change := range map[string]func(d *runner, s *search.Search){
		"a small step": func(d *runner, _ *search.Search) {
			for i := culprit; i < n; i++ {
				d.level[i] = math.Log(1.5)
			}
		},
		"it takes longer for another reason": func(d *runner, _ *search.Search) {
			for i := culprit; i < n; i++ {
				d.level[i], d.setUp[i] = math.Log(2.1), 20
			}
		},
		"every culprit is wanted": func(_ *runner, s *search.Search) { s.All = true },
	} {
		t.Run(name, func(t *testing.T) {
			d, s := tenfold(1, n, culprit)
			change(d, s)
			f, err := find.Culprits(t.Context(), s)
			if err != nil || len(f.Culprits) != 1 || f.Culprits[0].Commit != simulate.ID(culprit+1) || d.ended > 0 {
				t.Errorf("%s, %+v, %v; %d launches were ended", f.Result, f.Culprits, err, d.ended)
			}
		})
	}
}

// An end that told a number is not launched again because the first launch of the other one was of no use.
func TestOneUselessLaunchOfAnEnd(t *testing.T) {
	const n, culprit = 64, 40
	for _, end := range []bisect.Purpose{bisect.EndGood, bisect.EndBad} {
		d, s := tenfold(1, n, culprit)
		made := map[bisect.Purpose]int{}
		s.Sampler = bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
			o, err := d.Sample(ctx, r)
			if made[r.Purpose]++; r.Purpose == end && r.Nth == 0 {
				o.Unfit = "the device was shared"
			}
			return o, err
		})
		f, err := find.Culprits(t.Context(), s)
		if err != nil || len(f.Culprits) != 1 || f.Culprits[0].Commit != simulate.ID(culprit+1) {
			t.Errorf("%s: %s, %+v, %v", end, f.Result, f.Culprits, err)
		}
		if got := made[bisect.EndGood] + made[bisect.EndBad]; got != 3 || made[end] != 2 {
			t.Errorf("%s: %d launches of the good end and %d of the bad one", end, made[bisect.EndGood], made[bisect.EndBad])
		}
	}
}
