package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// evaluation speaks KernelBot's protocol; what it does is the submission's choice.
const evaluation = `
import os, sys, time, signal, subprocess
mode = sys.argv[1]
out = os.fdopen(int(os.environ["POPCORN_FD"]), "w")
assert os.environ["KBISECT_FD"] == os.environ["POPCORN_FD"] and os.environ["POPCORN_SEED"] == "7"
def say(key, value):
    print("%s: %s" % (key, value), file=out, flush=True)
def good():
    if mode == "test":
        say("test-count", 2)
        for i in range(2):
            say("test.%d.spec" % i, "n: %d" % i)
            say("test.%d.status" % i, "pass")
    else:
        say("benchmark-count", 1)
        say("benchmark.0.spec", "n: 9")
        say("benchmark.0.mean", 2000)
        say("benchmark.0.best", 1000)
    say("check", "pass")
def hang():
    time.sleep(1000)
exec(open("submission.py").read())
`

// stagedPlan is what a problem of KernelBot's comes to, with short limits.
func stagedPlan() kernels.Plan {
	stage := func(name, base, metric string, optional bool) kernels.Stage {
		return kernels.Stage{
			Name: name, Run: []string{"python3", "-S", "-E", "eval.py", name}, Env: []string{"POPCORN_SEED=7"}, Base: base, Metric: metric,
			Limit: time.Minute, Speaks: kernels.PopcornFD, Optional: optional, Killed: protocol.ExitTimeout,
		}
	}
	return kernels.Plan{
		Kind: "kernelbot", Dir: ".kbisect/problem",
		Files: []kernels.File{{Name: "eval.py", Text: evaluation}, {Name: "submission.py", Source: "src/kernel.py"}},
		Stages: []kernels.Stage{
			stage("compile", "compile", "", true), stage("test", "test/load", "test.time", false), stage("benchmark", "benchmark/warmup", "time", false),
		},
	}
}

func kernel(text string) []fixtures.Change {
	return []fixtures.Change{fixtures.Write("src/kernel.py", text+"\n")}
}

