package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// gone lists the numbers asked for that launches of A gave and none of B did, of those that ended well: a case
// that is gone is no case that is well.
func gone(t *Session) []string {
	sides := map[bisect.Purpose][]bisect.Outcome{}
	for _, l := range t.launches {
		if l.Outcome.Class == bisect.OK {
			sides[l.Purpose] = append(sides[l.Purpose], l.Outcome)
		}
	}
	a, b := sides[bisect.EndGood], sides[bisect.EndBad]
	if len(b) == 0 {
		return nil
	}
	var out []string
	for _, m := range t.policy.Judge.Metrics {
		left := numbers(b, m.Name)
		for _, n := range numbers(a, m.Name) {
			if !slices.Contains(left, n) {
				out = append(out, level{Metric: n.metric, Case: n.one}.name())
			}
		}
	}
	return out
}

// goneWords is a sentence about numbers that B does not give, after that of the verdict, or "".
func goneWords(names []string) string {
	if len(names) == 0 {
		return ""
	}
	if n := len(names) - 3; n > 0 {
		names = append(slices.Clone(names[:3]), fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf(" B does not report %s, which A does: no verdict on that.", wording.Clean(strings.Join(names, ", ")))
}
