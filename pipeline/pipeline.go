// Package pipeline makes trials on this machine: [Pipeline] is its [bisect.Sampler]. A trial takes four steps, which
// are in the packages trial and workspace:
//
//	Switch    writes the candidate into a private export     workspace.Workspace
//	Build     builds it there, or fetches the build          trial.Build
//	Launch    runs its processes within their limits         trial.Launch
//	classify  decides how they ended                         trial/classify.go
//
// Pipeline adds what these steps do not know of: builds ahead of time, warm and cold caches, the state of the
// devices, known-good programs that show whose fault a failure is, launches shared by equal builds, and further
// tries of what the machine spoiled. Package memory remembers trials, and package slots runs several at a time.
//
// The candidate's fault is data in the [bisect.Outcome]; only the machine's fault is an error. Nothing here may know
// how the search chooses what to try.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/pipeline/ahead"
	"github.com/kbisect/kbisect/pipeline/capacity"
	"github.com/kbisect/kbisect/pipeline/firsts"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/headstart"
	"github.com/kbisect/kbisect/pipeline/prestart"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Pipeline makes trials, one at a time, in workspaces of its own. All calls must come from one goroutine.
type Pipeline struct {
	Config Config

	workspaces workspaces
	reference  trial.Reference // what good trials have shown
	firsts     firsts.Launches
	starts     map[bisect.Purpose]*starts // by end
	plainly    bool                       // the next launch is not started early
	failure    bisect.Outcome             // how the bad end failed, if it did
	machine    *machine
	notices    notices
	ahead      *ahead.Builds // nil if nothing is built ahead
	prestart   *prestart.Pool
	before     reading // what the devices reported before the last launch
	left       bool    // another launch of ours was on the devices when the last one was judged
	headStart  headstart.Launches
	room       *capacity.Gauge // for launches that compile before their turn
	compiles   float64         // for how long an end has compiled, seconds
	ofOne      bool            // what no other candidate can use
	anew       bool            // the last launch of the search took half as long, though it had what the ends left
	together   bool            // the ends have compiled at the same time, the one as fast as the other
	fit        int             // programs like the good end that the memory of the devices holds; 0: not known
	clean      bool            // every build is a clean one from now on

	endured map[bisect.MarkKind]bool             // disturbances that come with every trial: repeating does not help
	facts   map[bisect.Candidate]workspace.Facts // of builds, see [bisect.Request.BuildOnly]
	shared  sharedLaunches
	heard   func(opened []string, after float64) // see [Listen]
	told    bool                                 // heard is being called
}

// New makes a pipeline and its working folder; a folder that cannot be made is an [bisect.InfraError]. ctx lives as
// long as the pipeline: builds ahead run in it. Close removes the workspaces, and leaves most of that to the next job
// once ctx is done, so that an interrupt does not wait for large trees.
func New(ctx context.Context, c Config) (*Pipeline, error) {
	if c.Recipe.Log == nil {
		c.Recipe.Log = slog.New(slog.DiscardHandler)
	}
	c.Recipe.Env = visible(c.Recipe.Env, c.Devices)
	err := os.MkdirAll(c.Recipe.Logs, 0o777)
	var root *workspace.Root
	if err == nil {
		root, err = workspace.Open(ctx, c.Dir, c.Session)
	}
	if err != nil {
		return nil, &bisect.InfraError{What: "making the working folder " + c.Dir, Err: fmt.Errorf("%w\nhint: set XDG_CACHE_HOME to a folder that can be written", err)}
	}
	root.Sandbox = sandbox(c.Sandbox, c.Devices)
	p := &Pipeline{
		Config: c, room: capacity.New(0), workspaces: workspaces{root: root, open: map[string]*workspace.Workspace{}, soon: map[bisect.Candidate]string{}},
		machine: &machine{cookie: c.Session + "-hello", env: c.Recipe.Env, devices: c.Devices, suspects: map[bisect.Candidate]bool{}, habits: map[string]bool{}},
		notices: notices{unwritten: map[string]bool{}, others: map[string][]string{}},
		endured: map[bisect.MarkKind]bool{}, facts: map[bisect.Candidate]workspace.Facts{}, shared: sharedLaunches{}, starts: map[bisect.Purpose]*starts{bisect.EndGood: {}, bisect.EndBad: {}},
	}
	p.workspaces.config = &p.Config
	if c.Recipe.Prestart {
		p.prestart = prestart.New(ctx, filepath.Join(root.Dir, "early"))
	}
	p.workspaces.openMemory(ctx)
	switch {
	case c.First != nil:
		p.ahead, root.Objects = c.First.ahead, c.First.workspaces.root.Objects
	case len(c.Recipe.Plan.Build) > 0:
		p.ahead = ahead.New(ctx, root, c.Jobs, c.Recipe.Learn)
	}
	return p, nil
}

