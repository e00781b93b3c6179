package gpu

import (
	"strings"
	"time"
)

// Counters are the driver's own totals of the time for which the clocks were
// held down, by reason. Their difference over a trial misses nothing, where
// polling Reasons misses everything shorter than the polling period.
type Counters struct {
	SWPowerCap   time.Duration
	SyncBoost    time.Duration
	SWThermal    time.Duration
	HWThermal    time.Duration
	HWPowerBrake time.Duration
}

// counters describes the fields of Counters, in the order of the text.
var counters = [...]struct {
	field string // as in Absent
	words string
	bit   Reasons
	of    func(*Counters) *time.Duration
}{
	{"SWPowerCap", "power cap", reasonSWPowerCap, func(c *Counters) *time.Duration { return &c.SWPowerCap }},
	{"SyncBoost", "sync boost", reasonSyncBoost, func(c *Counters) *time.Duration { return &c.SyncBoost }},
	{"SWThermal", "thermal slowdown", reasonSWThermal, func(c *Counters) *time.Duration { return &c.SWThermal }},
	{"HWThermal", "hardware thermal slowdown", ReasonHWThermal, func(c *Counters) *time.Duration { return &c.HWThermal }},
	{"HWPowerBrake", "power brake", reasonHWPowerBrake, func(c *Counters) *time.Duration { return &c.HWPowerBrake }},
}

// Sub returns how much each counter grew from before to c. A counter that went
// back (the driver was reloaded in between) counts as zero.
func (c Counters) Sub(before Counters) Counters {
	var grown Counters
	for _, k := range counters {
		*k.of(&grown) = max(*k.of(&c)-*k.of(&before), 0)
	}
	return grown
}

// String lists the counters that are not zero, as
// "power cap 1.2s, thermal slowdown 300ms"; it is "" when none is.
func (c Counters) String() string {
	var parts []string
	for _, k := range counters {
		if d := *k.of(&c); d > 0 {
			parts = append(parts, k.words+" "+d.Round(time.Microsecond).String())
		}
	}
	return strings.Join(parts, ", ")
}
