// Package policy turns the command line ([Request]) and kbisect.toml into what decides a run ([Policy]): the plan,
// limits, metrics and the judge's options ([ForSearch], [ForTrials]); and it completes that for the commits of a
// run ([EndsOf]). A policy is plain data that is stored with its session, so that a resumed search continues by the
// same rules.
//
//	Request      the command line, checked for contradictions                       request.go
//	reader       kbisect.toml or the command after --, and what overrules it        reader.go, executor.go
//	overlay      files of the work tree that candidates get                         overlay.go
//	Ends         what depends on the commits: paths, headers, former names          ends.go, headers.go, renames.go
//
// The package reads files and the repository. It must not start anything, open the store, or print more than early
// warnings; its errors are the user's to correct.
package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/sets/flags"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// Policy is everything that decides a run. It is stored with the session as JSON, so that --resume continues by the
// same rules even if the configuration has changed. Fields with json:"-" concern one process only. Which fields
// count for reusing what other sessions found is said by Runs, Measures, Asks, Repeats and Compares: a new field
// needs a decision in each.
type Policy struct {
	Good, Bad   string // commit ids; Good is "" until --find-good has found one
	FindGood    bool
	FirstParent bool
	All         bool   // every culprit in the range
	Axis        string // one of AxisHistory, AxisFlags, AxisHunks
	NoHunks     bool   // stop at the commit
	Flags       []config.Flag
	Hypotheses  []config.Hypothesis
	Improvement bool     // look for what made a metric better
	Paths       []string // what build and run read, from the top of the repository; none: everything
	Plan        kernels.Plan
	Limits      trial.Limits
	OwnScripts  bool   // scripts that a candidate lacks come from the user's work tree
	Sample      string // name of the metric that the samples of the protocol are of; "": time
	Patterns    []Pattern
	Sources     []trial.Source
	CUDA        nvccSources // for kind nvcc
	Headers     []string    // those Paths that the sources include
	Former      []string    // those Paths that are former names of files of the plan
	Asked       string      // the metric that --metric names
	Cases       pipeline.Cases
	Needs       []string // files that the plan itself reads from a candidate; they are in Paths, if there are any
	Scripts     []string // committed files that the plan starts or compiles
	Judge       search.Options
	Budget      time.Duration // 0: none
	Jobs        int           // trials and builds at a time; 0: see MayRunAhead for trials, BuildJobs for builds
	BuildJobs   int           // builds at a time if Jobs is 0; 0: as many as the machine can take
	Seed        int64
	GPUs        []string
	Spread      string `json:",omitempty"` // devices that a search uses side by side, see config.CheckSpread
	Caches      pipeline.Caches
	Probe       trial.Probe
	OnDisk      bool // candidates never lie in memory
	Sandbox     bool // builds and launches run in a sandbox
	Network     bool // the sandbox has the network
	GPUHour     float64
	Executor    executor.Settings // where trials are made
	Warnings    []string
	Dirty       bool                      // the work tree has changes that no candidate contains
	Fresh       bool                      // use no answer and no launch of earlier sessions
	Environment string                    // digest of what launches find besides their candidates; "": unknown
	Learn       bool                      // the files that builds and launches open narrow the search of a history
	NoAhead     bool                      // nothing is launched, and no interpreter started, before its turn
	NoPast      bool                      // do not use how much launches scattered in earlier sessions
	Machine     string                    // where the launches are made; "": unknown
	Past        map[string]bisect.Scatter // how much launches scattered in earlier sessions, by name of metric or case

	MoreEnv      []string `json:"-"` // NAME=value, for builds and trials
	Measured     bool     `json:"-"` // the metric was given, in the configuration or by --metric
	NoExplain    bool
	ExplainLimit time.Duration // of launches under profilers; 0: the default
}

// The axes of a search: along what it looks for the culprit.
const (
	AxisHistory = "history"
	AxisFlags   = "flags"
	AxisHunks   = "hunks"
)

// NoGPUs is what Policy.GPUs holds, alone, if no device is to be used.
const NoGPUs = config.NoGPUs

// Deviceless reports whether no device is to be used.
func Deviceless(p *Policy) bool { return slices.Equal(p.GPUs, []string{NoGPUs}) }

