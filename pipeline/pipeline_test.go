package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/fixtures/realpython"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	realpython.Use()
	os.Exit(m.Run())
}

// bench is a pipeline over a history with one list of changes a commit.
type bench struct {
	*Pipeline
	recipe *trial.Recipe // of its candidates
	t      *testing.T
	ids    []string
	home   string
}

func newBench(t *testing.T, plan kernels.Plan, limits trial.Limits, commits ...[]fixtures.Change) *bench {
	t.Helper()
	home := t.TempDir()
	made, err := fixtures.Replay(fixtures.Line(len(commits), func(i int) []fixtures.Change { return commits[i] }), filepath.Join(home, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	repo, err := source.Open(made.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	builds, err := cache.Open(filepath.Join(home, "builds"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(context.WithoutCancel(t.Context()), Config{ // the test's context is over before Close, which would count as an interruption
		Recipe: trial.Recipe{
			Repo: repo, Plan: plan, Logs: filepath.Join(home, "logs"), Cache: builds,
			Env: append(os.Environ(), "BENCH_LOG="+filepath.Join(home, "log")),
		},
		Limits: limits, Dir: filepath.Join(home, "work"), Session: "test-" + rand.Text(),
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Pipeline: p, recipe: &p.Config.Recipe, t: t, home: home}
	for _, label := range made.Order {
		b.ids = append(b.ids, made.Commits[label])
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(p.Config.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the workspaces were left behind: %v", err)
		}
	})
	return b
}

// test makes one trial of commit i.
func (b *bench) test(i int, why bisect.Purpose) bisect.Outcome {
	b.t.Helper()
	r := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[i]}, Purpose: why, Clean: why == bisect.ConfirmCulprit}
	o, err := b.Sample(b.t.Context(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

// said is what the candidates appended to $BENCH_LOG since the last call.
func (b *bench) said() string {
	b.t.Helper()
	path := filepath.Join(b.home, "log")
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	os.Remove(path)
	return strings.Join(strings.Fields(string(data)), " ")
}

func script(body string) []fixtures.Change {
	return []fixtures.Change{fixtures.Script("run.sh", "#!/bin/sh\n"+body+"\n")}
}

const makefileText = "bench: a.o b.o\n\tcat a.o b.o >bench\n%.o: %.src common.h\n\tcat $< common.h >$@; echo $@ >>$$BENCH_LOG\n"

// An incremental build rebuilds what changed and nothing else, goes clean when the build's own files
// or the set of files change, and never keeps an old object.
func TestIncrementalMake(t *testing.T) {
	plan, err := kernels.NewPlan(kernels.Project{Kind: "make", Run: []string{"sh", "-c", "cat bench >>$BENCH_LOG"}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, plan, trial.Limits{},
		[]fixtures.Change{fixtures.Write("Makefile", makefileText), fixtures.Write("common.h", "h0\n"), fixtures.Write("a.src", "a0\n"), fixtures.Write("b.src", "b0\n")},
		[]fixtures.Change{fixtures.Write("a.src", "a1\n")},
		[]fixtures.Change{fixtures.Write("common.h", "h1\n")},
		[]fixtures.Change{fixtures.Write("README", "words\n")},
		[]fixtures.Change{fixtures.Write("Makefile", makefileText+"# changed\n")},
	)
	for _, c := range []struct {
		commit int
		want   string
	}{
		{0, "a.o b.o a0 h0 b0 h0"},
		{1, "a.o a1 h0 b0 h0"},
		{0, "a.o a0 h0 b0 h0"}, // back: a newer stamp, not the old object
		{2, "a.o b.o a1 h1 b0 h1"},
		{3, "a.o b.o a1 h1 b0 h1"}, // a file more: clean
		{4, "a.o b.o a1 h1 b0 h1"}, // another Makefile: clean
		{4, "a1 h1 b0 h1"},         // as it is
	} {
		if o := b.test(c.commit, bisect.Searching); o.Class != bisect.OK {
			t.Fatalf("commit %d: %s", c.commit, o.Describe())
		}
		if got := b.said(); got != c.want {
			t.Errorf("commit %d: %q, want %q", c.commit, got, c.want)
		}
	}
}

// A launch that failed costs no build, unless it has left something: then the next build starts clean, and the candidate
// itself is built again.
func TestFailedLaunchCostsNoBuild(t *testing.T) {
	t.Setenv("TMPDIR", "/var/tmp")
	plan, err := kernels.NewPlan(kernels.Project{Kind: "make", Run: []string{"sh", "./run.sh"}})
	if err != nil {
		t.Fatal(err)
	}
	const slow = "bench: a.o b.o\n\tsleep 0.02; cat a.o b.o >bench\n%.o: %.src\n\tcp $< $@; echo $@ >>$$BENCH_LOG\n"
	run := func(end string) fixtures.Change { return fixtures.Script("run.sh", "#!/bin/sh\n"+end+"\n") }
	b := newBench(t, plan, trial.Limits{},
		[]fixtures.Change{fixtures.Write("Makefile", slow), fixtures.Write("a.src", "a0\n"), fixtures.Write("b.src", "b0\n"), run("cat bench >$TMPDIR/copy; exit 1")},
		[]fixtures.Change{fixtures.Write("a.src", "a1\n"), run("echo left >state; exit 1")},
		[]fixtures.Change{fixtures.Write("b.src", "b2\n"), run("test ! -e state")},
	)
	for _, c := range []struct {
		commit int
		want   string
	}{
		{0, "a.o b.o"},
		{0, ""},    // as it is
		{1, "a.o"}, // built on a failed one
		{1, "a.o b.o"},
		{2, "a.o b.o"},
		{2, ""},
		{0, "a.o b.o"}, // back: make takes the older source for a newer one
	} {
		if o := b.test(c.commit, bisect.Searching); (o.Class == bisect.OK) != (c.commit == 2) {
			t.Fatalf("commit %d: %s", c.commit, o.Describe())
		}
		if got := b.said(); got != c.want {
			t.Errorf("commit %d: %q, want %q", c.commit, got, c.want)
		}
	}
}

// What an incremental build cannot do, a clean one may.
func TestFailedIncrementalBuildIsTriedClean(t *testing.T) {
	plan := kernels.Plan{Incremental: true, Build: []string{"sh", "-c", "test ! -e stale && touch stale && cp n built"}, Run: []string{"test", "-s", "built"}}
	b := newBench(t, plan, trial.Limits{}, []fixtures.Change{fixtures.Write("n", "0")}, []fixtures.Change{fixtures.Write("n", "1")})
	for i := range 2 {
		if o := b.test(i, bisect.Searching); o.Class != bisect.OK || !o.Built {
			t.Errorf("commit %d: %s", i, o.Describe())
		}
	}
}

func TestKilledBuildPoisonsNothing(t *testing.T) {
	plan := kernels.Plan{Incremental: true, Build: []string{"sh", "./run.sh"}, Run: []string{"test", "-e", "built"}}
	b := newBench(t, plan, trial.Limits{Build: time.Second},
		script("touch built"), script("touch lock; sleep 1000"), script("test ! -e lock && touch built"))
	if o := b.test(0, bisect.Searching); o.Class != bisect.OK {
		t.Error(o.Describe())
	}
	if o := b.test(1, bisect.Searching); o.Class != bisect.Timeout || o.Phase != "build" {
		t.Error(o.Describe())
	}
	if o := b.test(2, bisect.Searching); o.Class != bisect.OK {
		t.Error(o.Describe())
	}
}

func TestBuildCache(t *testing.T) {
	plan := kernels.Plan{Build: []string{"sh", "-c", "echo built >>$BENCH_LOG; cp n out"}, Outputs: []string{"out"}, Run: []string{"cat", "out"}}
	b := newBench(t, plan, trial.Limits{}, []fixtures.Change{fixtures.Write("n", "0")}, []fixtures.Change{fixtures.Write("n", "1")})
	want := func(i int, why bisect.Purpose, built, hit bool) {
		t.Helper()
		if o := b.test(i, why); o.Class != bisect.OK || o.Built != built || o.CacheHit != hit || o.Tail != fmt.Sprint(i) {
			t.Errorf("commit %d: %+v", i, o)
		}
	}
	want(0, bisect.Searching, true, false)
	want(1, bisect.Searching, true, false)
	want(0, bisect.Searching, false, true)
	want(0, bisect.EndGood, false, true)
	want(0, bisect.ConfirmCulprit, true, false) // a confirmation builds by itself
	if got := b.said(); got != "built built built" {
		t.Error(got)
	}
	b.recipe.Plan.Outputs = []string{"nothing"}
	if o := b.test(1, bisect.Searching); o.Class != bisect.BuildFailed || !strings.Contains(o.Why, "left no nothing") {
		t.Error(o.Describe())
	}
}

// A hang is attributed to the phase in which it happened, by what was said and when.
func TestPhaseOfATimeout(t *testing.T) {
	t.Parallel()
	say := func(lines ...string) string {
		out := ""
		for _, l := range lines {
			out += "echo '" + l + "' >&$KBISECT_FD\n"
		}
		return out
	}
	const hang = "\nsleep 1000"
	limits := trial.Limits{Run: time.Minute, Phases: map[string]kernels.Limit{}}
	for _, phase := range []string{"load", "warmup", "capture", "check", "measure", "teardown", "ours"} {
		limits.Phases[phase] = kernels.Limit{Abs: time.Second}
	}
	cases := []struct{ body, class, phase string }{
		{say("phase: warmup", "phase: measure", "sample: 3 us"), "ok", ""}, // the good end speaks
		{hang, "timeout", "load"},
		{say("case: 4") + hang, "timeout", "load"},
		{say("phase: warmup") + hang, "timeout", "warmup"},
		{say("phase: warmup", "phase: capture") + hang, "timeout", "capture"},
		{say("phase: check", "check: pass") + hang, "timeout", "check"},
		{say("phase: measure") + hang, "timeout", "measure"},
		{say("phase: warmup", "phase: measure", "sample: 3 us") + hang, "timeout", "teardown"}, // it has said all that the good end says
		{say("phase: measure", "sample: 3 us", "phase: teardown") + hang, "timeout", "teardown"},
		{say("phase: ours") + hang, "timeout", "ours"},
		{say("phase: unlimited") + hang, "timeout", "unlimited"},
		{say("phase: warmup", "phase: measure", "sample: 3 us") + "sleep 1.3", "timeout", "teardown"},
		{say("phase: warmup", "phase: check") + "trap '' TERM; sleep 1.2; " + say("phase: measure", "infra: me") + "sleep 9", "timeout", "check"}, // the last words come too late
		{say("phase: capture") + "kill -SEGV $$", "crash", "capture"},
		{say("phase: capture") + "exit 1", "wrong", "capture"},
		{say("phase: check") + "exit 1", "wrong", "check"},
		{say("skip: no tensor cores"), "skip", "load"},
	}
	var commits [][]fixtures.Change
	for _, c := range cases {
		commits = append(commits, script(c.body))
	}
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, limits, commits...)
	for i, c := range cases {
		why := bisect.Searching
		if i == 0 {
			why = bisect.EndGood
		}
		if c.phase == "unlimited" {
			b.Config.Limits.Run = 2 * time.Second
		}
		o := b.test(i, why)
		if string(o.Class) != c.class || o.Phase != c.phase || o.Whole != (c.phase == "unlimited") {
			t.Errorf("%q: %s in %q (whole %v)", c.body, o.Class, o.Phase, o.Whole)
		}
		b.Config.Limits.Run = time.Minute
	}
}

// A limit that is a multiple is taken from the good end.
func TestMultipleOfTheGoodEnd(t *testing.T) {
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{Run: time.Minute, Phases: map[string]kernels.Limit{"run": {Times: 4}}},
		script("sleep 0.2"), script("sleep 100"))
	if o := b.test(0, bisect.EndGood); o.Class != bisect.OK {
		t.Error(o.Describe())
	}
	if o := b.test(1, bisect.Searching); o.Class != bisect.Timeout || o.Wall > 20 {
		t.Error(o.Describe(), o.Wall)
	}
}

func TestMachineTroubleIsAnError(t *testing.T) {
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{}, script("echo x >>$BENCH_LOG; echo infra: device lost >&$KBISECT_FD; exit 3"))
	_, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.Searching})
	var infra *bisect.InfraError
	if !errors.As(err, &infra) || !strings.Contains(err.Error(), "device lost, in each of 3 tries of one launch") || b.said() != "x x x" {
		t.Error(err)
	}
}

func TestCommandThatCannotBeStarted(t *testing.T) {
	b := newBench(t, kernels.Plan{Run: []string{"./nosuch"}}, trial.Limits{}, script("true"))
	_, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.EndGood})
	var command *trial.CommandError
	if !errors.As(err, &command) {
		t.Error(err)
	}
	if o := b.test(0, bisect.EndBad); o.Class != bisect.BuildFailed || !strings.Contains(o.Why, "cannot be started") {
		t.Error(o.Describe())
	}
}

