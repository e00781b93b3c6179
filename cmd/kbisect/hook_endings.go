package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
)

// launched goes by how the launches of both ended, in whatever session. That they ended well says nothing of
// their times: it only tells how long a comparison takes.
func (n *knowledge) launched(x *ruling) (bool, error) {
	b, err := n.tally(x.commit)
	if err != nil || b.launches == 0 {
		return false, err
	}
	a := endings{}
	if x.base != "" {
		if a, err = n.tally(x.base); err != nil {
			return false, err
		}
	}
	switch {
	case b.failed == 0 && x.base == "":
		n.pushCheck.rule(x, passes, fmt.Sprintf("%d launches before, all ended well, and there is nothing to compare with", b.launches), false)
	case b.failed == 0:
		x.least = judge.MinPairs * (a.shortest + b.shortest)
		return false, nil
	case !b.lost():
		return false, nil
	case a.lost():
		n.pushCheck.rule(x, passes, fmt.Sprintf("it fails in each of %d launches (%s), and so does what it is set against", b.launches, b.how), false)
	case a.launches > 0 && a.failed == 0:
		n.pushCheck.rule(x, blocked, fmt.Sprintf("it failed in each of %d launches, what it is set against in none of %d: %s (kbisect show %s)", b.launches, a.launches, b.how, b.session), false)
	default:
		return false, nil
	}
	return true, nil
}

// endings counts how the launches of a commit ended.
type endings struct {
	launches, failed int
	shortest         time.Duration // of those that ended well; 0 when none did
	unbuilt          bool
	how, session     string // of the newest failure
}

// lost reports a commit that fails whenever it is launched.
func (t endings) lost() bool {
	return t.failed > 0 && t.failed == t.launches && (t.failed >= 2 || t.unbuilt)
}

// tally looks up what is to build and run as this commit is.
func (n *knowledge) tally(commit string) (t endings, err error) {
	same := []string{commit}
	for _, s := range n.sessions {
		for _, end := range []string{s.Good, s.Bad} {
			if !slices.Contains(same, end) && n.sameInputs(end, commit) {
				same = append(same, end)
			}
		}
	}
	launches, err := n.st.LaunchesOf(recentLaunches, same...)
	if err != nil {
		return t, err
	}
	for _, l := range launches {
		var o bisect.Outcome
		known := slices.ContainsFunc(n.sessions, func(s pastPush) bool { return s.ID == l.Session })
		if err := json.Unmarshal(l.Outcome, &o); err != nil {
			return t, err
		}
		unbuilt := o.Class == bisect.BuildFailed
		if !known || l.Candidate != l.Commit || o.Early || o.Class == bisect.Skip || o.Class == bisect.Infra || !unbuilt && !slices.Equal(uuidsOf(o), n.devices) {
			continue
		}
		t.launches++
		if o.Class == bisect.OK && (t.shortest == 0 || l.Wall < t.shortest) {
			t.shortest = l.Wall
		}
		if o.Class != bisect.OK {
			t.failed++
			t.unbuilt = t.unbuilt || unbuilt
			if t.how == "" {
				t.how, t.session = o.Describe(), l.Session
			}
		}
	}
	return t, nil
}
