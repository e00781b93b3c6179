package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// Unmeasured is a usage error if launches passed and none reported a metric that the user configured or asked for: that
// must not be taken for "no difference", nor a branch or a baseline be judged by another number. It names the most
// likely cause: a case that does not exist, a pattern that matches nothing, another name, or a program that reports no
// numbers at all. It is nil if a metric of the whole process is compared, which every launch has.
func Unmeasured(s *Session) error {
	passed, seen := NumbersSeen(s)
	ms := s.Policy.Judge.Metrics
	asked := s.Policy.Measured || s.Policy.Asked != ""
	if passed == 0 || !asked || slices.ContainsFunc(ms, func(m metric.Metric) bool { return m.OfProcess() || seen[m.Name] > 0 }) {
		return nil
	}
	if err := noSuchCase(s, seen); err != nil {
		return err
	}
	for _, p := range s.Policy.Patterns {
		if slices.ContainsFunc(ms, func(m metric.Metric) bool { return m.Name == p.Metric }) {
			return matchesNothing(s, p, passed)
		}
	}
	if len(seen) == 0 {
		return exit.Usagef("metric %s: not reported in %s, nor is any other metric\nhint: send it on KBISECT_FD, or read it from the output with from = \"regex\" and a pattern in [metric]; --metric wall is the time of the whole process, --metric cpu its processor time",
			metric.Names(ms), words.Count(passed, "successful launch"))
	}
	var known []string
	for _, l := range s.Launches {
		known = append(known, metric.Sent(l.Outcome)...)
	}
	slices.Sort(known)
	return exit.Usage(&compare.UnknownMetricError{Wanted: metric.Names(ms), Sent: slices.Compact(known)})
}

// NumbersSeen counts the successful launches, and those of them that reported each metric, by name.
func NumbersSeen(s *Session) (passed int, seen map[string]int) {
	seen = map[string]int{}
	for _, l := range s.Launches {
		if l.Outcome.Class != bisect.OK {
			continue
		}
		passed++
		var names []string
		for _, x := range l.Outcome.Series {
			if len(x.Values) > 0 && !slices.Contains(names, x.Metric) {
				names = append(names, x.Metric)
				seen[x.Metric]++
			}
		}
	}
	return passed, seen
}

// lastPrinted is the hint for a pattern that matched nothing: the last line of the first launch that printed anything.
// Benchmarks mostly print their result last.
func lastPrinted(s *Session) string {
	for _, l := range s.Launches {
		lines := strings.Split(strings.TrimSpace(l.Outcome.Tail), "\n")
		if last := words.Printable(lines[len(lines)-1]); last != "" {
			return fmt.Sprintf("the last line was %.200q; (?P<value>…) must match a number and (?P<unit>…) a unit", last)
		}
	}
	return "the launches print nothing: run the program that prints the numbers"
}
