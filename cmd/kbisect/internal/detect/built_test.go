package detect

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// compiler stands in for nvcc, gcc and the like: it makes the file behind -o, or a.out, which runs.
const compiler = `#!/bin/sh
out=a.out
while [ $# -gt 0 ]; do
	case $1 in -o) out=$2; shift ;; -o*) out=${1#-o} ;; -c) object=1 ;; esac
	shift
done
mkdir -p "$(dirname "$out")"
printf '#!/bin/sh\necho ran\n' >"$out"
chmod +x "$out"
`

// TestMakefilesThatAreFoundAreBuilt runs make with what is found in Makefiles as repositories have them: the outputs
// are there afterwards, and what is run is one of them.
func TestMakefilesThatAreFoundAreBuilt(t *testing.T) {
	for name, c := range map[string]struct{ text, run string }{
		"plain":            {"bench: bench.cu\n\tnvcc -O3 -o bench bench.cu\nclean:\n\trm -f bench\n", "./bench"},
		"variables":        {"NVCC ?= nvcc\nTARGET = bench\nall: $(TARGET)\n$(TARGET): main.o\n\t$(NVCC) $^ -o $@\n%.o: %.cu\n\t$(NVCC) -c $< -o $@\n", "./bench"},
		"braces":           {"OUT := gemm_bench\n.PHONY: all clean\nall: ${OUT}\n${OUT}: main.cu kernels.cu\n\tnvcc -o ${OUT} main.cu kernels.cu\nclean:\n\trm -f ${OUT}\n", "./gemm_bench"},
		"folder of builds": {"BUILD = build\n$(BUILD)/bench: bench.cu\n\tmkdir -p $(BUILD)\n\tnvcc bench.cu -o $(BUILD)/bench\n", "./build/bench"},
		"phony program":    {".PHONY: bench\nbench: bench.cu\n\tnvcc bench.cu -o bench\n", "./bench"},
		"another name":     {".PHONY: gemm\ngemm: gemm.cu\n\tnvcc $< -o bin_gemm\n", "./bin_gemm"},
		"continuation":     {"SRCS = a.cu \\\n\tb.cu\nbench: $(SRCS)\n\tnvcc $(SRCS) \\\n\t\t-o $@\n", "./bench"},
		"several":          {"all: test_gemm bench_gemm\ntest_gemm: test.cu\n\tnvcc -o $@ $<\nbench_gemm: bench.cu\n\tnvcc -o $@ $<\n", "./bench_gemm"},
		"double colon":     {"bench:: bench.cu\n\tnvcc -o bench bench.cu\n", "./bench"},
		"comments":         {"# bench: old.cu\nbench: bench.cu # the program\n\tnvcc -o bench bench.cu # -o other\n", "./bench"},
		"line ends":        {"bench: bench.cu\r\n\tnvcc -o bench bench.cu\r\n", "./bench"},
		"after the clean":  {"clean:\n\trm -f *.o\nbench: bench.cu\n\tnvcc -o $@ bench.cu\n", "./bench"},
		"out file":         {"prog.out: prog.cu\n\tnvcc -o prog.out prog.cu\n", "./prog.out"},
	} {
		files := map[string]string{"Makefile": c.text}
		for _, f := range []string{"bench.cu", "main.cu", "kernels.cu", "gemm.cu", "a.cu", "b.cu", "test.cu", "prog.cu"} {
			files[f] = "int main() { return 0; }\n"
		}
		dir := writeFiles(t, files)
		bin := t.TempDir()
		gittest.WriteFiles(t, bin, map[string]string{"nvcc": compiler}, 0o755)
		p, err := detectProject(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Run) != 1 || p.Run[0] != c.run || len(p.Outputs) != 1 || "./"+p.Outputs[0] != c.run {
			t.Errorf("%s: run %q, outputs %q, want %s", name, p.Run, p.Outputs, c.run)
			continue
		}
		cmd := exec.Command(p.Build[0], p.Build[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil && name != "line ends" { // which make itself does not take
			t.Errorf("%s: %q: %v\n%s", name, p.Build, err, out)
			continue
		}
		if name == "line ends" {
			continue
		}
		cmd = exec.Command(p.Run[0])
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ran\n" {
			t.Errorf("%s: %q: %v\n%s", name, p.Run, err, out)
		}
	}
}

// TestWriteHarness: an example beside a project is configured where it is the top of a repository, and nothing that is
// there is touched.
func TestWriteHarness(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "sub/README", "")
	r.Commit(t, "one")
	says := func(dir, name string) (string, error) {
		var out strings.Builder
		err := WriteHarness(&out, dir, name)
		return out.String(), err
	}
	said, err := says(r.Dir, "cuda")
	if err != nil || !strings.Contains(said, "bench.cu written\n") || !strings.Contains(said, config.FileName+" written for a project of kind nvcc\n") {
		t.Errorf("%v\n%s", err, said)
	}
	if cfg, err := config.Load(filepath.Join(r.Dir, config.FileName)); err != nil || cfg.Kind != kernels.KindNvcc || cfg.Build.Sources[0] != "bench.cu" {
		t.Errorf("%+v, %v", cfg, err)
	}
	before := gittest.Listing(t, r.Dir)
	if said, err = says(r.Dir, "cuda"); err != nil || strings.Contains(said, "bench.cu written") || !strings.Contains(said, "already exists and was not changed") {
		t.Errorf("again: %v\n%s", err, said)
	}
	gittest.SameListing(t, gittest.Listing(t, r.Dir), before, "again")
	if said, err = says(filepath.Join(r.Dir, "sub"), "python"); err != nil || !strings.Contains(said, "No kbisect.toml was written, because it belongs in ") {
		t.Errorf("below: %v\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "sub", config.FileName)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a configuration that kbisect would not find")
	}
	if _, err = says(r.Dir, "rust"); err == nil {
		t.Error("no error for an unknown example")
	}
	r.Write(t, "bench.py", "mine")
	if _, err = says(r.Dir, "python"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file of the user's: %v", err)
	}
}

