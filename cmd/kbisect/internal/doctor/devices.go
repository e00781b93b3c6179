package doctor

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// namesDevices reports whether the configuration asks for certain devices, so that a machine without them is not
// ready. "auto" takes what there is, also nothing.
func namesDevices(gpus []string) bool {
	return !slices.Equal(gpus, []string{"auto"}) && !slices.Equal(gpus, []string{"none"})
}

// devicesHere describes the devices of this machine and tries to open those in gpus, the value of [device] gpus. No
// device at all is a problem only if the configuration names some. A device that is not fit for timing is a problem too.
func devicesHere(rep gpu.Report, gpus []string) Finding {
	if !rep.Available || len(rep.Devices) == 0 {
		why := cmp.Or(rep.Why, "the driver reports no device")
		if namesDevices(gpus) {
			return broken(why, `[device] gpus names devices; write "none" or "auto" to run without`)
		}
		return missing(why+"; trials run without a device", "")
	}
	lines := []string{fmt.Sprintf("driver %s, CUDA up to %s", rep.Driver, rep.CUDA)}
	var hints []string
	for _, d := range rep.Devices {
		line, advice := deviceLine(d)
		lines = append(lines, line)
		if advice != "" {
			hints = append(hints, advice)
		}
	}
	if namesDevices(gpus) {
		for _, g := range gpus {
			// Nothing has to be closed: a watch holds nothing until it follows events.
			if _, err := gpu.Open(g); err != nil {
				text, _ := hint.Split(err)
				lines = append(lines, wording.Headline(text))
				hints = append(hints, "[device] gpus names a device that is not here")
			}
		}
	}
	if len(hints) > 0 {
		return broken(strings.Join(lines, "\n"), strings.Join(slices.Compact(hints), "\n"))
	}
	return passed("%s", strings.Join(lines, "\n"))
}

// deviceLine describes one device, in several lines, and says what to do if it is not fit for timing. The UUID is there
// to be copied into [device] gpus: numbers of devices may change with the next start of the machine.
func deviceLine(d gpu.Device) (line, advice string) {
	if d.UUID == "" {
		why := "unknown"
		if len(d.Absent) > 0 {
			why = d.Absent[0].Why
		}
		return fmt.Sprintf("%d: %s", d.Index, why), "the driver cannot open this device; see dmesg"
	}
	line = fmt.Sprintf("%d: %s, %s, compute capability %s, SM %d of %d MHz, memory %d MHz, %d °C, %.0f of %.0f W, persistence %s",
		d.Index, d.Name, humanize.IBytes(d.MemoryTotal), d.ComputeCapability, d.SMClock, d.SMClockMax, d.MemClock, d.Temperature, d.PowerW, d.PowerLimitW,
		cmp.Or(d.PersistenceMode, "unknown"))
	line += "\n   " + d.UUID
	if d.MIG {
		line += ", MIG is on: name a slice by its UUID in [device] gpus"
	}
	// After some errors the driver asks for a reset or a reboot, which matters more than who uses the device.
	if d.RecoveryAction != "" && d.RecoveryAction != "none" {
		return line + "\n   the driver asks to " + d.RecoveryAction, "do so before timing anything"
	}
	for _, p := range d.Processes {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
		line += fmt.Sprintf("\n   in use by process %d %s (%s)", p.PID, strings.TrimSpace(string(comm)), humanize.IBytes(p.UsedBytes))
		advice = "other processes use this device: timings will vary and memory may run out"
	}
	return line, advice
}
