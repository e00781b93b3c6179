package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/effects"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/sets"
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
	repo   *source.Repo
	store  *store.Store
	record *store.Session
	policy *policy.Policy
	ui     *progress.Display
	began  time.Time
	output output

	gpus     *devices
	pipe     *pipeline.Pipeline   // the first of pipes
	pipes    []*pipeline.Pipeline // one for each trial that is made at a time
	slots    *pipeline.Slots
	memory   *pipeline.Memory
	ledger   *pipeline.Memory // that keeps the launches of this session
	launches []report.Launch
	// judgements that earlier attempts have kept
	keptSteps int
	rng       *source.Range

	late func() bool // what follows the search has used up its time; may be nil

	one   bisect.Candidate // of commands that launch one
	close func()           // gives devices, store and repository back
}

// job is one search: a session, and what it has found besides commits.
type job struct {
	session *Session

	sets     *report.Sets             // of the search over sets that was made last
	ranking  *effects.Ranking         // what flags cost
	hunks    map[string][]report.Hunk // by culprit: what in it is to blame
	switched map[string]string        // by culprit: the flag that it switches on
	table    *report.Table            // why the culprit differs from its parent
}

func newJob(t *Session) *job {
	return &job{session: t, hunks: map[string][]report.Hunk{}, switched: map[string]string{}}
}

// run does the job and writes the report; its error carries the exit code.
func (j *job) run(ctx context.Context) error {
	j.session.began = time.Now()
	if err := j.session.keepSession(); err != nil {
		return err
	}
	if err := j.session.open(ctx); err != nil {
		return j.session.fail(err)
	}
	defer j.session.gpus.close()
	f, err := j.find(ctx)
	j.session.ui.End()
	if closeErr := j.session.closePipes(); closeErr != nil {
		j.session.policy.Warnings = append(j.session.policy.Warnings, closeErr.Error())
	}
	if err != nil {
		return j.session.fail(err)
	}
	if f.Err != nil && f.Result == bisect.Broken && mistake(f.Err) {
		return j.session.fail(f.Err)
	}
	if err := j.commandNotFound(f); err != nil {
		return j.session.fail(err)
	}
	if err := j.unseenMetrics(f); err != nil {
		return j.session.fail(err)
	}
	j.noteStrangePhases()
	j.slowerPhase(&f)
	j.otherException(&f)
	in := j.input(f)
	doc := report.NewSearch(in)
	kept := j.finish(doc)
	pictured(context.WithoutCancel(ctx), &in.Ledger, j.session.repo, j.session.rng, j.session.policy.Limits, in.Good.ID, culprits(f))
	if err := j.session.output.Print(doc, in.Ledger); err != nil {
		return exit.With(exit.Machine, fmt.Errorf("writing the report: %w\nhint: kbisect show %s prints it again", err, j.session.record.ID))
	}
	kept = errors.Join(kept, j.writeReports(doc, in.Ledger))
	if kept != nil {
		return exit.With(exit.Machine, kept)
	}
	if f.Result == bisect.Broken {
		return exit.With(exit.Machine, f.Err)
	}
	if code := exitCode(f.Result); code != exit.OK {
		return exit.With(code, nil)
	}
	return nil
}

// mistake reports an error that the user can mend and that is no finding.
func mistake(err error) bool {
	var command *pipeline.CommandError
	var unsupported *source.UnsupportedError
	var missing *source.MissingError
	return errors.As(err, &command) || errors.As(err, &unsupported) || errors.As(err, &missing)
}

// maybeRevision helps who wrote the good end without --good: it was taken for the command.
func maybeRevision(t *Session, err error) error {
	var command *pipeline.CommandError
	if errors.As(err, &command) && t.policy.OwnScripts {
		if _, no := t.repo.Resolve(command.Command); no == nil {
			command.Hint = fmt.Sprintf("%s is a revision: name ends with --good REV and --bad REV, the command follows --", command.Command)
		}
	}
	return err
}

// commandNotFound tells ends that fail alike because a shell did not find the command from ends
// that do not differ.
func (j *job) commandNotFound(f bisect.Finding) error {
	if f.Result != bisect.NoDifference {
		return nil
	}
	return j.session.notFound("at either end")
}

