package explain

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/figures"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/fixtures/realpython"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// fakeNcu answers as Nsight Compute does. What is different from A to B goes by the purpose of the launch.
const fakeNcu = `#!/bin/sh
if [ "$1" = --version ]; then
	echo 'NVIDIA (R) Nsight Compute Command Line Profiler'
	echo "Version ${NCU_VERSION:-2025.3.1.0} (build 36398880) (public-release)"
	exit 0
fi
while [ $# -gt 0 ]; do
	case $1 in
	--csv) shift ;;
	--log-file) log=$2; shift 2 ;;
	--metrics) metrics=$2; shift 2 ;;
	--*) shift 2 ;;
	*) break ;;
	esac
done
echo "$NCU_MODE $metrics" >>"$NCU_CALLS"
echo '==PROF== Connected to process 42' >"$log"
case $NCU_MODE in
denied)
	"$@"
	echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.' >>"$log"
	exit 1 ;;
older) case $metrics in *stalled*) echo '==ERROR== Failed to find metric smsp__average_warps_issue_stalled_sleeping' >>"$log"; exit 1 ;; esac ;;
hangs) sleep 100 ;;
esac
"$@" || exit
occupancy=100 registers=32 limit=16 us=12
if [ "$KBISECT_PURPOSE" = end-bad ]; then occupancy=25 registers=128 limit=4 us=31; fi
cat >>"$log" <<END
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","gpu__time_duration.sum","launch__registers_per_thread","launch__occupancy_limit_registers","launch__occupancy_limit_warps","launch__shared_mem_per_block_static","launch__shared_mem_per_block_dynamic","sm__maximum_warps_per_active_cycle_pct","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","dram__bytes_read.sum"
"","","","","","","","","","","","ns","register/thread","block","block","byte/block","byte/block","%","%","byte"
"0","42","bench","127.0.0.1","_Z4gemmPKfPf","1","7","(128, 1, 1)","(64, 64, 1)","0","9.0","${us}000","$registers","$limit","16","1,024","0","$occupancy","57.25","1,048,576"
"1","42","bench","127.0.0.1","_Z4gemmPKfPf","1","7","(128, 1, 1)","(64, 64, 1)","0","9.0","${us}000","$registers","$limit","16","1,024","0","$occupancy","57.75","1,048,576"
END
`

func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	realpython.Use()
	os.Exit(m.Run())
}

// setenv sets variables for programs, of which the home is that of a user without settings or caches.
func setenv(t *testing.T, vars ...string) {
	t.Helper()
	home := t.TempDir()
	for _, v := range append(vars, "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache")) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

// twoCommits is a repository with two commits of a program.
func twoCommits(t *testing.T, a, b string) *gittest.Repo {
	t.Helper()
	r := gittest.New(t)
	r.Write(t, "bench.sh", a)
	r.Commit(t, "the base")
	r.Write(t, "bench.sh", b)
	r.Commit(t, "wider")
	return r
}

const speaks = "echo \"phase: measure\nsample: 30 us\" >&$KBISECT_FD\n"

// envFor is what the command line brings along for a repository.
func envFor(r *gittest.Repo, command ...string) session.Env {
	return session.Env{
		Request: &policy.Request{Name: Kind, Dir: r.Dir, Quiet: true, Argv: command, Launches: 1, Profile: true},
		Display: progress.New(io.Discard, true, false),
	}
}

