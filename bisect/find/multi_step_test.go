package find_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// history is a history of 256 commits with several steps at given places.
type history struct {
	steps []float64 // logarithms
	at    []int     // places
	plain bool      // one culprit is looked for
	spec  string    // the rest of the specification
}

// evenly are n places all over 256 commits.
func evenly(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1 + (2*i+1)*256/(2*n)
	}
	return out
}

// device is the simulated machine of one trial.
func (h history) device(t *testing.T, seed uint64) *simulate.Device {
	t.Helper()
	var keys []string
	if h.spec != "" {
		keys = append(keys, h.spec)
	}
	if len(h.steps) > 0 {
		var steps []string
		for i, s := range h.steps {
			steps = append(steps, fmt.Sprintf(`{"at":%d,"log":%v}`, h.at[i], s))
		}
		keys = append(keys, `"steps":[`+strings.Join(steps, ",")+`]`)
	}
	keys = append(keys, fmt.Sprintf(`"all":%v`, !h.plain))
	s, err := simulate.ReadSpec([]byte("{" + strings.Join(keys, ",") + "}"))
	if err != nil {
		t.Fatal(err)
	}
	return simulate.NewDevice(s, seed)
}

// What was fixed is no culprit, whatever the machine looks like: not even where the levels of the commits
// look like two modes of it.
func TestAllNamesNoMend(t *testing.T) {
	h := history{steps: []float64{0.08, -0.05}, at: []int{100, 150}}
	wrong := 0
	for seed := range uint64(24) { // among them 2 and 21, which have looked like that
		d := h.device(t, seed)
		f, err := find.Culprits(t.Context(), slowdown(d, d))
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		for _, c := range f.Culprits {
			if c.Effect.Ratio < 1 {
				t.Errorf("seed %d: %s is named for a ratio of %.3f", seed, c.Commit[30:], c.Effect.Ratio)
			}
			if c.Commit != simulate.ID(100) {
				wrong++
			}
		}
	}
	if wrong > 1 {
		t.Errorf("%d wrong commits named", wrong)
	}
}

// The shares of culprits and fixes and what is left add up to the whole, and hold what was planted. Each culprit has the
// step that its share is of.
func TestSharesAddUp(t *testing.T) {
	for _, h := range []history{
		{steps: []float64{0.03, 0.05}, at: []int{70, 190}},
		{steps: []float64{0.08, -0.03}, at: []int{70, 190}},
		{steps: []float64{0.05, -0.05, 0.05}, at: []int{60, 120, 190}},
		{steps: []float64{0.05, 0.05}, at: []int{90, 180}, spec: `"cases":4,"noise":{"drift_sd":0.01}`},
	} {
		whole, held, shares := 0.0, 0, 0
		for _, s := range h.steps {
			whole += s
		}
		for seed := range uint64(5) {
			d := h.device(t, seed)
			f, err := find.Culprits(t.Context(), slowdown(d, d))
			if err != nil || f.Err != nil || f.Rest == nil {
				t.Fatal(err, f.Err, f.Rest)
			}
			sum := f.Rest.Value
			add := func(s *bisect.Share, lo, hi string, e *bisect.Effect) {
				planted := 0.0
				for k, at := range h.at {
					if id := simulate.ID(at); id > lo && id <= hi {
						planted += h.steps[k] / whole
					}
				}
				sum += s.Value
				if shares++; s.Low <= planted && planted <= s.High {
					held++
				}
				if ends := math.Log(e.Ratio) / s.Value; math.Abs(ends/whole-1) > 0.4 {
					t.Errorf("%v, seed %d: %.3f is said to be %.2f of %.3f", h.steps, seed, e.Ratio, s.Value, whole)
				}
			}
			for _, c := range f.Culprits {
				add(c.Share, c.Parents[0], c.Commit, c.Effect)
			}
			for _, m := range f.Fixes {
				add(m.Share, m.After, m.By, &m.Effect)
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("%v, seed %d: shares of %.6f", h.steps, seed, sum)
			}
		}
		if held < shares-2 || shares < 10 {
			t.Errorf("%v: %d of %d intervals hold the share", h.steps, held, shares)
		}
	}
}

