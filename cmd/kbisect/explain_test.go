package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/figures"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

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

// TestExplainWithoutDevice is what everybody can see: phases, and how a launch ends that does not end well.
func TestExplainWithoutDevice(t *testing.T) {
	t.Parallel()
	r := two(t, speaks, "echo \"phase: warmup\" >&$KBISECT_FD; echo 'no such kernel'; exit 3\n")
	out, errs, code := r.kbisect("explain", "HEAD^", "HEAD", "--json", "--", "./bench.sh")
	var doc report.Explanation
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || doc.Result != "partly" {
		t.Fatalf("%d %v %s\n%s\n%s", code, err, doc.Result, out, errs)
	}
	if i := slices.IndexFunc(doc.Rows, func(r figures.Row) bool { return r.Name == "a launch ends" }); i < 0 || !strings.Contains(doc.Rows[i].TextB, "exit 3") {
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
	spills := slices.IndexFunc(doc.Rows, func(r figures.Row) bool { return r.Name == "spill stores" && r.Kernel == "poly" })
	if spills < 0 || doc.Rows[spills].A != 0 || doc.Rows[spills].B < 100 {
		t.Fatalf("%s", out)
	}
	if len(doc.Added) != 1 || !strings.HasPrefix(doc.Added[0], "clear") || len(doc.Gone) != 0 {
		t.Errorf("added %q, gone %q", doc.Added, doc.Gone)
	}
	if !slices.ContainsFunc(doc.Moved, func(r figures.Row) bool { return r.Sort == figures.SortSpills }) {
		t.Error(doc.Summary)
	}
	if r := doc.Rows[slices.IndexFunc(doc.Rows, func(r figures.Row) bool { return r.Name == "local memory (spills) instructions" })]; r.A != 0 || r.B < 50 {
		t.Errorf("%+v", r)
	}
}

// The budget ends what looks at the builds too, and what was seen until then is told.
func TestExplainWithinBudget(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for _, tool := range []string{"cuobjdump", "nvdisasm"} {
		gittest.WriteFiles(t, r.home, map[string]string{tool: "#!/bin/sh\nexec sleep 100\n"}, 0o777)
	}
	cubin := slices.Concat([]byte("\x7fELF\x02\x01\x01"), make([]byte, 11), []byte{190, 0}, make([]byte, 100))
	r.write("k.cubin", string(cubin))
	r.commit("the base")
	r.write("n", "1")
	r.commit("other")
	cmd := r.command("explain", "HEAD^", "HEAD", "--launches", "1", "--budget", "3s", "--json", "--", "true")
	cmd.Env = append(cmd.Env, "PATH="+r.home+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	var doc report.Explanation
	if no := json.Unmarshal(out, &doc); no != nil || !slices.ContainsFunc(doc.Missing, func(m string) bool { return strings.Contains(m, "the budget is used up") }) {
		t.Errorf("%v %v: %s", err, no, out)
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
