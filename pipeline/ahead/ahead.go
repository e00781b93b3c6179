// Package ahead builds what a search is likely to ask for, from the first second on ([Builds]): the other end, the commits
// that the next decisions may lead to, and the clean builds of a proof. As many run at a time as the processors and the
// memory of the machine allow. They are paused while times are taken: beside seven compilers a kernel of 40 µs has been
// seen to take 115 µs.
//
// A build ahead runs in a goroutine of its own. It gets a [trial.Job], which is a value, and a workspace that nothing
// else uses meanwhile. The package must not know of pipelines.
package ahead

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/capacity"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Builds are the builds ahead of a session, which pipelines that work side by side share. Nil builds nothing: its methods
// may be called.
type Builds struct {
	ctx   context.Context // of the session: a build outlives the trial beside which it began
	gauge *capacity.Gauge
	learn bool         // the ends will tell which commits are worth a build
	quiet sync.RWMutex // builds ahead hold it for reading while kbisect itself works, timed launches for writing
	timed struct {     // launches on several devices at once share it
		sync.Mutex
		launches int
	}
	group sync.WaitGroup
	root  *workspace.Root

	mu     sync.Mutex
	wishes []bisect.Request // likeliest first, see wish
	before []bisect.Request // the wishes before these, one of which is probably about to be asked for
	job    *trial.Job       // what a build needs besides the wish; nil until the first trial
	spares []*spare
	held   map[int]bisect.Request // what the last launch of the search left, built, by slot
	asked  []bisect.Request       // wishes of the trials that are under way, each of which counts as a build
	waits  int                    // how many of these wait for a build ahead
	runs   int                    // how many of these are built, and launched now
	alone  int                    // calls of Solo that have not ended: nothing may be built
	Began  time.Time              // when the first trial was asked for
	frozen bool
	closed bool
	tick   *time.Timer
}

// spare is a workspace in which a wish is built.
type spare struct {
	w      *workspace.Workspace
	wish   bisect.Request // what is built or ready here; the zero value: nothing
	cancel context.CancelFunc
	pause  chan bool     // see [proc.Spec.Pause]
	hurry  chan struct{} // see [proc.Spec.Hurry]; closed, and nil, when a trial waits for the build
	done   chan struct{} // closed when the build is over
	built  trial.Built
	ready  bool // valid after done: built counts, whether the workspace holds the candidate or it cannot be built
}

const (
	nice       = 10                     // lets a build ahead give way to everything else
	lookEvery  = 100 * time.Millisecond // between two looks at how much the machine can run
	moreSpares = 1                      // workspaces besides one for each build at a time: a finished build keeps its own
	mostIdle   = 16                     // more of them, at most as many as builds at a time, for when processors would be idle
	longBuild  = time.Second            // an end that is still building then takes long enough to guess which commits matter
)

// New prepares for the builds that n jobs allow or, for 0, the machine; it is nil if there can be none.
// learn says that what the ends open will narrow the search.
func New(ctx context.Context, root *workspace.Root, n int, learn bool) *Builds {
	gauge := capacity.New(n)
	if gauge.Most() < 2 {
		return nil
	}
	a := &Builds{ctx: ctx, gauge: gauge, learn: learn, root: root, held: map[int]bisect.Request{}}
	for i := range gauge.Most() + moreSpares + extra(gauge) {
		a.spares = append(a.spares, &spare{w: root.New(fmt.Sprintf("ahead-%d", i))})
	}
	return a
}

// extra is how many more workspaces there are, for builds beside long launches. With three processors or fewer there are none:
// those are never idle.
func extra(g *capacity.Gauge) int {
	if n := g.Most(); n > 3 {
		return min(n, mostIdle)
	}
	return 0
}

// wish is the part of a request on which its build depends; its other fields are zero, so that wishes can be compared.
func wish(r bisect.Request) bisect.Request {
	return bisect.Request{Candidate: r.Candidate, Purpose: r.Purpose, Clean: r.Clean}
}

