// Package headstart begins launches before their turn: the bad end beside the good one, the first launches of a proof
// beside those of the search, and commits that the search may ask for next. They are started as a user would, load and, if the
// program warms up before it takes times, compile, which may take longer than all the rest. They stand still while times are
// taken, and do no more before they are asked for. Where no times count, one that says nothing runs freely, to its end.
//
// Nothing may be blamed for what ran beside it: [Launches] says which launches have to be made again alone, and which ran
// beside free ones, so that the caller can tell.
package headstart

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Launches are those that have begun before their turn. All methods but Want are called by one goroutine at a time, that
// which makes the launches. The zero value is ready.
type Launches struct {
	Void    bool // the last launch has to be made again alone
	harmed  bool // one was void, or in the way: nothing begins before its turn any more
	accused *accused
	begun   []*launch
	turn    *launch // the launch in turn, if it had begun before

	mu     sync.Mutex
	wanted []bisect.Request // may begin before their turn
	quiet  bool             // none may, until others are wanted
}

// accused is a launch that failed beside others. Made again alone, it shows whether these were why.
type accused struct {
	id  bisect.TrialID
	end bisect.Outcome
}

// launch is one that has begun. report and timed are called by the launch itself.
type launch struct {
	request bisect.Request
	w       *workspace.Workspace // where it runs, and nothing else meanwhile
	built   bisect.Outcome
	beside  func(phase string) bool // whether it may be in a phase before its turn; nil: it runs freely
	told    func(on bool)           // see [trial.Order.OnTimed]
	cancel  context.CancelFunc
	over    chan struct{} // closed when it has ended
	still   chan struct{} // closed when it has done what it may before its turn
	run     trial.Launched
	err     error
	began   time.Time
	shared  time.Duration // how long it ran beside other launches

	mu      sync.Mutex
	pause   chan bool // see [proc.Spec]
	frozen  bool      // times are taken
	waits   bool      // it has done what it may before its turn
	counts  bool      // its times count from now on
	phase   string    // in which it is
	limit   time.Duration
	shown   func(phase string, limit time.Duration) // nil before its turn
	spoiled bool                                    // it took times before its turn, or was in the way
}

// Want takes in which launches are likely to be asked for.
func (h *Launches) Want(next []bisect.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted, h.quiet = slices.Clone(next), false
}

// Quiet lets no launch begin until others are wanted.
func (h *Launches) Quiet() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.quiet = true
}

// Settle ends the launches that have begun and are not wanted any more, or not as they were, before r is made, once they
// stand still: a program that is killed while it works may leave something behind, such as a lock. It waits for one of r
// itself that is not as wanted, and, if r must be alone, for those that run freely, which end by themselves. With none, all
// that have begun end.
func (h *Launches) Settle(ctx context.Context, r bisect.Request, none bool) {
	if none {
		h.end(ctx)
	}
	h.mu.Lock()
	wanted, alone := append(slices.Clone(h.wanted), r), h.quiet || r.Timing
	h.mu.Unlock()
	for _, l := range h.begun {
		if l.free() && alone || l.request.ID() == r.ID() && !l.answers(r) {
			select {
			case <-l.over:
			case <-l.still:
			case <-ctx.Done():
			}
		}
	}
	h.drop(func(l *launch) bool {
		return !l.works() && !slices.ContainsFunc(wanted, l.answers)
	})
}

// answers reports whether a request asks for this launch. Time limits do not matter: a launch that reaches its limit before its
// turn is made again. A launch for all metrics serves a request for any one of them.
func (l *launch) answers(r bisect.Request) bool {
	own := l.request
	own.Hurry, own.Past, own.Wants = r.Hurry, r.Past, cmp.Or(own.Wants, r.Wants)
	return own == r
}

// free reports that it runs to its end beside others.
func (l *launch) free() bool { return l.beside == nil }

