package search

import (
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// level asks which commit made a metric worse. Its belief is [belief.Levels].
type level struct {
	channel  metric.Channel   // what is searched for
	channels []metric.Channel // what the ends are compared by
	offered  []metric.Channel // all of those at first
	exact    exactNumbers
	faster   bool
	part     *part   // what a run inside a part of the range knows beforehand; nil: of the whole
	ramp     bool    // no step explains the launches
	noise    float64 // of the ends, where few launches told them apart; 0: launches told it
	failed   int     // proofs that did not bear out the search
}

// part is what is known before a run inside a part of the range begins.
type part struct {
	offset []float64 // by commit: what takes its level to that of a history without the known culprits
}

// sign takes levels to those of the metric itself.
func (q *level) sign() float64 {
	if q.faster {
		return -1
	}
	return 1
}

// number is the metric at a level.
func (q *level) number(y float64) float64 { return q.channel.Value(q.sign() * y) }

// class is what the search is about.
func (q *level) class() bisect.Class {
	if q.faster {
		return bisect.Improved
	}
	return bisect.Slow
}

// inChannels are the metrics that are compared launch by launch.
func inChannels(channels []metric.Channel, of []metric.Metric) (out []metric.Metric) {
	for _, m := range of {
		for _, c := range channels {
			if c.Metric == m {
				out = append(out, m)
				break
			}
		}
	}
	return out
}

// shape implements question.
func (q *level) shape(r *bisect.Request, _ bool) {
	r.Timing = true
	r.BuildOnly = r.BuildOnly || q.channel.Metric.Exact
}

// read implements question.
func (q *level) read(t Trial) (belief.Launch, answer) {
	m, l := q.channel.Metric, belief.Launch{At: t.At}
	switch {
	case m.OfProcess() && !t.Timing:
		return l, unfit
	case t.Class == bisect.Timeout && m.Name == "wall" && !m.Higher && !q.faster:
		y, ok := m.Level(bisect.Outcome{Wall: t.Wall})
		if l.Y, l.Censored = y, true; ok {
			return l, speaks
		}
		return l, unfit
	case untestable(t.Outcome):
		return l, silent
	case t.Class != bisect.OK:
		return l, another
	}
	y, ok := q.channel.Level(t.Outcome)
	l.Y = q.sign() * y
	switch {
	case ok:
		return l, speaks
	case t.Unfit != "":
		return l, unfit
	}
	return l, silent
}

// verdict implements question.
func (q *level) verdict(r *run, t visit) bisect.Verdict {
	p := r.b.Bad(t.at)
	v := bisect.Verdict{Class: bisect.OK, Trials: t.n, Probability: max(p, 1-p)}
	switch {
	case p > 0.9:
		v.Call, v.Class = bisect.Bad, q.class()
	case p < 0.1:
		v.Call = bisect.Good
	default:
		v.Call, v.Probability = bisect.Untestable, 1
	}
	times := "once"
	if t.n != 1 {
		times = fmt.Sprintf("%d times", t.n)
	}
	v.Why = fmt.Sprintf("%s: %s with probability %.3g, launched %s for it", q.channel.Name(), q.class(), p, times)
	if q.channel.Metric.Exact {
		v.Why = fmt.Sprintf("%s: %s", q.channel.Name(), q.exactValue(r.led, r.span.id(t.at)))
	}
	return v
}

// belief implements question.
func (q *level) belief(r *run) belief.Belief { return q.levels(r) }

func (q *level) levels(r *run) *belief.Levels {
	m := belief.NewLevels(r.span.commits, r.span.prior)
	if q.part != nil {
		m.Offset(q.part.offset)
	}
	return m
}

// The rules by which the ends are told apart, and a search is given up.
const (
	zEnd          = 4.0 // standard deviations by which the ends must differ
	minEndPairs   = 4   // pairs of launches of both ends without which noise is not measured
	fewEndPairs   = 2   // pairs that show a difference far above any noise there may be
	minAlikePairs = 8   // before the ends are called alike: modes of the machine may hide a step at first
	minPartPairs  = 3   // new pairs of the ends of a part of the range: it was chosen for what the old ones showed
	maxPartPairs  = 30  // then they are not told apart

	scatters = 2.5 // times the noise of the ends that launches must scatter by to call for more of the ends

	rampGain     = 8.0 // by how much an even ramp must be likelier than any step, as a logarithm
	rampLaunches = 60  // launches that a search may take before that alone ends it
	rampMost     = 400 // launches of a search for a gradual change, in all
)

// settled implements question: an even ramp explains the launches far better than one step anywhere, or the step of the
// ends has turned out to be less than is worth a search, or is still not to be told from none after many launches.
func (q *level) settled(r *run, decided bool) (done, acted bool, err error) {
	m := r.b.(*belief.Levels)
	if decided || q.channel.Metric.Exact {
		return false, false, nil
	}
	made := r.led.launches - r.from
	if q.part == nil && len(r.span.commits) >= 5 && (made >= rampLaunches || q.failed+r.rounds > 0) && m.RampOdds() > rampGain {
		q.ramp = true
		return true, false, nil
	}
	many := 400
	if q.part != nil {
		many = 60
	}
	d, sd := m.Step()
	gone := (q.refuted(r, 3) || d <= 2*sd && made >= many) && r.over() == ""
	if _, v := m.MidLaunch(d); gone || q.noise > 0 && math.Sqrt(v) > scatters*q.noise {
		for i, n := range endLaunches(r) { // what is in doubt are the ends, or the noise
			if n < minEndPairs && r.over() == "" {
				at := []int{belief.GoodEnd, r.span.bad()}[i]
				_, err := r.try(r.span.id(at), r.span.purpose(at))
				return false, true, err
			}
		}
	}
	if !gone {
		return false, false, nil
	}
	if whole, err := belief.FitProfile([]int{belief.GoodEnd, r.span.bad()}, q.ledger(r, nil)).Diff(0, 1); q.part == nil && whole > metric.EffectMargin*r.least && whole > zEnd*err {
		return false, false, nil // they differ all the same: one step does not explain what lies between
	}
	q.unconfirmed(r)
	return true, false, nil
}

// endLaunches counts the launches of the good and of the bad end that still count.
func endLaunches(r *run) (n [2]int) {
	for side, i := range []int{belief.GoodEnd, r.span.bad()} {
		for _, t := range r.led.of(r.span.id(i), "") {
			if l, a := r.q.read(t); a == speaks && !l.Censored {
				n[side]++
			}
		}
	}
	return n
}

// refuted reports that a step worth a search lies z standard deviations above the one that is believed in.
func (q *level) refuted(r *run, z float64) bool {
	d, sd := r.b.(*belief.Levels).Step()
	return d+z*sd < metric.EffectMargin*r.least
}

// unconfirmed ends a search whose ends differed at first and do not after more launches: there is nothing
// to search where a step is ruled out with the error allowed, and no answer where it is not.
func (q *level) unconfirmed(r *run) {
	m := r.b.(*belief.Levels)
	e := &r.out.f.Ends
	e.Differ, e.Untestable = false, false
	e.Why = fmt.Sprintf("the difference that the first launches of the ends showed was not confirmed: %s is %s times the good end's by all %d launches",
		q.channel.Name(), ratio(q.effect(m.Step())), m.Launches())
	if q.refuted(r, max(3, math.Sqrt2*math.Erfcinv(4*r.s.delta()))) {
		e.Hint = smallest(r)
		r.out.f.Complaint = bisect.Complaint{}
		r.out.f.Result, r.out.f.Suspects = bisect.NoDifference, nil
		return
	}
	e.Unclear = true
	e.Hint = "use a quieter machine or a program that runs longer, or look for a larger change only with [judge] effect"
	r.out.inconclusive(r)
}

// smallest is the hint for ends that are alike.
func smallest(r *run) string {
	return fmt.Sprintf("smallest change looked for: %.3g %%; set [judge] effect to look for a smaller one", 100*math.Expm1(r.least))
}

// widen is by how much the deviation of a step is larger than the belief says: its noise is fitted to the same launches,
// and what is launched, and for how long, follows from what they said. It makes the intervals hold at their level, see
// TestBenchCoverage.
const widen = 1.35

// effect states a step with its 95 % interval as a ratio of the metric itself.
func (q *level) effect(d, sd float64) *bisect.Effect {
	if q.channel.Metric.Exact {
		sd = 0
	}
	low, high := d-2*widen*sd, d+2*widen*sd
	if q.channel.Metric.Higher != q.faster {
		d, low, high = -d, -high, -low
	}
	e := &bisect.Effect{Metric: q.channel.Metric.Name, Ratio: math.Exp(d), Low: math.Exp(low), High: math.Exp(high), Higher: q.channel.Metric.Higher}
	if !q.channel.All {
		e.Case = q.channel.Case
	}
	return e
}

func ratio(e *bisect.Effect) string {
	return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Ratio, e.Low, e.High)
}

