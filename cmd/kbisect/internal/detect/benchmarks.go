package detect

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// reportFile is where a benchmark tool is told to write its JSON, relative to the top.
const reportFile = "bench.json"

// goBenchmark matches a benchmark of package testing.
var goBenchmark = lazy.Pattern(`(?m)^func Benchmark\w*\(`)

// findGo recognises Go benchmarks. Those of a single package are built once; those of several are left to go test.
func findGo(d *folder) (project, bool) {
	if !d.has("go.mod") {
		return project{}, false
	}
	var packages []string
	d.below(searchDepth+2, func(file string) {
		if dir := path.Dir(file); strings.HasSuffix(file, "_test.go") && !slices.Contains(packages, dir) && goBenchmark().Match(d.read(file)) {
			packages = append(packages, dir)
		}
	})
	if len(packages) == 0 {
		return project{}, false
	}
	p := project{Kind: kernels.KindCommand, What: "a Go module with benchmarks", Metric: &timeLine{
		Name: "time", pattern: `^(?P<case>Benchmark\S*?)(?:-\d+)?\s+\d+\s+(?P<value>[0-9.]+) (?P<unit>ns/op)`,
	}}
	if len(packages) > 1 {
		p.Run = []string{"go", "test", "-trimpath", "-run", "^$", "-bench", "."}
		for _, dir := range packages {
			p.Run = append(p.Run, "./"+dir)
		}
		return p, true
	}
	dir := packages[0]
	p.Build, p.Outputs = []string{"go", "test", "-trimpath", "-c", "-o", "bench.test", "./" + dir}, []string{"bench.test"}
	// go test runs a package's tests in its folder, where they may look for files.
	if p.Run = []string{"./bench.test", "-test.run", "^$", "-test.bench", "."}; dir != "." {
		p.Run = []string{"sh", "-c", `cd "$0" && exec "$OLDPWD/bench.test" -test.run "^$" -test.bench .`, dir}
	}
	return p, true
}

// cargoBench finds the names in the [[bench]] sections of a Cargo.toml. Every benchmark with a harness other than
// Rust's own has such a section.
var cargoBench = lazy.Pattern(`(?m)^\[\[bench\]\][^\[]*?^name *= *"([^"]+)"`)

// findCargo recognises Rust benchmarks. Criterion's are named one by one, since other harnesses do not know its
// options.
func findCargo(d *folder) (project, bool) {
	text := d.read("Cargo.toml")
	benches := cargoBench().FindAllSubmatch(text, -1)
	if len(benches) == 0 {
		return project{}, false
	}
	p := project{Kind: kernels.KindCommand, What: "a Cargo package with benchmarks", Build: []string{"cargo", "bench", "--no-run"}, Outputs: []string{"target"}, Run: []string{"cargo", "bench"}}
	if bytes.Contains(text, []byte("criterion")) {
		for _, m := range benches {
			p.Run = append(p.Run, "--bench", string(m[1]))
		}
		p.Run = append(p.Run, "--", "--output-format", "bencher")
		p.Metric = &timeLine{Name: "time", pattern: `^test (?P<case>.+?) +\.\.\. bench: +(?P<value>[0-9.]+) (?P<unit>ns)/iter`}
	}
	return p, true
}

// pytestBenchmark matches a test that takes the fixture of pytest-benchmark.
var pytestBenchmark = lazy.Pattern(`(?m)^\s*(?:async )?def test\w*\([^)]*\bbenchmark\b`)

// pytestFile matches the files in which pytest looks for tests, and those that are called after benchmarks.
var pytestFile = lazy.Pattern(`(?:^|/)(?:test_[^/]*|[^/]*_test|bench[^/]*)\.py$`)

// findPytest recognises tests that take the fixture of pytest-benchmark.
func findPytest(d *folder) (project, bool) {
	var files []string
	d.below(searchDepth, func(file string) {
		if pytestFile().MatchString(file) && pytestBenchmark().Match(d.read(file)) {
			files = append(files, file)
		}
	})
	if len(files) == 0 {
		return project{}, false
	}
	return project{
		Kind: kernels.KindCommand, What: "benchmarks of pytest-benchmark", From: "benchmark", File: reportFile,
		Run: slices.Concat([]string{"python3", "-m", "pytest", "-q", "--benchmark-only", "--benchmark-json=" + reportFile}, files),
	}, true
}

var (
	googleBenchmark = lazy.Pattern(`#[ \t]*include[ \t]*<benchmark/benchmark\.h>`)
	hyperfineReport = lazy.Pattern(`(?s)\bhyperfine\b.*?--export-json[ =]["']?([\w./-]+)`)
	benchSource     = lazy.Pattern(`(?i)(?:^|/)[^/]*(?:bench|perf|main)[^/]*\.(?:c|cc|cpp|cxx|cu)$`)
	timePrinted     = lazy.Pattern(`\} *[mu]s\b`) // by a formatted string of Python
)

// reports completes a project whose program can write a report of a benchmark tool. It leaves alone a project that
// has a metric; times that a program prints are found after its first launch, see [AddMetric].
func (p *project) reports(d *folder) {
	if p.From != "" || p.Metric != nil || len(p.Run) == 0 {
		return
	}
	switch program := p.Run[0]; {
	case strings.HasPrefix(program, "./"):
		found := false
		d.below(searchDepth, func(file string) {
			if benchSource().MatchString(file) || !strings.Contains(file, "/") && cSource().MatchString(file) {
				found = found || googleBenchmark().Match(d.read(file))
			}
		})
		if found {
			p.Run = append(p.Run, "--benchmark_out="+reportFile, "--benchmark_out_format=json")
			p.From, p.File = "benchmark", reportFile
		}
	case len(p.Run) == 2 && program == "sh":
		if m := hyperfineReport().FindSubmatch(d.read(p.Run[1])); m != nil {
			p.From, p.File = "benchmark", path.Clean(string(m[1]))
		}
	case len(p.Run) == 2 && strings.HasPrefix(program, "python"):
		if text := d.read(p.Run[1]); bytes.Contains(text, []byte("do_bench(")) && !timePrinted().Match(text) {
			p.Notes = append(p.Notes, fmt.Sprintf("%s calls do_bench (in ms) and prints no number with a unit: add print(f\"time: {ms:.4f} ms\").", p.Run[1]))
		}
	}
}

var cSource = lazy.Pattern(`\.(?:c|cc|cpp|cxx|cu)$`)
