package pipeline

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// What two readings say of a launch: whether its times count, who else was there, and what is wrong with the machine.
func TestDeviceState(t *testing.T) {
	mine := []gpu.Process{{PID: 7, UsedBytes: 1 << 30}}
	for name, c := range map[string]struct {
		before, after             gpu.Reading
		events                    []gpu.Event
		throttled, shared, faulty string // a part of each
	}{
		"nothing":                      {},
		"held down by heat":            {after: gpu.Reading{Reasons: gpu.ReasonHWThermal}, throttled: "hardware thermal slowdown"},
		"held down for a moment":       {after: gpu.Reading{Counters: gpu.Counters{SWThermal: time.Millisecond}}, throttled: "thermal slowdown 1ms"},
		"the power cap is normal":      {after: gpu.Reading{Counters: gpu.Counters{SWPowerCap: time.Second}}},
		"shared before":                {before: gpu.Reading{Processes: mine}, shared: "process 7 (1.0 GiB)"},
		"shared all the time":          {before: gpu.Reading{Processes: mine}, after: gpu.Reading{Processes: mine}, shared: "process 7"},
		"a process that did not go":    {after: gpu.Reading{Processes: mine}, shared: "processes that did not leave the device within 10s: 1"},
		"lost":                         {after: gpu.Reading{Lost: true}, faulty: "GPU-1: the GPU is lost"},
		"lost with a process on it":    {after: gpu.Reading{Lost: true, Processes: mine}, shared: "process 7", faulty: "the GPU is lost"},
		"bad memory":                   {before: gpu.Reading{ECCUncorrected: 3}, after: gpu.Reading{ECCUncorrected: 5}, faulty: "2 uncorrected memory errors"},
		"memory that was bad before":   {before: gpu.Reading{ECCUncorrected: 3}, after: gpu.Reading{ECCUncorrected: 3}},
		"an error of the device":       {events: []gpu.Event{{Xid: 79}}, faulty: "Xid 79"},
		"an error of the program":      {events: []gpu.Event{{Xid: 31}}},
		"an error that nobody knows":   {events: []gpu.Event{{Xid: 4711}}},
		"it asks for a reset":          {after: gpu.Reading{RecoveryAction: "reset the GPU"}, faulty: "the driver asks to reset the GPU"},
		"it lists no processes":        {after: gpu.Reading{Absent: []gpu.Absence{{Field: "Processes", Why: "no permission"}}}},
		"a count that it did not have": {before: gpu.Reading{Absent: []gpu.Absence{{Field: "ECCUncorrected"}}}, after: gpu.Reading{ECCUncorrected: 5}},
	} {
		d := gpu.Scripted(gpu.Device{UUID: "GPU-1"}, func(n int) gpu.Reading {
			if n == 0 {
				return c.before
			}
			return c.after
		}, func() []gpu.Event { return slices.Clone(c.events) })
		soon, cancel := context.WithCancel(t.Context())
		x := readDevices([]*gpu.Watch{d})
		cancel() // nobody waits for a process to leave
		s := x.since(soon, false)
		for what, pair := range map[string][2]string{"throttled": {s.throttled, c.throttled}, "shared": {s.shared, c.shared}, "fault": {s.fault, c.faulty}} {
			if got, want := pair[0], pair[1]; !strings.Contains(got, want) || (got == "") != (want == "") {
				t.Errorf("%s: %s %q, want %q", name, what, got, want)
			}
		}
		if len(s.notes) != 1 || s.notes[0].UUID != "GPU-1" || len(s.notes[0].Change) == 0 || s.notes[0].Throttled != s.throttled {
			t.Errorf("%s: %+v", name, s.notes)
		}
	}
}

// A launch of ours that has not left the device is nobody else's, to itself and to the next one. Who was there before it, or
// is there after that, is seen all the same.
func TestDeviceStateBesideATeardown(t *testing.T) {
	ours, other := gpu.Process{PID: 7}, gpu.Process{PID: 8}
	for _, c := range []struct {
		name   string
		seen   [4][]gpu.Process // before and after either launch
		shared [2]bool
	}{
		{"alone", [4][]gpu.Process{nil, {ours}, {ours}, nil}, [2]bool{false, false}},
		{"another came", [4][]gpu.Process{nil, {ours}, {ours, other}, {other}}, [2]bool{false, true}},
		{"another was there", [4][]gpu.Process{{other}, {other, ours}, {other, ours}, {other}}, [2]bool{true, true}},
	} {
		d := gpu.Scripted(gpu.Device{UUID: "GPU-1"}, func(n int) gpu.Reading { return gpu.Reading{Processes: c.seen[min(n, 3)]} }, nil)
		soon, cancel := context.WithCancel(t.Context())
		cancel()
		first := readDevices([]*gpu.Watch{d})
		one := first.since(soon, true)
		two := readDevices([]*gpu.Watch{d}).beside(first).since(soon, false)
		if got := [2]bool{one.shared != "", two.shared != ""}; got != c.shared {
			t.Errorf("%s: shared %v, want %v: %q, %q", c.name, got, c.shared, one.shared, two.shared)
		}
	}
}

