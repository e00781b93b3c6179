package effects

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// flagSet is a set of flags, bit by bit: those that are on in a configuration, or those that a term of a
// model asks to be on together.
type flagSet uint64

func (x flagSet) holds(t flagSet) bool { return x&t == t }
func (x flagSet) size() int            { return bits.OnesCount64(uint64(x)) }

// launch is one usable launch.
type launch struct {
	on     flagSet
	y      float64 // ln of the metric
	at     int     // ordinal among all launches
	fresh  bool    // made to confirm, after a term was suspected
	design bool    // of a design, base configurations apart
	weight float64 // below 1 where something disturbed it
}

// noise is what launches vary by: each independently, and all by a drift, an Ornstein-Uhlenbeck process.
type noise struct {
	sd, df float64 // spread of one launch, and the degrees of freedom that it rests on
	drift  float64 // variance of the drift, as a multiple of sd squared
	tau    float64 // launches after which the drift is another
}

// whiten replaces columns over some runs, in order of time, by what each run adds to those before it, so that the
// noise of all rows is independent and of equal variance: ordinary least squares is then right. scale is what each row
// was divided by. These are the innovations of a Kalman filter whose state is the drift, with variance drift and time
// constant tau; a run of weight w has the variance 1/w. All in units of sd squared.
func (n noise) whiten(runs []launch, cols [][]float64) (scale []float64) {
	state := make([]float64, len(cols)) // of the drift, as far as it follows from each column
	v := n.drift
	scale = make([]float64, len(runs))
	for i, r := range runs {
		if n.drift > 0 && i > 0 {
			keep := math.Exp(-float64(r.at-runs[i-1].at) / n.tau)
			v = keep*keep*v + (1-keep*keep)*n.drift
			for c := range state {
				state[c] *= keep
			}
		}
		all := v + 1/r.weight
		gain := v / all
		scale[i] = math.Sqrt(all)
		for c, x := range cols {
			d := x[i] - state[c]
			state[c] += gain * d
			x[i] = d / scale[i]
		}
		v -= gain * v
	}
	return scale
}

// columns are the constant, a 0/1 column for each term, and the response, over some runs.
func columns(runs []launch, terms []flagSet) [][]float64 {
	cols := make([][]float64, len(terms)+2)
	for j := range cols {
		cols[j] = make([]float64, len(runs))
	}
	for i, r := range runs {
		cols[0][i] = 1
		cols[len(terms)+1][i] = r.y
		for j, t := range terms {
			if r.on.holds(t) {
				cols[j+1][i] = 1
			}
		}
	}
	return cols
}

// gram holds the inner products of whitened columns; the last column is the response.
type gram struct {
	g [][]float64
	n int
}

// products are the inner products of all columns, from which every model is fitted without the rows.
func products(cols [][]float64) gram {
	g := gram{make([][]float64, len(cols)), len(cols[0])}
	for i := range cols {
		g.g[i] = make([]float64, len(cols))
		for j := range i + 1 {
			for k, x := range cols[i] {
				g.g[i][j] += x * cols[j][k]
			}
			g.g[j][i] = g.g[i][j]
		}
	}
	return g
}

// tiny is the share of a column's square below which it is a combination of the columns before it.
const tiny = 1e-7

// solved is a least-squares fit by the columns that do not depend on those before them, from the Cholesky factor of
// their inner products.
type solved struct {
	keep []int
	l    [][]float64 // factor of their inner products
	z    []float64   // the response along them
	rss  float64
}

// solve fits the response by all the other columns.
func (g gram) solve() solved {
	var s solved
	for c, products := range g.g {
		row := make([]float64, len(s.keep)+1)
		left := products[c]
		for j, k := range s.keep {
			row[j] = products[k]
			for i := range j {
				row[j] -= row[i] * s.l[j][i]
			}
			row[j] /= s.l[j][j]
			left -= row[j] * row[j]
		}
		if c == len(g.g)-1 {
			s.z, s.rss = row, max(left, 1e-12)
		} else if left > tiny*products[c] {
			row[len(s.keep)] = math.Sqrt(left)
			s.l, s.keep = append(s.l, row), append(s.keep, c)
		}
	}
	return s
}

