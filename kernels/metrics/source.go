package metrics

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// Source is a format of results that a program writes to a file or prints.
type Source struct {
	Name    string // metric.from in kbisect.toml
	InFile  bool   // never printed: metric.file is required
	Example string // how to have the file written, for the user
	read    func(x input) (Results, error)
}

// input is what a source reads.
type input struct {
	data   []byte
	metric string // name for the timings
	dir    string // root of the candidate
	file   string // path of data from dir; "" for printed output
}

// Results are the content of a report. Class is OK unless the report itself shows a
// failure; Why is its reason.
type Results struct {
	Series   []bisect.Series
	Class    bisect.Class
	Why      string
	Warnings []string
}

// Sources lists the formats. A new one is a file with its reader and a line here.
func Sources() []Source {
	return []Source{
		{Name: "nvbench", InFile: true, Example: `file = "result.json" with --jsonbin result.json in [run] command`, read: readNVBench},
		{Name: "cutlass", Example: `file = "result.gemm.csv" with --output=result.csv in [run] command`, read: readCutlass},
	}
}

// SourceNames lists the names of the formats.
func SourceNames() []string {
	var names []string
	for _, s := range Sources() {
		names = append(names, s.Name)
	}
	return names
}

// Read reads results in the format of a source. Timings become series of metric, in
// seconds. file is the path of data from dir, the root of the candidate, or "" for the
// output of the program; other files that the results refer to are looked for there.
func Read(source string, data []byte, metric, dir, file string) (Results, error) {
	all := Sources()
	i := slices.IndexFunc(all, func(s Source) bool { return s.Name == source })
	if i < 0 {
		return Results{}, fmt.Errorf("unknown source of metrics %q", source)
	}
	r, err := all[i].read(input{data, metric, dir, file})
	if r.Class == "" {
		r.Class = bisect.OK
	}
	return r, err
}