// A known-good program has left the devices when a launch after it is compared with what was there before.
func TestKnownGoodProgramLeaves(t *testing.T) {
	ours, other := gpu.Process{PID: 7}, gpu.Process{PID: 8}
	seen := [][]gpu.Process{{other}, {other, ours}, {other, ours}, {other}}
	reads := 0
	d := gpu.Scripted(gpu.Device{UUID: "GPU-1"}, func(n int) gpu.Reading { reads = n; return gpu.Reading{Processes: seen[min(n, 3)]} }, nil)
	h := &hello{Hello: harness.Hello{Name: "sh", Run: []string{"echo", harness.HelloWord}}, dir: t.TempDir(), env: os.Environ(), cookie: "test", devices: []*gpu.Watch{d}}
	if why, err := h.fails(t.Context()); why != "" || err != nil || reads != 3 {
		t.Errorf("%q %v, after %d looks at the device", why, err, reads)
	}
}

// If the known-good program is still on a device when the first launch begins, the launch waits for it to leave, so that it does not
// count as somebody else's process. It does not wait for other processes.
func TestKnownGoodProgramIsAwaited(t *testing.T) {
	ours, other := gpu.Process{PID: 7}, gpu.Process{PID: 8}
	for _, c := range []struct {
		name  string
		seen  [2][]gpu.Process
		over  bool // before the launch
		reads int
	}{
		{"it runs", [2][]gpu.Process{{ours}, nil}, false, 2},
		{"it is gone", [2][]gpu.Process{{other}, nil}, true, 1},
		{"it has not come yet", [2][]gpu.Process{nil, {ours}}, false, 1},
	} {
		g := &greeting{over: make(chan struct{})}
		reads := 0
		d := gpu.Scripted(gpu.Device{UUID: "GPU-1"}, func(n int) gpu.Reading {
			if reads++; n == 0 && !c.over && len(c.seen[0]) > 0 {
				close(g.over)
			}
			return gpu.Reading{Processes: c.seen[min(n, 1)]}
		}, nil)
		if c.over {
			close(g.over)
		}
		m := &machine{devices: []*gpu.Watch{d}, greeting: g}
		if x := m.before(t.Context()); reads != c.reads || len(x.before[0].Processes) != len(c.seen[c.reads-1]) {
			t.Errorf("%s: %d looks, and %v", c.name, reads, x.before[0].Processes)
		}
	}
}

// Processes see the watched devices and no others, whatever the user's environment says.
func TestVisibleDevices(t *testing.T) {
	env := []string{"A=1", "CUDA_VISIBLE_DEVICES=3", "CUDA_DEVICE_ORDER=FASTEST_FIRST"}
	if got := visible(env, nil); !slices.Equal(got, env) {
		t.Errorf("without devices: %q", got)
	}
	two := []*gpu.Watch{gpu.Scripted(gpu.Device{UUID: "GPU-1"}, nil, nil), gpu.Scripted(gpu.Device{UUID: "MIG-2", Parent: "GPU-9"}, nil, nil)}
	if got := visible(env, two); !slices.Equal(got, []string{"A=1", "CUDA_VISIBLE_DEVICES=GPU-1,MIG-2", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}) || len(env) != 3 {
		t.Errorf("%q", got)
	}
	if sandbox(nil, two) != nil {
		t.Error("a sandbox came from nowhere")
	}
	given := &proc.Sandbox{Devices: []string{"/dev/mine"}}
	if got := sandbox(given, nil); got != given {
		t.Errorf("without watched devices: %+v", got)
	}
	box := sandbox(given, two)
	if slices.Contains(box.Devices, "/dev/mine") || !slices.Contains(box.Devices, "/dev/nvidiactl") || !slices.Equal(given.Devices, []string{"/dev/mine"}) {
		t.Errorf("%q, and the one given has %q", box.Devices, given.Devices)
	}
}

