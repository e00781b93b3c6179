package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/store"
)

// knowledge is what the store holds that bears on a push: of the same way to build and run, on the same devices.
type knowledge struct {
	*pushCheck
	st       *store.Store
	sessions []pastPush // newest first
}

// past is a session that went by the same rules.
type pastPush struct {
	store.Session
	compares bool // by the same metrics, too, for what is worse
	times    bool // whatever ended well was looked at for its times
}

// So many sessions, and launches of one commit, are looked at; older ones say little of the machine as it is.
const (
	recentSessions = 300
	recentLaunches = 100
)

// fromStore rules on what is known already.
func (k *pushCheck) fromStore() error {
	if len(k.open()) == 0 {
		return nil
	}
	var err error
	if k.devices, err = devicesNow(k.ctx, k.policy.GPUs); err != nil {
		return err
	}
	st, err := store.Open(stateDir(k.repo.CommonDir()), store.ReadOnly)
	if errors.Is(err, store.ErrNoStore) {
		return nil
	}
	if err != nil {
		return err
	}
	defer st.Close()
	n := knowledge{pushCheck: k, st: st}
	if err := n.read(); err != nil {
		return err
	}
	for _, x := range k.open() {
		if err := n.rule(x); err != nil {
			return err
		}
	}
	return nil
}

// devicesNow are the devices that would be measured on. A driver that does not answer is not waited for.
func devicesNow(ctx context.Context, gpus []string) ([]string, error) {
	type answer struct {
		ids []string
		err error
	}
	said := make(chan answer, 1)
	go func() {
		ids, err := gpu.Select(gpus)
		said <- answer{ids, err}
	}()
	select {
	case a := <-said:
		if errors.Is(a.err, gpu.ErrHidden) {
			a.err = nil // as for a job
		}
		return a.ids, a.err
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
	}
	return nil, errors.New("the driver of the devices does not answer")
}

// read gathers the sessions that may say something.
func (n *knowledge) read() error {
	all, err := n.st.Sessions(recentSessions)
	if err != nil {
		return err
	}
	run, compare := n.policy.runs(), n.policy.compares()
	for _, s := range all {
		var p policy
		var b baseline
		switch {
		case s.Status == importedStatus: // has no policy, but its fingerprint
			if json.Unmarshal(s.Finding, &b) == nil && b.Config.Fingerprint == sha256Hex(compare) {
				n.sessions = append(n.sessions, pastPush{s, true, false})
			}
		case json.Unmarshal(s.Config, &p) == nil && p.runs() == run:
			times := !p.Judge.Any && (p.Judge.Find == "" || p.Judge.Find == bisect.Slow)
			n.sessions = append(n.sessions, pastPush{s, p.compares() == compare && !p.Improvement, times})
		}
	}
	return nil
}

// runs is everything that decides how a launch ends, as a text to compare.
func (p *policy) runs() string {
	return asText(p.Plan, p.Limits, p.OwnScripts, p.Caches, p.Probe, p.ownPaths())
}

// compares is everything that decides what two candidates are found to differ in.
func (p *policy) compares() string {
	return asText(p.runs(), p.Judge.Metrics, p.Judge.Effect, p.Judge.Error, p.Sample, p.Patterns)
}

func asText(all ...any) string {
	data, err := json.Marshal(all)
	if err != nil {
		return err.Error() // equal to no other text: none of these types can fail
	}
	return string(data)
}

// rule answers for one ref, when the store can.
func (n *knowledge) rule(x *ruling) error {
	for _, f := range []func(*ruling) (bool, error){n.compared, n.recorded, n.launched} {
		if done, err := f(x); done || err != nil {
			return err
		}
	}
	return nil
}

