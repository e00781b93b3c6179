package policy

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// plan makes the plan of a configuration, and warns about what in it has no effect or probably not the intended
// one.
func (r reader) plan(file string, cfg *config.Config) error {
	q, p := r.q, r.p
	project, err := cfg.Project(capability(cfg.GPUs))
	if err != nil {
		return exit.Usagef("%s: %w", file, err)
	}
	if b := q.Build; b != "" {
		if cfg.Kind == kernels.KindKernelbot {
			return exit.Usagef("--build: the problem says how kind kernelbot builds")
		}
		project.Build, project.Sources = []string{"sh", "-c", b}, nil
	}
	project.Static = AllStatic(cfg.Metrics)
	if p.Plan, err = kernels.NewPlan(project); err != nil {
		return exit.Usagef("%s: %w", file, err)
	}
	if slices.ContainsFunc(cfg.Metrics, isStatic) && p.Plan.Incremental {
		p.Plan.Incremental = false // the compiler reports only on what it compiles
		if project.Incremental != nil {
			p.Warnings = append(p.Warnings, "[build] incremental is ignored: static metrics need clean builds, in which the compiler reports on every kernel")
		}
	}
	if slices.ContainsFunc(cfg.Metrics, isStatic) && len(project.Sources) > 0 && kernels.OldestArch(project) {
		p.Warnings = append(p.Warnings, "no device here to compile for, so nvcc uses the oldest architecture it knows: registers and instructions are for that one\nhint: name one with [build] options = [\"-arch=sm_90\"]")
	}
	if project.Static && !p.nothingRuns() {
		p.Warnings = append(p.Warnings, "all metrics are static, but the candidates are run as well\nhint: without [run] command no device is needed")
	}
	if project.Kind == kernels.KindNvcc {
		p.CUDA = sourcesOf(project.Sources, project.Options)
	}
	p.Needs, p.Scripts = needs(project, p.Plan), p.Plan.Scripts(project)
	if project.Task != nil && slices.ContainsFunc(cfg.Flags, func(f config.Flag) bool { return f.Arg != "" }) {
		return exit.Usagef("%s: flag.arg: kind kernelbot takes no arguments\nhint: use env", file)
	}
	p.Warnings = append(p.Warnings, p.Plan.Warnings...)
	q.warn(p.Plan.Warnings)
	return nil
}

// capability is the compute capability of the first device that trials run on, such as "9.0"; "" if unknown. nvcc has
// to compile for it.
func capability(gpus []string) string {
	ids, err := gpu.Select(gpus)
	if err != nil || len(ids) == 0 {
		return ""
	}
	known := gpu.Probe().Devices
	at := slices.IndexFunc(known, func(d gpu.Device) bool { return d.UUID == ids[0] })
	if at < 0 {
		return ""
	}
	if known[at].ComputeCapability == "" { // a MIG slice has that of its parent
		parent := known[at].Parent
		if at = slices.IndexFunc(known, func(d gpu.Device) bool { return d.UUID == parent }); at < 0 {
			return ""
		}
	}
	return known[at].ComputeCapability
}

// needs lists the files that the plan itself reads from a candidate, besides those that its commands name. For kind
// torch without a command these are the submission and the reference beside it.
func needs(project kernels.Project, plan kernels.Plan) (out []string) {
	for _, f := range plan.Files {
		if f.Source != "" {
			out = append(out, f.Source)
		}
	}
	if project.Kind == kernels.KindTorch && len(project.Run) == 0 {
		submission := cmp.Or(project.Submission, "submission.py")
		out = append(out, submission, cmp.Or(project.Reference, path.Join(path.Dir(submission), "reference.py")))
	}
	return out
}

// paths sets the paths: --path, relative to where the user stands, or those of the configuration. If there are any, the
// files that the plan itself reads are added, or commits that change only those would look equal.
func (r reader) paths() {
	p := r.p
	if ps := r.q.Paths; len(ps) > 0 {
		p.Paths = r.fromHere(ps)
	}
	if len(p.Paths) == 0 {
		return
	}
	for _, need := range p.Needs {
		if need = path.Clean(filepath.ToSlash(need)); !Covers(p.Paths, need) {
			p.Paths = append(slices.Clone(p.Paths), need)
		}
	}
}

// server applies the rules of a server (--as): its limits, and caches that are always empty. They overrule those of
// kbisect.toml, since the question is what the server would say; --limit still counts.
func (r reader) server() error {
	q, p := r.q, r.p
	switch as := q.As; as {
	case "":
		return nil
	case kernels.KindKernelbot:
	default:
		return exit.Usagef("unknown --as %s\nhint: --as kernelbot is the only one", as)
	}
	if p.nothingRuns() {
		return exit.Usage(errors.New("--as kernelbot: nothing to run\nhint: set [run] command"))
	}
	p.Plan = p.Plan.AsKernelbot()
	p.Caches = pipeline.Cold
	p.Limits = trial.Limits{Build: p.Plan.BuildLimit, Run: p.Plan.Limit()}
	p.Limits.Run = cmp.Or(q.Limit, p.Limits.Run)
	return nil
}

