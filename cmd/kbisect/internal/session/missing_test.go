package session

import (
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
)

// sent is a launch of this class that reports a value of each case.
func sent(purpose bisect.Purpose, class bisect.Class, cases ...string) report.Launch {
	o := bisect.Outcome{Class: class}
	for _, c := range cases {
		o.Series = append(o.Series, bisect.Series{Metric: "time", Case: c, Unit: "us", Values: []float64{3}})
	}
	return report.Launch{Purpose: purpose, Outcome: o}
}

// A number is gone if A reported it and no successful launch of B did.
func TestGone(t *testing.T) {
	a := sent(bisect.EndGood, bisect.OK, "1", "2", "3")
	for name, x := range map[string]struct {
		metric   string
		launches []report.Launch
		want     []string
	}{
		"one case":              {"time", []report.Launch{a, sent(bisect.EndBad, bisect.OK, "1", "3")}, []string{"time of 2"}},
		"in one launch of two":  {"time", []report.Launch{a, sent(bisect.EndBad, bisect.OK, "1", "2"), sent(bisect.EndBad, bisect.OK, "2", "3")}, nil},
		"another metric":        {"rate", []report.Launch{a, sent(bisect.EndBad, bisect.OK)}, nil},
		"of the process":        {"wall", []report.Launch{a, sent(bisect.EndBad, bisect.OK)}, nil},
		"B gives more":          {"time", []report.Launch{a, sent(bisect.EndBad, bisect.OK, "1", "2", "3", "4")}, nil},
		"B never ends well":     {"time", []report.Launch{a, sent(bisect.EndBad, bisect.Crash, "1")}, nil},
		"B gave it and crashed": {"time", []report.Launch{a, sent(bisect.EndBad, bisect.OK, "1", "2"), sent(bisect.EndBad, bisect.Crash, "3")}, []string{"time of 3"}},
	} {
		s := &Session{Policy: &policy.Policy{}, Launches: x.launches}
		s.Policy.Judge.Metrics = []metric.Metric{{Name: x.metric}}
		if got := gone(s); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	for want, names := range map[string][]string{
		"": nil, " B does not report a, which A does: no verdict on that.": {"a"}, " B does not report a, b, c and 2 more, which": {"a", "b", "c", "d", "e"},
	} {
		if got := goneWords(names); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%q: %q", names, got)
		}
	}
}
