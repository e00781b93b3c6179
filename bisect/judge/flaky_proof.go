package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

const (
	enoughPasses = 5   // of a parent that a proof needs at least, those of the search among them; a fast search makes none
	credibleBad  = 0.9 // below 1 minus this, a commit is not believed to be bad
)

// prove makes the next launch that the claim "the change lies in this set" still needs, each parent
// first, and the culprit at its full limit last, since it costs most, or not at all in a fast search. What contradicts the claim goes
// into the evidence like any launch. done when the claim is proven, or cannot be.
func (w *flakySearch) prove(b belief.Posterior, set []int) (done bool, err error) {
	if why := w.over(); why != "" {
		return w.giveUp(why), nil
	}
	culprit, parents := w.sides(set)
	m := w.enough(b, set[0])
	for _, p := range parents {
		if w.lost[launchKey{p, bisect.ConfirmParent}] != "" || w.cleared(b, set[0], p, m) {
			continue
		}
		return w.tryParent(set[0], culprit, p)
	}
	runs := w.plain.trials.runs(w.plain.read, culprit, bisect.ConfirmCulprit)
	switch {
	case w.plain.Fast || runs.Fails > 0 || w.lost[launchKey{culprit, bisect.ConfirmCulprit}] != "":
		w.conclude(b, set, parents)
		return true, nil
	case runs.Launches() >= m:
		return w.giveUp(fmt.Sprintf("commit %s did not show the complaint in %d launches from a clean build", bisect.ShortID(culprit), runs.Launches())), nil
	}
	return false, w.tryCulprit(b, set[0], culprit)
}

// enough is how often a parent must have passed if commit k is the culprit.
func (w *flakySearch) enough(b belief.Posterior, k int) int {
	least := enoughPasses
	if w.plain.Fast {
		least = 1
	}
	return max(least, int(math.Ceil(math.Log(w.delta())/math.Log(1-b.Rate(k)))))
}

// cleared reports that a parent has passed often enough, from a clean build too but in a fast search, and that its own
// launches say so whatever is believed of the others: one accident takes many passes.
func (w *flakySearch) cleared(b belief.Posterior, k int, p string, m int) bool {
	runs := w.plain.trials.runs(w.plain.read, p, "")
	return (w.plain.Fast || w.plain.trials.runs(w.plain.read, p, bisect.ConfirmParent).Passes > 0) && runs.Passes >= m &&
		(runs.Fails == 0 || b.SpeaksBad(k, runs) <= math.Log(w.delta()))
}

// sides returns the commits to launch for a set: the culprit and its parents, or the nearest commits
// around a set of several that cannot be told apart.
func (w *flakySearch) sides(set []int) (culprit string, parents []string) {
	if c := w.commits[set[0]]; len(set) == 1 && w.usable[set[0]] {
		return c.ID, c.Parents
	}
	after, before := len(w.commits)-1, w.s.Good.Commit
	reaches := func(i int, every bool) bool {
		in := bisect.Ancestors(w.commits, i)
		return slices.ContainsFunc(set, func(k int) bool { return in[k] != every }) != every
	}
	for i := len(w.commits) - 1; i >= 0; i-- {
		if w.launchable(i) && reaches(i, true) {
			after = i
		}
	}
	for i, in := range bisect.Ancestors(w.commits, after) {
		if in && w.launchable(i) && !reaches(i, false) {
			before = w.commits[i].ID
		}
	}
	return w.commits[after].ID, []string{before}
}

// sameInputsPassed reports that a commit with the inputs of commit i, or the good end with them, has
// passed.
func (w *flakySearch) sameInputsPassed(i int) bool {
	key := w.commits[i].Key
	return key != "" && (key == w.s.GoodKey || slices.ContainsFunc(w.ev.Tested(), func(c int) bool {
		return c != i && w.commits[c].Key == key && w.ev.Of(c).Passes > 0
	}))
}

// tryParent launches a parent from a clean build. One that fails by its own launches, although that
// would be next to impossible whichever single change is to blame, says that an assumption is wrong.
func (w *flakySearch) tryParent(k int, culprit, p string) (done bool, err error) {
	o, err := w.try(p, bisect.ConfirmParent)
	if err != nil {
		return false, err
	}
	v := w.plain.read.verdict(o, 1)
	if v.Call != bisect.Bad {
		return false, nil
	}
	w.step(bisect.Step{Commit: p, Role: bisect.RoleParent, Verdict: v, Remaining: len(w.ev.Posterior().Credible(credible))})
	runs, i, b := w.plain.trials.runs(w.plain.read, p, ""), w.place(p), w.ev.Posterior()
	switch {
	case runs.Fails < 2 || b.SpeaksBad(k, runs) < -math.Log(w.delta()):
		return false, nil
	case i < 0 && p != w.s.Good.Commit:
		w.warn(fmt.Sprintf("commit %s lies before the range: the complaint is older than the good end on that branch; try an earlier good end", bisect.ShortID(p)))
		w.f.Result = bisect.Inconclusive
		w.f.Suspects = []bisect.SuspectCommit{{Commit: culprit, Probability: 1, Why: "its parent before the range is bad too"}}
		return true, nil
	case i < 0 || w.ev.Bad(b, i) > 1-credibleBad:
		return false, nil // believed as well
	case w.sameInputsPassed(i):
		w.distrustKeys(p)
	default:
		w.keepTo(i)
	}
	return false, nil
}

