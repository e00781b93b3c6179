package metric

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// Direction says which values of a number are better.
type Direction string

// The directions. Unknown is the direction of a number about which neither unit nor name says anything.
const (
	Lower   Direction = "lower"
	Higher  Direction = "higher"
	Unknown Direction = "unknown"
)

// Unit is a unit of measurement.
type Unit struct {
	Base   string  // the unit that values are kept in, such as s, B/s or token/s
	Factor float64 // times this gives a value in Base
	Better Direction
}

// Units lists the units that are written most often; ParseUnit reads more.
func Units() []string {
	return strings.Fields("ns us ms s min B kB MB GB KiB MiB GiB B/s MB/s GB/s TB/s GiB/s Gbit/s FLOP/s GFLOP/s TFLOP/s Hz MHz GHz op/s it/s token/s img/s fps cycles instructions W J % count")
}

// ParseUnit reads the symbol of a unit: an amount (ms, GiB, count), work in a time (GB/s, GFLOP/s, tokens/sec, fps),
// or an amount for a piece of work (us/op, B/op). Plurals and prefixes are understood; false for any other.
func ParseUnit(symbol string) (Unit, bool) {
	if u, ok := amount(symbol); ok {
		return u, true
	}
	over, under, ok := fraction(symbol)
	if !ok {
		return Unit{}, false
	}
	t, timed := amount(under)
	if timed = timed && t.Base == "s"; timed {
		w, ok := work(over)
		return Unit{w.Base + "/s", w.Factor / t.Factor, Higher}, ok
	}
	a, okAmount := amount(over)
	w, okWork := work(under)
	return Unit{a.Base + "/" + w.Base, a.Factor / w.Factor, Lower}, okAmount && okWork && a.Better == Lower
}

// amount reads a unit that is not a fraction.
func amount(s string) (Unit, bool) {
	switch s {
	case "s", "sec", "secs", "second", "seconds":
		return Unit{"s", 1, Lower}, true
	case "ms", "msec", "msecs", "millisecond", "milliseconds":
		return Unit{"s", 1e-3, Lower}, true
	case "us", "µs", "μs", "usec", "usecs", "microsecond", "microseconds": // the micro sign and the Greek letter
		return Unit{"s", 1e-6, Lower}, true
	case "ns", "nsec", "nsecs", "nanosecond", "nanoseconds":
		return Unit{"s", 1e-9, Lower}, true
	case "min", "minute", "minutes":
		return Unit{"s", 60, Lower}, true
	case "h", "hour", "hours":
		return Unit{"s", 3600, Lower}, true
	case "cycles", "instructions", "count", "W", "J":
		return Unit{s, 1, Lower}, true
	case "%":
		return Unit{s, 1, Unknown}, true // of the peak, or of the misses
	case "x":
		return Unit{s, 1, Higher}, true // a speedup
	}
	if u, factor := prefixed(s); u == "B" || strings.EqualFold(u, "byte") || strings.EqualFold(u, "bytes") {
		return Unit{"B", factor, Lower}, true
	} else if u == "Hz" {
		return Unit{"Hz", factor, Higher}, true
	}
	return Unit{}, false
}

// fraction splits a symbol at its slash, or at what is written for one.
func fraction(s string) (over, under string, ok bool) {
	for _, bar := range []string{"/", " per ", "_per_"} {
		if over, under, ok = strings.Cut(s, bar); ok {
			return strings.TrimSpace(over), strings.TrimSpace(under), true
		}
	}
	u, _ := prefixed(s)
	noun, ok := map[string]string{
		"FLOPS": "FLOP", "flops": "FLOP", "OPS": "op", "iops": "op", "IOPS": "op", "IPS": "instruction", "TEPS": "edge", "Bps": "B", "bps": "b",
		"fps": "frame", "FPS": "frame", "qps": "query", "rps": "request", "tps": "token", "pps": "packet",
	}[u]
	return strings.TrimSuffix(s, u) + noun, "s", ok
}

// work reads what is done in a time: bytes, bits, operations, or things that programs count.
func work(s string) (Unit, bool) {
	u, factor := prefixed(s)
	switch u {
	case "B", "b", "H":
		return Unit{Base: map[string]string{"B": "B", "b": "bit", "H": "hash"}[u], Factor: factor}, true
	}
	noun, ok := counted(u)
	switch noun {
	case "byte":
		noun = "B"
	case "flop":
		noun = "FLOP"
	}
	return Unit{Base: noun, Factor: factor}, ok
}

// counted reads the name of a thing that programs count, in the singular.
func counted(s string) (noun string, ok bool) {
	s = strings.ToLower(s)
	for _, ending := range [][2]string{{"", ""}, {"s", ""}, {"es", ""}, {"ies", "y"}} {
		if stem, cut := strings.CutSuffix(s, ending[0]); cut && isThing(stem+ending[1]) {
			return stem + ending[1], true
		}
	}
	return "", false
}

// isThing knows the nouns in which throughputs are counted.
func isThing(noun string) bool {
	switch noun {
	case "byte", "bit", "flop", "op", "operation", "it", "iter", "iteration", "item", "step", "run", "call", "launch", "kernel", "batch", "epoch", "task", "job",
		"token", "tok", "word", "char", "line", "sentence", "sequence", "seq", "sample", "example",
		"image", "img", "frame", "pixel", "pix", "voxel", "texel", "ray", "triangle",
		"request", "req", "query", "transaction", "tx", "message", "msg", "event", "packet",
		"row", "record", "key", "lookup", "insert", "hash", "file", "block", "element", "elem",
		"point", "particle", "atom", "body", "interaction", "cell", "site", "node", "vertex", "edge", "update", "instruction", "inst":
		return true
	}
	return false
}

