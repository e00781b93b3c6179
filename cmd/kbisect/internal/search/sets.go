package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/effects"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline"
)

// axis is what a search over sets varies: what can be on and off, and which candidate a set of it is. The empty set
// is the good end, and the whole space the bad one. Functions take sets of atoms that space has.
type axis struct {
	space      *sets.Space
	candidate  func(sets.Set) (bisect.Candidate, error)
	words      func(sets.Set) string
	assign     func(sets.Set) map[string]string // nil for hunks
	setting    func(sets.Set) *report.Setting   // likewise
	hunks      func() []report.Hunk             // by atom; nil for flags
	claims     []sets.Claim
	undecided  []sets.Judged // claims about flags that are not searched
	goal       sets.Goal
	clean      bool // verdicts are certified with clean builds
	expand     func(int) []sets.Atom
	divided    bool // expand splits an atom into its parts; without it, other atoms replace it
	timed      bool // safe sets are timed
	timesSeeds bool // by the launches that confirm them, which find the same as others: empty caches
	sampler    bisect.Sampler
	class      bool        // only how launches end counts, never a metric
	again      func() axis // a copy as it was before the search, for foresight
	cuts       sets.Cuts   // shared by the search and its repetitions
}

// search is a search along the axis, and the oracle that answers it with trials of sampler.
func (a axis) search(opts search.Options, sampler bisect.Sampler) (*sets.Search, *find.SetOracle) {
	oracle := &find.SetOracle{Candidate: a.candidate, Sampler: sampler, Options: opts, Clean: a.clean, Class: a.class, Parts: a.hunks != nil, Timed: a.timesSeeds}
	return &sets.Search{Space: a.space, Oracle: oracle, Goal: a.goal, Claims: a.claims, Expand: a.expand, Divided: a.divided, Cuts: a.cuts}, oracle
}

// setSearch is a search over sets: which flags of a commit, or which hunks of a difference, are to blame.
type setSearch struct {
	session *session.Session
	options search.Options
	found   *report.Sets     // what the last search found; nil before
	ranking *effects.Ranking // what each flag costs; nil unless flags were ranked
	ranked  string           // the metric by which they were
}

// newSetSearch is a search for what the policy asks for. Callers may change its options before it begins.
func newSetSearch(s *session.Session) *setSearch {
	return &setSearch{session: s, options: s.Policy.Judge}
}

// along searches the sets of an axis. The finding it returns is for the exit code and the headline; the sets themselves
// go into found.
func (x *setSearch) along(ctx context.Context, a axis) (bisect.Finding, error) {
	a.cuts, a.timesSeeds = sets.Cuts{}, a.timed && x.session.Policy.Caches == pipeline.Cold
	s, oracle := a.search(x.options, a.sampler)
	show := x.session.Display
	oracle.Spent = x.session.Spent
	s.Spent, s.Words, s.OnTest = x.session.Spent, a.words, func(t sets.Test) { show.Test(t, a.words) }
	s.OnProgress = func(p sets.Progress) { show.Remaining(p, len(x.session.Slots.Each)) }
	levels := map[string]float64{} // medians of the metric by which sets were timed
	if a.timed {
		s.Time = func(ctx context.Context, set sets.Set, enough func(bisect.Effect) bool) (bisect.Effect, error) {
			return x.time(ctx, a, set, enough, levels)
		}
	}
	stop := foresight{session: x.session}.sets(func(below bisect.Sampler) (*sets.Search, *find.SetOracle) {
		again := a.again()
		again.cuts, again.timesSeeds = a.cuts, a.timesSeeds
		return again.search(x.options, below)
	}, a.sampler)
	n := a.space.Len()
	f, err := s.Find(ctx)
	if err = errors.Join(err, stop()); err != nil {
		return bisect.Finding{}, err
	}
	bad := slices.IndexFunc(f.Tests, func(t sets.Test) bool { return t.Purpose == sets.AllChanges })
	for i := range f.Minimal { // sets of lines that no test has seen alone have no class yet
		if g := &f.Minimal[i]; g.Class == "" && bad >= 0 {
			g.Class, g.Phase = f.Tests[bad].Class, f.Tests[bad].Phase
		}
	}
	f.Claims = append(f.Claims, a.undecided...)
	if f.Spent {
		f.Warnings = append(f.Warnings, bisect.ErrSpent.Error()+": not all combinations were searched")
	}
	out := report.Sets{Finding: f, Words: a.words, Assign: a.assign, Levels: levels, Setting: a.setting}
	if a.hunks != nil {
		out.Hunks = a.hunks()
	}
	x.found = &out
	ends := oracle.Ends()
	ends.Hint = a.hint(ends)
	return bisect.Finding{
		Result: f.Result, Complaint: ends.Complaint, Ends: ends, Err: f.Err, Spent: f.Spent,
		Warnings: f.Warnings, Inferred: f.Counts.Inferred, Range: n, Matter: n,
	}, nil
}

