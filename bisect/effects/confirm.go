package effects

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// looks are the numbers of rounds after which a suspected term may be decided.
var looks = []int{3, 5, 8, 12}

// What bounds the fresh launches of a study: rounds of them, and refuted terms, since launches that keep
// refuting what others suggest fit no model of this kind.
const (
	freshRounds  = 36
	freshRefuted = 6
)

// usualFresh is how many fresh launches are expected while no term is suspected: for a flag and a pair
// until the second look.
const usualFresh = 30

// suspicion is the posterior from which a term is worth fresh launches, even outside the best model.
const suspicion = 0.2

// trial is the confirmation of one term by fresh launches.
type trial struct {
	corners []flagSet // configurations that tell it from its parts, all others off
	rounds  int
	verdict int // +1 confirmed, -1 refuted, 0 open
	found   Effect
}

// confirm launches what tells each suspect from its parts until all of the best model are confirmed.
func (s *study) confirm(ctx context.Context) error {
	for n := 0; n < freshRounds && len(s.runs) > 0 && len(s.refuted()) < freshRefuted; {
		open := s.suspects()
		if len(open) == 0 || s.cut {
			return nil
		}
		for rounds := s.next(open); rounds > 0; rounds-- {
			if err := s.round(ctx, open, rounds); err != nil {
				return err
			}
			n++
		}
		s.choose()
		refuted := len(s.refuted())
		for _, t := range open {
			s.decide(t)
		}
		if len(s.refuted()) > refuted {
			s.choose()
		}
	}
	return nil
}

// suspects are the terms of likely models that no fresh launches have decided yet.
func (s *study) suspects() []flagSet {
	var open []flagSet
	p := s.posterior()
	for c, t := range s.terms {
		x := s.tests[t]
		if p[c] < suspicion && !s.models[0].has(c+1) || x != nil && x.verdict != 0 {
			continue
		}
		if x == nil {
			s.tests[t] = &trial{corners: s.corners(t)}
		}
		open = append(open, t)
	}
	return open
}

