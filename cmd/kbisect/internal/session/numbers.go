package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// Unmeasured is a usage error if launches passed and none reported a metric that is compared. It names the most likely
// cause: a case that does not exist, a pattern that matches nothing, or a program that reports no numbers at all. It is
// nil if a metric of the whole process is compared, which every launch has.
func Unmeasured(s *Session) error {
	passed, seen := NumbersSeen(s)
	ms := s.Policy.Judge.Metrics
	if passed == 0 || s.Policy.WholeTimed() || slices.ContainsFunc(ms, func(m metric.Metric) bool { return seen[m.Name] > 0 }) {
		return nil
	}
	if err := NoSuchCase(s, seen); err != nil {
		return err
	}
	for _, p := range s.Policy.Patterns {
		if slices.ContainsFunc(ms, func(m metric.Metric) bool { return m.Name == p.Metric }) {
			return MatchesNothing(s, p, passed)
		}
	}
	if len(seen) > 0 { // another metric may have been meant: the caller's error lists them
		return nil
	}
	return exit.Usagef("metric %s: not reported in %s, nor is any other metric\nhint: send it on KBISECT_FD, or read it from the output with from = \"regex\" and a pattern in [metric]; --metric wall is the time of the whole process, --metric cpu its processor time",
		ms[0].Name, words.Count(passed, "successful launch"))
}

// MustSend is a usage error if launches reported none of the configured metrics, even if they reported others: what
// is recorded as a baseline, or lets a branch pass, has to be about what was asked for.
func MustSend(s *Session, all []bisect.Outcome) error {
	if !s.Policy.Measured {
		return nil
	}
	if err := Unmeasured(s); err != nil {
		return err
	}
	var err error
	for _, m := range s.Policy.Judge.Metrics {
		if err = sends(all, m); err == nil {
			return nil
		}
	}
	return err
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
