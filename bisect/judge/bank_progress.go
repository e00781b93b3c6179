package judge

import (
	"math"

	"github.com/kbisect/kbisect/bisect"
)

// Progress is how far a search for a slow commit is and what it will still take.
type Progress struct {
	Suspects         float64 // the number of equally likely suspects that would be as hard to tell apart
	Probability      float64 // of the likeliest suspect
	ExpectedLaunches float64 // to the end, confirmation included
	ExpectedSeconds  float64 // the same by what a launch has taken so far, builds and pauses included
}

// outlay is how long launches take, pauses and builds between them included.
type outlay struct {
	n          int
	first, end float64 // seconds since the job began
}

func (o *outlay) note(x bisect.Outcome) {
	if o.n == 0 {
		o.first = x.At
	}
	o.n++
	o.end = max(o.end, x.At+x.Wall)
}

// tell reports the progress; before the search, pairs launches of both ends have been compared by m.
func (r *bankRun) tell(m *Model, pairs int) {
	if r.OnProgress == nil || m == nil {
		return
	}
	p := Progress{Suspects: math.Exp(m.entropy())}
	_, p.Probability = m.top()
	p.ExpectedLaunches = m.expected(pairs, r.least(), math.Log((1-r.alpha())/r.alpha()))
	if r.outlay.n > 0 {
		p.ExpectedSeconds = p.ExpectedLaunches * (r.outlay.end - r.outlay.first) / float64(r.outlay.n)
	}
	r.OnProgress(p)
}

// entropy is what there is left to learn about the culprit, nats. It takes a set's commits apart only
// as far as a launch could.
func (m *Model) entropy() float64 {
	h := 0.0
	for _, w := range m.Weights() {
		if w > 0 {
			h -= w * math.Log(w)
		}
	}
	return h
}

// expected estimates the launches to the end. The comparison of the ends needs pairs until the step
// stands out by zEnd standard deviations, which fall with their square root; the search learns from a
// launch what one of a commit in the middle of the suspects tells; the confirmation adds pairs until
// their likelihood ratio reaches odds.
func (m *Model) expected(pairs int, least, odds float64) float64 {
	step, sd := m.Step()
	step = max(step, least, 2*sd) // while little is known, a step that would soon show
	n := 0.0
	if pairs > 0 {
		need := float64(pairs) * math.Pow(zEnd*sd/step, 2)
		n += 2 * max(0, min(need, maxEndPairs)-float64(pairs))
		n += 2 * max(0, float64(minEndPairs-pairs))
	}
	noise := m.effective() + m.noise.Rate*m.gap()
	info := view{weight: 1, sum: step / 2, squares: step * step / 2, bad: 0.5, entropy: -1, chance: 1}.information(noise)
	n += m.entropy() / info * (sharp + blunt*(1-info/math.Ln2))
	v := 2 * noise
	return n + 2*max(minConfirm, 2*odds*v/(step*step))
}

// By how much a search needs more launches than the first of them would tell: where one launch settles
// a commit, and what is added where it hardly tells anything, as drift takes its share and suspects that
// lie side by side are the harder to tell apart. From simulations.
const (
	sharp = 1.3
	blunt = 2.0
)

// gap is the mean time between two launches, seconds.
func (m *Model) gap() float64 {
	n := len(m.launches)
	if n < 2 {
		return 0
	}
	return (m.launches[n-1].At - m.launches[0].At) / float64(n-1)
}
