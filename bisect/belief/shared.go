package belief

import "github.com/kbisect/kbisect/bisect"

// Names that failures and rates have for what every belief shares.

func (p Prices) launch(i int, fail float64) float64 { return p.Launch(i, fail) }
func (p Prices) chance(i int) float64               { return p.Testable(i) }
func nearest(bad []float64, open func(i int) bool, quantiles []float64, p Prices) []int {
	return Nearest(bad, open, quantiles, p)
}
func likeliest(all []bisect.Suspect, p float64) []bisect.Suspect { return Likeliest(all, p) }
func parted(g *bisect.Graph, n int, members []int, usable func(int) bool) bool {
	return Parted(g, n, members, usable)
}
func binaryEntropy(p float64) float64 { return BinaryEntropy(p) }
func logAdd(a, b float64) float64     { return LogAdd(a, b) }
func logSum(v []float64) float64      { return LogSum(v) }
