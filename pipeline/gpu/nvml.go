//go:build cgo && linux

package gpu

import (
	"cmp"
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
// loading again rewrites function pointers that other goroutines may be reading,
// and a goroutine that waits for events must not outlive what it calls.
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

// probeWith asks a library that was started. A device that cannot be opened is listed with the reason.
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

// openWith finds a device by index or UUID. The driver takes any text for a UUID, so other selectors are refused here.
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
		return nil, fmt.Errorf("open device %q: %w\nhint: name a device by its index, such as \"0\", or by its UUID, such as \"GPU-…\"", selector, errNoDevice)
	}
	if r == nvml.ERROR_INVALID_ARGUMENT || r == nvml.ERROR_NOT_FOUND {
		return nil, fmt.Errorf("open device %q: %w\nhint: kbisect doctor lists the devices of this machine", selector, errNoDevice)
	}
	if r != nvml.SUCCESS {
		return nil, fmt.Errorf("open device %q: %s", selector, name(r))
	}
	if strings.HasPrefix(selector, "MIG-") {
		d, err := newSlice(lib, dev)
		if err != nil {
			return nil, fmt.Errorf("open device %q: %w", selector, err)
		}
		return d, nil
	}
	return newDevice(lib, dev, index), nil
}

// device is one handle, and the test for functions that the installed driver lacks.
type device struct {
	lib   nvml.Interface
	dev   nvml.Device // what trials run on: a GPU or a slice
	whole nvml.Device // the GPU: of a slice, only this knows clocks, power, counters and health
	slice *instance   // nil for a GPU
	index int
	has   func(symbol string) bool
}

// newDevice wraps a handle; index -1 means that the driver is to be asked.
func newDevice(lib nvml.Interface, dev nvml.Device, index int) *device {
	ext := lib.Extensions()
	d := &device{lib: lib, dev: dev, whole: dev, index: index, has: func(s string) bool { return ext.LookupSymbol(s) == nil }}
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
	lost   bool
}

// ask calls f, unless the installed library lacks symbol: calling a missing
// function ends the whole process.
func (a *asking) ask(field, symbol string, f func() nvml.Return) bool {
	if !a.d.has(symbol) {
		a.absent = append(a.absent, Absence{field, lacks(symbol)})
		return false
	}
	return a.note(field, f())
}

// valueOf is what get returns, or the zero value if it does not succeed.
func valueOf[T any](a *asking, field, symbol string, get func() (T, nvml.Return)) T {
	var v, none T
	if !a.ask(field, symbol, func() (r nvml.Return) { v, r = get(); return r }) {
		return none
	}
	return v
}

// note keeps what an answer other than success means.
func (a *asking) note(field string, r nvml.Return) bool {
	if r == nvml.SUCCESS {
		return true
	}
	a.absent = append(a.absent, Absence{field, name(r)})
	a.lost = a.lost || isLost(r)
	return false
}

// present asks for the UUID, which every device has: a handle that does not
// even know that is of a device, or a slice, that is not there any more.
func (a *asking) present() (uuid string) {
	const symbol = "nvmlDeviceGetUUID"
	a.ask("UUID", symbol, func() (r nvml.Return) {
		uuid, r = a.d.dev.GetUUID()
		a.lost = a.lost || r == nvml.ERROR_INVALID_ARGUMENT || r == nvml.ERROR_NOT_FOUND
		return r
	})
	return uuid
}

// isLost reports an answer that only a device gives which needs a reset, or has fallen off the bus.
func isLost(r nvml.Return) bool {
	return r == nvml.ERROR_GPU_IS_LOST || r == nvml.ERROR_RESET_REQUIRED
}

func lacks(symbol string) string { return "the driver is too old: it lacks " + symbol }

// identity asks for all that stays, and for the state of the moment.
func (d *device) identity() Device {
	a := &asking{d: d}
	out := Device{Index: d.index, UUID: a.present()}
	out.Name = valueOf(a, "Name", "nvmlDeviceGetName", d.dev.GetName)
	out.MemoryTotal = valueOf(a, "MemoryTotal", "nvmlDeviceGetMemoryInfo", d.dev.GetMemoryInfo).Total
	d.limits(a, &out)
	d.mig(a, &out)
	now := d.readInto(a)
	out.SMClock, out.MemClock, out.Temperature, out.PowerW = now.SMClock, now.MemClock, now.Temperature, now.PowerW
	out.RecoveryAction, out.Processes, out.Absent = now.RecoveryAction, now.Processes, a.absent
	return out
}

