// Package session is one run. A [Session] opens the repository, the store, the devices and the pipeline ([Launch],
// or [Begin] and [Session.Start]), launches candidates, stores every launch, and closes what it opened with a
// result ([Session.Conclude]). [Compare] and [Measure] are the two runs that need nothing else; search, gate,
// baseline, explain, doctor and hook are packages above this one.
//
//	Launch, Resume, Conclude   one run from its lock to its result                            session.go
//	openPipes, newSlots        the trials that run at a time, here or as jobs of a cluster    slots.go
//	remember, save, use        the launches of all attempts: what a resumed session sees      ledger.go
//	recall, KeptLaunches       what the store holds of this and of earlier sessions           kept.go
//	Lacking, NotFound          mistakes of the user that show in every launch                 lacking.go
//	Unmeasured                 metrics that were asked for and did not come                   numbers.go, patterns.go
//
// It must not read a command line or write to a terminal: a command hands over an [Env]. It must not decide what to
// launch next, either.
package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/memory"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/remote"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
	"github.com/kbisect/kbisect/pipeline/slots"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/stopwatch"
	"github.com/kbisect/kbisect/pipeline/store"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Session is one run: it joins repository, store, devices and pipeline, and keeps what it launched. Its policy
// stays as it was made; what comes up on the way are warnings of the session ([Session.Warn]). It is used by one
// goroutine; trials run in those of Slots.
type Session struct {
	Repo      *source.Repo
	Store     *store.Store
	Record    *store.Session
	Policy    *policy.Policy
	Display   *progress.Display
	Began     time.Time
	Stopwatch *stopwatch.Watch // where the time goes since then
	Output    Output

	Devices   *Devices
	Pipe      *pipeline.Pipeline   // the first of Pipes
	Pipes     []*pipeline.Pipeline // one for each trial that runs at a time; ClosePipes closes them
	Cluster   *remote.Cluster      // makes the trials instead of Pipes; nil on this machine
	Slots     *slots.Slots
	Memory    *memory.Sampler // what to launch with
	Ledger    *memory.Sampler // stores the launches of this session; Memory unless a gate filters what it sees
	Launches  []report.Launch // those asked for, in this order; once the pipelines are closed, also those that turned out not to be needed
	KeptSteps int             // judgements that earlier attempts have stored
	Range     *source.Range

	OneByOne bool // nothing may run beside a trial any more

	Late func() bool // reports that what follows a search has used up its time; may be nil

	Candidate bisect.Candidate // of commands that launch only one
	Close     func()           // releases devices, lock and store, in this order; the repository is the caller's

	stored  []report.Launch   // all that were made, by earlier attempts too, until the pipelines are closed
	used    map[patience]bool // those of Launches
	clock   time.Duration     // end of the last launch asked for; see Elapsed
	warned  []string
	sampler func(*Session) bisect.Sampler // see Env

	following    sync.Mutex // guards the pipelines, which learn of what jobs show
	closeCluster func() error
}

// Launch opens the repository, has read make the policy of a session of this kind, starts the session and hands it
// to do. The whole request is read before the store is touched, so that a typing error leaves no session behind. If
// read returns no policy, there is nothing to launch.
func Launch(ctx context.Context, e Env, kind string, read func(*source.Repo) (*policy.Policy, error), do func(*Session) error) error {
	repo, err := source.Open(e.Request.Dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	p, err := read(repo)
	if p == nil || err != nil {
		return err
	}
	s, err := Begin(ctx, e, repo, p, kind)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Start(ctx); err != nil {
		return err
	}
	return do(s)
}

// Begin opens the store and makes a session of this kind. The caller closes it.
func Begin(ctx context.Context, e Env, repo *source.Repo, p *policy.Policy, kind string) (*Session, error) {
	record, err := NewSession(p, kind, e.Version)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadWrite)
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	return Resume(ctx, e, repo, st, record, p)
}

