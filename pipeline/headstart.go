package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// headStart is a launch that begins to load beside the one before it, which may take as long as all the rest of it. It
// stands still while times are taken, and does no more than load before its turn. Its own methods are called by the
// pipeline, from one goroutine; report and timed by its launch.
type headStart struct {
	request bisect.Request
	w       *workspace.Workspace // where it runs, and nothing else meanwhile
	built   bisect.Outcome
	cancel  context.CancelFunc
	over    chan struct{} // closed when it has ended
	run     trial.Launched
	err     error

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
func NextLaunch(p *Pipeline, after, next bisect.Request) { p.after, p.next = after.ID(), next }

// besideNext makes a launch, or goes on with it if it has begun to load, and gives the next one a head start. void says
// that it has to be made again alone, since what ran beside it may be why it failed, or took times too early.
func besideNext(ctx context.Context, p *Pipeline, w *workspace.Workspace, o trial.Order) (run trial.Launched, void bool, err error) {
	if h := p.headStart; h.of(o.Request) {
		p.headStart = nil
		return h.finish(ctx, o.Report)
	}
	begin(ctx, p, o.Request)
	run, err = trial.Launch(ctx, w, o)
	if h := p.headStart; h != nil && err == nil && run.Outcome.Class != bisect.OK {
		h.drop()
		p.headStart = nil
		return run, true, nil
	}
	return run, false, err
}

// begin gives the launch after r a head start, if it is known, and if the program tells when it has loaded and takes long
// to do so.
func begin(ctx context.Context, p *Pipeline, r bisect.Request) {
	if p.after != r.ID() || p.prestart == nil || p.clean || p.reference.Times["load"] < worthHeadStart {
		return
	}
	p.after, r = bisect.TrialID{}, p.next
	w, built, err := p.prepare(ctx, r)
	if err != nil || built.Class != "" || w.ClearCaches() != nil { // it will be met again in its turn
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the launch beside which it begins
	h := &headStart{request: r, w: w, built: built, cancel: cancel, over: make(chan struct{}), pause: make(chan bool, 1)}
	w.Share.Pause = h.pause
	order := orderOf(p, r, 1)
	order.Report, order.OnTimed = h.report, func(on bool) {
		h.timed(on)
		p.ahead.freeze(on)
		p.prestart.Freeze(on)
	}
	p.headStart = h
	go func() {
		defer close(h.over)
		defer cancel()
		h.run, h.err = trial.Launch(ctx, w, order)
	}()
}

// of reports that a request is the one whose launch has begun.
func (h *headStart) of(r bisect.Request) bool { return h != nil && h.request.ID() == r.ID() }

// report takes in that the launch enters a phase. Beyond its load it stands still until its turn.
func (h *headStart) report(phase string, limit time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase, h.limit = phase, limit; h.shown != nil {
		h.shown(phase, limit)
	} else if !trial.Loads(phase) {
		h.waits = true
		h.set()
	}
}

// timed takes in that times of the launch begin to count. Before its turn they are worthless, and so is the launch.
func (h *headStart) timed(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if on && h.shown == nil {
		h.spoiled = true
		h.cancel()
	}
}

// freeze stops it while the launch before takes times, or lets it go on.
func (h *headStart) freeze(on bool) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = on
	h.set()
}

// set pauses the processes or lets them go on. The channel holds one word, and a new one replaces an unread one.
// The caller holds mu.
func (h *headStart) set() {
	select {
	case <-h.pause:
	default:
	}
	h.pause <- h.frozen || h.waits
}

// finish is its turn: it goes on, reports what it does to show, and returns when it has ended; see besideNext.
func (h *headStart) finish(ctx context.Context, show func(phase string, limit time.Duration)) (run trial.Launched, void bool, err error) {
	defer context.AfterFunc(ctx, h.cancel)()
	h.mu.Lock()
	h.shown, h.waits = show, false
	if h.phase != "" {
		show(h.phase, h.limit)
	}
	h.set()
	h.mu.Unlock()
	<-h.over
	h.w.Share.Pause = nil
	if h.spoiled && ctx.Err() == nil || h.err == nil && h.run.Outcome.Class != bisect.OK {
		return h.run, true, nil
	}
	return h.run, false, h.err
}

// drop ends a launch that was not asked for, and waits for its end.
func (h *headStart) drop() {
	if h == nil {
		return
	}
	h.cancel()
	<-h.over
	h.w.Share.Pause = nil
}
