package find_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// shapes turns the launches of a device, which gives drift and disturbances, into those of a program
// that times several shapes, each with noise of its own. A step comes with the culprit in the shapes
// that step says.
type shapes struct {
	d       *simulate.Device
	rng     *rand.Rand
	culprit int
	step    []float64 // by shape
}

const shapeNoise = 0.008

func newShapes(seed uint64, step []float64) *shapes {
	s, _ := simulate.ReadSpec([]byte(`{"preset":"typical","culprit":"none","noise":{"process_sd":0}}`))
	rng := rand.New(rand.NewPCG(seed, 9))
	return &shapes{d: simulate.NewDevice(s, seed), rng: rng, culprit: 1 + rng.IntN(s.Commits), step: step}
}

// launch is one trial.
func (s *shapes) launch(t *testing.T, r bisect.Request) (bisect.Outcome, error) {
	o, err := s.d.Sample(t.Context(), r)
	if err != nil {
		return o, err
	}
	i, _ := strconv.ParseInt(r.Candidate.Commit, 16, 64)
	common := o.Series[0].Values[0]
	o.Series = nil
	for k, step := range s.step {
		y := shapeNoise * s.rng.NormFloat64()
		if int(i) >= s.culprit {
			y += step
		}
		o.Series = append(o.Series, bisect.Series{Metric: "time", Case: fmt.Sprintf("shape %d", k), Unit: "s", Values: []float64{common * float64(k+1) * math.Exp(y)}})
	}
	return o, nil
}

// play plays jobs; it returns the share of right answers, of complaints that name what they should, and
// the mean number of launches.
func playShapes(t *testing.T, jobs int, step []float64, complaint string) (right, named, launches float64) {
	t.Helper()
	for seed := range uint64(jobs) {
		s := newShapes(seed, step)
		b := slowdown(s.d, sampler(func(r bisect.Request) (bisect.Outcome, error) { return s.launch(t, r) }))
		f, err := find.Culprits(t.Context(), b)
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		if f.Result == bisect.Found && f.Culprits[0].Commit == simulate.ID(s.culprit) {
			right += 1 / float64(jobs)
		}
		if strings.HasPrefix(f.Complaint.Metric, complaint) {
			named += 1 / float64(jobs)
		}
		launches += float64(s.d.Launches) / float64(jobs)
	}
	return right, named, launches
}

// A step in one of six shapes is found and named, and one in all of them costs no more than in a
// program of a single shape. KBISECT_BENCH_SHAPES is the number of jobs for a table.
func TestSlowdownSeveralShapes(t *testing.T) {
	jobs, _ := strconv.Atoi(os.Getenv("KBISECT_BENCH_SHAPES"))
	if jobs == 0 {
		jobs = 30
	}
	const one, all = 0.0953, 0.0198
	for _, c := range []struct {
		name      string
		alone     []float64
		step      []float64
		complaint string
	}{
		{"10 % in one of six", []float64{one}, []float64{0, 0, one, 0, 0, 0}, "time of shape 2"},
		{"2 % in all six", []float64{all}, []float64{all, all, all, all, all, all}, "time"},
		{"3 % in two of six", []float64{0.0296}, []float64{0, 0.0296, 0, 0, 0.0296, 0}, "time"},
	} {
		_, _, single := playShapes(t, jobs, c.alone, "")
		right, named, launches := playShapes(t, jobs, c.step, c.complaint)
		t.Logf("%s: right %.0f %%, named %.0f %%, %.1f launches, %.1f with this shape alone", c.name, 100*right, 100*named, launches, single)
		if right < 0.9 || named < 0.9 || launches > 1.25*single {
			t.Errorf("%s: right %.2f, named %.2f, %.1f launches against %.1f", c.name, right, named, launches, single)
		}
	}
}

