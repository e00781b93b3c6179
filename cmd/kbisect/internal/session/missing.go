package session

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// gone lists the numbers asked for that successful launches of A reported and none of B did. A missing case must
// not pass for an unchanged one.
func gone(s *Session) []string {
	sides := map[bisect.Purpose][]bisect.Outcome{}
	for _, l := range s.Launches {
		if l.Outcome.Class == bisect.OK {
			sides[l.Purpose] = append(sides[l.Purpose], l.Outcome)
		}
	}
	a, b := sides[bisect.EndGood], sides[bisect.EndBad]
	if len(b) == 0 {
		return nil
	}
	var out []string
	for _, m := range s.Policy.Judge.Metrics {
		left := Numbers(b, m.Name)
		for _, n := range Numbers(a, m.Name) {
			if !slices.Contains(left, n) {
				out = append(out, n.name())
			}
		}
	}
	return out
}

// goneWords is a sentence about numbers that B does not report, to follow the verdict; "" if there are none.
func goneWords(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" B does not report %s, which A does: no verdict on that.", words.Printable(words.Listed(names, 3)))
}
