// Package machine says what a run was made on and with: devices, driver, compilers,
// Python and torch ([Machine]), and runs the tools that tell their versions ([RunTool]).
// It knows nothing of searches.
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

	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// Machine is what a baseline was measured on and with. "" is not there, or not asked for.
type Machine struct {
	Devices  []Device `json:"devices"`
	Driver   string   `json:"driver"`
	CUDA     string   `json:"cuda"` // newest version that the driver serves
	Compiler string   `json:"compiler"`
	NVCC     string   `json:"nvcc"`
	Python   string   `json:"python"`
	Torch    string   `json:"torch"`
}

type Device struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
}

// Describe says what trials on some devices run on; Python and torch are asked only where the commands are theirs.
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

// toolVersion is the line by which a program tells its version, "" when it does not.
func toolVersion(ctx context.Context, prefix, name string, args ...string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	s := RunTool(ctx, 30*time.Second, os.TempDir(), append([]string{path}, args...)...)
	if s.Err != nil {
		return ""
	}
	return wording.Clean(VersionLine(s, prefix))
}

// Here is what can be said at once of the machine that kbisect runs on: its devices.
func Here(ctx context.Context) *Machine {
	m := &Machine{}
	answer := make(chan gpu.Report, 1)
	go func() { answer <- gpu.Probe() }()
	select {
	case r := <-answer:
		m.Driver, m.CUDA = r.Driver, r.CUDA
		for _, d := range r.Devices {
			m.Devices = append(m.Devices, Device{d.Name, d.UUID})
		}
	case <-ctx.Done():
	case <-time.After(10 * time.Second): // a driver that hangs has no devices
	}
	return m
}

// Elsewhere reports that a device that was measured on is not here, or that there is one here and none was used.
func (m Machine) Elsewhere(here *Machine) bool {
	for _, d := range m.Devices {
		if !slices.ContainsFunc(here.Devices, func(x Device) bool { return x.UUID == d.UUID }) {
			return true
		}
	}
	return len(m.Devices) == 0 && len(here.Devices) > 0
}

// Uuids names the devices for programs.
func (m Machine) Uuids() (out []string) {
	for _, d := range m.Devices {
		out = append(out, d.UUID)
	}
	return out
}

// DeviceWords names the devices.
func (m Machine) DeviceWords() string {
	var names []string
	for _, d := range m.Devices {
		names = append(names, d.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "no device")
}

// Lines are what is known, for people.
func (m Machine) Lines() (out [][2]string) {
	for _, d := range m.Devices {
		out = append(out, [2]string{"device", d.Name + " " + d.UUID})
	}
	if len(m.Devices) == 0 {
		out = append(out, [2]string{"device", "none was watched"})
	}
	for _, l := range [][2]string{{"driver", m.Driver}, {"CUDA", m.CUDA}, {"compiler", m.Compiler}, {"nvcc", m.NVCC}, {"python", m.Python}, {"torch", m.Torch}} {
		if l[1] != "" {
			out = append(out, l)
		}
	}
	return out
}

// Check finds what no machine can be.
func (m Machine) Check() error {
	for _, d := range m.Devices {
		if !strings.HasPrefix(d.UUID, "GPU-") && !strings.HasPrefix(d.UUID, "MIG-") {
			return fmt.Errorf("device %q is no UUID", d.UUID)
		}
	}
	if m.Driver != "" && len(m.Devices) == 0 {
		return errors.New("a driver and no device")
	}
	return nil
}
