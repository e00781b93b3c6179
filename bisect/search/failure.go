package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// failure asks which commit made launches fail: a build failure, a crash, a wrong result, a time-out, always or in some
// launches. Its belief is [belief.Failures].
type failure struct {
	complaint bisect.Complaint
	about     *bisect.Ends // of ends that were compared before; nil: compare them
	flaky     bool         // whether the ends differ was weighed by launches of both
}

// The rules of a search for failures.
const (
	maxWeighed  = 600  // launches of one run
	maxOdd      = 6    // launches in a row that tell nothing
	alikeTrust  = 0.95 // that ends are called alike
	alikePrior  = 0.02 // that ends that differed in one launch each do not differ
	strongCount = 6    // launches that all ended alike, which no rate explains on both sides
	falseAlarm  = 0.003
)

// untestable outcomes say nothing about the complaint.
func untestable(o bisect.Outcome) bool {
	return o.Class == bisect.Skip || o.Class == bisect.BuildFailed
}

// failed reports an outcome that is bad rather than untestable.
func failed(o bisect.Outcome) bool { return o.Class != bisect.OK && !untestable(o) }

// certain reports a complaint that comes always or never.
func (q *failure) certain() bool {
	c := q.complaint
	return c.Class == bisect.BuildFailed || c.Phase == "build"
}

// hurry names the phase in which a candidate need not run to the limit: once no good run could
// still be in it, it shows the complaint. The culprit is confirmed at the whole limit.
func (q *failure) hurry() string {
	switch {
	case q.complaint.Class != bisect.Timeout:
		return ""
	case q.complaint.Whole:
		return bisect.WholeTrial
	}
	return q.complaint.Phase
}

// shape implements question.
func (q *failure) shape(r *bisect.Request, patient bool) {
	if !patient && (r.Purpose == bisect.Searching || r.Purpose != bisect.ConfirmCulprit && q.complaint.Class != "" && !q.certain()) {
		r.Hurry = q.hurry()
	}
}

// read implements question.
func (q *failure) read(t Trial) (belief.Launch, answer) {
	o, l := t.Outcome, belief.Launch{At: t.At}
	switch {
	case o.Class == bisect.OK, q.pastTheBuild(o):
		return l, speaks
	case q.complaint.Class == "" && !untestable(o), q.complaint.Matches(o):
		l.Failed = true
		return l, speaks
	case untestable(o):
		return l, silent
	}
	return l, another
}

// pastTheBuild reports that the complaint is about the build and this candidate was built.
func (q *failure) pastTheBuild(o bisect.Outcome) bool {
	about := q.complaint.Class == bisect.BuildFailed || q.complaint.Class == bisect.Timeout && q.complaint.Phase == "build"
	return about && !q.complaint.Any && o.Phase != "build" && failed(o)
}

// judge reads one outcome against the complaint: one of n launches.
func (q *failure) judge(o bisect.Outcome, n int) bisect.Verdict {
	v := bisect.Verdict{Class: o.Class, Phase: o.Phase, Why: o.Describe(), Trials: n, Warnings: o.Warnings, Probability: 1, Early: o.Early}
	switch l, a := q.read(Trial{Outcome: o}); {
	case a != speaks:
		v.Call, v.Other, v.Why = bisect.Untestable, a == another, whyNot(q, o, a)
	case l.Failed:
		v.Call, v.Probability = bisect.Bad, 1-falseAlarm
	default: // the rule of succession, of a complaint that came in the one launch of a bad commit
		v.Call, v.Probability = bisect.Good, 1-math.Pow(1-2/2.1, float64(n))
	}
	return v
}

// verdict implements question.
func (q *failure) verdict(r *run, t visit) bisect.Verdict {
	v := q.judge(t.last, t.n)
	if p := r.b.Bad(t.at); v.Call == bisect.Bad {
		v.Probability = p
	} else {
		v.Probability = 1 - p
	}
	return v
}

// belief implements question.
func (q *failure) belief(r *run) belief.Belief {
	alike := alikePrior
	if q.flaky {
		alike = rareAlike
	}
	return belief.NewFailures(r.span.commits, r.span.prior, alike, q.certain())
}

