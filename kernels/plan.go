// Package kernels knows the kinds of project that kbisect builds and runs. A kind turns what the
// user wrote into a [Plan]: build and run steps as data, which package pipeline carries out.
// It also reads what the programs under test say: the trial protocol and the output of tools.
//
// One file a kind. A new kind is a function in the table of [Kinds], a word in the configuration's
// schema, and what kbisect init knows about finding it.
package kernels

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Project is what the user said about the project, from kbisect.toml or the command line.
type Project struct {
	Kind        string
	Build       []string // command; empty: what the kind does by itself, or nothing
	Outputs     []string
	Incremental *bool // nil: as the kind knows best
	Run         []string
	Files       []File // put into every candidate, over what it has; not for kernelbot, whose task has them
	Static      bool   // the metrics are about what is built: without a Run command nothing is run

	Sources []string // nvcc: files to compile when there is no Build command
	Options []string // nvcc: options of the compiler
	Device  string   // compute capability such as "9.0"; "": the compiler looks at the device itself

	Submission string   // torch, kernelbot: path of the user's file; "": as the task or the driver calls it
	Reference  string   // torch: path of the reference; "": reference.py
	Cases      []string // torch: as in a case file of KernelBot; none: those of the reference
	Task       *Task    // kernelbot: the problem, see ReadTask
	Mode       string   // kernelbot: test, benchmark or leaderboard; "": leaderboard
}

// Plan says how to build and run a candidate, as data. Commands run in the root of the export, or
// in Dir below it.
type Plan struct {
	Kind        string
	Build       []string // empty: nothing to build
	Outputs     []string // what the build leaves behind, from the root; empty: unknown, so builds are not kept
	Run         []string // the trial; empty when Stages are given
	Incremental bool     // the build tool tracks dependencies: a build may start from the last one
	BuildFiles  []string // base names or *.suffix whose change needs a clean build all the same

	Dir        string        // where commands run, below the root; "": the root
	Files      []File        // written before the build and again before each trial, see Write
	Env        []string      // NAME=value of builds and trials, for names that the user's environment lacks
	BuildLimit time.Duration // bound on the build that the kind brings along; 0: as the user says
	Depfiles   []string      // written by the build, from the root: what it has read, see Deps
	Stages     []Stage       // the processes of one trial, in this order; empty: Run alone
	Undrained  bool          // who sends more on POPCORN_FD than a pipe holds is blocked, as by KernelBot's server
	Warnings   []string
}

// Limit is a bound on a phase: absolute, or a multiple of what the good end took.
type Limit struct {
	Abs   time.Duration
	Times float64
}

// leastMultiple is the floor of bounds that are multiples: below it a process that waits for the
// processor once would count as hanging.
const leastMultiple = 500 * time.Millisecond

// For returns the bound given the time of the good end, which is 0 while it is not known;
// a bound of 0 is none.
func (l Limit) For(good time.Duration) time.Duration {
	switch {
	case l.Times <= 0:
		return l.Abs
	case good <= 0:
		return 0
	}
	return max(time.Duration(l.Times*float64(good)).Round(time.Millisecond), leastMultiple) // people read it
}

// String is how a configuration writes a limit, such as 60s or 4x.
func (l Limit) String() string {
	if l.Times > 0 {
		return strconv.FormatFloat(l.Times, 'g', -1, 64) + "x"
	}
	return l.Abs.String()
}

// Kinds are the kinds of project by name.
func Kinds() map[string]func(Project) (Plan, error) {
	return map[string]func(Project) (Plan, error){
		"command": command,
		"make":    makefile,
		"cmake":   cmake,
		"nvcc":    nvcc,
		"torch":   torch,

		"kernelbot": kernelbot,
	}
}

// NewPlan makes the plan of a project.
func NewPlan(p Project) (Plan, error) {
	if p.Kind == "" {
		p.Kind = "command"
	}
	kind, ok := Kinds()[p.Kind]
	if !ok {
		return Plan{}, fmt.Errorf("kind %q is not available\nhint: use one of %s, with [build] command and [run] command", p.Kind, strings.Join(slices.Sorted(maps.Keys(Kinds())), ", "))
	}
	plan, err := kind(p)
	if err != nil {
		return Plan{}, err
	}
	if p.Static && len(p.Run) == 0 && len(plan.Build) > 0 {
		plan.Run, plan.Stages = nil, nil
	} else if len(plan.Run) == 0 && len(plan.Stages) == 0 {
		return Plan{}, fmt.Errorf("nothing to run\nhint: set [run] command in kbisect.toml, or give a command after --")
	}
	plan.Kind = p.Kind
	plan.Files = append(plan.Files, p.Files...)
	if p.Incremental != nil {
		plan.Incremental = *p.Incremental
	}
	return plan, nil
}

// interpreter matches programs whose first argument is a script.
var interpreter = regexp.MustCompile(`^(sh|dash|bash|zsh|ksh|fish|python[0-9.]*|perl|ruby|node)$`)

// Script tells which word of a command is the user's own program: the first, or what an interpreter is
// given first. It is "" where that is no path below the folder where the command runs, such as the name
// of a program that is looked for, or an option.
func Script(argv []string) (at int, name string) {
	if len(argv) > 1 && interpreter.MatchString(filepath.Base(argv[0])) {
		at = 1
	}
	if len(argv) == 0 || filepath.IsAbs(argv[at]) || at == 0 && !strings.Contains(argv[0], "/") || strings.HasPrefix(argv[at], "-") {
		return at, ""
	}
	return at, argv[at]
}

// Scripts are the files that the plan of a project starts or compiles and that no build can have made.
func (p Plan) Scripts(project Project) []string {
	if len(project.Build) == 0 && len(project.Sources) > 0 {
		return slices.Clone(project.Sources)
	}
	if _, name := Script(p.Run); name != "" && len(p.Build) == 0 && p.Dir == "" && filepath.IsLocal(name) {
		return []string{filepath.Clean(name)}
	}
	return nil
}
