package compare_test

import (
	"context"
	"fmt"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
)

// B takes 5 % longer than A, and every launch scatters a little.
func Example() {
	n := 0
	launch := bisect.SamplerFunc(func(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
		n++
		us := 40 + 0.3*math.Sin(float64(7*n))
		if r.Candidate.Commit == "new" {
			us *= 1.05
		}
		times := bisect.Series{Metric: "time", Unit: "us", Values: []float64{us}}
		return bisect.Outcome{Class: bisect.OK, Series: []bisect.Series{times}, Wall: 1, At: float64(n)}, nil
	})
	x := compare.Experiment{
		A: bisect.Candidate{Commit: "old"}, B: bisect.Candidate{Commit: "new"}, Sampler: launch,
		Metrics: []metric.Metric{{Name: "time"}}, Effect: 0.01, Error: 0.01,
	}
	result, err := x.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	k := result.Contrasts[0]
	fmt.Printf("%s: %s %.2f times, %.2f to %.2f, %d pairs\n", result.Answer, k.Metric.Name, k.Bound.Value, k.Bound.Low, k.Bound.High, result.Pairs)
	// Output:
	// regression: time 1.05 times, 1.04 to 1.06, 7 pairs
}

// The tests and intervals stand on their own.
func ExampleRatioOfMedians() {
	before := []float64{10.1, 10.4, 9.9, 10.2, 10.0, 10.3, 10.2, 9.8}
	after := []float64{10.6, 10.9, 10.3, 10.8, 10.4, 10.9, 10.6, 10.4}
	steps := make([]float64, len(before))
	for i := range before {
		steps[i] = after[i] - before[i]
	}
	ratio := compare.RatioOfMedians(before, after, true, 1)
	fmt.Printf("ratio %.3f, 95 %% CI %.3f to %.3f\n", ratio.Value, ratio.Low, ratio.High)
	fmt.Printf("p %.4f in pairs, %.4f without\n", compare.SignedRank(steps), compare.MannWhitney(before, after))
	// Output:
	// ratio 1.044, 95 % CI 1.039 to 1.059
	// p 0.0078 in pairs, 0.0011 without
}
