package pipeline

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// trial launches what a workspace holds. A launch for its times finds the caches as the last launch of the same
// candidate left them, unless the user wants them empty: just-in-time compilation takes seconds once, and would hide
// a change of microseconds. All other launches find them empty, as a fresh machine would have them.
func (p *Pipeline) trial(ctx context.Context, w *workspace.Workspace, r bisect.Request, patience int) (bisect.Outcome, error) {
	recipe, caches := p.Config.Recipe, p.Config.Caches
	if recipe.OnlyBuilds(r) {
		return bisect.Outcome{Class: bisect.OK}, nil
	}
	warm := caches == Warm || caches == "" && r.Timing
	if warm && w.Caches.Warmed == r.Candidate {
		o, err := p.launch(ctx, w, r, patience)
		if err == nil && w.Caches.Filled(recipe.WholeTimed, false) {
			o.Caches = string(Warm)
		}
		return o, err
	}
	if err := w.ClearCaches(); err != nil {
		return bisect.Outcome{}, err
	}
	noBytecode := !w.Caches.HasBytecode()
	first, err := p.launch(ctx, w, r, patience)
	if err != nil || first.Class != bisect.OK {
		return first, err
	}
	w.Caches.Warmed = r.Candidate
	if !w.Caches.Filled(recipe.WholeTimed, noBytecode) {
		return first, nil
	}
	first.Caches = string(Cold)
	if caches == Cold {
		return first, nil
	}
	if !warm { // launches of other candidates may have had less to compile
		first.Unfit = "it filled empty caches"
		return first, nil
	}
	second, err := p.launch(ctx, w, r, patience)
	second.Cold, second.Caches = first.Phases, string(Warm)
	return second, err
}

// launch makes one launch with the devices watched, and asks whose fault a failure is.
func (p *Pipeline) launch(ctx context.Context, w *workspace.Workspace, r bisect.Request, patience int) (bisect.Outcome, error) {
	before := readDevices(p.Config.Devices)
	// Builds ahead are paused while times are taken, see ahead.
	defer p.ahead.freeze(false)
	run, err := trial.Launch(ctx, w, trial.Order{
		Recipe: p.Config.Recipe, Request: r, Bounds: p.reference.Bounds(p.Config.Limits, r), Reference: p.reference,
		Suspected: p.machine.suspects[r.Candidate], Patience: patience, ProbeDir: filepath.Join(p.workspaces.root.Dir, "probe"),
		Report: p.Config.report(r), OnTimed: func() { p.ahead.freeze(true) },
	})
	for _, text := range run.Warnings {
		p.notices.once(text)
	}
	p.machine.suspect(r.Candidate, run.Suspicious)
	if err != nil || run.NotStarted {
		return trial.Excuse(run.Outcome, run.Lost), err
	}
	return p.concluded(ctx, w, r, run, before.since(ctx))
}

// concluded adds to the outcome of a launch what the devices went through, and asks whose fault it was.
func (p *Pipeline) concluded(ctx context.Context, w *workspace.Workspace, r bisect.Request, run trial.Launched, d deviceState) (bisect.Outcome, error) {
	o := run.Outcome
	o.Devices = d.notes
	if o.Class != bisect.OK { // a failed launch has no times to compare
		o.Unfit = ""
	}
	o.Marks = append(o.Marks, marks(d, run.Stall)...)
	if o.Unfit == "" && !r.Timing && len(o.Marks) > 0 {
		o.Unfit = o.Marks[0].String()
	}
	if o.Class != bisect.OK && w.Caches.Warmed != r.Candidate && w.Caches.Filled(p.Config.Recipe.WholeTimed, false) {
		o.Caches = string(Cold)
	}
	if run.Killed { // it may have left a lock file
		if err := w.ClearCaches(); err != nil {
			return o, err
		}
	}
	fault, err := p.machine.fault(ctx, r.Candidate, o, run.Last, d)
	if fault != "" {
		o.Class, o.Why = bisect.Infra, fault
	}
	return trial.Excuse(o, run.Lost), err
}

// marks are what the times of a launch suffered from.
func marks(d deviceState, stall time.Duration) (out []bisect.Mark) {
	if d.throttled != "" {
		out = append(out, bisect.Mark{Kind: bisect.Throttled, Text: d.throttled})
	}
	if d.shared != "" {
		out = append(out, bisect.Mark{Kind: bisect.Shared, Text: d.shared})
	}
	if stall > 0 {
		out = append(out, bisect.Mark{Kind: bisect.Stalled, Text: fmt.Sprintf("kbisect did not run for %.1f s", stall.Seconds())})
	}
	return out
}
