package gpu

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBetweenQuiet(t *testing.T) {
	r := Reading{Counters: Counters{SWThermal: time.Hour}, ECCUncorrected: 9, RecoveryAction: recoveryNone, Reasons: reasonIdle | reasonUserClocks}
	c := Between(r, r, nil)
	if diff := cmp.Diff(Change{}, c); diff != "" {
		t.Error(diff)
	}
	hit, text := c.Throttled()
	shared, with := c.Shared()
	if hit || shared || text+with+c.Fault() != "" {
		t.Errorf("%v %q, %v %q, %q", hit, text, shared, with, c.Fault())
	}
}

func TestThrottled(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		why    string
		change Change
		hit    bool
		text   string
	}{
		{"thermal, however short", Change{Throttle: Counters{SWThermal: 1}}, true, "thermal slowdown 0s"},
		{"by hardware", Change{Throttle: Counters{HWThermal: ms}, Bits: ReasonHWThermal}, true, "hardware thermal slowdown 1ms"},
		{"brake", Change{Throttle: Counters{HWPowerBrake: ms}}, true, "power brake 1ms"},
		{"a bit without a counter", Change{Bits: reasonHWSlowdown}, true, "hardware slowdown"},
		{"power cap", Change{Throttle: Counters{SWPowerCap: time.Hour}, Bits: reasonSWPowerCap}, false, "power cap 1h0m0s"},
		{"sync boost", Change{Throttle: Counters{SWPowerCap: ms, SyncBoost: ms}}, false, "power cap 1ms, sync boost 1ms"},
		{"a bit of the power cap", Change{Bits: reasonSWPowerCap}, false, "power cap"},
		{"both", Change{Throttle: Counters{SWPowerCap: ms}, Bits: reasonSWPowerCap | reasonSWThermal}, true, "power cap 1ms, thermal slowdown"},
	} {
		if hit, text := c.change.Throttled(); hit != c.hit || text != c.text {
			t.Errorf("%s: %v, %q", c.why, hit, text)
		}
	}
}

// TestBetweenUncompared lacks counters before: what they say after is no growth.
func TestBetweenUnknown(t *testing.T) {
	before := Reading{Absent: []Absence{{"SWThermal", "?"}, {"ECCUncorrected", "?"}, {"RemappedRows", "?"}}}
	after := Reading{Counters: Counters{SWThermal: time.Hour, HWThermal: time.Second}, ECCUncorrected: 5, RemapPending: true}
	c := Between(before, after, nil)
	if c.Throttle != (Counters{HWThermal: time.Second}) || c.ECCErrors != 0 || c.RemapPending {
		t.Errorf("got %+v", c)
	}
	if !slices.Equal(c.Uncompared, []string{"SWThermal", "ECCUncorrected", "RemappedRows"}) {
		t.Errorf("untold %v", c.Uncompared)
	}
	if c := Between(Reading{ECCUncorrected: 7}, Reading{ECCUncorrected: 1}, nil); c.ECCErrors != 0 {
		t.Errorf("a counter that went back: %+v", c)
	}
}

func TestShared(t *testing.T) {
	list := func(pids ...int) (out []Process) {
		for _, p := range pids {
			out = append(out, Process{PID: p})
		}
		return out
	}
	for _, c := range []struct {
		before, after []Process
		text          string
	}{
		{list(1), nil, "the device was shared with process 1"},
		{nil, []Process{{PID: 2, UsedBytes: 3 << 29}}, "the device was shared with process 2 (1.5 GiB)"},
		{list(1), []Process{{PID: 1, UsedBytes: 1 << 30}}, "the device was shared with process 1 (1.0 GiB)"},
		{list(1, 2, 3), list(4, 5), "the device was shared with process 4, process 5, process 1, 2 more"},
	} {
		got, text := Between(Reading{Processes: c.before}, Reading{Processes: c.after}, nil).Shared()
		if !got || text != c.text {
			t.Errorf("%v %v: %v, %q", c.before, c.after, got, text)
		}
	}
	// One that has 14 MiB begins or ends, as programs do that look for another device of the machine.
	small, large := Reading{Processes: []Process{{PID: 1, UsedBytes: 14 << 20}}}, Reading{Processes: []Process{{PID: 1, UsedBytes: 1 << 30}}}
	for _, after := range []Reading{{}, small, large} {
		for _, before := range []Reading{{}, small, large} {
			got, text := Between(before, after, nil).Shared()
			if want := len(before.Processes) > 0 && before.Processes[0].UsedBytes > 1<<29 || len(after.Processes) > 0 && after.Processes[0].UsedBytes > 1<<29; got != want {
				t.Errorf("%v %v: %q", before.Processes, after.Processes, text)
			}
		}
	}
}

func TestFault(t *testing.T) {
	none := Reading{RecoveryAction: recoveryNone}
	for _, c := range []struct {
		before, after Reading
		events        []Event
		want          string
	}{
		{none, none, []Event{{Xid: 13, Kind: kindProgram}, {Xid: 45}, {Xid: 32, Kind: kindUnknown}}, ""},
		{none, none, []Event{{Xid: 79}, {Xid: 31}, {Xid: 79}}, "Xid 79: the GPU has fallen off the bus"},
		{none, none, []Event{{Kind: kindMachine, Text: "the GPU is unavailable"}}, "the GPU is unavailable"},
		{none, Reading{Lost: true}, nil, "the GPU is lost"},
		{Reading{Lost: true}, none, nil, "the GPU is lost"},
		{none, Reading{RecoveryAction: "reset the GPU"}, nil, "the driver asks to reset the GPU"},
		{Reading{RecoveryAction: "reset the GPU"}, Reading{Lost: true}, nil, "the GPU is lost; the driver asks to reset the GPU"},
		{Reading{ECCUncorrected: 1}, Reading{ECCUncorrected: 3}, nil, "2 uncorrected memory errors (ECC)"},
		{none, Reading{RemapPending: true}, nil, "a row of memory went bad; a reset of the GPU replaces it"},
		{Reading{RemapPending: true}, Reading{RemapPending: true}, nil, ""},
		{Reading{RemapFailed: true}, Reading{RemapFailed: true}, nil, "a bad row of memory could not be replaced"},
	} {
		if got := Between(c.before, c.after, c.events).Fault(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
