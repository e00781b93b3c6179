package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// job is one run of a session: it joins repository, store, pipeline, judge and search.
type job struct {
	repo    *source.Repo
	store   *store.Store
	session *store.Session
	policy  *policy
	ui      *progress
	began   time.Time

	pipe     *pipeline.Pipeline
	memory   *pipeline.Memory
	launches []report.Launch
	rng      *source.Range
}

// run does the job and writes the report; its error carries the exit code.
func (j *job) run(ctx context.Context, stdout io.Writer, asJSON bool) error {
	j.began = time.Now()
	if err := j.keepSession(); err != nil {
		return err
	}
	if err := j.open(); err != nil {
		return j.fail(err)
	}
	f, err := j.search(ctx)
	j.ui.end()
	if closeErr := j.pipe.Close(); closeErr != nil {
		j.policy.Warnings = append(j.policy.Warnings, closeErr.Error())
	}
	if err != nil {
		return j.fail(err)
	}
	if f.Err != nil && f.Result == bisect.Broken && mistake(f.Err) {
		return j.fail(f.Err)
	}
	if err := j.commandNotFound(f); err != nil {
		return j.fail(err)
	}
	in := j.input(f)
	if err := j.finish(in); err != nil {
		return &codeError{exitMachine, err}
	}
	write := report.Text
	if asJSON {
		write = report.JSON
	}
	if err := write(stdout, in); err != nil {
		return &codeError{exitMachine, fmt.Errorf("writing the report: %w\nhint: kbisect show %s prints it again", err, j.session.ID)}
	}
	if code := exitCode(f.Result); code != exitOK {
		return &codeError{code: code}
	}
	return nil
}

// mistake reports an error that the user can mend and that is no finding.
func mistake(err error) bool {
	var command *pipeline.CommandError
	var unsupported *source.UnsupportedError
	return errors.As(err, &command) || errors.As(err, &unsupported)
}

// commandNotFound tells ends that fail alike because a shell did not find the command from ends
// that do not differ.
func (j *job) commandNotFound(f bisect.Finding) error {
	if f.Result != bisect.NoDifference || len(j.launches) == 0 {
		return nil
	}
	for _, l := range j.launches {
		if l.Outcome.Exit != 126 && l.Outcome.Exit != 127 {
			return nil
		}
	}
	o := j.launches[0].Outcome
	return usagef("the command cannot be run at either end: %s\nhint: exit 127 is a shell's word for a command that it does not find, 126 for one that it cannot execute; candidates hold only what is committed", o.Describe())
}

// keepSession writes the session into the store, new or as resumed.
func (j *job) keepSession() error {
	_, err := j.store.Session(j.session.ID)
	if err != nil {
		err = j.store.CreateSession(*j.session)
	} else {
		err = j.store.UpdateSession(j.session.ID, func(s *store.Session) { s.Status = store.Running })
	}
	if err != nil {
		return &codeError{exitMachine, err}
	}
	return nil
}

// fail closes a session that ended in an error.
func (j *job) fail(err error) error {
	j.ui.end()
	if j.pipe != nil {
		j.pipe.Close()
	}
	status := store.Failed
	if errors.Is(err, context.Canceled) {
		status = store.Interrupted
	}
	keep := j.store.UpdateSession(j.session.ID, func(s *store.Session) {
		s.Status, s.Summary, s.Elapsed = status, headline(err.Error()), s.Elapsed+time.Since(j.began)
	})
	var command *pipeline.CommandError
	var unsupported *source.UnsupportedError
	if errors.As(err, &command) || errors.As(err, &unsupported) {
		err = usage(err)
	}
	return errors.Join(err, keep)
}

// open makes the pipeline and remembers the trials of earlier attempts.
func (j *job) open() error {
	root, err := cacheRoot()
	if err != nil {
		return err
	}
	patterns, err := j.policy.compile()
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	if j.ui.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(j.ui, &slog.HandlerOptions{Level: level}))
	builds, err := cache.Open(filepath.Join(root, "builds"))
	if err != nil {
		return &bisect.InfraError{What: "opening the build cache", Err: err}
	}
	config := pipeline.Config{
		Repo: j.repo, Plan: j.policy.Plan, Limits: j.policy.Limits, Paths: j.policy.Paths,
		SampleMetric: j.policy.Sample, Patterns: patterns,
		Dir: filepath.Join(root, "work", j.session.ID), Logs: filepath.Join(stateDir(j.repo.CommonDir()), "logs", j.session.ID),
		Env: os.Environ(), Cache: builds, Session: j.session.ID, OnPhase: j.ui.activity, Log: log,
	}
	if j.policy.OwnScripts {
		config.WorkTree = j.repo.WorkDir()
	}
	if err := os.RemoveAll(config.Dir); err != nil { // of an attempt that was killed: trusted in nothing
		return &bisect.InfraError{What: "clearing " + config.Dir, Err: err}
	}
	if j.pipe, err = pipeline.New(config); err != nil {
		return err
	}
	return j.remember()
}