// isStatic reports a metric that is read from the build.
func isStatic(m config.Metric) bool { return m.From == trial.FromStatic }

// AllStatic reports whether there are metrics and all of them come from the build, so that nothing has to be run.
func AllStatic(ms []config.Metric) bool {
	return len(ms) > 0 && !slices.ContainsFunc(ms, func(m config.Metric) bool { return !isStatic(m) })
}

// source adds the source of a metric that is read from files or the build rather than sent by the program. file is the
// name of the configuration, for usage errors.
func (r reader) source(file string, m config.Metric) error {
	p := r.p
	switch m.From {
	case "popcorn":
		if p.Plan.Kind != kernels.KindKernelbot {
			return exit.Usagef("%s: metric.from: popcorn needs kind = %q; this is kind %q", file, kernels.KindKernelbot, p.Plan.Kind)
		}
		return nil
	case trial.FromStatic:
		if !slices.Contains(cuda.StaticMetrics(), m.Name) {
			return exit.Usagef("%s: metric.name: unknown static metric %q; known: %s", file, m.Name, strings.Join(cuda.StaticMetrics(), ", "))
		}
		if len(p.Plan.Build) == 0 {
			return exit.Usagef("%s: metric.from: static metrics need a build\nhint: set [build] command", file)
		}
		if len(p.Plan.Outputs) == 0 {
			p.Warnings = append(p.Warnings, "[build] outputs is not set: static metrics come from the compiler's messages only, and builds are not cached")
		}
	}
	source := trial.Source{Metric: m.Name, From: m.From, File: m.File}
	if !slices.Contains(p.Sources, source) {
		p.Sources = append(p.Sources, source)
	}
	return nil
}

// commandLimit bounds a trial of a command for which no limit was given. A command may build as well, which the default
// of kbisect.toml (180 s) does not include.
const commandLimit = 10 * time.Minute

// ForSearch returns the policy of kbisect run, except for its ends, which [Ends] fills in. Its errors are usage errors:
// options that contradict each other, a configuration that is wrong or missing, files that cannot be read.
func ForSearch(ctx context.Context, q *Request, repo *source.Repo) (*Policy, error) {
	if err := cmp.Or(q.validate(), q.strays(ctx, repo)); err != nil {
		return nil, err
	}
	r := reader{q: q, repo: repo, p: &Policy{
		FindGood: q.FindGood, FirstParent: q.FirstParent, All: q.All, Improvement: q.Improvement, Axis: q.Axis, NoHunks: q.NoHunks,
		Budget: q.Budget, Seed: q.Seed, Jobs: q.Jobs, NoExplain: q.NoExplain, ExplainLimit: q.ExplainLimit, NoPast: q.NoPast, Fresh: q.Fresh,
		Learn: q.Axis == AxisHistory && !q.NoLearn,
	}}
	if err := r.project(); err != nil {
		return nil, err
	}
	if err := r.complaint(); err != nil {
		return nil, err
	}
	return r.p, cmp.Or(r.better(), r.p.count())
}

// ForTrials returns the policy of every other command that launches candidates. They launch one after the other on the
// same devices, whatever the configuration says about searches. Its errors are usage errors, too. The headers are those
// of HEAD, until the ends are known.
func ForTrials(q *Request, repo *source.Repo) (*Policy, error) {
	if len(q.Outputs) > 0 && q.Build == "" {
		return nil, exit.Usagef("--output names what --build makes, so it needs --build")
	}
	r := reader{q: q, repo: repo, p: &Policy{Budget: q.Budget, Seed: 1, Jobs: 1}}
	if err := r.project(); err != nil {
		return nil, err
	}
	p := r.p
	p.Spread = ""
	if q.Metric != "" {
		p.Judge.Metrics, p.Measured = []metric.Metric{p.asked(q.Metric)}, true
	}
	if err := r.better(); err != nil {
		return nil, err
	}
	p.Judge.Find = bisect.Slow
	if err := p.count(); err != nil {
		return nil, err
	}
	p.startCold()
	if head, err := source.Head(repo); err == nil {
		EndsOf(p, repo).AddHeaders(head)
	}
	return p, nil
}

// reader fills a policy from a request and, unless that has a command, from kbisect.toml. It is used once.
type reader struct {
	q    *Request
	repo *source.Repo
	p    *Policy
	kept []string // [run] keep
}

