package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
)

// Trial is one launch with what it showed.
type Trial struct {
	bisect.Request
	bisect.Outcome

	Void bool // contradicted since: it counts for no belief any more
}

// launchKey is what launches are numbered by.
type launchKey struct {
	commit  string
	purpose bisect.Purpose
}

// Ledger makes the launches of a search and keeps them. The runs over parts of a range share one, so that no two
// trials have the same name and none is made twice. Nothing is ever removed: launches that no longer count are void.
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

// NewLedger returns a ledger that holds the launches made before the search began (Search.Looked).
func NewLedger(s *Search) *Ledger {
	l := &Ledger{Search: s, known: map[bisect.TrialID]int{}, count: map[launchKey]int{}, on: map[bisect.TrialID]int{}, apart: map[int]bool{}, launched: map[string]bool{}, learned: learned{opened: map[string]bool{}}}
	for _, t := range s.Looked {
		l.keep(t)
	}
	return l
}

// Launch makes the next trial of a commit for a purpose, in the way that the question wants it. Errors are those of
// Search.Sampler: the machine's fault or the end of the budget, never the candidate's.
func (l *Ledger) Launch(ctx context.Context, q Question, commit string, why bisect.Purpose) (Trial, error) {
	l.Launches++
	return l.Sample(ctx, requestOf(l, q, commit, why, l.Number(commit, why)))
}

// requestOf is the nth launch of a commit for a purpose, in the way that a question wants it. Before there is a
// question, only the ends are launched. Launches that are timed, and those of the ends, are assigned a device where
// devices are kept apart; the others may go to any.
func requestOf(l *Ledger, q Question, commit string, why bisect.Purpose, nth int) bisect.Request {
	r := bisect.Request{Candidate: bisect.Candidate{Commit: commit}, Purpose: why, Nth: nth, BuildOnly: l.Search.Builds}
	r.Clean = !l.Search.Fast && (why == bisect.ConfirmCulprit || why == bisect.ConfirmParent)
	if q != nil {
		q.Shape(&r, l.Patient)
	} else {
		r.Timing = l.Search.Find == bisect.Slow
	}
	r.AnyStart = r.AnyStart && !helpDoubted(l, q, commit)
	r.Tentative = r.Tentative && r.AnyStart && !l.Search.Fast // which proves nothing
	if len(l.Search.Devices) > 0 && (why.IsEnd() || r.Timing) {
		r.On = cmp.Or(l.on[r.ID()], Devices(l)[0])
	}
	return r
}

// Wanted is a launch that a question is about to ask for.
type Wanted struct {
	Commit  string
	Purpose bisect.Purpose
	On      int // the device, see [bisect.Request.On]
}

// Announce tells Search.Batch which launches come next, in this order, so that they can be made at the same time. The
// caller then asks for each of them with Launch, in the same order.
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

// Number takes the next number, from 0, for a launch of a commit for a purpose.
func (l *Ledger) Number(commit string, why bisect.Purpose) (nth int) {
	k := launchKey{commit, why}
	nth = l.count[k]
	l.count[k]++
	return nth
}

// ByText hands the ledger to a search whose commits are the texts of candidates (bisect.Candidate.String), as a search
// over sets compares them: the launches made so far are renamed accordingly.
func (l *Ledger) ByText(s *Search) {
	l.Search = s
	for i, t := range l.Made {
		l.Made[i].Candidate = bisect.Candidate{Commit: t.Candidate.String()}
		l.known[l.Made[i].ID()] = i
	}
}

// Sample makes a trial, or returns it if a trial of that name was made before. A trial that ends in an error is not
// kept.
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

// Pace is how many seconds a launch has taken so far on average, builds and pauses included.
func (l *Ledger) Pace() float64 { return (l.end - l.first) / float64(max(1, len(l.Made))) }

// void marks the trials that count for no belief made from now on. A belief that has taken them in must be made again
// (Run.Begin).
func (l *Ledger) void(which func(Trial) bool) {
	for i, t := range l.Made {
		l.Made[i].Void = t.Void || which(t)
	}
}

