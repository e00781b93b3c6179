package explain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// explainer examines two candidates as closely as the machine allows: first what was built, then launches under
// profilers. It is used by one goroutine.
type explainer struct {
	session  *session.Session
	sides    [2]examined   // A and B, or parent and culprit
	missing  []string      // what could not be examined, and why
	seen     []string      // the profilers that were used
	device   bool          // there is a device to profile on
	profiles bool          // launches under profilers are wanted
	left     time.Duration // that launches under profilers may still take
	ncu      ncu
	about    *bisect.Effect // the change to explain; nil if it is not of a number
}

// ncu is what is known about Nsight Compute on this machine.
type ncu struct {
	path    string
	version string
	pass    int  // index of the first set of metrics that has not failed
	over    bool // it does not work here, and missing says so
}

// examined is what was seen of one candidate. Everything but candidate and purpose may be empty.
type examined struct {
	candidate  bisect.Candidate
	purpose    bisect.Purpose // says in which workspace it is looked at
	outcomes   []bisect.Outcome
	build      bisect.Outcome  // has a class if the candidate could not be built
	usage      []cuda.Usage    // registers and memory, one for each kernel and architecture
	spills     bool            // the compiler reported them
	sass       []cuda.Function // machine code, likewise
	launched   []cuda.Launched // as ncu saw them
	trace      *cuda.Trace     // as torch.profiler saw them
	compiled   cuda.Compiled   // what torch.compile did during the traced launch
	recompiled int
}

// failed is the first launch that failed, which may be one whose build failed; nil if none did.
func (s *examined) failed() *bisect.Outcome {
	for i := range s.outcomes {
		if s.outcomes[i].Class != bisect.OK {
			return &s.outcomes[i]
		}
	}
	return nil
}

// ran reports whether the program was launched at all: trials of a static metric may only build it. Without a launch
// there is nothing to profile.
func (s *examined) ran() bool {
	return slices.ContainsFunc(s.outcomes, func(o bisect.Outcome) bool { return o.Wall > 0 })
}

// wall is how long the longest launch that ended well took, without its build; 0 if none did. It is what a launch under
// a profiler is expected to take at least.
func (s *examined) wall() (most time.Duration) {
	for _, o := range s.outcomes {
		if o.Class == bisect.OK {
			most = max(most, time.Duration(o.Wall*float64(time.Second)))
		}
	}
	return most
}

// newExplainer is an explainer whose launches under profilers may take limit altogether, or what the policy says.
func newExplainer(j *session.Session, limit time.Duration) *explainer {
	if l := j.Policy.ExplainLimit; l > 0 {
		limit = l
	}
	x := &explainer{session: j, device: j.Devices != nil && len(j.Devices.Watches) > 0, profiles: !j.Policy.NoExplain, left: limit}
	if !x.profiles {
		x.miss("profiles: not requested")
	}
	return x
}

// miss notes what could not be examined and why; the same text only once.
func (x *explainer) miss(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(x.missing, text) {
		x.missing = append(x.missing, text)
	}
}

// look examines both candidates in their workspaces within the budget. What was built comes first, so that it is
// known even if profiling uses up all the time. A budget that ends is not an error: what is left is listed as missing.
func (x *explainer) look(ctx context.Context) error {
	within := ctx
	if s := x.session.Slots; s != nil && !s.Until.IsZero() {
		var cancel context.CancelFunc
		within, cancel = context.WithDeadlineCause(ctx, s.Until, bisect.ErrSpent)
		defer cancel()
	}
	err := x.examine(within)
	if err != nil && ctx.Err() == nil && context.Cause(within) == bisect.ErrSpent {
		x.miss("what was left to examine: %v", bisect.ErrSpent)
		return nil
	}
	return err
}

