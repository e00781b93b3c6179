package search

import (
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/kernels"
)

// A culprit with the device code of its parent gets a warning, unless the code is unknown.
func TestCulpritWithUnchangedCode(t *testing.T) {
	launch := func(commit string, a *bisect.Artefact) report.Launch {
		return report.Launch{Candidate: bisect.Candidate{Commit: commit}, Outcome: bisect.Outcome{Artefact: a}}
	}
	for _, c := range []struct {
		own, parent *bisect.Artefact
		want        string
	}{
		{&bisect.Artefact{Device: "d", Host: "h"}, &bisect.Artefact{Device: "d", Host: "g"}, "the culprit c and its parent p have the same device code"},
		{&bisect.Artefact{Device: "d", Host: "h"}, &bisect.Artefact{Device: "d", Host: "h"}, "the culprit c and its parent p build to the same code"},
		{&bisect.Artefact{Device: "d", Host: "h"}, &bisect.Artefact{Device: "e", Host: "h"}, ""},
		{&bisect.Artefact{Host: "h"}, &bisect.Artefact{Host: "g"}, ""}, // no device code at all
		{nil, &bisect.Artefact{Device: "d", Host: "h"}, ""},
	} {
		launches := []report.Launch{launch("x", nil), launch("c", c.own), launch("p", c.parent)}
		got := strings.Join(unchangedCode(launches, []bisect.Culprit{{Commit: "c", Parents: []string{"p"}}}), "\n")
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v and %+v: %q", c.own, c.parent, got)
		}
	}
}

// A misspelt phase gets a warning, a phase that this program does not have gets none.
func TestUnknownPhases(t *testing.T) {
	ended := report.Launch{Outcome: bisect.Outcome{Class: bisect.OK, Phases: []bisect.PhaseTime{{Name: "load"}, {Name: "warmup"}, {Name: "measure"}}}}
	killed := report.Launch{Outcome: bisect.Outcome{Class: bisect.Timeout, Phase: "load", Phases: []bisect.PhaseTime{{Name: "load"}}}}
	limits := map[string]kernels.Limit{"warmpu": {}, "capture": {}, "import": {}, "load": {}}
	for _, c := range []struct {
		phase    string
		launches []report.Launch
		want     []string
	}{
		{"warmup", []report.Launch{ended}, []string{"[run.limits] warmpu has no effect: no launch entered this phase\nhint: did you mean warmup?"}},
		{"lod", []report.Launch{killed, ended}, []string{
			`--phase lod: no launch entered this phase; did you mean "load"?; phases seen: load, measure, warmup`,
			"[run.limits] warmpu has no effect: no launch entered this phase\nhint: did you mean warmup?",
		}},
		{"lod", []report.Launch{killed}, nil},
		{"", nil, nil},
	} {
		if got := unknownPhases(c.phase, limits, c.launches); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", c.phase, got)
		}
	}
}
