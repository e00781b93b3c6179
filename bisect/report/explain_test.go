package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/figures"
)

// slower is an explanation of a kernel that spills and fills less of the device.
func slower() Explanation {
	share := func(r figures.Row, share float64) figures.Row {
		r.Share, r.Key = Number(share), true
		return r
	}
	return Explanation{
		Schema: ExplanationSchema, Result: "explained",
		A: Candidate{Commit: "aaaaaaaaaaaaaaaa", Revision: "HEAD^", Subject: "base"}, B: Candidate{Commit: "bbbbbbbbbbbbbbbb", Revision: "HEAD", Subject: "wider"},
		Rows: []figures.Row{
			figures.Numbers("phases", "", "warmup", "s", figures.SortPhase, 0.5, 0.5),
			share(figures.Numbers("kernels", "gemm", "time of a launch", "s", figures.SortTime, 12e-6, 31e-6), 0.9),
			share(figures.Texts("kernels", "gemm", "block", figures.SortConfig, "256 x 1 x 1", "256 x 1 x 1"), 0.9),
			share(figures.Numbers("resources", "gemm", "registers per thread", "", figures.SortRegisters, 40, 168), 0.9),
			share(figures.Numbers("resources", "gemm", "spill stores", "B", figures.SortSpills, 0, 728), 0.9),
			share(figures.Numbers("resources", "gemm", "spill loads", "B", figures.SortSpills, 0, 800), 0.9),
			share(figures.Numbers("resources", "gemm", "occupancy, theoretical", "%", figures.SortOccupancy, 100, 18.75), 0.9),
			share(figures.Texts("resources", "gemm", "limited by", figures.SortNone, "warps", "registers"), 0.9),
			share(figures.Numbers("profiler", "gemm", "L2 hit rate", "%", figures.SortUse, 60, 61), 0.9),
			share(figures.Numbers("resources", "clear", "registers per thread", "", figures.SortRegisters, 8, 200), 0.001),
		},
		Added: []string{"void helper(int)"}, Gone: []string{}, Missing: []string{"profiler metrics: no ncu"}, Profilers: []string{"torch.profiler"},
		Builds: []BuildEnd{}, Devices: []string{}, Warnings: []string{},
	}
}

