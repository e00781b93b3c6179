package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// cCompiler compiles a program and runs it, because a compiler may be there
// without its headers or its linker.
func (e *examination) cCompiler(ctx context.Context) Finding {
	path := ""
	for _, name := range []string{machine.FirstWord(os.Getenv("CC")), "cc", "gcc", "clang"} {
		if p, err := exec.LookPath(name); name != "" && err == nil {
			path = p
			break
		}
	}
	if path == "" {
		return missing("neither cc nor gcc nor clang in PATH", "install gcc or clang")
	}
	v := machine.RunTool(ctx, 10*time.Second, "", path, "--version")
	if v.Err != nil {
		return Problem(fmt.Sprintf("%s: %v", path, v.Err), "install the compiler again, or mend PATH")
	}
	if f := hello(ctx, 30*time.Second, kernels.HelloFor("cc"), true, path); f.State != StateOK {
		f.Found = path + ": " + f.Found
		f.Hint = cmp.Or(f.Hint, "install the headers and the linker as well (Debian: build-essential)")
		return f
	}
	return Ok("%s (%s), compiles and runs", v.First(), path)
}

// hello compiles a known-good program in a directory of its own and, if asked to, runs it.
func hello(ctx context.Context, limit time.Duration, h kernels.Hello, run bool, compiler ...string) Finding {
	dir, err := os.MkdirTemp("", "kbisect-doctor-")
	if err != nil {
		return Problem(err.Error(), "set TMPDIR to a directory that can be written")
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, h.File), h.Text, 0o600); err != nil {
		return Problem(err.Error(), "set TMPDIR to a directory that can be written")
	}
	s := machine.RunTool(ctx, limit, dir, append(slices.Clone(compiler), "-o", "hello", h.File)...)
	if s.Err != nil {
		return Problem("does not compile: "+s.Err.Error(), "")
	}
	if !run {
		return Ok("compiles")
	}
	s = machine.RunTool(ctx, limit, dir, "./hello")
	switch {
	case s.Err != nil:
		return Problem("compiles, but the program does not run: "+strings.ReplaceAll(s.Err.Error(), "\nhint: ", "\n"), "")
	case s.First() != kernels.HelloWord:
		return Problem("compiles, but the program says: "+s.Last(), "")
	}
	return Ok("compiles and runs")
}

// nvcc looks in PATH and where CUDA is usually installed.
func (e *examination) nvcc(ctx context.Context) Finding {
	path, err := exec.LookPath("nvcc")
	if err != nil {
		for _, home := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
			p := filepath.Join(home, "bin", "nvcc")
			if _, err := os.Stat(p); home != "" && err == nil {
				return Problem(p+" is there, but not in PATH", "export PATH="+filepath.Dir(p)+":$PATH")
			}
		}
		return missing("not in PATH", "install the CUDA toolkit")
	}
	v := machine.RunTool(ctx, 20*time.Second, "", path, "--version")
	if v.Err != nil {
		return Problem(fmt.Sprintf("%s: %v", path, v.Err), "install the CUDA toolkit again, or mend PATH")
	}
	name := fmt.Sprintf("%s (%s)", machine.VersionLine(v, "Cuda compilation tools"), path)
	rep := e.probe()
	if len(rep.Devices) == 0 {
		f := hello(ctx, 100*time.Second, kernels.HelloFor("nvcc"), false, path)
		f.Found = name + ", " + f.Found + "; no device to run on"
		return f
	}
	f := hello(ctx, 100*time.Second, kernels.HelloFor("nvcc"), true, path, "-arch=native")
	f.Found = name + ", " + f.Found + " a kernel"
	if f.State != StateOK {
		f.Hint = cmp.Or(f.Hint, fmt.Sprintf("the driver serves CUDA %s; the toolkit should not be newer", rep.CUDA))
		f.Found = strings.TrimSuffix(f.Found, " a kernel")
	}
	return f
}

