package search

import (
	"cmp"
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

	Void bool // contradicted since: it counts for no belief any more
}

type launchKey struct {
	commit  string
	purpose bisect.Purpose
}

// Ledger makes the launches of a search and keeps them. The runs for parts of a range share one, so that no two
// trials have the same name and none is made twice.
type Ledger struct {
	Search   *Search
	Made     []Trial // in order
	known    map[bisect.TrialID]int
	count    map[launchKey]int
	on       map[bisect.TrialID]int // the devices of announced launches
	apart    map[int]bool           // devices
	seen     []string               // devices by number, those of the search first
	launched map[string]bool        // by commit
	Launches int                    // asked for, the ends' among them
	Patient  bool                   // no trial is stopped before its limit any more
	Around   belief.DeviceLog
	first    float64 // when the first launch began, and the last one ended; seconds since the job began
	end      float64
	forecast forecast
	learned  learned
}

// NewLedger returns a ledger of the launches made before the search.
func NewLedger(s *Search) *Ledger {
	l := &Ledger{Search: s, known: map[bisect.TrialID]int{}, count: map[launchKey]int{}, on: map[bisect.TrialID]int{}, apart: map[int]bool{}, launched: map[string]bool{}}
	for _, t := range s.Looked {
		l.keep(t)
	}
	return l
}

// Launch makes the next trial of a candidate for a purpose, in the way that a question wants it.
func (l *Ledger) Launch(ctx context.Context, q Question, commit string, why bisect.Purpose) (Trial, error) {
	l.Launches++
	return l.Sample(ctx, requestOf(l, q, commit, why, l.Number(commit, why)))
}

// requestOf is the nth launch of a candidate for a purpose, in the way that a question wants it.
func requestOf(l *Ledger, q Question, commit string, why bisect.Purpose, nth int) bisect.Request {
	r := bisect.Request{Candidate: bisect.Candidate{Commit: commit}, Purpose: why, Nth: nth, BuildOnly: l.Search.Builds}
	r.Clean = !l.Search.Fast && (why == bisect.ConfirmCulprit || why == bisect.ConfirmParent)
	if q != nil {
		q.Shape(&r, l.Patient)
	} else {
		r.Timing = l.Search.Find == bisect.Slow
	}
	if end := why == bisect.EndGood || why == bisect.EndBad; len(l.Search.Devices) > 0 && (end || r.Timing) {
		r.On = cmp.Or(l.on[r.ID()], Devices(l)[0])
	}
	return r
}

// Wanted is a launch that a question wants.
type Wanted struct {
	Commit  string
	Purpose bisect.Purpose
	On      int // the device, see [bisect.Request.On]
}

// Announce tells whoever makes launches of those that are asked for next, in this order, so that they are made at a time.
func Announce(r *Run, next []Wanted) {
	l := r.Ledger
	if l.Search.Batch == nil || l.Search.AtOnce < 2 {
		return
	}
	var out []bisect.Request
	before := map[launchKey]int{}
	for _, w := range next {
		k := launchKey{w.Commit, w.Purpose}
		id := bisect.TrialID{Candidate: bisect.Candidate{Commit: w.Commit}, Purpose: w.Purpose, Nth: l.count[k] + before[k]}
		l.on[id] = w.On
		out = append(out, requestOf(l, r.Question, w.Commit, w.Purpose, id.Nth))
		before[k]++
	}
	l.Search.Batch(out)
}

// Number numbers the next launch of a commit for a purpose.
func (l *Ledger) Number(commit string, why bisect.Purpose) (nth int) {
	k := launchKey{commit, why}
	nth = l.count[k]
	l.count[k]++
	return nth
}

// ByText makes the ledger that of a search whose commits are the texts of candidates.
func (l *Ledger) ByText(s *Search) {
	l.Search = s
	for i, t := range l.Made {
		l.Made[i].Candidate = bisect.Candidate{Commit: t.Candidate.String()}
		l.known[l.Made[i].ID()] = i
	}
}

// Sample makes a trial, unless it was made before.
func (l *Ledger) Sample(ctx context.Context, r bisect.Request) (Trial, error) {
	if n, ok := l.known[r.ID()]; ok {
		return l.Made[n], nil
	}
	o, err := l.Search.Sampler.Sample(ctx, r)
	t := Trial{Request: r, Outcome: o}
	t.On = madeOn(l, t)
	if err == nil {
		l.keep(t)
	}
	return t, err
}

func (l *Ledger) keep(t Trial) {
	if len(l.Made) == 0 {
		l.first = t.At
	}
	l.end = max(l.end, t.At+t.Wall)
	l.known[t.ID()] = len(l.Made)
	l.Made = append(l.Made, t)
	l.launched[t.Candidate.Commit] = true
	l.Around.Note(t.Outcome)
	l.learned.take(t)
}

// Pace is the seconds that a launch has taken so far, builds and pauses included.
func (l *Ledger) Pace() float64 { return (l.end - l.first) / float64(max(1, len(l.Made))) }

// void takes trials out of every belief that is made from now on.
func (l *Ledger) void(which func(Trial) bool) {
	for i, t := range l.Made {
		l.Made[i].Void = t.Void || which(t)
	}
}

