package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// machine is what a baseline was measured on and with. "" is not there, or not asked for.
type machine struct {
	Devices  []machineDevice `json:"devices"`
	Driver   string          `json:"driver"`
	CUDA     string          `json:"cuda"` // newest version that the driver serves
	Compiler string          `json:"compiler"`
	NVCC     string          `json:"nvcc"`
	Python   string          `json:"python"`
	Torch    string          `json:"torch"`
}

type machineDevice struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
}

// machine describes what the trials run on; Python and torch are asked where the commands are theirs.
func (t *trials) machine(ctx context.Context) machine {
	m := machine{Devices: []machineDevice{}}
	for _, w := range t.gpus.watches {
		d := w.Device()
		m.Devices = append(m.Devices, machineDevice{d.Name, d.UUID})
	}
	if len(m.Devices) > 0 {
		r := gpu.Probe()
		m.Driver, m.CUDA = r.Driver, r.CUDA
	}
	m.Compiler = toolVersion(ctx, "", cmp.Or(firstWord(os.Getenv("CC")), "cc"), "--version")
	m.NVCC = toolVersion(ctx, "Cuda compilation tools", "nvcc", "--version")
	if pythonic(t.policy) {
		m.Python = toolVersion(ctx, "Python", "python3", "--version")
		m.Torch = toolVersion(ctx, "torch", "python3", "-c", torchProbe)
	}
	return m
}

// pythonic reports a project of Python's.
func pythonic(p *policy.Policy) bool {
	python := func(argv []string) bool {
		return slices.ContainsFunc(argv, func(a string) bool {
			return strings.HasPrefix(filepath.Base(a), "python") || strings.HasSuffix(a, ".py")
		})
	}
	return p.Plan.Kind == config.KindTorch || p.Plan.Kind == config.KindKernelbot || python(p.Plan.Run) || python(p.Plan.Build)
}

// toolVersion is the line by which a program tells its version, "" when it does not.
func toolVersion(ctx context.Context, prefix, name string, args ...string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	s := tool(ctx, 30*time.Second, os.TempDir(), append([]string{path}, args...)...)
	if s.err != nil {
		return ""
	}
	return wording.Clean(versionLine(s, prefix))
}

// thisMachine is what can be said at once of the machine that kbisect runs on: its devices.
func thisMachine(ctx context.Context) *machine {
	m := &machine{}
	answer := make(chan gpu.Report, 1)
	go func() { answer <- gpu.Probe() }()
	select {
	case r := <-answer:
		m.Driver, m.CUDA = r.Driver, r.CUDA
		for _, d := range r.Devices {
			m.Devices = append(m.Devices, machineDevice{d.Name, d.UUID})
		}
	case <-ctx.Done():
	case <-time.After(10 * time.Second): // a driver that hangs has no devices
	}
	return m
}

// elsewhere reports that a device that was measured on is not here, or that there is one here and none was used.
func (m machine) elsewhere(here *machine) bool {
	for _, d := range m.Devices {
		if !slices.ContainsFunc(here.Devices, func(x machineDevice) bool { return x.UUID == d.UUID }) {
			return true
		}
	}
	return len(m.Devices) == 0 && len(here.Devices) > 0
}

// hints are the reasons for which a baseline says little here. One that comes from a file and names no device may
// come from any machine.
func (b keptBaseline) hints(here *machine) (out []string) {
	m := b.Machine
	switch elsewhere := m.elsewhere(here); {
	case len(m.Devices) == 0 && (b.imported || elsewhere):
		out = append(out, "it was measured without a device that could be told from others")
	case elsewhere:
		out = append(out, "its device is not here: "+m.deviceWords())
	}
	if m.Driver != "" && here.Driver != "" && m.Driver != here.Driver {
		out = append(out, fmt.Sprintf("driver %s then, %s now", m.Driver, here.Driver))
	}
	return out
}

// uuids names the devices for programs.
func (m machine) uuids() (out []string) {
	for _, d := range m.Devices {
		out = append(out, d.UUID)
	}
	return out
}

// deviceWords names the devices.
func (m machine) deviceWords() string {
	var names []string
	for _, d := range m.Devices {
		names = append(names, d.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "no device")
}

// lines are what is known, for people.
func (m machine) lines() (out [][2]string) {
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

// check finds what no machine can be.
func (m machine) check() error {
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

// sha256Hex is the SHA-256 of a text, in hex.
func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