// Close ends what still runs and removes the workspaces, all of them even after an error; it returns the first one.
// A pipeline that shares the builds ahead of another leaves them to that one.
func (p *Pipeline) Close() error {
	p.headStart.Drop()
	p.machine.close()
	p.prestart.Close()
	if p.Config.First != nil {
		return p.workspaces.close()
	}
	return cmp.Or(p.ahead.Close(), p.workspaces.close())
}

// Clean makes every build from now on a clean one, with nothing built ahead or compiled before: a kept build has turned
// out to be wrong.
func (p *Pipeline) Clean() {
	p.ahead.Stop()
	p.headStart.Want(nil)
	p.workspaces.forget()
	p.workspaces.root.Objects.Drop()
	p.clean = true
}

// Warnings are about the whole job rather than one trial, each once, in the order in which they came up.
func (p *Pipeline) Warnings() []string { return p.notices.texts }

// OtherCases are the cases of a metric that trials reported, in the order of arrival and up to a bound, where the
// configuration asks for certain cases of that metric. They help a user who has misspelled a case.
func (p *Pipeline) OtherCases(metric string) []string { return p.notices.others[metric] }

// Ahead says what will probably be asked for, likeliest first: this is built beside the next trials, and nothing else.
func (p *Pipeline) Ahead(next []bisect.Request) {
	p.ahead.Want(next, p.told)
}

// Listen makes the builds of trials call heard with the files opened so far, and the seconds since the build began, while they
// run and when they have ended. The trial waits for heard, which may call [Pipeline.Ahead]. Nil stops the calls.
func Listen(p *Pipeline, heard func(opened []string, after float64)) {
	p.heard = nil
	if heard != nil {
		p.heard = func(opened []string, after float64) {
			p.told = true
			heard(opened, after)
			p.told = false
		}
	}
}

// Width is how many requests [Pipeline.Ahead] makes use of at a time, at least 1, and how many more when there is time for it.
func (p *Pipeline) Width() (wide, more int) {
	return p.ahead.Width()
}

// Learn takes in what a trial says about others. The good end shows whether programs of this project speak the
// protocol and how long their phases take, from which limits follow; any trial shows what commits with an equal build
// would show. Remembered outcomes are learnt from in the same way, or limits would differ in a resumed session.
func (p *Pipeline) Learn(r bisect.Request, o bisect.Outcome) {
	p.notices.again(o.Notices)
	p.shared.remember(p.Config.Recipe, r, o)
	if o.Supposed && o.Class != bisect.Timeout { // it went on after what looked like its last line
		p.reference.Varies = true
	}
	p.firsts.Learn(r, o)
	if r.Purpose == bisect.EndBad && o.Failed() {
		p.failure = o
	}
	if r.Purpose == bisect.EndGood && o.Class == bisect.OK && !p.Config.Recipe.OnlyBuilds(r) {
		p.reference.Learn(o)
		p.reference.LearnCovered(p.Config.Recipe, o)
		if p.reference.StartCounts(p.Config.Recipe) {
			p.prestart.Drop()
		}
	}
}

