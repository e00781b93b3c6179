package odds

// mostMissing bounds how many changes the prior expects a guilty set to have.
const mostMissing = 12

// SizePrior is the prior of how many changes of a guilty set are missing while none is known, by number: one to five
// as in sets.md 4a, beyond that as a geometric series.
func SizePrior() []float64 {
	w := []float64{0, .45, .30, .15, .07, .03}
	for len(w) <= mostMissing {
		w = append(w, .43*w[len(w)-1]) // the last ratio goes on
	}
	return w
}

// beyond is how many changes are expected to be missing besides the next one.
func beyond(missing []float64) float64 {
	sum, n := 0.0, 0.0
	for k, w := range missing {
		sum += w
		n += w * float64(max(0, k-1))
	}
	if sum == 0 {
		return 0
	}
	return n / sum
}

// Missing is the belief about the changes of a guilty set that are not known yet, some of an ordered
// list of candidates.
type Missing struct {
	count []float64 // weight of 0, 1, … missing changes
	s     []float64 // suspicion of each candidate
	e     [][]float64
}

// NewMissing starts from the weights of how many are missing and the suspicion of each candidate.
func NewMissing(count, suspicion []float64) Missing {
	return Missing{count, suspicion, symmetric(suspicion, len(count)-1)}
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

// last is the weight of r missing changes of which the p-th candidate, from 1, is the last. Where sets
// of r candidates are as likely as the product of their suspicions s, that is
// P(p | r) = s_p · e_{r-1}(s_1 … s_{p-1}) / e_r(s_1 … s_n), e being elementary symmetric sums.
func (b Missing) last(r, p int) float64 {
	if all := b.e[r][len(b.s)]; all > 0 {
		return b.count[r] * b.s[p-1] * b.e[r-1][p-1] / all
	}
	return 0
}

// Positions returns the weights of p = 0 to the number of candidates: p is the place of the last missing one, from 1,
// and 0 says that none is missing. Candidates marked in ruled are known not to be the only one.
func (b Missing) Positions(ruled []bool) []float64 {
	w := make([]float64, len(b.s)+1)
	w[0] = b.count[0]
	single := 0.0
	for p, s := range b.s {
		if !ruled[p] {
			single += s
		}
	}
	for p := 1; p < len(w); p++ {
		if !ruled[p-1] {
			w[p] = b.count[1] * b.s[p-1] / single
		}
		for r := 2; r < len(b.count); r++ {
			w[p] += b.last(r, p)
		}
	}
	return w
}

// After returns the weights of how many are still missing once the last is known to stand at p.
func (b Missing) After(p int) []float64 {
	w := make([]float64, len(b.count))
	for r := 1; r < len(w); r++ {
		w[r-1] = b.last(r, p)
	}
	return w
}
