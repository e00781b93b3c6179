// Package question has what a search can ask of launches: [Failure], which commit made them fail, and [Level], which
// made a metric worse. Each reads outcomes into its belief, compares the ends, and proves the answer by launches from
// clean builds; package search does what is the same for both. [ReadEnds] says what one launch of each end shows.
//
// It sees trials and commits of one run, and knows nothing of what else a search may be asked for.
package question

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
)

// Failure asks which commit made launches fail: a build failure, a crash, a wrong result or a time-out, in all
// launches or in some. Its belief is [belief.Failures].
type Failure struct {
	Complaint bisect.Complaint
	About     *bisect.Ends // of ends that were compared before; nil: compare them
}

// The rules of a search for failures.
const (
	alikeTrust  = 0.95  // probability from which ends are called alike
	credible    = 0.97  // share of the probability that suspects hold: where ends may be alike with more than the rest, there are none
	strongCount = 6     // launches that all ended alike, which no rate explains on both sides
	falseAlarm  = 0.003 // chance that a good commit shows the complaint (judge.md 7, q_g)
)

// certain reports a complaint that comes always or never: compilers have no noise.
func (q *Failure) certain() bool {
	c := q.Complaint
	return c.Class == bisect.BuildFailed || c.Phase == "build"
}

// Hurry names the phase in which a candidate need not run to the limit: once no good run could
// still be in it, it shows the complaint. The culprit is confirmed at the whole limit.
func (q *Failure) Hurry() string {
	switch {
	case q.Complaint.Class != bisect.Timeout:
		return ""
	case q.Complaint.Whole:
		return bisect.WholeTrial
	}
	return q.Complaint.Phase
}

// Rules implements search.Question. Suspects hold less than all of the probability because a bad commit may pass by
// chance, which leaves a little to every commit that a single launch has cleared.
func (q *Failure) Rules() search.Rules {
	return search.Rules{Credible: credible, Launches: 600, Vain: 6, Hurry: q.Hurry(), OfBuilds: q.Complaint.Phase == "build"}
}

// Missing implements search.Question.
func (q *Failure) Missing(o bisect.Outcome) string { return o.Describe() }

// Shape implements search.Question: all launches but those of the proof may be stopped early, or started early.
func (q *Failure) Shape(r *bisect.Request, patient bool) {
	if !patient && (r.Purpose == bisect.Searching || r.Purpose != bisect.ConfirmCulprit && q.Complaint.Class != "" && !q.certain()) {
		r.Hurry = q.Hurry()
	}
	// How an interpreter was started cannot change a result, but it does change how long a launch takes.
	r.AnyStart = !patient && (q.Complaint.Class == bisect.Wrong || q.Complaint.Class == bisect.Crash)
	r.Tentative = r.AnyStart && r.Purpose == bisect.Searching
}

// Read implements search.Question.
func (q *Failure) Read(t search.Trial) (belief.Launch, search.Answer) {
	o, l := t.Outcome, belief.Launch{At: t.At}
	switch {
	case o.Class == bisect.OK, q.pastTheBuild(o):
		return l, search.Speaks
	case q.Complaint.Class == "" && !o.Untestable(), q.Complaint.Matches(o):
		l.Failed = true
		return l, search.Speaks
	// It says nothing of the complaint; another failure says that the commit is not good either.
	case o.Untestable():
		return l, search.Silent
	}
	return l, search.Another
}

// pastTheBuild reports that the complaint is about the build, and that this candidate failed only after it was built:
// it is good.
func (q *Failure) pastTheBuild(o bisect.Outcome) bool {
	about := q.Complaint.Class == bisect.BuildFailed || q.Complaint.Class == bisect.Timeout && q.Complaint.Phase == "build"
	return about && !q.Complaint.Any && o.Phase != "build" && o.Failed()
}

