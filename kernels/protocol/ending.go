package protocol

import (
	"bytes"
	"fmt"
	"regexp"

	"github.com/kbisect/kbisect/bisect"
)

// Exit codes of KernelBot's evaluation programs.
const (
	exitUsage    = 2
	exitCUDA     = 110 // a call of the CUDA runtime failed
	exitPipe     = 111 // no POPCORN_FD
	exitValidate = 112 // a result was wrong
	exitSpec     = 113 // the case file is not understood
)

// ExitTimeout is the code that KernelBot gives a process which it killed at a limit.
const ExitTimeout = 114

// Ending says what a process came to that ended by itself with an exit code, and why. KernelBot
// believes `check` and nothing else: an evaluation may find a wrong result and exit 0, and one that
// never came to its end has sent no check. Codes that are not the candidate's fault are a skip, where the
// evaluation has not said anything yet: later it is the candidate that ends with them.
func (p *Popcorn) Ending(exit int, output []byte) (bisect.Class, string) {
	check := p.values["check"]
	switch {
	case len(p.values) == 0 && (exit == exitUsage || exit == exitPipe || exit == exitSpec):
		return bisect.Skip, configWords(exit)
	case exit == exitCUDA:
		return bisect.Crash, fmt.Sprintf("exit %d: a call of the CUDA runtime failed", exit)
	case exit == exitValidate || check == "fail":
		return bisect.Wrong, p.wrongWords(exit)
	}
	if line, ok := BuildError(output); ok && exit != 0 {
		return bisect.BuildFailed, line
	}
	switch {
	case exit == ExitTimeout:
		return bisect.Timeout, "exit 114: the candidate's own timer, or a runner within it"
	case exit != 0:
		return bisect.Crash, fmt.Sprintf("exit %d", exit)
	case check == "pass":
		return bisect.OK, ""
	case p.Failure() != "":
		return bisect.Wrong, p.wrongWords(exit)
	}
	return bisect.Crash, "it ended without a verdict: no check was sent"
}

func configWords(exit int) string {
	switch exit {
	case exitPipe:
		return "exit 111: the evaluation found no POPCORN_FD"
	case exitSpec:
		return "exit 113: the evaluation does not understand the cases of the task"
	}
	return "exit 2: the evaluation does not know this mode"
}

func (p *Popcorn) wrongWords(exit int) string {
	if why := p.Failure(); why != "" {
		return why
	}
	if exit == exitValidate {
		return "exit 112: the check failed"
	}
	return "the check failed"
}

// buildErrors matches what compilers say that are started by a Python program, or by a build tool:
// ninja, PyTorch's extension loader, nvcc, ptxas, Triton and linkers.
var buildErrors = regexp.MustCompile(`(?m)^.*(ninja: build stopped|Error building extension '|Error compiling objects for extension|` +
	`nvcc fatal   ?:|ptxas (fatal|error)   ?:|triton\.compiler\.errors\.|\d+ errors? detected in the compilation of|` +
	`collect2: error: ld returned|: undefined reference to ).*$`)

// BuildError returns the first line of an output with which a compiler gave up, for programs that
// compile when they are run.
func BuildError(output []byte) (line string, ok bool) {
	m := buildErrors.Find(output)
	if m == nil {
		return "", false
	}
	return Plain(string(bytes.ToValidUTF8(m[:min(len(m), MaxLine)], []byte("?"))), MaxWhere), true
}
