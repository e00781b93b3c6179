package find

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// device is a truth table with noise: it plays a history of n commits after commit 0.
type device struct {
	n        int
	class    func(i int) bisect.Outcome // what a launch of commit i ends as; zero class: ok
	level    func(i int) float64        // ln of the metric
	sd       float64
	rng      *rand.Rand
	launches int
	tested   map[int]bool
	clean    int
}

func (d *device) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	i, err := strconv.Atoi(r.Candidate.Commit)
	if err != nil {
		return bisect.Outcome{}, err
	}
	d.launches++
	if r.Purpose == bisect.Searching {
		d.tested[i] = true
	}
	if r.Clean {
		d.clean++
	}
	o := bisect.Outcome{Class: bisect.OK, Wall: 1}
	if d.class != nil {
		if x := d.class(i); x.Class != "" {
			return x, nil
		}
	}
	if d.level != nil {
		med := math.Exp(d.level(i) + d.sd*d.rng.NormFloat64())
		o.Series = []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{med * 0.999, med, med * 1.001}}}
	}
	return o, nil
}

func newDevice(n int, seed uint64) *device {
	return &device{n: n, rng: rand.New(rand.NewPCG(seed, 1)), tested: map[int]bool{}}
}

// find searches commits 1..n with commit 0 as the good end.
func (d *device) find(t testing.TB, o search.Options) bisect.Finding {
	t.Helper()
	commits := make([]bisect.Commit, d.n)
	for i := range commits {
		commits[i] = bisect.Commit{ID: strconv.Itoa(i + 1), Parents: []string{strconv.Itoa(i)}, Key: "k" + strconv.Itoa(i+1)}
		if i > 0 {
			commits[i].InRange = []int{i - 1}
		}
	}
	f, err := Culprits(t.Context(), &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "0"}, GoodKey: "k0", Sampler: d, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var plain = search.Options{Metrics: []metric.Metric{{Name: "time"}}, Effect: 0.03, Error: 0.01}

func from(k int, o bisect.Outcome) func(int) bisect.Outcome {
	return func(i int) bisect.Outcome {
		if i >= k {
			return o
		}
		return bisect.Outcome{}
	}
}

func TestCertainComplaintsCostPlainBisection(t *testing.T) {
	hang := bisect.Outcome{Class: bisect.Timeout, Phase: "warmup"}
	for k := 1; k <= 100; k++ {
		d := newDevice(100, 1)
		d.class = from(k, hang)
		f := d.find(t, plain)
		if f.Result != bisect.Found || f.Culprits[0].Commit != strconv.Itoa(k) || !f.Culprits[0].Confirmed {
			t.Fatalf("culprit %d: %+v", k, f)
		}
		if c := f.Complaint; c.Class != bisect.Timeout || c.Phase != "warmup" {
			t.Fatalf("complaint %v", c)
		}
		// The ends, the search, the culprit once more, and its parent until it has passed five times in
		// all: a pass costs little against a time-out's limit. Where nearly all launches were of one
		// kind, one or two more rule out that it only fell so.
		if len(d.tested) > 7 || d.clean > 7 || d.launches > 2+7+1+5+2 {
			t.Fatalf("culprit %d: %d candidates, %d clean, %d launches", k, len(d.tested), d.clean, d.launches)
		}
	}
}

func TestAnotherFailureIsSetAside(t *testing.T) {
	d := newDevice(40, 1)
	d.class = func(i int) bisect.Outcome {
		switch {
		case i >= 18 && i <= 22:
			return bisect.Outcome{Class: bisect.Crash, Phase: "load", Why: "ended by SIGSEGV"}
		case i >= 31:
			return bisect.Outcome{Class: bisect.Wrong}
		}
		return bisect.Outcome{}
	}
	f := d.find(t, plain)
	if f.Result != bisect.Found || f.Culprits[0].Commit != "31" {
		t.Fatalf("%+v", f)
	}
	if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "commit 20 fails in another way (crash in load) and was set aside") {
		t.Errorf("warnings %q", f.Warnings)
	}
	o := plain
	o.Any = true // as git bisect: every failure counts
	if f := d.find(t, o); f.Result == bisect.Found && f.Culprits[0].Commit != "18" && f.Culprits[0].Commit != "31" {
		t.Fatalf("with any: %+v", f.Culprits)
	}
}

