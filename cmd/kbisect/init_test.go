package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/kernels"
)

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInitConfig(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		kind  string
		want  Config // Kind, Paths, Build.Command, Build.Outputs, Run.Command
	}{
		{"make variable",
			map[string]string{"Makefile": "TARGET := gemm\nCC = gcc\n.PHONY: all clean\nall: $(TARGET)\n$(TARGET): main.o\n\t$(CC) -o $@ $^\nmain.o: main.c\nclean:\n\trm -f $(TARGET)\n", "main.c": "", "README.md": "", "docs/x": "", "lib/y.c": ""},
			kindMake, Config{Kind: kindMake, Paths: []string{"lib/", "Makefile", "main.c"}, Build: BuildConfig{Command: []string{"make", "-j2", "gemm"}, Outputs: []string{"gemm"}}, Run: RunConfig{Command: []string{"./gemm"}}}},
		{"make named bench",
			map[string]string{"Makefile": "bench: bench.c gemm.h\n\tcc -o $@ $<\ntest: bench\n\t./bench\n", "bench.c": ""},
			kindMake, Config{Kind: kindMake, Paths: []string{"Makefile", "bench.c"}, Build: BuildConfig{Command: []string{"make", "-j2", "bench"}, Outputs: []string{"bench"}}, Run: RunConfig{Command: []string{"./bench"}}}},
		{"make phony program",
			map[string]string{"Makefile": ".PHONY: run\nrun: run.c\n\tcc -o run run.c\nrundebug: run.c\n\tcc -g -o run run.c\n", "run.c": ""},
			kindMake, Config{Kind: kindMake, Paths: []string{"Makefile", "run.c"}, Build: BuildConfig{Command: []string{"make", "-j2", "run"}, Outputs: []string{"run"}}, Run: RunConfig{Command: []string{"./run"}}}},
		{"make phony bench",
			map[string]string{"Makefile": "X := a\n.PHONY: bench\nbench: all.so\n\tpython3 b.py\n%.so: %.c\n\tcc\n"},
			kindMake, Config{Kind: kindMake, Paths: []string{"Makefile"}, Build: BuildConfig{Command: []string{"make", "-j2"}}, Run: RunConfig{Command: []string{"make", "bench"}}}},
		{"cmake",
			map[string]string{"CMakeLists.txt": "project(fast CUDA)\nadd_library(k k.cu)\nadd_executable(unit t.cu)\nadd_executable(${PROJECT_NAME}_bench\n  b.cu)\n", "b.cu": "", "cmake/x.cmake": "", "build/z": "", "LICENSE": ""},
			kindCMake, Config{Kind: kindCMake, Paths: []string{"cmake/", "CMakeLists.txt", "b.cu"},
				Build: BuildConfig{Command: []string{"sh", "-c", "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build --parallel 2 --target fast_bench"}, Outputs: []string{"build/fast_bench"}}, Run: RunConfig{Command: []string{"./build/fast_bench"}}}},
		{"one cu file",
			map[string]string{"softmax.cu": "int main() {}"},
			kindNvcc, Config{Kind: kindNvcc, Paths: []string{"softmax.cu"}, Build: BuildConfig{Command: []string{"nvcc", "-O3", "-std=c++17", "-arch=native", "-o", "softmax", "softmax.cu"}, Outputs: []string{"softmax"}}, Run: RunConfig{Command: []string{"./softmax"}}}},
		{"several cu files",
			map[string]string{"bench.cu": "#include \"inner.cu\"\nint main(int argc, char **argv) {}", "inner.cu": "", "gemm.cu": "", "other.cu": "int main() {}", "gemm.cuh": ""},
			kindNvcc, Config{Kind: kindNvcc, Paths: []string{"bench.cu", "gemm.cu", "gemm.cuh", "inner.cu", "other.cu"}, Build: BuildConfig{Command: []string{"nvcc", "-O3", "-std=c++17", "-arch=native", "-o", "bench", "bench.cu", "gemm.cu"}, Outputs: []string{"bench"}}, Run: RunConfig{Command: []string{"./bench"}}}},
		{"torch",
			map[string]string{"submission.py": "def custom_kernel(data):\n    return data\n", "reference.py": ""},
			kindTorch, Config{Kind: kindCommand, Paths: []string{"reference.py", "submission.py"}, Run: RunConfig{Command: []string{"python3", "submission.py"}}}},
		{"kernelbot",
			map[string]string{"task.yml": "files:\n  - {\"name\": \"submission.py\", \"source\": \"@SUBMISSION@\"}\n", "submission.py": "def custom_kernel(): pass", "bench.py": ""},
			kindKernelbot, Config{Kind: kindCommand, Paths: []string{"bench.py", "submission.py", "task.yml"}, Run: RunConfig{Command: []string{"python3", "bench.py"}}}},
		{"script", map[string]string{"run.sh": ""}, kindCommand, Config{Kind: kindCommand, Paths: []string{"run.sh"}, Run: RunConfig{Command: []string{"sh", "run.sh"}}}},
		{"nothing", nil, kindCommand, Config{Kind: kindCommand}},
		{"odd names", map[string]string{"a \"b\"\\\n\x7f.txt": "", "run.sh": ""}, kindCommand,
			Config{Kind: kindCommand, Paths: []string{"a \"b\"\\\n\x7f.txt", "run.sh"}, Run: RunConfig{Command: []string{"sh", "run.sh"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, text, err := initConfig(writeFiles(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := parseConfig(configName, text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			got := Config{Kind: cfg.Kind, Paths: cfg.Paths, Build: BuildConfig{Command: cfg.Build.Command, Outputs: cfg.Build.Outputs}, Run: RunConfig{Command: cfg.Run.Command}}
			if diff := cmp.Diff(c.want, got); diff != "" || kind != c.kind {
				t.Errorf("kind %s\n%s\n%s", kind, diff, text)
			}
			if len(cfg.Run.Command) == 0 {
				return
			}
			if _, err := kernels.NewPlan(kernels.Project{Kind: cfg.Kind, Build: cfg.Build.Command, Outputs: cfg.Build.Outputs, Run: cfg.Run.Command}); err != nil {
				t.Errorf("no plan: %v", err)
			}
		})
	}
}

// TestInitComments makes every commented setting active: each must parse too.
func TestInitComments(t *testing.T) {
	_, text, err := initConfig(writeFiles(t, map[string]string{"Makefile": "bench: bench.c\n"}))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		plain := strings.TrimPrefix(line, "# ")
		if key, _, isPair := strings.Cut(plain, "="); isPair && len(strings.Fields(key)) == 1 || strings.HasPrefix(plain, "[") {
			line = plain
		}
		if !strings.HasPrefix(line, "pattern") { // belongs to another source
			lines = append(lines, line)
		}
	}
	cfg, err := parseConfig(configName, []byte(strings.Join(lines, "")))
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(lines, ""))
	}
	if len(cfg.Flags) != 1 || len(cfg.Metrics) != 1 || cfg.Build.Incremental == nil || len(cfg.Run.Limits) != 3 || cfg.Cost.GPUHour == 0 {
		t.Errorf("a comment was not read: %+v", cfg)
	}
}

func TestWriteConfig(t *testing.T) {
	dir := writeFiles(t, map[string]string{"Makefile": "all:\n"})
	path, kind, err := writeConfig(dir)
	if err != nil || kind != kindMake || path != filepath.Join(dir, configName) {
		t.Fatalf("%s, %s, %v", path, kind, err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := writeConfig(dir); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "\nhint: ") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("overwritten: %q, %v", text, err)
	}
	if _, _, err := writeConfig(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
