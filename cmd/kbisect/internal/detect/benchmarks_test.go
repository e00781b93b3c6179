package detect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels/metrics"
)

// TestBenchmarksAreProposed: for each kind of benchmark the command that runs it, and a metric that reads what it prints
// or writes.
func TestBenchmarksAreProposed(t *testing.T) {
	const gbench = "#include <benchmark/benchmark.h>\nstatic void BM(benchmark::State& s) {}\nBENCHMARK(BM);\nBENCHMARK_MAIN();\n"
	for name, c := range map[string]struct {
		files  map[string]string
		build  string
		run    string
		metric string // from and file
		output string // that the pattern reads: text, or a file of testdata
		values string
	}{
		"go": {
			map[string]string{"go.mod": "module x\n", "sub/sum_test.go": "package sum\n\nfunc BenchmarkSum(b *testing.B) {}\n", "a_test.go": "package x\nfunc TestA(t *testing.T) {}\n"},
			"go test -trimpath -c -o bench.test ./sub", `sh -c cd "$0" && exec "$OLDPWD/bench.test" -test.run "^$" -test.bench . sub`, "regex ", "go.txt",
			"BenchmarkSum/n=10 3.949e-08 s/op; BenchmarkSum/n=1000 1.375e-05 s/op",
		},
		"go at the top": {
			map[string]string{"go.mod": "module x\n", "x_test.go": "package x\nfunc BenchmarkX(b *testing.B) {}\n"},
			"go test -trimpath -c -o bench.test ./.", "./bench.test -test.run ^$ -test.bench .", "regex ", "go.txt", "BenchmarkSum/n=10 3.949e-08 s/op; BenchmarkSum/n=1000 1.375e-05 s/op",
		},
		"go, two packages": {
			map[string]string{"go.mod": "module x\n", "a/x_test.go": "package a\nfunc BenchmarkX(b *testing.B) {}\n", "b/x_test.go": "package b\nfunc BenchmarkX(b *testing.B) {}\n"},
			"", "go test -trimpath -run ^$ -bench . ./a ./b", "regex ", "go.txt", "BenchmarkSum/n=10 3.949e-08 s/op; BenchmarkSum/n=1000 1.375e-05 s/op",
		},
		"criterion": {
			map[string]string{"Cargo.toml": "[package]\nname = \"fib\"\n[dev-dependencies]\ncriterion = \"0.5\"\n[[bench]]\nname = \"fib\"\nharness = false\n", "benches/fib.rs": ""},
			"cargo bench --no-run", "cargo bench --bench fib -- --output-format bencher", "regex ", "criterion.txt",
			"fib 20 2.625e-05 s; group/the fibonacci number of ten 2.32e-07 s",
		},
		"pytest-benchmark": {
			map[string]string{"pyproject.toml": "", "tests/test_sum.py": "def test_sum(benchmark):\n    benchmark(sum, [1])\n", "tests/test_other.py": "def test_x(): pass\n"},
			"", "python3 -m pytest -q --benchmark-only --benchmark-json=bench.json tests/test_sum.py", "benchmark bench.json", "", "",
		},
		"google benchmark with cmake": {
			map[string]string{"CMakeLists.txt": "add_executable(sum_bench bench/sum.cc)\ntarget_link_libraries(sum_bench benchmark::benchmark)\n", "bench/sum_bench.cc": gbench},
			"", "./build/sum_bench --benchmark_out=bench.json --benchmark_out_format=json", "benchmark bench.json", "", "",
		},
		"google benchmark with make": {
			map[string]string{"Makefile": "bench: bench.cc\n\tc++ -o $@ $< -lbenchmark\n", "bench.cc": gbench},
			"make -j2 bench", "./bench --benchmark_out=bench.json --benchmark_out_format=json", "benchmark bench.json", "", "",
		},
		"hyperfine": {
			map[string]string{"bench.sh": "#!/bin/sh\nmake -s\nhyperfine --warmup 3 \\\n  --export-json out/times.json './a' './b'\n"},
			"", "sh bench.sh", "benchmark out/times.json", "", "",
		},
		"do_bench": {
			map[string]string{"bench.py": "import triton\nfor n in (128, 256):\n    ms = triton.testing.do_bench(lambda: add(x, y))\n    print(f\"n={n:d}: {ms:.4f} ms, {gb / ms:.1f} GB/s\")\n"},
			"", "python3 bench.py", " ", "", "",
		},
		"script": {map[string]string{"bench.sh": "echo hello\n"}, "", "sh bench.sh", " ", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, text, err := initConfig(writeFiles(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Parse(config.FileName, text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if n := strings.Count(string(text), "\n"); n > 25 {
				t.Errorf("%d lines, at most 25 are wanted\n%s", n, text)
			}
			m := config.Metric{}
			if len(cfg.Metrics) > 0 {
				m = cfg.Metrics[0]
			}
			build := strings.Join(cfg.Build.Command, " ")
			if run := strings.Join(cfg.Run.Command, " "); run != c.run || c.build != "" && build != c.build || m.From+" "+m.File != c.metric {
				t.Errorf("build %s, run %s, metric %s\n%s", build, run, m.From+" "+m.File, text)
			}
			if c.values == "" {
				return
			}
			output := c.output
			if strings.HasSuffix(output, ".txt") {
				data, err := os.ReadFile(filepath.Join("testdata", output))
				if err != nil {
					t.Fatal(err)
				}
				output = string(data)
			}
			if got := valuesRead(t, m.Pattern, output); got != c.values {
				t.Errorf("%s reads %s, want %s", m.Pattern, got, c.values)
			}
		})
	}
}

// valuesRead are the cases that a pattern reads, with their first value.
func valuesRead(t *testing.T, pattern, output string) string {
	t.Helper()
	p, err := metrics.NewPattern("time", "", pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all []bisect.Series
	for line := range strings.Lines(output) {
		all = p.Line(strings.TrimSuffix(line, "\n"), all)
	}
	var got []string
	for _, s := range all {
		got = append(got, fmt.Sprintf("%s %.4g %s", s.Case, s.Values[0], s.Unit))
	}
	return strings.Join(got, "; ")
}

// TestOutputsAreRead: of a program whose source shows no format, the output does.
func TestOutputsAreRead(t *testing.T) {
	for output, want := range map[string]string{
		"hello\nelapsed: 35 ms\n":                           " 0.035 s",
		"block_size  128 | time 0.0123 ms | 80.1 GB/s":      "block_size=128 1.23e-05 s",
		"time: 1.5e-3 s (100% done)":                        " 0.0015 s",
		"setup took 5 s\nGPU time [us]: 3\nkernel: 12.25us": " 1.225e-05 s",
		"rate 1200.5 GB/s":                                  " 1.2e+12 B/s",
		"64 x 64: 2 GB, 7 images/s":                         " 7 image/s",
		"boost 1.4 GHz":                                     "",
		"Average elapsed time: (0.000123) s, performance: ( 123.0) GFLOPS. size: (256).": "size=256 0.000123 s",
		"1 of 2: took 1.5e2 milliseconds":                                                " 0.15 s",
		"softmax n=4\telapsed=   1.250us 50%":                                            "n=4 1.25e-06 s",
		"value 1 value 2 unit 3 in 4.0 ns":                                               " 4e-09 s",
		">> GPU allocation time: 5.0 ms\n>> Host to device transfer time: 4.0 ms\nElapsed time: 3.0 ms\n>> Kernel execution time: 2.0 ms": " 0.002 s",
		"time cpu 3.0 ms\ntime gpu 2.0 ms":           " 0.002 s",
		"total 3.0 s\naverage time 2.0 ms":           " 0.002 s",
		"done 5.0 percent, error 3.0 at\ntime 2 msg": "",
		"5 apples in 3 baskets, v1.2.3":              "",
		"":                                           "",
	} {
		all := timesIn(output)
		if len(all) == 0 || want == "" {
			if len(all) > 0 != (want != "") {
				t.Errorf("%q: %+v", output, all)
			}
			continue
		}
		if got := valuesRead(t, all[0].pattern, output); got != want {
			t.Errorf("%q: %s reads %s, want %s", output, all[0].pattern, got, want)
		}
	}
}

// TestAddMetric: what a program prints becomes the metric of a configuration that has none, and of no other.
func TestAddMetric(t *testing.T) {
	dir := writeFiles(t, map[string]string{"run.sh": "echo took 3 ms\n"})
	path, _, err := writeProject(dir)
	if err != nil {
		t.Fatal(err)
	}
	if line, ok, err := AddMetric(path, "nothing"); ok || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if line, ok, err := AddMetric(path, "hello\ntook 3 ms\n"); !ok || err != nil || line != "took 3 ms" {
		t.Errorf("%q, %v, %v", line, ok, err)
	}
	cfg, err := config.Load(path)
	if err != nil || len(cfg.Metrics) != 1 || valuesRead(t, cfg.Metrics[0].Pattern, "took 5 ms") != " 0.005 s" {
		t.Errorf("%+v, %v", cfg, err)
	}
	if line, ok, err := AddMetric(path, "took 3 ms\n"); ok || err != nil {
		t.Errorf("a second metric: %q, %v", line, err)
	}
}

func FuzzOutput(f *testing.F) {
	f.Add("block_size  128 | time 0.0123 ms | 80.1 GB/s\n")
	f.Add("\xff0s")
	f.Add("100%% \"quoted\" \\ 3.5 us 7\n")
	f.Fuzz(func(t *testing.T, output string) {
		for _, l := range timesIn(output) {
			if _, err := metrics.NewPattern("time", "", l.pattern); err != nil {
				t.Errorf("%q of %q: %v", l.pattern, output, err)
			}
		}
	})
}
