package explain

import (
	"context"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
)

// Culprit says how a culprit differs from its parent, for the report of a search. Its errors are those of the machine
// and of ctx; what could not be examined is listed in the result. It reuses what the search has
// launched and built, and adds launches under profilers if there is a device and a launch is short. It must be
// called while the session's pipeline is open, since it works in its workspaces.
//
// about is the change of a number that the search found; without a ratio it names the phase that times out; nil
// stands for another failure. The result is nil if there is nothing to explain or --no-explain was given.
func Culprit(ctx context.Context, j *session.Session, parent, culprit string, about *bisect.Effect) (*report.Explanation, error) {
	if j.Policy.NoExplain || parent == "" || culprit == "" {
		return nil, nil
	}
	x := newExplainer(j, CulpritLimit)
	x.about = about
	x.sides = [2]examined{known(j, parent, bisect.ConfirmParent), known(j, culprit, bisect.ConfirmCulprit)}
	if x.profiles && 2*profiledTimes*max(x.sides[0].wall(), x.sides[1].wall()) > x.patience() {
		x.profiles = false
		x.miss("profiles: a launch takes too long to profile it by default\nhint: kbisect explain %s %s", bisect.ShortID(parent), bisect.ShortID(culprit))
	}
	for i := range x.sides {
		if f := x.sides[i].buildFailure(); f != nil {
			x.sides[i].build = *f // or look would build it again, and fail again
		}
	}
	if err := x.look(ctx); err != nil {
		return nil, err
	}
	doc := x.document(bisect.ShortID(parent), bisect.ShortID(culprit))
	return &doc, nil
}

// known is a candidate with the launches that the search made of it. Those that machine problems ended say nothing
// about it and are left out. Launches that were stopped early do not show how long a phase takes, so they count only if
// there are no others.
func known(j *session.Session, commit string, purpose bisect.Purpose) examined {
	s := examined{candidate: bisect.Candidate{Commit: commit}, purpose: purpose}
	for _, l := range j.Launches {
		if l.Candidate == s.candidate && l.Outcome.Class != bisect.Infra {
			s.outcomes = append(s.outcomes, l.Outcome)
		}
	}
	if slices.ContainsFunc(s.outcomes, func(o bisect.Outcome) bool { return !o.Early }) {
		s.outcomes = slices.DeleteFunc(s.outcomes, func(o bisect.Outcome) bool { return o.Early })
	}
	return s
}