// Resume makes a session of a record that no other process is running. It takes over the store, which is closed
// with the session or, if there is an error, here.
func Resume(ctx context.Context, e Env, repo *source.Repo, st *store.Store, record *store.Session, p *policy.Policy) (*Session, error) {
	// The lock keeps two processes from resuming the same session, whose launches would get the same numbers.
	lock, err := Lock(ctx, e, st, record.ID)
	if err != nil {
		st.Close()
		return nil, err
	}
	s := &Session{Repo: repo, Store: st, Record: record, Policy: p, Display: e.Display, Output: e.Output, Stopwatch: e.Stopwatch, sampler: e.Sampler}
	// What a killed run left behind still uses processors and devices, and would spoil every time that is taken now.
	if n, err := proc.Sweep(record.ID); err != nil || n > 0 {
		s.Display.Say(fmt.Sprintf("processes of an interrupted run were still running and have been killed: %d", n))
	}
	s.Close = func() {
		if s.Devices != nil {
			s.Devices.Close()
		}
		lock.Unlock()
		st.Close()
	}
	return s, nil
}

// Lock takes the repository for a session. If another run has it, Lock waits as long as the request allows: not at
// all for 0, and without end for a negative time.
func Lock(ctx context.Context, e Env, st *store.Store, id string) (*store.RunLock, error) {
	lock, err := st.Lock(id)
	var busy *store.BusyError
	if e.Request.Wait == 0 || !errors.As(err, &busy) {
		return lock, err
	}
	e.Display.Say("waiting: " + wording.Headline(err.Error()))
	defer e.Stopwatch.Enter("waiting for another run")()
	if e.Request.Wait > 0 {
		over, cancel := context.WithTimeout(ctx, e.Request.Wait)
		defer cancel()
		ctx = over
	}
	// The lock is one of the file system, which does not wake those who wait for it.
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if lock, err = st.Lock(id); !errors.As(err, &busy) {
				return lock, err
			}
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("waited %s: %w", wording.Span(e.Request.Wait), err)
		}
	}
}

// Start stores the session, unless it is resumed, and opens the pipeline. After an error the session is stored as
// failed.
func (s *Session) Start(ctx context.Context) error {
	s.Began = s.Stopwatch.Began()
	_, err := s.Store.Session(s.Record.ID)
	if err != nil {
		err = s.Store.CreateSession(*s.Record)
	} else {
		err = s.Store.UpdateSession(s.Record.ID, func(kept *store.Session) { kept.Status = store.Running })
	}
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	// The session is in the store before anything is opened: whatever fails from here on leaves a record of why.
	if err := s.open(ctx); err != nil {
		return s.Fail(err)
	}
	// This needs the open devices, which name the machine.
	if err := recall(s); err != nil {
		return s.Fail(err)
	}
	for _, p := range s.Pipes {
		pipeline.Scatters(p, s.Policy.Past)
	}
	return nil
}

// open makes the pipeline and loads the trials of earlier attempts.
func (s *Session) open(ctx context.Context) error {
	root, warning, err := cache.Root()
	if err != nil {
		return exit.Usage(err)
	}
	if warning != "" {
		s.Warn(warning)
		s.Display.Warn(warning)
	}
	patterns, err := s.Policy.Compile()
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	switch {
	case s.Display.Verbose:
		level = slog.LevelDebug
	case s.Display.Quiet:
		level = slog.LevelError
	}
	log := slog.New(progress.LogHandler{UI: s.Display, Level: level})
	builds, err := cache.Open(filepath.Join(root, "builds"))
	if err != nil {
		return &bisect.InfraError{What: "opening the build cache", Err: err}
	}
	of, jobs := *s.Policy, cmp.Or(s.Policy.Jobs, s.Policy.BuildJobs)
	if s.Policy.Executor.Away() { // nothing is built or launched here
		of.GPUs, jobs = []string{policy.NoGPUs}, 1
	}
	var without []string
	if s.Devices, without, err = openDevices(ctx, &of, s.Display); err != nil {
		return err
	}
	s.Warn(without...)
	config := pipeline.Config{
		Recipe: trial.Recipe{
			Repo: s.Repo, Plan: s.Policy.Plan, Flags: s.Policy.Carriers(), Paths: s.Policy.Paths,
			SampleMetric: policy.Sampled(s.Policy), Patterns: patterns, Sources: s.Policy.Sources,
			Env: append(os.Environ(), s.Policy.MoreEnv...), Cache: builds, Probe: s.Policy.Probe, WholeTimed: s.Policy.WholeTimed(), FallsBack: policy.FallsBack(s.Policy), CompileTimed: policy.CompileTimed(s.Policy), Learn: s.Policy.Learn, Objects: !policy.BuildTimed(s.Policy), Prestart: IsSearch(*s.Record) && !s.Policy.NoAhead,
			Logs: filepath.Join(store.Dir(s.Repo.CommonDir()), "logs", s.Record.ID), Log: log,
		},
		Limits: s.Policy.Limits, Cases: s.Policy.Cases, Caches: s.Policy.Caches, Jobs: jobs, Devices: s.Devices.Watches, Eager: pipeline.ManyProcessors(),
		Dir: filepath.Join(root, "work", s.Record.ID), Session: s.Record.ID, Stopwatch: s.Stopwatch, OnPhase: s.Display.Activity,
	}
	if !s.Policy.OnDisk {
		config.Memory.Dir = workspace.SharedMemory
	}
	if config.Sandbox, err = sandbox(ctx, s); err != nil {
		return err
	}
	if s.Policy.OwnScripts {
		config.Recipe.WorkTree = s.Repo.WorkDir()
	}
	if err := s.openPipes(ctx, config); err != nil {
		return err
	}
	if err := openCluster(ctx, s, config, filepath.Join(root, "remote")); err != nil {
		return errors.Join(err, s.ClosePipes())
	}
	// Last, since what earlier attempts have learnt is taught to the pipelines and the cluster.
	return s.remember()
}

