package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

// StartError reports that a program could not be started: it does not exist, is
// not executable, or its working directory does not exist. Only the caller knows
// whether the candidate or the machine is to blame.
type StartError struct {
	Path string // the program, as it was asked for
	Err  error
}

// Error implements error.
func (e *StartError) Error() string {
	s := fmt.Sprintf("start %q: %v", e.Path, e.Err)
	if hint := e.hint(); hint != "" {
		s += "\nhint: " + hint
	}
	return s
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

func (e *StartError) hint() string {
	switch {
	case errors.Is(e.Err, errInterpreter):
		return "the interpreter of its #! line or its dynamic loader is missing"
	case errors.Is(e.Err, exec.ErrNotFound), errors.Is(e.Err, syscall.ENOENT):
		return "is the program built and its directory in PATH?"
	case errors.Is(e.Err, exec.ErrDot):
		return "write ./ in front of a program in the working directory"
	case errors.Is(e.Err, syscall.ENOEXEC):
		return "a script needs a #! line, a program must be built for this machine"
	case errors.Is(e.Err, syscall.EACCES):
		return "is it executable (chmod +x), and its file system mounted without noexec?"
	}
	return ""
}

// errInterpreter is ENOENT for a program that is there.
var errInterpreter = fmt.Errorf("interpreter not found: %w", syscall.ENOENT)

// StuckError reports that processes outlived SIGKILL, which is a problem of the
// machine: a process in state D waits inside the kernel, usually for a device or a
// file server.
type StuckError struct {
	After     time.Duration // how long they were given
	Processes []ps.Stuck
}

// Error implements error.
func (e *StuckError) Error() string {
	var names []string
	for _, p := range e.Processes {
		names = append(names, p.String())
	}
	return fmt.Sprintf("still running %v after SIGKILL: %s\nhint: a process in state D waits for a driver or a file system; look at dmesg, then reset the device or restart the machine",
		e.After.Round(time.Second), strings.Join(names, ", "))
}
