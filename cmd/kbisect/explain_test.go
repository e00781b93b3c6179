package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
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

// profiled explains HEAD^ against HEAD as on a machine with a device, whose ncu behaves as told.
func profiled(t *testing.T, r *repo, mode string, args ...string) (report.Explanation, string) {
	t.Helper()
	tools, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	if err := os.WriteFile(filepath.Join(tools, "ncu"), []byte(fakeNcu), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, v := range append(testEnv(r.home), "PATH="+tools+":"+os.Getenv("PATH"), "CUDA_HOME=/nowhere", "NCU_MODE="+mode, "NCU_CALLS="+calls) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	var doc report.Explanation
	var stderr bytes.Buffer
	app := newApp(strings.NewReader(""), &bytes.Buffer{}, &stderr)
	app.Command("explain").Action = func(c *cli.Context) error {
		words, command, err := operands(c)
		if err != nil {
			return err
		}
		repo, err := source.Open(r.dir)
		if err != nil {
			return err
		}
		defer repo.Close()
		asked, p, err := session.ReadPair(c.Context, trialRequest(c, command), repo, words, explain.ReadExplain)
		if err != nil {
			return err
		}
		tr, err := session.Begin(envOf(c, command), repo, p, explain.Kind)
		if err != nil {
			return err
		}
		defer tr.Close()
		if err := tr.Start(c.Context); err != nil {
			return err
		}
		defer tr.Pipe.Close()
		x := explain.ExplainerOf(tr, asked.Sides)
		x.Device = true
		if err := x.See(c.Context, c.Int("launches")); err != nil {
			return err
		}
		doc = x.Document(words, "", nil)
		return nil
	}
	args = append([]string{"kbisect", "-C", r.dir, "--quiet", "explain", "HEAD^", "HEAD", "--launches", "1"}, args...)
	if err := app.RunContext(t.Context(), permute(app, args)); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	made, _ := os.ReadFile(calls) // none where ncu was not called
	return doc, string(made)
}

// two is a repository with two commits of a program.
func two(t *testing.T, a, b string) *repo {
	r := newRepo(t)
	r.write("bench.sh", "#!/bin/sh\n"+a)
	r.commit("the base")
	r.write("bench.sh", "#!/bin/sh\n"+b)
	r.commit("wider")
	return r
}

const speaks = "echo \"phase: measure\nsample: 30 us\" >&$KBISECT_FD\n"

func TestExplainWithNcu(t *testing.T) {
	doc, calls := profiled(t, two(t, speaks, speaks+"# wider\n"), "allowed", "--", "./bench.sh")
	if strings.Count(calls, "\n") != 2 || doc.Result != explain.Explained {
		t.Errorf("%s: %q", doc.Result, calls)
	}
	get := func(name string) report.Row {
		i := slices.IndexFunc(doc.Rows, func(r report.Row) bool { return r.Name == name })
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
	if len(doc.Moved) != 3 || doc.Moved[0].Sort != report.SortTime || doc.Moved[1].Sort != report.SortRegisters && doc.Moved[1].Sort != report.SortOccupancy {
		t.Errorf("%s", doc.Summary)
	}
}

func near(a, b report.Number) bool { return a-b < 1e-9 && b-a < 1e-9 }

// TestExplainDegrades takes away what there is, step by step: each time there is a sentence why.
func TestExplainDegrades(t *testing.T) {
	r := two(t, speaks, speaks+"# wider\n")
	for mode, want := range map[string]struct {
		calls int
		why   string
		full  bool
	}{
		"denied": {1, "ERR_NVGPUCTRPERM", false},
		"older":  {3, "all metrics: ncu: Failed to find metric smsp__", true}, // A fails once; B asks for no more than A had
		"hangs":  {1, "did not end under it within", false},
	} {
		t.Run(mode, func(t *testing.T) {
			doc, calls := profiled(t, r, mode, "--limit", "20s", "--explain-limit", map[string]string{"hangs": "1500ms"}[mode]+map[bool]string{true: "5m"}[mode != "hangs"], "--", "./bench.sh")
			if n := strings.Count(calls, "\n"); n > want.calls || n == 0 {
				t.Errorf("%d calls: %s", n, calls)
			}
			if !slices.ContainsFunc(doc.Missing, func(m string) bool { return strings.Contains(m, want.why) }) {
				t.Errorf("%q", doc.Missing)
			}
			full := slices.ContainsFunc(doc.Rows, func(r report.Row) bool { return r.Name == "occupancy, theoretical" })
			if full != want.full || len(doc.Rows) == 0 {
				t.Errorf("%+v", doc.Rows)
			}
		})
	}
}

// TestExplainWithoutDevice is what everybody can see: phases, and how a launch ends that does not end well.
func TestExplainWithoutDevice(t *testing.T) {
	t.Parallel()
	r := two(t, speaks, "echo \"phase: warmup\" >&$KBISECT_FD; echo 'no such kernel'; exit 3\n")
	out, errs, code := r.kbisect("explain", "HEAD^", "HEAD", "--json", "--", "./bench.sh")
	var doc report.Explanation
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || doc.Result != explain.Partly {
		t.Fatalf("%d %v %s\n%s\n%s", code, err, doc.Result, out, errs)
	}
	if i := slices.IndexFunc(doc.Rows, func(r report.Row) bool { return r.Name == "a launch ends" }); i < 0 || !strings.Contains(doc.Rows[i].TextB, "exit 3") {
		t.Errorf("%+v", doc.Rows)
	}
	if doc.Totals.Trials != 4 { // A three times, B once
		t.Errorf("%d trials", doc.Totals.Trials)
	}
	shown, _, _ := r.kbisect("show")
	list, _, _ := r.kbisect("sessions")
	if !strings.Contains(shown, "A ") || !strings.Contains(list, "explain  partly") {
		t.Errorf("%s\n%s", shown, list)
	}
	for _, wrong := range [][]string{{"explain"}, {"explain", "HEAD"}, {"explain", "HEAD", "nowhere"}, {"explain", "HEAD", "HEAD", "--launches", "0"}} {
		if _, errs, code := r.kbisect(append(wrong, "--", "./bench.sh")...); code != exit.UsageError {
			t.Errorf("%q: %d %s", wrong, code, errs)
		}
	}
}

// TestExplainBuilds shows a build that does not end: its time, and what it said.
func TestExplainBuilds(t *testing.T) {
	t.Parallel()
	r := two(t, "true", "echo template instantiation depth; sleep 100")
	r.write("kbisect.toml", "version = 1\n[build]\ncommand = [\"./bench.sh\"]\nlimit = \"1s\"\n[run]\ncommand = [\"true\"]\n")
	out, errs, code := r.kbisect("explain", "HEAD^", "HEAD", "--launches", "1")
	for _, want := range []string{"build of B  the build did not end within 1s, after 1", "  template instantiation depth"} {
		if !strings.Contains(out, want) || code != 0 {
			t.Errorf("%d: no %q in\n%s\n%s", code, want, out, errs)
		}
	}
}

// TestExplainStatic compiles two versions of a kernel: the second keeps more values than there are registers
// for.
func TestExplainStatic(t *testing.T) {
	for _, tool := range []string{"nvcc", "cuobjdump"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED: no %s on PATH, so that nothing is compiled for a device", tool)
		}
	}
	r := newRepo(t)
	r.write("bench.cu", `#include "tile.h"
template <int N> __global__ void __launch_bounds__(256, BLOCKS) poly(const float *x, float *y, int n) {
	float v[N];
	int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
	for (int k = 0; k < N; k++) v[k] = x[(i + k * 131) % n];
	for (int r = 0; r < 32; r++)
#pragma unroll
		for (int k = 0; k < N; k++) v[k] = v[k] * v[(k + 7) % N] + 0.5f;
	float s = 0;
#pragma unroll
	for (int k = 0; k < N; k++) s += v[k];
	y[i] = s;
}
template __global__ void poly<VALUES>(const float *, float *, int);
#ifdef EXTRA
__global__ void clear(float *y) { y[threadIdx.x] = 0; }
#endif
int main() { return 0; }
`)
	r.write("tile.h", "#define VALUES 16\n#define BLOCKS 2\n")
	r.commit("the base")
	r.write("tile.h", "#define VALUES 64\n#define BLOCKS 6\n#define EXTRA\n")
	r.commit("wider")
	out, errs, code := r.kbisect("explain", "HEAD^", "HEAD", "--launches", "1", "--build", "nvcc -allow-unsupported-compiler -O2 -arch=sm_80 -o bench bench.cu", "--output", "bench", "--json", "--", "./bench")
	var doc report.Explanation
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("%d %v\n%s\n%s", code, err, out, errs)
	}
	spills := slices.IndexFunc(doc.Rows, func(r report.Row) bool { return r.Name == "spill stores" && r.Kernel == "poly" })
	if spills < 0 || doc.Rows[spills].A != 0 || doc.Rows[spills].B < 100 {
		t.Fatalf("%s", out)
	}
	if len(doc.Added) != 1 || !strings.HasPrefix(doc.Added[0], "clear") || len(doc.Gone) != 0 {
		t.Errorf("added %q, gone %q", doc.Added, doc.Gone)
	}
	if !slices.ContainsFunc(doc.Moved, func(r report.Row) bool { return r.Sort == report.SortSpills }) {
		t.Error(doc.Summary)
	}
	if r := doc.Rows[slices.IndexFunc(doc.Rows, func(r report.Row) bool { return r.Name == "local memory (spills) instructions" })]; r.A != 0 || r.B < 50 {
		t.Errorf("%+v", r)
	}
}

