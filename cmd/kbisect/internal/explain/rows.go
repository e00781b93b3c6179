package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/figures"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/kernels/cuda"
)

// The groups of an explanation, as its JSON names them.
const (
	groupPhases       = "phases"
	groupMetrics      = "metrics"
	groupKernels      = "kernels"
	groupResources    = "resources"
	groupInstructions = "instructions"
	groupProfiler     = "profiler"
)

// explanation puts what is known of both sides into rows. Unknown numbers are NaN; rows without any are left out.
func (x *explainer) explanation() report.Explanation {
	a, b := &x.sides[0], &x.sides[1]
	e := report.Explanation{
		Schema: report.ExplanationSchema, Result: explained, Added: []string{}, Gone: []string{}, Builds: []report.BuildEnd{},
		Profilers: append([]string{}, x.seen...), Missing: append([]string{}, x.missing...), Devices: []string{}, Warnings: []string{},
	}
	e.Rows = append(x.phaseRows(), programRows(a, b)...)
	device := capability(x)
	pairs, gone, added := pairKernels(a.views(device), b.views(device))
	if a.looked() && b.looked() { // otherwise all kernels of the other side would seem added or gone
		e.Gone, e.Added = append(e.Gone, gone...), append(e.Added, added...)
		for _, p := range pairs {
			e.Rows = append(e.Rows, p.rows()...)
		}
	}
	for k, s := range []*examined{a, b} {
		if s.build.Class != "" || s.failed() != nil {
			e.Result = partly
		}
		if f := s.buildFailure(); f != nil {
			e.Builds = append(e.Builds, report.BuildEnd{Side: string(rune('A' + k)), Failure: report.NewFailure(f), Seconds: f.Build, Tail: f.Tail})
		}
	}
	e.Rank(x.about)
	return e
}

// looked reports whether anything is known about the kernels of a side. A trace alone is enough, even if it is empty:
// it then shows that no kernel was launched.
func (s *examined) looked() bool {
	return s.build.Class == "" && len(s.usage)+len(s.sass)+len(s.launched) > 0 || s.trace != nil
}

// buildFailure is how the build failed; nil if it did not.
func (s *examined) buildFailure() *bisect.Outcome {
	if s.build.Class != "" && s.build.Phase == "build" {
		return &s.build
	}
	if o := s.failed(); o != nil && o.Phase == "build" {
		return o
	}
	return nil
}

// capability is the compute capability of the device that launches run on; "" without one.
func capability(x *explainer) string {
	if x.session.Devices == nil || len(x.session.Devices.Watches) == 0 {
		return ""
	}
	return x.session.Devices.Watches[0].Device().ComputeCapability
}

// Changes that are taken for noise. All are relative (0.10 is 10 %) except phaseLeast, in seconds.
const (
	phaseNoise   = 0.10
	onceNoise    = 0.25 // of phases that were launched once or twice
	phaseLeast   = 0.05
	metricNoise  = 0.02
	profileNoise = 0.03
)

// phaseRows are how launches ended, the times of their phases in seconds, and the numbers that the program sends.
func (x *explainer) phaseRows() (rows []figures.Row) {
	a, b := x.sides[0].outcomes, x.sides[1].outcomes
	ends := func(all []bisect.Outcome) string {
		for _, o := range all {
			if o.Class != bisect.OK {
				return o.Describe()
			}
		}
		if len(all) == 0 {
			return ""
		}
		return "ok"
	}
	if ea, eb := ends(a), ends(b); ea != eb {
		r := figures.Texts(groupPhases, "", "a launch ends", figures.SortNone, ea, eb)
		rows = append(rows, r)
	}
	whole, timesA, timesB := max(longest(a), longest(b)), session.PhaseTimes(a), session.PhaseTimes(b)
	add := func(name string, of func(report.PhaseTimes) report.Summary, phase string) {
		sa, sb := PhaseOf(timesA, phase, of), PhaseOf(timesB, phase, of)
		r := figures.Numbers(groupPhases, "", name, "s", figures.SortPhase, float64(sa.Median), float64(sb.Median))
		r.Key, r.Noise = true, max(phaseNoise, wide(sa), wide(sb))
		if name == phase {
			r.Metric = "phase." + phase
		}
		r.Whole = report.Number(whole) // a phase matters by its share of a launch
		if sa.N < 3 || sb.N < 3 {      // one or two launches do not show how much they vary
			r.Noise = onceNoise
		}
		if sa.N > 0 && sb.N > 0 && math.Abs(float64(sa.Median-sb.Median)) < phaseLeast {
			r.Sort = figures.SortNone
		}
		if sa.N > 0 || sb.N > 0 {
			rows = append(rows, r)
		}
	}
	for _, name := range PhasesOf(a, b) {
		add(name+", empty caches", func(p report.PhaseTimes) report.Summary { return p.Cold }, name)
		add(name, func(p report.PhaseTimes) report.Summary { return p.Times }, name)
	}
	return append(rows, x.metricRows()...)
}