// A script without a #! line runs, as it would from a shell.
func TestScriptWithoutInterpreter(t *testing.T) {
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{}, []fixtures.Change{fixtures.Script("run.sh", "exit 7\n")})
	if o := b.test(0, bisect.EndGood); o.Class != bisect.Wrong || o.Exit != 7 {
		t.Error(o.Describe())
	}
}

// Every trial without a build starts from a clean export, whatever the last one did to it.
func TestEveryTrialStartsClean(t *testing.T) {
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{},
		script("test ! -e dirt && touch dirt && rm -f run.sh && mkdir -p d/e && chmod 0 d && test -z \"$(ls -A $TMPDIR)\" && touch $TMPDIR/x"))
	for range 3 {
		if o := b.test(0, bisect.Searching); o.Class != bisect.OK {
			t.Fatal(o.Describe())
		}
	}
}

// Where nothing of a candidate outlasts its launch, ends, search and proof share one workspace, and each launch finds a
// fresh checkout there, whatever the last one has done to it. Launches for their times keep workspaces of their own.
func TestOneWorkspaceWithoutABuild(t *testing.T) {
	const body = `{ cat n d/m; ls -A . d; mkdir made; stat -c %a . d made | uniq | wc -l; rmdir made; } >>$BENCH_LOG; echo bad >n; cp n new; mv d/m d/other; ln run.sh d/run; chmod 711 d .`
	first := append(script(body), fixtures.Write("n", "0"), fixtures.Write("d/m", "m"))
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{}, first, []fixtures.Change{fixtures.Write("n", "1")})
	for i, why := range []bisect.Purpose{bisect.EndGood, bisect.EndBad, bisect.Searching, bisect.ConfirmCulprit, bisect.ConfirmParent, bisect.EndGood} {
		b.test(i%2, why)
		if got, want := b.said(), fmt.Sprintf("%dm.: .git d n run.sh d: m 1", i%2); got != want {
			t.Errorf("%s: %q, want %q", why, got, want)
		}
	}
	if len(b.workspaces.open) != 1 {
		t.Errorf("%d workspaces are open", len(b.workspaces.open))
	}
	if _, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.EndGood, Timing: true}); err != nil || b.workspaces.open["good"] == nil {
		t.Errorf("for its times: %v, %d workspaces", err, len(b.workspaces.open))
	}
}

