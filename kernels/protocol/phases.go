package protocol

import (
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
		return teardown
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
		return teardown
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

// teardownBegan is when a teardown began that is more than inferred; negative if none has.
func (p *Reader) teardownBegan() time.Duration {
	switch {
	case p.settled:
		return p.sent.at
	case p.clock.isClosed:
		return p.clock.closedAt
	}
	return -1
}

// Close says that the program closed its descriptor, so the teardown begins. Like Line it
// returns the phase in force if that changed. A process that ends closes its descriptor
// too, a moment before its end is known: see Ended.
func (p *Reader) Close(at time.Duration) (phase string) {
	before := p.Phase()
	if p.Speaks() {
		p.clock.close(at)
	}
	if after := p.Phase(); after != before {
		return after
	}
	return ""
}

// Ended says that the process ended by itself, by exit or by a signal. The closed
// descriptor then means nothing, and Phase is the one before.
func (p *Reader) Ended() { p.clock.isClosed = false }

// Quiet reports whether a trial that a limit ended at `at` hung in its teardown, for
// programs that send a varying number of lines. Its last line must have been a result in
// the phase in which the good trial ended, and its silence since must be longer than the
// limit of the teardown and than quietTimes any earlier pause.
func (p *Reader) Quiet(at, teardown time.Duration) bool {
	s := &p.sent
	if p.Expect == nil || !s.result || !p.Expect.reached(s) || p.Expect.Phase != p.name(s.top) || len(p.clock.stack) > s.depth {
		return false
	}
	return at-s.at >= max(teardown, quietTimes*s.gap)
}

// Patience is how long an inferred teardown may last: its limit, or longer for a program
// with long pauses, which may send more after all. 0 means no limit.
func (p *Reader) Patience(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return max(limit, quietTimes*p.sent.gap)
}

// quietTimes is how many times longer than any pause between two lines a silence must be.
const quietTimes = 4

// TeardownInferred reports whether the teardown is only inferred: the program has sent as
// much as a good one, but has not closed its descriptor.
func (p *Reader) TeardownInferred() bool { return p.clock.top() == unconfirmed && !p.clock.isClosed }

// Settle assigns the silence after the last line to the teardown, see Quiet.
func (p *Reader) Settle() { p.settled = p.Speaks() }

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
		out = addPhase(out, p.name(b.name), b.time)
	}
	return out
}

func addPhase(all []bisect.PhaseTime, name string, d time.Duration) []bisect.PhaseTime {
	for i := range all {
		if all[i].Name == name {
			all[i].Seconds += d.Seconds()
			return all
		}
	}
	return append(all, bisect.PhaseTime{Name: name, Seconds: d.Seconds()})
}
