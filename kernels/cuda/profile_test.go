package cuda

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func profiled(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/profile", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestNcuCSV(t *testing.T) {
	got, err := NcuCSV(profiled(t, "ncu.csv"))
	if err != nil || len(got) != 3 {
		t.Fatalf("%v %+v", err, got)
	}
	want := Launched{
		Kernel: "_Z4polyILi16EEvPKfPfi", Grid: [3]int{4096, 1, 1}, Block: [3]int{256, 1, 1}, Arch: "9.0", Launches: 2,
		Metrics: map[string]Measured{
			"dram__bytes_read.sum": {53261312, "B"}, MetricTime: {14e-6, "s"}, MetricRegisters: {40, "register/thread"}, MetricDynamic: {0, "B/block"},
			"launch__occupancy_limit_blocks": {32, "block"}, "launch__occupancy_limit_registers": {6, "block"}, "launch__occupancy_limit_shared_mem": {32, "block"}, "launch__occupancy_limit_warps": {8, "block"},
			"lts__t_sector_hit_rate.pct": {51.75, "%"}, "sm__maximum_warps_per_active_cycle_pct": {75, "%"},
			"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": {3, "inst"},
		},
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })
	if d := cmp.Diff(want, got[0], near); d != "" {
		t.Error(d)
	}
	gemm := got[1]
	if gemm.Kernel != `void gemm<128, "a, b">(float const*, float*)` || gemm.Threads() != 256 || gemm.Grid != [3]int{12, 8, 1} {
		t.Errorf("%+v", gemm)
	}
	if _, known := gemm.Metrics["lts__t_sector_hit_rate.pct"]; known {
		t.Error("n/a was read as a number")
	}
	if o, ok := OccupancyOf(gemm); !ok || o != (Occupancy{Share: 0.125, Blocks: 1, Limit: limitShared}) {
		t.Errorf("%+v %v", o, ok)
	}
	if first := ByTime(got)[0]; first.Kernel != gemm.Kernel {
		t.Errorf("%s took most time", first.Kernel)
	}
}