// Judge reads one outcome, of n launches of its commit, against the complaint. The more launches, the surer a pass is.
func (q *Failure) Judge(o bisect.Outcome, n int) bisect.Verdict {
	v := bisect.Verdict{Class: o.Class, Phase: o.Phase, Why: o.Describe(), Trials: n, Warnings: o.Warnings, Probability: 1, Early: o.Early}
	switch l, a := q.Read(search.Trial{Outcome: o}); {
	case a != search.Speaks:
		v.Call, v.Other, v.Why = bisect.Untestable, a == search.Another, search.WhyNot(q, o, a)
	case l.Failed:
		v.Call, v.Probability = bisect.Bad, 1-falseAlarm
	default: // a bad commit passes with 1 - (1+1)/(1+1.1): judge.md 7, q_b after one failure in one launch
		v.Call, v.Probability = bisect.Good, 1-math.Pow(1-2/2.1, float64(n))
	}
	return v
}

// Verdict implements search.Question.
func (q *Failure) Verdict(r *search.Run, t search.Visit) bisect.Verdict {
	v := q.Judge(t.Last, t.N)
	// The belief knows the launches of all other commits, too, while Judge knows this one alone.
	if p := r.Belief.Bad(t.At); v.Call == bisect.Bad {
		v.Probability = p
	} else {
		v.Probability = 1 - p
	}
	return v
}

// Belief implements search.Question.
func (q *Failure) Belief(r *search.Run) belief.Belief {
	return belief.NewFailures(r.Span.Commits, r.Span.Prior, q.certain())
}

// Expected implements search.Question.
func (q *Failure) Expected(r *search.Run) search.Outlook {
	b := r.Belief.(*belief.Failures)
	p := b.Posterior()
	bad := p.Bad[p.Top()]
	return search.Outlook{Launches: b.Expected(r.Search.Delta()), Wavers: bad.Passes > 0 || p.All.Fails > bad.Fails}
}

// Settled implements search.Question: the ends do not differ, or two commits contradict every single change.
func (q *Failure) Settled(r *search.Run, _ bool) (done, acted bool, err error) {
	b := r.Belief.(*belief.Failures)
	if acted, err := q.manyChanges(r, b); err != nil || acted {
		return false, acted, err
	}
	if acted, err := q.oddTwins(r, b); err != nil || acted && r.Over() == "" {
		return false, acted, err
	}
	return (&endTrials{q, r}).alike(b.Posterior().Alike)
}

// oddTwins looks for two commits of equal inputs of which one has failed and the other only passed. They are launched in turn
// until chance explains that no longer, or is the likelier reason.
func (q *Failure) oddTwins(r *search.Run, b *belief.Failures) (acted bool, err error) {
	const rarely = 3 // log odds against paths that leave something out, before any launch
	for _, bad := range b.Tested() {
		f := b.Of(bad)
		for _, good := range r.Span.EqualTo(bad) {
			p := b.Of(good)
			odds := belief.OddTwins(f, p)
			if odds < 0 {
				continue
			}
			if odds >= rarely-math.Log(r.Search.Delta()) {
				if acted, err := confirm(r, r.Span.Id(bad)); err != nil || acted {
					return acted, err
				}
				r.DistrustKeys(r.Span.Id(bad))
				return true, nil
			}
			i := bad
			if p.Launches() < f.Launches() {
				i = good
			}
			_, err := r.Try(r.Span.Id(i), r.Span.Purpose(i))
			return true, err
		}
	}
	return false, nil
}

// confirm launches a commit at the full limit if all its failures were stopped early, before it is called bad: it may be slow
// and pass.
func confirm(r *search.Run, id string) (acted bool, err error) {
	if r.Over() != "" || !r.Ledger.Unconfirmed(id) {
		return false, nil
	}
	_, err = r.Try(id, bisect.ConfirmCulprit)
	return true, err
}

