package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// TestMain lets the test binary pose as kbisect in a job.
func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "worker" {
		if err := Work(context.Background(), os.Args[2], "of a test"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// processes is an executor whose jobs are processes of this machine. They run on the nodes a and b in turn.
type processes struct {
	nodes []string
	env   map[string][]string // of the jobs on a node
	ends  []executor.State    // of the first jobs, which do not run
	busy  int                 // answers that fail at first

	mu     sync.Mutex
	jobs   []executor.Job
	states map[string]executor.Report
}

func (x *processes) Submit(_ context.Context, j executor.Job) (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.busy > 0 {
		x.busy--
		return "", errors.New("the queue is full")
	}
	nodes := slices.DeleteFunc(slices.Clone(x.nodes), func(n string) bool { return slices.Contains(j.Exclude, n) })
	if len(nodes) == 0 {
		return "", &executor.RefusedError{Why: "no such node"}
	}
	x.jobs = append(x.jobs, j)
	id, node := fmt.Sprint(len(x.jobs)), nodes[len(x.jobs)%len(nodes)]
	if x.states == nil {
		x.states = map[string]executor.Report{}
	}
	if len(x.jobs) <= len(x.ends) {
		x.states[id] = executor.Report{State: x.ends[len(x.jobs)-1], Node: node, Words: "ENDED"}
		return id, nil
	}
	x.states[id] = executor.Report{State: executor.Running, Node: node, Words: ""}
	cmd := exec.Command(j.Program, "worker", j.Spec)
	cmd.Env = append(append(os.Environ(), "SLURMD_NODENAME="+node), x.env[node]...)
	if j.Build {
		cmd.Env = append(cmd.Env, "TOOLS=here", "CC=tool")
	}
	out, err := os.Create(j.Output)
	if err != nil {
		return "", err
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	go func() {
		end := executor.Done
		if cmd.Wait() != nil {
			end = executor.Failed
		}
		out.Close()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.states[id] = executor.Report{State: end, Node: node, Words: string(end)}
	}()
	return id, nil
}

func (x *processes) States(context.Context, []string) (map[string]executor.Report, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[string]executor.Report{}
	for id, r := range x.states {
		out[id] = r
	}
	return out, nil
}

func (x *processes) Cancel(context.Context, string, ...string) error { return nil }
func (x *processes) Version(context.Context) (string, error)         { return "processes", nil }

// open makes a cluster over processes for a repository whose trials run a shell script.
func open(t *testing.T, x *processes, r *gittest.Repo, run string) *Cluster {
	t.Helper()
	repo, err := source.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	plan, err := kernels.NewPlan(kernels.Project{Kind: "command", Run: []string{"sh", "-c", run}})
	if err != nil {
		t.Fatal(err)
	}
	plain := []string{"unused"}
	c, err := Open(t.Context(), Config{
		Settings: executor.Settings{Kind: executor.Command, Shared: t.TempDir(), Submit: plain, State: plain, Cancel: plain}, Session: filepath.Base(t.Name()) + fmt.Sprint(os.Getpid()), Repo: repo, Logs: t.TempDir(),
		Block: Block{Recipe: trial.Recipe{Plan: plan, SampleMetric: "time"}, GPUs: []string{"none"}, Limits: trial.Limits{Build: time.Minute, Run: time.Minute}, Caches: pipeline.Warm},
		Say:   func(text string) { t.Log(text) }, OnPhase: func(pipeline.Activity) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.executor = x
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(c.shared.dir, "sessions", "*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	return c
}

func history(t *testing.T, states ...string) (r *gittest.Repo, ids []string) {
	r = gittest.New(t)
	for _, s := range states {
		r.Write(t, "state", s)
		ids = append(ids, r.Commit(t, s))
	}
	return r, ids
}

// TestTimesOfUnequalDevices: of two nodes one is a third slower. What comes back is as if all launches were made on one.
func TestTimesOfUnequalDevices(t *testing.T) {
	t.Parallel()
	r, ids := history(t, "30", "33")
	c := open(t, &processes{nodes: []string{"a", "b"}, env: map[string][]string{"b": {"PERCENT=133"}}}, r,
		`echo "sample: $(($(cat state) * ${PERCENT:-100})) us" >&$KBISECT_FD`)
	values := map[int][]float64{}
	for n := range 2 {
		for i, id := range ids {
			q := bisect.Request{Candidate: bisect.Candidate{Commit: id}, Purpose: []bisect.Purpose{bisect.EndGood, bisect.EndBad}[i], Nth: n, Timing: true}
			o, err := c.Slot(0).Sample(t.Context(), q)
			if err != nil || o.Class != bisect.OK {
				t.Fatalf("%v %+v", err, o)
			}
			c.Learn(q, o)
			values[i] = append(values[i], o.Series[0].Values...)
		}
	}
	for i, v := range values {
		if len(v) != 2 || math.Abs(v[0]/v[1]-1) > 1e-9 || math.Abs(v[0]/values[0][0]-[]float64{1, 1.1}[i]) > 1e-9 {
			t.Errorf("commit %d: %v", i, v)
		}
	}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], "times are relative") {
		t.Errorf("warnings %q", w)
	}
}

// TestFaults: whose fault a job's end is.
func TestFaults(t *testing.T) {
	t.Parallel()
	const fine = "exit 0"
	for name, c := range map[string]struct {
		x     *processes
		run   string
		class bisect.Class
		jobs  int
		fails string // the error instead
	}{
		"no fault":                     {x: &processes{nodes: []string{"a"}}, run: fine, class: bisect.OK, jobs: 1},
		"a full queue":                 {x: &processes{nodes: []string{"a"}, busy: 1}, run: fine, class: bisect.OK, jobs: 1},
		"a candidate that fails":       {x: &processes{nodes: []string{"a"}}, run: "exit 7", class: bisect.Wrong, jobs: 1},
		"a candidate that hangs":       {x: &processes{nodes: []string{"a"}}, run: "sleep 100", class: bisect.Timeout, jobs: 1},
		"a node that fails":            {x: &processes{nodes: []string{"a", "b"}, ends: []executor.State{executor.Lost}}, run: fine, class: bisect.OK, jobs: 2},
		"the only node fails once":     {x: &processes{nodes: []string{"a"}, ends: []executor.State{executor.Lost}}, run: fine, class: bisect.OK, jobs: 2},
		"cancelled":                    {x: &processes{nodes: []string{"a"}, ends: []executor.State{executor.Cancelled, executor.Cancelled}}, run: fine, class: bisect.OK, jobs: 3},
		"cancelled again and again":    {x: &processes{nodes: []string{"a"}, ends: slices.Repeat([]executor.State{executor.Cancelled}, tries)}, run: fine, jobs: tries, fails: "8 jobs failed"},
		"the fence, once":              {x: &processes{nodes: []string{"a"}, ends: []executor.State{executor.Late}}, run: fine, class: bisect.OK, jobs: 2},
		"the fence, twice":             {x: &processes{nodes: []string{"a"}, ends: []executor.State{executor.Late, executor.Late}}, run: fine, class: bisect.Timeout, jobs: 2},
		"out of memory, twice":         {x: &processes{nodes: []string{"a"}, ends: []executor.State{executor.TooLarge, executor.Late, executor.TooLarge}}, run: fine, class: bisect.Crash, jobs: 3},
		"no device where one is asked": {x: &processes{nodes: []string{"a", "b"}, env: map[string][]string{"a": {"CUDA_VISIBLE_DEVICES=0"}}}, run: fine, class: bisect.OK, jobs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ids := history(t, "1")
			k := open(t, c.x, r, c.run)
			k.grace = 100 * time.Millisecond
			k.spec.Device = strings.Contains(name, "device")
			if strings.Contains(name, "hangs") {
				k.spec.Block.Limits.Run = time.Second
			}
			o, err := k.Slot(0).Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: ids[0]}, Purpose: bisect.Searching})
			switch {
			case c.fails != "":
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v; %+v", err, o)
				}
			case err != nil || o.Class != c.class:
				t.Errorf("%v %+v", err, o)
			}
			if len(c.x.jobs) != c.jobs {
				t.Errorf("%d jobs, want %d", len(c.x.jobs), c.jobs)
			}
		})
	}
}

