package belief_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// The likeliest suspects are as few as reach the share, the older first among equals.
func TestLikeliest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		w := make([]float64, 1+rng.IntN(12))
		total := 0.0
		for i := range w {
			w[i] = float64(rng.IntN(5)) / 8 // many are equal, some 0
			total += w[i]
		}
		share := []float64{0.5, 0.9, 0.99, 1}[rng.IntN(4)]
		order := make([]int, len(w))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(w[b], w[a]) })
		var want []bisect.Suspect
		for sum := 0.0; len(order) > 0 && w[order[0]] > 0 && sum < share*total; order = order[1:] {
			sum += w[order[0]]
			want = append(want, bisect.Suspect{Index: order[0], Probability: w[order[0]]})
		}
		slices.SortFunc(want, func(a, b bisect.Suspect) int { return cmp.Compare(a.Index, b.Index) })
		if got := belief.Likeliest(w, share); !slices.Equal(got, want) {
			t.Fatalf("%v, share %v: %v, want %v", w, share, got, want)
		}
	}
}

// A bisection in which every launch passed but for the last may be that of a complaint which comes in every second launch.
// A sceptic doubts it more than one in which most launches failed, and each pass of the parent takes away half of the doubt.
func TestASceptic(t *testing.T) {
	commits := make([]bisect.Commit, 256)
	prior := make([]float64, len(commits))
	for i := range commits {
		if prior[i] = 1; i > 0 {
			commits[i].InRange = []int{i - 1}
		}
	}
	doubts := func(culprit, passes int) float64 {
		e := belief.NewFailures(commits, prior, false)
		e.Add(belief.Launch{Index: belief.GoodEnd})
		e.Add(belief.Launch{Index: 255, Failed: true})
		for lo, hi := -1, 255; hi-lo > 1; {
			mid := (lo + hi) / 2
			if e.Add(belief.Launch{Index: mid, Failed: mid >= culprit}); mid >= culprit {
				hi = mid
			} else {
				lo = mid
			}
		}
		for range passes - 1 {
			e.Add(belief.Launch{Index: culprit - 1})
		}
		e.Add(belief.Launch{Index: culprit, Failed: true})
		return e.Doubt([]int{culprit})
	}
	if late, early := doubts(254, 5), doubts(1, 5); late < 1.5*early {
		t.Errorf("doubt after passes %.4f, after failures %.4f", late, early)
	}
	if five, six := doubts(254, 5), doubts(254, 6); six > 0.75*five {
		t.Errorf("doubt after five passes of the parent %.4f, after six %.4f", five, six)
	}
}
