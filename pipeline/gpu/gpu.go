// Package gpu tells which devices a machine has and what state they are in.
//
// It answers three questions: what is here (Probe), what was one device doing
// just before and just after a trial (Open, Watch.Read), and may this process
// have the device to itself (Lock, TryLock). It is the only room that talks to
// the driver's management library, NVML; a build without cgo, or a machine
// without the library, gets a Report that says so and is otherwise unaffected.
//
// The driver may refuse any single question (an old driver, a consumer card, a
// MIG slice). Such a field is left zero and its name and reason go into Absent;
// nothing here fails because one number is missing.
package gpu

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// ErrUnavailable is wrapped by the error of Open when no device can be asked
// on this machine at all.
var ErrUnavailable = errors.New("no GPU management library")

// ErrNoDevice is wrapped by the error of Open when the selector names no device.
var ErrNoDevice = errors.New("no such device")

// Report is what Probe found.
type Report struct {
	Available bool     // the library answered; Devices may still be empty
	Why       string   // why not, when Available is false
	Driver    string   // version of the driver, as "550.54.15"
	CUDA      string   // newest CUDA version that the driver serves, as "12.4"
	Devices   []Device // in the driver's order
}

// Device is one GPU or MIG slice and its state when it was read.
type Device struct {
	Index             int     // the driver's index; CUDA may count differently
	UUID              string  // "GPU-…" or "MIG-…"
	Name              string  // as "NVIDIA H200"
	MemoryTotal       uint64  // bytes
	MemoryUsed        uint64  // bytes
	ComputeCapability string  // as "9.0"
	SMClock           uint32  // MHz
	SMClockMax        uint32  // MHz
	MemClock          uint32  // MHz
	Temperature       uint32  // °C
	PowerW            float64 // W
	PowerLimitW       float64 // W, the limit in force
	PersistenceMode   string  // "on", "off" or "" when not known
	Processes         []Process
	RecoveryAction    string // what the driver asks for: "none", "reset the GPU", …; "" when not known
	MIG               bool   // MIG mode is on: the device is cut into slices
	Absent            []Absence
}

// Process is one process that holds a compute context on a device.
type Process struct {
	PID       int    // as the driver counts: outside any container
	UsedBytes uint64 // 0 when not known
}

// Absence names a field that the driver would not tell, and why.
type Absence struct {
	Field string
	Why   string
}

// Reading is the state of one device at one moment.
type Reading struct {
	Time           time.Time
	SMClock        uint32  // MHz
	MemClock       uint32  // MHz
	Temperature    uint32  // °C
	PowerW         float64 // W
	EnergyJ        float64 // J since the driver was loaded
	Reasons        Reasons // why the clocks are where they are, now
	Counters       Counters
	RecoveryAction string
	Processes      []Process
	Absent         []Absence
}

// Counters are the driver's own totals of the time for which the clocks were
// held down, by reason. Their difference over a trial misses nothing, where
// polling Reasons misses everything shorter than the polling period.
type Counters struct {
	SWPowerCap   time.Duration
	SyncBoost    time.Duration
	SWThermal    time.Duration
	HWThermal    time.Duration
	HWPowerBrake time.Duration
}

// Has reports whether the driver told the named field of r.
func (r Reading) Has(field string) bool {
	return !slices.ContainsFunc(r.Absent, func(a Absence) bool { return a.Field == field })
}

// Healthy reports whether the driver asks for no recovery of the device. A
// driver too old to say counts as healthy.
func (r Reading) Healthy() bool {
	return r.RecoveryAction == "" || r.RecoveryAction == recoveryNone
}

// Others returns the processes on the device that are not in mine.
func (r Reading) Others(mine ...int) []Process {
	return slices.DeleteFunc(slices.Clone(r.Processes), func(p Process) bool {
		return slices.Contains(mine, p.PID)
	})
}

// Sub returns how much each counter grew from before to c. A counter that went
// back (the driver was reloaded in between) counts as zero.
func (c Counters) Sub(before Counters) Counters {
	grew := func(a, b time.Duration) time.Duration { return max(a-b, 0) }
	return Counters{
		SWPowerCap:   grew(c.SWPowerCap, before.SWPowerCap),
		SyncBoost:    grew(c.SyncBoost, before.SyncBoost),
		SWThermal:    grew(c.SWThermal, before.SWThermal),
		HWThermal:    grew(c.HWThermal, before.HWThermal),
		HWPowerBrake: grew(c.HWPowerBrake, before.HWPowerBrake),
	}
}

// String lists the counters that are not zero, as
// "power cap 1.2s, thermal 300ms"; it is "" when none is.
func (c Counters) String() string {
	var parts []string
	add := func(name string, d time.Duration) {
		if d > 0 {
			parts = append(parts, name+" "+d.Round(time.Microsecond).String())
		}
	}
	add("power cap", c.SWPowerCap)
	add("sync boost", c.SyncBoost)
	add("thermal slowdown", c.SWThermal)
	add("hardware thermal slowdown", c.HWThermal)
	add("power brake", c.HWPowerBrake)
	return strings.Join(parts, ", ")
}

// Reasons is the driver's bit set of clocks event reasons.
type Reasons uint64

// The bits of Reasons.
const (
	ReasonIdle          Reasons = 1
	ReasonUserClocks    Reasons = 2
	ReasonSWPowerCap    Reasons = 4
	ReasonHWSlowdown    Reasons = 8
	ReasonSyncBoost     Reasons = 16
	ReasonSWThermal     Reasons = 32
	ReasonHWThermal     Reasons = 64
	ReasonHWPowerBrake  Reasons = 128
	ReasonDisplayClocks Reasons = 256
)

// Throttled reports whether something other than idling or a clock that a
// person chose holds the clocks down.
func (r Reasons) Throttled() bool {
	return r&^(ReasonIdle|ReasonUserClocks|ReasonDisplayClocks) != 0
}

// String names the bits, as "idle" or "power cap, thermal slowdown"; it is
// "none" for no bit.
func (r Reasons) String() string {
	names := [...]string{"idle", "application clocks", "power cap", "hardware slowdown", "sync boost",
		"thermal slowdown", "hardware thermal slowdown", "power brake", "display clocks"}
	var parts []string
	for i, name := range names {
		if r&(1<<i) != 0 {
			parts = append(parts, name)
		}
	}
	if r>>len(names) != 0 {
		parts = append(parts, "unknown")
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// recoveryNone is the RecoveryAction of a healthy device.
const recoveryNone = "none"

// reader asks one device; it is what stands between a Watch and the driver.
type reader interface {
	identity() Device
	read() Reading
}

// Watch reads one device again and again. It may be used by several goroutines.
type Watch struct {
	dev reader
	id  Device
}

// Device returns the device as it was when it was opened.
func (w *Watch) Device() Device { return w.id }

// Read returns the state of the device now. It never fails: what the driver
// does not tell is listed in Absent.
func (w *Watch) Read() Reading { return w.dev.read() }

// Probe asks the driver for every device of the machine.
func Probe() Report { return probe() }

// Open finds one device by its index ("0") or its UUID ("GPU-…", "MIG-…").
// The error wraps ErrUnavailable or ErrNoDevice.
func Open(selector string) (*Watch, error) {
	dev, err := open(strings.TrimSpace(selector))
	if err != nil {
		return nil, err
	}
	return &Watch{dev: dev, id: dev.identity()}, nil
}