// manyChanges looks for two commits that no single change explains, at whatever rate: one that never failed and descends from
// one that always did. Then the range holds several changes, and the search keeps to the older one.
func (q *Failure) manyChanges(r *search.Run, b *belief.Failures) (acted bool, err error) {
	// Few launches may end alike by chance, so both commits must have had several.
	for _, good := range b.Tested() {
		if t := b.Of(good); t.Fails > 0 || t.Passes < strongCount {
			continue
		}
		for _, bad := range b.Tested() {
			if t := b.Of(bad); b.Reaches(good, bad) && t.Passes == 0 && t.Fails >= strongCount {
				if acted, err := confirm(r, r.Span.Id(bad)); err != nil || acted {
					return acted, err
				}
				q.keepTo(r, bad)
				return true, nil
			}
		}
	}
	return false, nil
}

// keepTo takes commit bad for the bad end from now on.
func (q *Failure) keepTo(r *search.Run, bad int) {
	r.Account.Warn(fmt.Sprintf("commit %s is bad although a later one is good: the range holds more than one change of this kind", bisect.ShortID(r.Span.Id(bad))))
	// What the older change is, only its ancestors can tell; launches of later commits would mislead.
	r.Span.Within = bisect.Ancestors(r.Span.Commits, bad)
	r.Span.Clear()
	r.Begin(q.Belief(r))
}

// shownClean reports that a culprit has failed from a clean build, again if a proof may begin early (AsProof), or cannot.
func shownClean(q *Failure, r *search.Run, id string) bool {
	fails := r.Ledger.Tally(q, id, bisect.ConfirmCulprit).Fails
	return r.Search.Fast || fails > 1 || fails > 0 && !search.EarlyProofs(r, q.Complaint) || q.lost(r, id, bisect.ConfirmCulprit) != ""
}

// lost says why the launches of a commit for a purpose told nothing; "" where one did, or there was none.
func (q *Failure) lost(r *search.Run, id string, why bisect.Purpose) (text string) {
	for _, t := range r.Ledger.Of(id, why) {
		_, a := q.Read(t)
		if a == search.Speaks {
			return ""
		}
		text = search.WhyNot(q, t.Outcome, a)
	}
	return text
}

const (
	enoughPasses = 5   // of a parent that a proof needs at least (judge.md 7, m), those of the search among them
	stillDoubts  = 1.3 // times the error allowed that a sceptic may hold against a complaint that always came; at 1 nearly every proof would need one pass more
	credibleBad  = 0.9 // below 1 minus this, a commit is not believed to be bad
)

// Prove makes the next launch that the claim "the change lies in this set" still needs. The parents come first and the
// culprit at its full limit last, as that costs most, but for wrong results; a fast search leaves it out. What
// contradicts the claim enters the belief like any launch.
func (q *Failure) Prove(r *search.Run, set []int) (done bool, err error) {
	if why := r.Over(); why != "" {
		return r.GiveUp(why), nil
	}
	// A call makes the next launch, and then the loop of the run asks the belief again.
	e := r.Belief.(*belief.Failures)
	b := e.Posterior()
	culprit, parents := r.Span.Sides(set)
	if r.Ledger.Early() && (culprit != r.Span.Id(set[0]) || q.lost(r, culprit, bisect.ConfirmCulprit) != "") { // the commit around the set says nothing of who in it stops early
		r.TakeTime("the culprit cannot be tested, and the search rests on trials that were stopped or started early: those are made again in full")
		return false, nil
	}
	f := &failureProof{q, r}
	m := f.enough(e, set)
	shown := shownClean(q, r, culprit)
	for _, p := range parents {
		if q.lost(r, p, bisect.ConfirmParent) != "" || f.cleared(b, set[0], p, m) {
			continue
		}
		if q.Complaint.Class == bisect.Wrong && !shown && r.Ledger.Tally(q, p, bisect.ConfirmParent).Launches() > 0 && r.Ledger.Tally(q, culprit, bisect.ConfirmCulprit).Launches() == 0 {
			break // the culprit has loaded beside its parent
		}
		return f.tryParent(set[0], culprit, p)
	}
	if q.lost(r, culprit, bisect.ConfirmCulprit) != "" && r.Unlearn("") {
		return false, nil
	}
	if shown {
		r.Account.Conclude(r, set, b.Weight[set[0]], func(out *bisect.Culprit) { f.proven(out, b.Bad[set[0]], parents) })
		return true, nil
	}
	if n := r.Ledger.Tally(q, culprit, bisect.ConfirmCulprit).Launches(); n >= m {
		return r.GiveUp(fmt.Sprintf("commit %s did not show the complaint in %d launches from a clean build", bisect.ShortID(culprit), n)), nil
	}
	return false, f.tryCulprit(b, set[0], culprit)
}

