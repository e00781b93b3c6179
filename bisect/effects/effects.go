// Package effects finds which flags, and which flags together, cost or gain how much of a metric. A
// two-level design screens all of them at once, a search over models picks the few terms (flags, pairs, and
// threes of the strongest) that explain the launches, and fresh launches with all else off confirm each.
//
// A [Search] makes the study and a [Ranking] is its answer. Inside, a lab makes launches, a fit is what they say, and a
// confirmation decides what of it is true. The method is that of sets.md 4d. The package knows flags by name and
// launches by the logarithm of one number; it must not know how a flag is set or what the metric is.
//
// The model is y = c + Σ β_t·[all flags of t are on] + drift + noise, with y = ln(metric): effects multiply, and a
// term t of several flags is what they do beyond their parts. A set of flags is a flagSet, bit i for the flag
// Atoms[i].
package effects

import (
	"context"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// Search is a study of flags. Atoms and Run must be set; all else may be left at its zero value.
type Search struct {
	Atoms []string // names, 64 at most

	// Run makes the launch of ordinal nth, from 0, of a configuration, and returns the natural logarithm
	// of the metric. A launch that gave none is not usable, and why says so; an error stops the study.
	Run func(ctx context.Context, on []bool, nth int) (level float64, usable bool, why string, err error)

	Valid  func(on []bool) []bool // the nearest valid configuration; nil: all are valid. It may change its argument
	Spent  func() bool            // no launch is made after it returned true, or Run [bisect.ErrSpent]; nil: never
	Higher bool                   // larger is better

	Effect float64 // smallest change worth reporting, as a fraction; 0 stands for 0.03
	Error  float64 // chance that an effect is reported that does not exist; 0 stands for 0.01
	Seed   uint64

	// OnLaunch is called after every launch, with how many there were and how many more are expected; may be nil.
	OnLaunch func(made int, left float64)
}

// Effect is what one flag, or several that are on together, do to the metric, beyond what parts of them do alone. The
// effects of a configuration multiply.
type Effect struct {
	Terms []string
	Ratio float64 // on over off
	Low   float64 // of its 95 % interval
	High  float64
	Share float64 // of the total, by logarithms; 0 where the total may be none
}

// Ranking is the answer of [Search.Find].
type Ranking struct {
	Effects  []Effect       // confirmed, largest first
	Total    *bisect.Effect // everything on against everything off; nil where that could not be run
	Smallest float64        // an effect of a flag below this fraction may have been missed
	Launches int
	Failed   int  // launches that gave no number
	Complete bool // nothing cut it short or was left unexplained
	Higher   bool // larger is better
	Warnings []string
}

// Find makes the study. A budget that is used up is part of the answer (Complete is false); an error is one of Run, or
// says that the study cannot begin: no flags, or more than 64. The same seed and launches give
// the same answer.
func (e Search) Find(ctx context.Context) (Ranking, error) {
	l, err := newLab(e)
	if err != nil {
		return Ranking{}, err
	}
	f, err := l.screen(ctx)
	if err != nil {
		return Ranking{}, err
	}
	c := &confirmation{l, f, map[flagSet]*trial{}}
	if err := c.run(ctx); err != nil {
		return Ranking{}, err
	}
	return result{l, c.fit, c}.ranking(), nil
}

// Best is the assignment, in the order of names, that the confirmed effects predict to be best: what gains is on, what
// costs is off, and of what costs only together as little is off as possible. What makes no difference stays on. valid
// maps an assignment to the nearest valid one, as Search.Valid does; nil: all are valid. It tries every combination of
// the first 16 flags that have an effect.
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

// predict is the logarithm of what the effects make of an assignment; smaller is better.
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
