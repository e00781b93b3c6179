package search

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/effects"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/bisect/sets/flags"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/kernels"
)

// flags finds which values of flags are to blame or, if both ends pass, what each flag costs.
func (x *setSearch) flags(ctx context.Context) (bisect.Finding, error) {
	flags, err := config.FlagSpace(x.session.Policy.Flags)
	if err != nil {
		return bisect.Finding{}, err
	}
	// How an assignment reaches the program: by environment, arguments and options of the compiler.
	setting := func(s sets.Set) *report.Setting {
		assign := flags.Text(s)
		by, _ := kernels.ParseSettings(assign, x.session.Policy.Carriers())
		return &report.Setting{Env: append([]string{}, by.Apply(nil)...), Args: append([]string{}, by.Args()...), Compile: append([]string{}, by.Compile()...), Flags: assign}
	}
	a := axis{
		space: flags.Space, words: flags.Words, assign: flags.Away, setting: setting, goal: sets.All, timed: true,
		sampler: x.session.Memory, class: true, expand: flags.Expand,
		candidate: func(s sets.Set) (bisect.Candidate, error) {
			return bisect.Candidate{Commit: x.session.Policy.Bad, Assign: flags.Text(s)}, nil
		},
	}
	claims(x.session.Policy, &a, flags)
	a.again = func() axis { return a }
	x.session.Display.BeginSets(len(x.session.Policy.Flags), flags.Space.Len(), "flag")
	f, err := x.along(ctx, a)
	if err != nil || f.Err != nil {
		return f, err
	}
	f.Warnings = append(f.Warnings, flags.Notes...)
	// Flags that fail nowhere are searched for what they cost, unless the user has asked for a failure.
	if f.Result == bisect.NoDifference && allPass(x.session.Launches) && (x.options.Find == "" || x.options.Find == bisect.Slow) {
		return x.rank(ctx, a, flags, f)
	}
	return f, nil
}

// claims adds the hypotheses of the policy to a search. One about a value that the bad end does not have stays
// undecided.
func claims(p *policy.Policy, a *axis, flags *flags.Flags) {
	for _, h := range p.Hypotheses {
		set, err := flags.Claim(h.Claim)
		if err != nil {
			a.undecided = append(a.undecided, sets.Judged{Name: h.Name, Verdict: sets.Undecided, Why: err.Error()})
			continue
		}
		a.claims = append(a.claims, sets.Claim{Name: h.Name, Atoms: set})
	}
}

// allPass reports whether there are launches and all of them passed.
func allPass(launches []report.Launch) bool {
	return len(launches) > 0 && !slices.ContainsFunc(launches, func(l report.Launch) bool { return l.Outcome.Class != bisect.OK })
}

