package protocol

import (
	"maps"
	"time"
)

// A teardown begins with the first of these; all of them are decided in this file.
//
//   - The program enters it, by `phase: teardown`. That is an ordinary phase.
//   - It closes its descriptor ([Reader.Close]).
//   - It has sent exactly what a good trial sends ([Shape]). One more line revokes that, so that a time-out in such a
//     teardown is only supposed and is confirmed by another trial ([Reader.TeardownInferred]).
//   - A limit ended it, and it had been silent for long after as many lines as a good trial sends at least
//     ([Reader.HitLimit]).
//
// A program that ends by itself was in the phase of its last line: a process that ends closes its descriptor too
// ([Reader.Ended]).

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

// Complete reports that the program has sent exactly what a good one sends, found nothing wrong, and says itself that
// only its teardown is left.
func (p *Reader) Complete() bool {
	e, s := p.Expect, &p.sent
	said := p.results.said
	return e != nil && !p.Varies && s.phase && e.Phase == Teardown && p.clock.top() == Teardown && e.Before == s.before && e.Lines == s.total &&
		said.Wrong == "" && said.Skip == "" && said.Infra == ""
}

// met reports whether a trial has sent exactly what was expected; phase is that of its last line.
func (e *Shape) met(s *sent, phase string) bool {
	return e != nil && s.facts > 0 && !s.phase && phase != Teardown &&
		e.Phase == phase && e.Result == s.result && maps.Equal(e.Kinds, s.kinds) && e.Before == s.before
}

// reached reports whether a trial has sent at least as many lines of each kind in its last phase.
func (e *Shape) reached(s *sent) bool {
	for kind, n := range e.Kinds {
		if s.kinds[kind] < n {
			return false
		}
	}
	return true
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

// HitLimit says that a limit ended the trial `at` after its start. Where the program hung in its teardown, the
// silence after its last line counts as that. This is for programs that send a varying number of lines: the last line
// must have been a result in the phase in which the good trial ended, and the silence since must be longer than the
// limit of the teardown and than quietTimes any earlier pause.
func (p *Reader) HitLimit(at, teardown time.Duration) {
	s := &p.sent
	if p.Expect == nil || !s.result || !p.Expect.reached(s) || p.Expect.Phase != p.name(s.top) || len(p.clock.stack) > s.depth {
		return
	}
	p.settled = p.Speaks() && at-s.at >= max(teardown, quietTimes*s.gap)
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
