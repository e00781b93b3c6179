package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/kernels/cuda"
)

// kernelView is what is known about one kernel of one side. Each source may be missing: usage and code are nil
// without a look at the build, ncu and trace are empty without a profiler. Numbers that are not known are NaN.
type kernelView struct {
	name   string // demangled; without parameters if that is unique, see withoutParameters
	usage  *cuda.Usage
	spills bool // the compiler reported spills
	code   *cuda.Function
	ncu    []cuda.Launched // one per grid and block, the one that took the most time first
	trace  []cuda.Launched // likewise
	device string          // compute capability, such as 9.0; "" if unknown
}

// kernelPair is a kernel of A and the same kernel of B. One of them may be [nowhere], but neither is nil.
type kernelPair struct {
	name string
	a, b *kernelView
	time float64 // share of the time on the device, NaN if nothing is known
}

// nowhere stands for a kernel that a side does not have: all of its numbers are unknown.
var nowhere = &kernelView{}

// views joins, by demangled name, what the compiler, the tools and the profilers say about the kernels of one side.
// A binary may hold code for several architectures; only the one that the device runs counts. device is its compute
// capability or "" for what a profiler reported.
func (s *examined) views(device string) []*kernelView {
	if device == "" {
		device = s.capability()
	}
	arch := s.arch(device)
	var all []*kernelView
	view := func(name string) *kernelView {
		name = cuda.Signature(name)
		i := slices.IndexFunc(all, func(v *kernelView) bool { return v.name == name })
		if i < 0 {
			i, all = len(all), append(all, &kernelView{name: name, spills: s.spills, device: cmp.Or(device, capabilityOf(arch))})
		}
		return all[i]
	}
	for i, u := range s.usage {
		if u.Arch == arch {
			view(u.Kernel).usage = &s.usage[i]
		}
	}
	for i, f := range s.sass {
		if f.Arch == arch {
			view(f.Name).code = &s.sass[i]
		}
	}
	for _, l := range cuda.ByTime(s.launched) {
		v := view(l.Kernel)
		v.ncu = append(v.ncu, l)
	}
	if s.trace != nil {
		for _, l := range cuda.ByTime(s.trace.Kernels) {
			v := view(l.Kernel)
			v.trace = append(v.trace, l)
		}
	}
	return all
}

// capability is the compute capability of the device, such as 9.0, as a profiler reported it; "" if none did. ncu is
// asked before the trace.
func (s *examined) capability() string {
	for _, l := range s.launched {
		if l.Arch != "" {
			return l.Arch
		}
	}
	if s.trace != nil && len(s.trace.Kernels) > 0 {
		return s.trace.Kernels[0].Arch
	}
	return ""
}

// arch is the architecture whose code a device runs: the newest that is not newer than the device. Without a device
// it is the newest of all, and the oldest if all are newer than the device. Names of the same capability (sm_90,
// sm_90a) go by their letters.
func (s *examined) arch(device string) string {
	var all []string
	for _, u := range s.usage {
		all = append(all, u.Arch)
	}
	for _, f := range s.sass {
		all = append(all, f.Arch)
	}
	number := func(capability string) float64 {
		v := math.Inf(1)
		fmt.Sscanf(capability, "%g", &v)
		return v
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(number(capabilityOf(a)), number(capabilityOf(b))), strings.Compare(a, b))
	})
	best := ""
	for _, a := range all {
		if best == "" || number(capabilityOf(a)) <= number(device) {
			best = a
		}
	}
	return best
}

// capabilityOf is the compute capability of an architecture: 9.0 for sm_90a, 12.0 for sm_120; "" for anything else.
func capabilityOf(arch string) string {
	digits := strings.TrimRight(strings.TrimPrefix(arch, "sm_"), "abcdefghijklmnopqrstuvwxyz")
	if len(digits) < 2 {
		return ""
	}
	return digits[:len(digits)-1] + "." + digits[len(digits)-1:]
}

