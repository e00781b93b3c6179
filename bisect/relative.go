package bisect

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Pairs makes times comparable that are taken on several devices: each launch whose times count follows one of the
// good end on the same device, and only the ratio of the two is kept. It is safe for concurrent use.
type Pairs struct {
	mu   sync.Mutex
	good Request
	base *Outcome // a launch of the good end that all times are relative to; which one does not matter
}

// Learn takes in a launch that was made. The first one of the good end whose times may be compared becomes the base
// that all others are relative to.
func (p *Pairs) Learn(r Request, o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.base == nil && r.Purpose == EndGood && o.Class == OK && o.Unfit == "" {
		p.good, p.base = r, &o
	}
}

// On is the sampler of one device, whose outcomes are relative to the base.
func (p *Pairs) On(device Sampler) Sampler {
	return SamplerFunc(func(ctx context.Context, r Request) (Outcome, error) {
		p.mu.Lock()
		good, base := p.good, p.base
		p.mu.Unlock()
		if !r.Timing || r.BuildOnly || base == nil {
			o, err := device.Sample(ctx, r)
			if err == nil {
				p.Learn(r, o)
			}
			return o, err
		}
		ref, err := reference(ctx, device, Request{Candidate: good.Candidate, Purpose: EndGood, Timing: true, Wants: r.Wants})
		if err != nil {
			return Outcome{}, err
		}
		o, err := device.Sample(ctx, r)
		if o.Paired = ref.Wall; err != nil || o.Class != OK {
			return o, err
		}
		return Relative(o, ref, *base), nil
	})
}

// reference launches the good end. It has passed before, so one failure is passed over; three in a row are machine
// trouble.
func reference(ctx context.Context, device Sampler, r Request) (o Outcome, err error) {
	const tries = 3
	for range tries {
		if o, err = device.Sample(ctx, r); err != nil || o.Class == OK {
			return o, err
		}
	}
	return o, &InfraError{What: "launching the good end " + r.Candidate.Brief() + " beside another candidate", Err: fmt.Errorf("it passed before and failed %d times in a row on this device: %s", tries, o.Describe())}
}

// Relative puts the numbers of a launch o, made beside the reference ref on one device, in terms of base: what the
// candidate took times what the reference took in base's block over what it took in this one. Only ratios within a
// block count, so devices may differ in speed.
func Relative(o, ref, base Outcome) Outcome {
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

// factor is how many times larger one level is than another; otherwise, where that is not known.
func factor(to, from []float64, otherwise float64) float64 {
	a, b := level(to), level(from)
	if f := a / b; f > 0 && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return f
	}
	return otherwise
}

// level is the geometric mean of the values above 0; 0 for none.
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
func valuesOf(o Outcome, metric, name string) (out []float64) {
	for _, s := range o.Series {
		if s.Metric == metric && (name == "" || s.Case == name) {
			out = append(out, s.Values...)
		}
	}
	return out
}

func phaseOf(o Outcome, name string) (out []float64) {
	for _, p := range o.Phases {
		if p.Name == name {
			out = append(out, p.Seconds)
		}
	}
	return out
}
