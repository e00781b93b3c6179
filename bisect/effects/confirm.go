package effects

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// looks are the numbers of rounds after which a suspected term may be decided. The chance of an error is shared evenly
// among them.
func looks() []int { return []int{3, 5, 8, 12} }

// Limits of the fresh launches of a study: rounds, and refuted terms. Launches that keep refuting what the others
// suggest follow no model of this kind.
const (
	freshRounds  = 36
	freshRefuted = 6
)

// usualFresh is how many fresh launches the forecast expects while no term is suspected yet: about those of a flag and
// a pair until the second look.
const usualFresh = 30

// suspicion is the posterior probability from which a term is worth fresh launches, even outside the best model.
const suspicion = 0.2

// trial is the confirmation of one term by fresh launches. It is decided only at looks, and once decided it stays so.
type trial struct {
	corners []flagSet // configurations that tell it from its parts, all others off
	rounds  int
	verdict int // +1 confirmed, -1 refuted, 0 open
}

// confirmation decides by fresh launches which suspected terms are true. The launches of the screening cannot decide
// that: the terms were picked from many because these launches favour them.
type confirmation struct {
	lab   *lab
	fit   *fit               // of all launches so far
	tests map[flagSet]*trial // of the terms that were suspected
}

// run launches what tells each suspect from its parts, until no term of a likely model is undecided. A refuted term is
// left out of all later models, which may bring up others.
func (c *confirmation) run(ctx context.Context) error {
	for n := 0; n < freshRounds && len(c.lab.runs) > 0 && len(c.refuted()) < freshRefuted; {
		open := c.suspects()
		if len(open) == 0 || c.lab.spent {
			return nil
		}
		for rounds := c.next(open); rounds > 0; rounds-- {
			if err := c.round(ctx, open, rounds); err != nil {
				return err
			}
			n++
		}
		c.refit()
		refuted := len(c.refuted())
		for _, t := range open {
			c.decide(t)
		}
		if len(c.refuted()) > refuted {
			c.refit()
		}
	}
	return nil
}

func (c *confirmation) refit() { c.fit = fitModels(c.fit.atoms, c.lab.runs, c.refuted()) }

// refuted are the terms that fresh launches spoke against.
func (c *confirmation) refuted() (out []flagSet) {
	for t, x := range c.tests {
		if x.verdict < 0 {
			out = append(out, t)
		}
	}
	return distinct(out)
}

// confirmed are the terms of the best model that fresh launches confirmed.
func (c *confirmation) confirmed() []flagSet {
	return slices.DeleteFunc(c.fit.best(), func(t flagSet) bool { return c.tests[t] == nil || c.tests[t].verdict <= 0 })
}

// suspects are the terms of likely models that no fresh launches have decided yet.
func (c *confirmation) suspects() []flagSet {
	var open []flagSet
	p := c.fit.posterior()
	for i, t := range c.fit.terms {
		x := c.tests[t]
		if p[i] < suspicion && !c.fit.models[0].has(i+1) || x != nil && x.verdict != 0 {
			continue
		}
		if x == nil {
			c.tests[t] = &trial{corners: c.corners(t)}
		}
		open = append(open, t)
	}
	return open
}

// next is the number of rounds until the first of the open terms may be decided.
func (c *confirmation) next(open []flagSet) int {
	n := freshRounds
	for _, t := range open {
		i, _ := slices.BinarySearch(looks(), c.tests[t].rounds+1)
		n = min(n, looks()[i]-c.tests[t].rounds)
	}
	return n
}

// round launches the corners of all open terms, nothing on and everything on, once each in random order. rounds, for
// the forecast, is how many are still to come, this one included.
func (c *confirmation) round(ctx context.Context, open []flagSet, rounds int) error {
	confs := []flagSet{c.lab.none(), c.lab.all()}
	for _, t := range open {
		confs = append(confs, c.tests[t].corners...)
		c.tests[t].rounds++
	}
	confs = distinct(confs)
	c.lab.left = float64(rounds * len(confs))
	c.lab.rng.Shuffle(len(confs), func(i, j int) { confs[i], confs[j] = confs[j], confs[i] })
	for _, on := range confs {
		if err := c.lab.launch(ctx, launch{on: on, fresh: true}); err != nil {
			return err
		}
	}
	return nil
}

