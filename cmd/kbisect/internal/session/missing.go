package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// Gone lists the numbers asked for that launches of A gave and none of B did, of those that ended well: a case
// that is gone is no case that is well.
func Gone(t *Session) []string {
	sides := map[bisect.Purpose][]bisect.Outcome{}
	for _, l := range t.Launches {
		if l.Outcome.Class == bisect.OK {
			sides[l.Purpose] = append(sides[l.Purpose], l.Outcome)
		}
	}
	a, b := sides[bisect.EndGood], sides[bisect.EndBad]
	if len(b) == 0 {
		return nil
	}
	var out []string
	for _, m := range t.Policy.Judge.Metrics {
		left := Numbers(b, m.Name)
		for _, n := range Numbers(a, m.Name) {
			if !slices.Contains(left, n) {
				out = append(out, n.name())
			}
		}
	}
	return out
}

// GoneWords is a sentence about numbers that B does not give, after that of the verdict, or "".
func GoneWords(names []string) string {
	if len(names) == 0 {
		return ""
	}
	if n := len(names) - 3; n > 0 {
		names = append(slices.Clone(names[:3]), fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf(" B does not report %s, which A does: no verdict on that.", wording.Clean(strings.Join(names, ", ")))
}