// Whose fault a failure is: the devices' own answers come first, words in the output only raise suspicion, and what the
// candidate may have done itself counts against the machine once.
func TestWhoseFault(t *testing.T) {
	failed := bisect.Outcome{Class: bisect.Crash, Why: "exit 1"}
	says := func(text string) proc.Result { return proc.Result{Exit: 1, Tail: []byte(text + "\n")} }
	killed := proc.Result{Exit: -1, Signal: syscall.SIGKILL}
	const (
		full   = "write: No space left on device"
		ecc    = "CUDA error: uncorrectable ECC error encountered"
		none   = "RuntimeError: No CUDA GPUs are available"
		memory = "CUDA error: out of memory"
	)
	works, broken := "echo "+harness.HelloWord, "echo no device; exit 1"
	for name, c := range map[string]struct {
		outcome bisect.Outcome
		res     proc.Result
		state   deviceState
		devices bool
		hello   string // the known-good program; "" for none
		worked  bool   // it has before
		want    [2]string
	}{
		"it ended well":                          {outcome: bisect.Outcome{Class: bisect.OK}, res: says(ecc)},
		"it ended well on a device that failed":  {outcome: bisect.Outcome{Class: bisect.OK}, state: deviceState{fault: "GPU-1: lost"}, want: [2]string{"GPU-1: lost", "GPU-1: lost"}},
		"it asked to be skipped":                 {outcome: bisect.Outcome{Class: bisect.Skip}, res: says(ecc)},
		"no words":                               {outcome: failed, res: says("segmentation fault")},
		"the machine's memory":                   {outcome: failed, res: proc.Result{OOMKilled: true, OOMWhere: "machine", Exit: 1}, want: [2]string{"ran out of memory", "ran out of memory"}},
		"its own limit of memory":                {outcome: failed, res: proc.Result{OOMKilled: true, OOMWhere: "trial", Exit: 1}},
		"the disk was full, the first time only": {outcome: failed, res: says(full), want: [2]string{"the trial printed: " + full, ""}},
		"kbisect stood still, once":              {outcome: bisect.Outcome{Class: bisect.Timeout}, res: proc.Result{Stall: 3 * time.Second, Timeout: &proc.Timeout{}}, want: [2]string{"did not run for 3.0 s", ""}},
		"a whole trial that stood still":         {outcome: bisect.Outcome{Class: bisect.Timeout, Whole: true}, res: proc.Result{Stall: 3 * time.Second, Timeout: &proc.Timeout{}}},
		"words, and the program works":           {outcome: failed, res: says(ecc), devices: true, hello: works},
		"words, and the program fails":           {outcome: failed, res: says(ecc), devices: true, hello: broken, want: [2]string{"the trial printed: " + ecc, "the trial printed: " + ecc}},
		"words, and there is no program":         {outcome: failed, res: says(ecc), devices: true},
		"killed where the program works":         {outcome: failed, res: killed, devices: true, hello: works, worked: true},
		"killed where it has stopped working":    {outcome: failed, res: killed, devices: true, hello: broken, worked: true, want: [2]string{"fails: exit 1", "fails: exit 1"}},
		"killed where it never worked":           {outcome: failed, res: killed, devices: true, hello: broken},
		"killed where no device is watched":      {outcome: failed, res: killed, hello: broken, worked: true},
		"no memory on a device of its own":       {outcome: failed, res: says(memory), devices: true, hello: works},
		"no memory on a device that was shared":  {outcome: failed, res: says(memory), devices: true, hello: works, state: deviceState{shared: "shared with process 7"}, want: [2]string{"and shared with process 7", "and shared with process 7"}},
		"no device on a watched one":             {outcome: failed, res: says(none), devices: true, hello: works},
	} {
		m := &machine{suspects: map[bisect.Candidate]bool{}}
		if c.devices {
			m.devices = []*gpu.Watch{gpu.Scripted(gpu.Device{UUID: "GPU-1"}, nil, nil)}
		}
		if c.hello != "" {
			m.hello = &hello{Hello: harness.Hello{Name: "sh", Run: []string{"sh", "-c", c.hello}}, dir: t.TempDir(), env: os.Environ(), cookie: "test", worked: c.worked}
		}
		for i, want := range c.want {
			why, err := m.fault(t.Context(), bisect.Candidate{Commit: "c"}, c.outcome, c.res, c.state)
			if err != nil || !strings.Contains(why, want) || (why == "") != (want == "") {
				t.Errorf("%s, time %d: %q %v, want %q", name, i+1, why, err, want)
			}
		}
		if c.hello == works && m.hello.worked != (len(c.res.Tail) > 0 || c.worked) {
			t.Errorf("%s: worked %v", name, m.hello.worked)
		}
	}
	var infra *bisect.InfraError
	m := &machine{suspects: map[bisect.Candidate]bool{}}
	if _, err := m.fault(t.Context(), bisect.Candidate{Commit: "c"}, failed, says(none), deviceState{}); !errors.As(err, &infra) || !strings.Contains(err.Error(), "there is no device here for the trial") {
		t.Errorf("a trial that needs a device where there is none: %v", err)
	}
}
