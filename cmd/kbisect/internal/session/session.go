// Package session is one run: it opens the repository, the store, the devices and the
// pipeline ([Begin], [Session.Start]), launches candidates, keeps every launch, and
// closes what it opened with a result ([Session.Conclude]). [Compare] and [Measure] are
// the two runs that need nothing else; search, gate, baseline, explain, doctor and hook
// are packages above this one.
//
// It reads no command line: a command hands over an [Env].
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// Session is one run: it joins repository, store, devices and pipeline, and keeps what it launched.
type Session struct {
	Repo    *source.Repo
	Store   *store.Store
	Record  *store.Session
	Policy  *policy.Policy
	Display *progress.Display
	Began   time.Time
	Output  Output

	Devices  *Devices
	Pipe     *pipeline.Pipeline   // the first of pipes
	Pipes    []*pipeline.Pipeline // one for each trial that is made at a time
	Slots    *pipeline.Slots
	Memory   *pipeline.Memory
	Ledger   *pipeline.Memory // that keeps the launches of this session
	Launches []report.Launch
	// judgements that earlier attempts have kept
	KeptSteps int
	Range     *source.Range

	Late func() bool // what follows the search has used up its time; may be nil

	Candidate bisect.Candidate // of commands that launch one
	Close     func()           // gives devices, store and repository back
}

// Mistake reports an error that the user can mend and that is no finding.
func Mistake(err error) bool {
	var command *pipeline.CommandError
	var unsupported *source.UnsupportedError
	var missing *source.MissingError
	return errors.As(err, &command) || errors.As(err, &unsupported) || errors.As(err, &missing)
}

// maybeRevision helps who wrote the good end without --good: it was taken for the command.
func maybeRevision(t *Session, err error) error {
	var command *pipeline.CommandError
	if errors.As(err, &command) && t.Policy.OwnScripts {
		if _, no := t.Repo.Resolve(command.Command); no == nil {
			command.Hint = fmt.Sprintf("%s is a revision: name ends with --good REV and --bad REV, the command follows --", command.Command)
		}
	}
	return err
}

// NotFound is an error when a shell did not find the command in any launch.
func (j *Session) NotFound(where string) error {
	if len(j.Launches) == 0 {
		return nil
	}
	for _, l := range j.Launches {
		if l.Outcome.Exit != 126 && l.Outcome.Exit != 127 {
			return nil
		}
	}
	o := j.Launches[0].Outcome
	if library := missingLibrary(o.Tail); library != "" {
		return exit.Usagef("the program does not start %s: %s\nhint: the loader does not find %s: install the package that has it, or name its folder in LD_LIBRARY_PATH, which programs under test inherit; ldconfig -p lists what is found",
			where, o.Describe(), library)
	}
	return exit.Usagef("the command cannot be run %s: %s\nhint: exit 127 is a shell's word for a command that it does not find, 126 for one that it cannot execute; candidates hold only what is committed", where, o.Describe())
}

// missingLibrary is the shared library that the loader of a program did not find, "" where it does not say so.
func missingLibrary(output string) string {
	m := regexp.MustCompile(`error while loading shared libraries: ([^:\n]+):|Error loading shared library ([^:\n]+):`).FindStringSubmatch(output)
	if m == nil {
		return ""
	}
	return wording.Clean(cmp.Or(m[1], m[2]))
}

// KeepSession writes the session into the store, new or as resumed.
func (j *Session) KeepSession() error {
	_, err := j.Store.Session(j.Record.ID)
	if err != nil {
		err = j.Store.CreateSession(*j.Record)
	} else {
		err = j.Store.UpdateSession(j.Record.ID, func(s *store.Session) { s.Status = store.Running })
	}
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	return nil
}

// Fail closes a session that ended in an error.
func (j *Session) Fail(err error) error {
	j.Display.End()
	j.ClosePipes()
	status := store.Failed
	var infra *bisect.InfraError
	switch {
	case errors.Is(err, context.Canceled):
		status = store.Interrupted
	case errors.As(err, &infra):
		status = store.Infra
	}
	keep := j.Store.UpdateSession(j.Record.ID, func(s *store.Session) {
		s.Status, s.Summary, s.Elapsed = status, wording.Headline(err.Error()), j.Record.Elapsed+time.Since(j.Began)
	})
	if Mistake(err) {
		err = exit.Usage(maybeRevision(j, err))
	}
	return errors.Join(err, keep)
}

// Open makes the pipeline and remembers the trials of earlier attempts.
func (j *Session) Open(ctx context.Context) error {
	root, err := cache.Root()
	if err != nil {
		return exit.Usage(err)
	}
	patterns, err := j.Policy.Compile()
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	switch {
	case j.Display.Verbose:
		level = slog.LevelDebug
	case j.Display.Quiet:
		level = slog.LevelError
	}
	log := slog.New(progress.LogHandler{UI: j.Display, Level: level})
	builds, err := cache.Open(filepath.Join(root, "builds"))
	if err != nil {
		return &bisect.InfraError{What: "opening the build cache", Err: err}
	}
	if j.Devices, err = openDevices(ctx, j.Policy.GPUs, j.Display); err != nil {
		return err
	}
	config := pipeline.Config{
		Recipe: trial.Recipe{
			Repo: j.Repo, Plan: j.Policy.Plan, Flags: j.Policy.Carriers(), Paths: j.Policy.Paths,
			SampleMetric: j.Policy.Sample, Patterns: patterns, Sources: j.Policy.Sources,
			Env: append(os.Environ(), j.Policy.MoreEnv...), Cache: builds, Probe: j.Policy.Probe, WholeTimed: j.Policy.WholeTimed(),
			Logs: filepath.Join(store.Dir(j.Repo.CommonDir()), "logs", j.Record.ID), Log: log,
		},
		Limits: j.Policy.Limits, Cases: j.Policy.Cases, Caches: j.Policy.Caches, Jobs: j.Policy.Jobs, Devices: j.Devices.Watches,
		Dir: filepath.Join(root, "work", j.Record.ID), Session: j.Record.ID, OnPhase: j.Display.Activity,
	}
	if j.Policy.OwnScripts {
		config.Recipe.WorkTree = j.Repo.WorkDir()
	}
	if err := j.OpenPipes(config); err != nil {
		return err
	}
	return j.remember()
}

func (j *Session) Spent() bool {
	if j.Late != nil && j.Late() {
		return true
	}
	return j.Policy.Budget > 0 && j.Record.Elapsed+time.Since(j.Began) > j.Policy.Budget
}
