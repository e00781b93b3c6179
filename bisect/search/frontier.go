package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// Foresee tells Search.Ahead what will probably be asked for from now on, beginning with the launch of commit i: the
// other end, the commits that the next decisions lead to, and the clean builds of a proof. They can all be built at
// once, as many as the machine can at a time. The forecast depends on the launches alone, so a resumed search makes
// the same one.
//
// Before an end has told what it opens, every commit may be worth a build. What such a guess costs, the pipeline
// weighs: it may wait until the builds of the ends are seen to be long ones.
//
// A search about the time of builds foresees nothing: its builds must not disturb each other.
func (r *Run) Foresee(i int) {
	if !foresees(r) {
		return
	}
	next := []bisect.Request{}
	if bad := r.Span.Id(r.Span.Bad()); !r.Ledger.launched[bad] {
		next = append(next, Wanted{Commit: bad, Purpose: bisect.EndBad}.next(r))
	}
	f := newFrontier(r)
	picks := f.commits(i, r.Search.Width+r.Search.More)
	before := r.foreseen
	r.foreseen = map[int]float64{}
	for _, p := range picks[:min(len(picks), r.Search.Width)] {
		k := r.Span.Index[p.Commit]
		r.foreseen[k] = min(1, before[k]+1.0/3) // the longer ago it was foreseen, the more of it is built
	}
	for _, p := range f.proofs(picks) {
		next = append(next, p.next(r))
	}
	if r.Search.Ahead != nil {
		r.Search.Ahead(next)
	}
}

// next is the request that asking for a wanted launch leads to.
func (w Wanted) next(r *Run) bisect.Request {
	return requestOf(r.Ledger, r.Question, w.Commit, w.Purpose, r.Ledger.count[launchKey{w.Commit, w.Purpose}])
}

// proofOf lists what the proof launches that the culprit is among the members.
func proofOf(p *Span, members []int) (next []Wanted) {
	culprit, parents := p.Sides(members)
	for _, id := range parents {
		next = append(next, Wanted{Commit: id, Purpose: bisect.ConfirmParent})
	}
	return append(next, Wanted{Commit: culprit, Purpose: bisect.ConfirmCulprit})
}

// foresees reports whether builds are forecast at all.
func foresees(r *Run) bool {
	return r.Search.Width > 1 && r.Search.Phase != "build" && (r.Question == nil || !r.Question.Rules().OfBuilds)
}

// foreseeProof tells Search.Ahead that a claim is about to be proven: nothing but its clean builds is wanted then, and, of
// a failure, the culprit as the search built it, which is launched once more before it is believed.
func foreseeProof(r *Run, members []int) {
	if !foresees(r) || r.Search.Fast || r.Search.Ahead == nil {
		return
	}
	proof, next := proofOf(r.Span, members), []bisect.Request{}
	for _, w := range proof {
		if r.Ledger.count[launchKey{w.Commit, w.Purpose}] == 0 {
			next = append(next, w.next(r))
		}
	}
	if id := proof[len(proof)-1].Commit; !r.Question.Rules().Timed && !r.Span.IsEnd(r.Span.Place(id)) {
		next = append(next, Wanted{Commit: id, Purpose: bisect.Searching}.next(r))
	}
	r.Search.Ahead(next)
}

// Soon tells Search.Soon which launches are likely to be asked for, those of them that would be the first of their commit
// for their purpose, where launches are made one after the other.
func Soon(r *Run, next ...Wanted) {
	l := r.Ledger
	if l.Search.AtOnce > 1 || l.Search.Soon == nil {
		return
	}
	var out []bisect.Request
	for _, w := range next {
		if l.count[launchKey{w.Commit, w.Purpose}] == 0 {
			out = append(out, w.next(r))
		}
	}
	l.Search.Soon(out)
}

