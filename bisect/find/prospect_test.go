package find_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// prospects makes searches and returns what each said early; nil where it said nothing.
func prospects(t *testing.T, spec string, effect float64, with func(d *simulate.Device, b *search.Search)) (out []*bisect.Prospect, found int) {
	t.Helper()
	s, err := simulate.ReadSpec([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(12) {
		d := simulate.NewDevice(s, seed)
		b := slowdown(d, d)
		b.Options.Effect = effect
		var told []bisect.Prospect
		b.OnProspect = func(p bisect.Prospect) error { told = append(told, p); return nil }
		if with != nil {
			with(d, b)
		}
		f, err := find.Culprits(t.Context(), b)
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		if len(told) > 1 || len(told) == 1 != (f.Prospect != nil) {
			t.Errorf("seed %d: told %+v, kept %+v", seed, told, f.Prospect)
		}
		if out = append(out, f.Prospect); f.Result == bisect.Found {
			found++
		}
	}
	return slices.DeleteFunc(out, func(p *bisect.Prospect) bool { return p == nil }), found
}

// A search says early that what it looks for is too dear, and only then. What it says can be found can be.
func TestTooDear(t *testing.T) {
	for spec, effect := range map[string]float64{
		`{"preset":"quiet","step_log":0.03}`: 0.005, `{"preset":"typical","step_log":0.03}`: 0.03, `{"preset":"noisy","step_log":0.1}`: 0.03,
	} {
		if said, found := prospects(t, spec, effect, nil); len(said) > 0 || found < 12 {
			t.Errorf("%s: found in %d of 12, said %+v", spec, found, said)
		}
	}
	const noisy = `"commits":128,"noise":{"process_sd":0.06,"drift_sd":0.001,"contaminated":0}`
	said, _ := prospects(t, `{`+noisy+`,"culprit":"none"}`, 0.03, nil)
	if len(said) < 9 {
		t.Fatalf("noise of 6 %% and an effect of 3 %%: said in %d of 12 searches", len(said))
	}
	sum := 0.0
	for _, p := range said {
		if p.Made < 8 || p.Made > 40 || !p.Seen && p.Change != 0.03 || p.Noise < 0.02 || p.Noise > 0.15 || p.Launches > 0 && p.Launches < p.Within || p.Findable < p.Change {
			t.Errorf("%+v", p)
		}
		sum += p.Findable / float64(len(said))
	}
	var devices []*simulate.Device
	_, found := prospects(t, `{`+noisy+`,"step_log":`+fmt.Sprint(math.Log1p(sum))+`}`, 0.03, func(d *simulate.Device, _ *search.Search) { devices = append(devices, d) })
	slow := 0
	for _, d := range devices {
		if float64(d.Launches) > 2*said[0].Within {
			slow++
		}
	}
	if found < 10 || slow > 2 {
		t.Errorf("a change of %.3f, said to be findable: found in %d of 12, in %d by more than twice the launches", sum, found, slow)
	}
}

// With a budget that is what counts: what fits is not spoken of, and what does not is, with what it leaves.
func TestTooDearForTheBudget(t *testing.T) {
	const spec = `{"preset":"typical","step_log":0.03,"commits":256}`
	for launches, speaks := range map[float64]bool{12: true, 200: false} {
		said, _ := prospects(t, spec, 0.03, func(d *simulate.Device, b *search.Search) {
			b.Left = func() float64 { return (launches - float64(d.Launches)) * 13 }
		})
		if (len(said) >= 9) != speaks || !speaks && len(said) > 0 {
			t.Errorf("a budget of %v launches: said %d times", launches, len(said))
		}
		for _, p := range said {
			if p.Left <= 0 || p.Launches > 0 && (p.Launches <= p.Within || p.Seconds <= p.Left) { // 0: no number of launches does
				t.Errorf("%+v", p)
			}
		}
	}
}

// loud adds numbers to launches whose times scatter widely: one that rises with them and hardly scatters, one
// that hardly scatters and does not change, and one that scatters as well.
type loud struct {
	*simulate.Device
	rng *rand.Rand
}

func (l loud) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o, err := l.Device.Sample(ctx, r)
	near := func(v, sd float64) []float64 { return []float64{v * math.Exp(sd*l.rng.NormFloat64())} }
	level := 1.0
	if r.Candidate.Commit != simulate.ID(0) {
		level = 1.1
	}
	o.CPU, o.Wall = near(level, 0.004)[0], near(13, 0.3)[0]
	o.Series = append(o.Series, bisect.Series{Metric: "same_us", Unit: "us", Values: near(5, 0.002)}, bisect.Series{Metric: "wild_us", Unit: "us", Values: near(5, 0.3)})
	return o, err
}

// The metrics named instead are those that scatter less in the launches made, and whose ends differ or may.
func TestQuieterMetrics(t *testing.T) {
	named := 0
	said, _ := prospects(t, `{"step_log":0.03,"commits":64,"noise":{"process_sd":0.2}}`, 0.03, func(d *simulate.Device, b *search.Search) {
		b.Sampler, b.Launches = loud{d, rand.New(rand.NewPCG(uint64(d.Seed), 5))}, 30
	})
	for _, p := range said {
		for _, q := range p.Quieter {
			if q.Metric != "cpu" || !q.Differs || math.Abs(q.Ratio-1.1) > 0.02 || q.Noise > 0.02 || q.Launches > 40 {
				t.Errorf("%+v", q)
			}
			named++
		}
	}
	if len(said) < 10 || named < len(said)-1 {
		t.Errorf("said %d times, named %d metrics", len(said), named)
	}
}

// A callback that returns an error ends the search, whose launches are kept.
func TestTooDearIsInterrupted(t *testing.T) {
	s, err := simulate.ReadSpec([]byte(`{"noise":{"process_sd":0.2}}`))
	if err != nil {
		t.Fatal(err)
	}
	d := simulate.NewDevice(s, 1)
	b := slowdown(d, d)
	b.OnProspect = func(bisect.Prospect) error { return context.Canceled }
	f, err := find.Culprits(t.Context(), b)
	if err != nil || f.Result != bisect.Interrupted || f.Prospect == nil || d.Launches > 20 {
		t.Errorf("%v, %v after %d launches: %+v", err, f.Result, d.Launches, f.Prospect)
	}
}
