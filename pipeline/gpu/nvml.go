//go:build cgo && linux

package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// load opens the library once for the life of the process. It is never closed:
// loading again rewrites function pointers that other goroutines may be reading.
// After a failed Init every other call would kill the process, so the failure
// is remembered and nothing else is ever called.
var load = sync.OnceValues(func() (nvml.Interface, error) { return start(nvml.New()) })

// start initialises lib and explains a failure in words.
func start(lib nvml.Interface) (nvml.Interface, error) {
	switch r := lib.Init(); r {
	case nvml.SUCCESS:
		return lib, nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, errors.New("no NVIDIA driver: libnvidia-ml.so.1 was not found")
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, errors.New("the NVIDIA kernel module is not loaded")
	default:
		return nil, fmt.Errorf("the NVIDIA driver does not start: %s", name(r))
	}
}

func probe() Report {
	lib, err := load()
	if err != nil {
		return Report{Why: err.Error()}
	}
	return probeWith(lib)
}

func probeWith(lib nvml.Interface) Report {
	rep := Report{Available: true}
	if v, r := lib.SystemGetDriverVersion(); r == nvml.SUCCESS {
		rep.Driver = v
	}
	if v, r := lib.SystemGetCudaDriverVersion(); r == nvml.SUCCESS {
		rep.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	n, r := lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		rep.Available, rep.Why = false, "the driver does not count its devices: "+name(r)
		return rep
	}
	for i := range n {
		dev, r := lib.DeviceGetHandleByIndex(i)
		if r != nvml.SUCCESS {
			rep.Devices = append(rep.Devices, Device{Index: i, Absent: []Absence{{"device", name(r)}}})
			continue
		}
		rep.Devices = append(rep.Devices, newDevice(lib, dev, i).identity())
	}
	return rep
}

func open(selector string) (reader, error) {
	lib, err := load()
	if err != nil {
		return nil, fmt.Errorf("open device %q: %w: %w", selector, ErrUnavailable, err)
	}
	return openWith(lib, selector)
}

func openWith(lib nvml.Interface, selector string) (reader, error) {
	var dev nvml.Device
	var r nvml.Return
	index, err := strconv.Atoi(selector)
	switch {
	case err == nil && index >= 0:
		dev, r = lib.DeviceGetHandleByIndex(index)
	case strings.HasPrefix(selector, "GPU-"), strings.HasPrefix(selector, "MIG-"):
		index = -1
		dev, r = lib.DeviceGetHandleByUUID(selector)
	default:
		return nil, fmt.Errorf("open device %q: %w\nhint: name a device by its index, as \"0\", or by its UUID, as \"GPU-…\"", selector, ErrNoDevice)
	}
	if r == nvml.ERROR_INVALID_ARGUMENT || r == nvml.ERROR_NOT_FOUND {
		return nil, fmt.Errorf("open device %q: %w\nhint: kbisect doctor lists the devices of this machine", selector, ErrNoDevice)
	}
	if r != nvml.SUCCESS {
		return nil, fmt.Errorf("open device %q: %s", selector, name(r))
	}
	return newDevice(lib, dev, index), nil
}

// device is one handle, and the test for functions that the installed driver lacks.
type device struct {
	dev   nvml.Device
	index int
	has   func(symbol string) bool
}

// newDevice wraps a handle; index -1 means that the driver is to be asked.
func newDevice(lib nvml.Interface, dev nvml.Device, index int) *device {
	ext := lib.Extensions()
	d := &device{dev: dev, index: index, has: func(s string) bool { return ext.LookupSymbol(s) == nil }}
	if index < 0 && d.has("nvmlDeviceGetIndex") {
		if i, r := dev.GetIndex(); r == nvml.SUCCESS {
			d.index = i
		}
	}
	return d
}

// asking collects what one round of questions could not learn.
type asking struct {
	d      *device
	absent []Absence
}

// ask calls f, unless the installed library lacks symbol: calling a missing
// function ends the whole process.
func (a *asking) ask(field, symbol string, f func() nvml.Return) bool {
	if !a.d.has(symbol) {
		a.absent = append(a.absent, Absence{field, "the driver is too old: it lacks " + symbol})
		return false
	}
	if r := f(); r != nvml.SUCCESS {
		a.absent = append(a.absent, Absence{field, name(r)})
		return false
	}
	return true
}