func TestExplanation(t *testing.T) {
	e := slower()
	e.Rank(nil)
	var names []string
	for _, r := range e.Moved {
		names = append(names, r.Kernel+" "+r.Name)
	}
	if want := []string{"gemm time of a launch", "gemm spill stores", "gemm occupancy, theoretical"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if want := "Largest changes: time of a launch of gemm 12.00 µs to 31.00 µs (2.58 times); spill stores 0 B to 728 B (new); occupancy, theoretical 100 % to 18.75 % (-81.2 points)."; e.Summary != want {
		t.Error(e.Summary)
	}
	table := e.Table("title", "A", "B")
	for _, want := range [][]string{{"gemm", "registers per thread", "40", "168", "4.2 times"}, {"gemm", "limited by", "warps", "registers", "changed"}, {"void helper(int)", "kernel added", "", "", ""}} {
		if !slices.ContainsFunc(table.Rows, func(row []string) bool { return slices.Equal(row, want) }) {
			t.Errorf("no %q in\n%q", want, table.Rows)
		}
	}
	for _, r := range table.Rows {
		if len(r) != len(table.Columns) || r[1] == "warmup" {
			t.Errorf("%q", r)
		}
	}
	if want := []string{e.Summary, "measured with torch.profiler", "not measured: profiler metrics: no ncu"}; len(table.Rows) != 9+1 || !slices.Equal(table.Notes, want) {
		t.Errorf("%q %q", table.Rows, table.Notes)
	}
	var changed []string
	for _, i := range table.Changed {
		changed = append(changed, table.Rows[i][1])
	}
	if slices.Contains(changed, "block") || !slices.Contains(changed, "spill loads") || !slices.Contains(changed, "kernel added") {
		t.Errorf("changed: %q", changed)
	}
}

// Kernels of PyTorch share a long beginning; what tells them apart has to stay.
func TestKernelNamesStayApart(t *testing.T) {
	const elementwise = "void at::native::vectorized_elementwise_kernel<4, at::native::"
	e := &Explanation{Gone: []string{
		elementwise + "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >",
		elementwise + "(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}",
		elementwise + "(anonymous namespace)::pow_tensor_scalar_kernel_impl<float, float>",
		elementwise + "CUDAFunctor_add<float>, std::array<char*, 3ul> >",
		"mine::gemm",
	}}
	want := []string{
		"vectorized_elementwise_kernel<4, BinaryFunctor<…",
		"vectorized_elementwise_kernel<4, silu_kernel(Te…",
		"vectorized_elementwise_kernel<4, pow_tensor_sca…",
		"vectorized_elementwise_kernel<4, CUDAFunctor_ad…",
		"mine::gemm",
	}
	for i, row := range e.Table("", "A", "B").Rows {
		if row[0] != want[i] {
			t.Errorf("%q, want %q", row[0], want[i])
		}
	}
}

func TestExplanationAsJSON(t *testing.T) {
	e := slower()
	e.Rows = append(e.Rows, figures.Numbers("resources", "gemm", "unknown", "", figures.SortNone, math.NaN(), 3))
	e.Rank(nil)
	var out bytes.Buffer
	if err := WriteJSON(&out, e); err != nil {
		t.Fatal(err)
	}
	var back Explanation
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"schema": "kbisect.explanation/1"`, `"a": null`, `"kernels_added": [`, `"warnings": []`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s", want)
		}
	}
	if before, after := e.Table("", "A", "B"), back.Table("", "A", "B"); fmt.Sprint(before) != fmt.Sprint(after) { // NaN is not itself
		t.Errorf("the table of what was kept differs:\n%+v\n%+v", before, after)
	}
}

func TestExplanationOfNothing(t *testing.T) {
	e := Explanation{}
	e.Rank(nil)
	if !strings.HasPrefix(e.Summary, "Neither side could be examined") {
		t.Error(e.Summary)
	}
	e.Rows = []figures.Row{figures.Numbers("phases", "", "load", "s", figures.SortPhase, 1, 1.05), figures.Texts("kernels", "k", "grid", figures.SortConfig, "", "1 x 1 x 1")}
	if got := e.Rows[0].Change(); got != "+5.0 %" {
		t.Error(got)
	}
	e.Rows[0].Noise = 0.1
	if got := e.Rows[0].Change(); got != "+5.0 % (within noise)" {
		t.Error(got)
	}
	e.Rank(nil)
	if !strings.HasPrefix(e.Summary, "Nothing that was examined has changed") {
		t.Error(e.Summary)
	}
}

// A phase is held against its own scatter, and then weighed by its share of a launch: a load of nineteen
// times as long is no scatter because the build beside it takes longer still.
func TestRankOfPhases(t *testing.T) {
	row := func(name string, a, b, noise float64) figures.Row {
		r := figures.Numbers("phases", "", name, "s", figures.SortPhase, a, b)
		r.Noise, r.Whole = noise, 21
		return r
	}
	e := Explanation{Rows: []figures.Row{row("build", 15.7, 14.8, 0.1), row("load", 0.295, 5.697, 1.1), row("capture", 0.001, 0.3, 0.1)}}
	e.Rank(nil)
	if len(e.Moved) != 1 || e.Moved[0].Name != "load" {
		t.Errorf("%+v", e.Moved)
	}
}

// TestRankPrefersWhatExplains: of equal changes, the one that goes the way of the time counts.
func TestRankPrefersWhatExplains(t *testing.T) {
	e := Explanation{Rows: []figures.Row{
		figures.Numbers("kernels", "k", "time", "s", figures.SortTime, 1, 2),
		figures.Numbers("resources", "k", "registers", "", figures.SortRegisters, 100, 50),
		figures.Numbers("resources", "k", "shared", "B", figures.SortShared, 1000, 1500),
	}}
	e.Rank(nil)
	if len(e.Moved) != 3 || e.Moved[1].Name != "shared" {
		t.Errorf("%+v", e.Moved)
	}
}

// TestRankAnything: whatever the rows hold, at most three are named, each of another sort, and only such
// that moved; to name them again changes nothing.
func TestRankAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sorts := []figures.Sort{figures.SortTime, figures.SortPhase, figures.SortConfig, figures.SortLaunches, figures.SortGraphs, figures.SortRegisters, figures.SortSpills, figures.SortOccupancy, figures.SortMix, figures.SortUse, figures.SortStalls, figures.SortNone}
	values := []float64{0, 1, 1.01, 3, 100, 1e9, math.NaN(), math.Inf(1), -1}
	pick := func() float64 { return values[rng.IntN(len(values))] }
	for range 2000 {
		var e Explanation
		for range rng.IntN(12) {
			r := figures.Numbers("g", []string{"", "k", "l"}[rng.IntN(3)], "n", []string{"", "s", "%", "B"}[rng.IntN(4)], sorts[rng.IntN(len(sorts))], pick(), pick())
			r.Share, r.Noise, r.Whole = Number(pick()), rng.Float64()*0.1, Number(pick())
			e.Rows = append(e.Rows, r)
		}
		e.Rank(nil)
		seen := map[figures.Sort]bool{}
		for _, r := range e.Moved {
			if r.A == r.B || r.Sort == figures.SortNone || seen[r.Sort] {
				t.Fatalf("%+v", e.Moved)
			}
			seen[r.Sort] = true
		}
		first := e.Summary
		if e.Rank(nil); len(e.Moved) > 3 || e.Summary != first {
			t.Fatalf("%q, then %q", first, e.Summary)
		}
		e.Table("", "A", "B")
		if err := WriteJSON(&bytes.Buffer{}, e); err != nil {
			t.Fatal(err)
		}
	}
}

// Of a number that was searched for, the summary speaks first; what a compiler says is explained by the
// kernel that it is of, and not by how long the build took.
func TestRankAboutWhatWasSearchedFor(t *testing.T) {
	rows := func() []figures.Row {
		build := figures.Numbers("phases", "", "build", "s", figures.SortPhase, 9, 5)
		build.Whole = 10
		warm := figures.Numbers("phases", "", "warmup", "s", figures.SortPhase, 0.3, 0.1)
		warm.Whole = 1
		warm.Metric = "phase.warmup"
		measured := figures.Numbers("phases", "", "time of 128", "s", figures.SortTime, 1e-3, 1.1e-3)
		measured.Metric, measured.Case = "time", "128"
		return []figures.Row{build, warm, measured,
			figures.Numbers("resources", "other", "instructions", "", figures.SortInstructions, 100, 300), figures.Numbers("resources", "still", "instructions", "", figures.SortInstructions, 7, 7),
			figures.Numbers("resources", "gemm<4>", "registers per thread", "", figures.SortRegisters, 56, 64)}
	}
	for _, c := range []struct {
		about *bisect.Effect
		want  string
		first string
	}{
		{nil, "Largest changes: build 9.000 s to 5.000 s (-44.4 %); instructions of other", "other"},
		{&bisect.Effect{Metric: "time", Case: "128"}, "Largest changes: time of 128 1.000 ms to 1.100 ms (+10.0 %); instructions of other", "other"},
		{&bisect.Effect{Metric: "time"}, "Largest changes: time of 128", "other"},
		{&bisect.Effect{Metric: "phase.warmup"}, "Largest changes: warmup 300.0 ms to 100.0 ms", "other"},
		{&bisect.Effect{Metric: "registers", Case: "gemm", Exact: &bisect.Exact{Value: 64, Parent: 56}}, "Largest changes: registers per thread of gemm<4> 56 to 64 (+14.3 %); instructions of other", "gemm<4>"},
	} {
		e := Explanation{Rows: rows()}
		e.Rank(c.about)
		table := e.Table("", "A", "B").Rows
		kernel := ""
		for _, r := range table {
			if kernel == "" && r[0] != "phases" {
				kernel = r[0]
			}
		}
		if !strings.HasPrefix(e.Summary, c.want) || kernel != c.first {
			t.Errorf("%+v: %s; first %s", c.about, e.Summary, kernel)
		}
	}
}

// TestExplanationAgreesWithTheFinding: what the search found of a number stands where the few launches that are compared show
// something else, and other times are marked as not searched for, however far they moved.
func TestExplanationAgreesWithTheFinding(t *testing.T) {
	build := figures.Numbers("phases", "", "build", "s", figures.SortPhase, 9, 2.6)
	build.Whole, build.Key = 10, true
	measured := figures.Numbers("phases", "", "time", "s", figures.SortTime, 1e-3, 0.811e-3)
	measured.Metric, measured.Key, measured.Noise = "time", true, 0.3
	for _, c := range []struct {
		about bisect.Effect
		want  string
	}{
		{bisect.Effect{Metric: "time", Ratio: 0.625, Low: 0.6, High: 0.65}, "-18.9 % here, -37.5 % (95 % CI -40.0 to -35.0 %) in the search"},
		{bisect.Effect{Metric: "time", Ratio: 0.8, Low: 0.75, High: 0.85}, "-20.0 % in the search"},
	} {
		e := Explanation{Rows: []figures.Row{build, measured, figures.Numbers("resources", "gemm", "registers per thread", "", figures.SortRegisters, 56, 40)}}
		e.Rank(&c.about)
		table := e.Table("", "parent", "culprit")
		if got := table.Rows[1][4]; got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		if got := table.Rows[0][4]; got != "-71.1 % (not searched for)" || slices.Contains(table.Changed, 0) {
			t.Errorf("%s; changed %v", got, table.Changed)
		}
		if want := "Largest changes: time 1.000 ms to 811.0 µs (" + c.want + "); registers per thread of gemm 56 to 40 (-28.6 %)."; e.Summary != want {
			t.Errorf("%s\nwant %s", e.Summary, want)
		}
	}
}
