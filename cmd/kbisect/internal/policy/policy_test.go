package policy

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/sets/flags"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// repoWith makes a repository with these files in its work tree; Commit commits them.
func repoWith(t *testing.T, files map[string]string) (*source.Repo, *gittest.Repo) {
	t.Helper()
	r := gittest.New(t)
	for name, text := range files {
		r.Write(t, name, text)
	}
	repo, err := source.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo, r
}

// asked is the request of kbisect run without options, changed by change.
func asked(change func(*Request)) *Request {
	q := &Request{Usage: "run --good REV", Axis: AxisHistory, Repeat: 1, Bad: "HEAD", Seed: 1}
	if change != nil {
		change(q)
	}
	return q
}

// TestRequestsRefused gives a request and a part of what is said of it.
func TestRequestsRefused(t *testing.T) {
	repo, r := repoWith(t, map[string]string{"run.sh": "exit 0\n"})
	r.Commit(t, "one")
	command := []string{"sh", "run.sh"}
	for want, change := range map[string]func(*Request){
		`unknown --axis flag; did you mean "flags"?`:                     func(q *Request) { q.Axis = "flag" },
		"--commit belongs to --axis hunks":                               func(q *Request) { q.Commit = "HEAD" },
		"--find-good and --first-parent belong to --axis history":        func(q *Request) { q.Axis, q.FindGood = AxisFlags, true },
		"--improvement looks for a metric that got better":               func(q *Request) { q.Improvement, q.Find = true, "crash" },
		"--jobs 0: expected at least 1":                                  func(q *Request) { q.JobsSet = true },
		"--repeat 0: expected at least 1":                                func(q *Request) { q.Repeat = 0 },
		"--output names what --build makes, so it needs --build":         func(q *Request) { q.Outputs = []string{"x"} },
		"--good and --find-good do not go together":                      func(q *Request) { q.FindGood, q.Good = true, "HEAD" },
		`unknown --find slo; did you mean "slow"?`:                       func(q *Request) { q.Find = "slo" },
		"HEAD is a revision, and run takes its revisions by --good":      func(q *Request) { q.Bare, q.Argv = true, []string{"HEAD", "--", "sh", "run.sh"} },
		"--better more: expected higher or lower":                        func(q *Request) { q.Better = "more" },
		"unknown --as popcorn":                                           func(q *Request) { q.As = "popcorn" },
		"kbisect.toml does not exist\nhint: kbisect init writes one; or": func(q *Request) { q.Argv = nil },
	} {
		_, err := ForSearch(t.Context(), asked(func(q *Request) { q.Argv = command; change(q) }), repo)
		var code *exit.Error
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &code) || code.Code != exit.UsageError {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := ForTrials(&Request{Argv: command, Outputs: []string{"x"}}, repo); err == nil || !strings.Contains(err.Error(), "so it needs --build") {
		t.Errorf("got %v", err)
	}
}

// TestForSearch gives a request and the text of kbisect.toml, "" for a command after
// --, and says whether the policy is as it should be.
func TestForSearch(t *testing.T) {
	const run = "version = 1\n[run]\ncommand = [\"./bench\"]\n"
	cpu := []trial.Source{{Metric: "cpu", From: "cpu"}}
	for name, c := range map[string]struct {
		config string
		change func(*Request)
		ok     func(p *Policy) bool
	}{
		"a command": {"", nil, func(p *Policy) bool {
			return slices.Equal(p.Plan.Run, []string{"true"}) && p.OwnScripts && p.Limits.Run == commandLimit && p.Limits.Build == config.DefaultBuildLimit && p.Judge.Effect == 0.03 && p.Judge.Error == 0.01
		}},
		"a command looked at for time": {"", func(q *Request) { q.Find = "slow" }, func(p *Policy) bool {
			return p.Judge.Find == bisect.Slow && p.Judge.Metrics[0].Name == "time" && p.Judge.Metrics[1].Name == "wall" && FallsBack(p) && !p.WholeTimed() && !CompileTimed(p)
		}},
		"a command to build": {"", func(q *Request) { q.Build, q.Outputs = "make x", []string{"x"} }, func(p *Policy) bool {
			return slices.Equal(p.Plan.Build, []string{"sh", "-c", "make x"}) && slices.Equal(p.Plan.Outputs, []string{"x"})
		}},
		"defaults": {run, nil, func(p *Policy) bool {
			return !p.OwnScripts && !p.Measured && p.Limits.Run == 3*time.Minute && p.Fallback().Name == "wall" && slices.Equal(p.GPUs, []string{"auto"}) && p.Judge.Find == ""
		}},
		"--limit before the file's": {run + "limit = \"5s\"\n", func(q *Request) { q.Limit = time.Second }, func(p *Policy) bool { return p.Limits.Run == time.Second }},
		"the file's limit":          {run + "limit = \"5s\"\n[run.limits]\nload = \"2x\"\n", nil, func(p *Policy) bool { return p.Limits.Run == 5*time.Second && p.Limits.Phases["load"].Times == 2 }},
		"--path before the file's":  {"paths = [\"a\"]\n" + run, func(q *Request) { q.Paths = []string{"b"} }, func(p *Policy) bool { return slices.Equal(p.Paths, []string{"b"}) }},
		"the submission is always among the paths": {"kind = \"torch\"\npaths = [\"x/\"]\n[task]\nsubmission = \"s.py\"\nreference = \"x/r.py\"\n", nil, func(p *Policy) bool {
			return slices.Equal(p.Paths, []string{"x/", "s.py"}) && slices.Equal(p.Needs, []string{"s.py", "x/r.py"})
		}},
		"any complaint":                 {run, func(q *Request) { q.Find = "any" }, func(p *Policy) bool { return p.Judge.Any && p.Judge.Find == "" }},
		"an improvement is of a metric": {run, func(q *Request) { q.Improvement = true }, func(p *Policy) bool { return p.Judge.Find == bisect.Slow && p.Improvement }},
		"a failing build needs builds":  {"[build]\ncommand = [\"make\"]\n" + run[12:], func(q *Request) { q.Find = "build" }, func(p *Policy) bool { return p.Judge.Find == bisect.BuildFailed && p.Judge.Builds }},
		"samples alone":                 {run, nil, func(p *Policy) bool { return !CompileTimed(p) && Sampled(p) == "time" }},
		"a metric sent while compiling": {run, func(q *Request) { q.Metric = "cold" }, func(p *Policy) bool { return CompileTimed(p) && !p.WholeTimed() }},
		"caches that are cold":          {run + "caches = \"cold\"\n", nil, func(p *Policy) bool { return CompileTimed(p) }},
		"--metric means slow":           {run, func(q *Request) { q.Metric = "wall" }, func(p *Policy) bool { return p.Judge.Find == bisect.Slow && p.Asked == "wall" && p.WholeTimed() }},
		"processor time needs no configuration": {run, func(q *Request) { q.Metric = "cpu" }, func(p *Policy) bool {
			return p.Judge.Find == bisect.Slow && p.Judge.Metrics[0].Counted && !p.Judge.Metrics[0].Higher && slices.Equal(p.Sources, cpu) && p.WholeTimed()
		}},
		"processor time of a command": {"", func(q *Request) { q.Metric = "cpu" }, func(p *Policy) bool { return p.Judge.Metrics[0].Counted && slices.Equal(p.Sources, cpu) }},
		"processor time by its own name": {run + "[metric]\nname = \"work\"\nfrom = \"cpu\"\n", func(q *Request) { q.Metric = "work" }, func(p *Policy) bool {
			return p.Judge.Metrics[0] == (metric.Metric{Name: "work", Counted: true}) && slices.Equal(p.Sources, []trial.Source{{Metric: "work", From: "cpu"}})
		}},
		"a metric of the program that is called cpu": {run + "[metric]\nname = \"cpu\"\n", func(q *Request) { q.Metric = "cpu" }, func(p *Policy) bool {
			return p.Judge.Metrics[0] == (metric.Metric{Name: "cpu"}) && len(p.Sources) == 0
		}},
		"only what is judged is counted": {run + "[[metrics]]\nfrom = \"instructions\"\n[[metrics]]\nfrom = \"cpu\"\n", func(q *Request) { q.Metric = "cpu" }, func(p *Policy) bool {
			return len(p.Judge.Metrics) == 1 && slices.Equal(p.Sources, cpu)
		}},
		"instructions of kernels": {"[build]\ncommand = [\"make\"]\noutputs = [\"x\"]\n[metric]\nname = \"registers\"\nfrom = \"static\"\n", func(q *Request) { q.Metric = "instructions" }, func(p *Policy) bool {
			return p.Judge.Metrics[0] == (metric.Metric{Name: "instructions", Exact: true}) && len(p.Sources) == 1
		}},
		"a metric of the output": {run + "[metric]\nname = \"t\"\nunit = \"ms\"\nfrom = \"regex\"\npattern = 't=(?P<value>\\d+)'\ncase = \"n=1\"\n", nil, func(p *Policy) bool {
			compiled, err := p.Compile()
			return err == nil && len(compiled) == 1 && p.Fallback() == nil && slices.Equal(p.Cases["t"], []string{"n=1"})
		}},
		"a phase of the start is measured cold": {run + "[metric]\nname = \"import\"\nfrom = \"phase\"\n", nil, func(p *Policy) bool {
			return p.Judge.Metrics[0].Name == "phase.import" && p.Caches == pipeline.Cold && p.Probe == trial.ProbeOn
		}},
		"caches as written": {run + "caches = \"warm\"\n[metric]\nname = \"import\"\nfrom = \"phase\"\n", nil, func(p *Policy) bool { return p.Caches == pipeline.Warm }},
		"static metrics alone run nothing": {"[build]\ncommand = [\"make\"]\noutputs = [\"x\"]\n[metric]\nname = \"registers\"\nfrom = \"static\"\n", nil, func(p *Policy) bool {
			return p.nothingRuns() && slices.Equal(p.GPUs, []string{"none"}) && p.Judge.Metrics[0].Exact && p.Sources[0].From == trial.FromStatic
		}},
		"the seed and the jobs": {run, func(q *Request) { q.Seed, q.Jobs, q.JobsSet, q.All, q.NoHunks = 7, 3, true, true, true }, func(p *Policy) bool {
			return p.Seed == 7 && p.Jobs == 3 && p.All && p.NoHunks
		}},
		"the rules of KernelBot's server": {"", func(q *Request) { q.As = kernels.KindKernelbot }, func(p *Policy) bool { return p.Caches == pipeline.Cold && p.Limits.Run > 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"s.py": "", "x/r.py": ""}
			q := asked(c.change)
			if q.Argv = []string{"true"}; c.config != "" {
				q.Argv, files[config.FileName] = nil, c.config
			}
			repo, r := repoWith(t, files)
			r.Commit(t, "one")
			p, err := ForSearch(t.Context(), q, repo)
			if err != nil {
				t.Fatal(err)
			}
			if !c.ok(p) {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// TestInstructions: a machine that cannot count them says so before anything is launched, however it was asked.
func TestInstructions(t *testing.T) {
	repo, r := repoWith(t, map[string]string{config.FileName: "version = 1\n[run]\ncommand = [\"./bench\"]\n[metric]\nfrom = \"instructions\"\n"})
	r.Commit(t, "one")
	cannot := proc.CanCount()
	for name, q := range map[string]*Request{
		"--metric": asked(func(q *Request) { q.Argv, q.Metric = []string{"true"}, "instructions" }),
		"from":     asked(nil),
	} {
		p, err := ForSearch(t.Context(), q, repo)
		one, errOne := ForTrials(q, repo)
		if cannot == nil {
			if err != nil || errOne != nil || len(p.Sources) != 1 || len(one.Sources) != 1 || !p.Judge.Metrics[0].Counted {
				t.Errorf("%s: %v, %v", name, err, errOne)
			}
			continue
		}
		for _, err := range []error{err, errOne} {
			var code *exit.Error
			if !errors.As(err, &code) || code.Code != exit.UsageError || err.Error() != "metric instructions: "+cannot.Error() {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestConfigurationsRefused gives what only shows when the file meets the kind of project.
func TestConfigurationsRefused(t *testing.T) {
	for want, text := range map[string]string{
		`kbisect.toml:2: run.comand: unknown key`:                               "[run]\ncomand = [\"x\"]\n",
		`kbisect.toml: nothing to run`:                                          "version = 1\n",
		`metric.name: unknown static metric "speed"; known: `:                   "[build]\ncommand = [\"make\"]\n[metric]\nname = \"speed\"\nfrom = \"static\"\n",
		`metric.from: static metrics need a build`:                              "[run]\ncommand = [\"x\"]\n[metric]\nname = \"registers\"\nfrom = \"static\"\n",
		`metric.from: popcorn needs kind = "kernelbot"; this is kind "command"`: "[run]\ncommand = [\"x\"]\n[metric]\nfrom = \"popcorn\"\n",
		`run.files: `: "[run]\ncommand = [\"x\"]\nfiles = [\"none.py\"]\n",
	} {
		repo, r := repoWith(t, map[string]string{config.FileName: text})
		r.Commit(t, "one")
		if _, err := ForSearch(t.Context(), asked(nil), repo); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestWarningsAreShownAtOnce: on the writer of the request, unless it is quiet.
func TestWarningsAreShownAtOnce(t *testing.T) {
	repo, r := repoWith(t, map[string]string{config.FileName: "[run]\ncommand = [\"x\"]\n[run.limits]\nwarm-up = \"1s\"\n"})
	r.Commit(t, "one")
	for _, quiet := range []bool{false, true} {
		var out strings.Builder
		p, err := ForSearch(t.Context(), asked(func(q *Request) { q.Warnings, q.Quiet = &out, quiet }), repo)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Warnings) != 1 || (out.Len() == 0) != quiet || !quiet && !strings.HasPrefix(out.String(), "kbisect: warning: ") {
			t.Errorf("quiet %t: %q, shown %q", quiet, p.Warnings, out.String())
		}
	}
	(&Request{}).warn([]string{"nowhere to show it"})
	(&Request{Warnings: io.Discard}).warn(nil)
}

// TestOverlay: what is in the work tree and not at HEAD goes into the plan, and out of the paths.
func TestOverlay(t *testing.T) {
	repo, r := repoWith(t, map[string]string{"old.py": "1", "pkg/a.py": ""})
	r.Commit(t, "one")
	for name, text := range map[string]string{
		"bench.py": "import want", "want.py": "", "notes.txt": "", "big.py": strings.Repeat("#", maxOverlaySize+1), "prog": "\x7fELF\x00", "old.py": "2",
		config.FileName: "paths = [\"pkg/\", \"./bench.py\"]\n[run]\ncommand = [\"python3\", \"bench.py\", \"old.py\", \"big.py\", \"prog\", \"../up.py\"]\n",
	} {
		r.Write(t, name, text)
	}
	names := func(p *Policy) (out []string) {
		for _, f := range p.Plan.Files {
			if !f.Overlay {
				t.Errorf("%s is not an overlay", f.Name)
			}
			out = append(out, f.Name)
		}
		return out
	}
	p, err := ForSearch(t.Context(), asked(nil), repo)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(p); !slices.Equal(got, []string{"bench.py", "want.py"}) || !slices.Equal(p.Paths, []string{"pkg/"}) || len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "bench.py, want.py: not committed at HEAD") {
		t.Errorf("files %q, paths %q, warnings %q", got, p.Paths, p.Warnings)
	}
	p, err = ForSearch(t.Context(), asked(func(q *Request) { q.Argv = []string{"python3", "old.py"} }), repo)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(p); len(got) > 0 || p.OwnScripts {
		t.Errorf("what HEAD holds is the candidate's own: %q", got)
	}
}

// TestKeep: what HEAD holds goes over the commits' files, other files and folders are copied beside them, and what
// they hold is part of the plan's identity.
func TestKeep(t *testing.T) {
	repo, r := repoWith(t, map[string]string{"tool.sh": "old", "data/held": ""})
	r.Commit(t, "one")
	r.Write(t, "tool.sh", "new")
	r.Write(t, "vendor/lib", "1")
	kept := func(names ...string) (*Policy, error) {
		return ForSearch(t.Context(), asked(func(q *Request) { q.Argv, q.Keep, q.Dir = []string{"true"}, names, r.Dir }), repo)
	}
	p, err := kept("tool.sh", "vendor/", filepath.Join(r.Dir, "vendor/lib"))
	if err != nil {
		t.Fatal(err)
	}
	if f := p.Plan.Files; len(f) != 1 || f[0].Name != "tool.sh" || string(f[0].Text) != "new" || !slices.Equal(p.Plan.Keep, []string{"vendor", "vendor/lib"}) || len(p.Warnings) != 1 {
		t.Errorf("files %+v, kept %q, warnings %q", f, p.Plan.Keep, p.Warnings)
	}
	before, _ := kept("vendor")
	again, _ := kept("vendor")
	r.Write(t, "vendor/lib", "22")
	if after, _ := kept("vendor"); before.Plan.Kept != again.Plan.Kept || before.Plan.Kept == after.Plan.Kept {
		t.Errorf("%s, %s, and with another file %s", before.Plan.Kept, again.Plan.Kept, after.Plan.Kept)
	}
	for name, want := range map[string]string{
		".": "not inside", "..": "not inside", ".git": "not inside", ".git/config": "not inside", "vendor/../.git/hooks": "not inside", "/etc": "not inside",
		"nothing": "the work tree does not have it",
	} {
		var code *exit.Error
		if _, err := kept(name); !errors.As(err, &code) || code.Code != exit.UsageError || !strings.Contains(err.Error(), "--keep "+name+": "+want) {
			t.Errorf("--keep %s: %v", name, err)
		}
	}
}

// TestFromHere: in a folder below the top, names of what only that folder holds are meant from there.
func TestFromHere(t *testing.T) {
	repo, r := repoWith(t, map[string]string{"both": "", "top": "", "sub/both": "", "sub/mine": "", "sub/deep/x": ""})
	r.Commit(t, "one")
	for name, want := range map[string]string{"mine": "sub/mine", "both": "both", "top": "top", "none": "none", "deep/x": "sub/deep/x", "./mine": "sub/mine", "../top": "top", "./both": "sub/both"} {
		q := asked(func(q *Request) {
			q.Argv, q.Paths, q.Dir = []string{"true"}, []string{name}, filepath.Join(r.Dir, "sub")
		})
		p, err := ForSearch(t.Context(), q, repo)
		if err != nil || !slices.Equal(p.Paths, []string{want}) {
			t.Errorf("--path %s: %v, %v, want %s", name, p, err, want)
		}
	}
}

// TestLocalArgv: candidates do not lie in the work tree, so commands do not name it.
func TestLocalArgv(t *testing.T) {
	repo, r := repoWith(t, map[string]string{"run.sh": "exit 0\n", "data": ""})
	r.Commit(t, "one")
	outside := filepath.Join(t.TempDir(), "t.sh")
	for _, x := range []struct {
		script     string
		argv, want []string
		copied     bool
	}{
		{"", []string{r.Dir + "/run.sh", r.Dir + "/data", "/etc/passwd"}, []string{"./run.sh", "data", "/etc/passwd"}, false},
		{"", []string{"sh", r.Dir + "/run.sh"}, []string{"sh", "run.sh"}, false},
		{"make\n", []string{outside}, []string{outside}, false},
		{"cd " + r.Dir + " && make\n", []string{outside, "-v"}, []string{"./.git/kbisect/t.sh", "-v"}, true},
		{"cd " + r.Dir + "-other\n", []string{"sh", outside}, []string{"sh", outside}, false},
	} {
		if x.script != "" {
			if err := os.WriteFile(outside, []byte(x.script), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		p, err := ForSearch(t.Context(), asked(func(q *Request) { q.Argv = x.argv }), repo)
		if err != nil {
			t.Fatal(err)
		}
		if copied := slices.ContainsFunc(p.Plan.Files, func(f kernels.File) bool { return f.Home == r.Dir }); !slices.Equal(p.Plan.Run, x.want) || copied != x.copied {
			t.Errorf("%q: %q, copied %t", x.argv, p.Plan.Run, copied)
		}
	}
}

// TestCheckPaths: a path that is in neither end is refused, with a hint.
func TestCheckPaths(t *testing.T) {
	repo, r := repoWith(t, map[string]string{"a": "1"})
	good := r.Commit(t, "one")
	r.Write(t, "b", "1")
	bad := r.Commit(t, "two")
	r.Write(t, "young.sh", "")
	for _, c := range []struct {
		p    Policy
		want string
	}{
		{Policy{Paths: []string{"a", "b"}}, ""},
		{Policy{Paths: []string{"src/a"}}, `path "src/a" is in neither end`},
		{Policy{Scripts: []string{"a"}}, ""},
		{Policy{Scripts: []string{"b"}}, "does not hold b\nhint: the work tree has it"},
		{Policy{Scripts: []string{"young.sh"}}, "does not hold young.sh\nhint: the work tree has it: [run] files = [\"young.sh\"]"},
		{Policy{Scripts: []string{"young.sh"}, OwnScripts: true}, ""},
		{Policy{Scripts: []string{"none.sh"}}, "hint: is none.sh relative to the top"},
	} {
		p := c.p
		p.Good, p.Bad = good, bad
		err := EndsOf(&p, repo).CheckPaths()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q %q: got %v, want %q", c.p.Paths, c.p.Scripts, err, c.want)
		}
	}
}

// TestEnds: which commits a search over flags or hunks is about.
func TestEnds(t *testing.T) {
	repo, r := repoWith(t, map[string]string{"a": "1"})
	first := r.Commit(t, "one")
	r.Write(t, "a", "2")
	second := r.Commit(t, "two")
	fs := []config.Flag{{Flag: flags.Flag{Name: "f", Values: []string{"0", "1"}}, Env: "F"}}
	for _, c := range []struct {
		name      string
		flags     []config.Flag
		q         Request
		good, bad string
		want      string
	}{
		{"hunks of a commit", nil, Request{Axis: AxisHunks, Commit: "HEAD"}, first, second, ""},
		{"hunks between two", nil, Request{Axis: AxisHunks, Good: "HEAD^", Bad: "HEAD"}, first, second, ""},
		{"hunks of nothing", nil, Request{Axis: AxisHunks}, "", "", "--axis hunks needs --commit REV"},
		{"hunks of the first", nil, Request{Axis: AxisHunks, Commit: "HEAD^"}, "", "", "is the first commit and has no parent"},
		{"hunks of both", nil, Request{Axis: AxisHunks, Commit: "HEAD", GoodSet: true}, "", "", "--commit already names both ends"},
		{"no such commit", nil, Request{Axis: AxisHunks, Commit: "nowhere"}, "", "", `--commit: unknown revision "nowhere"`},
		{"flags", fs, Request{Axis: AxisFlags, Bad: "HEAD^"}, first, first, ""},
		{"no flags", nil, Request{Axis: AxisFlags, Bad: "HEAD"}, "", "", "there are no flags to search"},
		{"flags with --good", fs, Request{Axis: AxisFlags, Bad: "HEAD", GoodSet: true}, "", "", "takes no --good"},
	} {
		p := &Policy{Flags: c.flags}
		var err error
		if c.q.Axis == AxisHunks {
			err = EndsOf(p, repo).HunkEnds(t.Context(), &c.q)
		} else {
			err = EndsOf(p, repo).FlagEnds(t.Context(), &c.q)
		}
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		case c.want == "" && (err != nil || p.Good != c.good || p.Bad != c.bad):
			t.Errorf("%s: %v, %s to %s", c.name, err, p.Good, p.Bad)
		}
	}
}

func TestCandidate(t *testing.T) {
	repo, r := repoWith(t, map[string]string{"a": "1"})
	head := r.Commit(t, "one")
	p := &Policy{Flags: []config.Flag{{Flag: flags.Flag{Name: "mode", Values: []string{"off", "on"}}}, {Flag: flags.Flag{Name: "depth", Values: []string{"1", "2"}}}}}
	for text, want := range map[string]string{"HEAD": "", "HEAD:depth=2": "depth=2", "HEAD:depth=2,mode=on": "mode=on,depth=2", ":/one": ""} {
		if c, err := p.Candidate(t.Context(), repo, text); err != nil || c.Commit != head || c.Assign != want {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	for text, want := range map[string]string{
		"HEAD:mode":             `invalid setting "mode"; write flag=value`,
		"HEAD:mode!=on":         `invalid setting "mode!=on"`,
		"HEAD:moed=on":          `unknown flag "moed"; did you mean "mode"?`,
		"HEAD:mode=no":          `flag "mode" has no value "no"`,
		"HEAD:mode=on,mode=off": `sets flag "mode" twice`,
		"nowhere:mode=on":       `unknown revision "nowhere"`,
	} {
		if _, err := p.Candidate(t.Context(), repo, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := (&Policy{}).Candidate(t.Context(), repo, "HEAD:mode=on"); err == nil || !strings.Contains(err.Error(), "no flags are configured") {
		t.Errorf("got %v", err)
	}
}

func TestReadJudgement(t *testing.T) {
	for _, c := range []struct {
		q             Request
		effect, error float64
		want          string
	}{
		{Request{}, 0.03, 0.01, ""},
		{Request{Effect: "0.5 %"}, 0.005, 0.01, ""},
		{Request{Effect: "0.1", Error: 0.2, ErrorSet: true}, 0.1, 0.2, ""},
		{Request{Effect: "much"}, 0, 0, `--effect: invalid share "much"`},
		{Request{Error: 0.5, ErrorSet: true}, 0, 0, "--error 0.5: expected a probability"},
		{Request{ErrorSet: true}, 0, 0, "--error 0: expected a probability"},
	} {
		p := &Policy{}
		p.Judge.Effect, p.Judge.Error = 0.03, 0.01
		err := p.ReadJudgement(&c.q)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: got %v", c.q, err)
		case c.want == "" && (err != nil || p.Judge.Effect != c.effect || p.Judge.Error != c.error):
			t.Errorf("%+v: %v, %g %g", c.q, err, p.Judge.Effect, p.Judge.Error)
		}
	}
}

// A configured unit that does not say which values are better is asked about before any launch.
func TestConfiguredDirection(t *testing.T) {
	for unit, m := range map[string]metric.Metric{
		"%": {Name: "load", DefaultUnit: "%"}, "ms": {Name: "load", DefaultUnit: "ms"}, "": {Name: "load"}, "% with better": {Name: "load", DefaultUnit: "%", Told: true},
	} {
		p := &Policy{}
		p.Judge.Error, p.Judge.Metrics = 0.01, []metric.Metric{m}
		if err := p.ReadJudgement(&Request{}); (err != nil) != (unit == "%") {
			t.Errorf("%q: %v", unit, err)
		}
	}
}

// TestComparedTexts: what decides how launches end, and how candidates differ, is in the texts.
func TestComparedTexts(t *testing.T) {
	base := func() *Policy {
		p := &Policy{Paths: []string{"a", "h.cuh"}, Headers: []string{"h.cuh"}}
		p.Plan.Run, p.Judge.Metrics = []string{"x"}, []metric.Metric{{Name: "time"}}
		return p
	}
	for name, c := range map[string]struct {
		change         func(*Policy)
		runs, compares bool // whether the texts differ
	}{
		"the command":  {func(p *Policy) { p.Plan.Run = []string{"y"} }, true, true},
		"the caches":   {func(p *Policy) { p.Caches = pipeline.Warm }, true, true},
		"the effect":   {func(p *Policy) { p.Judge.Effect = 0.1 }, false, true},
		"added header": {func(p *Policy) { p.Paths, p.Headers = []string{"a"}, nil }, false, false},
		"the budget":   {func(p *Policy) { p.Budget = time.Hour }, false, false},
	} {
		p := base()
		c.change(p)
		if (p.Runs() != base().Runs()) != c.runs || (p.Compares() != base().Compares()) != c.compares {
			t.Errorf("%s: runs %s\ncompares %s", name, p.Runs(), p.Compares())
		}
	}
}

func TestMain(m *testing.M) {
	os.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	os.Exit(m.Run())
}

// TestStoredFlags reads the flags of a policy as every version has stored them.
func TestStoredFlags(t *testing.T) {
	const stored = `{"Name":"f","Values":["0","1"],"Bad":"1","Ordered":true,"Env":"F","Define":"","Arg":"","Option":"","Requires":["g=1"],"Excludes":null}`
	var got config.Flag
	if err := json.Unmarshal([]byte(stored), &got); err != nil {
		t.Fatal(err)
	}
	want := config.Flag{Flag: flags.Flag{Name: "f", Values: []string{"0", "1"}, Bad: "1", Ordered: true, Requires: []string{"g=1"}}, Env: "F"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
