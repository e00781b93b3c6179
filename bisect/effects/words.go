package effects

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// rank fits the best model to all launches and reports those of its terms that are confirmed.
func (s *study) rank() Ranking {
	r := Ranking{Effects: []Effect{}, Dropped: []Effect{}, Active: []string{}, Launches: s.launches,
		Failed: s.failed, Complete: !s.cut && len(s.failed) == 0, Higher: s.Higher, Warnings: s.warnings()}
	if len(s.runs) == 0 {
		return r
	}
	r.CV, r.Smallest, r.Active = math.Expm1(s.noise.sd), s.smallest(), s.lenth()
	terms := s.modelTerms()
	f := s.solve(s.runs, columns(s.runs, terms))
	total := s.total(&r)
	for i, t := range terms {
		beta, unit := f.sum(i + 1)
		e := s.flagEffect(t, estimate{beta, s.noise.sd * unit, s.noise.df})
		if total != 0 {
			e.Share = beta / total
		}
		x := s.tests[t]
		switch {
		case x == nil || x.verdict == 0:
			e.Why, r.Complete = "suspected, not confirmed", false
			r.Dropped = append(r.Dropped, e)
		case max(e.High, 1/e.Low) < 1+s.Effect:
			e.Why = fmt.Sprintf("below %.3g %%", 100*s.Effect)
			r.Dropped = append(r.Dropped, e)
		default:
			r.Effects = append(r.Effects, e)
		}
	}
	for _, t := range s.refuted() {
		r.Dropped = append(r.Dropped, s.tests[t].found)
	}
	slices.SortStableFunc(r.Effects, func(a, b Effect) int {
		return cmp.Compare(math.Abs(math.Log(b.Ratio)), math.Abs(math.Log(a.Ratio)))
	})
	return r
}

// refuted are the terms that fresh launches spoke against.
func (s *study) refuted() []flagSet {
	var out []flagSet
	for t, x := range s.tests {
		if x.verdict < 0 {
			out = append(out, t)
		}
	}
	return distinct(out)
}

// confirmed are the terms of the best model that fresh launches confirmed.
func (s *study) confirmed() []flagSet {
	return slices.DeleteFunc(s.modelTerms(), func(t flagSet) bool { return s.tests[t] == nil || s.tests[t].verdict <= 0 })
}

// total fills in what everything on costs against everything off, and returns its logarithm, 0 where
// that may be none. It is the sum of the effects unless launches with everything on contradict.
func (s *study) total(r *Ranking) float64 {
	all, terms := s.everything(s.runs), s.confirmed()
	if !slices.Contains(all, 1) {
		r.Warnings = append(r.Warnings, "nothing is known of all flags together: no such launch was usable")
		return 0
	}
	own := len(terms) + 1
	f := s.solve(s.runs, columns(s.runs, terms))
	rest := s.solve(s.runs, slices.Insert(columns(s.runs, terms), own, all))
	var in []int
	for i, t := range terms {
		if s.all().holds(t) {
			in = append(in, i+1)
		}
	}
	beta, unit := rest.sum(own)
	if math.Abs(beta) > max(math.Log1p(s.Effect), studentT(0.002, s.noise.df)*s.noise.sd*unit) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("all flags together make %s beyond what the confirmed effects explain: more of them than three may act together", percent(math.Exp(beta))))
		r.Complete = false
		f, in = rest, append(in, own)
	}
	log, unit := f.sum(in...)
	e := s.flagEffect(0, estimate{log, s.noise.sd * unit, s.noise.df})
	r.Total = &bisect.Effect{Ratio: e.Ratio, Low: e.Low, High: e.High}
	if e.Low <= 1 && e.High >= 1 {
		return 0
	}
	return log
}

// lenth are the flags whose contrast stands out from the contrasts of all columns of the designs.
func (s *study) lenth() []string {
	var size []float64
	atoms := len(s.Atoms)
	for j := 0; ; j++ {
		ok := false
		c := contrast(s.runs, func(r launch) bool {
			if j < atoms {
				ok = true
				return r.on.holds(1 << j)
			}
			ok = ok || j < len(r.row)
			return j < len(r.row) && r.row[j] > 0
		})
		if !ok {
			break
		}
		size = append(size, math.Abs(c))
	}
	active := []string{}
	limit := studentT(0.05, max(1, float64(len(size))/3)) * pseudoError(size)
	for a := range s.Atoms {
		if a < len(size) && size[a] > limit {
			active = append(active, s.Atoms[a])
		}
	}
	return active
}

// pseudoError is Lenth's: a standard error from contrasts of which most are noise.
func pseudoError(size []float64) float64 {
	rough := 1.5 * median(slices.Clone(size))
	var small []float64
	for _, c := range size {
		if c < 2.5*rough {
			small = append(small, c)
		}
	}
	if len(small) == 0 {
		return rough
	}
	return 1.5 * median(small)
}

