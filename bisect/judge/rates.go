package judge

import "math"

// What is assumed about how often launches fail before any was seen.
const (
	always      = 0.9  // that a complaint shows in every launch of a bad commit; else its rate may be any
	badFails    = 2.0  // with badPasses: the Beta distribution of the rate of bad commits otherwise;
	badPasses   = 1.0  // one that hardly ever fails would not have been noticed
	goodFails   = 0.3  // with goodPasses: the Beta distribution of the rate of good commits,
	goodPasses  = 99.7 // whose mean is falseAlarm
	noisy       = 0.01 // that good commits fail often: at a rate below that of bad ones, of
	noisyFails  = 1.0  // which, with noisyPasses, a Beta distribution is assumed
	noisyPasses = 3.0
)

// tally counts launches by how they ended.
type tally struct{ fails, passes int }

func (t tally) plus(u tally) tally { return tally{t.fails + u.fails, t.passes + u.passes} }

func (t tally) minus(u tally) tally { return tally{t.fails - u.fails, t.passes - u.passes} }

func (t tally) launches() int { return t.fails + t.passes }

// logBad is the log-likelihood of launches of bad commits: they fail always, or at a rate of which
// little is known.
func logBad(t tally) float64 {
	some := math.Log(1-always) + logRate(t)
	if t.passes > 0 {
		return some
	}
	return logSum([]float64{math.Log(always), some})
}

// logRate is the same for a complaint that is known to show only sometimes.
func logRate(t tally) float64 {
	return logBeta(badFails+float64(t.fails), badPasses+float64(t.passes)) - logBeta(badFails, badPasses)
}

// logTwo is the log-likelihood of launches of bad commits and of good ones, which fail at two rates.
func logTwo(bad, good tally) float64 { return logMixed(always, bad, good) }

// logMixed is the same where bad commits fail always with chance sure.
func logMixed(sure float64, bad, good tally) float64 {
	some := math.Log(1-sure) + logRates(bad, good)
	if bad.passes > 0 {
		return some
	}
	all := math.Log(sure) + logSum([]float64{math.Log(1-noisy) + logGood(good), math.Log(noisy) + logNoisy(good)})
	return logSum([]float64{all, some})
}

// logRates is the same for a complaint that is known to show only sometimes.
func logRates(bad, good tally) float64 {
	above := logExceeds(bad, good) - logExceeds(tally{}, tally{})
	return logRate(bad) + logSum([]float64{math.Log(1-noisy) + logGood(good), math.Log(noisy) + logNoisy(good) + above})
}

// noisyShare is the chance that good commits fail often, given launches of bad and of good ones.
func noisyShare(bad, good tally) float64 {
	return -math.Expm1(math.Log(1-noisy) + logGood(good) + logBad(bad) - logTwo(bad, good))
}

// logNoisy is the log-likelihood of launches of good commits that fail often.
func logNoisy(t tally) float64 {
	return logBeta(noisyFails+float64(t.fails), noisyPasses+float64(t.passes)) - logBeta(noisyFails, noisyPasses)
}

// logExceeds is the logarithm of the chance that bad commits fail at a higher rate than good ones that
// fail often, given launches of both: the sum over the failures of the bad ones is exact.
func logExceeds(bad, good tally) float64 {
	a, b := noisyFails+float64(good.fails), noisyPasses+float64(good.passes)
	n, d := int(badFails)+bad.fails, badPasses+float64(bad.passes)
	term := logBeta(a, b+d) - logBeta(a, b)
	terms := make([]float64, n)
	for i := range terms {
		terms[i] = term
		x := float64(i)
		term += math.Log((a + x) / (a + x + b + d) * (d + x) / (x + 1))
	}
	return logSum(terms)
}

// logAny is the log-likelihood of launches that fail at a rate of which nothing is known.
func logAny(t tally) float64 { return logBeta(float64(t.fails)+1, float64(t.passes)+1) }

// logGood is the log-likelihood of launches of good commits, which fail by accident.
func logGood(t tally) float64 {
	return logBeta(goodFails+float64(t.fails), goodPasses+float64(t.passes)) - logBeta(goodFails, goodPasses)
}

// logAlike is the log-likelihood of launches that all fail at one rate, that of accidents or any.
func logAlike(t tally) float64 {
	return logSum([]float64{logGood(t), logAny(t)}) - math.Ln2
}

// failNext is the chance that the next launch fails, by one of the likelihoods.
func failNext(likelihood func(tally) float64, t tally) float64 {
	return math.Exp(likelihood(t.plus(tally{fails: 1})) - likelihood(t))
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}
