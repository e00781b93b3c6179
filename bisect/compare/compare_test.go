package compare_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
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

func run(t *testing.T, s bisect.Sampler, c compare.Experiment) compare.Result {
	t.Helper()
	c.A, c.B, c.Sampler = bisect.Candidate{Commit: "a"}, bisect.Candidate{Commit: "b"}, s
	if c.Metrics == nil {
		c.Metrics = []metric.Metric{{Name: "time"}}
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
		with   compare.Experiment
		answer compare.Answer
		class  bisect.Class
		why    string // in the words of an answer by class
		warn   string
		check  func(t *testing.T, c compare.Result)
	}{
		{name: "slower", answer: compare.Worse, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			return times(rng, b, 1.1)
		}, check: func(t *testing.T, c compare.Result) {
			k := c.Contrasts[0]
			if c.Pairs > 9 || k.Ratio.Low > 1.1 || k.Ratio.High < 1.1 || k.Smallest <= 0 {
				t.Errorf("%d pairs, %+v", c.Pairs, k)
			}
		}},
		{name: "faster", answer: compare.Better, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome { return times(rng, b, 0.9) }},
		{name: "alike", answer: compare.Alike, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome { return times(rng, b, 1) }},
		{name: "higher is better", answer: compare.Worse, with: compare.Experiment{Metrics: []metric.Metric{{Name: "time", Higher: true}}},
			show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome { return times(rng, b, 0.9) },
			check: func(t *testing.T, c compare.Result) {
				if k := c.Contrasts[0]; k.Ratio.Value > 0.95 || k.Bound.High > 1 {
					t.Errorf("%+v", k)
				}
			}},
		{name: "so many pairs", answer: compare.Worse, with: compare.Experiment{Pairs: 6}, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome { return times(rng, b, 1.1) },
			check: func(t *testing.T, c compare.Result) {
				if c.Pairs != 6 || c.Sides[0].Launches != 6 {
					t.Errorf("%d pairs", c.Pairs)
				}
			}},
		{name: "times out", answer: compare.Worse, class: bisect.Timeout, why: "it fails in 2 of 2 launches, A in none of 2: timeout in warmup", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			if b {
				return failed(bisect.Timeout, "warmup", "warmup reached its limit of 20s")
			}
			return times(rng, b, 1)
		}},
		{name: "does not build", answer: compare.Worse, class: bisect.BuildFailed, why: "it fails in 1 of 1", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			if b {
				return failed(bisect.BuildFailed, "build", "exit 2")
			}
			return times(rng, b, 1)
		}},
		{name: "A fails", answer: compare.Open, class: bisect.Crash, why: "A fails, so that there is nothing to compare with", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			if !b {
				return failed(bisect.Crash, "measure", "SIGSEGV")
			}
			return times(rng, b, 1)
		}},
		{name: "both fail", answer: compare.Open, class: bisect.Wrong, why: "both fail in the same way", show: func(*rand.Rand, bool, int) bisect.Outcome {
			return failed(bisect.Wrong, "check", "sum")
		}},
		{name: "B skips", answer: compare.Open, class: bisect.Skip, why: "B cannot be tested", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			if b {
				return failed(bisect.Skip, "load", "no such shape")
			}
			return times(rng, b, 1)
		}},
		{name: "B hangs now and then", answer: compare.Worse, class: bisect.Timeout, why: "it fails in 6 of 17 launches, A in none of 17", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b && n%3 == 1 {
				return failed(bisect.Timeout, "measure", "limit")
			}
			return times(rng, b, 1)
		}},
		{name: "one accident", answer: compare.Open, class: bisect.Crash, why: "B fails in 1 of 40 launches, A in none of 40, too few to tell", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b && n == 4 {
				return failed(bisect.Crash, "measure", "SIGBUS")
			}
			return times(rng, b, 1)
		}, check: func(t *testing.T, c compare.Result) {
			if s := c.Sides[1]; s.Failed != 1 || len(s.Left) != 1 || s.Left[0].N != 1 || !strings.Contains(s.Left[0].Why, "SIGBUS") {
				t.Errorf("%+v", s)
			}
		}},
		{name: "one accident in so many pairs", answer: compare.Open, class: bisect.Crash, why: "B fails in 1 of 9 launches, A in none of 9", with: compare.Experiment{Pairs: 8}, show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b && n == 4 {
				return failed(bisect.Crash, "measure", "SIGBUS")
			}
			return times(rng, b, 1)
		}},
		{name: "both now and then", answer: compare.Alike, warn: "B fails in 1 of ", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if n == map[bool]int{false: 2, true: 4}[b] {
				return failed(bisect.Crash, "measure", "SIGBUS")
			}
			return times(rng, b, 1)
		}},
		{name: "slower, and fails once", answer: compare.Worse, warn: "besides, B fails in 1 of ", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b && n == 2 {
				return failed(bisect.Crash, "measure", "SIGBUS")
			}
			return times(rng, b, 1.1)
		}},
		{name: "A fails now and then, B always", answer: compare.Worse, class: bisect.Crash, why: "it fails in", show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			if b || n%5 == 0 {
				return failed(bisect.Crash, "measure", "SIGSEGV")
			}
			return times(rng, b, 1)
		}},
		{name: "unfit launches", answer: compare.Worse, show: func(rng *rand.Rand, b bool, n int) bisect.Outcome {
			o := times(rng, b, 1.1)
			if n == 2 {
				o.Unfit = "throttled: thermal"
			}
			if n == 3 {
				o.Marks = []bisect.Mark{{Kind: bisect.Shared, Text: "1 process"}}
			}
			return o
		}, check: func(t *testing.T, c compare.Result) {
			s := c.Sides[0]
			if len(s.Left) != 1 || s.Left[0] != (compare.LeftOut{Why: "throttled: thermal", N: 1}) || len(s.Marked) != 1 || s.Counted != s.Launches-1 {
				t.Errorf("%+v", s)
			}
		}},
		{name: "never fit", answer: compare.Open, warn: "in a row could not be compared", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			o := times(rng, b, 1)
			o.Unfit = "throttled"
			return o
		}},
		{name: "one case of four", answer: compare.Worse, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			o := bisect.Outcome{}
			for i := range 4 {
				o.Series = append(o.Series, times(rng, b && i == 2, 1.2).Series[0])
				o.Series[i].Case = fmt.Sprintf("n%d", i)
			}
			return o
		}, check: func(t *testing.T, c compare.Result) {
			for _, k := range c.Contrasts {
				if k.Case == "n2" && k.Answer != compare.Worse || k.Case != "n2" && !k.All && k.Answer == compare.Worse {
					t.Errorf("%s %s: %s", k.Metric.Name, k.Case, k.Answer)
				}
				if k.P > k.Adjusted {
					t.Errorf("p %v, corrected %v", k.P, k.Adjusted)
				}
			}
		}},
		{name: "a case of one side", answer: compare.Alike, warn: "only A gives time of n1", show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			o := times(rng, b, 1)
			o.Series[0].Case = "n0"
			if !b {
				o.Series = append(o.Series, samples("time", "n1", 5000))
			}
			return o
		}, check: func(t *testing.T, c compare.Result) {
			if len(c.Contrasts) != 1 || c.Contrasts[0].Case != "n0" {
				t.Errorf("%+v", c.Contrasts)
			}
		}},
		{name: "wall instead", answer: compare.Alike, warn: "wall is compared instead", with: compare.Experiment{Fallback: &metric.Metric{Name: "wall"}},
			show: func(*rand.Rand, bool, int) bisect.Outcome { return bisect.Outcome{} }},
		{name: "hopeless", answer: compare.Open, show: func(rng *rand.Rand, b bool, _ int) bisect.Outcome {
			return bisect.Outcome{Series: []bisect.Series{samples("time", "", 30*(1+2*rng.Float64()))}}
		}, check: func(t *testing.T, c compare.Result) {
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
	run(t, s, compare.Experiment{Pairs: 5})
	if got, want := strings.Join(s.order, " "), "A0 B0 B1 A1 A2 B2 B3 A3 A4 B4"; got != want {
		t.Errorf("launched %s, want %s", got, want)
	}
}

// TestCompareEnough: the caller may end pairs early, though not before five, and the bounds hold in spite of the looks.
func TestCompareEnough(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct{ from, pairs int }{{0, compare.MinPairs}, {7, 7}, {100, 8}} {
		s := &script{show: func(b bool, _ int) bisect.Outcome { return times(rng, b, 1) }}
		got := run(t, s, compare.Experiment{Pairs: 8, Purpose: "seed", Enough: func(all []compare.Contrast) bool { return all[0].Pairs >= x.from }})
		if got.Pairs != x.pairs {
			t.Errorf("enough from %d on: %d pairs, want %d", x.from, got.Pairs, x.pairs)
		}
	}
	missed, trials := 0, 400
	for range trials { // it ends as soon as the bounds leave out that both are alike, as they are
		s := &script{show: func(b bool, _ int) bisect.Outcome { return times(rng, b, 1) }}
		outside := func(k compare.Contrast) bool { return k.Bound.Low > 1 || k.Bound.High < 1 }
		got := run(t, s, compare.Experiment{Pairs: 8, Error: 0.05, Enough: func(all []compare.Contrast) bool { return outside(all[0]) }})
		if outside(got.Contrasts[0]) {
			missed++
		}
	}
	if missed > trials*5/100 {
		t.Errorf("%d of %d intervals of 95 %% miss", missed, trials)
	}
	t.Logf("%d of %d miss", missed, trials)
}

func TestCompareUnknownMetric(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := compare.Experiment{
		Metrics: []metric.Metric{{Name: "speed"}},
		Sampler: &script{show: func(b bool, _ int) bisect.Outcome { return times(rng, b, 1) }},
	}
	_, err := c.Run(context.Background())
	var unknown *compare.UnknownMetricError
	if !errors.As(err, &unknown) || unknown.Wanted != "speed" || strings.Join(unknown.Sent, " ") != "time wall" {
		t.Errorf("%v", err)
	}
}

func TestCompareStops(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	n := 0
	s := &script{show: func(b bool, _ int) bisect.Outcome { n++; return times(rng, b, 1) }}
	got := run(t, s, compare.Experiment{Spent: func() bool { return n >= 6 }})
	if got.Answer != compare.Open || !got.Spent || got.Pairs != 3 || len(got.Contrasts) != 1 {
		t.Errorf("%s after %d pairs, spent %v", got.Answer, got.Pairs, got.Spent)
	}
	for made, pairs := range map[int]int{0: 0, 1: 0, 6: 3, 7: 3} { // a launch that is cut off is none
		n := 0
		s := &script{show: func(b bool, _ int) bisect.Outcome { return times(rng, b, 1) }}
		got := run(t, bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
			if n++; n > made {
				return bisect.Outcome{}, bisect.ErrSpent
			}
			return s.Sample(ctx, r)
		}), compare.Experiment{})
		if got.Answer != compare.Open || !got.Spent || got.Pairs != pairs || n != made+1 {
			t.Errorf("cut off after %d launches: %s after %d pairs and %d launches, spent %v", made, got.Answer, got.Pairs, n, got.Spent)
		}
	}
	broken := compare.Experiment{Sampler: sampled(func() (bisect.Outcome, error) {
		if n++; n > 9 {
			return bisect.Outcome{}, &bisect.InfraError{What: "testing", Err: errors.New("device lost")}
		}
		o := times(rng, false, 1)
		o.Class = bisect.OK
		return o, nil
	}), Metrics: []metric.Metric{{Name: "time"}}}
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
		answer       compare.Answer
		least        int // trials with that answer
	}{
		{machines[0], 0, 0.03, 0, 40, compare.Alike, 39},
		{machines[1], 0, 0.03, 0, 40, compare.Alike, 39},
		{machines[2], 0, 0.03, 0, 12, compare.Alike, 11},
		{machines[3], 0, 0.03, 0, 12, compare.Alike, 11},
		{machines[1], 0.02956, 0.03, 0, 40, compare.Worse, 38},
		{machines[1], -0.02956, 0.03, 0, 40, compare.Better, 38},
		{machines[2], 0.0488, 0.03, 0, 12, compare.Worse, 11},
		{machines[0], 0.00995, 0.01, 0, 20, compare.Worse, 18},
	} {
		got := fight(t, x.spec, x.step, x.effect, x.pairs, x.trials)
		t.Logf("%s step %v: %v", x.spec, x.step, got)
		if got.answers[x.answer] < x.least {
			t.Errorf("%s step %v: %v", x.spec, x.step, got)
		}
	}
	for _, spec := range machines { // one look at six pairs
		got := fight(t, spec, 0, 0.001, 6, 60)
		if wrong := got.answers[compare.Worse] + got.answers[compare.Better]; wrong > 3 {
			t.Errorf("A/A on %s: %v", spec, got)
		}
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
	accepts := func(limit float64) func(metric.Metric, string, float64) bool {
		return func(m metric.Metric, one string, ratio float64) bool {
			return m.Name == "time" && one != "n1" && ratio <= limit
		}
	}
	for _, x := range []struct {
		name        string
		spread      float64
		with        compare.Experiment
		answer      compare.Answer
		n0, n1, n2  compare.Answer
		least, most int
	}{
		{"each has its answer", 0.005, compare.Experiment{Every: true}, compare.Worse, compare.Worse, compare.Alike, compare.Alike, 7, 20},
		{"one stays open, but not for ever", 0.1, compare.Experiment{Every: true}, compare.Worse, compare.Worse, compare.Alike, compare.Open, 14, 20},
		{"the first ends it", 0.1, compare.Experiment{}, compare.Worse, compare.Worse, "", compare.Open, 7, 10},
		{"accepted", 0.005, compare.Experiment{Every: true, Accepts: accepts(1.25)}, compare.Alike, compare.Accepted, compare.Alike, compare.Alike, 7, 20},
		{"more than is accepted", 0.005, compare.Experiment{Every: true, Accepts: accepts(1.15)}, compare.Worse, compare.Worse, compare.Alike, compare.Alike, 7, 20},
	} {
		t.Run(x.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(31, 32))
			one := show(x.spread)
			got := run(t, &script{show: func(b bool, _ int) bisect.Outcome { return one(rng, b) }}, x.with)
			is := map[string]compare.Answer{}
			for _, k := range got.Contrasts {
				is[k.Case] = k.Answer
			}
			if got.Answer != x.answer || is["n0"] != x.n0 || x.n1 != "" && is["n1"] != x.n1 || is["n2"] != x.n2 || got.Pairs < x.least || got.Pairs > x.most {
				t.Errorf("%s after %d pairs: %v", got.Answer, got.Pairs, is)
			}
		})
	}
}

