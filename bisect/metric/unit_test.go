package metric_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Units as programs print them: base, factor and direction.
func TestParseUnit(t *testing.T) {
	for _, c := range []struct {
		symbols string // separated by commas
		base    string
		factor  float64
		better  metric.Direction
	}{
		{"s,sec,seconds", "s", 1, metric.Lower},
		{"us,µs,μs,usec,microseconds", "s", 1e-6, metric.Lower},
		{"h", "s", 3600, metric.Lower},
		{"KiB", "B", 1024, metric.Lower},
		{"GB", "B", 1e9, metric.Lower},
		{"W", "W", 1, metric.Lower},
		{"cycles", "cycles", 1, metric.Lower},
		{"count", "count", 1, metric.Lower},
		{"%", "%", 1, metric.Unknown},
		{"x", "x", 1, metric.Higher},
		{"MB/s,MBytes/s,MB/sec,MBps,MB per second", "B/s", 1e6, metric.Higher},
		{"GiB/s", "B/s", 1 << 30, metric.Higher},
		{"GB/ms", "B/s", 1e12, metric.Higher},
		{"Gb/s,Gbps,Gbit/s,Gbits/sec", "bit/s", 1e9, metric.Higher},
		{"GFLOP/s,GFLOPS,gflops,GFLOPs/s,Gflop/s", "FLOP/s", 1e9, metric.Higher},
		{"TOPS,Top/s", "op/s", 1e12, metric.Higher},
		{"MHz", "Hz", 1e6, metric.Higher},
		{"op/s,ops/s,ops/sec,OPS,iops,IOPS", "op/s", 1, metric.Higher},
		{"it/s", "it/s", 1, metric.Higher},
		{"fps,FPS,frames/s,frame/sec", "frame/s", 1, metric.Higher},
		{"tokens/s,tok/s", "", 1, metric.Higher},
		{"ktokens/s,Ktoken/s", "token/s", 1e3, metric.Higher},
		{"images/min", "image/s", 1.0 / 60, metric.Higher},
		{"queries/s,qps", "query/s", 1, metric.Higher},
		{"MH/s", "hash/s", 1e6, metric.Higher},
		{"s/it", "s/it", 1, metric.Lower},
		{"ns/op", "s/op", 1e-9, metric.Lower},
		{"ms/token", "s/token", 1e-3, metric.Lower},
		{"B/op", "B/op", 1, metric.Lower},
	} {
		for _, s := range strings.Split(c.symbols, ",") {
			u, ok := metric.ParseUnit(s)
			if c.base == "" {
				u.Base = ""
			}
			if !ok || u.Base != c.base || math.Abs(u.Factor/c.factor-1) > 1e-12 || u.Better != c.better {
				t.Errorf("%q: %+v, %v, want %s, %g, %s", s, u, ok, c.base, c.factor, c.better)
			}
		}
	}
	for _, s := range append(strings.Split("US| us|parsec|widgets|widgets/s|/s|MB/|/|s/s|errors/s|MB/parsec|GHz/op|%/s|ps|flop|kk/s", "|"), "") {
		if u, ok := metric.ParseUnit(s); ok {
			t.Errorf("%q: %+v", s, u)
		}
	}
	for _, s := range metric.Units() {
		if _, ok := metric.ParseUnit(s); !ok {
			t.Errorf("%q is listed and not known", s)
		}
	}
}

// A direction comes from what the user said, else from the units that arrive, else from the name.
func TestDirection(t *testing.T) {
	sends := func(name string, units ...string) bisect.Outcome {
		var o bisect.Outcome
		for _, u := range units {
			o.Series = append(o.Series, bisect.Series{Metric: name, Unit: u, Values: []float64{1}})
		}
		return o
	}
	for _, c := range []struct {
		name string
		m    metric.Metric
		o    bisect.Outcome
		want metric.Direction
	}{
		{"a rate", metric.Metric{Name: "time"}, sends("time", "B/s"), metric.Higher},
		{"a time", metric.Metric{Name: "speed"}, sends("speed", "s"), metric.Lower},
		{"the user's word", metric.Metric{Name: "speed", Told: true}, sends("speed", "B/s"), metric.Lower},
		{"the user's other word", metric.Metric{Name: "time", Told: true, Higher: true}, sends("time", "s"), metric.Higher},
		{"the configured unit", metric.Metric{Name: "m", DefaultUnit: "GB/s"}, sends("m", ""), metric.Higher},
		{"the unit that arrives", metric.Metric{Name: "m", DefaultUnit: "us"}, sends("m", "op/s"), metric.Higher},
		{"the name", metric.Metric{Name: "gemm.tflops"}, sends("gemm.tflops", ""), metric.Higher},
		{"a name with a fraction", metric.Metric{Name: "tokens_per_s"}, sends("tokens_per_s", ""), metric.Higher},
		{"samples without a unit are times", metric.Metric{Name: "time"}, sends("time", ""), metric.Lower},
		{"unknown unit", metric.Metric{Name: "speed"}, sends("speed", "widgets"), metric.Unknown},
		{"no unit, no name", metric.Metric{Name: "m"}, sends("m", ""), metric.Unknown},
		{"share", metric.Metric{Name: "m"}, sends("m", "%"), metric.Unknown},
		{"contradiction", metric.Metric{Name: "m"}, sends("m", "s", "B/s"), metric.Unknown},
		{"agreement", metric.Metric{Name: "m"}, sends("m", "op/s", "B/s"), metric.Higher},
		{"nothing arrives", metric.Metric{Name: "m"}, sends("n", "B/s"), metric.Lower},
		{"of the process", metric.Metric{Name: "wall"}, bisect.Outcome{}, metric.Lower},
		{"exact", metric.Metric{Name: "sass", Exact: true}, sends("sass", ""), metric.Lower},
	} {
		got, err := c.m.Direction(c.o)
		var unknown *metric.DirectionError
		if got != c.want || errors.As(err, &unknown) != (c.want == metric.Unknown) {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func FuzzParseUnit(f *testing.F) {
	for _, s := range []string{"MB/s", "tokens per second", "Kibit/s", "s/it", "x", "µs", "m/ /s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, ok := metric.ParseUnit(s)
		if !ok {
			return
		}
		if !(u.Factor > 0) || math.IsInf(u.Factor, 0) || u.Base == "" || u.Better == "" {
			t.Fatalf("%q: %+v", s, u)
		}
		if again, ok := metric.ParseUnit(u.Base); !ok || again.Base != u.Base || again.Factor != 1 || again.Better != u.Better {
			t.Fatalf("%q: base %q reads as %+v, %v", s, u.Base, again, ok)
		}
	})
}

func BenchmarkBase(b *testing.B) {
	for b.Loop() {
		metric.Base(80, "MB/s")
	}
}

// TestBaseIsExact: parts of a unit are divided, since their factors have no exact form.
func TestBaseIsExact(t *testing.T) {
	for unit, want := range map[string]float64{"ns": 2000 / 1e9, "us": 2000 / 1e6, "ms": 2, "min": 120000, "GB": 2e12} {
		if got, _ := metric.Base(2000, unit); got != want {
			t.Errorf("2000 %s: %v, want %v", unit, got, want)
		}
	}
}
