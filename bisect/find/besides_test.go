package find_test

import (
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// findShapes searches a program of several shapes as one does who says nothing of what to look for. The
// first launch of either end is one whose times must not be compared.
func findShapes(t *testing.T, seed uint64, step []float64) (*shapes, bisect.Finding) {
	t.Helper()
	s := newShapes(seed, step)
	b := slowdown(s.d, sampler(func(r bisect.Request) (bisect.Outcome, error) {
		o, err := s.launch(t, r)
		if !r.Timing {
			o.Unfit = "another process was on the device"
		}
		return o, err
	}))
	b.Options.Find, b.Options.Effect = "", 0.03
	f, err := find.Culprits(t.Context(), b)
	if err != nil || f.Err != nil {
		t.Fatal(err, f.Err)
	}
	return s, f
}

// A slowdown in one of eight shapes is found and named without a word of what to look for; the whole
// moves little and is told besides.
func TestSlowdownNamesTheCaseThatIsSlow(t *testing.T) {
	step := []float64{0, 0, 0, 0, 0, 0, 0, 0.113}
	for seed := range uint64(8) {
		s, f := findShapes(t, seed, step)
		if f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(s.culprit) || f.Complaint.String() != "slow in time of shape 7" {
			t.Errorf("seed %d: %s, %s", seed, f.Result, f.Complaint)
			continue
		}
		c := f.Culprits[0]
		if e := c.Effect; e.Name() != "time of shape 7" || e.Metric != "time" || math.Abs(math.Log(e.Ratio)-0.113) > 0.02 {
			t.Errorf("seed %d: %+v", seed, e)
		}
		if len(c.Besides) != 1 || c.Besides[0].Name() != "time" || math.Abs(math.Log(c.Besides[0].Ratio)-0.113/8) > 0.02 {
			t.Errorf("seed %d: besides %+v", seed, c.Besides)
		}
	}
}

// Where all shapes moved and one of them much more, whatever was searched for is told with the other; where
// all moved alike there is nothing to tell.
func TestSlowdownTellsWhatMovedBesides(t *testing.T) {
	wholes := 0
	for seed := range uint64(6) {
		_, f := findShapes(t, seed, []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.2})
		if f.Result != bisect.Found {
			t.Fatal(seed, f.Result)
		}
		c, want := f.Culprits[0], "time"
		if c.Effect.Case == "" {
			want = "time of shape 5"
			wholes++
		}
		if len(c.Besides) != 1 || c.Besides[0].Name() != want {
			t.Errorf("seed %d: %+v besides %+v", seed, c.Effect, c.Besides)
		}
		if _, f = findShapes(t, seed, []float64{0.1, 0.1, 0.1, 0.1}); f.Culprits[0].Effect.Case == "" && len(f.Culprits[0].Besides) > 0 {
			t.Errorf("seed %d: besides %+v", seed, f.Culprits[0].Besides)
		}
	}
	if wholes == 0 {
		t.Error("the whole was never searched for")
	}
}

// Eight shapes are eight chances to see a step where there is none. KBISECT_BENCH_SHAPES is the number of
// jobs.
func TestSlowdownNamesNothingInShapesThatAreAlike(t *testing.T) {
	jobs, _ := strconv.Atoi(os.Getenv("KBISECT_BENCH_SHAPES"))
	if jobs == 0 {
		jobs = 20
	}
	named, open, launches := 0, 0, 0
	for seed := range uint64(jobs) {
		s, f := findShapes(t, seed, make([]float64, 8))
		switch f.Result {
		case bisect.Found:
			named++
		case bisect.Inconclusive:
			open++
		}
		launches += s.d.Launches
	}
	t.Logf("of %d jobs %d name a culprit, %d are inconclusive; %.1f launches", jobs, named, open, float64(launches)/float64(jobs))
	if named > max(0, jobs/100) {
		t.Errorf("%d of %d jobs name a culprit", named, jobs)
	}
}
