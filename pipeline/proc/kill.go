package proc

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// population lists the processes that are to die: the descendants of a process,
// the carriers of a cookie, or the members of a control group.
type population func() ([]process, error)

// freeze stops all of a population, so that none can fork or react to the
// death of another, and returns it.
func freeze(all population) ([]process, error) {
	return halt(all, func(p process) { p.signal(unix.SIGSTOP) })
}

// halt calls stop once for each of a population, until no new one appears.
func halt(all population, stop func(process)) ([]process, error) {
	const rounds = 20 // a fork bomb may outrun us; then killing comes first
	stopped := make(map[process]bool)
	for range rounds {
		list, err := all()
		if err != nil {
			return nil, err
		}
		fresh := false
		for _, p := range list {
			key := process{pid: p.pid, start: p.start}
			if p.alive() && !stopped[key] {
				stopped[key], fresh = true, true
				stop(p)
			}
		}
		if !fresh {
			return list, nil
		}
	}
	return all()
}

// strike kills a population once and returns who of it was alive.
func strike(all population) ([]process, error) {
	list, err := freeze(all)
	var hit []process
	for _, p := range list {
		if p.alive() {
			hit = append(hit, p)
		}
		p.signal(unix.SIGKILL)
	}
	return hit, err
}

const (
	// containedBound is how long the members of a killed control group are
	// waited for before they are looked at one by one.
	containedBound = time.Second

	// endBound is the same for what the end of a process brings about.
	endBound = 50 * time.Millisecond
)

// killAll kills the tree below this process until nothing is left of it, or its
// time has passed: then it returns what is.
func (s *supervisor) killAll() []StuckProcess {
	s.leftover = make(map[int]bool)
	if s.over && s.alone() && s.killGroup() && s.reapAll() {
		return nil
	}
	s.killing = true
	stop := time.Now().Add(s.bound)
	if s.killContained() {
		return nil
	}
	// Without a group, or for those that had the right to leave it:
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		s.group.kill()
		hit, _ := strike(s.below) // without /proc the groups and the bound remain
		s.count(hit)
		s.killGroup()
		s.hunt()
		if s.leaderEnds(wait) && s.reapAll() {
			return nil
		}
		if time.Now().After(stop) {
			left, _ := s.below()
			return describe(left)
		}
	}
}

// below lists the processes below this one.
func (s *supervisor) below() ([]process, error) { return descendants(os.Getpid()) }

// count notes who of list was still alive.
func (s *supervisor) count(list []process) {
	for _, p := range list {
		if p.pid != s.leader && p.alive() {
			s.leftover[p.pid] = true
		}
	}
}

// killContained kills the control group in one stroke and reports whether
// nothing is left of the tree.
func (s *supervisor) killContained() bool {
	if s.group == nil {
		return false
	}
	list, _ := s.below()
	if !s.group.kill() {
		return false
	}
	s.count(list)
	s.group.empties(min(s.bound, containedBound))
	return within(endBound, func() bool { return s.leaderEnds(0) && s.reapAll() })
}

// hunt kills what becomes our child as fast as it does. It is for programs that
// fork and exit without end: each has long gone when a scan of /proc is over,
// but a child of ours it must become. Nobody else reaps those, so that their
// numbers stay theirs.
func (s *supervisor) hunt() {
	for range 1000 {
		more := false
		for _, pid := range adopted() {
			if pid == s.leader {
				continue
			}
			more = true
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = s.reap(pid)
		}
		if !more {
			return
		}
	}
}

// killGroup kills the group of the leader in one stroke. Once the leader has
// been reaped the number of the group may be another's.
func (s *supervisor) killGroup() bool {
	if !s.reaped {
		_ = unix.Kill(-s.leader, unix.SIGKILL)
	}
	return true
}

// leaderEnds waits for a moment; it reports whether the leader has ended.
func (s *supervisor) leaderEnds(wait time.Duration) bool {
	select {
	case at := <-s.ended: // comes once
		s.end(at)
	case <-time.After(wait):
	}
	return s.over
}

// reapAll reaps every child that has ended. It reports whether there is no
// child left: then, as we are the subreaper, the tree is empty.
func (s *supervisor) reapAll() bool {
	for {
		pid, err := s.reap(-1)
		if err != nil && err != unix.EINTR {
			return errors.Is(err, unix.ECHILD)
		}
		if err == nil && pid == 0 {
			return false
		}
	}
}

// reap reaps one child, -1 for any, if it has ended.
func (s *supervisor) reap(which int) (pid int, err error) {
	var status unix.WaitStatus
	pid, err = unix.Wait4(which, &status, unix.WNOHANG|unix.WALL, nil)
	switch {
	case err != nil || pid == 0:
	case pid == s.leader && !s.reaped:
		s.status, s.reaped = status, true
	case !status.Signaled() || status.Signal() != unix.SIGKILL:
	case s.killing:
		s.leftover[pid] = true
	default:
		s.orphanKilled = true
	}
	return pid, err
}

// describe says what is known of processes that are still alive.
func describe(list []process) []StuckProcess {
	var out []StuckProcess
	for _, p := range list {
		if !p.alive() {
			continue
		}
		out = append(out, StuckProcess{PID: p.pid, State: string(p.state), Wchan: p.read("wchan"), Command: p.command})
	}
	return out
}
