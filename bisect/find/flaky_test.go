package find_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// flaky plays a history in which every commit fails in a share of its launches.
type flaky struct {
	commits  []bisect.Commit
	rate     func(i int, r bisect.Request) float64 // i is search.GoodEnd for the good end
	broken   map[int]bool
	fail     bisect.Outcome
	wall     func(i int) float64 // of a pass; nil: 10 s
	soon     float64             // where a hurried launch is stopped
	rng      *rand.Rand
	launches int
}

func (d *flaky) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	i := slices.IndexFunc(d.commits, func(c bisect.Commit) bool { return c.ID == r.Candidate.Commit })
	d.launches++
	o := bisect.Outcome{Class: bisect.OK, Wall: 10, At: float64(20 * d.launches)}
	if d.wall != nil {
		o.Wall = d.wall(i)
	}
	failed := d.rng.Float64() < d.rate(i, r)
	switch {
	case d.broken[i]:
		return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build"}, nil
	case failed:
		o.Class, o.Phase, o.Wall = d.fail.Class, d.fail.Phase, d.fail.Wall
	}
	if r.Hurry != "" && d.soon > 0 && o.Wall > d.soon {
		o.Class, o.Phase, o.Wall, o.Early = bisect.Timeout, r.Hurry, d.soon, true
	}
	return o, nil
}

