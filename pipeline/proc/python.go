package proc

import (
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lastWordsBound is how long a Python process that outlived its grace may take
// to write its stacks.
const lastWordsBound = 300 * time.Millisecond

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
	asked := false
	for _, p := range all {
		if err == nil && p.alive() && p.tellsStacks() {
			asked = true
			p.signal(unix.SIGABRT)
			p.signal(unix.SIGCONT)
		}
	}
	return asked
}
