// Package memory remembers the trials of a session, so that none is made twice. It must not know how one is made or
// where it is kept.
package memory

import (
	"context"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// Sampler wraps another one: a trial that was made before is remembered, and a new one is kept before it is used. The
// search never learns which of the two an answer was, so that a resumed search decides as the first one did.
type Sampler struct {
	Next bisect.Sampler
	// Known are the trials that were made, newest last; one may be there with several time limits. Nil remembers none.
	Known map[bisect.TrialID][]bisect.Outcome
	// Save stores a trial and returns it as it will be read back, which a search has to see; nil stores nothing.
	Save func(bisect.Request, bisect.Outcome) (bisect.Outcome, error)
	// Earlier is a trial of another session that answers a request; with take it answers no other request after
	// this one. It may be nil.
	Earlier func(r bisect.Request, take bool) (bisect.Outcome, bool)
	Used    func(bisect.Request, bisect.Outcome) // called with every trial that is handed out; may be nil
	Sees    func(bisect.Outcome) bisect.Outcome  // what a search sees of a trial; nil: the trial as it is kept
}

// Sample returns the remembered outcome of a trial, that of another session, or that of a new one, in this order. It
// fails if the new one does or cannot be stored.
func (m *Sampler) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o, ok := m.recall(r)
	if !ok {
		var err error
		if o, ok = m.earlier(r, true); !ok {
			if o, err = m.Next.Sample(ctx, r); err != nil {
				return o, err
			}
		}
		if o, err = m.Keep(r, o); err != nil {
			return o, err
		}
	}
	if m.Used != nil {
		m.Used(r, o)
	}
	return m.Seen(o), nil
}

// Seen is a trial as a search sees it; without a memory, as it is.
func (m *Sampler) Seen(o bisect.Outcome) bisect.Outcome {
	if m != nil && m.Sees != nil {
		return m.Sees(o)
	}
	return o
}

// Recall returns the outcome of a trial if it need not be made. A trial of another session may still answer others.
func (m *Sampler) Recall(r bisect.Request) (bisect.Outcome, bool) {
	if o, ok := m.recall(r); ok {
		return o, true
	}
	return m.earlier(r, false)
}

func (m *Sampler) earlier(r bisect.Request, take bool) (bisect.Outcome, bool) {
	if m.Earlier == nil {
		return bisect.Outcome{}, false
	}
	return m.Earlier(r, take)
}

// recall returns the newest remembered outcome of a trial. One that was made ahead may have been given more time than
// is wanted now, or less, and then it does not count.
func (m *Sampler) recall(r bisect.Request) (bisect.Outcome, bool) {
	for _, o := range slices.Backward(m.Known[r.ID()]) {
		if o.Hurried == r.Hurry && o.Beyond == r.Past {
			return o, true
		}
	}
	return bisect.Outcome{}, false
}

// Keep stores a trial that was made, with the limits under which it was made, and returns it as it will be read back.
func (m *Sampler) Keep(r bisect.Request, o bisect.Outcome) (bisect.Outcome, error) {
	o.Hurried, o.Beyond, o.Timed = r.Hurry, r.Past, r.Timing
	if m.Save != nil {
		var err error
		if o, err = m.Save(r, o); err != nil {
			return o, &bisect.InfraError{What: "keeping the trial of " + r.Candidate.Brief(), Err: err}
		}
	}
	if m.Known != nil {
		m.Known[r.ID()] = append(m.Known[r.ID()], o)
	}
	return o, nil
}
