// Package capacity says how many builds a machine can run at a time, by its processors, its memory, and what builds
// that have ended used of both ([Gauge]). It must not know what a build is.
//
// Before one has ended nothing is known: the first two may run, and more follow as long as processors stand idle. A
// build that runs in parallel by itself leaves none idle, so that it is not made sixteen times at once.
package capacity

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc"
)

// Gauge decides whether one more build may begin. Several goroutines may use it.
type Gauge struct {
	jobs   int // builds at a time that the user allows; 0: what the machine bears
	cpus   []int
	memory func() (free, all int64) // bytes

	mu      sync.Mutex
	used    float64 // processors of one build; 0: none has ended
	peak    int64   // bytes of one build, the most so far
	bound   int     // builds at a time, where more have filled the memory; 0: none
	started int     // builds that may run before one has ended
	at      time.Time
	idle    float64 // seconds that the processors had been idle then, together
}

// New returns a gauge for at most jobs builds at a time; 0 leaves the number to the machine.
func New(jobs int) *Gauge { return &Gauge{jobs: jobs, cpus: usable(), memory: proc.Available} }

// Processors are those that builds ahead may use: of four or more, one is left to what was asked for. Nil is
// all of them.
func (g *Gauge) Processors() []int {
	if len(g.cpus) < 4 {
		return nil
	}
	return g.cpus[1:]
}

// Most is how many builds may ever run at a time.
func (g *Gauge) Most() int {
	if g.jobs > 0 {
		return g.jobs
	}
	return max(1, min(len(g.cpus), runtime.GOMAXPROCS(0))) // a group may have a share of the processors only
}

// Learn takes in what a build used: processors on average, and peak bytes. Once everything has been compiled, builds may use
// fewer processors, which is believed bit by bit.
func (g *Gauge) Learn(processors float64, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used, g.peak = max(processors, (g.used+processors)/2), max(g.peak, bytes)
}

// Filled notes that so many builds at a time have filled the memory.
func (g *Gauge) Filled(running int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bound = max(1, running-1)
}

// reserve is the share of the memory that stays free.
const reserve = 10

// Short reports that memory is running out: less than the reserve is free.
func (g *Gauge) Short() bool {
	free, all := g.memory()
	return free < all/reserve
}

// Admits reports whether one more build may begin beside those that run, and beside so many launches.
func (g *Gauge) Admits(running, launches int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if running >= g.limit(launches) {
		return false
	}
	if running+launches == 0 {
		return true
	}
	free, all := g.memory()
	return free-all/reserve > g.peak*int64(running+1) // those that run may still grow
}

// limit is how many builds may run now, as far as processors go. A launch takes one.
func (g *Gauge) limit(launches int) int {
	n := g.Most()
	if g.jobs == 0 {
		n = max(1, n-launches)
	}
	switch {
	case g.jobs > 0:
	case g.used > 0:
		const little = 0.25 // processors that a build may use besides, as long as it uses one
		n = max(1, int(float64(n)/max(1, g.used-little)))
	default:
		n = min(n, g.ramp())
	}
	if g.bound > 0 {
		n = min(n, g.bound)
	}
	return n
}

// ramp is how many builds may run while it is not known what one needs: twice as many after each look that found
// processors idle.
func (g *Gauge) ramp() int {
	const first, between = 2, 150 * time.Millisecond
	now := time.Now()
	switch {
	case g.started == 0:
		g.started, g.at, g.idle = first, now, idleSeconds(g.cpus)
	case now.Sub(g.at) >= between:
		idle := idleSeconds(g.cpus)
		g.started += min(g.started, int((idle-g.idle)/now.Sub(g.at).Seconds()+0.1))
		g.at, g.idle = now, idle
	}
	return g.started
}

// idleSeconds is how long some processors have been idle since the machine was started, together.
func idleSeconds(cpus []int) (sum float64) {
	const ticks = 100 // a second, on every Linux that Go runs on
	data, _ := os.ReadFile("/proc/stat")
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if cpu, err := strconv.Atoi(f[0][len("cpu"):]); err != nil || !slices.Contains(cpus, cpu) {
			continue
		}
		for _, field := range f[4:6] { // idle, and idle while something waits for a disk
			n, _ := strconv.ParseFloat(field, 64)
			sum += n / ticks
		}
	}
	return sum
}

// usable lists the processors that this process may use.
func usable() (out []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for i := range max(1024, runtime.NumCPU()) {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out
}
