package odds

import "math"

// Mean is the mean of prices seen so far; the zero value has seen none.
type Mean struct{ sum, logs, n float64 }

// Plus is the mean with one more number.
func (m Mean) Plus(x float64) Mean { return Mean{m.sum + x, m.logs + math.Log(max(x, 1e-6)), m.n + 1} }

// Or is the mean or, before the first number, what is expected; never 0, so that prices have ratios.
func (m Mean) Or(expected float64) float64 {
	if m.n > 0 {
		expected = m.sum / m.n
	}
	return max(expected, 1e-6)
}

// Usual is the geometric mean, counting what is expected as one more number: a single expensive test says little about
// the others.
func (m Mean) Usual(expected float64) float64 {
	return math.Exp((math.Log(max(expected, 1e-6)) + m.logs) / (m.n + 1))
}

// Hunt is how far the search for one guilty set is.
type Hunt struct {
	Kept  int     // changes of it that are known
	Nats  float64 // what there is to learn about where the next one stands
	More  float64 // changes expected besides
	Among int     // candidates for these
}

// NewHunt begins the hunt for a change among candidates, after some were kept; missing has the weights of
// how many are missing.
func NewHunt(kept, among int, missing []float64) *Hunt {
	return &Hunt{kept, math.Log(float64(among + 1)), min(beyond(missing), float64(max(0, among-1))), among}
}

// Size is how many changes the guilty set is expected to have.
func (h *Hunt) Size() float64 { return float64(h.Kept) + 1 + h.More }

// Tests estimates the tests that find the rest of the guilty set. The optimal tree learns, from a test
// with the best share of failures, that share's entropy; one test more says that nothing is missing.
func (h *Hunt) Tests(c Prices) (pass, fail float64) {
	const rest = 0.3 // of a test, by which whole tests overshoot
	q := failShare(c.Fail / c.Pass)
	each := -q*math.Log(q) - (1-q)*math.Log(1-q)
	n := h.Nats/each + h.More*math.Log(float64(max(2, h.Among)))/each + rest*(1+h.More)
	n = min(n, float64(h.Among)*(1+h.More)) // however expensive failures are, there are no more places
	return n*(1-q) + 1, n * q
}
