package kernelbot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
		TestLimit:  DefaultLimit, BenchmarkLimit: DefaultLimit, RankedLimit: 90500 * time.Millisecond,
		RankingBy: "last", Seed: &seed, MultiGPU: true, World: 2,
		Warnings: []string{
			`1 case values are not plain words or integers (such as "size: 1.5"): a strict evaluation program rejects them with exit 113`,
			`KernelBot ignores the key "colour"`,
			"compile_flags are ignored, as on the server",
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
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
	if len(task.Warnings) != 1 || !strings.HasPrefix(task.Warnings[0], `8 case values are not plain words or integers (such as "m: [96, 128]")`) {
		t.Errorf("warnings %q", task.Warnings)
	}
}

// TestParseTaskLikePython: equal keys come to what PyYAML makes of them.
func TestParseTaskLikePython(t *testing.T) {
	task, err := ParseTask([]byte(`
lang: cu
files: [{name: s.py, source: "@SUBMISSION@"}, {name: e.py, source: e.py}]
config: {main: e.py}
tests:
  - {size: 1, seed: 2}
  - {size: 1, seed: 3}
  - {size: 4, seed: 5, size: 6}
benchmarks:
  - {size: 7, size: 8}
lang: py
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"size: 1; seed: 2", "size: 1; seed: 3", "size: 6; seed: 5"}
	if d := cmp.Diff(want, task.Tests); d != "" || task.Lang != "py" {
		t.Error(task.Lang, d)
	}
	if d := cmp.Diff([]string{"size: 8"}, task.Benchmarks); d != "" {
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
		files + "lang: py\ntests: [{n: 1}]": `config.main: "" is not one of the files`,
		files + "lang: js":                  "neither py nor cu",
		files + "lang: cu\ntests: [{n: 1}]": "nothing to compile",
		files + "lang: py\nconfig: {main: eval.py}":                   "neither tests nor benchmarks",
		files + rest + "ranking_by: best":                             "use last, mean or geom",
		files + rest + "multi_gpu: true":                              "no case has a world_size",
		"a: &a [1, *a]\n" + files + rest:                              "are not read",
		bomb + files + rest:                                           "are not read",
		"a: &a {n: 1}\nb: {n: 2, <<: *a}\n" + files + rest:            "are not read",
		"b: {<<: {n: 1}}\n" + files + rest:                            "are not read",
		"a: &a {n: 1}\nb: {<<: [*a, *a]}\n" + files + rest:            "are not read",
		"files: [{name: a/b.py, source: \"@SUBMISSION@\"}]\nlang: py": "a file needs a base name",
		"lang: [":                      "1",
		"tests: {n: 1}":                "sequence is expected",
		strings.Repeat("[", 1000):      "too deep",
		strings.Repeat("- ", 20000):    "too deep",
		strings.Repeat("x", maxTask+1): "too large for a task.yml",
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
	for text, hint := range map[string]string{"lang:\n\t- x\n": "indented with spaces", files: "the last of equal keys counts"} {
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
		if task.Submission() == "" || len(task.Tests)+len(task.Benchmarks) == 0 {
			t.Errorf("an incomplete task for %q", data)
		}
	})
}