// longest is the time in seconds of the longest launch, with its build; 0 without launches.
func longest(all []bisect.Outcome) (most float64) {
	for _, o := range all {
		most = max(most, o.Build+o.Wall)
	}
	return most
}

// PhasesOf lists the phases of the launches of both sides, in order of first appearance.
func PhasesOf(a, b []bisect.Outcome) (names []string) {
	for _, p := range session.PhaseTimes(slices.Concat(a, b)) {
		names = append(names, p.Phase)
	}
	return names
}

// PhaseOf is the summary of one phase in seconds; of selects the launches with empty or with warm caches. For a
// phase that never ran it is a summary of no launches.
func PhaseOf(all []report.PhaseTimes, phase string, of func(report.PhaseTimes) report.Summary) report.Summary {
	for _, p := range all {
		if p.Phase == phase {
			return of(p)
		}
	}
	return compare.Describe(nil)
}

// wide is the relative spread from the smallest to the largest value (0.1 is 10 %): an estimate of noise from very few
// launches; 0 if there are fewer than two.
func wide(s report.Summary) float64 {
	if s.N < 2 || s.Min <= 0 {
		return 0
	}
	return float64(s.Max/s.Min) - 1
}

// metricRows are the metrics that the program sends, from launches that ended well and undisturbed. Exact metrics
// of the build are left out if the rows of the kernels show them.
func (x *explainer) metricRows() (rows []figures.Row) {
	t := x.session
	fit := func(all []bisect.Outcome) []bisect.Outcome {
		return slices.DeleteFunc(slices.Clone(all), func(o bisect.Outcome) bool { return o.Class != bisect.OK || o.Unfit != "" })
	}
	a, b := fit(x.sides[0].outcomes), fit(x.sides[1].outcomes)
	ofA, ofB := session.ByNumber(a), session.ByNumber(b)
	compiled := len(x.sides[0].usage) > 0 && len(x.sides[1].usage) > 0
	for _, n := range session.Numbers(slices.Concat(a, b), "") {
		if compiled && x.session.Policy.Metric(n.Metric).Exact {
			continue // the rows of the kernels show it
		}
		ma, mb := session.MetricSummary(t, ofA(n), n), session.MetricSummary(t, ofB(n), n)
		name := n.Metric
		if n.One != "" {
			name += " of " + n.One
		}
		sort := figures.SortTime
		if ma.Better == string(metric.Higher) {
			sort = figures.SortUse
		}
		r := figures.Numbers(groupMetrics, "", name, cmp.Or(ma.Unit, mb.Unit), sort, float64(ma.Values.Median), float64(mb.Values.Median))
		r.Key, r.Noise = true, max(metricNoise, wide(ma.Values), wide(mb.Values))
		r.Metric, r.Case, r.Better = n.Metric, n.One, cmp.Or(ma.Better, mb.Better)
		rows = append(rows, r)
	}
	return rows
}

