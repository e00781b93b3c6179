package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
)

// drill goes from culprits to what in them is to blame: their hunks, and the flags that they switch on.
// It takes no more time than the search has taken, or two minutes.
func (j *Search) drill(ctx context.Context, f *bisect.Finding) {
	const most = 3 // culprits
	limit := max(2*time.Minute, time.Since(j.session.Began))
	began := time.Now()
	j.session.Late = func() bool { return time.Since(began) > limit }
	defer func() { j.session.Late = nil }()
	for i, c := range f.Culprits {
		if i == most || f.Err != nil || ctx.Err() != nil {
			return
		}
		j.sets = nil
		if why := undrilled(c); why != "" {
			f.Warnings = append(f.Warnings, fmt.Sprintf("the hunks of %s were not searched: %s", wording.Short(c.Commit), why))
			continue
		}
		if err := j.drillHunks(ctx, c); err != nil {
			f.Warnings = append(f.Warnings, fmt.Sprintf("the hunks of %s were not searched to the end: %s", wording.Short(c.Commit), wording.Headline(err.Error())))
		}
		if err := j.switches(ctx, c); err != nil {
			f.Warnings = append(f.Warnings, fmt.Sprintf("the flags of %s were not tried to the end: %s", wording.Short(c.Commit), wording.Headline(err.Error())))
		}
	}
	j.sets = nil
}

// undrilled says why the hunks of a culprit are not searched, or "".
func undrilled(c bisect.Culprit) string {
	switch {
	case !c.Confirmed:
		return "it is not confirmed"
	case c.Merge:
		return "it is a merge"
	case c.Rate != nil:
		return "it fails in some launches only\nhint: kbisect run --axis hunks --commit " + wording.Short(c.Commit)
	case c.Class == bisect.Improved:
		return "it is an improvement"
	case c.Class == bisect.BuildFailed:
		return "parts of a change that does not build do not build either"
	case len(c.Parents) == 0:
		return "it has no parent"
	}
	return ""
}

// drillHunks searches the hunks of one culprit. A change of one hunk that is known to be slow needs no
// test.
func (j *Search) drillHunks(ctx context.Context, c bisect.Culprit) error {
	diff, err := hunks.Of(ctx, j.session.Repo, c.Commit, j.session.Policy.Paths)
	if err != nil {
		return err
	}
	if len(diff.Hunks) == 0 {
		return errors.New("it changes nothing in the paths")
	}
	if len(diff.Hunks) == 1 && c.Class == bisect.Slow {
		j.hunks[c.Commit] = []report.Hunk{shown(diff.Hunks[0], sets.Culprit)}
		return nil
	}
	opts := j.session.Policy.Judge
	defer func() { j.session.Policy.Judge = opts }()
	j.session.Policy.Judge.Find, j.session.Policy.Judge.Phase = c.Class, ""
	sampler := bisect.Sampler(j.session.Memory)
	if c.Class != bisect.Slow {
		sampler = j.evidence(c.Parents[0], c.Commit)
	}
	found, err := j.searchHunks(ctx, diff, c.Parents[0], sets.One, sampler)
	if err == nil {
		err = found.Err
	}
	if err != nil {
		return err
	}
	if len(j.sets.Minimal) == 0 {
		switch {
		case j.session.Late():
			return errors.New("it would have taken longer than the search itself")
		case j.session.Spent():
			return errors.New("the budget is used up")
		}
		return errors.New(cmp.Or(found.Ends.Why, "no part of it could be certified"))
	}
	g := j.sets.Minimal[0]
	j.hunks[c.Commit] = j.sets.Guilty(g)
	return nil
}

// evidence answers with launches that the search has made of two commits before it makes new ones.
func (j *Search) evidence(commits ...string) bisect.Sampler {
	e := &evidence{next: j.session.Memory, made: map[string][]bisect.Outcome{}}
	for _, l := range j.session.Launches {
		for _, c := range commits {
			if l.Candidate == (bisect.Candidate{Commit: c}) && !l.Outcome.Early {
				e.made[c] = append(e.made[c], l.Outcome)
			}
		}
	}
	return e
}

type evidence struct {
	next bisect.Sampler
	made map[string][]bisect.Outcome // not used yet, by commit
}

func (e *evidence) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	c := r.Candidate.Commit
	if list := e.made[c]; len(list) > 0 && r.Candidate.Assign == "" {
		e.made[c] = list[1:]
		return list[0], nil
	}
	return e.next.Sample(ctx, r)
}

// switches finds the flag that a culprit switches on: with it at its base the culprit is good, and the
// parent with it set is bad.
func (j *Search) switches(ctx context.Context, c bisect.Culprit) error {
	if len(j.session.Policy.Flags) == 0 || c.Class == bisect.Slow || c.Class == bisect.Improved || c.Class == bisect.BuildFailed {
		return nil
	}
	complaint := bisect.Complaint{Class: c.Class, Phase: c.Phase}
	ask := func(commit, assign string) (bisect.Outcome, error) {
		r := bisect.Request{Candidate: bisect.Candidate{Commit: commit, Assign: assign}, Purpose: switching}
		if c.Class == bisect.Timeout {
			r.Hurry = c.Phase
		}
		return j.session.Memory.Sample(ctx, r)
	}
	space, err := config.FlagSpace(j.session.Policy.Flags)
	if err != nil {
		return err
	}
	o, err := ask(c.Commit, space.Text(nil))
	if err != nil || o.Class != bisect.OK {
		return err // the flags do not explain it
	}
	for _, f := range j.session.Policy.Flags {
		off, err := ask(c.Commit, f.Name+"="+f.Values[0])
		if err != nil || j.session.Spent() {
			return err
		}
		if off.Class != bisect.OK {
			continue
		}
		words := fmt.Sprintf("with %s=%s it is good", f.Name, f.Values[0])
		bad := cmp.Or(f.Bad, f.Values[len(f.Values)-1])
		if on, err := ask(c.Parents[0], f.Name+"="+bad); err == nil && complaint.Matches(on) {
			words = fmt.Sprintf("it switches %s on: with %s=%s it is good, and its parent with %s=%s is bad", f.Name, f.Name, f.Values[0], f.Name, bad)
		}
		j.switched[c.Commit] = words
		return nil
	}
	return nil
}

// switching is the purpose of launches that try the flags of a culprit.
const switching bisect.Purpose = "switch"
