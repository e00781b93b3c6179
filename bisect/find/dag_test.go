package find_test

import (
	"context"
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/search"
)

// drawHistory draws a random DAG whose last commit reaches all others: a line, or one with
// branches (also from before the range) and merges.
func drawHistory(t *rapid.T, most int) []bisect.Commit {
	n := rapid.IntRange(1, most).Draw(t, "commits")
	merges := rapid.SampledFrom([]float64{0, 0.1, 0.4}).Draw(t, "share of merges")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	cs := make([]bisect.Commit, n)
	used := make([]bool, n)
	for i := 1; i < n; i++ {
		first := i - 1
		if rng.Float64() < merges {
			first = rng.IntN(i+1) - 1
		}
		if first >= 0 {
			cs[i].InRange, used[first] = []int{first}, true
		}
		if p := rng.IntN(i); rng.Float64() < merges && p != first {
			cs[i].InRange, used[p] = append(cs[i].InRange, p), true
		}
	}
	for i := range n - 1 {
		if !used[i] {
			cs[n-1].InRange = append(cs[n-1].InRange, i)
		}
	}
	return named(cs)
}

// named gives a drawn history ids and full parent lists; a commit without parents in the range
// hangs on the good end.
func named(cs []bisect.Commit) []bisect.Commit {
	for i := range cs {
		cs[i].ID = "c" + strconv.Itoa(i)
		cs[i].Parents = nil
		for _, p := range cs[i].InRange {
			cs[i].Parents = append(cs[i].Parents, "c"+strconv.Itoa(p))
		}
		if len(cs[i].Parents) == 0 {
			cs[i].Parents = []string{"good"}
		}
	}
	return cs
}

func line(n int) []bisect.Commit {
	cs := make([]bisect.Commit, n)
	for i := 1; i < n; i++ {
		cs[i].InRange = []int{i - 1}
	}
	return named(cs)
}

// truth makes trials of commits whose answers are planted.
type truth struct {
	bad, broken func(i int) bool
	dawdle      func(i int) bool // good, but slow enough to be stopped early
	class       bisect.Class
	asked       []int // in the search, in order
	launches    int
	err         error // returned after so many trials of the search
	errAt       int
}

func (t *truth) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	t.launches++
	i, err := strconv.Atoi(r.Candidate.Commit[1:])
	if err != nil {
		return bisect.Outcome{Class: bisect.OK, Wall: 2}, nil
	}
	if r.Purpose == bisect.Searching {
		if t.err != nil && len(t.asked) >= t.errAt {
			return bisect.Outcome{}, t.err
		}
		t.asked = append(t.asked, i)
	}
	switch {
	case t.broken != nil && t.broken(i):
		return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build", Why: "does not build"}, nil
	case t.bad(i):
		return bisect.Outcome{Class: t.class, Phase: "load", Wall: 5, Early: r.Hurry != ""}, nil
	case t.dawdle != nil && t.dawdle(i) && r.Hurry != "":
		return bisect.Outcome{Class: t.class, Phase: "load", Wall: 4, Early: true}, nil
	case t.dawdle != nil && t.dawdle(i):
		return bisect.Outcome{Class: bisect.OK, Wall: 6}, nil
	}
	return bisect.Outcome{Class: bisect.OK, Wall: 2}, nil
}

// candidates counts the commits asked for.
func (t *truth) candidates() int {
	return len(slices.Compact(slices.Sorted(slices.Values(t.asked))))
}

func (t *truth) find(tb interface{ Context() context.Context }, cs []bisect.Commit, with func(*search.Search)) (bisect.Finding, error) {
	s := search.Search{Commits: cs, Good: bisect.Candidate{Commit: "good"}, GoodKey: "good", Sampler: t}
	if t.class == "" {
		t.class = bisect.Crash
	}
	if with != nil {
		with(&s)
	}
	return find.Culprits(tb.Context(), &s)
}

