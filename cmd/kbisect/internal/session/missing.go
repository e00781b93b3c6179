package session

import (
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Passed are the launches with this purpose that ended well.
func Passed(s *Session, purpose bisect.Purpose) (out []bisect.Outcome) {
	for _, l := range s.Launches {
		if l.Purpose == purpose && l.Outcome.Class == bisect.OK {
			out = append(out, l.Outcome)
		}
	}
	return out
}

// gone lists the numbers asked for that A reported and B did not. A missing case must not pass for an unchanged one.
func gone(s *Session) (out []string) {
	for _, l := range metric.LostBetween(s.Policy.Judge.Metrics, Passed(s, bisect.EndGood), Passed(s, bisect.EndBad)) {
		out = append(out, l.String())
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
