package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Change is what happened to a device between two readings.
type Change struct {
	Throttle       Counters  // for how long the clocks were held down, by reason
	Bits           Reasons   // the reasons seen in either reading
	Foreign        []Process // processes of others
	ECCErrors      uint64    // uncorrected memory errors
	RemapPending   bool      // a row of memory went bad
	RemapFailed    bool      // a bad row could not be replaced, now or earlier
	Lost           bool      // the device was lost in either reading
	RecoveryAction string    // what the driver asks for, when it asks
	Events         []Event
	Uncompared     []string // fields of Reading that could not be compared: one of the two lacks them
}

// Between compares a reading from before a trial with one from after it. The second must be taken when the trial's own
// processes have ended and left the device (Watch.Clear), and the first before they begin: then every process in
// either belongs to another user of the device. Process numbers could not show whose a process is, because the driver
// counts them outside of the container that kbisect may run in. events are those of the time between.
func Between(before, after Reading, events []Event) Change {
	c := Change{
		Bits:           (before.Reasons | after.Reasons) &^ calmReasons,
		Foreign:        foreign(before.Processes, after.Processes),
		RemapPending:   after.RemapPending && !before.RemapPending && before.Has("RemappedRows"),
		RemapFailed:    before.RemapFailed || after.RemapFailed,
		Lost:           before.Lost || after.Lost,
		RecoveryAction: cmp.Or(asked(after), asked(before)),
		Events:         slices.Clone(events),
	}
	// A count that one of the two lacks would seem to have grown from zero.
	known := func(field string) bool {
		ok := before.Has(field) && after.Has(field)
		if !ok {
			c.Uncompared = append(c.Uncompared, field)
		}
		return ok
	}
	grown := after.Counters.Sub(before.Counters)
	for _, k := range counters {
		if known(k.field) {
			*k.of(&c.Throttle) = *k.of(&grown)
		}
	}
	if known("ECCUncorrected") && after.ECCUncorrected > before.ECCUncorrected {
		c.ECCErrors = after.ECCUncorrected - before.ECCUncorrected
	}
	for _, field := range []string{"Reasons", "Processes", "RemappedRows", "RecoveryAction", "Events"} {
		known(field)
	}
	return c
}

// calmReasons are not throttling: idling, and clocks that a person chose.
const calmReasons = reasonIdle | reasonUserClocks | reasonDisplayClocks

// contextBytes is less than what a program needs to use a device. One that holds less begins or ends, or looks for another device.
const contextBytes = 32 << 20

// foreign joins two lists, without processes that hold too little in both; of a process in both, the later entry counts.
func foreign(before, after []Process) []Process {
	var out []Process
	seen := map[int]bool{}
	all := slices.Concat(after, before)
	uses := func(p Process) bool { return p.UsedBytes == 0 || p.UsedBytes >= contextBytes }
	for _, p := range all {
		if !seen[p.PID] && slices.ContainsFunc(all, func(o Process) bool { return o.PID == p.PID && uses(o) }) {
			out = append(out, p)
		}
		seen[p.PID] = true
	}
	return out
}

// asked is the recovery that the driver wants, or "".
func asked(r Reading) string {
	if r.RecoveryAction == recoveryNone {
		return ""
	}
	return r.RecoveryAction
}

// Throttled reports whether the clocks were held down in a way that spoils a timing, and names everything that held
// them down, even what does not count. Thermal slowdown by software or hardware, the power brake, and a hardware
// slowdown without a reason count, however short they were: a bit in either reading, or a counter that grew. A healthy
// device shows none of them. The power cap and sync boost do not count: they are the normal state of many cards under
// full load, and hold down every candidate alike.
//
// (nvbench discards a sample, for whatever reason, if the clock during it was under 75 % of the default. A power cap
// seldom goes that low; the others do.)
func (c Change) Throttled() (bool, string) {
	const always = reasonHWSlowdown | reasonSWThermal | ReasonHWThermal | reasonHWPowerBrake
	hit, shown := c.Bits&always != 0, c.Bits
	for _, k := range counters {
		if *k.of(&c.Throttle) > 0 {
			hit = hit || k.bit&always != 0
			shown &^= k.bit // the counter says more
		}
	}
	parts := []string{c.Throttle.String()}
	if shown != 0 {
		parts = append(parts, shown.String())
	}
	return hit, joined(", ", parts)
}

// Shared reports whether others used the device, and names them.
func (c Change) Shared() (bool, string) {
	if len(c.Foreign) == 0 {
		return false, ""
	}
	const most = 3
	var parts []string
	for i, p := range c.Foreign {
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more", len(c.Foreign)-most))
			break
		}
		text := fmt.Sprintf("process %d", p.PID)
		if p.UsedBytes > 0 {
			text += fmt.Sprintf(" (%.1f GiB)", float64(p.UsedBytes)/(1<<30))
		}
		parts = append(parts, text)
	}
	return true, "the device was shared with " + strings.Join(parts, ", ")
}

// Fault says in words what is wrong with the machine, or "" when nothing is.
// Events that are the program's fault, or of an unknown kind, are not in it.
func (c Change) Fault() string {
	var parts []string
	add := func(is bool, text string) {
		if is && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	add(c.Lost, "the GPU is lost")
	add(c.RecoveryAction != "", "the driver asks to "+c.RecoveryAction)
	for _, e := range c.Events {
		add(e.kind() == kindMachine, e.String())
	}
	add(c.ECCErrors > 0, fmt.Sprintf("%d uncorrected memory errors (ECC)", c.ECCErrors))
	add(c.RemapFailed, "a bad row of memory could not be replaced")
	add(c.RemapPending, "a row of memory went bad; a reset of the GPU replaces it")
	return joined("; ", parts)
}

// joined is strings.Join without the empty parts.
func joined(sep string, parts []string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
