package metric_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// built is a build of kernels, each with a number: "f<8> 3, g 0".
func built(name, kernels string) (o bisect.Outcome) {
	for _, k := range strings.Split(kernels, ", ") {
		at := strings.LastIndexByte(k, ' ')
		if at < 0 {
			continue
		}
		var v float64
		fmt.Sscan(k[at+1:], &v)
		o.Series = append(o.Series, bisect.Series{Metric: name, Case: k[:at], Values: []float64{v}})
	}
	return o
}

func TestFamily(t *testing.T) {
	for name, want := range map[string]string{
		"gemm":                              "gemm",
		"gemm<128, 64>":                     "gemm",
		"gemm<T<int>, (Kind)2>(float*)":     "gemm",
		"ns::gemm<8>::run(int)":             "ns::gemm",
		"void gemm<float>(float*) [sm_90a]": "void gemm [sm_90a]",
		"":                                  "",
	} {
		if got := metric.Family(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// Which kernels two builds have in common: by name, as a template with other arguments, as a step from nothing or to
// it, or else whichever is worst.
func TestKernels(t *testing.T) {
	for name, c := range map[string]struct {
		metric, good, bad string
		channels          []string // NAME or WAS -> NAME
		left              [2][]string
	}{
		"the same":                        {"registers", "f 8, g 9", "g 10, f 8", []string{"f -> f", "g -> g"}, [2][]string{}},
		"a template with other arguments": {"registers", "f<8> 8, g 9", "f<16> 9, g 9", []string{"g -> g", "f<8> -> f<16>"}, [2][]string{}},
		"two of one function":             {"registers", "f<8> 8, g 1", "f<16> 9, f<32> 9, g 1", []string{"g -> g"}, [2][]string{{"f<8>"}, {"f<16>", "f<32>"}}},
		"one that is new has registers":   {"registers", "f 8", "f 8, g 200", []string{"f -> f"}, [2][]string{nil, {"g"}}},
		"one that is new spills":          {"spills", "f 0", "f 0, g 4", []string{"f -> f", "g -> g"}, [2][]string{}},
		"one that is new spills nothing":  {"spills", "f 0", "f 0, g 0", []string{"f -> f"}, [2][]string{nil, {"g"}}},
		"one that is gone spilled":        {"stack", "f 0, g 8", "f 0", []string{"f -> f", "g -> g"}, [2][]string{}},
		"a new name for what spilled":     {"spills", "old 8", "new 8", []string{"worst"}, [2][]string{{"old"}, {"new"}}},
		"more than what went":             {"spills", "old 8", "new 12", []string{"new -> new"}, [2][]string{{"old"}, nil}},
		"nothing in common":               {"registers", "f 8", "g 9", []string{"worst"}, [2][]string{{"f"}, {"g"}}},
	} {
		m := metric.Metric{Name: c.metric, Exact: true}
		cs, left := metric.Kernels(m, built(c.metric, c.good), built(c.metric, c.bad))
		var got []string
		for _, ch := range cs {
			if ch.OfWorst() {
				got = append(got, "worst")
			} else {
				got = append(got, ch.Was()+" -> "+ch.Case)
			}
		}
		if !slices.Equal(got, c.channels) || !slices.Equal(left[0], c.left[0]) || !slices.Equal(left[1], c.left[1]) {
			t.Errorf("%s: %q, left %q, want %q, %q", name, got, left, c.channels, c.left)
		}
	}
}

// The number of a kernel in a build in between: by one of its names, or as the only other one of its function. Of a
// number that a kernel should have none of, one that is not there has none; otherwise the build does not tell.
func TestFigures(t *testing.T) {
	ends := func(name string) (f, worst metric.Channel) {
		m := metric.Metric{Name: name, Exact: true}
		cs, _ := metric.Kernels(m, built(name, "f<8> 8, g 1"), built(name, "f<16> 16, g 1"))
		none, _ := metric.Kernels(m, built(name, "a 1"), built(name, "b 1"))
		return cs[1], none[0]
	}
	for name, c := range map[string]struct {
		metric, build string
		worst         bool
		want          string // as people read it; "" for none
	}{
		"as at the good end":           {"registers", "f<8> 9, g 1", false, "9 (f<8>)"},
		"as at the bad end":            {"registers", "f<16> 9, g 1", false, "9"},
		"both, the worse counts":       {"registers", "f<8> 9, f<16> 7", false, "9 (f<8>)"},
		"both, the later is worse":     {"registers", "f<8> 9, f<16> 11", false, "11"},
		"a third template":             {"registers", "f<4> 9, g 1", false, "9 (f<4>)"},
		"two others of its function":   {"registers", "f<4> 9, f<2> 3", false, ""},
		"gone":                         {"registers", "g 1", false, ""},
		"gone, and so spills nothing":  {"spills", "g 1", false, "0 (no such kernel)"},
		"nothing was reported at all":  {"spills", "", false, ""},
		"none":                         {"spills", "f<8> 0, g 1", false, "0 (f<8>)"},
		"the worst of all":             {"registers", "x 3, y 7", true, "7 (y)"},
		"the worst of nothing":         {"registers", "", true, ""},
		"the worst, which spills none": {"spills", "x 0", true, "0 (x)"},
	} {
		f, worst := ends(c.metric)
		if c.worst {
			f = worst
		}
		o := built(c.metric, c.build)
		o.Series = append(o.Series, built("other", "f<8> 99").Series...)
		figure, ok := f.Figure(o)
		if ok != (c.want != "") || ok && f.Words(figure) != c.want {
			t.Errorf("%s: %q %v, want %q", name, f.Words(figure), ok, c.want)
		}
		level, told := f.Level(o)
		if told != ok || level != figure.Level || (f.Lacks(o) == "") != ok {
			t.Errorf("%s: level %v %v, lacks %q", name, level, told, f.Lacks(o))
		}
		if part, same := f.Level(metric.NewParts(o).Of(f)); same != ok || part != level {
			t.Errorf("%s: %v %v of the part that it is about", name, part, same)
		}
	}
}

// The whole numbers of builds come back from their levels, 0 too, for all that a kernel can have of anything.
func TestWholeNumbersComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := float64(rapid.IntRange(0, 1<<40).Draw(t, "number"))
		m := metric.Metric{Name: "sass", Exact: true, Higher: rapid.Bool().Draw(t, "higher")}
		c := metric.Channel{Metric: m, Case: "k"}
		level, ok := c.Level(bisect.Outcome{Series: []bisect.Series{{Metric: "sass", Case: "k", Values: []float64{v}}}})
		if got := c.Value(level); !ok || got != v {
			t.Fatalf("%v became %v", v, got)
		}
	})
}

