package find_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// host launches a line of commits on a machine that holds up a share of the calls of each launch, another one in each. From
// the culprit on a call takes longer by step, or only every second one does.
type host struct {
	rng     *rand.Rand
	culprit int
	step    float64
	every   int  // call that takes longer
	quick   bool // before it one call in ten takes 0.7 of the time
	now     float64
	n       int // launches
}

func (d *host) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	bad := false
	for i := d.culprit; i < 64; i++ {
		bad = bad || simulate.ID(i+1) == r.Candidate.Commit
	}
	held := d.rng.Float64()
	values := make([]float64, 50)
	for i := range values {
		values[i] = 300 * math.Exp(0.01*d.rng.NormFloat64())
		if bad && (i+1)%d.every == 0 {
			values[i] *= 1 + d.step
		}
		if !bad && d.quick && i%10 == 0 {
			values[i] *= 0.7
		}
		if d.rng.Float64() < held {
			values[i] *= 1 + 0.6*d.rng.ExpFloat64()
		}
	}
	o := bisect.Outcome{Class: bisect.OK, Wall: 1, At: d.now, Built: true, Series: []bisect.Series{{Metric: "time", Unit: "us", Values: values}}}
	d.now += 2
	d.n++
	return o, nil
}

// Where a machine holds up calls, the search goes by the fastest samples of each launch; but the step has to be one of what
// was asked for.
func TestSearchesByTheFastestSamples(t *testing.T) {
	for _, c := range []struct {
		name     string
		step     float64
		every    int
		quick    bool
		all      bool
		result   bisect.Result
		launches int // on average at most; 0: any
	}{
		{"all calls are slower", 0.2, 1, false, false, bisect.Found, 60},
		{"every culprit is looked for", 0.2, 1, false, true, bisect.Found, 0},
		{"some calls are slower, the fastest as before", 0.9, 2, false, false, bisect.Found, 0},
		{"nothing differs", 0, 1, false, false, bisect.NoDifference, 0},
		{"only the fastest calls are slower", 0, 1, true, false, bisect.NoDifference, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			const seeds = 8
			right, launches := 0, 0
			for seed := range uint64(seeds) {
				d := &host{rng: rand.New(rand.NewPCG(seed, 5)), culprit: 1 + int(seed)*5%62, step: c.step, every: c.every, quick: c.quick}
				_, s := tenfold(seed, 64, d.culprit)
				s.Sampler, s.Metrics, s.All = d, []metric.Metric{{Name: "time"}}, c.all
				f, err := find.Culprits(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				named := len(f.Culprits) == 1 && f.Culprits[0].Commit == simulate.ID(d.culprit+1)
				if len(f.Culprits) > 0 && (!named || c.result != bisect.Found) {
					t.Errorf("seed %d: %s, %+v, want %s", seed, f.Result, f.Culprits[0], simulate.ID(d.culprit+1))
				}
				if f.Result == c.result {
					right++
				}
				launches += d.n
			}
			t.Logf("%d of %d right, %d launches on average", right, seeds, launches/seeds)
			if right < seeds-1 || c.launches > 0 && launches/seeds > c.launches {
				t.Errorf("%d of %d right, %d launches on average", right, seeds, launches/seeds)
			}
		})
	}
}
