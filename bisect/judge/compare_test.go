package judge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
)

// script is a Sampler that says what the n-th launch of A or B shows, and notes the order.
type script struct {
	show  func(b bool, n int) bisect.Outcome
	order []string
	at    float64
}

func (s *script) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	b := r.Purpose == bisect.EndBad
	s.order = append(s.order, map[bool]string{true: "B", false: "A"}[b]+fmt.Sprint(r.Nth))
	o := s.show(b, r.Nth)
	if o.Class == "" {
		o.Class = bisect.OK
	}
	s.at += 2
	o.At, o.Wall = s.at, max(o.Wall, 1)
	return o, nil
}

func run(t *testing.T, s *script, c judge.Compare) judge.Comparison {
	t.Helper()
	c.A, c.B, c.Sampler = bisect.Candidate{Commit: "a"}, bisect.Candidate{Commit: "b"}, s
	if c.Metrics == nil {
		c.Metrics = []judge.Metric{{Name: "time"}}
	}
	c.Effect, c.Error = 0.03, 0.01
	got, err := c.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func samples(metric, one string, v float64) bisect.Series {
	return bisect.Series{Metric: metric, Case: one, Unit: "us", Values: []float64{v, v * 1.01, v * 0.99}}
}

func failed(class bisect.Class, phase, why string) bisect.Outcome {
	return bisect.Outcome{Class: class, Phase: phase, Why: why}
}

// TestCompareStories plays comparisons whose answer is known.
func TestCompareStories(t *testing.T) {
	for _, x := range []struct {
		name   string
		show   func(rng *rand.Rand, b bool, n int) bisect.Outcome
		with   judge.Compare
		answer judge.Answer
		class  bisect.Class
		why    string // in the words of an answer by class
		warn   string
		check  func(t *testing.T, c judge.Comparison)
	}{
		{name: "slower", answer: judge.Worse, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			return times(rng, b, 1.1)
		}, check: func(t *testing.T, c judge.Comparison) {
			k := c.Contrasts[0]
			if c.Pairs > 9 || k.Ratio.Low > 1.1 || k.Ratio.High < 1.1 || k.Cliff != 1 || k.Smallest <= 0 {
				t.Errorf("%d pairs, %+v", c.Pairs, k)
			}
		}},
		{name: "faster", answer: judge.Better, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome { return times(rng, b, 0.9) }},
		{name: "alike", answer: judge.Alike, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome { return times(rng, b, 1) }},
		{name: "higher is better", answer: judge.Worse, with: judge.Compare{Options: judge.Options{Metrics: []judge.Metric{{Name: "time", Higher: true}}}},
			show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome { return times(rng, b, 0.9) },
			check: func(t *testing.T, c judge.Comparison) {
				if k := c.Contrasts[0]; k.Ratio.Value > 0.95 || k.Bound.High > 1 || k.Shift.Value > 0.95 || k.Cliff != -1 {
					t.Errorf("%+v", k)
				}
			}},
		{name: "so many pairs", answer: judge.Worse, with: judge.Compare{Pairs: 6}, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome { return times(rng, b, 1.1) },
			check: func(t *testing.T, c judge.Comparison) {
				if c.Pairs != 6 || c.Sides[0].Launches != 6 {
					t.Errorf("%d pairs", c.Pairs)
				}
			}},
		{name: "times out", answer: judge.Worse, class: bisect.Timeout, why: "it fails in 2 of 2 launches, A in none of 2: timeout in warmup", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			if b {
				return failed(bisect.Timeout, "warmup", "warmup reached its limit of 20s")
			}
			return times(rng, b, 1)
		}},
		{name: "does not build", answer: judge.Worse, class: bisect.BuildFailed, why: "it fails in 1 of 1", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			if b {
				return failed(bisect.BuildFailed, "build", "exit 2")
			}
			return times(rng, b, 1)
		}},
		{name: "A fails", answer: judge.Open, class: bisect.Crash, why: "A fails, so that there is nothing to compare with", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			if !b {
				return failed(bisect.Crash, "measure", "SIGSEGV")
			}
			return times(rng, b, 1)
		}},
		{name: "both fail", answer: judge.Open, class: bisect.Wrong, why: "both fail alike", show: func(*rand.Rand, bool, int) bisect.Outcome {
			return failed(bisect.Wrong, "check", "sum")
		}},
		{name: "B skips", answer: judge.Open, class: bisect.Skip, why: "B cannot be tested", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			if b {
				return failed(bisect.Skip, "load", "no such shape")
			}
			return times(rng, b, 1)
		}},
		{name: "B hangs now and then", answer: judge.Worse, class: bisect.Timeout, why: "it fails in 6 of 17 launches, A in none of 17", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b && n%3 == 1 {
				return failed(bisect.Timeout, "measure", "limit")
			}
			return times(rng, b, 1)
		}},
		{name: "one accident", answer: judge.Open, class: bisect.Crash, why: "B fails in 1 of 40 launches, A in none of 40, too few to tell", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b && n == 4 {
				return failed(bisect.Crash, "measure", "SIGBUS")
			}
			return times(rng, b, 1)
		}, check: func(t *testing.T, c judge.Comparison) {
			if s := c.Sides[1]; s.Failed != 1 || len(s.Left) != 1 || s.Left[0].N != 1 || !strings.Contains(s.Left[0].Why, "SIGBUS") {
				t.Errorf("%+v", s)
			}
		}},
		{name: "one accident in so many pairs", answer: judge.Open, class: bisect.Crash, why: "B fails in 1 of 9 launches, A in none of 9", with: judge.Compare{Pairs: 8}, show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b && n == 4 {
				return failed(bisect.Crash, "measure", "SIGBUS")
			}
			return times(rng, b, 1)
		}},
		{name: "both now and then", answer: judge.Alike, warn: "B fails in 1 of ", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if n == map[bool]int{false: 2, true: 4}[b] {
				return failed(bisect.Crash, "measure", "SIGBUS")
			}
			return times(rng, b, 1)
		}},
		{name: "slower, and fails once", answer: judge.Worse, warn: "besides, B fails in 1 of ", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b && n == 2 {
				return failed(bisect.Crash, "measure", "SIGBUS")
			}
			return times(rng, b, 1.1)
		}},
		{name: "A fails now and then, B always", answer: judge.Worse, class: bisect.Crash, why: "it fails in", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b || n%5 == 0 {
				return failed(bisect.Crash, "measure", "SIGSEGV")
			}
			return times(rng, b, 1)
		}},
		{name: "unfit launches", answer: judge.Worse, show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			o := times(rng, b, 1.1)
			if n == 2 {
				o.Unfit = "throttled: thermal"
			}
			if n == 3 {
				o.Marks = []string{"shared: 1 process"}
			}
			return o
		}, check: func(t *testing.T, c judge.Comparison) {
			s := c.Sides[0]
			if len(s.Left) != 1 || s.Left[0] != (judge.LeftOut{Why: "throttled: thermal", N: 1}) || len(s.Marked) != 1 || s.Counted != s.Launches-1 {
				t.Errorf("%+v", s)
			}
		}},
		{name: "never fit", answer: judge.Open, warn: "in a row could not be compared", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			o := times(rng, b, 1)
			o.Unfit = "throttled"
			return o
		}},
		{name: "one case of four", answer: judge.Worse, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			o := bisect.Outcome{}
			for i := range 4 {
				o.Series = append(o.Series, times(rng, b && i == 2, 1.2).Series[0])
				o.Series[i].Case = fmt.Sprintf("n%d", i)
			}
			return o
		}, check: func(t *testing.T, c judge.Comparison) {
			for _, k := range c.Contrasts {
				if k.Case == "n2" && k.Answer != judge.Worse || k.Case != "n2" && !k.All && k.Answer == judge.Worse {
					t.Errorf("%s %s: %s", k.Metric.Name, k.Case, k.Answer)
				}
				if k.P > k.Adjusted {
					t.Errorf("p %v, corrected %v", k.P, k.Adjusted)
				}
			}
		}},
		{name: "a case of one side", answer: judge.Alike, warn: "only A gives time of n1", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			o := times(rng, b, 1)
			o.Series[0].Case = "n0"
			if !b {
				o.Series = append(o.Series, samples("time", "n1", 5000))
			}
			return o
		}, check: func(t *testing.T, c judge.Comparison) {
			if len(c.Contrasts) != 1 || c.Contrasts[0].Case != "n0" {
				t.Errorf("%+v", c.Contrasts)
			}
		}},
		{name: "wall instead", answer: judge.Alike, warn: "wall is compared instead", with: judge.Compare{Fallback: &judge.Metric{Name: "wall"}},
			show: func(*rand.Rand, bool, int) bisect.Outcome { return bisect.Outcome{} }},
		{name: "hopeless", answer: judge.Open, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			return bisect.Outcome{Series: []bisect.Series{samples("time", "", 30*(1+2*rng.Float64()))}}
		}, check: func(t *testing.T, c judge.Comparison) {
			if !c.Hopeless || c.Pairs > 60 {
				t.Errorf("%d pairs", c.Pairs)
			}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 12))
			got := run(t, &script{show: func(b bool, n int) bisect.Outcome { return x.show(rng, b, n) }}, x.with)
			if got.Answer != x.answer || got.ByClass != (x.class != "") || got.Class != x.class || !strings.Contains(got.Why, x.why) {
				t.Errorf("%s, class %q, why %q", got.Answer, got.Class, got.Why)
			}
			if !strings.Contains(strings.Join(got.Warnings, "\n"), x.warn) {
				t.Errorf("warnings %q", got.Warnings)
			}
			if x.check != nil {
				x.check(t, got)
			}
		})
	}
}

