package question

import (
	"cmp"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// How many times more launches a search needs than its first one promises: sharp where one launch settles a commit,
// and up to blunt more where one hardly tells anything, since drift takes its share and the last suspects, side by
// side, are the hardest to tell apart. From simulations.
const (
	sharp = 1.3
	blunt = 2.0
)

// The rules of what is said early.
const (
	tooMany   = 10   // times the launches that a search takes without noise: without a budget, more than that is too many
	farChange = 3.0  // a ratio: where not even such a change would be found, none would
	quieter   = 0.67 // share of the noise below which another metric is worth a hint
	mostHints = 3    // metrics

	searching = -1 // stands for the pairs of the ends once they are known to differ
)

// plan foretells launches from what is still to be found out.
type plan struct {
	entropy float64 // of the suspects, nats
	odds    float64 // that prove, a logarithm
}

func planOf(r *search.Run, m *levels.Belief) plan {
	delta := r.Search.Delta()
	return plan{belief.Entropy(m.Weights()), math.Log((1 - delta) / delta)}
}

// search is the launches of search and proof for a step of change, a logarithm, where a launch has the given variance.
// The search gains per launch what one in the middle of the suspects tells, in nats; the proof adds pairs until their
// likelihood ratio reaches the odds.
func (p plan) search(change, variance float64) float64 {
	info := math.Ln2 * -math.Expm1(-change*change/(8*math.Ln2*variance)) // see levels.Belief.MidLaunch
	return p.entropy/info*(sharp+blunt*(1-info/math.Ln2)) + 2*max(levels.MinPairs, p.pairs(change, variance))
}

// pairs is how many pairs the proof takes: a pair of variance 2v adds change²/(4v) to the log-likelihood ratio on
// average.
func (p plan) pairs(change, variance float64) float64 {
	return 4 * p.odds * variance / (change * change)
}

// all is the launches of everything, of which so many pairs of the ends were made. The ends are compared until the
// change stands out by ClearlyDiffer standard deviations, which fall with the square root of the number of pairs. It
// is infinite where the comparison or the proof would give up before.
func (p plan) all(change, variance float64, pairs int) float64 {
	n := 0.0
	if pairs != searching {
		need := ClearlyDiffer * ClearlyDiffer * 2 * variance / (change * change)
		if need > metric.MaxPairs {
			return math.Inf(1)
		}
		n = 2 * max(0, max(MinEndPairs, need)-float64(pairs))
	}
	if p.pairs(change, variance) > maxConfirm {
		return math.Inf(1)
	}
	return n + p.search(change, variance)
}

// expected estimates the launches to the end, of which so many pairs of the ends were made. While little is known, it
// assumes a step that would soon show.
func expected(r *search.Run, m *levels.Belief, pairs int) search.Outlook {
	step, sd := m.Step()
	// A smaller step would not be searched for, and one that does not stand out yet is a guess.
	step = max(step, r.Least, 2*sd)
	n := 0.0
	if pairs > 0 {
		need := float64(pairs) * math.Pow(ClearlyDiffer*sd/step, 2)
		n += 2 * max(0, min(need, metric.MaxPairs)-float64(pairs))
		n += 2 * max(0, float64(MinEndPairs-pairs))
	}
	_, noise := m.MidLaunch(step)
	return search.Outlook{Launches: n + planOf(r, m).search(step, noise), Noise: math.Sqrt(noise)}
}

// foresight says early that what a search looks for costs too much.
type foresight struct {
	q *Level
	r *search.Run
}

// look compares the launches that the search will take with those that it has. It speaks once, and only when even a
// noise one standard error below the one seen would be too much. The error is that of OnProspect, which ends the
// search.
func (f foresight) look(m *levels.Belief, c metric.Channel, pairs int, st state) error {
	r, n := f.r, m.Launches()
	told := &r.Account.Finding.Prospect
	if *told != nil || r.Inner || f.q.Part != nil || c.Metric.Exact || st == alike || n < 2*MinEndPairs || pairs == searching && n%(2*MinEndPairs) != 0 {
		return nil
	}
	step, sd := m.Step()
	// Where no step is seen the smallest is meant that was asked for.
	change, seen := r.Least, st == worse || step > max(2*sd, r.Least)
	if seen {
		change = step
	}
	_, variance := m.MidLaunch(change)
	p := planOf(r, m)
	// What the search may take: what the budget leaves at the present pace or, without one, tooMany times a search of
	// the same suspects without noise, which compares the ends, halves the suspects and proves the answer.
	within, left := tooMany*(2*MinEndPairs+p.entropy/math.Ln2*sharp+2*levels.MinPairs), 0.0
	if r.Search.Left != nil {
		left = max(0, r.Search.Left())
		within = left / r.Ledger.Pace()
	}
	// The standard error of a variance that n launches tell is √(2/n) of it.
	if p.all(change, variance*(1-math.Sqrt(2/float64(n))), pairs) <= within {
		return nil
	}
	if may := max(change, step+2*sd); !seen && pairs < minAlikePairs && p.all(may, variance, pairs) <= within {
		return nil // more launches of the ends will tell
	}
	x := &bisect.Prospect{
		Metric: c.Name(), Noise: math.Expm1(math.Sqrt(variance)), Change: math.Expm1(change), Seen: seen, Made: n,
		Left: left, Within: within, Findable: math.Expm1(p.findable(change, variance, pairs, within)), Quieter: []bisect.Quieter{},
	}
	if need := p.all(change, variance, pairs); !math.IsInf(need, 1) {
		x.Launches, x.Seconds = need, need*r.Ledger.Pace()
	}
	x.Quieter = append(x.Quieter, f.quieter(p, f.q.With(c), within)...)
	if *told = x; r.Search.OnProspect != nil {
		return r.Search.OnProspect(*x)
	}
	return nil
}

// findable is the smallest change above the given one, as a logarithm, that so many launches find; 0 where there is
// none.
func (p plan) findable(change, variance float64, pairs int, within float64) float64 {
	lo, hi := change, math.Log(farChange)
	if p.all(hi, variance, pairs) > within {
		return 0
	}
	for range 40 {
		if x := (lo + hi) / 2; p.all(x, variance, pairs) > within {
			lo = x
		} else {
			hi = x
		}
	}
	return hi
}

// quieter lists other metrics that the launches of the ends carry, which scatter less and differ between the ends, or
// may: those that differ first, then by the launches that they take.
func (f foresight) quieter(p plan, of *Level, within float64) (out []bisect.Quieter) {
	var ends [2][]search.Trial
	for _, t := range f.r.Ledger.Made {
		if i, known := f.r.Span.Index[t.Candidate.Commit]; known && f.r.Span.IsEnd(i) && !t.Void && t.Class == bisect.OK {
			if t.CPU > 0 && !slices.ContainsFunc(t.Series, func(s bisect.Series) bool { return s.Metric == "cpu" }) {
				t.Series = append(slices.Clip(t.Series), bisect.Series{Metric: "cpu", Unit: "s", Values: []float64{t.CPU}})
			}
			side := 0
			if i >= 0 {
				side = 1
			}
			ends[side] = append(ends[side], t)
		}
	}
	// A metric of one end only cannot be compared.
	if len(ends[0]) == 0 || len(ends[1]) == 0 {
		return nil
	}
	good, bad := ends[0][len(ends[0])-1].Outcome, ends[1][len(ends[1])-1].Outcome
	own, _, _, _ := scatter(of, ends)
	for _, name := range metric.SentByBoth(good, bad) {
		m := metric.Metric{Name: name, Counted: name == "cpu"}
		if i := slices.IndexFunc(f.r.Search.Metrics, func(m metric.Metric) bool { return m.Name == name }); i >= 0 {
			m = f.r.Search.Metrics[i]
		}
		ms, unknown := metric.Directed([]metric.Metric{m}, good, bad)
		channels := metric.Channels(ms, good, bad)
		if unknown != nil || len(channels) == 0 || name == of.Channel.Metric.Name || name == "phase.build" {
			continue
		}
		sd, d, err, ok := scatter(f.q.With(channels[0]), ends)
		x := bisect.Quieter{Metric: name, Noise: math.Expm1(sd), Differs: d > max(ClearlyDiffer*err, metric.EffectMargin*f.r.Least)}
		x.Ratio = f.q.With(channels[0]).Effect(d, 0).Ratio
		change := f.r.Least
		if x.Differs {
			change = max(change, d)
		}
		x.Launches = p.all(change, sd*sd, 0)
		if may := d+ClearlyDiffer*err > f.r.Least; ok && may && sd < quieter*own && x.Launches <= within {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b bisect.Quieter) int {
		switch {
		case a.Differs == b.Differs:
			return cmp.Compare(a.Launches, b.Launches)
		case a.Differs:
			return -1
		}
		return 1
	})
	return out[:min(len(out), mostHints)]
}

// scatter is what launches of the ends scatter by, see [levels.Pooled]; ends holds the trials of the good and of the bad end.
func scatter(q *Level, ends [2][]search.Trial) (sd, step, err float64, ok bool) {
	var y [2][]float64
	for side, trials := range ends {
		for _, t := range trials {
			if l, a := q.Read(t); a == search.Speaks && !l.Censored {
				y[side] = append(y[side], l.Y)
			}
		}
	}
	return levels.Pooled(y)
}
