package belief

import "math"

// What is assumed about how often launches fail before any was seen (judge.md 7, belief.md "failures").
// Rates have Beta priors, so that they are integrated out in closed form.
const (
	always      = 0.9      // that a complaint shows in every launch of a bad commit; else its rate may be any
	surely      = 1 - 1e-6 // the same of a build, which nothing disturbs
	badFails    = 2.0      // with badPasses: the Beta distribution of the rate of bad commits otherwise;
	badPasses   = 1.0      // one that hardly ever fails would not have been noticed
	goodFails   = 0.3      // with goodPasses: the Beta distribution of the rate of good commits,
	goodPasses  = 99.7     // whose mean is falseAlarm
	noisy       = 0.01     // that good commits fail often: at a rate below that of bad ones, of
	noisyFails  = 1.0      // which, with noisyPasses, a Beta distribution is assumed
	noisyPasses = 3.0
)

// Tally counts launches by how they ended.
type Tally struct{ Fails, Passes int }

func (t Tally) Plus(u Tally) Tally { return Tally{t.Fails + u.Fails, t.Passes + u.Passes} }

func (t Tally) Minus(u Tally) Tally { return Tally{t.Fails - u.Fails, t.Passes - u.Passes} }

func (t Tally) Launches() int { return t.Fails + t.Passes }

// LogBad is the log-likelihood of launches of bad commits: they fail always, or at a rate of which
// little is known.
func LogBad(t Tally) float64 {
	some := math.Log(1-always) + LogRate(t)
	if t.Passes > 0 {
		return some
	}
	return logSum([]float64{math.Log(always), some})
}

// LogRate is the same for a complaint that is known to show only sometimes.
func LogRate(t Tally) float64 {
	return logBeta(badFails+float64(t.Fails), badPasses+float64(t.Passes)) - logBeta(badFails, badPasses)
}

// logMixed is the log-likelihood of launches of bad commits and of good ones, which fail at two rates; bad commits fail
// always with chance sure.
func logMixed(sure float64, bad, good Tally) float64 {
	some := math.Log(1-sure) + logRates(bad, good)
	if bad.Passes > 0 {
		return some
	}
	all := math.Log(sure) + logSum([]float64{math.Log(1-noisy) + LogGood(good), math.Log(noisy) + logNoisy(good)})
	return logSum([]float64{all, some})
}

// logRates is the same for a complaint that is known to show only sometimes.
func logRates(bad, good Tally) float64 {
	above := logExceeds(bad, good) - logExceeds(Tally{}, Tally{})
	return LogRate(bad) + logSum([]float64{math.Log(1-noisy) + LogGood(good), math.Log(noisy) + logNoisy(good) + above})
}

// noisyShare is the chance that good commits fail often, given launches of bad and of good ones.
func noisyShare(bad, good Tally) float64 {
	return -math.Expm1(math.Log(1-noisy) + LogGood(good) + LogBad(bad) - logMixed(always, bad, good))
}

// logNoisy is the log-likelihood of launches of good commits that fail often.
func logNoisy(t Tally) float64 {
	return logBeta(noisyFails+float64(t.Fails), noisyPasses+float64(t.Passes)) - logBeta(noisyFails, noisyPasses)
}

// logExceeds is the logarithm of the chance that bad commits fail at a higher rate than good ones that
// fail often, given launches of both: the sum over the failures of the bad ones is exact.
func logExceeds(bad, good Tally) float64 {
	a, b := noisyFails+float64(good.Fails), noisyPasses+float64(good.Passes)
	n, d := int(badFails)+bad.Fails, badPasses+float64(bad.Passes)
	first := logBeta(a, b+d) - logBeta(a, b)
	sum, term := 0.0, 1.0
	for i := range n {
		sum += term
		x := float64(i)
		if term *= (a + x) / (a + x + b + d) * (d + x) / (x + 1); term > 1e200 {
			first, sum, term = first+math.Log(term), sum/term, 1
		}
	}
	return first + math.Log(sum)
}

// logAny is the log-likelihood of launches that fail at a rate of which nothing is known.
func logAny(t Tally) float64 { return logBeta(float64(t.Fails)+1, float64(t.Passes)+1) }

// LogGood is the log-likelihood of launches of good commits, which fail by accident.
func LogGood(t Tally) float64 {
	return logBeta(goodFails+float64(t.Fails), goodPasses+float64(t.Passes)) - logBeta(goodFails, goodPasses)
}

// logAlike is the log-likelihood of launches that all fail at one rate, that of accidents or any.
func logAlike(t Tally) float64 {
	return logSum([]float64{LogGood(t), logAny(t)}) - math.Ln2
}

// failNext is the chance that the next launch fails, by one of the likelihoods.
func failNext(likelihood func(Tally) float64, t Tally) float64 {
	return math.Exp(likelihood(t.Plus(Tally{Fails: 1})) - likelihood(t))
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// logEnds is the log-likelihood of the launches of two ends that differ, where the question whether they
// do came up.
func logEnds(bad, good Tally) float64 { return logMixed(0.5, bad, good) }

// EndsAlike is the probability that two ends do not differ, of the prior probability given.
func EndsAlike(prior float64, bad, good Tally) float64 {
	return 1 / (1 + (1-prior)/prior*math.Exp(logEnds(bad, good)-logAlike(bad.Plus(good))))
}

// BadEndTells reports that one more launch of the bad end tells more of whether two ends are alike, of the
// probability same, than one of the good end.
func BadEndTells(same float64, bad, good Tally) bool {
	rate := failNext(logAlike, bad.Plus(good))
	ifBad := func(t Tally) float64 { return logEnds(t, good) }
	ifGood := func(t Tally) float64 { return logEnds(bad, t) }
	return claimInfo(same, rate, failNext(ifBad, bad)) > claimInfo(same, rate, failNext(ifGood, good))
}

// claimInfo is the information about a claim of probability p in a launch that fails with chance a if it
// holds, and b if not.
func claimInfo(p, a, b float64) float64 {
	return binaryEntropy(p*a+(1-p)*b) - p*binaryEntropy(a) - (1-p)*binaryEntropy(b)
}
