package judge

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/montanaflynn/stats"
	"golang.org/x/perf/benchmath"

	"github.com/kbisect/kbisect/bisect"
)

// Bounds of the plain rule, in launches of each side.
const (
	minPairs  = 6     // complete separation of 6 against 6 has p = 0.002, two-sided
	maxPairs  = 16    // then "cannot separate them at this noise"
	minRounds = 2     // of a candidate between the ends
	maxRounds = 12    // then the candidate stays undecided
	endAlpha  = 0.003 // two-sided Mann–Whitney p at which two sides count as different
)

// slowState is what is known about a metric after the ends.
type slowState struct {
	metric Metric
	step   float64 // ln(bad/good), above 0: worse
	sd     float64 // of one launch
}

// level returns the number that stands for one process: the logarithm of the median of its samples,
// averaged over its cases, with the sign turned so that larger is worse.
func (m Metric) level(o bisect.Outcome) (float64, bool) {
	v, ok := m.log(o)
	ok = ok && o.Unfit == ""
	if m.Higher {
		v = -v
	}
	return v, ok
}

func (m Metric) log(o bisect.Outcome) (float64, bool) {
	if m.Name == "wall" {
		return math.Log(o.Wall), o.Wall > 0
	}
	if phase, ok := strings.CutPrefix(m.Name, "phase."); ok {
		for _, p := range o.Phases {
			if p.Name == phase && p.Seconds > 0 {
				return math.Log(p.Seconds), true
			}
		}
		return 0, false
	}
	sum, n := 0.0, 0
	for _, s := range o.Series {
		if s.Metric != m.Name {
			continue
		}
		med, err := stats.Median(s.Values)
		if err != nil || !(med > 0) {
			continue
		}
		sum += math.Log(med)
		n++
	}
	return sum / float64(max(n, 1)), n > 0
}

// sides are the launches of two candidates that are compared.
type sides struct{ a, b []float64 }

// step is the difference of the medians, b above a.
func (s sides) step() float64 { return median(s.b) - median(s.a) }

// differ is the exact two-sided Mann–Whitney p.
func (s sides) differ() float64 {
	t := benchmath.DefaultThresholds
	return benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(s.a), &t), benchmath.NewSample(slices.Clone(s.b), &t)).P
}

// spread is the robust standard deviation of one launch.
func (s sides) spread() float64 {
	var res []float64
	for _, side := range [][]float64{s.a, s.b} {
		m := median(side)
		for _, v := range side {
			res = append(res, math.Abs(v-m))
		}
	}
	return max(1.4826*median(res), 0.0005)
}

// interval is the 95 % bootstrap interval of the step over launches; the same numbers give the
// same interval.
func (s sides) interval() (low, high float64) {
	const draws = 1000
	rng := rand.New(rand.NewPCG(1, uint64(len(s.a))<<32|uint64(len(s.b))))
	resample := func(v []float64) float64 {
		w := make([]float64, len(v))
		for i := range w {
			w[i] = v[rng.IntN(len(v))]
		}
		return median(w)
	}
	steps := make([]float64, draws)
	for i := range steps {
		steps[i] = resample(s.b) - resample(s.a)
	}
	slices.Sort(steps)
	return steps[draws*25/1000], steps[draws*975/1000-1]
}

// effect states the step as a ratio of the metric itself.
func (m Metric) effect(s sides) *bisect.Effect {
	low, high := s.interval()
	e := bisect.Effect{Metric: m.Name, Ratio: math.Exp(s.step()), Low: math.Exp(low), High: math.Exp(high)}
	if m.Higher {
		e.Ratio, e.Low, e.High = 1/e.Ratio, 1/e.High, 1/e.Low
	}
	return &e
}

func median(v []float64) float64 {
	m, err := stats.Median(v)
	if err != nil {
		return math.NaN()
	}
	return m
}

