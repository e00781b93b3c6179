package trial

import (
	"cmp"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/prestart"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// process is one process of a launch. It follows what the program sends and sets the limits of its phases. Its
// callbacks (line, closed, output) are called one at a time while the process runs.
type process struct {
	w        *workspace.Workspace
	order    Order
	stage    kernels.Stage
	argv     []string
	warnings []string // about the whole job
	probed   bool     // the probe for Python goes with it
	bounds   Bounds
	limit    time.Duration // of the whole process; 0 is none
	ownLimit bool          // that is the limit of the stage and not what is left for the trial
	alone    bool          // it is the only process of the trial

	protocol  *protocol.Reader
	popcorn   *protocol.Popcorn // of a process that speaks KernelBot's protocol
	series    []bisect.Series   // from the output
	entered   time.Duration     // when the phase in force began, or was returned to
	until     time.Duration     // when it ended or reached a limit, since its start
	counts    bool              // the times of the phase in force count
	disturbed bool              // times began to count while the process before still tore down, which takes longer than this one's start
	waiter    *prestart.Waiter  // the process that was started before its turn; nil: none
	plain     bool              // it must not be started early, nor left to tear down
	said      chan struct{}     // closed when it has sent all that a good one does; nil: its end is awaited anyway
	left      bool              // it was left to tear down
	more      bool              // it sent more after that, so that said was wrong
}

// newProcess prepares a process; spent is what those before it have used of the limit of the trial.
func newProcess(w *workspace.Workspace, o Order, stage kernels.Stage, spent time.Duration) *process {
	p := o.Recipe
	x := &process{w: w, order: o, stage: stage, bounds: o.Bounds, alone: alone(p, stage), protocol: o.Reference.Protocol(p, stage)}
	if stage.Speaks == kernels.PopcornFD {
		x.popcorn = &protocol.Popcorn{Stage: stage.Name, Metric: stage.Metric, Ranking: stage.Ranking}
	}
	var warning string
	if x.argv, warning = p.Argv(w, stage.Run); warning != "" {
		x.warnings = append(x.warnings, warning)
	}
	x.probed, x.bounds.Unprobed = p.Probe.goesWith(o.Request, p.WorkDir(w), x.argv)
	x.limit = x.bounds.inForce(bisect.WholeTrial)
	if x.limit > 0 { // 0 would be no limit at all
		x.limit = max(x.limit-spent, time.Millisecond)
	}
	if x.ownLimit = stage.Limit > 0 && (x.limit == 0 || stage.Limit <= x.limit); x.ownLimit {
		x.limit = stage.Limit
	}
	return x
}

// alone reports whether a process is the only one of the trial and speaks the trial protocol.
func alone(p Recipe, stage kernels.Stage) bool { return len(p.Plan.Stages) < 2 && stage.Speaks == "" }

// Protocol returns a reader for the lines of a process. Whether the project's programs speak, and how much they
// send, is known from the good end; before that, and if they do not, a trial is one `run` phase.
func (g Reference) Protocol(p Recipe, stage kernels.Stage) *protocol.Reader {
	reader := &protocol.Reader{Metric: cmp.Or(stage.Metric, p.SampleMetric), Base: stage.Base}
	if alone(p, stage) {
		reader.Expect, reader.Varies = g.Shape, g.Varies
	}
	if stage.Base == "" && g.Speaks != nil && *g.Speaks {
		reader.Base = "load"
	}
	return reader
}

// logName is the name of the log of the process.
func (x *process) logName() string {
	if x.stage.Name == "" {
		return "run"
	}
	return "run-" + x.stage.Name
}

// report reports the phase in force with the limit that counts: its own, or else that of the process.
func (x *process) report(phase string, limit time.Duration) {
	if limit <= 0 {
		limit = x.bounds.Limits.Run
		if x.ownLimit {
			limit = x.stage.Limit
		}
	}
	if x.order.Report != nil {
		x.order.Report(phase, limit)
	}
}

// untimed are the phases of which no time is compared, unless that of the whole is.
var untimed = []string{"load", "import", "extension", "compile", teardown}

// Measures reports a phase whose time may be compared.
func Measures(phase string) bool { return !slices.Contains(untimed, phase) }

// loads reports a phase in which a program does nothing on a device except make a context and fill memory.
func loads(phase string) bool {
	return phase == teardown || slices.Contains(untimed, phase) && phase != "compile"
}

// Prepares reports a phase, after those that are untimed, in which a program takes no times yet. It may be paused there.
func Prepares(phase string) bool {
	return slices.Contains([]string{"warmup", "capture", "check"}, phase)
}

// Beside returns the phases in which a program may run beside one that loads, compiles or tears down. One that does not warm
// up might take times before it can be paused after its compile phase.
func Beside(p Recipe, warmsUp bool) func(phase string) bool {
	compiles := warmsUp && !p.CompileTimed
	return func(phase string) bool { return loads(phase) || compiles && phase == "compile" }
}

// timed notes whether times count in a phase and reports a change; "" is after the last phase.
func (x *process) timed(phase string) {
	r, whole := x.order.Request, x.order.Reference.StartCounts(x.order.Recipe)
	on := r.Timing && phase != "" && (whole || Measures(phase))
	if on && (whole || !Prepares(phase)) && x.order.Prestart.Leaving() {
		x.disturbed = true
		x.order.Prestart.Stay()
	}
	if on == x.counts {
		return
	}
	x.counts = on
	if x.order.OnTimed != nil {
		x.order.OnTimed(on)
	}
}

// line takes a line that the program has sent, see [proc.Spec.Watch].
func (x *process) line(text string, at time.Duration) (t proc.Transition) {
	if x.complete() {
		x.more = true
		return t
	}
	if x.popcorn == nil {
		t = x.enter(x.protocol.Line(text, at), at)
		if x.said != nil && x.protocol.Complete() {
			close(x.said)
		}
		return t
	}
	for _, line := range x.popcorn.Translate(text) {
		if next := x.enter(x.protocol.Line(line, at), at); next.Phase != "" {
			t = next
		}
	}
	return t
}

// complete reports that it has sent everything: what comes then is not read any more.
func (x *process) complete() bool {
	select {
	case <-x.said:
		return true
	default:
		return false
	}
}

// closed notes that the program has closed its descriptor. It has sent its last line then, so that teardown begins.
func (x *process) closed(at time.Duration) (t proc.Transition) {
	if x.complete() {
		return t
	}
	return x.enter(x.protocol.Close(at), at)
}

// output looks for metrics in a line of output, of standard output and standard error alike.
func (x *process) output(_ int, line string, _ time.Duration) {
	for _, p := range x.order.Recipe.Patterns {
		x.series = p.Line(line, x.series)
	}
}

// enter enters a phase, in which what is left of its limit holds from now on.
func (x *process) enter(phase string, at time.Duration) proc.Transition {
	if phase == "" {
		return proc.Transition{}
	}
	x.entered = at
	x.timed(phase)
	limit := x.bounds.inForce(phase)
	x.report(phase, limit)
	if phase == teardown { // a pause between two lines must not be taken for the end
		limit = x.protocol.Patience(limit * time.Duration(max(x.order.Patience, 1)))
	}
	if limit > 0 { // a phase that is entered again goes on with what it has left
		limit = max(limit-x.protocol.Spent(phase, at), time.Millisecond)
	}
	return proc.Transition{Phase: phase, Limit: limit}
}

// finish takes in how the process ended, so that it is known in which phase that was and how long the phases took;
// of a process that reached a limit, until then.
func (x *process) finish(res proc.Result) {
	x.until = res.Wall
	if res.Timeout == nil {
		x.protocol.Ended()
		return
	}
	x.until = res.Timeout.Elapsed
	if !res.Timeout.Whole {
		x.until += x.entered
	}
	x.protocol.HitLimit(x.until, max(x.bounds.limit(teardown), time.Second))
}

// ended collects what classify looks at.
func (x *process) ended(res proc.Result) ended {
	p := x.order.Recipe
	e := ended{
		res: res, stage: x.stage, bounds: x.bounds, ownLimit: x.ownLimit,
		reported: x.protocol.Said(), phase: x.protocol.Phase(),
		phases:   x.protocol.Phases(x.until, res.Timeout != nil || res.Signal != 0),
		supposed: x.protocol.TeardownInferred(), compiles: p.Plan.Kind == kernels.KindTorch,
		searching: x.order.Request.Purpose == bisect.Searching, suspected: x.order.Suspected,
	}
	if x.popcorn != nil {
		class, why := x.popcorn.Ending(res.Exit, res.Tail)
		e.popcorn = &popcornEnd{overflows: p.Plan.Undrained && x.popcorn.Overflows(), class: class, why: why}
	}
	return e
}

// spent is what the process has used of the limit of the trial, without the time that it took to kill it.
func (x *process) spent(res proc.Result) time.Duration {
	if x.ownLimit {
		return min(res.Wall, x.stage.Limit)
	}
	return res.Wall
}