// times is a launch with half a percent of noise; B's times are those of A times factor.
func times(rng *rand.Rand, b bool, factor float64) bisect.Outcome {
	v := 30 * (1 + 0.005*rng.NormFloat64())
	if b {
		v *= factor
	}
	return bisect.Outcome{Series: []bisect.Series{samples("time", "", v)}}
}

func TestCompareTakesTurns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := &script{show: func(b bool, _ int) bisect.Outcome { return times(rng, b, 1) }}
	run(t, s, judge.Compare{Pairs: 5})
	if got, want := strings.Join(s.order, " "), "A0 B0 B1 A1 A2 B2 B3 A3 A4 B4"; got != want {
		t.Errorf("launched %s, want %s", got, want)
	}
}

func TestCompareUnknownMetric(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := judge.Compare{
		Options: judge.Options{Metrics: []judge.Metric{{Name: "speed"}}},
		Sampler: &script{show: func(b bool, _ int) bisect.Outcome { return times(rng, b, 1) }},
	}
	_, err := c.Run(context.Background())
	var unknown *judge.UnknownMetricError
	if !errors.As(err, &unknown) || unknown.Wanted != "speed" || strings.Join(unknown.Sent, " ") != "time wall" {
		t.Errorf("%v", err)
	}
}

func TestCompareStops(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	n := 0
	s := &script{show: func(b bool, _ int) bisect.Outcome { n++; return times(rng, b, 1) }}
	got := run(t, s, judge.Compare{Spent: func() bool { return n >= 6 }})
	if got.Answer != judge.Open || !got.Spent || got.Pairs != 3 || len(got.Contrasts) != 1 {
		t.Errorf("%s after %d pairs, spent %v", got.Answer, got.Pairs, got.Spent)
	}
	broken := judge.Compare{Sampler: sampled(func() (bisect.Outcome, error) {
		if n++; n > 9 {
			return bisect.Outcome{}, &bisect.InfraError{What: "testing", Err: errors.New("device lost")}
		}
		o := times(rng, false, 1)
		o.Class = bisect.OK
		return o, nil
	}), Options: judge.Options{Metrics: []judge.Metric{{Name: "time"}}}}
	got, err := broken.Run(context.Background())
	var infra *bisect.InfraError
	if !errors.As(err, &infra) || len(got.Contrasts) != 1 || got.Sides[1].Launches != 2 {
		t.Errorf("%v, %+v", err, got)
	}
}