// works reports that it has neither ended nor done what it may before its turn.
func (l *launch) works() bool {
	select {
	case <-l.over:
		return false
	case <-l.still:
		return false
	default:
		return true
	}
}

// Shares reports whether the launch of a request runs beside one that runs freely, or has begun as such a one.
func (h *Launches) Shares(r bisect.Request) bool {
	return slices.ContainsFunc(h.begun, func(l *launch) bool { return l.free() && (l.request.ID() == r.ID() || l.works()) })
}

// Wanted are the launches that are likely to be asked for after r, which is asked for now, and have not begun. There are none
// once something had to be made again because of one.
func (h *Launches) Wanted(r bisect.Request) (next []bisect.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted = slices.DeleteFunc(h.wanted, func(w bisect.Request) bool { return w.ID() == r.ID() })
	for _, w := range h.wanted {
		if h.find(w) < 0 && !h.harmed && h.accused == nil && !h.quiet {
			next = append(next, w)
		}
	}
	return next
}

// Begin begins a launch of a candidate that is built in a workspace. ctx outlives the launches beside it. Before its turn it
// goes no further than the phases of which beside is true; where beside is nil it runs freely. The launch tells order.OnTimed
// when its times begin and cease to count, which they may only in its turn.
func (h *Launches) Begin(ctx context.Context, w *workspace.Workspace, built bisect.Outcome, order trial.Order, beside func(phase string) bool) {
	ctx, cancel := context.WithCancel(ctx)
	l := &launch{
		request: order.Request, w: w, built: built, beside: beside, told: order.OnTimed, began: time.Now(), cancel: cancel,
		over: make(chan struct{}), still: make(chan struct{}), pause: make(chan bool, 1),
	}
	w.Share.Pause = l.pause
	order.Report, order.OnTimed = l.report, l.timed
	h.begun = append(h.begun, l)
	go func() {
		defer close(l.over)
		defer cancel()
		l.run, l.err = trial.Launch(ctx, w, order)
	}()
}

// Begun is how many launches have begun whose turn has not come.
func (h *Launches) Begun() int { return len(h.begun) }

// Needed is how many launches have begun that are likely to be asked for after the one that is asked for now, of the search or
// others.
func (h *Launches) Needed(searched bool) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.wanted {
		if (w.Purpose == bisect.Searching) == searched && h.find(w) >= 0 {
			n++
		}
	}
	return n
}

// find is the place of the launch of a request among those that have begun, or -1.
func (h *Launches) find(r bisect.Request) int {
	return slices.IndexFunc(h.begun, func(l *launch) bool { return l.answers(r) })
}

// Has reports whether the launch of a request has begun.
func (h *Launches) Has(r bisect.Request) bool { return h.find(r) >= 0 }

// Ready reports whether the launch of a request has begun, and has done what it may before its turn.
func Ready(h *Launches, r bisect.Request) bool {
	i := h.find(r)
	return i >= 0 && !h.begun[i].works()
}

// In reports whether a launch has begun in a workspace.
func In(h *Launches, w *workspace.Workspace) bool {
	return slices.ContainsFunc(h.begun, func(l *launch) bool { return l.w == w })
}

// Place is the workspace in which the launch of a request has begun, and how its candidate was built there.
func (h *Launches) Place(r bisect.Request) (*workspace.Workspace, bisect.Outcome, bool) {
	i := h.find(r)
	if i < 0 {
		return nil, bisect.Outcome{}, false
	}
	return h.begun[i].w, h.begun[i].built, true
}

// Take goes on with the launch of an order, if it has begun. It is void if it took times too early, or if it failed and
// what ran beside it may be why.
func (h *Launches) Take(ctx context.Context, o trial.Order) (run trial.Launched, begun bool, err error) {
	i := h.find(o.Request)
	if i < 0 {
		return run, false, nil
	}
	l := h.begun[i]
	h.begun, h.turn = slices.Delete(h.begun, i, i+1), l
	err = l.finish(ctx, o.Report)
	h.turn = nil
	h.Void = l.spoiled && ctx.Err() == nil || err == nil && l.blames(len(h.begun) > 0)
	h.harm(ctx, o.Request, l.run.Outcome, !l.spoiled)
	return l.run, true, err
}

