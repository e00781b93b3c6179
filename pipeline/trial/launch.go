package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/prestart"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Order is one launch: all processes of the plan, one after the other. It is a value.
type Order struct {
	Recipe    Recipe
	Request   bisect.Request
	Bounds    Bounds
	Reference Reference
	Suspected bool                                    // a step of this candidate was blamed on another process before
	Patience  int                                     // multiplies the limit of a supposed teardown; 0 is 1
	ProbeDir  string                                  // where the probe for Python is written
	Report    func(doing string, limit time.Duration) // progress; may be nil
	OnTimed   func(on bool)                           // told when times begin and cease to count; may be nil
	Prestart  *prestart.Pool                          // starts interpreters before their turn; may be nil
	Searched  bool                                    // the launch begins before its turn, and no other may follow in its workspace
	Failure   bisect.Outcome                          // how the bad end failed; no class if it did not, or is not known
}

// Launched is how the processes of one launch went.
type Launched struct {
	Outcome    bisect.Outcome
	NotStarted bool          // a process could not be started: nothing else is known
	Killed     bool          // a process was killed, and may have left a lock file in the caches
	Left       bool          // the last process is still tearing down
	Suspicious bool          // another process may have ended it
	Missing    string        // a file that the repository lacks, if that may be why it failed, see Excuse
	Last       proc.Result   // of the last process
	Stall      time.Duration // how long kbisect itself did not run
	Warnings   []string      // about the whole job
}

const (
	// ProtocolVariable is the environment variable with the number of the descriptor for the trial protocol.
	ProtocolVariable = "KBISECT_FD"

	// TailMax is how much of the output is searched for words about the machine and for stacks, in bytes;
	// tailKept is how much of it is kept with the outcome.
	TailMax  = 64 << 10
	tailKept = 4 << 10
)

// Launch runs the processes of the plan in a workspace that holds the candidate, until one of them fails. A failure
// of a process that was started early, or beside one that still tore down, counts only if the process fails again
// without that. If it ends as the bad end did and the request bears it, it counts as an early failure at once. Times that
// began beside a process that still tore down do not count: they are taken again without it.
//
// The files of the plan are written anew first, since a candidate may have changed the judge's files, and old
// results are removed, since a program that writes none would be judged by them. An error is the machine's fault or
// a *CommandError.
func Launch(ctx context.Context, w *workspace.Workspace, o Order) (Launched, error) {
	p := o.Recipe
	if failed, missing, err := p.writeFiles(ctx, w, o.Request.Candidate); err != nil || failed.Class != "" {
		return Launched{Outcome: failed, NotStarted: true, Missing: missing}, err
	}
	if err := clearResults(w.Dir, p.Sources); err != nil {
		return Launched{}, err
	}
	// One launch of a candidate tells what others open as well.
	if p.Learn && !w.Contents.Noted {
		defer workspace.NoteLaunch(w, o.Request.Timing)()
	}
	var sum trialProgress
	for _, stage := range p.Stages(o.Request.Candidate) {
		beside, held := o.Prestart.Leaving(), false
		x := newProcess(w, o, stage, sum.spent)
		run, err := x.run(ctx)
		// No candidate is blamed for how its process was started: a failure has to come again in a process of its own,
		// with nothing beside it that may hold the memory of the device.
		failed, hard := err == nil && run.Outcome.Class != bisect.OK, run.Outcome.Class == bisect.Timeout || run.Outcome.Class == bisect.Infra
		doubtful := failed && (x.waiter != nil || beside)
		if doubtful && o.Request.Tentative && !beside && run.Outcome.EndsAs(o.Failure) {
			run.Outcome.Early, doubtful = true, false
		}
		known, first := o.Failure.Class != "", o.Request.Purpose == bisect.EndBad
		if doubtful || failed && (o.Request.Timing || hard || known && !run.Outcome.EndsAs(o.Failure) || !known && first && prestart.Lacks(o.Prestart)) {
			waited := prestart.Clear(o.Prestart) // which may hold a lock
			held, doubtful = waited && x.waiter == nil, doubtful || waited
		}
		// It was paused as soon as it said so, but may have taken times before that, and one may hold the pause.
		if doubtful || x.disturbed && err == nil {
			o.Prestart.Await(nil)
			// It finds the caches empty, as the first one did.
			if w.Caches.Warmed != o.Request.Candidate {
				if err := w.ClearCaches(); err != nil {
					return Launched{}, err
				}
			}
			x = newProcess(w, o, stage, sum.spent)
			x.plain = true
			if run, err = x.run(ctx); doubtful && err == nil && run.Outcome.Class == bisect.OK {
				o.Prestart.Doubt(w)
				if held { // wherever they wait
					o.Prestart.Doubt(nil)
				}
				if beside {
					o.Prestart.Stay()
				}
			}
		}
		prestart.Allow(o.Prestart)
		run.Outcome.Ahead = x.waiter != nil
		if err != nil || run.NotStarted {
			run.Warnings = slices.Concat(sum.Warnings, run.Warnings)
			return run, err
		}
		sum.add(stage, run, x.spent(run.Last))
		if sum.Outcome.Class != bisect.OK {
			break
		}
	}
	readResults(w.Dir, p.Sources, sum.used, &sum.Outcome)
	return sum.Launched, nil
}

