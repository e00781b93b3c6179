package search

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// otherMetrics looks for what else the ends differ in.
type otherMetrics struct {
	q *level
	r *run
}

// warn names the metrics that the ends differ in as well: a search is about one of them.
func (o *otherMetrics) warn() {
	f := &o.r.out.f
	if f.Complaint.Metric == "" || f.Result != bisect.Found && f.Result != bisect.Inconclusive {
		return
	}
	tell := func(m metric.Metric, figures string) {
		o.r.out.warn(fmt.Sprintf("the ends differ in %s as well (%s)\nhint: kbisect run --metric %s searches for that", m.Name, figures, m.Name))
	}
	o.exact(tell)
	made := o.r.led.inParts()
	told := []metric.Metric{o.q.channel.Metric}
	for _, c := range o.q.offered { // the whole of a metric before its cases
		if o.r.ctx.Err() != nil {
			return
		}
		if slices.Contains(told, c.Metric) || c.Metric.OfProcess() {
			continue
		}
		if e := (&otherMetrics{o.q.with(c), o.r}).unexplained(made); e != nil {
			told = append(told, c.Metric)
			of := ""
			if !c.All && c.Case != "" {
				of = "in " + c.Case
			}
			tell(c.Metric, strings.TrimSpace(fmt.Sprintf("%.2f times %s", e.Ratio, of)))
		}
	}
}

// unexplained is by how much the bad end is worse, where it clearly is and the culprits
// found are not all of it; nil where there is nothing to tell.
func (o *otherMetrics) unexplained(made []metric.Parts) *bisect.Effect {
	ledger := o.q.ledger(o.r, made)
	count := map[int]int{}
	var levels [2][]float64
	for _, l := range ledger {
		count[l.Index]++
		switch l.Index {
		case belief.GoodEnd:
			levels[0] = append(levels[0], l.Y)
		case o.r.span.bad():
			levels[1] = append(levels[1], l.Y)
		}
	}
	few := min(len(levels[0]), len(levels[1]))
	if few < fewEndPairs {
		return nil
	}
	d, sd := belief.FitProfile([]int{belief.GoodEnd, o.r.span.bad()}, ledger).Diff(0, 1)
	rest, err := d, sd
	for _, c := range o.r.out.f.Culprits {
		i := o.r.span.index[c.Commit]
		if p, ok := o.r.span.firstParent(c.Parents); ok && count[i] > 0 && count[p] > 0 {
			own, e := belief.FitProfile([]int{p, i}, ledger).Diff(0, 1)
			rest, err = rest-own, math.Hypot(err, e)
		}
	}
	clear := math.Sqrt(zEnd*zEnd + 2*math.Log(float64(len(o.q.offered))))
	if few < minEndPairs { // a hint needs no proof
		few, _ := known(d, levels)
		sd, clear = max(sd, few), falls
	}
	if least := metric.EffectMargin * o.r.least; d > least && d > clear*sd && rest > least && rest > falls*err {
		return o.q.effect(d, sd)
	}
	return nil
}

// exact does so for exact numbers: the one of each metric that got most worse.
func (o *otherMetrics) exact(tell func(metric.Metric, string)) {
	x := &o.q.exact
	worst := map[metric.Metric]int{}
	for k, c := range x.channels {
		if w, ok := worst[c.Metric]; !ok || x.step(k) > x.step(w) {
			worst[c.Metric] = k
		}
	}
	for _, m := range o.r.s.Metrics {
		k, ok := worst[m]
		if !ok || m == o.q.channel.Metric || x.step(k) < o.r.least {
			continue
		}
		brought := 0.0 // by the culprits that were found, as far as they and their parents were launched
		of := o.q.with(x.channels[k])
		for _, c := range o.r.out.f.Culprits {
			after, ok := of.figure(o.r.led, c.Commit)
			if p, known := o.r.span.firstParent(c.Parents); ok && known {
				if before, ok := of.figure(o.r.led, o.r.span.id(p)); ok {
					brought += o.q.sign() * (after.Level - before.Level)
				}
			}
		}
		if x.step(k)-brought >= o.r.least {
			tell(m, x.channels[k].Name()+": "+x.texts[k])
		}
	}
}
