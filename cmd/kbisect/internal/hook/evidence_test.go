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
		want                  answer
	}{
		{session.Comparing, "regression", `{}`, true, regression},
		{session.Comparing, "regression", `{"failure": {"class": "crash"}, "b": {"launches": 1}}`, true, ""},
		{session.Comparing, "regression", `{"failure": {"class": "crash"}, "b": {"launches": 2}}`, true, regression},
		{session.Comparing, "regression", `{"failure": {"class": "build-failed"}, "b": {"launches": 1}}`, true, regression},
		{session.Comparing, "improvement", `{}`, true, passes},
		{session.Comparing, "no-difference", `{}`, true, passes},
		{session.Comparing, "cannot-tell", `{"budget_used_up": true}`, true, ""},
		{session.Comparing, "cannot-tell", `{}`, true, ""}, // after as few pairs as --pairs asks for
		{session.Comparing, "cannot-tell", `{"hopeless": true}`, true, passes},
		{session.Comparing, "cannot-tell", `{"failure": {"class": "crash"}}`, true, passes},
		{session.Comparing, store.Interrupted, `{}`, true, ""},
		{gate.Kind, "pass", `{"head": {"launches": 8}}`, true, passes},
		{gate.Kind, "improvement", `{}`, true, passes},
		{gate.Kind, "regression", `{"head": {"launches": 8}}`, true, regression},
		{gate.Kind, "regression", `{"failure": {"class": "crash"}, "head": {"launches": 1}}`, true, ""},
		{gate.Kind, "regression", `{"failure": {"class": "crash"}, "head": {"launches": 2}}`, true, regression},
		{gate.Kind, "cannot-tell", `{}`, true, ""},
		{policy.AxisHistory, store.Found, `{}`, false, regression},
		{policy.AxisHistory, "no-difference", `{}`, true, passes},
		{policy.AxisHistory, "no-difference", `{}`, false, ""},
		{baseline.Kind, "ok", `{}`, false, passes},
		{session.Measuring, "ok", `{}`, true, passes},
		{session.Measuring, "timeout", `{}`, true, ""},
		{session.Comparing, "regression", `{`, true, ""},
	} {
		s := pastSession{Session: store.Session{Axis: x.axis, Status: x.status, Finding: []byte(x.finding)}, compares: true, times: x.times}
		if got := s.answer(); got != x.want {
			t.Errorf("%+v: %q", x, got)
		}
	}
}

// TestPastSummary: the hook's answer already says whether a gate passed, so only the reason follows it.
func TestPastSummary(t *testing.T) {
	for _, x := range []struct{ axis, status, summary, finding, want string }{
		{gate.Kind, "improvement", "Improvement: time -20.0 %.", `{"reason": "time -20.0 %"}`, "Improvement: time -20.0 % (kbisect show 7)"},
		{gate.Kind, "pass", "Pass: equal inputs; nothing was launched.", `{"reason": "equal inputs; nothing was launched"}`, "equal inputs; nothing was launched (kbisect show 7)"},
		{gate.Kind, "regression", "Regression: HEAD fails: wrong in check: exit 7.", `{"reason": "HEAD fails: wrong in check: exit 7"}`, "HEAD fails: wrong in check: exit 7 (kbisect show 7)"},
		{gate.Kind, "pass", "Pass.", `{"reason": null}`, "Pass (kbisect show 7)"},
		{session.Comparing, "regression", "B is slower.", `{"headline": null}`, "B is slower (kbisect show 7)"},
		{baseline.Kind, "ok", "", "", "a baseline is recorded (kbisect baseline show 7)"},
	} {
		s := pastSession{Session: store.Session{ID: "7", Axis: x.axis, Status: x.status, Summary: x.summary, Finding: []byte(x.finding)}}
		if got := s.summary(); got != x.want {
			t.Errorf("%s %s: %q, want %q", x.axis, x.summary, got, x.want)
		}
	}
}
