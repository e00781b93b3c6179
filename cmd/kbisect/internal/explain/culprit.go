package explain

import (
	"context"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// Culprit says why a culprit differs from its parent, by what the search has seen of both: its
// launches give the phases, and what it has built is looked at. Launches under profilers are added
// where there is a device and a launch is short. It must be called while the pipeline is open. Nil
// stands for nothing to explain, or not asked for. about is what was found, if it is a number.
func Culprit(ctx context.Context, j *session.Session, parent, culprit string, about *bisect.Effect) (*report.Explanation, error) {
	if j.Policy.NoExplain || parent == "" || culprit == "" {
		return nil, nil
	}
	x := newExplainer(j, CulpritLimit)
	x.about = about
	x.sides = [2]examined{known(j, parent, bisect.ConfirmParent), known(j, culprit, bisect.ConfirmCulprit)}
	if x.profiles && 2*profiledTimes*max(x.sides[0].wall(), x.sides[1].wall()) > x.patience() {
		x.profiles = false
		x.miss("profiles: a launch takes too long for them to be made unasked\nhint: kbisect explain %s %s", wording.Short(parent), wording.Short(culprit))
	}
	for i := range x.sides {
		if f := x.sides[i].buildFailure(); f != nil {
			x.sides[i].build = *f // it is not built once more, only to fail once more
		}
	}
	if err := x.look(ctx); err != nil {
		return nil, err
	}
	doc := x.explanation()
	doc.Session = j.Record.ID
	for i, to := range []*report.Candidate{&doc.A, &doc.B} {
		var s compare.Side
		for _, o := range x.sides[i].outcomes {
			s.Note(o)
		}
		*to = session.Side(j, wording.Short(x.sides[i].candidate.Commit), x.sides[i].candidate.Commit, s)
	}
	return &doc, nil
}

// known is a candidate with the launches that the search made of it. Those that were stopped early say
// nothing about how long a phase takes, where one had the whole of its limits.
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
