// Package trial makes one trial of a candidate in a workspace, in steps that can be read in this order:
//
//	Build     brings the workspace to the candidate and builds it there, or fetches the build from the cache
//	Launch    runs the processes of the plan, one after the other, within their limits
//	classify  decides from what was seen how a process ended: pure, one rule a line
//
// Beside them stand what a process is given (environ.go, limits.go), how it is followed while it runs (process.go) or
// started before its turn (python.go), what is read of a build (examine.go) and of results that were left behind
// (results.go), and the sentences about how it ended (words.go).
//
// [Recipe] says what is the same for every trial; a [Job] or an [Order] says the rest. Both are values: a build
// ahead of time has its own.
//
// The package must not know of tries, devices, known-good programs and other trials: package pipeline wraps the
// steps for these. The candidate's fault is data in an outcome; only the machine's fault, or the user's, is an error.
package trial

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Recipe says how candidates are built and run, and which numbers they give. Trials do not change it, except for
// Keys. A job on another machine gets it as JSON, without what belongs to this process.
type Recipe struct {
	Repo         *source.Repo `json:"-"`
	Plan         kernels.Plan
	Flags        []kernels.Flag     // that a candidate may set
	Paths        []string           // what build and run read; empty: everything
	SampleMetric string             // metric that protocol samples belong to
	Patterns     []*metrics.Pattern // metrics read from the output
	Sources      []Source           // metrics that programs and builds leave behind
	Env          []string           // environment of builds and launches, as NAME=value
	WorkTree     string             `json:"-"` // where a command that the candidate lacks is looked for; "" = nowhere
	Cache        *cache.Cache       `json:"-"` // keeps build outputs; may be nil
	Keys         map[string]string  `json:"-"` // cache keys by Candidate.String(): of builds made elsewhere and here; may be nil
	Probe        Probe              // for Python; "": if no times are compared
	Learn        bool               // note which files builds and launches open
	Objects      bool               `json:"-"` // builds may use what earlier ones compiled, see package compilers
	Prestart     bool               `json:"-"` // interpreters may be started before their turn
	WholeTimed   bool               // all phases of a timed trial count, not only those after load
	FallsBack    bool               // so they do where the good end sends nothing of SampleMetric
	CompileTimed bool               // a metric may be taken while the program compiles
	Logs         string             `json:"-"` // folder for the output of builds and launches, kept
	Log          *slog.Logger       `json:"-"`
}

// Opening says how the workspaces of trials are made.
func (p Recipe) Opening() workspace.Opening {
	return workspace.Opening{Repo: p.Repo, Paths: p.Paths, Keep: p.Plan.Keep, Linked: p.Plan.InWorktree}
}

// Whole reports that all phases of a launch count, going by whether it sends samples itself. What the good end sends
// decides for all, see [Reference.LearnCovered].
func Whole(p Recipe, o bisect.Outcome) bool {
	if !p.FallsBack || p.WholeTimed {
		return p.WholeTimed
	}
	_, sent := metric.Metric{Name: p.SampleMetric}.Log(o)
	return !sent
}

// OnlyBuilds reports a trial in which nothing is launched.
func (p Recipe) OnlyBuilds(r bisect.Request) bool {
	return len(p.Plan.Build) > 0 && (r.BuildOnly || len(p.Plan.Run)+len(p.Plan.Stages) == 0)
}

// Static reports whether a metric is about what was built.
func (p Recipe) Static() bool {
	return slices.ContainsFunc(p.Sources, func(s Source) bool { return s.From == FromStatic })
}

// wantsSASS reports whether a metric is about the machine code itself, which takes longer to examine.
func (p Recipe) wantsSASS() bool {
	return slices.ContainsFunc(p.Sources, func(s Source) bool {
		return s.From == FromStatic && (s.Metric == "sass" || s.Metric == "instructions")
	})
}

// outputMax bounds the log of a step that is read as a whole, in bytes; 0 is the default of package proc.
func (p Recipe) outputMax() int64 {
	if p.Static() || slices.ContainsFunc(p.Sources, func(s Source) bool { return s.From != FromStatic && !s.Counted() && s.File == "" }) {
		return 64 << 20
	}
	return 0
}

// Covers reports whether a file is one of the paths or below one. Without paths it is not.
func (p Recipe) Covers(file string) bool {
	return slices.ContainsFunc(p.Paths, func(path string) bool {
		path = filepath.ToSlash(filepath.Clean(path))
		return path == "." || path == file || strings.HasPrefix(file, path+"/")
	})
}