// TestNodesLeftOut: a node that keeps failing is left out, for later blocks too, and said to be.
func TestNodesLeftOut(t *testing.T) {
	t.Parallel()
	r, ids := history(t, "1", "2", "3")
	x := &processes{nodes: []string{"bad", "fine"}, env: map[string][]string{"fine": {"CUDA_VISIBLE_DEVICES=0"}}}
	c := open(t, x, r, "exit 0")
	c.spec.Device = true
	for n := range 4 {
		if _, err := c.Slot(0).Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: ids[n%3]}, Purpose: bisect.Searching, Nth: n}); err != nil {
			t.Fatal(err)
		}
	}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], "node bad was left out after 2 failures: bad: the job was given no device") {
		t.Errorf("warnings %q", w)
	}
	if last := x.jobs[len(x.jobs)-1]; !slices.Equal(last.Exclude, []string{"bad"}) {
		t.Errorf("excluded: %v", last.Exclude)
	}
}

// TestBuildsApart: builds are jobs of their own, one for a candidate, and launches find what they made where there are no tools.
// A proof's are made anew, once, and a build that fails is the answer.
func TestBuildsApart(t *testing.T) {
	t.Parallel()
	r, ids := history(t, "1", "2", "broken")
	x := &processes{nodes: []string{"a"}, env: map[string][]string{"a": {"CUDA_VISIBLE_DEVICES=0"}}}
	c := open(t, x, r, `test "$(cat built)" = "built $(cat state)"`)
	counted := filepath.Join(t.TempDir(), "builds")
	c.config.Settings.Build = []string{"--cpus-per-task=2"}
	c.spec.Device = true
	c.spec.Block.Recipe.Plan.Build = []string{"sh", "-c", `cat state >>` + counted + `; test "$TOOLS" = here && test "$(cat state)" != broken && echo "built $(cat state)" >built`}
	c.spec.Block.Recipe.Plan.Outputs = []string{"built"}
	ask := func(n int, why bisect.Purpose, nth int, clean bool, want bisect.Class) {
		t.Helper()
		o, err := c.Slot(0).Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: ids[n]}, Purpose: why, Nth: nth, Clean: clean})
		if err != nil || o.Class != want {
			t.Errorf("%v %+v", err, o)
		}
	}
	var all sync.WaitGroup
	for nth := range 3 {
		all.Go(func() { ask(0, bisect.Searching, nth, false, bisect.OK) })
	}
	all.Wait()
	ask(1, bisect.Searching, 0, false, bisect.OK)
	ask(1, bisect.ConfirmCulprit, 0, true, bisect.OK)
	ask(1, bisect.ConfirmCulprit, 1, true, bisect.OK)
	ask(2, bisect.Searching, 0, false, bisect.BuildFailed)
	if built, err := os.ReadFile(counted); err != nil || string(built) != "122broken" {
		t.Errorf("built %q: %v", built, err)
	}
	if builds := slices.DeleteFunc(slices.Clone(x.jobs), func(j executor.Job) bool { return !j.Build }); len(builds) != 4 || len(x.jobs) != 4+6 {
		t.Errorf("%d builds of %d jobs", len(builds), len(x.jobs))
	}
}