// settled implements question: the ends do not differ, or two commits contradict every single change.
func (q *failure) settled(r *run, _ bool) (done, acted bool, err error) {
	b := r.b.(*belief.Failures)
	if q.manyChanges(r, b) {
		return false, true, nil
	}
	if acted, err := q.oddTwins(r, b); err != nil || acted && r.over() == "" {
		return false, acted, err
	}
	p := b.Posterior()
	if p.Alike < alikeTrust {
		return false, false, nil
	}
	if id := r.led.earlyOnly(); id != "" && r.over() == "" { // it may be slow and pass: then trials lied
		_, err := r.try(id, bisect.ConfirmCulprit)
		return false, true, err
	}
	bad := r.span.id(r.span.bad())
	if r.led.tally(q, bad, "").Launches() < rareTries { // it may fail often all the same, for a reason that no commit explains
		if why := r.over(); why != "" {
			return r.giveUp(why), true, nil
		}
		_, err := r.try(bad, bisect.EndBad)
		return false, true, err
	}
	f := &r.out.f
	f.Result, f.Ends.Differ = bisect.NoDifference, false
	f.Ends.Why = fmt.Sprintf("failures come as often at the good end as at the bad one: %d in %d launches of all commits", p.All.Fails, p.All.Launches())
	f.Ends.OtherGood = true
	f.Ends.Hint = "name an older good end with --good, or a bad end that fails more often with --bad"
	return true, false, nil
}

// oddTwins looks for two commits of equal inputs of which one only failed and the other only passed.
// They are launched by turns until that is chance no more, or is seen to be chance.
func (q *failure) oddTwins(r *run, b *belief.Failures) (acted bool, err error) {
	const rarely = 3 // log odds against paths that leave something out, before any launch
	for _, bad := range b.Tested() {
		f := b.Of(bad)
		for _, good := range r.span.equalTo(bad) {
			p := b.Of(good)
			if p.Passes == 0 || p.Fails > 0 || f.Passes > 0 {
				continue
			}
			if belief.LogBad(f)+belief.LogGood(p)-belief.LogRate(f.Plus(p)) >= rarely-math.Log(r.s.delta()) {
				r.distrustKeys(r.span.id(bad))
				return true, nil
			}
			i := bad
			if p.Launches() < f.Launches() {
				i = good
			}
			_, err := r.try(r.span.id(i), r.span.purpose(i))
			return true, err
		}
	}
	return false, nil
}

// manyChanges looks for two commits that no single change explains, at whatever rate: one that failed
// every time below one that never did. Then the range holds several changes, and the search keeps to the
// older one.
func (q *failure) manyChanges(r *run, b *belief.Failures) bool {
	for _, good := range b.Tested() {
		if t := b.Of(good); t.Fails > 0 || t.Passes < strongCount {
			continue
		}
		below := bisect.Ancestors(r.span.commits, good)
		for _, bad := range b.Tested() {
			if t := b.Of(bad); below[bad] && t.Passes == 0 && t.Fails >= strongCount {
				q.keepTo(r, bad)
				return true
			}
		}
	}
	return false
}

// keepTo makes commit bad the bad end.
func (q *failure) keepTo(r *run, bad int) {
	r.out.warn(fmt.Sprintf("commit %s is bad although a later one is good: the range holds more than one change of this kind", bisect.ShortID(r.span.id(bad))))
	r.span.within = bisect.Ancestors(r.span.commits, bad)
	r.span.clear()
	r.begin(q.belief(r))
}

// lost says why a commit could not be launched from a clean build; "" where it could, or was not.
func (q *failure) lost(r *run, id string, why bisect.Purpose) (text string) {
	for _, t := range r.led.of(id, why) {
		_, a := q.read(t)
		if a == speaks {
			return ""
		}
		text = whyNot(q, t.Outcome, a)
	}
	return text
}

const (
	enoughPasses = 5   // of a parent that a proof needs at least, those of the search among them
	credibleBad  = 0.9 // below 1 minus this, a commit is not believed to be bad
)

// prove makes the next launch that the claim "the change lies in this set" still needs, each parent
// first, and the culprit at its full limit last, since it costs most, or not at all in a fast search. What contradicts
// the claim goes into the evidence like any launch.
func (q *failure) prove(r *run, set []int) (done bool, err error) {
	if why := r.over(); why != "" {
		return r.giveUp(why), nil
	}
	b := r.b.(*belief.Failures).Posterior()
	culprit, parents := r.span.sides(set)
	if r.led.early() && (culprit != r.span.id(set[0]) || q.lost(r, culprit, bisect.ConfirmCulprit) != "") { // the commit around the set says nothing of who in it stops early
		r.takeTime("the culprit cannot be tested, and the search rests on trials that were stopped before their limit: those are made again with the whole limit")
		return false, nil
	}
	f := &failureProof{q, r}
	m := f.enough(b, set[0])
	for _, p := range parents {
		if q.lost(r, p, bisect.ConfirmParent) == "" && !f.cleared(b, set[0], p, m) {
			return f.tryParent(set[0], culprit, p)
		}
	}
	runs := r.led.tally(q, culprit, bisect.ConfirmCulprit)
	switch {
	case r.s.Fast, runs.Fails > 0, q.lost(r, culprit, bisect.ConfirmCulprit) != "":
		r.out.conclude(r, set, b.Weight[set[0]], func(out *bisect.Culprit) { f.proven(out, b.Bad[set[0]], parents) })
		return true, nil
	case runs.Launches() >= m:
		return r.giveUp(fmt.Sprintf("commit %s did not show the complaint in %d launches from a clean build", bisect.ShortID(culprit), runs.Launches())), nil
	}
	return false, f.tryCulprit(b, set[0], culprit)
}

