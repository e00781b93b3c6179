package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/trial"
)

func TestParseAccepted(t *testing.T) {
	const entry = "[[accepted]]\nmetric = \"time\"\nlimit = 1.08\nreason = \"the mask\"\n"
	got, err := ParseAccepted(AcceptedName, []byte(AcceptedHead+entry+"commit = \"abc\"\n[[accepted]]\nmetric = \"time\"\ncase = \"n=1\"\nlimit = 2\nreason = \"r\""))
	want := []Acceptance{{Metric: "time", Limit: 1.08, Commit: "abc", Reason: "the mask"}, {Metric: "time", Case: "n=1", Limit: 2, Reason: "r"}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
	for text, want := range map[string]string{
		"":                                          "",
		"[[accepted]]\n":                            `:1: accepted: missing key "limit"`,
		strings.Replace(entry, "1.08", "0", 1):      ":3: accepted.limit: invalid ratio 0",
		strings.Replace(entry, "1.08", "-1", 1):     ":3: accepted.limit: invalid ratio -1",
		strings.Replace(entry, "1.08", "inf", 1):    ":3: accepted.limit: must be a finite number",
		strings.Replace(entry, "1.08", "1e6", 1):    ":3: accepted.limit: invalid ratio 1e+06",
		strings.Replace(entry, "1.08", `"8 %"`, 1):  ":3: accepted.limit: expected a ratio, such as 1.08, got a string",
		strings.Replace(entry, "the mask", "", 1):   ":4: accepted.reason: empty",
		entry + "cases = \"n=1\"":                   `:5: accepted.cases: unknown key; did you mean "case"?`,
		"accepted = 3":                              ":1: accepted: expected an array of tables",
		"#" + strings.Repeat("x", maxSize):          "remove entries that the base branch has had for a long time",
		"[[accepted]]\nreason = \"a\\u0000b\"":      ":2: accepted.reason: contains a zero byte",
		"[metric]\nname = \"time\"\n" + entry:       ":1: metric: unknown key",
		entry + "limit = 3":                         ":5: ",
		entry + "[[accepted]]\nmetric=\"x\"\nlimit": ":7: ",
	} {
		_, err := ParseAccepted("f.toml", []byte(text))
		var e *Error
		if (err == nil) != (want == "") || err != nil && (!errors.As(err, &e) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
}

// TestProject: what a configuration says reaches package kernels, with the files as they are now.
func TestProject(t *testing.T) {
	const task = "lang: py\nfiles: [{name: submission.py, source: \"@SUBMISSION@\"}, {name: eval.py, source: eval.py}]\nconfig: {main: eval.py}\ntests: [{n: 1}]\n"
	dir := t.TempDir()
	gittest.WriteFiles(t, dir, map[string]string{"repo/bench.py": "print(1)\n", "repo/p/task.yml": task, "repo/p/eval.py": "", "outside/task.yml": task, "outside/eval.py": ""}, 0o644)
	if err := os.Symlink("/etc", filepath.Join(dir, "repo/link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want, wrong string }{
		{"kind = \"nvcc\"\n[build]\nsources = [\"a.cu\"]\noptions = [\"-O2\"]", "nvcc [a.cu] [-O2] device 9.0", ""},
		{"[build]\nincremental = false\n[run]\ncommand = [\"python3\", \"bench.py\"]\nfiles = [\"bench.py\"]", "command [python3 bench.py] bench.py=print(1)", ""},
		{"[run]\nfiles = [\"nosuch.py\"]", "", "run.files: "},
		{"[run]\nfiles = [\"link\"]", "", "run.files: "},
		{"kind = \"torch\"\n[task]\nsubmission = \"s.py\"\ncases = [\"m: 1\"]", "torch s.py [m: 1]", ""},
		{"kind = \"kernelbot\"\n[task]\nproblem = \"p\"\nmode = \"test\"", "kernelbot test eval.py", ""},
		{"kind = \"kernelbot\"\n[task]\nproblem = \"../outside\"", "kernelbot eval.py", ""},
		{"kind = \"kernelbot\"\n[task]\nproblem = \"" + filepath.Join(dir, "outside") + "\"", "kernelbot eval.py", ""},
		{"kind = \"kernelbot\"", "", "task.yml"},
		{"kind = \"kernelbot\"\n[run]\nfiles = [\"bench.py\"]", "", "takes its files from task.yml"},
		{"kind = \"kernelbot\"\n[run]\ncommand = [\"x\"]", "", "builds and runs as the problem says"},
	} {
		path := filepath.Join(dir, "repo", FileName)
		cfg, err := Parse(path, []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		p, err := cfg.WithDefaults().Project("9.0")
		got := fmt.Sprint(p.Kind, p.Mode, p.Sources, p.Options, p.Submission, p.Cases, p.Run, "device "+p.Device)
		for _, f := range p.Files {
			got += " " + f.Name + "=" + f.Text
		}
		if p.Task != nil {
			got += " " + p.Task.Main
		}
		for _, word := range strings.Fields(c.want) {
			if !strings.Contains(got, strings.Trim(word, "[]")) {
				t.Errorf("%q: %s, want %s", c.text, got, c.want)
			}
		}
		if (err == nil) != (c.wrong == "") || err != nil && (!strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), "\nhint: ")) {
			t.Errorf("%q: %v, want %q", c.text, err, c.wrong)
		}
	}
}

func TestRunModes(t *testing.T) {
	for text, want := range map[string]RunConfig{
		"": {}, "caches = \"auto\"\nprobe = \"auto\"": {}, "caches = \"cold\"\nprobe = \"on\"": {Caches: pipeline.Cold, Probe: trial.ProbeOn}, "caches = \"warm\"": {Caches: pipeline.Warm},
	} {
		c, err := Parse("c.toml", []byte("[run]\n"+text))
		if err != nil || c.Run.Caches != want.Caches || c.Run.Probe != want.Probe {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
}

// TestLinesOfRandomDocuments: every key of a document is found on the line on which it was written, whatever stands
// before it and however it is written.
func TestLinesOfRandomDocuments(t *testing.T) {
	fillers := []string{"", "# a comment [with] = marks", "\t", "# \"\"\""}
	values := []string{"1", `"a # b"`, "'c = d'", "[1, 2]", "[\n  1,\n  # [x]\n  2,\n]", "{a = 1, b = \"}\"}", "\"\"\"\n[no]\nk = 1\n\"\"\"", "'''\n=\n'''", "1979-05-27T07:32:00Z", "true"}
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		want := map[string]int{}
		write := func(text string) { lines = append(lines, strings.Split(text, "\n")...) }
		var prefix []string
		arrays := 0
		for i := range rapid.IntRange(1, 12).Draw(t, "n") {
			for range rapid.IntRange(0, 2).Draw(t, "fill") {
				write(rapid.SampledFrom(fillers).Draw(t, "filler"))
			}
			at := len(lines) + 1
			switch key := fmt.Sprintf("k%d", i); rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				prefix = []string{key}
				write("[" + key + "] # table")
				want[key] = at
			case 1:
				prefix = []string{"list", indexOf(arrays)}
				arrays++
				write("[[ list ]]")
				want[pathKey(prefix)] = at
			case 2:
				write(fmt.Sprintf("%s.\"quoted %d\" = 1", key, i))
				want[pathKey(append(prefix[:len(prefix):len(prefix)], key, fmt.Sprintf("quoted %d", i)))] = at
			default:
				write(key + " = " + rapid.SampledFrom(values).Draw(t, "value"))
				want[pathKey(append(prefix[:len(prefix):len(prefix)], key))] = at
			}
		}
		doc := strings.Join(lines, rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end"))
		var parsed map[string]any
		if err := toml.Unmarshal([]byte(doc), &parsed); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		index, deep := findLines([]byte(doc))
		for path, line := range want {
			if got := index.of(strings.Split(path, "\x00")...); got != line || deep > 0 {
				t.Fatalf("%q is on line %d, found on %d (too deep: %d) of\n%s", path, line, got, deep, doc)
			}
		}
	})
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"90s", "4x", "1.5X", "3%", "0.5 %", "1h30m", "-1s", "µs", "GB/s", "1e400x", "NaN%", " 3 % "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil && d <= 0 {
			t.Errorf("duration %q: %v", s, d)
		}
		if l, err := parseLimit(s); err == nil && (l.Abs > 0) == (l.Times > 0) {
			t.Errorf("limit %q: %+v", s, l)
		}
		if e, err := ParseEffect(s); err == nil && !(e > 0 && e < 1) {
			t.Errorf("effect %q: %g", s, e)
		}
	})
}
