package main

import (
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// artefact is what the build of a commit made, as far as that is known.
func (j *job) artefact(commit string) *bisect.Artefact {
	for _, l := range j.session.launches {
		if l.Candidate.Commit == commit && l.Candidate.Assign == "" && l.Outcome.Artefact != nil {
			return l.Outcome.Artefact
		}
	}
	return nil
}

// doubtfulCulprits warns of culprits whose device code equals that of a parent: whatever they brought, it was
// not the kernels.
func (j *job) doubtfulCulprits(f bisect.Finding) []string {
	var out []string
	for _, c := range f.Culprits {
		own := j.artefact(c.Commit)
		for _, parent := range c.Parents {
			before := j.artefact(parent)
			if own == nil || before == nil || own.Device != before.Device {
				continue
			}
			switch {
			case own.Host == before.Host:
				out = append(out, fmt.Sprintf("what was built of the culprit %s equals what was built of its parent %s: what is read when it runs, the environment or chance is to blame", wording.Short(c.Commit), wording.Short(parent)))
			case own.Device != "":
				out = append(out, fmt.Sprintf("suspect: the device code of the culprit %s equals that of its parent %s: the host code, the environment or chance is to blame", wording.Short(c.Commit), wording.Short(parent)))
			}
		}
	}
	return out
}
