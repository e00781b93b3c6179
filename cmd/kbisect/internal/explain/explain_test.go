package explain

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/figures"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/pipeline/store"
)

// TestExplainTorch reads what torch.profiler saw: kernels that came and went, a lost graph.
func TestExplainTorch(t *testing.T) {
	launched := func(name string, n int, us float64, block int) cuda.Launched {
		return cuda.Launched{Kernel: name, Launches: n, Grid: [3]int{132, 1, 1}, Block: [3]int{block, 1, 1}, Arch: "9.0", Metrics: map[string]cuda.Measured{
			cuda.MetricTime: {Value: us / 1e6, Unit: "s"}, cuda.MetricRegisters: {Value: 32}, cuda.MetricShared: {Value: 0, Unit: "B"},
		}}
	}
	a := &examined{trace: &cuda.Trace{Kernels: []cuda.Launched{launched("triton_fused_0", 10, 20, 256), launched("gemm<128>", 10, 50, 256)}, Captured: 1, Replays: 10}}
	b := &examined{recompiled: 4, trace: &cuda.Trace{Kernels: []cuda.Launched{launched("gemm<64>", 10, 50, 1024), launched("silu(float*)", 10, 15, 256), launched("mul(float*)", 10, 15, 256)}}}
	x := &explainer{session: &session.Session{Policy: &policy.Policy{}}, sides: [2]examined{*a, *b}}
	doc := x.explanation()
	if !slices.Equal(doc.Gone, []string{"triton_fused_0"}) || len(doc.Added) != 2 {
		t.Errorf("gone %q, added %q", doc.Gone, doc.Added)
	}
	row := func(name string) figures.Row {
		i := slices.IndexFunc(doc.Rows, func(r figures.Row) bool { return r.Name == name })
		if i < 0 {
			t.Fatalf("no row %s in %+v", name, doc.Rows)
		}
		return doc.Rows[i]
	}
	for name, want := range map[string][2]report.Number{"graphs captured": {1, 0}, "graph launches": {10, 0}, "recompilations by torch": {0, 4}, "kernels launched": {20, 30}, "different kernels launched": {2, 3}} {
		if r := row(name); r.A != want[0] || r.B != want[1] {
			t.Errorf("%+v", r)
		}
	}
	if r := row("name"); r.Kernel != "gemm" || r.TextA != "gemm<128>" || r.TextB != "gemm<64>" {
		t.Errorf("%+v", r)
	}
	if r := row("occupancy, theoretical"); r.A != 100 || r.B != 100 { // computed
		t.Errorf("%+v", r)
	}
	if !strings.Contains(doc.Summary, "recompilations by torch 0 to 4") || !strings.Contains(doc.Summary, "graph") {
		t.Error(doc.Summary)
	}
}

func TestPairKernels(t *testing.T) {
	named := func(names ...string) (out []*kernelView) {
		for _, n := range names {
			out = append(out, &kernelView{name: n})
		}
		return out
	}
	pairs, gone, added := pairKernels(named("f(int)", "g<1>()", "g<2>()", "h<1>()", "void o<1>(int)"), named("f(int)", "g<3>()", "h<2>()", "i()", "void o<1>(int)", "void o<1>(float)"))
	if !slices.Equal(gone, []string{"g<1>", "g<2>"}) || !slices.Equal(added, []string{"g<3>", "i", "void o<1>(float)"}) {
		t.Errorf("gone %q, added %q", gone, added)
	}
	both := 0
	for _, p := range pairs {
		if p.a != nowhere && p.b != nowhere {
			both++
		}
	}
	if both != 3 || len(pairs) != 8 {
		t.Errorf("%d pairs, %d of both", len(pairs), both)
	}
}

func TestArchitectures(t *testing.T) {
	s := &examined{usage: []cuda.Usage{{Arch: "sm_80"}, {Arch: "sm_90a"}, {Arch: "sm_120"}}}
	for device, want := range map[string]string{"9.0": "sm_90a", "8.9": "sm_80", "12.0": "sm_120", "": "sm_120", "10.0": "sm_90a"} {
		if got := s.arch(device); got != want {
			t.Errorf("device %s: %s, want %s", device, got, want)
		}
	}
	for arch, want := range map[string]string{"sm_90a": "9.0", "sm_120": "12.0", "sm_8": "", "": "", "sm_75": "7.5"} {
		if got := capabilityOf(arch); got != want {
			t.Errorf("%s: %s, want %s", arch, got, want)
		}
	}
}

// TestExplainPatience keeps launches under profilers within what there is.
func TestExplainPatience(t *testing.T) {
	j := &session.Session{Policy: &policy.Policy{}, Record: &store.Session{}, Began: time.Now()}
	j.Policy.Limits.Run = time.Minute
	x := newExplainer(j, time.Hour)
	if got := x.patience(); got != 5*time.Minute {
		t.Error(got)
	}
	j.Policy.Limits.Run = time.Hour
	if got := x.patience(); got != profiledMost {
		t.Error(got)
	}
	j.Policy.ExplainLimit = 2 * time.Minute
	if got := newExplainer(j, time.Hour).patience(); got > 2*time.Minute || got < time.Minute {
		t.Error(got)
	}
	j.Policy.Budget = 500 * time.Millisecond
	if got := x.patience(); got != 0 {
		t.Error(got)
	}
}

