package bisect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// someDAG is a random history in which commit i descends from i-1 or an earlier one, sometimes from two.
func someDAG(rng *rand.Rand, n int) []Commit {
	commits := make([]Commit, n)
	for i := range commits {
		c := Commit{ID: fmt.Sprint("c", i)}
		if i > 0 {
			c.InRange = []int{max(0, i-1-rng.IntN(3))}
			if second := rng.IntN(i); rng.IntN(4) == 0 && second != c.InRange[0] {
				c.InRange = append(c.InRange, second)
			}
		}
		for _, p := range c.InRange {
			c.Parents = append(c.Parents, fmt.Sprint("c", p))
		}
		commits[i] = c
	}
	return commits
}

// A part of a range holds what its end reaches and its beginning does not, with the same arrows.
func TestBetween(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		commits := someDAG(rng, 30)
		hi := rng.IntN(30)
		lo := rng.IntN(hi+1) - 1
		in := Ancestors(commits, hi)
		out := make([]bool, 30)
		if lo >= 0 {
			out = Ancestors(commits, lo)
		}
		sub, index := Between(commits, lo, hi)
		for i, down := range Descendants(commits, hi) {
			if down != Ancestors(commits, i)[hi] {
				t.Fatalf("seed %d: descendants of %d: %d is %v", seed, hi, i, down)
			}
		}
		var want []int
		for i := range commits {
			if in[i] && !out[i] {
				want = append(want, i)
			}
		}
		if !slices.Equal(index, want) {
			t.Fatalf("seed %d: %v, want %v", seed, index, want)
		}
		for k, c := range sub {
			var arrows []int
			for _, p := range c.InRange {
				arrows = append(arrows, index[p])
			}
			full := slices.DeleteFunc(slices.Clone(commits[index[k]].InRange), func(p int) bool { return !slices.Contains(index, p) })
			if c.ID != commits[index[k]].ID || !slices.Equal(arrows, full) {
				t.Fatalf("seed %d: commit %d has parents %v, want %v", seed, index[k], arrows, full)
			}
		}
	}
}

// Where a merge has the inputs of a later parent, what lies behind the first one does not matter.
func TestTrunkFollowsEqualInputs(t *testing.T) {
	commits := []Commit{
		{ID: "branch", Parents: []string{"good"}, Key: "a"},
		{ID: "mended", Parents: []string{"branch"}, InRange: []int{0}, Key: "b"},
		{ID: "main", Parents: []string{"good"}, Key: "c"},
		{ID: "merge", Parents: []string{"main", "mended"}, InRange: []int{2, 1}, Key: "b"},
		{ID: "bad", Parents: []string{"merge"}, InRange: []int{3}, Key: "d"},
	}
	if got := Trunk(commits); !slices.Equal(got, []int{0, 1, 3, 4}) {
		t.Errorf("%v", got)
	}
	commits[3].Key = "e"
	if got := Trunk(commits); !slices.Equal(got, []int{2, 3, 4}) {
		t.Errorf("%v where the merge brings both", got)
	}
}

// Probes lie on the trunk, in order, and part it evenly.
func TestProbes(t *testing.T) {
	line := make([]Commit, 256)
	weight := make([]float64, 256)
	for i := range line {
		line[i].ID, weight[i] = fmt.Sprint("c", i), 1
		if i > 0 {
			line[i].InRange, line[i].Parents = []int{i - 1}, []string{line[i-1].ID}
		}
	}
	all := func(int) bool { return true }
	got := Probes(line, weight, 16, all)
	last := -1
	for _, i := range append(slices.Clone(got), 255) {
		if i-last < 13 || i-last > 17 {
			t.Errorf("stretch from %d to %d in %v", last, i, got)
		}
		last = i
	}
	if got := Probes(line[:4], weight[:4], 16, all); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("short range: %v", got)
	}
	if got := Probes(line[:1], weight[:1], 16, all); len(got) != 0 {
		t.Errorf("one commit: %v", got)
	}
	for seed := range uint64(100) {
		commits := someDAG(rand.New(rand.NewPCG(seed, 2)), 40)
		trunk := Trunk(commits)
		usable := func(i int) bool { return i%3 != 0 }
		got := Probes(commits, weight[:40], 5, usable)
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) || len(got) > 5 {
			t.Fatalf("seed %d: %v", seed, got)
		}
		for _, i := range got {
			if !slices.Contains(trunk, i) || !usable(i) || i == 39 {
				t.Fatalf("seed %d: probe %d, trunk %v", seed, i, trunk)
			}
		}
	}
}
