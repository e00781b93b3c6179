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

// The rules of what is said early.
const (
	tooMany   = 10   // times the launches that a search takes without noise: without a budget, more than that is too many
	quieter   = 0.67 // share of the noise below which another metric is worth a hint
	mostHints = 3    // metrics
)

func planOf(r *search.Run, m *levels.Belief) levels.Plan {
	delta := r.Search.Delta()
	return levels.Plan{Entropy: belief.Entropy(m.Weights()), Odds: math.Log((1 - delta) / delta)}
}

// expected estimates the launches to the end, of which so many pairs of the ends were made. While little is known, it
// assumes a step that would soon show.
func expected(r *search.Run, m *levels.Belief, pairs int) search.Outlook {
	step, sd := m.Step()
	// A smaller step would not be searched for, and one that does not stand out yet is a guess.
	step = max(step, r.Least, 2*sd)
	n := 0.0
	if pairs > 0 {
		need := float64(pairs) * math.Pow(metric.ClearlyDiffer*sd/step, 2)
		n += 2 * max(0, min(need, metric.MaxPairs)-float64(pairs))
		n += 2 * max(0, float64(metric.MinEndPairs-pairs))
	}
	_, noise := m.MidLaunch(step)
	return search.Outlook{Launches: n + planOf(r, m).Search(step, noise), Noise: math.Sqrt(noise)}
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
	if *told != nil || r.Inner || f.q.Part != nil || c.Metric.Exact || st == alike || n < 2*metric.MinEndPairs || pairs == levels.Searching && n%(2*metric.MinEndPairs) != 0 {
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
	within, left := tooMany*(2*metric.MinEndPairs+p.Entropy/math.Ln2*levels.Sharp+2*levels.MinPairs), 0.0
	if r.Search.Left != nil {
		left = max(0, r.Search.Left())
		within = left / r.Ledger.Pace()
	}
	// The standard error of a variance that n launches tell is √(2/n) of it.
	if p.All(change, variance*(1-math.Sqrt(2/float64(n))), pairs) <= within {
		return nil
	}
	if may := max(change, step+2*sd); !seen && pairs < minAlikePairs && p.All(may, variance, pairs) <= within {
		return nil // more launches of the ends will tell
	}
	x := &bisect.Prospect{
		Metric: c.Name(), Noise: math.Expm1(math.Sqrt(variance)), Change: math.Expm1(change), Seen: seen, Made: n,
		Left: left, Within: within, Findable: math.Expm1(p.Findable(change, variance, pairs, within)), Quieter: []bisect.Quieter{},
	}
	if need := p.All(change, variance, pairs); !math.IsInf(need, 1) {
		x.Launches, x.Seconds = need, need*r.Ledger.Pace()
	}
	x.Quieter = append(x.Quieter, f.quieter(p, f.q.With(c), within)...)
	if *told = x; r.Search.OnProspect != nil {
		return r.Search.OnProspect(*x)
	}
	return nil
}

// quieter lists other metrics that the launches of the ends carry, which scatter less and differ between the ends, or
// may: those that differ first, then by the launches that they take.
func (f foresight) quieter(p levels.Plan, of *Level, within float64) (out []bisect.Quieter) {
	ends := search.EndTrials(f.r)
	for _, side := range ends {
		for i, t := range side {
			if t.CPU > 0 && !slices.ContainsFunc(t.Series, func(s bisect.Series) bool { return s.Metric == "cpu" }) {
				side[i].Series = append(slices.Clip(t.Series), bisect.Series{Metric: "cpu", Unit: "s", Values: []float64{t.CPU}})
			}
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
		x := bisect.Quieter{Metric: name, Noise: math.Expm1(sd), Differs: d > max(metric.ClearlyDiffer*err, metric.EffectMargin*f.r.Least)}
		x.Ratio = f.q.With(channels[0]).Effect(d, 0).Ratio
		change := f.r.Least
		if x.Differs {
			change = max(change, d)
		}
		x.Launches = p.All(change, sd*sd, 0)
		if may := d+metric.ClearlyDiffer*err > f.r.Least; ok && may && sd < quieter*own && x.Launches <= within {
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