// Scatters tells a pipeline what launches scattered by in earlier sessions, see [firsts.Launches].
func Scatters(p *Pipeline, past map[string]bisect.Scatter) { p.firsts.Past = past }

const (
	startTries   = 2 // early launches of an end; if all give other numbers, nothing starts early
	infraTries   = 3 // tries of a trial that the machine spoils; then Sample fails
	spoiledTries = 3 // tries of a trial whose times are doubtful; then they count, and are marked

	// teardownPatience multiplies the limit of a supposed teardown in its second try.
	teardownPatience = 5
)

// Sample makes one trial. A trial that the machine spoiled is made again; when that does not help, Sample returns an
// [bisect.InfraError], so that the candidate is not blamed. One whose files filled the memory in which they lay is
// void, and is made again on the disk. One that was throttled or shared its device is made again where its times
// matter.
//
// Why each try but the last was dropped is in the Repeated of the outcome. A [trial.CommandError] is the user's
// mistake: the command cannot be started even at the good end. Any other error is the machine's, or that of ctx.
func (p *Pipeline) Sample(ctx context.Context, r bisect.Request) (_ bisect.Outcome, failed error) {
	defer func() { failed = resumable(failed) }()
	p.Config.doing("preparing")
	p.headStart.Settle(ctx, r, p.clean)
	turns(p, r)
	p.ahead.Enter(p.Config.Slot, p.job(r))
	defer func() {
		p.ahead.Leave(p.Config.Slot, r, p.ahead != nil && r.Purpose == bisect.Searching && recovered(p, r))
	}()
	noticed := len(p.notices.texts)
	if len(p.machine.devices) > 0 && !p.Config.Recipe.OnlyBuilds(r) { // else a known-good program would tell nothing
		p.machine.greet(ctx, p.workspaces.root)
	}
	var dropped []string
	infra := 0
	if err := settle(ctx, p, r); err != nil {
		return bisect.Outcome{}, err
	}
	for {
		o, err := p.once(ctx, r, 1)
		void, left := p.workspaces.leaveCrowded(ctx)
		switch {
		case left != nil:
			return o, left
		case void:
			continue
		case err != nil && !errors.As(err, new(*trial.CommandError)):
			return o, err
		case ctx.Err() != nil:
			return o, ctx.Err()
		}
		// A full disk or a removed folder fails every candidate, and its command is missing too: look at these first.
		removed, broken := p.workspaces.checkWorkspace(ctx, r, err == nil && o.Class == bisect.OK)
		if broken != nil {
			return o, broken
		}
		if why := p.machine.removed(r.Candidate, removed); why != "" {
			p.prestart.Await(nil)
			if err := p.workspaces.drop(p.workspaces.name(r)); err != nil {
				return o, err
			}
			o, err = bisect.Outcome{Class: bisect.Infra, Why: why}, nil
		}
		if err != nil {
			return o, err
		}
		again := p.doubts(r, o, len(dropped)-infra) // tries that the machine spoiled are counted apart
		switch {
		case p.headStart.Void:
			p.headStart.Void, again = false, o.Why
		case o.Class == bisect.Infra:
			if infra++; infra == infraTries {
				return o, &bisect.InfraError{What: "testing " + r.Candidate.Brief(), Err: fmt.Errorf("%s, in each of %d tries of one launch", o.Why, infra)}
			}
			again = o.Why
			_, end := p.ahead.Solo() // builds ahead may have taken the memory or the device that it needed
			defer end()
			if o.Signal != "" || o.Exit > 128 { // who ends all processes of a job may be about to end this one
				select {
				case <-ctx.Done():
					return o, ctx.Err()
				case <-time.After(time.Second):
				}
			}
			p.Config.Recipe.Log.Warn("machine trouble; trying again", "candidate", r.Candidate.Brief(), "why", o.Why)
		case again == "" && startShows(p, r, o):
			again = "it gave other numbers than from an ordinary start"
		case again == "":
			if o, err = p.confirmTeardown(ctx, r, o); err != nil {
				return o, err
			}
			o.Repeated, o.Notices = append(dropped, o.Repeated...), p.notices.texts[noticed:len(p.notices.texts):len(p.notices.texts)]
			p.Learn(r, o)
			return o, nil
		}
		dropped = append(dropped, again)
	}
}