// slowEnds compares the ends by the metrics that both of them sent.
func (p *Plain) slowEnds(ctx context.Context, g, b bisect.Outcome, e bisect.Ends) (bisect.Ends, error) {
	e = withVerdicts(e, g, b)
	var ms []Metric
	for _, m := range p.Metrics {
		_, inGood := m.log(g)
		_, inBad := m.log(b)
		if inGood && inBad {
			ms = append(ms, m)
		}
	}
	if len(ms) == 0 {
		if len(p.Metrics) > 0 && p.Find == bisect.Slow {
			e.Why = fmt.Sprintf("both ends end well, and neither sent a value of %s", p.Metrics[0].Name)
			e.Hint = "send samples on KBISECT_FD, or choose one of " + strings.Join(sent(g, b), ", ") + " with --metric"
		}
		return e, nil
	}
	all := make([]sides, len(ms))
	add := func(o bisect.Outcome, bad bool) {
		for i, m := range ms {
			if v, ok := m.level(o); ok && bad {
				all[i].b = append(all[i].b, v)
			} else if ok {
				all[i].a = append(all[i].a, v)
			}
		}
	}
	add(g, false)
	add(b, true)
	p.timing = true
	for n := 1; ; n++ {
		if n >= minPairs {
			if i, done := p.separated(ms, all, n); done {
				return p.slowAnswer(e, ms[i], all[i]), nil
			}
		}
		if err := p.pair(ctx, p.good, p.bad, bisect.EndGood, bisect.EndBad, n%2 == 1, add); err != nil {
			return e, err
		}
	}
}

// sent lists the metrics that both ends have values of.
func sent(g, b bisect.Outcome) []string {
	names := []string{"wall"}
	for _, p := range g.Phases {
		names = append(names, "phase."+p.Name)
	}
	for _, s := range g.Series {
		names = append(names, s.Metric)
	}
	names = slices.DeleteFunc(names, func(n string) bool { _, ok := (Metric{Name: n}).log(b); return !ok })
	slices.Sort(names)
	return slices.Compact(names)
}

// separated picks the metric that got worse most and says whether enough is known about it.
func (p *Plain) separated(ms []Metric, all []sides, n int) (pick int, done bool) {
	best := math.Inf(-1)
	for i := range ms {
		if len(all[i].a) < minPairs || len(all[i].b) < minPairs {
			continue
		}
		if d := all[i].step(); d > best {
			best, pick = d, i
		}
	}
	s := all[pick]
	if math.IsInf(best, -1) {
		return pick, n >= 2*maxPairs
	}
	if n >= maxPairs || p.differs(s) {
		return pick, true
	}
	se := 1.2533 * s.spread() * math.Sqrt(1/float64(len(s.a))+1/float64(len(s.b)))
	return pick, best+3*se < math.Log1p(p.Effect)
}

// differs reports a step worth finding that is more than noise.
func (p *Plain) differs(s sides) bool {
	return s.step() >= 0.67*math.Log1p(p.Effect) && s.differ() <= endAlpha
}

// slowAnswer fills in what the comparison of the ends showed.
func (p *Plain) slowAnswer(e bisect.Ends, m Metric, s sides) bisect.Ends {
	if len(s.a) == 0 || len(s.b) == 0 {
		e.Unclear = true
		e.Why = fmt.Sprintf("no launch gave a value of %s that can be compared", m.Name)
		e.Hint = "kbisect show lists what each of them gave"
		return e
	}
	eff := m.effect(s)
	e.Differ = p.differs(s)
	e.Why = fmt.Sprintf("%s, bad end against good end: ratio %.3f (95 %% interval %.3f to %.3f, %d launches each, Mann–Whitney p %.2g)",
		m.Name, eff.Ratio, eff.Low, eff.High, len(s.b), s.differ())
	e.Hint = ""
	e.Good.Trials, e.Bad.Trials = len(s.a), len(s.b)
	if e.Differ {
		p.slow = slowState{metric: m, step: s.step(), sd: s.spread()}
		e.Complaint = bisect.Complaint{Class: bisect.Slow, Metric: m.Name, Ends: eff}
		e.Bad.Call, e.Bad.Ratio, e.Bad.Class = bisect.Bad, eff, bisect.Slow
		e.Bad.Why = fmt.Sprintf("%s %s times the good end's", m.Name, ratio(eff))
		p.complaint = e.Complaint
		return e
	}
	worst := eff.High
	if m.Higher {
		worst = 1 / eff.Low
	}
	if worst > 1+p.Effect {
		e.Unclear = true
		e.Why = "this machine is too noisy to tell whether the ends differ: " + e.Why
		e.Hint = "use a quieter machine or a program that runs longer, or look for a larger change only with [judge] effect"
		return e
	}
	e.Hint = fmt.Sprintf("smallest change looked for: %.3g %%; set [judge] effect to look for a smaller one", 100*p.Effect)
	return e
}