// failureProof is the proof of a claim about failures.
type failureProof struct {
	q *Failure
	r *search.Run
}

// enough is how often a parent must have passed if the culprit is in a set: until so many passes in a row of a bad commit are
// less likely than the error allowed (judge.md 7: m = ⌈ln δ / ln(1-q_b)⌉), and at least enoughPasses. One more is needed where
// the complaint always came and a sceptic's prior leaves too much doubt: a complaint of every second launch that leads a search
// astray looks the same. The sixth pass takes such answers from 1.5 to 0.5 % wrong (400 simulated searches).
func (f *failureProof) enough(e *belief.Failures, set []int) int {
	b, least := e.Posterior(), enoughPasses
	always := b.Bad[set[0]].Passes == 0 && b.All.Fails == b.Bad[set[0]].Fails
	if f.r.Search.Fast || f.q.certain() {
		least = 1
	} else if always && e.Doubt(set) > stillDoubts*f.r.Search.Delta() {
		least++
	}
	return max(least, int(math.Ceil(math.Log(f.r.Search.Delta())/math.Log(1-b.Rate(set[0])))))
}

// cleared reports whether a parent has passed often enough, from a clean build too unless the search is fast. If it
// also failed, its own launches must still say that it is good, whatever is believed of the others: one accident takes
// many passes.
func (f *failureProof) cleared(b belief.Posterior, k int, p string, m int) bool {
	runs := f.r.Ledger.Tally(f.q, p, "")
	return (f.r.Search.Fast || f.r.Ledger.Tally(f.q, p, bisect.ConfirmParent).Passes > 0) && runs.Passes >= m &&
		(runs.Fails == 0 || b.SpeaksBad(k, runs) <= math.Log(f.r.Search.Delta()))
}

// tryParent launches a parent from a clean build. If it fails so often that its own launches call it bad, whichever single
// change is to blame, then the guess that left it out, the range, the keys, or that there is one change, is wrong.
func (f *failureProof) tryParent(k int, culprit, p string) (done bool, err error) {
	bad, err := f.r.Try(p, bisect.ConfirmParent)
	guessed := err == nil && bad && f.r.Span.LeftOut(f.r.Span.Place(p))
	if guessed && f.r.Unlearn(fmt.Sprintf("%s does not pass, and changes no file that was opened", bisect.ShortID(p))) {
		return false, nil
	}
	if err != nil || !bad || f.q.lost(f.r, p, bisect.ConfirmParent) != "" {
		return false, err
	}
	last := f.r.Ledger.Of(p, bisect.ConfirmParent)
	f.r.Account.Judged(bisect.Step{Commit: p, Role: bisect.RoleParent, Verdict: f.q.Judge(last[len(last)-1].Outcome, 1), Remaining: search.Remaining(f.r)})
	runs, i, b := f.r.Ledger.Tally(f.q, p, ""), f.r.Span.Place(p), f.r.Belief.(*belief.Failures).Posterior()
	passed := func(c int) bool { return f.r.Belief.(*belief.Failures).Of(c).Passes > 0 }
	// A complaint of the build has no chance in it, so that one launch settles it.
	sure := f.q.certain() && runs.Passes == 0
	if !sure && (runs.Fails < 2 || b.SpeaksBad(k, runs) < -math.Log(f.r.Search.Delta())) {
		return false, nil
	}
	if acted, err := confirm(f.r, p); err != nil || acted {
		return false, err
	}
	switch {
	case i < 0 && p != f.r.Span.Good.Commit:
		f.r.Account.Warn(fmt.Sprintf("commit %s lies before the range: the complaint is older than the good end on that branch; try an earlier good end", bisect.ShortID(p)))
		f.r.Account.Finding.Result = bisect.Inconclusive
		f.r.Account.Finding.Suspects = []bisect.SuspectCommit{{Commit: culprit, Probability: 1, Why: "its parent before the range is bad too"}}
		return true, nil
	case i < 0 || f.r.Belief.Bad(i) > 1-credibleBad:
		return false, nil // believed as well
	case f.r.Span.Commits[i].Key != "" && (f.r.Span.Commits[i].Key == f.r.Span.GoodKey || slices.ContainsFunc(f.r.Span.EqualTo(i), passed)):
		f.r.DistrustKeys(p)
	default:
		f.q.keepTo(f.r, i)
	}
	return false, nil
}

