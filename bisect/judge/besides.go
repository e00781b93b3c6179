package judge

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// besides is what culprit i did to the metric beside the number that was searched for: to all cases
// together where that was one case, and to the case that it moved most where that was all of them. A case
// counts if it lies clearly above the others.
func (r *slowdownRun) besides(i int, rounds []*contest) []bisect.Effect {
	p, ok := r.fought(rounds)
	if !ok || r.picked.Metric.Exact {
		return nil
	}
	picked := r.picked
	defer func() { r.picked = picked }()
	whole, err := 0.0, 0.0
	var most *bisect.Effect
	all := r.kin(r.id(p), r.id(i))
	clear := math.Sqrt(falls*falls + 2*math.Log(float64(max(1, len(all)-1))))
	far := r.least()
	made := r.inParts()
	for _, c := range all {
		if r.ctx.Err() != nil {
			return nil
		}
		r.picked = c
		d, sd := belief.FitProfile([]int{p, i}, r.ledgerOf(made)).Diff(0, 1)
		switch {
		case !c.All && picked.All:
			if d-whole > far && d-whole > clear*math.Hypot(sd, err) {
				most, far = r.effect(d, sd), d-whole
			}
		case c.All && picked.All:
			whole, err = d, sd
		case c.All:
			most = r.effect(d, sd)
		}
	}
	if most == nil {
		return nil
	}
	return []bisect.Effect{*most}
}

// fought is the parent, by index, that the culprit was launched in turn with first.
func (r *slowdownRun) fought(rounds []*contest) (parent int, ok bool) {
	for _, c := range rounds {
		if i, known := r.index[c.parent]; known && c.lost == "" && c.test.Pairs() > 0 {
			return i, true
		}
	}
	return 0, false
}

// kin are the numbers of the metric searched for that two commits give, the whole before its cases; none
// where the metric has no cases.
func (r *slowdownRun) kin(parent, culprit string) []metric.Channel {
	var of [2]*bisect.Outcome
	for _, t := range r.plain.Sampler.(*once).made {
		if k := slices.Index([]string{parent, culprit}, t.Candidate.Commit); k >= 0 && t.Class == bisect.OK {
			of[k] = &t.Outcome
		}
	}
	if of[0] == nil || of[1] == nil {
		return nil
	}
	return metric.Channels([]metric.Metric{r.picked.Metric}, *of[0], *of[1])
}