// Of lists the trials of a commit for a purpose that still count, in the order in which they were made; why "" is any
// purpose.
func (l *Ledger) Of(commit string, why bisect.Purpose) (out []Trial) {
	for _, t := range l.Made {
		if t.Candidate.Commit == commit && !t.Void && (why == "" || t.Purpose == why) {
			out = append(out, t)
		}
	}
	return out
}

// Last is the newest outcome of a commit for which the condition holds, void ones included; its class is empty where
// there is none.
func (l *Ledger) Last(commit string, is func(Trial) bool) (o bisect.Outcome) {
	for _, t := range l.Made {
		if t.Candidate.Commit == commit && is(t) {
			o = t.Outcome
		}
	}
	return o
}

// LookAgain voids the time-outs seen before the good end was known. Only the good end tells which phases a program
// has, and so in which of them a time-out was. The void trials keep their numbers, so that launching again makes new
// ones.
func (l *Ledger) LookAgain(good bisect.Outcome) {
	for _, t := range l.Search.Looked {
		if good.Speaks && t.Class == bisect.Timeout {
			l.void(func(x Trial) bool { return x.ID() == t.ID() })
			l.count[launchKey{t.Candidate.Commit, t.Purpose}] = max(1, l.count[launchKey{t.Candidate.Commit, t.Purpose}])
		}
	}
}

// Decisive is the first outcome of an end that is not ok, or else the last one, and the number of launches up to it.
func (l *Ledger) Decisive(commit string, why bisect.Purpose) (o bisect.Outcome, n int) {
	for _, t := range l.Of(commit, why) {
		o, n = t.Outcome, n+1
		if o.Class != bisect.OK {
			break
		}
	}
	return o, n
}

// Tally counts the failures and passes of a commit's launches, as the question reads them; launches that say nothing
// about the complaint are left out.
func (l *Ledger) Tally(q Question, commit string, why bisect.Purpose) belief.Tally {
	return tally(q, l.Of(commit, why))
}

func tally(q Question, made []Trial) (t belief.Tally) {
	for _, x := range made {
		switch y, a := q.Read(x); {
		case a == Speaks && y.Failed:
			t.Fails++
		case a == Speaks:
			t.Passes++
		}
	}
	return t
}

// Early reports whether any trial that counts failed early.
func (l *Ledger) Early() bool {
	return slices.ContainsFunc(l.Made, func(t Trial) bool { return t.Early && !t.Void })
}

// patientTries is how many launches in full are enough: if early failures would have been passes, one will have shown it.
const patientTries = 3

// EarlyOnly is the commit that failed early most often and was not yet launched in full for the proof; "" where there
// is none, or where all commits together had patientTries.
func (l *Ledger) EarlyOnly() (commit string) {
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
		if c := t.Candidate.Commit; !patient[c] && early[c] > most && all < patientTries {
			commit, most = c, early[c]
		}
	}
	return commit
}

// Unconfirmed reports whether a commit failed early only, so that it may pass when it is launched in full. After three
// launches of the proof that did not fail the question is left open.
func (l *Ledger) Unconfirmed(commit string) bool {
	var early []bisect.Class
	full, patient := map[bisect.Class]bool{}, 0
	for _, t := range l.Of(commit, "") {
		if t.Early {
			early = append(early, t.Class)
			continue
		}
		full[t.Class] = true
		if t.Purpose == bisect.ConfirmCulprit {
			patient++
		}
	}
	return patient < patientTries && slices.ContainsFunc(early, func(c bisect.Class) bool { return !full[c] })
}