// remember loads what earlier attempts of this session launched.
func (j *job) remember() error {
	kept, err := j.store.Launches(j.session.ID)
	if err != nil {
		return &bisect.InfraError{What: "reading the store", Err: err}
	}
	known := map[bisect.Request]bisect.Outcome{}
	for _, l := range kept {
		var o bisect.Outcome
		if err := json.Unmarshal(l.Outcome, &o); err != nil {
			return fmt.Errorf("launch %d of session %s cannot be read: %w", l.Seq, j.session.ID, err)
		}
		r := bisect.Request{
			Candidate: bisect.Candidate{Commit: l.Commit}, Purpose: bisect.Purpose(l.Purpose), Nth: l.Ordinal,
			Clean: bisect.Purpose(l.Purpose) == bisect.ConfirmCulprit || bisect.Purpose(l.Purpose) == bisect.ConfirmParent,
		}
		known[r] = o
		j.launches = append(j.launches, report.Launch{Commit: l.Commit, Purpose: r.Purpose, Nth: l.Ordinal, Outcome: o, Replayed: true})
	}
	j.memory = &pipeline.Memory{Next: j.pipe, Known: known, Save: j.save, Learn: j.pipe.Learn}
	return nil
}

// save keeps one trial; when it returns the trial is on disk.
func (j *job) save(r bisect.Request, o bisect.Outcome) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	l := store.Launch{
		Session: j.session.ID, Seq: len(j.launches) + 1, Candidate: r.Candidate.Commit, Commit: r.Candidate.Commit,
		Purpose: string(r.Purpose), Ordinal: r.Nth, Class: string(o.Class), Phase: o.Phase,
		Started: time.Now().Add(-time.Duration(o.Wall * float64(time.Second))), Wall: time.Duration(o.Wall * float64(time.Second)), Outcome: data,
	}
	var samples []store.Sample
	for _, s := range o.Series {
		for _, v := range s.Values {
			samples = append(samples, store.Sample{Metric: s.Metric, Case: s.Case, Unit: s.Unit, Value: v})
		}
	}
	for _, p := range o.Phases {
		samples = append(samples, store.Sample{Metric: "phase." + p.Name, Unit: "s", Value: p.Seconds})
	}
	if err := j.store.AddLaunch(l, samples); err != nil {
		return err
	}
	j.launches = append(j.launches, report.Launch{Commit: r.Candidate.Commit, Purpose: r.Purpose, Nth: r.Nth, Outcome: o})
	return nil
}

