package pipeline

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// spoken is what ptxas says of two kernels, with the registers and spills of the first.
const spoken = `echo "ptxas info    : Compiling entry function '_Z4gemmPf' for 'sm_80'
ptxas info    : Function properties for _Z4gemmPf
    0 bytes stack frame, %[2]d bytes spill stores, %[2]d bytes spill loads
ptxas info    : Used %[1]d registers, 380 bytes cmem[0]
ptxas info    : Compiling entry function '_Z5scalePf' for 'sm_80'
ptxas info    : Function properties for _Z5scalePf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 380 bytes cmem[0]"
cp n out; test "$NVCC_APPEND_FLAGS" = -Xptxas=-v
`

// Static metrics come of the build, from the cache too, and nothing is run for them.
func TestStaticMetrics(t *testing.T) {
	plan := kernels.Plan{Build: []string{"sh", "./run.sh"}, Outputs: []string{"out"}, Run: []string{"sh", "-c", "echo ran >>$BENCH_LOG"}}
	build := func(registers, spills int, n string) []fixtures.Change {
		return append(script(fmt.Sprintf(spoken, registers, spills)), fixtures.Write("n", n))
	}
	b := newBench(t, plan, trial.Limits{Run: time.Minute}, build(64, 0, "a"), build(72, 20, "b"))
	b.recipe.Env = slices.DeleteFunc(b.recipe.Env, func(v string) bool { return strings.HasPrefix(v, "NVCC_APPEND_FLAGS=") })
	b.recipe.Sources = []trial.Source{{Metric: "registers", From: trial.FromStatic}, {Metric: "spills", From: trial.FromStatic}}
	b.Config.Cases = Cases{"registers": {"gemm"}}
	want := func(i int, r bisect.Request, hit bool, registers, spills float64, said string) bisect.Outcome {
		t.Helper()
		r.Candidate = bisect.Candidate{Commit: b.ids[i]}
		o, err := b.Sample(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]float64{}
		for _, s := range o.Series {
			got[s.Metric] = append(got[s.Metric], s.Values...)
		}
		if o.Class != bisect.OK || o.CacheHit != hit || !slices.Equal(got["registers"], []float64{registers}) || !slices.Equal(got["spills"], []float64{spills, 0}) {
			t.Errorf("commit %d: %+v", i, o)
		}
		if s := b.said(); s != said {
			t.Errorf("commit %d said %q", i, s)
		}
		return o
	}
	first := want(0, bisect.Request{Purpose: bisect.EndGood}, false, 64, 0, "ran")
	second := want(1, bisect.Request{Purpose: bisect.Searching, BuildOnly: true}, false, 72, 40, "")
	want(1, bisect.Request{Purpose: bisect.Searching, BuildOnly: true, Nth: 1}, false, 72, 40, "") // known: not even built
	want(0, bisect.Request{Purpose: bisect.FindGood}, true, 64, 0, "ran")
	if first.Artefact == nil || first.Artefact.Device != "" || first.Artefact.Host == second.Artefact.Host || len(first.Artefact.Host) != 64 {
		t.Errorf("artefacts %+v and %+v", first.Artefact, second.Artefact)
	}
	b.recipe.Plan.Run = nil
	want(0, bisect.Request{Purpose: bisect.ConfirmParent, Clean: true}, false, 64, 0, "")
}

// Kernels are chosen by a part of a name.
func TestChosenCases(t *testing.T) {
	var before []bisect.Series
	for _, n := range []string{"_Z4gemmPf", "_Z3addILi4EEvPf", "_Z3addILi8EEvPf"} {
		before = append(before, bisect.Series{Metric: "registers", Case: n}, bisect.Series{Metric: "spills", Case: n})
	}
	for _, chosen := range []string{"ILi8E", "<8>"} {
		var o bisect.Outcome
		cases := Cases{"registers": {chosen}, "spills": {"_Z4gemmPf"}}
		n := notices{others: map[string][]string{}}
		n.addFacts(&o, cases, workspace.Facts{Series: before})
		if len(o.Series) != 2 || o.Series[0].Case != "gemm" || o.Series[1].Case != "add<8>" {
			t.Errorf("the cases chosen by %q are %+v", chosen, o.Series)
		}
	}
}

