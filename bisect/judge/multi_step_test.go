package judge_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// history is a row of the table of histories with several steps. Places are fixed, or drawn anew in
// every trial.
type history struct {
	name    string
	steps   []float64 // logarithms
	at      []int     // places; nil: drawn
	plain   bool      // one culprit is looked for
	gradual bool      // the answer must be that there is no single culprit
	spec    string    // the rest of the specification
	right   float64   // least share of right answers
}

var histories = []history{
	{"one +5 %", []float64{0.0488}, nil, false, false, ``, 1},
	{"+3 % and +5 %", []float64{0.0296, 0.0488}, []int{70, 190}, false, false, ``, 1},
	{"+4 % and +4 %", []float64{0.0392, 0.0392}, []int{70, 190}, false, false, ``, 1},
	{"+5 -5 +5 %", []float64{0.0488, -0.0488, 0.0488}, []int{60, 120, 190}, false, false, ``, 0.96},
	{"+8 -3 %", []float64{0.077, -0.0296}, []int{70, 190}, false, false, ``, 0.99},
	{"+5 -5 %", []float64{0.0488, -0.0488}, []int{60, 190}, false, false, ``, 0.96},
	{"+3 % and +5 %, drawn", []float64{0.0296, 0.0488}, nil, false, false, ``, 0.95},
	{"+5 -5 +5 %, drawn", []float64{0.0488, -0.0488, 0.0488}, nil, false, false, ``, 0.8},
	{"four of +5 %", []float64{0.0488, 0.0488, 0.0488, 0.0488}, []int{40, 100, 150, 210}, false, false, ``, 0.94},
	{"no step", nil, nil, false, false, `"culprit":"none"`, 0.98},
	{"noisy, no step", nil, nil, false, false, `"culprit":"none","preset":"noisy"`, 0.98},
	{"bimodal, one +5 %", []float64{0.0488}, nil, false, false, `"noise":{"modes":[{"p":0.25,"log":0.04}]}`, 0.97},
	{"noisy, one +10 %", []float64{0.0953}, nil, false, false, `"preset":"noisy"`, 0.97},
	{"20 times +0.4 %", slices.Repeat([]float64{0.004}, 20), evenly(20), true, true, ``, 1},
	{"20 times +0.4 %, all", slices.Repeat([]float64{0.004}, 20), evenly(20), false, true, ``, 1},
	{"quiet, 20 times +0.4 %", slices.Repeat([]float64{0.004}, 20), evenly(20), true, true, `"preset":"quiet"`, 1},
	{"noisy, 20 times +1 %", slices.Repeat([]float64{0.01}, 20), evenly(20), true, true, `"preset":"noisy"`, 0.9},
	{"ramp over a third, 20 times +0.4 %", slices.Repeat([]float64{0.004}, 20), third(), true, true, ``, 0.9},
	{"+3 % and +5 %, one", []float64{0.0296, 0.0488}, []int{70, 190}, true, false, ``, 1},
	{"+4 % and +4 %, one", []float64{0.0392, 0.0392}, []int{70, 190}, true, false, ``, 1},
	{"+5 -5 +5 %, one", []float64{0.0488, -0.0488, 0.0488}, []int{60, 120, 190}, true, false, ``, 1},
	{"+8 -3 %, one", []float64{0.077, -0.0296}, []int{70, 190}, true, false, ``, 0.97},
}

// evenly are n places all over 256 commits.
func evenly(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1 + (2*i+1)*256/(2*n)
	}
	return out
}

// third is 20 places in the middle of 256 commits.
func third() []int {
	out := make([]int, 20)
	for i := range out {
		out[i] = 86 + 4*i
	}
	return out
}

