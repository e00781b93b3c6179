package find_test

import (
	"context"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
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
	every   int                                      // call that takes longer
	alter   func(at int, values []float64) []float64 // what commit at sends instead; nil: the values
	now     float64
	n       int // launches
}

func (d *host) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	at := -1 // the good end
	for i := range 64 {
		if simulate.ID(i+1) == r.Candidate.Commit {
			at = i
		}
	}
	held := d.rng.Float64()
	values := make([]float64, 50)
	for i := range values {
		values[i] = 300 * math.Exp(0.01*d.rng.NormFloat64())
		if at >= d.culprit && (i+1)%d.every == 0 {
			values[i] *= 1 + d.step
		}
		if d.rng.Float64() < held {
			values[i] *= 1 + 0.6*d.rng.ExpFloat64()
		}
	}
	if d.alter != nil {
		values = d.alter(at, values)
	}
	o := bisect.Outcome{Class: bisect.OK, Wall: 1, At: d.now, Built: true, Series: []bisect.Series{{Metric: "time", Unit: "us", Values: values}}}
	d.now += 2
	d.n++
	return o, nil
}

// A machine that holds up calls, more of them in some launches than in others, hides no step and makes none.
func TestCallsThatAreHeldUp(t *testing.T) {
	for _, c := range []struct {
		name     string
		step     float64
		every    int
		all      bool
		alter    func(at int, values []float64) []float64
		result   bisect.Result
		launches int // on average at most; 0: any
	}{
		{"all calls are slower", 0.2, 1, false, nil, bisect.Found, 24},
		{"every culprit is looked for", 0.2, 1, true, nil, bisect.Found, 0},
		{"every second call is slower", 0.9, 2, false, nil, bisect.Found, 0},
		{"nothing differs", 0, 1, false, nil, bisect.NoDifference, 0},
		{"two samples of some commits", 0.2, 1, false, func(at int, values []float64) []float64 {
			if at%7 == 1 {
				return values[:2]
			}
			return values
		}, bisect.Found, 0},
		{"zeros of some commits", 0.2, 1, false, func(at int, values []float64) []float64 {
			if at%7 == 1 {
				clear(values[:7])
			}
			return values
		}, bisect.Found, 0},
		{"a few fast calls end before it", 0.3, 1, false, func(at int, values []float64) []float64 {
			for i := range values[:6] {
				if at < 1 {
					values[i] *= 0.75
				}
			}
			return values
		}, bisect.Found, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			const seeds = 8
			right, wrong, launches, fastest := 0, 0, 0, 0
			for seed := range uint64(seeds) {
				d := &host{rng: rand.New(rand.NewPCG(seed, 5)), culprit: 2 + int(seed)*5%61, step: c.step, every: c.every, alter: c.alter}
				_, s := tenfold(seed, 64, d.culprit)
				s.Sampler, s.Metrics, s.All = d, []metric.Metric{{Name: "time"}}, c.all
				f, err := find.Culprits(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				named := len(f.Culprits) == 1 && f.Culprits[0].Commit == simulate.ID(d.culprit+1)
				if len(f.Culprits) > 0 && (!named || c.result != bisect.Found) {
					wrong++
					t.Logf("seed %d: %s by %s, %+v, want %s; %q", seed, f.Result, f.Ends.Why, f.Culprits[0].Effect, simulate.ID(d.culprit+1), f.Warnings)
				}
				if f.Result == c.result {
					right++
				}
				if len(f.Culprits) > 0 && f.Culprits[0].Effect.Statistic == bisect.FastestTenth {
					fastest++
				}
				launches += d.n
			}
			t.Logf("%d of %d right, %d wrong, %d launches on average", right, seeds, wrong, launches/seeds)
			if right < seeds-1 || wrong > 1 || // one search in a hundred may be wrong
				c.launches > 0 && launches/seeds > c.launches {
				t.Errorf("%d of %d right, %d wrong, %d launches on average", right, seeds, wrong, launches/seeds)
			}
			if want := c.step > 0 && c.every == 1; c.alter == nil && (want && fastest < seeds/2 || !want && fastest > 0) {
				t.Errorf("%d of %d by the fastest tenth", fastest, seeds)
			}
		})
	}
}

// recorded is a line of commits of which the launches are drawn from recorded ones of a good and of a bad commit.
type recorded struct {
	rng     *rand.Rand
	culprit int
	of      [2][][]float64
	n       int // launches
}

func (d *recorded) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	side := 0
	for i := d.culprit; i < 69; i++ {
		if simulate.ID(i+1) == r.Candidate.Commit {
			side = 1
		}
	}
	values := d.of[side][d.rng.IntN(len(d.of[side]))]
	d.n++
	return bisect.Outcome{Class: bisect.OK, Wall: 1, At: 1.2 * float64(d.n), Built: true, Series: []bisect.Series{{Metric: "time", Unit: "us", Values: values}}}, nil
}

// Launches of a cross entropy before and after a commit that costs it some 30 %, on three machines with an H200 whose hosts
// hold up calls. By medians these searches took 65, 48 and 75 launches on average, and one was wrong.
func TestLaunchesOfNoisyHosts(t *testing.T) {
	file, err := os.Open("../../fixtures/heldup/h200.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := csv.NewReader(file)
	rows.FieldsPerRecord = 52
	all, err := rows.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	launches := map[string]*[2][][]float64{}
	for _, row := range all {
		if launches[row[0]] == nil {
			launches[row[0]] = &[2][][]float64{}
		}
		side := map[string]int{"good": 0, "bad": 1}[row[1]]
		var values []float64
		for _, s := range row[2:] {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		launches[row[0]][side] = append(launches[row[0]][side], values)
	}
	for machine, most := range map[string]int{"1": 40, "2": 40, "3": 65} {
		const seeds = 20
		right, wrong, n := 0, 0, 0
		for seed := range uint64(seeds) {
			d := &recorded{rng: rand.New(rand.NewPCG(seed, 5)), culprit: 2 + int(seed)*5%66, of: *launches[machine]}
			_, s := tenfold(seed, 69, d.culprit)
			s.Sampler = d
			f, err := find.Culprits(t.Context(), s)
			switch {
			case err != nil:
				t.Fatal(err)
			case len(f.Culprits) == 1 && f.Culprits[0].Commit == simulate.ID(d.culprit+1):
				right++
			case len(f.Culprits) > 0:
				wrong++
			}
			n += d.n
		}
		t.Logf("machine %s: %d of %d right, %d wrong, %d launches on average", machine, right, seeds, wrong, n/seeds)
		if right < seeds-1 || wrong > 0 || n/seeds > most {
			t.Errorf("machine %s: %d of %d right, %d wrong, %d launches on average", machine, right, seeds, wrong, n/seeds)
		}
	}
}
