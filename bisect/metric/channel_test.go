package metric_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// outcome holds one sample for each "metric case value".
func outcome(series ...any) bisect.Outcome {
	o := bisect.Outcome{Class: bisect.OK, Wall: 3, Phases: []bisect.PhaseTime{{Name: "measure", Seconds: 2}}}
	for i := 0; i < len(series); i += 3 {
		o.Series = append(o.Series, bisect.Series{Metric: series[i].(string), Case: series[i+1].(string), Unit: "us", Values: []float64{series[i+2].(float64)}})
	}
	return o
}

func names(cs []metric.Channel) string {
	var out []string
	for _, c := range cs {
		out = append(out, c.Name())
	}
	return strings.Join(out, ", ")
}

// A whole comes before its cases, and only what both launches give is compared.
func TestChannelsOfTwoLaunches(t *testing.T) {
	time, spills := metric.Metric{Name: "time"}, metric.Metric{Name: "spills", Exact: true}
	for _, c := range []struct {
		name     string
		ms       []metric.Metric
		a, b     bisect.Outcome
		channels string // of the ends of a search
		both     string // of a comparison
	}{
		{"cases", []metric.Metric{time}, outcome("time", "a", 1.0, "time", "b", 2.0), outcome("time", "a", 1.0, "time", "b", 3.0), "time, time of a, time of b", "time, time of a, time of b"},
		{"one case", []metric.Metric{time}, outcome("time", "a", 1.0), outcome("time", "a", 2.0), "time", "time"},
		{"a case less", []metric.Metric{time}, outcome("time", "a", 1.0, "time", "b", 2.0), outcome("time", "a", 1.0), "time", "time of a"},
		{"none in common", []metric.Metric{time}, outcome("time", "a", 1.0, "time", "b", 1.0), outcome("time", "c", 1.0), "", ""},
		{"of the process unless samples are sent", []metric.Metric{{Name: "time"}, {Name: "wall", Fallback: true}}, outcome("time", "", 1.0), outcome("time", "", 1.0), "time", "time, wall"},
		{"of the process as none are sent", []metric.Metric{{Name: "time"}, {Name: "wall", Fallback: true}}, outcome(), outcome(), "wall", "wall"},
		{"of the process", []metric.Metric{{Name: "wall"}, {Name: "phase.measure"}, {Name: "phase.check"}}, outcome(), outcome(), "wall, phase.measure", "wall, phase.measure"},
		{"counted", []metric.Metric{{Name: "cpu", Counted: true}, {Name: "instructions", Counted: true}}, outcome("cpu", "", 1.0), outcome("cpu", "", 2.0), "cpu", "cpu"},
		{"not above 0", []metric.Metric{time}, outcome("time", "a", 0.0), outcome("time", "a", 1.0), "", ""},
		{"a template with other arguments", []metric.Metric{spills}, outcome("spills", "k<1>", 0.0, "spills", "j", 1.0), outcome("spills", "k<2>", 8.0, "spills", "j", 1.0), "", "spills of j, spills of k<2>"},
	} {
		if got := names(metric.Channels(c.ms, c.a, c.b)); got != c.channels {
			t.Errorf("%s: channels %q, want %q", c.name, got, c.channels)
		}
		if got := names(metric.InBoth(c.ms, [2]bisect.Outcome{c.a, c.b})); got != c.both {
			t.Errorf("%s: in both %q, want %q", c.name, got, c.both)
		}
	}
	cs := metric.InBoth([]metric.Metric{spills}, [2]bisect.Outcome{outcome("spills", "k<1>", 0.0), outcome("spills", "k<2>", 8.0)})
	if len(cs) != 1 || cs[0].Was() != "k<1>" || cs[0].OfWorst() {
		t.Errorf("%+v", cs)
	}
}

// in puts the values of one case of an outcome into another unit.
func in(o bisect.Outcome, one, unit string) bisect.Outcome {
	o.Series = slices.Clone(o.Series)
	for i := range o.Series {
		if o.Series[i].Case == one {
			o.Series[i].Unit = unit
		}
	}
	return o
}

