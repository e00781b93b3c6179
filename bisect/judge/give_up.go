package judge

import (
	"fmt"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// vanished reports that the step of the ends has turned out to be less than is worth a search, or is
// still not to be told from none after many launches.
func (r *slowdownRun) vanished() bool {
	many := 400
	if r.part != nil {
		many = 60
	}
	d, sd := r.model.Step()
	return r.refuted(3) || d <= 2*sd && r.launches >= many
}

// refuted reports that a step worth a search lies z standard deviations above the one that is believed in.
func (r *slowdownRun) refuted(z float64) bool {
	d, sd := r.model.Step()
	return d+z*sd < metric.EffectMargin*r.least()
}

// unconfirmed ends a search whose ends differed at first and do not after more launches: there is nothing
// to search where a step is ruled out with the error allowed, and no answer where it is not.
func (r *slowdownRun) unconfirmed() {
	d, sd := r.model.Step()
	e := &r.f.Ends
	e.Differ, e.Untestable = false, false
	e.Why = fmt.Sprintf("the difference that the first launches of the ends showed was not confirmed: %s is %s times the good end's by all %d launches",
		r.picked.Name(), ratio(r.effect(d, sd)), r.model.Launches())
	if r.refuted(max(3, math.Sqrt2*math.Erfcinv(4*r.delta()))) {
		e.Hint = r.smallest()
		r.f.Complaint = bisect.Complaint{}
		r.f.Result, r.f.Suspects = bisect.NoDifference, nil
		return
	}
	e.Unclear = true
	e.Hint = "use a quieter machine or a program that runs longer, or look for a larger change only with [judge] effect"
	r.inconclusive()
}

// contradicted ends a search whose confirmations have refuted it twice.
func (r *slowdownRun) contradicted() {
	if d, sd := r.model.Step(); d < metric.EffectMargin*r.least() || d < zEnd*sd {
		r.unconfirmed()
		return
	}
	r.warn("the confirmation contradicted the search again: the slowdown does not come and go with the commits alone")
	r.inconclusive()
}

// smallest is the hint for ends that are alike.
func (r *slowdownRun) smallest() string {
	return fmt.Sprintf("smallest change looked for: %.3g %%; set [judge] effect to look for a smaller one", 100*math.Expm1(r.least()))
}

// The rules by which a gradual change is told from a step.
const (
	rampGain     = 8.0 // by how much an even ramp must be likelier than any step, as a logarithm
	rampLaunches = 60  // launches that a search may take before that alone ends it
	rampMost     = 400 // launches of a search for a gradual change, in all
)

// ramps reports that an even ramp over the range explains the launches far better than one step
// anywhere, and that the search is not about to end.
func (r *slowdownRun) ramps() bool {
	if r.part != nil || r.launches < rampLaunches && r.failed+r.restarts == 0 || len(r.commits) < 5 {
		return false
	}
	return r.model.RampOdds() > rampGain
}