// TestMadeCommits: a commit that exists in memory alone is tried in a job as it is here.
func TestMadeCommits(t *testing.T) {
	t.Parallel()
	r, ids := history(t, "good", "bad")
	c := open(t, &processes{nodes: []string{"a"}}, r, `test "$(cat deep/er/file)" = made`)
	sides, err := c.config.Repo.Compare(t.Context(), ids[0], ids[1])
	if err != nil {
		t.Fatal(err)
	}
	id, err := sides.Compose([]source.Edit{{Path: "deep/er/file", New: &source.Entry{Mode: source.ModeFile}, Content: func() string { return "made" }}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Slot(0).Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: id}, Purpose: bisect.Searching})
	if err != nil || o.Class != bisect.OK {
		t.Errorf("%v %+v", err, o)
	}
}

// TestVersionsThatDiffer are refused in words, before anything is built.
func TestVersionsThatDiffer(t *testing.T) {
	t.Parallel()
	r, ids := history(t, "1")
	c := open(t, &processes{nodes: []string{"a"}}, r, "exit 0")
	c.spec.Digest, c.spec.Version = "0123456789abcdef", "v9"
	_, err := c.Slot(0).Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: ids[0]}, Purpose: bisect.Searching})
	var refused *executor.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "the search kbisect v9 (0123456789ab)") {
		t.Errorf("%v", err)
	}
}

