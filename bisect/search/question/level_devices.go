package question

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
)

// When devices count as different: by how many standard deviations of a normal their steps are apart, and after how many
// launches of each end.
const (
	oddDevice   = 3.5 // calls for more launches
	otherDevice = 4.0
	tellOdd     = 3
)

// byDevice is the step of a channel on each device, and how launches of one end on one device scatter: the sum of the squares
// with its degrees of freedom.
func (s *stage) byDevice(c metric.Channel) (out []levels.OnDevice, squares, free float64) {
	q := s.q.With(c)
	for _, device := range search.Devices(s.r.Ledger) {
		var seen [2][]float64
		for side, i := range []int{belief.GoodEnd, s.r.Span.Bad()} {
			for _, t := range s.r.Ledger.Of(s.r.Span.Id(i), s.r.Span.Purpose(i)) {
				if l, a := q.Read(t); a == search.Speaks && !l.Censored && t.On == device {
					seen[side] = append(seen[side], l.Y)
				}
			}
			m := metric.Median(seen[side])
			for _, y := range seen[side] {
				squares += (y - m) * (y - m)
			}
			free += float64(max(0, len(seen[side])-1))
		}
		if n := min(len(seen[0]), len(seen[1])); n > 0 {
			out = append(out, levels.OnDevice{Device: device, Step: metric.Median(seen[1]) - metric.Median(seen[0]), Launches: n})
		}
	}
	return out, squares, free
}

// setApart looks for a device on which the ends differ by something else than on the others, and leaves it out. The times of
// two devices are not compared, only how much each changes.
func (s *stage) setApart(pick int) (apart bool, err error) {
	r := s.r
	if s.q.Part != nil || len(s.q.Channels) == 0 {
		return false, nil
	}
	c := s.q.Channels[pick]
	for {
		all, squares, free := s.byDevice(c)
		x, others, z := levels.Odd(all, squares, free)
		switch {
		case len(all) < 2 || len(all) < len(search.Devices(r.Ledger)) || z < oddDevice || r.Over() != "":
			return false, nil
		case x.Launches < tellOdd || all[0].Launches < tellOdd && len(all) == 2:
			if err := s.once(slices.Compact([]int{all[0].Device, x.Device})); err != nil {
				return false, err
			}
			continue
		case z < otherDevice:
			return false, nil
		}
		search.SetApart(r, x.Device, fmt.Sprintf("%s of the bad end: %s on %s, %s on the others", c.Name(),
			words.Change(s.q.Effect(x.Step, 0).Ratio), search.DeviceName(r.Ledger, x.Device), words.Change(s.q.Effect(others, 0).Ratio)))
		return true, nil
	}
}

// once launches both ends once more on some devices.
func (s *stage) once(devices []int) error {
	ends := []int{belief.GoodEnd, s.r.Span.Bad()}
	var next []search.Wanted
	for _, d := range devices {
		for _, i := range ends {
			next = append(next, search.Wanted{Commit: s.r.Span.Id(i), Purpose: s.r.Span.Purpose(i), On: d})
		}
	}
	// They count as pairs of the comparison like any others.
	s.pairs, s.fresh = s.pairs+len(devices), s.fresh+len(devices)
	return s.all(next)
}

// all makes announced launches of the ends.
func (s *stage) all(next []search.Wanted) error {
	search.Announce(s.r, next)
	for _, w := range next {
		t, err := s.r.Launch(w.Commit, w.Purpose)
		if err != nil {
			return err
		}
		s.r.Vain++
		s.add(t, s.r.Span.Place(w.Commit))
	}
	return nil
}