// sum is the value of a sum of coefficients, by column, and its standard error in units of the noise. Both are NaN
// where one of the columns depends on others.
func (s solved) sum(cols ...int) (value, unit float64) {
	x := make([]float64, len(s.keep))
	for _, c := range cols {
		j := slices.Index(s.keep, c)
		if j < 0 {
			return math.NaN(), math.NaN()
		}
		x[j]++
	}
	for i := range x {
		for k := range i {
			x[i] -= s.l[i][k] * x[k]
		}
		x[i] /= s.l[i][i]
		value += x[i] * s.z[i]
		unit += x[i] * x[i]
	}
	return value, math.Sqrt(unit)
}

// leftover are the residuals of the whitened response.
func (s solved) leftover(cols [][]float64) []float64 {
	left := slices.Clone(cols[len(cols)-1])
	for _, c := range s.keep {
		beta, _ := s.sum(c)
		for i := range left {
			left[i] -= beta * cols[c][i]
		}
	}
	return left
}

// maxTerms is how many terms a model may have: more than a few dozen launches can tell apart.
const maxTerms = 6

// model is a set of candidate terms, by their column numbers in ascending order, and its score:
// twice the negative logarithm of its posterior, but for a constant.
type model struct {
	terms [maxTerms]int16
	n     int
	score float64
}

func (m model) has(c int) bool { return slices.Contains(m.terms[:m.n], int16(c)) }

// with is the model with one more term, in its place among the others.
func (m model) with(c int) model {
	i, _ := slices.BinarySearch(m.terms[:m.n], int16(c))
	copy(m.terms[i+1:], m.terms[i:m.n])
	m.terms[i] = int16(c)
	m.n++
	return m
}

// score sets the score of a model: the Bayesian information criterion, n ln(rss/n) + k ln n, and a price for each
// term, since there are many of which one might fit by chance (as the extended criterion of Chen and Chen 2008 has
// it). It is false where columns depend on one another. It does what solve does on arrays of a fixed size, as it runs
// for thousands of models.
func (g gram) score(m *model, price []float64) bool {
	var l [maxTerms + 2][maxTerms + 2]float64
	var at [maxTerms + 2]int
	n := float64(g.n)
	m.score = 0
	for i, c := range m.terms[:m.n] {
		at[i+1] = int(c)
		m.score += math.Log(n) + price[c]
	}
	at[m.n+1] = len(g.g) - 1
	for i := range m.n + 2 {
		row := g.g[at[i]]
		left := row[at[i]]
		for j := range i {
			s := row[at[j]]
			for k := range j {
				s -= l[i][k] * l[j][k]
			}
			l[i][j] = s / l[j][j]
			left -= l[i][j] * l[i][j]
		}
		if i == m.n+1 {
			m.score += n * math.Log(max(left, 1e-12)/n)
		} else if left < tiny*row[at[i]] {
			return false
		}
		l[i][i] = math.Sqrt(left)
	}
	return true
}

// search finds the best models, best first. It adds one term at a time and follows the best few models at once, since
// a pair may only show beside the flag that hides it. It stops where another term only makes things worse; a model has
// fewer terms than a third of the launches.
func (g gram) search(price []float64) []model {
	const width, worse = 8, 9.0
	var first model
	g.score(&first, price)
	all, beam, best := []model{first}, []model{first}, first.score
	for k := 1; k <= maxTerms && 3*k < g.n; k++ {
		seen := map[[maxTerms]int16]bool{}
		var next []model
		for _, m := range beam {
			for c := 1; c < len(g.g)-1; c++ {
				w := m.with(c)
				if m.has(c) || seen[w.terms] {
					continue
				}
				seen[w.terms] = true
				if g.score(&w, price) {
					next = append(next, w)
				}
			}
		}
		slices.SortFunc(next, byScore)
		beam = next[:min(width, len(next))]
		all = append(all, beam...)
		if len(beam) == 0 || beam[0].score > best+worse {
			break
		}
		best = min(best, beam[0].score)
	}
	slices.SortFunc(all, byScore)
	return all
}

