package trial

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
)

// A limit that names no stage is that of the phase in every stage.
func TestLimitsOfAnyStage(t *testing.T) {
	b := Bounds{Limits: Limits{Phases: map[string]kernels.Limit{"check": {Abs: 2 * time.Second}, "test/load": {Abs: time.Second}}}}
	for phase, want := range map[string]time.Duration{"check": 2 * time.Second, "test/check": 2 * time.Second, "benchmark/check": 2 * time.Second, "test/load": time.Second, "load": 0, "benchmark/load": 0} {
		if got := b.allowed(phase); got != want {
			t.Errorf("%s: %v, want %v", phase, got, want)
		}
	}
}

// What a request in a hurry allows a phase lies between what good runs take and the user's limit.
func TestHurriedBounds(t *testing.T) {
	limits := Limits{Build: time.Hour, Run: time.Hour, Phases: map[string]kernels.Limit{"short": {Abs: time.Second}}}
	good := map[string]time.Duration{"build": time.Second, "load": time.Second, "short": time.Second, bisect.WholeTrial: time.Second}
	soon := patience(time.Second)
	for _, c := range []struct {
		hurry, phase string
		past         float64
		want         time.Duration
		hurried      bool
	}{
		{"", "load", 0, 0, false},
		{"load", "load", 0, soon, true},
		{"load", "load", 100, patience(100 * time.Second), true}, // it must be let run for longer than good runs
		{"load", "measure", 0, 0, false},
		{"short", "short", 0, time.Second, false}, // the user's limit comes first
		{"build", "build", 0, soon, true},
		{bisect.WholeTrial, bisect.WholeTrial, 0, soon, true},
		{"", bisect.WholeTrial, 0, time.Hour, false},
		{bisect.SlowTrial, bisect.WholeTrial, 2, 2 * time.Second, true},
		{bisect.SlowTrial, bisect.WholeTrial, 7200, time.Hour, false},
		{bisect.SlowTrial, "load", 2, 0, false},
	} {
		b := Bounds{Limits: limits, Good: good, Hurry: c.hurry, Past: c.past}
		_, hurried := b.hurried(c.phase)
		if got := b.inForce(c.phase); got != c.want || hurried != c.hurried {
			t.Errorf("in a hurry for %q, %s is given %v (hurried %v), want %v (%v)", c.hurry, c.phase, got, hurried, c.want, c.hurried)
		}
	}
	quick := map[string]time.Duration{"run": time.Millisecond, bisect.WholeTrial: time.Millisecond}
	short := Bounds{Limits: Limits{Run: time.Minute}, Good: quick, Hurry: bisect.WholeTrial}
	if l := short.inForce(bisect.WholeTrial); l < 5*time.Second || l > 6*time.Second || short.inForce("run") != 0 {
		t.Errorf("bounds %v, %v", l, short.inForce("run"))
	}
	cached := Bounds{Limits: limits, Hurry: "build"}
	if got := cached.inForce("build"); got != time.Hour {
		t.Errorf("without a build of the good end: %v", got)
	}
}

// Without the probe a phase may also take what its imports and compilations are given.
func TestUnprobedBounds(t *testing.T) {
	b := Bounds{Limits: Limits{Run: time.Hour, Phases: map[string]kernels.Limit{"load": {Abs: time.Second}, "import": {Abs: time.Minute}, teardown: {Abs: time.Second}}}}
	for phase, want := range map[string]time.Duration{"load": 61 * time.Second, "import": time.Minute, teardown: time.Second, "measure": 0, bisect.WholeTrial: time.Hour} {
		b.Unprobed = true
		if got := b.allowed(phase); got != want {
			t.Errorf("%s: %v, want %v", phase, got, want)
		}
		b.Unprobed = false
		if got := b.allowed(phase); got != b.limit(phase) {
			t.Errorf("%s with the probe: %v", phase, got)
		}
	}
}

