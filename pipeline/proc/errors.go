package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// StartError says that a program could not be started: it does not exist, is
// not executable, or its working directory is not there. Whose fault that is,
// only the caller can say.
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

// StuckError says that processes outlived SIGKILL. The machine is in trouble: a
// process in state D waits inside the kernel, as a rule for a device or a file
// server.
type StuckError struct {
	After     time.Duration // how long they were given
	Processes []StuckProcess
}

// StuckProcess is a process that could not be killed. All but PID may be
// unknown.
type StuckProcess struct {
	PID     int
	State   string // as in /proc/PID/stat: D waits in the kernel
	Wchan   string // where in the kernel
	Command string
}

// Error implements error.
func (e *StuckError) Error() string {
	var names []string
	for _, p := range e.Processes {
		names = append(names, p.String())
	}
	return fmt.Sprintf("not ended %v after SIGKILL: %s\nhint: a process in state D waits for a driver or a file system; see dmesg, reset the device or restart the machine",
		e.After.Round(time.Second), strings.Join(names, ", "))
}

// String describes p in one phrase.
func (p StuckProcess) String() string {
	s := fmt.Sprintf("process %d (%s, state %s", p.PID, p.Command, p.State)
	if p.Wchan != "" && p.Wchan != "0" {
		s += " in " + p.Wchan
	}
	return s + ")"
}