// Where all good commits have the same inputs, and all bad ones, and all that cannot be tested, as when a change is made, taken
// back and made again: what is named fails, and none of its parents does, after few launches.
func TestEqualInputsOnRandomDAGs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawHistory(t, 30)
		n := len(cs)
		culprit := rapid.IntRange(0, n-1).Draw(t, "culprit")
		x := &truth{bad: func(i int) bool { return bisect.Ancestors(cs, i)[culprit] }}
		for i := range cs {
			cs[i].Key = "good"
			switch rapid.IntRange(0, 5).Draw(t, "broken") {
			case 0:
				cs[i].Key = "broken"
			default:
				if x.bad(i) {
					cs[i].Key = "bad"
				}
			}
		}
		cs[n-1].Key = "bad"
		key := func(id string) string {
			if i, err := strconv.Atoi(id[1:]); err == nil {
				return cs[i].Key
			}
			return "good"
		}
		for i, c := range cs {
			cs[i].Neutral = !slices.ContainsFunc(c.Parents, func(p string) bool { return key(p) != c.Key })
		}
		x.broken = func(i int) bool { return cs[i].Key == "broken" }
		f, err := x.find(t, cs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if x.launches > 60 {
			t.Fatalf("%d launches: %q", x.launches, f.Warnings)
		}
		for _, k := range f.Culprits {
			step := key(k.Commit) == "bad" && !slices.ContainsFunc(k.Parents, func(p string) bool { return key(p) == "bad" })
			at, _ := strconv.Atoi(k.Commit[1:])
			for i, c := range cs { // else nothing but this commit explains how all others end
				alone := !k.Confirmed && key(k.Commit) == "broken" && (c.Key == "broken" || bisect.Ancestors(cs, i)[at] == (c.Key == "bad"))
				if !step && !alone {
					t.Fatalf("%s is %s, and %s is %s: %+v", k.Commit, key(k.Commit), c.ID, c.Key, k)
				}
			}
		}
	})
}

// The whole search on random DAGs with runs of broken commits: the planted culprit is named and proven, or the
// suspects are exactly the commits that no testable one tells from it.
func TestPlantedCulpritOnRandomDAGs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawHistory(t, 80)
		n := len(cs)
		culprit := rapid.IntRange(0, n-1).Draw(t, "culprit")
		broken := make([]bool, n)
		for range rapid.IntRange(0, 3).Draw(t, "broken runs") {
			at, length := rapid.IntRange(0, n-1).Draw(t, "at"), rapid.IntRange(1, 9).Draw(t, "length")
			for i := at; i < min(at+length, n-1); i++ { // the bad end has been tested
				broken[i] = true
			}
		}
		x := &truth{bad: func(i int) bool { return bisect.Ancestors(cs, i)[culprit] }, broken: func(i int) bool { return broken[i] }}
		f, err := x.find(t, cs, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := indistinguishable(cs, culprit, broken)
		switch f.Result {
		case bisect.Found:
			k := f.Culprits[0]
			if len(want) != 1 || k.Commit != cs[culprit].ID || k.Confidence <= 0.9 && k.Confirmed || k.Confidence > 1 || k.Merge != (len(k.Parents) > 1) {
				t.Fatalf("planted %d of %v: %+v", culprit, want, k)
			}
		case bisect.Inconclusive:
			var got []int
			for _, s := range f.Suspects {
				i, _ := strconv.Atoi(s.Commit[1:])
				got = append(got, i)
			}
			if len(want) < 2 || !slices.Equal(got, want) {
				t.Fatalf("suspects %v, want %v, %q", got, want, f.Warnings)
			}
		default:
			t.Fatalf("result %s: %s", f.Result, f.Ends.Why)
		}
		linear, none := true, !slices.Contains(broken, true)
		for i, c := range cs {
			linear = linear && (i == 0 || len(c.InRange) == 1 && c.InRange[0] == i-1)
		}
		if bound := bits.Len(uint(n - 1)); linear && none && x.candidates() > bound {
			t.Fatalf("asked for %v of a line of %d commits, bound %d", x.asked, n, bound)
		}
	})
}

// In a line a search asks for no more commits than halving would, whichever is the culprit.
func TestLinesTakeNoMoreThanHalving(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 80; n++ {
		cs := line(n)
		for culprit := range n {
			x := &truth{bad: func(i int) bool { return i >= culprit }}
			f, err := x.find(t, cs, nil)
			if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != cs[culprit].ID {
				t.Fatalf("%d of %d: %+v, %v", culprit, n, f, err)
			}
			if bound := bits.Len(uint(n - 1)); x.candidates() > bound {
				t.Errorf("%d of %d: asked for %v, bound %d", culprit, n, x.asked, bound)
			}
		}
	}
}

// indistinguishable lists the commits that no testable commit tells from the culprit.
func indistinguishable(cs []bisect.Commit, culprit int, broken []bool) (out []int) {
	for k := range cs {
		same := true
		for c := range cs {
			in := bisect.Ancestors(cs, c)
			same = same && (broken[c] || in[k] == in[culprit])
		}
		if same {
			out = append(out, k)
		}
	}
	return out
}

// Commits that change no input are never launched, and do not count for the number of steps.
func TestNeutralCommitsAreNeverAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := line(rapid.IntRange(2, 120).Draw(t, "commits"))
		var matter []int
		for i := range cs {
			if cs[i].Neutral = i > 0 && rapid.Bool().Draw(t, "neutral"); !cs[i].Neutral {
				matter = append(matter, i)
			}
		}
		culprit := rapid.SampledFrom(matter).Draw(t, "culprit")
		x := &truth{bad: func(i int) bool { return i >= culprit }}
		f, err := x.find(t, cs, nil)
		if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != cs[culprit].ID || f.Matter != len(matter) {
			t.Fatalf("%v %+v, want %d", err, f, culprit)
		}
		if bound := bits.Len(uint(len(matter)-1)) + 1; x.candidates() > bound || slices.ContainsFunc(x.asked, func(i int) bool { return cs[i].Neutral }) {
			t.Fatalf("asked for %v of the %d that matter, bound %d", x.asked, len(matter), bound)
		}
	})
}