// device is the simulated machine of one trial.
func (h history) device(t *testing.T, seed uint64) *simulate.Device {
	t.Helper()
	at := h.at
	if at == nil {
		at = rand.New(rand.NewPCG(seed, 9)).Perm(255)[:len(h.steps)]
		slices.Sort(at)
		for i := range at {
			at[i]++
		}
	}
	var keys []string
	if h.spec != "" {
		keys = append(keys, h.spec)
	}
	if len(h.steps) > 0 {
		var steps []string
		for i, s := range h.steps {
			steps = append(steps, fmt.Sprintf(`{"at":%d,"log":%v}`, at[i], s))
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

// sums are how the trials of a row ended.
type sums struct {
	right, missed, extra, gradual int // trials, up-steps, commits, trials
	launches                      []int
}

func (h history) play(t *testing.T, trials int) sums {
	t.Helper()
	var s sums
	for i := range trials {
		d := h.device(t, uint64(1+i))
		f, err := slowdown(d, d).Find(t.Context())
		if err != nil || f.Err != nil {
			t.Fatal(err, f.Err)
		}
		hits, extra := 0, 0
		for _, c := range f.Culprits {
			n, _ := strconv.ParseInt(c.Commit, 16, 64)
			if slices.Contains(d.Culprits(), int(n)) {
				hits++
			} else {
				extra++
			}
		}
		want := len(d.Culprits())
		if h.plain {
			want = min(1, want)
		}
		right := hits == want && extra == 0
		if f.Gradual {
			s.gradual++
		}
		if h.gradual {
			right = f.Gradual && f.Result == bisect.Inconclusive && len(f.Culprits) == 0 && len(f.Levels) > 10
		}
		if right {
			s.right++
		}
		s.missed, s.extra = s.missed+max(0, want-hits), s.extra+extra
		s.launches = append(s.launches, d.Launches)
	}
	slices.Sort(s.launches)
	return s
}

func (s sums) mean() float64 {
	sum := 0
	for _, n := range s.launches {
		sum += n
	}
	return float64(sum) / float64(len(s.launches))
}

// TestBenchAll prints the table of histories with several steps; KBISECT_BENCH_JUDGE is the number of
// trials of a row, KBISECT_BENCH_CELL the beginning of the names of the rows wanted.
func TestBenchAll(t *testing.T) {
	trials, _ := strconv.Atoi(os.Getenv("KBISECT_BENCH_JUDGE"))
	if trials == 0 {
		t.Skip("KBISECT_BENCH_JUDGE is not set")
	}
	fmt.Println("| history | right | missed a job | extra a job | gradual | launches (p95, most) | target |\n|---|---|---|---|---|---|---|")
	for _, h := range histories {
		if !strings.HasPrefix(h.name, os.Getenv("KBISECT_BENCH_CELL")) {
			continue
		}
		s := h.play(t, trials)
		n := float64(trials)
		met := "met"
		if float64(s.right) < h.right*n || float64(s.extra) > 0.02*n {
			met = "MISSED"
		}
		fmt.Printf("| %s | %.1f %% | %.3f | %.3f | %.1f %% | %.0f (%d, %d) | %s: ≥ %.0f %% |\n", h.name, 100*float64(s.right)/n, float64(s.missed)/n,
			float64(s.extra)/n, 100*float64(s.gradual)/n, s.mean(), s.launches[trials*95/100], s.launches[trials-1], met, 100*h.right)
	}
}

// TestAllReachesItsTargets plays a few trials of some rows, with wide margins.
func TestAllReachesItsTargets(t *testing.T) {
	for _, h := range histories {
		most := map[string]float64{"+3 % and +5 %": 260, "+5 -5 +5 %": 220, "20 times +0.4 %, all": 260}[h.name]
		if most == 0 {
			continue
		}
		const trials = 5
		s := h.play(t, trials)
		t.Logf("%s: %+v", h.name, s)
		if float64(s.right) < h.right*trials-1.5 || s.extra > 1 || s.mean() > most {
			t.Errorf("%s: %+v", h.name, s)
		}
	}
}

// What was fixed is no culprit, whatever the machine looks like: not even where the levels of the commits
// look like two modes of it.
func TestAllNamesNoMend(t *testing.T) {
	h := history{steps: []float64{0.08, -0.05}, at: []int{100, 150}}
	wrong := 0
	for seed := range uint64(24) { // among them 2 and 21, which have looked like that
		d := h.device(t, seed)
		f, err := slowdown(d, d).Find(t.Context())
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

// Steps of several commits are no modes of the machine, and do not eat each other's effect.
func TestStepsAreNoModes(t *testing.T) {
	const jobs = 20
	h := history{steps: []float64{0.07, 0.03}, at: []int{70, 190}, plain: true, spec: `"preset":"quiet"`}
	modes, silent := 0, 0
	for seed := range uint64(jobs) {
		d := h.device(t, seed)
		f, err := slowdown(d, d).Find(t.Context())
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
		f, err := slowdown(d, d).Find(t.Context())
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
		want, err := slowdown(d, rec).Find(t.Context())
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
			if f, err := slowdown(d, l).Find(t.Context()); err != nil || f.Result != bisect.Broken || l.asked != rec.requests[n] {
				t.Fatalf("killed at launch %d: %v %v, asked %+v, want %+v", n, err, f.Result, l.asked, rec.requests[n])
			}
		}
		got, err := slowdown(d, &ledger{outcomes: rec.outcomes}).Find(t.Context())
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
		f, err := bank.Find(t.Context())
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
