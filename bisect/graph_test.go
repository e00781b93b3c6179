package bisect

import (
	"math"
	"math/rand/v2"
	"testing"
)

// On random histories the masses are those that the ancestors of each commit add up to, also where most
// commits weigh nothing, and a graph may be asked again.
func TestGraphMasses(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		commits := make([]Commit, 1+rng.IntN(300))
		for i := range commits {
			if i == 0 {
				continue
			}
			commits[i].InRange = []int{i - 1 - rng.IntN(min(i, 1+rng.IntN(4)))}
			if p := rng.IntN(i); rng.IntN(4) == 0 && p != commits[i].InRange[0] {
				commits[i].InRange = append(commits[i].InRange, p)
			}
		}
		g := NewGraph(commits)
		for _, share := range []float64{1, 0.1, 0.01} {
			weight := make([]float64, len(commits))
			for i := range weight {
				if rng.Float64() < share {
					weight[i] = rng.Float64()
				}
			}
			got := g.Masses(weight)
			for i := range commits {
				want := 0.0
				for k, in := range Ancestors(commits, i) {
					if in {
						want += weight[k]
					}
				}
				if math.Abs(got[i]-want) > 1e-9 {
					t.Fatalf("seed %d, share %v: commit %d of %d has %v, want %v", seed, share, i, len(commits), got[i], want)
				}
			}
		}
	}
}
