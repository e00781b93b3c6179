package detect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	gittest.WriteFiles(t, dir, files, 0o644)
	return dir
}

// initConfig is what init writes for a folder.
func initConfig(dir string) (kind string, text []byte, err error) {
	p, err := detectProject(dir)
	if err != nil {
		return "", nil, err
	}
	text, err = p.config()
	return p.Kind, text, err
}

const taskYML = `
lang: py
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "eval.py", "source": "eval.py"}
config: {main: "eval.py"}
description: adds
tests:
  - {"n": 8, "seed": 1}
benchmarks:
  - {"n": 64, "seed": 2}
`

func TestInitConfig(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		kind  string
		want  config.Config // Kind, Paths, Task, Build.Command, Build.Sources, Build.Outputs, Run.Command
	}{
		{"make variable",
			map[string]string{"Makefile": "TARGET := gemm\nCC = gcc\n.PHONY: all clean\nall: $(TARGET)\n$(TARGET): main.o\n\t$(CC) -o $@ $^\nmain.o: main.c\nclean:\n\trm -f $(TARGET)\n", "main.c": "", "README.md": "", "docs/x": "", "lib/y.c": ""},
			kernels.KindMake, config.Config{Kind: kernels.KindMake, Paths: []string{"lib/", "Makefile", "main.c"}, Build: config.BuildConfig{Command: []string{"make", "-j2", "gemm"}, Outputs: []string{"gemm"}}, Run: config.RunConfig{Command: []string{"./gemm"}}}},
		{"make named bench",
			map[string]string{"Makefile": "bench: bench.c gemm.h\n\tcc -o $@ $<\ntest: bench\n\t./bench\n", "bench.c": ""},
			kernels.KindMake, config.Config{Kind: kernels.KindMake, Paths: []string{"Makefile", "bench.c"}, Build: config.BuildConfig{Command: []string{"make", "-j2", "bench"}, Outputs: []string{"bench"}}, Run: config.RunConfig{Command: []string{"./bench"}}}},
		{"make phony program",
			map[string]string{"Makefile": ".PHONY: run\nrun: run.c\n\tcc -o run run.c\nrundebug: run.c\n\tcc -g -o run run.c\n", "run.c": ""},
			kernels.KindMake, config.Config{Kind: kernels.KindMake, Paths: []string{"Makefile", "run.c"}, Build: config.BuildConfig{Command: []string{"make", "-j2", "run"}, Outputs: []string{"run"}}, Run: config.RunConfig{Command: []string{"./run"}}}},
		{"make phony bench",
			map[string]string{"Makefile": "X := a\n.PHONY: bench\nbench: all.so\n\tpython3 b.py\n%.so: %.c\n\tcc\n"},
			kernels.KindMake, config.Config{Kind: kernels.KindMake, Paths: []string{"Makefile"}, Build: config.BuildConfig{Command: []string{"make", "-j2"}}, Run: config.RunConfig{Command: []string{"make", "bench"}}}},
		{"make names of things to do",
			map[string]string{"Makefile": "run-benchmarks:\n\tfor s in *.py; do python $$s; done\ntest_all:\n\tpytest\ncoverage:\n\tpytest --cov\n", "setup.py": ""},
			kernels.KindMake, config.Config{Kind: kernels.KindMake, Paths: []string{"Makefile", "setup.py"}, Build: config.BuildConfig{Command: []string{"make", "-j2"}}, Run: config.RunConfig{Command: []string{"make", "run-benchmarks"}}}},
		{"make with a profiler",
			map[string]string{"Makefile": "OUT = out\nFLAGS = -O3\nNCU := $(shell which ncu)\nNCU_COMMAND = sudo $(NCU) --set full\nTO = -o $(OUT)/$@\nsum: sum.cu\n\tnvcc $(FLAGS) $^ $(TO)\nsumprofile: sum\n\t$(NCU_COMMAND) -o $@ -f $(OUT)/$^\n", "sum.cu": ""},
			kernels.KindMake, config.Config{Kind: kernels.KindMake, Paths: []string{"Makefile", "sum.cu"}, Build: config.BuildConfig{Command: []string{"make", "-j2", "sum"}, Outputs: []string{"out/sum"}}, Run: config.RunConfig{Command: []string{"./out/sum"}}}},
		{"make that only checks",
			map[string]string{"Makefile": ".PHONY: all test checkstyle\nall: checkstyle test\ntest:\n\tpython -m pytest test/\ncheckstyle:\n\truff check . ; \\\n\truff format .\nbuild:\n\tmkdocs build\n"},
			kernels.KindCommand, config.Config{Kind: kernels.KindCommand, Paths: []string{"Makefile"}}},
		{"cmake",
			map[string]string{"CMakeLists.txt": "project(fast CUDA)\nadd_library(k k.cu)\nadd_executable(unit t.cu)\nadd_executable(${PROJECT_NAME}_bench\n  b.cu)\n", "b.cu": "", "cmake/x.cmake": "", "build/z": "", "LICENSE": ""},
			kernels.KindCMake, config.Config{Kind: kernels.KindCMake, Paths: []string{"cmake/", "CMakeLists.txt", "b.cu"},
				Build: config.BuildConfig{Command: []string{"sh", "-c", kernels.CMakeScript("fast_bench")}, Outputs: []string{"build/fast_bench"}}, Run: config.RunConfig{Command: []string{"./build/fast_bench"}}}},
		{"one cu file",
			map[string]string{"softmax.cu": "int main() {}"},
			kernels.KindNvcc, config.Config{Kind: kernels.KindNvcc, Paths: []string{"softmax.cu"}, Build: config.BuildConfig{Sources: []string{"softmax.cu"}, Outputs: []string{"softmax"}}, Run: config.RunConfig{Command: []string{"./softmax"}}}},
		{"several cu files",
			map[string]string{"bench.cu": "#include \"inner.cu\"\nint main(int argc, char **argv) {}", "inner.cu": "", "gemm.cu": "", "other.cu": "int main() {}", "gemm.cuh": ""},
			kernels.KindNvcc, config.Config{Kind: kernels.KindNvcc, Paths: []string{"bench.cu", "gemm.cu", "gemm.cuh", "inner.cu", "other.cu"}, Build: config.BuildConfig{Sources: []string{"bench.cu", "gemm.cu"}, Outputs: []string{"bench"}}, Run: config.RunConfig{Command: []string{"./bench"}}}},
		{"cu file of an extension",
			map[string]string{"flash.cu": "__global__ void f() {}", "main.cpp": "", "bench.py": "load(name='flash', sources=['main.cpp', 'flash.cu'])"},
			kernels.KindCommand, config.Config{Kind: kernels.KindCommand, Paths: []string{"bench.py", "flash.cu", "main.cpp"}, Run: config.RunConfig{Command: []string{"python3", "bench.py"}}}},
		{"torch",
			map[string]string{"submission.py": "def custom_kernel(data):\n    return data\n", "reference.py": "def generate_input(): pass\n"},
			kernels.KindTorch, config.Config{Kind: kernels.KindTorch, Paths: []string{"reference.py", "submission.py"}, Task: config.TaskConfig{Submission: "submission.py", Reference: "reference.py"}}},
		{"torch without a reference",
			map[string]string{"submission.py": "def custom_kernel(data):\n    return data\n", "bench.py": ""},
			kernels.KindCommand, config.Config{Kind: kernels.KindCommand, Paths: []string{"bench.py", "submission.py"}, Run: config.RunConfig{Command: []string{"python3", "bench.py"}}}},
		{"kernelbot",
			map[string]string{"task.yml": taskYML, "eval.py": "", "submission.py": "def custom_kernel(): pass", "bench.py": ""},
			kernels.KindKernelbot, config.Config{Kind: kernels.KindKernelbot, Paths: []string{"submission.py"}, Task: config.TaskConfig{Problem: ".", Mode: "leaderboard", Submission: "submission.py"}}},
		{"kernelbot below",
			map[string]string{"problems/a/task.yml": taskYML, "problems/a/eval.py": "", "problems/b/task.yml": taskYML, "problems/b/eval.py": "", "problems/b/submission.py": ""},
			kernels.KindKernelbot, config.Config{Kind: kernels.KindKernelbot, Paths: []string{"problems/b/submission.py"}, Task: config.TaskConfig{Problem: "problems/b", Mode: "leaderboard", Submission: "problems/b/submission.py"}}},
		{"kernelbot by directive",
			map[string]string{"problems/sort_py/task.yml": taskYML, "problems/sort_py/eval.py": "", "problems/sort_py/submission.py": "an example", "problems/a/task.yml": taskYML, "submission.py": "#!POPCORN leaderboard sort\n"},
			kernels.KindKernelbot, config.Config{Kind: kernels.KindKernelbot, Paths: []string{"submission.py"}, Task: config.TaskConfig{Problem: "problems/sort_py", Mode: "leaderboard", Submission: "submission.py"}}},
		{"script", map[string]string{"run.sh": ""}, kernels.KindCommand, config.Config{Kind: kernels.KindCommand, Paths: []string{"run.sh"}, Run: config.RunConfig{Command: []string{"sh", "run.sh"}}}},
		{"nothing", nil, kernels.KindCommand, config.Config{Kind: kernels.KindCommand}},
		{"odd names", map[string]string{"a \"b\"\\\n\x7f.txt": "", "run.sh": ""}, kernels.KindCommand,
			config.Config{Kind: kernels.KindCommand, Paths: []string{"a \"b\"\\\n\x7f.txt", "run.sh"}, Run: config.RunConfig{Command: []string{"sh", "run.sh"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeFiles(t, c.files)
			kind, text, err := initConfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Parse(filepath.Join(dir, config.FileName), text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if n := strings.Count(string(text), "\n"); n > 25 {
				t.Errorf("%d lines, at most 25 are wanted\n%s", n, text)
			}
			got := config.Config{Kind: cfg.Kind, Paths: cfg.Paths, Task: cfg.Task, Build: config.BuildConfig{Command: cfg.Build.Command, Sources: cfg.Build.Sources, Outputs: cfg.Build.Outputs}, Run: config.RunConfig{Command: cfg.Run.Command}}
			if !reflect.DeepEqual(got, c.want) || kind != c.kind {
				t.Errorf("kind %s\ngot %+v\nwant %+v\n%s", kind, got, c.want, text)
			}
			if len(cfg.Run.Command) == 0 && (cfg.Kind == kernels.KindCommand || cfg.Kind == kernels.KindMake) {
				return
			}
			project, err := cfg.Project("")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kernels.NewPlan(project); err != nil {
				t.Errorf("no plan: %v", err)
			}
		})
	}
}

// TestInitSays holds the words that a person needs where something cannot be known.
func TestInitSays(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing": {nil, []string{"FILL IN: nothing to run was found", "kbisect init --harness cuda | torch | python"}},
		"no main": {map[string]string{"flash.cu": ""}, []string{"FILL IN: no .cu file here has a main function"}},
		"no problem": {map[string]string{"submission.py": "#!POPCORN leaderboard vectoradd\n#!POPCORN gpus H100 B200\ndef custom_kernel(d): pass\n"},
			[]string{"for the leaderboard vectoradd.", "ranked on H100, B200;", `kind    = "kernelbot"`, `problem    = ""               # FILL IN: folder of task.yml`, "\nsubmission = \"submission.py\""}},
		"many problems": {map[string]string{"problems/a/task.yml": taskYML, "problems/b/task.yml": taskYML}, []string{"this is one of 2 problem folders here"}},
		"wrong leaderboard": {map[string]string{"problems/a/task.yml": taskYML, "submission.py": "#!POPCORN leaderboard sort\n#!POPCORN colour red\n"},
			[]string{"No problem folder here is called sort; name the right one.", `problem    = ""`, "#!POPCORN colour: unknown directive"}},
	} {
		_, text, err := initConfig(writeFiles(t, c.files))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: no word of %q in\n%s", name, want, text)
			}
		}
	}
}

