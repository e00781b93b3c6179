package pipeline

import (
	"context"
	"slices"

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
	outcomes []bisect.Outcome // of its launches, in their order
}

// mayShare reports whether the launches of a candidate can stand for those of another one: the question must be how it
// ends and not how fast, since equal programs still scatter in time.
func mayShare(p trial.Recipe, r bisect.Request, built *bisect.Artefact) bool {
	return !r.Timing && r.Candidate.Assign == "" && built != nil && !p.Static() && !p.OnlyBuilds(r)
}

// outcome is that of the first commit with an equal build, device code and host code, if the two commits differ only
// in files that the build has read, or that the paths leave out: a launch would run the same program on the same
// files. A file that no build reads may be read by the launch, such as a table of inputs.
func (s sharedLaunches) outcome(ctx context.Context, p trial.Recipe, r bisect.Request, f workspace.Facts) (o bisect.Outcome, ok bool) {
	if !mayShare(p, r, f.Artefact) || len(f.Inputs) == 0 {
		return o, false
	}
	first := s[*f.Artefact]
	if first == nil || first.commit == r.Candidate.Commit || r.Nth >= len(first.outcomes) {
		return o, false
	}
	changes, err := p.Repo.Changes(ctx, first.commit, r.Candidate.Commit)
	if err != nil {
		p.Log.Info("comparing commits with equal builds", "candidate", r.Candidate.Brief(), "err", err)
		return o, false
	}
	read := func(name string) bool {
		return name == "" || slices.Contains(f.Inputs, name) || len(p.Paths) > 0 && !p.Covers(name)
	}
	for _, c := range changes {
		if !read(c.Path) || !read(c.OldPath) {
			return o, false
		}
	}
	o = first.outcomes[r.Nth]
	o.Shared, o.Wall, o.Phases, o.Devices, o.Log = first.commit, 0, nil, nil, ""
	o.Repeated, o.Warnings, o.Notices = nil, nil, nil
	return o, true
}

// remember keeps a launch for commits with an equal build, unless it was stopped early: another one may have to wait.
func (s sharedLaunches) remember(p trial.Recipe, r bisect.Request, o bisect.Outcome) {
	if !mayShare(p, r, o.Artefact) || o.Shared != "" || o.Early {
		return
	}
	first := s[*o.Artefact]
	if first == nil {
		first = &firstLaunched{commit: r.Candidate.Commit}
		s[*o.Artefact] = first
	}
	if first.commit == r.Candidate.Commit && r.Nth == len(first.outcomes) {
		first.outcomes = append(first.outcomes, o)
	}
}
