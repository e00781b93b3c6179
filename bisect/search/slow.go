package search

import (
	"math"

	"github.com/kbisect/kbisect/bisect"
)

// ShownSlow reports a launch that was ended because it had run for longer than a good one does, see [SlowAfter].
func (t Trial) ShownSlow() bool {
	return t.Early && t.Hurry == bisect.SlowTrial && t.Class == bisect.Timeout
}

// SlowAfter is how many seconds of a launch show that it is as slow as the bad end, so that the search may end it; 0
// where launches of the ends do not differ enough in that. step is by how much the metric differs, a logarithm: it
// must explain how much longer the bad end runs, or the length of a launch says nothing of it.
//
// What only a busy machine held up is taken for slow as well. The belief allows for that, and every proof launches
// its commits in full.
func SlowAfter(r *Run, step float64) float64 {
	const (
		clear = math.Ln2 // of a step
		late  = 1.0      // seconds beyond a good launch that a busy machine may take
		worth = 1.5      // times as long as that a bad launch must take
		loose = 1.5      // times the step that the ends may differ by in length
	)
	if s := r.Search; step < clear || s.Faster || s.All || s.AtOnce > 1 || r.Inner || r.Ledger.Patient {
		return 0
	}
	good, bad := 0.0, math.Inf(1)
	for _, t := range r.Ledger.Made {
		switch {
		case t.Void || t.Class != bisect.OK:
		case t.Purpose == bisect.EndGood:
			first := 0.0 // the process that filled the caches
			for _, ph := range t.Cold {
				first += ph.Seconds
			}
			good = max(good, t.Wall, first)
		case t.Purpose == bisect.EndBad:
			bad = min(bad, t.Wall)
		}
	}
	after := max(2*good, good+late)
	if bad < worth*after || bad > loose*math.Exp(step)*good {
		return 0
	}
	return after
}
