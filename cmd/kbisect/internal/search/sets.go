package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
)

// axis is a search over sets: what can be on and off, and what a set of it is to build and run.
type axis struct {
	space     *sets.Space
	candidate func(sets.Set) (bisect.Candidate, error)
	words     func(sets.Set) string
	assign    func(sets.Set) map[string]string // nil for hunks
	off       func(sets.Set) map[string]string // flags of a set at their base; nil for hunks
	hunks     func() []report.Hunk             // by atom; nil for flags
	base      string                           // nothing on, in words
	claims    []sets.Claim
	undecided []sets.Judged // claims that are not about what is searched
	goal      sets.Goal
	clean     bool // certificates are taken from clean builds
	expand    func(int) []sets.Atom
	divided   bool // expand divides an atom, and does not put others in its place
	timed     bool // safe sets are timed
	sampler   bisect.Sampler
	class     bool        // only how launches end tells ends apart
	again     func() axis // this, as it was before the search
	cuts      sets.Cuts   // of all searches along it
}

// search is the search along the axis, and what answers it.
func (a axis) search(opts judge.Options, sampler bisect.Sampler) (*sets.Search, *judge.SetOracle) {
	oracle := &judge.SetOracle{Candidate: a.candidate, Sampler: sampler, Options: opts, Clean: a.clean, Class: a.class, Parts: a.hunks != nil}
	return &sets.Search{Space: a.space, Oracle: oracle, Goal: a.goal, Claims: a.claims, Expand: a.expand, Divided: a.divided, Cuts: a.cuts}, oracle
}

// searchSets runs a search over sets.
func (j *Search) searchSets(ctx context.Context, a axis) (bisect.Finding, error) {
	a.cuts = sets.Cuts{}
	s, oracle := a.search(j.session.Policy.Judge, a.sampler)
	oracle.Spent = j.session.Spent
	s.Spent, s.Words, s.OnTest = j.session.Spent, a.words, func(t sets.Test) { j.session.Display.Test(t, a.words) }
	s.OnProgress = func(p sets.Progress) { j.session.Display.Remaining(p, len(j.session.Pipes)) }
	levels := map[string]float64{}
	if a.timed {
		s.Time = func(ctx context.Context, set sets.Set) (bisect.Effect, bool, error) {
			return j.timeSet(ctx, a, set, oracle.Turned, levels)
		}
	}
	opts := j.session.Policy.Judge
	forget := j.foreseeSets(func(below bisect.Sampler) (*sets.Search, *judge.SetOracle) {
		again := a.again()
		again.cuts = a.cuts
		return again.search(opts, below)
	}, a.sampler)
	n := a.space.Len()
	f, err := s.Find(ctx)
	if err = errors.Join(err, forget()); err != nil {
		return bisect.Finding{}, err
	}
	complaint := oracle.Ends().Complaint
	for i := range f.Minimal { // of lines that are tested together for the first time
		if g := &f.Minimal[i]; g.Class == "" {
			g.Class, g.Phase = complaint.Class, complaint.Phase
		}
	}
	f.Claims = append(f.Claims, a.undecided...)
	if f.Spent {
		f.Warnings = append(f.Warnings, "the budget is used up: not all combinations were searched")
	}
	out := report.Sets{Finding: f, Base: a.base, Words: a.words, Assign: a.assign, Levels: levels}
	if a.space = f.Space; f.Reversed {
		turn(&out, a)
	}
	if a.hunks != nil {
		out.Hunks = a.hunks()
	}
	j.sets = &out
	ends := oracle.Ends()
	ends.Hint = a.hint(ends)
	return bisect.Finding{
		Result: f.Result, Complaint: ends.Complaint, Ends: ends, Err: f.Err, Spent: f.Spent,
		Warnings: f.Warnings, Inferred: f.Counts.Inferred, Range: n, Matter: n,
	}, nil
}

