package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline"
)

// artefactOf is what the build of a commit made, without flags; nil if no launch recorded it. Its digests of host and
// device code tell whether two builds differ.
func artefactOf(launches []report.Launch, commit string) *bisect.Artefact {
	for _, l := range launches {
		if l.Candidate.Commit == commit && l.Candidate.Assign == "" && l.Outcome.Artefact != nil {
			return l.Outcome.Artefact
		}
	}
	return nil
}

// unchangedCode warns about culprits whose device code equals that of a parent: the kernels cannot be the cause. It
// says nothing unless the device code of both is known.
func unchangedCode(launches []report.Launch, culprits []bisect.Culprit) []string {
	var out []string
	for _, c := range culprits {
		own := artefactOf(launches, c.Commit)
		for _, parent := range c.Parents {
			before := artefactOf(launches, parent)
			if own == nil || before == nil || own.Device != before.Device {
				continue
			}
			switch {
			case own.Host == before.Host:
				out = append(out, fmt.Sprintf("the culprit %s and its parent %s build to the same code: the cause is a file read at run time, the environment or chance", bisect.ShortID(c.Commit), bisect.ShortID(parent)))
			case own.Device != "":
				out = append(out, fmt.Sprintf("the culprit %s and its parent %s have the same device code: the cause is the host code, the environment or chance", bisect.ShortID(c.Commit), bisect.ShortID(parent)))
			}
		}
	}
	return out
}

// unknownPhases warns about configured phases that no launch entered, where a typing error is likely: the phase of
// --phase, and a limit whose name is close to that of a phase that was entered. A failing program never enters its
// later phases, so that nothing is said unless a launch has passed.
func unknownPhases(want string, limits map[string]kernels.Limit, launches []report.Launch) (out []string) {
	var seen []string
	passed := false
	for _, l := range launches {
		passed = passed || l.Outcome.Class == bisect.OK
		for _, ph := range l.Outcome.Phases {
			seen = append(seen, ph.Name)
		}
		if l.Outcome.Phase != "" {
			seen = append(seen, l.Outcome.Phase)
		}
	}
	slices.Sort(seen)
	seen = slices.Compact(seen)
	if !passed {
		return nil
	}
	if want != "" && !slices.ContainsFunc(seen, func(name string) bool { return name == want || strings.HasSuffix(name, "/"+want) }) {
		out = append(out, fmt.Sprintf("--phase %s: no launch entered this phase%s; phases seen: %s", want, wording.DidYouMean(want, seen), strings.Join(seen, ", ")))
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if near := wording.Nearest(name, seen); near != "" && !slices.Contains(seen, name) && !slices.Contains(config.PhaseNames(), name) {
			out = append(out, fmt.Sprintf("[run.limits] %s has no effect: no launch entered this phase\nhint: did you mean %s?", name, near))
		}
	}
	return out
}

// partlyReported warns about metrics that only some launches gave.
func partlyReported(s *session.Session) (warnings []string) {
	passed, seen := session.NumbersSeen(s)
	for _, m := range s.Policy.Judge.Metrics {
		if n := seen[m.Name]; n > 0 && n < passed {
			warnings = append(warnings, fmt.Sprintf("%d of %d successful launches did not report %s", passed-n, passed, m.Name))
		}
	}
	return warnings
}

// undirected asks about metrics for which nothing says whether higher or lower is better: without that, a change
// for the better would be found as a slowdown.
func undirected(s *session.Session) (questions []string) {
	var launches []bisect.Outcome
	for _, l := range s.Launches {
		launches = append(launches, l.Outcome)
	}
	for _, m := range s.Policy.Judge.Metrics {
		if _, err := m.Direction(launches...); err != nil {
			questions = append(questions, err.Error())
		}
	}
	return questions
}

// slowerPhases warns about phases that clearly take longer at the bad end although the compared metric does not
// differ: every launch of the bad end takes longer than all of the good end. Launches with empty caches are left
// out.
func slowerPhases(p *policy.Policy, goodEnd string, launches []report.Launch) (out []string) {
	const (
		least   = 3    // launches of each end
		share   = 1.2  // of the good end's time
		seconds = 0.05 // more than the good end's time
	)
	if p.Improvement || p.Axis != policy.AxisHistory || strings.HasPrefix(p.Judge.Metrics[0].Name, "phase.") {
		return nil
	}
	var ends [2][]bisect.Outcome
	for _, l := range launches {
		for k, commit := range []string{goodEnd, p.Bad} {
			if l.Candidate == (bisect.Candidate{Commit: commit}) && l.Outcome.Class == bisect.OK && l.Outcome.Caches != string(pipeline.Cold) {
				ends[k] = append(ends[k], l.Outcome)
			}
		}
	}
	inGood, inBad := session.PhaseTimes(ends[0]), session.PhaseTimes(ends[1])
	for _, name := range explain.PhasesOf(ends[0], ends[1]) {
		times := func(p report.PhaseTimes) report.Summary { return p.Times }
		good, bad := explain.PhaseOf(inGood, name, times), explain.PhaseOf(inBad, name, times)
		if name == "build" || good.N < least || bad.N < least || bad.Min <= good.Max || bad.Median < share*good.Median || bad.Median < good.Median+seconds {
			continue
		}
		out = append(out, fmt.Sprintf("%s takes %s at the bad end and %s at the good end\nhint: kbisect run --metric phase.%s searches for that", name,
			bad.Words("s"), good.Words("s"), name))
	}
	return out
}

// otherExceptions warns about culprits that fail with another exception than the bad end: there may be two faults, of
// which only one was found. The latest exception of each commit counts.
func otherExceptions(bad string, launches []report.Launch, culprits []bisect.Culprit) (out []string) {
	last := func(commit string) (name string) {
		for _, l := range launches {
			if l.Candidate == (bisect.Candidate{Commit: commit}) && l.Outcome.Error != "" {
				name = l.Outcome.Error
			}
		}
		return name
	}
	for _, c := range culprits {
		if a, b := last(c.Commit), last(bad); a != "" && b != "" && a != b {
			out = append(out, fmt.Sprintf("%s fails with %s, the bad end with %s: these may be two faults\nhint: --all finds every culprit in the range", bisect.ShortID(c.Commit), a, b))
		}
	}
	return out
}
