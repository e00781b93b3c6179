package question

import (
	"math"

	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// clearerBy is how much further above the noise than medians the fastest tenth of samples must lie: two thirds of the launches.
const clearerBy = 1.25

// byFastest is the comparison of the ends by the fastest tenth of each launch's samples where these tell the ends apart, and
// more clearly than the medians of a channel do, as on a host that holds up calls; nil elsewhere. Both must move alike: what
// slows only some calls moves one of them.
func byFastest(s *stage, pick int) *stage {
	q, c := s.q, s.q.Channels[pick]
	ends := search.EndTrials(s.r)
	if c.Metric.Fastest || q.medians || q.Part != nil || min(len(ends[0]), len(ends[1])) < metric.MinEndPairs || !search.Even(s.r, c.Metric) {
		return nil
	}
	other := q.With(c.Fastest(true))
	clearer := func(medians, err, fastest, off float64) bool {
		apart := fastest > max(metric.ClearlyDiffer*off, metric.EffectMargin*s.r.Least)
		alike := medians > fastest/2 && math.Abs(fastest-medians) < max(2*err, s.r.Least)
		return apart && alike && fastest/off > clearerBy*medians/err
	}
	// By means and deviations, or by the belief, whose noise is that of launches now and then held up.
	_, medians, err, _ := scatter(q.With(c), ends)
	_, fastest, off, _ := scatter(other, ends)
	if !clearer(medians, err, fastest, off) {
		other.Channels = []metric.Channel{other.Channel}
		medians, err = s.models[pick].Step()
		if fastest, off = newStage(other, s.r).models[0].Step(); !clearer(medians, err, fastest, off) {
			return nil
		}
	}
	q.Channels = metric.Switched(q.Channels, c.Metric, true)
	return newStage(q, s.r)
}

// byMedians goes back to medians, for good, and has the ends compared again by all launches, where launches since then send too
// few samples, or where from one side to the other, as of tells them (see [search.Sides]), medians have moved by less than half
// as much as the fastest tenth.
func byMedians(q *Level, r *search.Run, of func(search.Trial) int) (back bool) {
	m := q.Channel.Metric
	if !m.Fastest || q.Part != nil {
		return false
	}
	if back = !search.Even(r, m); !back && of != nil {
		sides := search.Sides(r.Ledger, of)
		_, medians, err, ok := scatter(q.With(q.Channel.Fastest(false)), sides)
		_, fastest, _, _ := scatter(q, sides)
		back = ok && medians < (fastest-err)/2
	}
	if back {
		q.Channels, q.medians = metric.Switched(q.Channels, m, false), true
		r.Rounds++
	}
	return back
}

// believed puts launches on the sides of the commits believed good and bad.
func believed(r *search.Run) func(search.Trial) int {
	return func(t search.Trial) int {
		switch i, known := r.Span.Index[t.Candidate.Commit]; {
		case !known:
			return -1
		case i > belief.GoodEnd && r.Belief.Bad(i) > 0.5:
			return 1
		}
		return 0
	}
}