// Of lists the trials of a commit for a purpose that still count; "" is any purpose.
func (l *Ledger) Of(commit string, why bisect.Purpose) (out []Trial) {
	for _, t := range l.Made {
		if t.Candidate.Commit == commit && !t.Void && (why == "" || t.Purpose == why) {
			out = append(out, t)
		}
	}
	return out
}

// Last is the newest outcome of a commit that the condition holds for; its class is empty where there is none.
func (l *Ledger) Last(commit string, is func(Trial) bool) (o bisect.Outcome) {
	for _, t := range l.Made {
		if t.Candidate.Commit == commit && is(t) {
			o = t.Outcome
		}
	}
	return o
}

// LookAgain drops the time-outs that were seen before the good end was known: only that tells which
// phases there are, and where a time-out was.
func (l *Ledger) LookAgain(good bisect.Outcome) {
	for _, t := range l.Search.Looked {
		if good.Speaks && t.Class == bisect.Timeout {
			l.void(func(x Trial) bool { return x.ID() == t.ID() })
			l.count[launchKey{t.Candidate.Commit, t.Purpose}] = max(1, l.count[launchKey{t.Candidate.Commit, t.Purpose}])
		}
	}
}

// Decisive is the first outcome of an end that is not ok, or the last, and the number of launches up to it.
func (l *Ledger) Decisive(commit string, why bisect.Purpose) (o bisect.Outcome, n int) {
	for _, t := range l.Of(commit, why) {
		o, n = t.Outcome, n+1
		if o.Class != bisect.OK {
			break
		}
	}
	return o, n
}

// Tally counts what the launches of a commit showed: failures and passes.
func (l *Ledger) Tally(q Question, commit string, why bisect.Purpose) (t belief.Tally) {
	for _, x := range l.Of(commit, why) {
		switch y, a := q.Read(x); {
		case a == Speaks && y.Failed:
			t.Fails++
		case a == Speaks:
			t.Passes++
		}
	}
	return t
}

// Early reports trials that still count and were stopped early.
func (l *Ledger) Early() bool {
	for _, t := range l.Made {
		if t.Early && !t.Void {
			return true
		}
	}
	return false
}

// EarlyOnly is the commit that was stopped early most often, unless one of those that were has been launched without
// haste three times or all of them once; "" where there is none.
func (l *Ledger) EarlyOnly() (commit string) {
	const enough = 3
	early, patient, all := map[string]int{}, map[string]bool{}, 0
	for _, t := range l.Made {
		switch {
		case t.Void:
		case t.Early:
			early[t.Candidate.Commit]++
		case t.Hurry == "" && t.Purpose == bisect.ConfirmCulprit:
			patient[t.Candidate.Commit] = true
			all++
		}
	}
	most := 0
	for _, t := range l.Made {
		if c := t.Candidate.Commit; !patient[c] && early[c] > most && all < enough {
			commit, most = c, early[c]
		}
	}
	return commit
}

// Unconfirmed reports a commit whose failures were all stopped early: it may be slow and pass. Three launches of the proof
// that have not failed leave it at that.
func (l *Ledger) Unconfirmed(commit string) bool {
	const enough = 3
	early, patient := 0, 0
	for _, t := range l.Of(commit, "") {
		switch {
		case t.Early:
			early++
		case t.Class == bisect.Timeout:
			return false
		case t.Purpose == bisect.ConfirmCulprit:
			patient++
		}
	}
	return early > 0 && patient < enough
}

// alwaysEarly reports a commit that was stopped early every time it was launched: it may be slow and pass.
func (l *Ledger) alwaysEarly() bool {
	const often = 3
	early, other := map[string]int{}, map[string]bool{}
	for _, t := range l.Made {
		if t.Early && !t.Void {
			early[t.Candidate.Commit]++
		} else if !t.Void {
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
func (l *Ledger) prices(q Question) (p belief.Prices) {
	var pass, fail, soon, build mean
	hurry := ""
	for _, t := range l.Made {
		y, a := q.Read(t)
		switch {
		case a == Speaks && y.Failed:
			fail.add(t.Wall)
			if t.Hurry != "" {
				soon.add(t.Wall)
			}
		case a == Speaks:
			pass.add(t.Wall)
		}
		if t.Built {
			build.add(t.Build)
		}
	}
	p.Pass, p.Fail, p.Build = pauseSeconds+pass.value(), pauseSeconds+fail.value(), build.value()
	if !l.Patient {
		hurry = q.Rules().Hurry
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
func (l *Ledger) failures(why bisect.Purpose) (failed, launches int, how bisect.Outcome) {
	for _, t := range l.Made {
		if t.Purpose != why || !t.Timing {
			continue
		}
		launches++
		if t.Class != bisect.OK && !t.Untestable() {
			failed, how = failed+1, t.Outcome
		}
	}
	return failed, launches, how
}

// WarnDropped says that the bad end failed in some of the launches that were made for their times,
// and the good end in none; "" when that is not so.
func (l *Ledger) WarnDropped() string {
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
func (l *Ledger) liedEarly(id string, o bisect.Outcome) bool {
	return slices.ContainsFunc(l.Of(id, ""), func(t Trial) bool { return t.Early && t.Wall < o.Wall })
}