// A comparison takes 0 for a half in ratios and for 0 elsewhere.
func TestCompareExact(t *testing.T) {
	s := &script{show: func(b bool, _ int) bisect.Outcome {
		return bisect.Outcome{Series: []bisect.Series{exactly("spills", "k", map[bool]float64{true: 40}[b]), exactly("spills", "j", 0)}}
	}}
	got := run(t, s, compare.Experiment{Metrics: []metric.Metric{{Name: "spills", Exact: true}}})
	for _, x := range got.Contrasts {
		if x.Case == "k" && (x.A.Median != 0 || x.B.Median < 39.99 || x.Ratio.Value < 79.99 || x.Ratio.Value > 80.01 || x.Answer != compare.Worse) {
			t.Errorf("%+v", x)
		}
		if x.Case == "j" && x.Answer != compare.Alike {
			t.Errorf("%+v", x)
		}
	}
	if got.Answer != compare.Worse || len(got.Contrasts) != 3 {
		t.Errorf("%s, %d contrasts", got.Answer, len(got.Contrasts))
	}
}

func exactly(metric, kernel string, v float64) bisect.Series {
	return bisect.Series{Metric: metric, Case: kernel, Values: []float64{v}}
}

// exactlyAll are the numbers of a build: name and number in turn.
func exactlyAll(metric string, pairs ...any) (out []bisect.Series) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, exactly(metric, pairs[i].(string), float64(pairs[i+1].(int))))
	}
	return out
}