// hint replaces the advice to name another good end, which only a search of commits can follow: here the good end is
// the empty set, all flags at their base or no hunk applied.
func (a axis) hint(e bisect.Ends) string {
	switch {
	case !e.OtherGood:
		return e.Hint
	case a.hunks == nil:
		return e.Check + "with all flags at their base it fails too: search the commits (kbisect run --good REV), or the flags of another commit (--bad REV)"
	}
	return e.Check + "it fails without the change too: search the commits (kbisect run --good REV)"
}

// time compares a safe set with the empty one in alternating launches, until the effect is known as closely as the
// smallest change that is worth finding, enough accepts it, or there are progress.TimedPairs of them. Both medians go
// into levels, by the key of their set. An effect without a metric says that nothing could be measured.
func (x *setSearch) time(ctx context.Context, a axis, set sets.Set, enough func(bisect.Effect) bool, levels map[string]float64) (bisect.Effect, error) {
	const doubt = 0.05 // that the interval of an effect does not hold it
	none := bisect.Effect{Ratio: 1, Low: 1, High: 1}
	if len(set) == 0 {
		return none, nil
	}
	base, err := a.candidate(nil)
	if err != nil {
		return none, err
	}
	tested, err := a.candidate(set)
	if err != nil {
		return none, err
	}
	s := x.session
	s.Display.Say(fmt.Sprintf("%-9s %s | %s", "timing", a.words(set), s.Display.Far()))
	c := compare.Experiment{
		A: base, B: tested, Sampler: s.Memory, Metrics: x.options.Metrics, Effect: x.options.Effect, Error: doubt, Fallback: s.Policy.WallTime(),
		Pairs: progress.TimedPairs, Seed: uint64(s.Policy.Seed), Spent: s.Spent,
		Enough: func(all []compare.Contrast) bool {
			_, e := whole(all)
			return e.High/e.Low <= 1+2*x.options.Effect || enough(e)
		},
	}
	if a.timesSeeds {
		c.Purpose = bisect.Purpose(sets.Seeding)
	}
	got, err := c.Run(ctx)
	if err != nil || len(got.Contrasts) == 0 || got.ByClass && got.Answer == compare.Worse {
		return none, err
	}
	k, e := whole(got.Contrasts)
	levels[set.Key()], levels[sets.Set(nil).Key()] = float64(k.B.Median), float64(k.A.Median)
	if !(e.Ratio > 0) || math.IsInf(e.High, 0) || math.IsNaN(e.High) {
		return none, nil
	}
	return e, nil
}

// whole is the contrast of all cases, or else the first one, and its effect with bounds that hold however often one
// looked.
func whole(all []compare.Contrast) (compare.Contrast, bisect.Effect) {
	k := all[max(0, slices.IndexFunc(all, func(k compare.Contrast) bool { return k.All }))]
	low, high := min(k.Ratio.Value, k.Bound.Low), max(k.Ratio.Value, k.Bound.High)
	if low == 0 || math.IsInf(high, 1) { // too few launches for such bounds
		low, high = k.Ratio.Low, k.Ratio.High
	}
	return k, bisect.Effect{Metric: k.Metric.Name, Ratio: k.Ratio.Value, Low: low, High: high, Higher: k.Metric.Higher}
}
