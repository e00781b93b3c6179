package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// unseenMetrics tells ends that give no number of what was asked for from ends that do not differ: a
// pattern that matches nothing is a mistake that would otherwise look like an answer. Where some launches
// gave one, it is told.
func (j *job) unseenMetrics(f bisect.Finding) error {
	if f.Result != bisect.NoDifference || j.policy.Judge.Find != "" && j.policy.Judge.Find != bisect.Slow {
		return nil
	}
	well := 0
	seen := map[string]int{}
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
	for _, m := range j.policy.Judge.Metrics {
		if n := seen[m.Name]; n > 0 && n < well {
			j.policy.Warnings = append(j.policy.Warnings, fmt.Sprintf("%d of %d launches that ended well gave no number of %s", well-n, well, m.Name))
		}
	}
	matched := func(p pattern) bool { return seen[p.Metric] > 0 }
	if well == 0 || len(j.policy.Patterns) == 0 || slices.ContainsFunc(j.policy.Patterns, matched) {
		return nil
	}
	p := j.policy.Patterns[0]
	return usagef("metric %s: its pattern matches nothing that the ends print, in %d launches that ended well: %s\nhint: %s",
		p.Metric, well, p.Expr, j.lastPrinted())
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