// TestExplainSpills reads what the compiler said, also when the build cache holds what it made.
func TestExplainSpills(t *testing.T) {
	t.Parallel()
	compiler := func(spills int) string {
		return fmt.Sprintf(`echo "ptxas info    : Compiling entry function '_Z4gemmPKfPf' for 'sm_90'"
echo "    0 bytes stack frame, %d bytes spill stores, %d bytes spill loads"
echo "ptxas info    : Used 168 registers, 1024 bytes smem, 528 bytes cmem[0]"
case "$NVCC_APPEND_FLAGS" in *-Xptxas=-v*) echo >made ;; esac
`, spills, spills)
	}
	r := two(t, compiler(0), compiler(64))
	for range 2 {
		out, errs, code := r.kbisect("explain", "HEAD^", "HEAD", "--launches", "1", "--build", "./bench.sh", "--output", "made", "--", "test", "-f", "made")
		if code != 0 || !strings.Contains(out, "spill stores of gemm") || !strings.Contains(out, "0 B to 64 B") {
			t.Errorf("%d %s\n%s", code, out, errs)
		}
	}
}

// TestExplainCulprit explains by what a search has seen, without a launch more.
func TestExplainCulprit(t *testing.T) {
	r := two(t, speaks, speaks+"# wider\n")
	for _, v := range testEnv(r.home) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	app := newApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	app.Command("measure").Action = func(c *cli.Context) error {
		repo, err := source.Open(r.dir)
		if err != nil {
			return err
		}
		defer repo.Close()
		tr, err := session.BeginOne(c.Context, envOf(c, []string{"./bench.sh"}), repo, "HEAD", policy.AxisHistory)
		if err != nil {
			return err
		}
		defer tr.Close()
		defer tr.Pipe.Close()
		parent, culprit := r.git("rev-parse", "HEAD^"), r.git("rev-parse", "HEAD")
		for i, commit := range []string{parent, culprit, parent, culprit} {
			purpose := []bisect.Purpose{bisect.ConfirmParent, bisect.ConfirmCulprit}[i%2]
			if _, err := tr.Memory.Sample(c.Context, bisect.Request{Candidate: bisect.Candidate{Commit: commit}, Purpose: purpose, Nth: i / 2, Timing: true}); err != nil {
				return err
			}
		}
		before := len(tr.Launches)
		doc, err := explain.ExplainCulprit(c.Context, tr, parent, culprit, nil)
		if err != nil || doc == nil || len(tr.Launches) != before {
			return fmt.Errorf("%v, %+v, %d launches more", err, doc, len(tr.Launches)-before)
		}
		if doc.A.Launches != 2 || doc.B.Commit != culprit || len(doc.Rows) == 0 || doc.Result != explain.Explained {
			return fmt.Errorf("%+v", doc)
		}
		tr.Policy.NoExplain = true
		if doc, err := explain.ExplainCulprit(c.Context, tr, parent, culprit, nil); doc != nil || err != nil {
			return fmt.Errorf("not asked for: %+v %v", doc, err)
		}
		return nil
	}
	if err := app.RunContext(t.Context(), []string{"kbisect", "-C", r.dir, "--quiet", "measure"}); err != nil {
		t.Error(err)
	}
}

