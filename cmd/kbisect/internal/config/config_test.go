package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect/sets/flags"
	"github.com/kbisect/kbisect/kernels"
)

// fullConfig uses every key.
const fullConfig = `version = 1
kind    = "command"
paths   = ["kernels/", "bench.py"]

[build]
command = ["make", "-j2", "bench"]
limit   = "5m"
outputs = ["bench"]
incremental = false

[run]
command = ["./bench", "--shape", "256,4096,7168"]
limit   = "180s"
[run.limits]
load = "60s"
warmup = "4x"
"my-phase" = "1h30m"

[metric]
name   = "time"
unit   = "us"
better = "lower"
from   = "regex"
pattern = 'time (?P<value>[0-9.]+) (?P<unit>ms|us)'
case = "n=4096"

[judge]
effect = "3%"
error  = 0.01

[device]
gpus = "auto"
[cost]
gpu_hour = 0.68

[[flag]]
name   = "compile"
values = ["off", "default", "reduce-overhead", "max-autotune"]
bad    = "max-autotune"
ordered = true
env    = "R9_COMPILE"
[[flag]]
name = "fullgraph"
values = ["0", "1"]
arg = "--fullgraph={value}"
requires = ["compile!=off"]
excludes = ["compile=max-autotune"]

[[hypothesis]]
name  = "compile-too-slow"
claim = ["compile=max-autotune"]
`

