package metrics

import (
	"fmt"

	"github.com/kbisect/kbisect/bisect"
)

// Instructions is the one source that not every machine has.
const Instructions = "instructions"

// Used is what the kernel counted in all processes of a launch.
type Used struct {
	CPU          float64 // processor time in user mode and in the kernel, seconds
	Instructions uint64  // executed in user mode, while they were counted

	// Enabled is the processor time of the processes whose instructions are counted, Counted the part of it
	// in which they were, in seconds: less where others had the counter at times.
	Enabled, Counted float64
}

// Plus is what two processes used together.
func (u Used) Plus(v Used) Used {
	return Used{u.CPU + v.CPU, u.Instructions + v.Instructions, u.Enabled + v.Enabled, u.Counted + v.Counted}
}

func readCPU(x Input) (Results, error) {
	return Results{Series: []bisect.Series{{Metric: x.Metric, Unit: "s", Values: []float64{x.Used.CPU}}}}, nil
}

// leastCounted is the share of the time for which instructions must have been counted. What is missing is added in
// proportion, and may be wrong by as much; that has to be less than the change a search looks for.
const leastCounted = 0.999

// readInstructions scales what was counted to the whole time, as perf stat does. Where that would be too much of a
// guess the numbers are unfit for comparison.
func readInstructions(x Input) (r Results, err error) {
	u := x.Used
	if !(u.Counted > 0) || u.Counted < leastCounted*u.Enabled {
		r.Unfit = fmt.Sprintf("its instructions were counted for %.1f of %.1f ms only: other programs use the performance counters, or the processor has two kinds of cores", 1e3*u.Counted, 1e3*u.Enabled)
	}
	if u.Counted > 0 {
		r.Series = []bisect.Series{{Metric: x.Metric, Unit: "1", Values: []float64{float64(u.Instructions) * u.Enabled / u.Counted}}}
	}
	return r, nil
}
