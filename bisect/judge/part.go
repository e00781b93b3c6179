package judge

import (
	"maps"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Bounds of a search inside a part of a range.
const (
	minPartPairs    = 3   // new pairs of launches of its ends: it was chosen for what the old ones showed
	maxPartPairs    = 30  // then they are not told apart
	maxPartLaunches = 240 // in all
)

// part is what is known before a search inside a part of the range begins.
type part struct {
	seeds  []belief.Launch // launches of its commits, in order
	offset []float64       // by commit: what takes its level to that of a history without the known culprits
}

// within prepares the search between two commits of the range for a step of at least least. lo may be
// GoodEnd. Launches made so far serve it as evidence; trials go on being counted where they are, so
// that no two of them have the same name.
func (r *slowdownRun) within(lo, hi int, least float64, known []named) (*slowdownRun, []int) {
	commits, index := bisect.Between(r.commits, lo, hi)
	b := *r.SlowdownSearch
	b.All, b.Effect, b.Launches = false, math.Expm1(least), min(maxPartLaunches, r.most()-r.launches)
	b.Sampler = r.plain.Sampler
	b.Search.Commits, b.Search.Good, b.Search.GoodKey = commits, bisect.Candidate{Commit: r.id(lo)}, r.Search.GoodKey
	if lo != belief.GoodEnd {
		b.Search.GoodKey = r.commits[lo].Key
	}
	b.Search.Judge = &Plain{Sampler: b.Sampler, Options: b.Options, count: r.plain.count}
	b.Search.OnStep, b.Search.Tested = r.relay, nil
	sub := newBankRun(r.ctx, &b)
	sub.plain.timing = true
	sub.channels, sub.picked = []metric.Channel{r.picked}, r.picked
	sub.bills = r.bills
	sub.bills.launched = map[int]bool{}
	sub.part = &part{offset: r.offsets(lo, index, known)}
	for k, i := range index {
		sub.usable[k] = sub.usable[k] && (r.usable[i] || i == hi)
	}
	for _, l := range r.ledger() {
		if k, ok := sub.index[r.id(l.Index)]; ok {
			l.Index = k
			sub.bills.launched[k] = true
			sub.part.seeds = append(sub.part.seeds, l)
		}
	}
	return sub, index
}

// most is how many launches the whole search may take.
func (r *slowdownRun) most() int {
	if r.Launches > 0 {
		return r.Launches
	}
	return maxLaunches
}

// ledger is all launches so far that gave a number for the metric that is searched for.
func (r *slowdownRun) ledger() []belief.Launch { return r.ledgerOf(nil) }

// inParts is what every launch so far showed, by its cases.
func (r *slowdownRun) inParts() []metric.Parts {
	var out []metric.Parts
	for _, t := range r.plain.Sampler.(*once).made {
		out = append(out, metric.NewParts(t.Outcome))
	}
	return out
}

// ledgerOf is the ledger from outcomes that lie in parts; nil: from the whole ones.
func (r *slowdownRun) ledgerOf(made []metric.Parts) []belief.Launch {
	var out []belief.Launch
	for n, t := range r.plain.Sampler.(*once).made {
		i, known := r.index[t.Candidate.Commit]
		o := t.Outcome
		if made != nil {
			o = made[n].Of(r.picked)
		}
		if l, ok := r.level(o); ok && known && (t.Timing || !r.picked.Metric.OfProcess()) {
			l.Index = i
			out = append(out, l)
		}
	}
	return out
}

// offsets takes the steps of known culprits out of the levels of the commits of a part: what a commit
// has of them beyond, or short of, the commit at which the part begins.
func (r *slowdownRun) offsets(lo int, index []int, known []named) []float64 {
	out := make([]float64, len(index))
	for _, c := range known {
		holds := bisect.Descendants(r.commits, c.index)
		before := lo != belief.GoodEnd && holds[lo]
		for k, i := range index {
			switch {
			case before && !holds[i]:
				out[k] += c.step
			case holds[i] && !before:
				out[k] -= c.step
			}
		}
	}
	return out
}

// partEnds compares the ends of a part of the range, by the launches that there are and more pairs
// where these do not settle it.
func (r *slowdownRun) partEnds() (differ bool, err error) {
	m := belief.NewLevels(r.commits, r.prior)
	m.Offset(r.part.offset)
	s := &stage{models: []*belief.Levels{m}, levels: make([][2][]float64, 1)}
	last := len(r.commits) - 1
	for _, l := range r.part.seeds {
		m.Add(l)
		if r.isEnd(l.Index) && !l.Censored {
			side := 0
			if l.Index == last {
				side = 1
			}
			s.levels[0][side] = append(s.levels[0][side], l.Y)
		} else if l.Index != belief.GoodEnd {
			r.proven[l.Index] = true
		}
	}
	r.part.seeds = nil // a new beginning is from clean builds
	for n := 0; ; n++ {
		st := r.partSettled(s, n)
		if st != open || n == maxPartPairs || r.over() {
			return r.answerEnds(s, 0, st), nil
		}
		for k := range 2 {
			if err := r.end(s, (k == 1) == (n%2 == 1)); err != nil {
				return false, err
			}
		}
	}
}

// partSettled is settled for a part of the range, where one metric is left and its noise is
// known; fresh is the number of pairs launched for it.
func (r *slowdownRun) partSettled(s *stage, fresh int) state {
	if len(s.levels[0][0]) < minEndPairs || len(s.levels[0][1]) < minEndPairs {
		return open
	}
	switch d, sd := s.models[0].Step(); {
	case fresh >= minPartPairs && d > metric.EffectMargin*r.least() && d > zEnd*sd:
		return worse
	case d+3*sd < metric.EffectMargin*r.least():
		return alike
	}
	return open
}

// settle takes what a search inside a part has cost and met into the account of the whole.
func (r *slowdownRun) settle(sub *slowdownRun) {
	r.launches += sub.launches
	r.f.Spent = r.f.Spent || sub.f.Spent
	r.bills.runs, r.bills.nRuns = sub.bills.runs, sub.bills.nRuns
	r.bills.builds, r.bills.nBuilds = sub.bills.builds, sub.bills.nBuilds
	if r.bills.launched == nil {
		r.bills.launched = map[int]bool{}
	}
	for k := range maps.Keys(sub.bills.launched) {
		if k != belief.GoodEnd {
			r.bills.launched[r.index[sub.commits[k].ID]] = true
		}
	}
	for k, ok := range sub.usable {
		i := r.index[sub.commits[k].ID]
		r.usable[i] = r.usable[i] && ok
	}
}