func (d *flaky) find(t *testing.T, s bisect.Sampler, o search.Options) bisect.Finding {
	t.Helper()
	o.Error = 0.01
	b := &search.Search{Commits: d.commits, Good: bisect.Candidate{Commit: simulate.ID(0)}, GoodKey: "k0", Sampler: s, Options: o}
	f, err := find.Culprits(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func straight(n int) []bisect.Commit {
	commits := make([]bisect.Commit, n)
	for i := range commits {
		commits[i] = bisect.Commit{ID: simulate.ID(i + 1), Parents: []string{simulate.ID(i)}, Key: "k" + simulate.ID(i+1)}
		if i > 0 {
			commits[i].InRange = []int{i - 1}
		}
	}
	return commits
}

// planted fails at rate from commit k on, good commits hardly ever.
func planted(commits []bisect.Commit, k int, rate float64, seed uint64) *flaky {
	d := &flaky{commits: commits, rng: rand.New(rand.NewPCG(seed, 5)), fail: bisect.Outcome{Class: bisect.Crash, Wall: 10}}
	bad := make([]bool, len(commits))
	for i := range commits {
		bad[i] = bisect.Ancestors(commits, i)[k]
	}
	d.rate = func(i int, _ bisect.Request) float64 {
		if i >= 0 && bad[i] {
			return rate
		}
		return 0.001
	}
	return d
}

// On lines and on histories with merges, with untestable commits, at any rate: the planted commit is
// named or is among the suspects, and hardly ever is another one named.
func TestSometimesOnDAGs(t *testing.T) {
	right, inconclusive, wrong, jobs := 0, 0, 0, 0
	for seed := range uint64(90) {
		rng := rand.New(rand.NewPCG(seed, 9))
		commits := wide(40)
		if seed%3 == 0 {
			commits = straight(40)
		}
		k := rng.IntN(len(commits))
		d := planted(commits, k, []float64{0.25, 0.5, 0.8, 1}[rng.IntN(4)], seed)
		d.broken = map[int]bool{}
		for range rng.IntN(4) {
			if i := rng.IntN(len(commits) - 1); i > 0 {
				d.broken[i] = true
			}
		}
		f := d.find(t, d, search.Options{Find: bisect.Crash})
		jobs++
		switch {
		case f.Result == bisect.Found && f.Culprits[0].Commit == commits[k].ID:
			right++
			c := f.Culprits[0]
			if c.Confidence < 0.99 && c.Confirmed || c.Rate != nil && (c.Rate.Failed < 1 || c.Rate.Failed >= c.Rate.Launches) {
				t.Errorf("seed %d: %+v", seed, c)
			}
		case f.Result == bisect.Found:
			wrong++
			t.Logf("seed %d: named %s, planted %s", seed, f.Culprits[0].Commit[30:], commits[k].ID[30:])
		default:
			inconclusive++
			if !slices.ContainsFunc(f.Suspects, func(s bisect.SuspectCommit) bool { return s.Commit == commits[k].ID }) && f.Result == bisect.Inconclusive && !f.Ends.Unclear {
				t.Logf("seed %d: the planted one is not among %v", seed, f.Suspects)
				wrong++
			}
		}
	}
	t.Logf("%d jobs: %d right, %d inconclusive, %d wrong", jobs, right, inconclusive, wrong)
	if wrong > 2 || right < jobs*3/4 {
		t.Errorf("%d jobs: %d right, %d wrong", jobs, right, wrong)
	}
}

// The likely culprit of an intermittent complaint is launched from a clean build before the search has decided, and no more
// once it has failed there.
func TestSometimesIsProvenOnTheWay(t *testing.T) {
	const jobs = 40
	onTheWay := 0
	for seed := range uint64(jobs) {
		d := planted(straight(64), 40, 0.5, seed)
		rec := &recorder{next: d}
		f := d.find(t, rec, search.Options{Find: bisect.Crash})
		if len(f.Culprits) != 1 {
			t.Errorf("seed %d: %+v", seed, f)
			continue
		}
		var shown []int
		last := 0
		for n, r := range rec.requests {
			switch {
			case r.Purpose == bisect.Searching:
				last = n
			case r.Purpose == bisect.ConfirmCulprit && r.Candidate.Commit == f.Culprits[0].Commit && rec.outcomes[n].Class == bisect.Crash:
				shown = append(shown, n)
			}
		}
		if len(shown) != 1 || !rec.requests[shown[0]].Clean {
			t.Errorf("seed %d: the culprit failed from a clean build in launches %v", seed, shown)
		} else if shown[0] < last {
			onTheWay++
		}
	}
	if t.Logf("%d of %d on the way", onTheWay, jobs); onTheWay < jobs/2 {
		t.Errorf("%d of %d culprits failed from a clean build while the search went on", onTheWay, jobs)
	}
}

// A search that was killed at any launch goes on with the very launch that it would have made.
func TestSometimesResumesAtEveryLaunch(t *testing.T) {
	for _, rate := range []float64{0.4, 0.7, 1} {
		d := planted(wide(30), 17, rate, 3)
		o := search.Options{Find: bisect.Crash}
		rec := &recorder{next: d}
		want := d.find(t, rec, o)
		if want.Err != nil {
			t.Fatal(want.Err)
		}
		for n := range rec.outcomes {
			l := &ledger{outcomes: rec.outcomes[:n]}
			f := d.find(t, l, o)
			if !errors.Is(f.Err, errEnd) || f.Result != bisect.Broken || l.asked != rec.requests[n] {
				t.Fatalf("rate %v, killed at launch %d: %v, asked for %+v, not %+v", rate, n, f.Err, l.asked, rec.requests[n])
			}
		}
		if got := d.find(t, &ledger{outcomes: rec.outcomes}, o); !reflect.DeepEqual(got, want) {
			t.Fatalf("rate %v: replayed %+v, want %+v", rate, got, want)
		}
	}
}

// Untestable commits round a culprit that shows only sometimes leave exactly the set.
func TestSometimesUntestableSet(t *testing.T) {
	exact := 0
	for seed := range uint64(10) {
		d := planted(straight(40), 22, 0.7, seed)
		d.broken = map[int]bool{20: true, 21: true, 22: true, 23: true}
		f := d.find(t, d, search.Options{Find: bisect.Crash})
		if f.Result == bisect.Inconclusive && len(f.Suspects) == 5 && f.Suspects[0].Commit == simulate.ID(21) && f.Suspects[4].Commit == simulate.ID(25) {
			exact++
		} else {
			t.Logf("seed %d: %v %v %q", seed, f.Result, f.Suspects, f.Warnings)
		}
	}
	if exact < 9 {
		t.Errorf("%d of 10 exact", exact)
	}
}

// Inputs that cannot be tested say nothing of what lies between two commits that have them, in a search or in a proof.
func TestUntestableInputsClearNothing(t *testing.T) {
	for n, c := range []struct {
		commits, culprit int
		alike            []int // cannot be tested, of equal inputs
		want             []int // suspects
	}{
		{4, 1, []int{0, 2}, []int{0, 1}},
		{12, 8, []int{7, 9}, []int{7, 8}},
		{12, 8, []int{4, 7, 10}, []int{7, 8}},
		{12, 11, []int{3, 10}, []int{10, 11}},
	} {
		d := planted(straight(c.commits), c.culprit, 1, uint64(n))
		d.broken = map[int]bool{}
		for _, i := range c.alike {
			d.broken[i], d.commits[i].Key = true, "untestable"
		}
		f := d.find(t, d, search.Options{Find: bisect.Crash})
		var got []int
		for _, s := range f.Suspects {
			got = append(got, slices.IndexFunc(d.commits, func(c bisect.Commit) bool { return c.ID == s.Commit }))
		}
		if f.Result != bisect.Inconclusive || !slices.Equal(got, c.want) {
			t.Errorf("%d: %v %v, want %v; %+v %q", n, f.Result, got, c.want, f.Culprits, f.Warnings)
		}
	}
}

// Launches that are stopped early take slow commits for hanging ones; given the whole limit they pass,
// and the answer is the one of the whole limit.
func TestSometimesSeesThroughEarlyStops(t *testing.T) {
	for _, from := range []int{4, 12, 20} {
		d := planted(straight(40), 25, 1, uint64(from))
		d.fail, d.soon = bisect.Outcome{Class: bisect.Timeout, Phase: "run", Wall: 180}, 24
		d.rate = func(i int, _ bisect.Request) float64 { return map[bool]float64{true: 1}[i >= 25] }
		d.wall = func(i int) float64 { return map[bool]float64{true: 40, false: 10}[i >= from] } // slow, and in time
		f := d.find(t, d, search.Options{Find: bisect.Timeout})
		if f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(26) || !strings.Contains(strings.Join(f.Warnings, " "), "stopped or started early") {
			t.Errorf("slow from %d: %v %+v %q", from, f.Result, f.Culprits, f.Warnings)
		}
	}
}

// A history that is good again in between holds several changes, at whatever rate: one that is a
// change for the worse is named.
func TestSometimesInAHistoryOfSeveralChanges(t *testing.T) {
	for seed := range uint64(6) {
		d := planted(straight(40), 30, 1, seed)
		d.rate = func(i int, _ bisect.Request) float64 {
			return map[bool]float64{true: 1}[i >= 8 && i < 18 || i >= 30]
		}
		f := d.find(t, d, search.Options{Find: bisect.Crash})
		if f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(9) && f.Culprits[0].Commit != simulate.ID(31) {
			t.Errorf("seed %d: %v %+v %q", seed, f.Result, f.Culprits, f.Warnings)
		}
	}
}

// Builds that lied in the search pass every time from clean ones; a complaint that comes only
// sometimes comes back.
func TestSometimesIsToldFromABuildThatLied(t *testing.T) {
	d := planted(straight(40), 30, 1, 1)
	clean := false
	d.rate = func(i int, r bisect.Request) float64 {
		clean = clean || r.Clean
		return map[bool]float64{true: 1}[i >= 30 || i >= 10 && !clean]
	}
	f := d.find(t, d, search.Options{Find: bisect.Crash})
	if f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(31) {
		t.Errorf("%v %+v %q", f.Result, f.Culprits, f.Warnings)
	}
}

// Without the proof the answer says so.
func TestFastLeavesOutTheProof(t *testing.T) {
	d := planted(straight(100), 40, 1, 1)
	f := d.find(t, d, search.Options{Fast: true})
	if f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(41) || f.Culprits[0].Confirmed || f.Culprits[0].Confidence > 0.9999 || d.launches > 13 || !strings.Contains(strings.Join(f.Warnings, " "), "not proven") {
		t.Errorf("%d launches, %v %+v %q", d.launches, f.Result, f.Culprits, f.Warnings)
	}
}

// A bad end that fails no more often than the good one is no end.
func TestEndsThatFailAlikeSometimes(t *testing.T) {
	named := 0
	for seed := range uint64(30) {
		d := planted(straight(40), 30, 0, seed)
		d.rate = func(int, bisect.Request) float64 { return 0.2 }
		if f := d.find(t, d, search.Options{Find: bisect.Crash}); f.Result == bisect.Found {
			named++
		}
	}
	if named > 1 {
		t.Errorf("a commit was named in %d of 30 histories without a change", named)
	}
}

// The budget ends the search with what is known.
func TestSometimesSpent(t *testing.T) {
	d := planted(straight(60), 30, 0.3, 2)
	b := &search.Search{Commits: d.commits, Good: bisect.Candidate{Commit: simulate.ID(0)}, GoodKey: "k0", Spent: func() bool { return d.launches > 30 }, Sampler: d, Options: search.Options{Find: bisect.Crash, Error: 0.01}}
	f, err := find.Culprits(t.Context(), b)
	total := 0.0
	for _, s := range f.Suspects {
		total += s.Probability
	}
	if err != nil || f.Result != bisect.Inconclusive || !f.Spent || total < 0.5 || total > 1+1e-9 || math.IsNaN(total) {
		t.Errorf("%v %+v", err, f)
	}
}

// A slow search in which the bad end fails now and then says so.
func TestSlowSearchTellsOfFailures(t *testing.T) {
	d := &dag{commits: straight(20), level: make([]float64, 20), rng: rand.New(rand.NewPCG(1, 1))}
	for i := 9; i < 20; i++ {
		d.level[i] = 0.1
	}
	n := 0
	b := d.slowdown()
	b.Sampler = sampler(func(r bisect.Request) (bisect.Outcome, error) {
		o, err := d.Sample(t.Context(), r)
		if r.Purpose == bisect.EndBad {
			if n++; n%4 == 3 {
				o.Class, o.Phase, o.Why = bisect.Timeout, "run", "too long"
			}
		}
		return o, err
	})
	f, err := find.Culprits(t.Context(), b)
	if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(10) || !strings.Contains(strings.Join(f.Warnings, " "), "search with --find timeout") {
		t.Errorf("%v %v %q", err, f.Result, f.Warnings)
	}
}

// The same where both were seen before the search, as --find-good leaves them.
func TestSometimesKeepsToOneOfSeveralChanges(t *testing.T) {
	d := planted(straight(40), 30, 1, 1)
	d.rate = func(i int, _ bisect.Request) float64 {
		return map[bool]float64{true: 1}[i >= 8 && i < 18 || i >= 30]
	}
	for _, tested := range [][]string{{simulate.ID(13), simulate.ID(26)}, {simulate.ID(13), simulate.ID(19), simulate.ID(22), simulate.ID(25), simulate.ID(29)}} {
		b := &search.Search{Commits: d.commits, Good: bisect.Candidate{Commit: simulate.ID(0)}, GoodKey: "k0", Looked: looked(t, d, tested...), Sampler: d, Options: search.Options{Find: bisect.Crash, Error: 0.01}}
		f, err := find.Culprits(t.Context(), b)
		if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(9) && f.Culprits[0].Commit != simulate.ID(31) {
			t.Errorf("%v %v %+v %q", err, f.Result, f.Culprits, f.Warnings)
		}
	}
}

// What a fast search states holds at every rate, the worst included.
func TestFastIsAsSureAsItSays(t *testing.T) {
	const jobs = 40
	for _, rate := range []string{"1", "0.7", "0.5"} {
		s, err := simulate.ReadSpec([]byte(`{"commits":32,"hang":{"bad":` + rate + `,"good":0.002,"limit":180}}`))
		if err != nil {
			t.Fatal(err)
		}
		wrong, named, stated := 0, 0, 0.0
		for seed := range uint64(jobs) {
			d := simulate.NewDevice(s, seed)
			b := slowdown(d, d)
			b.Fast = true
			f, err := find.Culprits(t.Context(), b)
			if err != nil || f.Err != nil {
				t.Fatal(err, f.Err)
			}
			for _, c := range f.Culprits {
				named++
				stated += c.Confidence
				if c.Commit != simulate.ID(d.Culprits()[0]) {
					wrong++
				}
			}
		}
		t.Logf("rate %s: %d of %d named, %d wrong, %.3f stated", rate, named, jobs, wrong, stated/float64(named))
		if named < jobs*9/10 || float64(wrong) > float64(named)-stated+3 {
			t.Errorf("rate %s: %d named, %d wrong, stated %.1f right", rate, named, wrong, stated)
		}
	}
}

// Paths that leave out what matters make commits look equal that are not: hardly ever is another commit
// than the planted one named, and as a rule it is found.
func TestSometimesWithIncompletePaths(t *testing.T) {
	right, wrong := 0, 0
	const jobs = 200
	for seed := range uint64(jobs) {
		rng := rand.New(rand.NewPCG(seed, 2))
		commits := straight(2 + rng.IntN(30))
		k := rng.IntN(len(commits))
		key := 0
		for i := range commits {
			commits[i].Neutral = i == k || rng.IntN(2) == 0
			if !commits[i].Neutral {
				key++
			}
			commits[i].Key = "k" + string(rune('0'+key))
		}
		d := planted(commits, k, []float64{1, 0.7}[seed%2], seed)
		f := d.find(t, d, search.Options{Find: bisect.Crash})
		switch {
		case f.Result != bisect.Found:
			t.Logf("seed %d: %v %v %q", seed, f.Result, f.Ends.Why, f.Warnings)
		case f.Culprits[0].Commit == commits[k].ID:
			right++
		default:
			wrong++
			t.Logf("seed %d: named %s, planted %s", seed, f.Culprits[0].Commit[30:], commits[k].ID[30:])
		}
	}
	t.Logf("%d of %d right, %d wrong", right, jobs, wrong)
	if right < jobs*97/100 || wrong > 1 {
		t.Errorf("%d of %d right, %d wrong", right, jobs, wrong)
	}
}

// A parent before the range that is bad says that the complaint is older than the good end.
func TestParentBeforeTheRange(t *testing.T) {
	commits := straight(20)
	commits[9].Parents = append(commits[9].Parents, "older")
	d := planted(commits, 9, 1, 1)
	all := d.rate
	d.rate = func(i int, r bisect.Request) float64 {
		if r.Candidate.Commit == "older" {
			return 1
		}
		return all(i, r)
	}
	f := d.find(t, d, search.Options{Find: bisect.Crash})
	if f.Result != bisect.Inconclusive || len(f.Suspects) != 1 || f.Suspects[0].Commit != simulate.ID(10) || !strings.Contains(strings.Join(f.Warnings, " "), "older than the good end") {
		t.Errorf("%v %+v %v %q", f.Result, f.Culprits, f.Suspects, f.Warnings)
	}
}

// Each candidate run several times, one failure counts: the answer is the same.
func TestSometimesWithRepeat(t *testing.T) {
	for seed := range uint64(10) {
		d := planted(straight(60), 33, 0.6, seed)
		f := d.find(t, d, search.Options{Find: bisect.Crash, Repeat: 4})
		if f.Result != bisect.Found || f.Culprits[0].Commit != simulate.ID(34) {
			t.Errorf("seed %d: %v %+v %v", seed, f.Result, f.Culprits, f.Ends.Why)
		}
	}
}

// What the launches of a good end that fails now and then tell is learnt as well.
func TestSometimesBesideAccidents(t *testing.T) {
	right := 0
	for seed := range uint64(20) {
		d := planted(straight(60), 33, 0.7, seed)
		all := d.rate
		d.rate = func(i int, r bisect.Request) float64 { return max(0.03, all(i, r)) }
		f := d.find(t, d, search.Options{Find: bisect.Crash})
		if f.Result == bisect.Found && f.Culprits[0].Commit == simulate.ID(34) {
			right++
		} else {
			t.Logf("seed %d: %v %+v %v", seed, f.Result, f.Culprits, f.Ends.Why)
		}
	}
	if right < 16 {
		t.Errorf("%d of 20 right", right)
	}
}

// A merge brings back what one of its sides had fixed: that side's parent is bad although a later
// commit is good, and the search goes on below it.
func TestParentThatWasMendedOnTheOtherSide(t *testing.T) {
	commits := straight(20)
	for i := range commits {
		commits[i].Key = ""
	}
	commits[7].Parents = append(commits[7].Parents, commits[5].ID)
	commits[7].InRange = append(commits[7].InRange, 5)
	d := planted(commits, 7, 1, 1)
	d.rate = func(i int, _ bisect.Request) float64 { return map[bool]float64{true: 1}[i >= 3 && i != 6] }
	b := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: simulate.ID(0)}, Looked: looked(t, d, commits[6].ID), Sampler: d, Options: search.Options{Find: bisect.Crash, Error: 0.01}}
	f, err := find.Culprits(t.Context(), b)
	if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != commits[3].ID || !strings.Contains(strings.Join(f.Warnings, " "), "more than one change") {
		t.Errorf("%v %v %+v %q", err, f.Result, f.Culprits, f.Warnings)
	}
}

