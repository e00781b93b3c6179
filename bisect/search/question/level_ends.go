package question

import (
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
)

// stage is the comparison of the ends: a belief and the levels seen, for every channel.
type stage struct {
	q      *Level
	r      *search.Run
	models []*levels.Belief
	levels [][2][]float64
	pairs  int  // of launches of both ends
	fresh  int  // of these, made for this comparison
	half   bool // only the first launch of the next pair is made
}

// state is how far the comparison of the ends is.
type state int

const (
	open state = iota
	worse
	alike
)

// Ends implements search.Question: both ends are launched in pairs, good bad, bad good and so on, until a channel is clearly
// worse at the bad end or no channel can be.
func (q *Level) Ends(r *search.Run) (bisect.Ends, error) {
	if exactFirst(q, r.Least) {
		return (&stage{q: q, r: r}).exactEnds()
	}
	s := newStage(q, r)
	for {
		if err := r.Ctx.Err(); err != nil {
			return bisect.Ends{}, err
		}
		pick, st := s.settled(r.Least)
		if fast := byFastest(s, pick); fast != nil {
			s = fast
			continue
		}
		search.Tell(r, s.models[pick], expected(r, s.models[pick], max(1, s.pairs)))
		if err := (foresight{q, r}).look(s.models[pick], q.Channels[pick], s.pairs, st); err != nil {
			return bisect.Ends{}, err
		}
		if apart, err := s.setApart(pick); err != nil {
			return bisect.Ends{}, err
		} else if apart {
			s = newStage(q, r)
			continue
		}
		most := metric.MaxPairs
		if q.Part != nil {
			most = maxPartPairs
		}
		if st == open && s.fresh < most && r.Over() == "" {
			// As many as the noise takes to be seen are made at once, where the machine can.
			need := max(metric.MinEndPairs-s.pairs, len(search.Devices(r.Ledger))-s.pairs) // each device shows both ends
			if need <= 0 {
				need = metric.MinEndPairs
			}
			n := min(most-s.fresh, search.PairsAtOnce(r, need))
			launch := func() error { return s.launches(n) }
			if n == 1 && s.pairs == 1 && !s.half { // three launches may do
				launch = func() error { s.half = true; return s.all(s.pair(s.pairs)[:1]) }
			}
			if err := launch(); err != nil {
				return bisect.Ends{}, err
			}
			continue
		}
		if st != worse && q.Exact.rises(r.Least) {
			q.Channels = nil
			return (&stage{q: q, r: r}).exactEnds()
		}
		return s.answer(pick, st), nil
	}
}

// newStage begins the comparison with the launches that there are.
func newStage(q *Level, r *search.Run) *stage {
	s := &stage{q: q, r: r, levels: make([][2][]float64, len(q.Channels))}
	for range q.Channels {
		s.models = append(s.models, q.levels(r))
	}
	for _, t := range r.Ledger.Made {
		if i, known := r.Span.Index[t.Candidate.Commit]; known && !t.Void {
			s.add(t, i)
		}
	}
	// Pairs are counted by the channel that has most, since a launch may lack some of the cases.
	for k := range s.levels {
		s.pairs = max(s.pairs, min(len(s.levels[k][0]), len(s.levels[k][1])))
	}
	return s
}

// better reports that by the launches made since another number than the one searched for is clearly worse at the bad
// end: of many cases one may look worse by chance.
func (s *stage) better() bool {
	if len(s.q.Channels) < 2 || s.q.Part != nil {
		return false
	}
	pick, st := s.settled(s.r.Least)
	return st == worse && s.q.Channels[pick].Name() != s.q.Channel.Name()
}

// launches makes the next n pairs of launches, or what is left of the first one.
func (s *stage) launches(n int) error {
	var next []search.Wanted
	for k := range n {
		next = append(next, s.pair(s.pairs+k)...)
	}
	if s.half {
		next = next[1:]
	} else if n == 1 && len(s.r.Search.Devices) < 2 { // a launch of one end alone may have been of no use
		next = slices.DeleteFunc(next, s.ahead)
	}
	s.half = false
	s.pairs, s.fresh = s.pairs+n, s.fresh+n
	return s.all(next)
}

// pair is a pair of launches, in its order.
func (s *stage) pair(n int) []search.Wanted {
	var out []search.Wanted
	for _, i := range []int{belief.GoodEnd, s.r.Span.Bad()} {
		out = append(out, search.Wanted{Commit: s.r.Span.Id(i), Purpose: s.r.Span.Purpose(i), On: search.DeviceOfPair(s.r, n)})
	}
	if levels.Turned(n) {
		slices.Reverse(out)
	}
	return out
}

// ahead reports that the end of a launch has told more numbers than the other end.
func (s *stage) ahead(w search.Wanted) bool {
	most := 0
	for _, of := range s.levels {
		if d := len(of[0]) - len(of[1]); max(d, -d) > max(most, -most) {
			most = d
		}
	}
	return w.Purpose == bisect.EndGood && most > 0 || w.Purpose == bisect.EndBad && most < 0
}