// A launch that takes more memory for its files than it may shows nothing: it is made again, on the disk, where all later
// ones are made.
func TestMemoryIsLeft(t *testing.T) {
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{},
		script("echo small $PWD >>$BENCH_LOG"),
		script("echo large $PWD >>$BENCH_LOG; head -c 3000000 /dev/zero >big; case $PWD in */memory/tree) sleep 1000;; esac"))
	b.Config.Memory = workspace.Memory{Dir: workspace.SharedMemory, Most: 1 << 20}
	if room, why := b.Config.Memory.Room(); room == 0 {
		t.Skip("NOT TESTED: workspaces in memory:", why)
	}
	b.workspaces.openMemory(t.Context())
	memory := b.workspaces.memory.Dir
	for i, want := range []string{"small M", "large M large D", "small D"} {
		if o := b.test(i%2, bisect.Searching); o.Class != bisect.OK {
			t.Fatal(o.Describe())
		}
		got := strings.NewReplacer(memory+"/memory/tree", "M", b.Config.Dir+"/search/tree", "D").Replace(b.said())
		if got != want {
			t.Errorf("trial %d: %q, want %q", i, got, want)
		}
	}
	if _, err := os.Stat(memory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was left in memory: %v", err)
	}
}

// Launches whose times are compared, and what is built, lie on the disk.
func TestWhatLiesInMemory(t *testing.T) {
	for name, c := range map[string]struct {
		plan   kernels.Plan
		limits trial.Limits
		timing bool
		memory bool
	}{
		"a launch":       {kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{}, false, true},
		"its times":      {kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{}, true, false},
		"a build":        {kernels.Plan{Build: []string{"true"}, Run: []string{"./run.sh"}}, trial.Limits{}, false, false},
		"limited memory": {kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{RunMemory: 1 << 30}, false, false},
	} {
		b := newBench(t, c.plan, c.limits, script("pwd >>$BENCH_LOG"))
		b.Config.Memory.Dir = workspace.SharedMemory
		if room, why := b.Config.Memory.Room(); room == 0 {
			t.Skip("NOT TESTED: workspaces in memory:", why)
		}
		b.workspaces.openMemory(t.Context())
		r := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.EndGood, Timing: c.timing}
		if _, err := b.Sample(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if at := b.said(); strings.HasPrefix(at, workspace.SharedMemory+"/kbisect-") != c.memory {
			t.Errorf("%s: %s", name, at)
		}
	}
}