// WorkDir is where builds and launches run.
func (p Recipe) WorkDir(w *workspace.Workspace) string {
	return filepath.Join(w.Dir, filepath.FromSlash(p.Plan.Dir))
}

// Stages are the processes of a trial of a candidate, in order, with its flags among their arguments.
func (p Recipe) Stages(c bisect.Candidate) []kernels.Stage {
	set, _ := p.settings(c) // a wrong one has been reported
	out := slices.Clone(p.Plan.Stages)
	if len(out) == 0 {
		out = []kernels.Stage{{Run: p.Plan.Run}}
	}
	for i := range out {
		if out[i].Speaks == "" { // the arguments of KernelBot's programs are its own
			out[i].Run = slices.Concat(out[i].Run, set.Args())
		}
	}
	return out
}

// Argv is a run command. A script that the candidate lacks but the user's work tree has is taken from there, as
// `git bisect run ./untracked-script` would: the program itself, or the first argument of an interpreter. The
// warning is about a compiled program, which is the same for every commit.
func (p Recipe) Argv(w *workspace.Workspace, run []string) (argv []string, warning string) {
	argv = slices.Clone(run)
	if text := kernels.Inline(argv); text > 0 && p.Plan.Home != "" {
		argv[text] = kernels.Rehome(argv[text], p.Plan.Home, w.Dir)
	}
	i, name := kernels.Script(run)
	if p.WorkTree == "" || name == "" || exists(filepath.Join(p.WorkDir(w), name)) {
		return argv, ""
	}
	own := filepath.Join(p.WorkTree, filepath.FromSlash(p.Plan.Dir), name)
	if !exists(own) {
		return argv, ""
	}
	argv[i] = own
	if IsBinary(own) {
		warning = fmt.Sprintf("%s is taken from the work tree, the same program for every commit\nhint: to test what a commit holds, build it: --build 'SHELL COMMAND'", name)
	}
	return argv, warning
}

// IsBinary reports whether a file is a compiled program (ELF).
func IsBinary(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "\x7fELF"
}

func exists(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// LogFile names the file that keeps the output of one step.
func (p Recipe) LogFile(r bisect.Request, step string) string {
	return filepath.Join(p.Logs, fmt.Sprintf("%s-%s-%s-%d.log", FileName(r.Candidate), r.Purpose, step, r.Nth))
}

// FileName names a candidate for use in file names, with letters, digits and a dash only.
func FileName(c bisect.Candidate) string {
	if c.Assign == "" {
		return bisect.ShortID(c.Commit)
	}
	sum := sha256.Sum256([]byte(c.String()))
	return fmt.Sprintf("%s-%x", bisect.ShortID(c.Commit), sum[:4])
}

// missing is a file of the commit that the repository lacks, as partial clones may, if that may be why a step failed,
// or "". If it is known what build and run read, it must be named in what the step printed.
func (p Recipe) missing(w *workspace.Workspace, printed ...string) string {
	words, files := w.Missing()
	named := func(file string) bool { return strings.Contains(strings.Join(printed, "\n"), path.Base(file)) }
	if len(words) > 0 && (len(p.Paths) == 0 || slices.ContainsFunc(files, named)) {
		return words[0]
	}
	return ""
}

// writeFiles puts the files of the plan into the export. The outcome has a class if the candidate lacks one; missing
// is as above.
func (p Recipe) writeFiles(ctx context.Context, w *workspace.Workspace, c bisect.Candidate) (o bisect.Outcome, missing string, err error) {
	plan := p.Plan.At(func(commit string) bool {
		before, err := p.Repo.IsAncestor(ctx, commit, c.Commit)
		return err != nil || before // a commit that was made in memory
	})
	err = plan.Write(w.Dir)
	var source *kernels.MissingSourceError
	switch {
	case err == nil:
		return o, "", nil
	case errors.As(err, &source):
		return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build", Why: withoutDir(w, err)}, p.missing(w, source.Path), nil
	}
	if err := w.Check(); err != nil {
		return o, "", err
	}
	return o, "", &bisect.InfraError{What: "preparing " + c.Brief(), Err: err}
}

// withoutDir is the first line of an error, with paths relative to the export.
func withoutDir(w *workspace.Workspace, err error) string {
	return strings.ReplaceAll(firstLine(err.Error()), w.Dir+"/", "")
}

// ownPaths is what a program printed, with the paths that its user knows in place of those of the export.
func ownPaths(w *workspace.Workspace, printed []byte) []byte {
	return bytes.ReplaceAll(printed, []byte(w.Dir+"/"), nil)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
