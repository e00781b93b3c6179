package find

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/search/question"
)

// otherMetrics looks for what else the ends differ in.
type otherMetrics struct {
	q *question.Level
	r *search.Run
}

// warn names the metrics that the ends differ in as well: a search is about one of them.
func (o *otherMetrics) warn() {
	f := &o.r.Account.Finding
	if f.Complaint.Metric == "" || f.Result != bisect.Found && f.Result != bisect.Inconclusive {
		return
	}
	tell := func(m metric.Metric, figures string) {
		o.r.Account.Warn(fmt.Sprintf("the ends differ in %s as well (%s)\nhint: kbisect run --metric %s searches for that", m.Name, figures, m.Name))
	}
	o.exact(tell)
	made := question.InParts(o.r.Ledger)
	told := []metric.Metric{o.q.Channel.Metric}
	for _, c := range o.q.Offered { // the whole of a metric before its cases
		if o.r.Ctx.Err() != nil {
			return
		}
		if slices.Contains(told, c.Metric) || c.Metric.OfProcess() {
			continue
		}
		if e := (&otherMetrics{o.q.With(c), o.r}).unexplained(made); e != nil {
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
	ledger := o.q.Ledger(o.r, made)
	count := map[int]int{}
	var ends [2][]float64
	for _, l := range ledger {
		count[l.Index]++
		switch l.Index {
		case belief.GoodEnd:
			ends[0] = append(ends[0], l.Y)
		case o.r.Span.Bad():
			ends[1] = append(ends[1], l.Y)
		}
	}
	few := min(len(ends[0]), len(ends[1]))
	if few < question.FewEndPairs {
		return nil
	}
	d, sd := levels.FitProfile([]int{belief.GoodEnd, o.r.Span.Bad()}, ledger).Diff(0, 1)
	rest, err := d, sd
	for _, c := range o.r.Account.Finding.Culprits {
		i := o.r.Span.Index[c.Commit]
		if p, ok := o.r.Span.FirstParent(c.Parents); ok && count[i] > 0 && count[p] > 0 {
			own, e := levels.FitProfile([]int{p, i}, ledger).Diff(0, 1)
			rest, err = rest-own, math.Hypot(err, e)
		}
	}
	clear := math.Sqrt(question.ClearlyDiffer*question.ClearlyDiffer + 2*math.Log(float64(len(o.q.Offered))))
	if few < question.MinEndPairs { // a hint needs no proof
		few, _ := question.Known(d, ends, 0)
		sd, clear = max(sd, few), question.Remarkable
	}
	if least := metric.EffectMargin * o.r.Least; d > least && d > clear*sd && rest > least && rest > question.Remarkable*err {
		return o.q.Effect(d, sd)
	}
	return nil
}

// exact does so for exact numbers: the one of each metric that got most worse.
func (o *otherMetrics) exact(tell func(metric.Metric, string)) {
	x := &o.q.Exact
	worst := map[metric.Metric]int{}
	for k, c := range x.Channels {
		if w, ok := worst[c.Metric]; !ok || x.Step(k) > x.Step(w) {
			worst[c.Metric] = k
		}
	}
	for _, m := range o.r.Search.Metrics {
		k, ok := worst[m]
		if !ok || m == o.q.Channel.Metric || x.Step(k) < o.r.Least {
			continue
		}
		brought := 0.0 // by the culprits that were found, as far as they and their parents were launched
		of := o.q.With(x.Channels[k])
		for _, c := range o.r.Account.Finding.Culprits {
			after, ok := of.Figure(o.r.Ledger, c.Commit)
			if p, known := o.r.Span.FirstParent(c.Parents); ok && known {
				if before, ok := of.Figure(o.r.Ledger, o.r.Span.Id(p)); ok {
					brought += o.q.Sign() * (after.Level - before.Level)
				}
			}
		}
		if x.Step(k)-brought >= o.r.Least {
			tell(m, x.Channels[k].Name()+": "+x.Texts[k])
		}
	}
}
