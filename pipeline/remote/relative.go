package remote

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// Base is the launch that the times of a session are relative to: the first of its reference. Its device may differ from
// that of any other block.
type Base struct {
	Reference bisect.Request
	Outcome   bisect.Outcome
}

// relative puts the numbers of a launch, made beside the reference ref on one device, in terms of base: what the candidate
// took there times what the reference took in base's block by what it took in this one. Only ratios within a block count, so
// that devices that differ in speed do not matter.
func relative(o, ref, base bisect.Outcome) bisect.Outcome {
	whole := factor([]float64{base.Wall}, []float64{ref.Wall}, 1)
	o.Series = slices.Clone(o.Series)
	for i, s := range o.Series {
		f := factor(valuesOf(base, s.Metric, s.Case), valuesOf(ref, s.Metric, s.Case), 0)
		if f == 0 { // a case that the reference lacks: as the others of its metric do
			f = factor(valuesOf(base, s.Metric, ""), valuesOf(ref, s.Metric, ""), whole)
		}
		scaled := make([]float64, len(s.Values))
		for k, v := range s.Values {
			scaled[k] = v * f
		}
		o.Series[i].Values = scaled
	}
	o.Phases = slices.Clone(o.Phases)
	for i, p := range o.Phases {
		if p.Name != "build" { // it was not paired
			o.Phases[i].Seconds *= factor(phaseOf(base, p.Name), phaseOf(ref, p.Name), whole)
		}
	}
	o.Wall *= whole
	o.CPU *= factor([]float64{base.CPU}, []float64{ref.CPU}, whole)
	return o
}

// factor is how many times larger one level is than another, or otherwise where that is not known.
func factor(to, from []float64, otherwise float64) float64 {
	a, b := level(to), level(from)
	if f := a / b; f > 0 && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return f
	}
	return otherwise
}

// level is the geometric mean of the values above 0, or 0.
func level(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if v > 0 {
			sum, n = sum+math.Log(v), n+1
		}
	}
	if n == 0 {
		return 0
	}
	return math.Exp(sum / float64(n))
}

// valuesOf are the values of a metric in one case, "" for all.
func valuesOf(o bisect.Outcome, metric, name string) (out []float64) {
	for _, s := range o.Series {
		if s.Metric == metric && (name == "" || s.Case == name) {
			out = append(out, s.Values...)
		}
	}
	return out
}

func phaseOf(o bisect.Outcome, name string) (out []float64) {
	for _, p := range o.Phases {
		if p.Name == name {
			out = append(out, p.Seconds)
		}
	}
	return out
}
