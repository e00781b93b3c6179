package judge

import (
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
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
func (r *slowdownRun) tell(m *belief.Levels, pairs int) {
	if r.OnProgress == nil || m == nil {
		return
	}
	p := Progress{Suspects: math.Exp(m.Entropy())}
	_, p.Probability = m.Top()
	p.ExpectedLaunches = expected(m, pairs, r.least(), math.Log((1-r.alpha())/r.alpha()))
	if r.outlay.n > 0 {
		p.ExpectedSeconds = p.ExpectedLaunches * (r.outlay.end - r.outlay.first) / float64(r.outlay.n)
	}
	r.OnProgress(p)
}

// expected estimates the launches to the end. The comparison of the ends needs pairs until the step
// stands out by zEnd standard deviations, which fall with their square root; the search learns from a
// launch what one of a commit in the middle of the suspects tells; the confirmation adds pairs until
// their likelihood ratio reaches odds.
func expected(m *belief.Levels, pairs int, least, odds float64) float64 {
	step, sd := m.Step()
	step = max(step, least, 2*sd) // while little is known, a step that would soon show
	n := 0.0
	if pairs > 0 {
		need := float64(pairs) * math.Pow(zEnd*sd/step, 2)
		n += 2 * max(0, min(need, metric.MaxPairs)-float64(pairs))
		n += 2 * max(0, float64(minEndPairs-pairs))
	}
	info, noise := m.MidLaunch(step)
	n += m.Entropy() / info * (sharp + blunt*(1-info/math.Ln2))
	v := 2 * noise
	return n + 2*max(belief.MinPairs, 2*odds*v/(step*step))
}

// By how much a search needs more launches than the first of them would tell: where one launch settles
// a commit, and what is added where it hardly tells anything, as drift takes its share and suspects that
// lie side by side are the harder to tell apart. From simulations.
const (
	sharp = 1.3
	blunt = 2.0
)