// A run of nine broken commits must not be walked through one by one when the culprit is elsewhere.
func TestBrokenStretchIsLeft(t *testing.T) {
	worst := 0
	for culprit := 0; culprit < 128; culprit += 3 {
		if culprit >= 60 && culprit <= 69 {
			continue
		}
		cs := line(128)
		skips := 0
		x := &truth{bad: func(i int) bool { return i >= culprit }, broken: func(i int) bool { return i >= 60 && i < 69 }}
		f, err := x.find(t, cs, nil)
		if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != cs[culprit].ID {
			t.Fatalf("culprit %d: %v %+v", culprit, err, f)
		}
		for _, i := range x.asked {
			if x.broken(i) {
				skips++
			}
		}
		if skips < 9 { // at the very border every broken commit has to be tried
			worst = max(worst, len(x.asked))
		}
	}
	if worst > 12 {
		t.Errorf("up to %d commits asked for beside a broken stretch, want at most 12", worst)
	}
}

func TestSearchRefusesDisorder(t *testing.T) {
	if _, err := find.Culprits(t.Context(), &search.Search{}); err == nil {
		t.Error("an empty range was accepted")
	}
	if _, err := find.Culprits(t.Context(), &search.Search{Commits: []bisect.Commit{{InRange: []int{0}}}}); err == nil {
		t.Error("a commit that is its own parent was accepted")
	}
}

// Where a bad answer is dear, the search asks for commits that are more likely good, and costs less on average than
// even splits do, which are the halvings of the range.
func TestSplitByCost(t *testing.T) {
	const n = 128
	for price, gain := range map[float64]float64{2: -0.02, 15: 0.04, 60: 0.08} {
		cost, even, most := 0.0, 0.0, 0
		for k := 0; k < n; k += 3 {
			x := &truth{bad: func(i int) bool { return i >= k }, class: bisect.Wrong}
			s := bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
				o, err := x.Sample(ctx, r)
				if o.Wall = 1; o.Class != bisect.OK {
					o.Wall = price
				}
				if first := len(x.asked) > 0 && !slices.Contains(x.asked[:len(x.asked)-1], x.asked[len(x.asked)-1]); r.Purpose == bisect.Searching && first {
					cost += o.Wall
				}
				return o, err
			})
			if f, err := x.find(t, line(n), func(b *search.Search) { b.Sampler = s }); err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != "c"+strconv.Itoa(k) {
				t.Fatalf("%d: %v %+v", k, err, f)
			}
			most = max(most, len(x.asked))
			for lo, hi := -1, n-1; hi-lo > 1; {
				mid := (lo + hi) / 2
				if mid >= k {
					hi, even = mid, even+price
				} else {
					lo, even = mid, even+1
				}
			}
		}
		t.Logf("a bad answer %g times as dear: %.2f of the cost of even splits, at most %d commits", price, cost/even, most)
		if cost > (1-gain)*even {
			t.Errorf("a bad answer %g times as dear: %.2f of the cost of even splits, want %.2f", price, cost/even, 1-gain)
		}
	}
}

// Trials that are stopped early may take good commits for bad ones; the answer is the one of the
// whole limit all the same.
func TestEarlyStopsNeverChangeTheAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawHistory(t, 60)
		culprit := rapid.IntRange(0, len(cs)-1).Draw(t, "culprit")
		dawdle, broken := make([]bool, len(cs)), make([]bool, len(cs))
		for i := range cs {
			dawdle[i] = rapid.Bool().Draw(t, "dawdles")
			broken[i] = i < len(cs)-1 && rapid.IntRange(0, 19).Draw(t, "broken") == 0
		}
		x := &truth{class: bisect.Timeout, bad: func(i int) bool { return bisect.Ancestors(cs, i)[culprit] }, broken: func(i int) bool { return broken[i] }, dawdle: func(i int) bool { return dawdle[i] }}
		f, err := x.find(t, cs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Result == bisect.Found && f.Culprits[0].Commit != cs[culprit].ID {
			t.Fatalf("named %+v, planted %s, %q", f.Culprits[0], cs[culprit].ID, f.Warnings)
		}
		if f.Result != bisect.Found && !slices.ContainsFunc(f.Suspects, func(x bisect.SuspectCommit) bool { return x.Commit == cs[culprit].ID }) {
			t.Fatalf("%s: %s: suspects %+v, planted %s %q", f.Result, f.Ends.Why, f.Suspects, cs[culprit].ID, f.Warnings)
		}
	})
}