func (d *device) identity() Device {
	a := &asking{d: d}
	out := Device{Index: d.index}
	a.ask("UUID", "nvmlDeviceGetUUID", func() (r nvml.Return) { out.UUID, r = d.dev.GetUUID(); return r })
	a.ask("Name", "nvmlDeviceGetName", func() (r nvml.Return) { out.Name, r = d.dev.GetName(); return r })
	a.ask("MemoryTotal", "nvmlDeviceGetMemoryInfo", func() nvml.Return {
		m, r := d.dev.GetMemoryInfo()
		if r == nvml.SUCCESS {
			out.MemoryTotal, out.MemoryUsed = m.Total, m.Used
		}
		return r
	})
	a.ask("ComputeCapability", "nvmlDeviceGetCudaComputeCapability", func() nvml.Return {
		major, minor, r := d.dev.GetCudaComputeCapability()
		if r == nvml.SUCCESS {
			out.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
		}
		return r
	})
	a.ask("SMClockMax", "nvmlDeviceGetMaxClockInfo", func() (r nvml.Return) { out.SMClockMax, r = d.dev.GetMaxClockInfo(nvml.CLOCK_SM); return r })
	a.ask("PersistenceMode", "nvmlDeviceGetPersistenceMode", func() nvml.Return {
		mode, r := d.dev.GetPersistenceMode()
		if r == nvml.SUCCESS {
			out.PersistenceMode = onOff(mode == nvml.FEATURE_ENABLED)
		}
		return r
	})
	a.ask("MIG", "nvmlDeviceGetMigMode", func() nvml.Return {
		mode, _, r := d.dev.GetMigMode()
		out.MIG = r == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
		if r == nvml.ERROR_NOT_SUPPORTED { // a card without MIG: an answer, not a gap
			return nvml.SUCCESS
		}
		return r
	})
	a.ask("PowerLimitW", "nvmlDeviceGetEnforcedPowerLimit", func() nvml.Return {
		mw, r := d.dev.GetEnforcedPowerLimit()
		out.PowerLimitW = watts(mw, r)
		return r
	})
	now := d.readInto(a)
	out.SMClock, out.MemClock, out.Temperature, out.PowerW = now.SMClock, now.MemClock, now.Temperature, now.PowerW
	out.RecoveryAction, out.Processes, out.Absent = now.RecoveryAction, now.Processes, a.absent
	return out
}

func (d *device) read() Reading {
	a := &asking{d: d}
	out := d.readInto(a)
	out.Absent = a.absent
	return out
}

func (d *device) readInto(a *asking) Reading {
	out := Reading{Time: time.Now()}
	a.ask("SMClock", "nvmlDeviceGetClockInfo", func() (r nvml.Return) { out.SMClock, r = d.dev.GetClockInfo(nvml.CLOCK_SM); return r })
	a.ask("MemClock", "nvmlDeviceGetClockInfo", func() (r nvml.Return) { out.MemClock, r = d.dev.GetClockInfo(nvml.CLOCK_MEM); return r })
	a.ask("Temperature", "nvmlDeviceGetTemperature", func() (r nvml.Return) {
		out.Temperature, r = d.dev.GetTemperature(nvml.TEMPERATURE_GPU)
		return r
	})
	a.ask("PowerW", "nvmlDeviceGetPowerUsage", func() nvml.Return {
		mw, r := d.dev.GetPowerUsage()
		out.PowerW = watts(mw, r)
		return r
	})
	a.ask("EnergyJ", "nvmlDeviceGetTotalEnergyConsumption", func() nvml.Return {
		mj, r := d.dev.GetTotalEnergyConsumption()
		if r == nvml.SUCCESS {
			out.EnergyJ = float64(mj) / 1000
		}
		return r
	})
	d.readReasons(a, &out)
	a.ask("Processes", d.processSymbol(), func() nvml.Return {
		procs, r := d.dev.GetComputeRunningProcesses()
		if r == nvml.SUCCESS {
			out.Processes = processes(procs)
		}
		return r
	})
	d.readFields(a, &out)
	return out
}

// readReasons uses the name that the installed driver knows; both answer alike.
func (d *device) readReasons(a *asking, out *Reading) {
	symbol, get := "nvmlDeviceGetCurrentClocksEventReasons", d.dev.GetCurrentClocksEventReasons
	if !d.has(symbol) {
		symbol, get = "nvmlDeviceGetCurrentClocksThrottleReasons", d.dev.GetCurrentClocksThrottleReasons
	}
	a.ask("Reasons", symbol, func() nvml.Return {
		bits, r := get()
		if r == nvml.SUCCESS {
			out.Reasons = Reasons(bits)
		}
		return r
	})
}