// starts are what launches of an end have told about early starts.
type starts struct {
	request bisect.Request // of the last one that was not started early
	plain   []bisect.Outcome
	others  int  // early ones that gave other numbers
	settled bool // it is known whether an early start shows, or will not be
}

// startShows reports that a launch of an end, which was started early, gave other numbers than those that were not, so that it is
// made again plainly. Where that comes twice nothing starts early any more: the program may time what is imported, or set something
// up before it imports. Once may be by chance, and once at each end where numbers scatter. The first early launches of each end
// tell, where programs do not say when they have loaded.
func startShows(p *Pipeline, r bisect.Request, o bisect.Outcome) bool {
	p.plainly = false
	s, other := p.starts[r.Purpose], p.starts[r.Purpose.Other()]
	if s == nil || s.settled || o.Class != bisect.OK || o.Speaks {
		return false
	}
	if !o.Ahead {
		s.request, s.plain = r, append(s.plain, o)
		return false
	}
	alike, clear := firsts.Alike(o, s.plain, other.plain)
	switch {
	case !r.Timing:
	case alike:
		s.settled = true
		prestart.Alike(p.prestart, r.Purpose)
	default:
		p.plainly = true
		if s.others++; s.others == startTries || clear && s.others+other.others == startTries {
			s.settled, other.settled = true, true
			p.prestart.Doubt(nil)
		}
	}
	return p.plainly
}

// settle launches each end early that has not been, before the first launch of a search, to find out whether an early start shows.
// These launches count for nothing else.
func settle(ctx context.Context, p *Pipeline, r bisect.Request) error {
	const apart = 1000 // from the launches that count
	good, bad := p.starts[bisect.EndGood], p.starts[bisect.EndBad]
	if r.Purpose != bisect.Searching || len(good.plain) == 0 || len(bad.plain) == 0 || p.prestart == nil || p.clean || p.reference.Longest == 0 || p.reference.Covers || !trial.OnlyBetween(orderOf(p, r, 1)) {
		return nil
	}
	for _, s := range []*starts{good, bad} {
		again := s.request
		if !p.prestart.Knows(again) {
			continue
		}
		again.Nth, again.Timing, again.Clean = again.Nth+apart, true, false
		for asked := true; asked && !s.settled; {
			plainly := p.plainly
			o, err := p.once(ctx, again, 1)
			if err != nil {
				return err
			}
			asked = startShows(p, again, o) || plainly
		}
		s.settled = true
	}
	return nil
}

// resumable adds a hint to an error about a missing file of kbisect's own, unless it has one: something on this
// machine clears cache folders, and trials that were stored are not lost.
func resumable(err error) error {
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*trial.CommandError)) {
		return err
	}
	if _, advice := hint.Split(err); advice != "" {
		return err
	}
	return hint.Add(err, "if the working folder was removed, run again with --resume; nothing is lost")
}

// confirmTeardown repeats a trial with more time if it was ended in a supposed teardown: the program had sent as much
// as the good end does, and might have had more to send. A search does not wait for that: its culprit is confirmed.
func (p *Pipeline) confirmTeardown(ctx context.Context, r bisect.Request, o bisect.Outcome) (bisect.Outcome, error) {
	if !o.Supposed || r.Purpose == bisect.Searching {
		return o, nil
	}
	second, err := p.once(ctx, r, teardownPatience)
	void, left := p.workspaces.leaveCrowded(ctx)
	switch {
	case left != nil:
		return o, left
	case void:
		return p.confirmTeardown(ctx, r, o)
	}
	if err != nil || second.Class == bisect.Timeout || second.Class == bisect.Infra {
		return o, err
	}
	second.Supposed = true
	second.Repeated = append(second.Repeated, "it sent more than the good end does: "+o.Why)
	return second, nil
}

