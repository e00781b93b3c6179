package judge

import (
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// over says why nothing more may be launched, or "".
func (w *flakySearch) over() string {
	switch {
	case w.s.Spent != nil && w.s.Spent():
		w.f.Spent = true
		return "the budget is used up"
	case w.odd >= maxOdd:
		return fmt.Sprintf("%d launches in a row told nothing about the complaint", w.odd)
	case len(w.plain.trials)-w.from >= maxWeighed:
		return fmt.Sprintf("%d launches did not settle it", maxWeighed)
	}
	return ""
}

// giveUp ends the search with what is known, unless trials that were stopped early are to blame:
// then it begins again with the whole limit, and is not done.
func (w *flakySearch) giveUp(why string) (done bool) {
	if !w.f.Spent && !w.plain.patient && w.plain.trials.alwaysEarly() {
		w.takeTime("the search came to no proof and rests on trials that were stopped before their limit: those are made again with the whole limit")
		return false
	}
	if !w.f.Spent {
		w.warn("no commit is proven: " + why)
	}
	w.suspects()
	return true
}

// suspects lists who may be to blame: the likeliest commits that together are it almost surely.
func (w *flakySearch) suspects() {
	w.f.Result, w.f.Suspects = bisect.Inconclusive, []bisect.SuspectCommit{}
	for _, s := range w.ev.Posterior().Credible(credible) {
		w.f.Suspects = append(w.f.Suspects, w.suspect(s.Index, s.Probability))
	}
}

// suspect puts a suspect into the terms of a finding.
func (w *flakySearch) suspect(i int, p float64) bisect.SuspectCommit {
	s := bisect.SuspectCommit{Commit: w.commits[i].ID, Probability: p}
	if !w.usable[i] {
		s.Why = "untestable"
		for _, t := range w.plain.trials {
			if t.Candidate.Commit == s.Commit {
				s.Why = w.plain.read.verdict(t.Outcome, 1).Why
			}
		}
	}
	return s
}

// proveAlike makes the next launch of the bad end that "the ends do not differ" still needs: it may
// fail often all the same, for a reason that no commit in question explains.
func (w *flakySearch) proveAlike(b belief.Posterior) (done bool, err error) {
	last := w.commits[len(w.commits)-1].ID
	if w.plain.trials.runs(w.plain.read, last, "").Launches() >= rareTries {
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
func (w *flakySearch) endsAlike(b belief.Posterior) {
	w.f.Result, w.f.Ends.Differ = bisect.NoDifference, false
	w.f.Ends.Why = fmt.Sprintf("failures come as often at the good end as at the bad one: %d in %d launches of all commits", b.All.Fails, b.All.Launches())
	w.f.Ends.OtherGood = true
	w.f.Ends.Hint = "name an older good end with --good, or a bad end that fails more often with --bad"
}

// unproven is the most that a fast search states: at the rates for which it is worst, that of a half, so
// many of its answers are right. See TestFastIsAsSureAsItSays.
const unproven = 0.98

// conclude names the culprit, or the set that no launch can part.
func (w *flakySearch) conclude(b belief.Posterior, set []int, parents []string) {
	if len(set) > 1 {
		w.f.Result, w.f.Suspects = bisect.Inconclusive, nil
		total := sum(b.Weight, set)
		for _, i := range set {
			w.f.Suspects = append(w.f.Suspects, w.suspect(i, b.Weight[i]/total))
		}
		return
	}
	k := set[0]
	c := w.commits[k]
	out := bisect.Culprit{
		Commit: c.ID, Parents: c.Parents, Merge: len(c.Parents) > 1,
		Class: w.plain.read.complaint.Class, Phase: w.plain.read.complaint.Phase, Confidence: b.Weight[k], Confirmed: true,
	}
	if bad := b.Bad[k]; bad.Passes > 0 {
		out.Rate = &bisect.Rate{Failed: bad.Fails, Launches: bad.Launches()}
	}
	last := w.plain.trials.lastFailure(w.plain.read, c.ID)
	if w.plain.read.complaint.Any || w.plain.read.complaint.AnyPhase {
		out.Class, out.Phase = last.Class, last.Phase
	}
	w.reportProof(&out, b, last, parents)
	if w.plain.Fast {
		out.Confirmed, out.Confidence = false, min(out.Confidence, unproven)
		w.warn("not proven, as --fast asks: the culprit was not launched again from a clean build at its full limit\nhint: without --fast the proof is made")
	}
	w.f.Result, w.f.Culprits = bisect.Found, []bisect.Culprit{out}
}

// reportProof tells what the launches of the proof showed, and what could not be launched for it.
func (w *flakySearch) reportProof(out *bisect.Culprit, b belief.Posterior, last bisect.Outcome, parents []string) {
	v := w.plain.read.verdict(last, b.Bad[w.index[out.Commit]].Launches())
	v.Trials, v.Probability = w.plain.trials.runs(w.plain.read, out.Commit, "").Launches(), out.Confidence
	why := w.lost[launchKey{out.Commit, bisect.ConfirmCulprit}]
	if w.plain.trials.runs(w.plain.read, out.Commit, bisect.ConfirmCulprit).Fails == 0 && why != "" {
		out.Confirmed = false
		v.Call, v.Why = bisect.Untestable, why
		w.warn(fmt.Sprintf("culprit %s could not be tested again: %s", bisect.ShortID(out.Commit), why))
	}
	w.step(bisect.Step{Commit: out.Commit, Role: bisect.RoleCulprit, Verdict: v, Remaining: 1})
	for _, p := range parents {
		runs := w.plain.trials.runs(w.plain.read, p, "")
		v := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: out.Confidence, Trials: runs.Launches()}
		v.Why = fmt.Sprintf("ok in %d launches", runs.Passes)
		if runs.Passes == 1 {
			v.Why = "ok in 1 launch"
		}
		if runs.Fails > 0 {
			v.Why += fmt.Sprintf(" of %d", runs.Launches())
		}
		if why := w.lost[launchKey{p, bisect.ConfirmParent}]; why != "" && w.plain.trials.runs(w.plain.read, p, bisect.ConfirmParent).Passes == 0 {
			out.Confirmed = false
			v = bisect.Verdict{Call: bisect.Untestable, Class: bisect.Skip, Probability: 1, Why: why, Trials: 1}
			w.warn(fmt.Sprintf("parent %s could not be tested (%s): that it is good is inferred from later good commits", bisect.ShortID(p), why))
		}
		w.step(bisect.Step{Commit: p, Role: bisect.RoleParent, Verdict: v, Remaining: 1})
	}
	if !out.Confirmed {
		out.Confidence = min(out.Confidence, 0.9)
	}
}
