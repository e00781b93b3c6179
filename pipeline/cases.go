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
		names := kernelNames(s)
		return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(w string) bool {
			return w == s.Case || slices.Contains(cuda.StaticMetrics(), s.Metric) &&
				slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, w) })
		})
	})
}

// kernelNames are the names of a static figure's case, shortest first: the function, with template arguments, with
// namespaces too, with parameters, and as the compiler writes it. Its architecture, if it has one, follows each.
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

// shortCases names each kernel by the shortest of its names that no other kernel of the build has: after a change
// of its signature it is the same kernel, though not under its mangled name. Only long template arguments are left
// out: with them, a kernel has the same name in a build with one more instance.
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

// addFacts adds what a build has reported to the outcome of a trial, as far as its cases count.
func (n *notices) addFacts(o *bisect.Outcome, cases Cases, f workspace.Facts) {
	n.cases(slices.Concat(o.Series, f.Series), cases)
	o.Series = append(cases.keep(slices.Clone(o.Series)), shortCases(cases.keep(slices.Clone(f.Series)))...)
	o.Artefact = f.Artefact
	n.outside(f.Outside)
}
