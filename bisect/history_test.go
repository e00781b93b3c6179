package bisect

import (
	"math/bits"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// drawHistory draws a random DAG whose last commit reaches all others: a line, or one with
// branches (also from before the range) and merges.
func drawHistory(t *rapid.T, most int) []Commit {
	n := rapid.IntRange(1, most).Draw(t, "commits")
	merges := rapid.SampledFrom([]float64{0, 0.1, 0.4}).Draw(t, "share of merges")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	cs := make([]Commit, n)
	used := make([]bool, n)
	for i := 1; i < n; i++ {
		cs[i].ID = strconv.Itoa(i)
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
	return cs
}

func reaches(cs []Commit, from, to int) bool {
	h := History{commits: cs}
	return h.ancestors(from)[to]
}

func TestMassesAgainstPlainWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawHistory(t, 150)
		parents := make([][]int, len(cs))
		weight := make([]float64, len(cs))
		for i, c := range cs {
			parents[i] = c.InRange
			weight[i] = float64(rapid.IntRange(0, 5).Draw(t, "weight"))
		}
		got := masses(parents, weight)
		for i := range cs {
			want := 0.0
			for j := range cs {
				if reaches(cs, i, j) {
					want += weight[j]
				}
			}
			if got[i] != want {
				t.Fatalf("commit %d reaches %v, want %v", i, got[i], want)
			}
		}
	})
}

// search drives a History against a planted culprit; untestable commits are skipped.
func search(h *History, bad, broken func(int) bool) (tests, skips int) {
	for {
		i, ok := h.Next()
		if !ok {
			return tests, skips
		}
		tests++
		switch {
		case broken(i):
			skips++
			h.Skip(i)
		case bad(i):
			h.Bad(i)
		default:
			h.Good(i)
		}
	}
}

func TestPlantedCulpritOnRandomDAGs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawHistory(t, 100)
		n := len(cs)
		culprit := rapid.IntRange(0, n-1).Draw(t, "culprit")
		broken := make([]bool, n)
		for range rapid.IntRange(0, 3).Draw(t, "broken runs") {
			at, length := rapid.IntRange(0, n-1).Draw(t, "at"), rapid.IntRange(1, 9).Draw(t, "length")
			for i := at; i < min(at+length, n-1); i++ { // the bad end itself has been tested
				broken[i] = true
			}
		}
		bad := func(i int) bool { return reaches(cs, i, culprit) }
		h, err := NewHistory(cs)
		if err != nil {
			t.Fatal(err)
		}
		tests, skips := search(h, bad, func(i int) bool { return broken[i] })
		left := h.Suspects()
		if !h.Suspected(culprit) {
			t.Fatalf("the culprit %d was cleared; left %v", culprit, left)
		}
		want := indistinguishable(cs, culprit, broken)
		if len(left) != len(want) {
			t.Fatalf("%d suspects %v, want exactly %v", len(left), left, want)
		}
		for i := range want {
			if left[i].Index != want[i] {
				t.Fatalf("suspects %v, want %v", left, want)
			}
		}
		linear := true
		for i, c := range cs {
			linear = linear && (i == 0 || len(c.InRange) == 1 && c.InRange[0] == i-1)
		}
		bound := bits.Len(uint(n - 1))
		if linear && skips == 0 && tests > bound {
			t.Fatalf("%d tests for a line of %d commits, bound %d", tests, n, bound)
		}
		if linear && tests-skips > 2*bound+2 {
			t.Fatalf("%d testable commits tested for a line of %d, %d skipped", tests-skips, n, skips)
		}
	})
}

// indistinguishable lists the commits that no testable commit tells from the culprit.
func indistinguishable(cs []Commit, culprit int, broken []bool) []int {
	var out []int
	for k := range cs {
		same := true
		for c := range cs {
			if !broken[c] && reaches(cs, c, k) != reaches(cs, c, culprit) {
				same = false
				break
			}
		}
		if same {
			out = append(out, k)
		}
	}
	return out
}

func TestNeutralCommitsAreNeverAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 200).Draw(t, "commits")
		cs := make([]Commit, n)
		matter := []int{}
		for i := range cs {
			if i > 0 {
				cs[i].InRange = []int{i - 1}
			}
			cs[i].Neutral = rapid.Bool().Draw(t, "neutral")
			if !cs[i].Neutral {
				matter = append(matter, i)
			}
		}
		if len(matter) == 0 {
			return
		}
		culprit := rapid.SampledFrom(matter).Draw(t, "culprit")
		h, err := NewHistory(cs)
		if err != nil {
			t.Fatal(err)
		}
		tests, _ := search(h, func(i int) bool {
			if cs[i].Neutral {
				t.Fatalf("neutral commit %d asked for", i)
			}
			return i >= culprit
		}, func(int) bool { return false })
		if left := h.Suspects(); len(left) != 1 || left[0].Index != culprit {
			t.Fatalf("suspects %v, want %d", left, culprit)
		}
		if bound := bits.Len(uint(len(matter) - 1)); tests > bound {
			t.Fatalf("%d tests for %d commits that matter, bound %d", tests, len(matter), bound)
		}
	})
}

