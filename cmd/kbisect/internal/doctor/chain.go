package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// Bounds of the steps of a chain.
const (
	chainBuild = 2 * time.Minute
	chainRun   = 90 * time.Second
)

// nvccChain does with an example what a trial of kind nvcc does: compile, load,
// check against the host, time.
func nvccChain(ctx context.Context, rep gpu.Report, gpus []string) Finding {
	switch _, err := exec.LookPath("nvcc"); {
	case err != nil:
		return missing("skipped: no nvcc in PATH", "")
	case len(rep.Devices) == 0:
		return missing("skipped: no device", "")
	}
	f := chain(ctx, "cuda", kernels.Project{Kind: config.KindNvcc, Sources: []string{"bench.cu"}, Device: policy.Capability(gpus)})
	if f.State == StateOK {
		f.Found += "\n" + counters()
	}
	return f
}

// torchChain does the same for kind torch, on the CPU where there is no device.
func torchChain(ctx context.Context) Finding {
	python, err := exec.LookPath("python3")
	if err != nil {
		return missing("skipped: no python3 in PATH", "")
	}
	if s := machine.RunTool(ctx, 60*time.Second, os.TempDir(), python, "-c", "import torch"); s.Err != nil {
		return missing("skipped: no torch", "")
	}
	return chain(ctx, "torch", kernels.Project{Kind: config.KindTorch})
}

// chain builds and runs an example as a project of its own.
func chain(ctx context.Context, name string, project kernels.Project) Finding {
	dir, err := os.MkdirTemp("", "kbisect-doctor-")
	if err != nil {
		return broken(err.Error(), "set TMPDIR to a writable directory")
	}
	defer os.RemoveAll(dir)
	plan, err := layOut(dir, name, project)
	if err != nil {
		return problemOf(err)
	}
	var done []string
	if len(plan.Build) > 0 {
		begin := time.Now()
		s := machine.RunTool(ctx, chainBuild, dir, plan.Build...)
		if s.Err != nil {
			return broken("it does not compile: "+s.Err.Error(), "")
		}
		done = append(done, fmt.Sprintf("compiled in %.1f s%s", time.Since(begin).Seconds(), registers(s.Text)))
	}
	ran, err := runExample(ctx, dir, plan)
	done = append(done, ran...)
	if err != nil {
		return broken(strings.Join(append(done, err.Error()), ", "), "")
	}
	return passed("%s", strings.Join(done, ", "))
}

// layOut writes an example and the files of its plan.
func layOut(dir, name string, project kernels.Project) (kernels.Plan, error) {
	example, err := harness.NewExample(name)
	if err != nil {
		return kernels.Plan{}, err
	}
	for file, text := range example.Files {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return kernels.Plan{}, err
		}
	}
	plan, err := kernels.NewPlan(project)
	if err != nil {
		return plan, err
	}
	return plan, plan.Write(dir)
}

// registers is the largest kernel by what ptxas reports, in words.
func registers(output string) string {
	all := cuda.Ptxas([]byte(output))
	if len(all) == 0 {
		return ""
	}
	most := slices.MaxFunc(all, func(a, b cuda.Usage) int { return cmp.Compare(a.Registers, b.Registers) })
	return fmt.Sprintf(" (%d registers, %d bytes of spills)", most.Registers, most.SpillStores+most.SpillLoads)
}

// runExample runs a plan. done lists what the program reported over the protocol.
func runExample(ctx context.Context, dir string, plan kernels.Plan) (done []string, err error) {
	heard := protocol.Reader{Base: "load"}
	res, err := proc.Run(ctx, proc.Spec{
		Argv: plan.Run, Dir: dir, Env: kernels.Merge(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), plan.Env), Limit: chainRun, Grace: -1, Tail: 16 << 10,
		Protocol: "KBISECT_FD",
		Watch: func(line string, at time.Duration) proc.Transition {
			heard.Line(line, at)
			return proc.Transition{}
		},
	})
	words := heard.Said()
	var times []bisect.Series
	for _, s := range heard.Series() {
		if s.Metric == "time" && len(s.Values) > 0 {
			times = append(times, s)
		}
	}
	for _, p := range heard.Phases(res.Wall, false) {
		done = append(done, fmt.Sprintf("%s %.2g s", p.Name, p.Seconds))
	}
	switch {
	case err != nil:
		return done, err
	case res.Timeout != nil:
		return done, fmt.Errorf("it hangs in %s", heard.Phase())
	case words.IsWrong:
		return done, fmt.Errorf("it computes wrong results: %s", words.Wrong)
	case res.Exit != 0 || res.Signal != 0:
		return done, fmt.Errorf("it fails in %s: %s", heard.Phase(), machine.Said{Text: string(res.Tail)}.Last())
	case len(times) == 0:
		return done, errors.New("it sent no times")
	}
	v := slices.Sorted(slices.Values(times[0].Values))
	return append(done, fmt.Sprintf("%.3g us for %s", v[len(v)/2]*1e6, times[0].Case)), nil
}

// counters lists the profilers of this machine and what they may read.
func counters() string {
	var tools []string
	for _, name := range []string{"ncu", "nsys", "cuobjdump"} {
		if _, err := exec.LookPath(name); err == nil {
			tools = append(tools, name)
		}
	}
	text := "profilers: none in PATH"
	if len(tools) > 0 {
		text = "profilers: " + strings.Join(tools, ", ")
	}
	params, err := os.ReadFile("/proc/driver/nvidia/params")
	if err == nil && strings.Contains(string(params), "RmProfilingAdminOnly: 1") && os.Geteuid() != 0 {
		text += "; only root may read performance counters (RmProfilingAdminOnly)"
	}
	return text
}