// hint puts the advice of a search of commits, to name another good end, into the terms of this one.
func (a axis) hint(e bisect.Ends) string {
	switch {
	case !e.OtherGood:
		return e.Hint
	case a.hunks == nil:
		return e.Check + "with all flags at their base it fails too: search the commits (kbisect run --good REV), or the flags of another commit (--bad REV)"
	}
	return e.Check + "it fails without the change too: search the commits (kbisect run --good REV)"
}

// turn puts what a search of exchanged ends found into terms of what is on: its sets are of what is
// turned off. What is to blame then is that flags are at their base.
func turn(out *report.Sets, a axis) {
	top := a.space.Fit(a.space.Whole())
	safe := func(x *sets.Safe) {
		if x != nil {
			x.Atoms = top.Minus(x.Atoms)
		}
	}
	for i := range out.Safe {
		safe(&out.Safe[i])
	}
	safe(out.Keep)
	safe(out.Recommended)
	for i := range out.NotExcluded {
		out.NotExcluded[i] = top.Minus(out.NotExcluded[i])
	}
	out.Base = "everything on"
	out.Off = true
	out.WordsOff = func(s sets.Set) string { return a.words(s) + " left out" }
	if a.off != nil {
		out.WordsOff = func(s sets.Set) string {
			var parts []string
			off := a.off(s)
			for _, name := range slices.Sorted(maps.Keys(off)) {
				parts = append(parts, name+"="+off[name])
			}
			return strings.Join(parts, " ")
		}
		out.AssignOff = a.off
	}
}

// timeSet compares a safe set with nothing on, launch by launch in turn; higher says that more is better.
func (j *Search) timeSet(ctx context.Context, a axis, set sets.Set, turned func() bool, levels map[string]float64) (e bisect.Effect, higher bool, err error) {
	none := bisect.Effect{Ratio: 1, Low: 1, High: 1}
	reference := sets.Set(nil)
	if turned() { // nothing on fails
		reference = a.space.Fit(a.space.Whole())
	}
	if set.Equal(reference) {
		return none, false, nil
	}
	base, err := a.candidate(reference)
	if err != nil {
		return none, false, err
	}
	tested, err := a.candidate(set)
	if err != nil {
		return none, false, err
	}
	j.session.Display.Say(fmt.Sprintf("%-9s %s | %s", "timing", a.words(set), j.session.Display.Far()))
	wanted := j.session.Policy.Judge
	c := compare.Experiment{A: base, B: tested, Sampler: j.session.Memory, Metrics: wanted.Metrics, Effect: wanted.Effect, Error: wanted.Error, Fallback: j.session.Policy.WallTime(), Pairs: progress.TimedPairs, Seed: uint64(j.session.Policy.Seed), Spent: j.session.Spent}
	x, err := c.Run(ctx)
	if err != nil || len(x.Contrasts) == 0 || x.ByClass && x.Answer == compare.Worse {
		return none, false, err
	}
	best := x.Contrasts[0]
	for _, k := range x.Contrasts {
		if k.All {
			best = k
		}
	}
	levels[set.Key()], levels[reference.Key()] = best.B.Median, best.A.Median
	e = bisect.Effect{Metric: best.Metric.Name, Ratio: best.Ratio.Value, Low: best.Ratio.Low, High: best.Ratio.High}
	if !(e.Ratio > 0) || math.IsInf(e.High, 0) || math.IsNaN(e.High) {
		return none, false, nil
	}
	return e, best.Metric.Higher, nil
}

// addSets adds to a report what was found besides commits.
func (j *Search) addSets(in *report.Input) {
	in.Explain = j.table
	in.Axis, in.Sets, in.Hunks, in.Switch = j.session.Policy.Axis, j.sets, j.hunks, j.switched
	if j.ranking == nil {
		return
	}
	in.Advice = j.ranking.Advice()
	for _, e := range j.ranking.Effects {
		in.Terms = append(in.Terms, report.Term{Terms: e.Terms, Ratio: e.Ratio, Low: e.Low, High: e.High, Share: e.Share})
	}
}