// withoutParameters removes the parameters from the names of kernels, so that a change of the signature does not
// look like a new kernel; but not if two kernels of a side would then have the same name. It changes the views.
func withoutParameters(sides ...[]*kernelView) {
	shared := map[string]bool{}
	for _, all := range sides {
		seen := map[string]bool{}
		for _, v := range all {
			name := cuda.Instance(v.name)
			shared[name] = shared[name] || seen[name]
			seen[name] = true
		}
	}
	for _, all := range sides {
		for _, v := range all {
			if name := cuda.Instance(v.name); !shared[name] {
				v.name = name
			}
		}
	}
}

// pairKernels pairs the kernels of A and B by name. A kernel left over is paired by the name of its function if that
// name is left over exactly once on each side, since a change of template arguments renames a kernel. Every kernel is
// in exactly one pair; the pair that takes the most time comes first. gone and added are the names of the kernels of A
// and of B without a partner.
func pairKernels(a, b []*kernelView) (pairs []kernelPair, gone, added []string) {
	withoutParameters(a, b)
	names := func(all []*kernelView) (out []string) {
		for _, v := range all {
			out = append(out, v.name)
		}
		return out
	}
	rest, partner := map[string]*kernelView{}, map[string]string{}
	for _, v := range b {
		rest[v.name], partner[v.name] = v, v.name
	}
	for _, p := range metric.Renamed(names(a), names(b), cuda.BaseName) {
		partner[p[0]] = p[1]
	}
	for _, v := range a {
		other := rest[partner[v.name]]
		switch {
		case other == nil:
			gone = append(gone, v.name)
			pairs = append(pairs, kernelPair{name: v.name, a: v, b: nowhere})
			continue
		case other.name == v.name:
			pairs = append(pairs, kernelPair{name: v.name, a: v, b: other})
		default:
			pairs = append(pairs, kernelPair{name: cuda.BaseName(v.name), a: v, b: other})
		}
		delete(rest, other.name)
	}
	for _, v := range b {
		if rest[v.name] != nil {
			added = append(added, v.name)
			pairs = append(pairs, kernelPair{name: v.name, a: nowhere, b: v})
		}
	}
	shares(pairs)
	return pairs, gone, added
}

// shares sets each kernel's share of the device time, 0 to 1, on the side where it is larger, and sorts by it; NaN
// if no side has times. Of equal ones, kernels that both sides have come first.
func shares(pairs []kernelPair) {
	side := func(of func(kernelPair) *kernelView) (total float64, times []float64) {
		for _, p := range pairs {
			t := of(p).seconds()
			times, total = append(times, t), total+t
		}
		return total, times
	}
	totalA, timesA := side(func(p kernelPair) *kernelView { return p.a })
	totalB, timesB := side(func(p kernelPair) *kernelView { return p.b })
	for i := range pairs {
		pairs[i].time = math.NaN()
		if totalA > 0 || totalB > 0 {
			pairs[i].time = max(timesA[i]/max(totalA, 1e-12), timesB[i]/max(totalB, 1e-12))
		}
	}
	slices.SortStableFunc(pairs, func(x, y kernelPair) int {
		if c := cmp.Compare(zeroNaN(y.time), zeroNaN(x.time)); c != 0 {
			return c
		}
		switch both := x.a != nowhere && x.b != nowhere; {
		case both == (y.a != nowhere && y.b != nowhere):
			return 0
		case both:
			return -1
		}
		return 1
	})
}

// zeroNaN is v, or 0 if it is unknown: NaN compares with nothing and would leave a sorted list in any order.
func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// seconds is the device time of a kernel in seconds: of all its launches if there is a trace, else of one launch
// per grid and block as ncu measured it.
func (v *kernelView) seconds() (sum float64) {
	for _, l := range v.trace {
		sum += l.Seconds()
	}
	if len(v.trace) == 0 {
		for _, l := range v.ncu {
			sum += l.Metrics[cuda.MetricTime].Value
		}
	}
	return sum
}

// metric is a metric of ncu, in ncu's unit, for the grid and block that took the most time; NaN if unknown. Averages
// over different grids would describe none of them.
func (v *kernelView) metric(name string) float64 { return metricOf(name, v.ncu) }

