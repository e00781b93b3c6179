package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// exactNumbers are the exact metrics of a search: what the compiler says of each kernel. They have no
// noise, so that one launch of each end tells what differs, and one launch of a commit on which side it is.
type exactNumbers struct {
	channels []channel // of what both ends gave
	levels   [][2]float64
	texts    []string // the numbers of the ends, for people
	lead     bool     // an exact metric stands first among those to look for
}

// take reads the launches of the ends. Kernels that both of them have are looked at one by one; where they
// have none in common, it is the mean over all of them.
func (x *exactNumbers) take(ms []Metric, g, b bisect.Outcome, faster bool) {
	x.lead = len(ms) > 0 && ms[0].Exact
	for _, m := range ms {
		if !m.Exact {
			continue
		}
		cs := []channel{{metric: m, all: true}}
		shared := inCommon(cases(m, g), cases(m, b))
		if len(shared) > 0 {
			cs = nil
		}
		for _, c := range shared {
			cs = append(cs, channel{metric: m, one: c})
		}
		for _, c := range cs {
			yg, inGood := c.level(g)
			yb, inBad := c.level(b)
			if inGood && inBad {
				x.texts = append(x.texts, fmt.Sprintf("%.8g against %.8g", c.value(yb), c.value(yg)))
				if faster {
					yg, yb = -yg, -yb
				}
				x.channels, x.levels = append(x.channels, c), append(x.levels, [2]float64{yg, yb})
			}
		}
	}
}

// step is by how much the bad end is worse in a channel.
func (x *exactNumbers) step(k int) float64 { return x.levels[k][1] - x.levels[k][0] }

// worst is the channel of the largest step among those of the first metric that got worse by least, or
// among all of them.
func (x *exactNumbers) worst(least float64) int {
	worst := 0
	for k := range x.channels {
		if first := x.channels[worst].metric; x.step(worst) >= least && x.channels[k].metric != first {
			break
		}
		if x.step(k) > x.step(worst) {
			worst = k
		}
	}
	return worst
}

// rises reports that some number got worse by least.
func (x *exactNumbers) rises(least float64) bool {
	return len(x.channels) > 0 && x.step(x.worst(least)) >= least
}

// exactFirst reports that the search is about exact numbers: only these are looked for, they stand before
// the others and got worse, or one of them was found to be what got worse.
func (r *bankRun) exactFirst() bool {
	switch {
	case r.picked.metric.Exact:
		return true
	case len(r.exact.channels) == 0:
		return false
	}
	return len(r.channels) == 0 || r.exact.lead && r.exact.rises(r.least())
}

// exactEnds compares the ends by exact numbers.
func (r *bankRun) exactEnds() (differ bool, err error) {
	x := &r.exact
	if r.part != nil || r.restarts > 0 { // the ends of a part, or the ends anew
		if *x, err = r.lookAt(r.picked); err != nil {
			return false, err
		}
	}
	k := x.worst(r.least())
	step := x.step(k)
	m := newModel(r.commits, r.prior, exactly(step))
	last := len(r.commits) - 1
	m.Add(Launch{Index: GoodEnd, Y: x.levels[k][0]})
	m.Add(Launch{Index: last, Y: x.levels[k][1]})
	if r.part != nil {
		m.offset = r.part.offset
		for _, l := range r.part.seeds {
			if !r.isEnd(l.Index) {
				r.proven[l.Index] = true
				m.Add(l)
			}
		}
		r.part.seeds = nil
	}
	r.channels = []channel{x.channels[k]}
	s := &stage{models: []*Model{m}, levels: [][2][]float64{{{x.levels[k][0]}, {x.levels[k][1]}}}}
	st := alike
	if step >= r.least() {
		st = worse
	}
	return r.answerEnds(s, 0, st), nil
}

// lookAt launches the ends for one exact number.
func (r *bankRun) lookAt(c channel) (x exactNumbers, err error) {
	r.picked = c
	var ends [2]bisect.Outcome
	for side, i := range []int{GoodEnd, len(r.commits) - 1} {
		if ends[side], err = r.launch(r.id(i), i, r.purpose(i)); err != nil {
			return x, err
		}
	}
	yg, inGood := c.level(ends[0])
	yb, inBad := c.level(ends[1])
	if !inGood || !inBad { // it has been there before
		return x, &bisect.InfraError{What: "looking for " + c.name(), Err: fmt.Errorf("the builds of the ends do not tell it any more")}
	}
	text := fmt.Sprintf("%.8g against %.8g", c.value(yb), c.value(yg))
	yg, yb = r.sign()*yg, r.sign()*yb
	if r.part != nil && r.part.offset != nil {
		yb += r.part.offset[len(r.commits)-1]
	}
	return exactNumbers{channels: []channel{c}, levels: [][2]float64{{yg, yb}}, texts: []string{text}}, nil
}

const zeroWords = "0 counts as a half, so that the ratio says no more than that there was nothing before"

// exactWords puts the numbers of the ends into words.
func (r *bankRun) exactWords(e *bisect.Ends) {
	for k, c := range r.exact.channels {
		if c.metric != r.picked.metric || c.one != r.picked.one {
			continue
		}
		e.Why = fmt.Sprintf("%s, bad end against good end: %s", c.name(), r.exact.texts[k])
		if r.exact.levels[k][0] == math.Log(nothing) {
			e.Why += "; " + zeroWords
		}
		e.Bad.Why = fmt.Sprintf("%s: %s at the good end", c.name(), r.exact.texts[k])
	}
}

// exactValue is the number of a commit that was launched.
func (r *bankRun) exactValue(i int) string {
	for _, l := range slices.Backward(r.ledger()) {
		if l.Index == i {
			return fmt.Sprintf("%.8g", r.number(l.Y))
		}
	}
	return "not known"
}

// sign takes levels to those of the metric itself.
func (r *bankRun) sign() float64 {
	if r.Faster {
		return -1
	}
	return 1
}

// number is the metric at a level.
func (r *bankRun) number(y float64) float64 { return r.picked.value(r.sign() * y) }