// The same slowness may show in another phase on the way; --find timeout without a phase takes both.
func TestTimeoutThatMovesFromPhaseToPhase(t *testing.T) {
	d := newDevice(40, 1)
	d.class = func(i int) bisect.Outcome {
		switch {
		case i >= 30:
			return bisect.Outcome{Class: bisect.Timeout, Phase: "load"}
		case i >= 25:
			return bisect.Outcome{Class: bisect.Timeout, Phase: "warmup"}
		}
		return bisect.Outcome{}
	}
	if f := d.find(t, plain); f.Result != bisect.Inconclusive || len(f.Suspects) != 6 || f.Suspects[0].Commit != "25" {
		t.Errorf("%v %v", f.Result, f.Suspects)
	}
	o := plain
	o.Find = bisect.Timeout
	if f := d.find(t, o); f.Result != bisect.Found || f.Culprits[0].Commit != "25" || f.Culprits[0].Phase != "warmup" {
		t.Errorf("%v %+v", f.Result, f.Culprits)
	}
	o.Phase = "load"
	if f := d.find(t, o); f.Result != bisect.Inconclusive {
		t.Errorf("%v %+v", f.Result, f.Culprits)
	}
}

func TestUnbuildableCommitsAroundTheCulprit(t *testing.T) {
	d := newDevice(64, 1)
	d.class = func(i int) bisect.Outcome {
		switch {
		case i >= 28 && i < 37:
			return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build"}
		case i >= 32:
			return bisect.Outcome{Class: bisect.Timeout, Phase: "load"}
		}
		return bisect.Outcome{}
	}
	f := d.find(t, plain)
	if f.Result != bisect.Inconclusive || len(f.Suspects) != 10 || f.Suspects[0].Commit != "28" || f.Suspects[9].Commit != "37" {
		t.Fatalf("%v %v", f.Result, f.Suspects)
	}
}

func TestEndsThatDoNotServe(t *testing.T) {
	fail := bisect.Outcome{Class: bisect.Wrong, Why: "exit 1"}
	only := func(bad ...int) func(int) bisect.Outcome {
		return func(i int) bisect.Outcome {
			for _, b := range bad {
				if i == b {
					return fail
				}
			}
			return bisect.Outcome{}
		}
	}
	for name, c := range map[string]struct {
		class func(int) bisect.Outcome
		o     search.Options
		why   string
		want  bisect.Result
	}{
		"both good":   {only(), plain, "both ends pass, the bad end in 5 of 5 launches", bisect.NoDifference},
		"both bad":    {only(0, 10), plain, "both ends fail in the same way: good end wrong: exit 1; bad end wrong: exit 1", bisect.NoDifference},
		"swapped":     {only(0), plain, "the good end is bad (wrong: exit 1) and the bad end is good", bisect.NoDifference},
		"not that":    {only(10), search.Options{Find: bisect.Timeout}, "the bad end does not show the complaint asked for (timeout) but another: wrong: exit 1", bisect.NoDifference},
		"skipped end": {from(10, bisect.Outcome{Class: bisect.Skip, Why: "no device"}), plain, "the bad end cannot be tested: skip: no device", bisect.Inconclusive},
		"good end unbuildable": {func(i int) bisect.Outcome {
			if i == 0 {
				return bisect.Outcome{Class: bisect.BuildFailed}
			}
			return fail
		}, plain, "the good end cannot be tested: build-failed", bisect.Inconclusive},
	} {
		d := newDevice(10, 1)
		d.class = c.class
		f := d.find(t, c.o)
		if f.Result != c.want || f.Ends.Why != c.why || len(f.Culprits) > 0 {
			t.Errorf("%s: %v %q, want %v %q", name, f.Result, f.Ends.Why, c.want, c.why)
		}
	}
}

func TestBuildComplaint(t *testing.T) {
	d := newDevice(20, 1)
	d.class = func(i int) bisect.Outcome {
		switch {
		case i >= 13:
			return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build"}
		case i >= 5:
			return bisect.Outcome{Class: bisect.Crash, Phase: "run"} // built, so good as far as the build goes
		}
		return bisect.Outcome{}
	}
	if f := d.find(t, plain); f.Result != bisect.Found || f.Culprits[0].Commit != "13" {
		t.Fatalf("%+v", f)
	}
}

