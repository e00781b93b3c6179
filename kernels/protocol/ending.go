package protocol

import (
	"bytes"
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// Exit codes of KernelBot's evaluation programs.
const (
	exitUsage    = 2
	exitCUDA     = 110 // a CUDA runtime call failed
	exitPipe     = 111 // no POPCORN_FD
	exitValidate = 112 // a result was wrong
	exitSpec     = 113 // invalid case file
)

// ExitTimeout is the exit code that KernelBot reports for a process killed at a limit.
const ExitTimeout = 114

// Ending classifies a process that ended by itself with an exit code, and says why.
// KernelBot trusts only `check`: an evaluation program may find a wrong result and exit 0,
// and one that did not finish has sent no check. Exit codes for an unusable task are a skip
// only before any key arrives; later it is the candidate's code that exits with them.
func (p *Popcorn) Ending(exit int, output []byte) (bisect.Class, string) {
	check := p.values["check"]
	switch {
	case len(p.values) == 0 && (exit == exitUsage || exit == exitPipe || exit == exitSpec):
		return bisect.Skip, skipReason(exit)
	case exit == exitCUDA:
		return bisect.Crash, fmt.Sprintf("exit %d: a CUDA runtime call failed", exit)
	case exit == exitValidate || check == "fail":
		return bisect.Wrong, p.wrongReason(exit)
	}
	if line, ok := BuildError(output); ok && exit != 0 {
		return bisect.BuildFailed, line
	}
	switch {
	case exit == ExitTimeout:
		return bisect.Timeout, "exit 114: a timer in the candidate, or a runner inside it"
	case exit != 0:
		return bisect.Crash, fmt.Sprintf("exit %d", exit)
	case check == "pass":
		return bisect.OK, ""
	case p.failure() != "":
		return bisect.Wrong, p.wrongReason(exit)
	}
	return bisect.Crash, "it ended without sending a check"
}

// skipReason explains an exit code that blames the task.
func skipReason(exit int) string {
	switch exit {
	case exitPipe:
		return "exit 111: the evaluation program found no POPCORN_FD"
	case exitSpec:
		return "exit 113: the evaluation program cannot parse the cases of the task"
	}
	return "exit 2: the evaluation program does not support this mode"
}

// wrongReason is what the program said about the result, or else what its exit code says.
func (p *Popcorn) wrongReason(exit int) string {
	if why := p.failure(); why != "" {
		return why
	}
	if exit == exitValidate {
		return "exit 112: the check failed"
	}
	return "the check failed"
}

// buildErrors matches the final errors of tools that a program or a build tool starts:
// ninja, PyTorch's extension loader, nvcc, ptxas, Triton and linkers.
var buildErrors = lazy.Pattern(`(?m)^.*(ninja: build stopped|Error building extension '|Error compiling objects for extension|` +
	`nvcc fatal   ?:|ptxas (fatal|error)   ?:|triton\.compiler\.errors\.|\d+ errors? detected in the compilation of|` +
	`collect2: error: ld returned|: undefined reference to ).*$`)

// BuildError returns the first line of an output in which a compiler gave up, for programs
// that compile while they run.
func BuildError(output []byte) (line string, ok bool) {
	m := buildErrors().Find(output)
	if m == nil {
		return "", false
	}
	return Plain(string(bytes.ToValidUTF8(m[:min(len(m), MaxLine)], []byte("?"))), MaxWhere), true
}