// programRows are what the program as a whole did on its device: kernels, copies, graphs, compilations. Only what
// is known of both sides is shown.
func programRows(a, b *examined) (rows []figures.Row) {
	add := func(name string, sort figures.Sort, known func(*examined) bool, of func(*examined) int) {
		values := [2]float64{math.NaN(), math.NaN()}
		for i, s := range []*examined{a, b} {
			if known(s) {
				values[i] = float64(of(s))
			}
		}
		r := figures.Numbers(groupKernels, "", name, "", sort, values[0], values[1])
		if r.A.Known() && r.B.Known() && (r.A != 0 || r.B != 0) {
			r.Key = true
			rows = append(rows, r)
		}
	}
	built := func(s *examined) bool { return len(s.usage) > 0 }
	traced := func(s *examined) bool { return s.trace != nil }
	add("kernels in what was built", figures.SortNone, built, func(s *examined) int { return len(s.usage) })
	add("different kernels launched", figures.SortLaunches, traced, func(s *examined) int {
		names := map[string]bool{}
		for _, l := range s.trace.Kernels {
			names[l.Kernel] = true
		}
		return len(names)
	})
	add("kernels launched", figures.SortLaunches, traced, func(s *examined) int { return launchesOf(s.trace.Kernels) })
	add("copies and memsets", figures.SortLaunches, traced, func(s *examined) int { return s.trace.Copies })
	add("graphs captured", figures.SortGraphs, traced, func(s *examined) int { return s.trace.Captured })
	add("graph launches", figures.SortGraphs, traced, func(s *examined) int { return s.trace.Replays })
	add("waits of the host for the device", figures.SortLaunches, traced, func(s *examined) int { return s.trace.Syncs })
	add("calls for device memory", figures.SortNone, traced, func(s *examined) int { return s.trace.Allocated })
	// Compilations are counted in the traced launch: without a trace their number is unknown, and not 0.
	add("functions compiled by torch", figures.SortCompiles, traced, func(s *examined) int { return s.compiled.Frames })
	add("graphs compiled by torch", figures.SortCompiles, traced, func(s *examined) int { return s.compiled.Graphs })
	add("recompilations by torch", figures.SortCompiles, traced, func(s *examined) int { return s.recompiled })
	add("graph breaks of torch", figures.SortCompiles, traced, func(s *examined) int { return s.compiled.Breaks })
	return rows
}

// launchesOf adds up how often the kernels were launched: an entry stands for all launches with one grid and block.
func launchesOf(all []cuda.Launched) (n int) {
	for _, l := range all {
		n += l.Launches
	}
	return n
}

// rows are all known figures of one kernel, each with the kernel's share of the device time.
func (p kernelPair) rows() []figures.Row {
	rows := slices.Concat(p.launchRows(), p.resourceRows(), p.instructionRows(), p.profilerRows())
	rows = slices.DeleteFunc(rows, func(r figures.Row) bool {
		return !r.A.Known() && !r.B.Known() && r.TextA == "" && r.TextB == ""
	})
	for i := range rows {
		rows[i].Share = report.Number(p.time)
	}
	return rows
}

// number makes a row of one figure on both sides; of takes it from a view, and gives NaN if it is unknown.
func (p kernelPair) number(group, name, unit string, sort figures.Sort, of func(*kernelView) float64) figures.Row {
	return figures.Numbers(group, p.name, name, unit, sort, of(p.a), of(p.b))
}

// sameSource makes a row of a figure that several sources report, from the first source that both sides have. The
// driver rounds registers up and adds shared memory of its own, so that a profiler's figure does not compare with
// the compiler's.
func (p kernelPair) sameSource(name, unit string, sort figures.Sort, of func(*kernelView) []float64) figures.Row {
	a, b := of(p.a), of(p.b)
	for i := range min(len(a), len(b)) {
		if !math.IsNaN(a[i]) && !math.IsNaN(b[i]) {
			return figures.Numbers(groupResources, p.name, name, unit, sort, a[i], b[i])
		}
	}
	return figures.Numbers(groupResources, p.name, name, unit, sort, figure(a...), figure(b...))
}

