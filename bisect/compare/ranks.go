package compare

import (
	"cmp"
	"math"
	"slices"
)

// signedRank is the largest k with P(W ≤ k) ≤ p, where W is Wilcoxon's signed rank sum of n differences; -1
// when there is none.
func signedRank(n int, p float64) int {
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	return atMost(rankSums(ranks), p)
}

// rankSums are the probabilities of every sum of the ranks of positive differences, by the sum, if each difference is
// as likely positive as negative.
func rankSums(ranks []int) []float64 {
	most := 0
	for _, r := range ranks {
		most += r
	}
	chance := make([]float64, most+1)
	chance[0] = 1
	for _, r := range ranks {
		for w := most; w >= 0; w-- {
			chance[w] /= 2
			if w >= r {
				chance[w] += chance[w-r] / 2 // which is not halved yet
			}
		}
	}
	return chance
}

// atMost is the largest k such that the probabilities up to k add up to p or less; -1 where there is none.
func atMost(chance []float64, p float64) int {
	sum := 0.0
	for k, c := range chance {
		if sum += c; sum > p {
			return k - 1
		}
	}
	return len(chance) - 1
}

// SignedRank is the exact two-sided p of Wilcoxon's signed rank test (1945) of "the differences x lie around
// 0". Differences of 0 are left out, and equal ones share their ranks.
func SignedRank(x []float64) float64 {
	x = slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return v == 0 })
	slices.SortFunc(x, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	ranks := make([]int, len(x)) // doubled, so that shared ones are whole
	positive, total := 0, 0
	for i := 0; i < len(x); {
		j := i
		for j < len(x) && math.Abs(x[j]) == math.Abs(x[i]) {
			j++
		}
		for k := i; k < j; k++ {
			ranks[k] = i + 1 + j
			total += ranks[k]
			if x[k] > 0 {
				positive += ranks[k]
			}
		}
		i = j
	}
	p := 0.0
	for _, c := range rankSums(ranks)[:min(positive, total-positive)+1] {
		p += c
	}
	return min(1, 2*p)
}

// Values a side up to which the distribution of the rank sum is counted out.
const (
	exactRankSum = 50
	exactTied    = 30 // where values are equal
)

// MannWhitney (1947) is the two-sided p of the rank sum test of "both sides are alike": exact up to 50 values a side
// (30 where values are equal), normal with correction for ties beyond. It takes no account of pairs, nor of
// having looked before.
func MannWhitney(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return math.NaN()
	}
	groups, u := tied(a, b)
	most := max(len(a), len(b))
	switch {
	case len(groups) == len(a)+len(b) && most <= exactRankSum:
		p := 0.0
		for _, c := range rankSumChances(len(a), len(b))[:min(u, 2*len(a)*len(b)-u)/2+1] {
			p += c
		}
		return min(1, 2*p)
	case most <= exactTied:
		return tiedRankSum(groups, len(a), len(b), u)
	}
	return normalRankSum(groups, len(a), len(b), u)
}

// tied counts how many values of both sides together are equal, in ascending order, and twice U: U is the number of
// pairs of a value of a and a smaller one of b, equal ones counting half, so that twice of it is whole.
func tied(a, b []float64) (groups []int, u int) {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	below := 0 // values of b
	for len(a)+len(b) > 0 {
		least := math.Inf(1)
		if len(a) > 0 {
			least = a[0]
		}
		if len(b) > 0 {
			least = min(least, b[0])
		}
		i, j := 0, 0
		for i < len(a) && a[i] == least {
			i++
		}
		for j < len(b) && b[j] == least {
			j++
		}
		u += i * (2*below + j)
		below += j
		groups = append(groups, i+j)
		a, b = a[i:], b[j:]
	}
	return groups, u
}

// tiedRankSum counts out the distribution of twice U where values are equal: it goes through the groups of equal
// values and shares each one out between the sides in every way. It is two-sided, by the distance from the mean n·m.
func tiedRankSum(groups []int, n, m, u int) float64 {
	// chance[k][s]: that of what was shared out k went to a, with twice U at s
	chance := make([][]float64, n+1)
	for k := range chance {
		chance[k] = make([]float64, 2*n*m+1)
	}
	chance[0][0] = 1
	seen := 0
	for _, g := range groups {
		for k := min(n, seen+g); k >= 0; k-- {
			row := make([]float64, 2*n*m+1)
			for i := max(0, k-seen); i <= min(g, k); i++ { // of this group go to a
				below := seen - (k - i) // of b before
				step, ways := i*(2*below+g-i), math.Exp(choose(g, i))
				for s := 0; s+step < len(row); s++ {
					row[s+step] += ways * chance[k-i][s]
				}
			}
			chance[k] = row
		}
		seen += g
	}
	total, p := math.Exp(choose(n+m, n)), 0.0
	far := max(u-n*m, n*m-u)
	for s, c := range chance[n] {
		if s-n*m >= far || n*m-s >= far {
			p += c / total
		}
	}
	return min(1, p)
}

// normalRankSum is the two-sided p if U is normal, with the variance for ties, nm/12 · (N+1 - Σ(t³-t)/(N(N-1))), and a
// correction of a half for continuity.
func normalRankSum(groups []int, n, m, u int) float64 {
	size, all, ties := float64(n*m), float64(n+m), 0.0
	for _, g := range groups {
		ties += float64(g*g*g - g)
	}
	v := size / 12 * (all + 1 - ties/(all*(all-1)))
	if !(v > 0) {
		return 1
	}
	far := max(0, math.Abs(float64(u)/2-size/2)-0.5)
	return math.Erfc(far / math.Sqrt(2*v))
}

// rankSumChances are those of every U of n values and m, none of them equal: the coefficients of the Gaussian
// binomial. Each is made of lower ones alone, so that the small chances of a tail are exact to many digits.
func rankSumChances(n, m int) []float64 {
	ways := make([]float64, n*m+1)
	ways[0] = 1
	for i := 1; i <= n; i++ {
		for u := n * m; u >= m+i; u-- {
			ways[u] -= ways[u-m-i]
		}
		for u := i; u <= n*m; u++ {
			ways[u] += ways[u-i]
		}
	}
	total := math.Exp(choose(n+m, n))
	for u := range ways {
		ways[u] /= total
	}
	return ways
}

// rankSum is the largest k with P(U ≤ k) ≤ p for sides of n and m values, none of them equal; -1 where there is none.
func rankSum(n, m int, p float64) int {
	switch {
	case n == 0 || m == 0:
		return -1
	case max(n, m) <= exactRankSum:
		return atMost(rankSumChances(n, m), p)
	}
	size := float64(n * m)
	z := math.Sqrt2 * math.Erfinv(1-2*p)
	return max(-1, int(math.Floor(size/2-z*math.Sqrt(size*float64(n+m+1)/12)-0.5)))
}