// Numbers in other units than the ends' are none of the channel: they have no ratio.
func TestUnitsOfTwoLaunches(t *testing.T) {
	ms := []metric.Metric{{Name: "time"}}
	one, two := outcome("time", "", 10.0), outcome("time", "a", 1.0, "time", "b", 2.0)
	both := outcome("time", "", 10.0)
	both.Series = append(both.Series, in(one, "", "").Series...)
	renamed := in(outcome("time", "z", 1.0), "z", "MB/s")
	for _, c := range []struct {
		name        string
		a, b        bisect.Outcome
		ends, pairs string // channels of a search and of a comparison
		clash       string
	}{
		{"the same", one, one, "time", "time", ""},
		{"a unit that comes", in(one, "", ""), one, "", "", "A gives time without a unit, B in us"},
		{"a unit that goes", one, in(one, "", ""), "", "", "A gives time in us, B without a unit"},
		{"no unit at all", in(one, "", ""), in(one, "", ""), "time", "time", ""},
		{"two units unknown", in(one, "", "bananas"), in(one, "", "apples"), "", "", "A gives time in bananas, B in apples"},
		{"two units at once", both, one, "", "", "A gives time without a unit and in us, B in us"},
		{"two units at once in both", both, both, "", "", "A gives time without a unit and in us, B without a unit and in us"},
		{"one case", two, in(two, "b", "MB/s"), "time", "time of a", "A gives time of b in us, B in MB/s"},
		{"a unit for each case", in(two, "b", "MB/s"), in(two, "b", "MB/s"), "time, time of a, time of b", "time, time of a, time of b", ""},
		{"a case of another name", outcome("time", "y", 1.0), renamed, "", "", ""},
	} {
		launches, sides := [2]bisect.Outcome{c.a, c.b}, [2]string{"A", "B"}
		if got := names(metric.Channels(ms, c.a, c.b)); got != c.ends {
			t.Errorf("%s: channels %q, want %q", c.name, got, c.ends)
		}
		if got := names(metric.InBoth(ms, launches)); got != c.pairs {
			t.Errorf("%s: in both %q, want %q", c.name, got, c.pairs)
		}
		if got := strings.Join(metric.Clashes(ms, launches, sides), "; "); got != c.clash {
			t.Errorf("%s: clash %q, want %q", c.name, got, c.clash)
		}
	}
	whole := metric.Channels(ms, two, two)[0]
	for _, c := range []struct {
		o     bisect.Outcome
		lacks string
	}{{two, ""}, {in(two, "b", ""), "time in us"}, {outcome("time", "a", 1.0), "time of b"}} {
		if _, ok := whole.Level(c.o); ok != (c.lacks == "") || whole.Lacks(c.o) != c.lacks {
			t.Errorf("level %v, lacks %q, want %q", ok, whole.Lacks(c.o), c.lacks)
		}
	}
}

// The level of a launch is a logarithm of which larger is worse, and the number can be read back from it.
func TestLevels(t *testing.T) {
	two := outcome("time", "a", 2.0, "time", "b", 8.0)
	for _, c := range []struct {
		name  string
		m     metric.Metric
		one   string
		o     bisect.Outcome
		level float64
		value float64
		ok    bool
	}{
		{"mean over cases", metric.Metric{Name: "time"}, "", two, math.Log(4), 4, true},
		{"one case", metric.Metric{Name: "time"}, "b", two, math.Log(8), 8, true},
		{"higher is better", metric.Metric{Name: "time", Higher: true}, "b", two, -math.Log(8), 8, true},
		{"no such case", metric.Metric{Name: "time"}, "c", two, 0, 0, false},
		{"wall", metric.Metric{Name: "wall"}, "", two, math.Log(3), 3, true},
		{"phase", metric.Metric{Name: "phase.measure"}, "", two, math.Log(2), 2, true},
		{"counted", metric.Metric{Name: "cpu", Counted: true}, "", outcome("cpu", "", 4.0), math.Log(4), 4, true},
		{"counted for no case", metric.Metric{Name: "cpu", Counted: true}, "a", outcome("cpu", "", 4.0), 0, 0, false},
		{"counted under the clock's name", metric.Metric{Name: "wall", Counted: true}, "", outcome("wall", "", 4.0), math.Log(4), 4, true},
		{"0 counts as a half", metric.Metric{Name: "spills", Exact: true}, "k", outcome("spills", "k", 0.0), math.Log(0.5), 0, true},
		{"a whole number", metric.Metric{Name: "spills", Exact: true}, "k", outcome("spills", "k", 40.0), math.Log(40), 40, true},
		{"not fit to be compared", metric.Metric{Name: "time"}, "b", bisect.Outcome{Series: two.Series, Unfit: "throttled"}, 0, 0, false},
	} {
		level, ok := metric.Channel{Metric: c.m, Case: c.one, All: c.one == ""}.Level(c.o)
		if ok != c.ok || ok && math.Abs(level-c.level) > 1e-12 {
			t.Errorf("%s: level %v, %v, want %v, %v", c.name, level, ok, c.level, c.ok)
		}
		if v, ok := c.m.Value(c.o, c.one); ok != c.ok || ok && math.Abs(v-c.value) > 1e-9 {
			t.Errorf("%s: value %v, %v, want %v, %v", c.name, v, ok, c.value, c.ok)
		}
	}
}