// limits asks what the device can do at most.
func (d *device) limits(a *asking, out *Device) {
	a.ask("ComputeCapability", "nvmlDeviceGetCudaComputeCapability", func() nvml.Return {
		major, minor, r := d.whole.GetCudaComputeCapability()
		if r == nvml.SUCCESS {
			out.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
		}
		return r
	})
	out.SMClockMax = valueOf(a, "SMClockMax", "nvmlDeviceGetMaxClockInfo", func() (uint32, nvml.Return) { return d.whole.GetMaxClockInfo(nvml.CLOCK_SM) })
	out.PersistenceMode = valueOf(a, "PersistenceMode", "nvmlDeviceGetPersistenceMode", func() (string, nvml.Return) {
		mode, r := d.whole.GetPersistenceMode()
		return onOff(mode == nvml.FEATURE_ENABLED), r
	})
	out.PowerLimitW = thousandth(valueOf(a, "PowerLimitW", "nvmlDeviceGetEnforcedPowerLimit", d.whole.GetEnforcedPowerLimit))
}

// read is a reading by itself. The UUID is asked for first: without one the device is lost.
func (d *device) read() Reading {
	a := &asking{d: d}
	a.present()
	out := d.readInto(a)
	out.Absent = a.absent
	return out
}

// readInto asks for the state of the moment; what cannot be learned is noted with the questions.
func (d *device) readInto(a *asking) Reading {
	out := Reading{Time: time.Now()}
	d.readPower(a, &out)
	d.readReasons(a, &out)
	d.readProcesses(a, &out)
	d.readMemory(a, &out)
	d.readFields(a, &out)
	out.Lost = a.lost
	return out
}

// readPower asks for clocks in MHz, degrees Celsius and watts.
func (d *device) readPower(a *asking, out *Reading) {
	clock := func(field string, of nvml.ClockType) uint32 {
		return valueOf(a, field, "nvmlDeviceGetClockInfo", func() (uint32, nvml.Return) { return d.whole.GetClockInfo(of) })
	}
	out.SMClock, out.MemClock = clock("SMClock", nvml.CLOCK_SM), clock("MemClock", nvml.CLOCK_MEM)
	out.Temperature = valueOf(a, "Temperature", "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) { return d.whole.GetTemperature(nvml.TEMPERATURE_GPU) })
	out.PowerW = thousandth(valueOf(a, "PowerW", "nvmlDeviceGetPowerUsage", d.whole.GetPowerUsage))
}

// readMemory asks for the health of the memory.
func (d *device) readMemory(a *asking, out *Reading) {
	out.ECCUncorrected = valueOf(a, "ECCUncorrected", "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) {
		return d.whole.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	})
	a.ask("RemappedRows", "nvmlDeviceGetRemappedRows", func() nvml.Return {
		_, _, pending, failed, r := d.whole.GetRemappedRows()
		if r == nvml.SUCCESS {
			out.RemapPending, out.RemapFailed = pending, failed
		}
		return r
	})
}

// readProcesses lists the processes of the device; of a slice, only its own.
func (d *device) readProcesses(a *asking, out *Reading) {
	symbol := d.newest("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses")
	a.ask("Processes", symbol, func() nvml.Return {
		procs, r := d.processes()
		if r == nvml.SUCCESS {
			out.Processes = processes(procs)
		}
		return r
	})
}

// readReasons uses the name that the installed driver knows; both answer alike.
func (d *device) readReasons(a *asking, out *Reading) {
	symbol, get := "nvmlDeviceGetCurrentClocksEventReasons", d.whole.GetCurrentClocksEventReasons
	if !d.has(symbol) {
		symbol, get = "nvmlDeviceGetCurrentClocksThrottleReasons", d.whole.GetCurrentClocksThrottleReasons
	}
	out.Reasons = Reasons(valueOf(a, "Reasons", symbol, get))
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
		whole = d.whole.GetFieldValues(values)
	}
	for i, f := range asked {
		r := whole
		if r == nvml.SUCCESS {
			r = nvml.Return(values[i].NvmlReturn)
		}
		if a.note(f.name, r) {
			f.put(number(values[i]))
		}
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

// thousandth is a number of milliwatts in watts.
func thousandth(milli uint32) float64 { return float64(milli) / 1000 }

// processes are the driver's processes; of one whose memory it does not know, that is 0.
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

// returns are the driver's return codes in lower case words. The text of the library itself is not used: asking
// for it needs a library that works.
var returns = map[nvml.Return]string{
	nvml.ERROR_NOT_SUPPORTED:           "not supported by this device",
	nvml.ERROR_NO_PERMISSION:           "no permission",
	nvml.ERROR_GPU_IS_LOST:             "the GPU has fallen off the bus",
	nvml.ERROR_RESET_REQUIRED:          "the GPU needs a reset",
	nvml.ERROR_FUNCTION_NOT_FOUND:      "the driver is too old for this question",
	nvml.ERROR_INVALID_ARGUMENT:        "the driver does not know this field",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "driver and library versions differ (a driver update without a reboot?)",
	nvml.ERROR_DRIVER_NOT_LOADED:       "the kernel module is not loaded",
}

// name is a return code for people.
func name(r nvml.Return) string { return cmp.Or(returns[r], fmt.Sprintf("driver error %d", int(r))) }
