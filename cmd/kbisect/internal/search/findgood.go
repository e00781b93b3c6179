package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// findGood walks back from the bad end along first parents, in steps of 1, 2, 4, …, until a commit passes. That
// becomes the good end, in s and in the stored session. looked are the trials made on the way, which the search
// need not make again. f is a finding if there is nothing to search: no commit passes, or the walk was stopped. A
// bad end that passes is a usage error.
func findGood(ctx context.Context, s *Search, sampler bisect.Sampler) (looked []search.Trial, f *bisect.Finding, err error) {
	t := s.session
	bad := bisect.Candidate{Commit: t.Policy.Bad}
	look := func(c bisect.Candidate, why bisect.Purpose) (bisect.Outcome, error) {
		r := bisect.Request{Candidate: c, Purpose: why, BuildOnly: t.Policy.Judge.Builds}
		o, err := sampler.Sample(ctx, r)
		looked = append(looked, search.Trial{Request: r, Outcome: o})
		return o, err
	}
	o, err := look(bad, bisect.EndBad)
	if err != nil {
		return nil, broken(ctx, err), nil
	}
	if o.Class == bisect.OK {
		return nil, nil, exit.Usagef("the bad end %s passes: --find-good needs one that fails\nhint: for a slowdown name the good end with --good", bisect.ShortID(bad.Commit))
	}
	// Doubling steps reach a good commit after few builds. A step that goes too far costs the following search one more
	// halving, as it skips what was tested here.
	id := bad.Commit
	for step := 1; ; step *= 2 {
		next, back, err := source.Back(ctx, t.Repo, id, step)
		if err != nil {
			return nil, nil, exit.Usage(err)
		}
		if back == 0 {
			f := &bisect.Finding{Result: bisect.NoDifference}
			f.Ends.Why, f.Ends.Hint = fmt.Sprintf("no commit back to %s is good, %d tested", bisect.ShortID(id), len(looked)), "name a good end with --good"
			if next.Cut { // an older one may be
				f.Result, f.Ends.Unclear = bisect.Inconclusive, true
				f.Ends.Why += "; this shallow clone ends there"
				f.Ends.Hint = "git fetch --unshallow (or git fetch --deepen=1000) brings older commits, then try again"
			}
			return nil, f, nil
		}
		id = next.ID
		t.Display.Say(fmt.Sprintf("looking for a good end: testing %s", bisect.ShortID(id)))
		o, err := look(bisect.Candidate{Commit: id}, bisect.EndGood)
		if err != nil {
			return nil, broken(ctx, err), nil
		}
		if o.Class == bisect.OK {
			// Kept at once, so that a resumed session need not look again.
			s.good = id
			return looked, nil, t.Store.UpdateSession(t.Record.ID, func(kept *store.Session) { kept.Good = id })
		}
	}
}

// broken is the finding of a search that was stopped before it began: by the budget (inconclusive), by the user
// (interrupted), or by the machine (broken, with the error).
func broken(ctx context.Context, err error) *bisect.Finding {
	switch {
	case errors.Is(err, bisect.ErrSpent):
		return &bisect.Finding{Result: bisect.Inconclusive, Spent: true, Ends: bisect.Ends{Unclear: true, Why: "the budget was used up before a good end was found", Hint: search.GoOn}}
	case ctx.Err() != nil:
		return &bisect.Finding{Result: bisect.Interrupted, Err: err}
	}
	return &bisect.Finding{Result: bisect.Broken, Err: err}
}
