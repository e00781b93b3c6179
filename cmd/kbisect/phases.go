package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
)

// strangePhases tells of phases that were named and that no launch has entered, where that is likely a slip:
// one that --phase asks for, and a limit whose name is near that of a phase which was entered. Programs
// that fail never enter their later phases, so a launch has to have come to its end.
func strangePhases(want string, limits map[string]kernels.Limit, outcomes []bisect.Outcome) (out []string) {
	var seen []string
	well := false
	for _, o := range outcomes {
		well = well || o.Class == bisect.OK
		for _, ph := range o.Phases {
			seen = append(seen, ph.Name)
		}
		if o.Phase != "" {
			seen = append(seen, o.Phase)
		}
	}
	slices.Sort(seen)
	seen = slices.Compact(seen)
	if !well {
		return nil
	}
	if want != "" && !slices.ContainsFunc(seen, func(name string) bool { return name == want || strings.HasSuffix(name, "/"+want) }) {
		out = append(out, fmt.Sprintf("--phase %s: no launch has entered that phase%s; they entered %s", want, wording.DidYouMean(want, seen), strings.Join(seen, ", ")))
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if near := wording.Nearest(name, seen); near != "" && !slices.Contains(seen, name) && !slices.Contains(config.PhaseNames(), name) {
			out = append(out, fmt.Sprintf("[run.limits] %s bounds nothing: no launch has entered that phase\nhint: is %s meant?", name, near))
		}
	}
	return out
}

// noteStrangePhases adds them to the warnings of the job.
func (j *job) noteStrangePhases() {
	var outcomes []bisect.Outcome
	for _, l := range j.session.launches {
		outcomes = append(outcomes, l.Outcome)
	}
	j.session.policy.Warnings = append(j.session.policy.Warnings, strangePhases(j.session.policy.Judge.Phase, j.session.policy.Limits.Phases, outcomes)...)
}