// doubts is why a trial should be made again, or "": its times matter, and something else may have changed them. A
// time-out is a matter of time too. What spoils one try after the other is a lasting state of the machine: it is
// reported once, and accepted from then on.
func (p *Pipeline) doubts(r bisect.Request, o bisect.Outcome, tries int) string {
	if !r.Timing && o.Class != bisect.Timeout {
		return ""
	}
	for _, m := range o.Marks {
		if p.endured[m.Kind] {
			continue
		}
		if tries < spoiledTries-1 {
			return m.String()
		}
		p.endured[m.Kind] = true
		p.notices.once(fmt.Sprintf("times are doubtful: %s in %d tries of one trial; such trials count from now on", m, spoiledTries))
	}
	return ""
}

// once makes one try of a trial. patience multiplies the limit of a supposed teardown.
func (p *Pipeline) once(ctx context.Context, r bisect.Request, patience int) (bisect.Outcome, error) {
	if known, ok := p.facts[r.Candidate]; ok && p.Config.Recipe.OnlyBuilds(r) && !r.Clean && !p.clean {
		o := bisect.Outcome{Class: bisect.OK}
		p.notices.addFacts(&o, p.Config.Cases, known)
		return o, nil
	}
	if !r.Timing {
		p.prestart.Await(nil)
		if r.Purpose == bisect.Searching && !r.AnyStart { // no interpreter that waits will be wanted
			p.prestart.Drop()
		}
	}
	w, built, err := p.prepare(ctx, r)
	if err != nil || built.Class != "" {
		built.Opened = opened(r, w, w != nil)
		return built, err
	}
	facts := w.Contents.Facts
	o, known := bisect.Outcome{}, false
	if r.Purpose == bisect.Searching && !r.Clean && !p.clean { // launches of a proof are never shared
		o, known = p.shared.outcome(ctx, p.Config.Recipe, r, facts)
	}
	if !known {
		end := p.ahead.Launch()
		o, err = p.trial(ctx, w, r, patience)
		end()
		if err != nil || o.Class == bisect.Infra {
			w.Contents.Noted = false // the next try may open more files, so it is noted again
		}
		if o.Class != bisect.OK {
			w.Contents.Dirty = true // a process that failed may have left something in the tree
		}
	}
	o.Built, o.CacheHit, o.Build = built.Built, built.CacheHit, built.Build
	o.Warnings = append(built.Warnings, o.Warnings...)
	if err == nil {
		p.facts[r.Candidate] = facts
		p.notices.addFacts(&o, p.Config.Cases, facts)
		o.Opened = opened(r, w, w.Contents.Noted || p.Config.Recipe.OnlyBuilds(r))
		if !known && r.Nth == 0 {
			o.Ran = w.Contents.Ran
		}
	}
	if built.Build > 0 {
		o.Phases = append([]bisect.PhaseTime{{Name: "build", Seconds: built.Build}}, o.Phases...)
	}
	return o, err
}

// opened are the files that a request's first trial has opened, if it was a whole one: else some would be missing.
func opened(r bisect.Request, w *workspace.Workspace, whole bool) []string {
	if r.Nth > 0 || !whole {
		return nil
	}
	return w.Notes.Opened()
}

// prepare returns a workspace that holds the candidate, built: the one of the request, or one in which it was built
// ahead, which then takes the place of the first. The outcome has a class if the candidate could not be built.
func (p *Pipeline) prepare(ctx context.Context, r bisect.Request) (*workspace.Workspace, bisect.Outcome, error) {
	if w, built, begun := p.headStart.Place(r); begun {
		return w, built, nil
	}
	if w := p.workspaces.of(r); w != nil && (r.Clean && r.Nth == 0 || !p.Config.Recipe.Holds(w, r.Candidate)) {
		p.prestart.Await(w) // a process that tears down may still use the files that are about to change
		workspace.Recover(w)
	}
	w, err := p.workspaces.get(r)
	if err != nil {
		return nil, bisect.Outcome{}, err
	}
	w.Forget()
	if p.clean || p.Config.Recipe.Holds(w, r.Candidate) {
		return p.build(ctx, w, r)
	}
	p.Config.doing("waiting for a build")
	ready, built := p.ahead.Take(ctx, r, w)
	if ready == nil {
		return p.build(ctx, w, r)
	}
	ready.Share = workspace.Share{}
	p.workspaces.open[p.workspaces.name(r)] = ready
	p.notices.exports(built.Warnings)
	return ready, built.Outcome, nil
}

