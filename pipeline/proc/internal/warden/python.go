package warden

import (
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

const (
	stacksBound = 300 * time.Millisecond // how long Python processes that outlived their grace may take to write their stacks
	turnsBound  = time.Second            // how long several of them are waited for, one after the other
)

// python reports whether p runs a Python interpreter.
func python(p ps.Process) bool {
	argv0, _, _ := strings.Cut(p.File("cmdline"), "\x00")
	exe := strings.TrimSuffix(p.Link("exe"), " (deleted)")
	return ps.PythonName(path.Base(exe)) || ps.PythonName(path.Base(argv0))
}

// tellsStacks reports whether p writes its Python stacks to standard error when
// it gets SIGABRT, and then ends: faulthandler is enabled. The resource tracker of
// multiprocessing would, too, but its stack explains nothing and mixes with that of
// a worker; it ends when its last client does.
func tellsStacks(p ps.Process) bool {
	return p.Catches(unix.SIGABRT) && python(p) && !strings.Contains(p.File("cmdline"), "multiprocessing.resource_tracker")
}

// farewell is the signal that asks p to end. One that cleans up after SIGTERM
// is allowed to.
func farewell(p ps.Process) unix.Signal {
	if !p.Catches(unix.SIGTERM) && tellsStacks(p) {
		return unix.SIGABRT
	}
	return unix.SIGTERM
}

// askStacks asks the Python processes that are still there after their grace for
// their stacks. It reports whether there are any.
func askStacks(t *tree) bool {
	all, err := t.below()
	if err != nil {
		return false
	}
	asked := writeStacks(all, func(p ps.Process) bool { return p.Alive() && tellsStacks(p) })
	for _, p := range all {
		if len(asked) > 0 && !asked[p.PID] {
			p.Signal(unix.SIGCONT)
		}
	}
	return len(asked) > 0
}

// writeStacks has those of the processes that tells selects write their stacks.
// What several write at a time runs together: they are asked one after the other,
// workers before their parents, for as long as the bound allows. All others stand
// still, so that none goes on with what follows a worker's end. It returns the
// numbers of those asked; the caller continues the others.
func writeStacks(all []ps.Process, tells func(ps.Process) bool) map[int]bool {
	var tellers []ps.Process
	for _, p := range all {
		if tells(p) {
			tellers = append(tellers, p)
		}
	}
	if len(tellers) > 1 {
		for _, p := range all {
			p.Signal(unix.SIGSTOP)
		}
	}
	parents := map[int]int{}
	for _, p := range all {
		parents[p.PID] = p.PPID
	}
	depth := func(pid int) (n int) {
		for ; n <= len(all) && parents[pid] != 0; n++ {
			pid = parents[pid]
		}
		return n
	}
	slices.SortStableFunc(tellers, func(a, b ps.Process) int { return depth(b.PID) - depth(a.PID) })
	asked := map[int]bool{}
	end := time.Now().Add(turnsBound)
	for i, p := range tellers {
		asked[p.PID] = true
		p.Signal(unix.SIGABRT)
		p.Signal(unix.SIGCONT) // a stopped process would not act on it
		if i == len(tellers)-1 {
			break
		}
		ps.Within(time.Until(end), func() bool {
			now, err := ps.Read(p.PID)
			return err != nil || now.ID() != p.ID() || !now.Alive()
		})
	}
	return asked
}
