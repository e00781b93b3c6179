package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/store"
)

// remember loads what earlier attempts of this session launched.
func (j *Session) remember() error {
	kept, err := keptLaunches(j.store, j.record.ID)
	if err != nil {
		return &bisect.InfraError{What: "reading the store", Err: err}
	}
	j.launches = kept
	known := map[bisect.TrialID]bisect.Outcome{}
	for _, l := range kept {
		known[bisect.TrialID{Candidate: l.Candidate, Purpose: l.Purpose, Nth: l.Nth}] = l.Outcome
	}
	steps, err := j.store.Steps(j.record.ID)
	if err != nil {
		return &bisect.InfraError{What: "reading the store", Err: err}
	}
	j.keptSteps = len(steps)
	j.record.Elapsed = elapsed(j.record, kept)
	j.slots = j.sampler(j.record.Elapsed)
	j.ledger = &pipeline.Memory{Next: j.slots, Known: known, Save: j.save, Learn: j.learn}
	j.memory = j.ledger
	return nil
}

// elapsed is how long a session has taken over all attempts. A killed one could not say so: what it took
// is known from its last trial.
func elapsed(s *store.Session, kept []report.Launch) time.Duration {
	took := s.Elapsed
	for _, l := range kept {
		took = max(took, time.Duration((l.Outcome.At+l.Outcome.Wall)*float64(time.Second)))
	}
	return took
}

// clocked stamps every trial with the time at which it was launched, which a resumed search goes by.
type clocked struct {
	next  bisect.Sampler
	began time.Time
}

func (c clocked) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o, err := c.next.Sample(ctx, r)
	o.At = time.Since(c.began).Seconds() - o.Wall
	return o, err
}

// save keeps one trial; when it returns the trial is on disk.
func (j *Session) save(r bisect.Request, o bisect.Outcome) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	l := store.Launch{
		Session: j.record.ID, Seq: len(j.launches) + 1, Candidate: r.Candidate.String(), Commit: r.Candidate.Commit,
		Purpose: string(r.Purpose), Ordinal: r.Nth, Class: string(o.Class), Phase: o.Phase,
		Started: time.Now().Add(-time.Duration(o.Wall * float64(time.Second))), Wall: time.Duration(o.Wall * float64(time.Second)), Outcome: data,
	}
	if err := j.store.AddLaunch(l); err != nil {
		return err
	}
	j.launches = append(j.launches, report.Launch{Candidate: r.Candidate, Purpose: r.Purpose, Nth: r.Nth, Outcome: o})
	return nil
}

// keepStep writes a judgement into the store, for people who look there; the search itself is
// resumed from its launches, and comes to the judgements that are kept already once more.
func (j *job) keepStep(s bisect.Step) {
	if j.session.ui.Steps <= j.session.keptSteps {
		return
	}
	data, err := json.Marshal(s.Verdict)
	if err == nil {
		err = j.session.store.AddStep(store.Step{
			Session: j.session.record.ID, Seq: j.session.ui.Steps, Commit: s.Commit, Candidate: s.Commit, Call: string(s.Verdict.Call),
			Probability: s.Verdict.Probability, Why: s.Verdict.Why, Inferred: s.Inferred, Verdict: data,
		})
	}
	if err != nil {
		j.session.ui.Warn(fmt.Sprintf("keeping a judgement: %v", err))
	}
}

// finish keeps the finding and remembers which commits were good.
func (j *job) finish(d *report.Search) error {
	var data bytes.Buffer
	if err := report.WriteJSON(&data, d); err != nil {
		return err
	}
	for _, s := range d.Steps {
		proven := s.Role == bisect.RoleGoodEnd || s.Role == bisect.RoleParent
		if !j.session.policy.Judge.Builds && s.Verdict.Call == bisect.Good && s.Verdict.Class == bisect.OK && !s.Inferred && proven && d.Result == bisect.Found {
			if err := j.session.store.RecordGood(store.Good{Commit: s.Commit, When: time.Now(), Session: j.session.record.ID, Detail: s.Verdict.Why}); err != nil {
				return err
			}
		}
	}
	return j.session.store.UpdateSession(j.session.record.ID, func(s *store.Session) {
		s.Status, s.Finding, s.Summary = string(d.Result), data.Bytes(), d.Summary()
		s.Good, s.Elapsed = j.session.policy.Good, time.Duration(d.Totals.Wall*float64(time.Second))
	})
}
