package kernelbot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// problem writes the files of a problem and returns its folder.
func problem(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "p")
}

// A problem is read with the judge's files, which may be shared by several problems, and without the submission, which
// is the candidate's.
func TestReadTask(t *testing.T) {
	dir := problem(t, map[string]string{
		"p/task.yml": `
lang: cu
files: [{name: submission.cu, source: "@SUBMISSION@"}, {name: eval.cu, source: ../eval.cu}, {name: task.h, source: include/task.h}]
config: {sources: [eval.cu, submission.cu], include_dirs: [inc], defines: {FAST: 1, PLAIN: null}}
tests: [{n: 1}]
benchmarks: [{n: 2}, {n: 3}]
test_timeout: 0.5
benchmark_timeout: -1
ranked_timeout: 1.0e+12
`,
		"eval.cu": "judge", "p/include/task.h": "header", "p/submission.cu": "not this one",
	})
	for _, name := range []string{dir, filepath.Join(dir, "task.yml")} {
		got, err := ReadTask(name)
		if err != nil {
			t.Fatal(err)
		}
		files := []File{{Name: "submission.cu", Source: SubmissionMark}, {Name: "eval.cu", Text: "judge"}, {Name: "task.h", Text: "header"}}
		if d := cmp.Diff(files, got.Files); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"FAST=1", "PLAIN"}, got.Defines); d != "" {
			t.Error(d)
		}
		if got.Submission() != "submission.cu" || !got.Has("task.h") || got.Has("eval.py") {
			t.Errorf("%+v", got)
		}
		if got.TestLimit != time.Second/2 || got.BenchmarkLimit != DefaultLimit || got.RankedLimit != 7*24*time.Hour {
			t.Errorf("limits %v, %v, %v", got.TestLimit, got.BenchmarkLimit, got.RankedLimit)
		}
	}
}

// What cannot be read of a problem, and where.
func TestReadTaskErrors(t *testing.T) {
	const head = "lang: cu\ntests: [{n: 1}]\nconfig: {sources: [eval.cu]}\nfiles: [{name: s.cu, source: \"@SUBMISSION@\"}, "
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no problem":              {map[string]string{"p/x": ""}, "reading the problem: "},
		"no judge":                {map[string]string{"p/task.yml": head + "{name: eval.cu, source: ../gone.cu}]"}, "gone.cu: no such file or directory\nhint: sources are paths from the folder of task.yml"},
		"a folder for a judge":    {map[string]string{"p/task.yml": head + "{name: eval.cu, source: d}]", "p/d/x": ""}, "files: "},
		"a source of no file":     {map[string]string{"p/task.yml": head + "{name: other.cu, source: x}]"}, `config.sources: ["eval.cu"] are not all among the files`},
		"a name with a folder":    {map[string]string{"p/task.yml": head + "{name: d/eval.cu, source: x}]"}, "a file needs a base name and a source"},
		"a name that leads away":  {map[string]string{"p/task.yml": head + "{name: .., source: x}]"}, "a file needs a base name and a source"},
		"two submissions":         {map[string]string{"p/task.yml": head + "{name: eval.cu, source: \"@SUBMISSION@\"}]"}, "2 files have the source @SUBMISSION@; exactly one is the submission"},
		"a list where a map is":   {map[string]string{"p/task.yml": "config: [1]\n"}, "hint: "},
		"several GPUs, no number": {map[string]string{"p/task.yml": head + "{name: eval.cu, source: x}]\nmulti_gpu: true"}, "multi_gpu: no case has a world_size"},
	} {
		_, err := ReadTask(problem(t, c.files))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The server ranks by the last benchmark, or by all.
func TestRanked(t *testing.T) {
	for by, want := range map[string][]string{"last": {"n: 2"}, "mean": {"n: 1", "n: 2"}, "geom": {"n: 1", "n: 2"}} {
		task := Task{RankingBy: by, Benchmarks: []string{"n: 1", "n: 2"}}
		if d := cmp.Diff(want, task.Ranked()); d != "" {
			t.Errorf("%s: %s", by, d)
		}
	}
	if got := (&Task{RankingBy: "last"}).Ranked(); len(got) > 0 {
		t.Errorf("of no benchmark: %q", got)
	}
}

// A case is one line of pairs whatever its values are: an evaluation program reads the file line by line.
func TestCasesAreOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOf(rapid.SampledFrom([]rune("ab1;: \n\r\t\u0085\u2028'\"\\é\U0001F600"))).Draw(t, "value")
		text := "lang: py\nfiles: [{name: s.py, source: \"@SUBMISSION@\"}, {name: e.py, source: e.py}]\nconfig: {main: e.py}\ntests:\n- {k: " + quoteYAML(value) + ", n: 1}\n"
		task, err := ParseTask([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(task.Tests) != 1 || strings.ContainsAny(task.Tests[0], "\n\r") || !strings.HasSuffix(task.Tests[0], "; n: 1") {
			t.Fatalf("%q became %q", value, task.Tests)
		}
	})
}

// quoteYAML writes a text as a double-quoted scalar.
func quoteYAML(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\u0085", `\N`, "\u2028", `\L`).Replace(s) + `"`
}
