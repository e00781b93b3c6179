package trial

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// ended is how one process of a trial ended: everything that classify looks at.
type ended struct {
	res    proc.Result
	stage  kernels.Stage
	bounds Bounds

	reported protocol.Said      // the program's own words about the trial
	phase    string             // in which it ended
	phases   []bisect.PhaseTime // as far as it got
	supposed bool               // phase is teardown only because the program has sent as much as the good end does

	popcorn   *popcornEnd // of a process that speaks KernelBot's protocol
	compiles  bool        // the program calls compilers, as PyTorch's does
	ownLimit  bool        // the limit of the whole process was that of its stage
	searching bool        // the answer will be confirmed: see [bisect.Searching]
	suspected bool        // a step of this candidate was already blamed on another process
}

// popcornEnd is what KernelBot's runner makes of a process that ended by itself.
type popcornEnd struct {
	overflows bool // the server would not read all that it sent
	class     bisect.Class
	why       string
}

// The exit codes with a meaning, as for git bisect run.
const (
	exitSkip  = 125
	exitFatal = 128 // and above: a signal, by the convention of shells
)

// classify decides how a process of a trial ended. It is pure. The first matching rule wins, so that their order is
// the policy: what the program reported about the machine, then how it was ended, then its exit code, what it
// reported about itself, and which phases took too long. The phase in which it ended has been decided before, see
// kernels/protocol/teardown.go.
func classify(t ended) bisect.Outcome {
	exit := t.res.Exit
	switch {

	// The program knows best that the machine failed, however it then ended.
	case t.reported.Infra != "":
		return outcome(bisect.Infra, t.phase, t.reported.Infra)

	// A signal from outside may have come from anywhere, once. If it comes again, the candidate sends it.
	case t.suspicious() != "" && !t.suspected:
		return outcome(bisect.Infra, t.phase, t.suspicious())

	// We ended these: their exit status is ours, not theirs.
	case t.res.Timeout != nil:
		return t.timeout()

	// One of its processes used up the memory that was its own.
	case ownMemory(t.res) != "":
		return t.died(bisect.Crash, ownMemory(t.res))

	// It ended itself by a signal, or left us no choice but to end it.
	case t.res.StoppedParent:
		return t.died(bisect.Crash, "it stops kbisect, or the process that supervises it, by signals")
	case t.res.KilledParent:
		return t.died(bisect.Crash, "it kills the process that supervises it")
	case t.res.Signal != 0:
		return t.died(bisect.Crash, howEnded(t.res)+stackWords(t.res.Tail))

	// KernelBot's runner believes the check that was sent, and its own exit codes; ours mean nothing to it.
	case t.popcorn != nil && t.popcorn.overflows:
		return outcome(bisect.Timeout, cmp.Or(t.stage.Name, t.phase), fmt.Sprintf("it sent more on POPCORN_FD than a pipe holds: on the server it waits until its limit; KernelBot reports exit %d", protocol.ExitTimeout))
	case t.popcorn != nil && t.popcorn.class != bisect.OK:
		return t.popcornFailure()
	case t.popcorn != nil:
		return t.completed()

	// PyTorch's programs build their kernels while they run, and abort when that fails.
	case t.compilerFailed() != "":
		return t.died(bisect.BuildFailed, t.compilerFailed())

	// A crash comes before what it reported: a program that dies has not finished its check.
	case exit >= exitFatal:
		return t.died(bisect.Crash, howEnded(t.res)+cmp.Or(stackWords(t.res.Tail), lastWords(t.res.Tail)))

	// A skip comes before a wrong result: what cannot be tested cannot be wrong.
	case t.reported.Skip != "":
		return outcome(bisect.Skip, t.phase, t.reported.Skip)
	case exit == exitSkip:
		return outcome(bisect.Skip, t.phase, "the command asked to skip (exit 125)")

	// The reported reason says more than the exit code, and holds for programs that exit 0 all the same.
	case t.reported.Wrong != "":
		return t.died(bisect.Wrong, t.reported.Wrong)
	case exit != 0:
		return t.died(bisect.Wrong, howEnded(t.res)+lastWords(t.res.Tail))
	}
	return t.completed()
}

// outcome is an outcome with nothing but these fields.
func outcome(c bisect.Class, phase, why string) bisect.Outcome {
	return bisect.Outcome{Class: c, Phase: phase, Why: why}
}

// suspicious is what another process may have done to end it; "" if nothing suggests that.
func (t ended) suspicious() string {
	if t.reported.Infra != "" {
		return ""
	}
	return endedFromOutside(t.res)
}

// died is an end that the candidate is to blame for.
func (t ended) died(c bisect.Class, why string) bisect.Outcome {
	o := outcome(c, t.phase, why)
	if c == bisect.Wrong && t.reported.Wrong != "" && t.popcorn == nil {
		o.Phase = t.reported.FailedIn
	}
	if c == bisect.Wrong || c == bisect.Crash {
		o.Error = protocol.PythonError(t.res.Tail)
	}
	return o
}

