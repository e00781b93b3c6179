package metrics

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// Source is where numbers of a launch come from: a format of results that a program
// writes to a file, or what the kernel counts.
type Source struct {
	Name    string // metric.from in kbisect.toml
	Counted bool   // by the kernel; else read from a file
	Example string // how to have the file written, for the user
	read    func(x Input) (Results, error)
}

// Input is what a source reads.
type Input struct {
	Metric string // name for the timings, which are in seconds, or for what was counted
	Data   []byte
	Dir    string // root of the candidate, where other files that Data refers to are looked for
	File   string // path of Data from Dir
	Used   Used
}

// Results are what a source gives. Class is OK unless the report itself shows a
// failure; Why is its reason.
type Results struct {
	Series   []bisect.Series
	Class    bisect.Class
	Why      string
	Unfit    string // why the numbers must not be compared with others
	Warnings []string
}

// Sources lists the sources. A new one is a file with its reader and a line here.
func Sources() []Source {
	return []Source{
		{Name: "nvbench", Example: `file = "result.json" with --jsonbin result.json in [run] command`, read: readNVBench},
		{Name: "cpu", Counted: true, read: readCPU},
		{Name: Instructions, Counted: true, read: readInstructions},
		{Name: "benchmark", Example: `file = "bench.json" with --benchmark_out=bench.json (Google Benchmark), --benchmark-json=bench.json (pytest) or --export-json bench.json (hyperfine) in [run] command`, read: readBenchmark},
	}
}

// SourceNames lists the names of the sources, those that the kernel counts or the others.
func SourceNames(counted bool) []string {
	var names []string
	for _, s := range Sources() {
		if s.Counted == counted {
			names = append(names, s.Name)
		}
	}
	return names
}

// Read reads what a source gives.
func Read(source string, x Input) (Results, error) {
	all := Sources()
	i := slices.IndexFunc(all, func(s Source) bool { return s.Name == source })
	if i < 0 {
		return Results{}, fmt.Errorf("unknown source of metrics %q", source)
	}
	r, err := all[i].read(x)
	if r.Class == "" {
		r.Class = bisect.OK
	}
	return r, err
}
