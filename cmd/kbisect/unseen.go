package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
)

// unseenMetrics tells ends that give no number of what was asked for from ends that do not differ: a
// pattern that matches nothing is a mistake that would otherwise look like an answer. Where some launches
// gave one, it is told.
func (j *job) unseenMetrics(f bisect.Finding) error {
	if f.Result != bisect.NoDifference || j.policy.Judge.Find != "" && j.policy.Judge.Find != bisect.Slow {
		return nil
	}
	well, seen := j.numbersSeen()
	for _, m := range j.policy.Judge.Metrics {
		if n := seen[m.Name]; n > 0 && n < well {
			j.policy.Warnings = append(j.policy.Warnings, fmt.Sprintf("%d of %d launches that ended well gave no number of %s", well-n, well, m.Name))
		}
	}
	matched := func(p pattern) bool { return seen[p.Metric] > 0 }
	if well == 0 || len(j.policy.Patterns) == 0 || slices.ContainsFunc(j.policy.Patterns, matched) {
		return nil
	}
	return j.matchesNothing(j.policy.Patterns[0], "the ends print", well)
}

// unmeasured is an error where launches ended well and none gave a number of what is measured.
func (j *job) unmeasured() error {
	well, seen := j.numbersSeen()
	ms := j.policy.Judge.Metrics
	if well == 0 || j.policy.wholeTimed() || slices.ContainsFunc(ms, func(m judge.Metric) bool { return seen[m.Name] > 0 }) {
		return nil
	}
	for _, p := range j.policy.Patterns {
		if slices.ContainsFunc(ms, func(m judge.Metric) bool { return m.Name == p.Metric }) {
			return j.matchesNothing(p, "the program prints", well)
		}
	}
	if len(seen) > 0 { // another may have been meant: who asks is told which there are
		return nil
	}
	return usagef("metric %s: none of %d launches that ended well gave a number of it, nor of anything else\nhint: send it on KBISECT_FD, or read it from the output, with from = \"regex\" and a pattern in [metric]; --metric wall is the time of the whole process",
		ms[0].Name, well)
}

// mustSend is unmeasured, also where launches give numbers of other metrics only; nothing is asked of them
// where nobody said what is measured.
func (t *trials) mustSend(all []bisect.Outcome) error {
	if !t.policy.measured {
		return nil
	}
	if err := t.unmeasured(); err != nil {
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

func (j *job) matchesNothing(p pattern, printed string, well int) error {
	return usagef("metric %s: its pattern matches nothing that %s, in %d launches that ended well: %s\nhint: %s", p.Metric, printed, well, p.Expr, j.lastPrinted())
}

// numbersSeen counts the launches that ended well, and those that gave a number of each metric.
func (j *job) numbersSeen() (well int, seen map[string]int) {
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
func (j *job) lastPrinted() string {
	for _, l := range j.launches {
		lines := strings.Split(strings.TrimSpace(l.Outcome.Tail), "\n")
		if last := clean(lines[len(lines)-1]); last != "" {
			return fmt.Sprintf("the last line was %.200q; a (?P<value>…) has to be a number, and (?P<unit>…) a unit", last)
		}
	}
	return "they print nothing: name the program whose output holds the numbers"
}
