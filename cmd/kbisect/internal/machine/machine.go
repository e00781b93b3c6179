// Package machine describes what a run was made on and with: devices, driver, compilers, Python and torch
// ([Machine]). It runs the tools that print their versions ([RunTool]), tells whether the machine is still as it
// was ([Fingerprint]), and lends temporary folders that do not outlive a killed kbisect for long ([Scratch]). It
// must not know of searches, sessions or candidates.
package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// Machine is what a baseline was measured on and with. A field is "" if the thing is not installed or was not
// looked for.
type Machine struct {
	Devices  []Device `json:"devices"`
	Driver   string   `json:"driver"`
	CUDA     string   `json:"cuda"` // newest version that the driver supports
	Compiler string   `json:"compiler"`
	NVCC     string   `json:"nvcc"`
	Python   string   `json:"python"`
	Torch    string   `json:"torch"`
}

// Device identifies a GPU or a MIG slice. Only the UUID (GPU-… or MIG-…) identifies it; many devices share a name.
type Device struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
}

// Describe describes this machine for trials on the watched devices. It starts compilers and, if python is set,
// Python and torch, and so takes seconds. What cannot be found out is left empty.
func Describe(ctx context.Context, watches []*gpu.Watch, python bool) Machine {
	m := Machine{Devices: []Device{}}
	for _, w := range watches {
		d := w.Device()
		m.Devices = append(m.Devices, Device{d.Name, d.UUID})
	}
	if len(m.Devices) > 0 {
		r := gpu.Probe()
		m.Driver, m.CUDA = r.Driver, r.CUDA
	}
	m.Compiler = toolVersion(ctx, "", cmp.Or(FirstWord(os.Getenv("CC")), "cc"), "--version")
	m.NVCC = toolVersion(ctx, "Cuda compilation tools", "nvcc", "--version")
	if python {
		m.Python = toolVersion(ctx, "Python", "python3", "--version")
		m.Torch = toolVersion(ctx, "torch", "python3", "-c", TorchProbe)
	}
	return m
}

// toolVersion is the line in which a program prints its version, the one that begins with prefix; "" if it has
// none.
func toolVersion(ctx context.Context, prefix, name string, args ...string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	s := RunTool(ctx, 30*time.Second, os.TempDir(), append([]string{path}, args...)...)
	if s.Err != nil {
		return ""
	}
	return words.Printable(VersionLine(s, prefix))
}

// Here describes this machine as far as that is quick: driver and devices. It waits at most ten seconds for the
// driver.
func Here(ctx context.Context) *Machine {
	r, _ := Within(ctx, 10*time.Second, gpu.Probe) // a driver that hangs has no devices
	m := &Machine{Driver: r.Driver, CUDA: r.CUDA}
	for _, d := range r.Devices {
		m.Devices = append(m.Devices, Device{d.Name, d.UUID})
	}
	return m
}

// Within calls f, which asks a driver, and waits for its answer; ok is false if none comes in time. A driver that hangs
// cannot be interrupted, so the call is then left to its goroutine.
func Within[T any](ctx context.Context, wait time.Duration, f func() T) (answer T, ok bool) {
	answers := make(chan T, 1)
	go func() { answers <- f() }()
	select {
	case answer = <-answers:
		return answer, true
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return answer, false
}

// Elsewhere reports whether m is another machine than here: one of its devices is missing here, or it has no device
// and here has. Only devices count, not the host.
func (m Machine) Elsewhere(here *Machine) bool {
	for _, d := range m.Devices {
		if !slices.ContainsFunc(here.Devices, func(x Device) bool { return x.UUID == d.UUID }) {
			return true
		}
	}
	return len(m.Devices) == 0 && len(here.Devices) > 0
}

// UUIDs lists the UUIDs of the devices; nil if there are none.
func (m Machine) UUIDs() (out []string) {
	for _, d := range m.Devices {
		out = append(out, d.UUID)
	}
	return out
}

// DeviceNames lists the names of the devices for people.
func (m Machine) DeviceNames() string {
	var names []string
	for _, d := range m.Devices {
		names = append(names, d.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "no device")
}

// Lines lists what is known, as pairs of label and value.
func (m Machine) Lines() (out [][2]string) {
	for _, d := range m.Devices {
		out = append(out, [2]string{"device", d.Name + " " + d.UUID})
	}
	if len(m.Devices) == 0 {
		out = append(out, [2]string{"device", "none used"})
	}
	for _, l := range [][2]string{{"driver", m.Driver}, {"CUDA", m.CUDA}, {"compiler", m.Compiler}, {"nvcc", m.NVCC}, {"python", m.Python}, {"torch", m.Torch}} {
		if l[1] != "" {
			out = append(out, l)
		}
	}
	return out
}

// Check refuses a description, read from a file, that no machine can have.
func (m Machine) Check() error {
	for _, d := range m.Devices {
		if !strings.HasPrefix(d.UUID, "GPU-") && !strings.HasPrefix(d.UUID, "MIG-") {
			return fmt.Errorf("invalid device UUID %q", d.UUID)
		}
	}
	if m.Driver != "" && len(m.Devices) == 0 {
		return errors.New("a driver without a device")
	}
	return nil
}
