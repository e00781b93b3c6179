package kernels

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/kernelbot"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// fakes is where a problem with its evaluation and submissions of all sorts are.
const fakes = "../fixtures/kernelbot"

// candidate makes an export with a submission of the fixtures.
func candidate(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fakes, "submissions", name+".py"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "submission.py"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

// ended is how a trial ended.
type ended struct {
	Class  bisect.Class
	Phase  string
	Why    string
	Stages []string
}

// trialOf carries out the stages of a plan as a pipeline has to. A phase that hangs is ended a moment
// after it was entered, and anything else after a time that no machine needs.
func trialOf(t *testing.T, plan Plan, root, hang string) (end ended, series []bisect.Series) {
	t.Helper()
	if err := plan.Write(root); err != nil {
		t.Fatal(err)
	}
	for _, s := range plan.Stages {
		pop := protocol.Popcorn{Stage: s.Name, Metric: s.Metric}
		p := protocol.Reader{Base: s.Base}
		exit, timeout, output := stage(t, plan, s, root, hang, &pop, &p)
		series = append(series, pop.Series()...)
		if s.Optional {
			end.Stages = append(end.Stages, s.Name)
			continue
		}
		class, why := pop.Ending(exit, output)
		if timeout {
			class, why = bisect.Timeout, "killed"
		}
		end.Stages = append(end.Stages, s.Name+" "+string(class))
		end.Class, end.Phase, end.Why = class, p.Phase(), why
		if class != bisect.OK {
			break
		}
	}
	return end, series
}

// stage runs one process in a group of its own and drains what it sends while it runs.
func stage(t *testing.T, plan Plan, s Stage, root, hang string, pop *protocol.Popcorn, p *protocol.Reader) (exit int, timeout bool, output []byte) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var out bytes.Buffer
	cmd := exec.Command(s.Run[0], s.Run[1:]...)
	cmd.Dir, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = filepath.Join(root, plan.Dir), []*os.File{write}, &out, &out
	cmd.Env = append(append(os.Environ(), s.Speaks+"=3", "PYTHONDONTWRITEBYTECODE=1"), s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	timer := time.AfterFunc(2*time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		for _, l := range pop.Translate(lines.Text()) {
			p.Line(l, time.Since(start))
		}
		if p.Phase() == hang {
			timer.Reset(500 * time.Millisecond)
		}
	}
	err = cmd.Wait()
	timeout = !timer.Stop()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	if err != nil && cmd.ProcessState.ExitCode() < 0 && !timeout {
		t.Fatalf("stage %s: %v\n%s", s.Name, err, out.Bytes())
	}
	return cmd.ProcessState.ExitCode(), timeout, out.Bytes()
}

func problem(t *testing.T, mode string) Plan {
	t.Helper()
	task, err := kernelbot.ReadTask(filepath.Join(fakes, "vectoradd"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(Project{Kind: "kernelbot", Task: task, Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestKernelbotRunsAProblem runs real processes: one for each way to end.
func TestKernelbotRunsAProblem(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: there is no python3; the fakes of KernelBot were not run")
	}
	for _, c := range []struct {
		submission, mode string
		want             ended
	}{
		{"good", "leaderboard", ended{bisect.OK, "teardown", "", []string{"compile", "test ok", "benchmark ok", "leaderboard ok"}}},
		{"wrong", "leaderboard", ended{bisect.Wrong, "teardown", "case size: 100; seed: 2: mismatch found! ERROR AT 0: 0.956034 0.987907", []string{"compile", "test wrong"}}},
		{"wrong_ranked", "leaderboard", ended{bisect.Wrong, "teardown", "case size: 1000; seed: 3: mismatch found! ERROR AT 0: 0.237965 0.440322", []string{"compile", "test ok", "benchmark ok", "leaderboard wrong"}}},
		{"crash", "benchmark", ended{bisect.Crash, "benchmark/warmup", "exit 1", []string{"compile", "benchmark crash"}}},
		{"build", "test", ended{bisect.BuildFailed, "test/warmup", "ninja: build stopped: subcommand failed.", []string{"compile", "test build-failed"}}},
		{"hang_import", "test", ended{bisect.Timeout, "test/warmup", "killed", []string{"compile", "test timeout"}}},
		{"hang_shape", "test", ended{bisect.Timeout, "test/check", "killed", []string{"compile", "test timeout"}}},
		{"hang_benchmark", "benchmark", ended{bisect.Timeout, "benchmark/measure", "killed", []string{"compile", "benchmark timeout"}}},
	} {
		t.Run(c.submission, func(t *testing.T) {
			t.Parallel()
			hang := ""
			if c.want.Class == bisect.Timeout {
				hang = c.want.Phase
			}
			got, series := trialOf(t, problem(t, c.mode), candidate(t, c.submission), hang)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if c.submission != "good" {
				return
			}
			counted := slices.DeleteFunc(series, func(s bisect.Series) bool { return s.Metric != "time" })
			if len(counted) != 2 || counted[0].Case != "size: 1000; seed: 3" || counted[0].Values[0] <= 0 {
				t.Errorf("series that count %+v", counted)
			}
		})
	}
}

func TestKernelbotPlan(t *testing.T) {
	plan := problem(t, "")
	var stages []string
	for _, s := range plan.Stages {
		stages = append(stages, s.Name+" "+s.Limit.String()+" "+s.Base+" "+strings.Join(s.Run, " "))
	}
	want := []string{
		"compile 2m0s compile python3 submission.py",
		"test 20s test/load python3 eval.py test kbisect-tests.txt",
		"benchmark 20s benchmark/warmup python3 eval.py benchmark kbisect-benchmarks.txt",
		"leaderboard 3m0s leaderboard/warmup python3 eval.py leaderboard kbisect-benchmarks.txt",
	}
	if d := cmp.Diff(want, stages); d != "" {
		t.Error(d)
	}
	if plan.Limit() != 340*time.Second {
		t.Errorf("all stages together %v", plan.Limit())
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "submission.py"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	flat := filepath.Join(root, plan.Dir)
	if err := os.MkdirAll(flat, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(flat, "eval.py")); err != nil { // a candidate may leave anything behind
		t.Fatal(err)
	}
	for range 2 {
		if err := plan.Write(root); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"submission.py": "mine", "kbisect-tests.txt": "size: 8; seed: 1\nsize: 100; seed: 2\n",
		"kbisect-benchmarks.txt": "size: 1000; seed: 3\nsize: 4000; seed: 4\n",
	} {
		if got, err := os.ReadFile(filepath.Join(flat, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, _ := os.ReadFile(victim); string(got) != "theirs" {
		t.Error("a file outside of the export was written")
	}
	if got, _ := os.ReadFile(filepath.Join(flat, "eval.py")); !bytes.Contains(got, []byte("def testing(")) {
		t.Errorf("eval.py is %q", got)
	}
}

// TestKernelbotPlanInCUDA: the server's compiler command, case files and environment.
func TestKernelbotPlanInCUDA(t *testing.T) {
	got, err := kernelbot.ParseTask([]byte(`
lang: cu
files: [{name: submission.cu, source: "@SUBMISSION@"}, {name: eval.cu, source: ../eval.cu}]
config: {sources: [eval.cu, submission.cu], include_dirs: [include], defines: {FAST: null, N: 4}, compile_flags: [-lineinfo]}
tests: [{world_size: 2, size: 1023}, {size: 1.5}]
benchmarks: [{size: 1, seed: -3}, {size: 2, flag: true}]
multi_gpu: true
seed: 7
colour: red
`))
	if err != nil {
		t.Fatal(err)
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
	const left = "only the last benchmark (size: 2; flag: True) is ranked and run, as on the server; benchmarks not run: 1"
	if w := plan.Warnings; len(w) != 4 || w[3] != left || len(got.Warnings) != 3 {
		t.Errorf("warnings %q, of the task %q", w, got.Warnings)
	}
	if plan, err = NewPlan(Project{Kind: "kernelbot", Task: got, Mode: "test"}); err != nil || len(plan.Warnings) != 3 {
		t.Errorf("warnings of the tests %q, %v", plan.Warnings, err)
	}
}

func FuzzKernelbotPlan(f *testing.F) {
	f.Add([]byte("lang: py\nfiles: [{name: s.py, source: '@SUBMISSION@'}, {name: e.py, source: e.py}]\nconfig: {main: e.py}\ntests: [{n: 1}]\nbenchmarks: [{n: 2}]"), "leaderboard")
	f.Add([]byte("lang: cu\nfiles: [{name: s.cu, source: '@SUBMISSION@'}]\nconfig: {sources: [s.cu]}\ntests: [{n: 1}]"), "test")
	f.Fuzz(func(t *testing.T, data []byte, mode string) {
		task, err := kernelbot.ParseTask(data)
		if err != nil {
			return
		}
		plan, err := NewPlan(Project{Kind: "kernelbot", Task: task, Mode: mode})
		if err == nil && (len(plan.Stages) == 0 || len(plan.Files) != len(task.Files)+2 || plan.Limit() <= 0) {
			t.Errorf("an incomplete plan for %q", data)
		}
	})
}

// TestStoredPlans: stored policies hold plans as JSON, so the names of the fields and
// the digests that builds are cached by must never change.
func TestStoredPlans(t *testing.T) {
	plan := Plan{Kind: "make", Build: []string{"make"}, Outputs: []string{"bench"}, Env: []string{"A=1"}, Files: []File{
		{Name: "run.sh", Text: "x", Exec: true, Overlay: true},
		{Name: "own.py", Source: "new.py", Formerly: []Former{{"old.py", "c0"}}},
	}}
	data, err := json.Marshal(plan.Files)
	const files = `[{"Name":"run.sh","Source":"","Text":"x","Exec":true,"Lend":true},` +
		`{"Name":"own.py","Source":"new.py","Formerly":[{"Path":"old.py","Renamed":"c0"}],"Text":"","Exec":false,"Lend":false}]`
	if err != nil || string(data) != files {
		t.Errorf("%v\n got %s\nwant %s", err, data, files)
	}
	if got := plan.Digest(); got != "1d3c2c0e726712dc91733bd4489f012dc7627b9eed6441bdb1c2f2710542f22a" {
		t.Errorf("digest %s", got)
	}
}

func TestPlanWithoutItsSubmission(t *testing.T) {
	var missing *MissingSourceError
	if err := problem(t, "test").Write(t.TempDir()); !errors.As(err, &missing) || missing.Path != "submission.py" {
		t.Errorf("got %v", err)
	}
	if err := (Plan{Files: []File{{Name: "../x", Text: "y"}}}).Write(t.TempDir()); err == nil {
		t.Error("a file was written outside of the export")
	}
}

// TestOverlay: an overlay never replaces a file of the candidate.
func TestOverlay(t *testing.T) {
	plan := Plan{Files: []File{{Name: "bench/run.sh", Text: "overlaid", Overlay: true, Exec: true}, {Name: "own.py", Text: "overlaid", Overlay: true}}}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "own.py"), []byte("its own"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := plan.Write(root); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(root, "own.py")); err != nil || string(got) != "its own" {
		t.Errorf("own.py is %q, %v", got, err)
	}
	st, err := os.Stat(filepath.Join(root, "bench/run.sh"))
	if err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("run.sh: %v, %v", st, err)
	}
	changed := Plan{Files: []File{plan.Files[0], {Name: "own.py", Text: "other", Overlay: true}}}
	if plan.Digest() == changed.Digest() {
		t.Error("another text does not show in the digest")
	}
}

func TestPlanDigest(t *testing.T) {
	a, b := problem(t, "test"), problem(t, "test")
	if a.Digest() != b.Digest() {
		t.Error("one plan has two digests")
	}
	b.Files = slices.Clone(b.Files)
	b.Files[1].Text += "# changed"
	c := a
	c.Build = []string{"nvcc"}
	if a.Digest() == b.Digest() || a.Digest() == c.Digest() {
		t.Error("a changed judge or build does not show")
	}
}

func TestAsKernelbot(t *testing.T) {
	plan, err := NewPlan(Project{Kind: "command", Build: []string{"make"}, Run: []string{"./bench"}})
	if err != nil {
		t.Fatal(err)
	}
	as := plan.AsKernelbot()
	want := []Stage{{Run: []string{"./bench"}, Limit: 180 * time.Second, Killed: 114}}
	if d := cmp.Diff(want, as.Stages); d != "" || as.BuildLimit != 2*time.Minute || as.Run != nil || !as.Undrained {
		t.Errorf("%s\n%+v", d, as)
	}
	bot := problem(t, "test")
	if d := cmp.Diff(bot.Stages, bot.AsKernelbot().Stages); d != "" {
		t.Error(d)
	}
}
