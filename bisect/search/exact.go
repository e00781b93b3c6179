package search

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// exactNumbers are the exact metrics of a search: what the compiler says of each kernel. They have no
// noise, so that one launch of each end tells what differs, and one launch of a commit on which side it is.
type exactNumbers struct {
	channels []metric.Channel
	levels   [][2]float64
	texts    []string // the numbers of the ends, for people
	left     []string // what is said of kernels that are not compared
	pick     int      // the channel that the search is about
	lead     bool     // an exact metric stands first among those to look for
}

// take reads the launches of the ends, kernel by kernel.
func (x *exactNumbers) take(ms []metric.Metric, g, b bisect.Outcome, sign float64) {
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

func (x *exactNumbers) add(c metric.Channel, good, bad metric.Figure, sign float64) {
	x.channels = append(x.channels, c)
	x.levels = append(x.levels, [2]float64{sign * good.Level, sign * bad.Level})
	x.texts = append(x.texts, fmt.Sprintf("%s against %s", c.Words(bad), c.Words(good)))
}

// step is by how much the bad end is worse in a channel.
func (x *exactNumbers) step(k int) float64 { return x.levels[k][1] - x.levels[k][0] }

// worst is the channel of the largest step among those of the first metric that got worse by least, or
// among all of them.
func (x *exactNumbers) worst(least float64) int {
	worst := 0
	for k := range x.channels {
		if first := x.channels[worst].Metric; x.step(worst) >= least && x.channels[k].Metric != first {
			break
		}
		if x.step(k) > x.step(worst) {
			worst = k
		}
	}
	return worst
}

// best is the channel of the metric of channel k that fell most, by least; k where there is none.
func (x *exactNumbers) best(k int, least float64) int {
	best := k
	for i, c := range x.channels {
		if c.Metric == x.channels[k].Metric && x.step(i) <= -least && x.step(i) < x.step(best) {
			best = i
		}
	}
	return best
}

// rises reports that some number got worse by least.
func (x *exactNumbers) rises(least float64) bool {
	return len(x.channels) > 0 && x.step(x.worst(least)) >= least
}

// exactEnds compares the ends by exact numbers.
func (s *stage) exactEnds() (e bisect.Ends, err error) {
	x := &s.q.exact
	if s.q.part != nil || s.r.rounds > 0 { // the ends of a part, or the ends anew
		if *x, err = s.lookAt(); err != nil {
			return e, err
		}
	}
	for _, w := range x.left {
		s.r.out.warn(w)
	}
	k := x.worst(s.r.least)
	if x.step(k) < s.r.least {
		k = x.best(k, s.r.least)
	}
	x.pick, s.q.channel, s.q.channels = k, x.channels[k], []metric.Channel{x.channels[k]}
	m := belief.NewExactLevels(s.r.span.commits, s.r.span.prior, x.step(k))
	m.Add(belief.Launch{Index: belief.GoodEnd, Y: x.levels[k][0]})
	m.Add(belief.Launch{Index: s.r.span.bad(), Y: x.levels[k][1]})
	if s.q.part != nil {
		m.Offset(s.q.part.offset)
	}
	for _, t := range s.r.led.made {
		if i, known := s.r.span.index[t.Candidate.Commit]; known && !s.r.span.isEnd(i) && !t.void {
			if l, a := s.q.read(t); a == speaks {
				l.Index, s.r.span.proven[i], s.r.span.usable[i] = i, true, true
				m.Add(l)
			}
		}
	}
	s.models, s.levels = []*belief.Levels{m}, [][2][]float64{{{x.levels[k][0]}, {x.levels[k][1]}}}
	st := alike
	if x.step(k) >= s.r.least {
		st = worse
	}
	return s.answer(0, st), nil
}

// lookAt reads one exact number off the ends, which are launched where the launches so far do not tell it.
func (s *stage) lookAt() (x exactNumbers, err error) {
	c := s.q.channel
	var figures [2]metric.Figure
	for side, i := range []int{belief.GoodEnd, s.r.span.bad()} {
		f, ok := s.q.figure(s.r.led, s.r.span.id(i))
		if !ok {
			t, err := s.r.launch(s.r.span.id(i), s.r.span.purpose(i))
			if err != nil {
				return x, err
			}
			if f, ok = c.Figure(t.Outcome); !ok { // it has been there before
				return x, &bisect.InfraError{What: "looking for " + c.Name(), Err: fmt.Errorf("the builds of the ends do not report it any more")}
			}
		}
		figures[side] = f
	}
	x.add(c, figures[0], figures[1], s.q.sign())
	if s.q.part != nil && s.q.part.offset != nil {
		x.levels[0][1] += s.q.part.offset[s.r.span.bad()]
	}
	return x, nil
}

const zeroWords = "0 counts as a half, so that the ratio says no more than that there was nothing before"

// exactWords puts the numbers of the ends into words, where the picked one differs.
func (s *stage) exactWords(e *bisect.Ends, least float64) {
	x, k := &s.q.exact, s.q.exact.pick
	y := x.levels[k]
	e.Why = fmt.Sprintf("%s, bad end against good end: %s", s.q.channel.Name(), x.texts[k])
	if zero := s.q.number(y[0]) == 0; zero != (s.q.number(y[1]) == 0) {
		e.Why += "; " + zeroWords
	}
	e.Bad.Why = fmt.Sprintf("%s: %s at the good end", s.q.channel.Name(), x.texts[k])
	if len(x.channels) > 1 && math.Abs(x.step(k)) < least {
		e.Why = x.alike()
		e.Bad.Why = e.Why
	}
}

// alike says that nothing moved by as much as is looked for.
func (x *exactNumbers) alike() string {
	var metrics []string
	most := 0
	for k, c := range x.channels {
		if !slices.Contains(metrics, c.Metric.Name) {
			metrics = append(metrics, c.Metric.Name)
		}
		if math.Abs(x.step(k)) > math.Abs(x.step(most)) {
			most = k
		}
	}
	s := fmt.Sprintf("%s, bad end against good end: %s compared, ", strings.Join(metrics, " and "), words.Count(len(x.channels), "number"))
	if x.step(most) == 0 {
		return s + "none of which changed"
	}
	return s + fmt.Sprintf("the largest change is in %s: %s", x.channels[most].Name(), x.texts[most])
}
