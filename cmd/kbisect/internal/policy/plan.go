package policy

import (
	"cmp"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// plan turns a configuration into the plan of the project.
func (r reader) plan(file string, cfg *config.Config) error {
	q, p := r.q, r.p
	project, err := cfg.Project(Capability(cfg.Device.GPUs))
	if err != nil {
		return exit.Usagef("%s: %w", file, err)
	}
	if b := q.Build; b != "" {
		if cfg.Kind == config.KindKernelbot {
			return exit.Usagef("--build: kind kernelbot builds as the problem says")
		}
		project.Build, project.Sources = []string{"sh", "-c", b}, nil
	}
	project.Static = AllStatic(cfg.Metrics)
	if p.Plan, err = kernels.NewPlan(project); err != nil {
		return exit.Usagef("%s: %w", file, err)
	}
	if slices.ContainsFunc(cfg.Metrics, isStatic) && p.Plan.Incremental {
		p.Plan.Incremental = false // the compiler speaks only of what it compiles
		if project.Incremental != nil {
			p.Warnings = append(p.Warnings, "[build] incremental is not followed: static metrics need clean builds, in which the compiler speaks of every kernel")
		}
	}
	if slices.ContainsFunc(cfg.Metrics, isStatic) && len(project.Sources) > 0 && kernels.OldestArch(project) {
		p.Warnings = append(p.Warnings, "no device is here to compile for, and nvcc takes the oldest that it knows: registers and instructions are those of that\nhint: name one with [build] options = [\"-arch=sm_90\"]")
	}
	if project.Static && !p.nothingRuns() {
		p.Warnings = append(p.Warnings, "all metrics are static, and the candidates are run as well\nhint: leave [run] command out where the builds say enough: then no device is needed")
	}
	if project.Kind == config.KindNvcc {
		p.CUDA = SourcesOf(project.Sources, project.Options)
	}
	p.Needs, p.Scripts = needs(project, p.Plan), p.Plan.Scripts(project)
	if project.Task != nil && slices.ContainsFunc(cfg.Flags, func(f config.Flag) bool { return f.Arg != "" }) {
		return exit.Usagef("%s: flag.arg: kind kernelbot runs what the problem says, without further arguments\nhint: use env", file)
	}
	p.Warnings = append(p.Warnings, p.Plan.Warnings...)
	q.warn(p.Plan.Warnings)
	return nil
}

// Capability is the compute capability of the device that trials run on, such as "9.0"; "" where that
// is not known.
func Capability(gpus []string) string {
	ids, err := gpu.Select(gpus)
	if err != nil || len(ids) == 0 {
		return ""
	}
	known := gpu.Probe().Devices
	at := slices.IndexFunc(known, func(d gpu.Device) bool { return d.UUID == ids[0] })
	if at < 0 {
		return ""
	}
	if known[at].ComputeCapability == "" { // a slice has that of the device that was cut
		parent := known[at].Parent
		if at = slices.IndexFunc(known, func(d gpu.Device) bool { return d.UUID == parent }); at < 0 {
			return ""
		}
	}
	return known[at].ComputeCapability
}

// needs are the files of a candidate that the plan reads by itself.
func needs(project kernels.Project, plan kernels.Plan) (out []string) {
	for _, f := range plan.Files {
		if f.Source != "" {
			out = append(out, f.Source)
		}
	}
	if project.Kind == config.KindTorch && len(project.Run) == 0 {
		submission := project.Submission
		if submission == "" {
			submission = "submission.py"
		}
		reference := project.Reference
		if reference == "" {
			reference = path.Join(path.Dir(submission), "reference.py")
		}
		out = append(out, submission, reference)
	}
	return out
}

// paths takes the paths of the command line. Where some are chosen, what the plan reads by itself
// is one of them.
func (r reader) paths() {
	p := r.p
	if ps := r.q.Paths; len(ps) > 0 {
		p.Paths = ps
	}
	if len(p.Paths) == 0 {
		return
	}
	for _, need := range p.Needs {
		need = path.Clean(filepath.ToSlash(need))
		within := func(p string) bool {
			p = path.Clean(filepath.ToSlash(p))
			return p == "." || p == need || strings.HasPrefix(need, p+"/")
		}
		if !slices.ContainsFunc(p.Paths, within) {
			p.Paths = append(slices.Clone(p.Paths), need)
		}
	}
}

// server puts the project under the rules of a server.
func (r reader) server() error {
	q, p := r.q, r.p
	switch as := q.As; as {
	case "":
		return nil
	case config.KindKernelbot:
	default:
		return exit.Usagef("--as %s: unknown rules\nhint: --as kernelbot is the one that there is", as)
	}
	if p.nothingRuns() {
		return exit.Usage(errors.New("--as kernelbot: nothing is run here\nhint: set [run] command"))
	}
	p.Plan = p.Plan.AsKernelbot()
	p.Caches = pipeline.Cold
	p.Limits = pipeline.Limits{Build: p.Plan.BuildLimit, Run: p.Plan.Limit()}
	p.Limits.Run = cmp.Or(q.Limit, p.Limits.Run)
	return nil
}

// nothingRuns reports that a build says all that is looked for.
func (p *Policy) nothingRuns() bool { return len(p.Plan.Run)+len(p.Plan.Stages) == 0 }

func isStatic(m config.Metric) bool { return m.From == pipeline.FromStatic }

func AllStatic(ms []config.Metric) bool {
	return len(ms) > 0 && !slices.ContainsFunc(ms, func(m config.Metric) bool { return !isStatic(m) })
}

// static reports that a metric is about what is built, so that all such metrics are there.
func (p *Policy) static() bool {
	return slices.ContainsFunc(p.Sources, func(s pipeline.Source) bool { return s.From == pipeline.FromStatic })
}

// source takes a metric that is left behind rather than sent.
func (r reader) source(file string, m config.Metric) error {
	p := r.p
	switch m.From {
	case "popcorn":
		if p.Plan.Kind != config.KindKernelbot {
			return exit.Usagef("%s: metric.from: popcorn belongs to kind = %q; this is kind %q", file, config.KindKernelbot, p.Plan.Kind)
		}
		return nil
	case pipeline.FromStatic:
		if !slices.Contains(cuda.StaticMetrics(), m.Name) {
			return exit.Usagef("%s: metric.name: static metrics are %s; %q is none of them", file, strings.Join(cuda.StaticMetrics(), ", "), m.Name)
		}
		if len(p.Plan.Build) == 0 {
			return exit.Usagef("%s: metric.from: static metrics are those of a build, and there is none\nhint: set [build] command", file)
		}
		if len(p.Plan.Outputs) == 0 {
			p.Warnings = append(p.Warnings, "[build] outputs is not set: static metrics are read from what the compiler says alone, and builds are not kept")
		}
	}
	source := pipeline.Source{Metric: m.Name, From: m.From, File: m.File}
	if !slices.Contains(p.Sources, source) {
		p.Sources = append(p.Sources, source)
	}
	return nil
}
