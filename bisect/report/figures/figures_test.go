package figures_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/figures"
)

// timed is the time of the whole program, in seconds, with a noise of 1 %.
func timed(a, b float64) figures.Row {
	r := figures.Numbers("metrics", "", "time", "s", figures.SortTime, a, b)
	r.Metric, r.Better, r.Noise = "time", "lower", 0.01
	return r
}

// of is a number of a kernel that takes a share of the device's time.
func of(kernel string, share float64, name, unit string, sort figures.Sort, a, b float64) figures.Row {
	r := figures.Numbers("kernels", kernel, name, unit, sort, a, b)
	r.Share = figures.Number(share)
	return r
}

// The time comes first, then at most two figures that explain it: those that are rare and moved far, of large kernels, and
// in the time's direction.
func TestRank(t *testing.T) {
	found := &bisect.Effect{Metric: "time", Ratio: 1.2, Low: 1.19, High: 1.21}
	exact := &bisect.Effect{Metric: "registers", Case: "gemm", Ratio: 1.25, Exact: &bisect.Exact{Value: 80, Parent: 64}}
	for _, x := range []struct {
		name  string
		rows  []figures.Row
		about *bisect.Effect
		want  []string
	}{
		{"nothing", nil, nil, nil},
		{"nothing moved", []figures.Row{timed(1, 1.005), of("gemm", 1, "registers", "", figures.SortRegisters, 64, 64)}, nil, nil},
		{"the time before what moved farther", []figures.Row{of("gemm", 1, "spills", "B", figures.SortSpills, 0, 512), timed(1, 1.2)}, nil, []string{"time", "spills of gemm"}},
		{"one row of a sort", []figures.Row{timed(1, 1.2), of("gemm", 0.5, "registers", "", figures.SortRegisters, 64, 80), of("add", 0.5, "registers", "", figures.SortRegisters, 32, 128)}, nil,
			[]string{"time", "registers of add"}},
		{"a large kernel before a small one", []figures.Row{timed(1, 1.2), of("add", 0.01, "registers", "", figures.SortRegisters, 32, 64), of("gemm", 0.9, "registers", "", figures.SortRegisters, 64, 100)}, nil,
			[]string{"time", "registers of gemm"}},
		{"at most three", []figures.Row{timed(1, 2), of("gemm", 1, "spills", "B", figures.SortSpills, 0, 8), of("gemm", 1, "occupancy", "%", figures.SortOccupancy, 75, 25), of("gemm", 1, "traffic", "B", figures.SortTraffic, 100, 900), of("gemm", 1, "registers", "", figures.SortRegisters, 64, 65)}, nil,
			[]string{"time", "spills of gemm", "traffic of gemm"}},
		{"what should have made it faster explains less", []figures.Row{timed(1, 1.2), of("gemm", 1, "registers", "", figures.SortRegisters, 128, 64), of("gemm", 1, "traffic", "B", figures.SortTraffic, 100, 160)}, nil,
			[]string{"time", "traffic of gemm", "registers of gemm"}},
		{"what was searched for, however little it moved here", []figures.Row{timed(1, 1.001), of("gemm", 1, "registers", "", figures.SortRegisters, 64, 80)}, found, []string{"time", "registers of gemm"}},
		{"another time explains nothing", []figures.Row{timed(1, 1.2), figures.Numbers("phases", "", "load", "s", figures.SortPhase, 1, 8)}, found, []string{"time"}},
		{"a number of the compiler, by numbers of its kernel", []figures.Row{timed(1, 3), of("add", 1, "spills", "B", figures.SortSpills, 400, 512), of("gemm<float>", 0.2, "registers", "", figures.SortRegisters, 64, 80), of("gemm", 0.2, "instructions", "", figures.SortInstructions, 100, 200)}, exact,
			[]string{"instructions of gemm", "registers of gemm<float>", "spills of add"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var got []string
			for _, r := range figures.Rank(x.rows, x.about) {
				name := r.Name
				if r.Kernel != "" {
					name += " of " + r.Kernel
				}
				got = append(got, name)
			}
			if !slices.Equal(got, x.want) {
				t.Errorf("%q, want %q", got, x.want)
			}
		})
	}
}

