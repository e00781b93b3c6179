package ci

import (
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Benchmark is a value of HEAD as github-action-benchmark takes it: an array of them is a file for its
// tools customSmallerIsBetter and customBiggerIsBetter.
type Benchmark struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Range string  `json:"range,omitempty"`
	Extra string  `json:"extra,omitempty"`
}

// Benchmarks are the medians of HEAD, those of which less is better apart from the others. A number has the
// same unit in every file, however large it is: the chart that it goes into has only one.
func Benchmarks(g *report.Gate) (smaller, bigger []Benchmark) {
	smaller, bigger = []Benchmark{}, []Benchmark{}
	for _, x := range g.Contrasts {
		if !x.B.Median.Known() {
			continue
		}
		scale, unit := chartUnit(x)
		b := Benchmark{
			Name: x.Name(), Unit: unit, Value: float64(x.B.Median) * scale,
			Extra: fmt.Sprintf("merge base %s: %.6g %s\nchange: %s\n%s: %d launches", words.Short(g.Base.Commit), float64(x.A.Median)*scale, unit, x.Change(g.ErrorRate), x.Word(), x.B.N),
		}
		if x.B.Low.Known() && x.B.High.Known() {
			b.Range = fmt.Sprintf("± %.4g", float64(x.B.High-x.B.Low)/2*scale)
		}
		if x.Higher {
			bigger = append(bigger, b)
		} else {
			smaller = append(smaller, b)
		}
	}
	return smaller, bigger
}

// chartUnit is the unit of a number in charts, and the factor that leads to it: seconds of a kernel are shown in
// microseconds, whole runs and phases in seconds.
func chartUnit(c report.Contrast) (scale float64, unit string) {
	whole := c.Metric == "wall" || strings.HasPrefix(c.Metric, "phase.")
	switch {
	case c.Unit == "s" && !whole:
		return 1e6, "us"
	case c.Unit == "":
		return 1, "count"
	}
	return 1, c.Unit
}
