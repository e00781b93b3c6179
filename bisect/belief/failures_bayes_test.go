package belief

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
)

// drawLaunches draws a history with merges and launches of its commits and of the good end.
func drawLaunches(t *rapid.T) (commits []bisect.Commit, prior []float64, launches []Launch) {
	n := rapid.IntRange(2, 9).Draw(t, "commits")
	for i := range n {
		c := bisect.Commit{ID: fmt.Sprint("c", i)}
		if i > 0 {
			c.InRange = slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.IntRange(max(0, i-3), i-1), 1, 2).Draw(t, "parents"))))
		}
		commits, prior = append(commits, c), append(prior, float64(rapid.IntRange(0, 3).Draw(t, "prior")))
	}
	prior[rapid.IntRange(0, n-1).Draw(t, "suspect")] = 1
	for range rapid.IntRange(0, 12).Draw(t, "launches") {
		launches = append(launches, Launch{Index: rapid.IntRange(GoodEnd, n-1).Draw(t, "index"), Failed: rapid.Bool().Draw(t, "failed")})
	}
	return commits, prior, launches
}

// told is a belief that has taken in some launches.
func told(commits []bisect.Commit, prior []float64, certain bool, launches ...Launch) *Failures {
	e := NewFailures(commits, prior, certain)
	for _, l := range launches {
		e.Add(l)
	}
	return e
}

// hypotheses are the probabilities of every commit as the culprit, and of ends that do not differ, after some launches.
func hypotheses(commits []bisect.Commit, prior []float64, certain bool, launches ...Launch) []float64 {
	b := told(commits, prior, certain, launches...).Posterior()
	return append(slices.Clone(b.Weight), b.Alike)
}

// Launches are weighed as Bayes' rule asks: what the next launch is expected to show agrees with what it then makes of the
// probabilities, and the information that it promises is the entropy that it takes away in the mean.
func TestFailuresAreCoherent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commits, prior, launches := drawLaunches(t)
		certain := rapid.Bool().Draw(t, "certain")
		e := told(commits, prior, certain, launches...)
		now := hypotheses(commits, prior, certain, launches...)
		if sum := sumOf(now); math.Abs(sum-1) > 1e-9 {
			t.Fatalf("the probabilities add up to %v", sum)
		}
		f := e.forecast(e.Posterior())
		for i := GoodEnd; i < len(commits); i++ {
			fail, known := f.of(i)
			info := BinaryEntropy(fail) - known
			bad := hypotheses(commits, prior, certain, append(slices.Clone(launches), Launch{Index: i, Failed: true})...)
			good := hypotheses(commits, prior, certain, append(slices.Clone(launches), Launch{Index: i})...)
			for k := range now {
				if mean := fail*bad[k] + (1-fail)*good[k]; math.Abs(mean-now[k]) > 1e-6 {
					t.Fatalf("hypothesis %d has %v now, and %v in the mean after a launch of commit %d that fails with %v", k, now[k], mean, i, fail)
				}
			}
			if want := Entropy(now) - fail*Entropy(bad) - (1-fail)*Entropy(good); math.Abs(info-want) > 1e-6 {
				t.Fatalf("a launch of commit %d promises %v nats, and takes away %v", i, info, want)
			}
		}
	})
}

// What a launch is worth where commits stand out is how far its outcome sets each of them apart from the mean of all others.
func TestLeadersAreSetApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commits, prior, launches := drawLaunches(t)
		e := told(commits, prior, false, launches...)
		b := e.posterior(doubtful)
		f := e.forecast(b)
		for i := GoodEnd; i < len(commits); i++ {
			fail, _ := f.of(i)
			// fails is the chance of it if commit k is to blame.
			fails := func(k int) float64 {
				bad, good := b.Bad[k], b.All.Minus(b.Bad[k])
				now := b.kind.logMixed(bad, good)
				if i >= 0 && bisect.Ancestors(commits, i)[k] {
					return math.Exp(b.kind.logMixed(bad.Plus(Tally{Fails: 1}), good) - now)
				}
				return math.Exp(b.kind.logMixed(bad, good.Plus(Tally{Fails: 1})) - now)
			}
			apart := func(p, q float64) float64 { return p*math.Log(p/q) + (1-p)*math.Log((1-p)/(1-q)) }
			want := 0.0
			for k, w := range b.Weight {
				if w < standsOut || w > 1-1e-6 {
					continue
				}
				others := b.Alike * failNext(logAlike, b.All)
				for j, v := range b.Weight {
					if j != k {
						others += v * fails(j)
					}
				}
				want += w * (apart(fails(k), others/(1-w)) - apart(fails(k), fail))
			}
			if got, most := f.apart(i, fail), f.mostApart(i, fail); math.Abs(got-want) > 1e-6 || got < 0 || most < got-1e-9 {
				t.Fatalf("a launch of commit %d sets apart by %v, at most %v, not by %v", i, got, most, want)
			}
		}
	})
}

// A commit that was cleared beforehand is never blamed, and a commit is as bad as the commits it descends from are guilty.
func TestFailuresBad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commits, prior, launches := drawLaunches(t)
		e := told(commits, prior, false, launches...)
		weights := e.Weights()
		for i := range commits {
			if prior[i] == 0 && weights[i] != 0 {
				t.Fatalf("commit %d was cleared and has %v", i, weights[i])
			}
			want := 0.0
			for k, in := range bisect.Ancestors(commits, i) {
				if in {
					want += weights[k]
				}
			}
			if got := e.Bad(i); math.Abs(got-want) > 1e-9 {
				t.Fatalf("commit %d is bad with %v, and the commits it descends from are guilty with %v", i, got, want)
			}
		}
	})
}

// While nothing contradicts that a complaint comes always, each launch halves what is left, as with git bisect, and the
// culprit that is decided on is the one that was planted.
func TestFailuresBisect(t *testing.T) {
	const n = 1000
	commits, prior := make([]bisect.Commit, n), make([]float64, n)
	for i := range commits {
		prior[i] = 1
		if i > 0 {
			commits[i].InRange = []int{i - 1}
		}
	}
	always := func(int) bool { return true }
	// Ten halvings and one launch for what is left of the doubt. Where every commit fails, the good end, which was launched
	// once, is what is doubted.
	for culprit, most := range map[int]int{0: 20, 1: 20, 499: 11, 500: 11, 998: 11, 999: 11} {
		e := NewFailures(commits, prior, true)
		e.Add(Launch{Index: GoodEnd})
		e.Add(Launch{Index: n - 1, Failed: true})
		launches := 0
		for {
			members, ok := e.Decided(0.005, always)
			if ok {
				if !slices.Equal(members, []int{culprit}) {
					t.Errorf("culprit %d: decided on %v", culprit, members)
				}
				break
			}
			a, ok := e.Next(Prices{Pass: 1, Fail: 1, Usable: always})
			if launches++; !ok || launches > most {
				t.Errorf("culprit %d: no end after %d launches", culprit, launches)
				break
			}
			e.Add(Launch{Index: a.Index, Failed: a.Index >= culprit})
		}
	}
}

func sumOf(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}
