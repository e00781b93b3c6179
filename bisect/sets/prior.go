package sets

// mostMissing bounds how many atoms the prior expects a guilty set to have.
const mostMissing = 12

// sizePrior is the prior of how many atoms of a guilty set are missing while none is known.
func sizePrior() []float64 {
	w := []float64{0, .45, .30, .15, .07, .03}
	for len(w) <= mostMissing {
		w = append(w, .43*w[len(w)-1]) // the last ratio goes on
	}
	return w
}

// symmetric returns e[r][j], the elementary symmetric sum of degree r of the first j weights.
func symmetric(s []float64, most int) [][]float64 {
	e := make([][]float64, most+1)
	for r := range e {
		e[r] = make([]float64, len(s)+1)
	}
	for j := range e[0] {
		e[0][j] = 1
	}
	for r := 1; r <= most; r++ {
		for j := 1; j <= len(s); j++ {
			e[r][j] = e[r][j-1] + s[j-1]*e[r-1][j-1]
		}
	}
	return e
}

// rest is what the search for the next atom of a guilty set believes: how many are missing, and how
// suspicious each of the atoms is that may be among them.
type rest struct {
	missing []float64 // weight of 0, 1, … missing atoms
	s       []float64
	e       [][]float64
}

func newRest(missing, s []float64) rest {
	return rest{missing, s, symmetric(s, len(missing)-1)}
}

// last is the chance that the p-th atom, from 1, is the last of r missing ones, times the weight of r.
func (b rest) last(r, p int) float64 {
	if all := b.e[r][len(b.s)]; all > 0 {
		return b.missing[r] * b.s[p-1] * b.e[r-1][p-1] / all
	}
	return 0
}

// positions returns the weights of p = 0 to len(s): p is the place of the last missing atom, and 0 says
// that none is missing. Atoms marked in ruled are known not to be the only one missing.
func (b rest) positions(ruled []bool) []float64 {
	w := make([]float64, len(b.s)+1)
	w[0] = b.missing[0]
	single := 0.0
	for p, s := range b.s {
		if !ruled[p] {
			single += s
		}
	}
	for p := 1; p < len(w); p++ {
		if !ruled[p-1] {
			w[p] = b.missing[1] * b.s[p-1] / single
		}
		for r := 2; r < len(b.missing); r++ {
			w[p] += b.last(r, p)
		}
	}
	return w
}

// after returns the weights of how many are still missing once the last is known to stand at p.
func (b rest) after(p int) []float64 {
	w := make([]float64, len(b.missing))
	for r := 1; r < len(w); r++ {
		w[r-1] = b.last(r, p)
	}
	return w
}