// failureProof is the proof of a claim about failures.
type failureProof struct {
	q *failure
	r *run
}

// enough is how often a parent must have passed if commit k is the culprit.
func (f *failureProof) enough(b belief.Posterior, k int) int {
	least := enoughPasses
	if f.r.s.Fast || f.q.certain() {
		least = 1
	}
	return max(least, int(math.Ceil(math.Log(f.r.s.delta())/math.Log(1-b.Rate(k)))))
}

// cleared reports that a parent has passed often enough, from a clean build too but in a fast search, and that its own
// launches say so whatever is believed of the others: one accident takes many passes.
func (f *failureProof) cleared(b belief.Posterior, k int, p string, m int) bool {
	runs := f.r.led.tally(f.q, p, "")
	return (f.r.s.Fast || f.r.led.tally(f.q, p, bisect.ConfirmParent).Passes > 0) && runs.Passes >= m &&
		(runs.Fails == 0 || b.SpeaksBad(k, runs) <= math.Log(f.r.s.delta()))
}

// tryParent launches a parent from a clean build. One that fails by its own launches, although that
// would be next to impossible whichever single change is to blame, says that an assumption is wrong.
func (f *failureProof) tryParent(k int, culprit, p string) (done bool, err error) {
	if bad, err := f.r.try(p, bisect.ConfirmParent); err != nil || !bad || f.q.lost(f.r, p, bisect.ConfirmParent) != "" {
		return false, err
	}
	last := f.r.led.of(p, bisect.ConfirmParent)
	f.r.out.judged(bisect.Step{Commit: p, Role: bisect.RoleParent, Verdict: f.q.judge(last[len(last)-1].Outcome, 1), Remaining: remaining(f.r)})
	runs, i, b := f.r.led.tally(f.q, p, ""), f.r.span.place(p), f.r.b.(*belief.Failures).Posterior()
	passed := func(c int) bool { return f.r.b.(*belief.Failures).Of(c).Passes > 0 }
	sure := f.q.certain() && runs.Passes == 0
	switch {
	case !sure && (runs.Fails < 2 || b.SpeaksBad(k, runs) < -math.Log(f.r.s.delta())):
		return false, nil
	case i < 0 && p != f.r.span.good.Commit:
		f.r.out.warn(fmt.Sprintf("commit %s lies before the range: the complaint is older than the good end on that branch; try an earlier good end", bisect.ShortID(p)))
		f.r.out.f.Result = bisect.Inconclusive
		f.r.out.f.Suspects = []bisect.SuspectCommit{{Commit: culprit, Probability: 1, Why: "its parent before the range is bad too"}}
		return true, nil
	case i < 0 || f.r.b.Bad(i) > 1-credibleBad:
		return false, nil // believed as well
	case f.r.span.commits[i].Key != "" && (f.r.span.commits[i].Key == f.r.span.goodKey || slices.ContainsFunc(f.r.span.equalTo(i), passed)):
		f.r.distrustKeys(p)
	default:
		f.q.keepTo(f.r, i)
	}
	return false, nil
}

// tryCulprit launches the culprit from a clean build at its full limit. When it passes there although
// it always failed before, it is launched again: a build that lied passes every time, and a complaint
// that shows only sometimes comes back.
func (f *failureProof) tryCulprit(b belief.Posterior, k int, culprit string) error {
	always, patient := b.Bad[k].Passes == 0, f.r.led.patient
	for n := 1; ; n++ {
		if bad, err := f.r.try(culprit, bisect.ConfirmCulprit); err != nil || bad {
			return err
		}
		last := f.r.led.of(culprit, bisect.ConfirmCulprit)
		if len(last) == 0 { // it had been stopped too early before: that is dealt with
			return nil
		}
		f.r.out.judged(bisect.Step{Commit: culprit, Role: bisect.RoleCulprit, Verdict: f.q.judge(last[len(last)-1].Outcome, 1), Remaining: remaining(f.r)})
		if !always || f.r.rounds > 0 || f.r.led.patient != patient || f.r.over() != "" {
			return nil
		}
		rare := b.Bad[k].Plus(belief.Tally{Passes: n})
		if f.q.certain() || math.Exp(belief.LogRate(rare)-belief.LogRate(b.Bad[k])) < f.r.s.delta() {
			break
		}
	}
	bad := f.r.span.bad()
	if c := f.r.span.commits[k]; k != bad && c.Key != "" && c.Key == f.r.span.commits[bad].Key {
		f.r.distrustKeys(c.ID)
		return nil
	}
	f.r.contradicted(fmt.Sprintf("commit %s looked bad in the search and is good from a clean build: searching again from clean builds", bisect.ShortID(culprit)))
	return nil
}

