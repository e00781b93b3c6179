package detect

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// reportFile is where a benchmark tool is told to write its JSON.
const reportFile = "bench.json"

var goBenchmark = lazy.Pattern(`(?m)^func Benchmark\w*\(`)

// findGo recognises benchmarks of Go. Those of one package are built once; more are left to go test.
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
	p := project{Kind: config.KindCommand, What: "a Go module with benchmarks", Times: []timeLine{{
		pattern: `^(?P<case>Benchmark\S*?)(?:-\d+)?\s+\d+\s+(?P<value>[0-9.]+) (?P<unit>ns/op)`, rank: 4, Name: "time",
	}}}
	if len(packages) > 1 {
		p.Run = []string{"go", "test", "-trimpath", "-run", "^$", "-bench", "."}
		for _, dir := range packages {
			p.Run = append(p.Run, "./"+dir)
		}
		return p, true
	}
	dir := packages[0]
	p.Build, p.Outputs = []string{"go", "test", "-trimpath", "-c", "-o", "bench.test", "./" + dir}, []string{"bench.test"}
	if p.Run = []string{"./bench.test", "-test.run", "^$", "-test.bench", "."}; dir != "." { // tests run in their folder
		p.Run = []string{"sh", "-c", `cd "$0" && exec "$OLDPWD/bench.test" -test.run "^$" -test.bench .`, dir}
	}
	return p, true
}

var cargoBench = lazy.Pattern(`(?m)^\[\[bench\]\][^\[]*?^name *= *"([^"]+)"`)

// findCargo recognises benchmarks of Rust. Criterion's are named, since others know none of its options.
func findCargo(d *folder) (project, bool) {
	text := d.read("Cargo.toml")
	benches := cargoBench().FindAllSubmatch(text, -1)
	if len(benches) == 0 {
		return project{}, false
	}
	p := project{Kind: config.KindCommand, What: "a Cargo package with benchmarks", Build: []string{"cargo", "bench", "--no-run"}, Outputs: []string{"target"}, Run: []string{"cargo", "bench"}}
	if bytes.Contains(text, []byte("criterion")) {
		for _, m := range benches {
			p.Run = append(p.Run, "--bench", string(m[1]))
		}
		p.Run = append(p.Run, "--", "--output-format", "bencher")
		p.Times = []timeLine{{pattern: `^test (?P<case>.+?) +\.\.\. bench: +(?P<value>[0-9.]+) (?P<unit>ns)/iter`, rank: 4, Name: "time"}}
	}
	return p, true
}

var pytestBenchmark = lazy.Pattern(`(?m)^\s*(?:async )?def test\w*\([^)]*\bbenchmark\b`)

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
		Kind: config.KindCommand, What: "benchmarks of pytest-benchmark", From: "benchmark", File: reportFile,
		Run: slices.Concat([]string{"python3", "-m", "pytest", "-q", "--benchmark-only", "--benchmark-json=" + reportFile}, files),
	}, true
}

var (
	googleBenchmark = lazy.Pattern(`#[ \t]*include[ \t]*<benchmark/benchmark\.h>`)
	hyperfineReport = lazy.Pattern(`(?s)\bhyperfine\b.*?--export-json[ =]["']?([\w./-]+)`)
	benchSource     = lazy.Pattern(`(?i)(?:^|/)[^/]*(?:bench|perf|main)[^/]*\.(?:c|cc|cpp|cxx|cu)$`)
	pythonPrint     = lazy.Pattern(`\bprint\(\s*[rR]?[fF]"((?:[^"\\\n]|\\.)*)"`)
	pythonField     = lazy.Pattern(`\{([^{}:!]*)(?:![rsa])?(?::([^{}]*))?\}`)
	pythonSize      = lazy.Pattern(`(?i)^(?:[bchkmnw]|size|rows|cols|dim|heads|batch\w*|seq\w*|block\w*)$`) // a name of whole numbers
)

// reports completes a project whose program leaves a report of a benchmark tool, or prints a time.
func (p *project) reports(d *folder) {
	if p.From != "" || len(p.Times) > 0 || len(p.Run) == 0 {
		return
	}
	switch program := p.Run[0]; {
	case strings.HasPrefix(program, "./"):
		var text []byte
		d.below(searchDepth, func(file string) {
			if benchSource().MatchString(file) || !strings.Contains(file, "/") && cSource().MatchString(file) {
				text = append(append(text, d.read(file)...), '\n')
			}
		})
		if googleBenchmark().Match(text) {
			p.Run = append(p.Run, "--benchmark_out="+reportFile, "--benchmark_out_format=json")
			p.From, p.File = "benchmark", reportFile
			return
		}
		p.Times = printedTimes(text)
	case len(p.Run) == 2 && program == "sh":
		if m := hyperfineReport().FindSubmatch(d.read(p.Run[1])); m != nil {
			p.From, p.File = "benchmark", path.Clean(string(m[1]))
		}
	case len(p.Run) == 2 && strings.HasPrefix(program, "python"):
		text := d.read(p.Run[1])
		p.Times = pythonTimes(text)
		if bytes.Contains(text, []byte("do_bench(")) && len(p.Times) == 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%s calls do_bench (in ms) and prints no number with a unit: add print(f\"time: {ms:.4f} ms\").", p.Run[1]))
		}
	}
	if len(p.Times) > 0 && p.Times[0].unit != "" { // what only the user knows is asked for a file that is named
		p.Times = nil
	}
}

var cSource = lazy.Pattern(`\.(?:c|cc|cpp|cxx|cu)$`)

// pythonTimes finds the times that a script prints by formatted strings: print(f"n={n}: {ms:.3f} ms").
func pythonTimes(text []byte) []timeLine {
	var source strings.Builder
	for _, m := range pythonPrint().FindAllSubmatch(text, -1) {
		format := pythonField().ReplaceAllStringFunc(strings.ReplaceAll(string(m[1]), "%", "%%"), func(field string) string {
			m := pythonField().FindStringSubmatch(field)
			name, how := m[1], m[2]
			switch {
			case strings.HasSuffix(how, "f") || strings.HasSuffix(how, "e") || strings.HasSuffix(how, "g"):
				return "%f"
			case strings.HasSuffix(how, "d") || how == "" && pythonSize().MatchString(name):
				return "%d"
			}
			return "%s"
		})
		source.WriteString(`printf("` + format + "\");\n")
	}
	return printedTimes([]byte(source.String()))
}
