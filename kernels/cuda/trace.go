package cuda

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// Trace is the work that a PyTorch program gave its device, as torch.profiler recorded it.
type Trace struct {
	Kernels    []Launched `json:"kernels"`
	Copies     int        `json:"copies"` // memcpy and memset
	Captured   int        `json:"captured"`
	Replays    int        `json:"replays"`   // graph launches
	Syncs      int        `json:"syncs"`     // synchronisations of the host with the device
	Allocated  int        `json:"allocated"` // allocations by the driver
	capability map[int]string
}

// maxEvents is the largest number of events read from a trace.
const maxEvents = 4 << 20

// traceEvent is an event in Chrome's trace format.
type traceEvent struct {
	Category string  `json:"cat"`
	Name     string  `json:"name"`
	Duration float64 `json:"dur"` // microseconds
	Args     struct {
		Device    int       `json:"device"`
		Registers *float64  `json:"registers per thread"`
		Shared    *float64  `json:"shared memory"`
		Grid      []float64 `json:"grid"`
		Block     []float64 `json:"block"`
	} `json:"args"`
}

// readTraces combines the traces that torch.profiler exported, one per process of a trial. An
// error comes with what could be read before it.
func readTraces(traces ...io.Reader) (Trace, error) {
	var t Trace
	var all launches
	var first error
	for _, r := range traces {
		if err := t.read(json.NewDecoder(bufio.NewReader(r)), &all); err != nil && first == nil {
			first = fmt.Errorf("trace of torch.profiler: %w", err)
		}
	}
	t.Kernels = all.launched()
	return t, first
}

// OpenTraces reads the traces that torch.profiler exported, one file per process of a trial,
// as one. An error comes with what could be read before it.
func OpenTraces(files []string) (Trace, error) {
	var all []io.Reader
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return Trace{}, err
		}
		defer f.Close()
		all = append(all, f)
	}
	return readTraces(all...)
}

// read decodes one document as a stream, because traces can have hundreds of megabytes.
func (t *Trace) read(d *json.Decoder, all *launches) error {
	if err := opens(d, '{'); err != nil {
		return err
	}
	t.capability = map[int]string{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "traceEvents":
			err = t.events(d, all)
		case "deviceProperties":
			err = t.devices(d)
		default:
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// opens reads an opening bracket or brace.
func opens(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("expected %v, got %v", want, got)
	}
	return err
}

// devices learns the compute capabilities, which come before the events.
func (t *Trace) devices(d *json.Decoder) error {
	var all []struct {
		ID    int `json:"id"`
		Major int `json:"computeMajor"`
		Minor int `json:"computeMinor"`
	}
	err := d.Decode(&all)
	for _, x := range all {
		t.capability[x.ID] = fmt.Sprintf("%d.%d", x.Major, x.Minor)
	}
	return unlessType(err)
}

// unlessType ignores a value of an unexpected type: the rest of the document is still readable.
func unlessType(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return nil
	}
	return err
}

// events reads the events one by one. An event of an unknown form is passed over: profilers add fields.
func (t *Trace) events(d *json.Decoder, all *launches) error {
	if err := opens(d, '['); err != nil {
		return err
	}
	for n := 0; d.More(); n++ {
		var e traceEvent
		if err := unlessType(d.Decode(&e)); err != nil {
			return err
		}
		if n < maxEvents {
			t.event(e, all)
		}
	}
	_, err := d.Token()
	return err
}

// event counts one event by its category, as Kineto names them.
func (t *Trace) event(e traceEvent, all *launches) {
	switch e.Category {
	case "kernel":
		k := launchKey{kernel: protocol.Plain(e.Name, protocol.MaxLine), grid: triple(e.Args.Grid), block: triple(e.Args.Block), arch: t.capability[e.Args.Device]}
		all.add(k, e.metrics())
	case "gpu_memcpy", "gpu_memset":
		t.Copies++
	case "cuda_runtime", "cuda_driver":
		t.call(e.Name)
	}
}

// metrics are what an event says about its kernel. A negative or infinite time does not count.
func (e traceEvent) metrics() map[string]Measured {
	out := map[string]Measured{}
	set := func(name, unit string, v float64) {
		if v >= 0 && !math.IsInf(v, 0) {
			out[name] = Measured{v, unit}
		}
	}
	set(MetricTime, "s", e.Duration/1e6)
	if r := e.Args.Registers; r != nil {
		set(MetricRegisters, "", *r)
	}
	if s := e.Args.Shared; s != nil {
		set(MetricShared, "B", *s)
	}
	return out
}

// call counts a call of the CUDA runtime or driver.
func (t *Trace) call(name string) {
	switch {
	case strings.Contains(name, "StreamEndCapture"):
		t.Captured++
	case strings.Contains(name, "GraphLaunch"):
		t.Replays++
	case strings.Contains(name, "Synchronize"):
		t.Syncs++
	case strings.HasPrefix(name, "cudaMalloc"), strings.HasPrefix(name, "cuMemAlloc"), strings.HasPrefix(name, "cuMemCreate"):
		t.Allocated++
	}
}

// triple reads the dimensions of a grid or a block.
func triple(v []float64) (d [3]int) {
	for i := range min(3, len(v)) {
		if v[i] >= 0 && v[i] <= math.MaxInt32 {
			d[i] = int(v[i])
		}
	}
	return d
}

// Recompile reports whether a log line, written with TORCH_LOGS=recompiles, says that a function
// is compiled again.
func Recompile(line string) bool {
	return strings.Contains(line, "Recompiling function ")
}

// Compiles parses the line with which the Python profiler reports torch.compile:
// "kbisect-profile: frames 3, graphs 2, breaks 1".
func Compiles(line string) (c Compiled, ok bool) {
	rest, ok := strings.CutPrefix(line, "kbisect-profile: ")
	if !ok {
		return c, false
	}
	for part := range strings.SplitSeq(rest, ", ") {
		name, number, _ := strings.Cut(part, " ")
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 31)
		if err != nil {
			return c, false
		}
		switch name {
		case "frames":
			c.Frames = int(n)
		case "graphs":
			c.Graphs = int(n)
		case "breaks":
			c.Breaks = int(n)
		}
	}
	return c, true
}

// Compiled is what torch.compile did in one process.
type Compiled struct{ Frames, Graphs, Breaks int }