// A build that reads what is not in the paths is told of.
func TestReadsOutsideThePaths(t *testing.T) {
	plan := kernels.Plan{
		Build: []string{"sh", "-c", `printf 'out: a.c inc/b.h own/c.h made.h \\\n %s/inc/d.h /usr/include/stdio.h\n' "$PWD" >out.d; cp a.c out`},
		Run:   []string{"true"}, Depfiles: []string{"out.d", "missing.d"},
	}
	b := newBench(t, plan, trial.Limits{}, []fixtures.Change{
		fixtures.Write("a.c", "a"), fixtures.Write("inc/b.h", "b"), fixtures.Write("own/c.h", "c"), fixtures.Write("inc/d.h", "d"),
	})
	b.recipe.Paths = []string{"a.c", "own/"}
	if o := b.test(0, bisect.Searching); o.Class != bisect.OK {
		t.Fatal(o.Describe())
	}
	told := strings.Join(b.Warnings(), "\n")
	if strings.Count(told, "outside the paths") != 2 || !strings.Contains(told, "reads inc/b.h,") || !strings.Contains(told, "reads inc/d.h,") {
		t.Errorf("warnings %q", told)
	}
}

// nvbench is a file of results with one sidecar of samples.
const nvbench = `{"meta":{"version":{"json":{"major":1,"minor":0,"patch":0}}},"benchmarks":[{"name":"copy","states":[{"name":"s","device":0,
"axis_values":[{"name":"N","value":"64"}],"is_skipped":false,
"summaries":[{"tag":"nv/json/bin:nv/cold/sample_times","data":[{"name":"filename","value":"out/0.bin"},{"name":"size","value":"3"}]}]}]}]}`

// googleBenchmark writes a report with one benchmark of 0.25 ms.
const googleBenchmark = `echo '{"benchmarks":[{"name":"gemm","real_time":250,"time_unit":"us","error_occurred":%t}]}' >t.json`

// Results are read from where programs leave them; those of another trial are not taken for this one's.
func TestResults(t *testing.T) {
	samples := make([]byte, 12)
	for i, v := range []float32{1e-6, 2e-6, 3e-6} {
		binary.LittleEndian.PutUint32(samples[4*i:], math.Float32bits(v))
	}
	const write = "mkdir -p out; cp res.json out/r.json; cp samples out/0.bin"
	cases := []struct {
		from, file, body, class string
		value                   float64
	}{
		{"nvbench", "out/r.json", write, "ok", 2e-6},
		{"nvbench", "out/r.json", "true", "skip", 0}, // though one lies there
		{"nvbench", "out/r.json", "mkdir -p out; echo '{' >out/r.json", "skip", 0},
		{"nvbench", "out/r.json", `mkdir -p out; echo '{"meta":{"version":{"json":{"major":1}}}}' >out/r.json`, "skip", 0},
		{"benchmark", "t.json", fmt.Sprintf(googleBenchmark, false), "ok", 2.5e-4},
		{"benchmark", "t.json", fmt.Sprintf(googleBenchmark, true), "wrong", 0},
		{"benchmark", "t.json", "echo nothing", "skip", 0},
		{"benchmark", "t.json", "echo dead; exit 3", "wrong", 0},
	}
	var commits [][]fixtures.Change
	for _, c := range cases {
		commits = append(commits, append(script(c.body), fixtures.Write("res.json", nvbench), fixtures.Write("samples", string(samples))))
	}
	b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{Run: time.Minute}, commits...)
	for i, c := range cases {
		b.recipe.Sources = []trial.Source{{Metric: "kernel", From: c.from, File: c.file}}
		o := b.test(i, bisect.Searching)
		if string(o.Class) != c.class || strings.Contains(o.Why, b.Config.Dir) {
			t.Errorf("%q: %s", c.body, o.Describe())
		}
		if c.value == 0 {
			continue
		}
		if k := slices.IndexFunc(o.Series, func(s bisect.Series) bool { return s.Metric == "kernel" }); k < 0 || math.Abs(o.Series[k].Values[len(o.Series[k].Values)/2]-c.value) > 1e-9 {
			t.Errorf("%q: series %+v", c.body, o.Series)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(b.Config.Dir, "search", "tree", "out")); len(left) > 0 {
		if _, err := os.Stat(filepath.Join(left[0], "r.json")); err == nil {
			t.Error("old results were left in the tree")
		}
	}
}