type sampled func() (bisect.Outcome, error)

func (s sampled) Sample(context.Context, bisect.Request) (bisect.Outcome, error) { return s() }

// TestCompareHolds plays seeded comparisons on simulated machines: the same revision is never told apart but by
// chance, and a change is found.
func TestCompareHolds(t *testing.T) {
	for _, x := range []struct {
		spec         string
		step, effect float64
		pairs        int
		trials       int
		answer       judge.Answer
		least        int // trials with that answer
	}{
		{machines[0], 0, 0.03, 0, 40, judge.Alike, 39},
		{machines[1], 0, 0.03, 0, 40, judge.Alike, 39},
		{machines[2], 0, 0.03, 0, 12, judge.Alike, 11},
		{machines[3], 0, 0.03, 0, 12, judge.Alike, 11},
		{machines[1], 0.02956, 0.03, 0, 40, judge.Worse, 38},
		{machines[1], -0.02956, 0.03, 0, 40, judge.Better, 38},
		{machines[2], 0.0488, 0.03, 0, 12, judge.Worse, 11},
		{machines[0], 0.00995, 0.01, 0, 20, judge.Worse, 18},
	} {
		got := fight(t, x.spec, x.step, x.effect, x.pairs, x.trials)
		t.Logf("%s step %v: %v", x.spec, x.step, got)
		if got.answers[x.answer] < x.least {
			t.Errorf("%s step %v: %v", x.spec, x.step, got)
		}
	}
	for _, spec := range machines { // one look at six pairs
		got := fight(t, spec, 0, 0.001, 6, 60)
		if wrong := got.answers[judge.Worse] + got.answers[judge.Better]; wrong > 3 {
			t.Errorf("A/A on %s: %v", spec, got)
		}
	}
}

