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

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// cCompiler compiles a program and runs it, because a compiler may be installed without its headers or its linker. It
// takes the one that CC names, without its options, or else the first of the usual names, as build systems do.
func cCompiler(ctx context.Context) Finding {
	path := ""
	for _, name := range []string{machine.FirstWord(os.Getenv("CC")), "cc", "gcc", "clang"} {
		if p, err := exec.LookPath(name); name != "" && err == nil {
			path = p
			break
		}
	}
	if path == "" {
		return missing("no cc, gcc or clang in PATH", "install gcc or clang")
	}
	v := machine.RunTool(ctx, 10*time.Second, "", path, "--version")
	if v.Err != nil {
		return broken(fmt.Sprintf("%s: %v", path, v.Err), "install the compiler again, or fix PATH")
	}
	if f := hello(ctx, 30*time.Second, harness.HelloFor("cc"), true, path); f.State != StateOK {
		f.Found = path + ": " + f.Found
		f.Hint = cmp.Or(f.Hint, "install the headers and the linker as well (Debian: build-essential)")
		return f
	}
	return passed("%s (%s), compiles and runs", v.First(), path)
}

// hello compiles a known-good program in a temporary folder and, with run, runs it. limit is for each of the two
// steps. What it found begins with a verb, for the caller to put the compiler in front.
func hello(ctx context.Context, limit time.Duration, h harness.Hello, run bool, compiler ...string) Finding {
	dir, remove, err := machine.Scratch(ctx)
	if err != nil {
		return broken(hint.Split(err))
	}
	defer remove()
	if err := os.WriteFile(filepath.Join(dir, h.File), h.Text, 0o600); err != nil {
		return broken(err.Error(), "set XDG_CACHE_HOME to a writable directory")
	}
	s := machine.RunTool(ctx, limit, dir, append(slices.Clone(compiler), "-o", "hello", h.File)...)
	if s.Err != nil {
		return broken("does not compile: "+s.Err.Error(), "")
	}
	if !run {
		return passed("compiles")
	}
	// A program that ends well may still have printed nothing useful, so its output counts as well as its exit code.
	s = machine.RunTool(ctx, limit, dir, "./hello")
	switch {
	case s.Err != nil:
		text, advice := hint.Split(s.Err)
		return broken("compiles, but the program does not run: "+text, advice)
	case s.First() != harness.HelloWord:
		return broken("compiles, but the program prints: "+s.Last(), "")
	}
	return passed("compiles and runs")
}

// nvcc looks in PATH and where CUDA is usually installed, since a PATH without it is the most common mistake. It runs
// a kernel if there is a device; without one it only compiles for the default architecture, as -arch=native needs a
// device to look at.
func nvcc(ctx context.Context, rep gpu.Report) Finding {
	path, err := exec.LookPath("nvcc")
	if err != nil {
		if p := cuda.Tool("nvcc"); p != "" {
			return broken(p+" is there, but not in PATH", "export PATH="+filepath.Dir(p)+":$PATH")
		}
		return missing("not in PATH", "install the CUDA toolkit")
	}
	// The version goes into every finding from here on, since a toolkit newer than the driver is a usual cause.
	v := machine.RunTool(ctx, 20*time.Second, "", path, "--version")
	if v.Err != nil {
		return broken(fmt.Sprintf("%s: %v", path, v.Err), "install the CUDA toolkit again, or fix PATH")
	}
	name := fmt.Sprintf("%s (%s)", machine.VersionLine(v, "Cuda compilation tools"), path)
	compiler, device := []string{path}, len(rep.Devices) > 0
	if device {
		compiler = append(compiler, "-arch=native")
	}
	f := hello(ctx, 100*time.Second, harness.HelloFor("nvcc"), device, compiler...)
	f.Found = name + ", " + f.Found
	switch {
	case !device:
		f.Found += "; no device to run on"
	case f.State == StateOK:
		f.Found += " a kernel"
	default:
		f.Hint = cmp.Or(f.Hint, fmt.Sprintf("the driver supports CUDA %s; the toolkit should not be newer", rep.CUDA))
	}
	return f
}

// torch checks that Python has PyTorch and, if there are devices, that it computes on one: a PyTorch that was built for
// a newer CUDA than the driver's can be imported, but computes nothing. It runs outside of the repository, where a
// folder named torch would be imported instead.
func torch(ctx context.Context, rep gpu.Report) Finding {
	python, err := exec.LookPath("python3")
	if err != nil {
		return missing("no python3", "")
	}
	s := machine.RunTool(ctx, 60*time.Second, os.TempDir(), python, "-c", machine.TorchProbe)
	switch {
	case strings.Contains(s.Text, "No module named 'torch'"): // after any other error it is there and broken
		return missing("not installed for "+python, "")
	case s.Err != nil:
		return broken("import torch: "+s.Err.Error(), "try: python3 -c 'import torch'")
	}
	name := machine.VersionLine(s, "torch")
	if len(rep.Devices) == 0 {
		return passed("%s", name)
	}
	dir, remove, err := machine.Scratch(ctx)
	if err != nil {
		return broken(hint.Split(err))
	}
	defer remove()
	s = machine.RunTool(ctx, 60*time.Second, dir, python, "-c", string(harness.HelloFor("torch").Text))
	if s.Err != nil || s.First() != harness.HelloWord {
		return broken(name+", but a sum on the device fails: "+s.Last(), "the driver supports CUDA "+rep.CUDA+"; install a torch built for that or an older one")
	}
	return passed("%s, computes on the device", name)
}

// toolCheck is a check that looks a program up and asks for its version, which is in the line that begins with
// prefix; "" is the first line. It runs the program, since a file of that name may not work.
func toolCheck(name, prefix, hint string) func(context.Context) Finding {
	return func(ctx context.Context) Finding {
		path, err := exec.LookPath(name)
		if err != nil {
			return missing("not in PATH", hint)
		}
		s := machine.RunTool(ctx, 15*time.Second, "", path, "--version")
		if s.Err != nil {
			return broken(fmt.Sprintf("%s: %v", path, s.Err), "it is installed but does not run; install it again, or fix PATH")
		}
		return passed("%s (%s)", machine.VersionLine(s, prefix), path)
	}
}

// profilers lists the profilers in PATH, for kbisect explain, and says whether the driver keeps performance counters
// from this user: by default its parameter NVreg_RestrictProfilingToAdminUsers, which /proc calls
// RmProfilingAdminOnly, leaves them to root. A search works without any of this.
func profilers(context.Context) Finding {
	var tools []string
	for _, name := range []string{"ncu", "nsys", "cuobjdump"} {
		if _, err := exec.LookPath(name); err == nil {
			tools = append(tools, name)
		}
	}
	if len(tools) == 0 {
		return missing("none in PATH", "")
	}
	text := strings.Join(tools, ", ")
	params, err := os.ReadFile("/proc/driver/nvidia/params")
	if err == nil && strings.Contains(string(params), "RmProfilingAdminOnly: 1") && os.Geteuid() != 0 {
		text += "; only root may read performance counters (RmProfilingAdminOnly)"
	}
	return passed("%s", text)
}
