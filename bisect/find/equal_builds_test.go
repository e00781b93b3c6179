package find_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// equalBuilds says of a commit that builds to what a launched one does, instead of launching it, that they are alike. A commit
// that is asked for again is launched.
type equalBuilds struct {
	bisect.Sampler
	build    map[string]int // by commit
	launched map[int]string // the first one, by build
	shared   int
}

func (d *equalBuilds) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	id := r.Candidate.Commit
	n := d.build[id]
	if first := d.launched[n]; first != "" && first != id && r.Timing && r.Purpose == bisect.Searching && r.Nth == 0 {
		d.shared++
		return bisect.Outcome{Class: bisect.OK, Shared: first, Unfit: "it was not launched"}, nil
	}
	if d.launched[n] == "" {
		d.launched[n] = id
	}
	return d.Sampler.Sample(ctx, r)
}

// Commits with equal builds are not launched. The right one is named in fewer launches where builds tell the truth, and in
// the end also where the culprit is in what no build reads.
func TestEqualBuildsAreNotLaunched(t *testing.T) {
	const jobs = 40
	spec, err := simulate.ReadSpec([]byte(`{"preset":"typical","commits":128,"step_log":0.05}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, lies := range map[string]bool{"of what is built": false, "of a file that is read and was not seen": true} {
		t.Run(name, func(t *testing.T) {
			launches, plainly, shared := 0, 0, 0
			for seed := range uint64(jobs) {
				rng := rand.New(rand.NewPCG(seed, 7))
				device := simulate.NewDevice(spec, seed+1)
				d := &equalBuilds{Sampler: device, build: map[string]int{}, launched: map[int]string{}}
				culprit := device.Culprits()[0]
				s := slowdown(device, d)
				s.GoodKey = "good"
				build := 0
				for i := range s.Commits {
					s.Commits[i].Key = s.Commits[i].ID
					starts := rng.Float64() < 0.3
					if s.Commits[i].ID == simulate.ID(culprit) {
						starts = !lies
					}
					if starts {
						build = i + 1
					}
					d.build[s.Commits[i].ID] = build
				}
				f, err := find.Culprits(t.Context(), s)
				if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(culprit) || !f.Culprits[0].Confirmed {
					t.Errorf("seed %d: %s, %+v, want %d; %v, %q", seed, f.Result, f.Culprits, culprit, err, f.Warnings)
				}
				launches, shared = launches+device.Launches, shared+d.shared
				inferred := 0
				for _, x := range f.Steps {
					if x.Inferred {
						inferred++
					}
				}
				if inferred == 0 && d.shared > 0 || inferred > d.shared {
					t.Errorf("seed %d: %d judgements are inferred, of %d", seed, inferred, d.shared)
				}
				plain := simulate.NewDevice(spec, seed+1)
				if _, err := find.Culprits(t.Context(), slowdown(plain, plain)); err != nil {
					t.Fatal(err)
				}
				plainly += plain.Launches
			}
			if t.Logf("%d launches, %d without; %d were not made", launches, plainly, shared); shared == 0 || !lies && launches >= plainly {
				t.Error("nothing is saved")
			}
		})
	}
}

// Where every culprit is wanted, one that was made good again is found although the builds before and after are equal.
func TestEqualBuildsAroundACulprit(t *testing.T) {
	const n, slow, fixed, again = 96, 30, 60, 80
	d, s := tenfold(1, n, n)
	equal := &equalBuilds{Sampler: d, build: map[string]int{}, launched: map[int]string{}}
	s.Sampler, s.All, s.GoodKey = equal, true, "good"
	for i := range s.Commits {
		s.Commits[i].Key = s.Commits[i].ID
		if i >= slow && i < fixed || i >= again {
			d.level[i], equal.build[s.Commits[i].ID] = 0.2, 1
		}
	}
	f, err := find.Culprits(t.Context(), s)
	var found []string
	for _, c := range f.Culprits {
		found = append(found, c.Commit)
	}
	if want := []string{simulate.ID(slow + 1), simulate.ID(again + 1)}; err != nil || !slices.Equal(found, want) || equal.shared == 0 {
		t.Errorf("%s, %q, want %q; %d shared, %v, %q", f.Result, found, want, equal.shared, err, f.Warnings)
	}
}

// Where a commit that was found explains little of what the ends differ by, and builds were taken for alike, the larger step is
// looked for in what no build reads.
func TestEqualBuildsHideALargerStep(t *testing.T) {
	const n, hidden, built = 64, 20, 40
	for seed := range uint64(20) {
		d, s := tenfold(seed, n, n)
		equal := &equalBuilds{Sampler: d, build: map[string]int{}, launched: map[int]string{}}
		s.Sampler, s.GoodKey = equal, "good"
		for i := range s.Commits {
			s.Commits[i].Key = s.Commits[i].ID
			if i >= hidden {
				d.level[i] += math.Log(2)
			}
			if i >= built {
				d.level[i] += math.Log(1.3)
				equal.build[s.Commits[i].ID] = 1
			}
		}
		f, err := find.Culprits(t.Context(), s)
		if err != nil || len(f.Culprits) != 1 || f.Culprits[0].Commit != simulate.ID(hidden+1) || equal.shared == 0 {
			t.Errorf("seed %d: %s, %+v, want %s; %v, %q", seed, f.Result, f.Culprits, simulate.ID(hidden+1), err, f.Warnings)
		}
	}
}