// Trials find their caches empty, but where times are compared as a first process left them; a
// killed process leaves nothing in them, and the user's own are out of sight.
func TestCaches(t *testing.T) {
	t.Setenv("TRITON_CACHE_DIR", filepath.Join(t.TempDir(), "mine"))
	const body = `d=$TRITON_CACHE_DIR; mkdir -p $d; [ -e $d/lock ] && echo locked >>$BENCH_LOG
if [ -e $d/made ]; then echo warm >>$BENCH_LOG; else echo cold >>$BENCH_LOG; touch $d/made; fi
case $d in */mine) echo mine >>$BENCH_LOG;; esac`
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{Run: time.Second},
		script(body), script(body+"; touch $d/lock; sleep 60"), script(": # no cache; echo plain >>$BENCH_LOG"))
	ask := func(commit, nth int, timing bool) bisect.Outcome {
		t.Helper()
		o, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[commit]}, Purpose: bisect.Searching, Nth: nth, Timing: timing})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	steps := []struct {
		commit int
		timing bool
		want   string
		unfit  bool
	}{
		{0, false, "cold", true}, {0, false, "cold", true}, {0, true, "warm", false}, {0, true, "warm", false},
		{1, false, "cold", false}, {0, true, "cold warm", false}, {1, false, "cold", false},
	}
	for i, c := range steps {
		o := ask(c.commit, i, c.timing)
		if got := b.said(); got != c.want || (o.Unfit != "") != c.unfit {
			t.Errorf("step %d: %q, unfit %q", i, got, o.Unfit)
		}
		if (c.want == "cold warm") != (len(o.Cold) > 0) {
			t.Errorf("step %d: cold phases %v", i, o.Cold)
		}
		if o.Class != bisect.OK && o.Caches != string(Cold) {
			t.Errorf("step %d: its caches were %q", i, o.Caches)
		}
	}
	if o := ask(2, 9, true); o.Unfit != "" || o.Cold != nil {
		t.Errorf("without caches: %+v", o)
	}
	if _, err := os.Stat(os.Getenv("TRITON_CACHE_DIR")); err == nil {
		t.Error("the user's cache was touched")
	}
	b.Config.Caches = Cold
	if ask(0, 10, true); b.said() != "cold" {
		t.Error("not cold although asked for")
	}
}

