// Package config reads kbisect.toml and kbisect-accepted.toml: schema, units, defaults, and errors that name file,
// line and key. [Load] gives a [Config], which is plain data; what it means for a run is decided in package policy.
// Reading collects every mistake ([Error]) and does not stop at the first.
//
//	parse            decodes a document and finds the line of each key        document.go
//	reader           reads typed values, and notes what is wrong              read.go, error.go
//	readConfig       the tables of kbisect.toml, by their schema              schema.go, flags.go, task.go, executor.go
//	ParseDuration    durations, limits and shares as people write them        units.go
//
// A new key needs a line in schema, a field, and a line in the function that reads its table. The package must not
// read the repository or the command line, and must not depend on what is installed: a file is valid or not
// everywhere alike.
package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/bisect/sets/flags"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
	"github.com/kbisect/kbisect/pipeline/source/owner"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// FileName is the file that kbisect looks for at the top of the user's work tree.
const FileName = "kbisect.toml"

// Config is a kbisect.toml after checking. What the file leaves out has its zero value; [Config.WithDefaults] fills
// that in.
type Config struct {
	Path       string   // the file, as it was named
	Kind       string   // one of kernels.KindNames
	Paths      []string // what build and run read, from the top of the repository; nil: everything
	Task       TaskConfig
	Build      BuildConfig
	Run        RunConfig
	Metrics    []Metric
	Judge      judgeConfig
	GPUs       []string // [device] gpus: {"auto"}, {"none"}, or indices and UUIDs
	GPUHour    float64  // [cost]: price of one device hour; 0: sessions are not priced
	Executor   executor.Settings
	Flags      []Flag
	Hypotheses []Hypothesis
	Warnings   []string // what is allowed but looks like a mistake, with file and line
}

// BuildConfig is the table [build]. Command and Sources exclude each other.
type BuildConfig struct {
	Command     []string
	Limit       time.Duration
	Memory      int64    // bytes that its processes may hold together; 0: not limited
	Jobs        int      // builds at a time; 0: what the machine can take
	Outputs     []string // patterns relative to the export, kept in the build cache; none: builds are not kept
	Incremental *bool    // nil: left to the kind
	Sources     []string // kind nvcc: what to compile, instead of a command
	Options     []string // kind nvcc: options of the compiler
}

// RunConfig is the table [run].
type RunConfig struct {
	Command   []string
	Limit     time.Duration            // of a whole trial without the build
	Limits    map[string]kernels.Limit // by name of the phase; nil if there are none
	Memory    int64                    // bytes that the processes of a launch may hold together; 0: not limited
	Files     []string                 // put into every candidate, relative to the configuration's folder
	Keep      []string                 // ignored and untracked paths of the work tree that every candidate gets
	Caches    pipeline.Caches          // how judged trials find caches; "": auto
	Probe     trial.Probe              // whether Python reports its phases through a probe; "": auto
	Workspace string                   // auto or disk: whether candidates without a build may lie in memory
	Sandbox   bool                     // builds and launches run in a sandbox
	Network   bool                     // the sandbox has the network
	NoLearn   bool                     // learn = false: the files that launches open do not narrow a search
	GPUs      string                   // devices used side by side, see CheckSpread; "": one trial has all
	NoAhead   bool                     // ahead = false: nothing is launched, nor an interpreter started, ahead
}

// Metric is what "slow" is about: one table [metric] or [[metrics]]. The same metric may be given several times, each
// with another case.
type Metric struct {
	Name    string
	Unit    string // a symbol that metric.ParseUnit knows
	Better  string // lower, higher; "": by the unit of the values
	From    string // one of MetricSources
	Pattern string // for regex: has a group "value", perhaps a group "unit"
	File    string // for sources that read one: the results that the run writes
	Case    string // "": every case
}

// judgeConfig is the table [judge].
type judgeConfig struct {
	Effect float64 // smallest change worth finding, as a share: 0.03 is 3 %
	Error  float64 // chance that the final answer is wrong, 0 to 0.5
}

