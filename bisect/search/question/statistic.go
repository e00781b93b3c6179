package question

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// When launches are compared by the fastest tenth of their samples.
const (
	fastestOf = 20   // samples of a launch without which their fastest tenth says little
	clearerBy = 1.25 // times as far above the noise as the medians: two thirds of the launches
)

// byFastest is the comparison of the ends by the fastest tenth of each launch's samples where these tell the ends apart, and
// more clearly than the medians of a channel do, as on a host that holds up calls; nil elsewhere. Both must have moved
// alike: what slows only some calls moves the medians.
func byFastest(s *stage, pick int) *stage {
	q, c := s.q, s.q.Channels[pick]
	ends := trialsOfEnds(s.r)
	few := func(t search.Trial) bool { return c.Samples(t.Outcome) < fastestOf }
	if c.Metric.Fastest || q.Part != nil || min(len(ends[0]), len(ends[1])) < metric.MinEndPairs ||
		slices.ContainsFunc(ends[0], few) || slices.ContainsFunc(ends[1], few) {
		return nil
	}
	other := *q
	other.Channels = slices.Clone(q.Channels)
	for k, of := range other.Channels {
		if of.Metric == c.Metric {
			other.Channels[k] = of.Fastest()
		}
	}
	fast := newStage(&other, s.r)
	clearer := func(medians, err, fastest, off float64) bool {
		apart := fastest > max(metric.ClearlyDiffer*off, metric.EffectMargin*s.r.Least)
		alike := math.Abs(fastest-medians) < max(2*err, s.r.Least)
		return apart && alike && fastest/off > clearerBy*medians/err
	}
	// By means and deviations, or by the belief, whose noise is that of launches now and then held up.
	_, medians, err, _ := scatter(q.With(c), ends)
	_, fastest, off, _ := scatter(q.With(c.Fastest()), ends)
	if !clearer(medians, err, fastest, off) {
		medians, err = s.models[pick].Step()
		if fastest, off = fast.models[pick].Step(); !clearer(medians, err, fastest, off) {
			return nil
		}
	}
	q.Channels, fast.q = other.Channels, q
	return fast
}

// trialsOfEnds are the launches of the good and of the bad end that ended well and still count.
func trialsOfEnds(r *search.Run) (ends [2][]search.Trial) {
	for _, t := range r.Ledger.Made {
		if i, known := r.Span.Index[t.Candidate.Commit]; known && r.Span.IsEnd(i) && !t.Void && t.Class == bisect.OK {
			side := 0
			if i > belief.GoodEnd {
				side = 1
			}
			ends[side] = append(ends[side], t)
		}
	}
	return ends
}