// posterior is the probability of each term.
func (s *study) posterior() []float64 {
	p := make([]float64, len(s.terms))
	sum := 0.0
	for _, m := range s.models {
		w := math.Exp((s.models[0].score - m.score) / 2)
		sum += w
		for _, c := range m.terms[:m.n] {
			p[c-1] += w
		}
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

// next is the number of rounds until one of the open terms may be decided.
func (s *study) next(open []flagSet) int {
	n := freshRounds
	for _, t := range open {
		i, _ := slices.BinarySearch(looks, s.tests[t].rounds+1)
		n = min(n, looks[i]-s.tests[t].rounds)
	}
	return n
}

// round launches the corners of all open terms once, and nothing and everything on, in random order; as
// many rounds are still to come, this one included.
func (s *study) round(ctx context.Context, open []flagSet, rounds int) error {
	confs := []flagSet{s.none(), s.all()}
	for _, t := range open {
		confs = append(confs, s.tests[t].corners...)
		s.tests[t].rounds++
	}
	confs = distinct(confs)
	s.left = float64(rounds * len(confs))
	s.rng.Shuffle(len(confs), func(i, j int) { confs[i], confs[j] = confs[j], confs[i] })
	for _, on := range confs {
		if err := s.launch(ctx, launch{on: on, fresh: true}); err != nil {
			return err
		}
	}
	return nil
}

func distinct(sets []flagSet) []flagSet {
	slices.Sort(sets)
	return slices.Compact(sets)
}

// corners are the smallest valid configuration that has a term on, and the same with some or all of the
// term's atoms off.
func (s *study) corners(t flagSet) []flagSet {
	whole := s.smallestWith(t)
	out := []flagSet{whole}
	for off := t; off > 0; off = (off - 1) & t {
		out = append(out, s.valid(whole&^off))
	}
	return distinct(out)
}

// smallestWith is the term alone where that is valid; else a run that had it on, as small as there is,
// and smaller still where that is valid.
func (s *study) smallestWith(t flagSet) flagSet {
	on := s.valid(t)
	for _, r := range s.runs {
		if r.on.holds(t) && (!on.holds(t) || r.on.size() < on.size()) {
			on = r.on
		}
	}
	for a := range s.Atoms {
		if less := s.valid(on &^ (1 << a)); less.holds(t) && less.size() < on.size() {
			on = less
		}
	}
	return on
}

// estimate is a coefficient with its standard error and the degrees of freedom of that.
type estimate struct{ beta, se, df float64 }

func (e estimate) reach(alpha float64) float64 { return studentT(alpha, e.df) * e.se }

// decide looks at the fresh launches of a term alone, which were not made because of their outcome. All
// launches together decide only where they are sure beyond any choice among the terms, and the fresh
// ones cannot tell and do not contradict.
func (s *study) decide(t flagSet) {
	x, fresh, all := s.tests[t], s.freshly(t), s.jointly(t)
	reach := fresh.reach(min(0.05, 2.5*s.Error) / float64(len(looks)))
	last := x.rounds >= looks[len(looks)-1]
	apart := math.Abs(fresh.beta - all.beta)
	sure := math.Abs(all.beta) > all.reach(s.Error/float64(10*len(s.terms)))
	x.found = s.flagEffect(t, fresh)
	switch {
	case math.IsNaN(fresh.beta):
		x.verdict = -1
		x.found = Effect{Terms: s.names(t), Ratio: 1, Low: 1, High: 1, Why: "no usable launches tell it from its parts"}
	case math.Abs(fresh.beta)+reach < math.Log1p(s.Effect):
		x.verdict, x.found.Why = -1, fmt.Sprintf("below %.3g %% in %d fresh rounds", 100*s.Effect, x.rounds)
	case math.Abs(fresh.beta) > reach, last && sure && apart < reach:
		x.verdict = 1
	case last || apart > 1.4*reach:
		x.verdict, x.found.Why = -1, fmt.Sprintf("not clear of none in %d fresh rounds", x.rounds)
	}
}

// jointly fits the best model, with a term added where it lacks it, to all launches.
func (s *study) jointly(t flagSet) estimate {
	terms := s.modelTerms()
	i := slices.Index(terms, t)
	if i < 0 {
		i, terms = len(terms), append(terms, t)
	}
	beta, unit := s.solve(s.runs, columns(s.runs, terms)).sum(i + 1)
	return estimate{beta, s.noise.sd * unit, s.noise.df}
}

// freshly fits a term, and all that varies with it, to the fresh launches. Where these vary much less
// than the model leaves unexplained, it is the model that is wrong, and their own spread counts.
func (s *study) freshly(t flagSet) estimate {
	var runs []launch
	for _, r := range s.runs {
		if r.fresh {
			runs = append(runs, r)
		}
	}
	var terms []flagSet
	for a := range s.Atoms {
		if _, twin := s.merged[a]; !twin {
			terms = append(terms, 1<<a)
		}
	}
	for x := range s.tests {
		for part := x; part > 0; part = (part - 1) & x {
			if part.size() > 1 {
				terms = append(terms, part)
			}
		}
	}
	terms = slices.DeleteFunc(distinct(terms), func(x flagSet) bool { return x == t })
	slices.SortStableFunc(terms, func(a, b flagSet) int { return cmp.Compare(a.size(), b.size()) })
	terms = append(terms, t) // last: a term that depends on the others cannot be told
	f := s.solve(runs, slices.Insert(columns(runs, terms), len(terms)+1, s.everything(runs)))
	beta, unit := f.sum(len(terms))
	own := float64(len(runs) - len(f.keep))
	if sd := math.Sqrt(f.rss / own); own >= 6 && sd < s.noise.sd/1.4 {
		return estimate{beta, sd * unit, own}
	}
	return estimate{beta, s.noise.sd * unit, s.noise.df}
}

// solve fits columns over some runs under the noise.
func (s *study) solve(runs []launch, cols [][]float64) solved {
	s.noise.whiten(runs, cols)
	return products(cols).solve()
}

// everything is the column that tells the configuration with all on from the others.
func (s *study) everything(runs []launch) []float64 {
	all, col := s.all(), make([]float64, len(runs))
	for i, r := range runs {
		if r.on == all {
			col[i] = 1
		}
	}
	return col
}

// flagEffect turns an estimate into an effect with its 95 % interval.
func (s *study) flagEffect(t flagSet, e estimate) Effect {
	reach := e.reach(0.05)
	return Effect{Terms: s.names(t), Ratio: math.Exp(e.beta), Low: math.Exp(e.beta - reach), High: math.Exp(e.beta + reach)}
}