// Want takes in what will probably be asked for, likeliest first. told says that it rests on what the build of an end that was
// asked for has opened so far.
func (a *Builds) Want(next []bisect.Request, told bool) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before, a.wishes = a.wishes, nil
	for _, r := range next {
		a.wishes = append(a.wishes, wish(r))
	}
	a.learn = a.learn && !told
	if len(next) == 0 || told {
		a.before = nil
		a.begin() // otherwise the next trial begins them, which is not built ahead itself
	}
}

// Enter says that a trial was asked for in a slot, and what builds need by what is known now. Every Enter is followed by
// Leave.
func (a *Builds) Enter(slot int, job trial.Job) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.before = append(a.asked, wish(job.Request)), nil
	a.job = &job
	if job.Request.Purpose == bisect.Searching {
		delete(a.held, slot)
	}
	if a.Began.IsZero() {
		a.Began = time.Now()
	}
	a.begin()
}

// unsure reports that the ends may tell in a moment which commits are worth a build, so that none is built on a guess.
// The caller holds mu.
func (a *Builds) unsure() bool {
	end := func(r bisect.Request) bool { return r.Purpose.IsEnd() }
	return a.learn && time.Since(a.Began) < longBuild && (slices.ContainsFunc(a.asked, end) || slices.ContainsFunc(a.wishes, end))
}

// Leave says that a trial is over in a slot, so that it is not wished for any more, and whether it was one of the search and
// the slot holds what it launched, built.
func (a *Builds) Leave(slot int, r bisect.Request, holds bool) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.asked, wish(r))
	a.asked = slices.Delete(a.asked, i, i+1)
	if holds {
		a.held[slot] = wish(r)
	}
	a.wishes = slices.DeleteFunc(a.wishes, func(w bisect.Request) bool { return w == wish(r) })
	a.begin()
}

// running is how many trials asked for may be building, besides the builds ahead. One that waits for a build ahead does
// not count twice. The caller holds mu.
func (a *Builds) running() int { return len(a.asked) - a.waits - a.runs }

// Launch says that what a trial asked for is built, and is launched until the returned function is called.
func (a *Builds) Launch() (end func()) {
	if a == nil {
		return func() {}
	}
	more := func(n int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.runs += n
		a.begin()
	}
	more(1)
	return func() { more(-1) }
}

// begin gives up builds that are no longer wanted, and starts wishes while there is room, likeliest first. What a trial
// has asked for is not started here: it is built in the workspace where it is launched. The caller holds mu.
func (a *Builds) begin() {
	if a.closed || a.job == nil || a.alone > 0 {
		return
	}
	wanted := slices.Concat(a.asked, a.wishes, a.before)
	busy := 0
	var free []*spare
	wide, _ := a.Width()
	roomy := sync.OnceValue(a.root.Roomy)
	for i, s := range a.spares {
		keep := slices.Contains(wanted, s.wish)
		if s.busy() {
			busy++
		} else if !keep && (i < wide || s.done != nil || roomy()) {
			free = append(free, s)
		}
		if !keep && s.wish != (bisect.Request{}) {
			s.wish = bisect.Request{}
			s.cancel() // a workspace in which a build runs is free when that has ended, and begin is called again
		}
	}
	waiting, unsure := false, a.unsure()
	needless := slices.AppendSeq(slices.Clone(a.asked), maps.Values(a.held))
	for i, r := range a.wishes {
		if slices.Contains(needless, r) || a.find(r) != nil {
			continue
		}
		if unsure && r.Purpose == bisect.Searching || follows(a, r) {
			waiting = true
			continue
		}
		if !a.gauge.Admits(busy+a.running(), a.runs) {
			waiting = true
			break
		}
		if len(free) == 0 {
			last := leastWanted(a, func(s *spare) bool {
				return !s.busy() && slices.Index(a.wishes, s.wish) > i && !slices.Contains(a.asked, s.wish)
			})
			if last == nil {
				break
			}
			free = append(free, last)
		}
		a.start(free[0], r)
		free, busy = free[1:], busy+1
	}
	if busy > 0 || waiting {
		a.again()
	}
}