// decisions are the first launches of the commits that the next decisions lead to, where there are processors for wrong
// guesses. Builds ahead have a forecast of their own, see Foresee.
func decisions(r *Run) (next []Wanted) {
	const most, likely = 15, 0.1 // four decisions; the chance that it is asked for
	if !r.Search.Eager || r.Search.Width > 1 {
		return nil
	}
	picks := newFrontier(r).commits(-1, most)
	r.foreseen = map[int]float64{}
	for _, p := range picks {
		if p.chance >= likely {
			r.foreseen[r.Span.Index[p.Commit]] = p.chance
			next = append(next, p.Wanted)
		}
	}
	return next
}

// likelyProofs are the first launches of a proof of a commit that is likely to be the culprit, until it is all but cleared.
// Where there are processors for a wrong guess, they come sooner, and for two commits.
func likelyProofs(r *Run) (next []Wanted) {
	if r.Search.Soon == nil || r.Search.Fast {
		return nil
	}
	likely, possible, most := 0.45, 0.2, 1
	if r.Search.Eager {
		likely, possible, most = 0.25, 0.1, 2
	}
	weights := r.Belief.Weights()
	r.likely = slices.DeleteFunc(r.likely, func(k int) bool { return weights[k] < possible })
	left := slices.Clone(weights)
	for _, k := range r.likely {
		left[k] = 0
	}
	for len(r.likely) < most && slices.Max(left) >= likely {
		k := slices.Index(left, slices.Max(left))
		r.likely, left[k] = append(r.likely, k), 0
	}
	slices.SortStableFunc(r.likely, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	for _, k := range r.likely {
		next = append(next, proofOf(r.Span, []int{k})...)
	}
	return next
}

// EarlyProofs reports that what a proof launches first has often begun, or ended, by the time the search decides: it was
// announced, loads and compiles without a build, and may show wrong results beside others.
func EarlyProofs(r *Run, complaint bisect.Complaint) bool {
	return r.Search.Eager && r.Search.Width < 2 && complaint.Class == bisect.Wrong
}

// side makes up to n launches at the same time, each on its own device where devices are kept apart. The belief
// chooses them one by one, knowing which are taken; new commits come from the n quantiles k/(n+1) of the culprit's
// place (judge.md 7). There are at most twice as many as the rest of the run is expected to take. Where the belief
// wants none, commit i is launched.
func side(r *Run, i, n int) error {
	if len(r.Search.Devices) > 0 {
		n = len(Devices(r.Ledger))
	}
	n = min(n, max(2, int(math.Ceil(2*r.Question.Expected(r).Launches))))
	p, taken := r.prices(), map[int]int{}
	p.Taken = func(i int) int { return taken[i] }
	var next []Wanted
	devices := Devices(r.Ledger)
	for k := range n {
		on := devices[k%len(devices)]
		p.Device = max(0, on-1)
		p.Quantile = float64(k+1) / float64(n+1)
		a, ok := r.Belief.Next(p)
		if !ok {
			continue
		}
		taken[a.Index]++
		next = append(next, Wanted{r.Span.Id(a.Index), r.Span.Purpose(a.Index), on})
	}
	if len(next) == 0 {
		next = []Wanted{{Commit: r.Span.Id(i), Purpose: r.Span.Purpose(i)}}
	}
	Announce(r, next)
	for _, w := range next {
		if _, err := r.Try(w.Commit, w.Purpose); err != nil {
			return err
		}
	}
	return nil
}

// pick is a launch that is wanted with some chance.
type pick struct {
	Wanted
	chance float64
}

// frontier is what the decisions of a run lead to. weights holds, for each commit, the probability that it is the
// culprit; they need not add up to 1.
type frontier struct {
	run     *Run
	weights []float64
	chance  func(i int) float64 // see belief.Prices
}

func newFrontier(r *Run) frontier {
	chance := r.Span.chances(r.Ledger.launched)
	if r.Belief != nil {
		return frontier{r, r.Belief.Weights(), chance}
	}
	return frontier{r, expected(r), chance}
}

// commits lists the commits that the next decisions lead to, at most n. Each one splits a part of the
// culprit's probability in two, and the largest part is split next: the middle of the suspects, the middles of either
// half, and so on. chance is the size of the part that a commit splits, which is how likely the search gets there. The
// first pick is commit i, if that is a new one.
//
// A commit that has begun already counts as the middle if it lies near it, so that what was done for one decision serves
// the next.
func (f frontier) commits(i, n int) (picks []pick) {
	r := f.run
	if r.graph == nil {
		r.graph = bisect.NewGraph(r.Span.Commits)
	}
	bad := r.graph.Masses(f.weights)
	total := 0.0
	for _, w := range f.weights {
		total += w
	}
	type part struct{ low, high float64 } // of the probability to be bad
	open := []part{{0, 1}}
	for first := true; len(open) > 0 && len(picks) < n; first = false {
		k := 0
		for j := range open {
			if open[j].high-open[j].low > open[k].high-open[k].low {
				k = j
			}
		}
		p := open[k]
		open = slices.Delete(open, k, k+1)
		at := i
		if !first || i < 0 || r.Ledger.launched[r.Span.Id(i)] || r.Span.IsEnd(i) {
			at = f.middle(bad, total, p.low, p.high)
		}
		if at < 0 {
			continue
		}
		picks = append(picks, pick{Wanted{Commit: r.Span.Id(at), Purpose: bisect.Searching}, p.high - p.low})
		if b := bad[at] / total; b > p.low && b < p.high {
			open = append(open, part{p.low, b}, part{b, p.high})
		}
	}
	return picks
}

// middle is the commit never launched whose probability to be bad lies nearest to halfway between low and high, less so if
// it may not be testable, see belief.Nearest. One that has begun is preferred, the likelier the more, if it lies near enough;
// -1: there is none. bad holds unnormalised probabilities, which add up to total.
func (f frontier) middle(bad []float64, total, low, high float64) int {
	const near = 0.2 // of the distance between the two
	best, at := math.Inf(-1), -1
	for k, b := range bad {
		b /= total
		learned := f.run.Belief == nil && f.weights[k] == 0 && f.run.Span.Prior[k] > 0 // that it will not be launched
		if r := f.run; learned || b <= low+1e-9 || b >= high-1e-9 || !r.Span.Launchable(k) || r.Span.IsEnd(k) || r.Ledger.launched[r.Span.Id(k)] {
			continue
		}
		off := math.Abs(b-(low+high)/2) / (high - low)
		worth := belief.Prices{Chance: f.chance}.Testable(k) * (1 - 2*off)
		if off < near {
			worth += 2 * f.run.foreseen[k]
		}
		if worth > best+1e-9 {
			best, at = worth, k
		}
	}
	return at
}

// proofs adds the clean builds that proofs of the likeliest culprits will take, those of their parents too, and the
// launch that a likely culprit gets once more before it is believed. It orders all picks by their chance.
func (f frontier) proofs(picks []pick) []pick {
	r := f.run
	const likely = 0.2
	if r.Search.Fast || r.Belief == nil {
		return picks
	}
	for k, w := range f.weights {
		if w < likely || !r.Span.Launchable(k) {
			continue
		}
		if r.Ledger.launched[r.Span.Id(k)] && !r.Span.IsEnd(k) { // it is launched once more before it is believed
			picks = append(picks, pick{Wanted{Commit: r.Span.Id(k), Purpose: bisect.Searching}, w})
		}
		for _, p := range proofOf(r.Span, []int{k}) {
			if r.Ledger.count[launchKey{p.Commit, p.Purpose}] == 0 {
				picks = append(picks, pick{p, w})
			}
		}
	}
	slices.SortStableFunc(picks, func(a, b pick) int { return cmp.Compare(b.chance, a.chance) })
	return picks
}

// prices says what the next launches will cost. What is built ahead is as good as built.
func (r *Run) prices() belief.Prices {
	p := r.Ledger.prices(r.Question)
	p.Ready = func(i int) float64 {
		if r.Ledger.launched[r.Span.Id(i)] {
			return 1
		}
		return r.foreseen[i]
	}
	if len(r.foreseen) > 0 { // of two that tell as much, the one that may have begun is launched
		p.Build = max(p.Build, p.Pass*belief.Readiness/belief.BuildShare)
	}
	p.Usable = r.Span.Launchable
	p.Chance = r.Span.chances(r.Ledger.launched)
	return p
}
