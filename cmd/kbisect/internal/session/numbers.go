package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// Unmeasured is an error where launches ended well and none gave a number of what is measured.
func Unmeasured(j *Session) error {
	well, seen := NumbersSeen(j)
	ms := j.Policy.Judge.Metrics
	if well == 0 || j.Policy.WholeTimed() || slices.ContainsFunc(ms, func(m metric.Metric) bool { return seen[m.Name] > 0 }) {
		return nil
	}
	if err := NoSuchCase(j, seen); err != nil {
		return err
	}
	for _, p := range j.Policy.Patterns {
		if slices.ContainsFunc(ms, func(m metric.Metric) bool { return m.Name == p.Metric }) {
			return MatchesNothing(j, p, "the program prints", well)
		}
	}
	if len(seen) > 0 { // another may have been meant: who asks is told which there are
		return nil
	}
	return exit.Usagef("metric %s: none of %d launches that ended well gave a number of it, nor of anything else\nhint: send it on KBISECT_FD, or read it from the output, with from = \"regex\" and a pattern in [metric]; --metric wall is the time of the whole process",
		ms[0].Name, well)
}

// MustSend is unmeasured, also where launches give numbers of other metrics only; nothing is asked of them
// where nobody said what is measured.
func MustSend(t *Session, all []bisect.Outcome) error {
	if !t.Policy.Measured {
		return nil
	}
	if err := Unmeasured(t); err != nil {
		return err
	}
	var err error
	for _, m := range t.Policy.Judge.Metrics {
		if err = sends(all, m); err == nil {
			return nil
		}
	}
	return err
}

func MatchesNothing(j *Session, p policy.Pattern, printed string, well int) error {
	return exit.Usagef("%s", deadPattern(j, p, printed, well))
}

// NumbersSeen counts the launches that ended well, and those that gave a number of each metric.
func NumbersSeen(j *Session) (well int, seen map[string]int) {
	seen = map[string]int{}
	for _, l := range j.Launches {
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
	for _, l := range j.Launches {
		lines := strings.Split(strings.TrimSpace(l.Outcome.Tail), "\n")
		if last := wording.Clean(lines[len(lines)-1]); last != "" {
			return fmt.Sprintf("the last line was %.200q; a (?P<value>…) has to be a number, and (?P<unit>…) a unit", last)
		}
	}
	return "they print nothing: name the program whose output holds the numbers"
}