// MayRunAhead reports whether trials may run beside one another although the user has not said that they share
// nothing: each has a checkout of its own, no times matter, nothing can be built ahead instead, and a proof rests
// on launches alone.
func MayRunAhead(p *Policy) bool {
	j := p.Judge
	return p.Axis == AxisHistory && !p.NoAhead && !p.Executor.Away() && p.BuildJobs == 0 && len(p.Plan.Build) == 0 && !p.Plan.InWorktree && !p.All && !j.Fast && !j.Builds &&
		j.Repeat < 2 && j.Find != bisect.Slow && j.Find != bisect.Timeout
}

// Pattern is a metric that is read from the output by a regular expression with a group "value". It is kept as text,
// since a policy is stored; see [Policy.Compile].
type Pattern struct{ Metric, Unit, Expr string }

// startUp reports whether all metrics are about how a program starts. Those are measured with empty caches, and the
// probe may have to report their phases. phase.measure is about the program's work and not its start.
func (p *Policy) startUp() bool {
	for _, m := range p.Judge.Metrics {
		if !strings.HasPrefix(m.Name, "phase.") || m.Name == "phase.measure" {
			return false
		}
	}
	return len(p.Judge.Metrics) > 0
}

// Metric is the configured metric of this name, or else a metric that needs no configuration.
func (p *Policy) Metric(name string) metric.Metric {
	if i := slices.IndexFunc(p.Judge.Metrics, func(m metric.Metric) bool { return m.Name == name }); i >= 0 {
		return p.Judge.Metrics[i]
	}
	return metric.Metric{Name: name, Exact: p.static() && slices.Contains(cuda.StaticMetrics(), name)}
}

// asked returns the metric that --metric names, and adds the source that it needs to the policy. Static metrics of kind
// nvcc and the counters of the operating system's kernel need no configuration.
func (p *Policy) asked(name string) metric.Metric {
	p.Asked = name
	if p.Plan.Kind == kernels.KindNvcc && !p.static() && slices.Contains(cuda.StaticMetrics(), name) {
		p.Sources = append(p.Sources, trial.Source{Metric: name, From: trial.FromStatic})
	}
	m, counted := p.Metric(name), trial.Source{Metric: name, From: name}
	if !slices.Contains(p.Judge.Metrics, m) && !m.Exact && counted.Counted() {
		m.Counted, p.Sources = true, append(p.Sources, counted)
	}
	return m
}

// count drops the counters that are not judged, so that nobody needs the permission to count them, and checks that this
// machine can count the others. One that it cannot count is a usage error.
func (p *Policy) count() error {
	p.Sources = slices.DeleteFunc(p.Sources, func(s trial.Source) bool {
		return s.Counted() && !slices.ContainsFunc(p.Judge.Metrics, func(m metric.Metric) bool { return m.Counted && m.Name == s.Metric })
	})
	for _, s := range p.Sources {
		if err := s.Check(); err != nil {
			return exit.Usagef("metric %s: %w", s.Metric, err)
		}
	}
	return nil
}

// startCold measures start-up metrics with empty caches, and with the probe if only that reports the phase. What
// the user has set stays.
func (p *Policy) startCold() {
	if !p.startUp() {
		return
	}
	if p.Caches == "" {
		p.Caches = pipeline.Cold
	}
	if p.Probe == "" && slices.Contains(kernels.ProbePhases(), strings.TrimPrefix(p.Judge.Metrics[0].Name, "phase.")) {
		p.Probe = trial.ProbeOn
	}
}

// WholeTimed reports whether a metric covers more than what the program measures itself, so that nothing may
// disturb any part of a launch.
func (p *Policy) WholeTimed() bool {
	return slices.ContainsFunc(p.Judge.Metrics, func(m metric.Metric) bool { return m.OfProcess() && !m.Fallback })
}

// FallsBack reports whether a metric does so where the program sends no samples.
func FallsBack(p *Policy) bool {
	return slices.ContainsFunc(p.Judge.Metrics, func(m metric.Metric) bool { return m.Fallback })
}

// CompileTimed reports whether a metric may be taken while a program compiles: one that is not made of the samples it sends,
// or any where caches are cold.
func CompileTimed(p *Policy) bool {
	return p.Caches == pipeline.Cold || slices.ContainsFunc(p.Judge.Metrics, func(m metric.Metric) bool { return m.Name != Sampled(p) && !m.Fallback })
}

