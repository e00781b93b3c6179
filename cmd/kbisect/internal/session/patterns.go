package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels/metrics"
)

// deadMetrics warns of what the configuration reads and no launch gave while some ended well: a pattern, or a
// case, that matches nothing.
func deadMetrics(j *Session) (out []string) {
	well, seen := NumbersSeen(j)
	if well == 0 {
		return nil
	}
	if err := NoSuchCase(j, seen); err != nil {
		return []string{err.Error()}
	}
	for _, p := range j.Policy.Patterns {
		if seen[p.Metric] > 0 {
			continue
		}
		if text := deadPattern(j, p, "the program prints", well); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// deadPattern says why a pattern gave no number, with what it could have read.
func deadPattern(j *Session, p policy.Pattern, printed string, well int) string {
	if line, value := noNumber(j, p); value != "" {
		return fmt.Sprintf("metric %s: its pattern matches, and the value that it reads, %q, is no number, in %d launches that ended well: %s\nhint: the line is %.200q; a number is as 1234.5 or 1.2e3, without marks between thousands",
			p.Metric, value, well, p.Expr, line)
	}
	return fmt.Sprintf("metric %s: its pattern matches nothing that %s, in %d launches that ended well: %s\nhint: %s", p.Metric, printed, well, p.Expr, lastPrinted(j))
}

// noNumber is the first line of what the launches printed last that a pattern matches without reading a number.
func noNumber(j *Session, p policy.Pattern) (line, value string) {
	c, err := metrics.NewPattern(p.Metric, p.Unit, p.Expr)
	if err != nil {
		return "", "" // it was checked when the configuration was read
	}
	for _, l := range j.Launches {
		if l.Outcome.Class != bisect.OK {
			continue
		}
		for line := range strings.Lines(l.Outcome.Tail) {
			if value := c.NotNumber(strings.TrimSuffix(line, "\n")); value != "" {
				return wording.Clean(strings.TrimSpace(line)), value
			}
		}
	}
	return "", ""
}

// NoSuchCase is an error where launches gave numbers of a metric, and none of the case that is asked for.
func NoSuchCase(j *Session, seen map[string]int) error {
	const most = 10
	for _, m := range j.Policy.Judge.Metrics {
		var there []string
		for _, p := range j.Pipes {
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
		return exit.Usagef("metric %s: no launch gave a number of the case %q\nhint: the cases are %q%s", m.Name, j.Policy.Cases[m.Name], there[:min(most, len(there))], more)
	}
	return nil
}
