package judge

import (
	"math"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
)

// TestCasesThatComeAndGo: a metric over all cases is that over those which both ends give.
func TestCasesThatComeAndGo(t *testing.T) {
	of := func(values map[string]float64) (o bisect.Outcome) {
		for c, v := range values {
			o.Series = append(o.Series, bisect.Series{Metric: "time", Case: c, Values: []float64{v}})
		}
		return o
	}
	good := of(map[string]float64{"32": 0.3, "64": 0.2, "1024": 0.1})
	bad := of(map[string]float64{"64": 0.2, "1024": 0.2, "2048": 9})
	m := Metric{Name: "time"}
	all := channels([]Metric{m}, good, bad)[0]
	level := func(o bisect.Outcome) float64 {
		y, ok := all.level(o)
		if !ok {
			t.Fatalf("no level of %v", o.Series)
		}
		return y
	}
	if got := level(bad) - level(good); math.Abs(got-math.Log(2)/2) > 1e-12 {
		t.Errorf("the ends differ by %g", got)
	}
	for name, o := range map[string]bisect.Outcome{
		"a case more": of(map[string]float64{"32": 0.3, "64": 0.2, "1024": 0.1, "2048": 9}),
		"a case less": of(map[string]float64{"64": 0.2}),
	} {
		if got := level(o) - level(good); math.Abs(got) > 1e-12 {
			t.Errorf("%s: differs from the good end by %g", name, got)
		}
	}
	if _, ok := all.level(of(map[string]float64{"2048": 1})); ok {
		t.Error("a level of no shared case")
	}
	if c := channels([]Metric{m}, good, good)[0]; c.shared != nil {
		t.Error("equal cases are taken for others")
	}
	want := []string{"only the good end gives time of 32: it is left out", "only the bad end gives time of 2048: it is left out"}
	if got := oneSided([]Metric{m}, good, bad); !slices.Equal(got, want) {
		t.Errorf("told %q", got)
	}
}