// BuildTimed reports whether a metric is how long the build takes.
func BuildTimed(p *Policy) bool {
	return slices.ContainsFunc(p.Judge.Metrics, func(m metric.Metric) bool { return m.Name == "phase.build" })
}

// Sampled is the metric of the samples that a program sends.
func Sampled(p *Policy) string { return cmp.Or(p.Sample, "time") }

// Compile compiles the patterns. They were checked when the policy was made, so that an error means a damaged
// session.
func (p *Policy) Compile() ([]*metrics.Pattern, error) {
	var out []*metrics.Pattern
	for _, x := range p.Patterns {
		c, err := metrics.NewPattern(x.Metric, x.Unit, x.Expr)
		if err != nil {
			return nil, fmt.Errorf("kept policy: %w", err)
		}
		out = append(out, c)
	}
	return out, nil
}

// Runs is everything that decides how a launch ends, as a text to compare: with equal texts the hook may use what
// another session launched. Headers are left out, as they follow from the commits.
func (p *Policy) Runs() string {
	return jsonText(p.Plan, p.Limits, p.OwnScripts, p.Caches, p.Probe, p.OwnPaths())
}

// Commands are the commands, as a text to compare: it tells whether a person has run them here before.
func (p *Policy) Commands() string {
	return jsonText(p.Plan.Build, p.Plan.Run, p.Plan.Stages, p.Plan.Env, p.Plan.Dir)
}

// Measures is everything that decides what the launches of a candidate show, as a text to compare.
func Measures(p *Policy) string {
	return jsonText(p.Commands(), p.Sample, p.Patterns, p.Sources, p.Cases, p.Caches, p.Probe, p.Sandbox)
}

// Asks is everything that decides the result of a search, as a text to compare: with equal texts the stored answer is
// given again. Left out are budget, width and warnings, which change only how the search gets there.
func Asks(of *Policy) string {
	p := *of
	p.Warnings, p.Dirty, p.Past, p.Machine, p.Fresh, p.NoAhead, p.NoPast, p.Budget, p.Jobs, p.BuildJobs = nil, false, nil, "", false, false, false, 0, 0, 0
	p.Spread = ""
	return jsonText(p)
}

// Repeats is everything that decides how a launch ends if its times do not matter, as a text to compare: with equal
// texts a search may use launches of another. It includes Environment, so that an updated compiler makes them differ.
func Repeats(p *Policy) string {
	return jsonText(p.Runs(), Measures(p), p.Flags, p.Network, p.GPUs, p.Judge.Builds, p.Judge.Fast, p.Environment)
}

// Words are the words of all commands, for finding the files that they name: those of the build, of the run, and of the
// stages that a KernelBot problem has instead of a run.
func Words(p *Policy) []string {
	words := slices.Concat(p.Plan.Build, p.Plan.Run)
	for _, s := range p.Plan.Stages {
		words = append(words, s.Run...)
	}
	return words
}

// Compares is everything that decides how two candidates are found to differ, as a text to compare. The fingerprint
// of a baseline is made of it, so that a change here makes old baselines incomparable.
func (p *Policy) Compares() string {
	return jsonText(p.Runs(), p.Judge.Metrics, p.Judge.Effect, p.Judge.Error, p.Sample, p.Patterns)
}

// jsonText writes values as one text that is equal for equal values.
func jsonText(all ...any) string {
	data, err := json.Marshal(all)
	if err != nil {
		return err.Error() // differs from every other text; none of these types can fail
	}
	return string(data)
}

// Carriers are the flags in the terms of package kernels: how each value reaches the program (environment variable,
// macro, argument or compiler option). What the values mean for a search is left to package sets/flags.
func (p *Policy) Carriers() []kernels.Flag {
	var out []kernels.Flag
	for _, f := range p.Flags {
		out = append(out, kernels.Flag{Name: f.Name, Env: f.Env, Define: f.Define, Arg: f.Arg, Option: f.Option, On: f.On()})
	}
	return out
}

