package search

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// drawRange draws a history of one head, parents first. Some commits have inputs that others have too, some change none.
func drawRange(t *rapid.T, most int) (commits []bisect.Commit, goodKey string) {
	n := rapid.IntRange(1, most).Draw(t, "commits")
	keys := []string{"", "a", "b", "c", "good"}
	for i := range n {
		c := bisect.Commit{ID: fmt.Sprint("c", i), Key: rapid.SampledFrom(keys).Draw(t, "key"), Neutral: i > 0 && i < n-1 && rapid.IntRange(0, 4).Draw(t, "neutral") == 0}
		if i == 0 {
			c.Parents = []string{"good"}
		} else {
			for _, p := range slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.IntRange(max(0, i-3), i-1), 1, 2).Draw(t, "parents")))) {
				c.InRange, c.Parents = append(c.InRange, p), append(c.Parents, fmt.Sprint("c", p))
			}
		}
		same := !slices.ContainsFunc(c.InRange, func(p int) bool { return commits[p].Key != commits[c.InRange[0]].Key })
		if c.Neutral = c.Neutral && same; c.Neutral {
			c.Key = commits[c.InRange[0]].Key
		}
		commits = append(commits, c)
	}
	return commits, rapid.SampledFrom([]string{"", "good"}).Draw(t, "good key")
}

// between reports that commit i descends from a commit of a key, the good end perhaps, and that another reaches it.
func between(commits []bisect.Commit, key, goodKey string, i int) bool {
	after, before := key == goodKey, false
	for k, c := range commits {
		if c.Key == key && !c.Neutral {
			after, before = after || bisect.Ancestors(commits, i)[k], before || bisect.Ancestors(commits, k)[i]
		}
	}
	return after && before
}

// alternate reports that some, not all, of the commits of one key lie between those of the other.
func alternate(commits []bisect.Commit, goodKey, a, b string) bool {
	if a == b || a == "" || b == "" {
		return false
	}
	partly := func(a, b string) bool {
		in, out := false, false
		for i, c := range commits {
			if c.Key == b && !c.Neutral {
				in, out = in || between(commits, a, goodKey, i), out || !between(commits, a, goodKey, i)
			}
		}
		return in && out
	}
	return partly(a, b) || partly(b, a)
}

// A commit is no culprit if it would make one of two commits of equal inputs bad and the other good; the good end is one
// of these. Inputs that come and go by turns say nothing. Where none is left, any commit may be it.
func TestSpanClears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commits, goodKey := drawRange(t, 12)
		p := NewSpan(commits, bisect.Candidate{Commit: "good"}, goodKey)
		want, left := make([]float64, len(commits)), false
		for k := range commits {
			bad := func(i int) bool { return bisect.Ancestors(commits, i)[k] }
			ok := !commits[k].Neutral
			for i, a := range commits {
				odd := slices.ContainsFunc(commits, func(b bisect.Commit) bool { return alternate(commits, goodKey, a.Key, b.Key) })
				if a.Key == "" || odd {
					continue
				}
				ok = ok && !(a.Key == goodKey && bad(i))
				for j, b := range commits {
					ok = ok && !(a.Key == b.Key && bad(i) != bad(j))
				}
			}
			if ok {
				want[k], left = 1, true
			}
		}
		if p.Blind != !left {
			t.Fatalf("blind %v, with culprits left %v", p.Blind, left)
		}
		if !left {
			want = slices.Repeat([]float64{1}, len(commits))
		}
		if !slices.Equal(p.Prior, want) {
			t.Fatalf("priors %v, want %v", p.Prior, want)
		}
		p.forgetKeys()
		if p.Blind || slices.Contains(p.Prior, 0) || slices.Contains(p.Usable, false) {
			t.Fatalf("without keys every commit may be the culprit and be launched: %v %v", p.Prior, p.Usable)
		}
	})
}

// The same of many commits of equal inputs.
func TestSpanClearsManyEquals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commits, _ := drawRange(t, 400)
		for i := range commits {
			if commits[i].Key, commits[i].Neutral = "", false; rapid.Bool().Draw(t, "equal") {
				commits[i].Key = "a"
			}
		}
		goodKey := rapid.SampledFrom([]string{"", "a"}).Draw(t, "good key")
		p := NewSpan(commits, bisect.Candidate{Commit: "good"}, goodKey)
		some, all := make([]bool, len(commits)), slices.Repeat([]bool{goodKey == ""}, len(commits))
		for i, c := range commits {
			for k, in := range bisect.Ancestors(commits, i) {
				if c.Key == "a" {
					some[k], all[k] = some[k] || in, all[k] && in
				}
			}
		}
		for k, w := range p.Prior {
			if !p.Blind && (w == 0) != (some[k] && !all[k]) {
				t.Fatalf("prior of %d is %v; some reach it %v, all %v", k, w, some[k], all[k])
			}
		}
	})
}