// Every way in which KernelBot's programs end, with real processes.
func TestStages(t *testing.T) {
	t.Parallel()
	needsPython(t)
	in := func(mode, code string) string { return fmt.Sprintf("good()\nif mode == %q:\n    %s", mode, code) }
	only := func(mode, code string) string {
		return fmt.Sprintf("if mode == %q:\n    %s\ngood()", mode, strings.ReplaceAll(code, "; ", "\n    "))
	}
	cases := []struct {
		text         string
		class, phase string
		why          string
		hang         string // the stage whose limit is short
	}{
		{text: "good()", class: "ok"},
		{text: in("compile", "sys.exit(3)"), class: "ok"}, // what fills the caches decides nothing
		{text: only("compile", "hang()"), class: "ok", hang: "compile"},
		{text: only("test", "sys.exit(0)"), class: "crash", phase: "test/load", why: "without sending a check"},
		{text: only("test", "sys.exit(2)"), class: "skip", phase: "test/load", why: "exit 2"},
		{text: only("test", "sys.exit(110)"), class: "crash", phase: "test/load", why: "exit 110"},
		{text: only("test", "sys.exit(111)"), class: "skip", phase: "test/load", why: "POPCORN_FD"},
		{text: only("test", "say('test.0.spec', 'n: 4'); say('test.0.status', 'fail'); say('test.0.error', 'off by one'); say('check', 'fail'); sys.exit(112)"),
			class: "wrong", phase: "test", why: "case n: 4: off by one"},
		{text: only("test", "sys.exit(113)"), class: "skip", phase: "test/load", why: "exit 113"},
		{text: only("benchmark", "sys.exit(114)"), class: "timeout", phase: "benchmark/warmup", why: "exit 114"},
		{text: only("benchmark", "say('check', 'fail'); sys.exit(0)"), class: "wrong", phase: "benchmark", why: "the check failed"},
		{text: in("test", "sys.exit(1)"), class: "crash", phase: "teardown", why: "exit 1"},
		{text: only("benchmark", "print('ninja: build stopped: subcommand failed.'); sys.exit(1)"), class: "build-failed", phase: "benchmark/warmup", why: "ninja"},
		{text: only("test", "os.kill(os.getpid(), signal.SIGSEGV)"), class: "crash", phase: "test/load", why: "SIGSEGV"},
		{text: only("test", "hang()"), class: "timeout", phase: "test/load", why: "stage test reached its limit of 1.5s; KernelBot reports exit 114", hang: "test"},
		{text: only("test", "say('test.0.spec', 'n: 1'); say('test.1.spec', 'n: 2'); hang()"), class: "timeout", phase: "test/check", why: "exit 114", hang: "test"},
		{text: only("benchmark", "say('benchmark-count', 1); hang()"), class: "timeout", phase: "benchmark/measure", why: "exit 114", hang: "benchmark"},
		{text: in("test", "hang()"), class: "timeout", phase: "teardown", why: "exit 114", hang: "test"},
		{text: in("test", "[say('key%d' % i, 'x' * 500) for i in range(20000)]; sys.exit(0)"), class: "ok"},
		{text: "subprocess.Popen(['sleep', '0.5'], pass_fds=[out.fileno()], start_new_session=True)\ngood()", class: "ok"},
		{text: "subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)\ngood()", class: "ok"},
		{text: in("test", "subprocess.Popen(['sleep', '1000'], pass_fds=[out.fileno()], start_new_session=True)\ngood()"), class: "timeout", phase: "teardown", why: "keeps its output open", hang: "test"},
	}
	var commits [][]fixtures.Change
	for _, c := range cases {
		commits = append(commits, kernel(c.text))
	}
	b := newBench(t, stagedPlan(), trial.Limits{Run: 10 * time.Minute}, commits...)
	b.recipe.Probe = trial.ProbeOff
	for i, c := range cases {
		b.recipe.Plan = stagedPlan()
		if i > 0 && !strings.Contains(c.text, "compile") {
			b.recipe.Plan.Stages = b.recipe.Plan.Stages[1:]
		}
		for k := range b.recipe.Plan.Stages {
			if b.recipe.Plan.Stages[k].Name == c.hang {
				b.recipe.Plan.Stages[k].Limit = 1500 * time.Millisecond
			}
		}
		o := b.test(i, bisect.Searching)
		if string(o.Class) != c.class || o.Phase != c.phase || !strings.Contains(o.Why, c.why) || o.Whole {
			t.Errorf("%q: %s in %q: %s\n%s", c.text, o.Class, o.Phase, o.Why, o.Tail)
		}
		if i == 0 {
			checkGoodStages(t, o)
		}
	}
}

// checkGoodStages looks at the series and the phases of a trial that ended well.
func checkGoodStages(t *testing.T, o bisect.Outcome) {
	t.Helper()
	i := slices.IndexFunc(o.Series, func(s bisect.Series) bool { return s.Metric == "time" })
	if i < 0 || o.Series[i].Case != "n: 9" || o.Series[i].Unit != "s" || o.Series[i].Values[0] != 2e-6 {
		t.Errorf("series %+v", o.Series)
	}
	var names []string
	sum := 0.0
	for _, p := range o.Phases {
		names = append(names, p.Name)
		sum += p.Seconds
	}
	for _, want := range []string{"compile", "test/load", "test/check", "benchmark/warmup", "benchmark/measure", "teardown"} {
		if !slices.Contains(names, want) {
			t.Errorf("phases %v", names)
		}
	}
	if sum < o.Wall*0.99 || !o.Speaks { // a last line may be read a moment after the end
		t.Errorf("phases of %g s in %g s, speaks %v", sum, o.Wall, o.Speaks)
	}
}

