package judge

import (
	"fmt"
	"math"
	"slices"
	"strings"

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

// tellOtherMetrics names the metrics that the ends differ in as well: a search is about one of them.
func (r *slowdownRun) tellOtherMetrics() {
	if r.f.Complaint.Metric == "" || r.f.Result != bisect.Found && r.f.Result != bisect.Inconclusive {
		return
	}
	tell := func(m metric.Metric, figures string) {
		r.warn(fmt.Sprintf("the ends differ in %s as well (%s)\nhint: kbisect run --metric %s searches for that", m.Name, figures, m.Name))
	}
	r.tellOtherExact(tell)
	picked := r.picked
	defer func() { r.picked = picked }()
	made := r.inParts()
	told := []metric.Metric{picked.Metric}
	for _, c := range r.offered { // the whole of a metric before its cases
		if r.ctx.Err() != nil {
			return
		}
		if slices.Contains(told, c.Metric) || c.Metric.OfProcess() {
			continue
		}
		r.picked = c
		if e := r.unexplained(r.ledgerOf(made)); e != nil {
			told = append(told, c.Metric)
			tell(c.Metric, strings.TrimSpace(fmt.Sprintf("%.2f times %s", e.Ratio, r.ofCase(c))))
		}
	}
}

// ofCase names the case of a channel that is about one.
func (r *slowdownRun) ofCase(c metric.Channel) string {
	if c.All || c.Case == "" {
		return ""
	}
	return "in " + c.Case
}

// unexplained is by how much the bad end is worse in the picked channel, where it clearly is and the culprit
// that was found is not all of it; nil where there is nothing to tell.
func (r *slowdownRun) unexplained(ledger []belief.Launch) *bisect.Effect {
	count := map[int]int{}
	for _, l := range ledger {
		count[l.Index]++
	}
	last := len(r.commits) - 1
	if min(count[belief.GoodEnd], count[last]) < minEndPairs {
		return nil
	}
	d, sd := belief.FitProfile([]int{belief.GoodEnd, last}, ledger).Diff(0, 1)
	rest, err := d, sd
	for _, c := range r.f.Culprits {
		i := r.index[c.Commit]
		p, ok := r.index[firstOf(c.Parents)]
		if !ok || count[i] == 0 || count[p] == 0 {
			continue
		}
		own, e := belief.FitProfile([]int{p, i}, ledger).Diff(0, 1)
		rest, err = rest-own, math.Hypot(err, e)
	}
	clear := math.Sqrt(zEnd*zEnd + 2*math.Log(float64(len(r.offered))))
	if least := metric.EffectMargin * r.least(); d > least && d > clear*sd && rest > least && rest > falls*err {
		return r.effect(d, sd)
	}
	return nil
}

// tellOtherExact does so for exact numbers: the one of each metric that got most worse.
func (r *slowdownRun) tellOtherExact(tell func(metric.Metric, string)) {
	x := &r.exact
	worst := map[metric.Metric]int{}
	for k, c := range x.channels {
		if w, ok := worst[c.Metric]; !ok || x.step(k) > x.step(w) {
			worst[c.Metric] = k
		}
	}
	for _, m := range r.Metrics {
		if k, ok := worst[m]; ok && m != r.picked.Metric && x.step(k) >= r.least() && x.step(k)-r.brought(x.channels[k]) >= r.least() {
			tell(m, x.channels[k].Name()+": "+x.texts[k])
		}
	}
}

// brought is by how much the culprits that were found made an exact number worse, as far as they and their
// parents were launched.
func (r *slowdownRun) brought(c metric.Channel) (step float64) {
	level := func(commit string) (float64, bool) {
		for _, t := range r.plain.Sampler.(*once).made {
			if f, ok := c.Figure(t.Outcome); ok && t.Candidate.Commit == commit && t.Class == bisect.OK {
				return r.sign() * f.Level, true
			}
		}
		return 0, false
	}
	for _, x := range r.f.Culprits {
		after, ok := level(x.Commit)
		before, known := level(firstOf(x.Parents))
		if ok && known {
			step += after - before
		}
	}
	return step
}
