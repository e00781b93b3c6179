// Package kernels turns a project into a [Plan]: its build and run steps as data, which
// package pipeline carries out. [Project] is what the user configured, a kind of
// project ([Kinds]) is how to understand it, and [NewPlan] joins the two. [Settings] are
// the project's flags at values.
//
// The package must not start processes, know git or talk to a terminal. What programs
// say is read in kernels/protocol, kernels/metrics and kernels/cuda.
//
// # Adding a kind
//
// Write one file, such as make.go, with a function from Project to Plan, and add it to
// the table in [Kinds]. The configuration, its error messages and the file written by
// kbisect init take names and keys from that table. TestPlans in plan_test.go gets a
// row. What kbisect init recognises, doctor looks for and a search takes for a build file is
// optional; .github/CONTRIBUTING.md lists the places.
package kernels

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/kernels/kernelbot"
)

// Project is what the user said about the project, in kbisect.toml or on the command line.
type Project struct {
	Kind        string   // a name of Kinds; "": command
	Build       []string // command; empty: the kind's default, or no build
	Outputs     []string // paths that the build creates
	Incremental *bool    // nil: the kind decides; false: every build compiles everything
	Run         []string
	Files       []File // written into every candidate, over its own; not for kernelbot, whose task names them
	Static      bool   // all metrics come from the build: without a Run command nothing runs

	Sources []string // nvcc: files to compile when there is no Build command
	Options []string // nvcc: compiler options
	Device  string   // compute capability such as "9.0"; "": the compiler asks the device

	Submission string          // torch, kernelbot: path of the user's file; "": the default of the task or the driver
	Reference  string          // torch: path of the reference; "": reference.py
	Cases      []string        // torch: lines of a case file; none: those of the reference
	Task       *kernelbot.Task // kernelbot: the problem
	Mode       string          // kernelbot: test, benchmark or leaderboard; "": leaderboard
}

// Plan says how to build and run a candidate. Commands run in the root of the export, or
// in Dir below it.
type Plan struct {
	Kind        string
	Build       []string // empty: nothing to build
	Outputs     []string // what the build creates, relative to the root; empty: unknown, so builds are not cached
	Run         []string // the trial; empty when there are Stages
	Incremental bool     // the build tool tracks dependencies: a build may start from the last one
	Whole       bool     `json:",omitempty"` // every build compiles everything
	BuildFiles  []string // base names or *.suffix whose change forces a clean build

	Dir        string        // where commands run, relative to the root
	Files      []File        // written before the build and again before each trial
	Env        []string      // NAME=value for builds and trials; the user's environment takes precedence
	BuildLimit time.Duration // the kind's own limit on the build; 0: the user's
	Depfiles   []string      // dependency files that the build writes, relative to the root
	Stages     []Stage       // the processes of one trial, in order; empty: Run alone
	Undrained  bool          // POPCORN_FD is not read while the process runs, as by KernelBot's server: a full pipe blocks it
	Warnings   []string

	Keep       []string `json:",omitempty"` // paths of the user's work tree that every candidate gets where its commit has none
	Kept       string   `json:",omitempty"` // digest of what is there
	InWorktree bool     `json:",omitempty"` // candidates are linked work trees of the repository
	Home       string   `json:",omitempty"` // a folder that the text of [Inline] names, for which it names the export
}

// IsBuildFile reports whether a file says how to build. Build tools track the files that these name, but not always
// these themselves.
func (p Plan) IsBuildFile(file string) bool {
	return slices.ContainsFunc(p.BuildFiles, func(pattern string) bool {
		ok, err := path.Match(pattern, path.Base(file))
		return err == nil && ok
	})
}

// Limit bounds a phase: by a time, or by a multiple of the time in the good revision.
type Limit struct {
	Abs   time.Duration
	Times float64
}

// minMultiple is the smallest limit that a multiple gives. Below it, one wait for the
// processor would count as a hang.
const minMultiple = 500 * time.Millisecond

// For returns the limit, given the time of the phase in the good revision or 0 while
// that is unknown. 0 means no limit.
func (l Limit) For(good time.Duration) time.Duration {
	switch {
	case l.Times <= 0:
		return l.Abs
	case good <= 0:
		return 0
	}
	return max(time.Duration(l.Times*float64(good)).Round(time.Millisecond), minMultiple) // rounded for people
}

