package judge_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// slowdown is the search as the program makes it.
func slowdown(d *simulate.Device, s bisect.Sampler) *judge.SlowdownSearch {
	find := bisect.Slow
	if d.Hang != nil {
		find = bisect.Timeout
	}
	if crashes(d) {
		find, s = bisect.Crash, crashing{s}
	}
	return &judge.SlowdownSearch{
		Search:  bisect.Search{Commits: d.History(), Good: bisect.Candidate{Commit: simulate.ID(0)}, GoodKey: "inputs of the good end"},
		Sampler: s, All: d.All,
		Options: judge.Options{Find: find, Metrics: []metric.Metric{{Name: "time"}}, Effect: 0.005, Error: 0.01},
	}
}

// crashes reports a device that fails by crashing: its failures take as long as its good launches.
func crashes(d *simulate.Device) bool { return d.Hang != nil && d.Hang.Limit == d.GoodSeconds }

// crashing turns the time-outs of a device into crashes.
type crashing struct{ bisect.Sampler }

func (s crashing) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o, err := s.Sampler.Sample(ctx, r)
	if o.Class == bisect.Timeout {
		o.Class = bisect.Crash
	}
	return o, err
}

var kbisect = simulate.Search(func(ctx context.Context, d *simulate.Device, s bisect.Sampler) (bisect.Finding, error) {
	return slowdown(d, s).Find(ctx)
})

// cell is a row of the table of targets. A target of 0 is none.
type cell struct {
	name                string
	spec                string
	right, wrong        float64
	launches, p95, secs float64
}

var cells = []cell{
	{"typical 3 % N=256", `{"preset":"typical","step_log":0.02956}`, 0.99, 0.005, 36, 50, 430},
	{"typical 2 % N=256", `{"preset":"typical","step_log":0.0198}`, 0.985, 0.005, 55, 90, 650},
	{"typical 1 % N=256", `{"preset":"typical","step_log":0.00995}`, 0.97, 0.01, 215, 420, 2600},
	{"typical 5 % N=4096", `{"preset":"typical","step_log":0.04879,"commits":4096}`, 0.99, 0.005, 34, 42, 410},
	{"quiet 1 % N=256", `{"preset":"quiet","step_log":0.00995}`, 0.99, 0.005, 40, 55, 480},
	{"noisy 5 % N=256", `{"preset":"noisy","step_log":0.04879}`, 0.98, 0.01, 70, 130, 850},
	{"noisy 3 % N=256", `{"preset":"noisy","step_log":0.02956}`, 0.97, 0.01, 170, 300, 2050},
	{"quiet 50 % N=256", `{"preset":"quiet","step_log":0.4055}`, 0.995, 0.003, 24, 26, 330},
	{"typical 50 % N=256", `{"preset":"typical","step_log":0.4055}`, 0.995, 0.003, 24, 26, 330},
	{"noisy 50 % N=256", `{"preset":"noisy","step_log":0.4055}`, 0.995, 0.003, 24, 26, 330},
	{"bimodal 3 % N=128", `{"preset":"typical","step_log":0.02956,"commits":128,"noise":{"modes":[{"p":0.25,"log":0.04}]}}`, 0.97, 0.01, 80, 0, 0},
	{"22.5/25.5 ms 3 % N=128", `{"preset":"typical","step_log":0.02956,"commits":128,"noise":{"process_sd":0.002,"drift_sd":0.001,"modes":[{"p":0.5,"log":0.125}]}}`, 0.97, 0.01, 80, 0, 0},
	{"A/A quiet", `{"preset":"quiet","culprit":"none"}`, 0.99, 0.01, 250, 0, 0},
	{"A/A typical", `{"preset":"typical","culprit":"none"}`, 0.99, 0.01, 250, 0, 0},
	{"A/A noisy", `{"preset":"noisy","culprit":"none"}`, 0.99, 0.01, 250, 0, 0},
	{"A/A bimodal", `{"preset":"typical","culprit":"none","noise":{"modes":[{"p":0.25,"log":0.04}]}}`, 0.99, 0.01, 250, 0, 0},
	{"time-out certain N=256", `{"hang":{"bad":1,"good":0,"limit":180}}`, 0.995, 0.003, 26, 0, 740},
	{"time-out 70 % N=32", `{"hang":{"bad":0.7,"good":0.002,"limit":180},"commits":32}`, 0.99, 0.005, 40, 0, 800},
	{"time-out 70 % N=256", `{"hang":{"bad":0.7,"good":0.002,"limit":180}}`, 0.99, 0.005, 40, 0, 920},
	{"time-out 70 % N=4096", `{"hang":{"bad":0.7,"good":0.002,"limit":180},"commits":4096}`, 0.99, 0.005, 0, 0, 1080},
	{"time-out 30 % N=256", `{"hang":{"bad":0.3,"good":0.002,"limit":180}}`, 0.978, 0.01, 0, 0, 1656},
	{"crash 20 % N=256", `{"hang":{"bad":0.2,"good":0,"limit":12}}`, 0.975, 0.01, 200, 0, 0},
	{"crash certain N=256", `{"hang":{"bad":1,"good":0,"limit":12}}`, 0.995, 0.003, 17, 0, 0},
	{"time-out of good commits too 100 % and 10 % N=256", `{"hang":{"bad":1,"good":0.1,"limit":180}}`, 0.97, 0.01, 40, 0, 0},
	{"time-out of good commits too 50 % and 10 % N=256", `{"hang":{"bad":0.5,"good":0.1,"limit":180}}`, 0.93, 0.02, 0, 0, 0},
	{"A/A hang 0.5 %", `{"hang":{"bad":0.005,"good":0.005,"limit":180},"culprit":"none"}`, 0.99, 0.01, 0, 0, 0},
	{"A/A hang 5 %", `{"hang":{"bad":0.05,"good":0.05,"limit":180},"culprit":"none"}`, 0.99, 0.01, 0, 0, 0},
	{"A/A hang 20 %", `{"hang":{"bad":0.2,"good":0.2,"limit":180},"culprit":"none"}`, 0.99, 0.01, 0, 0, 0},
	{"A/A hang 0", `{"hang":{"bad":0,"good":0,"limit":180},"culprit":"none"}`, 0.99, 0.01, 0, 0, 0},
}

