package odds

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) }

// weights draws weights, some of them zero.
func weights(t *rapid.T, least, most int) []float64 {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 6).Draw(t, "w")) / 4 }), least, most).Draw(t, "weights")
}

// Where the last missing change stands, and how many are missing then, agrees with going through all sets that may be
// missing: a set of r is as likely as the product of its suspicions.
func TestMissingAgainstAllSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "candidates")
		s := make([]float64, n)
		for i := range s {
			s[i] = float64(rapid.IntRange(1, 5).Draw(t, "suspicion"))
		}
		count := weights(t, 2, 5)
		ruled := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "ruled")
		product := func(set uint) float64 {
			x := 1.0
			for i := range s {
				if set>>i&1 == 1 {
					x *= s[i]
				}
			}
			return x
		}
		excluded := func(set uint) bool { return bits.OnesCount(set) == 1 && ruled[bits.Len(set)-1] }
		all := make([]float64, len(count)) // by size, the products of the sets that are not ruled out
		for set := range uint(1) << n {
			if r := bits.OnesCount(set); r < len(count) && !excluded(set) {
				all[r] += product(set)
			}
		}
		want := make([]float64, n+1)
		after := make([][]float64, n+1) // by place and what is left
		for p := range after {
			after[p] = make([]float64, len(count))
		}
		for set := range uint(1) << n {
			r, p := bits.OnesCount(set), bits.Len(set)
			if r >= len(count) || excluded(set) {
				continue
			}
			w := count[r] * product(set) / all[r]
			want[p] += w
			if r > 0 {
				after[p][r-1] += w
			}
		}
		m := NewMissing(count, s)
		for p, x := range m.Positions(ruled) {
			if !near(x, want[p]) {
				t.Fatalf("place %d weighs %v, want %v", p, x, want[p])
			}
			if p > 0 && !slices.Contains(ruled, true) && !slices.EqualFunc(m.After(p), after[p], near) {
				t.Fatalf("after place %d: %v, want %v", p, m.After(p), after[p])
			}
		}
	})
}

// The prior of the size is a distribution but for a tail that is less than a hundredth more.
func TestSizePrior(t *testing.T) {
	w, sum := SizePrior(), 0.0
	for _, x := range w {
		sum += x
	}
	if w[0] != 0 || sum < 1 || sum > 1.03 || len(w) != mostMissing+1 {
		t.Errorf("%v, sum %v", w, sum)
	}
	if got := beyond([]float64{5, 1, 1}); !near(got, 1./7) {
		t.Errorf("beyond the next one: %v, want 1 of 7", got)
	}
	if got := beyond(nil); got != 0 {
		t.Errorf("nothing is believed: %v", got)
	}
}

// A cut leaves something on both sides, is the same from the memo, and near the best share where places are many.
func TestCut(t *testing.T) {
	memo := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := weights(t, 2, 12)
		c := Prices{Fail: float64(rapid.IntRange(1, 9).Draw(t, "fail")), Pass: float64(rapid.IntRange(1, 9).Draw(t, "pass"))}
		m := Cut(w, c, nil)
		if m < 0 || m > len(w)-2 {
			t.Fatalf("cut at %d of %d", m, len(w))
		}
		if again := Cut(w, c, memo); again != m || Cut(w, c, memo) != m {
			t.Fatalf("%d, and %d with a memo", m, again)
		}
		if c.Fail == c.Pass && !slices.ContainsFunc(w, func(x float64) bool { return x > 0 }) && m != Middle(len(w)) {
			t.Fatalf("without weights: %d", m)
		}
	})
	for _, c := range []Prices{{1, 1}, {10, 1}, {1, 10}} {
		many := make([]float64, MostTree+200)
		for i := range many {
			many[i] = 1
		}
		m := Cut(many, c, nil)
		if share, best := Share(many, m), failShare(c.Fail/c.Pass); math.Abs(share-best) > 0.01 {
			t.Errorf("prices %v: %v of the places in front, the best is %v", c, share, best)
		}
		many[0], many[len(many)-1] = 1e6, 1e6
		if m := Cut(many, c, nil); m < 0 || m > len(many)-2 {
			t.Errorf("prices %v: cut at %d", c, m)
		}
	}
}

// The smallest place is that of a linear search, in no more questions than halvings.
func TestLeast(t *testing.T) {
	wrong := errors.New("broken")
	for n := range 40 {
		for first := range n + 1 {
			asked := 0
			got, err := Least(3, 3+n, func(m int) (bool, error) { asked++; return m >= 3+first, nil })
			if err != nil || got != 3+first || asked > CeilLog2(n+1) {
				t.Errorf("of %d: %d in %d questions, want %d (%v)", n, got-3, asked, first, err)
			}
		}
	}
	if _, err := Least(0, 5, func(int) (bool, error) { return false, wrong }); err != wrong {
		t.Errorf("%v", err)
	}
	if got, err := Least(7, 7, nil); got != 7 || err != nil {
		t.Errorf("one place: %d %v", got, err)
	}
}

