package judge

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
