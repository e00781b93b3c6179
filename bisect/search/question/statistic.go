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

// byFastest turns to the fastest tenth of each launch's samples where these tell the ends apart, and more clearly than the
// medians do, as on a host that holds up calls. Both must have moved alike: what slows only some calls moves the medians.
func byFastest(q *Level, r *search.Run, c metric.Channel) bool {
	ends := trialsOfEnds(r)
	few := func(t search.Trial) bool { return c.Samples(t.Outcome) < fastestOf }
	if c.Metric.Fastest || q.Part != nil || min(len(ends[0]), len(ends[1])) < metric.MinEndPairs ||
		slices.ContainsFunc(ends[0], few) || slices.ContainsFunc(ends[1], few) {
		return false
	}
	noise, medians, err, _ := scatter(q.With(c), ends)
	quiet, fastest, off, _ := scatter(q.With(c.Fastest()), ends)
	apart := fastest > max(metric.ClearlyDiffer*off, metric.EffectMargin*r.Least)
	alike := math.Abs(fastest-medians) < max(2*err, r.Least)
	if !apart || !alike || fastest/quiet < clearerBy*medians/noise {
		return false
	}
	q.Channels = slices.Clone(q.Channels)
	for k, other := range q.Channels {
		if other.Metric == c.Metric {
			q.Channels[k] = other.Fastest()
		}
	}
	return true
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