func TestNcuTrouble(t *testing.T) {
	for text, want := range map[string]string{
		"==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.\n": "counters (ERR_NVGPUCTRPERM)",
		"==ERROR== Failed to find metric smsp__nothing\n":                 "Failed to find metric smsp__nothing",
		"==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n": "LibraryNotLoaded",
		"==WARNING== No kernels were profiled.\n":                         "profiled no kernel",
		"": "profiled no kernel",
		"\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"\",\"\",\"ns\"\n": "profiled no kernel",
	} {
		_, err := NcuCSV([]byte(text))
		var trouble *NcuError
		if !errors.As(err, &trouble) || !strings.Contains(err.Error(), want) || trouble.Permission != strings.Contains(want, "PERM") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNcuCommand(t *testing.T) {
	passes := NcuPasses()
	for i, p := range passes {
		argv := Ncu("ncu", p, nil, "log")
		if !slices.Contains(argv, "none") || slices.Index(argv, "--clock-control") < 0 || slices.Contains(argv, "") {
			t.Errorf("%q", argv)
		}
		if i > 0 && len(p.Metrics) >= len(passes[i-1].Metrics) {
			t.Errorf("%s has no fewer metrics than the set before", p.Name)
		}
		for _, m := range p.Metrics {
			if !slices.Contains(passes[0].Metrics, m) {
				t.Errorf("%s is not in the fullest set", m)
			}
		}
	}
	some := Ncu("ncu", passes[0], []string{"a.b", "c"}, "log")
	if !slices.Contains(some, `::regex:^(a\.b|c)$:1|2|3`) {
		t.Errorf("%q", some)
	}
	if got := NcuVersion([]byte("NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025 NVIDIA Corporation\nVersion 2025.3.1.0 (build 36398880) (public-release)\n")); got != "2025.3.1.0" {
		t.Error(got)
	}
}

func TestTraces(t *testing.T) {
	text := profiled(t, "trace.json")
	got, err := readTraces(bytes.NewReader(text), bytes.NewReader(text))
	if err != nil || len(got.Kernels) != 2 {
		t.Fatalf("%v %+v", err, got)
	}
	add, silu := got.Kernels[0], got.Kernels[1]
	if add.Launches != 4 || BaseName(add.Kernel) != "vectorized_elementwise_kernel" || add.Arch != "9.0" || add.Seconds() < 11.9e-6 || add.Seconds() > 12.1e-6 {
		t.Errorf("%+v", add)
	}
	if silu.Grid != [3]int{64, 2, 1} || silu.Threads() != 256 || silu.Metrics[MetricShared].Value != 1024 || silu.Metrics[MetricRegisters].Value != 18 {
		t.Errorf("%+v", silu)
	}
	got.Kernels, got.capability = nil, nil
	if d := cmp.Diff(Trace{Copies: 4, Captured: 2, Replays: 4, Syncs: 2, Allocated: 2}, got, cmp.AllowUnexported(Trace{})); d != "" {
		t.Error(d)
	}
	cut, err := readTraces(bytes.NewReader(text[:bytes.Index(text, []byte("triton_"))]))
	if err == nil || len(cut.Kernels) != 1 || cut.Captured != 1 {
		t.Errorf("of a trace that is cut off: %v %+v", err, cut)
	}
}

func TestCompiles(t *testing.T) {
	if c, ok := Compiles("kbisect-profile: frames 3, graphs 2, breaks 1"); !ok || c != (Compiled{3, 2, 1}) {
		t.Errorf("%+v %v", c, ok)
	}
	for _, line := range []string{"", "frames 3", "kbisect-profile: frames x"} {
		if _, ok := Compiles(line); ok {
			t.Error(line)
		}
	}
	if !Recompile("V1121 13:00:00.1 12 torch/_dynamo/guards.py:2983] [0/1] [__recompiles] Recompiling function epilogue in submission.py:12") || Recompile("[__recompiles]     triggered by the following guard failure(s):") {
		t.Error("recompilations are miscounted")
	}
}

// TestOccupy checks against figures that NVIDIA publishes: the programming guide's tables, and its
// examples of kernels that a register more, or a larger block, takes to half.
func TestOccupy(t *testing.T) {
	for _, c := range []struct {
		capability                 string
		registers, shared, threads int
		blocks                     int
		share                      float64
		limit                      string
	}{
		{"7.0", 32, 0, 1024, 2, 1, limitWarps},
		{"7.5", 32, 0, 1024, 1, 1, limitWarps}, // 1024 threads to a multiprocessor
		{"7.5", 64, 0, 1024, 1, 1, limitWarps},
		{"8.0", 32, 0, 1024, 2, 1, limitWarps},
		{"8.0", 33, 0, 1024, 1, 0.5, limitRegisters},
		{"8.0", 32, 163 << 10, 128, 1, 4. / 64, limitShared}, // the most that a block may have
		{"8.0", 16, 0, 32, 32, 0.5, limitBlocks},
		{"8.6", 32, 0, 1024, 1, 32. / 48, limitWarps},
		{"8.6", 32, 0, 32, 16, 16. / 48, limitBlocks},
		{"8.6", 255, 0, 256, 1, 8. / 48, limitRegisters},
		{"8.6", 32, 99 << 10, 128, 1, 4. / 48, limitShared},
		{"8.9", 32, 0, 32, 24, 0.5, limitBlocks},
		{"9.0", 168, 0, 384, 1, 12. / 64, limitRegisters},
		{"9.0", 128, 0, 128, 4, 0.25, limitRegisters},
		{"9.0", 32, 227 << 10, 256, 1, 8. / 64, limitShared},
		{"10.0", 255, 0, 256, 1, 8. / 64, limitRegisters},
		{"12.0", 32, 99 << 10, 128, 1, 4. / 48, limitShared},
	} {
		got, ok := Occupy(c.capability, c.registers, c.shared, c.threads)
		if want := (Occupancy{c.share, c.blocks, c.limit}); !ok || got != want {
			t.Errorf("%+v: %+v, %v", c, got, ok)
		}
	}
	for _, bad := range [][3]int{{32, 0, 0}, {32, 0, 2048}, {256, 0, 32}, {32, 300 << 10, 32}} {
		if o, ok := Occupy("9.0", bad[0], bad[1], bad[2]); ok {
			t.Errorf("%v: %+v", bad, o)
		}
	}
	if _, ok := Occupy("6.1", 32, 0, 128); ok {
		t.Error("of a device that is not in the tables")
	}
}

func TestMix(t *testing.T) {
	f := Function{Histogram: map[string]int{"HMMA": 4, "HGMMA": 2, "LDL": 3, "STL": 1, "LDS": 5, "LDSM": 1, "LDG": 7, "LDGSTS": 2, "FFMA": 9, "IMAD": 6, "BRA": 1, "BAR": 1, "XYZZY": 1, "UTCHMMA": 1}}
	got := map[string]int{}
	for _, x := range Mix(f) {
		if x.N > 0 {
			got[x.Name] = x.N
		}
	}
	want := map[string]int{"tensor": 7, "local memory (spills)": 4, "shared memory": 6, "global memory": 7, "asynchronous copies": 2, "fp32": 9, "integer": 6, "control": 1, "barrier": 1, "other": 1}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	total := 0
	real := SASS(static(t, "sass.txt"))[0]
	for _, x := range Mix(real) {
		total += x.N
		if x.Name == "other" && x.N > 0 {
			t.Errorf("%d instructions of no family: %v", x.N, real.Histogram)
		}
	}
	if total != real.Instructions {
		t.Errorf("%d of %d instructions", total, real.Instructions)
	}
}

func TestBaseName(t *testing.T) {
	for name, want := range map[string]string{
		"_Z4polyILi16EEvPKfPfi": "poly", gateName: "gate", "_ZN2at6native29vectorized_elementwise_kernelILi4EEEvi": "vectorized_elementwise_kernel",
		"_ZN7cutlass7Kernel2INS_4gemm6kernel13GemmUniversalEEEvNT_6ParamsE": "Kernel2", "triton_poi_fused_0": "triton_poi_fused_0", "_Z": "_Z", "": "",
		"void at::native::(anonymous namespace)::cat<float, 3>(float*, at::Index<int>)": "cat", "poly(float*, int)": "poly",
		"void (anonymous namespace)::gate(float const*)": "gate", "void ns::op<(ns::Mode)1>(int)": "op", "nvjet_hsh_128x256_64x4": "nvjet_hsh_128x256_64x4",
	} {
		if got := BaseName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func FuzzNcuCSV(f *testing.F) {
	f.Add(profiled(f, "ncu.csv"))
	f.Add([]byte("\"ID\",\"Kernel Name\",\"a__b\"\n\"\",\"\",\"ns\"\n\"0\",\"k\"\"\",\"1,5\"\n"))
	f.Add([]byte("==ERROR== ERR_NVGPUCTRPERM\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := NcuCSV(data)
		if (err == nil) != (len(all) > 0) {
			t.Errorf("%v with %d kernels", err, len(all))
		}
		for _, l := range all {
			if l.Launches < 1 || l.Kernel == "" || l.Threads() < 0 {
				t.Errorf("%+v", l)
			}
			OccupancyOf(l)
			BaseName(l.Kernel)
		}
	})
}

func FuzzTraces(f *testing.F) {
	f.Add(profiled(f, "trace.json"))
	f.Add([]byte(`{"traceEvents":[{"cat":"kernel","name":"k","dur":"x","args":{"grid":[1e99]}}]}`))
	f.Add([]byte(`{"deviceProperties":3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, _ := readTraces(bytes.NewReader(data))
		for _, l := range got.Kernels {
			if l.Launches < 1 || l.Seconds() < 0 || l.Grid[0] < 0 {
				t.Errorf("%+v", l)
			}
		}
	})
}

func FuzzBaseName(f *testing.F) {
	for _, s := range []string{"_ZN2ns3fooIfEEvPf", "void f<(a)1>(int)", "_Z9", "_ZNSt", "(anonymous namespace)::f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := BaseName(s); got == "" && s != "" || !strings.Contains(Signature(s), got) && got != s {
			t.Errorf("%q of %q", got, s)
		}
	})
}
