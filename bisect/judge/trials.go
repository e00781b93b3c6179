package judge

import (
	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// trial is one launch with what it showed.
type trial struct {
	bisect.Request
	bisect.Outcome
}

// trialLog is the launches that a judge has made, in order. Its methods read them against a complaint.
type trialLog []trial

// pauseSeconds is what any launch costs beside its run.
const pauseSeconds = 1.0

// runs counts the launches of a commit for a purpose; "" is any.
func (l trialLog) runs(r reading, id string, why bisect.Purpose) (t belief.Tally) {
	for _, x := range l {
		if x.Candidate.Commit == id && (why == "" || x.Purpose == why) {
			t = t.Plus(r.shows(x.Outcome))
		}
	}
	return t
}

// others counts the launches of a commit that failed in another way; 0 where one could not be tested at all.
func (l trialLog) others(r reading, id string) int {
	n := 0
	for _, t := range l {
		switch {
		case t.Candidate.Commit != id:
		case untestable(t.Outcome):
			return 0
		case r.verdict(t.Outcome, 1).Other:
			n++
		}
	}
	return n
}

// lastFailure is the last launch of a commit that showed the complaint.
func (l trialLog) lastFailure(r reading, id string) (o bisect.Outcome) {
	for _, t := range l {
		if t.Candidate.Commit == id && r.shows(t.Outcome).Fails > 0 {
			o = t.Outcome
		}
	}
	return o
}

// alwaysEarly reports a commit that was stopped early every time it was launched: it may be slow and pass.
func (l trialLog) alwaysEarly() bool {
	const often = 3
	early, other := map[string]int{}, map[string]bool{}
	for _, t := range l {
		if t.Early {
			early[t.Candidate.Commit]++
		} else {
			other[t.Candidate.Commit] = true
		}
	}
	for commit, n := range early {
		if n >= often && !other[commit] {
			return true
		}
	}
	return false
}

// prices are the expected seconds of a launch that passes, of one that fails, and of a build.
func (l trialLog) prices(r reading, patient bool) (pass, fail, build float64) {
	var n, soon belief.Tally
	var failSoon float64
	builds := 0
	for _, t := range l {
		s := r.shows(t.Outcome)
		n = n.Plus(s)
		switch {
		case s.Passes > 0:
			pass += t.Wall
		case s.Fails > 0:
			fail += t.Wall
			if t.Hurry != "" {
				soon.Fails++
				failSoon += t.Wall
			}
		}
		if t.Built {
			build, builds = build+t.Build, builds+1
		}
	}
	pass = pauseSeconds + pass/float64(max(1, n.Passes))
	fail = pauseSeconds + fail/float64(max(1, n.Fails))
	switch {
	case soon.Fails > 0 && !patient:
		fail = pauseSeconds + failSoon/float64(soon.Fails)
	case r.hurry() != "" && !patient:
		fail = min(fail, 2*pass)
	}
	return pass, fail, build / float64(max(1, builds))
}

// ratio is what a failing launch of the search cost so far in units of one that passes, builds
// included; 0 before both were seen.
func (l trialLog) ratio(r reading) float64 {
	var n belief.Tally
	var fails, passes, build float64
	for _, t := range l {
		if t.Purpose != bisect.Searching {
			continue
		}
		build += t.Build
		switch s := r.shows(t.Outcome); {
		case s.Fails > 0:
			fails += t.Wall
		case s.Passes > 0:
			passes += t.Wall
		}
		n = n.Plus(r.shows(t.Outcome))
	}
	if n.Fails == 0 || n.Passes == 0 {
		return 0
	}
	build /= float64(n.Launches())
	return (fails/float64(n.Fails) + build) / (passes/float64(n.Passes) + build + 1e-9)
}
