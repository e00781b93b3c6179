package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/source"
)

// policy is everything that decides a search. It is kept with the session, so that --resume asks
// nothing and goes on by the same rules whatever has become of the configuration file.
type policy struct {
	Good, Bad   string // commit ids; Good is "" until --find-good has found one
	FindGood    bool
	FirstParent bool
	All         bool // every culprit in the range
	Axis        string
	NoHunks     bool // stop at the commit
	Flags       []config.Flag
	Hypotheses  []config.Hypothesis
	Improvement bool // what made a metric better is looked for
	Paths       []string
	Plan        kernels.Plan
	Limits      pipeline.Limits
	OwnScripts  bool // commands that a candidate lacks are taken from the user's work tree
	Sample      string
	Patterns    []pattern
	Sources     []pipeline.Source
	CUDA        cuSources // of kind nvcc
	Headers     []string  // of the Paths, those that came with the sources
	Former      []string  // of the Paths, names that files of the plan had before they were renamed
	Asked       string    // the metric that --metric names
	Cases       pipeline.Cases
	Needs       []string // what the plan takes from a candidate: a part of Paths
	Scripts     []string // what it starts or compiles and no build can have made
	Judge       judge.Options
	Budget      time.Duration
	Jobs        int // builds at a time; 0: what the machine can bear
	Seed        int64
	GPUs        []string
	Caches      pipeline.Caches
	Probe       pipeline.Probe
	GPUHour     float64
	Warnings    []string

	moreEnv      []string // of builds and trials
	measured     bool     // somebody said what is measured, in the configuration or by --metric
	NoExplain    bool
	ExplainLimit time.Duration // of launches under profilers; 0 is the usual one
}

// pattern is a metric that is read from the output.
type pattern struct{ Metric, Unit, Expr string }

// commandLimit bounds a trial when nobody said how long it may take.
const commandLimit = 10 * time.Minute

// newPolicy reads the command line and, unless a command is given there, kbisect.toml.
func newPolicy(c *cli.Context, repo *source.Repo) (*policy, error) {
	if err := refuseUnavailable(c); err != nil {
		return nil, err
	}
	p := &policy{
		FindGood: c.Bool("find-good"), FirstParent: c.Bool("first-parent"), All: c.Bool("all"), Improvement: c.Bool("improvement"),
		Axis: c.String("axis"), NoHunks: c.Bool("no-hunks"),
		Budget: duration(c, "budget"), Seed: c.Int64("seed"), Jobs: c.Int("jobs"),
		NoExplain: c.Bool("no-explain"), ExplainLimit: duration(c, "explain-limit"),
	}
	var err error
	if c.Args().Present() {
		err = p.fromCommand(c, c.Args().Slice())
	} else {
		err = p.fromConfig(c, repo)
	}
	if err != nil {
		return nil, err
	}
	p.choosePaths(c)
	p.lend(repo)
	if err := p.readAs(c); err != nil {
		return nil, err
	}
	if err := p.readFind(c); err != nil {
		return nil, err
	}
	return p, nil
}

// refuseUnavailable answers requests that this version cannot meet, instead of ignoring them.
func refuseUnavailable(c *cli.Context) error {
	switch {
	case !slices.Contains([]string{axisHistory, axisFlags, axisHunks}, c.String("axis")):
		return exit.Usagef("--axis %s: unknown%s\nhint: history, flags or hunks", c.String("axis"), wording.DidYouMean(c.String("axis"), []string{axisHistory, axisFlags, axisHunks}))
	case c.String("commit") != "" && c.String("axis") != axisHunks:
		return exit.Usagef("--commit belongs to --axis hunks\nhint: kbisect run --axis hunks --commit REV")
	case c.String("axis") != axisHistory && (c.Bool("find-good") || c.Bool("first-parent")):
		return exit.Usagef("--find-good and --first-parent belong to --axis history")
	case c.Bool("improvement") && c.String("find") != "" && c.String("find") != "slow":
		return exit.Usagef("--improvement is about a metric, and --find %s is not\nhint: leave out --find", c.String("find"))
	case c.IsSet("jobs") && c.Int("jobs") < 1:
		return exit.Usagef("--jobs %d: at least one candidate is built at a time", c.Int("jobs"))
	case c.Int("repeat") < 1:
		return exit.Usagef("--repeat %d: a candidate is run at least once", c.Int("repeat"))
	case len(c.StringSlice("output")) > 0 && c.String("build") == "":
		return exit.Usagef("--output names what --build makes, and there is no --build")
	case c.Bool("find-good") && c.String("good") != "":
		return exit.Usagef("--good and --find-good exclude each other\nhint: --find-good looks for a good end by itself")
	}
	return nil
}