// Cases that only one of two launches gives are named, but for a kernel that has another name.
func TestOneSided(t *testing.T) {
	times, regs := metric.Metric{Name: "time"}, metric.Metric{Name: "registers", Exact: true}
	a, b := built("time", "m=1 3, m=2 4"), built("time", "m=2 4, m=3 5")
	a.Series, b.Series = append(a.Series, built("registers", "f<8> 8, g 1").Series...), append(b.Series, built("registers", "f<16> 9").Series...)
	got := metric.OneSided([]metric.Metric{times, regs}, [2]bisect.Outcome{a, b}, [2]string{"A", "B"})
	want := []string{"only A gives time of m=1: it is not compared", "only B gives time of m=3: it is not compared", "only A gives registers of g: it is not compared"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A whole of certain cases is no number of a launch that lacks one of them, and leaves others out.
func TestWholeOfSharedCases(t *testing.T) {
	m := metric.Metric{Name: "time"}
	a, b := built("time", "x 1, y 4, z 100"), built("time", "x 2, y 8")
	whole := metric.Channels([]metric.Metric{m}, a, b)[0]
	for _, c := range []struct {
		o     bisect.Outcome
		value float64
		lacks string
	}{
		{a, 2, ""}, {b, 4, ""}, {built("time", "x 1, z 5"), 0, "time of y"}, {built("other", "x 1, y 1"), 0, "time"},
	} {
		level, ok := whole.Level(c.o)
		if ok != (c.lacks == "") || ok && math.Abs(whole.Value(level)-c.value) > 1e-9 || whole.Lacks(c.o) != c.lacks {
			t.Errorf("%+v: %v %v, lacks %q", c.o.Series, whole.Value(level), ok, whole.Lacks(c.o))
		}
	}
	one := metric.Channel{Metric: m, Case: "z"}
	if one.Lacks(a) != "" || one.Lacks(b) != "time of z" || one.Name() != "time of z" {
		t.Errorf("one case: %q, %q", one.Lacks(a), one.Lacks(b))
	}
	wall := metric.Channel{Metric: metric.Metric{Name: "wall"}, All: true}
	if wall.Lacks(bisect.Outcome{Wall: 1}) != "" || wall.Lacks(bisect.Outcome{}) != "wall" || wall.Unit(bisect.Outcome{}) != "s" {
		t.Error("the wall clock")
	}
}

// Numbers that are no measurement are as good as none: they have no logarithm.
func TestNoNumbers(t *testing.T) {
	m := metric.Metric{Name: "time"}
	for _, values := range [][]float64{nil, {0}, {-1}, {1e300}, {1e-300}, {math.NaN()}, {-3, 0, 2}} {
		o := bisect.Outcome{Series: []bisect.Series{{Metric: "time", Values: values}}}
		if level, ok := m.Level(o); ok || len(metric.Cases(m, o)) > 0 {
			t.Errorf("%v: %v", values, level)
		}
	}
	if !math.IsNaN(metric.Median(nil)) || metric.Median([]float64{9, 1, 2, 4}) != 3 {
		t.Error("median")
	}
	o := bisect.Outcome{Wall: 1, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 1}, {Name: "none"}}, Series: []bisect.Series{{Metric: "time", Values: []float64{1}}, {Metric: "time", Case: "x", Values: []float64{1}}, {Metric: "bad", Values: []float64{0}}}}
	if got := metric.Sent(o); !slices.Equal(got, []string{"phase.load", "time", "wall"}) {
		t.Errorf("sent %q", got)
	}
	if got := metric.SentByBoth(o, bisect.Outcome{Wall: 1, Phases: o.Phases[:1]}); !slices.Equal(got, []string{"phase.load", "wall"}) {
		t.Errorf("sent by both %q", got)
	}
}

