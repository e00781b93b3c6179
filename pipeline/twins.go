package pipeline

import (
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// twin is what was seen of the first commit of which something was built.
type twin struct {
	commit   string
	inputs   []string         // files that its build read
	outcomes []bisect.Outcome // of its launches, in their order
}

// mayShare reports whether the launches of a candidate can stand for those of another: how it ends is
// asked for, not how fast, and the build tells what it has read.
func (s *slot) mayShare(r bisect.Request) bool {
	return !r.Timing && r.Candidate.Assign == "" && s.facts.Artefact != nil && len(s.facts.Inputs) > 0 && !s.static() && !s.onlyBuilds(r)
}

// shared is the outcome of a commit of which the same was built, device code and host code, where the two
// commits differ in nothing but what the build has read: a launch would run the same program on the same
// files. Launches of a proof are never shared.
func (s *slot) shared(r bisect.Request) (o bisect.Outcome, ok bool) {
	if r.Purpose != bisect.Searching || r.Clean || s.Pipeline.clean || !s.mayShare(r) {
		return o, false
	}
	t := s.twins[*s.facts.Artefact]
	if t == nil || t.commit == r.Candidate.Commit || r.Nth >= len(t.outcomes) {
		return o, false
	}
	changes, err := s.Repo.Changes(t.commit, r.Candidate.Commit)
	if err != nil {
		s.Log.Info("what differs between equal builds", "candidate", r.Candidate.Brief(), "err", err)
		return o, false
	}
	read := func(name string) bool {
		return name == "" || slices.Contains(t.inputs, name) || slices.Contains(s.facts.Inputs, name) || len(s.Paths) > 0 && !s.covers(name)
	}
	for _, c := range changes {
		if !read(c.Path) || !read(c.OldPath) {
			return o, false
		}
	}
	o = t.outcomes[r.Nth]
	o.Shared, o.Wall, o.Phases, o.Devices, o.Log, o.Repeated = t.commit, 0, nil, nil, "", nil
	return o, true
}

// remember keeps a launch for commits of which the same is built. One that was stopped before its limit
// says less than another may be asked for.
func (s *slot) remember(r bisect.Request, o bisect.Outcome) {
	if o.Class == bisect.Infra || o.Early || o.Hurried != "" || !s.mayShare(r) {
		return
	}
	t := s.twins[*s.facts.Artefact]
	if t == nil {
		t = &twin{commit: r.Candidate.Commit, inputs: s.facts.Inputs}
		s.twins[*s.facts.Artefact] = t
	}
	if t.commit == r.Candidate.Commit && r.Nth == len(t.outcomes) {
		t.outcomes = append(t.outcomes, o)
	}
}
