package judge

import "math"

// What is assumed about how often launches fail before any was seen.
const (
	always     = 0.9  // that a complaint shows in every launch of a bad commit; else its rate may be any
	badFails   = 2.0  // with badPasses: the Beta distribution of the rate of bad commits otherwise;
	badPasses  = 1.0  // one that hardly ever fails would not have been noticed
	goodFails  = 0.3  // with goodPasses: the Beta distribution of the rate of good commits,
	goodPasses = 99.7 // whose mean is falseAlarm
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
