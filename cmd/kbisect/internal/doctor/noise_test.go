package doctor

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/preview"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// launchesOf makes launches whose times are these, in seconds, one every ten seconds.
func launchesOf(times ...float64) (all []bisect.Outcome) {
	for i, v := range times {
		all = append(all, bisect.Outcome{Class: bisect.OK, Wall: 2, At: float64(10 * i), Build: 3, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 0.5}, {Name: "measure", Seconds: 1.5}},
			Series: []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{v}}}})
	}
	return all
}

// drawn are so many times around 1 s.
func drawn(n int, at func(i int, z float64) float64) (out []float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		out = append(out, math.Exp(at(i, rng.NormFloat64())))
	}
	return out
}

// TestNoiseOfAMachine: what is wrong with a machine is said, with what to do, and nothing is where nothing is wrong.
func TestNoiseOfAMachine(t *testing.T) {
	p := &policy.Policy{}
	p.Judge.Metrics = []metric.Metric{{Name: "time"}}
	for name, c := range map[string]struct {
		times   []float64
		verdict string
		broken  string // the checks that find something
	}{
		"quiet":     {drawn(40, func(_ int, z float64) float64 { return 0.003 * z }), "Fit to measure on", ""},
		"scattered": {drawn(40, func(_ int, z float64) float64 { return 0.05 * z }), "Noisy: time", "spread"},
		"disturbed": {drawn(40, func(i int, z float64) float64 { return 0.003*z + map[bool]float64{true: 0.2}[i%4 == 1] }), "Noisy", "disturbed"},
		"drifting":  {drawn(40, func(i int, z float64) float64 { return 0.001*z + 0.01*math.Sin(float64(i)/6) }), "Noisy", "drift"},
		"few":       {drawn(5, func(_ int, z float64) float64 { return 0.003 * z }), "Only 5 of 5 launches gave a number", ""},
	} {
		s, err := newSeries(p, launchesOf(c.times...))
		if err != nil {
			t.Fatal(err)
		}
		if v := s.verdict(); !strings.HasPrefix(v, c.verdict) {
			t.Errorf("%s: %s", name, v)
		}
		if name == "few" {
			continue
		}
		var found []string
		for _, x := range s.checks() {
			if x.finding.State != StateOK {
				found = append(found, x.name)
				if x.finding.Hint == "" {
					t.Errorf("%s: %s without a hint", name, x.name)
				}
			}
		}
		if got := strings.Join(found, " "); got != c.broken {
			t.Errorf("%s: %q is wrong, want %q: %+v", name, got, c.broken, s.machine)
		}
		spec := s.spec()
		if spec.GoodSeconds != 2 || spec.LaunchSeconds != 0.5 || spec.BuildSeconds != 3 || spec.Noise.Burst < 1 {
			t.Errorf("%s: %+v", name, spec)
		}
		var out bytes.Buffer
		if s.print(&out); !strings.Contains(out.String(), "time  ") || !strings.Contains(out.String(), "40 launches") {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}

// TestNoiseOfLaunchesThatDoNotCount: failures, unfit launches and marks are counted and told, and what counts is saved.
func TestNoiseOfLaunchesThatDoNotCount(t *testing.T) {
	p := &policy.Policy{}
	p.Judge.Metrics = []metric.Metric{{Name: "rate", Higher: true}}
	all := launchesOf(drawn(20, func(_ int, z float64) float64 { return 0.003 * z })...)
	for i := range all {
		all[i].Series = []bisect.Series{{Metric: "rate", Case: "n=1", Unit: "op/s", Values: []float64{100, 1 / all[i].Series[0].Values[0], 0.5}}}
	}
	all[3] = bisect.Outcome{Class: bisect.Crash, Phase: "measure", Why: "exit 1"}
	all[4].Unfit = "it filled empty caches"
	all[5].Marks = []bisect.Mark{{Kind: bisect.Shared, Text: "1 process"}}
	s, err := newSeries(p, all)
	if err != nil || len(s.levels) != 18 {
		t.Fatalf("%d levels, %v", len(s.levels), err)
	}
	var out bytes.Buffer
	s.print(&out)
	for _, want := range []string{"1 left out: failed: crash in measure: exit 1\n", "1 left out: it filled empty caches\n", "1 counted although shared: 1 process\n", "18 launches"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "series.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := s.write(file, p); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil || len(rows) != 1+2*18 || strings.Join(rows[1][3:5], " ") != "rate n=1" || rows[2][3] != "wall" || rows[2][5] != "2" {
		t.Errorf("%d rows, %v: %v", len(rows), err, rows[:min(3, len(rows))])
	}

	p.Judge.Metrics = []metric.Metric{{Name: "speed"}}
	var unknown *compare.UnknownMetricError
	if _, err := newSeries(p, all); !errors.As(err, &unknown) || unknown.Wanted != "speed" {
		t.Errorf("a metric that no launch gives: %v", err)
	}
	if s, err := newSeries(p, all[3:4]); err != nil || !strings.HasPrefix(s.verdict(), "It fails, so that there is nothing to say of noise: crash in measure") {
		t.Errorf("%v, %+v", err, s)
	}
	p.Judge.Metrics = []metric.Metric{{Name: "time"}} // not configured, and not sent: the wall time stands in
	if s, err := newSeries(p, all); err != nil || s.metric.Name != "wall" {
		t.Errorf("%v, %+v", err, s)
	}
}

// TestOutlookOfAQuietMachine: a search with little noise finds a large slowdown, and the table says at what price.
func TestOutlookOfAQuietMachine(t *testing.T) {
	p := &policy.Policy{}
	p.Judge.Metrics, p.Judge.Error = []metric.Metric{{Name: "time"}}, 0.01
	s, err := newSeries(p, launchesOf(drawn(24, func(_ int, z float64) float64 { return 0.001 * z })...))
	if err != nil {
		t.Fatal(err)
	}
	spec := s.spec()
	spec.Commits, spec.Trials = 16, 3
	score, err := preview.Slowdown(context.Background(), spec, 0.1, p.Judge.Error)
	if err != nil || score.Right != 1 || score.Wrong != 0 {
		t.Errorf("%+v, %v", score, err)
	}
}

func TestDevicesHere(t *testing.T) {
	none := gpu.Report{Why: "no NVIDIA driver"}
	if f := devicesHere(none, []string{"auto"}); f.State != stateMissing || f.Found != "no NVIDIA driver; trials run without a device" {
		t.Errorf("%+v", f)
	}
	if f := devicesHere(none, []string{"0"}); f.State != StateProblem || !strings.Contains(f.Hint, "names devices") {
		t.Errorf("%+v", f)
	}
	two := gpu.Report{Available: true, Driver: "580.1", CUDA: "13.0", Devices: []gpu.Device{{UUID: "GPU-1", Name: "H200"}, {Index: 1, UUID: "GPU-2", Name: "H200", Processes: []gpu.Process{{PID: 1 << 30}}}}}
	f := devicesHere(two, []string{"auto"})
	if f.State != StateProblem || !strings.HasPrefix(f.Found, "driver 580.1, CUDA up to 13.0\n0: H200") || !strings.Contains(f.Hint, "other processes use this device") {
		t.Errorf("%+v", f)
	}
	two.Devices = two.Devices[:1]
	if f := devicesHere(two, []string{"auto"}); f.State != StateOK {
		t.Errorf("%+v", f)
	}
	if f := devicesHere(two, []string{"GPU-nosuch"}); f.State != StateProblem || !strings.Contains(f.Hint, "a device that is not here") {
		t.Errorf("%+v", f)
	}
}

// TestFindingsAreOfTheNamedChecks: a demo asks for some, and waits for no other.
func TestFindingsAreOfTheNamedChecks(t *testing.T) {
	got := Findings(t.Context(), t.TempDir(), []string{"system", "repository", "nosuch"})
	if len(got) != 2 || got["system"].State != StateOK || got["repository"].State != StateProblem {
		t.Errorf("%+v", got)
	}
}

func FuzzImportedModules(f *testing.F) {
	for _, s := range []string{"import a, b.c as d\n", "from x.y import z\n", "import\n", "from . import a\n", "  import no\n", "import a,,b,\n"} {
		f.Add([]byte(s))
	}
	name := regexp.MustCompile(`^\w+$`)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, m := range importedModules(text) {
			if !name.MatchString(m) || !bytes.Contains(text, []byte(m)) {
				t.Errorf("module %q of %q", m, text)
			}
		}
	})
}