// metricOf is a metric of the first of the launches, which are sorted by time; NaN if unknown.
func metricOf(name string, launched []cuda.Launched) float64 {
	if len(launched) > 0 {
		if m, ok := launched[0].Metrics[name]; ok {
			return m.Value
		}
	}
	return math.NaN()
}

// figure is the first of the values that is known, NaN if none is. Callers list the more exact source first.
func figure(values ...float64) float64 {
	for _, v := range values {
		if !math.IsNaN(v) {
			return v
		}
	}
	return math.NaN()
}

// static is a figure that the compiler reported; NaN if it did not.
func (v *kernelView) static(of func(*cuda.Usage) int) float64 {
	if v.usage == nil {
		return math.NaN()
	}
	return float64(of(v.usage))
}

// registers are the registers of a thread by source, in this order: ncu, compiler, trace. Unknown ones are NaN, so
// that the same index means the same source on both sides; see sameSource.
func (v *kernelView) registers() []float64 {
	return []float64{v.metric(cuda.MetricRegisters), v.static(func(u *cuda.Usage) int { return u.Registers }), metricOf(cuda.MetricRegisters, v.trace)}
}

// staticShared is the static shared memory in bytes by source: ncu, compiler. A trace counts static and dynamic memory
// together, so it is not a source of either.
func (v *kernelView) staticShared() []float64 {
	return []float64{v.metric(cuda.MetricStatic), v.static(func(u *cuda.Usage) int { return u.Shared })}
}

// dynamicShared is the dynamic shared memory in bytes: by ncu, or else what a trace, which counts both, has beyond
// the static.
func (v *kernelView) dynamicShared() float64 {
	beyond := metricOf(cuda.MetricShared, v.trace) - figure(v.staticShared()...)
	return figure(v.metric(cuda.MetricDynamic), max(0, beyond))
}

// spilt is a figure about spills in bytes. Without a report of the compiler it is NaN: a cubin does not say, and 0
// would be a guess.
func (v *kernelView) spilt(of func(*cuda.Usage) int) float64 {
	if !v.spills {
		return math.NaN()
	}
	return v.static(of)
}

// launchedLike are the launches that show grid and block: of a trace, which has all of them, or else of ncu.
func (v *kernelView) launchedLike() []cuda.Launched {
	if len(v.trace) > 0 {
		return v.trace
	}
	return v.ncu
}

// occupancy is the theoretical occupancy in percent and what limits it: as ncu says, or else computed from
// registers, shared memory and threads of the longest launch; NaN if one of them is unknown.
func (v *kernelView) occupancy() (share float64, limit string) {
	l := v.launchedLike()
	if len(l) == 0 {
		return math.NaN(), ""
	}
	if len(v.ncu) > 0 {
		if o, ok := cuda.OccupancyOf(v.ncu[0]); ok {
			return 100 * o.Share, o.Limit
		}
	}
	shared := figure(figure(v.staticShared()...)+v.dynamicShared(), metricOf(cuda.MetricShared, v.trace))
	registers := figure(v.registers()...)
	if math.IsNaN(shared) || math.IsNaN(registers) {
		return math.NaN(), ""
	}
	o, ok := cuda.Occupy(v.device, int(registers), int(shared), l[0].Threads())
	if !ok {
		return math.NaN(), ""
	}
	return 100 * o.Share, o.Limit
}

// configs lists the grids or blocks of a kernel, "X x Y x Z", the one that took the most time first; at most two and
// how many more there are. of selects grid or block.
func (v *kernelView) configs(of func(cuda.Launched) [3]int) string {
	var out []string
	for _, l := range v.launchedLike() {
		d := of(l)
		if text := fmt.Sprintf("%d x %d x %d", d[0], d[1], d[2]); d[0] > 0 && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if n := len(out); n > 2 {
		out = append(out[:2], fmt.Sprintf("%d more", n-2))
	}
	return strings.Join(out, ", ")
}
