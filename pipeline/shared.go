package pipeline

import (
	"context"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// sharedLaunches are launches by what was built. Commits with equal builds share them: after a change of a comment, or
// one that the compiler does not notice, nothing need be launched. They follow from the outcomes alone, in their
// order, so that a resumed search shares what the first attempt shared.
type sharedLaunches map[bisect.Artefact]*firstLaunched

// firstLaunched is the first commit with some build, and its launches.
type firstLaunched struct {
	commit   string
	opened   []string         // by its launch; nil: not known
	outcomes []bisect.Outcome // of its launches, in their order, that were not about times
}

// mayShare reports whether the launches of a candidate can stand for those of another one.
func mayShare(p trial.Recipe, r bisect.Request, built *bisect.Artefact) bool {
	return r.Candidate.Assign == "" && built != nil && !p.Static() && !p.OnlyBuilds(r)
}

// outcome is that of the first commit with an equal build, device code and host code, if its launch notices nothing else that
// differs: a launch would run the same program on the same files. Where it is not known what that opens, the two commits may
// differ only in files that the build has read, or that the paths leave out. Equal programs scatter in time all the same: where
// times count, the outcome says no more than that the commits behave alike, which the search may take back.
func (s sharedLaunches) outcome(ctx context.Context, p trial.Recipe, r bisect.Request, f workspace.Facts) (o bisect.Outcome, ok bool) {
	if !mayShare(p, r, f.Artefact) || len(f.Inputs) == 0 { // the outputs may not be all that is built
		return o, false
	}
	first := s[*f.Artefact]
	switch {
	case first == nil, first.commit == r.Candidate.Commit, !r.Timing && r.Nth >= len(first.outcomes):
		return o, false
	case r.Timing && (r.Nth > 0 || first.opened == nil): // nothing is guessed twice, or where nothing was learned
		return o, false
	}
	launched := workspace.Launched{Opened: first.opened, Built: f.Inputs, Guess: r.Timing, Covers: func(path string) bool {
		return len(p.Paths) == 0 || p.Covers(path)
	}}
	if same, err := launched.Same(ctx, p.Repo, first.commit, r.Candidate.Commit); err != nil {
		p.Log.Info("comparing commits with equal builds", "candidate", r.Candidate.Brief(), "err", err)
		return o, false
	} else if !same {
		return o, false
	}
	if r.Timing {
		return bisect.Outcome{Class: bisect.OK, Shared: first.commit, Unfit: "it was not launched"}, true
	}
	o = first.outcomes[r.Nth]
	o.Shared, o.Wall, o.Phases, o.Devices, o.Log = first.commit, 0, nil, nil, ""
	o.Repeated, o.Warnings, o.Notices = nil, nil, nil
	return o, true
}

// remember keeps a launch for commits with an equal build, unless it was stopped early: another one may have to wait.
func (s sharedLaunches) remember(p trial.Recipe, r bisect.Request, o bisect.Outcome) {
	if !mayShare(p, r, o.Artefact) || o.Shared != "" || o.Early || r.Timing && o.Class != bisect.OK {
		return
	}
	first := s[*o.Artefact]
	if first == nil {
		first = &firstLaunched{commit: r.Candidate.Commit}
		s[*o.Artefact] = first
	}
	if first.commit != r.Candidate.Commit {
		return
	}
	if first.opened == nil {
		first.opened = o.Ran
	}
	if !r.Timing && r.Nth == len(first.outcomes) {
		first.outcomes = append(first.outcomes, o)
	}
}