// launchRows are how often and with which grid and block a kernel was launched, and how long that took, from a
// trace.
func (p kernelPair) launchRows() (rows []figures.Row) {
	if p.a.name != p.b.name {
		r := figures.Texts(groupKernels, p.name, "name", figures.SortConfig, p.a.name, p.b.name)
		rows = append(rows, r)
	}
	traced := func(of func([]cuda.Launched) float64) func(*kernelView) float64 {
		return func(v *kernelView) float64 {
			if len(v.trace) == 0 {
				return math.NaN()
			}
			return of(v.trace)
		}
	}
	launches := p.number(groupKernels, "launches", "", figures.SortLaunches, traced(func(l []cuda.Launched) float64 { return float64(launchesOf(l)) }))
	one := p.number(groupKernels, "time of a launch", "s", figures.SortTime, traced(func(l []cuda.Launched) float64 { return metricOf(cuda.MetricTime, l) }))
	all := p.number(groupKernels, "time of all launches", "s", figures.SortTime, traced(func(l []cuda.Launched) float64 { return (&kernelView{trace: l}).seconds() }))
	one.Noise, all.Noise = profileNoise, profileNoise
	launches.Key, one.Key = true, true
	rows = append(rows, launches, one, all)
	for _, c := range []struct {
		name string
		of   func(cuda.Launched) [3]int
	}{{"grid", func(l cuda.Launched) [3]int { return l.Grid }}, {"block", func(l cuda.Launched) [3]int { return l.Block }}} {
		r := figures.Texts(groupKernels, p.name, c.name, figures.SortConfig, p.a.configs(c.of), p.b.configs(c.of))
		r.Key = true
		rows = append(rows, r)
	}
	return rows
}

// resourceRows are what a kernel occupies on a multiprocessor (memory in bytes), and the occupancy that follows, in
// percent, with the resource that limits it.
func (p kernelPair) resourceRows() []figures.Row {
	key := func(r figures.Row) figures.Row {
		r.Key = true
		return r
	}
	usage := func(of func(*cuda.Usage) int) func(*kernelView) float64 {
		return func(v *kernelView) float64 { return v.spilt(of) }
	}
	occupancyA, limitA := p.a.occupancy()
	occupancyB, limitB := p.b.occupancy()
	return []figures.Row{
		key(p.sameSource("registers per thread", "", figures.SortRegisters, (*kernelView).registers)),
		key(p.number(groupResources, "spill stores", "B", figures.SortSpills, usage(func(u *cuda.Usage) int { return u.SpillStores }))),
		key(p.number(groupResources, "spill loads", "B", figures.SortSpills, usage(func(u *cuda.Usage) int { return u.SpillLoads }))),
		p.number(groupResources, "stack", "B", figures.SortSpills, func(v *kernelView) float64 { return v.static(func(u *cuda.Usage) int { return u.Stack }) }),
		key(p.sameSource("static shared memory", "B", figures.SortShared, (*kernelView).staticShared)),
		key(p.number(groupResources, "dynamic shared memory", "B", figures.SortShared, (*kernelView).dynamicShared)),
		key(figures.Numbers(groupResources, p.name, "occupancy, theoretical", "%", figures.SortOccupancy, occupancyA, occupancyB)),
		key(figures.Texts(groupResources, p.name, "limited by", figures.SortLimit, limitA, limitB)),
		p.number(groupResources, "waves per multiprocessor", "", figures.SortNone, func(v *kernelView) float64 { return v.metric("launch__waves_per_multiprocessor") }),
	}
}

// opcodesShown is how many of the changed opcodes a row lists.
const opcodesShown = 6