func TestCeilLog2(t *testing.T) {
	for n := range 2000 {
		halvings := 0
		for left := n; left > 1; left = (left + 1) / 2 {
			halvings++
		}
		if got := CeilLog2(n); got != halvings {
			t.Errorf("%d: %d, want %d", n, got, halvings)
		}
	}
}

// Entropy is that of the definition, whatever the weights sum up to, and greatest where they are equal.
func TestEntropy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := weights(t, 1, 10)
		sum, want := 0.0, 0.0
		for _, x := range w {
			sum += x
		}
		for _, x := range w {
			if x > 0 {
				want += x / sum * math.Log(sum/x)
			}
		}
		got := Entropy(w)
		if !near(got, want) || got > math.Log(float64(len(w)))+1e-9 {
			t.Fatalf("%v: %v, want %v", w, got, want)
		}
	})
	if got := Share([]float64{1, 2, 5}, 1); !near(got, 3./8) {
		t.Errorf("share %v", got)
	}
	if got := Share([]float64{0, 0}, 0); got != 0.5 {
		t.Errorf("a share of nothing: %v", got)
	}
}

// A mean starts from what is expected, and one expensive test says little about the usual price.
func TestMean(t *testing.T) {
	var m Mean
	if m.Or(3) != 3 || !near(m.Usual(3), 3) {
		t.Errorf("before the first: %v, %v", m.Or(3), m.Usual(3))
	}
	for _, x := range []float64{1, 1, 1, 997} {
		m = m.Plus(x)
	}
	if m.Or(3) != 250 {
		t.Errorf("mean %v", m.Or(3))
	}
	if got, want := m.Usual(1), math.Pow(997, 1./5); !near(got, want) {
		t.Errorf("usually %v, want %v", got, want)
	}
	if free := (Mean{}).Plus(0); free.Or(1) <= 0 || free.Usual(1) <= 0 {
		t.Errorf("a test that took no time: %v, %v", free.Or(1), free.Usual(1))
	}
}

// A hunt takes about as many tests as there are halvings where both answers cost alike, never fewer tests for more
// candidates, and fewer failures the more they cost.
func TestHuntTests(t *testing.T) {
	one := []float64{0, 1}
	before := 0.0
	for among := 1; among < 500; among++ {
		h := NewHunt(2, among, one)
		pass, fail := h.Tests(Prices{1, 1})
		if all := pass + fail; all < before-1e-9 || all > float64(CeilLog2(among+1))+3 || h.Size() != 3 {
			t.Errorf("%d candidates: %v tests, before %v; size %v", among, all, before, h.Size())
		}
		before = pass + fail
		_, dear := h.Tests(Prices{Fail: 20, Pass: 1})
		if dear > fail+1e-9 {
			t.Errorf("%d candidates: %v failures where they are dear, %v else", among, dear, fail)
		}
	}
	if h := NewHunt(0, 1, []float64{0, 0, 1}); h.More != 0 {
		t.Errorf("one candidate cannot hide %v more", h.More)
	}
}

// More failures make a set more suspect, more passes less, and what is settled is not doubted.
func TestGuiltyFollowsTheTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := map[Tally]int{{Fail: 3, Verdict: Guilty}: 1, {Pass: 2, Verdict: Innocent}: 2}
		for range rapid.IntRange(0, 4).Draw(t, "sets") {
			count[Tally{Fail: rapid.IntRange(0, 3).Draw(t, "fails"), Pass: rapid.IntRange(0, 3).Draw(t, "passes")}]++
		}
		var c Chances
		c.Learn(count)
		for f := range 4 {
			for p := range 4 {
				x := c.Guilty(Tally{Fail: f, Pass: p})
				if more := c.Guilty(Tally{Fail: f + 1, Pass: p}); x < 0 || x > 1 || more < x-1e-9 {
					t.Fatalf("%d failures and %d passes: %v, one failure more: %v", f, p, x, more)
				}
				if less := c.Guilty(Tally{Fail: f, Pass: p + 1}); less > x+1e-9 {
					t.Fatalf("%d failures and %d passes: %v, one pass more: %v", f, p, x, less)
				}
			}
		}
		if !near(c.Guilty(Tally{Fail: 1, Verdict: Guilty}), 1) || c.Guilty(Tally{Fail: 1, Verdict: Innocent}) != 0 {
			t.Fatal("what is settled is doubted")
		}
		if even := c.Guilty(Tally{}); !near(even, 0.5) {
			t.Fatalf("before any test: %v", even)
		}
	})
}