// A search of few launches seldom reports one step as several, and still reports two.
func TestOneStepIsNotSeveral(t *testing.T) {
	const seeds = 120
	for _, c := range []struct {
		step, other float64 // the culprit's, and one elsewhere, logarithms
		least, most int     // searches that tell of other changes
	}{{0.13, 0, 0, seeds / 40}, {0.13, 0.06, seeds * 9 / 10, seeds}, {2.3, 0, 0, seeds / 40}, {2.3, 0.3, seeds * 9 / 10, seeds}} {
		told := 0
		for seed := range uint64(seeds) {
			d := &dag{commits: straight(20), level: make([]float64, 20), rng: rand.New(rand.NewPCG(seed, 1))}
			for i := range d.level {
				if i >= 4 {
					d.level[i] += c.other
				}
				if i >= 9 {
					d.level[i] += c.step
				}
			}
			b := d.slowdown()
			b.Sampler = d
			f, err := find.Culprits(t.Context(), b)
			if err != nil || len(f.Culprits) != 1 || f.Culprits[0].Commit != simulate.ID(10) {
				t.Fatalf("seed %d: %v %s %v", seed, err, f.Result, f.Culprits)
			}
			if strings.Contains(strings.Join(f.Warnings, " "), "the range holds other changes") {
				told++
			}
		}
		if told < c.least || told > c.most {
			t.Errorf("a step of %.2f and another of %.2f: told in %d of %d, want %d to %d", c.step, c.other, told, seeds, c.least, c.most)
		}
	}
}

// Steps of several commits are no modes of the machine, and do not eat each other's effect.
func TestStepsAreNoModes(t *testing.T) {
	const jobs = 20
	h := history{steps: []float64{0.07, 0.03}, at: []int{70, 190}, plain: true, spec: `"preset":"quiet"`}
	modes, silent := 0, 0
	for seed := range uint64(jobs) {
		d := h.device(t, seed)
		f, err := find.Culprits(t.Context(), slowdown(d, d))
		if err != nil || f.Result != bisect.Found {
			t.Fatal(seed, err, f.Result)
		}
		own := map[string]float64{simulate.ID(70): 0.07, simulate.ID(190): 0.03}[f.Culprits[0].Commit]
		if got := math.Log(f.Culprits[0].Effect.Ratio); math.Abs(got-own) > 0.015 {
			t.Errorf("seed %d: %s changes it by %.3f, is said to by %.3f", seed, f.Culprits[0].Commit[30:], own, got)
		}
		said := strings.Join(f.Warnings, " ") + f.Ends.Why
		if strings.Contains(said, "two modes") {
			modes++
		}
		if !strings.Contains(said, "the range holds other changes") {
			silent++
		}
	}
	if modes > 1 || silent > 1 {
		t.Errorf("of %d searches %d speak of modes, %d do not speak of the other step", jobs, modes, silent)
	}
}