// waited is how long the session waited for devices or in the queue of a cluster. The budget is for the search, so this
// time is not charged to it.
func waited(s *Session) (sum time.Duration) {
	if s.Devices != nil {
		sum = s.Devices.waited
	}
	if s.Cluster != nil {
		sum += s.Cluster.Waited()
	}
	return sum
}

// Spent reports whether the budget of the session, or the time allowed for what follows a search, is used up.
func (s *Session) Spent() bool {
	if s.Late != nil && s.Late() || s.Slots != nil && s.Slots.Spent() {
		return true
	}
	// Elapsed includes earlier attempts: a resumed session has only what they left of the budget.
	return s.Policy.Budget > 0 && s.Elapsed() > s.Policy.Budget
}

// Elapsed is when the last launch asked for ended, since the first attempt began. It comes from the ledger and not
// from a clock: a resumed session sees, at each of its decisions, the time that the first one saw.
func (s *Session) Elapsed() time.Duration { return s.clock }

// Fail closes a session that ended in an error, and returns that with the exit code.
func (s *Session) Fail(err error) error {
	s.Display.End()
	s.ClosePipes()
	status := store.Failed
	var infra *bisect.InfraError
	switch {
	case errors.Is(err, context.Canceled):
		status = store.Interrupted
	case errors.As(err, &infra):
		status = store.Infra
	}
	keep := s.Store.UpdateSession(s.Record.ID, func(kept *store.Session) {
		kept.Status, kept.Summary, kept.Elapsed = status, wording.Headline(err.Error()), s.Record.Elapsed+time.Since(s.Began)-waited(s)
	})
	if Mistake(err) {
		err = exit.Usage(hintRevision(s, err))
	}
	return errors.Join(err, keep)
}

// Ended closes the pipeline after the launches of the candidates that where names ("for A or for B"). Interruptions
// and machine problems are results. What the user can correct, and any other error, is userError; the session is
// then stored as failed.
func (s *Session) Ended(ctx context.Context, err error, where string) (result string, userError error) {
	s.Display.End()
	if closeErr := s.ClosePipes(); closeErr != nil {
		s.Warn(closeErr.Error())
	}
	var unknown *compare.UnknownMetricError
	var undirected *metric.DirectionError
	var infra *bisect.InfraError
	switch {
	case err == nil:
	case errors.As(err, &unknown):
		return "", s.Fail(cmp.Or(Unmeasured(s), exit.Usage(err)))
	case errors.As(err, &undirected):
		return "", s.Fail(exit.Usage(err))
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		result = store.Interrupted
	case errors.As(err, &infra):
		result = store.Infra
	default:
		return "", s.Fail(err)
	}
	if err := NotFound(s, where); err != nil {
		return "", s.Fail(err)
	}
	return result, nil
}

// ExitCode is the exit code of a result, for any command but a search: to that, no difference is not a success.
func ExitCode(result string) int {
	switch result {
	case string(bisect.OK), store.Found, string(compare.Better), string(compare.Alike), report.GatePass:
		return exit.OK
	case string(compare.Worse):
		return exit.Regression
	case store.Interrupted:
		return exit.Interrupted
	case store.Infra:
		return exit.Machine
	}
	return exit.Inconclusive
}