// prefixed cuts a decimal or binary prefix off a unit that takes one; factor is 1 without.
func prefixed(s string) (unit string, factor float64) {
	if takesPrefix(s) || len(s) < 2 {
		return s, 1
	}
	const decimal, binary = "kKmMgGtTPE", "KMGT"
	if i := strings.IndexByte(binary, s[0]); i >= 0 && s[1] == 'i' && takesPrefix(s[2:]) {
		return s[2:], math.Pow(1024, float64(i+1))
	}
	if i := strings.IndexByte(decimal, s[0]); i >= 0 && takesPrefix(s[1:]) {
		return s[1:], []float64{1e3, 1e3, 1e6, 1e6, 1e9, 1e9, 1e12, 1e12, 1e15, 1e18}[i]
	}
	return s, 1
}

// takesPrefix reports whether a unit is written with prefixes.
func takesPrefix(unit string) bool {
	switch unit {
	case "B", "b", "H", "Hz", "Bps", "bps", "IPS", "TEPS", "qps", "rps", "tps", "pps", "iops", "IOPS":
		return true
	}
	_, noun := counted(unit)
	return noun
}

// Base converts a value to the unit in which it is kept, so that 900 MB/s and 1.1 GB/s compare. A unit that is not
// known stays as it is.
func Base(v float64, unit string) (float64, string) {
	if unit == "s" || unit == "" {
		return v, unit
	}
	u, ok := ParseUnit(unit)
	if !ok {
		return v, unit
	}
	if parts := math.Round(1 / u.Factor); u.Factor < 1 && math.Abs(parts*u.Factor-1) < 1e-12 {
		return v / parts, u.Base // exact, which a factor such as 1e-9 is not: 2000 ns are 2e-06 s
	}
	return v * u.Factor, u.Base
}

// ofName is the direction of a number without a unit, by what its name ends in: tokens_per_s, p99.latency.
func ofName(name string) Direction {
	if u, ok := ParseUnit(name); ok && len(name) > 2 {
		return u.Better
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("_.-/ ", r) })
	if len(words) == 0 {
		return Unknown
	}
	last := words[len(words)-1]
	switch {
	case slices.Contains(strings.Fields("throughput tput bandwidth bw speed speedup rate gbps mbps flops gflops tflops fps iops qps"), last):
		return Higher
	case slices.Contains(strings.Fields("time latency duration elapsed wall ns us ms sec secs seconds cycles instructions registers spills stack shared memory mem rss bytes size energy allocs faults misses"), last):
		return Lower
	case strings.Contains(name, "_per_"):
		if u, ok := ParseUnit(strings.Join(words[max(0, len(words)-3):], "_")); ok {
			return u.Better
		}
	}
	return Unknown
}

// DirectionError says that nothing tells which values of a metric are better.
type DirectionError struct {
	Metric string
	Units  []string // that its values have; one may be ""
}

// Error says what is missing and, as its hint, how to give it.
func (e *DirectionError) Error() string {
	what := fmt.Sprintf("its unit %q is unknown", e.Units[0])
	switch {
	case len(e.Units) > 1:
		what = fmt.Sprintf("its values have the units %q", e.Units)
	case e.Units[0] == "":
		what = "its values have no unit"
	}
	return fmt.Sprintf("metric %s: is higher or lower better? %s", e.Metric, what) + "\nhint: " + e.Hint()
}

// Hint says what to do.
func (e *DirectionError) Hint() string {
	return `say better = "higher" or better = "lower" in its [metric], or --better higher or lower; or send a unit such as ` + "ms, GB/s or op/s"
}

// Direction says which values of the metric are better: what the user said, or else what the units of the values that
// launches gave tell, or else its name. The error is a [*DirectionError].
func (m Metric) Direction(launches ...bisect.Outcome) (Direction, error) {
	switch {
	case m.Higher:
		return Higher, nil
	case m.Told || m.Exact || m.OfProcess():
		return Lower, nil
	}
	var units []string
	var found []Direction
	for _, o := range launches {
		for _, s := range o.Series {
			if s.Metric != m.Name || slices.Contains(units, s.Unit) || len(s.Values) == 0 {
				continue
			}
			units = append(units, s.Unit)
			unit := cmp.Or(s.Unit, m.DefaultUnit)
			d := ofName(m.Name)
			if u, ok := ParseUnit(unit); ok {
				d = u.Better
			} else if unit != "" {
				d = Unknown
			}
			found = append(found, d)
		}
	}
	found = slices.Compact(slices.Sorted(slices.Values(found)))
	if len(found) == 1 && found[0] != Unknown {
		return found[0], nil
	}
	if len(found) == 0 {
		return Lower, nil // there is no value whose direction could matter
	}
	return Unknown, &DirectionError{m.Name, units}
}

// Better is the direction that the metric is taken to have.
func (m Metric) Better() Direction {
	if m.Higher {
		return Higher
	}
	return Lower
}

// Directed is the metrics with the directions that they have for these launches. err is about the first one whose
// direction is unknown; it is taken to be lower, which the caller may accept.
func Directed(ms []Metric, launches ...bisect.Outcome) (out []Metric, err error) {
	for _, m := range ms {
		d, unknown := m.Direction(launches...)
		if err == nil {
			err = unknown
		}
		m.Higher = d == Higher
		out = append(out, m)
	}
	return out, err
}
