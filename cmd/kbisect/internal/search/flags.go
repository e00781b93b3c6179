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
)

// searchFlags finds which values of flags are to blame; where the ends end alike, what each flag costs.
func (j *Search) searchFlags(ctx context.Context) (bisect.Finding, error) {
	flags, err := config.FlagSpace(j.session.Policy.Flags)
	if err != nil {
		return bisect.Finding{}, err
	}
	a := axis{
		space: flags.Space, words: flags.Words, assign: flags.Away, off: flags.Bases, goal: sets.All, timed: true,
		base: "all flags at their base", sampler: j.session.Memory, class: true, expand: flags.Expand,
		candidate: func(s sets.Set) (bisect.Candidate, error) {
			return bisect.Candidate{Commit: j.session.Policy.Bad, Assign: flags.Text(s)}, nil
		},
	}
	claims(j.session.Policy, &a, flags)
	a.again = func() axis { return a }
	j.session.Display.BeginSets(len(j.session.Policy.Flags), flags.Space.Len(), "flags")
	f, err := j.searchSets(ctx, a)
	if err != nil || f.Err != nil {
		return f, err
	}
	f.Warnings = append(f.Warnings, flags.Notes...)
	if f.Result == bisect.NoDifference && j.bothEndWell() && (j.session.Policy.Judge.Find == "" || j.session.Policy.Judge.Find == bisect.Slow) {
		return j.rankFlags(ctx, a, flags, f)
	}
	return f, nil
}

// claims takes the hypotheses into a search; one that is not about what the bad end has stays undecided.
func claims(p *policy.Policy, a *axis, flags *flags.Flags) {
	for _, h := range p.Hypotheses {
		set, err := flags.Claim(config.Terms(h.Claim))
		if err != nil {
			a.undecided = append(a.undecided, sets.Judged{Name: h.Name, Verdict: sets.Undecided, Why: err.Error()})
			continue
		}
		a.claims = append(a.claims, sets.Claim{Name: h.Name, Atoms: set})
	}
}

// bothEndWell reports that every launch so far ended well.
func (j *Search) bothEndWell() bool {
	return len(j.session.Launches) > 0 && !slices.ContainsFunc(j.session.Launches, func(l report.Launch) bool { return l.Outcome.Class != bisect.OK })
}

// rankFlags finds what single flags and pairs do to the metric.
func (j *Search) rankFlags(ctx context.Context, a axis, flags *flags.Flags, f bisect.Finding) (bisect.Finding, error) {
	space := flags.Space
	metric, ok := j.rankedMetric()
	if !ok {
		return f, nil
	}
	set := func(on []bool) sets.Set {
		var s sets.Set
		for i, x := range on {
			if x {
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
	valid := func(on []bool) []bool { return back(space.Fit(set(on)).And(space.Whole())) }
	at := "" // what was launched last
	e := effects.Search{
		Effect: j.session.Policy.Judge.Effect, Error: j.session.Policy.Judge.Error, Seed: uint64(j.session.Policy.Seed), Spent: j.session.Spent, Higher: metric.Higher,
		Valid: valid,
		Run: func(ctx context.Context, on []bool, nth int) (float64, bool, string, error) {
			c := bisect.Candidate{Commit: j.session.Policy.Bad, Assign: flags.Text(set(on))}
			o, err := j.session.Memory.Sample(ctx, bisect.Request{Candidate: c, Purpose: ranking, Nth: nth, Timing: true})
			y, ok := metric.Value(o, "")
			at = flags.Words(set(on))
			return math.Log(y), ok, o.Describe(), err
		},
		OnLaunch: func(made int, left float64) { j.session.Display.Ranked(at, made, left) },
	}
	j.session.Display.BeginPart()
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
	j.ranking = &r
	if all := j.session.Policy.Judge.Metrics; len(all) > 1 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the flags are ranked by %s alone\nhint: --metric %s ranks them by that", metric.Name, all[1].Name))
	}
	f.Warnings = append(f.Warnings, r.Warnings...)
	f.Result = bisect.NoDifference
	worse := func(x effects.Effect) bool { return (x.Ratio > 1) != metric.Higher }
	if slices.ContainsFunc(r.Effects, worse) {
		f.Result = bisect.Found
		f.Complaint = bisect.Complaint{Class: bisect.Slow, Metric: metric.Name, Ends: r.Total}
	}
	if len(r.Effects) > 0 {
		f.Warnings = slices.Concat(flags.Notes, r.Warnings) // the ends do differ, if not by how they end
		err = j.recommend(ctx, a, set(r.Best(e.Atoms, valid)), metric.Higher)
	}
	return f, err
}

// recommend measures the assignment that the effects of the flags predict to be best, and takes it, or
// all flags at their base where it turns out to be no better.
func (j *Search) recommend(ctx context.Context, a axis, best sets.Set, higher bool) error {
	none := sets.Safe{Confirmed: true, Effect: &bisect.Effect{Ratio: 1, Low: 1, High: 1}}
	j.sets.Recommended = &none
	if len(best) == 0 {
		return nil
	}
	effect, _, err := j.timeSet(ctx, a, best, func() bool { return false }, j.sets.Levels)
	if err != nil || effect.Metric == "" {
		return err
	}
	low, high := effect.Low, effect.High
	if higher {
		low, high = 1/high, 1/low
	}
	x := sets.Safe{Atoms: best, Maximal: true, Maximum: true, Weight: float64(best.Len()), Confirmed: high < 1+j.session.Policy.Judge.Effect, Effect: &effect}
	j.sets.Safe, j.sets.Keep = []sets.Safe{x}, &x
	if low <= 1 {
		j.sets.Recommended = &x
	}
	return nil
}

// ranking is the purpose of launches that tell what flags cost.
const ranking bisect.Purpose = "ranking"

// rankedMetric is the metric that flags are ranked by: the first configured that the base has shown.
func (j *Search) rankedMetric() (metric.Metric, bool) {
	ms := j.session.Policy.Judge.Metrics
	if w := j.session.Policy.WallTime(); w != nil && j.session.Policy.Judge.Find == bisect.Slow {
		ms = append(slices.Clone(ms), *w)
	}
	for _, m := range ms {
		for _, l := range j.session.Launches {
			if _, ok := m.Value(l.Outcome, ""); ok {
				return m, true
			}
		}
	}
	return metric.Metric{}, false
}