// alwaysEarly reports whether some commit was stopped early every time it was launched, three times or more, or whether
// any failed whose process was started early: it may pass when it is launched in full.
func (l *Ledger) alwaysEarly() bool {
	const often = 3
	early, other := map[string]int{}, map[string]bool{}
	for _, t := range l.Made {
		switch {
		case t.Void:
		case t.Early && t.Tentative:
			return true
		case t.Early:
			early[t.Candidate.Commit]++
		default:
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

// pauseSeconds is what any launch costs beside its run (judge.md 4).
const pauseSeconds = 1.0

// prices are the expected seconds of launches and builds, as averages of those made. A failing launch that may be
// stopped early costs what such launches took; before any was, twice a passing one (the adaptive limit of judge.md 7).
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

// unequal is the ratio between the prices of the two answers from which an uneven split of the suspects pays. At 3 it
// saves 8 % among 256 commits (the table of judge.md 7); below, taking no more tests than git bisect is worth more.
const unequal = 3

// mean is a running mean; 0 of nothing.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m mean) value() float64 { return m.sum / float64(max(1, m.n)) }

// failures counts the launches of an end that were made for their times and failed, and all that were made for their
// times; how is the last failure.
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

// WarnDropped is the warning that the bad end failed in some of the launches made for their times, and the good end in
// none; "" where that is not so.
func (l *Ledger) WarnDropped() string {
	bad, n, how := l.failures(bisect.EndBad)
	good, of, _ := l.failures(bisect.EndGood)
	if bad == 0 || good > 0 {
		return ""
	}
	return fmt.Sprintf("while times were compared the bad end failed in %d of %d launches (%s) and the good end in none of %d: that was set aside here\nhint: to find where it came from, search with --find %s",
		bad, n, how.Describe(), of, how.Class)
}

// helpDoubted reports whether launches of a commit ended differently, and those that neither started early nor found
// caches did not. That help may be why, so the commit gets none until they differ as well.
func helpDoubted(l *Ledger, q Question, id string) bool {
	all, plain := tally(q, l.Of(id, "")), tally(q, slices.DeleteFunc(l.Of(id, ""), func(t Trial) bool { return t.Ahead }))
	return all.Wavers() && !plain.Wavers()
}

// passesEarlyOnly reports whether several launches of a commit passed, the processes of all of them were started early,
// and those that were not failed.
func passesEarlyOnly(l *Ledger, q Question, id string) bool {
	const several = 2
	passed, failed := 0, 0
	for _, t := range l.Of(id, "") {
		x, a := q.Read(t)
		switch {
		case a != Speaks:
		case x.Failed && !t.Ahead:
			failed++
		case !x.Failed && t.Ahead && t.AnyStart:
			passed++
		default:
			return false
		}
	}
	return passed >= several && failed > 0
}

// liedEarly says what of a commit's early failures a later launch that passed shows to be wrong: one was stopped on the
// grounds that no good run takes so long, and this one took longer; or all of several launches failed whose processes
// were started early, and this one was not. It is "" if neither is so: the commit may fail sometimes.
func (l *Ledger) liedEarly(id string, passed Trial) string {
	const several = 2
	started, others := 0, 0
	for _, t := range l.Of(id, "") {
		switch {
		case t.ShownSlow(): // it passes when it is launched in full
		case t.Early && t.Hurry != "" && t.Wall < passed.Wall:
			return "passes when it is given the whole limit"
		case t.Early && t.Tentative:
			started++
		case t.ID() != passed.ID():
			others++
		}
	}
	if started < several || others > 0 || passed.Tentative {
		return ""
	}
	return "passes when its process is not started early"
}

// Sides are the launches that ended well and still count, by the side that of puts them on, 0 or 1; of others there are none.
func Sides(l *Ledger, of func(Trial) int) (sides [2][]Trial) {
	for _, t := range l.Made {
		if k := of(t); k >= 0 && !t.Void && t.Class == bisect.OK {
			sides[k] = append(sides[k], t)
		}
	}
	return sides
}

// EndTrials are the launches of the good and of the bad end that ended well and still count.
func EndTrials(r *Run) [2][]Trial {
	return Sides(r.Ledger, func(t Trial) int {
		switch i, known := r.Span.Index[t.Candidate.Commit]; {
		case !known || !r.Span.IsEnd(i):
			return -1
		case i == belief.GoodEnd:
			return 0
		}
		return 1
	})
}

// fastestOf is how many samples of a launch there must be for their fastest tenth to say much.
const fastestOf = 20

// Even reports that the fastest tenths of all launches so far are alike, see [metric.Metric.Even].
func Even(r *Run, m metric.Metric) bool {
	var made []bisect.Outcome
	for _, t := range r.Ledger.Made {
		if _, known := r.Span.Index[t.Candidate.Commit]; known && !t.Void && t.Class == bisect.OK && !t.Early {
			made = append(made, t.Outcome)
		}
	}
	return m.Even(made, fastestOf)
}