// A launch that filled the caches speaks of one metric that the program measures itself, and of nothing else.
func TestOnly(t *testing.T) {
	o := bisect.Outcome{Only: "t", Wall: 3, CPU: 2, Phases: []bisect.PhaseTime{{Name: "run", Seconds: 3}},
		Series: []bisect.Series{{Metric: "t", Unit: "s", Values: []float64{1}}, {Metric: "u", Unit: "s", Values: []float64{1}}}}
	for _, name := range []string{"t", "u", "wall", "phase.run"} {
		if _, ok := (metric.Metric{Name: name}).Level(o); ok != (name == "t") {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

// The fastest tenth is that of the highest samples where more is better, and of one sample at least.
func TestFastestTenth(t *testing.T) {
	many := make([]float64, 30)
	for i := range many {
		many[i] = float64(30 - i)
	}
	for _, c := range []struct {
		metric metric.Metric
		values []float64
		want   float64 // NaN: none
	}{
		{metric.Metric{Name: "m"}, many, 2},
		{metric.Metric{Name: "m", Higher: true}, many, 29},
		{metric.Metric{Name: "m"}, []float64{5, 3, 4}, 3},
		{metric.Metric{Name: "m"}, nil, math.NaN()},
		{metric.Metric{Name: "m"}, []float64{0, 1}, math.NaN()},
	} {
		o := bisect.Outcome{Series: []bisect.Series{{Metric: "m", Case: "a", Values: c.values}, {Metric: "other", Case: "a", Values: []float64{7}}}}
		at := metric.Channel{Metric: c.metric, Case: "a"}
		y, ok := at.Fastest(true).Level(o)
		if got := at.Positive(y); ok == math.IsNaN(c.want) || ok && math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v of %+v: %g, %v, want %g", c.values, c.metric, got, ok, c.want)
		}
	}
	if y, ok := (metric.Channel{Metric: metric.Metric{Name: "m"}, Case: "a"}).Fastest(true).Fastest(false).Level(bisect.Outcome{Series: []bisect.Series{{Metric: "m", Case: "a", Values: many}}}); !ok || math.Abs(math.Exp(y)-15.5) > 1e-9 {
		t.Errorf("the median: %g", math.Exp(y))
	}
}

// Fastest tenths are alike where launches give about as many samples of a case.
func TestEven(t *testing.T) {
	launch := func(n ...int) (o bisect.Outcome) {
		for i, n := range n {
			o.Series = append(o.Series, bisect.Series{Metric: "m", Case: string(rune('a' + i)), Values: slices.Repeat([]float64{1}, n)})
		}
		o.Series = append(o.Series, bisect.Series{Metric: "other", Values: []float64{0}})
		return o
	}
	zero := launch(30)
	zero.Series[0].Values[7] = 0
	for name, c := range map[string]struct {
		launches []bisect.Outcome
		want     bool
	}{
		"alike":               {[]bisect.Outcome{launch(20, 60), launch(30, 50)}, true},
		"one without a case":  {[]bisect.Outcome{launch(20, 60), launch(30)}, true},
		"few":                 {[]bisect.Outcome{launch(19)}, false},
		"far more in another": {[]bisect.Outcome{launch(20, 60), launch(31, 60)}, false},
		"a zero":              {[]bisect.Outcome{launch(30), zero}, false},
		"none":                {[]bisect.Outcome{launch()}, false},
	} {
		if got := (metric.Metric{Name: "m"}).Even(c.launches, 20); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