// TestExamine finds what is wrong with simulated machines.
func TestExamine(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	series := func(n int, level func(i int) float64) []judge.Launch {
		var out []judge.Launch
		for i := range n {
			out = append(out, judge.Launch{Index: judge.GoodEnd, At: 13 * float64(i), Y: level(i)})
		}
		return out
	}
	for _, x := range []struct {
		name                                    string
		level                                   func(i int) float64
		scattered, troubled, drifting, twoModes bool
	}{
		{"quiet", func(int) float64 { return 0.004 * rng.NormFloat64() }, false, false, false, false},
		{"scattered", func(int) float64 { return 0.03 * rng.NormFloat64() }, true, false, false, false},
		{"neighbour", func(i int) float64 {
			return 0.004*rng.NormFloat64() + map[bool]float64{true: 0.2}[i%10 == 3]*(1+rng.Float64())
		}, false, true, false, false},
		{"drift", func(i int) float64 { return 0.02*float64(i)/40 + 0.001*rng.NormFloat64() }, false, false, true, false},
		{"modes", func(i int) float64 {
			return 0.003*rng.NormFloat64() + map[bool]float64{true: 0.02}[rng.Float64() < 0.5]
		}, false, false, false, true},
	} {
		e := judge.Examine(series(40, x.level))
		if x.name == "modes" { // half of the launches in either: wide by any measure
			x.scattered = e.Scattered()
		}
		if e.Scattered() != x.scattered || e.Troubled() != x.troubled || e.Drifting() != x.drifting || e.TwoModes() != x.twoModes {
			t.Errorf("%s: scattered %v, troubled %v, drifting %v, modes %v: %+v", x.name, e.Scattered(), e.Troubled(), e.Drifting(), e.TwoModes(), e)
		}
	}
	if e := judge.Examine(nil); e.Launches != 0 || e.TwoModes() {
		t.Errorf("nothing: %+v", e)
	}
}

