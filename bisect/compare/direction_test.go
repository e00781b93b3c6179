package compare_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
)

// A unit that does not say which values are better is asked about after one launch, not after a pair.
func TestUnknownDirectionEndsAfterOneLaunch(t *testing.T) {
	launches := 0
	x := compare.Experiment{
		A: bisect.Candidate{Commit: "old"}, B: bisect.Candidate{Commit: "new"}, Metrics: []metric.Metric{{Name: "load"}}, Effect: 0.01, Error: 0.01,
		Sampler: bisect.SamplerFunc(func(context.Context, bisect.Request) (bisect.Outcome, error) {
			launches++
			return bisect.Outcome{Class: bisect.OK, Series: []bisect.Series{{Metric: "load", Unit: "%", Values: []float64{90}}}}, nil
		}),
	}
	_, err := x.Run(t.Context())
	if unknown := (*metric.DirectionError)(nil); !errors.As(err, &unknown) || launches != 1 {
		t.Errorf("%v after %d launches", err, launches)
	}
}