// examine is look without the bound. Step by step and not side by side: both sides are compared up to the last step
// that was finished for both. A side that cannot be built is left out of further steps. Where a step has nothing to look
// at, no tree is written for it.
func (x *explainer) examine(ctx context.Context) error {
	for _, step := range []struct {
		wanted func(*explainer, *examined) bool
		take   func(context.Context, *examined, *pipeline.Inspection) error
	}{{readable, x.static}, {profilable, x.profile}} {
		for i := range x.sides {
			s := &x.sides[i]
			if s.build.Class != "" || !step.wanted(x, s) {
				continue
			}
			o, err := x.session.Pipe.Inspect(ctx, bisect.Request{Candidate: s.candidate, Purpose: s.purpose}, func(in *pipeline.Inspection) error {
				return step.take(ctx, s, in)
			})
			if err != nil {
				return err
			}
			if s.build = o; o.Class != "" {
				x.miss("%s cannot be examined: %s", s.candidate.Brief(), o.Describe())
			}
		}
	}
	return ctx.Err()
}

// toolLimit bounds one call of a tool that reads what was built. This time is not taken from that of the profilers.
const toolLimit = 3 * time.Minute

// static reads the device code that was built, and what the compiler said about it during the build. The same
// kernel may be in several files; the first counts. Tools for devices are not missed where there is neither a device
// nor device code.
func (x *explainer) static(ctx context.Context, s *examined, in *pipeline.Inspection) error {
	compiled := cuda.Ptxas(x.session.Pipe.BuildOutput(s.candidate))
	s.spills = len(compiled) > 0
	if s.usage = compiled; cuda.Tool("cuobjdump") == "" {
		if x.device || s.spills {
			x.miss("registers, shared memory and machine code: no cuobjdump on PATH or in CUDA_HOME")
		}
		return nil
	}
	var finished []cuda.Usage
	programs := in.Programs()
	for _, file := range programs {
		sass, resources, err := dump(ctx, in, file)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			x.miss("device code of %s: %v", filepath.Base(file), err)
			continue
		}
		for _, u := range resources {
			if !slices.ContainsFunc(finished, func(h cuda.Usage) bool { return h.Kernel == u.Kernel && h.Arch == u.Arch }) {
				finished = append(finished, u)
			}
		}
		for _, f := range sass {
			if !slices.ContainsFunc(s.sass, func(h cuda.Function) bool { return h.Name == f.Name && h.Arch == f.Arch }) {
				s.sass = append(s.sass, f)
			}
		}
	}
	if len(programs) == 0 {
		x.miss("device code of %s: none in the build outputs or in what the launches compiled", s.candidate.Brief())
	}
	s.usage = cuda.Join(finished, compiled)
	return nil
}

// dump reads the machine code and the resources of the kernels in one file with the tools of the CUDA toolkit. It fails
// if either tool does.
func dump(ctx context.Context, in *pipeline.Inspection, file string) ([]cuda.Function, []cuda.Usage, error) {
	code, figures := cuda.DeviceTools(file)
	code[0], figures[0] = cuda.Tool(code[0]), cuda.Tool(figures[0])
	resources, err := in.Tool(ctx, figures, toolLimit)
	if err != nil {
		return nil, nil, err
	}
	sass, err := in.Tool(ctx, code, toolLimit)
	if err != nil {
		return nil, nil, err
	}
	return cuda.SASS(sass), cuda.Resources(resources), nil
}

// readable reports whether device code may have been built, or whether there is a tool that finds it elsewhere.
func readable(x *explainer, _ *examined) bool {
	return x.device || len(x.session.Policy.Plan.Build) > 0 || cuda.Tool("cuobjdump") != ""
}

// profilable reports that profiles are wanted of a candidate that may run something on a device.
func profilable(x *explainer, s *examined) bool { return x.profiles && (x.device || len(s.usage) > 0) }