func ratio(e *bisect.Effect) string {
	return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Ratio, e.Low, e.High)
}

// pair launches two candidates side by side, the second first when turned.
func (p *Plain) pair(ctx context.Context, a, b bisect.Candidate, whyA, whyB bisect.Purpose, turned bool, add func(bisect.Outcome, bool)) error {
	for i := range 2 {
		second := (i == 1) != turned
		c, why := a, whyA
		if second {
			c, why = b, whyB
		}
		o, err := p.steady(ctx, c, why)
		if err != nil {
			return err
		}
		add(o, second)
	}
	return nil
}

// steady launches an end that has ended well before. One failure among many launches is set aside;
// an end that keeps failing cannot serve as a reference.
func (p *Plain) steady(ctx context.Context, c bisect.Candidate, why bisect.Purpose) (bisect.Outcome, error) {
	const tries = 3
	for n := 1; ; n++ {
		o, err := p.launch(ctx, c, why)
		if err == nil {
			p.drop(why, o)
		}
		if err != nil || o.Class == bisect.OK {
			return o, err
		}
		if n == tries {
			what := fmt.Sprintf("launching %s (%s) again", c.Commit[:min(10, len(c.Commit))], why)
			return o, &bisect.InfraError{What: what, Err: fmt.Errorf("it ended well before and failed %d times in a row now: %s", tries, o.Describe())}
		}
	}
}

// slowJudge assigns a candidate to the nearer end. What is faster than the good end is good, and
// what is slower than the bad end is bad: only the side that faces the other end counts as a miss.
func (p *Plain) slowJudge(ctx context.Context, c bisect.Candidate) (bisect.Verdict, error) {
	m, d := p.slow.metric, p.slow.step
	steps := math.Max(1, math.Ceil(math.Log2(float64(max(2, p.Commits)))))
	enough := math.Log(2*steps/max(p.Error, 1e-6) - 1)
	llr, n := 0.0, 0
	var got, ref []float64
	for n < maxRounds && (n < minRounds || math.Abs(llr) < enough) {
		y, o, err := p.round(ctx, c, n)
		if err != nil {
			return bisect.Verdict{}, err
		}
		if o.Class != bisect.OK {
			return p.verdict(o, n+1), nil
		}
		n++
		middle := (y[0] + y[2]) / 2
		got, ref = append(got, y[1]), append(ref, y[0])
		u := y[1] - middle
		sd := p.slow.sd * math.Sqrt(1.5)
		llr += logDensity(max(0, d/2-u), sd) - logDensity(max(0, u+d/2), sd)
	}
	eff := m.effect(sides{ref, got})
	v := bisect.Verdict{Class: bisect.OK, Trials: n, Ratio: eff, Probability: 1 / (1 + math.Exp(-math.Abs(llr)))}
	v.Why = fmt.Sprintf("%s %.3f times the good end's, %d launches", m.Name, eff.Ratio, n)
	switch {
	case math.Abs(llr) < enough:
		v.Call, v.Probability = bisect.Untestable, 1
		v.Why = "between the ends: " + v.Why
	case llr > 0:
		v.Call, v.Class = bisect.Bad, bisect.Slow
	default:
		v.Call = bisect.Good
	}
	return v, nil
}