// build builds a candidate in a workspace. A build that ran out of time or memory beside builds ahead is made again
// alone before its failure counts.
func (p *Pipeline) build(ctx context.Context, w *workspace.Workspace, r bisect.Request) (*workspace.Workspace, bisect.Outcome, error) {
	w.Share = workspace.Share{}
	job := p.job(r)
	job.Report = p.Config.report(r)
	job.Opened = p.heard
	built, err := trial.Build(ctx, w, job)
	if err == nil && built.Crowded && built.Outcome.Class != "" {
		beside, end := p.ahead.Solo()
		defer end()
		if beside > 0 {
			p.ahead.Filled(beside)
			built, err = trial.Build(ctx, w, job)
		}
	}
	if built.Outcome.Class == bisect.Timeout && p.workspaces.root.Objects.Drop() { // how long each takes may be what is asked
		ahead.Drop(p.ahead)
	}
	p.ahead.Note(built)
	p.notices.exports(built.Warnings)
	p.machine.suspect(r.Candidate, built.Suspicious)
	return w, trial.Excuse(built.Outcome, built.Missing), err
}

// job is the build that a request needs, by what is known now. It is a copy, since a build ahead may outlast this trial
// and must not see what is learnt meanwhile.
func (p *Pipeline) job(r bisect.Request) trial.Job {
	return trial.Job{
		Recipe: p.Config.Recipe, Request: r, Bounds: p.reference.Bounds(p.Config.Limits, r),
		Clean: r.Clean || p.clean, Suspected: p.machine.suspects[r.Candidate],
	}
}

// trial launches what a workspace holds. A launch for its times finds the caches as the last launch of the same
// candidate left them, unless the user wants them empty: just-in-time compilation takes seconds once, and would
// hide a change of microseconds. So a first launch that had something to compile is followed by a second one, whose
// times count. Where the ends show that the first gives the same times, the search needs no second one, see
// [firsts.Launches]. Launches for results that bear any start find the same caches; all others find them empty, as on a
// fresh machine.
func (p *Pipeline) trial(ctx context.Context, w *workspace.Workspace, r bisect.Request, patience int) (bisect.Outcome, error) {
	recipe := p.Config.Recipe
	if recipe.OnlyBuilds(r) {
		return bisect.Outcome{Class: bisect.OK}, nil
	}
	warm, inherits := p.Config.warm(r), p.Config.Caches == "" && !p.clean
	helped := inherits && r.AnyStart && !(r.Clean && r.Nth == 0)
	if (warm || helped) && w.Caches.Warmed == r.Candidate {
		o, err := p.launch(ctx, w, r, patience)
		if err == nil && (w.Caches.Full() || w.Caches.Filled(trial.Whole(recipe, o), false)) {
			o.Caches, o.Ahead = string(Warm), o.Ahead || helped
		}
		return o, err
	}
	if !p.headStart.Has(r) { // else its caches are in use already
		p.prestart.Await(w)
		if err := workspace.InheritCaches(w, p.seeds(r)); err != nil {
			return bisect.Outcome{}, err
		}
	}
	defer p.Config.Stopwatch.Settle(p.Config.tentative(), "")
	seeded, noBytecode := w.Caches.Full(), !w.Caches.HasBytecode()
	first, err := p.launch(ctx, w, r, patience)
	first.Ahead = first.Ahead || helped && seeded
	if err == nil && (first.Class == bisect.OK || inherits && (r.AnyStart || first.Beside || r.Purpose == bisect.EndBad) && first.Class == bisect.Wrong) {
		w.Caches.Warmed = r.Candidate
	}
	well := err == nil && first.Class == bisect.OK
	counts, early := well && !w.Caches.Filled(trial.Whole(recipe, first), noBytecode), w.Expects && first.Ahead
	if counts && early { // it was to fill caches alone: a proof rests on an ordinary start
		before := p.plainly
		p.plainly = true
		first, err = p.launch(ctx, w, r, patience)
		p.plainly = before
	}
	if !well || counts {
		if seeded && first.Class == bisect.OK {
			first.Caches = string(Warm)
		}
		return first, err
	}
	first.Caches = string(Cold)
	if p.Config.Caches == Cold {
		return first, nil
	}
	if !warm { // its times say nothing beside those of a candidate that had less to compile
		first.Unfit = "it filled empty caches"
		return first, nil
	}
	if p.Config.Caches == "" && !early && p.firsts.Serve(r.Wants) {
		first.Only = r.Wants
		return first, nil
	}
	p.Config.Stopwatch.Settle(p.Config.tentative(), "priming")
	second, err := p.launch(ctx, w, r, patience)
	second.Cold, second.ColdRun, second.Caches = first.Phases, first.Series, string(Warm)
	return second, err
}

