package metric_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
)

// What every launch of the good end gives and none of the bad end is lost, and an outcome without it is wrong.
func TestLost(t *testing.T) {
	gives := func(cases ...string) bisect.Outcome {
		o := bisect.Outcome{Class: bisect.OK, Phases: []bisect.PhaseTime{{Name: "measure", Seconds: 1}}}
		for _, c := range cases {
			o.Series = append(o.Series, bisect.Series{Metric: "time", Case: c, Unit: "s", Values: []float64{1}})
		}
		return o
	}
	good, bad := []bisect.Outcome{gives("a", "b", "c"), gives("a", "b")}, []bisect.Outcome{gives("a"), gives("a", "d")}
	ms := []metric.Metric{{Name: "wall"}, {Name: "time"}, {Name: "spills", Exact: true}}
	lost := metric.LostBetween(ms, good, bad)
	if !slices.Equal(lost, []metric.Lost{{Metric: "time", Case: "b"}}) || metric.LostBetween(ms, good, nil) != nil {
		t.Fatal(lost)
	}
	if o := metric.Missed(bad[0], lost); o.Class != bisect.Wrong || o.Phase != "measure" || o.Why != fmt.Sprint("it gives no ", lost[0]) {
		t.Errorf("%+v", o)
	}
	if o := metric.Missed(good[1], lost); o.Class != bisect.OK {
		t.Errorf("%+v", o)
	}
	if o := metric.Missed(bisect.Outcome{Class: bisect.Crash}, lost); o.Class != bisect.Crash {
		t.Errorf("%+v", o)
	}
}
