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

// mostLaunches bounds the launches of one simulated search. One that needs more counts as one that names no commit.
const mostLaunches = 400

// Outlook is how simulated searches ended, averaged over [searches] of them. Launches, builds and seconds are for
// one search. A search that is neither right nor wrong named no commit.
type Outlook struct {
	Effect   report.Number `json:"effect"` // of the planted slowdown, a fraction; null: a failure was planted
	Right    float64       `json:"right"`  // share of the searches that named the culprit
	Wrong    float64       `json:"wrong"`
	Launches float64       `json:"launches"` // on average, with both ends and the proof
	Builds   float64       `json:"builds"`
	Seconds  float64       `json:"seconds"` // of launches and builds
}

// slowdown runs simulated searches for a planted slowdown of size effect, a fraction. They use the options of
// kbisect run, with effect as the smallest change worth finding and errorRate as the chance of a wrong answer. spec
// is the device.
func slowdown(ctx context.Context, spec simulate.Spec, effect, errorRate float64) (Outlook, error) {
	spec.StepLog = math.Log1p(effect)
	out, err := outlook(ctx, spec, search.Options{Find: bisect.Slow, Metrics: []metric.Metric{{Name: "time"}}, Effect: effect, Error: errorRate})
	out.Effect = report.Number(effect)
	return out, err
}

// failure runs simulated searches for a planted failure that takes the given seconds to show in every launch.
func failure(ctx context.Context, spec simulate.Spec, seconds, errorRate float64) (Outlook, error) {
	spec.Hang = &simulate.Hang{Bad: 1, Limit: seconds}
	out, err := outlook(ctx, spec, search.Options{Find: bisect.Timeout, Error: errorRate})
	out.Effect = report.Number(math.NaN())
	return out, err
}

// outlook runs the real search on simulated devices and sums up how it ended.
func outlook(ctx context.Context, spec simulate.Spec, options search.Options) (Outlook, error) {
	score, err := simulate.Simulate(ctx, spec, "kbisect", simulate.Search(func(ctx context.Context, d *simulate.Device, s bisect.Sampler) (bisect.Finding, error) {
		return find.Culprits(ctx, &search.Search{
			Commits: d.History(), Good: bisect.Candidate{Commit: simulate.ID(0)}, Sampler: s, Launches: mostLaunches, Options: options,
		})
	}))
	if spec.BuildSeconds == 0 { // there is nothing to build
		score.Builds = 0
	}
	return Outlook{
		Right: score.Right, Wrong: score.Wrong, Launches: score.LaunchesMean, Builds: score.Builds,
		Seconds: score.DeviceSeconds + score.Builds*spec.BuildSeconds,
	}, err
}