// play plays a cell.
func (c cell) play(t *testing.T, trials int, rule simulate.Rule, name string) simulate.Score {
	t.Helper()
	s, err := simulate.ReadSpec([]byte(c.spec))
	if err != nil {
		t.Fatal(err)
	}
	s.Trials = trials
	if seed, err := strconv.ParseUint(os.Getenv("KBISECT_BENCH_SEED"), 10, 64); err == nil {
		s.Seed = seed
	}
	score, err := simulate.Simulate(t.Context(), s, name, rule)
	if err != nil {
		t.Fatal(err)
	}
	return score
}

// TestBenchJudge prints the table of targets; KBISECT_BENCH_JUDGE is the number of trials of a cell,
// KBISECT_BENCH_CELL the beginning of the names of the cells wanted, KBISECT_BENCH_SEED the first seed.
func TestBenchJudge(t *testing.T) {
	trials, _ := strconv.Atoi(os.Getenv("KBISECT_BENCH_JUDGE"))
	if trials == 0 {
		t.Skip("KBISECT_BENCH_JUDGE is not set")
	}
	fmt.Println("| cell | right | wrong | inconclusive | launches (p95) | device s | builds | decision ms | target |\n|---|---|---|---|---|---|---|---|---|")
	for _, c := range cells {
		if !strings.HasPrefix(c.name, os.Getenv("KBISECT_BENCH_CELL")) {
			continue
		}
		s := c.play(t, trials, kbisect, "kbisect")
		met := "met"
		if s.Right < c.right || s.Wrong > c.wrong || c.launches > 0 && s.LaunchesMean > c.launches || c.p95 > 0 && float64(s.LaunchesP95) > c.p95 || c.secs > 0 && s.DeviceSeconds > c.secs {
			met = "MISSED"
		}
		fmt.Printf("| %s | %.1f %% | %.1f %% | %.1f %% | %.1f (%d) | %.0f | %.1f | %.1f | %s: ≥ %.1f %%, ≤ %.1f %%, ≤ %.0f (%.0f), ≤ %.0f |\n",
			c.name, 100*s.Right, 100*s.Wrong, 100*s.Inconclusive, s.LaunchesMean, s.LaunchesP95, s.DeviceSeconds, s.Builds, s.DecisionMax,
			met, 100*c.right, 100*c.wrong, c.launches, c.p95, c.secs)
	}
}

// TestSlowdownReachesItsTargets plays a few trials of some cells, with wide margins.
func TestSlowdownReachesItsTargets(t *testing.T) {
	for _, c := range cells {
		trials := map[string]int{"typical 3 % N=256": 40, "quiet 1 % N=256": 30, "noisy 5 % N=256": 30, "bimodal 3 % N=128": 30, "A/A typical": 30,
			"time-out certain N=256": 40, "time-out 70 % N=256": 40, "time-out 30 % N=256": 12, "time-out of good commits too 100 % and 10 % N=256": 16, "crash 20 % N=256": 12, "A/A hang 0.5 %": 20}[c.name]
		if trials == 0 {
			continue
		}
		s := c.play(t, trials, kbisect, "kbisect")
		t.Logf("%s: %+v", c.name, s)
		if s.Right < c.right-0.08 || s.Wrong > c.wrong+0.04 || c.launches > 0 && s.LaunchesMean > 1.3*c.launches || c.secs > 0 && s.DeviceSeconds > 1.3*c.secs {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}
