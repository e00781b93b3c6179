package question

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
)

// exactNumbers are the exact metrics of a search: what the compiler says of each kernel. They have no noise, so one
// launch of each end tells what differs, and one launch of a commit tells which side it is on. levels holds, by
// channel, the logarithms at the good and the bad end; larger is worse.
type exactNumbers struct {
	Channels []metric.Channel
	levels   [][2]float64
	Texts    []string // the numbers of the ends, for people
	left     []string // what is said of kernels that are not compared
	pick     int      // the channel that the search is about
	lead     bool     // an exact metric stands first among those to look for
}

// Take reads the launches of the ends, kernel by kernel; sign is that of Level.Sign.
func (x *exactNumbers) Take(ms []metric.Metric, g, b bisect.Outcome, sign float64) {
	x.lead = len(ms) > 0 && ms[0].Exact
	good, bad := metric.NewParts(g), metric.NewParts(b)
	for _, m := range ms {
		if !m.Exact {
			continue
		}
		cs, left := metric.Kernels(m, g, b)
		for _, c := range cs {
			fg, inGood := c.Figure(good.Of(c))
			fb, inBad := c.Figure(bad.Of(c))
			if inGood && inBad {
				x.add(c, fg, fb, sign)
			}
		}
		x.left = append(x.left, unpaired(m, [2]metric.Parts{good, bad}, left, len(cs) == 1 && cs[0].OfWorst())...)
	}
}

// unpaired says which kernels only one end has, with their numbers.
func unpaired(m metric.Metric, ends [2]metric.Parts, names [2][]string, worst bool) (out []string) {
	what := "which are not compared by "
	if worst {
		what = "so that the worst of each build is compared by "
	}
	// Each side is listed by itself: a kernel that is gone and one that is new are different news.
	for side, end := range []string{"good", "bad"} {
		var all []string
		for _, n := range names[side] {
			c := metric.Channel{Metric: m, Case: n}
			y, _ := c.Level(ends[side].Of(c))
			all = append(all, fmt.Sprintf("%s %.8g", n, c.Value(y)))
		}
		if len(all) > 0 {
			out = append(out, fmt.Sprintf("only the %s end has these kernels, %s: %s", end, what+m.Name, words.Listed(all, 6)))
		}
	}
	return out
}

// add takes in the numbers of one channel at the two ends.
func (x *exactNumbers) add(c metric.Channel, good, bad metric.Figure, sign float64) {
	x.Channels = append(x.Channels, c)
	x.levels = append(x.levels, [2]float64{sign * good.Level, sign * bad.Level})
	x.Texts = append(x.Texts, fmt.Sprintf("%s against %s", c.Words(bad), c.Words(good)))
}

// Step is by how much the bad end is worse in a channel, a logarithm.
func (x *exactNumbers) Step(k int) float64 { return x.levels[k][1] - x.levels[k][0] }

// worst is the channel with the largest step. Metrics come in the order of preference: once one has got worse by at
// least least, those after it are not looked at.
func (x *exactNumbers) worst(least float64) int {
	worst := 0
	for k := range x.Channels {
		if first := x.Channels[worst].Metric; x.Step(worst) >= least && x.Channels[k].Metric != first {
			break
		}
		if x.Step(k) > x.Step(worst) {
			worst = k
		}
	}
	return worst
}

// best is the channel, of the same metric as channel k, that fell most and by at least least; k where there is none.
func (x *exactNumbers) best(k int, least float64) int {
	best := k
	for i, c := range x.Channels {
		if c.Metric == x.Channels[k].Metric && x.Step(i) <= -least && x.Step(i) < x.Step(best) {
			best = i
		}
	}
	return best
}

// rises reports that some number got worse by least.
func (x *exactNumbers) rises(least float64) bool {
	return len(x.Channels) > 0 && x.Step(x.worst(least)) >= least
}

