package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/gate"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// pushEvidence is what the store says about commits, from sessions that built and ran them as the push would, on
// the same devices.
type pushEvidence struct {
	store    *store.Store
	inputs   inputs
	devices  []string      // UUIDs, in order
	sessions []pastSession // newest first
}

// pastSession is a session that ran candidates by the same commands and limits.
type pastSession struct {
	store.Session
	compares bool // it also used the same metrics and directions, so that its comparisons count
	times    bool // it judged the times of launches that end well, and not only failures
}

// recentSessions is how many sessions are read. Older ones say little about the machine as it is now.
const recentSessions = 300

// openEvidence reads the sessions that may say something about a push; those with other commands, limits or devices
// say nothing. It is nil without an error if there is no store. The caller closes the store.
func openEvidence(repo *source.Repo, p *policy.Policy, devices []string) (*pushEvidence, error) {
	st, err := session.StoreOf(repo)
	if st == nil || err != nil {
		return nil, err
	}
	all, err := st.Sessions(recentSessions)
	if err != nil {
		st.Close()
		return nil, err
	}
	e := &pushEvidence{store: st, inputs: inputs{repo, p.Paths}, devices: devices}
	runs, compares := p.Runs(), p.Compares()
	for _, s := range all {
		if past, ok := pastOf(s, runs, compares); ok {
			e.sessions = append(e.sessions, past)
		}
	}
	return e, nil
}

// pastOf reads a session of the store; ok is false if it ran candidates in another way. An imported baseline has no
// policy, only the fingerprint of one.
func pastOf(s store.Session, runs, compares string) (past pastSession, ok bool) {
	if s.Status == baseline.ImportedStatus {
		var b baseline.Baseline
		return pastSession{s, true, false}, json.Unmarshal(s.Finding, &b) == nil && b.Config.Fingerprint == baseline.Fingerprint(compares)
	}
	var p policy.Policy
	if json.Unmarshal(s.Config, &p) != nil || p.Runs() != runs {
		return past, false
	}
	times := !p.Judge.Any && (p.Judge.Find == "" || p.Judge.Find == bisect.Slow)
	return pastSession{s, p.Compares() == compares && !p.Improvement, times}, true
}

// devicesNow are the UUIDs of the devices that would be measured on. It waits at most five seconds for the driver.
func devicesNow(ctx context.Context, gpus []string) ([]string, error) {
	type selection struct {
		ids []string
		err error
	}
	s, ok := machine.Within(ctx, 5*time.Second, func() (s selection) {
		s.ids, s.err = gpu.Select(gpus)
		return s
	})
	switch {
	case !ok:
		return nil, errors.New("the driver of the devices does not answer")
	case errors.Is(s.err, gpu.ErrHidden):
		return nil, nil // no visible device: none is measured on
	}
	return s.ids, s.err
}

// decide answers for a commit and its base, "" if there is none. The newest comparison, gate or search of the two
// decides, so that repeating a command overrules an older result. A baseline of the commit counts too: by recording
// one after a comparison, a person accepts what was found. Without a base a measurement that ended well is enough.
func (e *pushEvidence) decide(base, commit string) (decision, error) {
	for _, s := range e.sessions {
		a := s.answer()
		both := s.compares && slices.Contains([]string{session.Comparing, gate.Kind, policy.AxisHistory}, s.Axis) && base != "" && e.inputs.equal(s.Good, base)
		alone := s.Axis == baseline.Kind || s.Axis == session.Measuring && base == ""
		if a == "" || !both && !alone || !e.inputs.equal(s.Bad, commit) {
			continue
		}
		here, err := e.here(s)
		if err != nil {
			return decision{}, err
		}
		if here {
			return decision{answer: a, why: s.summary()}, nil
		}
	}
	return decision{}, nil
}

// answer is what a session says about its two ends; "" if it says nothing reliable, because it was interrupted, ran
// out of budget, or looked for something else. The commands write different findings; the fields read here are
// those that the documents have in common.
func (s pastSession) answer() answer {
	var doc struct {
		Hopeless bool                    `json:"hopeless"`
		Failure  *struct{ Class string } `json:"failure"`
		B, Head  struct{ Launches int }  // of a comparison, and of a gate
	}
	if s.Axis != baseline.Kind && json.Unmarshal(s.Finding, &doc) != nil {
		return ""
	}
	switch s.Status {
	case string(compare.Worse):
		if doc.Failure != nil && doc.Failure.Class != string(bisect.BuildFailed) && doc.B.Launches+doc.Head.Launches < 2 {
			return "" // one failure may have been chance: launch again
		}
		return regression
	case store.Found:
		return regression
	case string(bisect.OK), baseline.ImportedStatus:
		if s.Axis == baseline.Kind || s.Axis == session.Measuring {
			return passes
		}
	case string(compare.Better), string(compare.Alike), report.GatePass:
		if s.times { // a search for crashes finds no difference in B where it is slower
			return passes
		}
	case string(compare.Open):
		if doc.Hopeless || doc.Failure != nil {
			return passes // more launches would not help
		}
	}
	return ""
}

// summary is the result of a session with the command that shows it.
func (s pastSession) summary() string {
	if s.Axis == baseline.Kind {
		return fmt.Sprintf("a baseline is recorded (kbisect baseline show %s)", s.ID)
	}
	why := strings.TrimSuffix(s.Summary, ".")
	// The hook's own answer already says whether a gate passed, but not that something improved.
	if s.Axis == gate.Kind && s.Status != report.GateImprovement {
		var doc struct {
			Reason string `json:"reason"`
		}
		if json.Unmarshal(s.Finding, &doc) == nil {
			why = cmp.Or(doc.Reason, why)
		}
	}
	return fmt.Sprintf("%s (kbisect show %s)", why, s.ID)
}

// here reports whether a session measured commits without flags, on the devices of this machine. Times of one
// device say nothing about another, and flags make another program of a commit.
func (e *pushEvidence) here(s pastSession) (bool, error) {
	if s.Status == baseline.ImportedStatus {
		var b baseline.Baseline
		err := json.Unmarshal(s.Finding, &b)
		return err == nil && len(e.devices) > 0 && slices.Equal(b.Machine.UUIDs(), e.devices), err
	}
	launches, err := e.store.Launches(s.ID)
	if err != nil {
		return false, err
	}
	for _, l := range launches {
		if s.Axis == session.Comparing && l.Candidate != l.Commit {
			return false, nil // with flags that the commit does not set
		}
		var o bisect.Outcome
		if err := json.Unmarshal(l.Outcome, &o); err != nil {
			return false, err
		}
		if o.Class == bisect.OK { // a build that fails has seen no device
			return slices.Equal(uuidsOf(o), e.devices), nil
		}
	}
	return len(launches) > 0, nil
}

// uuidsOf names the devices of a launch.
func uuidsOf(o bisect.Outcome) (out []string) {
	for _, d := range o.Devices {
		out = append(out, d.UUID)
	}
	return out
}
