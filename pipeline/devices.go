package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// clearBound is how long the contexts of an ended trial may stay on a device before that counts as sharing.
const clearBound = 10 * time.Second

// reading is what the devices reported before a launch.
type reading struct {
	devices []*gpu.Watch
	from    time.Time
	before  []gpu.Reading
}

// readDevices reads the devices before a launch.
func readDevices(devices []*gpu.Watch) reading {
	x := reading{devices: devices, from: time.Now()}
	for _, d := range devices {
		x.before = append(x.before, d.Read())
	}
	return x
}

// beside is a reading taken while a launch of ours still tears down on the devices. It has the processes of an earlier
// reading, so that the launch before this one is not taken for somebody else's process.
func (x reading) beside(earlier reading) reading {
	for i := range x.before {
		x.before[i].Processes = earlier.before[i].Processes
	}
	return x
}

// deviceState is what the devices went through during a launch. Its texts are for the user, and "" if nothing happened.
type deviceState struct {
	notes     []bisect.DeviceNote // one for each device, in the order of the configuration
	throttled string              // the clocks were lowered: times are doubtful
	shared    string              // other processes used a device: times are doubtful, and memory may have been short
	fault     string              // a device failed, which is never the candidate's fault
}

// since waits until the launch has left the devices, reads them again and compares. One that is still tearing down is
// not waited for: whether other processes came is then seen by the next launch.
func (x reading) since(ctx context.Context, still bool) (s deviceState) {
	for i, d := range x.devices {
		var left []gpu.Process
		var after gpu.Reading
		if still {
			after = d.Read()
			after.Processes = x.before[i].Processes
		} else {
			left, after = d.Clear(ctx, x.before[i].Processes, clearBound)
		}
		c := gpu.Between(x.before[i], after, d.Events(x.from))
		note := bisect.DeviceNote{UUID: d.Device().UUID, Before: asJSON(x.before[i]), After: asJSON(after), Change: asJSON(c)}
		if yes, why := c.Throttled(); yes {
			note.Throttled = why
			s.throttled = join(s.throttled, why)
		}
		if yes, why := c.Shared(); yes {
			note.Shared = why
			s.shared = join(s.shared, why)
		}
		if why := c.Fault(); why != "" {
			s.fault = join(s.fault, d.Device().UUID+": "+why)
		}
		// Processes that were there before have been reported as sharing, and a failed device may keep its processes.
		if n := len(left); n > 0 && after.Has("Processes") && len(x.before[i].Processes) == 0 && s.fault == "" {
			s.shared = join(s.shared, fmt.Sprintf("processes that did not leave the device within %v: %d", clearBound, n))
		}
		s.notes = append(s.notes, note)
	}
	return s
}

// visible limits processes to the watched devices, so that they run on what is read and locked. CUDA counts devices by
// their place on the PCI bus then, as nvidia-smi does.
func visible(env []string, devices []*gpu.Watch) []string {
	if len(devices) == 0 {
		return env
	}
	var ids []string
	for _, d := range devices {
		ids = append(ids, d.Device().UUID)
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "CUDA_VISIBLE_DEVICES=") || strings.HasPrefix(v, "CUDA_DEVICE_ORDER=")
	})
	return append(env, "CUDA_VISIBLE_DEVICES="+strings.Join(ids, ","), "CUDA_DEVICE_ORDER=PCI_BUS_ID")
}

// sandbox lets processes use the watched devices and no others; if none is watched, those that it was given. Besides
// the nodes of devices, programs need the driver's own. /dev/dxg is that of WSL, the same for every device.
func sandbox(of *proc.Sandbox, devices []*gpu.Watch) *proc.Sandbox {
	if of == nil || len(devices) == 0 {
		return of
	}
	box := *of
	box.Devices = []string{"/dev/nvidiactl", "/dev/nvidia-uvm*", "/dev/nvidia-caps/*", "/dev/nvidia-caps-imex-channels/*", "/dev/dxg"}
	for _, d := range devices {
		box.Devices = append(box.Devices, "/dev/nvidia"+minor(cmp.Or(d.Device().Parent, d.Device().UUID)))
	}
	return &box
}

// minor is the number in the name of a GPU's node, such as /dev/nvidia0, or a pattern for all if the driver does not say.
func minor(uuid string) string {
	files, _ := filepath.Glob("/proc/driver/nvidia/gpus/*/information")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		facts := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			facts[name] = strings.TrimSpace(value)
		}
		if facts["GPU UUID"] == uuid && facts["Device Minor"] != "" {
			return facts["Device Minor"]
		}
	}
	return "[0-9]*"
}

// asJSON is v for the stored outcome; nil if it cannot be written, since no trial fails for its notes.
func asJSON(v any) json.RawMessage {
	data, _ := json.Marshal(v)
	return data
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
