// Package gpu reports which devices a machine has and what state they are in.
//
// It answers three questions: what is here ([Probe], [Select]), what one device did
// just before and just after a trial ([Open], [Watch], [Between]), and whether this
// process may have the device to itself ([TryLock], [Held]). It is the only package
// that talks to the driver's management library, NVML; a build without cgo, or a
// machine without the library, gets a [Report] that says so and is otherwise
// unaffected. It must not know trials or verdicts.
//
// The driver may refuse any single question (an old driver, a consumer card, a
// MIG slice). Such a field is left zero and its name and reason go into Absent;
// a missing number is never an error.
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

// errNoDevice is wrapped by the error of Open when the selector names no device.
var errNoDevice = errors.New("no such device")

// Report is what Probe found.
type Report struct {
	Available bool     `json:"available"`         // the library answered; Devices may still be empty
	Why       string   `json:"why,omitempty"`     // why not, when Available is false
	Driver    string   `json:"driver,omitempty"`  // version of the driver, as "550.54.15"
	CUDA      string   `json:"cuda,omitempty"`    // newest CUDA version that the driver serves, as "12.4"
	Devices   []Device `json:"devices,omitempty"` // in the driver's order
}

// Device is one GPU or MIG slice and its state when it was read. Of a slice,
// only UUID, Parent, Name, the memory and Processes are its own; the rest belongs to the
// GPU that was cut.
type Device struct {
	Index             int       `json:"index"`                        // the driver's index of the GPU; CUDA may count differently
	UUID              string    `json:"uuid,omitempty"`               // "GPU-…" or "MIG-…"
	Parent            string    `json:"parent,omitempty"`             // of a slice: the UUID of the GPU that was cut
	Name              string    `json:"name,omitempty"`               // as "NVIDIA H200"
	MemoryTotal       uint64    `json:"memory_total,omitempty"`       // bytes
	ComputeCapability string    `json:"compute_capability,omitempty"` // as "9.0"
	SMClock           uint32    `json:"sm_clock,omitempty"`           // MHz
	SMClockMax        uint32    `json:"sm_clock_max,omitempty"`       // MHz
	MemClock          uint32    `json:"mem_clock,omitempty"`          // MHz
	Temperature       uint32    `json:"temperature,omitempty"`        // °C
	PowerW            float64   `json:"power_w,omitempty"`            // W
	PowerLimitW       float64   `json:"power_limit_w,omitempty"`      // W, the limit in force
	PersistenceMode   string    `json:"persistence_mode,omitempty"`   // "on", "off" or "" when not known
	Processes         []Process `json:"processes,omitempty"`
	RecoveryAction    string    `json:"recovery_action,omitempty"` // what the driver asks for: "none", "reset the GPU", …; "" when not known
	MIG               bool      `json:"mig,omitempty"`             // MIG mode is on: the device is cut into slices
	Slices            []string  `json:"slices,omitempty"`          // of a device in MIG mode: the UUIDs of what a program may use as its device, "MIG-…"
	Absent            []Absence `json:"absent,omitempty"`
}

// Process is one process that holds a compute context on a device.
type Process struct {
	PID       int    `json:"pid"`                  // as the driver counts: outside any container
	UsedBytes uint64 `json:"used_bytes,omitempty"` // 0 when not known
}

// Absence names a field that the driver did not answer for, and why.
type Absence struct {
	Field string `json:"field"`
	Why   string `json:"why"`
}

// Reading is the state of one device at one moment.
// The names in Absent are those of its fields and of the fields of Counters;
// "RemappedRows" stands for RemapPending and RemapFailed, "UUID" for a device
// without an identity, and "Events" for Watch.Events.
type Reading struct {
	Time           time.Time
	SMClock        uint32  // MHz
	MemClock       uint32  // MHz
	Temperature    uint32  // °C
	PowerW         float64 // W
	Reasons        Reasons // why the clocks are where they are, now
	Counters       Counters
	ECCUncorrected uint64 // uncorrected memory errors since the driver was loaded
	RemapPending   bool   // a bad row of memory will be replaced at the next reset
	RemapFailed    bool   // a bad row of memory could not be replaced
	RecoveryAction string
	// Lost says that the device does not answer as a device does: it has fallen
	// off the bus, needs a reset before anything else, is not there any more, or
	// its driver hangs.
	Lost      bool
	Processes []Process
	Absent    []Absence
}

// Has reports whether the driver answered for the named field of r.
func (r Reading) Has(field string) bool {
	return !slices.ContainsFunc(r.Absent, func(a Absence) bool { return a.Field == field })
}

// others returns the processes on the device that are not in mine.
func (r Reading) others(mine ...int) []Process {
	return slices.DeleteFunc(slices.Clone(r.Processes), func(p Process) bool {
		return slices.Contains(mine, p.PID)
	})
}

// Reasons is the driver's bit set of clocks event reasons.
type Reasons uint64

// The bits of Reasons.
const (
	reasonIdle          Reasons = 1
	reasonUserClocks    Reasons = 2
	reasonSWPowerCap    Reasons = 4
	reasonHWSlowdown    Reasons = 8
	reasonSyncBoost     Reasons = 16
	reasonSWThermal     Reasons = 32
	ReasonHWThermal     Reasons = 64
	reasonHWPowerBrake  Reasons = 128
	reasonDisplayClocks Reasons = 256
)

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

// Probe asks the driver for every device of the machine.
func Probe() Report { return probe() }