// fromCommand is the form without a configuration: a command after --, as for git bisect run.
func (p *policy) fromCommand(c *cli.Context, argv []string) error {
	project := kernels.Project{Kind: "command", Run: argv, Outputs: c.StringSlice("output")}
	if b := c.String("build"); b != "" {
		project.Build = []string{"sh", "-c", b}
	}
	var err error
	if p.Plan, err = kernels.NewPlan(project); err != nil {
		return exit.Usage(err)
	}
	p.Limits = pipeline.Limits{Build: config.DefaultBuildLimit, Run: commandLimit}
	if d := duration(c, "limit"); d > 0 {
		p.Limits.Run = d
	}
	p.OwnScripts = true
	p.Judge.Metrics = []judge.Metric{{Name: "time"}}
	if c.String("find") == string(bisect.Slow) {
		p.Judge.Metrics = append(p.Judge.Metrics, judge.Metric{Name: "wall"})
	}
	p.Judge.Effect, p.Judge.Error, p.Judge.Repeat = config.DefaultEffect, config.DefaultError, c.Int("repeat")
	return nil
}

// fromConfig reads kbisect.toml from the user's work tree, never from a candidate.
func (p *policy) fromConfig(c *cli.Context, repo *source.Repo) error {
	path := globals(c).config
	if path == "" {
		path = filepath.Join(cmp.Or(repo.WorkDir(), globals(c).dir), config.FileName)
	}
	cfg, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Usagef("%s does not exist\nhint: kbisect init writes one; or give a command: kbisect run --good REV -- COMMAND", path)
	}
	if err != nil {
		return exit.Usage(err)
	}
	ownLimit := cfg.Run.Limit > 0
	cfg = cfg.WithDefaults()
	p.Warnings = append(p.Warnings, cfg.Warnings...)
	for _, w := range cfg.Warnings {
		if globals(c).quiet {
			break
		}
		fmt.Fprintln(c.App.ErrWriter, "kbisect: warning: "+w)
	}
	p.Flags, p.Hypotheses = cfg.Flags, cfg.Hypotheses
	if err := p.makePlan(c, path, cfg); err != nil {
		return err
	}
	p.Paths = cfg.Paths
	p.Limits = pipeline.Limits{Build: cmp.Or(p.Plan.BuildLimit, cfg.Build.Limit), Run: cfg.Run.Limit, Phases: map[string]kernels.Limit{}}
	if all := p.Plan.Limit(); all > 0 && !ownLimit {
		p.Limits.Run = all
	}
	if d := duration(c, "limit"); d > 0 {
		p.Limits.Run = d
	}
	for phase, l := range cfg.Run.Limits {
		p.Limits.Phases[phase] = l
	}
	p.Caches, p.Probe = cfg.Run.CacheState(), cfg.Run.ProbeMode()
	p.GPUs, p.GPUHour = cfg.Device.GPUs, cfg.Cost.GPUHour
	if p.nothingRuns() {
		p.GPUs = []string{"none"}
	}
	p.Judge.Effect, p.Judge.Error, p.Judge.Repeat = cfg.Judge.Effect, cfg.Judge.Error, c.Int("repeat")
	return p.readMetrics(path, cfg.Metrics)
}

// startUp reports that the metrics are about how a program starts, which is measured with empty
// caches, and by phases that the probe may have to name.
func (p *policy) startUp() bool {
	for _, m := range p.Judge.Metrics {
		if !strings.HasPrefix(m.Name, "phase.") || m.Name == "phase.measure" {
			return false
		}
	}
	return len(p.Judge.Metrics) > 0
}

func (p *policy) readMetrics(path string, ms []config.Metric) error {
	for _, m := range ms {
		jm := judge.Metric{Name: m.Name, Higher: m.Better == "higher"}
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
			p.Patterns = append(p.Patterns, pattern{m.Name, m.Unit, m.Pattern})
		default:
			if err := p.readSource(path, m); err != nil {
				return err
			}
			jm.Exact = m.From == pipeline.FromStatic
		}
		if m.Case != "" {
			if p.Cases == nil {
				p.Cases = pipeline.Cases{}
			}
			p.Cases[jm.Name] = append(p.Cases[jm.Name], m.Case)
		}
		if !slices.Contains(p.Judge.Metrics, jm) { // as it is for every further case
			p.Judge.Metrics = append(p.Judge.Metrics, jm)
		}
	}
	if p.measured = len(ms) > 0; !p.measured {
		p.Judge.Metrics = []judge.Metric{{Name: "time"}}
	}
	return nil
}

