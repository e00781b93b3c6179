package search

import (
	"context"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// Trial is one launch with what it showed.
type Trial struct {
	bisect.Request
	bisect.Outcome

	void bool // contradicted since: it counts for no belief any more
}

type launchKey struct {
	commit  string
	purpose bisect.Purpose
}

// ledger makes the launches of a search and keeps them. The runs for parts of a range share one, so that no two
// trials have the same name and none is made twice.
type ledger struct {
	s        *Search
	made     []Trial // in order
	known    map[bisect.TrialID]int
	count    map[launchKey]int
	launched map[string]bool // by commit
	launches int             // asked for, the ends' among them
	patient  bool            // no trial is stopped before its limit any more
	around   belief.DeviceLog
	first    float64 // when the first launch began, and the last one ended; seconds since the job began
	end      float64
}

func newLedger(s *Search) *ledger {
	l := &ledger{s: s, known: map[bisect.TrialID]int{}, count: map[launchKey]int{}, launched: map[string]bool{}}
	for _, t := range s.Looked {
		l.keep(t)
	}
	return l
}

// launch makes the next trial of a candidate for a purpose, in the way that a question wants it.
func (l *ledger) launch(ctx context.Context, q question, commit string, why bisect.Purpose) (Trial, error) {
	k := launchKey{commit, why}
	r := bisect.Request{Candidate: bisect.Candidate{Commit: commit}, Purpose: why, Nth: l.count[k], BuildOnly: l.s.Builds}
	r.Clean = !l.s.Fast && (why == bisect.ConfirmCulprit || why == bisect.ConfirmParent)
	if q != nil {
		q.shape(&r, l.patient)
	} else {
		r.Timing = l.s.Find == bisect.Slow
	}
	l.count[k]++
	l.launches++
	return l.sample(ctx, r)
}

// sample makes a trial, unless it was made before.
func (l *ledger) sample(ctx context.Context, r bisect.Request) (Trial, error) {
	if n, ok := l.known[r.ID()]; ok {
		return l.made[n], nil
	}
	o, err := l.s.Sampler.Sample(ctx, r)
	t := Trial{Request: r, Outcome: o}
	if err == nil {
		l.keep(t)
	}
	return t, err
}

func (l *ledger) keep(t Trial) {
	if len(l.made) == 0 {
		l.first = t.At
	}
	l.end = max(l.end, t.At+t.Wall)
	l.known[t.ID()] = len(l.made)
	l.made = append(l.made, t)
	l.launched[t.Candidate.Commit] = true
	l.around.Note(t.Outcome)
}

// void takes trials out of every belief that is made from now on.
func (l *ledger) void(which func(Trial) bool) {
	for i, t := range l.made {
		l.made[i].void = t.void || which(t)
	}
}

// of lists the trials of a commit for a purpose that still count; "" is any purpose.
func (l *ledger) of(commit string, why bisect.Purpose) (out []Trial) {
	for _, t := range l.made {
		if t.Candidate.Commit == commit && !t.void && (why == "" || t.Purpose == why) {
			out = append(out, t)
		}
	}
	return out
}

// last is the newest outcome of a commit that the condition holds for; its class is empty where there is none.
func (l *ledger) last(commit string, is func(Trial) bool) (o bisect.Outcome) {
	for _, t := range l.made {
		if t.Candidate.Commit == commit && is(t) {
			o = t.Outcome
		}
	}
	return o
}

// tally counts what the launches of a commit showed of a failure.
func (l *ledger) tally(q *failure, commit string, why bisect.Purpose) (t belief.Tally) {
	for _, x := range l.of(commit, why) {
		switch y, a := q.read(x); {
		case a == speaks && y.Failed:
			t.Fails++
		case a == speaks:
			t.Passes++
		}
	}
	return t
}

// early reports trials that still count and were stopped early.
func (l *ledger) early() bool {
	for _, t := range l.made {
		if t.Early && !t.void {
			return true
		}
	}
	return false
}

// earlyOnly is the commit that was stopped early most often, unless one of those that were has been launched without
// haste three times or all of them once; "" where there is none.
func (l *ledger) earlyOnly() (commit string) {
	const enough = 3
	early, patient, all := map[string]int{}, map[string]bool{}, 0
	for _, t := range l.made {
		switch {
		case t.void:
		case t.Early:
			early[t.Candidate.Commit]++
		case t.Hurry == "" && t.Purpose == bisect.ConfirmCulprit:
			patient[t.Candidate.Commit] = true
			all++
		}
	}
	most := 0
	for _, t := range l.made {
		if c := t.Candidate.Commit; !patient[c] && early[c] > most && all < enough {
			commit, most = c, early[c]
		}
	}
	return commit
}

// alwaysEarly reports a commit that was stopped early every time it was launched: it may be slow and pass.
func (l *ledger) alwaysEarly() bool {
	const often = 3
	early, other := map[string]int{}, map[string]bool{}
	for _, t := range l.made {
		if t.Early && !t.void {
			early[t.Candidate.Commit]++
		} else if !t.void {
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

// pauseSeconds is what any launch costs beside its run.
const pauseSeconds = 1.0

// prices are the expected seconds of launches and builds, by those that were made.
func (l *ledger) prices(q question) (p belief.Prices) {
	var pass, fail, soon, build mean
	hurry := ""
	for _, t := range l.made {
		y, a := q.read(t)
		switch {
		case a == speaks && y.Failed:
			fail.add(t.Wall)
			if t.Hurry != "" {
				soon.add(t.Wall)
			}
		case a == speaks:
			pass.add(t.Wall)
		}
		if t.Built {
			build.add(t.Build)
		}
	}
	p.Pass, p.Fail, p.Build = pauseSeconds+pass.value(), pauseSeconds+fail.value(), build.value()
	if f, ok := q.(*failure); ok && !l.patient {
		hurry = f.hurry()
	}
	switch {
	case hurry == "":
	case soon.n > 0:
		p.Fail = pauseSeconds + soon.value()
	default:
		p.Fail = min(p.Fail, 2*p.Pass)
	}
	if low, high := min(p.Pass, p.Fail), max(p.Pass, p.Fail); fail.n > 0 && high < unequal*low {
		p.Pass = (low + high) / 2
		p.Fail = p.Pass
	}
	return p
}

// unequal is the ratio of the costs of the two answers from which a split is uneven. Below it an uneven split saves
// less than a tenth, and a search that takes no more tests than git bisect is worth more.
const unequal = 3

// mean is a running mean.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m mean) value() float64 { return m.sum / float64(max(1, m.n)) }

// failures counts launches of an end that were made for their times and failed, out of how many; how is the last one.
func (l *ledger) failures(why bisect.Purpose) (failed, launches int, how bisect.Outcome) {
	for _, t := range l.made {
		if t.Purpose != why || !t.Timing {
			continue
		}
		launches++
		if t.Class != bisect.OK && !untestable(t.Outcome) {
			failed, how = failed+1, t.Outcome
		}
	}
	return failed, launches, how
}

// warnDropped says that the bad end failed in some of the launches that were made for their times,
// and the good end in none; "" when that is not so.
func (l *ledger) warnDropped() string {
	bad, n, how := l.failures(bisect.EndBad)
	good, of, _ := l.failures(bisect.EndGood)
	if bad == 0 || good > 0 {
		return ""
	}
	return fmt.Sprintf("while times were compared the bad end failed in %d of %d launches (%s) and the good end in none of %d: that was set aside here\nhint: to find where it came from, search with --find %s",
		bad, n, how.Describe(), of, how.Class)
}

// liedEarly reports that a launch took longer, and passed, than one of the same commit that was
// stopped early because no good one could take so long.
func (l *ledger) liedEarly(id string, o bisect.Outcome) bool {
	return slices.ContainsFunc(l.of(id, ""), func(t Trial) bool { return t.Early && t.Wall < o.Wall })
}