// Whatever the figures are, what is called the largest has moved, is of different sorts, and has at most one time, first.
func TestRankPicksOnlyWhatMoved(t *testing.T) {
	sorts := []figures.Sort{figures.SortTime, figures.SortPhase, figures.SortSpills, figures.SortRegisters, figures.SortOccupancy, figures.SortMix, figures.SortLimit, figures.SortNone}
	value := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 100, math.NaN()}), rapid.Float64Range(0, 1e7))
	rapid.Check(t, func(t *rapid.T) {
		var rows []figures.Row
		for i := range rapid.IntRange(0, 10).Draw(t, "rows") {
			sort := rapid.SampledFrom(sorts).Draw(t, "sort")
			kernel := rapid.SampledFrom([]string{"", "gemm", "add"}).Draw(t, "kernel")
			r := figures.Numbers("g", kernel, fmt.Sprint("row ", i), rapid.SampledFrom([]string{"", "%", "s", "B"}).Draw(t, "unit"), sort, value.Draw(t, "a"), value.Draw(t, "b"))
			if rapid.Bool().Draw(t, "text") {
				r = figures.Texts("g", kernel, fmt.Sprint("row ", i), sort, rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "a"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "b"))
			}
			r.Noise = rapid.SampledFrom([]float64{0, 0.01, 0.5}).Draw(t, "noise")
			rows = append(rows, r)
		}
		moved := figures.Rank(rows, nil)
		seen := map[figures.Sort]bool{}
		for i, r := range moved {
			if !r.Changed() || r.Change() == "" {
				t.Errorf("%+v has not moved", r)
			}
			if time := r.Sort == figures.SortTime || r.Sort == figures.SortPhase; time && i > 0 || seen[r.Sort] {
				t.Errorf("%q as number %d of %+v", r.Sort, i, moved)
			}
			seen[r.Sort] = true
		}
		if text := figures.Summary(moved, rows); strings.HasPrefix(text, "Largest changes: ") != (len(moved) > 0) || len(moved) > 3 {
			t.Errorf("%d rows: %s", len(moved), text)
		}
	})
}

