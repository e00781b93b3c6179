package pipeline

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// Soon says which launches are likely to be asked for that may begin beside others. It may be called while a pipeline makes
// a trial.
func Soon(p *Pipeline, next []bisect.Request) { p.headStart.Want(next) }

// ManyProcessors reports that there are enough for [Config.Eager].
func ManyProcessors() bool { return runtime.NumCPU() >= 8 }

// worthHeadStart is how long the good end must load for a head start to be worth it.
const worthHeadStart = 300 * time.Millisecond

// begin gives launches that are likely to be asked for a head start beside the launch r, if the program tells when it has
// loaded and takes long to do so. Of the ends that is not known yet, but seen in the sources. A candidate that has to be
// built begins only beside the other side of its proof. So does any other unless times or results are the complaint, since
// a crash may come from too little memory. Where results alone count, one that says nothing runs freely.
func begin(ctx context.Context, p *Pipeline, r bisect.Request) {
	c, most := &p.Config.Recipe, 2 // both sides of a proof
	if p.Config.Eager {            // and of another one, since either may be needed
		most = 4
	}
	wanted := p.headStart.Wanted(r)
	// Before it is known whether the start counts, launches begin all the same: if it does, r is made again alone.
	if p.prestart == nil || p.clean || c.WholeTimed || p.reference.Covers {
		return
	}
	patient := len(c.Plan.Build) > 0 || !r.Timing && p.failure.Class != bisect.Wrong
	for _, next := range wanted {
		end, loads, free := next.Purpose == bisect.EndBad, p.reference.Times["load"], runsFreely(p, next)
		if free {
			loads = p.reference.Times[bisect.WholeTrial]
		}
		switch {
		case p.headStart.Needed() >= most:
			return
		case p.workspaces.name(r) == p.workspaces.name(next), !end && (patient && !r.Clean || loads < worthHeadStart):
			continue
		case end && (runtime.NumCPU() < 2 || len(c.Plan.Build) > 0 || p.Config.Limits.Relative()):
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
		beside := trial.Beside(*c, warmsUp)
		if free {
			beside = nil
		}
		if w.ClearCaches() != nil {
			continue
		}
		order.OnTimed = func(on bool) {
			p.ahead.freeze(on)
			p.prestart.Freeze(on)
		}
		p.headStart.Begin(context.WithoutCancel(ctx), w, built, order, beside)
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
