package levels

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// fewDiffs is the number of differences between neighbours below which earlier launches say nothing about the noise.
const fewDiffs = 8

// Scatter is what launches of the same candidate scattered by. Each series holds the levels of one candidate in one
// session, in the order in which they were made; the result is zero where there are too few. A launch is compared with
// the next one, as the ends are, so that drift does not count. Nine of ten differences are within what is returned: a
// machine that is disturbed, or in two modes, more often than that does not pass for a quiet one.
func Scatter(series [][]float64) (s bisect.Scatter) {
	const within, deviations = 0.9, 1.645
	var off []float64
	for _, y := range series {
		for i := range y[min(1, len(y)):] {
			off = append(off, math.Abs(y[i+1]-y[i])/math.Sqrt2)
		}
		s.Launches += len(y)
	}
	if len(off) < fewDiffs {
		return bisect.Scatter{}
	}
	slices.Sort(off)
	s.SD = max(spreads()[0], off[int(within*float64(len(off)))]/deviations)
	return s
}

// anyMachine is assumed where nothing is known: a launch scatters by about 0.9 %, which counts as much as three launches.
var anyMachine = NoisePrior{1, 0.009, 3}

// How far what earlier sessions saw is relied on.
const (
	asBefore  = 0.95 // chance that launches scatter as they did
	pastWorth = 6    // launches that this is worth
)

// StepNoise is the standard deviation of a step of the ends where launches are too few to have measured the noise, with
// that of a launch. It is the deviation of a normal that is as rare as the step would be by chance, if the noise is
// either what earlier sessions saw (past; 0: there were none) or unlike them. How the launches of each end scatter says
// which of the two it is.
func StepNoise(d float64, levels [2][]float64, past float64) (step, launch float64) {
	off, free, share := 0.0, 0.0, 0.0
	for _, side := range levels {
		off += squares(side)
		free += float64(len(side) - 1)
		share += 1 / float64(len(side))
	}
	priors := []NoisePrior{anyMachine}
	if past > 0 {
		priors = []NoisePrior{{1 - asBefore, anyMachine.SD, anyMachine.Worth}, {asBefore, past, pastWorth}}
	}
	rare, variance, total := 0.0, 0.0, 0.0
	for _, p := range priors {
		w, v, n := p.Given(off, free)
		z := asNormal(d*d/(v*share), n)
		rare, variance, total = rare+w*math.Erfc(z/math.Sqrt2), variance+w*v, total+w
	}
	z := math.Sqrt2 * math.Erfcinv(max(rare/total, math.SmallestNonzeroFloat64))
	return math.Abs(d) / z, math.Sqrt(variance / total)
}

// Pooled is the standard deviation of a launch of two candidates, pooled over both with n-2 degrees of freedom, and the step
// from the first to the second with its standard error. ok is false where either has too few launches. What does not scatter
// at all counts as scattering by 0.01 %.
func Pooled(of [2][]float64) (sd, step, err float64, ok bool) {
	const few, exact = 3, 1e-4 // launches; what hardly scatters may only seem so
	if min(len(of[0]), len(of[1])) < few {
		return math.Inf(1), 0, 0, false
	}
	a, b := float64(len(of[0])), float64(len(of[1]))
	sd = max(exact, math.Sqrt((squares(of[0])+squares(of[1]))/(a+b-2)))
	return sd, mean(of[1]) - mean(of[0]), sd * math.Sqrt(1/a+1/b), true
}

// asNormal is how many standard deviations from its mean a normal value is that is as rare as a square of Student's t, with n
// degrees of freedom (Wallace 1959).
func asNormal(square, n float64) float64 {
	return (8*n + 1) / (8*n + 3) * math.Sqrt(n*math.Log1p(square/n))
}

// NoisePrior is what may be assumed of the noise of a launch: a weight, a standard deviation, and the number of launches that
// it is worth.
type NoisePrior struct{ Weight, SD, Worth float64 }

// Given is a prior after launches whose squared deviations add up to squares, with free degrees of freedom: its
// weight, up to a factor that all share, the variance of a launch and the launches that it is worth now.
func (s NoisePrior) Given(squares, free float64) (weight, variance, worth float64) {
	a, b := s.Worth/2, s.Worth*s.SD*s.SD/2 // of the inverse gamma distribution of the variance
	n, m := a+free/2, b+squares/2
	x, _ := math.Lgamma(n)
	y, _ := math.Lgamma(a)
	return s.Weight * math.Exp(x-y+a*math.Log(b)-n*math.Log(m)), m / n, 2 * n
}
