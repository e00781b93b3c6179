package gpu

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReasons(t *testing.T) {
	for r, text := range map[Reasons]string{
		0:                                    "none",
		reasonIdle:                           "idle",
		reasonUserClocks | reasonSWPowerCap:  "application clocks, power cap",
		reasonHWPowerBrake | ReasonHWThermal: "hardware thermal slowdown, power brake",
		1 << 40:                              "unknown",
	} {
		if r.String() != text {
			t.Errorf("%d: %q", uint64(r), r)
		}
	}
}

func TestCounters(t *testing.T) {
	before := Counters{SWPowerCap: time.Second, HWThermal: time.Hour}
	after := Counters{SWPowerCap: 3 * time.Second, SWThermal: 1500 * time.Microsecond}
	want := Counters{SWPowerCap: 2 * time.Second, SWThermal: 1500 * time.Microsecond}
	got := after.Sub(before)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s := got.String(); s != "power cap 2s, thermal slowdown 1.5ms" {
		t.Errorf("got %q", s)
	}
	if s := (Counters{}).String(); s != "" {
		t.Errorf("got %q for nothing", s)
	}
}

func TestReading(t *testing.T) {
	r := Reading{Processes: []Process{{PID: 1}, {PID: 2}}, Absent: []Absence{{Field: "PowerW", Why: "not supported"}}}
	if others := r.others(2, 3); len(others) != 1 || others[0].PID != 1 || len(r.Processes) != 2 {
		t.Errorf("others %v of %v", others, r.Processes)
	}
	if r.Has("PowerW") || !r.Has("SMClock") {
		t.Error("Has")
	}
	if r.Lost || asked(r) != "" {
		t.Error("a driver that says nothing counts as healthy")
	}
	if r.RecoveryAction = "reset the GPU"; asked(r) == "" {
		t.Error("a device that needs a reset is not healthy")
	}
}

// tryHere exercises what only a real driver can show; its log is the result.
func tryHere(t *testing.T, w *Watch) {
	for _, state := range []string{"not followed", "followed", "closed"} {
		began := time.Now()
		r := w.Read()
		for range 9 {
			r = w.Read()
		}
		t.Logf("%s: a reading takes %v: %+v", state, time.Since(began)/10, r)
		if state == "not followed" {
			w.Follow()
		} else {
			w.Close()
		}
	}
	r := w.Read()
	left, after := w.Clear(t.Context(), r.Processes, time.Second)
	c := Between(r, after, w.Events(r.Time))
	t.Logf("left %v; change %+v; fault %q", left, c, c.Fault())
	uuids, err := Select(nil)
	t.Logf("selected: %v, %v", uuids, err)
}

// TestHere asks whatever this machine has: a driver or none, it must answer.
func TestHere(t *testing.T) {
	rep := Probe()
	if rep.Available == (rep.Why != "") {
		t.Errorf("available %v, why %q", rep.Available, rep.Why)
	}
	if again := Probe(); again.Available != rep.Available {
		t.Error("the second answer differs")
	}
	w, err := Open("0")
	switch {
	case len(rep.Devices) > 0 && err != nil:
		t.Error(err)
	case len(rep.Devices) == 0 && err == nil:
		t.Error("opened a device that is not there")
	case err != nil:
		t.Log(err)
	default:
		t.Logf("%+v", w.Device())
		tryHere(t, w)
		if same, err := Open(w.Device().UUID); err != nil || same.Device().UUID != w.Device().UUID || same.Device().Index != w.Device().Index {
			t.Errorf("by UUID: %v, %v", same, err)
		}
	}
	if _, err := Open("nonsense"); err == nil {
		t.Error("opened nonsense")
	}
}
