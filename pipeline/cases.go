package pipeline

import (
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Cases are the cases that count, by metric; all cases of other metrics count. For kernels a part of the name will do,
// mangled or as C++ writes it.
type Cases map[string][]string

// keep leaves out the cases that do not count.
func (c Cases) keep(all []bisect.Series) []bisect.Series {
	return slices.DeleteFunc(all, func(s bisect.Series) bool {
		wanted := c[s.Metric]
		names := cuda.Names(s.Case)
		return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(w string) bool {
			return w == s.Case || slices.Contains(cuda.StaticMetrics(), s.Metric) &&
				slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, w) })
		})
	})
}

// addFacts adds what a build has reported to the outcome of a trial, as far as its cases count.
func (n *notices) addFacts(o *bisect.Outcome, cases Cases, f workspace.Facts) {
	n.cases(slices.Concat(o.Series, f.Series), cases)
	o.Series = append(cases.keep(slices.Clone(o.Series)), cuda.ShortCases(cases.keep(slices.Clone(f.Series)))...)
	o.Artefact = f.Artefact
	n.outside(f.Outside)
}