func TestEqualInputsShareOneAnswer(t *testing.T) {
	cs := line(64)
	for i := range cs {
		cs[i].Key = "k" + strconv.Itoa(i/4) // every four commits hold the same inputs...
		cs[i].Neutral = i%4 != 0            // ...so only the first of them can matter
	}
	x := &truth{bad: func(i int) bool { return i >= 40 }}
	f, err := x.find(t, cs, nil)
	if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != "c40" {
		t.Fatalf("%v %+v", err, f)
	}
	if x.candidates() > 4 || f.Matter != 16 {
		t.Errorf("asked %v of %d that matter", x.asked, f.Matter)
	}
	// A revert in the middle brings the good end's inputs back: half of the range is clear without a launch.
	cs = line(64)
	for i := range cs {
		cs[i].Key = "k" + strconv.Itoa(i)
	}
	cs[31].Key = "good"
	x = &truth{bad: x.bad}
	f, err = x.find(t, cs, nil)
	if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != "c40" || slices.ContainsFunc(x.asked, func(i int) bool { return i <= 31 }) {
		t.Fatalf("%v %v %+v", err, x.asked, f.Culprits)
	}
}

func TestMergeWhoseParentsAreAllGoodIsTheCulprit(t *testing.T) {
	cs := named([]bisect.Commit{{}, {}, {InRange: []int{0, 1}}, {InRange: []int{2}}})
	f, err := (&truth{bad: func(i int) bool { return i >= 2 }}).find(t, cs, nil)
	if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != "c2" || !f.Culprits[0].Merge || !f.Culprits[0].Confirmed {
		t.Fatalf("%v %+v", err, f)
	}
}

// The parent of the culprit is bad although a later commit is good: the search goes on below it.
func TestParentThatIsBadAfterAll(t *testing.T) {
	for _, class := range []bisect.Class{bisect.Crash, bisect.BuildFailed} {
		x := &truth{class: class, bad: func(i int) bool { return i >= 3 && i <= 5 || i >= 8 }} // good again at 6 and 7
		f, err := x.find(t, line(16), nil)
		if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != "c3" && f.Culprits[0].Commit != "c8" {
			t.Errorf("%s: %v %+v %q", class, err, f, f.Warnings)
		}
	}
}

func TestMachineTroubleAccusesNobody(t *testing.T) {
	x := &truth{bad: func(i int) bool { return i >= 40 }, err: &bisect.InfraError{What: "testing", Err: errors.New("device lost")}, errAt: 2}
	f, err := x.find(t, line(64), nil)
	var infra *bisect.InfraError
	if err != nil || f.Result != bisect.Broken || len(f.Culprits) > 0 || !errors.As(f.Err, &infra) || len(f.Suspects) < 16 || len(f.Suspects) > 17 {
		t.Fatalf("%v %v %d suspects, %v", err, f.Result, len(f.Suspects), f.Err)
	}
	x.err = context.Canceled
	if f, _ := x.find(t, line(64), nil); f.Result != bisect.Interrupted {
		t.Errorf("result %s after an interrupt", f.Result)
	}
}

func TestBudgetEndsWithWhatIsKnown(t *testing.T) {
	x := &truth{bad: func(i int) bool { return i >= 40 }}
	f, err := x.find(t, line(64), func(s *search.Search) { s.Spent = func() bool { return len(x.asked) >= 3 } })
	if err != nil || f.Result != bisect.Inconclusive || !f.Spent || len(f.Suspects) < 8 || len(f.Suspects) > 9 {
		t.Fatalf("%v %v, %d suspects", err, f.Result, len(f.Suspects))
	}
}

// Paths that leave out what matters make commits look equal that are not: the search notices,
// looks at every commit, and names the planted one.
func TestIncompletePaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := line(rapid.IntRange(2, 40).Draw(t, "n"))
		culprit := rapid.IntRange(0, len(cs)-1).Draw(t, "culprit")
		key := 0
		for i := range cs {
			neutral := i == culprit || rapid.Bool().Draw(t, "neutral")
			if !neutral {
				key++
			}
			cs[i].Neutral, cs[i].Key = neutral, "k"+strconv.Itoa(key)
		}
		redone := false
		x := &truth{bad: func(i int) bool { return i >= culprit }}
		f, err := x.find(t, cs, func(s *search.Search) { s.GoodKey, s.Redo = "k0", func() { redone = true } })
		if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != cs[culprit].ID || !redone {
			t.Fatalf("planted %d, redone %v: %+v, %v, %q", culprit, redone, f, err, f.Warnings)
		}
	})
}
