package trial

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// endedFromOutside is what another process may have done to end a step; "" if nothing suggests that. The candidate
// may have done the same to itself: only a second time tells.
func endedFromOutside(res proc.Result) string {
	switch {
	case memoryRanOut(res) && ownMemory(res) != "":
		return machineMemory
	case res.StoppedParent:
		return "kbisect, or the process that supervises the trial, was stopped by a signal again and again"
	case res.Timeout != nil && res.Halted:
		return "it was stopped by a signal, and so reached its limit"
	case res.Timeout != nil:
		return ""
	case res.KilledParent:
		return "the process that supervises the trial was killed"
	case slices.Contains(othersSend, res.Signal) && !res.OOMKilled:
		return "it was killed by " + signalName(res.Signal) + ", which kbisect did not send"
	case slices.Contains(othersSend, syscall.Signal(res.Exit-128)) && !res.OOMKilled:
		return fmt.Sprintf("it ended as what is killed by %s does (exit %d)", signalName(syscall.Signal(res.Exit-128)), res.Exit)
	case res.OOMWhere == "near" && res.Exit != 0:
		return "it failed while the kernel killed a process because the machine, or a group above, ran out of memory"
	}
	return ""
}

// othersSend are the signals by which a user, a scheduler or a service manager ends all processes of a job, perhaps this one
// before kbisect.
var othersSend = []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}

const machineMemory = "the kernel killed one of its processes because the machine, or a group above, ran out of memory"

// ownMemory says that a step failed because its processes used up memory that was their own, or more than half of
// all; "" otherwise.
func ownMemory(res proc.Result) string {
	switch {
	case !res.OOMKilled || res.Exit == 0 && res.Signal == 0:
		return ""
	case res.OOMWhere == "trial":
		return "out of memory: it reached its limit"
	case res.OOMOwn:
		return "out of memory: it held more than half of what the machine, or a group above, has"
	}
	return ""
}

// Starved says that the machine's memory ran out during a step that held little of it; "" otherwise.
func Starved(res proc.Result) string {
	if memoryRanOut(res) && !res.OOMOwn {
		return machineMemory
	}
	return ""
}

func memoryRanOut(res proc.Result) bool { return res.OOMKilled && res.OOMWhere == "machine" }

// Describe says how a failed process ended, with its last words.
func Describe(res proc.Result) string { return howEnded(res) + lastWords(res.Tail) }

func howEnded(res proc.Result) string {
	if res.Signal != 0 {
		return "ended by " + signalName(res.Signal)
	}
	return fmt.Sprintf("exit %d", res.Exit)
}

// signalName is the name of a signal, such as SIGSEGV; "" for none.
func signalName(s syscall.Signal) string {
	if s == 0 {
		return ""
	}
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", s)
}

// stageLimitWords says that a process reached the limit of its stage.
func stageLimitWords(s kernels.Stage) string {
	who := "the process"
	if s.Name != "" {
		who = "stage " + s.Name
	}
	why := fmt.Sprintf("%s reached its limit of %v", who, s.Limit)
	if s.Killed != 0 {
		why += fmt.Sprintf("; KernelBot reports exit %d", s.Killed)
	}
	return why
}

func leftoverWords(n int) string {
	if n == 1 {
		return "1 process was still running when the trial had ended; it was killed"
	}
	return fmt.Sprintf("%d processes were still running when the trial had ended; they were killed", n)
}

// strayWords reports processes outside of the tree that may be the candidate's.
func strayWords(strays []string) (warnings []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(strays))) {
		warnings = append(warnings, "a process that it did not start itself ("+name+") began meanwhile in its folder; it was left alone")
	}
	return warnings
}

// stackWords says where a Python program was when it was killed or crashed; "" if that is unknown.
func stackWords(output []byte) string {
	if where, ok := protocol.PythonStack(output); ok {
		return " at " + where
	}
	return ""
}

// compilerError matches what compilers, linkers and build tools print when they give up: gcc, clang, nvcc, ptxas,
// ld, rustc, CMake, make.
var compilerError = regexp.MustCompile(`(?mi)^.*(\berror *(\[\w+\])? *:|\bfatal *:|CMake Error\b|undefined reference to |No rule to make target ).*$`)

// errorWords is what a failed build found missing or its first error, in brackets, since what compilers print last
// is a line of source, an arrow or a count. If there is none, it is the last line.
func errorWords(exit int, output []byte) string {
	if m, ok := protocol.FindMissing(exit, output); ok {
		return inBrackets([]byte(m.Line), 120)
	}
	line := compilerError.Find(output)
	if line == nil {
		return lastWords(output)
	}
	return inBrackets(line, 120)
}

// lastWords is, for a one-line reason, the last line of the output or the exception with which Python ended.
func lastWords(tail []byte) string {
	if line := protocol.PythonErrorLine(tail); line != nil {
		return inBrackets(line, 80)
	}
	tail = bytes.TrimSpace(tail)
	return inBrackets(tail[bytes.LastIndexByte(tail, '\n')+1:], 80)
}

// inBrackets is one line of output in brackets, cut after most bytes; "" for an empty line.
func inBrackets(text []byte, most int) string {
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(text), ""))
	if line = strings.TrimSpace(line); line == "" {
		return ""
	}
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "..."
	}
	return " (" + line + ")"
}
