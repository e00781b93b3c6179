package warden

import (
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
)

// The values of Report.OOM: whose memory ran out.
const (
	oomTrial   = "trial"
	oomMachine = "machine"
	oomNear    = "near"
)

// account fills r with what the tree has used. Of its processor time both accounts
// may miss a part: the list of children those whose parent ignores their end, the
// group those that had the right to leave it. The larger one counts.
func (s *supervisor) account(r *Report) {
	r.User, r.System, r.MaxRSS = s.tree.user, s.tree.system, s.tree.maxRSS
	group := s.tree.group.Usage()
	if group.User >= 0 && group.System >= 0 && group.User+group.System > r.User+r.System {
		r.User, r.System = group.User, group.System
	}
	r.Counted = s.tree.counter.Read()
	r.Peak = max(0, group.MemoryPeak)
	r.OOM = oomWhere(oom{
		killed:  group.Killed,
		limit:   group.AtLimit,
		above:   cgroup.AboveOOM() > s.oomBefore,
		foreign: s.foreignKill(),
	})
}

// oom is what is known of memory running out during a trial.
type oom struct {
	killed  int64 // processes of the group that the kernel killed for memory, -1 unknown
	limit   int64 // how often the group came to its own limit, -1 unknown
	above   bool  // cgroup.AboveOOM rose
	foreign bool  // a process of the tree was ended by a SIGKILL that was not ours
}

// oomWhere says whose memory ran out, "" if it did not. A member of the group is
// also killed, and counted there, when the machine or a group above has no
// memory left: only what came to its own limit has itself to blame.
func oomWhere(o oom) string {
	switch {
	case o.killed > 0 && o.limit > 0:
		return oomTrial
	case o.killed > 0, o.killed < 0 && o.above && o.foreign:
		return oomMachine
	case o.killed < 0 && o.above: // whoever waits for its children may have lost one that we never saw
		return oomNear
	}
	return ""
}

// foreignKill reports whether a process of the tree was ended by a SIGKILL that
// we did not send. Of the descendants we see those that lost their parent; a
// shell reports others by exit status 137.
func (s *supervisor) foreignKill() bool {
	const shellKilled = 128 + int(unix.SIGKILL)
	t := s.tree
	own := s.overFirst && t.reaped && (t.status.Signal() == unix.SIGKILL || t.status.ExitStatus() == shellKilled)
	return own || t.orphanKilled
}