// add takes in a launch.
func (s *stage) add(t search.Trial, i int) {
	r := s.r
	parts := metric.NewParts(t.Outcome)
	for k, c := range s.q.Channels {
		if r.Ctx.Err() != nil { // there may be thousands
			return
		}
		t.Outcome = parts.Of(c)
		l, a := s.q.With(c).Read(t)
		if a != search.Speaks {
			continue
		}
		if l.Index = i; i >= 0 {
			r.Span.Proven[i], r.Span.Usable[i] = true, true
		}
		if !r.Span.IsEnd(i) || !l.Censored {
			s.models[k].Add(l)
		}
		if r.Span.IsEnd(i) && !l.Censored {
			side := 0
			if i >= 0 {
				side = 1
			}
			s.levels[k][side] = append(s.levels[k][side], l.Y)
			r.Vain = 0
		}
	}
}

// settled picks the channel that speaks most clearly and says how far the comparison is. The more channels there are,
// the clearer one must be.
func (s *stage) settled(least float64) (pick int, st state) {
	if s.q.Part != nil {
		return 0, s.partSettled(least)
	}
	// The largest of n deviations grows with √(2 ln n) by chance alone.
	clear := math.Sqrt(metric.ClearlyDiffer*metric.ClearlyDiffer + 2*math.Log(float64(len(s.q.Channels))))
	best, st := math.Inf(-1), alike
	for k, m := range s.models {
		d, sd := m.Step()
		n := min(len(s.levels[k][0]), len(s.levels[k][1]))
		if n < metric.MinEndPairs {
			st = open
			past := s.past(k).SD
			if len(s.r.Search.Devices) > 1 { // one pair on each is not enough to see the noise
				continue
			}
			if n == 0 || n < FewEndPairs && past == 0 && d < levels.FarStep && !repeats(d, s.levels[k]) {
				continue
			}
			sd, _ = levels.StepNoise(d, s.levels[k], past)
			switch {
			case n < FewEndPairs:
				sd *= firstPair / metric.ClearlyDiffer
			case n == FewEndPairs && d > metric.ClearlyDiffer*sd && s.unlike(k, d): // the search bears out which number it is
				sd *= metric.ClearlyDiffer / clear
			}
		}
		if d+3*sd >= least && st == alike {
			st = open
		}
		if d > metric.EffectMargin*least && d > clear*sd && d/sd > best {
			best, pick = d/sd, k
		}
	}
	// A channel that is clearly worse decides, however open the others are.
	if best > 0 {
		return s.orWhole(pick, least, clear), worse
	}
	enough := minAlikePairs
	pick = largest(s.models)
	if d, sd := s.models[pick].Step(); d < -2*sd && d+3*sd > -beyondModes {
		enough *= 2 // looks faster, as it may when modes of the machine have fallen so
	}
	// Machines with modes hide a step at first, so a few pairs are never enough for this answer.
	if st == alike && s.pairs >= enough {
		return pick, alike
	}
	return pick, open
}

// unlike reports that another number of the same metric moved far less than channel k: modes of a machine mostly move all alike.
func (s *stage) unlike(k int, step float64) bool {
	for i, m := range s.models {
		if d, _ := m.Step(); s.q.Channels[i].Metric == s.q.Channels[k].Metric && d < step/4 {
			return true
		}
	}
	return false
}

// repeats reports that two launches of one end differ by so little, beside a step that no modes of a machine make, as they
// do where nothing disturbs them: then three launches are enough.
func repeats(step float64, levels [2][]float64) bool {
	return step > beyondModes && slices.ContainsFunc(levels[:], func(side []float64) bool {
		return len(side) > 1 && slices.Max(side)-slices.Min(side) < step/repeated
	})
}

// past is what launches scattered by in earlier sessions in channel k. Of a search that was contradicted it may be the reason.
func (s *stage) past(k int) (p bisect.Scatter) {
	if s.r.Search.Past != nil && s.r.Rounds == 0 && !s.q.Channels[k].Metric.Fastest {
		p = s.r.Search.Past(s.q.Channels[k])
	}
	return p
}

const (
	firstPair = 3.3 // standard deviations by which one pair must differ to begin the search: this search bears it out

	// repeated is how many times the difference of two launches of one end the step must be for three launches to be
	// enough. Where a neighbour slows launches by 65 % at times and they scatter by 2 %, any three would do with 107
	// launches a search instead of 76, and these with 81 (the cell "loaded, 65 %, period of 4 s" of bench-judge).
	repeated    = 64
	beyondModes = 0.2 // a logarithm; modes that were measured are 4 to 13 % apart

	// slowBy is how far above the good end the level of a launch lies that was ended as slow, a logarithm. To the belief,
	// one good launch of 700 is disturbed so far (levels.dirty, dirtyMean), or held up by as long.
	slowBy = 0.3
)

// partSettled is settled for a part of the range, where one metric is left and its noise is known.
func (s *stage) partSettled(least float64) state {
	if s.pairs < metric.MinEndPairs {
		return open
	}
	switch d, sd := s.models[0].Step(); {
	case s.fresh >= minPartPairs && d > metric.EffectMargin*least && d > metric.ClearlyDiffer*sd:
		return worse
	// A part was chosen for what it showed, so it is given up sooner than a whole range.
	case d+2.5*sd < metric.EffectMargin*least:
		return alike
	}
	return open
}