// seeds are the workspaces whose caches a first launch of a candidate may begin with.
func (p *Pipeline) seeds(r bisect.Request) []*workspace.Workspace {
	if p.Config.Caches == "" && !p.clean && r.Purpose == bisect.Searching && (p.Config.warm(r) || r.AnyStart) {
		return p.workspaces.ends()
	}
	return nil
}

// expect starts interpreters while an end is launched: for the next launches of both ends, and for the first ones of a
// search of times and, before the bad end has ended, of failures. With a build they cannot start early, as what they
// import may not be there yet.
func expect(p *Pipeline, o trial.Order) {
	ws, r := &p.workspaces, o.Request
	if !r.Purpose.IsEnd() || o.Prestart == nil || len(p.Config.Recipe.Plan.Build) > 0 {
		return
	}
	known := o.Prestart.Knows(r)
	if trial.OnlyBetween(o) {
		return
	}
	if !known {
		if !o.Prestart.Wants(r) {
			return
		}
		o.Reference.Speaks = new(true) // or it will not be known before it ends
	}
	var kinds []prestart.Kind
	in := func(w *workspace.Workspace) {
		if k, ok := trial.Expected(w, o); ok {
			kinds = append(kinds, k)
		}
	}
	add := func(why bisect.Purpose) {
		o.Request.Purpose = why
		if w, err := ws.get(o.Request); err == nil {
			in(w)
		}
	}
	o.Request.Clean, o.Request.Timing = false, true // the first would begin with another workspace
	add(bisect.EndGood)
	add(bisect.EndBad)
	for ws.turn = range searches {
		add(bisect.Searching)
	}
	ws.turn = 0
	full := func(w *workspace.Workspace) bool { return w.Caches.Full() }
	if known && p.Config.Eager && p.Config.warm(r) && slices.ContainsFunc(ws.ends(), full) {
		o.Request.Purpose = bisect.ConfirmParent
		for _, w := range ws.expect() { // the first processes there fill caches
			in(w)
		}
	}
	if r.Nth == 0 && !(known && r.Purpose == bisect.EndGood) {
		o.Request.Timing, o.Request.AnyStart = false, true
		add(bisect.Searching)
	}
	if known {
		go o.Prestart.Fill(true, kinds...)
	} else {
		o.Prestart.Expect(kinds...)
	}
}

// greeted waits until the known-good program has run for the first time, and notes its warning.
func greeted(ctx context.Context, p *Pipeline) error {
	p.Config.doing("known-good program")
	warning, err := p.machine.greeted(ctx)
	if warning != "" {
		p.notices.once(warning)
	}
	return err
}

