package levels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// randomDAG is a range in which every commit has one or two parents, and the last reaches all others.
func randomDAG(rng *rand.Rand, n int) []bisect.Commit {
	commits := make([]bisect.Commit, n)
	loose := map[int]bool{}
	for i := range commits {
		c := bisect.Commit{ID: fmt.Sprint(i)}
		if i > 0 {
			c.InRange = append(c.InRange, rng.IntN(i))
		}
		if p := rng.IntN(max(1, i)); i > 1 && rng.IntN(3) == 0 && p != c.InRange[0] {
			c.InRange = append(c.InRange, p)
		}
		if i == n-1 {
			c.InRange = nil
			for p := range i {
				if loose[p] {
					c.InRange = append(c.InRange, p)
				}
			}
		}
		for _, p := range c.InRange {
			delete(loose, p)
		}
		loose[i] = true
		commits[i] = c
	}
	return commits
}

// Two suspects share a set exactly as long as every tested commit reaches both or neither.
func TestSetsAreWhatNoLaunchTellsApart(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 3 + rng.IntN(20)
		commits, prior := randomDAG(rng, n), make([]float64, n)
		for i := range prior {
			prior[i] = float64(1 + rng.IntN(3))
		}
		prior[rng.IntN(n-1)] = 0
		p := newPartition(commits, prior, newFilter(firstNoise))
		tested := []int{n - 1}
		for range 6 {
			if c := rng.IntN(n); p.tested[c] == nil {
				p.split(c)
				tested = append(tested, c)
			}
			for i := range commits {
				if (p.of[i] < 0) != (prior[i] == 0) {
					t.Fatalf("seed %d: commit %d with prior %v is in set %d", seed, i, prior[i], p.of[i])
				}
				for k := range i {
					same := !slices.ContainsFunc(tested, func(c int) bool { in := bisect.Ancestors(commits, c); return in[i] != in[k] })
					if p.of[i] >= 0 && p.of[k] >= 0 && (p.of[i] == p.of[k]) != same {
						t.Fatalf("seed %d: commits %d and %d, tested %v: sets %d and %d", seed, i, k, tested, p.of[i], p.of[k])
					}
				}
			}
		}
		mass := make([]float64, len(p.sets))
		for i, j := range p.of {
			if j >= 0 {
				mass[j] += prior[i]
			}
		}
		for j, s := range p.sets {
			if s.mass != mass[j] || s.size != len(p.members(j)) || p.of[s.member] != j {
				t.Errorf("seed %d: set %d holds %v in %d commits such as %d, want %v in %v", seed, j, s.mass, s.size, s.member, mass[j], p.members(j))
			}
		}
	}
}

// The probabilities of the commits add up to 1 after every launch, the step is found, and the same launches give
// the same next launch.
func TestLevelsAreRepeatable(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 2))
		const n, culprit, step = 20, 13, 0.05
		commits := randomDAG(rng, n)
		prior := slices.Repeat([]float64{1}, n)
		prices := belief.Prices{Pass: 10, Usable: func(int) bool { return true }}
		first, again := New(commits, prior), New(commits, prior)
		for k := range 40 {
			i := belief.GoodEnd
			if a, ok := first.Next(prices); ok && k > 8 {
				i = a.Index
			} else if k%2 == 1 {
				i = n - 1
			}
			l := belief.Launch{Index: i, At: float64(10 * k), Y: 3 + 0.005*rng.NormFloat64()}
			if i >= 0 && bisect.Ancestors(commits, i)[culprit] {
				l.Y += step
			}
			first.Add(l)
			again.Add(l)
			sum := 0.0
			for _, w := range first.Weights() {
				sum += w
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Fatalf("seed %d: probabilities add up to %v after %d launches", seed, sum, k+1)
			}
			a, okA := first.Next(prices)
			b, okB := again.Next(prices)
			if a != b || okA != okB {
				t.Fatalf("seed %d: %+v and %+v after the same launches", seed, a, b)
			}
		}
		if d, sd := first.Step(); math.Abs(d-step) > 4*sd || sd > 0.01 {
			t.Errorf("seed %d: step %v, sd %v", seed, d, sd)
		}
		if w := first.Weights(); w[culprit] < 0.5 {
			t.Errorf("seed %d: culprit with probability %v", seed, w[culprit])
		}
	}
}
