package hook

import (
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/gate"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/store"
)

// TestPastAnswer goes by what a session came to.
func TestPastAnswer(t *testing.T) {
	for _, x := range []struct {
		axis, status, finding string
		times                 bool
		want                  Answer
	}{
		{session.Comparing, "regression", `{}`, true, Regression},
		{session.Comparing, "regression", `{"failure": {"class": "crash"}, "b": {"launches": 1}}`, true, ""},
		{session.Comparing, "regression", `{"failure": {"class": "crash"}, "b": {"launches": 2}}`, true, Regression},
		{session.Comparing, "regression", `{"failure": {"class": "build-failed"}, "b": {"launches": 1}}`, true, Regression},
		{session.Comparing, "improvement", `{}`, true, Passes},
		{session.Comparing, "no-difference", `{}`, true, Passes},
		{session.Comparing, "cannot-tell", `{"budget_used_up": true}`, true, ""},
		{session.Comparing, "cannot-tell", `{}`, true, ""}, // after as few pairs as --pairs asks for
		{session.Comparing, "cannot-tell", `{"hopeless": true}`, true, Passes},
		{session.Comparing, "cannot-tell", `{"failure": {"class": "crash"}}`, true, Passes},
		{session.Comparing, store.Interrupted, `{}`, true, ""},
		{gate.Kind, "pass", `{"head": {"launches": 8}}`, true, Passes},
		{gate.Kind, "improvement", `{}`, true, Passes},
		{gate.Kind, "regression", `{"head": {"launches": 8}}`, true, Regression},
		{gate.Kind, "regression", `{"failure": {"class": "crash"}, "head": {"launches": 1}}`, true, ""},
		{gate.Kind, "regression", `{"failure": {"class": "crash"}, "head": {"launches": 2}}`, true, Regression},
		{gate.Kind, "cannot-tell", `{}`, true, ""},
		{policy.AxisHistory, store.Found, `{}`, false, Regression},
		{policy.AxisHistory, "no-difference", `{}`, true, Passes},
		{policy.AxisHistory, "no-difference", `{}`, false, ""},
		{baseline.Kind, "ok", `{}`, false, Passes},
		{session.Comparing, "regression", `{`, true, ""},
	} {
		s := PastSession{Session: store.Session{Axis: x.axis, Status: x.status, Finding: []byte(x.finding)}, Compares: true, Times: x.times}
		if got := s.Answer(); got != x.want {
			t.Errorf("%+v: %q", x, got)
		}
	}
}
