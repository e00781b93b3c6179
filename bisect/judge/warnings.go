package judge

import "github.com/kbisect/kbisect/bisect/belief"

// environment appends to the finding what was wrong with the machine meanwhile. Exact numbers do not
// depend on it.
func (r *slowdownRun) environment() {
	if r.picked.Metric.Exact {
		return
	}
	out := r.around.Warnings()
	if r.model != nil {
		out = append(out, belief.Diagnose(r.model).Warnings()...)
	}
	r.f.Warnings = append(r.f.Warnings, out...)
}