// tryCulprit launches the culprit from a clean build at its full limit. When it passes there although it always failed before,
// it is launched again: a build that lied passes every time, while a complaint that shows only sometimes comes back.
func (f *failureProof) tryCulprit(b belief.Posterior, k int, culprit string) error {
	always, patient := b.Bad[k].Passes == 0, f.r.Ledger.Patient
	for n := 1; ; n++ {
		if bad, err := f.r.Try(culprit, bisect.ConfirmCulprit); err != nil || bad {
			return err
		}
		last := f.r.Ledger.Of(culprit, bisect.ConfirmCulprit)
		if len(last) == 0 { // it had been stopped too early before: that is dealt with
			return nil
		}
		f.r.Account.Judged(bisect.Step{Commit: culprit, Role: bisect.RoleCulprit, Verdict: f.q.Judge(last[len(last)-1].Outcome, 1), Remaining: search.Remaining(f.r)})
		if !always || f.r.Rounds > 0 || f.r.Ledger.Patient != patient || f.r.Over() != "" {
			return nil
		}
		rare := b.Bad[k].Plus(belief.Tally{Passes: n})
		if f.q.certain() || math.Exp(belief.LogRate(rare)-belief.LogRate(b.Bad[k])) < f.r.Search.Delta() {
			break
		}
	}
	if c := f.r.Span.Commits[k]; k != f.r.Span.Bad() && c.Key != "" && c.Key == f.r.Span.Commits[f.r.Span.Bad()].Key {
		f.r.DistrustKeys(c.ID)
		return nil
	}
	f.r.Contradicted(fmt.Sprintf("commit %s looked bad in the search and is good from a clean build: searching again from clean builds", bisect.ShortID(culprit)))
	return nil
}

// proven fills in what the launches of the proof showed, and what could not be launched for it. An answer that lacks a part of
// its proof is stated with 0.9 at most.
func (f *failureProof) proven(out *bisect.Culprit, bad belief.Tally, parents []string) {
	if bad.Passes > 0 {
		out.Rate = &bisect.Rate{Failed: bad.Fails, Launches: bad.Launches()}
	}
	k := f.r.Span.Index[out.Commit]
	f.warnContradictions(k)
	shows := func(t search.Trial) bool { l, a := f.q.Read(t); return a == search.Speaks && l.Failed }
	last := f.r.Ledger.Last(out.Commit, shows)
	if f.q.Complaint.Any || f.q.Complaint.AnyPhase {
		out.Class, out.Phase = last.Class, last.Phase // the one that was seen
	}
	v := f.q.Judge(last, f.r.Ledger.Tally(f.q, out.Commit, "").Launches())
	v.Probability = out.Confidence
	proof := bisect.ConfirmCulprit
	if !f.r.Span.Launchable(k) { // the launches around it leave no other
		proof = ""
	}
	if why := f.q.lost(f.r, out.Commit, proof); why != "" {
		out.Confirmed = false
		v.Call, v.Why = bisect.Untestable, why
		f.r.Account.Warn(fmt.Sprintf("culprit %s could not be tested for the proof: %s", bisect.ShortID(out.Commit), why))
	}
	f.r.Account.Judged(bisect.Step{Commit: out.Commit, Role: bisect.RoleCulprit, Verdict: v, Remaining: 1})
	for _, p := range parents {
		runs := f.r.Ledger.Tally(f.q, p, "")
		v := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: out.Confidence, Trials: runs.Launches(), Why: "ok in " + words.Count(runs.Passes, "launch")}
		if runs.Fails > 0 {
			v.Why += fmt.Sprintf(" of %d", runs.Launches())
		}
		if why := f.q.lost(f.r, p, bisect.ConfirmParent); why != "" {
			out.Confirmed = false
			v = bisect.Verdict{Call: bisect.Untestable, Class: bisect.Skip, Probability: 1, Why: why, Trials: 1}
			f.r.Account.Warn(fmt.Sprintf("parent %s could not be tested (%s): that it is good is inferred from later good commits", bisect.ShortID(p), why))
		}
		f.r.Account.Judged(bisect.Step{Commit: p, Role: bisect.RoleParent, Verdict: v, Remaining: 1})
	}
	if !out.Confirmed {
		out.Confidence = min(out.Confidence, 0.9)
	}
}

