package proc

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lastWordsBound = 300 * time.Millisecond // a Python process that outlived its grace may take so long to write its stacks
	turnsBound     = time.Second            // several are waited for so long, one after the other
)

// PythonName reports whether a program of that name is a Python interpreter.
func PythonName(name string) bool {
	version, ok := strings.CutPrefix(name, "python")
	return ok && strings.Trim(version, "0123456789.") == ""
}

// python reports whether p runs a Python interpreter.
func (p process) python() bool {
	argv0, _, _ := strings.Cut(p.read("cmdline"), "\x00")
	exe := strings.TrimSuffix(p.link("exe"), " (deleted)")
	return PythonName(path.Base(exe)) || PythonName(path.Base(argv0))
}

// catches reports whether p has a handler for a signal.
func (p process) catches(sig unix.Signal) bool {
	return caught(p.read("status"), sig)
}

// caught looks a signal up in the text of /proc/PID/status.
func caught(status string, sig unix.Signal) bool {
	for line := range strings.Lines(status) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && bits>>(sig-1)&1 == 1
		}
	}
	return false
}

// tellsStacks reports whether p writes its Python stacks to standard error when
// it gets SIGABRT, and then ends: faulthandler is enabled. The resource tracker of
// multiprocessing does, too, but has nothing to tell, and would write into the
// words of a worker; it ends when its last client does.
func (p process) tellsStacks() bool {
	return p.catches(unix.SIGABRT) && p.python() && !strings.Contains(p.read("cmdline"), "multiprocessing.resource_tracker")
}

// farewell is the signal that asks p to end. One that cleans up after SIGTERM
// is allowed to.
func (p process) farewell() unix.Signal {
	if !p.catches(unix.SIGTERM) && p.tellsStacks() {
		return unix.SIGABRT
	}
	return unix.SIGTERM
}

// lastWords asks the Python processes that are still there after their grace
// for their stacks. It reports whether there are any.
func (s *supervisor) lastWords() bool {
	all, err := s.below()
	if err != nil {
		return false
	}
	asked := hear(all, func(p process) bool { return p.alive() && p.tellsStacks() })
	for _, p := range all {
		if len(asked) > 0 && !asked[p.pid] {
			p.signal(unix.SIGCONT)
		}
	}
	return len(asked) > 0
}

// hear asks those of the processes for their stacks that tell them. What several
// write at a time runs together: they are asked one after the other, workers
// before their parents, for as long as the bound allows, and all others stand
// still, so that nobody goes on with what comes after a worker's end. It returns
// who was asked, by number; the others are to be continued.
func hear(all []process, tells func(process) bool) map[int]bool {
	var tellers []process
	for _, p := range all {
		if tells(p) {
			tellers = append(tellers, p)
		}
	}
	if len(tellers) > 1 {
		for _, p := range all {
			p.signal(unix.SIGSTOP)
		}
	}
	parents := map[int]int{}
	for _, p := range all {
		parents[p.pid] = p.ppid
	}
	depth := func(pid int) (n int) {
		for ; n <= len(all) && parents[pid] != 0; n++ {
			pid = parents[pid]
		}
		return n
	}
	slices.SortStableFunc(tellers, func(a, b process) int { return depth(b.pid) - depth(a.pid) })
	asked := map[int]bool{}
	end := time.Now().Add(turnsBound)
	for i, p := range tellers {
		asked[p.pid] = true
		p.signal(unix.SIGABRT)
		p.signal(unix.SIGCONT) // a stopped process would not hear it
		if i == len(tellers)-1 {
			break
		}
		within(time.Until(end), func() bool {
			now, err := readProcess(p.pid)
			return err != nil || now.start != p.start || !now.alive()
		})
	}
	return asked
}