// timeout is an end at a limit: of the phase, of the stage, or of the whole trial.
func (t ended) timeout() bisect.Outcome {
	whole := t.res.Timeout.Whole
	o := outcome(bisect.Timeout, t.phase, "")
	o.Whole = whole && !t.ownLimit
	limited, name := t.phase, t.phase
	if o.Whole {
		limited, name = bisect.WholeTrial, "the whole trial"
	}
	var hurried string
	hurried, o.Early = t.bounds.hurried(limited)
	o.Limit = t.bounds.inForce(limited).Seconds()
	switch {
	case whole && t.ownLimit:
		o.Why, o.Limit = stageLimitWords(t.stage), t.stage.Limit.Seconds()
	case o.Early:
		o.Why = hurried
	default:
		o.Why = fmt.Sprintf("%s reached its limit of %v", name, t.bounds.inForce(limited))
	}
	if t.reported.Case != "" && t.phase != teardown {
		o.Why += " in case " + t.reported.Case
	}
	o.Why += stackWords(t.res.Tail)
	if t.res.Held {
		o.Why += "; it had ended, but a process that it left running keeps its output open"
	}
	o.Supposed = t.phase == teardown && t.supposed
	o.Early = o.Early || o.Supposed && t.searching // a culprit is confirmed with more patience
	return o
}

// popcornFailure is what KernelBot's runner would report for a process that ended by itself.
func (t ended) popcornFailure() bisect.Outcome {
	why := t.popcorn.why
	if t.popcorn.class == bisect.Crash {
		why += stackWords(t.res.Tail) + lastWords(t.res.Tail)
	}
	o := t.died(t.popcorn.class, why)
	if o.Phase == teardown && o.Class == bisect.Wrong {
		o.Phase = t.stage.Name // the check is its last line, so that no phase of the process is meant
	}
	return o
}

// compilerFailed is what a compiler printed that gave up while the program ran; "" if none did.
func (t ended) compilerFailed() string {
	if !t.compiles || t.res.Exit == 0 {
		return ""
	}
	line, _ := protocol.BuildError(t.res.Tail)
	return line
}

// completed is an end without a complaint. How long load and teardown took is known only now, and may have been too
// long.
func (t ended) completed() bisect.Outcome {
	i := slices.IndexFunc(t.phases, func(ph bisect.PhaseTime) bool {
		limit := t.bounds.allowed(ph.Name)
		return limit > 0 && ph.Seconds > limit.Seconds()
	})
	if i >= 0 {
		ph := t.phases[i]
		limit := t.bounds.allowed(ph.Name)
		o := outcome(bisect.Timeout, ph.Name, fmt.Sprintf("%.3g s in %s, limit %v", ph.Seconds, ph.Name, limit))
		o.Limit = limit.Seconds()
		return o
	}
	o := outcome(bisect.OK, "", "")
	if n := t.res.Leftover; n > 0 && t.popcorn == nil { // Python's pools, in KernelBot's evaluations, leave one behind
		o.Warnings = append(o.Warnings, leftoverWords(n))
	}
	return o
}

// endedBuild is how a build command ended: everything that classifyBuild looks at.
type endedBuild struct {
	res       proc.Result
	bounds    Bounds
	missing   []string // outputs that the plan names and the build did not leave
	suspected bool     // see ended
}

// classifyBuild decides how a build ended, as classify does for a process of a trial. A build that succeeded has no
// class, since the trial goes on.
func classifyBuild(t endedBuild) bisect.Outcome {
	switch {
	// All processes of the machine use its memory up, so that a second time proves nothing.
	case t.failed() && Starved(t.res) != "":
		return outcome(bisect.Infra, "", "in the build "+Starved(t.res))
	case t.suspicious() != "" && !t.suspected:
		return outcome(bisect.Infra, "", "the build failed: "+t.suspicious())
	case t.res.Timeout != nil:
		o := outcome(bisect.Timeout, "", fmt.Sprintf("the build did not end within %v", t.res.Timeout.Limit))
		o.Limit = t.res.Timeout.Limit.Seconds()
		if why, ok := t.bounds.hurried("build"); ok {
			o.Early, o.Why = true, why
		}
		return o
	case ownMemory(t.res) != "":
		return outcome(bisect.BuildFailed, "", ownMemory(t.res))
	case t.res.Exit == exitSkip:
		return outcome(bisect.Skip, "", "the build command asked to skip (exit 125)")
	case t.failed():
		return outcome(bisect.BuildFailed, "", howEnded(t.res)+errorWords(t.res.Exit, t.res.Tail))
	case len(t.missing) > 0:
		return outcome(bisect.BuildFailed, "", fmt.Sprintf("the build succeeded but left no %s, which is named as its output", t.missing[0]))
	}
	return bisect.Outcome{}
}

// failed reports a build that did not end with exit 0 within its limit.
func (t endedBuild) failed() bool {
	return t.res.Exit != 0 || t.res.Signal != 0 || t.res.Timeout != nil
}

// suspicious is what other than the candidate may have made the build fail; "" if nothing suggests that.
func (t endedBuild) suspicious() string {
	if !t.failed() || Starved(t.res) != "" {
		return ""
	}
	if words, accused := protocol.FindFault(t.res.Tail); accused && words.Kind == protocol.Passing {
		return "it printed: " + words.Text
	}
	return endedFromOutside(t.res)
}