// TestWriteTop: the configuration goes to the top of the repository, also when asked for from below; a problem folder
// below is the project itself.
func TestWriteTop(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "Makefile", "bench: bench.cu\n\tnvcc -o bench bench.cu\n")
	r.Write(t, "src/x.cu", "")
	r.Write(t, "p/task.yml", taskYML)
	r.Write(t, "p/submission.py", "def custom_kernel(data): return data\n")
	path := filepath.Join(r.Dir, config.FileName)
	for _, c := range []struct{ dir, kind string }{{"src", kernels.KindKernelbot}, {"p", kernels.KindKernelbot}} {
		got, kind, err := WriteTop(filepath.Join(r.Dir, c.dir))
		if err != nil || kind != c.kind || !sameFile(got, path) {
			t.Errorf("%s: %s, %s, %v", c.dir, got, kind, err)
		}
		cfg, err := config.Load(path)
		if err != nil || cfg.Task.Submission != "p/submission.py" {
			t.Errorf("%s: %+v, %v", c.dir, cfg, err)
		}
		if _, _, err := WriteTop(filepath.Join(r.Dir, c.dir)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: written over: %v", c.dir, err)
		}
		os.Remove(path)
	}
	os.RemoveAll(filepath.Join(r.Dir, "p"))
	if _, kind, err := WriteTop(filepath.Join(r.Dir, "src")); err != nil || kind != kernels.KindMake {
		t.Errorf("%s, %v", kind, err)
	}
	alone := writeFiles(t, map[string]string{"bench.sh": "true\n"}) // no repository
	if got, kind, err := WriteTop(alone); err != nil || kind != kernels.KindCommand || filepath.Dir(got) != alone {
		t.Errorf("%s, %s, %v", got, kind, err)
	}
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// TestPrintedTimesAreReadAsSeconds: the pattern made of a line reads such lines, in whatever unit.
func TestPrintedTimesAreReadAsSeconds(t *testing.T) {
	for word, want := range map[string]string{"ms": "0.002", "msec": "0.002", "milliseconds": "0.002", "us": "2e-06", "usec": "2e-06", "µs": "2e-06", "microseconds": "2e-06", "ns": "2e-09", "nanoseconds": "2e-09", "s": "2", "sec": "2", "secs": "2", "second": "2", "seconds": "2"} {
		times := timesIn("time of the kernel: 17.250 " + word + "\n")
		if len(times) != 1 {
			t.Errorf("%s: %+v", word, times)
			continue
		}
		if got := valuesRead(t, times[0].pattern, "time of the kernel:    2.000 "+word); got != " "+want+" s" {
			t.Errorf("%s: %q, want %s s by %s", word, got, want, times[0].pattern)
		}
	}
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
