package detect

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
)

func TestPrintedTime(t *testing.T) {
	for _, c := range []struct{ source, line, pattern string }{
		{`printf("block_size %4d | time %.4f ms | bandwidth %.2f GB/s\n", b, t, g);`, "block_size  128 | time 0.0123 ms | bandwidth 1.00 GB/s",
			`block_size +(?P<block_size>\d+) +\| +time +(?P<value>[-+0-9.eE]+) +(?P<unit>ms)`},
		{"printf(\n \"Average elapsed time: (%7.6f) s, performance: (%7.1f) GFLOPS. size: \"\n \"(%ld).\\n\",", "Average elapsed time: (0.000123) s, performance: ( 123.0) GFLOPS. size: (256).",
			`Average +elapsed +time: +\( *(?P<value>[-+0-9.eE]+)\) +(?P<unit>s), +performance: +\( *\S+\) +GFLOPS\. +size: +\((?P<size>\d+)`},
		{`fprintf(stderr, "%d of %d: took %g milliseconds\n", i, n, t);`, "1 of 2: took 1.5e2 milliseconds", `-?\d+ +of +-?\d+: +took +(?P<value>[-+0-9.eE]+) +(?P<unit>milliseconds)`},
		{`printf("x %f s\n"); printf("first\n%s n=%i\telapsed=%8.3fus %d%%\n", name, n, t, p);`, "softmax n=4\telapsed=   1.250us 50%",
			`.+? +n=(?P<n>\d+)\s+elapsed= *(?P<value>[-+0-9.eE]+)(?P<unit>us)`},
		{`printf("value %d value %d unit %d in %.1f ns\n"); `, "value 1 value 2 unit 3 in 4.0 ns", `value +-?\d+ +value +-?\d+ +unit +-?\d+ +in +(?P<value>[-+0-9.eE]+) +(?P<unit>ns)`},
		{`printf("%.2f GB/s\n", g); puts("time 1 ms");`, "12.50 GB/s", `(?P<value>[-+0-9.eE]+) +(?P<unit>GB/s)`},
		{`printf("done %.0f percent, error %g at\n"); printf("score: %f points\n");`, "score: 12.5 points", `score: +(?P<value>[-+0-9.eE]+) +(?P<unit>points)`},
		{`printf("time %.2f msg\n");`, "", ""},
	} {
		var best timeLine
		if all := printedTimes([]byte(c.source)); len(all) > 0 {
			best = all[0]
		}
		pattern := best.pattern
		if pattern != c.pattern {
			t.Errorf("%s: %q, want %q", c.source, pattern, c.pattern)
		}
		if !regexp.MustCompile(pattern).MatchString(c.line) {
			t.Errorf("%q does not match %q", pattern, c.line)
		}
	}
}

func FuzzPrintedTime(f *testing.F) {
	f.Add(`printf("block_size %4d | time %.4f ms\n", b, t);`)
	f.Add(`printf("50%%0fs")`) // no conversion
	f.Add(`printf("a\tb'%zu %-8s %%%*d time: [%5.1lf] usec\n")`)
	f.Fuzz(func(t *testing.T, source string) {
		for _, l := range printedTimes([]byte(source)) {
			p := project{Kind: config.KindCommand, Run: []string{"x"}, Times: []timeLine{l}}
			if _, err := p.config(); err != nil {
				t.Errorf("%q of %q: %v", l.pattern, source, err)
			}
			if !strings.Contains(l.pattern, "(?P<unit>") {
				t.Errorf("%q reads no unit", l.pattern)
			}
		}
	})
}

func FuzzMakeTargets(f *testing.F) {
	f.Add("A = $(B)\nB = $(A) $(A)\nall: x\n\t$(A) -o $@\n.PHONY: all\nx: x.cu\n\tsudo ncu -o out/$@\n")
	f.Add("T := gemm\n$(T): main.o\\\n other.o\n\tcc -o $@ $^\n")
	f.Fuzz(func(t *testing.T, text string) {
		rules := makeTargets([]byte(text))
		for program, file := range rules.files {
			if !slices.Contains(rules.programs, program) || !filepath.IsLocal(file) {
				t.Errorf("%q is written to %q", program, file)
			}
		}
	})
}

// TestPrintedTimeOfTheKernel: what surrounds it is no metric.
func TestPrintedTimeOfTheKernel(t *testing.T) {
	const around = `printf(">> GPU allocation time: %f ms\\n", ms); printf(">> Host to device transfer time: %f ms\\n", ms);` + "\n"
	for source, want := range map[string]string{
		around + `printf("Elapsed time: %.6f ms\n", cpu); printf(">> Kernel execution time: %f ms\n", ms);`:         "Kernel",
		around + "// printf(\"kernel %f ms\");\n" + `printf("time cpu %f ms\n", c); printf("time gpu %f ms\n", c);`: "gpu",
		around + `printf("total %f s\n", t); printf("average time %f ms\n", t);`:                                    "average",
		around: "",
	} {
		p := project{Kind: config.KindCommand, Run: []string{"x"}, Times: printedTimes([]byte(source))}
		text, err := p.config()
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse(config.FileName, text)
		if err != nil {
			t.Fatal(err)
		}
		if want != "" && (len(cfg.Metrics) != 1 || !strings.Contains(cfg.Metrics[0].Pattern, want)) || want == "" && len(cfg.Metrics) != 0 {
			t.Errorf("%s: %+v", source, cfg.Metrics)
		}
		if !strings.Contains(string(text), "# or pattern = '>> +GPU +allocation") {
			t.Errorf("the other times are not named:\n%s", text)
		}
	}
}