func (e *examination) torch(ctx context.Context) Finding {
	python, err := exec.LookPath("python3")
	if err != nil {
		return missing("no python3", "")
	}
	s := machine.RunTool(ctx, 60*time.Second, os.TempDir(), python, "-c", machine.TorchProbe)
	switch {
	case strings.Contains(s.Text, "No module named 'torch'"):
		return missing("not installed for "+python, "")
	case s.Err != nil:
		return Problem("import torch: "+s.Err.Error(), "try: python3 -c 'import torch'")
	}
	name := machine.VersionLine(s, "torch")
	if len(e.probe().Devices) == 0 {
		return Ok("%s", name)
	}
	return e.torchHello(ctx, python, name)
}

// torchHello runs the known-good program for torch on the device.
func (e *examination) torchHello(ctx context.Context, python, name string) Finding {
	h := kernels.HelloFor("torch")
	s := machine.RunTool(ctx, 60*time.Second, os.TempDir(), python, "-c", string(h.Text))
	if s.Err != nil || s.First() != kernels.HelloWord {
		return Problem(name+", but a sum on the device fails: "+s.Last(), "the driver serves CUDA "+e.probe().CUDA+"; torch should be built for no newer one")
	}
	return Ok("%s, computes on the device", name)
}

// namesDevices reports whether the configuration asks for certain devices.
func (e *examination) namesDevices() bool {
	g := e.config.Device.GPUs
	return !slices.Equal(g, []string{"auto"}) && !slices.Equal(g, []string{"none"})
}

func (e *examination) devices(context.Context) Finding {
	rep := e.probe()
	if !rep.Available || len(rep.Devices) == 0 {
		why := cmp.Or(rep.Why, "the driver knows no device")
		if e.namesDevices() {
			return Problem(why, `[device] gpus names devices; write "none" or "auto" to do without`)
		}
		return missing(why+"; trials run without a device", "")
	}
	lines := []string{fmt.Sprintf("driver %s, CUDA up to %s", rep.Driver, rep.CUDA)}
	var hints []string
	for _, d := range rep.Devices {
		line, hint := deviceLine(d)
		lines = append(lines, line)
		if hint != "" {
			hints = append(hints, hint)
		}
	}
	lines, hints = e.wantedDevices(lines, hints)
	if len(hints) > 0 {
		return Problem(strings.Join(lines, "\n"), strings.Join(slices.Compact(hints), "\n"))
	}
	return Ok("%s", strings.Join(lines, "\n"))
}

// wantedDevices tries to open each device that the configuration names.
func (e *examination) wantedDevices(lines, hints []string) ([]string, []string) {
	if !e.namesDevices() {
		return lines, hints
	}
	for _, g := range e.config.Device.GPUs {
		if _, err := gpu.Open(g); err != nil {
			lines = append(lines, wording.Headline(err.Error()))
			hints = append(hints, "[device] gpus names what is not there")
		}
	}
	return lines, hints
}

// deviceLine describes one device, and says what to do when it is not fit for timing.
func deviceLine(d gpu.Device) (line, hint string) {
	if d.UUID == "" {
		why := "unknown"
		if len(d.Absent) > 0 {
			why = d.Absent[0].Why
		}
		return fmt.Sprintf("%d: %s", d.Index, why), "the driver does not open this device; see dmesg"
	}
	line = fmt.Sprintf("%d: %s, %s, compute capability %s, SM %d of %d MHz, memory %d MHz, %d °C, %.0f of %.0f W, persistence %s",
		d.Index, d.Name, bytesText(d.MemoryTotal), d.ComputeCapability, d.SMClock, d.SMClockMax, d.MemClock, d.Temperature, d.PowerW, d.PowerLimitW,
		cmp.Or(d.PersistenceMode, "unknown"))
	line += "\n   " + d.UUID
	if d.MIG {
		line += ", MIG is on: name a slice by its UUID in [device] gpus"
	}
	if d.RecoveryAction != "" && d.RecoveryAction != "none" {
		return line + "\n   the driver asks to " + d.RecoveryAction, "do what the driver asks for before timing anything"
	}
	for _, p := range d.Processes {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
		line += fmt.Sprintf("\n   in use by process %d %s (%s)", p.PID, strings.TrimSpace(string(comm)), bytesText(p.UsedBytes))
		hint = "other processes share a device: timings will scatter, and memory may run out"
	}
	return line, hint
}