func TestTwoModes(t *testing.T) {
	if low, high, share, ok := judge.TwoModes([]float64{22.5, 22.4, 22.6, 25.5, 25.4, 22.5, 25.6, 22.5, 25.5, 22.4, 25.5, 22.5}); !ok || low != 22.5 || high != 25.5 || share < 0.4 || share > 0.42 {
		t.Errorf("%v %v %v %v", low, high, share, ok)
	}
	rng := rand.New(rand.NewPCG(8, 9))
	wrong := 0
	for range 300 {
		var v []float64
		for range 30 {
			v = append(v, 30*(1+0.01*rng.NormFloat64()))
		}
		if _, _, _, ok := judge.TwoModes(v); ok {
			wrong++
		}
	}
	if wrong > 6 {
		t.Errorf("one mode taken for two in %d of 300", wrong)
	}
}

// TestCompareEvery answers for each number: one that is worse does not end it while others are open, for as
// many pairs again, and one that is accepted does not count.
func TestCompareEvery(t *testing.T) {
	show := func(spread float64) func(rng *rand.Rand, b bool) bisect.Outcome {
		return func(rng *rand.Rand, b bool) bisect.Outcome {
			var o bisect.Outcome
			for i, factor := range []float64{1.2, 1, 1} {
				if !b {
					factor = 1
				}
				noise := 0.005
				if i == 2 {
					noise = spread
				}
				o.Series = append(o.Series, samples("time", fmt.Sprintf("n%d", i), 30*factor*(1+noise*rng.NormFloat64())))
			}
			return o
		}
	}
	accepts := func(limit float64) func(judge.Metric, string, float64) bool {
		return func(m judge.Metric, one string, ratio float64) bool {
			return m.Name == "time" && one != "n1" && ratio <= limit
		}
	}
	for _, x := range []struct {
		name        string
		spread      float64
		with        judge.Compare
		answer      judge.Answer
		n0, n1, n2  judge.Answer
		least, most int
	}{
		{"each has its answer", 0.005, judge.Compare{Every: true}, judge.Worse, judge.Worse, judge.Alike, judge.Alike, 7, 20},
		{"one stays open, but not for ever", 0.1, judge.Compare{Every: true}, judge.Worse, judge.Worse, judge.Alike, judge.Open, 14, 20},
		{"the first ends it", 0.1, judge.Compare{}, judge.Worse, judge.Worse, "", judge.Open, 7, 10},
		{"accepted", 0.005, judge.Compare{Every: true, Accepts: accepts(1.25)}, judge.Alike, judge.Accepted, judge.Alike, judge.Alike, 7, 20},
		{"more than is accepted", 0.005, judge.Compare{Every: true, Accepts: accepts(1.15)}, judge.Worse, judge.Worse, judge.Alike, judge.Alike, 7, 20},
	} {
		t.Run(x.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(31, 32))
			one := show(x.spread)
			got := run(t, &script{show: func(b bool, _ int) bisect.Outcome { return one(rng, b) }}, x.with)
			is := map[string]judge.Answer{}
			for _, k := range got.Contrasts {
				is[k.Case] = k.Answer
			}
			if got.Answer != x.answer || is["n0"] != x.n0 || x.n1 != "" && is["n1"] != x.n1 || is["n2"] != x.n2 || got.Pairs < x.least || got.Pairs > x.most {
				t.Errorf("%s after %d pairs: %v", got.Answer, got.Pairs, is)
			}
		})
	}
}