// tryCulprit launches the culprit from a clean build at its full limit. When it passes there although
// it always failed before, it is launched again: a build that lied passes every time, and a complaint
// that shows only sometimes comes back.
func (w *flakySearch) tryCulprit(b belief.Posterior, k int, culprit string) error {
	always, patient := b.Bad[k].Passes == 0, w.plain.patient
	for n := 1; ; n++ {
		o, err := w.try(culprit, bisect.ConfirmCulprit)
		if err != nil {
			return err
		}
		v := w.plain.read.verdict(o, 1)
		if v.Call != bisect.Good {
			return nil
		}
		w.step(bisect.Step{Commit: culprit, Role: bisect.RoleCulprit, Verdict: v, Remaining: len(w.ev.Posterior().Credible(credible))})
		if !always || w.redone || w.plain.patient != patient || w.over() != "" {
			return nil
		}
		if rare := b.Bad[k].Plus(belief.Tally{Passes: n}); math.Exp(belief.LogRate(rare)-belief.LogRate(b.Bad[k])) < w.delta() {
			break
		}
	}
	last := w.commits[len(w.commits)-1]
	if c := w.commits[k]; c.ID != last.ID && c.Key != "" && c.Key == last.Key {
		w.distrustKeys(c.ID)
		return nil
	}
	w.warn(fmt.Sprintf("commit %s looked bad in the search and is good from a clean build: searching again from clean builds", bisect.ShortID(culprit)))
	w.redo()
	return nil
}

// redo forgets what builds showed that were not clean, but for the ends.
func (w *flakySearch) redo() {
	w.redone = true
	w.plain.trials = slices.DeleteFunc(w.plain.trials, func(t trial) bool { return t.Purpose == bisect.Searching })
	if w.s.Redo != nil {
		w.s.Redo()
	}
	w.rebuild()
}

// distrustKeys begins anew with every commit a candidate of its own: two commits of equal inputs
// behaved differently, so something else than the declared inputs matters.
func (w *flakySearch) distrustKeys(id string) {
	w.warn(fmt.Sprintf("commits of equal inputs behave differently, such as %s: the paths given leave out something that build or run read, so every commit was searched\nhint: add what is missing to paths (--path)", bisect.ShortID(id)))
	for i := range w.commits {
		w.commits[i].Key, w.commits[i].Neutral = "", false
	}
	w.f.Matter = len(w.commits)
	w.redo()
}

// liedEarly reports that a launch took longer, and passed, than one of the same commit that was
// stopped early because no good one could take so long.
func (w *flakySearch) liedEarly(id string, o bisect.Outcome) bool {
	return slices.ContainsFunc(w.plain.trials, func(t trial) bool {
		return t.Candidate.Commit == id && t.Early && t.Wall < o.Wall
	})
}

// takeTime forgets the trials that were in a hurry, those that passed too, lest the passes be left without
// the failures; from now on none is.
func (w *flakySearch) takeTime(why string) {
	w.warn(why)
	w.plain.Patient()
	w.plain.trials = slices.DeleteFunc(w.plain.trials, func(t trial) bool { return t.Hurry != "" })
	w.from = len(w.plain.trials)
	w.rebuild()
}

// oddTwins looks for two commits of equal inputs of which one only failed and the other only passed.
// They are launched by turns until that is chance no more, or is seen to be chance.
func (w *flakySearch) oddTwins() (acted bool, err error) {
	const rarely = 3 // log odds against paths that leave something out, before any launch
	for _, bad := range w.ev.Tested() {
		for _, good := range w.ev.Tested() {
			f, p := w.ev.Of(bad), w.ev.Of(good)
			if key := w.commits[bad].Key; key == "" || key != w.commits[good].Key || f.Passes > 0 || p.Fails > 0 {
				continue
			}
			if belief.LogBad(f)+belief.LogGood(p)-belief.LogRate(f.Plus(p)) >= rarely-math.Log(w.delta()) {
				w.distrustKeys(w.commits[bad].ID)
				return true, nil
			}
			i := bad
			if p.Launches() < f.Launches() {
				i = good
			}
			why := bisect.Searching
			if i == len(w.commits)-1 {
				why = bisect.EndBad
			}
			_, err := w.try(w.commits[i].ID, why)
			return true, err
		}
	}
	return false, nil
}

// manyChanges looks for two commits that no single change explains, at whatever rate: one that failed
// every time below one that never did. Then the range holds several changes, and the search keeps to the
// older one.
func (w *flakySearch) manyChanges() bool {
	strong := func(i int, t belief.Tally) bool {
		return w.ev.Of(i) == t || w.ev.Of(i).Launches() > strongCount && (w.ev.Of(i).Fails == 0) == (t.Fails == 0) && (w.ev.Of(i).Passes == 0) == (t.Passes == 0)
	}
	for _, bad := range w.ev.Tested() {
		if !strong(bad, belief.Tally{Fails: strongCount}) {
			continue
		}
		for _, good := range w.ev.Tested() {
			if !strong(good, belief.Tally{Passes: strongCount}) {
				continue
			}
			if bisect.Ancestors(w.commits, good)[bad] {
				w.keepTo(bad)
				return true
			}
		}
	}
	return false
}

// keepTo makes commit bad the bad end.
func (w *flakySearch) keepTo(bad int) {
	w.warn(fmt.Sprintf("commit %s is bad although a later one is good: the range holds more than one change of this kind", bisect.ShortID(w.commits[bad].ID)))
	w.within = bisect.Ancestors(w.commits, bad)
	w.rebuild()
}