// proven fills in what the launches of the proof showed, and what could not be launched for it.
func (f *failureProof) proven(out *bisect.Culprit, bad belief.Tally, parents []string) {
	if bad.Passes > 0 {
		out.Rate = &bisect.Rate{Failed: bad.Fails, Launches: bad.Launches()}
	}
	f.warnContradictions(out)
	shows := func(t Trial) bool { l, a := f.q.read(t); return a == speaks && l.Failed }
	last := f.r.led.last(out.Commit, shows)
	if f.q.complaint.Any || f.q.complaint.AnyPhase {
		out.Class, out.Phase = last.Class, last.Phase
	}
	v := f.q.judge(last, f.r.led.tally(f.q, out.Commit, "").Launches())
	v.Probability = out.Confidence
	if why := f.q.lost(f.r, out.Commit, bisect.ConfirmCulprit); why != "" {
		out.Confirmed = false
		v.Call, v.Why = bisect.Untestable, why
		f.r.out.warn(fmt.Sprintf("culprit %s could not be tested again: %s", bisect.ShortID(out.Commit), why))
	}
	f.r.out.judged(bisect.Step{Commit: out.Commit, Role: bisect.RoleCulprit, Verdict: v, Remaining: 1})
	for _, p := range parents {
		runs := f.r.led.tally(f.q, p, "")
		v := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: out.Confidence, Trials: runs.Launches(), Why: "ok in " + words.Count(runs.Passes, "launch")}
		if runs.Fails > 0 {
			v.Why += fmt.Sprintf(" of %d", runs.Launches())
		}
		if why := f.q.lost(f.r, p, bisect.ConfirmParent); why != "" {
			out.Confirmed = false
			v = bisect.Verdict{Call: bisect.Untestable, Class: bisect.Skip, Probability: 1, Why: why, Trials: 1}
			f.r.out.warn(fmt.Sprintf("parent %s could not be tested (%s): that it is good is inferred from later good commits", bisect.ShortID(p), why))
		}
		f.r.out.judged(bisect.Step{Commit: p, Role: bisect.RoleParent, Verdict: v, Remaining: 1})
	}
	if !out.Confirmed {
		out.Confidence = min(out.Confidence, 0.9)
	}
}

// warnContradictions says how many launches of commits that are good by the answer failed all the same.
func (f *failureProof) warnContradictions(out *bisect.Culprit) {
	b := f.r.b.(*belief.Failures)
	k := f.r.span.index[out.Commit]
	var all belief.Tally
	example := ""
	for _, i := range b.Tested() {
		if t := b.Of(i); !bisect.Ancestors(f.r.span.commits, i)[k] {
			if all = all.Plus(t); t.Fails > 0 && example == "" {
				example = ", such as " + bisect.ShortID(f.r.span.id(i))
			}
		}
	}
	all = all.Plus(f.r.led.tally(f.q, f.r.span.good.Commit, ""))
	if all.Fails > 0 {
		f.r.out.warn(fmt.Sprintf("%d of %s of commits that are good by this answer failed as well%s", all.Fails, words.Count(all.Launches(), "launch"), example))
	}
}

// asProof makes the launch of commit i count for the proof as well, where the likeliest culprit is all but sure: it is
// a parent of that culprit, or has the inputs of one as long as launches of equal inputs ended alike. It does nothing
// (false) where that cannot be launched from a clean build. The culprit itself is launched for the proof only once
// the search has decided: that launch checks the decision.
func (q *failure) asProof(r *run, i int) (made bool, err error) {
	b := r.b.(*belief.Failures)
	p := b.Posterior()
	k := p.Top()
	if i < 0 || p.Weight[k] <= 0.9 {
		return false, nil
	}
	for _, id := range r.span.commits[k].Parents {
		at := r.span.place(id)
		alike := at == i || at >= 0 && slices.Contains(r.span.equalTo(at), i) && q.alwaysAlike(r, b)
		if alike && q.lost(r, id, bisect.ConfirmParent) == "" {
			_, err := r.try(id, bisect.ConfirmParent)
			return true, err
		}
	}
	return false, nil
}

// alwaysAlike reports that all launches of equal inputs ended alike so far.
func (q *failure) alwaysAlike(r *run, b *belief.Failures) bool {
	seen := map[string]belief.Tally{}
	for _, i := range b.Tested() {
		id := cmp.Or(r.span.commits[i].Key, r.span.commits[i].ID)
		seen[id] = seen[id].Plus(b.Of(i))
		if t := seen[id]; t.Fails > 0 && t.Passes > 0 {
			return false
		}
	}
	return true
}