// Conclusion is how a session ended.
type Conclusion struct {
	Result, Summary string
	Code            int            // exit code of the result
	Cause           error          // that ended it early, if one did
	Document        any            // the result as it is stored
	Ledger          *report.Ledger // what the document rests on; nil: LedgerOf
	Show            func() error   // prints the result; nil: a document is shown as the command was asked to
}

// Conclude stores the result of a session and then shows it. Its error carries the exit code; a report that cannot
// be written is machine trouble, whatever the result.
func (s *Session) Conclude(c Conclusion) error {
	doc, isReport := c.Document.(report.Document)
	if isReport {
		if c.Ledger == nil {
			l := s.LedgerOf()
			c.Ledger = &l
		}
		report.Complete(doc, *c.Ledger)
	}
	if c.Show == nil && isReport {
		c.Show = func() error { return s.Output.Show(doc, *c.Ledger) }
	}
	// It is stored before it is shown: a pipe that is closed early must not lose what took hours to measure.
	var data bytes.Buffer
	err := report.WriteJSON(&data, c.Document)
	if err == nil {
		err = s.Store.UpdateSession(s.Record.ID, func(kept *store.Session) {
			kept.Status, kept.Finding, kept.Summary, kept.Elapsed = c.Result, data.Bytes(), wording.Headline(c.Summary), s.Record.Elapsed+time.Since(s.Began)-waited(s)
		})
	}
	if showErr := c.Show(); showErr != nil {
		return exit.With(exit.Machine, fmt.Errorf("writing the report: %w\nhint: kbisect show --json %s prints it again", showErr, s.Record.ID))
	}
	switch {
	case err != nil:
		return exit.With(exit.Machine, err)
	case c.Cause != nil || c.Code != exit.OK:
		return exit.With(c.Code, c.Cause)
	}
	return nil
}

// Warn adds warnings for the report. The display does not show them; it has its own [progress.Display.Warn].
func (s *Session) Warn(texts ...string) { s.warned = append(s.warned, texts...) }

// Warnings are those of the repository, the configuration, the run, its range and its pipelines, in the order in
// which they come up.
func (s *Session) Warnings() []string {
	out := slices.Concat(s.Repo.Warnings(), s.Policy.Warnings, s.warned, deadMetrics(s))
	if s.Range != nil {
		out = append(out, s.Range.Warnings...)
	}
	for _, p := range s.Pipes {
		for _, w := range p.Warnings() {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	if s.Cluster != nil {
		out = append(out, s.Cluster.Warnings()...)
	}
	if s.Slots == nil {
		return out
	}
	if n, took := s.Slots.Cancelled(); n > 0 {
		out = append(out, fmt.Sprintf("%s cancelled (%s, not in the totals)", words.Count(n, "speculative trial"), wording.Span(took)))
	}
	return out
}

// LaunchWarnings are the warnings of the session and of its launches. Of those of one commit that differ only in a
// count, such as that of lines not understood, the first is taken.
func (s *Session) LaunchWarnings() []string {
	out := s.Warnings()
	seen := map[string]bool{}
	for _, l := range s.Launches {
		for _, w := range l.Outcome.Warnings {
			commit := bisect.ShortID(l.Candidate.Commit)
			kind := commit + strings.Trim(w, "0123456789")
			if !seen[kind] {
				seen[kind] = true
				out = append(out, fmt.Sprintf("commit %s: %s", commit, w))
			}
		}
	}
	return out
}

// Mistake reports whether the user can correct an error of a trial: a command that cannot be started, a job that the
// scheduler refuses, or a repository that lacks or does not support something. Such an error is neither a finding nor a
// machine problem.
func Mistake(err error) bool {
	var command *trial.CommandError
	var refused *executor.RefusedError
	return errors.As(err, &command) || errors.As(err, &refused) || workspace.Refused(err)
}

// hintRevision adds a hint to the error of a command that cannot be started: its script has Windows line endings, or a
// revision was given without --good and so was taken for the command.
func hintRevision(s *Session, err error) error {
	var command *trial.CommandError
	if errors.As(err, &command) {
		command.Hint = cmp.Or(windowsScript(s), command.Hint)
	}
	if errors.As(err, &command) && s.Policy.OwnScripts {
		if _, no := s.Repo.Resolve(context.Background(), command.Command); no == nil {
			command.Hint = fmt.Sprintf("%s is a revision: pass revisions with --good REV and --bad REV; the command follows --", command.Command)
		}
	}
	return err
}
