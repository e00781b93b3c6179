package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// benchmarkFile is what is read of the JSON reports of Google Benchmark, pytest-benchmark and hyperfine. The first two
// call their list benchmarks, and differ in what stands in it.
type benchmarkFile struct {
	Benchmarks []benchmarkEntry  `json:"benchmarks"`
	Results    []hyperfineResult `json:"results"`
}

// benchmarkEntry is one benchmark: of Google Benchmark with a time and its unit, of pytest-benchmark with statistics in
// seconds.
type benchmarkEntry struct {
	Name    string          `json:"name"`
	Run     string          `json:"run_name"` // without what tells repetitions and aggregates apart
	Kind    string          `json:"run_type"` // iteration or aggregate
	Time    *float64        `json:"real_time"`
	Unit    string          `json:"time_unit"`
	Failed  bool            `json:"error_occurred"`
	Why     string          `json:"error_message"`
	Skipped json.RawMessage `json:"skipped"` // newer versions: how; absent where it ran
	SkipWhy string          `json:"skip_message"`
	Stats   *struct {
		Data   []float64 `json:"data"`
		Median float64   `json:"median"`
	} `json:"stats"`
}

// hyperfineResult is one command.
type hyperfineResult struct {
	Command string    `json:"command"`
	Median  float64   `json:"median"`
	Times   []float64 `json:"times"`
}

// benchmarkUnits are the units of Google Benchmark in seconds.
func benchmarkUnits() map[string]float64 {
	return map[string]float64{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
}

// readBenchmark reads the JSON report of a benchmark tool. Each benchmark, or command of hyperfine where there are
// several, is a case with its samples, or with its median where the report holds none. Repetitions are samples of one
// case. A benchmark of Google Benchmark that failed makes the launch wrong.
func readBenchmark(x Input) (r Results, err error) {
	var file benchmarkFile
	if err := json.Unmarshal(x.Data, &file); err != nil {
		return r, fmt.Errorf("results of a benchmark: %w", err)
	}
	add := func(name string, values []float64, median, unit float64) {
		if len(values) == 0 {
			values = []float64{median}
		}
		for _, v := range values {
			if v *= unit; v > 0 && !math.IsInf(v, 0) {
				r.Series = protocol.AppendValue(r.Series, x.Metric, protocol.Plain(name, 200), "s", v)
			}
		}
	}
	for _, b := range file.Benchmarks {
		unit, known := benchmarkUnits()[b.Unit]
		skipped := len(b.Skipped) > 0 && string(b.Skipped) != "false"
		switch {
		case b.Stats != nil:
			add(b.Name, b.Stats.Data, b.Stats.Median, 1)
		case b.Failed || skipped && b.SkipWhy != "" && string(b.Skipped) == `"error"`:
			r.Class, r.Why = bisect.Wrong, protocol.Plain(b.Name+": "+b.Why+b.SkipWhy, protocol.MaxWhy)
		case b.Kind == "aggregate" || skipped:
		case b.Time != nil && known:
			name := b.Run
			if name == "" {
				name = b.Name
			}
			add(name, nil, *b.Time, unit)
		}
	}
	for _, h := range file.Results {
		name := h.Command
		if len(file.Results) == 1 {
			name = ""
		}
		add(name, h.Times, h.Median, 1)
	}
	if len(r.Series) == 0 && r.Class == "" {
		return r, errors.New("no results of Google Benchmark, pytest-benchmark or hyperfine in this JSON")
	}
	return r, nil
}
