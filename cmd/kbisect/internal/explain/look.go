package explain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// explainer looks at two candidates as closely as the machine allows.
type explainer struct {
	session  *session.Session
	sides    [2]examined
	missing  []string      // what could not be looked at, and why
	seen     []string      // the profilers that were used
	device   bool          // there is one to profile on
	profiles bool          // launches under profilers are wanted
	left     time.Duration // for launches under profilers
	ncu      ncu
	about    *bisect.Effect // what is to be explained, if it is a number
}

// ncu is Nsight Compute on this machine.
type ncu struct {
	path    string
	version string
	pass    int  // the first set of metrics that has not failed
	over    bool // it is of no use here, which has been said
}

// examined is what was seen of one candidate.
type examined struct {
	candidate  bisect.Candidate
	purpose    bisect.Purpose // names the slot
	outcomes   []bisect.Outcome
	build      bisect.Outcome // with a class if it cannot be looked at
	usage      []cuda.Usage
	spills     bool // the compiler has told of them
	sass       []cuda.Function
	launched   []cuda.Launched // as ncu saw them
	trace      *cuda.Trace     // as torch.profiler saw them
	compiled   cuda.Compiled
	recompiled int
}

// failed is the first launch that did not end well.
func (s *examined) failed() *bisect.Outcome {
	for i := range s.outcomes {
		if s.outcomes[i].Class != bisect.OK {
			return &s.outcomes[i]
		}
	}
	return nil
}

// wall is how long a launch that ended well took, 0 if none did.
func (s *examined) wall() (most time.Duration) {
	for _, o := range s.outcomes {
		if o.Class == bisect.OK {
			most = max(most, time.Duration(o.Wall*float64(time.Second)))
		}
	}
	return most
}

func newExplainer(j *session.Session, limit time.Duration) *explainer {
	if l := j.Policy.ExplainLimit; l > 0 {
		limit = l
	}
	x := &explainer{session: j, device: j.Devices != nil && len(j.Devices.Watches) > 0, profiles: !j.Policy.NoExplain, left: limit}
	if !x.profiles {
		x.miss("profiles: not asked for")
	}
	return x
}

// miss notes once that something could not be looked at.
func (x *explainer) miss(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(x.missing, text) {
		x.missing = append(x.missing, text)
	}
}

// look inspects both candidates where they are built. What was built comes first, so that it is known
// even where a profiler takes all the time there is.
func (x *explainer) look(ctx context.Context) error {
	for _, step := range []func(context.Context, *examined, *pipeline.Inspection) error{x.static, x.profile} {
		for i := range x.sides {
			s := &x.sides[i]
			if s.build.Class != "" {
				continue
			}
			o, err := x.session.Pipe.Inspect(ctx, bisect.Request{Candidate: s.candidate, Purpose: s.purpose}, func(in *pipeline.Inspection) error {
				return step(ctx, s, in)
			})
			if err != nil {
				return err
			}
			if s.build = o; o.Class != "" {
				x.miss("%c cannot be looked at: %s", 'A'+i, o.Describe())
			}
		}
	}
	return ctx.Err()
}

// letter names a side.
func (x *explainer) letter(s *examined) rune {
	if s == &x.sides[0] {
		return 'A'
	}
	return 'B'
}

// toolLimit bounds a tool that reads what was built.
const toolLimit = 3 * time.Minute

// static reads the device code that was built, and what the compiler said of it.
func (x *explainer) static(ctx context.Context, s *examined, in *pipeline.Inspection) error {
	compiled := cuda.Ptxas(x.session.Pipe.BuildOutput(s.candidate))
	s.spills = len(compiled) > 0
	if s.usage = compiled; cudaTool("cuobjdump") == "" {
		x.miss("no cuobjdump on PATH or below CUDA_HOME: the registers, shared memory and machine code of what was built")
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
		x.miss("device code of %c: what was built, and what trials compiled and kept, holds none", x.letter(s))
	}
	s.usage = cuda.Join(finished, compiled)
	return nil
}

// dump runs the tools on one file.
func dump(ctx context.Context, in *pipeline.Inspection, file string) ([]cuda.Function, []cuda.Usage, error) {
	code, figures := cuda.DeviceTools(file)
	code[0], figures[0] = cudaTool(code[0]), cudaTool(figures[0])
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

// cudaTool finds a tool of the CUDA toolkit, "" if it is not there.
func cudaTool(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, home := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if path := filepath.Join(home, "bin", name); home != "" {
			if found, err := exec.LookPath(path); err == nil {
				return found
			}
		}
	}
	return ""
}

// profile runs a candidate under the profilers that are there, as far as they are allowed.
func (x *explainer) profile(ctx context.Context, s *examined, in *pipeline.Inspection) error {
	switch {
	case !x.profiles:
	case !x.device:
		x.miss("profiles, launches and what they had of the device: there is no device here")
	case s.wall() == 0:
		x.miss("the profile of %s: no launch of it ended well", s.candidate.Brief())
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

// Bounds on a launch under a profiler: so many times the limit of an ordinary one, yet no longer than
// that.
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

// run runs a program under a profiler, which takes its time off what is left.
func (x *explainer) run(ctx context.Context, in *pipeline.Inspection, w pipeline.Wrapped) (proc.Result, error) {
	began := time.Now()
	res, err := in.Run(ctx, w)
	x.left -= time.Since(began)
	return res, err
}

// torch runs a Python program under torch.profiler.
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
		x.miss("torch.profiler: the program did not end under it within %v", limit)
		return nil
	}
	return x.readTraces(s, traces)
}

func (x *explainer) readTraces(s *examined, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "trace-*[0-9].json"))
	if err != nil || len(files) == 0 {
		x.miss("torch.profiler: it left no trace; the program does not use torch on a device, profiles itself, or is killed at its end")
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

// used notes once that a profiler was used.
func (x *explainer) used(text string) {
	if !slices.Contains(x.seen, text) {
		x.seen = append(x.seen, text)
	}
}

// kernelsProfiled is how many kernels of a Python program ncu looks at, those that took most time.
const kernelsProfiled = 8

// counters runs a candidate under ncu, with fewer metrics where more of them fail.
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

// runNcu makes one try. done is true when no further one would help.
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
		x.miss("ncu: the program did not end under it within %v", limit)
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

// findNcu looks for ncu. It has to be of one version for both sides: what a metric means changes
// from one to the next.
func (x *explainer) findNcu(ctx context.Context, in *pipeline.Inspection) bool {
	x.ncu.path = cudaTool("ncu")
	if x.ncu.path == "" {
		x.ncu.over = true
		x.miss("profiler metrics: no ncu (Nsight Compute) on PATH or below CUDA_HOME")
		return false
	}
	out, err := in.Tool(ctx, []string{x.ncu.path, "--version"}, time.Minute)
	version := cuda.NcuVersion(out)
	if err != nil || version == "" || x.ncu.version != "" && version != x.ncu.version {
		x.ncu.over = true
		x.miss("profiler metrics: ncu at %s does not tell one version for A and B (%q, %q)", x.ncu.path, x.ncu.version, version)
		return false
	}
	x.ncu.version = version
	return true
}
