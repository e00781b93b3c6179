package kernels

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// asError is errors.As, for short.
func asError[T error](err error, target *T) bool { return errors.As(err, target) }

const cudaTask = `
lang: "cu"
description: |
  sorts: &quickly *well*
files:
  - {name: "submission.cu", source: "@SUBMISSION@"}
  - name: eval.cu
    source: ../eval.cu
config:
  sources: ["eval.cu", "submission.cu"]
  include_dirs: [include]
  defines: {FAST: null, N: 4}
  compile_flags: ["-lineinfo"]
tests:
  - {world_size: 2, size: 1023, seed: 4242, mode: plain}
  - {size: 1.5}
benchmarks:
  - {size: 1, seed: -3}
  - {size: 2, flag: true}
ranked_timeout: 90.5
multi_gpu: true
seed: 7
colour: red
gpus: [B200]
`

func TestParseTask(t *testing.T) {
	got, err := ParseTask([]byte(cudaTask))
	if err != nil {
		t.Fatal(err)
	}
	seed := int64(7)
	want := &Task{
		Lang: "cu", Files: []File{{Name: "submission.cu", Source: SubmissionMark}, {Name: "eval.cu", Source: "../eval.cu"}},
		Sources: []string{"eval.cu", "submission.cu"}, Includes: []string{"include"}, Defines: []string{"FAST", "N=4"},
		Tests:      []string{"world_size: 2; size: 1023; seed: 4242; mode: plain", "size: 1.5"},
		Benchmarks: []string{"size: 1; seed: -3", "size: 2; flag: True"},
		TestLimit:  StageLimit, BenchmarkLimit: StageLimit, RankedLimit: 90500 * time.Millisecond,
		RankingBy: "last", Seed: &seed, MultiGPU: true, World: 2, GPUs: []string{"B200"},
		Warnings: []string{
			`case values that are more than letters or a whole number (1, such as "size: 1.5"): an evaluation that reads no others ends with exit 113`,
			"compile_flags of the task are not used, as on the server",
			`key "colour" of the task is not known to KernelBot`,
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	plan, err := NewPlan(Project{Kind: "kernelbot", Task: got, Submission: "kernels/sort.cu", Device: "8.0", Mode: "benchmark"})
	if err != nil {
		t.Fatal(err)
	}
	build := strings.Join(plan.Build, " ")
	if !strings.HasSuffix(build, "-Iinclude -DFAST -DN=4 eval.cu submission.cu -gencode=arch=compute_80,code=sm_80 -o eval.out") {
		t.Errorf("build %s", build)
	}
	s := plan.Stages[0]
	if d := cmp.Diff([]string{"./eval.out", "benchmark", benchmarkCases}, s.Run); d != "" || len(plan.Stages) != 1 {
		t.Errorf("%s\n%+v", d, plan.Stages)
	}
	if d := cmp.Diff([]string{"POPCORN_SEED=7", "POPCORN_GPUS=2"}, s.Env); d != "" {
		t.Error(d)
	}
	last := plan.Files[len(plan.Files)-1]
	if last.Text != "size: 2; flag: True\n" || plan.Files[0].Source != "kernels/sort.cu" {
		t.Errorf("of a ranking by the last benchmark only that is run: %+v", last)
	}
	const left = "the ranking is by the last benchmark (size: 2; flag: True): the 1 before it are not run, as on the server"
	if w := plan.Warnings; len(w) != 4 || w[3] != left || len(got.Warnings) != 3 {
		t.Errorf("warnings %q, of the task %q", w, got.Warnings)
	}
	if plan, err = NewPlan(Project{Kind: "kernelbot", Task: got, Mode: "test"}); err != nil || len(plan.Warnings) != 3 {
		t.Errorf("warnings of the tests %q, %v", plan.Warnings, err)
	}
}

// TestCasesAsPythonWritesThem holds the lines against what Python's f"{k}: {v}" makes of the same YAML.
func TestCasesAsPythonWritesThem(t *testing.T) {
	task, err := ParseTask([]byte(`
lang: py
files: [{name: s.py, source: "@SUBMISSION@"}, {name: e.py, source: e.py}]
config: {main: e.py}
tests:
  - {"m": [96, 128], "names": ["a", "it's", true], "g": 2}
  - {case: lapack_dense, scale: 1.0, tiny: 0.00001, big: 1.5e+17, some: 0.25, none: null, nested: {k: [1, [2.0]]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`m: [96, 128]; names: ['a', "it's", True]; g: 2`,
		`case: lapack_dense; scale: 1.0; tiny: 1e-05; big: 1.5e+17; some: 0.25; none: None; nested: {'k': [1, [2.0]]}`,
	}
	if d := cmp.Diff(want, task.Tests); d != "" {
		t.Error(d)
	}
	if len(task.Warnings) != 1 || !strings.HasPrefix(task.Warnings[0], `case values that are more than letters or a whole number (8, such as "m: [96, 128]")`) {
		t.Errorf("warnings %q", task.Warnings)
	}
}

// TestParseTaskLikePython: aliases, merged mappings and equal keys come to what PyYAML makes of them.
func TestParseTaskLikePython(t *testing.T) {
	task, err := ParseTask([]byte(`
lang: cu
files: [{name: s.py, source: "@SUBMISSION@"}, {name: e.py, source: e.py}]
config: {main: e.py}
tests: &t
  - &first {size: 1, seed: 2}
  - {<<: *first, seed: 3}
  - {size: 4, seed: 5, size: 6}
benchmarks: *t
lang: py
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"size: 1; seed: 2", "size: 1; seed: 3", "size: 6; seed: 5"}
	if d := cmp.Diff(want, task.Tests); d != "" || task.Lang != "py" {
		t.Error(task.Lang, d)
	}
	if d := cmp.Diff(want, task.Benchmarks); d != "" {
		t.Error(d)
	}
}

func TestParseTaskRefuses(t *testing.T) {
	bomb := "a0: &a0 [lol, lol]\n"
	for i := range 40 {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	const files = "files: [{name: submission.py, source: \"@SUBMISSION@\"}, {name: eval.py, source: e.py}]\n"
	const rest = "lang: py\nconfig: {main: eval.py}\ntests: [{n: 1}]\n"
	for doc, want := range map[string]string{
		"":                                  "neither py nor cu",
		rest:                                "exactly one is the submission",
		files + "lang: py\ntests: [{n: 1}]": `config.main: "" is none of the files`,
		files + "lang: js":                  "neither py nor cu",
		files + "lang: cu\ntests: [{n: 1}]": "nothing to compile",
		files + "lang: py\nconfig: {main: eval.py}":                   "neither tests nor benchmarks",
		files + rest + "ranking_by: best":                             "none of last, mean, geom",
		files + rest + "multi_gpu: true":                              "no case has a world_size",
		"a: &a [1, *a]\n" + files + rest:                              "huge or without end",
		bomb + files + rest:                                           "huge or without end",
		"a: &a {n: 1}\nb: {n: 2, <<: *a}\n" + files + rest:            "a merge key (<<) is read at the beginning",
		"a: &a {n: 1}\nb: {<<: [*a, *a]}\n" + files + rest:            "a merge key (<<) is read at the beginning",
		"files: [{name: a/b.py, source: \"@SUBMISSION@\"}]\nlang: py": "a name without folders",
		"lang: [":                      "1",
		"tests: {n: 1}":                "sequence is expected",
		strings.Repeat("[", 1000):      "too deep",
		strings.Repeat("- ", 20000):    "too deep",
		strings.Repeat("x", maxTask+1): "this is no task.yml",
	} {
		if _, err := ParseTask([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q", doc, err, want)
		}
	}
	if _, err := ReadTask(t.TempDir()); err == nil || !strings.Contains(err.Error(), "\nhint: ") {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "task.yml"), []byte(files+rest), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTask(dir); err == nil || !strings.Contains(err.Error(), "e.py: no such file or directory\nhint: ") {
		t.Errorf("got %v", err)
	}
	for text, hint := range map[string]string{"lang:\n\t- x\n": "indented by spaces", files: "the last of equal keys counts"} {
		if err := os.WriteFile(filepath.Join(dir, "task.yml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTask(dir); err == nil || !strings.Contains(err.Error(), "\nhint: ") || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestReadDirectives(t *testing.T) {
	got := ReadDirectives([]byte("#!POPCORN leaderboard nvfp4_dual_gemm\r\n  #!POPCORN gpus B200 H100\n//!POPCORN gpu L4\n#!POPCORN\n#!POPCORN mode x\n# POPCORN gpu A\n"))
	want := Directives{Leaderboard: "nvfp4_dual_gemm", GPUs: []string{"B200", "H100", "L4"}, Unknown: []string{"mode"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzParseTask(f *testing.F) {
	f.Add([]byte(cudaTask))
	f.Add([]byte("a: &a [*a]\n<<: *a"))
	f.Add([]byte("? - ? - : -\n!!binary x: !!int y"))
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := ParseTask(data)
		ReadDirectives(data)
		ParseProblems(data)
		if err != nil {
			return
		}
		for _, mode := range []string{"test", "benchmark", "leaderboard"} {
			if plan, err := NewPlan(Project{Kind: "kernelbot", Task: task, Mode: mode}); err == nil && len(plan.Stages) == 0 {
				t.Errorf("a plan without stages for %q", data)
			}
		}
	})
}
