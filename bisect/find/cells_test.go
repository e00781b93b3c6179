package find_test

import (
	"context"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// slowdown is the search as the program makes it.
func slowdown(d *simulate.Device, s bisect.Sampler) *search.Search {
	find := bisect.Slow
	if d.Hang != nil {
		find = bisect.Timeout
	}
	if crashes(d) {
		find, s = bisect.Crash, crashing{s}
	}
	return &search.Search{
		Commits: d.History(), Good: bisect.Candidate{Commit: simulate.ID(0)}, GoodKey: "inputs of the good end",
		Sampler: s, All: d.All,
		Options: search.Options{Find: find, Metrics: []metric.Metric{{Name: "time"}}, Effect: 0.005, Error: 0.01},
	}
}

// crashes reports a device that fails by crashing: its failures take as long as its good launches.
func crashes(d *simulate.Device) bool { return d.Hang != nil && d.Hang.Limit == d.GoodSeconds }

// crashing turns the time-outs of a device into crashes.
type crashing struct{ bisect.Sampler }

func (s crashing) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o, err := s.Sampler.Sample(ctx, r)
	if o.Class == bisect.Timeout {
		o.Class = bisect.Crash
	}
	return o, err
}

// kbisect is that search as a rule of the simulation.
var kbisect = simulate.Search(func(ctx context.Context, d *simulate.Device, s bisect.Sampler) (bisect.Finding, error) {
	return find.Culprits(ctx, slowdown(d, s))
})
