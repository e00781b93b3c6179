package judge

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// look launches each end once; slow is false when that settles what the search is about, or when it
// is not about a metric.
func (r *slowdownRun) look() (slow bool, err error) {
	g, _, err := r.plain.launches(r.ctx, r.plain.good, bisect.EndGood)
	if err != nil {
		return false, err
	}
	b, _, err := r.plain.launches(r.ctx, r.plain.bad, bisect.EndBad)
	if err != nil {
		return false, err
	}
	e := readEnds(r.plain.Options, g, b)
	find := r.Options.Find
	if e.Differ || e.Untestable || g.Class != bisect.OK || b.Class != bisect.OK || r.Any || find != "" && find != bisect.Slow {
		return false, nil
	}
	r.Metrics, _ = metric.Directed(r.Metrics, g, b) // what has no direction is warned of where launches are read
	r.channels = metric.Channels(r.Metrics, g, b)
	r.offered = r.channels
	r.exact.take(r.Metrics, g, b, r.Faster)
	if r.plain.timing || !slices.ContainsFunc(r.Metrics, metric.Metric.OfProcess) {
		r.first = []bisect.Outcome{g, b}
	}
	for i, o := range []bisect.Outcome{g, b} {
		r.count([]int{belief.GoodEnd, len(r.commits) - 1}[i], o)
	}
	r.plain.timing = true
	if len(r.channels)+len(r.exact.channels) == 0 {
		return false, nil
	}
	if len(r.channels) > 0 {
		for _, w := range metric.OneSided(r.sampled(), [2]bisect.Outcome{g, b}, [2]string{"the good end", "the bad end"}) {
			r.warn(w)
		}
	}
	r.weigh()
	return true, nil
}

// sampled are the metrics that are compared launch by launch.
func (r *slowdownRun) sampled() []metric.Metric {
	return slices.DeleteFunc(slices.Clone(r.Metrics), func(m metric.Metric) bool {
		return !slices.ContainsFunc(r.channels, func(c metric.Channel) bool { return c.Metric == m })
	})
}

// stage is the comparison of the ends: a belief and the levels seen, for every channel.
type stage struct {
	models []*belief.Levels
	levels [][2][]float64
}

// stageEnds launches the ends in pairs, good bad, bad good and so on, until a channel is clearly
// worse at the bad end or no channel can be.
func (r *slowdownRun) stageEnds() (differ bool, err error) {
	switch {
	case r.exactFirst():
		return r.exactEnds()
	case r.part != nil:
		return r.partEnds()
	}
	s := &stage{levels: make([][2][]float64, len(r.channels))}
	for range r.channels {
		s.models = append(s.models, belief.NewLevels(r.commits, r.prior))
	}
	for n := 1; ; n++ {
		for k := range 2 {
			if err := r.end(s, (k == 1) == (n%2 == 1)); err != nil {
				return false, err
			}
		}
		pick, state := r.settled(s, n)
		r.tell(s.models[pick], n)
		if state == open && n < metric.MaxPairs && !r.over() {
			continue
		}
		if state != worse && r.exact.rises(r.least()) {
			r.channels = nil
			return r.exactEnds()
		}
		return r.answerEnds(s, pick, state), nil
	}
}

// end launches one end, or takes the launch that was made to begin with.
func (r *slowdownRun) end(s *stage, bad bool) error {
	i, side := belief.GoodEnd, 0
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
	parts := metric.NewParts(o)
	for k, c := range r.channels {
		if err := r.ctx.Err(); err != nil { // there may be thousands
			return err
		}
		r.picked = c
		if l, ok := r.level(parts.Of(c)); ok && !l.Censored {
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
func (r *slowdownRun) priors() []float64 {
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

// weigh takes in the prior weights that it costs time to find out.
func (r *slowdownRun) weigh() {
	if r.Weigh == nil {
		return
	}
	for i, w := range r.Weigh() {
		if r.prior[i] > 0 && w > 0 {
			r.prior[i] = w
		}
	}
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
func (r *slowdownRun) settled(s *stage, n int) (pick int, st state) {
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
		if d > metric.EffectMargin*r.least() && d > clear*sd && d/sd > best {
			best, pick = d/sd, k
		}
	}
	if n < minEndPairs {
		return 0, open
	}
	if best > 0 {
		return r.orWhole(s, pick, clear), worse
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

// orWhole is the whole of the metric in place of one case that did not get clearly worse than it.
func (r *slowdownRun) orWhole(s *stage, pick int, clear float64) int {
	least := metric.EffectMargin * r.least()
	of, err := s.models[pick].Step()
	for k, c := range r.channels {
		if !c.All || c.Metric != r.channels[pick].Metric {
			continue
		}
		if d, sd := s.models[k].Step(); d > least && d > clear*sd && (of-d < least || of-d < 2*math.Hypot(sd, err)) {
			return k
		}
	}
	return pick
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