func TestInitOfOneFile(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"kernels/gemm.cu":  "/*\nCompile:\nnvcc -O3 -arch=sm_80 -Iinc -gencode arch=compute_80,code=sm_80 -DCUDNN -lcudnn -lcublas -lcublasLt -lcurand gemm.cu tune.cu -o gemm_bench\nnvcc -O3 -arch=sm_80 -Xptxas dlcm=ca -Iinc gemm.cu tune.cu -o gemm_bench && ./gemm_bench\n./gemm_bench 2 -n 4\n*/\n#include \"common.h\"\n#include \"shape.h\"\n#include <vector>\nint main() { printf(\"n=%d time %f ms\\n\", n, t); }",
		"kernels/tune.cu":  "",
		"kernels/common.h": "#include \"inc/deep.h\"\n", "kernels/inc/deep.h": "", "kernels/inc/shape.h": "",
		"bench.py":     "",
		"bot/task.yml": taskYML, "bot/mine.py": "#!POPCORN leaderboard bot\ndef custom_kernel(data): pass", "bot/tool.py": "",
		"torch/reference.py": "def generate_input(): pass", "torch/fast.py": "def custom_kernel(data): pass",
		"sgemm.cu": "#include <runner.cuh>\n#include <vector>\nint main(int argc, char **argv) { if (argc != 2) return 1; }",
		"posix.cu": "#include <unistd.h>\n#include <sys/time.h>\n#include <runner.cuh>\nint main() {}", "dev/unistd.h": "", "dev/sys/time.h": "",
		"src/runner.cuh": "inline void run() { printf(\"kernel %f ms\\n\", ms); }", "src/runner.cu": "#include \"runner.cuh\"\n#include <cublas_v2.h>\n",
	})
	p, err := programOf(dir, filepath.Join(dir, "kernels", "gemm.cu"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.config()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	cfg, err := config.Parse(config.FileName, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ got, want []string }{
		{cfg.Paths, []string{"kernels/gemm.cu", "kernels/tune.cu", "kernels/common.h", "kernels/inc/shape.h", "kernels/inc/deep.h"}},
		{cfg.Build.Sources, []string{"kernels/gemm.cu", "kernels/tune.cu"}},
		{cfg.Build.Options, []string{"-O3", "-Xptxas", "dlcm=ca", "-Ikernels/inc"}},
		{cfg.Build.Outputs, []string{"gemm_bench"}},
		{cfg.Run.Command, []string{"./gemm_bench", "2", "-n", "4"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if len(cfg.Metrics) != 1 || cfg.Metrics[0].Pattern != `n=(?P<n>\d+) +time +(?P<value>[-+0-9.eE]+) +(?P<unit>ms)` {
		t.Errorf("%+v", cfg.Metrics)
	}
	p, err = programOf(dir, filepath.Join(dir, "sgemm.cu"))
	if err != nil || !slices.Equal(p.Sources, []string{"sgemm.cu", "src/runner.cu"}) || !slices.Equal(p.Options, []string{"-Isrc", "-lcublas"}) ||
		!slices.Equal(p.Paths, []string{"sgemm.cu", "src/runner.cuh", "src/runner.cu"}) || len(p.Notes) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	p, err = programOf(dir, filepath.Join(dir, "posix.cu"))
	if err != nil || len(p.Times) != 1 || !slices.Equal(p.Options, []string{"-Isrc", "-lcublas"}) || slices.Contains(p.Paths, "dev/unistd.h") {
		t.Errorf("headers of the system are taken for the project's: %+v %v", p, err)
	}
	for name, want := range map[string]string{"bot/mine.py": config.KindKernelbot, "torch/fast.py": config.KindTorch, "bot/tool.py": config.KindCommand} {
		if p, err := programOf(dir, filepath.Join(dir, name)); err != nil || p.Kind != want || want != config.KindCommand && p.Task.Submission != name {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
	if got := folded([]string{"a.cu", "x/1", "x/2", "x/y/3", "x/4", "x/5", "x/6", "x/7", "z/8"}); !slices.Equal(got, []string{"a.cu", "x/", "z/"}) {
		t.Error(got)
	}
	if p, err := programOf(dir, filepath.Join(dir, "bench.py")); err != nil || !slices.Equal(p.Run, []string{"python3", "bench.py"}) {
		t.Errorf("%+v %v", p, err)
	}
	for _, file := range []string{"none.cu", "../x.cu", "kernels", "kernels/common.h"} {
		if _, err := programOf(dir, filepath.Join(dir, file)); err == nil {
			t.Errorf("%s was taken", file)
		}
	}
	if _, _, err := WriteProgram(dir, "bench.py", nil); err != nil {
		t.Error(err)
	}
	if _, _, err := WriteProgram(dir, "kernels/gemm.cu", nil); err == nil || !strings.Contains(err.Error(), "was not changed") {
		t.Errorf("a configuration was written over another: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, config.FileName)); err != nil {
		t.Error(err)
	}
}
