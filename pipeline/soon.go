package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/pipeline/headstart"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Soon says which launches are likely to be asked for that may begin beside others, likeliest first. It may be called while a
// pipeline makes a trial.
func Soon(p *Pipeline, next []bisect.Request) { p.headStart.Want(next) }

// ManyProcessors reports that there are enough for [Config.Eager].
func ManyProcessors() bool { return runtime.NumCPU() >= 8 }

// worthHeadStart is how long the good end must load for a head start to be worth it.
const worthHeadStart = 300 * time.Millisecond

// worthCompiling is for how many seconds an end must compile for a head start of the search's next commits to be worth it.
const worthCompiling = 3.0

// begin gives launches that are likely to be asked for a head start beside the launch r, if the program tells when it has
// loaded and takes long to do so. Of the ends that is not known yet, but seen in the sources. A candidate that has to be
// built begins only beside the other side of its proof. So does any other unless times or results are the complaint, since
// a crash may come from too little memory. Where results alone count, one that says nothing runs freely. The next commits of
// the search begin, in workspaces of their own, where each compiles for long what no other can use or, if results alone count,
// what the ends did not, as the last one did: a compiler that tries variants must have the device to itself if times count.
func begin(ctx context.Context, p *Pipeline, r bisect.Request) {
	c := &p.Config.Recipe
	wanted := p.headStart.Wanted(r)
	compiles := p.Config.Eager && p.compiles >= worthCompiling && (p.ofOne || p.anew && !r.Timing && r.Purpose == bisect.Searching)
	ready := compiles && headstart.Ready(&p.headStart, r) // it ends soon, and shows what is worth compiling
	// Before it is known whether the start counts, launches begin all the same: if it does, r is made again alone.
	if p.prestart == nil || p.clean || c.WholeTimed || p.reference.Covers || ready && p.ofOne {
		return
	}
	patient := len(c.Plan.Build) > 0 || !r.Timing && p.failure.Class != bisect.Wrong
	for _, next := range wanted {
		end, searched := next.Purpose == bisect.EndBad, next.Purpose == bisect.Searching
		loads, free := p.reference.Times["load"], runsFreely(p, next)
		if free {
			loads = p.reference.Times[bisect.WholeTrial]
		}
		switch {
		case !admits(p, searched, compiles), searched && (free || !compiles || ready):
			continue
		case !end && (patient && (searched || !r.Clean) || loads < worthHeadStart):
			continue
		case end && (runtime.NumCPU() < 2 || len(c.Plan.Build) > 0 || p.Config.Limits.Relative()):
			continue
		case searched && !reserve(p, r, next), p.workspaces.name(r) == p.workspaces.name(next):
			continue
		}
		w, built, err := p.prepare(ctx, next)
		if err != nil || built.Class != "" { // it will be met again in its turn
			continue
		}
		order, warmsUp := orderOf(p, next, 1), p.reference.Times["warmup"] > 0
		if end {
			warmsUp = trial.Mentions(w, order, strings.TrimSuffix(harness.Module, ".py"))
			if warmsUp || trial.Mentions(w, order, trial.ProtocolVariable) {
				order.Reference.Speaks, free = new(true), false
			} else if !free {
				continue
			}
		}
		order.Searched = searched
		beside := trial.Beside(*c, warmsUp)
		if free {
			beside = nil
		}
		var from []*workspace.Workspace
		if searched && r.Purpose == bisect.Searching { // else the ends' are in use
			from = p.seeds(next)
		}
		if workspace.InheritCaches(w, from) != nil {
			continue
		}
		p.headStart.Begin(context.WithoutCancel(ctx), w, built, order, beside)
	}
}

// admits reports whether one more launch may begin before its turn, of the search or of an end or a proof. Where each compiles
// for long what serves no other, all go by the processors and the memory that the good end used, unless one may have to wait
// for another, say for a lock.
func admits(p *Pipeline, searched, compiles bool) bool {
	most, n := 2, p.headStart.Begun()+1 // both sides of a proof
	if p.Config.Eager {                 // and of another one, since either may be needed
		most = 4
	}
	switch {
	case compiles && p.ofOne:
		return p.room.Admits(n, 0) && (n < most || p.together && n < p.fit)
	case searched:
		return p.room.Admits(n, 0) && p.headStart.Needed(true) < most-1
	}
	return p.headStart.Needed(false) < most
}

// reserve finds a workspace for a launch of the search that is to begin beside r, if there is one that no other candidate needs.
func reserve(p *Pipeline, r, next bisect.Request) bool {
	const most = 16
	soon := p.workspaces.soon
	switch {
	case p.Config.single(next):
		return false
	case soon[next.Candidate] != "":
		return true
	case len(soon) < most:
		soon[next.Candidate] = fmt.Sprint("soon-", len(soon))
		return true
	}
	for c, name := range soon {
		if c != r.Candidate && !headstart.In(&p.headStart, p.workspaces.open[name]) {
			delete(soon, c)
			soon[next.Candidate] = name
			return true
		}
	}
	return false
}

// learnCompiling takes in for how long a launch compiled, and what an end used, or the first launch of a resumed search. Two that
// compile side by side, if the second began early, take as long as each alone, within a quarter, or one may have waited for the other.
func learnCompiling(p *Pipeline, w *workspace.Workspace, r bisect.Request, run trial.Launched, early bool) {
	took, o := 0.0, run.Outcome
	for _, ph := range o.Phases {
		if slices.Contains([]string{"extension", "compile"}, ph.Name) {
			took += ph.Seconds
		}
	}
	long := took > 0 && took >= p.compiles/2
	p.anew = long && r.Purpose == bisect.Searching
	if long && (r.Purpose.IsEnd() || p.compiles == 0) { // one that finds its caches filled uses more for a shorter time
		p.room.Learn(o.CPU/max(o.Wall, 1e-3), max(o.Memory, run.Last.MaxRSS))
		p.together = p.together || early && max(took, p.compiles) < 1.25*min(took, p.compiles)
		p.compiles, p.ofOne = max(p.compiles, took), p.ofOne || w.Caches.OfOne()
	}
}

// runsFreely reports whether a launch may run to its end beside others, as far as is known: on a device with processors to
// spare, of a program without a build that says nothing, where nothing but results can be the complaint.
func runsFreely(p *Pipeline, r bisect.Request) bool {
	c := &p.Config.Recipe
	if !p.Config.Eager || len(p.Config.Devices) == 0 || r.Timing || len(c.Plan.Build)+len(c.Patterns)+len(c.Sources) > 0 || c.FallsBack {
		return false
	}
	return r.Purpose == bisect.EndBad || p.failure.Class == bisect.Wrong && p.reference.Speaks != nil && !*p.reference.Speaks
}

// Quiet lets nothing begin beside the launches that follow until others are said to be likely, and has them wait for what
// runs freely.
func Quiet(p *Pipeline) { p.headStart.Quiet() }

// Crowded reports that a launch runs freely that has not been asked for yet, and may never be.
func Crowded(p *Pipeline) bool { return p.headStart.Shares(bisect.Request{}) }
