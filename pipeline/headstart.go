package pipeline

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// headStart is what a pipeline knows of the launch after the present one, which may begin before its turn. Its methods
// are called by the pipeline, from one goroutine.
type headStart struct {
	after  bisect.TrialID // the launch right after which next will be asked for
	next   bisect.Request
	launch *earlyLaunch // the one that has begun; nil: none
	void   bool         // the last launch has to be made again alone
}

// earlyLaunch is a launch that begins to load beside the one before it, which may take as long as all the rest of it.
// It stands still while times are taken, and does no more than load before its turn. report and timed are called by
// the launch, the other methods by the pipeline.
type earlyLaunch struct {
	request bisect.Request
	w       *workspace.Workspace // where it runs, and nothing else meanwhile
	built   bisect.Outcome
	cancel  context.CancelFunc
	over    chan struct{} // closed when it has ended
	run     trial.Launched
	err     error
	began   time.Time
	beside  time.Duration // how long it ran beside the launch before it

	mu      sync.Mutex
	pause   chan bool // see [proc.Spec]
	frozen  bool      // times are taken
	waits   bool      // it has loaded, and waits for its turn
	phase   string    // in which it is
	limit   time.Duration
	shown   func(phase string, limit time.Duration) // nil before its turn
	spoiled bool                                    // it took times before its turn
}

// worthHeadStart is how long the good end must load for a head start to be worth it.
const worthHeadStart = 300 * time.Millisecond

// NextLaunch tells a pipeline which launch will be asked for right after another one, so that it may have a head start.
func NextLaunch(p *Pipeline, after, next bisect.Request) {
	p.headStart.after, p.headStart.next = after.ID(), next
}

// take goes on with the launch of an order, if it has begun. It is void if it took times too early, or if it failed and
// what ran beside it may be why.
func (h *headStart) take(ctx context.Context, o trial.Order) (run trial.Launched, begun bool, err error) {
	if !h.has(o.Request) {
		return run, false, nil
	}
	l := h.launch
	h.launch = nil
	err = l.finish(ctx, o.Report)
	h.void = l.spoiled && ctx.Err() == nil || err == nil && l.blames()
	return l.run, true, err
}

// beside takes in how a launch ended, which is void if it failed beside one that has begun, or did not tell when that one
// had to stand still.
func (h *headStart) beside(run trial.Launched, err error) {
	if h.void = h.launch != nil && err == nil && (run.Outcome.Class != bisect.OK || !run.Outcome.Speaks); h.void {
		h.drop()
	}
}

// blames reports that it did not tell when it had loaded, or that what ran beside it may be why it failed. One whose times
// count has to end well. Others may well fail: what fails after its load, or long after it was alone, failed by itself.
func (l *earlyLaunch) blames() bool {
	o, well := l.run.Outcome, l.run.Outcome.Class == bisect.OK
	return well && !o.Speaks || !well && (l.request.Timing || trial.Loads(o.Phase) && o.Wall < 10*l.beside.Seconds())
}

// begin gives the launch after r a head start, if it is known, and if the program tells when it has loaded and takes long
// to do so. Of the ends that is not known yet, but seen in the sources.
func begin(ctx context.Context, p *Pipeline, r bisect.Request) {
	start := &p.headStart
	if start.after != r.ID() || p.prestart == nil || p.clean || p.Config.Recipe.WholeTimed || p.workspaces.name(r) == p.workspaces.name(start.next) {
		return
	}
	start.after, r = bisect.TrialID{}, start.next
	end := r.Purpose == bisect.EndBad
	if end && (runtime.NumCPU() < 2 || len(p.Config.Recipe.Plan.Build) > 0 || p.Config.Limits.Relative()) || !end && p.reference.Times["load"] < worthHeadStart {
		return
	}
	w, built, err := p.prepare(ctx, r)
	if err != nil || built.Class != "" { // it will be met again in its turn
		return
	}
	order := orderOf(p, r, 1)
	if end && !trial.Mentions(w, order, trial.ProtocolVariable, strings.TrimSuffix(harness.Module, ".py")) || w.ClearCaches() != nil {
		return
	}
	if end {
		order.Reference.Speaks = new(true)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the launch beside which it begins
	l := &earlyLaunch{request: r, w: w, built: built, began: time.Now(), cancel: cancel, over: make(chan struct{}), pause: make(chan bool, 1)}
	w.Share.Pause = l.pause
	order.Report, order.OnTimed = l.report, func(on bool) {
		l.timed(on)
		p.ahead.freeze(on)
		p.prestart.Freeze(on)
	}
	start.launch = l
	go func() {
		defer close(l.over)
		defer cancel()
		l.run, l.err = trial.Launch(ctx, w, order)
	}()
}

// has reports that the launch of a request has begun.
func (h *headStart) has(r bisect.Request) bool {
	return h.launch != nil && h.launch.request.ID() == r.ID()
}

// drop ends a launch that was not asked for, and waits for its end.
func (h *headStart) drop() {
	if l := h.launch; l != nil {
		h.launch = nil
		l.cancel()
		<-l.over
		l.w.Share.Pause = nil
	}
}

// freeze stops the launch that has begun while the one before takes times, or lets it go on.
func (h *headStart) freeze(on bool) {
	if l := h.launch; l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.frozen = on
		l.set()
	}
}

// report takes in that the launch enters a phase. Beyond its load it stands still until its turn.
func (l *earlyLaunch) report(phase string, limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase, l.limit = phase, limit; l.shown != nil {
		l.shown(phase, limit)
	} else if !trial.Loads(phase) {
		l.waits = true
		l.set()
	}
}

// timed takes in that times of the launch begin to count. Before its turn they are worthless, and so is the launch.
func (l *earlyLaunch) timed(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on && l.shown == nil {
		l.spoiled = true
		l.cancel()
	}
}

// set pauses the processes or lets them go on. The channel holds one word, and a new one replaces an unread one.
// The caller holds mu.
func (l *earlyLaunch) set() {
	select {
	case <-l.pause:
	default:
	}
	l.pause <- l.frozen || l.waits
}

// finish is its turn: it goes on, reports what it does to show, and returns when it has ended.
func (l *earlyLaunch) finish(ctx context.Context, show func(phase string, limit time.Duration)) error {
	defer context.AfterFunc(ctx, l.cancel)()
	l.mu.Lock()
	l.beside = time.Since(l.began)
	l.shown, l.waits, l.frozen = show, false, false
	if l.phase != "" {
		show(l.phase, l.limit)
	}
	l.set()
	l.mu.Unlock()
	<-l.over
	l.w.Share.Pause = nil
	return l.err
}
