package belief

import (
	"math"
)

// Misfit is where launches contradict the model that an answer rests on.
type Misfit struct {
	Index int     // of the commit that contradicts it most, or GoodEnd
	P     float64 // probability of so much by chance, all commits looked at: a posterior predictive check
}

// Misfits reports launches that would hardly ever come about by chance (belief.md: below 0.001 the model does not
// fit).
func (m Misfit) Misfits() bool { return m.P < 0.001 }

// Misfit says which commit failed or passed in a way that is least explained if commit k is the culprit. Its launches
// are compared with those of all others that are bad, or good, by that answer, by Fisher's exact test; P is corrected
// for the number of commits (Bonferroni).
func (e *Failures) Misfit(k int) Misfit {
	worst := Misfit{P: 1}
	bad := e.Posterior().Bad[k]
	for _, i := range e.tested {
		group, own := bad, e.Of(i)
		if !e.reach[i][k] {
			group = e.all.Minus(bad)
		}
		if p := fisher(own, group.Minus(own)); p < worst.P {
			worst = Misfit{i, p}
		}
	}
	worst.P = min(1, worst.P*float64(max(1, len(e.tested))))
	return worst
}

// fisher is the two-sided probability of a split of failures between two groups at least as unlikely as this one.
func fisher(a, b Tally) float64 {
	n, m, fails := a.Launches(), b.Launches(), a.Fails+b.Fails
	choose := func(n, k int) float64 { return -logBeta(float64(n-k)+1, float64(k)+1) - math.Log(float64(n)+1) }
	at := func(k int) float64 { return choose(n, k) + choose(m, fails-k) - choose(n+m, fails) }
	own, sum := at(a.Fails), 0.0
	for k := max(0, fails-m); k <= min(n, fails); k++ {
		if l := at(k); l <= own+1e-9 {
			sum += math.Exp(l)
		}
	}
	return min(1, sum)
}