// orWhole is the whole of the metric in place of one case that did not get clearly worse than it.
func (s *stage) orWhole(pick int, least, clear float64) int {
	least *= metric.EffectMargin
	of, err := s.models[pick].Step()
	for k, c := range s.q.Channels {
		if !c.All || c.Metric != s.q.Channels[pick].Metric {
			continue
		}
		if d, sd := s.models[k].Step(); d > least && d > clear*sd && (of-d < least || of-d < 2*math.Hypot(sd, err)) {
			return k
		}
	}
	return pick
}

// largest is the channel of the largest step.
func largest(models []*levels.Belief) int {
	best, at := math.Inf(-1), 0
	for k, m := range models {
		if d, _ := m.Step(); d > best {
			best, at = d, k
		}
	}
	return at
}

// answer begins the search, or says why there is nothing to search.
func (s *stage) answer(pick int, st state) bisect.Ends {
	m := s.models[pick]
	s.q.Channel, s.r.Belief, s.r.Visit = s.q.Channels[pick], m, search.Visit{}
	s.q.contests = nil
	s.r.Account.Metric = s.q.Channel.Name()
	e := s.compared(m, s.levels[pick], s.r.Least)
	// With so few launches the noise is assumed; Settled looks whether later launches bear that out.
	if s.q.noise = 0; min(len(s.levels[pick][0]), len(s.levels[pick][1])) < metric.MinEndPairs {
		d, _ := m.Step()
		past := s.past(pick)
		if _, s.q.noise = levels.StepNoise(d, s.levels[pick], past.SD); st == worse {
			e.Past, s.q.once = past, past.SD == 0 && s.pairs <= FewEndPairs
		}
	}
	switch {
	case st == worse:
		d, _ := m.Step()
		s.q.after, s.q.slow = search.SlowAfter(s.r, d), slices.Max(s.levels[pick][0])+slowBy
		e.Differ = true
		e.Complaint = bisect.Complaint{Class: s.q.class(), Metric: s.q.Channel.Name(), Ends: e.Bad.Ratio}
		e.Bad.Call, e.Bad.Class = bisect.Bad, s.q.class()
		s.r.BlindEnds()
	case st == alike:
		if d, sd := m.Step(); d < -s.r.Least && d < -metric.ClearlyDiffer*sd {
			s.opposite(&e)
			break
		}
		e.Hint = smallest(s.r)
		if s.r.Rounds > 0 {
			e.Why = "the difference that the first launches of the ends showed was not confirmed: " + e.Why
		}
	case s.r.Account.Finding.Spent:
		if min(e.Good.Trials, e.Bad.Trials) < metric.MinEndPairs { // a ratio would mislead
			e.Bad.Why, e.Bad.Ratio = "launched too few times to be compared", nil
			e.Why = fmt.Sprintf("%s of %d and %d launches", s.q.Channel.Name(), e.Bad.Trials, e.Good.Trials)
		}
		e.Unclear = true
		e.Why = search.SpentAtEnds + ": " + e.Why
		e.Hint = search.GoOn
	default:
		e.Unclear = true
		e.Why = "this machine is too noisy to tell whether the ends differ: " + e.Why
		e.Hint = "use a quieter machine or a program that runs longer, or look for a larger change only with [judge] effect"
	}
	return e
}

// opposite says that the ends differ the other way round, and what to do.
func (s *stage) opposite(e *bisect.Ends) {
	if e.Opposite = "better"; s.q.Faster {
		e.Opposite = "worse"
		e.Why = "the bad end is worse, not better: " + e.Why
		e.Hint = "to find what made it worse leave out --improvement"
		return
	}
	e.Why = "the bad end is better, not worse: " + e.Why
	other := metric.Metric{Higher: !s.q.Channel.Metric.Higher}.Better()
	e.Hint = fmt.Sprintf("to find what improved it add --improvement; if %[1]s is better, say better = %[1]q in its [metric], or --better %[1]s", other)
}

// compared puts the comparison of the ends into words.
func (s *stage) compared(m *levels.Belief, levels [2][]float64, least float64) bisect.Ends {
	eff := s.q.Effect(m.Step())
	e := bisect.Ends{
		Good: bisect.Verdict{Call: bisect.Good, Probability: 1, Class: bisect.OK, Trials: len(levels[0]), Why: "the baseline"},
		Bad:  bisect.Verdict{Call: bisect.Good, Probability: 1, Class: bisect.OK, Trials: len(levels[1]), Ratio: eff},
	}
	e.Bad.Why = words.Effect(*eff)
	e.Why = fmt.Sprintf("%s, bad end against good end (%d and %s)", words.Effect(*eff), len(levels[1]), words.Count(len(levels[0]), "launch"))
	if s.q.Channel.Metric.Exact {
		s.exactWords(&e, least)
	}
	if modes := m.Noise().Described(m.Launches()); modes != "" {
		e.Why += "; " + modes
	}
	return e
}
