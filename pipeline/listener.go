package pipeline

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// unsureTimes is how much longer than its limit a supposed teardown may be silent when it is looked
// at once more.
const unsureTimes = 5

// teardown is the phase from a program's last line to its exit.
const teardown = "teardown"

// listener follows what one process of a trial says and sets its limits.
type listener struct {
	*slot
	r     bisect.Request
	stage kernels.Stage
	alone bool // it is the only process of the trial
	said  protocol.Reader
	pop   *protocol.Popcorn // of a process that speaks KernelBot's protocol

	spent    time.Duration // by the processes before
	ownLimit bool          // the limit of the whole process is that of the stage
	lost     bool          // it could not be started

	series  []bisect.Series // from the output
	entered time.Duration   // when the phase in force began, or was come back to
	until   time.Duration   // the end, or when a limit was reached
}

// listen prepares for a process. Whether the project's programs speak, and how much they say, is
// known from the good end; before that, and when they do not, a trial is one `run` phase.
func (s *slot) listen(r bisect.Request, stage kernels.Stage, spent time.Duration) *listener {
	l := &listener{slot: s, r: r, stage: stage, spent: spent, alone: len(s.Plan.Stages) < 2 && stage.Speaks == ""}
	l.said.Metric, l.said.Base = cmp.Or(stage.Metric, s.SampleMetric), stage.Base
	if l.alone {
		l.said.Expect, l.said.Varies = s.shape, s.shapeVaries
	}
	if stage.Base == "" && s.speaks != nil && *s.speaks {
		l.said.Base = "load"
	}
	if stage.Speaks == kernels.PopcornFD {
		l.pop = &protocol.Popcorn{Stage: stage.Name, Metric: stage.Metric, Ranking: stage.Ranking}
	}
	return l
}

// whole is the limit of the process: its own, or what is left for the trial.
func (l *listener) whole() time.Duration {
	limit := l.bound(l.r, bisect.WholeTrial)
	if limit > 0 {
		limit = max(limit-l.spent, time.Millisecond)
	}
	l.ownLimit = l.stage.Limit > 0 && (limit == 0 || l.stage.Limit <= limit)
	if l.ownLimit {
		return l.stage.Limit
	}
	return limit
}

// phaseBound is what bounds a phase while the process runs.
func (l *listener) phaseBound(phase string) time.Duration {
	return l.withUntold(phase, l.bound(l.r, phase))
}

// withUntold adds to the limit of a phase what imports and compilations may take that happen in it. Where
// times are compared no probe tells them apart.
func (l *listener) withUntold(phase string, limit time.Duration) time.Duration {
	if limit <= 0 || phase == teardown || phase == bisect.WholeTrial || slices.Contains(kernels.ProbePhases(), phase) || !l.unprobed(l.r, l.stage.Run) {
		return limit
	}
	for _, p := range kernels.ProbePhases() {
		limit += l.limit(p)
	}
	return limit
}

// limitOr is the limit that counts: of the phase, or else of the process.
func (l *listener) limitOr(phase time.Duration) time.Duration {
	if phase <= 0 && l.ownLimit {
		return l.stage.Limit
	}
	return l.slot.limitOr(phase)
}

// took is what the process has used up of the limit of the trial; the time that it took to kill it does
// not count.
func (l *listener) took(res proc.Result) time.Duration {
	if l.ownLimit {
		return min(res.Wall, l.stage.Limit)
	}
	return res.Wall
}

// logName is the name of the log of the process.
func (l *listener) logName() string {
	if l.stage.Name == "" {
		return "run"
	}
	return "run-" + l.stage.Name
}

func (l *listener) line(text string, at time.Duration) (t proc.Transition) {
	if l.pop == nil {
		return l.enter(l.said.Line(text, at), at)
	}
	for _, line := range l.pop.Lines(text) {
		if next := l.enter(l.said.Line(line, at), at); next.Phase != "" {
			t = next
		}
	}
	return t
}

// closed is told that the program has closed its descriptor: it has said its last word.
func (l *listener) closed(at time.Duration) proc.Transition { return l.enter(l.said.Close(at), at) }

func (l *listener) output(_ int, line string, _ time.Duration) {
	for _, p := range l.Patterns {
		l.series = p.Line(line, l.series)
	}
}

// enter is what entering a phase does: what is left of its limit holds from now on.
func (l *listener) enter(phase string, at time.Duration) proc.Transition {
	if phase == "" {
		return proc.Transition{}
	}
	l.entered = at
	if l.r.Timing && phase != "load" {
		l.ahead.freeze(true)
	}
	limit := l.phaseBound(phase)
	l.activity(l.r, phase, l.limitOr(limit))
	if phase == teardown {
		if l.unsure {
			limit *= unsureTimes
		}
		limit = l.said.Patience(limit)
	}
	if limit > 0 {
		limit = max(limit-l.said.Spent(phase, at), time.Millisecond)
	}
	return proc.Transition{Phase: phase, Limit: limit}
}

// ended is told how the process ended, so that the phase is known in which it did, and how long the
// phases took: of a trial that reached a limit, until then.
func (l *listener) ended(res proc.Result) {
	l.until = res.Wall
	if res.Timeout == nil {
		l.said.Ended()
		return
	}
	l.until = res.Timeout.Elapsed
	if !res.Timeout.Whole {
		l.until += l.entered
	}
	if l.said.Quiet(l.until, max(l.limit(teardown), time.Second)) {
		l.said.Settle()
	}
}

// learnShape remembers how much a good trial says, which tells of the others when they have said
// their last line. Of programs that do not always say as much it keeps the least.
func (p *Pipeline) learnShape(o bisect.Outcome) {
	var s protocol.Shape
	switch {
	case len(o.Shape) == 0 || json.Unmarshal(o.Shape, &s) != nil:
		return
	case p.shape == nil:
		p.shape = &s
		return
	}
	same := p.shape.Before == s.Before && p.shape.Result == s.Result && maps.Equal(p.shape.Kinds, s.Kinds)
	least, comparable := p.shape.Least(s)
	if !comparable {
		least.Kinds = map[string]int{"never": 1} // no number of lines tells anything
	}
	p.shape, p.shapeVaries = &least, p.shapeVaries || !same
}