// project sets how candidates are built and launched. The order matters: paths are completed by what the plan
// needs, files of the work tree are added before --keep looks at them, and a server's rules overrule the limits.
func (r *reader) project() (err error) {
	if r.q.Argv != nil {
		err = r.command()
	} else {
		err = r.configuration()
	}
	if err != nil {
		return err
	}
	p := r.p
	p.Spread = cmp.Or(r.q.GPUs, p.Spread)
	if p.nothingRuns() || p.Spread == config.NoGPUs {
		p.GPUs, p.Spread = []string{config.NoGPUs}, ""
	}
	r.paths()
	r.overlayUncommitted()
	r.p.Plan.InWorktree = r.q.InWorktree
	r.p.Sandbox = r.p.Sandbox || r.q.Sandbox
	if r.p.Sandbox && r.q.InWorktree {
		return exit.Usagef("--in-worktree makes candidates a part of the repository, which a sandbox protects from them\nhint: run one without the other")
	}
	if err := r.keep(slices.Concat(r.kept, r.fromHere(r.q.Keep))); err != nil {
		return err
	}
	return cmp.Or(r.server(), r.executor())
}

// command is the form without a configuration: a command after --, as for git bisect run.
func (r reader) command() error {
	q, p := r.q, r.p
	if _, err := os.Stat(r.file()); err == nil && q.Executor == "" {
		q.warn([]string{filepath.Base(r.file()) + " is not read, as the command is given here\nhint: leave out -- and the command to use its own"})
	}
	argv, script := r.localArgv(q.Argv)
	project := kernels.Project{Kind: "command", Run: argv, Outputs: q.Outputs}
	if b := q.Build; b != "" {
		project.Build = []string{"sh", "-c", b}
	}
	var err error
	if p.Plan, err = kernels.NewPlan(project); err != nil {
		return exit.Usage(err)
	}
	p.Plan.Home = namedInline(r, argv)
	if here := r.here(); slices.ContainsFunc(argv, func(word string) bool { return r.stands(here, word) }) {
		p.Plan.Dir = here
	}
	if script != nil {
		p.Plan.Files = append(p.Plan.Files, *script)
	}
	p.Limits = trial.Limits{Build: config.DefaultBuildLimit, Run: commandLimit}
	p.Limits.Run = cmp.Or(q.Limit, p.Limits.Run)
	p.OwnScripts, p.Scripts = true, p.Plan.Scripts(project)
	p.Judge.Metrics = []metric.Metric{{Name: "time"}}
	if q.Find == string(bisect.Slow) {
		p.Judge.Metrics = append(p.Judge.Metrics, metric.Metric{Name: "wall", Fallback: true})
	}
	p.Judge.Effect, p.Judge.Error, p.Judge.Repeat = config.DefaultEffect, config.DefaultError, q.Repeat
	return nil
}

// configuration reads kbisect.toml from the user's work tree, and never from a candidate: all candidates are judged
// by the same rules.
func (r *reader) configuration() error {
	q, p := r.q, r.p
	path := r.file()
	cfg, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Usagef("%s does not exist\nhint: kbisect init writes one; or give a command: kbisect %s -- COMMAND", path, q.Usage)
	}
	if err != nil {
		return exit.Usage(err)
	}
	// Noted before the defaults fill it in: a KernelBot problem's limits give way to the user's only.
	ownLimit := cfg.Run.Limit > 0
	cfg = cfg.WithDefaults()
	p.Warnings = append(p.Warnings, cfg.Warnings...)
	q.warn(cfg.Warnings)
	p.Flags, p.Hypotheses = cfg.Flags, cfg.Hypotheses
	if err := r.plan(path, cfg); err != nil {
		return err
	}
	p.Paths, r.kept = cfg.Paths, cfg.Run.Keep
	p.BuildJobs = cfg.Build.Jobs
	p.Limits = trial.Limits{Build: cmp.Or(p.Plan.BuildLimit, cfg.Build.Limit), Run: cfg.Run.Limit, BuildMemory: cfg.Build.Memory, RunMemory: cfg.Run.Memory, Phases: map[string]kernels.Limit{}}
	if all := p.Plan.Limit(); all > 0 && !ownLimit {
		p.Limits.Run = all
	}
	p.Limits.Run = cmp.Or(q.Limit, p.Limits.Run)
	for phase, l := range cfg.Run.Limits {
		p.Limits.Phases[phase] = l
	}
	p.Caches, p.Probe = cfg.Run.Caches, cfg.Run.Probe
	p.Sandbox, p.Network, p.OnDisk = cfg.Run.Sandbox, cfg.Run.Network, cfg.Run.Workspace == "disk"
	p.Learn, p.NoAhead = p.Learn && !cfg.Run.NoLearn, cfg.Run.NoAhead
	p.GPUs, p.GPUHour, p.Executor = cfg.GPUs, cfg.GPUHour, cfg.Executor
	p.Spread = cfg.Run.GPUs
	p.Judge.Effect, p.Judge.Error, p.Judge.Repeat = cfg.Judge.Effect, cfg.Judge.Error, q.Repeat
	return r.metrics(path, cfg.Metrics)
}