// looked launches commits before a search begins.
func looked(t *testing.T, s bisect.Sampler, ids ...string) (out []search.Trial) {
	for _, id := range ids {
		r := bisect.Request{Candidate: bisect.Candidate{Commit: id}, Purpose: bisect.EndGood}
		o, err := s.Sample(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, search.Trial{Request: r, Outcome: o})
	}
	return out
}

// A search that is over while its ends may be alike says that, and lists no suspects as if one of them were to blame.
func TestSpentBeforeTheEndsAreToldApart(t *testing.T) {
	open, suspects := 0, 0
	for seed := range uint64(40) {
		d := planted(straight(40), 30, 0, seed)
		d.rate = func(int, bisect.Request) float64 { return 0.2 }
		b := &search.Search{Commits: d.commits, Good: bisect.Candidate{Commit: simulate.ID(0)}, GoodKey: "k0", Spent: func() bool { return d.launches >= 24 }, Sampler: d, Options: search.Options{Find: bisect.Crash, Error: 0.01}}
		f, err := find.Culprits(t.Context(), b)
		switch {
		case err != nil || f.Result == bisect.Found:
			t.Errorf("seed %d: %v %+v", seed, err, f)
		case f.Ends.Unclear:
			open++
		case f.Result == bisect.Inconclusive:
			suspects++
			t.Logf("seed %d: %s %q", seed, f.Ends.Why, f.Warnings)
		}
	}
	if open < 20 || suspects > 2 {
		t.Errorf("%d of 40 searches say that the ends were not told apart, %d list suspects", open, suspects)
	}
}

