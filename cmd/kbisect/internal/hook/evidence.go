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
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// pushEvidence is what the store says about commits, by sessions that built and ran them as a push would, on the same
// devices.
type pushEvidence struct {
	store    *store.Store
	inputs   inputs
	devices  []string
	sessions []pastSession // newest first
}

// pastSession is a session that ran candidates by the same commands and limits.
type pastSession struct {
	store.Session
	compares bool // by the same metrics, too, for what is worse
	times    bool // it also judged the times of launches that end well
}

// Older sessions, and older launches of a commit, say little about the machine as it is.
const (
	recentSessions = 300
	recentLaunches = 100
)

// openEvidence reads the sessions that may say something about a push; those by other commands, limits or devices
// say nothing. It is nil where there is no store; the caller closes the store.
func openEvidence(repo *source.Repo, p *policy.Policy, devices []string) (*pushEvidence, error) {
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadOnly)
	if errors.Is(err, store.ErrNoStore) {
		return nil, nil
	}
	if err != nil {
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

// pastOf reads a session of the store; ok is false where it ran candidates in another way. An imported baseline has
// no policy; it has the fingerprint of one.
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

// devicesNow are the UUIDs of the devices that would be measured on. A driver that does not answer is left to its
// goroutine: NVML cannot be interrupted.
func devicesNow(ctx context.Context, gpus []string) ([]string, error) {
	type answer struct {
		ids []string
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		ids, err := gpu.Select(gpus)
		answered <- answer{ids, err}
	}()
	select {
	case a := <-answered:
		if errors.Is(a.err, gpu.ErrHidden) {
			a.err = nil // as for a job
		}
		return a.ids, a.err
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
	}
	return nil, errors.New("the driver of the devices does not answer")
}

// decide answers for a commit and what it is compared with; base is "" where that is nothing. The first source
// that says something wins: what compared the two, what recorded the commit as good, how launches ended.
func (e *pushEvidence) decide(base, commit string) (decision, error) {
	for _, ask := range []func(base, commit string) (decision, error){e.compared, e.recorded, e.launched} {
		if d, err := ask(base, commit); d != (decision{}) || err != nil {
			return d, err
		}
	}
	return decision{}, nil
}

// compared looks for the newest comparison, gate or search of the same two; repeating a command overrules an older
// result. A baseline of the commit counts as well: by recording one after a comparison, a person accepts what was
// found.
func (e *pushEvidence) compared(base, commit string) (decision, error) {
	for _, s := range e.sessions {
		a := s.answer()
		both := s.compares && slices.Contains([]string{session.Comparing, gate.Kind, policy.AxisHistory}, s.Axis) && base != "" && e.inputs.equal(s.Good, base)
		if a == "" || !both && s.Axis != baseline.Kind || !e.inputs.equal(s.Bad, commit) {
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

// answer is what a session says about its two ends, "" when it says nothing reliable: it was interrupted, its budget
// was used up, or it looked for something else. Every command writes its finding differently; the fields read here are
// those of the contract.
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
		if s.Axis == baseline.Kind {
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

// summary is the result of a session, with the command that shows it.
func (s pastSession) summary() string {
	if s.Axis == baseline.Kind {
		return fmt.Sprintf("a baseline is recorded (kbisect baseline show %s)", s.ID)
	}
	return fmt.Sprintf("%s (kbisect show %s)", strings.TrimSuffix(cmp.Or(s.gateReason(), s.Summary), "."), s.ID)
}

// gateReason is what a gate's pass or regression rests on, "" for other sessions. Its whole sentence would repeat
// the word with which the hook answers.
func (s pastSession) gateReason() string {
	if s.Status != report.GatePass && s.Status != report.GateRegression {
		return ""
	}
	doc, err := report.Read(s.Finding, s.ID)
	g, ok := doc.(*report.Gate)
	if err != nil || !ok {
		return ""
	}
	failure := ""
	if f := g.Failure; f != nil {
		failure = "HEAD fails: " + bisect.Outcome{Class: f.Class, Phase: report.Text(f.Phase), Why: f.Why}.Describe()
	}
	return g.Reason(failure)
}

// here reports whether a session measured commits as they are, on the devices of this machine. Times of one
// device say nothing about another, and flags make a commit another program.
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

// recorded looks for a search for a slowdown that found the commit good, or a person who recorded that it is.
func (e *pushEvidence) recorded(_, commit string) (decision, error) {
	goods, err := e.store.Goods()
	if err != nil {
		return decision{}, err
	}
	for _, g := range goods {
		i := slices.IndexFunc(e.sessions, func(s pastSession) bool { return s.ID == g.Session })
		if i < 0 || !e.sessions[i].vouches() || !e.inputs.equal(g.Commit, commit) {
			continue
		}
		if here, err := e.here(e.sessions[i]); err != nil {
			return decision{}, err
		} else if here {
			return decision{answer: passes, why: fmt.Sprintf("recorded as good: %s (kbisect show %s)", g.Detail, g.Session)}, nil
		}
	}
	return decision{}, nil
}

// vouches reports that a commit which a session found good is not slow. A search for crashes does not know.
func (s pastSession) vouches() bool {
	if s.Axis == baseline.Kind {
		return true
	}
	var doc struct {
		Complaint *struct{ Class bisect.Class }
	}
	return s.compares && json.Unmarshal(s.Finding, &doc) == nil && doc.Complaint != nil && doc.Complaint.Class == bisect.Slow
}

// launched looks at how the launches of both ended, in whatever session. Launches that ended well say nothing about
// times; they only show how long a comparison takes.
func (e *pushEvidence) launched(base, commit string) (decision, error) {
	b, err := e.launchesOf(commit)
	if err != nil || b.launches == 0 {
		return decision{}, err
	}
	var a endings
	if base != "" {
		if a, err = e.launchesOf(base); err != nil {
			return decision{}, err
		}
	}
	switch {
	case b.failed == 0 && base == "":
		return decision{answer: passes, why: fmt.Sprintf("all %d earlier launches ended well, and there is no base to compare with", b.launches)}, nil
	case b.failed == 0:
		return decision{least: compare.MinPairs * (a.shortest + b.shortest)}, nil
	case b.alwaysFails() && a.alwaysFails():
		return decision{answer: passes, why: fmt.Sprintf("A and B both fail in every launch (B in %d: %s)", b.launches, b.how)}, nil
	case b.alwaysFails() && a.launches > 0 && a.failed == 0:
		return decision{answer: regression, why: fmt.Sprintf("B fails in %d of %[1]d launches, A in 0 of %d: %s (kbisect show %s)", b.launches, a.launches, b.how, b.session)}, nil
	}
	return decision{}, nil
}

// endings counts how the launches of a commit ended.
type endings struct {
	launches, failed int
	shortest         time.Duration // of those that ended well; 0 when none did
	unbuilt          bool          // one did not build
	how, session     string        // of the newest failure
}

// alwaysFails reports that every launch failed, often enough that it was not chance. A build fails without chance.
func (t endings) alwaysFails() bool {
	return t.failed > 0 && t.failed == t.launches && (t.failed >= 2 || t.unbuilt)
}

// launchesOf counts the launches of every commit with the same inputs.
func (e *pushEvidence) launchesOf(commit string) (t endings, err error) {
	same := []string{commit}
	known := map[string]bool{}
	for _, s := range e.sessions {
		known[s.ID] = true
		for _, end := range []string{s.Good, s.Bad} {
			if !slices.Contains(same, end) && e.inputs.equal(end, commit) {
				same = append(same, end)
			}
		}
	}
	launches, err := e.store.LaunchesOf(recentLaunches, same...)
	if err != nil {
		return t, err
	}
	for _, l := range launches {
		var o bisect.Outcome
		if err := json.Unmarshal(l.Outcome, &o); err != nil {
			return t, err
		}
		unbuilt := o.Class == bisect.BuildFailed // and has seen no device
		if known[l.Session] && l.Candidate == l.Commit && (unbuilt || slices.Equal(uuidsOf(o), e.devices)) {
			t.add(l, o)
		}
	}
	return t, nil
}

// add counts one launch. One that was skipped or stopped early, or that the machine failed, does not count. Launches
// come newest first, so that the first failure is the newest.
func (t *endings) add(l store.Launch, o bisect.Outcome) {
	switch {
	case o.Early || o.Class == bisect.Skip || o.Class == bisect.Infra:
		return
	case o.Class == bisect.OK:
		if t.shortest == 0 || l.Wall < t.shortest {
			t.shortest = l.Wall
		}
	default:
		t.failed++
		t.unbuilt = t.unbuilt || o.Class == bisect.BuildFailed
		if t.how == "" {
			t.how, t.session = o.Describe(), l.Session
		}
	}
	t.launches++
}