// parseAssign reads the part after the colon of "HEAD^:compile=off,graph=on" and returns it in the order of the
// configuration, so that one assignment has one name however it is written. Flags that are not named keep whatever the
// program takes without them. All errors are usage errors.
func (p *Policy) parseAssign(text string) (string, error) {
	given := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		c, ok := flags.ParseTerm(part)
		switch {
		case !ok || c.Not:
			return "", exit.Usagef("invalid setting %q; write flag=value", part)
		case len(p.Flags) == 0:
			return "", exit.Usagef("%q: no flags are configured\nhint: add them to %s, one [[flag]] each", part, config.FileName)
		case given[c.Flag] != "":
			return "", exit.Usagef("%q sets flag %q twice", text, c.Flag)
		}
		if wrong := config.Unknown(c, p.Flags); wrong != "" {
			return "", exit.Usagef("%q: %s", part, wrong)
		}
		given[c.Flag] = c.Value
	}
	var parts []string
	for _, f := range p.Flags {
		if v, ok := given[f.Name]; ok {
			parts = append(parts, f.Name+"="+v)
		}
	}
	return strings.Join(parts, ","), nil
}

// ReadJudgement sets the smallest effect and the chance of an error from the command line, and checks that the
// direction of each metric can be known.
func (p *Policy) ReadJudgement(q *Request) error {
	if s := q.Effect; s != "" {
		effect, err := config.ParseEffect(s)
		if err != nil {
			return exit.Usagef("--effect: %w", err)
		}
		p.Judge.Effect = effect
	}
	if q.ErrorSet {
		p.Judge.Error = q.Error
	}
	if e := p.Judge.Error; !(e >= 1e-6 && e <= 0.2) {
		return exit.Usagef("--error %g: expected a probability from 0.000001 to 0.2", e)
	}
	for _, m := range p.Judge.Metrics {
		if m.DefaultUnit == "" {
			continue
		}
		// What a launch will say is known already.
		if _, err := m.Direction(bisect.Outcome{Series: []bisect.Series{{Metric: m.Name, Unit: m.DefaultUnit, Values: []float64{1}}}}); err != nil {
			return exit.Usage(err)
		}
	}
	return nil
}

// Candidate resolves a revision, which may be followed by flags: HEAD^:compile=off. A colon in :/TEXT or ^{/TEXT},
// a search for a commit by its message, belongs to the revision.
func (p *Policy) Candidate(ctx context.Context, repo *source.Repo, text string) (c bisect.Candidate, err error) {
	rev, assign, flags := text, "", false
	if !strings.HasPrefix(text, ":") && !strings.Contains(text, "^{/") {
		rev, assign, flags = strings.Cut(text, ":")
	}
	if flags {
		if c.Assign, err = p.parseAssign(assign); err != nil {
			return c, err
		}
	}
	c.Commit, err = repo.Resolve(ctx, rev)
	return c, exit.Usage(err)
}

// WallTime is the metric to use if none is configured and the program sends none; nil if one is configured. A policy
// without a configured metric has the single metric time, the name of the protocol's samples.
func (p *Policy) WallTime() *metric.Metric {
	if len(p.Judge.Metrics) == 1 && p.Judge.Metrics[0].Name == "time" {
		return &metric.Metric{Name: "wall"}
	}
	return nil
}

// Fallback is WallTime unless the user named the metric: a pattern that matches nothing is a mistake, which the
// time of the whole process would hide.
func (p *Policy) Fallback() *metric.Metric {
	if p.Measured {
		return nil
	}
	return p.WallTime()
}

// RangeOptions are the options for reading the range of commits. With Paths, commits that change none of them are
// marked as neutral and need not be built.
func (p *Policy) RangeOptions() source.RangeOptions {
	return source.RangeOptions{FirstParent: p.FirstParent, Paths: p.Paths}
}

// OwnPaths lists the paths that the user gave or that the plan needs, without the headers that AddHeaders added.
func (p *Policy) OwnPaths() []string {
	return slices.DeleteFunc(slices.Clone(p.Paths), func(name string) bool { return slices.Contains(p.Headers, name) })
}

// nothingRuns reports whether candidates are only built. No device is needed then.
func (p *Policy) nothingRuns() bool { return len(p.Plan.Run)+len(p.Plan.Stages) == 0 }

// static reports whether some metric comes from the build. Then all static metrics are read, as one look at the build
// gives all of them.
func (p *Policy) static() bool {
	return slices.ContainsFunc(p.Sources, func(s trial.Source) bool { return s.From == trial.FromStatic })
}
