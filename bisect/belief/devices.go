package belief

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

const (
	clockSpread = 0.01 // relative spread of a clock from which a search warns (judge.md 3, "Environment check")
	fewClocks   = 12   // launches; below, nothing is said of a clock
)

// DeviceLog is what the launches tell of the machine besides their times. The zero value has seen none.
type DeviceLog struct {
	launches, throttled, shared, stalled int
	clocks                               map[string][]float64 // of the devices, after each launch, MHz
}

// Note takes in a launch.
func (s *DeviceLog) Note(o bisect.Outcome) {
	s.launches++
	count := func(n *int, kind bisect.MarkKind) {
		if slices.ContainsFunc(o.Marks, func(m bisect.Mark) bool { return m.Kind == kind }) {
			*n++
		}
	}
	count(&s.throttled, bisect.Throttled)
	count(&s.shared, bisect.Shared)
	count(&s.stalled, bisect.Stalled)
	if s.clocks == nil {
		s.clocks = map[string][]float64{}
	}
	for _, d := range o.Devices {
		var after struct {
			Clock float64 `json:"sm_clock"`
		}
		if json.Unmarshal(d.After, &after) == nil && after.Clock > 0 {
			s.clocks[d.UUID] = append(s.clocks[d.UUID], after.Clock)
		}
	}
}

// spread is the largest relative spread of the clock of a device, from the 10th to the 90th percentile. A device whose
// clock was below half of its highest had gone idle after the launch, which says nothing about the launch.
func (s *DeviceLog) spread() float64 {
	most := 0.0
	for _, v := range s.clocks {
		v = slices.Sorted(slices.Values(v))
		busy := slices.DeleteFunc(v, func(x float64) bool { return x < v[len(v)-1]/2 })
		if len(busy) >= fewClocks {
			most = max(most, (busy[len(busy)*9/10]-busy[len(busy)/10])/busy[len(busy)/2])
		}
	}
	return most
}

// Warnings says what is wrong with the machine and what to do: whatever happened in more than one launch of twenty.
func (s *DeviceLog) Warnings() []string {
	var out []string
	add := func(n int, what, hint string) {
		if n > 0 && n*20 > s.launches {
			out = append(out, fmt.Sprintf("%s during %d of %d launches\nhint: %s", what, n, s.launches, hint))
		}
	}
	add(s.shared, "another process used the device", "free the device, or choose another one with [device] gpus")
	add(s.throttled, "the device was throttled", "let it cool, lower its clocks with nvidia-smi --lock-gpu-clocks, or choose another one with [device] gpus")
	add(s.stalled, "this machine stalled", "run nothing else on it meanwhile")
	if d := s.spread(); d > clockSpread && s.throttled == 0 {
		out = append(out, fmt.Sprintf("the clock of the device differed by %.1f %% from launch to launch\nhint: fix it with nvidia-smi --lock-gpu-clocks", 100*d))
	}
	return out
}