// notFound is an error when a shell did not find the command in any launch.
func (j *Session) notFound(where string) error {
	if len(j.launches) == 0 {
		return nil
	}
	for _, l := range j.launches {
		if l.Outcome.Exit != 126 && l.Outcome.Exit != 127 {
			return nil
		}
	}
	o := j.launches[0].Outcome
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

// keepSession writes the session into the store, new or as resumed.
func (j *Session) keepSession() error {
	_, err := j.store.Session(j.record.ID)
	if err != nil {
		err = j.store.CreateSession(*j.record)
	} else {
		err = j.store.UpdateSession(j.record.ID, func(s *store.Session) { s.Status = store.Running })
	}
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	return nil
}

// fail closes a session that ended in an error.
func (j *Session) fail(err error) error {
	j.ui.End()
	j.closePipes()
	status := store.Failed
	var infra *bisect.InfraError
	switch {
	case errors.Is(err, context.Canceled):
		status = store.Interrupted
	case errors.As(err, &infra):
		status = store.Infra
	}
	keep := j.store.UpdateSession(j.record.ID, func(s *store.Session) {
		s.Status, s.Summary, s.Elapsed = status, wording.Headline(err.Error()), j.record.Elapsed+time.Since(j.began)
	})
	if mistake(err) {
		err = exit.Usage(maybeRevision(j, err))
	}
	return errors.Join(err, keep)
}

// open makes the pipeline and remembers the trials of earlier attempts.
func (j *Session) open(ctx context.Context) error {
	root, err := cache.Root()
	if err != nil {
		return exit.Usage(err)
	}
	patterns, err := j.policy.Compile()
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	switch {
	case j.ui.Verbose:
		level = slog.LevelDebug
	case j.ui.Quiet:
		level = slog.LevelError
	}
	log := slog.New(progress.LogHandler{Ui: j.ui, Level: level})
	builds, err := cache.Open(filepath.Join(root, "builds"))
	if err != nil {
		return &bisect.InfraError{What: "opening the build cache", Err: err}
	}
	if j.gpus, err = openDevices(ctx, j.policy.GPUs, j.ui); err != nil {
		return err
	}
	config := pipeline.Config{
		Recipe: trial.Recipe{
			Repo: j.repo, Plan: j.policy.Plan, Flags: j.policy.Carriers(), Paths: j.policy.Paths,
			SampleMetric: j.policy.Sample, Patterns: patterns, Sources: j.policy.Sources,
			Env: append(os.Environ(), j.policy.MoreEnv...), Cache: builds, Probe: j.policy.Probe, WholeTimed: j.policy.WholeTimed(),
			Logs: filepath.Join(store.Dir(j.repo.CommonDir()), "logs", j.record.ID), Log: log,
		},
		Limits: j.policy.Limits, Cases: j.policy.Cases, Caches: j.policy.Caches, Jobs: j.policy.Jobs, Devices: j.gpus.watches,
		Dir: filepath.Join(root, "work", j.record.ID), Session: j.record.ID, OnPhase: j.ui.Activity,
	}
	if j.policy.OwnScripts {
		config.Recipe.WorkTree = j.repo.WorkDir()
	}
	if err := j.openPipes(config); err != nil {
		return err
	}
	return j.remember()
}

// find does what the axis asks for.
func (j *job) find(ctx context.Context) (bisect.Finding, error) {
	switch j.session.policy.Axis {
	case policy.AxisFlags:
		return j.searchFlags(ctx)
	case policy.AxisHunks:
		goal := sets.Keep
		if j.session.policy.All {
			goal = sets.All
		}
		f, err := j.searchBetween(ctx, goal)
		j.accuse(&f)
		return f, err
	}
	f, err := j.search(ctx)
	if err == nil && j.lost(&f) {
		f, err = j.search(ctx)
	}
	if err != nil || f.Result != bisect.Found {
		return f, err
	}
	j.why(ctx, &f)
	if !j.session.policy.NoHunks {
		j.drill(ctx, &f)
	}
	return f, nil
}

// lost reports whether a search for wrong results, of which the bad end shows none, is to be made for the numbers
// that it does not give any more; a search for anything else is told of it.
func (j *job) lost(f *bisect.Finding) bool {
	if f.Result != bisect.NoDifference || j.session.policy.Improvement {
		return false
	}
	ended := map[bisect.Purpose][]bisect.Outcome{}
	for _, l := range j.session.launches {
		if l.Outcome.Class == bisect.OK {
			ended[l.Purpose] = append(ended[l.Purpose], l.Outcome)
		}
	}
	lost := metric.LostBetween(j.session.policy.Judge.Metrics, ended[bisect.EndGood], ended[bisect.EndBad])
	if len(lost) == 0 {
		return false
	}
	if j.session.policy.Judge.Find != bisect.Wrong {
		f.Warnings = append(f.Warnings, fmt.Sprintf("the bad end gives no %s\nhint: --find wrong finds the commit that lost it", lost[0]))
		return false
	}
	j.session.policy.Warnings = append(j.session.policy.Warnings, fmt.Sprintf("a launch that gives no %s counts as wrong: the good end gives it, the bad end does not", lost[0]))
	j.session.memory.Sees = func(o bisect.Outcome) bisect.Outcome { return metric.Missed(o, lost) }
	return true
}

// seen are the launches as the search saw them.
func (j *job) seen() []report.Launch {
	out := slices.Clone(j.session.launches)
	for i := range out {
		out[i].Outcome = j.session.memory.Seen(out[i].Outcome)
	}
	return out
}

// search finds the ends where they are not given, then the culprit.
func (j *job) search(ctx context.Context) (bisect.Finding, error) {
	opts := j.session.policy.Judge
	plain := &judge.Plain{Sampler: j.session.memory, Options: opts}
	var tested []string
	if j.session.policy.Good == "" {
		var f *bisect.Finding
		var err error
		if tested, f, err = j.findGood(ctx, plain); err != nil || f != nil {
			return deref(f), err
		}
	}
	if j.session.rng == nil {
		var err error
		if j.session.rng, err = j.session.repo.Range(ctx, j.session.policy.Good, j.session.policy.Bad, j.session.policy.RangeOptions()); err != nil {
			return bisect.Finding{}, rangeError(err)
		}
	}
	commits, matter := toCommits(j.session.rng, j.session.policy.FirstParent)
	plain.Commits = matter
	if matter == 0 { // if the ends differ, the paths are wrong, and with them the keys of the build cache
		j.session.redo()
	}
	s := &bisect.Search{
		Commits: commits, Good: bisect.Candidate{Commit: j.session.policy.Good}, GoodKey: j.session.rng.GoodKey, Judge: plain,
		Tested: tested, Redo: j.session.redo, Ahead: j.ahead,
		OnStep: func(s bisect.Step) { j.session.ui.Step(s); j.keepStep(s) },
		Spent:  j.session.spent,
	}
	j.session.ui.Begin(len(commits), matter)
	opts.Commits = matter
	bank := &judge.SlowdownSearch{
		Search: *s, Sampler: j.session.memory, Options: opts, All: j.session.policy.All, Faster: j.session.policy.Improvement,
		Weigh: func() []float64 { return j.weights(commits) }, OnProgress: j.session.ui.Belief,
	}
	forget := j.foreseeHistory(*bank, plain)
	f, err := bank.Find(ctx)
	if paths := j.session.policy.Paths; matter == 0 && len(paths) > 0 && f.Result == bisect.NoDifference {
		f.Warnings = append(f.Warnings, fmt.Sprintf("no commit of the range changes what the paths name (%s)\nhint: name all that build and run read in paths (--path)", strings.Join(paths, ", ")))
	}
	return f, errors.Join(err, forget())
}

// ahead passes on what will probably be asked for next, but for what is remembered.
func (j *job) ahead(next []bisect.Candidate) {
	if _, _, ok := j.session.examples(); ok && j.session.slots.Next != nil {
		return // whole trials are made ahead
	}
	next = slices.DeleteFunc(next, func(c bisect.Candidate) bool {
		_, known := j.session.memory.Known[bisect.TrialID{Candidate: c, Purpose: bisect.Searching}]
		return known
	})
	j.session.pipe.Ahead(next)
}

func deref(f *bisect.Finding) bisect.Finding {
	if f == nil {
		return bisect.Finding{}
	}
	return *f
}

// toCommits turns a range into plain data and counts the commits that can matter.
func toCommits(rng *source.Range, firstParent bool) (out []bisect.Commit, matter int) {
	for _, c := range rng.Commits {
		parents := c.Parents
		if firstParent {
			parents = parents[:min(1, len(parents))]
		}
		out = append(out, bisect.Commit{ID: c.ID, Parents: parents, InRange: c.InRange, Key: c.Key, Neutral: c.Neutral})
		if !c.Neutral {
			matter++
		}
	}
	return out, matter
}

func (j *Session) spent() bool {
	if j.late != nil && j.late() {
		return true
	}
	return j.policy.Budget > 0 && j.record.Elapsed+time.Since(j.began) > j.policy.Budget
}

// writeReports writes the files that a search was asked for.
func (j *job) writeReports(d report.Document, l report.Ledger) error {
	if err := j.session.output.Write(d, l); err != nil {
		return fmt.Errorf("%w\nhint: the finding is kept; kbisect report --html FILE %s writes it again", err, j.session.record.ID)
	}
	return nil
}