// round launches good end, candidate and bad end, in an order that turns from round to round.
// o is the candidate's outcome where that is not OK.
func (p *Plain) round(ctx context.Context, c bisect.Candidate, n int) (y [3]float64, o bisect.Outcome, err error) {
	all := [3]bisect.Candidate{p.good, c, p.bad}
	why := [3]bisect.Purpose{bisect.EndGood, bisect.Searching, bisect.EndBad}
	order := [][3]int{{1, 0, 2}, {2, 1, 0}, {0, 2, 1}}[n%3]
	for _, i := range order {
		launch := p.steady
		if i == 1 {
			launch = p.launch
		}
		out, err := launch(ctx, all[i], why[i])
		if err != nil {
			return y, out, err
		}
		v, ok := p.slow.metric.level(out)
		if out.Class == bisect.OK && !ok {
			out.Class, out.Why = bisect.Skip, "it sent no value of "+p.slow.metric.Name
		}
		if out.Class != bisect.OK {
			return y, out, nil
		}
		y[i] = v
	}
	o.Class = bisect.OK
	return y, o, nil
}

// logDensity is normal noise with one launch in twenty disturbed.
func logDensity(u, sd float64) float64 {
	wide := math.Sqrt(sd*sd + 0.01)
	n := func(s float64) float64 { return math.Exp(-u*u/(2*s*s)) / s }
	return math.Log(0.95*n(sd) + 0.05*n(wide))
}

// slowConfirm compares the culprit with each parent in fresh pairs.
func (p *Plain) slowConfirm(ctx context.Context, culprit bisect.Candidate, parents []bisect.Candidate) (bisect.Confirmation, error) {
	var conf bisect.Confirmation
	conf.Culprit = bisect.Verdict{Call: bisect.Bad, Class: bisect.Slow, Probability: 1}
	m := p.slow.metric
	for _, parent := range parents {
		s, bad, err := p.comparePair(ctx, parent, culprit)
		if err != nil {
			return conf, err
		}
		if bad != nil { // one side could not be launched
			v := p.verdict(*bad, 1)
			conf.Parents = append(conf.Parents, v)
			continue
		}
		eff := m.effect(s)
		if conf.Effect == nil || math.Abs(math.Log(eff.Ratio)) < math.Abs(math.Log(conf.Effect.Ratio)) {
			conf.Effect = eff
		}
		why := fmt.Sprintf("%s, commit against parent: ratio %s, %d launches each, Mann–Whitney p %.2g", m.Name, ratio(eff), len(s.b), s.differ())
		v := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: 1 - s.differ()/2, Trials: len(s.a)}
		v.Why = fmt.Sprintf("launched in turn with %s", culprit.Commit[:min(10, len(culprit.Commit))])
		conf.Culprit.Why, conf.Culprit.Trials, conf.Culprit.Ratio = why, len(s.b), eff
		if !(s.step() > p.slow.step/3 && s.differ() <= endAlpha) {
			conf.Culprit.Call, conf.Culprit.Class = bisect.Good, bisect.OK // no slower than its parent
		}
		conf.Parents = append(conf.Parents, v)
	}
	return conf, nil
}

// comparePair launches parent and culprit in turn until they are clearly apart or the bound is met.
func (p *Plain) comparePair(ctx context.Context, parent, culprit bisect.Candidate) (s sides, failed *bisect.Outcome, err error) {
	for n := 0; n < maxPairs; n++ {
		if n >= minPairs && s.step() > p.slow.step/3 && s.differ() <= endAlpha {
			break
		}
		for i := range 2 {
			c, why, side := parent, bisect.ConfirmParent, &s.a
			if (i == 1) != (n%2 == 1) {
				c, why, side = culprit, bisect.ConfirmCulprit, &s.b
			}
			o, err := p.launch(ctx, c, why)
			if err != nil {
				return s, nil, err
			}
			v, ok := p.slow.metric.level(o)
			if o.Class != bisect.OK || !ok {
				return s, &o, nil
			}
			*side = append(*side, v)
		}
	}
	return s, nil, nil
}