// Flag is one [[flag]]: a switch of the project with its values, and how a value reaches the program. Exactly one
// of Env, Define, Arg and Option is given. The first value is the safe base, and the last the bad one unless Bad names
// another.
type Flag struct {
	flags.Flag
	Env    string // environment variable of the run and the build
	Define string // preprocessor macro of the build
	Arg    string // argument of the run, with {value}, or without it for a switch: see On
	Option string // argument of the build, likewise
}

// Hypothesis is one [[hypothesis]]: a claim about which flags are to blame. A search over flags confirms or refutes it.
type Hypothesis struct {
	Name  string
	Claim []string // "flag=value", one value for each of some flags
}

// The defaults of [Config.WithDefaults], which also hold where there is no file.
const (
	defaultRunLimit   = 180 * time.Second
	DefaultBuildLimit = 10 * time.Minute
	DefaultEffect     = 0.03
	DefaultError      = 0.01
)

// WithDefaults returns a copy in which everything that the file may leave out is set: kind command, run limit 180
// s, build limit 10 min, effect 3 %, error 0.01, gpus auto, and a flag's bad value its last. No metric is made up:
// without one a program is judged by the samples it sends, or else by the wall time. See [Metric.WithDefaults].
func (c *Config) WithDefaults() *Config {
	out := *c
	setDefault(&out.Kind, kernels.KindCommand)
	setDefault(&out.Run.Limit, defaultRunLimit)
	setDefault(&out.Build.Limit, DefaultBuildLimit)
	setDefault(&out.Judge.Effect, DefaultEffect)
	setDefault(&out.Judge.Error, DefaultError)
	if len(out.GPUs) == 0 {
		out.GPUs = []string{"auto"}
	}
	out.Metrics = append([]Metric(nil), c.Metrics...)
	for i := range out.Metrics {
		out.Metrics[i] = out.Metrics[i].WithDefaults()
	}
	out.Flags = append([]Flag(nil), c.Flags...)
	for i := range out.Flags {
		if f := &out.Flags[i]; f.Bad == "" && len(f.Values) > 0 {
			f.Bad = f.Values[len(f.Values)-1]
		}
	}
	return &out
}

// WithDefaults returns the metric with name, source and unit set: time, read from the protocol, in us; s if the
// wall or a phase is its source. A metric that the kernel counts is named after its source.
func (m Metric) WithDefaults() Metric {
	if slices.Contains(metrics.SourceNames(true), m.From) {
		setDefault(&m.Name, m.From)
	}
	setDefault(&m.Name, "time")
	setDefault(&m.From, "protocol")
	if m.Unit == "" {
		switch {
		case m.From == "wall" || m.From == "phase":
			m.Unit = "s"
		case m.Name == "time":
			m.Unit = "us"
		}
	}
	return m
}

// setDefault sets a variable that has its zero value. The schema refuses zeros that a file could mean, such as a limit
// of 0s, so that zero always means that the key is missing.
func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Load reads and checks the file at path. Mistakes in it are an *Error; a missing file is an error that wraps
// fs.ErrNotExist. A file that another user could have written is refused: it names commands that are run.
func Load(path string) (*Config, error) {
	full, err := filepath.Abs(path)
	if err == nil {
		err = owner.Check(filepath.Dir(full), full)
	}
	if err != nil {
		return nil, err
	}
	// ReadFile refuses what is not a plain file, such as a pipe that would never end.
	f, err := kernels.ReadFile(filepath.Split(path))
	if err != nil {
		return nil, hint.Add(fmt.Errorf("read configuration: %w", err), "kbisect init writes one; kbisect run -- COMMAND needs none")
	}
	return Parse(path, []byte(f.Text))
}

// Parse checks data, with name as the name of the file in messages, and collects every mistake. Its error is an
// [*Error]. The files that a configuration names are read by [Config.Project], and not here.
func Parse(name string, data []byte) (*Config, error) {
	t, err := parse(name, data, schema(), ": not a kbisect configuration")
	if err != nil {
		return nil, err
	}
	cfg := readConfig(t)
	if err := t.r.err(); err != nil {
		return nil, err
	}
	return cfg, nil
}
