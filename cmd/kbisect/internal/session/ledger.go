package session

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/store"
)

// remember loads what earlier attempts of this session launched.
func (j *Session) remember() error {
	kept, err := KeptLaunches(j.Store, j.Record.ID)
	if err != nil {
		return &bisect.InfraError{What: "reading the store", Err: err}
	}
	j.Launches = kept
	known := map[bisect.TrialID]bisect.Outcome{}
	for _, l := range kept {
		known[bisect.TrialID{Candidate: l.Candidate, Purpose: l.Purpose, Nth: l.Nth}] = l.Outcome
	}
	steps, err := j.Store.Steps(j.Record.ID)
	if err != nil {
		return &bisect.InfraError{What: "reading the store", Err: err}
	}
	j.KeptSteps = len(steps)
	j.Record.Elapsed = Elapsed(j.Record, kept)
	j.Slots = j.Sampler(j.Record.Elapsed)
	j.Ledger = &pipeline.Memory{Next: j.Slots, Known: known, Save: j.save, Learn: j.learn}
	j.Memory = j.Ledger
	return nil
}

// Elapsed is how long a session has taken over all attempts. A killed one could not say so: what it took
// is known from its last trial.
func Elapsed(s *store.Session, kept []report.Launch) time.Duration {
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
		Session: j.Record.ID, Seq: len(j.Launches) + 1, Candidate: r.Candidate.String(), Commit: r.Candidate.Commit,
		Purpose: string(r.Purpose), Ordinal: r.Nth, Class: string(o.Class), Phase: o.Phase,
		Started: time.Now().Add(-time.Duration(o.Wall * float64(time.Second))), Wall: time.Duration(o.Wall * float64(time.Second)), Outcome: data,
	}
	if err := j.Store.AddLaunch(l); err != nil {
		return err
	}
	j.Launches = append(j.Launches, report.Launch{Candidate: r.Candidate, Purpose: r.Purpose, Nth: r.Nth, Outcome: o})
	return nil
}
