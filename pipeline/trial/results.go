package trial

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/kernels/plainfile"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// Source is a metric that a program does not send but leaves behind, or that the kernel counts.
type Source struct {
	Metric string
	From   string // FromStatic or one of metrics.SourceNames
	File   string // relative to the export; "" if it is not read from a file
}

// FromStatic is the source of metrics of the build, for which nothing need be run.
const FromStatic = "static"

// Counted reports that the kernel counts the metric.
func (x Source) Counted() bool { return slices.Contains(metrics.SourceNames(true), x.From) }

// Check returns why this machine cannot give the metric, and what to do; nil if it can.
func (x Source) Check() error {
	if x.From != metrics.Instructions {
		return nil
	}
	return proc.CanCount()
}

// clearResults removes the results of an earlier trial, which would be taken for those of the next one.
func clearResults(dir string, sources []Source) error {
	in, err := os.OpenRoot(dir) // a candidate may have left links that lead out of it
	if err != nil {
		return &bisect.InfraError{What: "removing old results", Err: err}
	}
	defer in.Close()
	for _, x := range sources {
		if x.File == "" {
			continue
		}
		err := in.RemoveAll(filepath.FromSlash(x.File)) // a build may have left a folder there
		if err != nil && !errors.Is(err, syscall.ENOTDIR) {
			return &bisect.InfraError{What: "removing old results", Err: err}
		}
	}
	return nil
}

// readResults adds to o the results that a trial which ended well has left below dir, and what the kernel counted.
// A trial without the results of a source is a skip, since it cannot be judged.
func readResults(dir string, sources []Source, used metrics.Used, o *bisect.Outcome) {
	for _, x := range sources {
		if o.Class != bisect.OK || x.From == FromStatic {
			return
		}
		if x.Counted() {
			x.count(used, o)
			continue
		}
		data, err := plainfile.Read(filepath.Join(dir, filepath.FromSlash(x.File)), maxProgram)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("the run has not written it")
		}
		if err == nil {
			err = x.read(dir, data, o)
		}
		if err != nil {
			o.Class, o.Why = bisect.Skip, fmt.Sprintf("results of %s (%s): %s", x.From, x.File, strings.ReplaceAll(firstLine(err.Error()), dir+"/", ""))
		}
	}
}

// count adds what the kernel counted, in place of a number of the same name that the program sent.
func (x Source) count(used metrics.Used, o *bisect.Outcome) {
	sent := len(o.Series)
	o.Series = slices.DeleteFunc(slices.Clone(o.Series), func(s bisect.Series) bool { return s.Metric == x.Metric })
	if len(o.Series) < sent {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the program reports a metric %s as well: only what the kernel counted is used", x.Metric))
	}
	r, err := metrics.Read(x.From, metrics.Input{Metric: x.Metric, Used: used})
	if err != nil {
		o.Class, o.Why = bisect.Skip, fmt.Sprintf("metric %s: %v", x.Metric, err)
		return
	}
	o.Series, o.Unfit = append(o.Series, r.Series...), cmp.Or(o.Unfit, r.Unfit)
}

// read adds the results of one source. Its error says why they cannot be used.
func (x Source) read(dir string, data []byte, o *bisect.Outcome) error {
	r, err := metrics.Read(x.From, metrics.Input{Metric: x.Metric, Data: data, Dir: dir, File: x.File})
	o.Warnings = append(o.Warnings, r.Warnings...)
	if err == nil && r.Class != bisect.OK {
		o.Class, o.Why = r.Class, r.Why
	}
	if err == nil && len(r.Series) == 0 && o.Class == bisect.OK {
		err = errors.New("it contains no times")
	}
	o.Series = append(o.Series, r.Series...)
	return err
}
