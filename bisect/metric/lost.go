package metric

import "github.com/kbisect/kbisect/bisect"

// Lost is a number that launches of the good end give and those of the bad end do not, such as that of a case which is
// skipped there, or is not a number any more.
type Lost struct{ Metric, Case string }

func (l Lost) String() string { return Channel{Metric: Metric{Name: l.Metric}, Case: l.Case}.Name() }

// LostBetween lists what every launch of the good end gives and none of the bad end does.
func LostBetween(ms []Metric, good, bad []bisect.Outcome) (lost []Lost) {
	if len(good) == 0 || len(bad) == 0 {
		return nil
	}
	for _, m := range ms {
		if m.OfProcess() {
			continue
		}
		inGood, inBad := m.given(good), m.given(bad)
		for _, one := range Cases(m, good[0]) {
			if inGood[one] == len(good) && inBad[one] == 0 {
				lost = append(lost, Lost{m.Name, one})
			}
		}
	}
	return lost
}

// Missed is an outcome as seen by a search for what was lost: one that ended well without it is wrong.
func Missed(o bisect.Outcome, lost []Lost) bisect.Outcome {
	if o.Class != bisect.OK {
		return o
	}
	given := map[string]map[string]int{}
	for _, l := range lost {
		if given[l.Metric] == nil {
			given[l.Metric] = Metric{Name: l.Metric}.given([]bisect.Outcome{o})
		}
		if given[l.Metric][l.Case] > 0 {
			continue
		}
		o.Class, o.Why = bisect.Wrong, "it gives no "+l.String()
		if n := len(o.Phases); n > 0 {
			o.Phase = o.Phases[n-1].Name
		}
		return o
	}
	return o
}
