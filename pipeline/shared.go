package pipeline

import (
	"context"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// sharedLaunches are launches by what was built. Commits with equal builds share them: a comment or a refactoring
// that the compiler does not notice need not be launched.
type sharedLaunches map[bisect.Artefact]*firstLaunched

// firstLaunched is the first commit whose build had some result.
type firstLaunched struct {
	commit   string
	inputs   []string         // files that its build read
	outcomes []bisect.Outcome // of its launches, in their order
}

// mayShare reports whether the launches of a candidate can stand for those of another one: the question is how
// it ends, not how fast, and the build reports what it has read.
func mayShare(p trial.Recipe, r bisect.Request, f workspace.Facts) bool {
	return !r.Timing && r.Candidate.Assign == "" && f.Artefact != nil && len(f.Inputs) > 0 && !p.Static() && !p.OnlyBuilds(r)
}

// outcome is that of a commit of which the same was built, device code and host code, where the two commits differ
// in nothing but what the build has read: a launch would run the same program on the same files.
func (s sharedLaunches) outcome(ctx context.Context, p trial.Recipe, r bisect.Request, f workspace.Facts) (o bisect.Outcome, ok bool) {
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
		return name == "" || slices.Contains(first.inputs, name) || slices.Contains(f.Inputs, name) || len(p.Paths) > 0 && !p.Covers(name)
	}
	for _, c := range changes {
		if !read(c.Path) || !read(c.OldPath) {
			return o, false
		}
	}
	o = first.outcomes[r.Nth]
	o.Shared, o.Wall, o.Phases, o.Devices, o.Log, o.Repeated = first.commit, 0, nil, nil, "", nil
	return o, true
}

// remember keeps a launch for commits of which the same is built. One that was stopped before its limit does not
// answer what another request may ask.
func (s sharedLaunches) remember(r bisect.Request, f workspace.Facts, o bisect.Outcome) {
	if o.Class == bisect.Infra || o.Early || o.Hurried != "" {
		return
	}
	first := s[*f.Artefact]
	if first == nil {
		first = &firstLaunched{commit: r.Candidate.Commit, inputs: f.Inputs}
		s[*f.Artefact] = first
	}
	if first.commit == r.Candidate.Commit && r.Nth == len(first.outcomes) {
		first.outcomes = append(first.outcomes, o)
	}
}