// A search in a hurry stops a candidate where no good run could still be running, says so, and
// only in the phase that it asked for.
func TestHurry(t *testing.T) {
	t.Parallel()
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{Run: time.Minute},
		script(":"), script("sleep 60"))
	b.test(0, bisect.EndGood)
	b.reference.Times = map[string]time.Duration{"run": time.Millisecond, bisect.WholeTrial: time.Millisecond}
	r := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[1]}, Purpose: bisect.Searching, Hurry: bisect.WholeTrial}
	o, err := b.Sample(t.Context(), r)
	if err != nil || o.Class != bisect.Timeout || !o.Early || !o.Whole || !strings.Contains(o.Why, "stopped after") {
		t.Errorf("%+v, %v", o, err)
	}
}

// What a killed process left in the tree never reaches the next candidate, not even where builds
// start from the last one.
func TestKilledProcessPoisonsNothing(t *testing.T) {
	plan, err := kernels.NewPlan(kernels.Project{Kind: "make", Run: []string{"sh", "./run.sh"}})
	if err != nil {
		t.Fatal(err)
	}
	const run = "test ! -e poison || exit 9; touch poison; "
	files := func(n, body string) []fixtures.Change {
		return []fixtures.Change{fixtures.Write("Makefile", "all:\n\ttrue\n"), fixtures.Write("run.sh", run+body), fixtures.Write("n", n)}
	}
	b := newBench(t, plan, trial.Limits{Run: time.Second}, files("0", "rm poison\n"), files("1", "sleep 60\n"), files("2", "rm poison\n"))
	for i, want := range []bisect.Class{bisect.OK, bisect.Timeout, bisect.OK} {
		if o := b.test(i, bisect.Searching); o.Class != want {
			t.Errorf("commit %d: %s", i, o.Describe())
		}
	}
	for range 2 {
		if o := b.test(1, bisect.EndBad); o.Class != bisect.Timeout {
			t.Errorf("launched again in what it left: %s", o.Describe())
		}
	}
}