// String formats a limit as in kbisect.toml, such as 60s or 4x.
func (l Limit) String() string {
	if l.Times > 0 {
		return strconv.FormatFloat(l.Times, 'g', -1, 64) + "x"
	}
	return l.Abs.String()
}

// Kind is a way to build and run a project.
type Kind struct {
	Name string
	Keys []string // keys of [build] and [task] in kbisect.toml that only this and a few other kinds read
	plan func(Project) (Plan, error)
}

// The names of the kinds.
const (
	KindCommand   = "command"
	KindNvcc      = "nvcc"
	KindMake      = "make"
	KindCMake     = "cmake"
	KindTorch     = "torch"
	KindKernelbot = "kernelbot"
)

// Kinds lists the kinds of project, the default first.
func Kinds() []Kind {
	return []Kind{
		{KindCommand, nil, commandPlan},
		{KindNvcc, []string{"sources", "options"}, nvccPlan},
		{KindMake, nil, makePlan},
		{KindCMake, nil, cmakePlan},
		{KindTorch, []string{"submission", "reference", "cases"}, torchPlan},
		{KindKernelbot, []string{"problem", "mode", "submission"}, kernelbotPlan},
	}
}

// KindNames lists the names of the kinds, the default first.
func KindNames() []string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// NewPlan makes the plan of a project. Errors are the user's and carry a hint.
func NewPlan(p Project) (Plan, error) {
	kinds := Kinds()
	if p.Kind == "" {
		p.Kind = kinds[0].Name
	}
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == p.Kind })
	if i < 0 {
		return Plan{}, hint.Add(fmt.Errorf("unknown kind %q", p.Kind), "use one of "+strings.Join(KindNames(), ", ")+", with [build] command and [run] command")
	}
	plan, err := kinds[i].plan(p)
	if err != nil {
		return Plan{}, err
	}
	if p.Static && len(p.Run) == 0 && len(plan.Build) > 0 {
		plan.Run, plan.Stages = nil, nil
	} else if len(plan.Run) == 0 && len(plan.Stages) == 0 {
		return Plan{}, hint.Add(errors.New("nothing to run"), "set [run] command in kbisect.toml, or give a command after --")
	}
	plan.Kind = p.Kind
	plan.Files = append(plan.Files, p.Files...)
	if p.Incremental != nil {
		plan.Incremental, plan.Whole = *p.Incremental, !*p.Incremental
	}
	return plan, nil
}

// interpreter matches programs whose first argument is a script.
var interpreter = regexp.MustCompile(`^(sh|dash|bash|zsh|ksh|fish|python[0-9.]*|perl|ruby|node)$`)

// Script finds the user's own program in a command: its first word, or the script given
// to an interpreter. name is "" where that word is an option, an absolute path or a name
// that is looked up in PATH; at is its index in any case.
func Script(argv []string) (at int, name string) {
	if len(argv) > 1 && interpreter.MatchString(filepath.Base(argv[0])) {
		at = 1
	}
	if len(argv) == 0 || filepath.IsAbs(argv[at]) || at == 0 && !strings.Contains(argv[0], "/") || strings.HasPrefix(argv[at], "-") {
		return at, ""
	}
	return at, argv[at]
}

// Inline is the index of the program text in a command such as sh -c TEXT; 0 where there is none.
func Inline(argv []string) int {
	if len(argv) == 0 || !interpreter.MatchString(filepath.Base(argv[0])) {
		return 0
	}
	for i := 1; i+1 < len(argv) && strings.HasPrefix(argv[i], "-"); i++ {
		if !strings.HasPrefix(argv[i], "--") && strings.HasSuffix(argv[i], "c") {
			return i + 1
		}
	}
	return 0
}

// Scripts returns the files of the project that a plan compiles or starts and that no
// build can have created, so that a candidate without them cannot be judged.
func (p Plan) Scripts(project Project) []string {
	if len(project.Build) == 0 && len(project.Sources) > 0 {
		return slices.Clone(project.Sources)
	}
	if _, name := Script(p.Run); name != "" && len(p.Build) == 0 && p.Dir == "" && filepath.IsLocal(name) {
		return []string{filepath.Clean(name)}
	}
	return nil
}
