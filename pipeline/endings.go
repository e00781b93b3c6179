package pipeline

import (
	"cmp"
	"fmt"
	"regexp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// popSeries are the results that a process sent in KernelBot's protocol.
func (l *listener) popSeries() []bisect.Series {
	if l.pop == nil {
		return nil
	}
	return l.pop.Series()
}

// popOutcome classifies a process of KernelBot's that ended by itself.
func (l *listener) popOutcome(o *bisect.Outcome, res proc.Result) {
	if l.Plan.Undrained && l.pop.Overflows() {
		o.Class, o.Phase = bisect.Timeout, cmp.Or(l.stage.Name, l.said.Phase())
		o.Why = fmt.Sprintf("it sent more on POPCORN_FD than a pipe holds: on the server it waits until its limit; KernelBot reports exit %d", protocol.ExitTimeout)
		return
	}
	class, why := l.pop.Ending(res.Exit, res.Tail)
	if class == bisect.OK {
		l.overdue(o)
		return
	}
	if class == bisect.Crash {
		why += stackWords(res.Tail) + lastWords(res.Tail)
	}
	o.Class, o.Phase, o.Why = class, l.said.Phase(), why
	if o.Phase == teardown && class == bisect.Wrong {
		o.Phase = l.stage.Name // the verdict is its last word
	}
}

// buildFailed is what a compiler said that a program of PyTorch's called when it ran, and that gave up, or "".
func (l *listener) buildFailed(res proc.Result) string {
	if l.Plan.Kind != "torch" || res.Exit == 0 {
		return ""
	}
	line, _ := protocol.BuildError(res.Tail)
	return line
}

// stageWords says that a process reached the limit of its stage.
func (l *listener) stageWords() string {
	why := fmt.Sprintf("the process reached its limit of %v", l.stage.Limit)
	if l.stage.Name != "" {
		why = fmt.Sprintf("stage %s reached its limit of %v", l.stage.Name, l.stage.Limit)
	}
	if l.stage.Killed != 0 {
		why += fmt.Sprintf("; KernelBot reports exit %d", l.stage.Killed)
	}
	return why
}

// compilerError matches what compilers, linkers and build tools write where they give up: gcc, clang,
// nvcc, ptxas, ld, rustc, CMake, make.
func compilerError() *regexp.Regexp {
	return regexp.MustCompile(`(?mi)^.*(\berror *(\[\w+\])? *:|\bfatal *:|CMake Error\b|undefined reference to |No rule to make target ).*$`)
}

// errorWords is the first error of a failed build, in brackets: what compilers print last is the line
// of the source, an arrow or a count. Without one it is the last line.
func errorWords(output []byte) string {
	line := compilerError().Find(output)
	if line == nil {
		return lastWords(output)
	}
	return inBrackets(line, 120)
}
