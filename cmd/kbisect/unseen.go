package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline"
)

// unseenMetrics tells ends that give no number of what was asked for from ends that do not differ: a
// pattern that matches nothing is a mistake that would otherwise look like an answer. Where some launches
// gave one, it is told.
func (j *job) unseenMetrics(f bisect.Finding) error {
	if f.Result != bisect.NoDifference || j.session.policy.Judge.Find != "" && j.session.policy.Judge.Find != bisect.Slow {
		return nil
	}
	well, seen := numbersSeen(j.session)
	if m := j.session.policy.Asked; m != "" && m != "wall" && !strings.HasPrefix(m, "phase.") && well > 0 && seen[m] == 0 {
		gave := "they gave none"
		if len(seen) > 0 {
			gave = "they gave " + strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
		}
		return exit.Usagef("--metric %s: none of %d launches that ended well gave a number of it\nhint: %s; wall and phase.NAME are there for every program", m, well, gave)
	}
	for _, m := range j.session.policy.Judge.Metrics {
		if n := seen[m.Name]; n > 0 && n < well {
			j.session.policy.Warnings = append(j.session.policy.Warnings, fmt.Sprintf("%d of %d launches that ended well gave no number of %s", well-n, well, m.Name))
		}
	}
	given := func(m metric.Metric) bool { return seen[m.Name] > 0 }
	if err := noSuchCase(j.session, seen); err != nil && !slices.ContainsFunc(j.session.policy.Judge.Metrics, given) {
		return err
	}
	matched := func(p policy.Pattern) bool { return seen[p.Metric] > 0 }
	if well == 0 || len(j.session.policy.Patterns) == 0 || slices.ContainsFunc(j.session.policy.Patterns, matched) {
		return nil
	}
	return matchesNothing(j.session, j.session.policy.Patterns[0], "the ends print", well)
}

// slowerPhase warns of a phase that takes clearly longer at the bad end where what was compared does not
// differ: each launch of the one end is above all of the other.
func (j *job) slowerPhase(f *bisect.Finding) {
	const (
		least   = 3    // launches of an end
		share   = 1.2  // of the good end's time
		seconds = 0.05 // beyond it
	)
	if f.Result == bisect.Found || f.Result == bisect.Broken || j.session.policy.Improvement || j.session.policy.Axis != policy.AxisHistory || strings.HasPrefix(j.session.policy.Judge.Metrics[0].Name, "phase.") {
		return
	}
	var ends [2][]bisect.Outcome
	for _, l := range j.session.launches {
		for k, commit := range []string{j.session.policy.Good, j.session.policy.Bad} {
			if l.Candidate == (bisect.Candidate{Commit: commit}) && l.Outcome.Class == bisect.OK && l.Outcome.Caches != string(pipeline.Cold) {
				ends[k] = append(ends[k], l.Outcome)
			}
		}
	}
	for _, name := range phasesOf(ends[0], ends[1]) {
		times := func(p report.PhaseTimes) report.Summary { return p.Times }
		good, bad := phaseOf(ends[0], name, times), phaseOf(ends[1], name, times)
		if name == "build" || good.N < least || bad.N < least || bad.Min <= good.Max || bad.Median < share*good.Median || bad.Median < good.Median+seconds {
			continue
		}
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s takes %s at the bad end and %s at the good end\nhint: kbisect run --metric phase.%s searches for that", name,
			bad.Words("s"), good.Words("s"), name))
	}
}

// otherException warns of a culprit that ends with another exception than the bad end.
func (j *job) otherException(f *bisect.Finding) {
	last := func(commit string) (name string) {
		for _, l := range j.session.launches {
			if l.Candidate == (bisect.Candidate{Commit: commit}) && l.Outcome.Error != "" {
				name = l.Outcome.Error
			}
		}
		return name
	}
	if j.session.policy.All {
		return
	}
	for _, c := range f.Culprits {
		if a, b := last(c.Commit), last(j.session.policy.Bad); a != "" && b != "" && a != b {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s ends with %s, and the bad end with %s: these may be two faults\nhint: --all looks for what else came in the range", wording.Short(c.Commit), a, b))
		}
	}
}

// unmeasured is an error where launches ended well and none gave a number of what is measured.
func unmeasured(j *Session) error {
	well, seen := numbersSeen(j)
	ms := j.policy.Judge.Metrics
	if well == 0 || j.policy.WholeTimed() || slices.ContainsFunc(ms, func(m metric.Metric) bool { return seen[m.Name] > 0 }) {
		return nil
	}
	if err := noSuchCase(j, seen); err != nil {
		return err
	}
	for _, p := range j.policy.Patterns {
		if slices.ContainsFunc(ms, func(m metric.Metric) bool { return m.Name == p.Metric }) {
			return matchesNothing(j, p, "the program prints", well)
		}
	}
	if len(seen) > 0 { // another may have been meant: who asks is told which there are
		return nil
	}
	return exit.Usagef("metric %s: none of %d launches that ended well gave a number of it, nor of anything else\nhint: send it on KBISECT_FD, or read it from the output, with from = \"regex\" and a pattern in [metric]; --metric wall is the time of the whole process",
		ms[0].Name, well)
}

// mustSend is unmeasured, also where launches give numbers of other metrics only; nothing is asked of them
// where nobody said what is measured.
func mustSend(t *Session, all []bisect.Outcome) error {
	if !t.policy.Measured {
		return nil
	}
	if err := unmeasured(t); err != nil {
		return err
	}
	var err error
	for _, m := range t.policy.Judge.Metrics {
		if err = sends(all, m); err == nil {
			return nil
		}
	}
	return err
}

func matchesNothing(j *Session, p policy.Pattern, printed string, well int) error {
	return exit.Usagef("%s", deadPattern(j, p, printed, well))
}

// numbersSeen counts the launches that ended well, and those that gave a number of each metric.
func numbersSeen(j *Session) (well int, seen map[string]int) {
	seen = map[string]int{}
	for _, l := range j.launches {
		if l.Outcome.Class != bisect.OK {
			continue
		}
		well++
		var names []string
		for _, s := range l.Outcome.Series {
			if len(s.Values) > 0 && !slices.Contains(names, s.Metric) {
				names = append(names, s.Metric)
				seen[s.Metric]++
			}
		}
	}
	return well, seen
}

// lastPrinted is what a pattern could have matched.
func lastPrinted(j *Session) string {
	for _, l := range j.launches {
		lines := strings.Split(strings.TrimSpace(l.Outcome.Tail), "\n")
		if last := wording.Clean(lines[len(lines)-1]); last != "" {
			return fmt.Sprintf("the last line was %.200q; a (?P<value>…) has to be a number, and (?P<unit>…) a unit", last)
		}
	}
	return "they print nothing: name the program whose output holds the numbers"
}