// profile runs a candidate under the profilers that are installed and permitted. torch.profiler comes first, since
// it tells which kernels take the most time, and ncu then profiles those.
func (x *explainer) profile(ctx context.Context, s *examined, in *pipeline.Inspection) error {
	switch {
	case !x.device:
		x.miss("profiles: the session has no device")
	case !s.ran():
		x.miss("profile of %s: it was only built", s.candidate.Brief())
	case s.wall() == 0:
		x.miss("profile of %s: no launch passed", s.candidate.Brief())
	default:
		if in.Python() {
			if err := x.torch(ctx, s, in); err != nil {
				return err
			}
		}
		return x.counters(ctx, s, in)
	}
	return nil
}

// Bounds on one launch under a profiler, which is slower than an ordinary one: so many times the limit of an ordinary
// launch, and never longer than profiledMost.
const (
	profiledTimes = 5
	profiledMost  = 15 * time.Minute
)

// patience is how long the next launch under a profiler may take; 0 when the time is used up.
func (x *explainer) patience() time.Duration {
	left := x.left
	if x.session.Policy.Budget > 0 {
		left = min(left, x.session.Policy.Budget-x.session.Record.Elapsed-time.Since(x.session.Began))
	}
	if left < time.Second {
		return 0
	}
	return min(left, profiledMost, profiledTimes*x.session.Policy.Limits.Run)
}

// run runs a program under a profiler and subtracts the time from what is left for profiling, whether it worked or not.
func (x *explainer) run(ctx context.Context, in *pipeline.Inspection, w pipeline.Wrapped) (proc.Result, error) {
	began := time.Now()
	res, err := in.Run(ctx, w)
	x.left -= time.Since(began)
	return res, err
}

// torch runs a Python program under torch.profiler, which a module on its path starts, and counts the compilations
// that torch logs. Errors are those of the machine; a program that cannot be profiled is missing from the result.
func (x *explainer) torch(ctx context.Context, s *examined, in *pipeline.Inspection) error {
	limit := x.patience()
	if limit == 0 {
		x.miss("torch.profiler: the time for profilers is used up")
		return nil
	}
	module, err := in.Scratch("profiler")
	if err != nil {
		return err
	}
	if err := kernels.WriteProfiler(module); err != nil {
		return &bisect.InfraError{What: "writing the profiler for Python", Err: err}
	}
	traces, err := in.Scratch("traces")
	if err != nil {
		return err
	}
	res, err := x.run(ctx, in, pipeline.Wrapped{
		Name: "torch-profile", Limit: limit,
		Env: func(env []string) []string { return kernels.ProfilerEnv(env, module, traces) },
		Output: func(line string) {
			if cuda.Recompile(line) {
				s.recompiled++
			}
			if c, ok := cuda.Compiles(line); ok {
				s.compiled.Frames, s.compiled.Graphs, s.compiled.Breaks = s.compiled.Frames+c.Frames, s.compiled.Graphs+c.Graphs, s.compiled.Breaks+c.Breaks
			}
		},
	})
	if err != nil {
		return err
	}
	if res.Timeout != nil {
		x.miss("torch.profiler: the program did not end within %v", limit)
		return nil
	}
	return x.readTraces(s, traces)
}

// readTraces reads what the profiler left in dir. A trace that is cut off still counts for the kernels it holds.
func (x *explainer) readTraces(s *examined, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "trace-*[0-9].json"))
	if err != nil || len(files) == 0 {
		x.miss("torch.profiler: no trace was written; the program does not use torch on a device, profiles itself, or is killed at its end")
		return nil
	}
	t, err := cuda.OpenTraces(files)
	if err != nil {
		x.miss("%v", err)
	}
	if len(t.Kernels) > 0 || err == nil {
		s.trace = &t
		x.used("torch.profiler, one launch: which kernels, how often, with which grid")
	}
	return nil
}

// used notes that a profiler was used; the same text only once, since both sides use the same.
func (x *explainer) used(text string) {
	if !slices.Contains(x.seen, text) {
		x.seen = append(x.seen, text)
	}
}