// search finds the ends where they are not given, then the culprit.
func (j *job) search(ctx context.Context) (bisect.Finding, error) {
	opts := j.policy.Judge
	plain := &judge.Plain{Sampler: j.memory, Options: opts}
	var tested []string
	if j.policy.Good == "" {
		var f *bisect.Finding
		var err error
		if tested, f, err = j.findGood(ctx, plain); err != nil || f != nil {
			return deref(f), err
		}
	}
	if j.rng == nil {
		var err error
		if j.rng, err = j.repo.Range(ctx, j.policy.Good, j.policy.Bad, j.policy.rangeOptions()); err != nil {
			return bisect.Finding{}, rangeError(err)
		}
	}
	commits, matter := toCommits(j.rng, j.policy.FirstParent)
	plain.Commits = matter
	s := &bisect.Search{
		Commits: commits, Good: bisect.Candidate{Commit: j.policy.Good}, GoodKey: j.rng.GoodKey, Judge: plain,
		Tested: tested, Redo: j.pipe.Clean,
		OnStep: func(s bisect.Step) { j.ui.step(s); j.keepStep(s) },
		Spent:  j.spent,
	}
	j.ui.begin(len(commits), matter)
	return s.Find(ctx)
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

func (j *job) spent() bool {
	return j.policy.Budget > 0 && j.session.Elapsed+time.Since(j.began) > j.policy.Budget
}

// keepStep writes a judgement into the store, for people who look there; the search itself is
// resumed from its launches.
func (j *job) keepStep(s bisect.Step) {
	data, err := json.Marshal(s.Verdict)
	if err == nil {
		err = j.store.AddStep(store.Step{
			Session: j.session.ID, Seq: j.ui.steps, Commit: s.Commit, Candidate: s.Commit, Call: string(s.Verdict.Call),
			Probability: s.Verdict.Probability, Why: s.Verdict.Why, Inferred: s.Inferred, Verdict: data,
		})
	}
	if err != nil {
		j.ui.warn(fmt.Sprintf("keeping a judgement: %v", err))
	}
}

// input gathers what the report is made of.
func (j *job) input(f bisect.Finding) report.Input {
	in := report.Input{
		Session: j.session.ID, Finding: f, Launches: j.launches, Wall: j.session.Elapsed + time.Since(j.began),
		GPUHour: j.policy.GPUHour, Backend: j.repo.Backend(), Commits: map[string]report.CommitInfo{},
		Warnings: j.warnings(), Devices: j.devices(),
	}
	if f.Err != nil {
		in.Error = f.Err.Error()
	}
	add := func(id string, files bool) report.CommitInfo {
		info := j.commitInfo(id, files)
		in.Commits[id] = info
		return info
	}
	in.Good, in.Bad = add(j.policy.Good, false), add(j.policy.Bad, false)
	for _, s := range f.Steps {
		add(s.Commit, false)
	}
	for _, s := range f.Suspects {
		add(s.Commit, false)
	}
	for _, c := range f.Culprits {
		add(c.Commit, true)
	}
	return in
}

// warnings are those of the repository, its range and the configuration.
func (j *job) warnings() []string {
	out := append(j.repo.Warnings(), j.policy.Warnings...)
	if j.rng != nil {
		out = append(out, j.rng.Warnings...)
	}
	return out
}

func (j *job) commitInfo(id string, files bool) report.CommitInfo {
	info := report.CommitInfo{ID: id}
	if id == "" {
		return info
	}
	c, err := j.repo.Commit(id)
	if err != nil {
		return info
	}
	info.Subject, info.Author, info.Email, info.When = c.Subject, c.Author, c.Email, c.When
	if !files {
		return info
	}
	changed, err := j.repo.ChangedFiles(id)
	if err != nil {
		j.ui.warn(err.Error())
	}
	for _, x := range changed {
		info.Files = append(info.Files, report.File{Kind: x.Kind, Path: x.Path})
	}
	return info
}

// devices names the GPUs that trials could run on.
func (j *job) devices() []string {
	if len(j.policy.GPUs) == 1 && j.policy.GPUs[0] == "none" {
		return nil
	}
	r := gpu.Probe()
	if !r.Available {
		return nil
	}
	var out []string
	for _, d := range r.Devices {
		out = append(out, fmt.Sprintf("%s %s (driver %s)", d.Name, d.UUID, r.Driver))
	}
	return out
}

// finish keeps the finding, and remembers which commits were good.
func (j *job) finish(in report.Input) error {
	var doc bytes.Buffer
	if err := report.JSON(&doc, in); err != nil {
		return err
	}
	f := in.Finding
	for _, s := range f.Steps {
		if s.Verdict.Call == bisect.Good && s.Verdict.Class == bisect.OK && !s.Inferred && (s.Role == "good end" || s.Role == "parent") && f.Result == bisect.Found {
			if err := j.store.RecordGood(store.Good{Commit: s.Commit, When: time.Now(), Session: j.session.ID, Detail: s.Verdict.Why}); err != nil {
				return err
			}
		}
	}
	return j.store.UpdateSession(j.session.ID, func(s *store.Session) {
		s.Status, s.Finding, s.Summary = string(f.Result), doc.Bytes(), summary(in)
		s.Good, s.Elapsed = j.policy.Good, in.Wall
	})
}

// summary is the finding in one line.
func summary(in report.Input) string {
	f := in.Finding
	switch f.Result {
	case bisect.Found:
		c := f.Culprits[0]
		return fmt.Sprintf("%s %s: %s", short(c.Commit), f.Complaint, in.Commits[c.Commit].Subject)
	case bisect.Inconclusive:
		return fmt.Sprintf("%d suspects", len(f.Suspects))
	case bisect.NoDifference:
		return f.Ends.Why
	case bisect.Interrupted:
		return fmt.Sprintf("%d suspects left", len(f.Suspects))
	}
	return headline(in.Error)
}

func headline(s string) string {
	if i := bytes.IndexByte([]byte(s), '\n'); i >= 0 {
		return s[:i]
	}
	return s
}
