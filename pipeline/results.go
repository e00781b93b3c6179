package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/kernels/metrics"
)

// Source is a metric that a program does not send but leaves behind.
type Source struct {
	Metric string
	From   string
	File   string // from the root; of FromCutlass "" is the output of the program
}

// Where metrics come from.
const (
	FromNVBench = "nvbench" // a file of results
	FromCutlass = "cutlass" // the table of CUTLASS's profiler
	FromStatic  = "static"  // the build: nothing need be run
)

// Cases are the cases of a metric that count, by metric. Of kernels a part of the name will do, as the
// compiler writes it or as C++ does.
type Cases map[string][]string

// keep leaves out the cases that do not count.
func (c Cases) keep(all []bisect.Series) []bisect.Series {
	return slices.DeleteFunc(all, func(s bisect.Series) bool {
		wanted := c[s.Metric]
		names := kernelNames(s)
		return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(w string) bool {
			return w == s.Case || slices.Contains(cuda.StaticMetrics(), s.Metric) &&
				slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, w) })
		})
	})
}

// kernelNames are the names of a static figure's case, the shortest first: the function, with template
// arguments, with namespaces too, with parameters, and as the compiler writes it. Its architecture, if named,
// follows each.
func kernelNames(s bisect.Series) []string {
	mangled, arch, several := strings.Cut(s.Case, " ")
	base, instance := cuda.BaseName(mangled), cuda.Instance(mangled)
	names := []string{base, base, instance, cuda.Signature(mangled), mangled}
	if i := strings.Index(instance, base+"<"); i >= 0 {
		names[1] = instance[i:]
	}
	for i := range names {
		if several {
			names[i] += " " + arch
		}
	}
	return names
}

// shownTemplate is the longest name with template arguments that is shown where the function's would do, bytes.
const shownTemplate = 64

// shortCases names each kernel by the shortest of its names that no other kernel of the build has: a
// change of a signature is the same kernel, which its mangled name is not. Template arguments are left out
// only where they are long: with them a kernel has the same name in a build that has one more instance.
func shortCases(all []bisect.Series) []bisect.Series {
	type figure struct{ metric, name string }
	names := make([][]string, len(all))
	count := map[figure]int{}
	for i, s := range all {
		names[i] = kernelNames(s)
		if len(names[i][1]) <= shownTemplate {
			names[i] = names[i][1:]
		}
		for _, n := range slices.Compact(slices.Clone(names[i])) {
			count[figure{s.Metric, n}]++
		}
	}
	out := slices.Clone(all)
	for i, s := range all {
		for _, n := range names[i] {
			if count[figure{s.Metric, n}] == 1 {
				out[i].Case = n
				break
			}
		}
	}
	return out
}

// clearResults removes the results of an earlier trial, which would be taken for those of the next.
func (s *slot) clearResults() error {
	for _, x := range s.Sources {
		if x.File == "" {
			continue
		}
		err := os.Remove(filepath.Join(s.dir, filepath.FromSlash(x.File)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &bisect.InfraError{What: "removing old results", Err: err}
		}
	}
	return nil
}

// results reads what a trial that ended well has left behind. A program that leaves no results where it
// should cannot be judged by them.
func (s *slot) results(o *bisect.Outcome) {
	for _, x := range s.Sources {
		if o.Class != bisect.OK || x.From == FromStatic {
			return
		}
		data, name, err := s.resultData(x, o.Log)
		if err == nil {
			err = s.readResults(x, data, o)
		}
		if err != nil {
			o.Class, o.Why = bisect.Skip, fmt.Sprintf("results of %s (%s): %s", x.From, name, strings.ReplaceAll(firstLine(err.Error()), s.dir+"/", ""))
		}
	}
}

// resultData returns the results and what they were read from.
func (s *slot) resultData(x Source, log string) (data []byte, name string, err error) {
	path, name := log, "its output"
	if x.File != "" {
		path, name = filepath.Join(s.dir, filepath.FromSlash(x.File)), x.File
	}
	data, err = readProgram(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("the run has not written it")
	}
	return data, name, err
}

func (s *slot) readResults(x Source, data []byte, o *bisect.Outcome) error {
	var series []bisect.Series
	var err error
	switch x.From {
	case FromNVBench:
		var warnings []string
		series, warnings, err = metrics.NVBench(data, x.Metric, metrics.Sidecars(s.dir, x.File))
		o.Warnings = append(o.Warnings, warnings...)
	case FromCutlass:
		var rows []metrics.CutlassRow
		rows, series, err = metrics.Cutlass(data, x.Metric)
		if class, why := metrics.CutlassClass(rows); err == nil && class != bisect.OK {
			o.Class, o.Why = class, why
		}
	}
	if err == nil && len(series) == 0 && o.Class == bisect.OK {
		err = errors.New("no time stands in them")
	}
	for _, x := range series {
		o.Series = append(o.Series, bisect.Series(x))
	}
	return err
}