// metrics sets what is measured: the metrics of the configuration, or else the time that programs send. A metric that
// several [[metrics]] name, one for each case, is judged once, with all of these cases.
func (r reader) metrics(path string, ms []config.Metric) error {
	p := r.p
	for _, m := range ms {
		jm := metric.Metric{Name: m.Name, Higher: m.Better == string(metric.Higher), Told: m.Better != "", DefaultUnit: m.Unit}
		switch m.From {
		case "protocol":
			if p.Sample == "" || m.Name == "time" {
				p.Sample = m.Name
			}
		case "wall":
			jm.Name = "wall"
		case "phase":
			jm.Name = "phase." + strings.TrimPrefix(m.Name, "phase.")
		case "regex":
			if _, err := metrics.NewPattern(m.Name, m.Unit, m.Pattern); err != nil {
				return exit.Usagef("%s: %w", path, err)
			}
			p.Patterns = append(p.Patterns, Pattern{m.Name, m.Unit, m.Pattern})
		default:
			if err := r.source(path, m); err != nil {
				return err
			}
			jm.Exact, jm.Counted = isStatic(m), trial.Source{From: m.From}.Counted()
		}
		if m.Case != "" {
			if p.Cases == nil {
				p.Cases = pipeline.Cases{}
			}
			p.Cases[jm.Name] = append(p.Cases[jm.Name], m.Case)
		}
		if !slices.ContainsFunc(p.Judge.Metrics, func(m metric.Metric) bool { return m.Name == jm.Name }) {
			p.Judge.Metrics = append(p.Judge.Metrics, jm)
		}
	}
	if p.Measured = len(ms) > 0; !p.Measured {
		p.Judge.Metrics = []metric.Metric{{Name: "time"}}
	}
	return nil
}

// better sets the direction that --better gives. Times of the process keep theirs: less is always better.
func (r reader) better() error {
	if r.q.Better == "" {
		return nil
	}
	higher := r.q.Better == string(metric.Higher)
	if !higher && r.q.Better != string(metric.Lower) {
		return exit.Usagef("--better %s: expected higher or lower", r.q.Better)
	}
	for i, m := range r.p.Judge.Metrics {
		if !m.OfProcess() {
			r.p.Judge.Metrics[i].Higher, r.p.Judge.Metrics[i].Told = higher, true
		}
	}
	return nil
}

// complaint sets what to look for, and whether a build alone can show it.
func (r reader) complaint() error {
	q, p := r.q, r.p
	switch find := q.Find; find {
	case "":
	case "any":
		p.Judge.Any = true
	case "slow", "timeout", "wrong", "crash":
		p.Judge.Find = bisect.Class(find)
	case "build":
		p.Judge.Find = bisect.BuildFailed
	default:
		return exit.Usagef("unknown --find %s%s\nhint: any, slow, timeout, wrong, crash or build", find, wording.DidYouMean(find, []string{"any", "slow", "timeout", "wrong", "crash", "build"}))
	}
	if p.Improvement && p.Judge.Find == "" && !p.Judge.Any {
		p.Judge.Find = bisect.Slow
	}
	p.Judge.Phase, p.Judge.Fast = q.Phase, q.Fast
	if n := len(p.Plan.Stages); n > 0 && p.Plan.Stages[n-1].Name == "test" {
		p.Judge.Untimed = "mode test measures no times; use [task] mode = \"benchmark\" or \"leaderboard\""
	}
	// torch and kernelbot also compile while they run, so that a build alone shows nothing.
	ofBuild := p.Judge.Find == bisect.BuildFailed || p.Judge.Find == bisect.Timeout && p.Judge.Phase == "build"
	p.Judge.Builds = ofBuild && len(p.Plan.Build) > 0 && !slices.Contains([]string{kernels.KindTorch, kernels.KindKernelbot}, p.Plan.Kind)
	if name := q.Metric; name != "" {
		p.Judge.Metrics = []metric.Metric{p.asked(name)}
		if p.Judge.Find == "" && !p.Judge.Any {
			p.Judge.Find = bisect.Slow
		}
		p.Judge.Builds = p.Judge.Builds || p.Judge.Find == bisect.Slow && p.Judge.Metrics[0].Exact
	}
	p.startCold()
	return nil
}