// instructionRows compare the machine code: number and mix of instructions, and which opcodes changed most in number.
// Equal digests mean equal code. All are counts of what was built, not of what was executed. There are no rows if
// neither side has code.
func (p kernelPair) instructionRows() []figures.Row {
	code := func(v *kernelView) cuda.Function {
		if v.code == nil {
			return cuda.Function{}
		}
		return *v.code
	}
	a, b := code(p.a), code(p.b)
	if a.Digest == "" && b.Digest == "" {
		return nil
	}
	known := func(f cuda.Function, n int) float64 {
		if f.Digest == "" {
			return math.NaN()
		}
		return float64(n)
	}
	total := figures.Numbers(groupInstructions, p.name, "instructions", "", figures.SortInstructions, known(a, a.Instructions), known(b, b.Instructions))
	same := figures.Texts(groupInstructions, p.name, "machine code", figures.SortNone, a.Digest[:min(8, len(a.Digest))], b.Digest[:min(8, len(b.Digest))])
	total.Key, same.Key = true, true
	rows := []figures.Row{total, same}
	before, after := cuda.Mix(a), cuda.Mix(b)
	for i := range before {
		r := figures.Numbers(groupInstructions, p.name, before[i].Name+" instructions", "", figures.SortMix, known(a, before[i].N), known(b, after[i].N))
		r.Whole = report.Number(max(a.Instructions, b.Instructions))
		if before[i].N+after[i].N > 0 {
			rows = append(rows, r)
		}
	}
	if a.Digest == "" || b.Digest == "" || a.Digest == b.Digest {
		return rows
	}
	var changes []string
	for _, c := range cuda.Opcodes(a, b) {
		if len(changes) < opcodesShown {
			changes = append(changes, fmt.Sprintf("%+d %s", c.Change, c.Opcode))
		}
	}
	if len(changes) > 0 {
		r := figures.Texts(groupInstructions, p.name, "opcodes that moved most", figures.SortNone, "", strings.Join(changes, ", "))
		r.Key = true
		rows = append(rows, r)
	}
	return rows
}

// profilerRows are the metrics of ncu, each with the relative change that is taken for noise (0.02 is 2 %). They are of
// the launch configuration that took the most time.
func (p kernelPair) profilerRows() (rows []figures.Row) {
	const peak, active = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
	for _, m := range []struct {
		name, metric, unit string
		sort               figures.Sort
		noise              float64
	}{
		{"time of a launch, caches flushed", cuda.MetricTime, "s", figures.SortTime, profileNoise},
		{"warps active (achieved occupancy)", "sm__warps_active" + active, "%", figures.SortOccupancy, 0.02},
		{"tensor pipe", "sm__pipe_tensor_cycles_active" + active, "%", figures.SortUse, 0.02},
		{"tensor instructions executed", "sm__inst_executed_pipe_tensor.sum", "", figures.SortMix, 0.002}, // counted, not sampled
		{"multiprocessor throughput", "sm__throughput" + peak, "%", figures.SortUse, 0.02},
		{"DRAM throughput", "dram__throughput" + peak, "%", figures.SortUse, 0.02},
		{"DRAM read", "dram__bytes_read.sum", "B", figures.SortTraffic, 0.05},
		{"DRAM written", "dram__bytes_write.sum", "B", figures.SortTraffic, 0.05},
		{"L2 throughput", "lts__throughput" + peak, "%", figures.SortUse, 0.02},
		{"L2 hit rate", "lts__t_sector_hit_rate.pct", "%", figures.SortUse, 0.02},
	} {
		r := p.number(groupProfiler, m.name, m.unit, m.sort, func(v *kernelView) float64 { return v.metric(m.metric) })
		r.Key, r.Noise = true, m.noise
		if m.sort == figures.SortTraffic {
			r.Whole = max(r.A, r.B, 1<<20)
		}
		rows = append(rows, r)
	}
	return append(rows, p.stallRows()...)
}

// stallRows are the reasons for which warps wait, as ncu's ratio: warps stalled for that reason per issued
// instruction. Reasons below 5 % of the sum are left out.
func (p kernelPair) stallRows() (rows []figures.Row) {
	const before, after = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
	var names []string
	whole := 0.0
	for _, v := range []*kernelView{p.a, p.b} {
		sum := 0.0
		if len(v.ncu) > 0 {
			for name, m := range v.ncu[0].Metrics {
				if reason, ok := strings.CutPrefix(name, before); ok {
					names, sum = append(names, strings.TrimSuffix(reason, after)), sum+m.Value
				}
			}
		}
		whole = max(whole, sum)
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		r := p.number(groupProfiler, "stalled: "+strings.ReplaceAll(n, "_", " "), "", figures.SortStalls, func(v *kernelView) float64 { return v.metric(before + n + after) })
		r.Whole = report.Number(whole)
		if max(zeroNaN(float64(r.A)), zeroNaN(float64(r.B))) >= whole/20 {
			rows = append(rows, r)
		}
	}
	return rows
}