// TestExplainPython profiles a Python program twice: by torch.profiler, of a torch that is none, and
// then the kernels that it saw by ncu.
func TestExplainPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no Python")
	}
	trace, err := os.ReadFile("../../kernels/cuda/testdata/profile/trace.json")
	if err != nil {
		t.Fatal(err)
	}
	r := newRepo(t)
	r.write("torch/__init__.py", "class cuda:\n    def is_available(): return True\n    def is_initialized(): return False\n")
	r.write("torch/profiler.py", `
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
	r.write("torch/trace.json", string(trace))
	r.write("main.py", "import torch\n")
	r.commit("the base")
	r.write("torch/trace.json", strings.ReplaceAll(string(trace), "cudaGraphLaunch", "cudaLaunchKernel"))
	r.write("main.py", "import torch, sys\nsys.stderr.write('[0/1] [__recompiles] Recompiling function f in a.py:1\\n')\n")
	r.commit("no graphs")
	doc, calls := profiled(t, r, "allowed", "--", "python3", "main.py")
	i := slices.IndexFunc(doc.Rows, func(r report.Row) bool { return r.Name == "graph launches" })
	if i < 0 || doc.Rows[i].A != 2 || doc.Rows[i].B != 0 || !strings.Contains(doc.Summary, "recompilations by torch 0 to 1") {
		t.Errorf("%s\n%+v %q", doc.Summary, doc.Rows, doc.Missing)
	}
	if len(doc.Profilers) != 2 || strings.Count(calls, "\n") != 2 {
		t.Errorf("%q %q", doc.Profilers, calls)
	}
}