// A program that has said as much as the good end, and pauses longer than the limit of the teardown
// before it says more, has not hung there.
func TestMoreToSay(t *testing.T) {
	t.Parallel()
	const head = "echo 'phase: measure' >&$KBISECT_FD; echo 'sample: 3 us' >&$KBISECT_FD; "
	limits := trial.Limits{Run: time.Minute, Phases: map[string]kernels.Limit{"teardown": {Abs: 500 * time.Millisecond}}}
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, limits,
		script(head), script(head+"sleep 1.2; echo 'sample: 4 us' >&$KBISECT_FD"), script(head+"sleep 60"))
	b.test(0, bisect.EndGood)
	if o := b.test(2, bisect.EndBad); o.Class != bisect.Timeout || o.Phase != "teardown" || o.Early {
		t.Errorf("hangs: %s, early %v", o.Describe(), o.Early)
	}
	if o := b.test(1, bisect.Searching); o.Class != bisect.Timeout || !o.Early {
		t.Errorf("in the search: %s, early %v", o.Describe(), o.Early)
	}
	if o := b.test(1, bisect.EndBad); o.Class != bisect.OK || len(o.Repeated) != 1 {
		t.Errorf("has more to say: %s, repeated %q", o.Describe(), o.Repeated)
	}
}

// What a candidate mounted, run by root, is taken away with it.
func TestMountsAreTakenAway(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can mount")
	}
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{Run: time.Second},
		script("mkdir -p 'a b' $TMPDIR/m; mount -t tmpfs t 'a b' && mount -t tmpfs t $TMPDIR/m || exit 125; touch 'a b/f'; sleep 60"), script(":"))
	o := b.test(0, bisect.Searching)
	if o.Class == bisect.Skip {
		t.Skip("NOT TESTED: mounting is not allowed here")
	}
	if o.Class != bisect.Timeout {
		t.Error(o.Describe())
	}
	if o := b.test(1, bisect.Searching); o.Class != bisect.OK {
		t.Error(o.Describe())
	}
}

