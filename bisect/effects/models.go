package effects

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// fit is what the launches of a study say: which terms they can tell apart, and which models of these explain them.
// models is never empty: the one without any term is in it.
type fit struct {
	atoms  int
	runs   []launch
	terms  []flagSet   // that the launches can tell apart
	merged map[int]int // atom that no launch tells apart from an earlier one
	models []model     // of terms, best first
	noise  noise       // under the best model
}

// fitModels fits models to launches of so many atoms, leaving out the terms that were refuted. Which launches were
// disturbed, and how the machine drifts, depends on the model, and the model on that; so both are fitted in turn, up
// to three times.
func fitModels(atoms int, runs []launch, refuted []flagSet) *fit {
	f := &fit{atoms: atoms, runs: runs, merged: map[int]int{}}
	lead := f.leaders()
	f.separate(lead, refuted)
	price := f.prices(lead)
	plainly(runs)
	for range 3 {
		cols := columns(runs, f.terms)
		f.noise.whiten(runs, cols)
		models := products(cols).search(price)
		same := len(f.models) > 0 && f.noise.sd > 0 && models[0].terms == f.models[0].terms
		if f.models = models; same {
			break
		}
		f.noise = fitNoise(runs, f.best())
	}
	return f
}

// separate finds the terms that differ from each other in some launch, single atoms first. Where b requires a, for
// example, b and the pair of both are the same column. Of terms that no launch tells apart the first one stands for
// all.
func (f *fit) separate(lead flagSet, refuted []flagSet) {
	first := map[string]flagSet{} // by the launches that have it on
	for _, t := range conceivable(f.atoms, lead) {
		col := make([]byte, len(f.runs))
		for i, r := range f.runs {
			if r.on.holds(t) {
				col[i] = 1
			}
		}
		earlier, twin := first[string(col)]
		switch {
		case !slices.Contains(col, 0) || !slices.Contains(col, 1):
		case twin && t.size() == 1:
			f.merged[bits.TrailingZeros64(uint64(t))] = bits.TrailingZeros64(uint64(earlier))
		case !twin:
			first[string(col)] = t
			if !slices.Contains(refuted, t) {
				f.terms = append(f.terms, t)
			}
		}
	}
}

// With more atoms than manyAtoms a pair is looked for only where one of its parts is among the leaders.
const (
	manyAtoms = 11
	nLeaders  = 5
)

// conceivable lists all atoms, pairs of them, and threes among the leaders, in this order. Without the threes, an
// effect of three flags would be taken for a chain of pairs that fresh launches refute one by one.
func conceivable(atoms int, lead flagSet) []flagSet {
	var one, two, three []flagSet
	for a := range atoms {
		one = append(one, 1<<a)
		for b := range a {
			pair := flagSet(1<<a | 1<<b)
			if atoms <= manyAtoms || pair&lead != 0 {
				two = append(two, pair)
			}
			for c := range b {
				if t := pair | 1<<c; lead.holds(t) {
					three = append(three, t)
				}
			}
		}
	}
	return slices.Concat(one, two, three)
}

// leaders are the atoms with the largest contrasts. An effect of several flags together shows in the contrast of each
// of them.
func (f *fit) leaders() (lead flagSet) {
	atoms, size := make([]int, f.atoms), make([]float64, f.atoms)
	for a := range atoms {
		atoms[a] = a
		size[a] = math.Abs(contrast(f.runs, func(r launch) bool { return r.on.holds(1 << a) }))
	}
	slices.SortStableFunc(atoms, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	for _, a := range atoms[:min(nLeaders, len(atoms))] {
		lead |= 1 << a
	}
	return lead
}

// contrast is the mean level of the runs of a design that are on, less that of those which are off.
func contrast(runs []launch, on func(launch) bool) float64 {
	var sum, n [2]float64
	for _, r := range runs {
		if !r.design {
			continue
		}
		side := 0
		if on(r) {
			side = 1
		}
		sum[side] += r.y
		n[side]++
	}
	if n[0] == 0 || n[1] == 0 {
		return 0
	}
	return sum[1]/n[1] - sum[0]/n[0]
}

// prices are what each term costs a model, by column: 2 ln of the number of its like, of which one might fit by
// chance. Single atoms and pairs among the leaders are the likeliest and so the cheapest (sets.md 4d: 2 ln 15).
func (f *fit) prices(lead flagSet) []float64 {
	const among = nLeaders * (nLeaders + 1) / 2
	price := make([]float64, len(f.terms)+1)
	for c, t := range f.terms {
		like := among
		if t.size() > 2 || !lead.holds(t) {
			like = max(4*among, len(f.terms))
		}
		price[c+1] = 2 * math.Log(float64(like))
	}
	return price
}

// best are the terms of the best model.
func (f *fit) best() (out []flagSet) {
	for _, c := range f.models[0].terms[:f.models[0].n] {
		out = append(out, f.terms[c-1])
	}
	return out
}

// smallest is the effect of one flag, as a fraction, that would have been found nine times in ten: a term enters the
// best model where the square of its coefficient, in standard errors, exceeds ln n plus its price.
func (f *fit) smallest() float64 {
	const ninety = 1.28 // the quantile of the normal at 90 %
	n := float64(len(f.runs))
	worst := 0.0
	for a := range f.atoms {
		on := 0.0
		for _, r := range f.runs {
			if r.on.holds(1 << a) {
				on++
			}
		}
		if p := on / n; p > 0 && p < 1 {
			worst = max(worst, f.noise.sd/math.Sqrt(n*p*(1-p)))
		}
	}
	price := 2 * math.Log(float64(max(15, len(f.terms))))
	return math.Expm1((math.Sqrt(math.Log(n)+price) + ninety) * worst)
}

// posterior is the probability of each term, over the models that the search kept.
func (f *fit) posterior() []float64 {
	p := make([]float64, len(f.terms))
	sum := 0.0
	for _, m := range f.models {
		w := math.Exp((f.models[0].score - m.score) / 2)
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

// solve fits columns over some runs under the noise.
func (f *fit) solve(runs []launch, cols [][]float64) solved {
	f.noise.whiten(runs, cols)
	return products(cols).solve()
}

// estimate is a coefficient (a logarithm) with its standard error and the degrees of freedom of that.
type estimate struct{ beta, se, df float64 }

// reach is half the width of the interval that holds with 1-alpha.
func (e estimate) reach(alpha float64) float64 { return studentT(alpha, e.df) * e.se }

// joint fits the best model, with a term added where it lacks it, to all launches.
func (f *fit) joint(t flagSet) estimate {
	terms := f.best()
	i := slices.Index(terms, t)
	if i < 0 {
		i, terms = len(terms), append(terms, t)
	}
	beta, unit := f.solve(f.runs, columns(f.runs, terms)).sum(i + 1)
	return estimate{beta, f.noise.sd * unit, f.noise.df}
}
