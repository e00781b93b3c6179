package protocol

import (
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// Speaks reports whether the program itself sent a line that was understood. Spans do not
// count, as the probe sends them.
func (p *Reader) Speaks() bool { return p.sent.facts > 0 }

// name is the reported name of a phase of the clock.
func (p *Reader) name(top string) string {
	switch {
	case top == unconfirmed:
		return Teardown
	case top != "":
		return top
	case p.Base != "":
		return p.Base
	case p.Speaks():
		return "load"
	}
	return "run"
}

// Phase is the phase in force, or the innermost span inside it.
func (p *Reader) Phase() string {
	if p.settled {
		return Teardown
	}
	return p.name(p.clock.top())
}

// Spent is the total time of a phase up to at.
func (p *Reader) Spent(phase string, at time.Duration) time.Duration {
	var d time.Duration
	for _, b := range p.clock.until(at, p.teardownBegan()) {
		if p.name(b.name) == phase {
			d += b.time
		}
	}
	return d
}

// Phases returns the time of each phase, in the order of first entry; they add up to wall.
// The start of the process is load. The time from its last line to its exit is teardown,
// unless that line entered a phase. A killed process had no teardown unless Phase says
// so: its time belongs to the phase in which it died. A program that sent nothing has one
// phase, run, and its spans.
func (p *Reader) Phases(wall time.Duration, killed bool) []bisect.PhaseTime {
	from := time.Duration(-1)
	switch {
	case killed || p.settled:
		from = p.teardownBegan()
	case p.Speaks() && !p.sent.phase && !p.clock.opened:
		from = p.clock.now
	}
	var out []bisect.PhaseTime
	for _, b := range p.clock.until(wall, from) {
		out = AddPhase(out, p.name(b.name), b.time.Seconds())
	}
	return out
}

// AddPhase adds to the time of a phase in a list, which may begin with it there.
func AddPhase(all []bisect.PhaseTime, name string, seconds float64) []bisect.PhaseTime {
	if i := slices.IndexFunc(all, func(p bisect.PhaseTime) bool { return p.Name == name }); i >= 0 {
		all[i].Seconds += seconds
		return all
	}
	return append(all, bisect.PhaseTime{Name: name, Seconds: seconds})
}
