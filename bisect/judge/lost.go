package judge

import (
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// Lost is a number that launches of the good end give and those of the bad end do not, such as that of a case
// which is skipped there, or not a number any more.
type Lost struct{ Metric, Case string }

func (l Lost) String() string { return channel{metric: Metric{Name: l.Metric}, one: l.Case}.name() }

// LostBetween lists what every launch of the good end gives and none of the bad end, of metrics that programs
// tell: what a build tells goes with its kernel.
func LostBetween(ms []Metric, good, bad []bisect.Outcome) (lost []Lost) {
	if len(good) == 0 || len(bad) == 0 {
		return nil
	}
	gives := func(m Metric, one string) func(bisect.Outcome) bool {
		return func(o bisect.Outcome) bool { return slices.Contains(cases(m, o), one) }
	}
	for _, m := range ms {
		if m.ofProcess() || m.Exact {
			continue
		}
		for _, one := range cases(m, good[0]) {
			lacks := func(o bisect.Outcome) bool { return !gives(m, one)(o) }
			if !slices.ContainsFunc(good, lacks) && !slices.ContainsFunc(bad, gives(m, one)) {
				lost = append(lost, Lost{m.Name, one})
			}
		}
	}
	return lost
}

// Missed is an outcome as a search sees it that looks for what was lost: one that ended well without it is wrong.
func Missed(o bisect.Outcome, lost []Lost) bisect.Outcome {
	for _, l := range lost {
		if o.Class == bisect.OK && !slices.Contains(cases(Metric{Name: l.Metric}, o), l.Case) {
			o.Class, o.Why = bisect.Wrong, "it gives no "+l.String()
			if n := len(o.Phases); n > 0 {
				o.Phase = o.Phases[n-1].Name
			}
		}
	}
	return o
}
