package gate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// gateBench is one cell: gates on a simulated device.
type gateBench struct {
	machine string  // a specification of its noise
	cases   int     // that each launch gives
	step    float64 // of HEAD, as a logarithm; of one case, where there are several
}

// gateScore counts what the gates of a cell came to.
type gateScore struct {
	results map[compare.Answer]int
	pairs   int
	wrong   int // numbers without a step that were called worse or better
	trials  int
}

func (s gateScore) String() string {
	pc := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(s.trials)) }
	return fmt.Sprintf("regression %s, improvement %s, pass %s, cannot tell %s; innocent numbers accused %d; %.1f pairs on average",
		pc(s.results[compare.Worse]), pc(s.results[compare.Better]), pc(s.results[compare.Alike]), pc(s.results[compare.Open]), s.wrong, float64(s.pairs)/float64(s.trials))
}

// severalCases splits a launch of a device into cases which share its noise and have some of their own; the
// step is of the first case alone.
type severalCases struct {
	*simulate.Device
	n    int
	step float64
	rng  *rand.Rand
}

func (s severalCases) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	bad := r.Candidate.Commit == simulate.ID(1)
	o, err := s.Device.Sample(ctx, r)
	if err != nil {
		return o, err
	}
	whole := o.Series[0]
	o.Series = nil
	for i := range s.n {
		v := whole.Values[0] * float64(i+1) * math.Exp(0.002*s.rng.NormFloat64())
		if bad && i == 0 {
			v *= math.Exp(s.step)
		}
		o.Series = append(o.Series, bisect.Series{Metric: "time", Case: fmt.Sprintf("n%d", i), Unit: "s", Values: []float64{v}})
	}
	return o, nil
}

// play runs a cell: what gate launches and how it decides is the program's own, the device is simulated.
func (b gateBench) play(t testing.TB, trials int) gateScore {
	t.Helper()
	s, err := simulate.ReadSpec([]byte(b.machine))
	if err != nil {
		t.Fatal(err)
	}
	s.Commits, s.Culprit = 1, simulate.Culprit{}
	if b.cases == 1 && b.step != 0 {
		s.Steps = []simulate.Step{{At: 1, Log: b.step}}
	}
	p := &policy.Policy{Seed: 1, Judge: search.Options{Metrics: []metric.Metric{{Name: "time"}}, Effect: config.DefaultEffect, Error: config.DefaultError}}
	x := request{base: simulate.ID(0), head: simulate.ID(1), accepted: &acceptances{}}
	out := gateScore{results: map[compare.Answer]int{}, trials: trials}
	for i := range trials {
		device := simulate.NewDevice(s, uint64(i)+1)
		var sampler bisect.Sampler = device
		if b.cases > 1 {
			sampler = severalCases{device, b.cases, b.step, rand.New(rand.NewPCG(uint64(i)+1, 77))}
		}
		run := x.experiment(p, sampler)
		got, err := run.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		out.results[got.Answer]++
		out.pairs += got.Pairs
		for _, k := range got.Contrasts {
			stepped := b.step != 0 && (b.cases == 1 || k.All || k.Case == "n0")
			if !stepped && (k.Answer == compare.Worse || k.Answer == compare.Better) {
				out.wrong++
			}
		}
	}
	return out
}

// TestBenchGate prints how often a gate accuses a branch that changes nothing, and how often it catches one of
// 5 %; KBISECT_BENCH_GATE gives the trials, at 200 it takes three minutes. -run TestBenchGate/noisy/8 is one cell.
func TestBenchGate(t *testing.T) {
	trials, err := strconv.Atoi(os.Getenv("KBISECT_BENCH_GATE"))
	if err != nil {
		t.Skip("KBISECT_BENCH_GATE gives the number of trials")
	}
	for _, m := range []struct {
		name  string
		noise string
	}{
		{"quiet", quietMachine}, {"typical", typicalMachine}, {"noisy", `{"preset":"noisy"}`},
		{"modes", `{"preset":"typical","noise":{"modes":[{"p":0.25,"log":0.04}]}}`},
		{"neighbour", `{"preset":"typical","noise":{"neighbour":{"after":120,"period":240,"busy":70,"log":0.12,"mean":0.10}}}`},
	} {
		for _, b := range []gateBench{{m.noise, 1, 0}, {m.noise, 1, math.Log(1.05)}, {m.noise, 8, 0}, {m.noise, 8, math.Log(1.05)}} {
			t.Run(fmt.Sprintf("%s/%d cases/%.0f", m.name, b.cases, 100*math.Expm1(b.step)), func(t *testing.T) {
				got := b.play(t, trials)
				t.Logf("%s %d cases, step %.0f %%: %v", b.machine, b.cases, 100*math.Expm1(b.step), got)
				b.holds(t, got)
			})
		}
	}
}

const (
	quietMachine   = `{"preset":"quiet"}`
	typicalMachine = `{"preset":"typical"}`
)

// holds checks a score: at most 1 % of false alarms, at least 99 % of the slowdowns caught.
func (b gateBench) holds(t *testing.T, got gateScore) {
	t.Helper()
	most := max(1, got.trials/100) // one accident is no proof in few trials
	if b.step == 0 && got.results[compare.Worse] > most {
		t.Errorf("%+v: %d false alarms in %d", b, got.results[compare.Worse], got.trials)
	}
	if b.step > 0 && got.trials-got.results[compare.Worse] > most {
		t.Errorf("%+v: caught %d of %d", b, got.results[compare.Worse], got.trials)
	}
}

// TestGateRates is TestBenchGate with few trials.
func TestGateRates(t *testing.T) {
	for _, b := range []gateBench{{quietMachine, 1, 0}, {typicalMachine, 1, 0}, {typicalMachine, 1, math.Log(1.05)}, {typicalMachine, 4, 0}, {typicalMachine, 4, math.Log(1.05)}} {
		got := b.play(t, 8)
		t.Logf("%+v: %v", b, got)
		b.holds(t, got)
	}
}
