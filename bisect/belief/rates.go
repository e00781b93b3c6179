package belief

import "math"

// What is assumed about how often launches fail before any was seen (judge.md 7; belief.md, "Three likelihoods"). Rates
// have Beta priors, so that they are integrated out in closed form: Beta(a+fails, b+passes) / Beta(a, b).
const (
	badFails    = 2.0  // with badPasses: the Beta distribution of the rate of bad commits that fail sometimes;
	badPasses   = 1.0  // one that hardly ever fails would not have been noticed
	goodFails   = 0.3  // with goodPasses: the Beta distribution of the rate of good commits,
	goodPasses  = 99.7 // whose mean is falseAlarm
	noisyFails  = 1.0  // with noisyPasses: the Beta distribution of the rate of good commits that fail often,
	noisyPasses = 3.0  // which is below that of bad ones
)

// kind is what is assumed of a kind of complaint, as probabilities.
type kind struct {
	alike     float64 // chance that the ends do not differ, although the bad one has failed
	always    float64 // chance that it shows in every launch of a bad commit
	noisy     float64 // chance that good commits fail often if so
	noisySome float64 // the same if it shows in some launches only: what disturbs those may disturb good ones
}

var (
	ofRuns   = kind{alike: 0.02, always: 0.9, noisy: 0.01, noisySome: 0.01}
	ofBuilds = kind{alike: 0.02, always: 1 - 1e-6, noisy: 0.01, noisySome: 0.01} // which nothing disturbs
	// doubtful is a sceptic's prior: intermittent complaints are common, and good commits often fail too. The answer
	// to a complaint that turned out to be intermittent must hold under it; see TestBenchFailures.
	doubtful = kind{alike: 0.2, always: 0.5, noisy: 0.05, noisySome: 0.35}
)

// Tally counts launches by how they ended.
type Tally struct{ Fails, Passes int }

// Plus counts the launches of both.
func (t Tally) Plus(u Tally) Tally { return Tally{t.Fails + u.Fails, t.Passes + u.Passes} }

// Minus takes off launches that t includes.
func (t Tally) Minus(u Tally) Tally { return Tally{t.Fails - u.Fails, t.Passes - u.Passes} }

// Launches is how many there are.
func (t Tally) Launches() int { return t.Fails + t.Passes }

// Wavers reports whether launches ended both ways.
func (t Tally) Wavers() bool { return t.Fails > 0 && t.Passes > 0 }

// logBad is the log-likelihood of launches of bad commits: they fail always, or at a rate of which little is known.
func logBad(t Tally) float64 {
	some := math.Log(1-ofRuns.always) + LogRate(t)
	if t.Passes > 0 {
		return some
	}
	return LogSum([]float64{math.Log(ofRuns.always), some})
}

// LogRate is logBad for a complaint that is known to show only sometimes.
func LogRate(t Tally) float64 {
	return logBeta(badFails+float64(t.Fails), badPasses+float64(t.Passes)) - logBeta(badFails, badPasses)
}

// logMixed is the log-likelihood of launches of bad and of good commits together, over all that the kind allows: bad
// ones fail always or at a rate; good ones hardly ever, or often but less often than bad ones.
func (k kind) logMixed(bad, good Tally) float64 {
	quiet, loud := logGood(good), logNoisy(good)
	above := logExceeds(bad, good) - exceedsAtFirst
	some := math.Log(1-k.always) + LogRate(bad) + LogAdd(math.Log(1-k.noisySome)+quiet, math.Log(k.noisySome)+loud+above)
	if bad.Passes > 0 {
		return some
	}
	return LogAdd(some, math.Log(k.always)+LogAdd(math.Log(1-k.noisy)+quiet, math.Log(k.noisy)+loud))
}

// noisyShare is the chance that good commits fail often, given launches of bad and of good ones.
func (k kind) noisyShare(bad, good Tally) float64 {
	calm := math.Log(1-k.always) + math.Log(1-k.noisySome) + LogRate(bad)
	if bad.Passes == 0 {
		calm = LogAdd(calm, math.Log(k.always)+math.Log(1-k.noisy))
	}
	return -math.Expm1(calm + logGood(good) - k.logMixed(bad, good))
}

// logNoisy is the log-likelihood of launches of good commits that fail often.
func logNoisy(t Tally) float64 {
	return logBeta(noisyFails+float64(t.Fails), noisyPasses+float64(t.Passes)) - logBeta(noisyFails, noisyPasses)
}

// logExceeds is the logarithm of the probability that bad commits fail at a higher rate than good ones that fail
// often, given launches of both. badFails being whole, P(X > Y) of two Beta variables is a finite sum, which is exact.
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

// exceedsAtFirst is the same before any launch.
var exceedsAtFirst = logExceeds(Tally{}, Tally{})

// logAny is the log-likelihood of launches that fail at a rate of which nothing is known.
func logAny(t Tally) float64 { return logBeta(float64(t.Fails)+1, float64(t.Passes)+1) }

// logGood is the log-likelihood of launches of good commits, which fail by accident.
func logGood(t Tally) float64 {
	return logBeta(goodFails+float64(t.Fails), goodPasses+float64(t.Passes)) - logBeta(goodFails, goodPasses)
}

// OddTwins compares two commits of equal inputs, of which one has failed and the other has only passed: the log odds that one is
// bad and the other good, against a complaint of both that shows only sometimes. It is -Inf for other launches.
func OddTwins(failed, passed Tally) float64 {
	if failed.Fails == 0 || passed.Passes == 0 || passed.Fails > 0 {
		return math.Inf(-1)
	}
	return logBad(failed) + logGood(passed) - LogRate(failed.Plus(passed))
}

// logAlike is the log-likelihood of launches that all fail at one rate, that of accidents or any.
func logAlike(t Tally) float64 {
	return LogAdd(logGood(t), logAny(t)) - math.Ln2
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
