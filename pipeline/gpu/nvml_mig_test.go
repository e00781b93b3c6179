//go:build cgo && linux

package gpu

import (
	"errors"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/google/go-cmp/cmp"
)

// cut puts device 0 of e into MIG mode with two slices: 1/0 and 2/0. The slices
// answer nothing but what a slice can answer; anything else panics.
func cut(e *eventful) []*dgxa100.Device {
	parent := e.Devices[0].(*dgxa100.Device)
	parent.MigMode = nvml.DEVICE_MIG_ENABLE
	parts := []*dgxa100.Device{newPart(parent, "MIG-aaaa", 1), newPart(parent, "MIG-abbb", 2)}
	parent.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	parent.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		switch i {
		case 0:
			return parts[0], nvml.SUCCESS
		case 3:
			return parts[1], nvml.SUCCESS
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	parent.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 10, GpuInstanceId: 1}, {Pid: 20, GpuInstanceId: 2}, {Pid: 30, GpuInstanceId: 1<<32 - 1, ComputeInstanceId: 1<<32 - 1}}, nvml.SUCCESS
	}
	whole := e.DeviceGetHandleByUUIDFunc
	e.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
		for _, p := range parts {
			if p.UUID == uuid {
				return p, nvml.SUCCESS
			}
		}
		return whole(uuid)
	}
	return parts
}

func newPart(parent nvml.Device, uuid string, instance int) *dgxa100.Device {
	p := &dgxa100.Device{}
	p.UUID = uuid
	p.GetUUIDFunc = func() (string, nvml.Return) { return uuid, nvml.SUCCESS }
	p.GetNameFunc = func() (string, nvml.Return) { return "Mock MIG 1g.5gb", nvml.SUCCESS }
	p.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 5 << 30, Used: 1 << 20}, nvml.SUCCESS }
	p.GetGpuInstanceIdFunc = func() (int, nvml.Return) { return instance, nvml.SUCCESS }
	p.GetComputeInstanceIdFunc = func() (int, nvml.Return) { return 0, nvml.SUCCESS }
	p.GetDeviceHandleFromMigDeviceHandleFunc = func() (nvml.Device, nvml.Return) { return parent, nvml.SUCCESS }
	p.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 10, GpuInstanceId: 1}, {Pid: 20, GpuInstanceId: 2}}, nvml.SUCCESS
	}
	return p
}

func TestProbeSlices(t *testing.T) {
	e := newEventful()
	cut(e)
	rep := probeWith(e)
	d := rep.Devices[0]
	want := []string{"MIG-aaaa", "MIG-abbb"}
	if diff := cmp.Diff(want, d.Slices); diff != "" || !d.MIG {
		t.Error(diff)
	}
	if other := rep.Devices[1]; other.MIG || other.Slices != nil {
		t.Errorf("a device that is not cut: %+v", other)
	}
}

func TestOpenSlice(t *testing.T) {
	e := newEventful()
	cut(e)
	w := e.open(t, "MIG-abbb")
	id := w.Device()
	if id.UUID != "MIG-abbb" || id.Parent != e.Devices[0].(*dgxa100.Device).UUID || id.Index != 0 || id.MemoryTotal != 5<<30 {
		t.Errorf("got %+v", id)
	}
	if id.SMClockMax != 1980 || id.PowerLimitW != 400 || id.MIG || id.Slices != nil {
		t.Errorf("got %+v", id)
	}
	r := w.Read()
	if r.SMClock != 1410 || r.PowerW != 61.5 || r.Counters.SWPowerCap != 74*time.Microsecond || r.RecoveryAction != "reset the GPU" || r.ECCUncorrected != 3 {
		t.Errorf("the GPU's part: %+v", r)
	}
	if diff := cmp.Diff([]Process{{PID: 20}}, r.Processes); diff != "" {
		t.Error(diff)
	}
}

// TestSliceOfOldDriver lists processes for the whole GPU only.
func TestSliceOfOldDriver(t *testing.T) {
	e := newEventful()
	for _, p := range cut(e) {
		p.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	}
	r := e.open(t, "MIG-aaaa").Read()
	if diff := cmp.Diff([]Process{{PID: 10}, {PID: 30}}, r.Processes); diff != "" {
		t.Error(diff)
	}
}

func TestSliceGone(t *testing.T) {
	e := newEventful()
	parts := cut(e)
	w := e.open(t, "MIG-aaaa")
	parts[0].GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_NOT_FOUND }
	if r := w.Read(); !r.Lost {
		t.Errorf("got %+v", r)
	}
	for why, spoil := range map[string]func(){
		"no GPU": func() {
			parts[1].GetDeviceHandleFromMigDeviceHandleFunc = func() (nvml.Device, nvml.Return) { return nil, nvml.ERROR_UNKNOWN }
		},
		"no place": func() {
			parts[0].GetGpuInstanceIdFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_NO_PERMISSION }
		},
	} {
		spoil()
		uuid := map[string]string{"no GPU": "MIG-abbb", "no place": "MIG-aaaa"}[why]
		if _, err := openWith(e, uuid); err == nil {
			t.Errorf("%s: opened", why)
		}
	}
	if _, err := openWith(e, "MIG-cccc"); !errors.Is(err, errNoDevice) {
		t.Errorf("got %v", err)
	}
}

// TestSliceEvents hears what concerns the slice, and the whole GPU, only.
func TestSliceEvents(t *testing.T) {
	e := newEventful()
	cut(e)
	w := e.open(t, "MIG-aaaa")
	w.Follow()
	at := func(xid uint64, gpu uint32) answerTo {
		return answerTo{nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: xid, GpuInstanceId: gpu}, nvml.SUCCESS}
	}
	e.answers <- at(13, 2)
	e.answers <- at(31, 1)
	e.answers <- xidEvent(79)
	eventually(t, "two events", func() bool { return len(w.Events(time.Time{})) == 2 })
	if got := w.Events(time.Time{}); got[0].Xid != 31 || got[1].Xid != 79 {
		t.Errorf("got %v", got)
	}
}

func TestCovers(t *testing.T) {
	const nowhere = 1<<32 - 1
	at := &instance{gpu: 3, compute: 1}
	for _, c := range []struct {
		gpu, compute uint32
		want         bool
	}{{3, 1, true}, {3, 0, false}, {2, 1, false}, {3, nowhere, true}, {2, nowhere, false}, {nowhere, nowhere, true}} {
		if at.covers(c.gpu, c.compute) != c.want {
			t.Errorf("%d, %d", c.gpu, c.compute)
		}
	}
}