// with is the question about another number of the same launches.
func (q *level) with(c metric.Channel) *level {
	other := *q
	other.channel = c
	return &other
}

// ledger is all launches so far of the range that gave a number; made are their cases sorted, nil: as they are.
func (q *level) ledger(r *run, made []metric.Parts) (out []belief.Launch) {
	for n, t := range r.led.made {
		i, known := r.span.index[t.Candidate.Commit]
		if !known {
			continue
		}
		if made != nil {
			t.Outcome = made[n].Of(q.channel)
		}
		if l, a := q.read(t); a == speaks {
			l.Index = i
			out = append(out, l)
		}
	}
	return out
}

// inParts is what every launch so far showed, by its cases.
func (l *ledger) inParts() (out []metric.Parts) {
	for _, t := range l.made {
		out = append(out, metric.NewParts(t.Outcome))
	}
	return out
}

// exactFirst reports that the search is about exact numbers: only these are looked for, they stand before
// the others and got worse, or one of them was found to be what got worse.
func (q *level) exactFirst(least float64) bool {
	switch {
	case q.channel.Metric.Exact:
		return true
	case len(q.exact.channels) == 0:
		return false
	}
	return len(q.channels) == 0 || q.exact.lead && q.exact.rises(least)
}

// figure is the number of a commit that was launched, by its newest launch that counts.
func (q *level) figure(l *ledger, id string) (f metric.Figure, ok bool) {
	for _, t := range slices.Backward(l.of(id, "")) {
		if f, ok = q.channel.Figure(t.Outcome); ok && t.Class == bisect.OK {
			return f, true
		}
	}
	return f, false
}

// exactValue is that number for people.
func (q *level) exactValue(l *ledger, id string) string {
	if f, ok := q.figure(l, id); ok {
		return q.channel.Words(f)
	}
	return "not known"
}