// The limit of the whole trial is shared by its processes, and limits of phases still apply.
func TestLimitsOverStages(t *testing.T) {
	t.Parallel()
	needsPython(t)
	b := newBench(t, stagedPlan(), trial.Limits{Run: 6 * time.Second}, kernel("time.sleep(2 if mode == 'compile' else 0)\ntime.sleep(30 if mode == 'test' else 0)\ngood()"))
	b.recipe.Probe = trial.ProbeOff
	// The first process takes two seconds of the six, so that the second one has four at most.
	late := func(p bisect.PhaseTime) bool { return p.Name == "test/load" && p.Seconds > 5 }
	if o := b.test(0, bisect.Searching); o.Class != bisect.Timeout || !o.Whole || o.Phase != "test/load" || slices.ContainsFunc(o.Phases, late) {
		t.Errorf("%s, whole %v, %v", o.Describe(), o.Whole, o.Phases)
	}
	b.Config.Limits = trial.Limits{Run: time.Minute, Phases: map[string]kernels.Limit{"test/load": {Abs: time.Second}}}
	if o := b.test(0, bisect.Searching); o.Class != bisect.Timeout || o.Whole || o.Phase != "test/load" || !strings.Contains(o.Why, "limit of 1s") {
		t.Errorf("%s, whole %v", o.Describe(), o.Whole)
	}
}

// A candidate without its submission is not built, and one that spoils the files of the judge gets them
// anew in each trial.
func TestFilesOfThePlan(t *testing.T) {
	needsPython(t)
	spoil := "good()\nopen('eval.py', 'w').write('')\nopen('submission.py', 'w').write('')"
	b := newBench(t, stagedPlan(), trial.Limits{Run: time.Minute}, kernel("good()"),
		[]fixtures.Change{fixtures.Delete("src/kernel.py"), fixtures.Write("README", "moved")}, kernel(spoil))
	b.recipe.Probe = trial.ProbeOff
	b.recipe.Plan.Stages = b.recipe.Plan.Stages[1:2]
	for i, want := range []string{"ok", "build-failed", "ok", "ok"} {
		o := b.test(min(i, 2), bisect.Searching)
		if string(o.Class) != want || i == 1 && !strings.HasSuffix(o.Why, "the candidate has no src/kernel.py: stat src/kernel.py: no such file or directory") {
			t.Errorf("%d: %s", i, o.Describe())
		}
	}
}

// A program of PyTorch's that could not compile what it needs is not built.
func TestTorchEndings(t *testing.T) {
	plan := kernels.Plan{Kind: "torch", Run: []string{"sh", "./run.sh"}}
	cases := []struct{ body, class string }{
		{"echo 'ninja: build stopped: subcommand failed.'; exit 134", "build-failed"},
		{"echo \"RuntimeError: Error building extension 'k'\"; exit 1", "build-failed"},
		{"echo 'RuntimeError: CUDA error'; exit 134", "crash"},
		{"echo 'check: fail off by one' >&$KBISECT_FD; exit 1", "wrong"},
		{"exit 125", "skip"},
	}
	var commits [][]fixtures.Change
	for _, c := range cases {
		commits = append(commits, script(c.body))
	}
	b := newBench(t, plan, trial.Limits{Run: time.Minute}, commits...)
	for i, c := range cases {
		if o := b.test(i, bisect.Searching); string(o.Class) != c.class {
			t.Errorf("%q: %s", c.body, o.Describe())
		}
	}
}

// What is missing is a fact of the launch, not trouble of the machine that another try may not have. Its output has the
// paths of the repository, and not those of the export.
func TestMissingModuleIsNotTriedAgain(t *testing.T) {
	const program = "import os\nos.write(1, b'\\x1b[31mhere\\x1b[0m\\n')\nimport no_such_module_here\n"
	b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, []fixtures.Change{fixtures.Write("bench.py", program)})
	o := b.test(0, bisect.EndGood)
	if o.Class != bisect.Wrong || len(o.Repeated) > 0 || !strings.HasPrefix(o.Tail, "here\n") || !strings.Contains(o.Tail, `File "bench.py", line 3`) || !strings.Contains(o.Why, "No module named 'no_such_module_here'") {
		t.Errorf("%s, %+v", o.Describe(), o)
	}
	b = newBench(t, kernels.Plan{Run: []string{"sh", "bench.sh"}}, trial.Limits{Run: time.Minute}, []fixtures.Change{fixtures.Write("bench.sh", "echo x >>\"$BENCH_LOG\"\necho 'RuntimeError: No CUDA GPUs are available'\nexit 1\n")})
	_, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.EndGood})
	var infra *bisect.InfraError
	if tries := b.said(); !errors.As(err, &infra) || tries != "x" {
		t.Errorf("%v after %q", err, tries)
	}
}
