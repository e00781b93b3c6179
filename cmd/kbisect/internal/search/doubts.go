package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline"
)

// artefact is what the build of a commit made, as far as that is known.
func (j *Search) artefact(commit string) *bisect.Artefact {
	for _, l := range j.session.Launches {
		if l.Candidate.Commit == commit && l.Candidate.Assign == "" && l.Outcome.Artefact != nil {
			return l.Outcome.Artefact
		}
	}
	return nil
}

// doubtfulCulprits warns of culprits whose device code equals that of a parent: whatever they brought, it was
// not the kernels.
func (j *Search) doubtfulCulprits(f bisect.Finding) []string {
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
func (j *Search) noteStrangePhases() {
	var outcomes []bisect.Outcome
	for _, l := range j.session.Launches {
		outcomes = append(outcomes, l.Outcome)
	}
	j.session.Policy.Warnings = append(j.session.Policy.Warnings, strangePhases(j.session.Policy.Judge.Phase, j.session.Policy.Limits.Phases, outcomes)...)
}

// unseenMetrics tells ends that give no number of what was asked for from ends that do not differ: a
// pattern that matches nothing is a mistake that would otherwise look like an answer. Where some launches
// gave one, it is told.
func (j *Search) unseenMetrics(f bisect.Finding) error {
	if f.Result != bisect.NoDifference || j.session.Policy.Judge.Find != "" && j.session.Policy.Judge.Find != bisect.Slow {
		return nil
	}
	well, seen := session.NumbersSeen(j.session)
	if m := j.session.Policy.Asked; m != "" && m != "wall" && !strings.HasPrefix(m, "phase.") && well > 0 && seen[m] == 0 {
		gave := "they gave none"
		if len(seen) > 0 {
			gave = "they gave " + strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
		}
		return exit.Usagef("--metric %s: none of %d launches that ended well gave a number of it\nhint: %s; wall and phase.NAME are there for every program", m, well, gave)
	}
	for _, m := range j.session.Policy.Judge.Metrics {
		if n := seen[m.Name]; n > 0 && n < well {
			j.session.Policy.Warnings = append(j.session.Policy.Warnings, fmt.Sprintf("%d of %d launches that ended well gave no number of %s", well-n, well, m.Name))
		}
	}
	given := func(m metric.Metric) bool { return seen[m.Name] > 0 }
	if err := session.NoSuchCase(j.session, seen); err != nil && !slices.ContainsFunc(j.session.Policy.Judge.Metrics, given) {
		return err
	}
	matched := func(p policy.Pattern) bool { return seen[p.Metric] > 0 }
	if well == 0 || len(j.session.Policy.Patterns) == 0 || slices.ContainsFunc(j.session.Policy.Patterns, matched) {
		return nil
	}
	return session.MatchesNothing(j.session, j.session.Policy.Patterns[0], "the ends print", well)
}

// slowerPhase warns of a phase that takes clearly longer at the bad end where what was compared does not
// differ: each launch of the one end is above all of the other.
func (j *Search) slowerPhase(f *bisect.Finding) {
	const (
		least   = 3    // launches of an end
		share   = 1.2  // of the good end's time
		seconds = 0.05 // beyond it
	)
	if f.Result == bisect.Found || f.Result == bisect.Broken || j.session.Policy.Improvement || j.session.Policy.Axis != policy.AxisHistory || strings.HasPrefix(j.session.Policy.Judge.Metrics[0].Name, "phase.") {
		return
	}
	var ends [2][]bisect.Outcome
	for _, l := range j.session.Launches {
		for k, commit := range []string{j.session.Policy.Good, j.session.Policy.Bad} {
			if l.Candidate == (bisect.Candidate{Commit: commit}) && l.Outcome.Class == bisect.OK && l.Outcome.Caches != string(pipeline.Cold) {
				ends[k] = append(ends[k], l.Outcome)
			}
		}
	}
	for _, name := range explain.PhasesOf(ends[0], ends[1]) {
		times := func(p report.PhaseTimes) report.Summary { return p.Times }
		good, bad := explain.PhaseOf(ends[0], name, times), explain.PhaseOf(ends[1], name, times)
		if name == "build" || good.N < least || bad.N < least || bad.Min <= good.Max || bad.Median < share*good.Median || bad.Median < good.Median+seconds {
			continue
		}
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s takes %s at the bad end and %s at the good end\nhint: kbisect run --metric phase.%s searches for that", name,
			bad.Words("s"), good.Words("s"), name))
	}
}

// otherException warns of a culprit that ends with another exception than the bad end.
func (j *Search) otherException(f *bisect.Finding) {
	last := func(commit string) (name string) {
		for _, l := range j.session.Launches {
			if l.Candidate == (bisect.Candidate{Commit: commit}) && l.Outcome.Error != "" {
				name = l.Outcome.Error
			}
		}
		return name
	}
	if j.session.Policy.All {
		return
	}
	for _, c := range f.Culprits {
		if a, b := last(c.Commit), last(j.session.Policy.Bad); a != "" && b != "" && a != b {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s ends with %s, and the bad end with %s: these may be two faults\nhint: --all looks for what else came in the range", wording.Short(c.Commit), a, b))
		}
	}
}
