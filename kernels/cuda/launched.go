package cuda

import (
	"cmp"
	"slices"

	"github.com/kbisect/kbisect/bisect/metric"
)

// Launched is a kernel with one grid and one block, as a profiler saw it.
type Launched struct {
	Kernel   string              `json:"kernel"` // mangled from ncu, demangled from a torch profile
	Grid     [3]int              `json:"grid"`   // zero if unknown
	Block    [3]int              `json:"block"`
	Arch     string              `json:"arch"`     // compute capability such as "9.0", or ""
	Launches int                 `json:"launches"` // seen by the profiler
	Metrics  map[string]Measured `json:"metrics"`  // by ncu's names: medians over the launches
}

// Measured is a value with its unit; times are in seconds.
type Measured struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Names of ncu's metrics that other readers fill in too.
const (
	MetricTime      = "gpu__time_duration.sum"
	MetricRegisters = "launch__registers_per_thread"
	MetricStatic    = "launch__shared_mem_per_block_static"
	MetricDynamic   = "launch__shared_mem_per_block_dynamic"
	MetricShared    = "shared_mem_per_block" // static and dynamic together; not a metric of ncu
)

// launchKey identifies a kernel with one configuration.
type launchKey struct {
	kernel      string
	grid, block [3]int
	arch        string
}

// launches groups single launches into Launched, in the order of first appearance.
type launches struct {
	order []launchKey
	count map[launchKey]int
	all   map[launchKey]map[string][]float64
	units map[string]string
}

// maxSamples bounds the values kept of one metric of one kernel, which is enough for a median.
const maxSamples = 1 << 12

// add takes in one launch. Kernels beyond the bound are dropped, so that a hostile report cannot fill the memory.
func (l *launches) add(k launchKey, metrics map[string]Measured) {
	if l.all == nil {
		l.count, l.all, l.units = map[launchKey]int{}, map[launchKey]map[string][]float64{}, map[string]string{}
	}
	if l.all[k] == nil {
		if len(l.order) == maxKernels {
			return
		}
		l.order, l.all[k] = append(l.order, k), map[string][]float64{}
	}
	l.count[k]++
	for name, m := range metrics {
		l.units[name] = m.Unit
		if v := l.all[k][name]; len(v) < maxSamples {
			l.all[k][name] = append(v, m.Value)
		}
	}
}

// launched gives each metric its median, which one slow launch does not move.
func (l *launches) launched() (out []Launched) {
	for _, k := range l.order {
		x := Launched{Kernel: k.kernel, Grid: k.grid, Block: k.block, Arch: k.arch, Launches: l.count[k], Metrics: map[string]Measured{}}
		for name, v := range l.all[k] {
			x.Metrics[name] = Measured{metric.Median(v), l.units[name]}
		}
		out = append(out, x)
	}
	return out
}

// Seconds is the total time of the launches seen, estimated by their median; 0 if unknown.
func (l Launched) Seconds() float64 { return l.Metrics[MetricTime].Value * float64(l.Launches) }

// Threads is the number of threads per block, 0 if unknown.
func (l Launched) Threads() int { return l.Block[0] * max(1, l.Block[1]) * max(1, l.Block[2]) }

// ByTime returns the kernels sorted by total time, the longest first.
func ByTime(all []Launched) []Launched {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b Launched) int { return cmp.Compare(b.Seconds(), a.Seconds()) })
	return out
}