// leastWanted returns the spare whose wish is least likely to be asked for, among those for which of is true; nil if there is
// none. One that is not wished for, such as one that a trial waits for, comes last. The caller holds mu.
func leastWanted(a *Builds, of func(s *spare) bool) (last *spare) {
	most := -2
	for _, s := range a.spares {
		if at := slices.Index(a.wishes, s.wish); at > most && s.wish != (bisect.Request{}) && of(s) {
			most, last = at, s
		}
	}
	return last
}

// follows reports that a wish is for a clean build of what is being built in the ordinary way, of which it will be a copy. The
// caller holds mu.
func follows(a *Builds, r bisect.Request) bool {
	same := func(o bisect.Request) bool { return o.Candidate == r.Candidate && !o.Clean }
	ahead := func(s *spare) bool { return s.busy() && same(s.wish) }
	return r.Clean && (a.running() > 0 && slices.ContainsFunc(a.asked, same) || slices.ContainsFunc(a.spares, ahead)) && a.root.Objects.Kept()
}

// again calls begin once more after a while: by then processors may be idle, and memory short or free.
func (a *Builds) again() {
	if a.tick != nil {
		a.tick.Reset(lookEvery)
		return
	}
	a.tick = time.AfterFunc(lookEvery, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.closed && a.gauge.Short() {
			a.shrink()
		}
		a.begin()
	})
}

// shrink stops the build ahead that is least likely to be asked for, because memory runs out. A build that a trial
// waits for goes last, and one that runs alone goes on. The caller holds mu.
func (a *Builds) shrink() {
	running := a.running()
	for _, s := range a.spares {
		if s.busy() {
			running++
		}
	}
	if last := leastWanted(a, (*spare).busy); last != nil && running+a.runs > 1 {
		a.gauge.Filled(running)
		last.wish = bisect.Request{}
		last.cancel()
	}
}

// find is the spare of a wish, or nil.
func (a *Builds) find(r bisect.Request) *spare {
	if i := slices.IndexFunc(a.spares, func(s *spare) bool { return s.wish == r }); i >= 0 {
		return a.spares[i]
	}
	return nil
}

// busy reports that a build runs in the workspace, which may not be touched until it has ended.
func (s *spare) busy() bool {
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// start builds a wish in a spare workspace.
func (a *Builds) start(s *spare, r bisect.Request) {
	ctx, cancel := context.WithCancel(a.ctx)
	s.wish, s.cancel, s.ready, s.done, s.pause = r, cancel, false, make(chan struct{}), make(chan bool, 1)
	s.hurry = make(chan struct{})
	s.w.Share = workspace.Share{CPUs: a.gauge.Processors(), Nice: nice, Pause: s.pause, Hurry: s.hurry}
	if a.frozen {
		s.pause <- true
	}
	// The job was made for another request: nothing of that may reach this build, such as a limit of the search's.
	job := *a.job
	job.Request = r
	job.Bounds.Hurry, job.Bounds.Past = "", 0
	job.Clean, job.Suspected, job.Report, job.Opened = r.Clean, false, nil, nil
	job.Working = a.quiet.RLocker()
	w, done := s.w, s.done
	a.group.Go(func() {
		built, err := trial.Build(ctx, w, job)
		a.Note(built)
		// A failure that may be due to what ran beside it is not kept: it is built again when it is asked for.
		s.built, s.ready = built, err == nil && (built.Outcome.Class == "" || built.Outcome.Class == bisect.BuildFailed && !built.Crowded && built.Missing == "")
		if err != nil && ctx.Err() == nil {
			job.Recipe.Log.Info("building ahead", "candidate", r.Candidate.Brief(), "err", err)
		}
		cancel()
		close(done)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.begin()
	})
}

// Width is how many wishes are built at a time, at least 1, and how many more may lie ready.
func (a *Builds) Width() (wide, more int) {
	if a == nil {
		return 1, 0
	}
	more = extra(a.gauge)
	return len(a.spares) - more, more
}

// Note takes in how many processors and how much memory a build used, by which the next ones are admitted.
func (a *Builds) Note(b trial.Built) {
	if a != nil && b.Processors > 0 {
		a.gauge.Learn(b.Processors, b.Memory)
	}
}

// Drop forgets what is built: it may not count.
func Drop(a *Builds) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.spares {
		if s.wish != (bisect.Request{}) {
			s.wish = bisect.Request{}
			s.cancel()
		}
		if !s.busy() {
			s.w.Contents.Built = false
		}
	}
}

