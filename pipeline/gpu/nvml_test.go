//go:build cgo && linux

package gpu

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/google/go-cmp/cmp"
)

// server is a machine of eight devices that answers everything that is asked here.
func server() *dgxa100.Server {
	s := dgxa100.New()
	for i := range s.Devices {
		fill(s.Devices[i].(*dgxa100.Device), uint32(i))
	}
	return s
}

// fill sets what the mock leaves empty; i makes the devices differ.
func fill(d *dgxa100.Device, i uint32) {
	const ok = nvml.SUCCESS
	d.GetClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
		return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1410, nvml.CLOCK_MEM: 1215}[c], ok
	}
	d.GetMaxClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 1980, ok }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 30 + i, ok }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 61500, ok }
	d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 400000, ok }
	d.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, ok }
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return nvml.ClocksEventReasonSwPowerCap, ok }
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return nvml.ClocksEventReasonGpuIdle, ok }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 42, UsedGpuMemory: 1 << 30}, {Pid: 43, UsedGpuMemory: math.MaxUint64}}, ok
	}
	d.GetFieldValuesFunc = func(v []nvml.FieldValue) nvml.Return {
		for j := range v {
			answer(&v[j])
		}
		return ok
	}
	d.GetTotalEccErrorsFunc = func(e nvml.MemoryErrorType, c nvml.EccCounterType) (uint64, nvml.Return) {
		if e != nvml.MEMORY_ERROR_TYPE_UNCORRECTED || c != nvml.VOLATILE_ECC {
			return 1000, ok
		}
		return 3, ok
	}
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 1, 2, true, false, ok }
	d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
}

// answer gives every counter its own id in microseconds; one field is refused.
func answer(v *nvml.FieldValue) {
	v.ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG)
	switch v.FieldId {
	case nvml.FI_DEV_GET_GPU_RECOVERY_ACTION:
		v.ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_INT)
		binary.NativeEndian.PutUint64(v.Value[:], 1)
	case nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN:
		v.NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
	default:
		binary.NativeEndian.PutUint64(v.Value[:], uint64(v.FieldId)*1000)
	}
}

func TestProbe(t *testing.T) {
	s := server()
	rep := probeWith(s)
	if !rep.Available || rep.Driver != "550.54.15" || rep.CUDA != "12.4" || len(rep.Devices) != 8 {
		t.Fatalf("got %+v", rep)
	}
	want := Device{
		Index: 3, UUID: s.Devices[3].(*dgxa100.Device).UUID, Name: "Mock NVIDIA A100-SXM4-40GB", MemoryTotal: 42949672960,
		ComputeCapability: "8.0", SMClock: 1410, SMClockMax: 1980, MemClock: 1215, Temperature: 33, PowerW: 61.5, PowerLimitW: 400,
		PersistenceMode: "on", Processes: []Process{{42, 1 << 30}, {43, 0}}, RecoveryAction: "reset the GPU",
		Absent: []Absence{{"HWPowerBrake", "not supported by this device"}},
	}
	if diff := cmp.Diff(want, rep.Devices[3]); diff != "" {
		t.Error(diff)
	}
}

func TestOpenAndRead(t *testing.T) {
	s := server()
	dev, err := openWith(s, s.Devices[5].(*dgxa100.Device).UUID)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(dev)
	if w.Device().Index != 5 {
		t.Errorf("index %d", w.Device().Index)
	}
	r := w.Read()
	if time.Since(r.Time) > time.Minute {
		t.Errorf("time %v", r.Time)
	}
	r.Time = time.Time{}
	us := time.Microsecond
	want := Reading{
		SMClock: 1410, MemClock: 1215, ECCUncorrected: 3, RemapPending: true, Temperature: 35, PowerW: 61.5, Reasons: reasonSWPowerCap,
		Counters:       Counters{SWPowerCap: 74 * us, SyncBoost: 76 * us, SWThermal: 269 * us, HWThermal: 270 * us},
		RecoveryAction: "reset the GPU", Processes: []Process{{42, 1 << 30}, {43, 0}},
		Absent: []Absence{{"HWPowerBrake", "not supported by this device"}},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestOpenUnknown(t *testing.T) {
	for _, selector := range []string{"8", "-1", "", "GPU-none", "A100"} {
		_, err := openWith(server(), selector)
		if !errors.Is(err, errNoDevice) || !strings.Contains(err.Error(), "\nhint: ") {
			t.Errorf("%q: %v", selector, err)
		}
	}
}

// TestOldDriver lacks every function that is newer than the first devices; a
// call of one would end a real process, and here panics.
func TestOldDriver(t *testing.T) {
	s := server()
	newer := []string{"nvmlDeviceGetFieldValues", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMigMode",
		"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetSupportedEventTypes"}
	s.LookupSymbolFunc = func(symbol string) error {
		if slices.Contains(newer, symbol) {
			return errors.New("no such symbol")
		}
		return nil
	}
	d := s.Devices[0].(*dgxa100.Device)
	d.GetFieldValuesFunc, d.GetCurrentClocksEventReasonsFunc, d.GetMigModeFunc = nil, nil, nil
	d.GetTotalEccErrorsFunc, d.GetRemappedRowsFunc, d.GetSupportedEventTypesFunc = nil, nil, nil
	dev, err := openWith(s, "0")
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(dev)
	w.Follow()
	r := w.Read()
	for _, field := range []string{"SWPowerCap", "RecoveryAction", "ECCUncorrected", "RemappedRows", "Events"} {
		if r.Has(field) {
			t.Errorf("%s was told", field)
		}
	}
	if r.Reasons != reasonIdle || r.SMClock != 1410 || asked(r) != "" || r.Lost {
		t.Errorf("got %+v", r)
	}
	if id := dev.identity(); id.MIG || id.Name == "" {
		t.Errorf("got %+v", id)
	}
}

// TestLostDevice has fallen off the bus: every question fails.
func TestLostDevice(t *testing.T) {
	for lost, why := range map[nvml.Return]string{nvml.ERROR_GPU_IS_LOST: "the GPU has fallen off the bus", nvml.ERROR_RESET_REQUIRED: "the GPU needs a reset"} {
		s := server()
		lose(s.Devices[0].(*dgxa100.Device), lost)
		dev, err := openWith(s, "0")
		if err != nil {
			t.Fatal(err)
		}
		r := dev.read()
		if len(r.Absent) != 14 || r.Absent[0].Why != why {
			t.Errorf("absent: %v", r.Absent)
		}
		if !r.Lost {
			t.Errorf("not lost: %+v", r)
		}
		for _, a := range r.Absent {
			if silent().Has(a.Field) {
				t.Errorf("a silent device tells %s", a.Field)
			}
		}
	}
}

func lose(d *dgxa100.Device, lost nvml.Return) {
	d.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 0, lost }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, lost }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, lost }
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0, lost }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, lost }
	d.GetFieldValuesFunc = func([]nvml.FieldValue) nvml.Return { return lost }
	d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, lost }
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, lost }
}

