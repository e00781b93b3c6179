// Package odds is the arithmetic behind a search for guilty sets: where the last missing change
// probably stands ([Missing]), which test to make next at the prices of the two answers ([Cut]), and how
// likely a set is guilty after some of its tests failed and some passed ([Chances]).
//
// The package knows numbers only; it must not know sets, tests or an oracle.
package odds

import (
	"math"
	"math/bits"
)

// CeilLog2 is the number of halvings that single out one of n.
func CeilLog2(n int) int {
	if n < 2 {
		return 0
	}
	return bits.Len(uint(n - 1))
}

// Entropy is the entropy of weights, in nats.
func Entropy(w []float64) (h float64) {
	sum := 0.0
	for _, x := range w {
		sum += x
	}
	for _, x := range w {
		if x > 0 {
			h -= x / sum * math.Log(x/sum)
		}
	}
	return h
}

// Share is the share of the weights that stands up to place m, included; 0.5 where all are 0.
func Share(w []float64, m int) float64 {
	front, all := 0.0, 0.0
	for i, x := range w {
		if all += x; i <= m {
			front += x
		}
	}
	if all > 0 {
		return front / all
	}
	return 0.5
}
