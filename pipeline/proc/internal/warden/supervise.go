package warden

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

const (
	// removeBound is how long a killed control group is given to become empty.
	removeBound = 2 * time.Second

	// lookEvery is how often kbisect is looked at, and lookMax how often in a row it may be found stopped.
	lookEvery = 500 * time.Millisecond
	lookMax   = 4
)

// supervisor follows one tree from its start to its end, and the commands for it.
type supervisor struct {
	*process
	tree      *tree
	pause     pause
	bound     time.Duration // how long to try to kill
	ended     <-chan int64  // time of the leader's end; comes once
	hold      bool          // a command ends the tree, not the leader's end
	sandboxed bool

	oomBefore int64 // cgroup.AboveOOM at the start
	over      bool  // the leader has ended
	killed    bool  // a command to end came before that
	halted    bool  // a signal not ours had stopped the leader when that command came
	overFirst bool  // the leader ended before we killed anything
	asked     bool  // Python's stacks have been asked for
	stops     int   // how often in a row kbisect was found stopped
}

// run waits for the end of the leader, unless the tree is held beyond it, or for a
// command to end it, and then kills the tree. It reports whether nothing of it is left in this process.
func (s *supervisor) run() (again bool) {
	var grace <-chan time.Time
	var until time.Time
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for !s.over || s.hold && !s.killed || s.killed && grace != nil && !s.tree.alone() {
		select {
		case at := <-s.ended:
			s.end(at)
		case c, ok := <-s.commands:
			switch {
			case ok && c.Do == DoHurry:
				s.tree.hurry()
				continue
			case ok && c.Do != DoEnd:
				s.setPause(c.Do == DoFreeze)
				continue
			}
			first := !s.killed && !s.over
			s.killed = s.killed || first
			s.halted = s.halted || first && s.wasStopped()
			if !ok || c.Grace <= 0 || s.over && s.hold {
				return s.finish()
			}
			if end := time.Now().Add(c.Grace); until.IsZero() || end.Before(until) {
				until, grace = end, time.After(c.Grace)
			}
			if first {
				s.terminate()
			}
		case <-grace:
			if s.asked || !askStacks(s.tree) {
				return s.finish()
			}
			s.asked, grace = true, time.After(stacksBound)
		case <-s.children:
			s.tree.reapOrphans()
		case <-s.tick():
		case <-look.C:
			s.alarm.Set(true)
			s.limits.Restore()
			if s.stopped() {
				s.killed = s.killed || !s.over
				return s.finish()
			}
		}
	}
	return s.finish()
}

// wasStopped reports whether somebody else has stopped the leader.
func (s *supervisor) wasStopped() bool {
	p, err := ps.Read(s.tree.leader)
	return err == nil && !s.pause.on && p.State == 'T'
}

// stopped continues kbisect, and reports that it cannot keep the limits, since it is stopped again whenever it is
// continued. Before a stop that its user wants it has the tree frozen. From a namespace of our own it is out of sight,
// and of reach.
func (s *supervisor) stopped() bool {
	p, err := ps.Read(os.Getppid())
	if err != nil || s.pause.on || s.killed || p.State != 'T' && !s.traces(p) {
		s.stops = 0
		return false
	}
	p.Signal(unix.SIGCONT)
	s.stops++
	return s.stops == lookMax
}

// traces reports that a program of the tree has stopped a process as its debugger does. Only root may, as kbisect is
// not dumpable.
func (s *supervisor) traces(p ps.Process) bool {
	if p.State != 't' {
		return false
	}
	all, _ := s.tree.below()
	return slices.ContainsFunc(all, func(one ps.Process) bool { return one.PID == p.Tracer() })
}

// setPause freezes or thaws the tree and reports since when. A pause begins with
// the attempt: a straggler inside the kernel must not cost the others their time.
func (s *supervisor) setPause(on bool) {
	if on == s.pause.on || on && (s.over || s.killed) {
		return
	}
	at := Monotonic()
	if on {
		s.report(Report{Event: EventFrozen, Still: s.pause.begin(), Mono: at})
	} else {
		s.pause.end()
		s.report(Report{Event: EventThawed, Mono: at})
	}
}

// tick wakes the loop while the rest of a dying tree is waited for: the end of a
// process that is not our child sends no signal.
func (s *supervisor) tick() <-chan time.Time {
	if !s.over {
		return nil
	}
	return time.After(10 * time.Millisecond)
}

// end reports the end of the leader.
func (s *supervisor) end(at int64) {
	s.over = true
	s.report(Report{Event: EventEnded, Mono: at, Killed: s.killed, Halted: s.halted})
}

// leaderEnds waits for a moment; it reports whether the leader has ended.
func (s *supervisor) leaderEnds(wait time.Duration) bool {
	select {
	case at := <-s.ended:
		s.end(at)
	case <-time.After(wait):
	}
	return s.over
}

// terminate asks the tree to end. A paused tree gets the signal before it is continued, so that it runs no further; its
// stacks would explain nothing.
func (s *supervisor) terminate() {
	all, err := s.tree.below()
	if err != nil {
		_ = unix.Kill(-s.tree.leader, unix.SIGTERM)
	}
	var asked map[int]bool
	if !s.pause.on {
		asked = writeStacks(all, func(p ps.Process) bool { return farewell(p) == unix.SIGABRT })
	}
	rest := slices.DeleteFunc(all, func(p ps.Process) bool { return asked[p.PID] }) // a second signal would cut it short
	for _, p := range rest {
		p.Signal(unix.SIGTERM)
	}
	s.setPause(false)
	for _, p := range rest {
		p.Signal(unix.SIGCONT) // a stopped process would not act on it
	}
}

// finish kills the tree and reports its end. It reports whether this process is as it was before: without children, and
// where and with the limits that it had, which programs can change.
func (s *supervisor) finish() (again bool) {
	t := s.tree
	lowered := s.limits.Restore() // without descriptors /proc cannot be read
	s.overFirst = s.over
	t.leftover = make(map[int]bool)
	var stuck []ps.Stuck
	if !s.gone() {
		stuck = t.kill(s.bound, s.leaderEnds)
	}
	if len(stuck) == 0 {
		t.group.Empties(removeBound) // so that the accounts are complete
	}
	r := Report{Event: EventGone, Reaped: t.reaped, Status: uint32(t.status), Leftover: len(t.leftover), Stuck: stuck, Stopper: s.stops == lookMax}
	s.account(&r)
	t.counter.Close()
	removed := t.group.Remove()
	r.Again = !s.sandboxed && len(stuck) == 0 && !r.Stopper && removed && len(lowered) == 0 && s.place == placed()
	s.report(r)
	if s.looks = 0; r.Stopper || !s.pause.on { // kbisect's own alarm may have gone off before the stop, as on a busy machine
		s.looks = lookMax
		wake()
	}
	return r.Again
}

// gone reports whether the leader ended without leaving anything to kill.
func (s *supervisor) gone() bool {
	if !s.over || !s.tree.alone() {
		return false
	}
	s.tree.killLeaderGroup()
	return s.tree.reapAll()
}