// TestCancelled: a block that is not wanted any more leaves no job behind, and can be asked for again.
func TestCancelled(t *testing.T) {
	t.Parallel()
	r, ids := history(t, "1")
	gate := filepath.Join(t.TempDir(), "go")
	c := open(t, &processes{nodes: []string{"a"}}, r, "[ -e "+gate+" ]")
	q := bisect.Request{Candidate: bisect.Candidate{Commit: ids[0]}, Purpose: bisect.Searching}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Slot(0).Sample(ctx, q); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o, err := c.Slot(0).Sample(t.Context(), q); err != nil || o.Class != bisect.OK {
		t.Errorf("%v %+v", err, o)
	}
}

// finishing is an executor whose jobs end well while they are cancelled.
type finishing struct {
	*processes
	gate string // file that jobs wait for
}

func (x finishing) Cancel(_ context.Context, _ string, ids ...string) error {
	if err := os.WriteFile(x.gate, nil, 0o600); err != nil {
		return err
	}
	for _, id := range ids {
		for x.state(id) == executor.Running {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func (x finishing) state(id string) executor.State {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.states[id].State
}

// TestEndedWhenInterrupted: a job that ends just before it would be cancelled is not made again.
func TestEndedWhenInterrupted(t *testing.T) {
	t.Parallel()
	r, ids := history(t, "1")
	gate := filepath.Join(t.TempDir(), "go")
	x := &processes{nodes: []string{"a"}}
	c := open(t, x, r, "while [ ! -e "+gate+" ]; do sleep 0.01; done")
	c.executor = finishing{x, gate}
	q := bisect.Request{Candidate: bisect.Candidate{Commit: ids[0]}, Purpose: bisect.Searching}
	ctx, cancel := context.WithCancel(t.Context())
	c.config.OnPhase = func(a pipeline.Activity) {
		if a.Doing == "running in a job" {
			cancel()
		}
	}
	if _, err := c.Slot(0).Sample(ctx, q); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if o, err := c.Slot(0).Sample(t.Context(), q); err != nil || o.Class != bisect.OK {
		t.Errorf("%v %+v", err, o)
	}
	if len(x.jobs) != 1 {
		t.Errorf("%d jobs", len(x.jobs))
	}
}

// TestSharedFolder: nobody else may have written what jobs run.
func TestSharedFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := openShared(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := openShared(dir); err == nil || !strings.Contains(err.Error(), "written by others") {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(s.dir), os.Symlink(t.TempDir(), s.dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := openShared(dir); err == nil {
		t.Error("a link is followed")
	}
}

// written is an executor whose jobs write their result and nothing else. At a time one runs on each of its nodes.
type written struct {
	processes
	takes time.Duration // a job
	free  int           // nodes
	asked int
	news  map[string]chan struct{}
}

// is sets the state of a job.
func (x *written) is(name string, r executor.Report) {
	x.states[name] = r
	if waiting := x.news[name]; waiting != nil {
		close(waiting)
		delete(x.news, name)
	}
}

// told is one that tells of its jobs.
type told struct{ *written }

func (x told) News(id string) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.news[id] == nil {
		x.news[id] = make(chan struct{})
	}
	return x.news[id]
}

func (x told) Log(context.Context, string) ([]byte, error) { return nil, nil }

func (x *written) Submit(_ context.Context, j executor.Job) (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.jobs = append(x.jobs, j)
	x.states[j.Name] = executor.Report{State: executor.Pending}
	x.schedule()
	return j.Name, nil
}

// schedule starts jobs on nodes that are free.
func (x *written) schedule() {
	for ; x.free > 0 && len(x.jobs) > 0; x.free-- {
		j, node := x.jobs[0], fmt.Sprintf("n%d", x.free)
		x.jobs = x.jobs[1:]
		x.is(j.Name, executor.Report{State: executor.Running, Node: node})
		time.AfterFunc(x.takes, func() {
			if err := writeJSON(filepath.Join(filepath.Dir(j.Spec), resultFile), Result{Node: node, Outcome: bisect.Outcome{Class: bisect.OK}}); err != nil {
				panic(err)
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			x.is(j.Name, executor.Report{State: executor.Done, Node: node})
			x.free++
			x.schedule()
		})
	}
}

func (x *written) States(ctx context.Context, ids []string) (map[string]executor.Report, error) {
	x.mu.Lock()
	x.asked++
	x.mu.Unlock()
	return x.processes.States(ctx, ids)
}

// TestThousandBlocks on 64 nodes ask the scheduler as often as one would, and take little memory and processor time. Time
// is simulated, as if each took a minute.
func TestThousandBlocks(t *testing.T) {
	r, ids := history(t, "1")
	x := &written{processes: processes{states: map[string]executor.Report{}}, free: 64, takes: time.Minute}
	c := open(t, &x.processes, r, "exit 0")
	c.executor = x
	synctest.Test(t, func(t *testing.T) {
		began, before := time.Now(), processorTime(t)
		var all sync.WaitGroup
		for n := range 1000 {
			all.Go(func() {
				if _, err := c.Slot(n).Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: ids[0]}, Purpose: bisect.Searching, Nth: n}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		wall, used := time.Since(began), processorTime(t)-before
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.Sys > 300<<20 {
			t.Errorf("%d MB of memory", m.Sys>>20)
		}
		if most := int(wall/time.Second) + 1; x.asked > most {
			t.Errorf("the scheduler was asked %d times, want at most %d", x.asked, most)
		}
		if used > wall/100 && !detector() {
			t.Errorf("%s of processor time in %s", used, wall)
		}
		t.Logf("%d MB, asked %d times in %s, %s of processor time", m.Sys>>20, x.asked, wall, used)
	})
}

// TestResultIsTakenAtOnce: that of a job which began after the scheduler was asked last, and of one that is watched.
func TestResultIsTakenAtOnce(t *testing.T) {
	for name, takes := range map[string]time.Duration{"asked": 100 * time.Millisecond, "watched": time.Hour} {
		t.Run(name, func(t *testing.T) {
			r, ids := history(t, "1")
			x := &written{processes: processes{states: map[string]executor.Report{}}, takes: takes, news: map[string]chan struct{}{}}
			c := open(t, &x.processes, r, "exit 0")
			if c.executor = x; name == "watched" {
				c.executor = told{x}
				c.config.Settings.Stream = true
			}
			synctest.Test(t, func(t *testing.T) {
				time.AfterFunc(takes, func() {
					x.mu.Lock()
					defer x.mu.Unlock()
					x.free++
					x.schedule()
				})
				began := time.Now()
				if _, err := c.Slot(0).Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: ids[0]}, Purpose: bisect.Searching}); err != nil {
					t.Fatal(err)
				}
				if late := time.Since(began) - 2*takes; late > 50*time.Millisecond {
					t.Errorf("taken %s late", late)
				}
			})
		})
	}
}

// TestQueueIsNotCharged: while all jobs wait, the budget is not used up; while one runs, it is.
func TestQueueIsNotCharged(t *testing.T) {
	r, ids := history(t, "1")
	x := &written{processes: processes{states: map[string]executor.Report{}}, takes: 20 * time.Minute}
	c := open(t, &x.processes, r, "exit 0")
	c.executor = x
	synctest.Test(t, func(t *testing.T) {
		c.Until(time.Now().Add(30 * time.Minute))
		time.AfterFunc(2*time.Hour, func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.free++
			x.schedule()
		})
		ask := func(nth int) error {
			_, err := c.Slot(0).Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: ids[0]}, Purpose: bisect.Searching, Nth: nth})
			return err
		}
		if err := ask(0); err != nil {
			t.Errorf("after %s in the queue: %v", c.Waited(), err)
		}
		if w := c.Waited(); w < 119*time.Minute || w > 2*time.Hour {
			t.Errorf("waited %s", w)
		}
		if err := ask(1); !errors.Is(err, bisect.ErrSpent) {
			t.Errorf("beyond the budget: %v", err)
		}
		time.Sleep(time.Hour) // the job that nobody waits for ends
	})
}

