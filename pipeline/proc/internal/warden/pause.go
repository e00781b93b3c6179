package warden

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

// stopBound is how long a tree without a control group is given to come to a halt.
const stopBound = 2 * time.Second

// pause stops and continues a tree.
type pause struct {
	tree    *tree
	on      bool
	stopped []ps.Process // by us one by one, where the group cannot freeze
}

// begin brings the tree to a halt. It reports whether nothing of it moves any more.
func (p *pause) begin() (still bool) {
	p.on = true
	could, still := p.tree.group.Freeze(true)
	if !could {
		still = p.stopAll()
	}
	return still
}

// end lets the tree go on.
func (p *pause) end() {
	p.on = false
	p.tree.group.Freeze(false)
	for _, one := range p.stopped {
		one.Signal(unix.SIGCONT)
	}
	p.stopped = nil
}

// stopAll stops every process of the tree except those that are stopped already:
// they are not ours to continue.
func (p *pause) stopAll() (still bool) {
	_, _ = ps.Halt(p.tree.below, func(one ps.Process) {
		if one.State != 'T' && one.State != 't' {
			p.stopped = append(p.stopped, one)
			one.Signal(unix.SIGSTOP)
		}
	})
	return ps.Within(stopBound, p.standsStill)
}

// standsStill reports whether no process of the tree can run. One in state D
// will stop before it leaves the kernel, unless it ends there; it may well wait
// for one that is stopped already, as after vfork.
func (p *pause) standsStill() bool {
	all, err := p.tree.below()
	for _, one := range all {
		if one.Alive() && one.State != 'T' && one.State != 't' && (one.State != 'D' || one.Exiting()) {
			return false
		}
	}
	return err == nil
}