// profiled explains HEAD^ against HEAD as on a machine with a device, with an ncu that behaves as mode says. It
// returns the calls of ncu, one a line.
func profiled(t *testing.T, e session.Env, mode string) (doc report.Explanation, calls string) {
	t.Helper()
	tools, log := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	if err := os.WriteFile(filepath.Join(tools, "ncu"), []byte(fakeNcu), 0o777); err != nil {
		t.Fatal(err)
	}
	setenv(t, "PATH="+tools+":"+os.Getenv("PATH"), "CUDA_HOME=/nowhere", "NCU_MODE="+mode, "NCU_CALLS="+log)
	repo, err := source.Open(e.Request.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	revisions := []string{"HEAD^", "HEAD"}
	pair, p, err := session.ReadPair(t.Context(), e.Request, repo, revisions, readRequest)
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Begin(t.Context(), e, repo, p, Kind)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.Pipe.Close()
	x := explainerOf(s, pair.Sides)
	x.device = true
	if err := cmp.Or(x.launch(t.Context(), e.Request.Launches), x.look(t.Context())); err != nil {
		t.Fatal(err)
	}
	made, _ := os.ReadFile(log) // none where ncu was not called
	return x.document(revisions[0], revisions[1]), string(made)
}

// A side that was not profiled says why, and says it of the commit: a search has no side A.
func TestWhyThereIsNoProfile(t *testing.T) {
	crash := bisect.Outcome{Class: bisect.Crash, Wall: 0.3}
	for _, c := range []struct {
		device   bool
		outcomes []bisect.Outcome
		want     string
	}{
		{false, nil, "the session has no device"},
		{true, nil, "profile of 1234567890: it was only built"},
		{true, []bisect.Outcome{{Class: bisect.OK}}, "profile of 1234567890: it was only built"},
		{true, []bisect.Outcome{crash}, "profile of 1234567890: no launch passed"},
	} {
		x := &explainer{profiles: true, device: c.device}
		s := &examined{candidate: bisect.Candidate{Commit: "1234567890abcdef"}, outcomes: c.outcomes, usage: []cuda.Usage{{Kernel: "gemm"}}}
		if err := x.profile(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
		if len(x.missing) != 1 || !strings.HasSuffix(x.missing[0], c.want) {
			t.Errorf("%q, want %q", x.missing, c.want)
		}
	}
}

func TestExplainWithNcu(t *testing.T) {
	doc, calls := profiled(t, envFor(twoCommits(t, speaks, speaks+"# wider\n"), "sh", "bench.sh"), "allowed")
	if strings.Count(calls, "\n") != 2 || doc.Result != explained {
		t.Errorf("%s: %q", doc.Result, calls)
	}
	get := func(name string) figures.Row {
		i := slices.IndexFunc(doc.Rows, func(r figures.Row) bool { return r.Name == name })
		if i < 0 {
			t.Fatalf("no row %s", name)
		}
		return doc.Rows[i]
	}
	for name, want := range map[string][2]report.Number{
		"registers per thread": {32, 128}, "occupancy, theoretical": {100, 25}, "static shared memory": {1024, 1024},
		"tensor pipe": {57.5, 57.5}, "DRAM read": {1 << 20, 1 << 20}, "time of a launch, caches flushed": {12e-6, 31e-6},
	} {
		if r := get(name); !near(r.A, want[0]) || !near(r.B, want[1]) || !strings.Contains(r.Kernel, "gemm") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := get("limited by"); r.TextA != "warps" || r.TextB != "registers" {
		t.Errorf("%+v", r)
	}
	if r := get("grid"); r.TextA != "64 x 64 x 1" {
		t.Errorf("%+v", r)
	}
	if len(doc.Profilers) != 1 || !strings.Contains(doc.Profilers[0], "2025.3.1.0") {
		t.Errorf("%q", doc.Profilers)
	}
	// On a busy machine the load may be what changed most.
	if len(doc.Moved) != 3 || doc.Moved[0].Sort != figures.SortTime && doc.Moved[0].Name != "load" || doc.Moved[1].Sort != figures.SortRegisters && doc.Moved[1].Sort != figures.SortOccupancy {
		t.Errorf("%s", doc.Summary)
	}
}

func near(a, b report.Number) bool { return a-b < 1e-9 && b-a < 1e-9 }

// TestExplainDegrades takes away what there is, step by step: each time there is a sentence why.
func TestExplainDegrades(t *testing.T) {
	r := twoCommits(t, speaks, speaks+"# wider\n")
	for mode, want := range map[string]struct {
		limit time.Duration // of all launches under ncu
		calls int
		why   string
		full  bool
	}{
		"denied": {5 * time.Minute, 1, "ERR_NVGPUCTRPERM", false},
		"older":  {5 * time.Minute, 3, "all metrics: ncu: Failed to find metric smsp__", true}, // A fails once; B asks for no more than A had
		"hangs":  {1500 * time.Millisecond, 1, "did not end within", false},
	} {
		t.Run(mode, func(t *testing.T) {
			e := envFor(r, "sh", "bench.sh")
			e.Request.Limit, e.Request.ExplainLimit = 20*time.Second, want.limit
			doc, calls := profiled(t, e, mode)
			if n := strings.Count(calls, "\n"); n > want.calls || n == 0 {
				t.Errorf("%d calls: %s", n, calls)
			}
			if !slices.ContainsFunc(doc.Missing, func(m string) bool { return strings.Contains(m, want.why) }) {
				t.Errorf("%q", doc.Missing)
			}
			full := slices.ContainsFunc(doc.Rows, func(r figures.Row) bool { return r.Name == "occupancy, theoretical" })
			if full != want.full || len(doc.Rows) == 0 {
				t.Errorf("%+v", doc.Rows)
			}
		})
	}
}

// TestExplainCulprit explains by what a search has seen, without a launch more.
func TestExplainCulprit(t *testing.T) {
	r := twoCommits(t, speaks, speaks+"# wider\n")
	setenv(t)
	repo, err := source.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	e := envFor(r, "sh", "bench.sh")
	p, _, err := session.ReadOne(t.Context(), e.Request, repo, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Begin(t.Context(), e, repo, p, policy.AxisHistory)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.Pipe.Close()
	parent, culprit := r.Git(t, "rev-parse", "HEAD^"), r.Git(t, "rev-parse", "HEAD")
	for i, commit := range []string{parent, culprit, parent, culprit} {
		purpose := []bisect.Purpose{bisect.ConfirmParent, bisect.ConfirmCulprit}[i%2]
		if _, err := s.Memory.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: commit}, Purpose: purpose, Nth: i / 2, Timing: true}); err != nil {
			t.Fatal(err)
		}
	}
	before := len(s.Launches)
	doc, err := Culprit(t.Context(), s, parent, culprit, nil)
	if err != nil || doc == nil || len(s.Launches) != before {
		t.Fatalf("%v, %+v, %d launches more", err, doc, len(s.Launches)-before)
	}
	if doc.A.Launches != 2 || doc.B.Commit != culprit || len(doc.Rows) == 0 || doc.Result != explained {
		t.Errorf("%+v", doc)
	}
	s.Policy.NoExplain = true
	if doc, err := Culprit(t.Context(), s, parent, culprit, nil); doc != nil || err != nil {
		t.Errorf("not asked for: %+v %v", doc, err)
	}
}

// TestExplainPython profiles a Python program twice: by torch.profiler, of a torch that is none, and
// then the kernels that it saw by ncu.
func TestExplainPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no Python")
	}
	trace, err := os.ReadFile("../../../../kernels/cuda/testdata/profile/trace.json")
	if err != nil {
		t.Fatal(err)
	}
	r := gittest.New(t)
	r.Write(t, "torch/__init__.py", "class cuda:\n    def is_available(): return True\n    def is_initialized(): return False\n")
	r.Write(t, "torch/profiler.py", `
import os
class ProfilerActivity:
    CUDA = 1
class profile:
    def __init__(self, activities): pass
    def __enter__(self): return self
    def __exit__(self, *a): pass
    def export_chrome_trace(self, name):
        with open(name, "w") as f: f.write(open(os.path.join(os.path.dirname(__file__), "trace.json")).read())
`)
	r.Write(t, "torch/trace.json", string(trace))
	r.Write(t, "main.py", "import torch\n")
	r.Commit(t, "the base")
	r.Write(t, "torch/trace.json", strings.ReplaceAll(string(trace), "cudaGraphLaunch", "cudaLaunchKernel"))
	r.Write(t, "main.py", "import torch, sys\nsys.stderr.write('[0/1] [__recompiles] Recompiling function f in a.py:1\\n')\n")
	r.Commit(t, "no graphs")
	doc, calls := profiled(t, envFor(r, "python3", "main.py"), "allowed")
	i := slices.IndexFunc(doc.Rows, func(r figures.Row) bool { return r.Name == "graph launches" })
	if i < 0 || doc.Rows[i].A != 2 || doc.Rows[i].B != 0 || !strings.Contains(doc.Summary, "recompilations by torch 0 to 1") {
		t.Errorf("%s\n%+v %q", doc.Summary, doc.Rows, doc.Missing)
	}
	if len(doc.Profilers) != 2 || strings.Count(calls, "\n") != 2 {
		t.Errorf("%q %q", doc.Profilers, calls)
	}
}
