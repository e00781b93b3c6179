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
func (x *exactNumbers) take(ms []metric.Metric, g, b bisect.Outcome, faster bool) {
	x.lead = len(ms) > 0 && ms[0].Exact
	good, bad := metric.NewParts(g), metric.NewParts(b)
	sign := 1.0
	if faster {
		sign = -1
	}
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
			out = append(out, fmt.Sprintf("only the %s end has these kernels, %s: %s", end, what+m.Name, lists(all, 6)))
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

// exactFirst reports that the search is about exact numbers: only these are looked for, they stand before
// the others and got worse, or one of them was found to be what got worse.
func (r *slowdownRun) exactFirst() bool {
	switch {
	case r.picked.Metric.Exact:
		return true
	case len(r.exact.channels) == 0:
		return false
	}
	return len(r.channels) == 0 || r.exact.lead && r.exact.rises(r.least())
}

// exactEnds compares the ends by exact numbers.
func (r *slowdownRun) exactEnds() (differ bool, err error) {
	x := &r.exact
	if r.part != nil || r.restarts > 0 { // the ends of a part, or the ends anew
		if *x, err = r.lookAt(r.picked); err != nil {
			return false, err
		}
	}
	for _, w := range x.left {
		r.warn(w)
	}
	k := x.worst(r.least())
	if x.step(k) < r.least() {
		k = x.best(k, r.least())
	}
	step := x.step(k)
	m := belief.NewExactLevels(r.commits, r.prior, step)
	last := len(r.commits) - 1
	m.Add(belief.Launch{Index: belief.GoodEnd, Y: x.levels[k][0]})
	m.Add(belief.Launch{Index: last, Y: x.levels[k][1]})
	if r.part != nil {
		m.Offset(r.part.offset)
		for _, l := range r.part.seeds {
			if !r.isEnd(l.Index) {
				r.proven[l.Index] = true
				m.Add(l)
			}
		}
		r.part.seeds = nil
	}
	r.channels = []metric.Channel{x.channels[k]}
	r.exact.pick = k
	s := &stage{models: []*belief.Levels{m}, levels: [][2][]float64{{{x.levels[k][0]}, {x.levels[k][1]}}}}
	st := alike
	if step >= r.least() {
		st = worse
	}
	return r.answerEnds(s, 0, st), nil
}

// lookAt launches the ends for one exact number.
func (r *slowdownRun) lookAt(c metric.Channel) (x exactNumbers, err error) {
	r.picked = c
	var ends [2]bisect.Outcome
	for side, i := range []int{belief.GoodEnd, len(r.commits) - 1} {
		if ends[side], err = r.launch(r.id(i), i, r.purpose(i)); err != nil {
			return x, err
		}
	}
	good, inGood := c.Figure(ends[0])
	bad, inBad := c.Figure(ends[1])
	if !inGood || !inBad { // it has been there before
		return x, &bisect.InfraError{What: "looking for " + c.Name(), Err: fmt.Errorf("the builds of the ends do not report it any more")}
	}
	x.add(c, good, bad, r.sign())
	if r.part != nil && r.part.offset != nil {
		x.levels[0][1] += r.part.offset[len(r.commits)-1]
	}
	return x, nil
}

const zeroWords = "0 counts as a half, so that the ratio says no more than that there was nothing before"

// exactWords puts the numbers of the ends into words, where the picked one differs.
func (r *slowdownRun) exactWords(e *bisect.Ends, k int) {
	c, y := r.picked, r.exact.levels[k]
	e.Why = fmt.Sprintf("%s, bad end against good end: %s", c.Name(), r.exact.texts[k])
	if zero := r.number(y[0]) == 0; zero != (r.number(y[1]) == 0) {
		e.Why += "; " + zeroWords
	}
	e.Bad.Why = fmt.Sprintf("%s: %s at the good end", c.Name(), r.exact.texts[k])
	if x := &r.exact; len(x.channels) > 1 && math.Abs(x.step(k)) < r.least() {
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
	s := fmt.Sprintf("%s, bad end against good end: %s compared, ", strings.Join(metrics, " and "), count(len(x.channels), "number"))
	if x.step(most) == 0 {
		return s + "none of which changed"
	}
	return s + fmt.Sprintf("the largest change is in %s: %s", x.channels[most].Name(), x.texts[most])
}

// exactValue is the number of a commit that was launched.
func (r *slowdownRun) exactValue(id string) string {
	for _, t := range slices.Backward(r.plain.Sampler.(*once).made) {
		if f, ok := r.picked.Figure(t.Outcome); ok && t.Candidate.Commit == id && t.Class == bisect.OK {
			return r.picked.Words(f)
		}
	}
	return "not known"
}

// sign takes levels to those of the metric itself.
func (r *slowdownRun) sign() float64 {
	if r.Faster {
		return -1
	}
	return 1
}

// number is the metric at a level.
func (r *slowdownRun) number(y float64) float64 { return r.picked.Value(r.sign() * y) }
