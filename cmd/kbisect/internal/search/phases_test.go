package search

import (
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
)

// A slip in the name of a phase is told, a phase that this program has not is not.
func TestStrangePhases(t *testing.T) {
	ended := bisect.Outcome{Class: bisect.OK, Phases: []bisect.PhaseTime{{Name: "load"}, {Name: "warmup"}, {Name: "measure"}}}
	killed := bisect.Outcome{Class: bisect.Timeout, Phase: "load", Phases: []bisect.PhaseTime{{Name: "load"}}}
	limits := map[string]kernels.Limit{"warmpu": {}, "capture": {}, "import": {}, "load": {}}
	for _, c := range []struct {
		phase    string
		outcomes []bisect.Outcome
		want     []string
	}{
		{"warmup", []bisect.Outcome{ended}, []string{"[run.limits] warmpu bounds nothing: no launch has entered that phase\nhint: is warmup meant?"}},
		{"lod", []bisect.Outcome{killed, ended}, []string{
			`--phase lod: no launch has entered that phase; did you mean "load"?; they entered load, measure, warmup`,
			"[run.limits] warmpu bounds nothing: no launch has entered that phase\nhint: is warmup meant?",
		}},
		{"lod", []bisect.Outcome{killed}, nil},
		{"", nil, nil},
	} {
		if got := strangePhases(c.phase, limits, c.outcomes); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", c.phase, got)
		}
	}
}