// rank finds the effects of single flags and of pairs of flags on the metric, as logarithms of ratios, from
// launches with many flags set at a time (package bisect/effects). It replaces the finding that the ends do not
// differ by what each flag costs.
func (x *setSearch) rank(ctx context.Context, a axis, flags *flags.Flags, f bisect.Finding) (bisect.Finding, error) {
	space := flags.Space
	metric, ok := x.rankedMetric()
	if !ok {
		return f, nil
	}
	set := func(on []bool) sets.Set {
		var s sets.Set
		for i, is := range on {
			if is {
				s = s.Or(sets.Of(i))
			}
		}
		return s
	}
	back := func(s sets.Set) []bool {
		on := make([]bool, space.Len())
		for _, i := range s.Atoms() {
			on[i] = true
		}
		return on
	}
	// An assignment that breaks a requirement cannot be launched; the nearest one that can is measured in its place.
	valid := func(on []bool) []bool { return back(space.Fit(set(on)).And(space.Whole())) }
	at := "" // what was launched last, for the display
	// Levels are logarithms, so that the effects of flags are factors and multiply.
	e := effects.Search{
		Effect: x.options.Effect, Error: x.options.Error, Seed: uint64(x.session.Policy.Seed), Spent: x.session.Spent, Higher: metric.Higher,
		Valid: valid,
		Run: func(ctx context.Context, on []bool, nth int) (float64, bool, string, error) {
			c := bisect.Candidate{Commit: x.session.Policy.Bad, Assign: flags.Text(set(on))}
			o, err := x.session.Memory.Sample(ctx, bisect.Request{Candidate: c, Purpose: ranking, Nth: nth, Timing: true})
			y, ok := metric.Value(o, "")
			at = flags.Words(set(on))
			return math.Log(y), ok, o.Describe(), err
		},
		OnLaunch: func(made int, left float64) { x.session.Display.Ranked(at, made, left) },
	}
	x.session.Display.BeginPart()
	for i := range space.Len() {
		e.Atoms = append(e.Atoms, space.Atom(i).Name)
	}
	r, err := e.Find(ctx)
	if err != nil {
		f.Err, f.Result = err, bisect.Broken
		if ctx.Err() != nil {
			f.Result = bisect.Interrupted
		}
		return f, nil
	}
	x.ranking, x.ranked = &r, metric.Name
	if all := x.options.Metrics; len(all) > 1 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the flags are ranked by %s alone\nhint: --metric %s ranks them by that", metric.Name, all[1].Name))
	}
	f.Warnings = append(f.Warnings, r.Warnings...)
	f.Result = bisect.NoDifference
	// Without a flag that makes it worse there is nothing to blame, however much the others gain.
	worse := func(e effects.Effect) bool { return (e.Ratio > 1) != metric.Higher }
	if slices.ContainsFunc(r.Effects, worse) {
		f.Result = bisect.Found
		f.Complaint = bisect.Complaint{Class: bisect.Slow, Metric: metric.Name}
		if t := r.Total; t != nil {
			f.Complaint.Ends = &bisect.Effect{Metric: metric.Name, Ratio: t.Ratio, Low: t.Low, High: t.High, Higher: metric.Higher}
		}
	}
	if len(r.Effects) > 0 {
		// Dropped: that the ends do not differ, which is not true of the metric.
		f.Warnings = slices.Concat(flags.Notes, r.Warnings)
		err = x.recommend(ctx, a, set(r.Best(e.Atoms, valid)), metric.Higher)
	}
	return f, err
}

// recommend measures the assignment that the effects predict to be the best; higher says that more is better. It
// recommends that, or all flags at their base if the measurement does not confirm the gain.
func (x *setSearch) recommend(ctx context.Context, a axis, best sets.Set, higher bool) error {
	none := sets.Safe{Confirmed: true, Effect: &bisect.Effect{Ratio: 1, Low: 1, High: 1}}
	x.found.Recommended = &none
	if len(best) == 0 {
		return nil
	}
	effect, err := x.time(ctx, a, best, func(bisect.Effect) bool { return false }, x.found.Levels)
	if err != nil || effect.Metric == "" {
		return err
	}
	low, high := effect.Low, effect.High // as ratios of which less is better
	if higher {
		low, high = 1/high, 1/low
	}
	safe := sets.Safe{Atoms: best, Maximal: true, Maximum: true, Weight: float64(best.Len()), Confirmed: high < 1+x.options.Effect, Effect: &effect}
	x.found.Safe = []sets.Safe{safe}
	if low <= 1 {
		x.found.Recommended = &safe
	}
	return nil
}

// ranking is the purpose of launches that measure what flags cost. It is stored with them and must not change.
const ranking bisect.Purpose = "ranking"

// rankedMetric is the metric by which flags are ranked: the first configured one that a launch has reported, with its
// direction. If a slowdown is searched for and no metric is configured, wall time comes last.
func (x *setSearch) rankedMetric() (metric.Metric, bool) {
	ms := x.options.Metrics
	if w := x.session.Policy.WallTime(); w != nil && x.options.Find == bisect.Slow {
		ms = append(slices.Clone(ms), *w)
	}
	for _, m := range ms {
		for _, l := range x.session.Launches {
			if _, ok := m.Value(l.Outcome, ""); ok {
				known, _ := metric.Directed([]metric.Metric{m}, l.Outcome)
				return known[0], true
			}
		}
	}
	return metric.Metric{}, false
}