// processSymbol is the oldest form of the call that the library still has: the
// wrapper picks the newest by itself.
func (d *device) processSymbol() string {
	for _, s := range []string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"} {
		if d.has(s) {
			return s
		}
	}
	return "nvmlDeviceGetComputeRunningProcesses"
}

// readFields asks for all counters in one call, so that they belong to one moment.
func (d *device) readFields(a *asking, out *Reading) {
	asked := []struct {
		id   uint32
		name string
		put  func(v uint64)
	}{
		{nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, "SWPowerCap", func(v uint64) { out.Counters.SWPowerCap = nanoseconds(v) }},
		{nvml.FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST, "SyncBoost", func(v uint64) { out.Counters.SyncBoost = nanoseconds(v) }},
		{nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, "SWThermal", func(v uint64) { out.Counters.SWThermal = nanoseconds(v) }},
		{nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, "HWThermal", func(v uint64) { out.Counters.HWThermal = nanoseconds(v) }},
		{nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, "HWPowerBrake", func(v uint64) { out.Counters.HWPowerBrake = nanoseconds(v) }},
		{nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, "RecoveryAction", func(v uint64) { out.RecoveryAction = recovery(v) }},
	}
	values := make([]nvml.FieldValue, len(asked))
	for i, f := range asked {
		values[i].FieldId = f.id
	}
	var whole nvml.Return
	if !a.d.has("nvmlDeviceGetFieldValues") {
		whole = nvml.ERROR_FUNCTION_NOT_FOUND
	} else {
		whole = d.dev.GetFieldValues(values)
	}
	for i, f := range asked {
		r := whole
		if r == nvml.SUCCESS {
			r = nvml.Return(values[i].NvmlReturn)
		}
		if r != nvml.SUCCESS {
			a.absent = append(a.absent, Absence{f.name, name(r)})
			continue
		}
		f.put(number(values[i]))
	}
}

// number reads the union of a field value; a negative number counts as zero.
func number(v nvml.FieldValue) uint64 {
	bits := binary.NativeEndian.Uint64(v.Value[:])
	low := binary.NativeEndian.Uint32(v.Value[:4])
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_DOUBLE:
		f := math.Float64frombits(bits)
		if !(f > 0 && f < math.MaxInt64) {
			return 0
		}
		return uint64(f)
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return uint64(low)
	case nvml.VALUE_TYPE_SIGNED_INT:
		return uint64(max(int32(low), 0))
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return uint64(max(int64(bits), 0))
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return uint64(binary.NativeEndian.Uint16(v.Value[:2]))
	default:
		return bits
	}
}

func nanoseconds(v uint64) time.Duration { return time.Duration(min(v, math.MaxInt64)) }

func watts(mw uint32, r nvml.Return) float64 {
	if r != nvml.SUCCESS {
		return 0
	}
	return float64(mw) / 1000
}

func processes(in []nvml.ProcessInfo) []Process {
	out := make([]Process, 0, len(in))
	for _, p := range in {
		used := p.UsedGpuMemory
		if used == math.MaxUint64 { // the driver's "not available"
			used = 0
		}
		out = append(out, Process{PID: int(p.Pid), UsedBytes: used})
	}
	return out
}

// recovery says in words what the driver asks for.
func recovery(action uint64) string {
	names := [...]string{recoveryNone, "reset the GPU", "reboot the machine", "drain peer-to-peer traffic, then reset",
		"drain and reset", "recover the IMEX domain"}
	if action < uint64(len(names)) {
		return names[action]
	}
	return fmt.Sprintf("unknown action %d", action)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// name is the driver's name of a return code in lower case words. The text of
// the library itself is not used: asking for it needs a library that works.
func name(r nvml.Return) string {
	switch r {
	case nvml.ERROR_NOT_SUPPORTED:
		return "not supported by this device"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission"
	case nvml.ERROR_GPU_IS_LOST:
		return "the GPU has fallen off the bus"
	case nvml.ERROR_RESET_REQUIRED:
		return "the GPU needs a reset"
	case nvml.ERROR_FUNCTION_NOT_FOUND:
		return "the driver is too old for this question"
	case nvml.ERROR_INVALID_ARGUMENT:
		return "the driver does not know this field"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "driver and library versions differ (a driver update without a reboot?)"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the kernel module is not loaded"
	default:
		return fmt.Sprintf("driver error %d", int(r))
	}
}