// A row reads the same everywhere: the figure of A to that of B, and how far that is.
func TestRowsInWords(t *testing.T) {
	percent := of("", 1, "occupancy", "%", figures.SortOccupancy, 75, 50)
	noisy, quiet := timed(1, 1.005), timed(1, 1.1)
	rate := figures.Numbers("metrics", "", "rate", "B/s", figures.SortTime, 2e12, 1e12)
	rate.Better = "higher"
	for _, x := range []struct {
		row  figures.Row
		want string
	}{
		{quiet, "time (lower is better) 1.000 s to 1.100 s (+10.0 %)"},
		{noisy, "time (lower is better) 1.000 s to 1.005 s (+0.50 % (within noise))"},
		{timed(0.0002, 0.0005), "time (lower is better) 200.0 µs to 500.0 µs (2.5 times)"},
		{timed(1, math.NaN()), "time (lower is better) 1.000 s to -"},
		{percent, "occupancy 75 % to 50 % (-25 points)"},
		{rate, "rate (higher is better) 2.000 TB/s to 1.000 TB/s (-50.0 %)"},
		{of("gemm", 1, "spills", "B", figures.SortSpills, 0, 512), "spills of gemm 0 B to 512 B (new)"},
		{of("gemm", 1, "spills", "B", figures.SortSpills, 512, 0), "spills of gemm 512 B to 0 B (-100.0 %)"},
		{of("gemm", 1, "registers", "", figures.SortRegisters, 64, 64), "registers of gemm 64 to 64"},
		{of("gemm", 1, "instructions", "", figures.SortInstructions, 3e6, 9e6), "instructions of gemm 3.000 M to 9.000 M (3 times)"},
		{of("gemm", 1, "traffic", "B", figures.SortTraffic, 2.5e9, 2e9), "traffic of gemm 2.500 GB to 2.000 GB (-20.0 %)"},
		{figures.Texts("resources", "gemm", "limited by", figures.SortLimit, "registers", "shared memory"), "limited by of gemm registers to shared memory (changed)"},
		{figures.Texts("resources", "gemm", "limited by", figures.SortLimit, "registers", ""), "limited by of gemm registers to -"},
		{figures.Texts("resources", "", "name", figures.SortLimit, "a\x1b[2Jb", "a"), "name a [2Jb to a (changed)"},
	} {
		if got := x.row.Words(true); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// A row of what was searched for shows what the search found, and its own figures too where they disagree.
func TestRowsOfWhatWasSearchedFor(t *testing.T) {
	about := &bisect.Effect{Metric: "time", Ratio: 1.2, Low: 1.19, High: 1.21}
	phase := figures.Numbers("phases", "", "load", "s", figures.SortPhase, 1, 2)
	for _, x := range []struct {
		row  figures.Row
		want string
	}{
		{timed(1, 1.2), "+20.0 % in the search"},
		{timed(1, 1.5), "+50.0 % here, +20.0 % (95 % CI +19.0 to +21.0 %) in the search"},
		{timed(1, 1), "+20.0 % (95 % CI +19.0 to +21.0 %) in the search"},
		{phase, "2 times (not searched for)"},
	} {
		rows := []figures.Row{x.row, timed(1, 1.2)}
		figures.Rank(rows, about)
		if got := rows[0].Change(); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// Where nothing stands out a summary says why.
func TestSummary(t *testing.T) {
	small := figures.Numbers("phases", "", "load", "s", figures.SortPhase, 0.001, 0.002)
	small.Whole = 10
	limit := figures.Texts("resources", "", "device", figures.SortNone, "x", "y")
	for _, x := range []struct {
		name string
		rows []figures.Row
		want string
	}{
		{"no figures", nil, "Neither side could be examined."},
		{"alike", []figures.Row{timed(1, 1)}, "Nothing that was examined has changed."},
		{"within noise", []figures.Row{timed(1, 1.001)}, "Nothing that was examined has changed."},
		{"too small a part", []figures.Row{small}, "No figure explains the difference."},
		{"only a text", []figures.Row{limit}, "No figure explains the difference."},
		{"one kernel is named once", []figures.Row{timed(1, 1.2), of("gemm", 1, "spills", "B", figures.SortSpills, 0, 512), of("gemm", 1, "registers", "", figures.SortRegisters, 64, 80)},
			"Largest changes: time (lower is better) 1.000 s to 1.200 s (+20.0 %); spills of gemm 0 B to 512 B (new); registers 64 to 80 (+25.0 %)."},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := figures.Summary(figures.Rank(x.rows, nil), x.rows); got != x.want {
				t.Errorf("%q, want %q", got, x.want)
			}
		})
	}
}

// A kernel's name loses its namespaces where there is no room for all, and keeps its arguments as long as they fit.
func TestKernelName(t *testing.T) {
	for _, x := range []struct{ name, want string }{
		{"gemm", "gemm"},
		{"void at::native::add<float>(int)", "void at::native::add<float>(int)"},
		{"void at::native::(anonymous namespace)::elementwise_kernel<float, 4>(int)", "elementwise_kernel<float, 4>(int)"},
		{"void cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::collective::Mainloop, 128, 128>", "GemmUniversal<Mainloop, 128, 128>"},
		{strings.Repeat("é", 60), strings.Repeat("é", 47) + "…"},
	} {
		if got := figures.KernelName(x.name); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}