// The reference keeps the longest times and the least that good launches send; bounds that were made before do not
// change, since a build ahead may hold them.
func TestReference(t *testing.T) {
	launch := func(seconds float64, lines int) bisect.Outcome {
		shape, err := json.Marshal(map[string]any{"phase": "measure", "before": "x", "lines": lines, "kinds": map[string]int{"sample": lines}, "result": true})
		if err != nil {
			t.Fatal(err)
		}
		return bisect.Outcome{Class: bisect.OK, Speaks: true, Wall: 2 * seconds, Phases: []bisect.PhaseTime{{Name: "load", Seconds: seconds}}, Shape: shape}
	}
	var g Reference
	g.Learn(launch(3, 5))
	before := g.Bounds(Limits{}, bisect.Request{Hurry: "load", Past: 7})
	if !*g.Speaks || g.Varies || g.Shape.Kinds["sample"] != 5 || before.Hurry != "load" || before.Past != 7 {
		t.Errorf("%+v, %+v", g, before)
	}
	g.Learn(launch(4, 3))
	g.Learn(launch(1, 9))
	want := map[string]time.Duration{"load": 4 * time.Second, bisect.WholeTrial: 8 * time.Second}
	if d := cmp.Diff(want, g.Times); d != "" || before.Good["load"] != 3*time.Second {
		t.Errorf("%s, and the bounds became %v", d, before.Good)
	}
	if !g.Varies || g.Shape.Kinds["sample"] != 3 {
		t.Errorf("%+v", g.Shape)
	}
}

// Times that a program measures from its start cover its load; those of its kernels do not, whatever their unit. Where a program sends
// no lines, any number that is not a time may cover it, and the longest of its times is kept.
func TestTimesThatCoverTheLoad(t *testing.T) {
	phases := []bisect.PhaseTime{{Name: "load", Seconds: 2}, {Name: "compile", Seconds: 0.5}, {Name: "measure", Seconds: 0.1}, {Name: "teardown", Seconds: 3}}
	for _, c := range []struct {
		name, unit string
		value      float64
		silent     bool
		want       bool
		longest    float64
	}{
		{name: "t", unit: "s", value: 2.6, want: true}, {name: "t", unit: "ms", value: 2600, want: true}, {name: "t", unit: "ms", value: 690},
		{name: "t", unit: "us", value: 30}, {name: "t", unit: "GB/s", value: 900}, {name: "other", unit: "s", value: 2.6},
		{name: "t", unit: "us", value: 30, silent: true, longest: 3e-5}, {name: "other", unit: "s", value: 2.6, silent: true, longest: 2.6},
		{name: "t", unit: "GB/s", value: 900, silent: true, want: true, longest: 900e9}, {name: "other", value: 30, silent: true, want: true, longest: 30},
	} {
		var g Reference
		g.LearnCovered(Recipe{SampleMetric: "t"}, bisect.Outcome{Speaks: !c.silent, Phases: phases, Series: []bisect.Series{{Metric: c.name, Unit: c.unit, Values: []float64{1e-9, c.value}}}})
		if g.Covers != c.want || math.Abs(g.Longest-c.longest) > 1e-9*c.longest {
			t.Errorf("%s of %g %s cover the load: %v; the longest is %g", c.name, c.value, c.unit, g.Covers, g.Longest)
		}
	}
}

// Where samples are compared, and the time as a whole in place of them, the good end shows which; until then the start counts.
func TestStartCountsUntilSamplesAreSeen(t *testing.T) {
	p := Recipe{SampleMetric: "t", FallsBack: true}
	sent := func(metric string) bisect.Outcome {
		return bisect.Outcome{Speaks: true, Series: []bisect.Series{{Metric: metric, Unit: "ms", Values: []float64{3}}}}
	}
	for metric, want := range map[string]bool{"t": false, "other": true} {
		var g Reference
		if !g.StartCounts(p) {
			t.Error("the start does not count before anything is known")
		}
		g.Learn(sent(metric))
		g.LearnCovered(p, sent(metric))
		if g.StartCounts(p) != want || Whole(p, sent(metric)) != want {
			t.Errorf("the start counts where samples of %s are sent: %v", metric, !want)
		}
	}
}