// readFind reads what complaint to look for.
func (p *policy) readFind(c *cli.Context) error {
	switch find := c.String("find"); find {
	case "":
	case "any":
		p.Judge.Any = true
	case "slow", "timeout", "wrong", "crash":
		p.Judge.Find = bisect.Class(find)
	case "build":
		p.Judge.Find = bisect.BuildFailed
	default:
		return exit.Usagef("--find %s: unknown complaint%s\nhint: any, slow, timeout, wrong, crash or build", find, wording.DidYouMean(find, []string{"any", "slow", "timeout", "wrong", "crash", "build"}))
	}
	if p.Improvement && p.Judge.Find == "" && !p.Judge.Any {
		p.Judge.Find = bisect.Slow
	}
	p.Judge.Phase, p.Judge.Fast = c.String("phase"), c.Bool("fast")
	if n := len(p.Plan.Stages); n > 0 && p.Plan.Stages[n-1].Name == "test" {
		p.Judge.Untimed = "the mode test takes no times: [task] mode = \"benchmark\" or \"leaderboard\" does"
	}
	ofBuild := p.Judge.Find == bisect.BuildFailed || p.Judge.Find == bisect.Timeout && p.Judge.Phase == "build"
	p.Judge.Builds = ofBuild && len(p.Plan.Build) > 0 && !slices.Contains([]string{config.KindTorch, config.KindKernelbot}, p.Plan.Kind) // those compile when they run, too
	if name := c.String("metric"); name != "" {
		p.Judge.Metrics = []judge.Metric{p.asked(name)}
		if p.Judge.Find == "" && !p.Judge.Any {
			p.Judge.Find = bisect.Slow
		}
		p.Judge.Builds = p.Judge.Builds || p.Judge.Find == bisect.Slow && p.Judge.Metrics[0].Exact
	}
	p.startCold()
	return nil
}

// metric is the configured metric of a name, or one that launches have of themselves.
func (p *policy) metric(name string) judge.Metric {
	if i := slices.IndexFunc(p.Judge.Metrics, func(m judge.Metric) bool { return m.Name == name }); i >= 0 {
		return p.Judge.Metrics[i]
	}
	return judge.Metric{Name: name, Exact: p.static() && slices.Contains(cuda.StaticMetrics(), name)}
}

// asked is the metric that --metric names. What nvcc says of what it compiles is there, configured or not.
func (p *policy) asked(name string) judge.Metric {
	p.Asked = name
	if p.Plan.Kind == config.KindNvcc && !p.static() && slices.Contains(cuda.StaticMetrics(), name) {
		p.Sources = append(p.Sources, pipeline.Source{Metric: name, From: pipeline.FromStatic})
	}
	return p.metric(name)
}

// startCold has the start of programs measured with empty caches, and by the probe where only that
// names the phase.
func (p *policy) startCold() {
	if !p.startUp() {
		return
	}
	if p.Caches == "" {
		p.Caches = pipeline.Cold
	}
	if p.Probe == "" && slices.Contains(kernels.ProbePhases(), strings.TrimPrefix(p.Judge.Metrics[0].Name, "phase.")) {
		p.Probe = pipeline.ProbeOn
	}
}

// wholeTimed reports that a metric is about more than what a program measures of itself.
func (p *policy) wholeTimed() bool {
	return slices.ContainsFunc(p.Judge.Metrics, func(m judge.Metric) bool { return m.Name == "wall" || strings.HasPrefix(m.Name, "phase.") })
}

// compile makes the patterns of a policy.
func (p *policy) compile() ([]*metrics.Pattern, error) {
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

// runs is everything that decides how a launch ends, as a text to compare.
func (p *policy) runs() string {
	return jsonText(p.Plan, p.Limits, p.OwnScripts, p.Caches, p.Probe, p.ownPaths())
}

// compares is everything that decides how two candidates are found to differ.
func (p *policy) compares() string {
	return jsonText(p.runs(), p.Judge.Metrics, p.Judge.Effect, p.Judge.Error, p.Sample, p.Patterns)
}

func jsonText(all ...any) string {
	data, err := json.Marshal(all)
	if err != nil {
		return err.Error() // equal to no other text; none of these types can fail
	}
	return string(data)
}