// harm ends all launches that have begun, each once it stands still, if one of them was in the way, or if r, which ended with o, is
// void. None begins any more, unless all that speaks against it is that r failed, and it fails alike when it is made again alone.
func (h *Launches) harm(ctx context.Context, r bisect.Request, o bisect.Outcome, failed bool) {
	inTheWay := false
	for _, l := range h.begun {
		l.mu.Lock()
		inTheWay = inTheWay || l.spoiled
		l.mu.Unlock()
	}
	if !inTheWay && !h.Void {
		return
	}
	if failed && !inTheWay && o.Class != bisect.OK {
		h.accused = &accused{r.ID(), o}
	} else {
		h.harmed = true
	}
	h.end(ctx)
}

// judge takes in how r ended alone, if it had failed beside others before.
func (h *Launches) judge(r bisect.Request, o bisect.Outcome) {
	if a := h.accused; a != nil {
		h.harmed = h.harmed || a.id != r.ID() || !o.EndsAs(a.end)
		h.accused = nil
	}
}

// end ends all launches that have begun, each once it stands still: others may wait for what it holds.
func (h *Launches) end(ctx context.Context) {
	const often = 10 * time.Millisecond
	for _, l := range h.begun {
		l.mu.Lock()
		l.frozen = false
		l.set()
		l.mu.Unlock()
	}
	for len(h.begun) > 0 && ctx.Err() == nil {
		h.drop(func(l *launch) bool { return !l.works() })
		select {
		case <-time.After(often):
		case <-ctx.Done():
		}
	}
	h.Drop()
}

// Watch ends the launches that have begun and stand still if that of r, whose turn begins now, is in a phase for longer than a
// good one may: it may wait for what one of them holds, a lock for instance. Those that work may let it go by themselves. Only
// what takes times may take longer, since that is what a search may be about. good are the longest times of the good end, by
// phase; what only the probe tells apart may be part of any. The returned function takes in that the one in turn enters a
// phase; "" is its end.
func (h *Launches) Watch(r bisect.Request, good map[string]time.Duration) (entered func(phase string)) {
	others := slices.DeleteFunc(slices.Clone(h.begun), func(l *launch) bool { return l.answers(r) })
	if len(others) == 0 {
		return func(string) {}
	}
	patience := func(phase string) time.Duration {
		usual := cmp.Or(good[phase], good[bisect.WholeTrial], time.Minute) // the last while the good end itself runs for the first time
		for _, p := range kernels.ProbePhases() {
			if p != phase {
				usual += good[p]
			}
		}
		return time.Duration(bisect.Patience(usual.Seconds()) * float64(time.Second))
	}
	phases := make(chan string)
	go func() {
		for phase, on := "load", true; on; {
			var long <-chan time.Time
			if !trial.Measures(phase) || trial.Prepares(phase) {
				long = time.After(patience(phase))
			}
			select {
			case phase, on = <-phases:
			case <-long:
				for _, l := range others {
					l.giveWay()
				}
			}
		}
	}()
	return func(phase string) {
		if phase == "" {
			close(phases)
		} else {
			phases <- phase
		}
	}
}

// giveWay ends the launch if it stands still before its turn, or else lets it work on.
func (l *launch) giveWay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.shown != nil:
	case l.works():
		l.frozen = false
		l.set()
	default:
		l.spoiled = true
		l.cancel()
	}
}