func TestParseConfigFull(t *testing.T) {
	got, err := Parse("kbisect.toml", []byte(fullConfig))
	if err != nil {
		t.Fatal(err)
	}
	no := false
	want := &Config{
		Path: "kbisect.toml", Kind: "command", Paths: []string{"kernels/", "bench.py"},
		Build: BuildConfig{Command: []string{"make", "-j2", "bench"}, Limit: 5 * time.Minute, Outputs: []string{"bench"}, Incremental: &no},
		Run: RunConfig{Command: []string{"./bench", "--shape", "256,4096,7168"}, Limit: 180 * time.Second,
			Limits: map[string]kernels.Limit{"load": {Abs: time.Minute}, "warmup": {Times: 4}, "my-phase": {Abs: 90 * time.Minute}}},
		Metrics: []Metric{{Name: "time", Unit: "us", Better: "lower", From: "regex", Pattern: `time (?P<value>[0-9.]+) (?P<unit>ms|us)`, Case: "n=4096"}},
		Judge:   judgeConfig{Effect: 0.03, Error: 0.01},
		GPUs:    []string{"auto"},
		GPUHour: 0.68,
		Flags: []Flag{
			{Flag: flags.Flag{Name: "compile", Values: []string{"off", "default", "reduce-overhead", "max-autotune"}, Bad: "max-autotune", Ordered: true}, Env: "R9_COMPILE"},
			{Flag: flags.Flag{Name: "fullgraph", Values: []string{"0", "1"}, Requires: []string{"compile!=off"}, Excludes: []string{"compile=max-autotune"}}, Arg: "--fullgraph={value}"},
		},
		Hypotheses: []Hypothesis{{Name: "compile-too-slow", Claim: []string{"compile=max-autotune"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestParseConfigForms(t *testing.T) {
	for _, doc := range []string{
		"", "version = 1", "\xef\xbb\xbfversion = 1", "version = 1\r\nkind = \"make\"\r\n",
		`device = { gpus = [0, "GPU-1234-abcd", 2] }`, `device.gpus = "0, 1"`, `device.gpus = "none"`, `device.gpus = 3`,
		`judge = { effect = 0.005, error = 1e-3 }`, `judge.effect = "0.5 %"`,
		"[[metrics]]\nname = \"a\"\nunit = \"GB/s\"\n[[metrics]]\nname = \"b\"\nfrom = \"wall\"",
		"metrics = [{name = \"a\"}, {name = \"b\"}]",
		"run.limits.load = \"90s\"", "[cost]\ngpu_hour = 2",
		"kind = \"nvcc\"\n[build]\nsources = [\"a.cu\", \"b.cu\"]\noptions = [\"-O2\"]",
		"kind = \"torch\"\n[task]\nsubmission = \"k/submission.py\"\nreference = \"r.py\"\ncases = [\"m: 1\"]",
		"kind = \"kernelbot\"\n[task]\nproblem = \"../reference-kernels/problems/a\"\nmode = \"test\"",
		"[metric]\nfrom = \"nvbench\"\nfile = \"out/result.json\"", "[metric]\nfrom = \"benchmark\"\nfile = \"bench.json\"", "[metric]\nfrom = \"static\"\nname = \"registers\"",
		"[[flag]]\nname=\"a\"\nvalues=[\"0\",\"1\"]\nenv=\"A\"\nrequires=[\"b=1\"]\n[[flag]]\nname=\"b\"\nvalues=[\"0\",\"1\"]\ndefine=\"B\"",
	} {
		if _, err := Parse("c.toml", []byte(doc)); err != nil {
			t.Errorf("%q: %v", doc, err)
		}
	}
}

// TestParseConfigProblems gives a document and, for each problem in it, the
// line, the key and a part of the text.
func TestParseConfigProblems(t *testing.T) {
	flag := "[[flag]]\nname = \"a\"\nvalues = [\"off\", \"on\"]\nenv = \"A\"\n"
	for _, c := range []struct {
		doc  string
		want []string
	}{
		{"kind = \"make\"\n[build]\nsources = [\"a.cu\"]", []string{`3: build.sources: belongs to kind = "nvcc"; this is kind "make"`}},
		{"kind = \"nvcc\"\n[build]\ncommand = [\"nvcc\"]\noptions = [\"-O2\"]", []string{`4: build.options: [build] command already says how to build`}},
		{"kind = \"torch\"\n[task]\nproblem = \"p\"\nreference = \"../r.py\"", []string{`3: task.problem: belongs to kind = "kernelbot"; this is kind "torch"`, `4: task.reference: "../r.py" is not inside the repository`}},
		{"kind = \"kernelbot\"\n[task]\nmode = \"ranked\"", []string{`3: task.mode: unknown value "ranked"`}},
		{"[metric]\nfrom = \"nvbench\"", []string{`2: metric.from: nvbench needs the file`}},
		{"[metric]\nfrom = \"wall\"\nfile = \"x\"", []string{`3: metric.file: needs from = "nvbench"`}},
		{"version = 2", []string{`1: version: unknown version 2`}},
		{"version = \"1\"", []string{"1: version: expected the integer 1, got a string"}},
		{"kind = \"cmak\"", []string{`1: kind: unknown value "cmak"; did you mean "cmake"?`}},
		{"kind = 3", []string{"1: kind: expected a string, got an integer"}},
		{"paths = \"src\"", []string{"1: paths: expected an array of paths"}},
		{"paths = [\n\"ok\",\n\"../up\"]", []string{`3: paths: "../up" is not inside`}},
		{"paths = [\"/abs\"]", []string{`"/abs" is not inside`}},
		{"paths = [1]", []string{"1: paths: expected an array of paths", "but element 1 is an integer"}},
		{"\n\n[build]\nlimt = \"5m\"", []string{`4: build.limt: unknown key; did you mean "limit"?`}},
		{"limit = \"5m\"", []string{`1: limit: unknown key; it belongs in [build] or [run]`}},
		{"[flags]\nx = 1", []string{`1: flags: unknown key; did you mean "flag"?`}},
		{"[flag]\nname = \"x\"", []string{`1: flag: expected an array of tables, each under its own [[flag]], got a table`}},
		{"[[build]]\nlimit = \"1s\"", []string{`1: build: expected a table, written [build], got an array of tables`}},
		{"build = 1", []string{"1: build: expected a table, written [build], got an integer"}},
		{"[build]\ncommand = \"make -j2\"", []string{`2: build.command: expected an array of words`, `["sh", "-c"`, `got a string`}},
		{"[build]\ncommand = []", []string{`2: build.command: no command`}},
		{"[build]\nincremental = \"yes\"", []string{`2: build.incremental: expected true or false, got a string`}},
		{"[run]\nlimit = 180", []string{`2: run.limit: expected a duration in quotes`, `got an integer`}},
		{"[run]\nlimit = \"180\"", []string{`2: run.limit: "180" has no unit`}},
		{"[run]\nlimit = \"-3s\"", []string{`2: run.limit: invalid duration "-3s": negative`}},
		{"[run]\nlimit = \"0s\"", []string{`2: run.limit: invalid duration "0s": must be above zero`}},
		{"[run]\nlimit = \"3 sec\"", []string{`2: run.limit: unknown unit "sec"`}},
		{"[run]\nlimit = \"2d\"", []string{`2: run.limit: unknown unit "d"`}},
		{"[run]\nlimit = \"soon\"", []string{`2: run.limit: invalid duration "soon"`}},
		{"[run]\nlimit = \"\"", []string{`2: run.limit: invalid duration ""`}},
		{"[run.limits]\nload = \"0.5x\"", []string{`2: run.limits.load: invalid multiple "0.5x"`}},
		{"[run.limits]\nload = \"NaNx\"", []string{`2: run.limits.load: invalid multiple "NaNx"`}},
		{"[run.limits]\nload = 4", []string{`2: run.limits.load: expected a duration in quotes`, `got an integer`}},
		{"[run.limits]\nbuild = \"4s\"", []string{`2: run.limits.build: the limit of the build is limit in [build]`}},
		{"[run.limits]\n\"two words\" = \"4s\"", []string{`2: run.limits.two words: invalid phase name "two words"`}},
		{"[metric]\nname = \"a\\nb\"", []string{`2: metric.name: invalid value "a\nb"; it must not hold a line break or another control character`}},
		{"[metric]\ncase = \"\\u001b[31m\"", []string{`2: metric.case: invalid value`}},
		{"[metric]\nunit = \"parsec\"", []string{`2: metric.unit: unknown unit "parsec"`}},
		{"[metric]\nunit = \"GFLOP/S\"", []string{`did you mean "GFLOP/s"?`}},
		{"[metric]\nbetter = \"smaller\"", []string{`2: metric.better: unknown value "smaller"`}},
		{"[metric]\nfrom = \"protocl\"", []string{`2: metric.from: unknown value "protocl"; did you mean "protocol"?`}},
		{"[metric]\nfrom = \"regex\"", []string{`2: metric.from: regex needs a pattern`}},
		{"[metric]\nfrom = \"regex\"\npattern = '([0-9]+'", []string{`3: metric.pattern: invalid regular expression`}},
		{"[metric]\nfrom = \"regex\"\npattern = '[0-9]+'", []string{`3: metric.pattern: missing group "value"`}},
		{"[metric]\nfrom = \"wall\"\npattern = '(?P<value>.)'", []string{`3: metric.pattern: needs from = "regex"`}},
		{"[metric]\n[[metrics]]", []string{`2: metrics: both [metric] and [[metrics]]`}},
		{"[[metrics]]\n[[metrics]]\nname = \"time\"", []string{`3: metrics.name: duplicate metric "time"`}},
		{"[judge]\neffect = 3", []string{`2: judge.effect: 3 is 300 %`}},
		{"[judge]\neffect = \"-3%\"", []string{`2: judge.effect: must be above 0`}},
		{"[judge]\neffect = nan", []string{`2: judge.effect: must be a finite number`}},
		{"[judge]\neffect = \"much\"", []string{`2: judge.effect: invalid share "much"`}},
		{"[judge]\nerror = 0.6", []string{`2: judge.error: invalid error probability 0.6`}},
		{"[device]\ngpus = \"all\"", []string{`2: device.gpus: invalid device "all"`}},
		{"[device]\ngpus = [-1]", []string{`2: device.gpus: invalid device "-1"`}},
		{"[device]\ngpus = []", []string{`2: device.gpus: empty`}},
		{"[device]\ngpus = 1.5", []string{`2: device.gpus: expected "none", "auto", an index`}},
		{"[cost]\ngpu_hour = -1", []string{`2: cost.gpu_hour: invalid price -1`}},
		{"[executor]\nkind = \"slrum\"", []string{`2: executor.kind: unknown value "slrum"; did you mean "slurm"?`}},
		{"[executor]\nkind = \"slurm\"\nshared = \"here\"\njobs = 0", []string{`3: executor.shared: "here" is relative`, `4: executor.jobs: expected 1 to 1024 jobs at a time, got 0`}},
		{"[executor]\nkind = \"slurm\"\ncancel = [\"kill\"]", []string{`3: executor.cancel: belongs to kind = "command"; this is kind "slurm"`}},
		{"[executor]\nkind = \"slurm\"\ntransport = \"stream\"\nimage = \"a\"\nbuild = [\"-n1\"]", []string{`5: executor.build: builds that are jobs of their own need a folder`, `4: executor.image: belongs to kind = "kubernetes"; this is kind "slurm"`}},
		{"[executor]\nkind = \"kubernetes\"\nvolumes = [\"a:b\"]\nresources = { gpu = [1] }", []string{`1: executor: missing key "image"`, `3: executor.volumes: "a:b": expected the name of a claim`, `4: executor.resources.gpu: expected a string or a number, got an array`}},
		{"[executor]\nkind = \"kubernetes\"\nimage = \"a\"\nshared = \"/shared/me\"\nvolumes = [\"lab:/other\"]", []string{`4: executor.shared: no volume holds /shared/me`}},
		{"[executor]\nkind = \"kubernetes\"\nimage = \"a\"\nshared = \"/s\"\ntransport = \"stream\"", []string{`4: executor.shared: transport = "stream" shares nothing`}},
		{"[executor]\nkind = \"command\"\nsubmit = [\"bsub\"]\nstate = [\"bjobs\", \"{id}\"]", []string{`1: executor: missing key "cancel"`, `3: executor.submit: nothing in it holds {spec}`}},
		{"[[flag]]\nvalues = [\"0\", \"1\"]\nenv = \"A\"", []string{"1: flag: missing key \"name\""}},
		{"[[flag]]\nname = \"a\"\nenv = \"A\"", []string{"1: flag: missing key \"values\""}},
		{"[[flag]]\nname = \"a\"\nvalues = [0, 1]\nenv = \"A\"", []string{"3: flag.values: expected an array of strings", "but element 1 is an integer"}},
		{"[[flag]]\nname = \"a\"\nvalues = [\"0\"]\nenv = \"A\"", []string{"3: flag.values: expected at least two values"}},
		{"[[flag]]\nname = \"a\"\nvalues = [\n \"0\",\n \"0\"]\nenv = \"A\"", []string{`5: flag.values: duplicate value "0"`}},
		{"[[flag]]\nname = \"a\"\nvalues = [\"0\", \"1\"]", []string{"1: flag: flag \"a\": expected exactly one of env, define, arg and option, got 0"}},
		{"[[flag]]\nname = \"a\"\nvalues = [\"0\", \"1\"]\nenv = \"1A\"", []string{`4: flag.env: invalid variable name "1A"`}},
		{"[[flag]]\nname = \"a\"\nvalues = [\"0\", \"1\", \"2\"]\narg = \"--a\"", []string{`4: flag.arg: "--a" needs {value}`, `values = ["off", "on"]`}},
		{"[[flag]]\nname = \"a\"\nvalues = [\"x\", \"y\"]\noption = \"-a\"", []string{`4: flag.option: "-a" needs {value}`}},
		{"[[flag]]\nname = \"a\"\nvalues = [\"\", \"y\"]\ndefine = \"A\"", []string{`3: flag.values: invalid value ""`, `to pass nothing write "unset"`}},
		{flag + "bad = \"max\"", []string{`5: flag.bad: "max" is not one of the values`}},
		{flag + "bad = \"off\"", []string{`5: flag.bad: "off" is the safe base`}},
		{flag + flag, []string{`6: flag.name: duplicate flag "a"`, `8: flag.env: "A" is already used`}},
		{flag + "requires = [\"b=1\"]", []string{`5: flag.requires: "b=1": unknown flag "b"`}},
		{flag + "requires = [\"a=on\"]", []string{`5: flag.requires: "a=on": a flag cannot refer to itself`}},
		{flag + "requires = [\"a\"]", []string{`5: flag.requires: invalid condition "a"`}},
		{flag + "[[hypothesis]]\nname = \"h\"\nclaim = [\"a=onn\"]", []string{`7: hypothesis.claim: "a=onn": flag "a" has no value "onn"; did you mean "on"?`}},
		{flag + "[[hypothesis]]\nname = \"h\"\nclaim = [\"a!=on\"]", []string{`7: hypothesis.claim: "a!=on": a claim must name a value`}},
		{flag + "[[hypothesis]]\nname = \"h\"\nclaim = []", []string{`7: hypothesis.claim: empty`}},
		{"a = ", []string{"c.toml:1: "}},
		{"version = 1\nversion = 1", []string{"c.toml:2: ", "version"}},
		{"kind = \"make\"\n\xff", []string{"c.toml:2: "}},
		{"1 = 2", []string{"1: 1: unknown key"}},
	} {
		t.Run(c.doc, func(t *testing.T) {
			_, err := Parse("c.toml", []byte(c.doc))
			var ce *Error
			if !errors.As(err, &ce) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if !strings.Contains(err.Error(), "\nhint: ") {
				t.Error("no hint")
			}
			for _, want := range c.want {
				if want[0] >= '0' && want[0] <= '9' {
					want = "c.toml:" + want
				}
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got\n%v\nwant %q in it", err, want)
				}
			}
		})
	}
}

func TestParseConfigCollects(t *testing.T) {
	var b strings.Builder
	for i := range 25 {
		fmt.Fprintf(&b, "key%d = 1\n", i)
	}
	_, err := Parse("c.toml", []byte(b.String()))
	text := err.Error()
	if n := strings.Count(text, "unknown key"); n != maxShown {
		t.Errorf("%d problems are shown, want %d:\n%s", n, maxShown, text)
	}
	if !strings.Contains(text, "c.toml: and 15 more") || !strings.HasPrefix(text, "c.toml:1: key0: ") {
		t.Errorf("got\n%s", text)
	}
}

func TestParseConfigWarns(t *testing.T) {
	c, err := Parse("c.toml", []byte("[run.limits]\nwarm-up = \"60s\""))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `c.toml:2: run.limits.warm-up: `) {
		t.Errorf("got warnings %q", c.Warnings)
	}
}

func TestWithDefaults(t *testing.T) {
	c, err := Parse("c.toml", []byte("[[metrics]]\nunit = \"GB/s\"\n[[metrics]]\nname = \"w\"\nfrom = \"wall\"\n[[metrics]]\nfrom = \"cpu\"\n[[flag]]\nname=\"f\"\nvalues=[\"0\",\"1\"]\nenv=\"F\""))
	if err != nil {
		t.Fatal(err)
	}
	d := c.WithDefaults()
	if d.Kind != "command" || d.Run.Limit != 3*time.Minute || d.Build.Limit != 10*time.Minute || d.Judge != (judgeConfig{0.03, 0.01}) || d.GPUs[0] != "auto" || d.Flags[0].Bad != "1" {
		t.Errorf("got %+v", d)
	}
	want := []Metric{{Name: "time", Unit: "GB/s", From: "protocol"}, {Name: "w", Unit: "s", From: "wall"}, {Name: "cpu", From: "cpu"}}
	if !reflect.DeepEqual(d.Metrics, want) {
		t.Errorf("got %+v\nwant %+v", d.Metrics, want)
	}
	if c.Metrics[0].Name != "" || c.Flags[0].Bad != "" {
		t.Error("WithDefaults changed its receiver")
	}
}

func TestLoadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "hint: ") {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte(fullConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(path); err != nil || c.Path != path {
		t.Errorf("got %v, %v", c, err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#", maxSize+1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("huge file: %v", err)
	}
}

func TestFindLines(t *testing.T) {
	doc := "# [no]\na.b = \"\"\"\n[no]\n\\\"\"\"\"\"\nc = '''x\n=''' # y = 1\n\n[t.\"q.r\"] # c\nd = [ # [x]\n 1,\n {e = 1, f = \"}\"},\n]\n[[u]]\n[[u]]\ng = 1\n[u.v]\nh = 1\n[[u.w]]\ni = 1\n"
	lines, _ := findLines([]byte(doc))
	for path, want := range map[string]int{
		"a b": 2, "c": 5, "t q.r": 8, "t q.r d": 9, "t q.r d #0": 10, "t q.r d #1 f": 11,
		"u": 13, "u #1": 14, "u #1 g": 15, "u #1 v h": 17, "u #1 w #0 i": 19, "u #1 nothing": 14, "nothing": 1,
	} {
		if got := lines.of(strings.Split(path, " ")...); got != want {
			t.Errorf("%s: line %d, want %d", path, got, want)
		}
	}
}

// TestParseConfigDeep holds documents on which a parser may need minutes or all
// of the stack.
func TestParseConfigDeep(t *testing.T) {
	for _, doc := range []string{
		"a = " + strings.Repeat("[", 120000) + strings.Repeat("]", 120000),
		"a = " + strings.Repeat("{b=", 60000) + "1" + strings.Repeat("}", 60000),
		"a" + strings.Repeat(".b", 120000) + " = 1",
		"[a" + strings.Repeat(".b", 100000) + "]\nc = 1",
	} {
		_, err := Parse("c.toml", []byte(doc))
		if err == nil || !strings.HasPrefix(err.Error(), "c.toml:1: ") || !strings.Contains(err.Error(), "nested") {
			t.Errorf("%.20s…: %v", doc, err)
		}
	}
	if _, err := Parse("c.toml", []byte(strings.Repeat("[[flag]]\n", 20000))); err == nil {
		t.Error("many empty flags: no error")
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(fullConfig))
	f.Add([]byte("[[flag]]\n[[flag.values]]\nx = {y = [[1], {z = '''a'''}]}\n"))
	f.Add([]byte("a.\"b\\u0061\".'c' = 1979-05-27T07:32:00Z # d\n[x]\ny = \"\"\"\"\"\"\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		c, err := Parse("c.toml", doc)
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v and %v", c, err)
		}
		lines := strings.Count(string(doc), "\n") + 1
		var ce *Error
		switch {
		case err == nil:
			c.WithDefaults()
		case !errors.As(err, &ce):
			t.Fatalf("got %T", err)
		default:
			for _, p := range ce.problems {
				if p.line < 1 || p.line > lines {
					t.Fatalf("line %d of %d: %s", p.line, lines, p.text)
				}
			}
		}
	})
}

// TestFlagCircles: conditions that contradict each other are found when the file is read, with their line.
func TestFlagCycles(t *testing.T) {
	file := func(conditions ...string) string {
		s := "version = 1\n"
		for i, c := range conditions {
			s += fmt.Sprintf("[[flag]]\nname = \"f%d\"\nvalues = [\"0\", \"1\"]\nenv = \"F%d\"\n%s\n", i, i, c)
		}
		return s
	}
	deep := make([]string, 200) // each requires the two before it: more ways than anybody could follow
	for i := range deep {
		if i > 1 {
			deep[i] = fmt.Sprintf(`requires = ["f%d=1", "f%d=1"]`, i-1, i-2)
		}
	}
	for text, want := range map[string]string{
		file(`requires = ["f1=1"]`, `requires = ["f2=1"]`, `requires = ["f1=1"]`): `kbisect.toml:7: flag: flag f1: cyclic requirements, so that none of these can be on: f1: 0->1 needs f2: 0->1 needs f1: 0->1`,
		file(`excludes = ["f1=0"]`, `requires = ["f0=1"]`):                        `kbisect.toml:2: flag: flag f0: cyclic requirements, so that none of these can be on: f0: 0->1 needs f1: 0->1 needs f0: 0->1`,
		file(`requires = ["f1=1"]`, ``):                                           "",
		file(deep...):                                                             "",
	} {
		_, err := Parse(FileName, []byte(text))
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.HasPrefix(err.Error(), want+"\n")):
			t.Errorf("%v, want %s, of\n%s", err, want, text[:min(len(text), 400)])
		}
	}
}

// TestSwitches: two values of which one says off make a bare option a switch, and a macro is no such thing.
func TestSwitches(t *testing.T) {
	for values, on := range map[string]string{"off on": "on", "on off": "on", "0 1": "1", "unset fast": "fast", "a b": "", "off no": "", "off on max": ""} {
		if got := (Flag{Flag: flags.Flag{Values: strings.Fields(values)}}).On(); got != on {
			t.Errorf("%s: %q, want %q", values, got, on)
		}
	}
	for values, warned := range map[string]bool{`"off", "on"`: true, `"unset", "1"`: false, `"0", "1"`: false, `"1", "3", "2"`: false} {
		c, err := Parse("c.toml", []byte("version = 1\n[run]\ncommand = [\"x\"]\n[[flag]]\nname = \"mma\"\nvalues = ["+values+"]\ndefine = \"MMA\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Warnings) > 0 != warned || warned && !strings.Contains(c.Warnings[0], `c.toml:6: flag.values: -DMMA=off defines MMA too`) {
			t.Errorf("%s: %q", values, c.Warnings)
		}
	}
}

// TestManualHasEveryKey: the page of the manual about kbisect.toml names every table and key, and the values of those
// that choose from a table in the code.
func TestManualHasEveryKey(t *testing.T) {
	page, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	for table, keys := range schema() {
		if table != "" && !regexp.MustCompile(`(?m)\[+(run\.)?`+table+`\]`).Match(page) {
			t.Errorf("no table [%s]", table)
		}
		for _, key := range keys {
			if !regexp.MustCompile("(?m)(^|or |[`\\[.])" + key + "([` ]|\\])").Match(page) {
				t.Errorf("[%s]: no key %s", table, key)
			}
		}
	}
	for _, value := range slices.Concat(kernels.KindNames(), metricSources(), Executors()) {
		if !regexp.MustCompile(`(?m)[#|] +` + value + `( \||:| \(|$)|^ +` + value + ` \|`).Match(page) {
			t.Errorf("no value %q", value)
		}
	}
}
