package find_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// DeviceLog are noises with the share of jobs in which a warning must, or must not, be given; the long
// ones take too much time for every test.
var DeviceLog = []struct {
	name, spec  string
	least, most float64
	long        bool
}{
	{"quiet 1 %", `{"preset":"quiet","step_log":0.00995}`, 0, 0.05, true},
	{"quiet 10 %", `{"preset":"quiet","step_log":0.0953}`, 0, 0.05, false},
	{"quiet A/A", `{"preset":"quiet","culprit":"none"}`, 0, 0.05, true},
	{"typical 1 %", `{"preset":"typical","step_log":0.00995}`, 0, 0.05, true},
	{"typical 3 %", `{"preset":"typical","step_log":0.02956}`, 0, 0.05, false},
	{"typical 10 %", `{"preset":"typical","step_log":0.0953}`, 0, 0.05, false},
	{"typical A/A", `{"preset":"typical","culprit":"none"}`, 0, 0.05, true},
	{"noisy 3 %", `{"preset":"noisy","step_log":0.02956}`, 0.6, 1, true},
	{"noisy 10 %", `{"preset":"noisy","step_log":0.0953}`, 0.6, 1, false},
	{"ramp of 4 %, quiet", `{"preset":"quiet","step_log":0.02956,"noise":{"ramp":{"log":0.04,"seconds":600}}}`, 0.6, 1, false},
	{"ramp of 4 %, typical", `{"preset":"typical","step_log":0.02956,"noise":{"ramp":{"log":0.04,"seconds":600}}}`, 0.6, 1, true},
	{"neighbour, quiet", `{"preset":"quiet","step_log":0.02956,"noise":{"neighbour":{"after":0,"period":240,"busy":70,"log":0.12,"mean":0.10}}}`, 0.6, 1, true},
	{"neighbour, typical", `{"preset":"typical","step_log":0.02956,"noise":{"neighbour":{"after":0,"period":240,"busy":70,"log":0.12,"mean":0.10}}}`, 0.6, 1, false},
	{"two modes", `{"preset":"typical","step_log":0.02956,"noise":{"modes":[{"p":0.25,"log":0.04}]}}`, 0.6, 1, true},
	{"half held up", `{"commits":69,"step_log":0.2,"noise":{"process_sd":0.003,"contaminated":0.5,"contaminated_mean":0.25}}`, 0.6, 1, false},
}

// flagged plays jobs and returns the share with a warning about the machine, and of which kinds.
func flagged(t *testing.T, spec string, trials int) (float64, map[string]int) {
	t.Helper()
	s, err := simulate.ReadSpec([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	kinds, n := map[string]int{}, 0
	for i := range trials {
		d := simulate.NewDevice(s, uint64(90000+i))
		f, err := find.Culprits(t.Context(), slowdown(d, d))
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		some := false
		for _, w := range f.Warnings {
			for _, kind := range []string{"vary by", "something disturbed", "held up", "the level moved", "the level drifts", "two modes"} {
				if strings.Contains(w, kind) {
					kinds[kind]++
					some = true
				}
			}
		}
		if some {
			n++
		}
	}
	return float64(n) / float64(trials), kinds
}

// A noisy machine is told from a quiet one. KBISECT_BENCH_ENVIRONMENT is the number of jobs on each
// machine for a table.
func TestSlowdownEnvironment(t *testing.T) {
	trials, _ := strconv.Atoi(os.Getenv("KBISECT_BENCH_ENVIRONMENT"))
	slack := 0.0
	if trials == 0 {
		trials, slack = 12, 0.2
	}
	for _, m := range DeviceLog {
		if m.long && slack > 0 {
			continue
		}
		share, kinds := flagged(t, m.spec, trials)
		if slack == 0 {
			fmt.Printf("%-22s %5.1f %%  %v\n", m.name, 100*share, kinds)
		}
		if share < m.least-slack || share > m.most+slack {
			t.Errorf("%s: %.0f %% of %d jobs warn of the machine: %v", m.name, 100*share, trials, kinds)
		}
	}
}

// What the devices told is counted and put into words, with what to do about it.
func TestSlowdownEnvironmentFromTheDevices(t *testing.T) {
	s, _ := simulate.ReadSpec([]byte(`{"preset":"quiet","step_log":0.05,"commits":32}`))
	for name, c := range map[string]struct {
		spoil func(n int, o *bisect.Outcome)
		want  string
	}{
		"shared": {func(n int, o *bisect.Outcome) {
			o.Marks = []bisect.Mark{{Kind: bisect.Shared, Text: "the device was shared with process 7"}}
		}, "another process used the device during"},
		"throttled": {func(n int, o *bisect.Outcome) { o.Marks = []bisect.Mark{{Kind: bisect.Throttled, Text: "hot"}} }, "the device was throttled"},
		"clocks": {func(n int, o *bisect.Outcome) {
			after, _ := json.Marshal(map[string]int{"sm_clock": 1900 + 60*(n%2)})
			o.Devices = []bisect.DeviceNote{{UUID: "GPU-1", After: after}}
		}, "clock of the device differed by 3."},
		"idle clocks": {func(n int, o *bisect.Outcome) {
			after, _ := json.Marshal(map[string]int{"sm_clock": []int{1980, 345}[n%2]})
			o.Devices = []bisect.DeviceNote{{UUID: "GPU-1", After: after}}
		}, ""},
	} {
		d := simulate.NewDevice(s, 4)
		n := 0
		f, err := find.Culprits(t.Context(), slowdown(d, sampler(func(r bisect.Request) (bisect.Outcome, error) {
			o, err := d.Sample(t.Context(), r)
			c.spoil(n, &o)
			n++
			return o, err
		})))
		if err != nil || f.Result != bisect.Found {
			t.Fatalf("%s: %v %v", name, err, f.Result)
		}
		all := strings.Join(f.Warnings, "\n")
		if c.want == "" && all != "" || !strings.Contains(all, c.want) || c.want != "" && !strings.Contains(all, "\nhint: ") {
			t.Errorf("%s: %q", name, f.Warnings)
		}
	}
}

// sampler is a bisect.Sampler that is a function.
type sampler func(r bisect.Request) (bisect.Outcome, error)

func (s sampler) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) { return s(r) }

// exactly sends the same time in each launch of a commit.
type exactly map[string]float64

func (e exactly) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	return bisect.Outcome{Class: bisect.OK, Wall: 1, Series: []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{e[r.Candidate.Commit]}}}}, nil
}

// Several changes are no noise: launches that agree commit by commit say nothing against the machine.
func TestSeveralStepsWithoutNoise(t *testing.T) {
	for _, times := range [][]float64{
		{100, 100, 200, 200, 200, 200, 300, 300, 300, 300}, {100, 100, 100, 110, 110, 110, 121, 121, 121}, {100, 100, 105, 105, 105, 105, 105, 105, 105, 111},
	} {
		cs := line(len(times) - 1)
		e := exactly{"good": times[0]}
		for i, c := range cs {
			e[c.ID] = times[i+1]
		}
		f, err := find.Culprits(t.Context(), &search.Search{Commits: cs, Good: bisect.Candidate{Commit: "good"}, Sampler: e,
			Options: search.Options{Metrics: []metric.Metric{{Name: "time"}}, Effect: 0.03, Error: 0.01}})
		if err != nil {
			t.Fatal(err)
		}
		if f.Result != bisect.Found || strings.Contains(strings.Join(f.Warnings, "\n"), "noisy") {
			t.Errorf("%v: %s, %q", times, f.Result, f.Warnings)
		}
	}
}
