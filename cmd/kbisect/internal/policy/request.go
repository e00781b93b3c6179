package policy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Request is the command line as plain data. The zero value of a field means that its option was not given or that
// the command does not have it. Where it matters that an option was given with its default value, a field named
// ...Set says so.
type Request struct {
	Name        string // of the command: "run", "baseline record"
	Usage       string // how it is called, for hints: "run --good REV"
	Dir, Config string // -C, --config
	Quiet       bool
	Warnings    io.Writer // receives warnings as they come up; may be nil
	Argv        []string  // the command after --; nil: kbisect.toml says how to build and run
	Bare        bool      // no -- stands before Argv

	Good, Bad       string
	GoodSet, BadSet bool
	FindGood        bool
	FirstParent     bool
	Axis, Commit    string
	Find, Phase     string
	Metric, Better  string
	Improvement     bool
	All             bool
	Paths           []string
	NoHunks         bool
	Budget, Limit   time.Duration
	BudgetSet       bool
	GPUs            string
	Jobs            int
	JobsSet         bool
	Seed            int64
	As              string
	Build           string
	Outputs         []string
	Keep            []string
	InWorktree      bool
	Sandbox         bool
	Executor        string // a kind of executor
	Repeat          int
	Fast            bool
	ExplainLimit    time.Duration
	NoExplain       bool
	NoPast          bool
	Fresh           bool
	NoLearn         bool
	Resume          bool
	Wait            time.Duration // how long to wait for another run in the repository; negative: forever

	Effect   string
	Error    float64
	ErrorSet bool
	Pairs    int
	PairsSet bool
	Launches int
	Profile  bool // launches under profilers are wanted
}

// warn shows warnings before the work that they are about begins: an hour later they are of no use.
func (q *Request) warn(warnings []string) {
	if q.Quiet || q.Warnings == nil {
		return
	}
	for _, w := range warnings {
		fmt.Fprintln(q.Warnings, "kbisect: warning: "+w)
	}
}

// strays refuses revisions that stand where the command belongs, as in kbisect run HEAD~5 HEAD: they would be run as a
// program of that name. What follows -- is never taken for a revision, so that such a program can still be run.
func (q *Request) strays(ctx context.Context, repo *source.Repo) error {
	if !q.Bare || len(q.Argv) == 0 {
		return nil
	}
	named := q.Argv[:1]
	if i := slices.Index(q.Argv, "--"); i > 0 {
		named = q.Argv[:i]
	}
	for _, w := range named {
		if _, err := repo.Resolve(ctx, w); err != nil || strings.HasPrefix(w, "-") {
			continue
		}
		command := "COMMAND"
		if rest := q.Argv[len(named):]; len(rest) > 1 {
			command = words.Shell(rest[1:])
		}
		return exit.Usagef("%s is a revision, and run takes its revisions by --good and --bad\nhint: kbisect run --good %s --bad %s -- %s; to run a program of that name: -- %s", w, cmp.Or(q.Good, "REV"), w, command, w)
	}
	return nil
}

// validate refuses options that contradict each other or mean nothing together. Its errors are usage errors.
func (q *Request) validate() error {
	switch {
	case !slices.Contains([]string{AxisHistory, AxisFlags, AxisHunks}, q.Axis):
		return exit.Usagef("unknown --axis %s%s\nhint: history, flags or hunks", q.Axis, wording.DidYouMean(q.Axis, []string{AxisHistory, AxisFlags, AxisHunks}))
	case q.Commit != "" && q.Axis != AxisHunks:
		return exit.Usagef("--commit belongs to --axis hunks\nhint: kbisect run --axis hunks --commit REV")
	case q.Axis != AxisHistory && (q.FindGood || q.FirstParent):
		return exit.Usagef("--find-good and --first-parent belong to --axis history")
	case q.Improvement && q.Find != "" && q.Find != "slow":
		return exit.Usagef("--improvement looks for a metric that got better and does not go with --find %s\nhint: remove --find", q.Find)
	case q.GPUs != "" && config.CheckSpread(q.GPUs) != nil:
		return exit.Usagef("--gpus: %w", config.CheckSpread(q.GPUs))
	case q.JobsSet && q.Jobs < 1:
		return exit.Usagef("--jobs %d: expected at least 1", q.Jobs)
	case q.Repeat < 1:
		return exit.Usagef("--repeat %d: expected at least 1", q.Repeat)
	case len(q.Outputs) > 0 && q.Build == "":
		return exit.Usagef("--output names what --build makes, so it needs --build")
	case q.GoodSet && q.Good == "": // such as --good "$UNSET"
		return exit.Usagef("--good is empty\nhint: name a revision, or leave --good out for the newest recorded good ancestor")
	case q.FindGood && q.Good != "":
		return exit.Usagef("--good and --find-good do not go together\nhint: --find-good looks for a good end; remove one of them")
	}
	return nil
}