// detector reports the race detector, which takes most of the time itself.
func detector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestFiles: another machine sees a file whole or not at all, and what is not a result is an error.
func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", resultFile)
	var r Result
	if ok, err := readJSON(path, &r); ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	want := Result{Node: "n1", Outcome: bisect.Outcome{Class: bisect.OK}}
	if err := writeJSON(path, want); err != nil {
		t.Fatal(err)
	}
	if ok, err := readJSON(path, &r); !ok || err != nil || r.Node != "n1" || r.Outcome.Class != bisect.OK {
		t.Errorf("%v %v %+v", ok, err, r)
	}
	if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 1 {
		t.Errorf("left: %v", names)
	}
	if err := write(path, 0o600, bytes.NewReader([]byte("{"))); err != nil {
		t.Fatal(err)
	}
	if _, err := readJSON(path, &r); err == nil {
		t.Error("half a result is taken")
	}
}

// strange are things that a candidate may put where its job writes a file.
func strange() map[string]func(path string) error {
	return map[string]func(string) error{
		"a pipe":      func(p string) error { return unix.Mkfifo(p, 0o666) },
		"a folder":    func(p string) error { return os.Mkdir(p, 0o777) },
		"a device":    func(p string) error { return os.Symlink("/dev/zero", p) },
		"a huge file": func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o666), os.Truncate(p, 1<<40)) },
	}
}