func (s *study) warnings() []string {
	out := []string{}
	if s.cut {
		out = append(out, "the budget was spent before the study was done")
	}
	if n := len(s.failed); n > 0 {
		out = append(out, fmt.Sprintf("%d of %d launches gave no number and were left out; the first: %s with %s on", n, s.launches, s.failed[0].Why, listed(s.failed[0].On)))
	}
	for a := range s.Atoms {
		if b, ok := s.merged[a]; ok {
			out = append(out, fmt.Sprintf("%s and %s were never apart: what is said of %s is of both", s.Atoms[b], s.Atoms[a], s.Atoms[b]))
		}
	}
	return out
}

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// percent says by how much a ratio is above or below 1.
func percent(ratio float64) string { return fmt.Sprintf("%+.3g %%", 100*(ratio-1)) }

// Advice is the answer in one sentence: what to keep, what to drop, and what only together costs.
func (r Ranking) Advice() string {
	var keep, drop, both []string
	for _, e := range r.Effects {
		gain := (e.Ratio < 1) != r.Higher
		switch {
		case len(e.Terms) > 1:
			both = append(both, r.together(e, gain))
		case gain:
			keep = append(keep, e.Terms[0]+" ("+percent(e.Ratio)+")")
		default:
			drop = append(drop, e.Terms[0]+" ("+percent(e.Ratio)+")")
		}
	}
	var parts []string
	if len(keep) > 0 {
		parts = append(parts, "keep "+and(keep))
	}
	if len(drop) > 0 {
		parts = append(parts, "drop "+and(drop))
	}
	if parts = append(parts, both...); len(parts) == 0 {
		return r.nothing()
	}
	return strings.Join(parts, ", ")
}

// nothing says that no effect was found, and what that is worth.
func (r Ranking) nothing() string {
	switch t := r.Total; {
	case r.Launches > 0 && len(r.Failed) == r.Launches:
		return "no launch gave a number"
	case t != nil && (t.Low > 1+r.Smallest || t.High < 1/(1+r.Smallest)):
		return fmt.Sprintf("all flags together make %s, but no flag, pair or three of them does alone", percent(t.Ratio))
	}
	return fmt.Sprintf("no flag and no pair of flags makes a difference; one below %.2g %% may have been missed", 100*r.Smallest)
}

// Best is the assignment that the confirmed effects predict to be best, in the order of names: what gains
// is on, what costs is off, and of what costs only together as little is off as must be. What makes no
// difference stays on. The nearest valid assignment counts in the place of one that is not; nil stands for
// none of them being invalid.
func (r Ranking) Best(names []string, valid func(on []bool) []bool) []bool {
	const most = 16 // flags tried on and off
	var matter []int
	for i, name := range names {
		if slices.ContainsFunc(r.Effects, func(e Effect) bool { return slices.Contains(e.Terms, name) }) {
			matter = append(matter, i)
		}
	}
	matter = matter[:min(most, len(matter))]
	var best []bool
	level, kept := math.Inf(1), 0
	for try := range 1 << len(matter) {
		on := slices.Repeat([]bool{true}, len(names))
		for k, i := range matter {
			on[i] = try>>k&1 == 0
		}
		if valid != nil {
			on = valid(on)
		}
		n := 0
		for _, x := range on {
			if x {
				n++
			}
		}
		const rounding = 1e-9
		if l := r.predict(names, on); l < level-rounding || l < level+rounding && n > kept {
			best, level, kept = on, l, n
		}
	}
	return best
}

// predict is the logarithm of what the effects make of an assignment, less being better.
func (r Ranking) predict(names []string, on []bool) float64 {
	sum := 0.0
	for _, e := range r.Effects {
		if !slices.ContainsFunc(e.Terms, func(t string) bool { i := slices.Index(names, t); return i < 0 || !on[i] }) {
			sum += math.Log(e.Ratio)
		}
	}
	if r.Higher {
		return -sum
	}
	return sum
}

// together says what a pair does, and whether its parts do something alone.
func (r Ranking) together(e Effect, gain bool) string {
	verb := "cost"
	if gain {
		verb = "gain"
	}
	only := "only together"
	for _, x := range r.Effects {
		if len(x.Terms) < len(e.Terms) && !slices.ContainsFunc(x.Terms, func(t string) bool { return !slices.Contains(e.Terms, t) }) {
			only = "together, beyond what they do apart,"
		}
	}
	return fmt.Sprintf("%s %s %s (%s)", and(e.Terms), only, verb, percent(e.Ratio))
}

// and lists names for people.
func and(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
