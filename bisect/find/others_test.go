package find_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// With several metrics one step is searched for; that the ends differ in another metric is told, unless the
// culprit explains it.
func TestSlowdownTellsOfOtherMetrics(t *testing.T) {
	time, bw, lat := metric.Metric{Name: "time"}, metric.Metric{Name: "bw", Higher: true}, metric.Metric{Name: "lat"}
	registers := metric.Metric{Name: "registers", Exact: true}
	for _, c := range []struct {
		name   string
		at     [3]int // where bw falls, lat rises and registers rise
		ms     []metric.Metric
		metric string
		knows  string // "" nothing of the kind
	}{
		{"bw falls before", [3]int{20, 40, 64}, []metric.Metric{time, bw, lat}, "lat", "the ends differ in bw as well (0.90 times)\nhint: kbisect run --metric bw searches for that"},
		{"by the same commit", [3]int{40, 40, 64}, []metric.Metric{time, bw, lat}, "lat", ""},
		{"nothing else", [3]int{64, 40, 64}, []metric.Metric{time, bw, lat}, "lat", ""},
		{"registers too", [3]int{64, 40, 10}, []metric.Metric{lat, registers}, "lat", "the ends differ in registers as well (registers of k: 72 against 64)"},
		{"registers by the same commit", [3]int{64, 40, 40}, []metric.Metric{lat, registers}, "lat", ""},
	} {
		rng := rand.New(rand.NewPCG(7, 1))
		noisy := func(metric string, v float64) bisect.Series {
			return number(metric, "", v*(1+0.003*rng.NormFloat64()))
		}
		s := &built{series: func(i int) []bisect.Series {
			return []bisect.Series{
				noisy("time", 1), noisy("bw", step(i, c.at[0], 800, 720)), noisy("lat", step(i, c.at[1], 3, 3.9)),
				number("registers", "k", step(i, c.at[2], 64, 72)),
			}
		}}
		f, _ := exactSearch(t, 64, s, false, c.ms...)
		if f.Result != bisect.Found || f.Culprits[0].Commit != "c040" || f.Complaint.Metric != c.metric {
			t.Errorf("%s: %s %+v %s", c.name, f.Result, f.Culprits, f.Complaint)
		}
		known := strings.Join(f.Warnings, "\n")
		if !strings.Contains(known, c.knows) || c.knows == "" && strings.Contains(known, "as well") {
			t.Errorf("%s: %q", c.name, f.Warnings)
		}
	}
}
