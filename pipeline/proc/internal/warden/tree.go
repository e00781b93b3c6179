package warden

import (
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
	"github.com/kbisect/kbisect/pipeline/proc/internal/perf"
	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

const (
	// containedBound is how long the members of a killed control group are
	// waited for before they are killed one by one.
	containedBound = time.Second

	// endBound is the same for what the end of a process brings about.
	endBound = 50 * time.Millisecond
)

// tree is the process tree below the warden: the leader and whatever it forked.
// The warden is the subreaper, so that every process that loses its parent becomes
// its child.
type tree struct {
	leader  int
	group   *cgroup.Group // nil for none
	counter *perf.Counter // nil for none
	over    chan struct{} // closed when the tree is gone, or given up
	nice    atomic.Int64  // that the leader's session should have

	weighing sync.Mutex // held while it is given that

	user, system time.Duration // of all that were reaped, by us or below
	maxRSS       int64         // likewise, in bytes

	reaped       bool // the leader has been
	status       unix.WaitStatus
	orphanKilled bool         // a process that lost its parent was killed, not by us
	killing      bool         // SIGKILL has been sent
	leftover     map[int]bool // processes that had to be killed, without the leader
}

// below lists the processes of the tree.
func (t *tree) below() ([]ps.Process, error) { return ps.Below(os.Getpid()) }

// alone reports whether only the leader, dead or alive, is left.
func (t *tree) alone() bool {
	t.reapOrphans()
	return !slices.ContainsFunc(ps.Adopted(), func(pid int) bool { return pid != t.leader })
}

// kill kills the tree until nothing is left of it, or the bound has passed: then
// it returns what is. leaderEnds waits a moment for the end of the leader and
// reports whether it has come.
func (t *tree) kill(bound time.Duration, leaderEnds func(wait time.Duration) bool) []ps.Stuck {
	t.killing = true
	stop := time.Now().Add(bound)
	if t.killContained(min(bound, containedBound), leaderEnds) {
		return nil
	}
	// Without a group, or for those that had the right to leave it:
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		t.group.Kill()
		hit, _ := ps.Strike(t.below) // without /proc the groups and the bound remain
		t.count(hit)
		t.killLeaderGroup()
		t.hunt()
		if leaderEnds(wait) && t.reapAll() {
			return nil
		}
		if time.Now().After(stop) {
			left, _ := t.below()
			return ps.Describe(left)
		}
	}
}

// killContained kills the control group in one stroke and reports whether
// nothing is left of the tree.
func (t *tree) killContained(bound time.Duration, leaderEnds func(time.Duration) bool) bool {
	if t.group == nil {
		return false
	}
	list, _ := t.below()
	if !t.group.Kill() {
		return false
	}
	t.count(list)
	t.group.Empties(bound)
	return ps.Within(endBound, func() bool { return leaderEnds(0) && t.reapAll() })
}

// count notes which processes of a list had to be killed.
func (t *tree) count(list []ps.Process) {
	for _, p := range list {
		if p.PID != t.leader && p.Alive() {
			t.leftover[p.PID] = true
		}
	}
}

// hunt kills what becomes our child as fast as it does. It is for programs that
// fork and exit without end: each process has long gone when a scan of /proc is
// over, but a child of ours it must become. Only we reap those, so that their
// numbers stay theirs.
func (t *tree) hunt() {
	for range 1000 {
		more := false
		for _, pid := range ps.Adopted() {
			if pid == t.leader {
				continue
			}
			more = true
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = t.reap(pid)
		}
		if !more {
			return
		}
	}
}

// killLeaderGroup kills the process group of the leader in one stroke. Once the
// leader has been reaped the number of the group may be another's.
func (t *tree) killLeaderGroup() {
	if !t.reaped {
		_ = unix.Kill(-t.leader, unix.SIGKILL)
	}
}

// reapOrphans reaps what became our child and has ended, except the leader.
func (t *tree) reapOrphans() {
	for _, pid := range ps.Adopted() {
		if pid != t.leader {
			_, _ = t.reap(pid)
		}
	}
}

// reapAll reaps every child that has ended. It reports whether there is no
// child left: then, as we are the subreaper, the tree is empty.
func (t *tree) reapAll() bool {
	for {
		pid, err := t.reap(-1)
		if err != nil && err != unix.EINTR {
			return errors.Is(err, unix.ECHILD)
		}
		if err == nil && pid == 0 {
			return false
		}
	}
}

// reap reaps one child, -1 for any, if it has ended.
func (t *tree) reap(which int) (pid int, err error) {
	var status unix.WaitStatus
	var use unix.Rusage
	pid, err = unix.Wait4(which, &status, unix.WNOHANG|unix.WALL, &use)
	if err == nil && pid > 0 {
		t.user += time.Duration(use.Utime.Nano())
		t.system += time.Duration(use.Stime.Nano())
		t.maxRSS = max(t.maxRSS, use.Maxrss*1024)
	}
	switch {
	case err != nil || pid == 0:
	case pid == t.leader && !t.reaped:
		t.status, t.reaped = status, true
	case !status.Signaled() || status.Signal() != unix.SIGKILL:
	case t.killing:
		t.leftover[pid] = true
	default:
		t.orphanKilled = true
	}
	return pid, err
}
