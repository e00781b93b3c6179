package metrics

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// near accepts what rounding does to a number.
var near = cmpopts.EquateApprox(1e-9, 0)

func series(t *testing.T, pattern, text string) []bisect.Series {
	t.Helper()
	p, err := NewPattern("time", "", pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all []bisect.Series
	for l := range strings.Lines(text) {
		all = p.Line(strings.TrimSuffix(l, "\n"), all)
	}
	return all
}

// TestPatternOfCases reads what the programs of llm.c print, as it is.
func TestPatternOfCases(t *testing.T) {
	const text = "Using kernel 3\nAll results match. Starting benchmarks.\n\n" +
		"block_size   32 | time 0.1023 ms | bandwidth 245.94 GB/s\n" +
		"block_size  256 | time 0.0519 ms | bandwidth 485.01 GB/s\n" +
		"block_size  256 | time 0.0521 ms | bandwidth 483.15 GB/s\n"
	got := series(t, `block_size +(?P<block_size>\d+) \| time (?P<value>[0-9.]+) (?P<unit>ms)`, text)
	want := []bisect.Series{
		{Metric: "time", Case: "block_size=32", Unit: "s", Values: []float64{0.1023e-3}},
		{Metric: "time", Case: "block_size=256", Unit: "s", Values: []float64{0.0519e-3, 0.0521e-3}},
	}
	if d := cmp.Diff(want, got, near); d != "" {
		t.Error(d)
	}
	got = series(t, `(?P<case>\w+) m=(?P<m>\d+)(?: n=(?P<n>\d+))? (?P<value>\S+)`, "gemm m=1 n=2 3.5\ngemm m=1 nan\ngemm m=4 1e999\ngemm m=4 7")
	want = []bisect.Series{{Metric: "time", Case: "gemm, m=1, n=2", Values: []float64{3.5}}, {Metric: "time", Case: "gemm, m=1"}, {Metric: "time", Case: "gemm, m=4", Values: []float64{7}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzPattern(f *testing.F) {
	f.Add(`a (?P<value>[0-9.]+)(?P<unit>us)? (?P<x>.)`, "a 3us b")
	f.Fuzz(func(t *testing.T, pattern, line string) {
		p, err := NewPattern("m", "us", pattern)
		if err != nil {
			return
		}
		for _, s := range p.Line(line, nil) {
			if len(s.Values) > 0 && math.IsNaN(s.Values[0]) {
				t.Errorf("%+v", s)
			}
		}
	})
}

const nvbenchJSON = `{
 "meta": {"argv": ["bench", "--jsonbin", "r.json"], "version": {"json": {"major": 1, "minor": 0, "patch": 0}}},
 "devices": [{"id": 0, "name": "NVIDIA H200"}],
 "benchmarks": [{"name": "gemm", "index": 0, "axes": [], "states": [
  {"name": "Device=0 Elements=2^16", "device": 0, "type_config_index": 0,
   "axis_values": [{"name": "T", "type": "string", "value": "F16"}, {"name": "Elements", "type": "int64", "value": "65536"}],
   "summaries": [
    {"tag": "nv/cold/sample_size", "name": "Samples", "data": [{"name": "value", "type": "int64", "value": "3"}]},
    {"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "2.0e-5"}]},
    {"tag": "nv/batch/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "1.5e-05"}]},
    {"tag": "nv/json/bin:nv/cold/sample_times", "data": [{"name": "filename", "type": "string", "value": "r.json-bin/0.bin"}, {"name": "size", "type": "int64", "value": "3"}]},
    {"tag": "nv/json/freqs-bin:nv/cold/sample_freqs", "data": [{"name": "filename", "type": "string", "value": "r.json-freqs-bin/0.bin"}, {"name": "size", "type": "int64", "value": "2"}]}],
   "is_skipped": false},
  {"name": "Device=0 Elements=2^20", "device": 0, "axis_values": [{"name": "Elements", "type": "int64", "value": "1048576"}],
   "summaries": [{"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "4.0e-5"}]}, {"tag": "nv/cold/time/gpu/median", "data": [{"name": "value", "type": "float64", "value": 3.9e-5}]}], "is_skipped": false},
  {"name": "Device=0 Elements=2^40", "device": 0, "axis_values": null, "summaries": null, "is_skipped": true, "skip_reason": "out of memory"}
 ]}]}`

func floats(v ...float32) []byte {
	var out []byte
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

func TestNVBench(t *testing.T) {
	root := t.TempDir()
	for name, data := range map[string][]byte{"out/r.json-bin/0.bin": floats(1e-5, 2e-5, 3e-5)} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, warnings, err := nvbench([]byte(nvbenchJSON), "time", sidecars(root, "out/r.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := []bisect.Series{
		{Metric: "time", Case: "gemm T=F16 Elements=65536", Unit: "s", Values: []float64{1e-5, 2e-5, 3e-5}},
		{Metric: "time", Case: "gemm Elements=1048576", Unit: "s", Values: []float64{3.9e-5}},
	}
	approx := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) })
	if d := cmp.Diff(want, got, approx); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"nvbench skipped gemm Device=0 Elements=2^40: out of memory"}, warnings); d != "" {
		t.Error(d)
	}
	// Without sidecars the summary of the same state serves.
	got, warnings, err = nvbench([]byte(nvbenchJSON), "t", sidecars(t.TempDir(), "r.json"))
	if err != nil || got[0].Metric != "t" || got[0].Values[0] != 2e-5 || len(warnings) != 2 || !strings.Contains(warnings[0], "file does not exist") {
		t.Errorf("%+v %q %v", got[0], warnings, err)
	}
	for _, bad := range []string{"", "[]", `{"meta":{}}`, strings.Replace(nvbenchJSON, `"major": 1`, `"major": 2`, 1)} {
		if _, _, err := nvbench([]byte(bad), "time", nil); err == nil {
			t.Errorf("%.40q was read", bad)
		}
	}
	if _, err := sidecars(root, "r.json")("../../etc/passwd"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file outside was read: %v", err)
	}
}

// A sidecar is read where it lies below the top, by whatever path the report names it, and as far as values are kept;
// one that does not fit the report, or that leads out, gives a warning and the summary serves.
func TestNVBenchSidecars(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	report := func(name, size string) []byte {
		return fmt.Appendf(nil, `{"meta":{"version":{"json":{"major":1}}},"benchmarks":[{"name":"b","states":[{"name":"s","summaries":[
			{"tag":"nv/cold/time/gpu/mean","data":[{"name":"value","value":"7"}]},{"tag":"nv/cold/sm_clock_rate/mean","data":[{"name":"value","value":1e9}]},
			{"tag":"nv/json/bin:nv/cold/sample_times","data":[{"name":"filename","value":%q},{"name":"size","value":%q}]}]}]}]}`, name, size)
	}
	many := bytes.Repeat(floats(2), protocol.MaxValues+10)
	for name, data := range map[string][]byte{"out/a.bin": floats(1, 2), "b.bin": floats(3, 4), "many.bin": many, "odd.bin": floats(1, 2)[:7], "bad.bin": floats(-1, float32(math.NaN()), float32(math.Inf(1)), 5), outside + "/c.bin": floats(9, 9)} {
		if !filepath.IsAbs(name) {
			name = filepath.Join(root, name)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, data, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(outside+"/c.bin", root+"/link.bin"), unix.Mkfifo(root+"/pipe.bin", 0o666)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file, size string
		want       []float64 // nil: the summary
		warning    string
	}{
		"beside the report":         {"a.bin", "2", []float64{1, 2}, ""},
		"from the top":              {"b.bin", "2", []float64{3, 4}, ""},
		"by its full path":          {root + "/out/a.bin", "2", []float64{1, 2}, ""},
		"more than is kept":         {"many.bin", fmt.Sprint(protocol.MaxValues + 10), slices.Repeat([]float64{2}, protocol.MaxValues), ""},
		"values that are no times":  {"bad.bin", "4", []float64{5}, ""},
		"another number of values":  {"a.bin", "3", nil, "a.bin has 8 bytes, which do not match 3 values"},
		"half a value":              {"odd.bin", "2", nil, "odd.bin has 7 bytes"},
		"no number of values":       {"a.bin", "two", nil, "do not match two values"},
		"a link that leads out":     {"link.bin", "2", nil, "file does not exist"},
		"a file outside":            {outside + "/c.bin", "2", nil, "file does not exist"},
		"a pipe is not waited for":  {"pipe.bin", "2", nil, "file does not exist"},
		"a path that leads upwards": {"../x.bin", "2", nil, "file does not exist"},
	} {
		got, warnings, err := nvbench(report(c.file, c.size), "time", sidecars(root, "out/r.json"))
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %v %v", name, got, err)
		}
		if want := c.want; !slices.Equal(got[0].Values, want) && !(want == nil && slices.Equal(got[0].Values, []float64{7})) {
			t.Errorf("%s: %d values, want %d", name, len(got[0].Values), len(want))
		}
		if (c.warning == "") != (len(warnings) == 0) || len(warnings) > 0 && !strings.Contains(warnings[0], c.warning) {
			t.Errorf("%s: %q, want %q", name, warnings, c.warning)
		}
	}
}

// A benchmark on two devices has a case for each.
func TestNVBenchOnTwoDevices(t *testing.T) {
	state := `{"name":"Device=%d","device":%d,"summaries":[{"tag":"nv/cpu_only/time/cpu/mean","data":[{"name":"value","value":"%d"}]}]}`
	text := fmt.Sprintf(`{"meta":{"version":{"json":{"major":1}}},"benchmarks":[{"name":"b","states":[`+state+","+state+`]}]}`, 0, 0, 1, 1, 1, 2)
	got, _, err := nvbench([]byte(text), "time", nil)
	want := []bisect.Series{{Metric: "time", Case: "b device=0 Device=0", Unit: "s", Values: []float64{1}}, {Metric: "time", Case: "b device=1 Device=1", Unit: "s", Values: []float64{2}}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

func FuzzNVBench(f *testing.F) {
	f.Add([]byte(nvbenchJSON), floats(1, 2, 3))
	f.Fuzz(func(t *testing.T, data, sidecar []byte) {
		got, _, _ := nvbench(data, "time", func(string) ([]byte, error) { return sidecar, nil })
		n := 0
		for _, s := range got {
			n += len(s.Values)
			for _, v := range s.Values {
				if !(v > 0) || math.IsInf(v, 0) {
					t.Errorf("%+v", s)
				}
			}
		}
		if n > protocol.MaxSeries*protocol.MaxValues {
			t.Error("any number of values is kept")
		}
	})
}

// TestPatternReadsAsATerminalShows: carriage returns, colours and lines that are written over.
func TestPatternReadsAsATerminalShows(t *testing.T) {
	for _, c := range []struct {
		pattern, line string
		want          float64
		odd           string
	}{
		{`^time (?P<value>[0-9.]+) us$`, "time 12.5 us\r", 12.5, ""},
		{`speed (?P<value>[0-9.]+) GB/s`, "\x1b[1;32mok \x1b[0mspeed \x1b[33m55.25\x1b[0m GB/s\r", 55.25, ""},
		{`^final (?P<value>[0-9.]+)`, "p 10%\rp 50%\x1b[K\rfinal 3 us", 3, ""},
		{`\x1b\[32m(?P<value>[0-9.]+)`, "\x1b[32m7\x1b[0m", 7, ""},
		{`\[=+\]\r(?P<value>[0-9.]+)`, "[==]\r8", 8, ""},
		{`^title (?P<value>[0-9.]+)`, "\x1b]0;window 5\x07title 9", 9, ""},
		{`run (?P<value>[0-9.,]+)`, "run 1.234,5\r", 0, "1.234,5"},
		{`run (?P<value>\S+)`, "run nan", 0, "nan"},
		{`run (?P<value>\S+)`, "walk 1", 0, ""},
	} {
		p, err := NewPattern("m", "", c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Line(c.line, nil)
		if c.want == 0 && len(got) != 0 && got[0].Values != nil || c.want != 0 && (len(got) != 1 || len(got[0].Values) != 1 || got[0].Values[0] != c.want && got[0].Values[0] != c.want*1e-6) {
			t.Errorf("%s on %q: %+v", c.pattern, c.line, got)
		}
		if odd := p.NotNumber(c.line); odd != c.odd {
			t.Errorf("%s on %q: no number %q, want %q", c.pattern, c.line, odd, c.odd)
		}
	}
}

// A pattern that another machine reads as JSON reads the same; one that is not a pattern is an error.
func TestPatternAsJSON(t *testing.T) {
	p, err := NewPattern("time", "ms", `took (?P<value>[0-9.]+) in (?P<case>\w+)`)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal([]*Pattern{p})
	if err != nil {
		t.Fatal(err)
	}
	var there []*Pattern
	if err := json.Unmarshal(data, &there); err != nil || len(there) != 1 {
		t.Fatal(err)
	}
	if d := cmp.Diff(p.Line("took 3.5 in a", nil), there[0].Line("took 3.5 in a", nil)); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{`["time", "ms", "("]`, `["time", "ms", "no value"]`, `3`} {
		if json.Unmarshal([]byte(bad), &Pattern{}) == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestPattern(t *testing.T) {
	p, err := NewPattern("time", "", `block_size\s+(?P<case>\d+) \| time (?P<value>[0-9.]+) (?P<unit>ms|us)`)
	if err != nil {
		t.Fatal(err)
	}
	var got []bisect.Series
	for _, l := range []string{"block_size   32 | time 0.1 ms | bandwidth 3", "nothing", "block_size 64 | time 90 us", "block_size   32 | time 0.2 ms"} {
		got = p.Line(l, got)
	}
	want := []bisect.Series{{Metric: "time", Case: "32", Unit: "s", Values: []float64{0.1e-3, 0.2e-3}}, {Metric: "time", Case: "64", Unit: "s", Values: []float64{90e-6}}}
	if d := cmp.Diff(want, got, near); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"(", "no group"} {
		if _, err := NewPattern("time", "us", bad); err == nil {
			t.Errorf("pattern %q was accepted", bad)
		}
	}
}

// TestRead: every source reads its own report, and a report of another tool is an error.
func TestRead(t *testing.T) {
	reports := map[string]string{"nvbench": nvbenchJSON, "benchmark": string(testdata(t, "google-benchmark.json"))}
	for _, s := range Sources() {
		if s.Counted {
			continue
		}
		for name, report := range reports {
			r, err := Read(s.Name, Input{Metric: "time", Data: []byte(report), Dir: t.TempDir(), File: "r"})
			if (err == nil) != (name == s.Name) || err == nil && (len(r.Series) == 0 || r.Class == "") {
				t.Errorf("%s reads a report of %s: %+v, %v", s.Name, name, r, err)
			}
		}
		if s.Example == "" || reports[s.Name] == "" {
			t.Errorf("%+v has no example or no test", s)
		}
	}
	if r, err := Read("benchmark", Input{Metric: "time", Data: testdata(t, "google-benchmark-failed.json")}); err != nil || r.Class != bisect.Wrong || r.Why == "" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Read("nosuch", Input{Metric: "time"}); err == nil {
		t.Error("an unknown source was read")
	}
}

// TestCounted: a count that is not of all the time is extrapolated, and not compared where much is missing.
func TestCounted(t *testing.T) {
	for _, c := range []struct {
		source string
		used   Used
		values []float64
		unfit  bool
	}{
		{"cpu", Used{CPU: 1.5}, []float64{1.5}, false},
		{Instructions, Used{Instructions: 900, Enabled: 2, Counted: 2}, []float64{900}, false},
		{Instructions, Used{Instructions: 9999, Enabled: 2, Counted: 1.9998}, []float64{10000}, false},
		{Instructions, Used{Instructions: 900, Enabled: 2, Counted: 1.8}, []float64{1000}, true},
		{Instructions, Used{Enabled: 2}, nil, true},
		{Instructions, Used{}, nil, true},
	} {
		r, err := Read(c.source, Input{Metric: "work", Used: c.used})
		var values []float64
		for _, s := range r.Series {
			if s.Metric != "work" || s.Case != "" {
				t.Errorf("%+v: %+v", c, s)
			}
			values = append(values, s.Values...)
		}
		if err != nil || !cmp.Equal(values, c.values, near) || (r.Unfit != "") != c.unfit || r.Class != bisect.OK {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
	}
	sum := Used{CPU: 1, Instructions: 2, Enabled: 3, Counted: 4}
	if got := sum.Plus(sum); got != (Used{2, 4, 6, 8}) {
		t.Errorf("%+v", got)
	}
}
