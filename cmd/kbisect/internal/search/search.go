// Package search finds the change: along the history of a range, in the flags of one
// commit, or in the hunks between two ([Run]). A [Search] is a session with what is
// looked for; it hands the search itself to packages judge and sets, tells them what
// to make ahead, confirms and explains the culprit, and gathers the facts of the report.
package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Search is one search: a session, and what it has found besides commits.
type Search struct {
	session *session.Session

	sets     *report.Sets             // of the search over sets that was made last
	ranking  *effects.Ranking         // what flags cost
	hunks    map[string][]report.Hunk // by culprit: what in it is to blame
	switched map[string]string        // by culprit: the flag that it switches on
	table    *report.Table            // why the culprit differs from its parent
}

func Of(t *session.Session) *Search {
	return &Search{session: t, hunks: map[string][]report.Hunk{}, switched: map[string]string{}}
}

// run does the job and writes the report; its error carries the exit code.
func (j *Search) run(ctx context.Context) error {
	j.session.Began = time.Now()
	if err := j.session.KeepSession(); err != nil {
		return err
	}
	if err := j.session.Open(ctx); err != nil {
		return j.session.Fail(err)
	}
	defer j.session.Devices.Close()
	f, err := j.find(ctx)
	j.session.Display.End()
	if closeErr := j.session.ClosePipes(); closeErr != nil {
		j.session.Policy.Warnings = append(j.session.Policy.Warnings, closeErr.Error())
	}
	if err != nil {
		return j.session.Fail(err)
	}
	if f.Err != nil && f.Result == bisect.Broken && session.Mistake(f.Err) {
		return j.session.Fail(f.Err)
	}
	if err := j.commandNotFound(f); err != nil {
		return j.session.Fail(err)
	}
	if err := j.unseenMetrics(f); err != nil {
		return j.session.Fail(err)
	}
	j.noteStrangePhases()
	j.slowerPhase(&f)
	j.otherException(&f)
	in := j.Input(f)
	doc := report.NewSearch(in)
	kept := j.finish(doc)
	Pictured(context.WithoutCancel(ctx), &in.Ledger, j.session.Repo, j.session.Range, j.session.Policy.Limits, in.Good.ID, culprits(f))
	if err := j.session.Output.Print(doc, in.Ledger); err != nil {
		return exit.With(exit.Machine, fmt.Errorf("writing the report: %w\nhint: kbisect show %s prints it again", err, j.session.Record.ID))
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

// commandNotFound tells ends that fail alike because a shell did not find the command from ends
// that do not differ.
func (j *Search) commandNotFound(f bisect.Finding) error {
	if f.Result != bisect.NoDifference {
		return nil
	}
	return j.session.NotFound("at either end")
}

// find does what the axis asks for.
func (j *Search) find(ctx context.Context) (bisect.Finding, error) {
	switch j.session.Policy.Axis {
	case policy.AxisFlags:
		return j.searchFlags(ctx)
	case policy.AxisHunks:
		goal := sets.Keep
		if j.session.Policy.All {
			goal = sets.All
		}
		f, err := j.searchBetween(ctx, goal)
		j.accuse(&f)
		return f, err
	}
	f, err := j.History(ctx)
	if err == nil && j.lost(&f) {
		f, err = j.History(ctx)
	}
	if err != nil || f.Result != bisect.Found {
		return f, err
	}
	j.why(ctx, &f)
	if !j.session.Policy.NoHunks {
		j.drill(ctx, &f)
	}
	return f, nil
}

// lost reports whether a search for wrong results, of which the bad end shows none, is to be made for the numbers
// that it does not give any more; a search for anything else is told of it.
func (j *Search) lost(f *bisect.Finding) bool {
	if f.Result != bisect.NoDifference || j.session.Policy.Improvement {
		return false
	}
	ended := map[bisect.Purpose][]bisect.Outcome{}
	for _, l := range j.session.Launches {
		if l.Outcome.Class == bisect.OK {
			ended[l.Purpose] = append(ended[l.Purpose], l.Outcome)
		}
	}
	lost := metric.LostBetween(j.session.Policy.Judge.Metrics, ended[bisect.EndGood], ended[bisect.EndBad])
	if len(lost) == 0 {
		return false
	}
	if j.session.Policy.Judge.Find != bisect.Wrong {
		f.Warnings = append(f.Warnings, fmt.Sprintf("the bad end gives no %s\nhint: --find wrong finds the commit that lost it", lost[0]))
		return false
	}
	j.session.Policy.Warnings = append(j.session.Policy.Warnings, fmt.Sprintf("a launch that gives no %s counts as wrong: the good end gives it, the bad end does not", lost[0]))
	j.session.Memory.Sees = func(o bisect.Outcome) bisect.Outcome { return metric.Missed(o, lost) }
	return true
}

// seen are the launches as the search saw them.
func (j *Search) seen() []report.Launch {
	out := slices.Clone(j.session.Launches)
	for i := range out {
		out[i].Outcome = j.session.Memory.Seen(out[i].Outcome)
	}
	return out
}

// History finds the ends where they are not given, then the culprit.
func (j *Search) History(ctx context.Context) (bisect.Finding, error) {
	opts := j.session.Policy.Judge
	plain := &judge.Plain{Sampler: j.session.Memory, Options: opts}
	var tested []string
	if j.session.Policy.Good == "" {
		var f *bisect.Finding
		var err error
		if tested, f, err = j.findGood(ctx, plain); err != nil || f != nil {
			return deref(f), err
		}
	}
	if j.session.Range == nil {
		var err error
		if j.session.Range, err = j.session.Repo.Range(ctx, j.session.Policy.Good, j.session.Policy.Bad, j.session.Policy.RangeOptions()); err != nil {
			return bisect.Finding{}, rangeError(err)
		}
	}
	commits, matter := ToCommits(j.session.Range, j.session.Policy.FirstParent)
	plain.Commits = matter
	if matter == 0 { // if the ends differ, the paths are wrong, and with them the keys of the build cache
		j.session.Redo()
	}
	s := &bisect.Search{
		Commits: commits, Good: bisect.Candidate{Commit: j.session.Policy.Good}, GoodKey: j.session.Range.GoodKey, Judge: plain,
		Tested: tested, Redo: j.session.Redo, Ahead: j.ahead,
		OnStep: func(s bisect.Step) { j.session.Display.Step(s); j.keepStep(s) },
		Spent:  j.session.Spent,
	}
	j.session.Display.Begin(len(commits), matter)
	opts.Commits = matter
	bank := &judge.SlowdownSearch{
		Search: *s, Sampler: j.session.Memory, Options: opts, All: j.session.Policy.All, Faster: j.session.Policy.Improvement,
		Weigh: func() []float64 { return j.Weights(commits) }, OnProgress: j.session.Display.Belief,
	}
	forget := j.foreseeHistory(*bank, plain)
	f, err := bank.Find(ctx)
	if paths := j.session.Policy.Paths; matter == 0 && len(paths) > 0 && f.Result == bisect.NoDifference {
		f.Warnings = append(f.Warnings, fmt.Sprintf("no commit of the range changes what the paths name (%s)\nhint: name all that build and run read in paths (--path)", strings.Join(paths, ", ")))
	}
	return f, errors.Join(err, forget())
}

// ahead passes on what will probably be asked for next, but for what is remembered.
func (j *Search) ahead(next []bisect.Candidate) {
	if _, _, ok := j.session.Examples(); ok && j.session.Slots.Next != nil {
		return // whole trials are made ahead
	}
	next = slices.DeleteFunc(next, func(c bisect.Candidate) bool {
		_, known := j.session.Memory.Known[bisect.TrialID{Candidate: c, Purpose: bisect.Searching}]
		return known
	})
	j.session.Pipe.Ahead(next)
}

func deref(f *bisect.Finding) bisect.Finding {
	if f == nil {
		return bisect.Finding{}
	}
	return *f
}

// ToCommits turns a range into plain data and counts the commits that can matter.
func ToCommits(rng *source.Range, firstParent bool) (out []bisect.Commit, matter int) {
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

// writeReports writes the files that a search was asked for.
func (j *Search) writeReports(d report.Document, l report.Ledger) error {
	if err := j.session.Output.Write(d, l); err != nil {
		return fmt.Errorf("%w\nhint: the finding is kept; kbisect report --html FILE %s writes it again", err, j.session.Record.ID)
	}
	return nil
}

// keepStep writes a judgement into the store, for people who look there; the search itself is
// resumed from its launches, and comes to the judgements that are kept already once more.
func (j *Search) keepStep(s bisect.Step) {
	if j.session.Display.Steps <= j.session.KeptSteps {
		return
	}
	data, err := json.Marshal(s.Verdict)
	if err == nil {
		err = j.session.Store.AddStep(store.Step{
			Session: j.session.Record.ID, Seq: j.session.Display.Steps, Commit: s.Commit, Candidate: s.Commit, Call: string(s.Verdict.Call),
			Probability: s.Verdict.Probability, Why: s.Verdict.Why, Inferred: s.Inferred, Verdict: data,
		})
	}
	if err != nil {
		j.session.Display.Warn(fmt.Sprintf("keeping a judgement: %v", err))
	}
}

// finish keeps the finding and remembers which commits were good.
func (j *Search) finish(d *report.Search) error {
	var data bytes.Buffer
	if err := report.WriteJSON(&data, d); err != nil {
		return err
	}
	for _, s := range d.Steps {
		proven := s.Role == bisect.RoleGoodEnd || s.Role == bisect.RoleParent
		if !j.session.Policy.Judge.Builds && s.Verdict.Call == bisect.Good && s.Verdict.Class == bisect.OK && !s.Inferred && proven && d.Result == bisect.Found {
			if err := j.session.Store.RecordGood(store.Good{Commit: s.Commit, When: time.Now(), Session: j.session.Record.ID, Detail: s.Verdict.Why}); err != nil {
				return err
			}
		}
	}
	return j.session.Store.UpdateSession(j.session.Record.ID, func(s *store.Session) {
		s.Status, s.Finding, s.Summary = string(d.Result), data.Bytes(), d.Summary()
		s.Good, s.Elapsed = j.session.Policy.Good, time.Duration(d.Totals.Wall*float64(time.Second))
	})
}

// exitCode is the code of a result.
func exitCode(r bisect.Result) int {
	switch r {
	case bisect.Found:
		return exit.OK
	case bisect.Inconclusive:
		return exit.Inconclusive
	case bisect.NoDifference:
		return exit.NoDifference
	case bisect.Interrupted:
		return exit.Interrupted
	}
	return exit.Machine
}

// why explains the first culprit of a search. What cannot be built says itself why.
func (j *Search) why(ctx context.Context, f *bisect.Finding) {
	c := f.Culprits[0]
	if !c.Confirmed || len(c.Parents) == 0 || c.Class == bisect.BuildFailed {
		return
	}
	x, err := explain.Culprit(ctx, j.session, c.Parents[0], c.Commit, c.Effect)
	switch {
	case err != nil:
		f.Warnings = append(f.Warnings, "the culprit could not be examined: "+wording.Headline(err.Error()))
	case x != nil:
		title := "The culprit against its parent"
		if len(f.Culprits) > 1 {
			title = fmt.Sprintf("Culprit %s against its parent", wording.Short(c.Commit))
		}
		t := x.Table(title, "parent", "culprit")
		j.table = &t
	}
}