// trialProgress is how the processes of one launch have gone so far.
type trialProgress struct {
	Launched
	spent time.Duration // of the limit of the whole trial
	used  metrics.Used
}

// add takes in how the next process went. How an optional one ended decides nothing, unless the whole trial has
// reached its limit or the machine failed.
func (t *trialProgress) add(stage kernels.Stage, run Launched, spent time.Duration) {
	o := run.Outcome
	if stage.Optional && !o.Whole && o.Class != bisect.Infra {
		if o.Class == bisect.Timeout {
			o.Warnings = append(o.Warnings, o.Why+", in stage "+stage.Name+", which may fail: the next stage is run anyway")
		}
		o.Class, o.Phase, o.Why, o.Early, o.Supposed = bisect.OK, "", "", false, false
	}
	t.Outcome = joined(t.Outcome, o)
	t.Last, t.spent, t.Stall = run.Last, t.spent+spent, t.Stall+run.Stall
	t.used = t.used.Plus(metrics.Used{
		CPU: (run.Last.User + run.Last.System).Seconds(), Instructions: run.Last.Instructions,
		Enabled: run.Last.Enabled.Seconds(), Counted: run.Last.Counted.Seconds(),
	})
	t.Outcome.CPU = t.used.CPU
	t.Killed = t.Killed || run.Killed
	t.Left = run.Left
	t.Suspicious = t.Suspicious || run.Suspicious
	t.Missing = run.Missing
	t.Warnings = append(t.Warnings, run.Warnings...)
}

// joined is the outcome of two processes of one launch, of which b ran later.
func joined(a, b bisect.Outcome) bisect.Outcome {
	times := slices.Clone(a.Phases)
	for _, p := range b.Phases {
		times = protocol.AddPhase(times, p.Name, p.Seconds)
	}
	b.Phases, b.Series, b.Warnings = times, slices.Concat(a.Series, b.Series), slices.Concat(a.Warnings, b.Warnings)
	b.Wall, b.Memory, b.Speaks = a.Wall+b.Wall, max(a.Memory, b.Memory), a.Speaks || b.Speaks
	b.Unfit = cmp.Or(a.Unfit, b.Unfit)
	return b
}

