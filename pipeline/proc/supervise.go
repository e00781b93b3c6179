package proc

import (
	"encoding/json"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// supervisor is a warden at work.
type supervisor struct {
	reports  *json.Encoder
	children chan os.Signal // SIGCHLD
	commands <-chan command
	leader   int
	bound    time.Duration
	ended    <-chan int64 // time of the leader's end
	group    *group       // nil for none
	hold     bool         // a command ends the tree, not the leader's end

	frozen  bool      // the tree has been brought to a halt
	stopped []process // by these, where the group cannot freeze

	oomBefore    int64 // aboveOOM at the start
	orphanKilled bool  // one that lost its parent was killed, not by us
	overFirst    bool  // the leader ended before we killed anybody
	halted       bool  // somebody else had stopped the leader when it was to end
	asked        bool  // the last words have been asked for
	killing      bool  // SIGKILL has been sent

	over     bool // the leader has ended
	killed   bool // a command came before that
	reaped   bool // the leader has been
	status   unix.WaitStatus
	leftover map[int]bool // who was to be killed, but for the leader
}

// report sends r. Errors do not matter: without a reader the control pipe has
// ended as well.
func (s *supervisor) report(r report) { _ = s.reports.Encode(r) }

// run waits for the end of the leader, unless the tree is held beyond it, or for a
// command to end it, and then kills the tree.
func (s *supervisor) run() {
	var grace <-chan time.Time
	var until time.Time
	for !s.over || s.hold && !s.killed || s.killed && grace != nil && !s.alone() {
		select {
		case at := <-s.ended:
			s.end(at)
		case c, ok := <-s.commands:
			if ok && c.Do != doEnd {
				s.obey(c.Do)
				continue
			}
			first := !s.killed && !s.over
			s.killed = s.killed || first
			s.halted = s.halted || first && s.wasStopped()
			if !ok || c.Grace <= 0 || s.over && s.hold {
				s.finish()
				return
			}
			if end := time.Now().Add(c.Grace); until.IsZero() || end.Before(until) {
				until, grace = end, time.After(c.Grace)
			}
			if first {
				s.terminate()
			}
		case <-grace:
			if s.asked || !s.lastWords() {
				s.finish()
				return
			}
			s.asked, grace = true, time.After(lastWordsBound)
		case <-s.children:
			s.reapOrphans()
		case <-s.tick():
		}
	}
	s.finish()
}

// wasStopped reports whether somebody else has stopped the leader.
func (s *supervisor) wasStopped() bool {
	p, err := readProcess(s.leader)
	return err == nil && !s.frozen && p.state == 'T'
}

// obey freezes or thaws the tree.
func (s *supervisor) obey(do action) {
	if do == doFreeze {
		s.freeze()
	} else {
		s.thaw()
	}
}

// tick wakes the loop while the rest of a dying tree is waited for: nobody
// tells of the end of a process that is not our child.
func (s *supervisor) tick() <-chan time.Time {
	if !s.over {
		return nil
	}
	return time.After(10 * time.Millisecond)
}

func (s *supervisor) end(at int64) {
	s.over = true
	s.report(report{Event: eventEnded, Mono: at, Killed: s.killed, Halted: s.halted})
}

// terminate asks the tree to end.
func (s *supervisor) terminate() {
	s.thaw()
	all, err := s.below()
	if err != nil {
		_ = unix.Kill(-s.leader, unix.SIGTERM)
		return
	}
	asked := hear(all, func(p process) bool { return p.farewell() == unix.SIGABRT })
	for _, p := range all {
		if !asked[p.pid] { // twice would cut it short
			p.signal(unix.SIGTERM)
			p.signal(unix.SIGCONT) // a stopped process would not hear it
		}
	}
}

// alone reports whether nothing but the leader, dead or alive, is left.
func (s *supervisor) alone() bool {
	s.reapOrphans()
	return !slices.ContainsFunc(children(), func(pid int) bool { return pid != s.leader })
}

// reapOrphans reaps what became our child and has ended, except the leader.
func (s *supervisor) reapOrphans() {
	for _, pid := range children() {
		if pid != s.leader {
			_, _ = s.reap(pid)
		}
	}
}

// finish kills the tree and reports its end.
func (s *supervisor) finish() {
	s.overFirst = s.over
	stuck := s.killAll()
	if len(stuck) == 0 {
		s.group.empties(removeBound) // so that the accounts are complete
	}
	r := report{Event: eventGone, Reaped: s.reaped, Status: uint32(s.status), Leftover: len(s.leftover), Stuck: stuck}
	s.account(&r)
	s.group.remove()
	s.report(r)
}