// Where launches fall into two modes, the effect is the step and not the distance of the modes.
func TestModesAreNoEffect(t *testing.T) {
	s, err := simulate.ReadSpec([]byte(`{"step_log":0.03,"commits":128,"noise":{"process_sd":0.002,"drift_sd":0.001,"modes":[{"p":0.5,"log":0.125}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	const jobs = 40
	named, off := 0, 0
	for seed := range uint64(jobs) {
		d := simulate.NewDevice(s, seed)
		f, err := find.Culprits(t.Context(), slowdown(d, d))
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		for _, c := range f.Culprits {
			named++
			if math.Abs(math.Log(c.Effect.Ratio)-0.03) > 0.05 {
				off++
			}
		}
	}
	if named < jobs*9/10 || off > 2 {
		t.Errorf("of %d searches %d name a commit, %d with an effect of another size", jobs, named, off)
	}
}

// A search for every culprit that was killed goes on with the very launch that it would have made, and
// no two launches have the same name.
func TestAllResumes(t *testing.T) {
	for _, h := range []history{
		{steps: []float64{0.05, -0.05, 0.06}, at: []int{20, 40, 50}, spec: `"commits":64`},
		{steps: []float64{0.05, -0.05, 0.06}, at: []int{20, 40, 50}, spec: `"commits":64,"hang":{"bad":1,"good":0,"limit":60},"untestable":[[30,32]]`},
		{steps: slices.Repeat([]float64{0.004}, 20), at: evenly(20), plain: true},
	} {
		d := h.device(t, 5)
		rec := &recorder{next: d}
		want, err := find.Culprits(t.Context(), slowdown(d, rec))
		if err != nil || want.Err != nil || len(want.Culprits) != 2 && !want.Gradual {
			t.Fatal(err, want.Err, want.Culprits)
		}
		names := map[bisect.TrialID]bool{}
		for n, r := range rec.requests {
			if names[r.ID()] {
				t.Fatalf("launch %d: %+v was made before", n, r)
			}
			names[r.ID()] = true
		}
		for n := 0; n < len(rec.outcomes); n += 23 {
			l := &ledger{outcomes: rec.outcomes[:n]}
			if f, err := find.Culprits(t.Context(), slowdown(d, l)); err != nil || f.Result != bisect.Broken || l.asked != rec.requests[n] {
				t.Fatalf("killed at launch %d: %v %v, asked %+v, want %+v", n, err, f.Result, l.asked, rec.requests[n])
			}
		}
		got, err := find.Culprits(t.Context(), slowdown(d, &ledger{outcomes: rec.outcomes}))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("replayed %v %+v, want %+v", err, got, want)
		}
	}
}

// Two slow commits of a history with branches, one of them perhaps beside the trunk, are both found.
func TestAllOnBranches(t *testing.T) {
	commits := wide(84)
	trials, both, extra := 0, 0, 0
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 4))
		a, b := rng.IntN(36), 48+rng.IntN(36)
		d := &dag{commits: commits, level: make([]float64, len(commits)), rng: rng}
		for i := range commits {
			in := bisect.Ancestors(commits, i)
			for _, k := range []int{a, b} {
				if in[k] {
					d.level[i] += 0.06
				}
			}
		}
		bank := d.slowdown()
		bank.All = true
		f, err := find.Culprits(t.Context(), bank)
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		hits := 0
		for _, c := range f.Culprits {
			if c.Commit == commits[a].ID || c.Commit == commits[b].ID {
				hits++
			} else {
				extra++
			}
		}
		trials++
		if hits == 2 {
			both++
		} else {
			t.Logf("seed %d: %d and %d: %d culprits, %q", seed, a, b, len(f.Culprits), f.Warnings)
		}
	}
	t.Logf("both found in %d of %d, %d others named", both, trials, extra)
	if both < trials-2 || extra > 1 {
		t.Errorf("both found in %d of %d, %d others named", both, trials, extra)
	}
}

// One case of eight that looks worse at the bad end by chance is given up for the one that is. And four equal steps are
// all named, although together they look like a ramp.
func TestChanceAndEvenSteps(t *testing.T) {
	for _, c := range []struct {
		spec string
		seed uint64
	}{
		{`{"cases":8,"step_case":3,"step_log":0.0488,"all":true}`, 52},
		{`{"cases":8,"step_case":3,"step_log":0.0488,"all":true}`, 77},
		{`{"all":true,"steps":[{"at":40,"log":0.0488},{"at":100,"log":0.0488},{"at":150,"log":0.0488},{"at":210,"log":0.0488}]}`, 1},
		{`{"all":true,"steps":[{"at":50,"log":0.077,"over":20},{"at":170,"log":0.077,"over":20}]}`, 1},
	} {
		s, err := simulate.ReadSpec([]byte(c.spec))
		if err != nil {
			t.Fatal(err)
		}
		d := simulate.NewDevice(s, c.seed)
		f, err := find.Culprits(t.Context(), slowdown(d, d))
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		var got, want []string
		for _, x := range f.Culprits {
			got = append(got, x.Commit)
		}
		for _, i := range d.Culprits() {
			want = append(want, simulate.ID(i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s, seed %d: %v, want %v", c.spec, c.seed, got, want)
		}
	}
}