// Why a direction is unknown, and what to do.
func TestDirectionErrors(t *testing.T) {
	for _, c := range []struct {
		units []string
		want  string
	}{
		{[]string{""}, "metric m: is higher or lower better? its values have no unit\nhint: say better = "},
		{[]string{"widgets"}, `metric m: is higher or lower better? its unit "widgets" is unknown`},
		{[]string{"s", "B/s"}, `its values have the units ["s" "B/s"]`},
	} {
		var o bisect.Outcome
		for _, u := range c.units {
			o.Series = append(o.Series, bisect.Series{Metric: "m", Unit: u, Values: []float64{1}})
		}
		known := metric.Metric{Name: "wall"}
		out, err := metric.Directed([]metric.Metric{known, {Name: "m"}}, o)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(out) != 2 || out[1].Better() != metric.Lower {
			t.Errorf("%q: %v %+v", c.units, err, out)
		}
	}
	out, err := metric.Directed([]metric.Metric{{Name: "m"}}, bisect.Outcome{Series: []bisect.Series{{Metric: "m", Unit: "GB/s", Values: []float64{1}}}})
	if err != nil || out[0].Better() != metric.Higher {
		t.Errorf("%v %+v", err, out)
	}
}

// Values of one kind compare whatever unit they come in: a prefix more, and a thousandth of the number.
func TestBaseUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(1e-3, 1e6).Draw(t, "value")
		pair := rapid.SampledFrom([][3]string{{"ms", "us", "1000"}, {"GB/s", "MB/s", "1000"}, {"KiB", "B", "1024"}, {"min", "s", "60"}, {"op/s", "op/min", "60"}, {"ns/op", "us/op", "0.001"}, {"ktoken/s", "token/s", "1000"}}).Draw(t, "units")
		var factor float64
		fmt.Sscan(pair[2], &factor)
		a, unitA := metric.Base(v, pair[0])
		b, unitB := metric.Base(v*factor, pair[1])
		if unitA != unitB || math.Abs(a/b-1) > 1e-9 {
			t.Fatalf("%v %s is %v %s, %v %s is %v %s", v, pair[0], a, unitA, v*factor, pair[1], b, unitB)
		}
	})
	for _, unit := range []string{"", "s", "widgets", "%"} {
		if v, u := metric.Base(3, unit); v != 3 || u != unit {
			t.Errorf("%q: %v %s", unit, v, u)
		}
	}
	for _, symbol := range []string{"IPS", "TEPS", "Mrps", "ktps", "pps"} {
		if u, ok := metric.ParseUnit(symbol); !ok || u.Better != metric.Higher || !strings.HasSuffix(u.Base, "/s") {
			t.Errorf("%s: %+v %v", symbol, u, ok)
		}
	}
}
