package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// freeze brings the tree to a halt. The pause begins with the attempt: a
// straggler inside the kernel must not cost the others their time.
func (s *supervisor) freeze() {
	if s.frozen || s.over || s.killed {
		return
	}
	s.frozen = true
	at := monotonic()
	if !s.group.freeze(true) {
		s.stopAll()
	}
	s.report(report{Event: eventFrozen, Mono: at})
}

// thaw lets the tree go on and tells since when.
func (s *supervisor) thaw() {
	if !s.frozen {
		return
	}
	s.frozen = false
	at := monotonic()
	s.group.freeze(false)
	for _, p := range s.stopped {
		p.signal(unix.SIGCONT)
	}
	s.stopped = nil
	s.report(report{Event: eventThawed, Mono: at})
}

// stopAll stops every process of the tree but those that are stopped already:
// they are not ours to continue.
func (s *supervisor) stopAll() {
	seen := make(map[process]bool)
	_, _ = halt(s.below, func(p process) {
		seen[process{pid: p.pid, start: p.start}] = true
		if p.state != 'T' && p.state != 't' {
			s.stopped = append(s.stopped, p)
			p.signal(unix.SIGSTOP)
		}
	})
	within(frozenBound, func() bool { return s.standsStill() })
}

// standsStill reports whether no process of the tree can run. One in state D
// will stop before it leaves the kernel; it may well wait for one that is
// stopped already, as after vfork.
func (s *supervisor) standsStill() bool {
	all, err := s.below()
	for _, p := range all {
		if p.alive() && p.state != 'T' && p.state != 't' && p.state != 'D' {
			return false
		}
	}
	return err == nil
}

// pause passes the wishes of the caller on to the warden, which stamps the
// beginning and the end of the pause. Until the first is known nothing is
// judged.
func (t *trial) pause(on bool) {
	if on == t.frozen || t.ending() {
		return
	}
	t.frozen = on
	if on {
		t.clock.hold()
		t.warden.send(command{Do: doFreeze})
	} else {
		t.warden.send(command{Do: doThaw})
	}
	t.silent = t.silence()
}

// paused notes that the tree stands still, or moves again.
func (t *trial) paused(r report) {
	at := t.start.Add(time.Duration(r.Mono - t.mono))
	if r.Event == eventFrozen {
		t.clock.pause(at)
	} else {
		t.clock.resume(at)
	}
	if !t.ending() {
		t.silent = nil
	}
}

// ending reports whether the end of the tree is under way.
func (t *trial) ending() bool { return t.canceled || t.timeout != nil || t.over }