// What a profiler says of one side is not set against what was compiled of the other.
func TestFiguresOfOneSource(t *testing.T) {
	seen := &kernelView{usage: &cuda.Usage{Registers: 12, Shared: 1024}, ncu: []cuda.Launched{{Metrics: map[string]cuda.Measured{
		cuda.MetricRegisters: {Value: 16}, cuda.MetricStatic: {Value: 0},
	}}}}
	built := &kernelView{usage: &cuda.Usage{Registers: 12, Shared: 1024}}
	for _, c := range []struct {
		pair kernelPair
		a, b float64
	}{{kernelPair{a: seen, b: seen}, 16, 16}, {kernelPair{a: seen, b: built}, 12, 12}, {kernelPair{a: built, b: seen}, 12, 12}} {
		if r := c.pair.sameSource("registers per thread", "", figures.SortRegisters, (*kernelView).registers); float64(r.A) != c.a || float64(r.B) != c.b {
			t.Errorf("registers %v and %v, not %v and %v", r.A, r.B, c.a, c.b)
		}
	}
	if r := (kernelPair{a: seen, b: built}).sameSource("static shared memory", "B", figures.SortShared, (*kernelView).staticShared); r.A != r.B {
		t.Errorf("shared memory %v and %v", r.A, r.B)
	}
	if r := (kernelPair{a: seen, b: nowhere}).sameSource("registers per thread", "", figures.SortRegisters, (*kernelView).registers); float64(r.A) != 16 || !math.IsNaN(float64(r.B)) {
		t.Errorf("a kernel that is gone has %v and %v registers", r.A, r.B)
	}
}

// TestInstructionRows: kernels are set against each other by their machine code, one that is new has nothing to be
// set against, and what moved most comes first.
func TestInstructionRows(t *testing.T) {
	code := func(digest string, histogram map[string]int) *kernelView {
		f := &cuda.Function{Digest: digest, Histogram: histogram}
		for _, n := range histogram {
			f.Instructions += n
		}
		return &kernelView{code: f}
	}
	before := code("0123456789", map[string]int{"FFMA": 10, "LDG": 4, "MOV": 1, "S2R": 1})
	after := code("fedcba9876", map[string]int{"FFMA": 10, "LDG": 1, "LDS": 9, "BAR": 2, "MOV": 2, "STS": 3, "EXIT": 1, "IADD3": 1})
	moved := func(rows []figures.Row) string {
		for _, r := range rows {
			if r.Name == "opcodes that moved most" {
				return r.TextB
			}
		}
		return ""
	}
	for name, x := range map[string]struct {
		pair  kernelPair
		a, b  float64
		moved string
	}{
		"changed": {kernelPair{a: before, b: after}, 16, 29, "+9 LDS, -3 LDG, +3 STS, +2 BAR, +1 EXIT, +1 IADD3"},
		"same":    {kernelPair{a: before, b: before}, 16, 16, ""},
		"new":     {kernelPair{a: nowhere, b: after}, math.NaN(), 29, ""},
		"gone":    {kernelPair{a: before, b: nowhere}, 16, math.NaN(), ""},
	} {
		rows := x.pair.instructionRows()
		if len(rows) < 3 || !sameNumber(float64(rows[0].A), x.a) || !sameNumber(float64(rows[0].B), x.b) || moved(rows) != x.moved {
			t.Errorf("%s: %+v", name, rows)
		}
		sum := 0.0
		for _, r := range rows[2:] {
			if strings.HasSuffix(r.Name, " instructions") {
				sum += float64(r.B)
			}
		}
		if !sameNumber(sum, x.b) {
			t.Errorf("%s: the families hold %v of %v instructions", name, sum, x.b)
		}
	}
	if rows := (kernelPair{a: nowhere, b: nowhere}).instructionRows(); rows != nil {
		t.Errorf("without machine code: %+v", rows)
	}
}

func sameNumber(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// TestStallRows: reasons of either side, in one order, without those that explain nothing.
func TestStallRows(t *testing.T) {
	view := func(stalls map[string]float64) *kernelView {
		m := map[string]cuda.Measured{"other": {Value: 1000}}
		for reason, v := range stalls {
			m["smsp__average_warps_issue_stalled_"+reason+"_per_issue_active.ratio"] = cuda.Measured{Value: v}
		}
		return &kernelView{ncu: []cuda.Launched{{Metrics: m}}}
	}
	p := kernelPair{a: view(map[string]float64{"wait": 1, "long_scoreboard": 2, "sleeping": 0.1}), b: view(map[string]float64{"wait": 1, "long_scoreboard": 8, "barrier": 1})}
	var got []string
	for _, r := range p.stallRows() {
		got = append(got, r.Name)
		if float64(r.Whole) != 10 {
			t.Errorf("%s of %v", r.Name, r.Whole)
		}
	}
	if want := []string{"stalled: barrier", "stalled: long scoreboard", "stalled: wait"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if rows := (kernelPair{a: nowhere, b: nowhere}).stallRows(); len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
}