// TestLostOnce answers one field of many with the loss.
func TestLostOnce(t *testing.T) {
	s := server()
	s.Devices[0].(*dgxa100.Device).GetFieldValuesFunc = func(v []nvml.FieldValue) nvml.Return {
		v[len(v)-1].NvmlReturn = uint32(nvml.ERROR_GPU_IS_LOST)
		return nvml.SUCCESS
	}
	dev, err := openWith(s, "0")
	if err != nil {
		t.Fatal(err)
	}
	if r := dev.read(); !r.Lost || r.Has("RecoveryAction") {
		t.Errorf("got %+v", r)
	}
}

// TestHandleGone has a device removed after it was opened.
func TestHandleGone(t *testing.T) {
	s := server()
	dev, err := openWith(s, "0")
	if err != nil {
		t.Fatal(err)
	}
	d := s.Devices[0].(*dgxa100.Device)
	d.GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_INVALID_ARGUMENT }
	if r := dev.read(); !r.Lost || r.Has("UUID") {
		t.Errorf("got %+v", r)
	}
	d.GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_NO_PERMISSION }
	if r := dev.read(); r.Lost {
		t.Error("a refusal is no loss")
	}
}

func TestStartFails(t *testing.T) {
	for code, want := range map[nvml.Return]string{
		nvml.ERROR_LIBRARY_NOT_FOUND:       "libnvidia-ml.so.1 was not found",
		nvml.ERROR_DRIVER_NOT_LOADED:       "kernel module is not loaded",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: "versions differ",
		nvml.ERROR_UNKNOWN:                 "driver error 999",
	} {
		s := server()
		s.InitFunc = func() nvml.Return { return code }
		if _, err := start(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", code, err)
		}
	}
	s := server()
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_NO_PERMISSION }
	if rep := probeWith(s); rep.Available || rep.Why != "the driver does not count its devices: no permission" {
		t.Errorf("got %+v", rep)
	}
}

// TestNoLibrary loads a library that is not there, for real.
func TestNoLibrary(t *testing.T) {
	if _, err := start(nvml.New(nvml.WithLibraryPath("/nonexistent/libnvidia-ml.so.1"))); err == nil {
		t.Error("no error")
	}
}

func TestNumber(t *testing.T) {
	value := func(kind nvml.ValueType, bits uint64) nvml.FieldValue {
		v := nvml.FieldValue{ValueType: uint32(kind)}
		binary.NativeEndian.PutUint64(v.Value[:], bits)
		return v
	}
	minus := -5
	for _, c := range []struct {
		v    nvml.FieldValue
		want uint64
	}{
		{value(nvml.VALUE_TYPE_UNSIGNED_INT, 7), 7},
		{value(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 1<<40), 1 << 40},
		{value(nvml.VALUE_TYPE_DOUBLE, math.Float64bits(2.5)), 2},
		{value(nvml.VALUE_TYPE_DOUBLE, math.Float64bits(math.NaN())), 0},
		{value(nvml.VALUE_TYPE_SIGNED_LONG_LONG, uint64(minus)), 0},
		{value(nvml.VALUE_TYPE_SIGNED_INT, uint64(uint32(minus))), 0},
	} {
		if got := number(c.v); got != c.want {
			t.Errorf("%+v: %d, want %d", c.v, got, c.want)
		}
	}
	if nanoseconds(math.MaxUint64) < 0 {
		t.Error("a duration went round")
	}
}