// A run of nine broken commits must not be walked through one by one when the culprit is elsewhere.
func TestBrokenStretchIsLeft(t *testing.T) {
	worst := 0
	for culprit := range 128 {
		if culprit >= 60 && culprit <= 69 {
			continue
		}
		cs := line(128)
		h, _ := NewHistory(cs)
		tests, skips := search(h, func(i int) bool { return i >= culprit }, func(i int) bool { return i >= 60 && i < 69 })
		if left := h.Suspects(); len(left) != 1 || left[0].Index != culprit {
			t.Fatalf("culprit %d: suspects %v", culprit, left)
		}
		if skips < 9 { // at the very border every broken commit has to be tried
			worst = max(worst, tests)
		}
	}
	if worst > 12 {
		t.Errorf("up to %d tests beside a broken stretch, want at most 12", worst)
	}
}

func line(n int) []Commit {
	cs := make([]Commit, n)
	for i := range cs {
		cs[i].ID = string(rune('a' + i%26))
		if i > 0 {
			cs[i].InRange = []int{i - 1}
		}
	}
	return cs
}

func TestNewHistoryRefusesDisorder(t *testing.T) {
	if _, err := NewHistory(nil); err == nil {
		t.Error("an empty range was accepted")
	}
	if _, err := NewHistory([]Commit{{InRange: []int{0}}}); err == nil {
		t.Error("a commit that is its own parent was accepted")
	}
}

func BenchmarkSearchLine256(b *testing.B)  { benchmarkSearch(b, line(256)) }
func BenchmarkSearchLine4096(b *testing.B) { benchmarkSearch(b, line(4096)) }

func BenchmarkSearchMerges10k(b *testing.B) {
	cs := line(10000)
	for i := 7; i < len(cs); i += 4 {
		cs[i].InRange = []int{i - 1, i - 5}
		cs[i-2].InRange = []int{i - 6}
	}
	benchmarkSearch(b, cs)
}

// benchmarkSearch reports whole planted searches per second.
func benchmarkSearch(b *testing.B, cs []Commit) {
	for i := range b.N {
		h, err := NewHistory(cs)
		if err != nil {
			b.Fatal(err)
		}
		culprit := (i * 7919) % len(cs)
		for !h.Suspected(culprit) {
			culprit--
		}
		bad := h.descendantsOf(culprit)
		search(h, func(i int) bool { return bad[i] }, func(int) bool { return false })
		if !h.Suspected(culprit) {
			b.Fatal("culprit lost")
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "searches/s")
}

func (h *History) descendantsOf(k int) []bool {
	out := make([]bool, len(h.commits))
	for i := range h.commits {
		out[i] = i == k
		for _, p := range h.commits[i].InRange {
			out[i] = out[i] || out[p]
		}
	}
	return out
}

// Where a bad answer is dear, the search asks for commits that are more likely good: it costs less on
// average, never more tests than a few beyond those of even splits, and exactly the even split where
// the two answers cost about the same.
func TestSplitByCost(t *testing.T) {
	cost := func(n, culprit int, told, ratio float64) (cost float64, tests int) {
		h, err := NewHistory(line(n))
		if err != nil {
			t.Fatal(err)
		}
		for {
			h.Costs(told)
			i, ok := h.Next()
			if !ok {
				break
			}
			tests++
			if i >= culprit {
				h.Bad(i)
				cost += ratio
			} else {
				h.Good(i)
				cost++
			}
		}
		if left := h.Suspects(); len(left) != 1 || left[0].Index != culprit {
			t.Fatalf("suspects %v, want %d", left, culprit)
		}
		return cost, tests
	}
	for _, n := range []int{16, 128} {
		for ratio, gain := range map[float64]float64{1: 0, 2.9: 0, 5: 0.04, 15: 0.10} {
			even, split, most := 0.0, 0.0, 0
			for k := range n {
				e, _ := cost(n, k, 0, ratio)
				s, tests := cost(n, k, ratio, ratio)
				if ratio < unequal && e != s {
					t.Fatalf("n %d, ratio %v, culprit %d: %v instead of the even split's %v", n, ratio, k, s, e)
				}
				even, split, most = even+e, split+s, max(most, tests)
			}
			t.Logf("n %d, ratio %v: %.1f against %.1f with even splits, at most %d tests", n, ratio, split/float64(n), even/float64(n), most)
			if split > even*(1-gain)+1e-9 || most > bits.Len(uint(n-1))+spareTests {
				t.Errorf("n %d, ratio %v: %.1f against %.1f with even splits, at most %d tests", n, ratio, split/float64(n), even/float64(n), most)
			}
		}
	}
}

// The same on any history, with costs that are learnt on the way.
func TestSplitByCostOnRandomDAGs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawHistory(t, 100)
		culprit := rapid.IntRange(0, len(cs)-1).Draw(t, "culprit")
		h, err := NewHistory(cs)
		if err != nil {
			t.Fatal(err)
		}
		for tests := 0; ; tests++ {
			h.Costs(rapid.SampledFrom([]float64{0, 1, 4, 20}).Draw(t, "ratio"))
			i, ok := h.Next()
			if !ok {
				break
			}
			if tests > len(cs) {
				t.Fatal("the search does not end")
			}
			if reaches(cs, i, culprit) {
				h.Bad(i)
			} else {
				h.Good(i)
			}
		}
		if left := h.Suspects(); len(left) != 1 || left[0].Index != culprit {
			t.Fatalf("suspects %v, want %d", left, culprit)
		}
	})
}
