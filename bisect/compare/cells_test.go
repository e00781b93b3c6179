package compare_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// duel is what many comparisons on a simulated device came to.
type duel struct {
	answers map[compare.Answer]int
	pairs   int
	ratio   int // intervals that held the truth
	belief  int
	p       int // Mann–Whitney below 0.05
	trials  int
}

// fight compares two commits apart by step, trials times. With pairs 0 as often as it takes.
func fight(t testing.TB, spec string, step, effect float64, pairs, trials int) duel {
	t.Helper()
	s, err := simulate.ReadSpec([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	s.Commits, s.Culprit = 1, simulate.Culprit{}
	if step != 0 {
		s.Steps = []simulate.Step{{At: 1, Log: step}}
	}
	out := duel{answers: map[compare.Answer]int{}, trials: trials}
	for i := range trials {
		d := simulate.NewDevice(s, uint64(i)+1)
		c := compare.Experiment{
			A: bisect.Candidate{Commit: simulate.ID(0)}, B: bisect.Candidate{Commit: simulate.ID(1)}, Sampler: d, Pairs: pairs,
			Metrics: []metric.Metric{{Name: "time"}}, Effect: effect, Error: 0.01,
		}
		if step == 0 {
			c.B = c.A
		}
		got, err := c.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		out.note(got, math.Exp(step))
	}
	return out
}

func (d *duel) note(got compare.Result, truth float64) {
	d.answers[got.Answer]++
	d.pairs += got.Pairs
	c := got.Contrasts[0]
	in := func(i compare.Interval) int {
		if i.Low <= truth && truth <= i.High {
			return 1
		}
		return 0
	}
	d.ratio += in(c.Ratio)
	d.belief += in(c.Bound)
	if c.P < 0.05 {
		d.p++
	}
}

func (d duel) String() string {
	pc := func(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of)) }
	return fmt.Sprintf("regression %s, improvement %s, no difference %s, cannot tell %s; %.1f pairs; truth in bound %s, bootstrap %s; p<0.05 in %s",
		pc(d.answers[compare.Worse], d.trials), pc(d.answers[compare.Better], d.trials), pc(d.answers[compare.Alike], d.trials), pc(d.answers[compare.Open], d.trials),
		float64(d.pairs)/float64(d.trials), pc(d.belief, d.trials), pc(d.ratio, d.trials), pc(d.p, d.trials))
}

// machines are the noises on which the rule is measured.
var machines = []string{
	`{"preset":"quiet"}`, `{"preset":"typical"}`, `{"preset":"noisy"}`,
	`{"preset":"typical","noise":{"modes":[{"p":0.25,"log":0.04}]}}`,
	`{"preset":"typical","noise":{"process_sd":0.002,"drift_sd":0.001,"modes":[{"p":0.5,"log":0.125}]}}`,
	`{"preset":"typical","noise":{"ramp":{"log":0.04,"seconds":600}}}`,
	`{"preset":"typical","noise":{"neighbour":{"after":120,"period":240,"busy":70,"log":0.12,"mean":0.10}}}`,
}

// TestBenchCompare prints what the rule for two candidates is worth; KBISECT_BENCH gives the trials.
func TestBenchCompare(t *testing.T) {
	trials, err := strconv.Atoi(os.Getenv("KBISECT_BENCH"))
	if err != nil {
		t.Skip("KBISECT_BENCH gives the number of trials")
	}
	for _, spec := range machines {
		for _, x := range []struct {
			step, effect float64
			pairs        int
		}{{0, 0.0001, 0}, {0, 0.03, 0}, {0, 0.01, 0}, {0, 0.03, 5}, {0, 0.03, 10}, {0.02956, 0.03, 0}, {-0.02956, 0.03, 0}, {0.00995, 0.01, 0}, {0.015, 0.03, 0}, {0.04879, 0.03, 5}} {
			t.Logf("%s step %.4f effect %.4f pairs %d: %v", spec, x.step, x.effect, x.pairs, fight(t, spec, x.step, x.effect, x.pairs, trials))
		}
	}
}
