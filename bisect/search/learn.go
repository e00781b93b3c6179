package search

import (
	"maps"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// learned is what the launches of a ledger have opened, and which commits change it. It is a guess, since a
// commit may read what none before it has read. So it narrows the search, never proves anything, and is dropped as
// soon as launches contradict it.
type learned struct {
	opened   map[string]bool
	ends     [2]bool           // good, bad: a launch has told what it opened
	same     map[string][]bool // by commit: from which of its parents it differs in nothing of that
	of       int               // len(opened) when same was made; -1: launches have contradicted it
	latest   map[string][]bool // like same, as soon as one end has told; builds ahead follow it
	compared int               // len(opened) when latest was made
}

// take takes in a launch.
func (l *learned) take(t Trial) {
	if t.Opened == nil {
		return
	}
	if l.opened == nil {
		l.opened = map[string]bool{}
	}
	for _, at := range t.Opened {
		l.opened[at] = true
	}
	l.ends[0] = l.ends[0] || t.Purpose == bisect.EndGood
	l.ends[1] = l.ends[1] || t.Purpose == bisect.EndBad
}

// In a large range, commits are compared with what was opened only where that costs less than one launch of an end.
const (
	alwaysCompared = 256    // commits
	compareSeconds = 0.0005 // of one commit with its parents
)

// compare asks Search.Same again if more was opened since it was last asked, and reports whether latest follows what was
// opened.
func (l *learned) compare(r *Run) bool {
	if r.Search.Same == nil || l.of < 0 || len(l.opened) == l.compared {
		return l.latest != nil
	}
	if n := len(r.Search.Commits); n > alwaysCompared && float64(n)*compareSeconds > longest(r.Ledger.Made) {
		return false
	}
	l.compared, l.latest = len(l.opened), map[string][]bool{}
	for i, same := range r.Search.Same(slices.Sorted(maps.Keys(l.opened))) {
		l.latest[r.Search.Commits[i].ID] = same
	}
	return true
}

// refresh lets same follow what was opened. Both ends must have told that: what only the bad side reads is where
// the culprit may be.
func (l *learned) refresh(r *Run) {
	if l.of >= 0 && l.ends[0] && l.ends[1] && l.compare(r) {
		l.of, l.same = l.compared, l.latest
	}
}

// ForeseeLearned forecasts again where an end has opened what was not known: the builds ahead need not wait for the
// other end, whose launch may be a long one.
func ForeseeLearned(r *Run) {
	if l, before := &r.Ledger.learned, r.Ledger.learned.compared; l.compare(r) && l.compared != before {
		r.Foresee(belief.GoodEnd)
	}
}

// expected is the prior of the commits, as far as an end has told what it opens.
func expected(r *Run) []float64 {
	out := slices.Clone(r.Span.Prior)
	for i, c := range simplify(r.Span, r.Ledger.learned.latest) {
		if c.Neutral {
			out[i] = 0
		}
	}
	if slices.Max(out) == 0 {
		return r.Span.Prior
	}
	return out
}

// longest is what the longest launch of an end took, with its build, in seconds. It is infinite where an end came from
// the build cache: then the cost of later builds is unknown.
func longest(made []Trial) (most float64) {
	for _, t := range made {
		switch {
		case !t.Purpose.IsEnd():
		case t.CacheHit: // it says nothing about later builds
			return math.Inf(1)
		default:
			most = max(most, t.Build+t.Wall)
		}
	}
	return most
}

// learn leaves out the commits that change nothing of what has been opened so far, and takes back those that touch
// what was opened since. If then no commit is left that explains the launches, all are taken back.
func learn(r *Run) {
	l := &r.Ledger.learned
	l.refresh(r)
	if l.of > 0 && !explained(r) {
		r.Unlearn("no single commit that changes a file that was opened explains the launches")
	}
	if r.Span.learned == l.of {
		return
	}
	if r.Span.learned = l.of; !r.Span.narrow(l.same) {
		return
	}
	if !r.Span.Blind || !r.Unlearn("the ends differ, and no commit changes a file that their builds and launches opened") {
		anew(r)
	}
}

// explained reports whether a single commit with a prior can explain the launches: one that all failed commits have as
// an ancestor or are themselves, and no passed one. About numbers that is left to the proof, since one launch does not
// tell which side a commit is on.
func explained(r *Run) bool {
	if r.Question.Rules().Timed {
		return true
	}
	type answer struct {
		at     int
		failed bool
	}
	may, seen := slices.Clone(r.Span.Prior), map[answer]bool{}
	for _, t := range r.Ledger.Made {
		i, known := r.Span.Index[t.Candidate.Commit]
		l, a := r.Question.Read(t)
		x := answer{i, l.Failed}
		if !known || i < 0 || t.Void || a != Speaks || !r.Span.Within[i] || seen[x] {
			continue
		}
		seen[x] = true
		for k, in := range bisect.Ancestors(r.Span.Commits, i) {
			if in != l.Failed {
				may[k] = 0
			}
		}
	}
	return slices.Max(may) > 0
}

// Unlearn takes back all commits that were left out by what was learned, for the rest of the search; it returns false
// if there are none. The launches stay. why says how they contradict it, for the warning; it is "" where they only
// leave it in doubt.
func (r *Run) Unlearn(why string) bool {
	l := &r.Ledger.learned
	if l.of < 0 || !r.Span.narrow(nil) {
		return false
	}
	l.of, r.Span.learned, l.same, l.latest = -1, -1, nil, nil
	if why != "" {
		r.Account.Warn(why + ": something is read that was not seen, so every commit was searched")
	}
	anew(r)
	return true
}

// anew makes the belief of the run again from its launches, after the set of commits that can be the culprit has
// changed.
func anew(r *Run) {
	r.report()
	r.Count()
	r.Begin(r.Question.Belief(r))
}

// Count records in the finding how many commits of the range can be the culprit.
func (r *Run) Count() {
	f, p := &r.Account.Finding, r.Span
	p.narrow(r.Ledger.learned.same)
	f.Range, f.Matter, f.Unread, f.Misread = len(p.Commits), 0, 0, r.Ledger.learned.of < 0
	for i, c := range p.Commits {
		if !c.Neutral {
			f.Matter++
		} else if p.LeftOut(i) {
			f.Unread++
		}
	}
}

// LeftOut reports whether commit i is neutral only by what was learned, not by its declared inputs.
func (p *Span) LeftOut(i int) bool {
	return i >= 0 && p.Commits[i].Neutral && !p.declared[i].Neutral
}

// narrow makes those commits neutral that do not count by what was learned, and reports whether that changes any. With
// nil it takes everything learned back.
func (p *Span) narrow(same map[string][]bool) (changed bool) {
	for i, now := range simplify(p, same) {
		changed = changed || now.Neutral != p.Commits[i].Neutral || now.Key != p.Commits[i].Key
		p.Commits[i] = now
	}
	if changed {
		p.Clear()
	}
	return changed
}

// simplify returns the commits of a span as git log simplifies a history. Those that differ from their parents in nothing
// that was opened are neutral, besides those of equal declared inputs, and so is a merge that does not differ from one
// parent that descends from the good end: what its other parents bring does not count then. A commit that is like a
// parent gets its key, so that they share their launches.
func simplify(p *Span, same map[string][]bool) []bisect.Commit {
	out := slices.Clone(p.declared)
	if len(same) == 0 {
		return out
	}
	onward, counts := make([]bool, len(out)), make([]bool, len(out)) // they descend from the good end; the bad end from them
	for i, c := range out {
		onward[i] = slices.Contains(c.Parents, p.Good.Commit) || slices.ContainsFunc(c.InRange, func(k int) bool { return onward[k] })
	}
	counts[len(out)-1] = true
	like := map[int]int{} // the parent that a commit is like
	for i, c := range slices.Backward(out) {
		if !counts[i] {
			out[i].Neutral = true
			continue
		}
		differs := len(c.Parents) == 0
		for n, id := range c.Parents {
			k, known := p.Index[id]
			if n < len(same[c.ID]) && same[c.ID][n] || known && c.Neutral && c.Key != "" && p.keyAt(p.declared, k) == c.Key {
				if _, ok := like[i]; known && (k < 0 || onward[k]) && !ok {
					like[i] = k
				}
			} else {
				differs = true
			}
		}
		k, found := like[i]
		out[i].Neutral = c.Neutral || !differs || found
		switch {
		case !found:
			for _, k := range c.InRange {
				counts[k] = true
			}
		case k >= 0:
			counts[k] = true
		}
	}
	for i := range out {
		if k, ok := like[i]; ok && p.keyAt(out, k) != "" {
			out[i].Key = p.keyAt(out, k)
		}
	}
	return out
}

// keyAt is the key of the commit with an index among those of a span, GoodEnd included.
func (p *Span) keyAt(commits []bisect.Commit, i int) string {
	if i < 0 {
		return p.GoodKey
	}
	return commits[i].Key
}
