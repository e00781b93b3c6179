package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// deviceChart is what one device went through over the job.
type deviceChart struct {
	Name    string         `json:"name"`
	Samples []deviceSample `json:"samples"`
}

// deviceSample is one reading, before or after a launch.
type deviceSample struct {
	At          float64 `json:"at"` // seconds since the job began
	Launch      int     `json:"launch"`
	After       bool    `json:"after"`
	SMClock     float64 `json:"sm_clock"`  // MHz
	MemClock    float64 `json:"mem_clock"` // MHz
	Temperature float64 `json:"temperature"`
	PowerW      float64 `json:"power_w"`
	Throttled   string  `json:"throttled"`
	Shared      string  `json:"shared"`
}

func (p *pager) devices() Section {
	s := Section{ID: "device", Title: "The device over the job"}
	var order []string
	found := map[string][]deviceSample{}
	throttled, shared := 0, 0
	for i, l := range p.in.Launches {
		for _, n := range l.Outcome.Devices {
			before, after, ok := readings(n, l.Outcome, i+1)
			if !ok {
				continue
			}
			if found[n.UUID] == nil {
				order = append(order, n.UUID)
			}
			found[n.UUID] = append(found[n.UUID], before, after)
			throttled += count1(n.Throttled)
			shared += count1(n.Shared)
		}
	}
	if len(order) == 0 {
		return s
	}
	s.Words = fmt.Sprintf("Clock, temperature and power before and after each launch. The clocks were held down in %s, and the device was shared with others in %s.", launchWords(throttled), launchWords(shared))
	for _, id := range order {
		name := printable(p.deviceName(id))
		s.Charts = append(s.Charts, Chart{Kind: "device", Label: "Clock, temperature and power of " + name + " over the job", Data: deviceChart{name, found[id]}})
		s.Tables = append(s.Tables, deviceTable(name, found[id]))
	}
	return s
}

func launchWords(n int) string {
	if n == 1 {
		return "1 launch"
	}
	return fmt.Sprintf("%d launches", n)
}

func count1(s string) int {
	if s == "" {
		return 0
	}
	return 1
}

// readings are what a device told before and after a launch.
func readings(n bisect.DeviceNote, o bisect.Outcome, launch int) (before, after deviceSample, ok bool) {
	if json.Unmarshal(n.Before, &before) != nil || json.Unmarshal(n.After, &after) != nil {
		return before, after, false
	}
	before.At, before.Launch = o.At, launch
	after.At, after.Launch, after.After = o.At+o.Wall, launch, true
	after.Throttled, after.Shared = printable(n.Throttled), printable(n.Shared)
	return before, after, true
}

// deviceName is the device as the report lists it, else its id.
func (p *pager) deviceName(id string) string {
	for _, d := range p.Devices {
		if id != "" && strings.Contains(d, id) {
			return d
		}
	}
	return id
}

func deviceTable(name string, samples []deviceSample) Table {
	t := Table{Title: name, Columns: []string{"launch", "when", "at", "SM clock, MHz", "memory clock, MHz", "°C", "W", "held down by", "shared with"}, Right: []int{0, 2, 3, 4, 5, 6}, Behind: true}
	for _, x := range samples {
		when, state := "before", ""
		if x.After {
			when = "after"
		}
		if x.Throttled != "" || x.Shared != "" {
			state = "other"
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(x.Launch), when, secs(x.At), digits(x.SMClock), digits(x.MemClock), digits(x.Temperature), digits(x.PowerW), x.Throttled, x.Shared})
		t.States = append(t.States, state)
	}
	return t
}