// TestStrangeResults: whatever lies in the place of a result is named as the machine's fault, at once and in little memory;
// what lies in the place of an output says nothing.
func TestStrangeResults(t *testing.T) {
	r, ids := history(t, "1")
	for name, put := range strange() {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " streamed ", stream), func(t *testing.T) {
				x := &processes{ends: []executor.State{executor.Done}, nodes: []string{"a"}}
				c := open(t, x, r, "exit 0")
				if c.grace = time.Second; stream {
					c.config.Settings.Stream = true
				}
				c.executor = &leaving{x, stream, put}
				before := allocated()
				_, err := c.Slot(0).Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: ids[0]}, Purpose: bisect.Searching})
				var infra *bisect.InfraError
				if !errors.As(err, &infra) || !strings.Contains(err.Error(), "not a file that kbisect wrote") {
					t.Errorf("%v", err)
				}
				if took := allocated() - before; took > 16<<20 {
					t.Errorf("%d MB of memory", took>>20)
				}
			})
		}
		t.Run(name+" as output", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "output")
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			if said := tail(path); strings.Trim(said, "\x00") != "" {
				t.Errorf("%q", said)
			}
			if kept, err := keepLog(path, t.TempDir()); err == nil && name != "a huge file" {
				t.Errorf("%s is kept", kept)
			}
		})
	}
}

// allocated is how much memory this process has asked for so far, whether or not it was collected since: what it holds at
// an instant depends on when the collector ran, and on the tests before.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// leaving is an executor whose jobs leave something where their result should be, or their output where that holds it.
type leaving struct {
	*processes
	stream bool
	put    func(path string) error
}

func (x *leaving) Submit(ctx context.Context, j executor.Job) (string, error) {
	at := filepath.Join(filepath.Dir(j.Spec), resultFile)
	if x.stream {
		at = j.Output
	}
	if err := x.put(at); err != nil {
		return "", err
	}
	return x.processes.Submit(ctx, j)
}
