package preview

import (
	"context"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// mostLaunches bounds a simulated search.
const mostLaunches = 400

// Outlook is what simulated searches came to.
type Outlook struct {
	Effect   report.Number `json:"effect"` // of the planted slowdown, a fraction; null: a failure was planted
	Right    float64       `json:"right"`  // share of the searches that named the culprit
	Wrong    float64       `json:"wrong"`
	Launches float64       `json:"launches"` // on average, with both ends and the proof
	Builds   float64       `json:"builds"`
	Seconds  float64       `json:"seconds"` // of launches and builds
}

// slowdown plants slowdowns of this effect, a fraction, in searches of a simulated device. They run as kbisect run
// does, with effect as the smallest change worth finding and errorRate as the chance of a wrong answer.
func slowdown(ctx context.Context, spec simulate.Spec, effect, errorRate float64) (Outlook, error) {
	spec.StepLog = math.Log1p(effect)
	out, err := outlook(ctx, spec, search.Options{Find: bisect.Slow, Metrics: []metric.Metric{{Name: "time"}}, Effect: effect, Error: errorRate})
	out.Effect = report.Number(effect)
	return out, err
}

// failure plants a failure that takes so many seconds to show.
func failure(ctx context.Context, spec simulate.Spec, seconds, errorRate float64) (Outlook, error) {
	spec.Hang = &simulate.Hang{Bad: 1, Limit: seconds}
	out, err := outlook(ctx, spec, search.Options{Find: bisect.Timeout, Error: errorRate})
	out.Effect = report.Number(math.NaN())
	return out, err
}

func outlook(ctx context.Context, spec simulate.Spec, options search.Options) (Outlook, error) {
	score, err := simulate.Simulate(ctx, spec, "kbisect", simulate.Search(func(ctx context.Context, d *simulate.Device, s bisect.Sampler) (bisect.Finding, error) {
		return find.Culprits(ctx, &search.Search{
			Commits: d.History(), Good: bisect.Candidate{Commit: simulate.ID(0)}, Sampler: s, Launches: mostLaunches, Options: options,
		})
	}))
	return Outlook{
		Right: score.Right, Wrong: score.Wrong, Launches: score.LaunchesMean, Builds: score.Builds,
		Seconds: score.DeviceSeconds + score.Builds*spec.BuildSeconds,
	}, err
}