// Beside takes in how the launch of an order ended. It is void if it failed beside one that has begun, unless its results
// are wrong as those of the bad end, if it did not tell when that one had to stand still, or if its time as a whole counts.
func (h *Launches) Beside(ctx context.Context, o trial.Order, run trial.Launched, err error) {
	out := run.Outcome
	h.judge(o.Request, out)
	well := out.Class == bisect.OK || out.Class == bisect.Wrong && out.EndsAs(o.Failure)
	held := slices.ContainsFunc(h.begun, func(l *launch) bool { return !l.free() })
	h.Void = held && err == nil && !(well && out.Speaks && !trial.Whole(o.Recipe, out))
	h.harm(ctx, o.Request, out, true)
}

// blames reports that it did not tell when it had loaded, or that what ran beside it may be why it failed. One whose times
// count has to end well. Others may well fail: what fails in a phase that ran beside nothing, or long after it was alone,
// failed by itself. Of one that runs freely the caller judges.
func (l *launch) blames(others bool) bool {
	o, well := l.run.Outcome, l.run.Outcome.Class == bisect.OK
	if l.free() {
		return false
	}
	return well && !o.Speaks || !well && (l.request.Timing || l.beside(o.Phase) && (others || o.Wall < 10*l.shared.Seconds()))
}

// Drop ends all launches that have begun, and waits for their end.
func (h *Launches) Drop() { h.drop(func(*launch) bool { return true }) }

func (h *Launches) drop(match func(*launch) bool) {
	h.begun = slices.DeleteFunc(h.begun, func(l *launch) bool {
		if !match(l) {
			return false
		}
		l.cancel()
		<-l.over
		l.w.Share.Pause = nil
		return true
	})
}

// inFlight is for how long a device may be busy with what a process has launched that stands still: Triton's autotuner has
// 100 ms of kernels in flight.
const inFlight = 200 * time.Millisecond

// Freeze stops the launches that have begun while the one in turn takes times, or lets them go on. If those times count, drain
// is how long that one has to wait first because another was compiling; if it has begun before its turn itself, it is made to.
func (h *Launches) Freeze(on, counts bool) (drain time.Duration) {
	for _, l := range h.begun {
		l.mu.Lock()
		if on && counts && !l.frozen && !l.waits && l.phase == "compile" {
			drain = inFlight
		}
		l.frozen = on
		l.set()
		l.mu.Unlock()
	}
	if drain > 0 && h.turn != nil {
		h.turn.hold(drain)
	}
	return drain
}

// hold stops the launch for a while. The caller holds mu.
func (l *launch) hold(d time.Duration) {
	l.waits = true
	l.set()
	time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waits = false
		l.set()
	})
}

// report takes in that the launch enters a phase. Before its turn it stands still where it may go no further; if it has taken
// times by then, they are worthless, and so is the launch.
func (l *launch) report(phase string, limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.phase, l.limit = phase, limit; {
	case l.shown != nil:
		l.shown(phase, limit)
	case l.counts && !trial.Prepares(phase):
		l.spoiled = true
		l.cancel()
	case !l.free() && !l.beside(phase):
		if !l.waits {
			close(l.still)
		}
		l.waits = true
		l.set()
	}
}

// timed takes in whether the times of the launch count from now on. Before its turn it is only noted.
func (l *launch) timed(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts = on; l.shown != nil {
		l.told(on)
	}
}

// set pauses the processes or lets them go on. The channel holds one word, and a new one replaces an unread one.
// The caller holds mu.
func (l *launch) set() {
	select {
	case <-l.pause:
	default:
	}
	l.pause <- l.frozen || l.waits
}

// finish is its turn: it goes on, reports what it does to show, and returns when it has ended.
func (l *launch) finish(ctx context.Context, show func(phase string, limit time.Duration)) error {
	defer context.AfterFunc(ctx, l.cancel)()
	l.mu.Lock()
	l.shared = time.Since(l.began)
	l.shown, l.waits, l.frozen = show, false, false
	if l.counts {
		l.told(true)
	}
	if l.phase != "" {
		show(l.phase, l.limit)
	}
	l.set()
	l.mu.Unlock()
	<-l.over
	l.w.Share.Pause = nil
	return l.err
}