// Filled notes that so many builds at a time have filled the memory.
func (a *Builds) Filled(builds int) { a.gauge.Filled(builds) }

// Take waits for a request that is built ahead, and returns its workspace in exchange for other. It returns nil if the
// candidate has to be built in the ordinary way: nothing is built ahead, or that build failed in a way that does not
// count.
func (a *Builds) Take(ctx context.Context, r bisect.Request, other *workspace.Workspace) (*workspace.Workspace, trial.Built) {
	if a == nil {
		return nil, trial.Built{}
	}
	r = wish(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.find(r)
	if s == nil {
		return nil, trial.Built{}
	}
	if done := s.done; s.busy() {
		if s.hurry != nil {
			close(s.hurry)
			s.hurry = nil
		}
		a.waits++ // the trial and this build are one build together, which leaves room for another
		a.begin()
		a.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		a.mu.Lock()
		a.waits--
	}
	if s.wish != r || s.busy() {
		return nil, trial.Built{}
	}
	s.wish = bisect.Request{}
	if !s.ready {
		return nil, trial.Built{}
	}
	ready := s.w
	s.w = other
	return ready, s.built
}

// Freeze pauses the builds ahead, or lets them go on.
func (a *Builds) Freeze(on bool) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frozen = on
	for _, s := range a.spares {
		if !s.busy() {
			continue
		}
		select { // pause holds one word: an older one that nobody has read is replaced
		case <-s.pause:
		default:
		}
		s.pause <- on
	}
}

// Hush keeps kbisect itself from working for builds ahead, such as writing an export, until the returned function is
// called: a pause stops only their processes. Launches on several devices count together.
func (a *Builds) Hush() (end func()) {
	if a == nil {
		return func() {}
	}
	a.timed.Lock()
	defer a.timed.Unlock()
	if a.timed.launches++; a.timed.launches == 1 {
		a.quiet.Lock()
	}
	return func() {
		a.timed.Lock()
		defer a.timed.Unlock()
		if a.timed.launches--; a.timed.launches == 0 {
			a.quiet.Unlock()
		}
	}
}

// Solo stops the builds ahead, and lets none begin until end is called: a trial that failed beside them is made again
// alone. running is how many builds ran, those that were asked for included, or 0 if none was ahead.
func (a *Builds) Solo() (running int, end func()) {
	if a == nil {
		return 0, func() {}
	}
	a.mu.Lock()
	a.alone++
	for _, s := range a.spares {
		if s.busy() {
			running++
			s.wish = bisect.Request{}
			s.cancel()
		}
	}
	if running > 0 {
		running += a.running()
	}
	a.mu.Unlock()
	a.group.Wait()
	return running, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.alone--
		a.begin()
	}
}

// Stop ends the builds ahead for good, and waits for their end.
func (a *Builds) Stop() {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.closed = true
	for _, s := range a.spares {
		if s.wish = (bisect.Request{}); s.busy() {
			s.cancel()
		}
	}
	a.mu.Unlock()
	a.group.Wait()
}

// Close ends the builds and removes the workspaces; it returns the first error.
func (a *Builds) Close() error {
	if a == nil {
		return nil
	}
	a.Stop()
	var errs []error
	for _, s := range a.spares {
		errs = append(errs, s.w.Remove())
	}
	return cmp.Or(errs...)
}