// distinct sorts sets and drops those that come twice.
func distinct(sets []flagSet) []flagSet {
	slices.Sort(sets)
	return slices.Compact(sets)
}

// corners are the smallest valid configuration that has a term on, and those with some or all of its atoms off.
// Together they tell the term from its parts: for a pair, the four corners of a 2×2 (sets.md 4d).
func (c *confirmation) corners(t flagSet) []flagSet {
	whole := c.smallestWith(t)
	out := []flagSet{whole}
	for off := t; off > 0; off = (off - 1) & t {
		out = append(out, c.lab.valid(whole&^off))
	}
	return distinct(out)
}

// smallestWith is the term alone where that is valid, else the smallest configuration known to have it on.
func (c *confirmation) smallestWith(t flagSet) flagSet {
	on := c.lab.valid(t)
	for _, r := range c.lab.runs {
		if r.on.holds(t) && (!on.holds(t) || r.on.size() < on.size()) {
			on = r.on
		}
	}
	for a := range c.fit.atoms {
		if less := c.lab.valid(on &^ (1 << a)); less.holds(t) && less.size() < on.size() {
			on = less
		}
	}
	return on
}

// decide judges a term by its fresh launches alone, since these were not made because of their outcome. Only at the
// last look may all launches decide instead: if their estimate is significant at a tenth of Bonferroni's level over
// all terms, and the fresh one does not contradict it.
func (c *confirmation) decide(t flagSet) {
	x, fresh, all := c.tests[t], c.fresh(t), c.fit.joint(t)
	reach := fresh.reach(min(0.05, 2.5*c.lab.study.Error) / float64(len(looks())))
	last := x.rounds >= slices.Max(looks())
	apart := math.Abs(fresh.beta - all.beta)
	sure := math.Abs(all.beta) > all.reach(c.lab.study.Error/float64(10*len(c.fit.terms)))
	switch {
	case math.IsNaN(fresh.beta): // no usable launch tells it from its parts, and none will
		x.verdict = -1
	case math.Abs(fresh.beta)+reach < math.Log1p(c.lab.study.Effect): // too small to matter
		x.verdict = -1
	case math.Abs(fresh.beta) > reach, last && sure && apart < reach:
		x.verdict = 1
	case last || apart > 1.4*reach: // not significant
		x.verdict = -1
	}
}

// fresh fits a term, and all that varies with it, to the fresh launches. If these vary much less than the best model
// leaves unexplained, the model is wrong rather than the launches noisy, and their own spread counts.
func (c *confirmation) fresh(t flagSet) estimate {
	var runs []launch
	for _, r := range c.lab.runs {
		if r.fresh {
			runs = append(runs, r)
		}
	}
	var terms []flagSet
	for a := range c.fit.atoms {
		if _, twin := c.fit.merged[a]; !twin {
			terms = append(terms, 1<<a)
		}
	}
	for x := range c.tests {
		for part := x; part > 0; part = (part - 1) & x {
			if part.size() > 1 {
				terms = append(terms, part)
			}
		}
	}
	terms = slices.DeleteFunc(distinct(terms), func(x flagSet) bool { return x == t })
	slices.SortStableFunc(terms, func(a, b flagSet) int { return cmp.Compare(a.size(), b.size()) })
	terms = append(terms, t) // last: a term that depends on the others cannot be told
	f := c.fit.solve(runs, slices.Insert(columns(runs, terms), len(terms)+1, everything(runs, c.lab.all())))
	beta, unit := f.sum(len(terms))
	own := float64(len(runs) - len(f.keep))
	if sd := math.Sqrt(f.rss / own); own >= 6 && sd < c.fit.noise.sd/1.4 {
		return estimate{beta, sd * unit, own}
	}
	return estimate{beta, c.fit.noise.sd * unit, c.fit.noise.df}
}

// everything is the column that tells the configuration with all on from the others.
func everything(runs []launch, all flagSet) []float64 {
	col := make([]float64, len(runs))
	for i, r := range runs {
		if r.on == all {
			col[i] = 1
		}
	}
	return col
}