// Launches that are slow and in time are stopped early. What is said beside the culprit rests on the full limit as well: that a
// parent before the range is bad, that the range holds several changes, that commits of equal inputs behave differently.
func TestEarlyStopsAloneSayNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(commits []bisect.Commit)
		rate   float64
		slow   func(i int, id string) bool
		looked []string
		never  string
	}{
		"a parent before the range": {
			func(commits []bisect.Commit) { commits[29].Parents = append(commits[29].Parents, "older") }, 1,
			func(_ int, id string) bool { return id == "older" }, nil, "older than the good end"},
		"a stretch of the range": {
			func([]bisect.Commit) {}, 0.4,
			func(i int, _ string) bool { return i >= 17 && i < 22 }, nil, "more than one change"},
		"a commit of inputs that another has": {
			func(commits []bisect.Commit) {
				for i := 15; i < 24; i++ {
					commits[i].Key = "same"
				}
			}, 0.4,
			func(i int, _ string) bool { return i == 15 }, []string{simulate.ID(20)}, "equal inputs"},
	} {
		t.Run(name, func(t *testing.T) {
			right := 0
			for seed := range uint64(10) {
				commits := straight(40)
				c.change(commits)
				d := planted(commits, 29, c.rate, seed)
				d.fail = bisect.Outcome{Class: bisect.Timeout, Phase: "run", Wall: 180}
				s := sampler(func(r bisect.Request) (bisect.Outcome, error) {
					o, err := d.Sample(t.Context(), r)
					i := slices.IndexFunc(commits, func(k bisect.Commit) bool { return k.ID == r.Candidate.Commit })
					if o.Class == bisect.OK && c.slow(i, r.Candidate.Commit) {
						o.Wall = 40
					}
					if r.Hurry != "" && o.Wall > 24 {
						o.Class, o.Phase, o.Wall, o.Early = bisect.Timeout, r.Hurry, 24, true
					}
					return o, err
				})
				b := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: simulate.ID(0)}, GoodKey: "k0", Sampler: s, Options: search.Options{Find: bisect.Timeout, Error: 0.01}}
				b.Looked = looked(t, s, c.looked...)
				f, err := find.Culprits(t.Context(), b)
				if err != nil || strings.Contains(strings.Join(f.Warnings, " "), c.never) {
					t.Errorf("seed %d: %v %v %+v %q", seed, err, f.Result, f.Culprits, f.Warnings)
				}
				if f.Result == bisect.Found && f.Culprits[0].Commit == commits[29].ID {
					right++
				} else {
					t.Logf("seed %d: %v %q %q", seed, f.Result, f.Ends.Why, f.Warnings)
				}
			}
			if right < 9 {
				t.Errorf("%d of 10 right", right)
			}
		})
	}
}

// Four launches of five are slow and in time, at both ends: stopped early, they fail alike. Ends are called alike only by
// launches at the full limit, which show that they are not.
func TestEndsThatAreSlowSometimesAreNotAlike(t *testing.T) {
	right := 0
	const jobs = 12
	for seed := range uint64(jobs) {
		d := planted(straight(20), 12, 0.6, seed)
		d.fail, d.soon = bisect.Outcome{Class: bisect.Timeout, Phase: "run", Wall: 180}, 24
		d.wall = func(int) float64 { return []float64{10, 40, 40, 40, 40}[d.rng.IntN(5)] }
		f := d.find(t, d, search.Options{Find: bisect.Timeout})
		switch {
		case f.Result == bisect.NoDifference:
			t.Logf("seed %d: %s", seed, f.Ends.Why)
		case f.Result == bisect.Found && f.Culprits[0].Commit == simulate.ID(13):
			right++
		default:
			t.Logf("seed %d: %v %+v %q", seed, f.Result, f.Culprits, f.Warnings)
		}
	}
	if right < jobs-1 {
		t.Errorf("%d of %d right", right, jobs)
	}
}
