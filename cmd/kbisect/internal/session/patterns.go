package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/kernels/metrics"
)

// deadMetrics warns about configured patterns and cases that matched nothing although launches passed. The texts are
// those of the errors that the same mistakes give where nothing else was measured.
func deadMetrics(s *Session) (out []string) {
	passed, seen := NumbersSeen(s)
	if passed == 0 {
		return nil
	}
	if err := noSuchCase(s, seen); err != nil {
		return []string{err.Error()}
	}
	for _, p := range s.Policy.Patterns {
		if seen[p.Metric] > 0 {
			continue
		}
		if text := matchesNothing(s, p, passed).Error(); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// matchesNothing is the error of a pattern that read no number in so many successful launches: why it did not, and
// what it could have read.
func matchesNothing(s *Session, p policy.Pattern, passed int) error {
	launches := words.Count(passed, "successful launch")
	if line, value := notNumber(s, p); value != "" {
		return exit.Usagef("metric %s: its pattern matches %q, which is not a number, in %s: %s\nhint: the line is %.200q; write numbers as 1234.5 or 1.2e3, without thousands separators",
			p.Metric, value, launches, p.Expr, line)
	}
	return exit.Usagef("metric %s: its pattern matches nothing in the output of %s: %s\nhint: %s", p.Metric, launches, p.Expr, lastPrinted(s))
}

// notNumber is the first line that a pattern matches without reading a number, and what it reads instead: mostly a
// number with thousands separators.
func notNumber(s *Session, p policy.Pattern) (line, value string) {
	c, err := metrics.NewPattern(p.Metric, p.Unit, p.Expr)
	if err != nil {
		return "", "" // it was checked when the configuration was read
	}
	for _, l := range s.Launches {
		if l.Outcome.Class != bisect.OK {
			continue
		}
		for line := range strings.Lines(l.Outcome.Tail) {
			if value := c.NotNumber(strings.TrimSuffix(line, "\n")); value != "" {
				return words.Printable(strings.TrimSpace(line)), value
			}
		}
	}
	return "", ""
}

// noSuchCase is a usage error if launches reported a metric but not the case that is asked for; nil otherwise. It lists
// up to ten of the cases that they did report. seen counts launches by metric, as [NumbersSeen] does.
func noSuchCase(s *Session, seen map[string]int) error {
	const most = 10
	for _, m := range s.Policy.Judge.Metrics {
		var there []string
		for _, p := range s.Pipes {
			there = append(there, p.OtherCases(m.Name)...)
		}
		if len(there) == 0 || seen[m.Name] > 0 {
			continue
		}
		slices.Sort(there)
		there = slices.Compact(there)
		more := ""
		if len(there) > most {
			more = fmt.Sprintf(", and %d more", len(there)-most)
		}
		return exit.Usagef("metric %s: no launch reported the case %q\nhint: the cases are %q%s", m.Name, s.Policy.Cases[m.Name], there[:min(most, len(there))], more)
	}
	return nil
}