// compared looks for the newest comparison, gate or search of the same two. A baseline of the commit counts as well:
// by recording one after a comparison, a person says that what was found is meant to be.
func (n *knowledge) compared(x *ruling) (bool, error) {
	for _, s := range n.sessions {
		a := s.answer()
		both := s.compares && slices.Contains([]string{comparing, gatekeeping, axisHistory}, s.Axis) && x.base != "" && n.sameInputs(s.Good, x.base)
		if a == "" || !both && s.Axis != recording || !n.sameInputs(s.Bad, x.commit) {
			continue
		}
		here, err := n.here(s)
		if err != nil {
			return false, err
		}
		if here {
			n.pushCheck.rule(x, a, s.words(), false)
			return true, nil
		}
	}
	return false, nil
}

// answer is what a session says of its two ends, "" when it says nothing that can be relied on.
func (s pastPush) answer() answer {
	var doc struct {
		Hopeless bool                    `json:"hopeless"`
		Failure  *struct{ Class string } `json:"failure"`
		B, Head  struct{ Launches int }  // of a comparison, and of a gate
	}
	if s.Axis != recording && json.Unmarshal(s.Finding, &doc) != nil {
		return ""
	}
	switch s.Status {
	case string(judge.Worse):
		if doc.Failure != nil && doc.Failure.Class != string(bisect.BuildFailed) && doc.B.Launches+doc.Head.Launches < 2 {
			return "" // one failure may have been chance: it is launched again
		}
		return blocked
	case store.Found:
		return blocked
	case string(bisect.OK), importedStatus:
		if s.Axis == recording {
			return passes
		}
	case string(judge.Better), string(judge.Alike), report.GatePass:
		if s.times { // a search for crashes finds no difference where B is slower
			return passes
		}
	case string(judge.Open):
		if doc.Hopeless || doc.Failure != nil {
			return passes // it will not get any clearer
		}
	}
	return ""
}

// words tells of a session.
func (s pastPush) words() string {
	if s.Axis == recording {
		return fmt.Sprintf("a baseline is recorded (kbisect baseline show %s)", s.ID)
	}
	text := strings.TrimPrefix(strings.TrimPrefix(s.Summary, "Pass: "), "Regression: ") // of a gate; the hook says so itself
	return fmt.Sprintf("%s (kbisect show %s)", strings.TrimSuffix(text, "."), s.ID)
}

// here reports whether a session measured commits as they are, on the devices that there are now.
func (n *knowledge) here(s pastPush) (bool, error) {
	if s.Status == importedStatus {
		var b baseline
		err := json.Unmarshal(s.Finding, &b)
		return err == nil && len(n.devices) > 0 && slices.Equal(b.Machine.uuids(), n.devices), err
	}
	launches, err := n.st.Launches(s.ID)
	if err != nil {
		return false, err
	}
	for _, l := range launches {
		if s.Axis == comparing && l.Candidate != l.Commit {
			return false, nil // with flags that the commit has not
		}
		var o bisect.Outcome
		if err := json.Unmarshal(l.Outcome, &o); err != nil {
			return false, err
		}
		if o.Class == bisect.OK { // a build that fails has seen no device
			return slices.Equal(uuidsOf(o), n.devices), nil
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

// recorded looks for a search for a slowdown that found the commit good, or somebody's word that it is.
func (n *knowledge) recorded(x *ruling) (bool, error) {
	goods, err := n.st.Goods()
	if err != nil {
		return false, err
	}
	for _, g := range goods {
		i := slices.IndexFunc(n.sessions, func(s pastPush) bool { return s.ID == g.Session })
		if i < 0 || !n.sessions[i].vouches() || !n.sameInputs(g.Commit, x.commit) {
			continue
		}
		if here, err := n.here(n.sessions[i]); err != nil {
			return false, err
		} else if here {
			n.pushCheck.rule(x, passes, fmt.Sprintf("recorded as good: %s (kbisect show %s)", g.Detail, g.Session), false)
			return true, nil
		}
	}
	return false, nil
}

// vouches reports that what a session found good is not slow: what a search for crashes calls good may be.
func (s pastPush) vouches() bool {
	if s.Axis == recording {
		return true
	}
	var doc struct {
		Complaint *struct{ Class bisect.Class }
	}
	return s.compares && json.Unmarshal(s.Finding, &doc) == nil && doc.Complaint != nil && doc.Complaint.Class == bisect.Slow
}