// warnContradictions warns how many launches failed of commits that are good by the answer.
func (f *failureProof) warnContradictions(k int) {
	b := f.r.Belief.(*belief.Failures)
	var all belief.Tally
	example := ""
	for _, i := range b.Tested() {
		if t := b.Of(i); !b.Reaches(i, k) {
			if all = all.Plus(t); t.Fails > 0 && example == "" {
				example = ", such as " + bisect.ShortID(f.r.Span.Id(i))
			}
		}
	}
	all = all.Plus(f.r.Ledger.Tally(f.q, f.r.Span.Good.Commit, ""))
	if all.Fails > 0 {
		f.r.Account.Warn(fmt.Sprintf("%d of %s of commits that are good by this answer failed as well%s", all.Fails, words.Count(all.Launches(), "launch"), example))
	}
}

// AsProof implements search.Question: once the likeliest culprit is all but sure, its parent is launched from a clean build
// right away, also for a commit of equal inputs if such have always ended alike, as long as the proof needs it. The culprit
// waits until the search has decided, to check that: not where the complaint comes only sometimes, and of no good commit, as
// passes leave that open; nor once, for any commit that it makes bad, where its proof has begun, see [search.EarlyProofs].
func (q *Failure) AsProof(r *search.Run, i int) (made bool, err error) {
	b, f := r.Belief.(*belief.Failures), &failureProof{q, r}
	p := b.Posterior()
	k := p.Top()
	if i < 0 || p.Weight[k] <= 0.9 {
		return false, nil
	}
	first := search.EarlyProofs(r, q.Complaint) && r.Span.Launchable(k) && r.Ledger.Tally(q, r.Span.Id(k), bisect.ConfirmCulprit).Launches() == 0
	sometimes, makesBad := i == k && p.Bad[k].Passes > 0, i == k || b.Of(i).Launches() > 0 && b.Reaches(i, k)
	if (sometimes || makesBad && first) && p.All.Fails == p.Bad[k].Fails && !shownClean(q, r, r.Span.Id(k)) {
		_, err := r.Try(r.Span.Id(k), bisect.ConfirmCulprit)
		return true, err
	}
	for _, id := range r.Span.Commits[k].Parents {
		at := r.Span.Place(id)
		alike := at == i || at >= 0 && slices.Contains(r.Span.EqualTo(at), i) && q.alwaysAlike(r, b) && !f.cleared(p, k, id, f.enough(b, []int{k}))
		if alike && q.lost(r, id, bisect.ConfirmParent) == "" {
			_, err := r.Try(id, bisect.ConfirmParent)
			return true, err
		}
	}
	return false, nil
}

// alwaysAlike reports that all launches of equal inputs ended alike so far.
func (q *Failure) alwaysAlike(r *search.Run, b *belief.Failures) bool {
	seen := map[string]belief.Tally{}
	for _, i := range b.Tested() {
		id := cmp.Or(r.Span.Commits[i].Key, r.Span.Commits[i].ID)
		seen[id] = seen[id].Plus(b.Of(i))
		if seen[id].Wavers() {
			return false
		}
	}
	return true
}