// kernelsProfiled is how many kernels of a Python program ncu profiles, those that took the most time. It replays
// each launch many times.
const kernelsProfiled = 8

// counters runs a candidate under ncu. Older versions of ncu do not know all metrics, so that each failure is
// followed by a run with fewer. x.ncu.pass stays where it worked: the other side gets the same metrics.
func (x *explainer) counters(ctx context.Context, s *examined, in *pipeline.Inspection) error {
	if x.ncu.over || !x.findNcu(ctx, in) {
		return nil
	}
	var names []string
	if s.trace != nil {
		for _, k := range cuda.ByTime(s.trace.Kernels) {
			if name := cuda.BaseName(k.Kernel); !slices.Contains(names, name) && len(names) < kernelsProfiled {
				names = append(names, name)
			}
		}
	}
	passes := cuda.NcuPasses()
	for ; x.ncu.pass < len(passes); x.ncu.pass++ {
		pass := passes[x.ncu.pass]
		done, err := x.runNcu(ctx, s, in, pass, names)
		if done || err != nil {
			return err
		}
	}
	x.ncu.over = true
	return nil
}

// runNcu runs ncu once with one set of metrics, for the kernels in names or, without names, for all. done reports
// that a smaller set would not help: it worked, time is up, or reading counters is not permitted.
func (x *explainer) runNcu(ctx context.Context, s *examined, in *pipeline.Inspection, pass cuda.NcuPass, names []string) (done bool, err error) {
	limit := x.patience()
	if limit == 0 {
		x.miss("ncu: the time for profilers is used up")
		return true, nil
	}
	dir, err := in.Scratch("ncu")
	if err != nil {
		return true, err
	}
	log := filepath.Join(dir, "ncu.csv")
	res, err := x.run(ctx, in, pipeline.Wrapped{
		Name: "ncu", Limit: limit, Wrap: cuda.Ncu(x.ncu.path, pass, names, log),
		Env: func(env []string) []string { return append(env, "LC_ALL=C.UTF-8") },
	})
	if err != nil {
		return true, err
	}
	if res.Timeout != nil {
		x.miss("ncu: the program did not end within %v", limit)
		return true, nil
	}
	text, _ := os.ReadFile(log) // without it, all there is to read is what ncu printed
	launched, err := cuda.NcuCSV(slices.Concat(text, []byte("\n"), res.Tail))
	var trouble *cuda.NcuError
	switch {
	case err == nil:
		s.launched = launched
		x.used(fmt.Sprintf("Nsight Compute %s, %s, clocks left alone, caches flushed before each launch", x.ncu.version, pass.Name))
		return true, nil
	case errors.As(err, &trouble) && trouble.Permission:
		x.ncu.over = true
		x.miss("profiler metrics: %v", err)
		return true, nil
	}
	x.miss("%s: %v", pass.Name, err)
	return false, nil
}

// findNcu looks for ncu and reports whether it can be used. Both sides need the same version, because the meaning of a
// metric may change between versions. If it cannot be used, missing says why, and it is not looked for again.
func (x *explainer) findNcu(ctx context.Context, in *pipeline.Inspection) bool {
	x.ncu.path = cuda.Tool("ncu")
	if x.ncu.path == "" {
		x.ncu.over = true
		x.miss("profiler metrics: no ncu (Nsight Compute) on PATH or in CUDA_HOME")
		return false
	}
	out, err := in.Tool(ctx, []string{x.ncu.path, "--version"}, time.Minute)
	version := cuda.NcuVersion(out)
	if err != nil || version == "" || x.ncu.version != "" && version != x.ncu.version {
		x.ncu.over = true
		x.miss("profiler metrics: ncu at %s has different versions for A and B (%q, %q)", x.ncu.path, x.ncu.version, version)
		return false
	}
	x.ncu.version = version
	return true
}