// orderOf is the order for a launch of a request. Report and OnTimed are for the caller to set.
func orderOf(p *Pipeline, r bisect.Request, patience int) trial.Order {
	pool := p.prestart
	if p.clean || p.plainly { // a launch has contradicted another one, for which an early start or a late end may be to blame
		pool.Await(nil)
		pool = nil
	}
	return trial.Order{
		Recipe: p.Config.Recipe, Request: r, Bounds: p.reference.Bounds(p.Config.Limits, r), Reference: p.reference,
		Suspected: p.machine.suspects[r.Candidate], Patience: patience, ProbeDir: filepath.Join(p.workspaces.root.Dir, "probe"),
		Prestart: pool, Failure: p.failure,
		OnTimed: func(on bool) {
			p.ahead.Freeze(on)
			p.prestart.Freeze(on)
		},
	}
}

// launch makes one launch with the devices watched, and asks whose fault a failure is.
func (p *Pipeline) launch(ctx context.Context, w *workspace.Workspace, r bisect.Request, patience int) (bisect.Outcome, error) {
	if r.Timing {
		if err := greeted(ctx, p); err != nil {
			return bisect.Outcome{}, err
		}
	}
	p.Config.doing("freezing builds")
	if r.Timing {
		defer p.ahead.Hush()()
	}
	p.Config.doing("device state")
	before := p.machine.before(ctx)
	if p.left {
		before = before.beside(p.before)
	}
	p.before = before
	turn := prestart.NewTurn(p.prestart, w, func() time.Duration {
		return time.Duration(bisect.Patience(p.reference.Times[bisect.WholeTrial].Seconds()) * float64(time.Second))
	})
	// Whether a first process had to fill caches shows at its end: until then its time goes to an account of its own.
	report := p.Config.report(r)
	if p.Config.warm(r) && w.Caches.Warmed != r.Candidate {
		report = func(phase string, limit time.Duration) {
			p.Config.report(r)(phase, limit)
			p.Config.doing(p.Config.tentative() + phase)
		}
	}
	begin(ctx, p, r)
	shares := p.headStart.Shares(r)
	entered := p.headStart.Watch(r, p.reference.Times)
	defer entered("")
	beside := trial.Beside(p.Config.Recipe, p.reference.Times["warmup"] > 0)
	still := false // what has begun has to stand still: in run nothing has been said yet, so that no time counts
	alone := func(phase string, limit time.Duration) {
		still = phase != "teardown" && still && r.Timing || trial.Measures(phase) && phase != "run"
		entered(phase) // before the others have to stand still: it may let them go on
		turn.Enter(phase, beside(phase), p.headStart.Freeze(still, r.Timing))
		if phase == "teardown" && r.Purpose == bisect.EndGood && r.Nth == 0 { // its times are over
			p.fit = gpu.Fits(p.Config.Devices)
		}
		report(phase, limit)
	}
	order := orderOf(p, r, patience)
	order.Report = alone
	expect(p, order)
	if p.headStart.Has(r) { // it is past its load already
		turn.Halt()
	}
	run, begun, err := p.headStart.Take(ctx, order)
	if !begun {
		run, err = trial.Launch(ctx, w, order)
		p.headStart.Beside(ctx, order, run, err)
	}
	p.headStart.Freeze(false, r.Timing)
	late := turn.End()
	p.headStart.Void = p.headStart.Void || late || begun && r.Timing && p.reference.Covers // which was not known yet
	if p.headStart.Void {
		return bisect.Outcome{Class: bisect.Infra, Why: "it ran beside another launch"}, nil
	}
	learnCompiling(p, w, r, run, begun)
	run.Outcome.Beside = shares
	p.left = run.Left || p.headStart.Begun() > 0
	p.Config.doing("device state")
	for _, text := range run.Warnings {
		p.notices.once(text)
	}
	p.machine.suspect(r.Candidate, run.Suspicious)
	if err != nil || run.NotStarted {
		return trial.Excuse(run.Outcome, run.Missing), err
	}
	return p.concluded(ctx, w, r, run, before.since(ctx, p.left))
}
