package judge

import (
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/bisect"
)

// over says why nothing more may be launched, or "".
func (w *weighing) over() string {
	switch {
	case w.s.Spent != nil && w.s.Spent():
		w.f.Spent = true
		return "the budget is used up"
	case w.odd >= maxOdd:
		return fmt.Sprintf("%d launches in a row told nothing about the complaint", w.odd)
	case len(w.trials)-w.from >= maxWeighed:
		return fmt.Sprintf("%d launches did not settle it", maxWeighed)
	}
	return ""
}

// giveUp ends the search with what is known, unless trials that were stopped early are to blame:
// then it begins again with the whole limit, and is not done.
func (w *weighing) giveUp(why string) (done bool) {
	if !w.f.Spent && !w.patient && w.mayBeSlow() {
		w.takeTime("the search came to no proof and rests on trials that were stopped before their limit: those are made again with the whole limit")
		return false
	}
	if !w.f.Spent {
		w.warn("no commit is proven: " + why)
	}
	w.suspects()
	return true
}

// mayBeSlow reports a commit that was stopped early every time it was launched: it may be slow and pass.
func (w *weighing) mayBeSlow() bool {
	const often = 3
	early, other := map[string]int{}, map[string]bool{}
	for _, t := range w.trials {
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

// suspects lists who may be to blame: the likeliest commits that together are it almost surely.
func (w *weighing) suspects() {
	w.f.Result, w.f.Suspects = bisect.Inconclusive, []bisect.SuspectCommit{}
	for _, s := range w.ev.belief().credible(credible) {
		w.f.Suspects = append(w.f.Suspects, w.suspect(s.Index, s.Probability))
	}
}

// suspect puts a suspect into the terms of a finding.
func (w *weighing) suspect(i int, p float64) bisect.SuspectCommit {
	s := bisect.SuspectCommit{Commit: w.commits[i].ID, Probability: p}
	if !w.usable[i] {
		s.Why = "untestable"
		for _, t := range w.trials {
			if t.Candidate.Commit == s.Commit {
				s.Why = w.verdict(t.Outcome, 1).Why
			}
		}
	}
	return s
}

// proveAlike makes the next launch of the bad end that "the ends do not differ" still needs: it may
// fail often all the same, for a reason that no commit in question explains.
func (w *weighing) proveAlike(b belief) (done bool, err error) {
	last := w.commits[len(w.commits)-1].ID
	if w.runs(last, "").launches() >= rareTries {
		w.endsAlike(b)
		return true, nil
	}
	if why := w.over(); why != "" {
		return w.giveUp(why), nil
	}
	_, err = w.try(last, bisect.EndBad)
	return false, err
}

// endsAlike ends a search that found the failures to come as often at both ends.
func (w *weighing) endsAlike(b belief) {
	w.f.Result, w.f.Ends.Differ = bisect.NoDifference, false
	w.f.Ends.Why = fmt.Sprintf("failures come as often at the good end as at the bad one: %d in %d launches of all commits", b.all.fails, b.all.launches())
	w.f.Ends.Hint = "name an older good end with --good, or a bad end that fails more often with --bad"
}

// unproven is the most that a fast search states: at the rates for which it is worst, that of a half, so
// many of its answers are right. See TestFastIsAsSureAsItSays.
const unproven = 0.98

// conclude names the culprit, or the set that no launch can part.
func (w *weighing) conclude(b belief, set []int, parents []string) {
	if len(set) > 1 {
		w.f.Result, w.f.Suspects = bisect.Inconclusive, nil
		total := sum(b.weight, set)
		for _, i := range set {
			w.f.Suspects = append(w.f.Suspects, w.suspect(i, b.weight[i]/total))
		}
		return
	}
	k := set[0]
	c := w.commits[k]
	out := bisect.Culprit{
		Commit: c.ID, Parents: c.Parents, Merge: len(c.Parents) > 1,
		Class: w.complaint.Class, Phase: w.complaint.Phase, Confidence: b.weight[k], Confirmed: true,
	}
	if bad := b.bad[k]; bad.passes > 0 {
		out.Rate = &bisect.Rate{Failed: bad.fails, Launches: bad.launches()}
	}
	last := w.lastFailure(c.ID)
	if w.complaint.Any || w.complaint.AnyPhase {
		out.Class, out.Phase = last.Class, last.Phase
	}
	w.reportProof(&out, b, last, parents)
	if w.Fast {
		out.Confirmed, out.Confidence = false, min(out.Confidence, unproven)
		w.warn("not proven, as --fast asks: the culprit was not launched again from a clean build at its full limit\nhint: without --fast the proof is made")
	}
	w.f.Result, w.f.Culprits = bisect.Found, []bisect.Culprit{out}
}

// lastFailure is the last launch of a commit that showed the complaint.
func (w *weighing) lastFailure(id string) (o bisect.Outcome) {
	for _, t := range w.trials {
		if t.Candidate.Commit == id && w.shows(t.Outcome).fails > 0 {
			o = t.Outcome
		}
	}
	return o
}

// reportProof tells what the launches of the proof showed, and what could not be launched for it.
func (w *weighing) reportProof(out *bisect.Culprit, b belief, last bisect.Outcome, parents []string) {
	v := w.verdict(last, b.bad[w.index[out.Commit]].launches())
	v.Trials, v.Probability = w.runs(out.Commit, "").launches(), out.Confidence
	why := w.lost[launchKey{out.Commit, bisect.ConfirmCulprit}]
	if w.runs(out.Commit, bisect.ConfirmCulprit).fails == 0 && why != "" {
		out.Confirmed = false
		v.Call, v.Why = bisect.Untestable, why
		w.warn(fmt.Sprintf("culprit %s could not be tested again: %s", short(out.Commit), why))
	}
	w.step(bisect.Step{Commit: out.Commit, Role: bisect.RoleCulprit, Verdict: v, Remaining: 1})
	for _, p := range parents {
		runs := w.runs(p, "")
		v := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: out.Confidence, Trials: runs.launches()}
		v.Why = "ok in " + strings.TrimSuffix(fmt.Sprintf("%d launches", runs.passes), map[bool]string{true: "es"}[runs.passes == 1])
		if runs.fails > 0 {
			v.Why += fmt.Sprintf(" of %d", runs.launches())
		}
		if why := w.lost[launchKey{p, bisect.ConfirmParent}]; why != "" && w.runs(p, bisect.ConfirmParent).passes == 0 {
			out.Confirmed = false
			v = bisect.Verdict{Call: bisect.Untestable, Class: bisect.Skip, Probability: 1, Why: why, Trials: 1}
			w.warn(fmt.Sprintf("parent %s could not be tested (%s): that it is good is inferred from later good commits", short(p), why))
		}
		w.step(bisect.Step{Commit: p, Role: bisect.RoleParent, Verdict: v, Remaining: 1})
	}
	if !out.Confirmed {
		out.Confidence = min(out.Confidence, 0.9)
	}
}