// A template with other arguments is one kernel in a comparison, too, as long as no other of its function came
// or went.
func TestCompareExactTemplates(t *testing.T) {
	for _, c := range []struct {
		a, b []bisect.Series
		want string
		gone int
	}{
		{exactlyAll("stack", "walk<16>", 64, "walk<8>", 8), exactlyAll("stack", "walk<24>", 96, "walk<8>", 8), "walk<8> no-difference, walk<24> regression", 0},
		{exactlyAll("stack", "walk<16>", 64, "k", 8), exactlyAll("stack", "walk<24>", 96, "walk<32>", 96, "k", 8), "k no-difference, walk<16> cannot-tell", 1},
	} {
		s := &script{show: func(b bool, _ int) bisect.Outcome {
			if b {
				return bisect.Outcome{Series: c.b}
			}
			return bisect.Outcome{Series: c.a}
		}}
		got := run(t, s, compare.Experiment{Every: true, Metrics: []metric.Metric{{Name: "stack", Exact: true}}})
		var words []string
		for _, x := range got.Contrasts {
			words = append(words, x.Case+" "+string(x.Answer))
			if x.Case == "walk<24>" && (x.Was != "stack of walk<16>" || x.A.Median < 63.99 || x.A.Median > 64.01 || x.B.Median < 95.99 || x.B.Median > 96.01) {
				t.Errorf("%+v", x)
			}
		}
		if s := strings.Join(words, ", "); s != c.want || strings.Contains(strings.Join(got.Warnings, ""), "only A gives") != (c.gone > 0) {
			t.Errorf("got %s, want %s; %q", s, c.want, got.Warnings)
		}
	}
}