func byScore(a, b model) int {
	return cmp.Or(cmp.Compare(a.score, b.score), slices.Compare(a.terms[:], b.terms[:]))
}

// fitNoise learns from what a model leaves over how much launches vary and whether the machine drifts, and weighs down
// the runs that something disturbed. It changes the weights of runs.
func fitNoise(runs []launch, terms []flagSet) noise {
	best, least := noise{}.settle(runs, terms)
	least -= 3 // a drift must be worth its two parameters
	for _, tau := range []float64{6, 25} {
		for _, drift := range []float64{0.1, 0.4, 1.5, 6} {
			n, l := noise{drift: drift, tau: tau}.settle(runs, terms)
			if l < least {
				best, least = n, l
			}
		}
	}
	best, _ = best.settle(runs, terms)  // for its weights
	best.sd *= 1 + 2/float64(len(runs)) // a fitted spread is too small by about its own error
	return best
}

// What is assumed about disturbances, as in a search for a slowdown (judge.md 2: eps, and the mean of 0.10).
const (
	dirty     = 0.03 // chance that something disturbed a launch
	dirtyMean = 0.10 // what that adds in the mean, as a logarithm
)

// normal is the density of a normal with variance v.
func normal(u, v float64) float64 { return math.Exp(-0.5*u*u/v) / math.Sqrt(2*math.Pi*v) }

// settle finds, in turn, the spread and the disturbed runs under a given drift, and returns twice the negative
// log-likelihood. A run is weighed by the probability that it is clean, in a mixture of two normal distributions
// (expectation maximisation).
func (n noise) settle(runs []launch, terms []flagSet) (_ noise, likelihood float64) {
	plainly(runs)
	for range 4 {
		cols := columns(runs, terms)
		scale := n.whiten(runs, cols)
		s := products(cols).solve()
		n.df = max(1, float64(len(runs)-len(s.keep)))
		n.sd = max(1e-6, math.Sqrt(s.rss/n.df))
		likelihood = 0
		v, wide := n.sd*n.sd, dirtyMean*dirtyMean
		for i, e := range s.leftover(cols) {
			e *= scale[i]
			seen := v * (scale[i]*scale[i] - 1/runs[i].weight + 1) // were it clean
			clean, soiled := (1-dirty)*normal(e, seen), dirty*normal(e, seen+wide)
			sum := clean + soiled + math.SmallestNonzeroFloat64
			runs[i].weight = (clean + soiled*v/(v+wide)) / sum
			runs[i].weight = max(runs[i].weight, v/(v+wide))
			likelihood -= 2 * math.Log(sum)
		}
	}
	return n, likelihood
}

// plainly forgets which runs were disturbed.
func plainly(runs []launch) {
	for i := range runs {
		runs[i].weight = 1
	}
}

// studentT is the two-sided quantile of Student's distribution: outside of ±studentT lies a share alpha. It is the
// expansion in 1/df of Abramowitz and Stegun, 26.7.5.
func studentT(alpha, df float64) float64 {
	z := math.Sqrt2 * math.Erfinv(1-alpha)
	z2 := z * z
	a := z * (z2 + 1) / 4
	b := z * (5*z2*z2 + 16*z2 + 3) / 96
	c := z * (3*z2*z2*z2 + 19*z2*z2 + 17*z2 - 15) / 384
	return z + a/df + b/(df*df) + c/(df*df*df)
}