// exactEnds compares the ends by exact numbers and begins the belief about the one that is searched for: the largest
// step of the first metric that got worse, or where none did the one that fell most, so that the answer says so. All
// launches so far enter the belief, as the build of any commit tells its numbers.
func (s *stage) exactEnds() (e bisect.Ends, err error) {
	x := &s.q.Exact
	if s.q.Part != nil || s.r.Rounds > 0 { // the ends of a part, or the ends anew
		if *x, err = s.lookAt(); err != nil {
			return e, err
		}
	}
	// A kernel of one end only has no number to be compared with, and may be the reason all the same.
	for _, w := range x.left {
		s.r.Account.Warn(w)
	}
	// One number is searched for, even where several got worse; the others are in the words of the answer.
	k := x.worst(s.r.Least)
	if x.Step(k) < s.r.Least {
		k = x.best(k, s.r.Least)
	}
	x.pick, s.q.Channel, s.q.Channels = k, x.Channels[k], []metric.Channel{x.Channels[k]}
	m := s.q.levels(s.r)
	m.Add(belief.Launch{Index: belief.GoodEnd, Y: x.levels[k][0]})
	m.Add(belief.Launch{Index: s.r.Span.Bad(), Y: x.levels[k][1]})
	for _, t := range s.r.Ledger.Made {
		if i, known := s.r.Span.Index[t.Candidate.Commit]; known && !s.r.Span.IsEnd(i) && !t.Void {
			if l, a := s.q.Read(t); a == search.Speaks {
				l.Index, s.r.Span.Proven[i], s.r.Span.Usable[i] = i, true, true
				m.Add(l)
			}
		}
	}
	s.models, s.levels = []*levels.Belief{m}, [][2][]float64{{{x.levels[k][0]}, {x.levels[k][1]}}}
	// Without noise there is no "open": a number rose by enough, or it did not.
	st := alike
	if x.Step(k) >= s.r.Least {
		st = worse
	}
	return s.answer(0, st), nil
}

// lookAt reads one exact number off the ends, launching them where no launch so far tells it. It returns machine
// trouble where builds that reported it before do not any more.
func (s *stage) lookAt() (x exactNumbers, err error) {
	c := s.q.Channel
	var figures [2]metric.Figure
	for side, i := range []int{belief.GoodEnd, s.r.Span.Bad()} {
		f, ok := s.q.Figure(s.r.Ledger, s.r.Span.Id(i))
		if !ok {
			t, err := s.r.Launch(s.r.Span.Id(i), s.r.Span.Purpose(i))
			if err != nil {
				return x, err
			}
			if f, ok = c.Figure(t.Outcome); !ok { // it has been there before
				return x, &bisect.InfraError{What: "looking for " + c.Name(), Err: fmt.Errorf("the builds of the ends do not report it any more")}
			}
		}
		figures[side] = f
	}
	x.add(c, figures[0], figures[1], s.q.Sign())
	// The steps of culprits that are known already are not those of this part.
	if s.q.Part != nil && s.q.Part.Offset != nil {
		x.levels[0][1] += s.q.Part.Offset[s.r.Span.Bad()]
	}
	return x, nil
}

// zeroWords explain a ratio with a number that is 0 (see metric.Metric.Exact).
const zeroWords = "0 counts as a half, so that the ratio says no more than that there was nothing before"

// exactWords puts the numbers of the ends into words; least is the smallest step that counts as a difference.
func (s *stage) exactWords(e *bisect.Ends, least float64) {
	x, k := &s.q.Exact, s.q.Exact.pick
	y := x.levels[k]
	e.Why = fmt.Sprintf("%s, bad end against good end: %s", s.q.Channel.Name(), x.Texts[k])
	if zero := s.q.number(y[0]) == 0; zero != (s.q.number(y[1]) == 0) {
		e.Why += "; " + zeroWords
	}
	e.Bad.Why = fmt.Sprintf("%s: %s at the good end", s.q.Channel.Name(), x.Texts[k])
	if len(x.Channels) > 1 && math.Abs(x.Step(k)) < least {
		e.Why = x.alike()
		e.Bad.Why = e.Why
	}
}

// alike says that nothing moved by as much as is looked for.
func (x *exactNumbers) alike() string {
	var metrics []string
	most := 0
	for k, c := range x.Channels {
		if !slices.Contains(metrics, c.Metric.Name) {
			metrics = append(metrics, c.Metric.Name)
		}
		if math.Abs(x.Step(k)) > math.Abs(x.Step(most)) {
			most = k
		}
	}
	s := fmt.Sprintf("%s, bad end against good end: %s compared, ", strings.Join(metrics, " and "), words.Count(len(x.Channels), "number"))
	if x.Step(most) == 0 {
		return s + "none of which changed"
	}
	return s + fmt.Sprintf("the largest change is in %s: %s", x.Channels[most].Name(), x.Texts[most])
}
