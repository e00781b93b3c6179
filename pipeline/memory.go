package pipeline

import (
	"context"

	"github.com/kbisect/kbisect/bisect"
)

// Memory wraps a Sampler: a trial that was made before is remembered, a new one is kept before
// it is used. The search never learns which of the two an answer was, so that a resumed search
// decides as the first one did.
type Memory struct {
	Next  bisect.Sampler
	Known map[bisect.TrialID]bisect.Outcome
	Save  func(bisect.Request, bisect.Outcome) error
	Learn func(bisect.Request, bisect.Outcome) // takes remembered trials; may be nil
	Sees  func(bisect.Outcome) bisect.Outcome  // what a search sees of a trial; nil: the trial as it is kept
}

// Sample returns the remembered outcome of a trial, or makes and keeps it.
func (m *Memory) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	if o, ok := m.Recall(r); ok {
		if m.Learn != nil {
			m.Learn(r, o)
		}
		return m.Seen(o), nil
	}
	o, err := m.Next.Sample(ctx, r)
	if err != nil {
		return o, err
	}
	o.Hurried, o.Beyond = r.Hurry, r.Past
	return m.Seen(o), m.Keep(r, o)
}

// Seen is a trial as a search sees it; without a memory, as it is.
func (m *Memory) Seen(o bisect.Outcome) bisect.Outcome {
	if m != nil && m.Sees != nil {
		return m.Sees(o)
	}
	return o
}

// Recall returns the remembered outcome of a trial. One that was made before it was asked for may have
// been given more time than is wanted now, or less, and then is none.
func (m *Memory) Recall(r bisect.Request) (bisect.Outcome, bool) {
	o, ok := m.Known[r.ID()]
	return o, ok && o.Hurried == r.Hurry && o.Beyond == r.Past
}

// Keep takes in a trial that was made.
func (m *Memory) Keep(r bisect.Request, o bisect.Outcome) error {
	o.Hurried, o.Beyond = r.Hurry, r.Past
	if m.Known != nil {
		m.Known[r.ID()] = o
	}
	if err := m.Save(r, o); err != nil {
		return &bisect.InfraError{What: "keeping the trial of " + r.Candidate.Brief(), Err: err}
	}
	return nil
}