// A case that comes or goes within the range is no step, however long it takes; a commit without a case
// that both ends have cannot be compared.
func TestSlowdownCasesThatComeAndGo(t *testing.T) {
	long := func(o bisect.Outcome, x float64) bisect.Outcome {
		o.Series = append(o.Series, bisect.Series{Metric: "time", Case: "long", Unit: "s", Values: []float64{x * o.Series[0].Values[0]}})
		return o
	}
	for name, has := range map[string]func(i, culprit int) bool{
		"comes": func(i, _ int) bool { return i > 128 },
		"goes":  func(i, _ int) bool { return i <= 128 },
		"dips":  func(i, culprit int) bool { return i != culprit/2 },
	} {
		for seed := range uint64(4) {
			s := newShapes(seed, []float64{0.0488, 0.0488})
			b := slowdown(s.d, sampler(func(r bisect.Request) (bisect.Outcome, error) {
				o, err := s.launch(t, r)
				if i, _ := strconv.ParseInt(r.Candidate.Commit, 16, 64); err == nil && has(int(i), s.culprit) {
					o = long(o, 20)
				}
				return o, err
			}))
			f, err := find.Culprits(t.Context(), b)
			if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(s.culprit) {
				t.Errorf("%s, seed %d: %v %v, planted %d: %+v %q", name, seed, err, f.Result, s.culprit, f.Culprits, f.Warnings)
			}
			if told := strings.Contains(strings.Join(f.Warnings, " "), "gives time of long"); told != (name != "dips") {
				t.Errorf("%s, seed %d: %q", name, seed, f.Warnings)
			}
		}
	}
}

// Values of which no ratio can be made, or that only one end sent, are told from none at all.
func TestSlowdownSaysWhyValuesCannotBeCompared(t *testing.T) {
	series := func(one string, v ...float64) bisect.Series {
		return bisect.Series{Metric: "time", Case: one, Unit: "s", Values: v}
	}
	for _, c := range []struct {
		good, bad []bisect.Series
		want      string
	}{
		{nil, nil, "sends no samples"},
		{[]bisect.Series{series("", 0, 0)}, []bisect.Series{series("", 1)}, "time of the good end is not above 0"},
		{[]bisect.Series{series("", 1)}, []bisect.Series{series("", -1)}, "time of the bad end is not above 0"},
		{[]bisect.Series{series("", 1)}, nil, "only the good end sent values of time"},
		{[]bisect.Series{series("a", 1), series("b", 1)}, []bisect.Series{series("c", 1)}, "no case of time in common: a, b at the good end, c at the bad one"},
	} {
		s := newShapes(1, []float64{0})
		b := slowdown(s.d, sampler(func(r bisect.Request) (bisect.Outcome, error) {
			o, err := s.d.Sample(t.Context(), r)
			o.Series = c.bad
			if r.Candidate.Commit == simulate.ID(0) {
				o.Series = c.good
			}
			return o, err
		}))
		b.Options.Find = ""
		f, err := find.Culprits(t.Context(), b)
		if err != nil || f.Result != bisect.NoDifference || !strings.Contains(f.Ends.Hint, c.want) {
			t.Errorf("%q: %v %v %q", c.want, err, f.Result, f.Ends.Hint)
		}
	}
}

// Where only one end gives a number that can be compared, another metric does not take its place in silence.
func TestSlowdownTellsAMetricOfOneEnd(t *testing.T) {
	for _, value := range []float64{0, -1, 1e300} {
		s := newShapes(1, []float64{0})
		b := slowdown(s.d, sampler(func(r bisect.Request) (bisect.Outcome, error) {
			o, err := s.d.Sample(t.Context(), r)
			other := bisect.Series{Metric: "other", Unit: "s", Values: []float64{1}}
			if r.Candidate.Commit != simulate.ID(0) {
				other.Values[0] = value
			}
			o.Series = append(o.Series, other)
			return o, err
		}))
		b.Options.Metrics = append(b.Options.Metrics, metric.Metric{Name: "other"})
		f, err := find.Culprits(t.Context(), b)
		if err != nil || !slices.Contains(f.Warnings, "only the good end gives other: it is not compared") {
			t.Errorf("%v: %v %v %q", value, err, f.Result, f.Warnings)
		}
	}
}