// The sides of one commit are itself and its parents. Those of a set are the earliest commit that holds all of it and the
// latest before that which holds none.
func TestSpanSides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commits, _ := drawRange(t, 10)
		p := NewSpan(commits, bisect.Candidate{Commit: "good"}, "")
		for i := range commits {
			p.Usable[i] = i == p.Bad() || rapid.Bool().Draw(t, "usable")
		}
		set := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.IntRange(0, p.Bad()), 1, 4).Draw(t, "set"))))
		culprit, parents := p.Sides(set)
		if len(set) == 1 && p.Usable[set[0]] {
			if culprit != commits[set[0]].ID || !slices.Equal(parents, commits[set[0]].Parents) {
				t.Fatalf("%v %v", culprit, parents)
			}
			return
		}
		holds := func(i int) (n int) {
			for _, k := range set {
				if bisect.Ancestors(commits, i)[k] {
					n++
				}
			}
			return n
		}
		after, before := p.Bad(), belief.GoodEnd
		for i := range commits {
			if p.Usable[i] && holds(i) == len(set) {
				after = i
				break
			}
		}
		for i, in := range bisect.Ancestors(commits, after) {
			if in && p.Usable[i] && holds(i) == 0 {
				before = i
			}
		}
		if culprit != p.Id(after) || !slices.Equal(parents, []string{p.Id(before)}) {
			t.Fatalf("sides of %v: %v and %v, want %v and %v", set, culprit, parents, p.Id(after), p.Id(before))
		}
	})
}

func TestSpanPlaces(t *testing.T) {
	commits := []bisect.Commit{{ID: "a", Parents: []string{"good"}, Key: "k"}, {ID: "b", Parents: []string{"a"}, InRange: []int{0}, Neutral: true}, {ID: "c", Parents: []string{"b"}, InRange: []int{1}, Key: "k"}, {ID: "d", Parents: []string{"c"}, InRange: []int{2}}}
	p := NewSpan(commits, bisect.Candidate{Commit: "good"}, "")
	if p.Place("c") != 2 || p.Place("good") != belief.GoodEnd || p.Place("long before") != belief.GoodEnd {
		t.Error("places", p.Place("c"), p.Place("good"), p.Place("long before"))
	}
	if p.holds("good") || !p.holds("a") || p.holds("long before") {
		t.Error("a range holds its commits, not its good end")
	}
	if got := []bisect.Purpose{p.Purpose(belief.GoodEnd), p.Purpose(1), p.Purpose(3)}; !slices.Equal(got, []bisect.Purpose{bisect.EndGood, bisect.Searching, bisect.EndBad}) {
		t.Error("purposes", got)
	}
	if got := p.EqualTo(0); !slices.Equal(got, []int{2}) {
		t.Error("equal inputs", got)
	}
	if i, ok := p.FirstParent([]string{"b", "x"}); i != 1 || !ok {
		t.Error("first parent", i, ok)
	}
	if _, ok := p.FirstParent(nil); ok {
		t.Error("a root has no parent")
	}
	if p.Launchable(1) || !p.Launchable(0) || !p.Launchable(belief.GoodEnd) {
		t.Error("what changes no input is launched for no answer; the ends always can be")
	}
	p.Weigh([]float64{5, 0, 7, 2})
	if want := []float64{5, 0, 0, 2}; !slices.Equal(p.Prior, want) { // b is neutral; b and c would tell a and c apart
		t.Error("priors", p.Prior, "want", want)
	}
}

// The neighbours of a commit that could not be tested are likely to be untestable too, those far away are not.
func TestSpanChances(t *testing.T) {
	var commits []bisect.Commit
	for i := range 30 {
		c := bisect.Commit{ID: fmt.Sprint("c", i)}
		if i > 0 {
			c.InRange = []int{i - 1}
		}
		commits = append(commits, c)
	}
	p := NewSpan(commits, bisect.Candidate{Commit: "good"}, "")
	p.Usable[10] = false
	if p.chances(map[string]bool{}) != nil {
		t.Error("a commit that was not launched is not known to be broken")
	}
	chance := p.chances(map[string]bool{"c10": true})
	if chance(10) != 0 || chance(11) != chance(9) || chance(29) < 0.95 {
		t.Error(chance(9), chance(10), chance(11), chance(29))
	}
	for i := 11; i < 30; i++ {
		if chance(i) <= chance(i-1) {
			t.Errorf("commit %d is farther from the broken one, and its chance %v no better than %v", i, chance(i), chance(i-1))
		}
	}
}