// A flaky incremental build: the search sees commit 5 bad, a clean build shows that only 12 is.
func TestConfirmationOverrulesAnIncrementalBuildThatLied(t *testing.T) {
	d := newDevice(20, 1)
	lied := false
	d.class = func(i int) bisect.Outcome {
		bad := i >= 12
		if i >= 5 && !lied && d.clean == 0 {
			bad = true
		}
		if d.clean > 0 {
			lied = true
		}
		if bad {
			return bisect.Outcome{Class: bisect.Wrong}
		}
		return bisect.Outcome{}
	}
	f := d.find(t, plain)
	if f.Result != bisect.Found || f.Culprits[0].Commit != "12" || len(f.Warnings) == 0 {
		t.Fatalf("%v %+v %q", f.Result, f.Culprits, f.Warnings)
	}
}

// slowAt plays a step of the metric at commit k.
func slowAt(seed uint64, n, k int, step, sd float64) *device {
	d := newDevice(n, seed)
	d.sd = sd
	d.level = func(i int) float64 {
		if i >= k {
			return math.Log(30e-6) + step
		}
		return math.Log(30e-6)
	}
	return d
}

func TestSlowStepIsFoundUnderNoise(t *testing.T) {
	const jobs = 60
	right, wrong, launches := 0, 0, 0
	for seed := range uint64(jobs) {
		rng := rand.New(rand.NewPCG(seed, 7))
		k := 1 + rng.IntN(64)
		d := slowAt(seed, 64, k, 0.05, 0.008)
		f := d.find(t, plain)
		launches += d.launches
		switch {
		case f.Result == bisect.Found && f.Culprits[0].Commit == strconv.Itoa(k):
			right++
			if e := f.Culprits[0].Effect; e == nil || e.Ratio < 1.02 || e.Ratio > 1.08 || e.Low > e.Ratio || e.High < e.Ratio {
				t.Errorf("seed %d: effect %+v", seed, e)
			}
		case f.Result == bisect.Found:
			wrong++
		}
	}
	t.Logf("5 %% step, 0.8 %% noise: %d of %d right, %d wrong, %.0f launches a job", right, jobs, wrong, float64(launches)/jobs)
	if right < jobs*95/100 || wrong > jobs/100+1 {
		t.Errorf("%d of %d right, %d wrong", right, jobs, wrong)
	}
}

func TestNoStepNamesNobody(t *testing.T) {
	const jobs = 100
	named := 0
	for seed := range uint64(jobs) {
		d := slowAt(seed, 64, 1000, 0, 0.008)
		if f := d.find(t, plain); f.Result != bisect.NoDifference {
			named++
		}
	}
	if named > 2 {
		t.Errorf("%d of %d histories without a step were searched", named, jobs)
	}
}

func TestHigherIsBetter(t *testing.T) {
	d := slowAt(3, 32, 20, -0.10, 0.005) // throughput falls
	o := plain
	o.Metrics = []metric.Metric{{Name: "time", Higher: true}}
	f := d.find(t, o)
	if f.Result != bisect.Found || f.Culprits[0].Commit != "20" || !(f.Culprits[0].Effect.Ratio < 0.95) {
		t.Fatalf("%+v", f)
	}
	if f := slowAt(3, 32, 20, 0.10, 0.005).find(t, o); f.Result != bisect.NoDifference {
		t.Fatalf("a gain was searched for: %+v", f)
	}
}

// A harmless gain before the step must not look like something between the ends, nor must a second
// loss after it.
func TestGainBeforeAndLossAfterTheStep(t *testing.T) {
	d := newDevice(40, 9)
	d.sd = 0.008
	d.level = func(i int) float64 {
		switch {
		case i >= 31:
			return 0.06
		case i >= 23:
			return 0.06 - 0.01
		case i >= 11:
			return -0.05
		}
		return 0
	}
	f := d.find(t, plain)
	if f.Result != bisect.Found || f.Culprits[0].Commit != "23" || d.launches > 100 {
		t.Fatalf("%d launches, %v %+v", d.launches, f.Result, f.Culprits)
	}
}

func TestSlowWithBrokenCommits(t *testing.T) {
	d := slowAt(5, 40, 25, 0.2, 0.01)
	d.class = func(i int) bisect.Outcome {
		if i == 20 || i == 26 {
			return bisect.Outcome{Class: bisect.BuildFailed}
		}
		return bisect.Outcome{}
	}
	if f := d.find(t, plain); f.Result != bisect.Found || f.Culprits[0].Commit != "25" {
		t.Fatalf("%+v", f)
	}
}
