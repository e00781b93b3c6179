package search

import (
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
)

// A culprit whose device code is its parent's is a suspect; nothing is said where the code is not known.
func TestDoubtfulCulprits(t *testing.T) {
	launch := func(commit string, a *bisect.Artefact) report.Launch {
		return report.Launch{Candidate: bisect.Candidate{Commit: commit}, Outcome: bisect.Outcome{Artefact: a}}
	}
	for _, c := range []struct {
		own, parent *bisect.Artefact
		want        string
	}{
		{&bisect.Artefact{Device: "d", Host: "h"}, &bisect.Artefact{Device: "d", Host: "g"}, "suspect: the device code of the culprit c equals that of its parent p"},
		{&bisect.Artefact{Device: "d", Host: "h"}, &bisect.Artefact{Device: "d", Host: "h"}, "what was built of the culprit c equals"},
		{&bisect.Artefact{Device: "d", Host: "h"}, &bisect.Artefact{Device: "e", Host: "h"}, ""},
		{&bisect.Artefact{Host: "h"}, &bisect.Artefact{Host: "g"}, ""}, // no device code at all
		{nil, &bisect.Artefact{Device: "d", Host: "h"}, ""},
	} {
		j := &session.Session{Launches: []report.Launch{launch("x", nil), launch("c", c.own), launch("p", c.parent)}}
		got := strings.Join(Of(j).doubtfulCulprits(bisect.Finding{Culprits: []bisect.Culprit{{Commit: "c", Parents: []string{"p"}}}}), "\n")
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v and %+v: %q", c.own, c.parent, got)
		}
	}
}