// What the probe would tell apart may take its own time in trials that it stays away from.
func TestLimitsWithoutTheProbe(t *testing.T) {
	t.Parallel()
	const slow = `import os, time
say = lambda line: os.write(int(os.environ["KBISECT_FD"]), (line + "\n").encode())
say("phase: load")
time.sleep(1.5)
say("phase: measure")
say("sample: 1 us")
`
	b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}},
		trial.Limits{Phases: map[string]kernels.Limit{"load": {Abs: time.Second}, "compile": {Abs: time.Minute}, "teardown": {Abs: time.Minute}}},
		[]fixtures.Change{fixtures.Script("bench.py", slow)})
	ask := func(timing bool) bisect.Outcome {
		t.Helper()
		o, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.Searching, Timing: timing})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := ask(true); o.Class != bisect.OK {
		t.Errorf("timed: %s", o.Describe())
	}
	if o := ask(false); o.Class != bisect.Timeout || o.Phase != "load" {
		t.Errorf("with the probe: %s", o.Describe())
	}
	b.recipe.Probe = trial.ProbeOff
	if o := ask(true); o.Class != bisect.Timeout || o.Phase != "load" {
		t.Errorf("never probed: %s", o.Describe())
	}
}

// Python's bytecode of what is installed is kept for the whole search, whatever the user's environment says;
// that of a candidate is never another's, of the same second and size.
func TestBytecode(t *testing.T) {
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	const program = `import os, sys, colorsys, ours
line = "metric value: %d\nmetric kept: %d\n" % (ours.VALUE, not sys.flags.dont_write_bytecode and os.path.exists(colorsys.__cached__))
os.write(int(os.environ["KBISECT_FD"]), ("phase: measure\n" + line).encode())
`
	commit := func(value string) []fixtures.Change {
		return []fixtures.Change{fixtures.Script("bench.py", program), fixtures.Write("ours.py", "VALUE = "+value+"\n")}
	}
	b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, commit("1"), commit("2"), commit("3"))
	for round := range 3 {
		for i := range b.ids {
			for _, timing := range []bool{false, true} {
				o, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[i]}, Purpose: bisect.Searching, Nth: round, Timing: timing})
				if err != nil || o.Class != bisect.OK {
					t.Fatal(err, o.Describe())
				}
				want := map[string]float64{"value": float64(i + 1), "kept": 1}
				for _, s := range o.Series {
					if v, ok := want[s.Metric]; ok && s.Values[0] != v {
						t.Errorf("round %d: %s is %v, want %v", round, s.Metric, s.Values, v)
					}
				}
			}
		}
	}
}

// Where the repository lacks a file, a failure does not count against the commit, unless the paths are known and the
// failure does not name the file.
func TestMissingFileIsNoFailure(t *testing.T) {
	b := newBench(t, kernels.Plan{Run: []string{"sh", "./run.sh"}}, trial.Limits{},
		append(script("exit 3"), fixtures.Write("data/big", "large")), append(script("echo no data/big; exit 3"), fixtures.Write("n", "1")), script("exit 0"))
	const unpack = `if mv objects/pack/*.pack p; then rm -f objects/pack/* && git unpack-objects -q <p; fi && id=$(git rev-parse HEAD:data/big) && rm -f objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-)`
	cmd := exec.Command("sh", "-c", unpack)
	cmd.Dir = filepath.Join(b.home, "repo", ".git")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		paths  []string
		commit int
		want   bisect.Class
	}{{nil, 0, bisect.Skip}, {nil, 2, bisect.OK}, {[]string{"run.sh"}, 0, bisect.Wrong}, {[]string{"run.sh"}, 1, bisect.Skip}} {
		b.recipe.Paths = c.paths
		o := b.test(c.commit, bisect.Searching)
		if o.Class != c.want || c.want == bisect.Skip && (!strings.Contains(o.Why, "data/big: object ") || !strings.Contains(o.Why, "exit 3")) {
			t.Errorf("paths %v, commit %d: %s", c.paths, c.commit, o.Describe())
		}
	}
}
