package judge

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// channel is one number that a launch gives: a metric of one case, or of all cases together.
type channel struct {
	metric Metric
	one    string // the case
	all    bool   // the mean over the cases
}

// level is the number of one launch, larger is worse.
func (c channel) level(o bisect.Outcome) (float64, bool) {
	if !c.all {
		o.Series = slices.DeleteFunc(slices.Clone(o.Series), func(s bisect.Series) bool { return s.Case != c.one })
	}
	return c.metric.level(o)
}

func (c channel) name() string {
	if c.all || c.one == "" {
		return c.metric.Name
	}
	return c.metric.Name + " of " + c.one
}

// channels lists what both ends have sent, the whole of a metric before its cases.
func channels(ms []Metric, g, b bisect.Outcome) []channel {
	var out []channel
	for _, m := range ms {
		_, inGood := m.log(g)
		_, inBad := m.log(b)
		if !inGood || !inBad {
			continue
		}
		out = append(out, channel{metric: m, all: true})
		var cases []string
		for _, s := range g.Series {
			if s.Metric == m.Name && !slices.Contains(cases, s.Case) {
				cases = append(cases, s.Case)
			}
		}
		if len(cases) < 2 {
			continue
		}
		for _, name := range cases {
			c := channel{metric: m, one: name}
			if _, ok := c.level(b); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

// look launches each end once; slow is false when that settles what the search is about, or when it
// is not about a metric.
func (r *bankRun) look() (slow bool, err error) {
	g, _, err := r.plain.launches(r.ctx, r.plain.good, bisect.EndGood)
	if err != nil {
		return false, err
	}
	b, _, err := r.plain.launches(r.ctx, r.plain.bad, bisect.EndBad)
	if err != nil {
		return false, err
	}
	e := r.plain.compareEnds(g, b)
	find := r.Options.Find
	if e.Differ || e.Untestable || g.Class != bisect.OK || b.Class != bisect.OK || r.Any || find != "" && find != bisect.Slow {
		return false, nil
	}
	r.channels = channels(r.Metrics, g, b)
	if r.plain.timing || !slices.ContainsFunc(r.Metrics, Metric.ofProcess) {
		r.first = []bisect.Outcome{g, b}
	}
	for i, o := range []bisect.Outcome{g, b} {
		r.launches++
		r.bills.note([]int{GoodEnd, len(r.commits) - 1}[i], o)
	}
	r.plain.timing = true
	return len(r.channels) > 0, nil
}

// ofProcess reports a metric that the first launches of the ends, made to see what they end as, may
// not show as the later ones do.
func (m Metric) ofProcess() bool { return m.Name == "wall" || strings.HasPrefix(m.Name, "phase.") }

// stage is the comparison of the ends: a belief and the levels seen, for every channel.
type stage struct {
	models []*Model
	levels [][2][]float64
}

// stageEnds launches the ends in pairs, good bad, bad good and so on, until a channel is clearly
// worse at the bad end or no channel can be.
func (r *bankRun) stageEnds() (differ bool, err error) {
	if r.part != nil {
		return r.partEnds()
	}
	s := &stage{levels: make([][2][]float64, len(r.channels))}
	for range r.channels {
		s.models = append(s.models, NewModel(r.commits, r.prior))
	}
	for n := 1; ; n++ {
		for k := range 2 {
			if err := r.end(s, (k == 1) == (n%2 == 1)); err != nil {
				return false, err
			}
		}
		pick, state := r.settled(s, n)
		if state == open && n < maxEndPairs && !r.over() {
			continue
		}
		return r.answerEnds(s, pick, state), nil
	}
}

// end launches one end, or takes the launch that was made to begin with.
func (r *bankRun) end(s *stage, bad bool) error {
	i, side := GoodEnd, 0
	if bad {
		i, side = len(r.commits)-1, 1
	}
	var o bisect.Outcome
	if len(r.first) > 0 {
		o, r.first = r.first[0], r.first[1:]
	} else {
		var err error
		if o, err = r.launch(r.id(i), i, r.purpose(i)); err != nil {
			return err
		}
	}
	r.unfit++
	for k, c := range r.channels {
		r.picked = c
		if l, ok := r.level(o); ok && !l.Censored {
			l.Index = i
			s.models[k].Add(l)
			s.levels[k][side] = append(s.levels[k][side], l.Y)
			r.unfit = 0
		}
	}
	return nil
}

// priors are the weights of the commits as culprits. Commits of the good end's inputs clear what they
// reach, and none but what a commit of the bad end's inputs reaches can be to blame.
func (r *bankRun) priors() []float64 {
	prior := make([]float64, len(r.commits))
	for i, c := range r.commits {
		prior[i] = 1
		if c.Prior > 0 {
			prior[i] = c.Prior
		}
		if c.Neutral {
			prior[i] = 0
		}
	}
	last := r.commits[len(r.commits)-1]
	for i, c := range r.commits {
		if c.Neutral || c.Key == "" || c.Key != r.Search.GoodKey && c.Key != last.Key || r.Search.GoodKey == last.Key {
			continue
		}
		in := bisect.Ancestors(r.commits, i)
		kept := slices.Clone(prior)
		for k := range kept {
			if in[k] == (c.Key == r.Search.GoodKey) {
				kept[k] = 0
			}
		}
		if slices.Max(kept) > 0 {
			prior = kept
		}
	}
	if slices.Max(prior) == 0 { // ends of equal inputs: if they differ all the same, any commit may be it
		r.blind = true
		for i := range prior {
			prior[i], r.usable[i] = 1, true
		}
	}
	return prior
}

// state is how far the comparison of the ends is.
type state int

const (
	open state = iota
	worse
	alike
)

// settled picks the channel that speaks most clearly and says how far the comparison is after n
// pairs. The more channels there are, the clearer one must be.
func (r *bankRun) settled(s *stage, n int) (pick int, st state) {
	clear := math.Sqrt(zEnd*zEnd + 2*math.Log(float64(len(r.channels))))
	best, st := math.Inf(-1), alike
	for k, m := range s.models {
		if len(s.levels[k][0]) < minEndPairs || len(s.levels[k][1]) < minEndPairs {
			st = open
			continue
		}
		d, sd := m.Step()
		if d+3*sd >= r.least() && st == alike {
			st = open
		}
		if d > effectMargin*r.least() && d > clear*sd && d/sd > best {
			best, pick = d/sd, k
		}
	}
	if n < minEndPairs {
		return 0, open
	}
	if best > 0 {
		return pick, worse
	}
	enough := minAlikePairs
	pick = s.largest()
	if d, sd := s.models[pick].Step(); d < -2*sd {
		enough *= 2 // looks faster, as it may when modes of the machine have fallen so
	}
	if st == alike && n >= enough {
		return pick, alike
	}
	return pick, open
}

// largest is the channel of the largest step.
func (s *stage) largest() int {
	best, at := math.Inf(-1), 0
	for k, m := range s.models {
		if d, _ := m.Step(); d > best {
			best, at = d, k
		}
	}
	return at
}

// answerEnds goes over to the search, or says why there is nothing to search.
func (r *bankRun) answerEnds(s *stage, pick int, st state) bool {
	r.picked, r.model = r.channels[pick], s.models[pick]
	e := r.compare(s.levels[pick])
	switch {
	case st == worse:
		e.Differ = true
		e.Complaint = bisect.Complaint{Class: bisect.Slow, Metric: r.picked.name(), Ends: e.Bad.Ratio}
		e.Bad.Call, e.Bad.Class = bisect.Bad, bisect.Slow
		r.distrust()
	case st == alike:
		e.Hint = fmt.Sprintf("smallest change looked for: %.3g %%; set [judge] effect to look for a smaller one", 100*math.Expm1(r.least()))
	default:
		e.Unclear = true
		e.Why = "this machine is too noisy to tell whether the ends differ: " + e.Why
		e.Hint = "use a quieter machine or a program that runs longer, or look for a larger change only with [judge] effect"
	}
	r.reportEnds(e)
	switch {
	case st == alike:
		r.f.Result = bisect.NoDifference
	case st == open:
		r.inconclusive()
	}
	return st == worse
}

// distrust is for ends of equal inputs that differ: something else than the declared inputs matters.
func (r *bankRun) distrust() {
	if !r.blind || r.restarts > 0 {
		return
	}
	r.warn("the ends have equal inputs and differ: the paths given leave out something that build or run read, so every commit was searched\nhint: add what is missing to paths (--path)")
	r.f.Matter = len(r.commits)
	if r.Search.Redo != nil {
		r.Search.Redo()
	}
}

// compare puts the comparison of the ends into words.
func (r *bankRun) compare(levels [2][]float64) bisect.Ends {
	d, sd := r.model.Step()
	eff := r.effect(d, sd)
	e := bisect.Ends{
		Good: bisect.Verdict{Call: bisect.Good, Probability: 1, Class: bisect.OK, Trials: len(levels[0]), Why: "the reference"},
		Bad:  bisect.Verdict{Call: bisect.Good, Probability: 1, Class: bisect.OK, Trials: len(levels[1]), Ratio: eff},
	}
	e.Bad.Why = fmt.Sprintf("%s %s times the good end's", r.picked.name(), ratio(eff))
	e.Why = fmt.Sprintf("%s, bad end against good end: ratio %s, %d and %d launches", r.picked.name(), ratio(eff), len(levels[1]), len(levels[0]))
	if n := r.model.noise; n.modes() {
		e.Why += fmt.Sprintf("; launches fall into two modes, %.2g %% apart, %.0f %% into the slower", 100*math.Expm1(n.Mode), 100*n.Share)
	}
	return e
}

// reportEnds keeps the first comparison of the ends; a new beginning only adds a line.
func (r *bankRun) reportEnds(e bisect.Ends) {
	first := r.f.Ends.Why == ""
	r.f.Ends, r.f.Complaint = e, e.Complaint
	if first {
		r.step(bisect.Step{Commit: r.Search.Good.Commit, Role: "good end", Verdict: e.Good})
		r.step(bisect.Step{Commit: r.plain.bad.Commit, Role: "bad end", Verdict: e.Bad})
	}
}

// effect states a step with its 95 % interval as a ratio of the metric itself.
func (r *bankRun) effect(d, sd float64) *bisect.Effect {
	low, high := d-2*sd, d+2*sd
	if r.picked.metric.Higher != r.Faster {
		d, low, high = -d, -high, -low
	}
	return &bisect.Effect{Metric: r.picked.metric.Name, Ratio: math.Exp(d), Low: math.Exp(low), High: math.Exp(high)}
}