// spec says how the process is started.
func (x *process) spec() (proc.Spec, error) {
	w, p, r := x.w, x.order.Recipe, x.order.Request
	env, err := p.RunEnv(w, r)
	if err != nil {
		return proc.Spec{}, err
	}
	spec := proc.Spec{
		Argv: x.argv, Dir: p.WorkDir(w), Env: append(env, x.stage.Env...), Output: p.LogFile(r, x.logName()), Tail: TailMax,
		OutputMax: p.outputMax(), Limit: x.limit, Phase: x.protocol.Phase(), MemoryMax: x.bounds.Limits.RunMemory,
		Protocol: ProtocolVariable, Watch: x.line, Closed: x.closed,
		Instructions: slices.ContainsFunc(p.Sources, func(s Source) bool { return s.From == metrics.Instructions }),
	}
	if x.stage.Speaks != "" {
		spec.Aliases, spec.WaitOutput = []string{x.stage.Speaks}, !x.stage.Optional // as KernelBot's runner does
	}
	spec.PhaseLimit = x.bounds.inForce(spec.Phase) // of the first phase; enter sets the others'
	if len(p.Patterns) > 0 {
		spec.OnOutput = x.output
	}
	if x.probed {
		if err := kernels.WriteProbe(x.order.ProbeDir); err != nil {
			return spec, &bisect.InfraError{What: "writing the probe for Python", Err: err}
		}
		spec.Env = kernels.ProbeEnv(spec.Env, x.order.ProbeDir)
	}
	return spec, nil
}

// run runs the process to its end, classifies it, and then adds what was measured. Nothing that was measured
// changes how it is judged.
func (x *process) run(ctx context.Context) (run Launched, err error) {
	w, p, r := x.w, x.order.Recipe, x.order.Request
	spec, err := x.spec()
	if err != nil {
		return run, err
	}
	defer x.timed("")
	run.Warnings = x.warnings
	run.Last, err = x.start(ctx, spec)
	if errors.Is(err, syscall.ENOEXEC) { // a script without a #! line, which a shell would run itself
		spec.Argv = append([]string{"/bin/sh"}, spec.Argv...)
		run.Last, err = w.Run(ctx, spec)
	}
	if err != nil {
		run.NotStarted = true
		run.Outcome, err = p.cannotStart(w, r, spec.Argv[0], err)
		run.Missing = p.missing(w, spec.Argv...)
		return run, err
	}
	run.Last.Tail = ownPaths(w, protocol.Unescape(run.Last.Tail))
	x.finish(run.Last)
	e := x.ended(run.Last)
	run.Outcome = x.measured(classify(e), run.Last)
	run.Outcome.Phases, run.Outcome.Log = e.phases, spec.Output
	run.Suspicious, run.Stall, run.Left = e.suspicious() != "", run.Last.Stall, x.left
	run.Missing = p.missing(w, string(run.Last.Tail), e.reported.Wrong)
	run.Killed = run.Last.Timeout != nil || run.Last.Signal != 0
	if x.probed && p.Probe != ProbeOn {
		run.Outcome.Unfit = "it ran with the probe" // which costs time, so that times with and without it differ
	}
	return run, nil
}

// Excuse turns a failure into a skip if it may be due to a file that the repository lacks, so that it does not
// count against the commit.
func Excuse(o bisect.Outcome, missing string) bisect.Outcome {
	if missing == "" || o.Class == "" || o.Class == bisect.OK || o.Class == bisect.Skip || o.Class == bisect.Infra {
		return o
	}
	o.Why = fmt.Sprintf("%s (git fetch --refetch may restore it), and it fails: %s", missing, o.Describe())
	o.Class, o.Phase, o.Early, o.Supposed = bisect.Skip, "", false, false
	return o
}

// measured adds what was measured to what was decided about the process.
func (x *process) measured(o bisect.Outcome, res proc.Result) bisect.Outcome {
	o.Exit, o.Signal, o.Speaks, o.Wall, o.Memory = res.Exit, signalName(res.Signal), x.protocol.Speaks(), res.Wall.Seconds(), res.MemoryPeak
	o.Tail = string(res.Tail[max(0, len(res.Tail)-tailKept):])
	warnings := x.protocol.Warnings()
	series := x.protocol.Series()
	if x.popcorn != nil {
		warnings = slices.Concat(warnings, x.popcorn.Warnings())
		series = slices.Concat(series, x.popcorn.Series())
	}
	o.Warnings = slices.Concat(warnings, o.Warnings, strayWords(res.Strays))
	o.Series = slices.Concat(series, x.series)
	if o.Class == bisect.OK && x.alone { // how much it sent is compared with single processes only
		o.Shape = []byte(asJSON(x.protocol.Shape()))
	}
	return o
}