// A command takes the place of what init wrote where it found nothing to run, unless somebody has edited that.
func TestCommandReplacesStub(t *testing.T) {
	for _, edited := range []string{"", "# mine\n"} {
		dir := t.TempDir()
		path, _, err := WriteTop(dir)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err := errors.Join(err, os.WriteFile(path, append(text, edited...), 0o644)); err != nil {
			t.Fatal(err)
		}
		_, _, err = WriteCommand(dir, "", []string{"./bench"})
		if after, _ := os.ReadFile(path); edited == "" && (err != nil || !strings.Contains(string(after), `command = ["./bench"]`)) || edited != "" && (!errors.Is(err, fs.ErrExist) || !strings.HasSuffix(string(after), edited)) {
			t.Errorf("edited %q: %v\n%s", edited, err, after)
		}
	}
}

func TestWriteConfig(t *testing.T) {
	dir := writeFiles(t, map[string]string{"Makefile": "all:\n"})
	path, kind, err := writeProject(dir)
	if err != nil || kind != kernels.KindMake || path != filepath.Join(dir, config.FileName) {
		t.Fatalf("%s, %s, %v", path, kind, err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := writeProject(dir); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "\nhint: ") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("overwritten: %q, %v", text, err)
	}
	if _, _, err := writeProject(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestHarnessFilesAreDetected writes each example and reads what init makes of it.
func TestHarnessFilesAreDetected(t *testing.T) {
	for name, kind := range map[string]string{"cuda": kernels.KindNvcc, "torch": kernels.KindTorch, "python": kernels.KindCommand} {
		dir := t.TempDir()
		_, written, err := writeFilesOf(dir, name)
		if err != nil || len(written) != 2 {
			t.Fatalf("%s: %q, %v", name, written, err)
		}
		path, got, err := writeProject(dir)
		if err != nil || got != kind {
			t.Fatalf("%s: kind %s, %v", name, got, err)
		}
		cfg, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		project, err := cfg.Project("")
		if err != nil {
			t.Fatal(err)
		}
		plan, err := kernels.NewPlan(project)
		if err != nil || len(plan.Run) == 0 {
			t.Errorf("%s: %+v, %v", name, plan, err)
		}
		if _, again, err := writeFilesOf(dir, name); err != nil || len(again) != 0 {
			t.Errorf("%s: a second time %q, %v", name, again, err)
		}
	}
}

func TestHarnessKeepsFiles(t *testing.T) {
	dir := writeFiles(t, map[string]string{"bench.cu": "mine"})
	if _, _, err := writeFilesOf(dir, "cuda"); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "\nhint: ") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, harness.Header)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half an example was written: %v", err)
	}
	if _, _, err := writeFilesOf(t.TempDir(), "fortran"); err == nil || !strings.Contains(err.Error(), "cuda, python, torch") {
		t.Errorf("got %v", err)
	}
}
