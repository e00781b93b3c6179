package protocol

import (
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// Speaks reports whether the program itself sent anything that this protocol knows; stretches are
// the words of the probe.
func (p *Reader) Speaks() bool { return p.sent.facts > 0 }

// name is the name of a phase of the clock.
func (p *Reader) name(top string) string {
	switch {
	case top == supposition:
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

// Phase is the phase in force, or the innermost stretch within it.
func (p *Reader) Phase() string {
	if p.settled {
		return teardown
	}
	return p.name(p.clock.top())
}

// Spent is the time that went to a phase until at, over all its stretches.
func (p *Reader) Spent(phase string, at time.Duration) time.Duration {
	var d time.Duration
	for _, b := range p.clock.until(at, p.begun()) {
		if p.name(b.name) == phase {
			d += b.time
		}
	}
	return d
}

// begun is when a teardown began that is not merely supposed, negative if none has.
func (p *Reader) begun() time.Duration {
	switch {
	case p.settled:
		return p.sent.at
	case p.clock.isClosed:
		return p.clock.closed
	}
	return -1
}

// Close says that the program has closed its descriptor: no line can come, so the teardown begins.
// It returns the phase in force if that has changed it, as Line does. The descriptor of a process
// that ends is closed too, and a moment before its end is known: see Ended.
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

// Ended says that the process ended by itself, by exit or by a signal. That the descriptor was
// closed means nothing then, and Phase is the one before.
func (p *Reader) Ended() { p.clock.isClosed = false }

// Quiet reports whether a trial that a limit has ended at `at` hung in its teardown, for programs
// that do not send the same number of lines each time: its last line was a result, in the phase in
// which the good trial ended, and it was silent since for longer than the limit of the teardown and
// than any computation of its between two lines.
func (p *Reader) Quiet(at, teardown time.Duration) bool {
	s := &p.sent
	if p.Expect == nil || !s.result || !p.Expect.reached(s) || p.Expect.Phase != p.name(s.top) || len(p.clock.stack) > s.depth {
		return false
	}
	return at-s.at >= max(teardown, quietTimes*s.gap)
}

// Patience is how long a supposed teardown may be silent: its limit, but longer than any
// computation between two lines, for a program that may after all send more.
func (p *Reader) Patience(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return max(limit, quietTimes*p.sent.gap)
}

// quietTimes is how many times the longest pause between two lines a silence must last.
const quietTimes = 4

// Supposed reports whether the teardown is no more than supposed: the program has said as much as a
// good one, but has not closed its descriptor.
func (p *Reader) Supposed() bool { return p.clock.top() == supposition && !p.clock.isClosed }

// Settle gives the silence after the last line to the teardown, see Quiet.
func (p *Reader) Settle() { p.settled = p.Speaks() }

// Phases are the times spent in each phase, in the order of first entry; they add up to wall. The
// start of the process is load, from its last line to its exit is teardown, unless the last line
// itself entered a phase. A killed process had no teardown, unless Phase says so: all its time
// belongs to the phase in which it died. A program that said nothing is one `run` phase, less its
// stretches.
func (p *Reader) Phases(wall time.Duration, killed bool) []bisect.PhaseTime {
	from := time.Duration(-1)
	switch {
	case killed || p.settled:
		from = p.begun()
	case p.Speaks() && !p.sent.phase && !p.clock.deep:
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
