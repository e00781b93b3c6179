package search

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// learned is what the launches of a ledger have opened, and which commits change it. It is a guess, since a commit may
// read what none before it has read. So it narrows the search, never proves anything, and is dropped as soon as launches
// contradict it.
type learned struct {
	opened   map[string]bool
	ends     [2]bool     // good, bad: a launch has told what it opened
	differs  differences // in what was opened
	of       int         // the number of differs, see asked; -1: launches have contradicted it
	latest   differences // like differs, as soon as one end has told; builds ahead follow it
	asked    int         // how often latest was asked for, which numbers it
	compared int         // len(opened) then
	worth    float64     // of a candidate then, seconds
	builds   [][2]string // commits that were not launched, each with the one that has an equal build
	apart    bool        // equal builds may not behave alike
}

// differences are those of commits, by their id, from each of their parents.
type differences map[string][]bisect.Difference

// nearby is how likely a commit is the culprit that differs only nearby, beside others: what it adds may be found by a
// pattern, or in place of another file.
const nearby = 0.1

// take takes in a launch.
func (l *learned) take(t Trial) {
	if t.Opened == nil {
		return
	}
	for _, at := range t.Opened {
		l.opened[at] = true
	}
	l.ends[0] = l.ends[0] || t.Purpose == bisect.EndGood
	l.ends[1] = l.ends[1] || t.Purpose == bisect.EndBad
}

// compareSeconds is about what comparing two commits takes.
const compareSeconds = 0.0005

// compare asks Search.Differs again if more was opened since it was last asked, and reports whether latest follows what was
// opened. each is what a candidate takes, in seconds: comparing must not cost more than the candidates that it saves.
func (l *learned) compare(r *Run, each float64) bool {
	if r.Search.Differs == nil || l.of < 0 || len(l.opened) == l.compared && (l.latest != nil || each < 2*l.worth) {
		return l.latest != nil
	}
	l.asked, l.compared, l.latest, l.worth = l.asked+1, len(l.opened), nil, each
	halving := int(min(each/compareSeconds, math.MaxInt32))
	for i, d := range r.Search.Differs(slices.Sorted(maps.Keys(l.opened)), halving) {
		if l.latest == nil {
			l.latest = make(differences, len(r.Search.Commits))
		}
		for n := range d {
			if r.Search.Fast && d[n] == bisect.Nearby { // no proof makes up for a guess
				d[n] = bisect.Different
			}
		}
		l.latest[r.Search.Commits[i].ID] = d
	}
	return l.latest != nil
}

// ForeseeLearned forecasts again where an end has opened what was not known: the builds ahead need not wait for the
// other end, whose launch may be a long one.
func ForeseeLearned(r *Run) {
	l, before := &r.Ledger.learned, r.Ledger.learned.asked
	if l.compare(r, longest(r.Ledger)) && l.asked != before {
		r.Foresee(belief.GoodEnd)
	}
}

// ForeseeOpened forecasts by what the build of an end has opened after so many seconds. That reaches nothing but the builds
// ahead, so that a resumed search, which does not hear of it, goes the same way.
func ForeseeOpened(r *Run, opened []string, after float64) {
	now, before, foreseen := &r.Ledger.learned, r.Ledger.learned, r.foreseen
	*now = learned{opened: map[string]bool{}}
	now.take(Trial{Outcome: bisect.Outcome{Opened: opened}})
	if foresees(r) && now.compare(r, after) {
		r.Foresee(belief.GoodEnd)
	}
	*now, r.foreseen = before, foreseen
}

// expected is the prior of the commits, as far as an end has told what it opens.
func expected(r *Run) []float64 {
	out := slices.Clone(r.Span.Prior)
	commits, factor := simplify(r.Span, r.Ledger.learned.latest)
	for i, c := range commits {
		if out[i] *= factor[i]; c.Neutral {
			out[i] = 0
		}
	}
	if slices.Max(out) == 0 {
		return r.Span.Prior
	}
	return out
}

// longest is what the longest launch of an end took, with its build, or all on average, in seconds. It is infinite where
// an end came from the build cache: then the cost of later builds is unknown.
func longest(l *Ledger) float64 {
	most := l.Pace()
	for _, t := range l.Made {
		if t.Purpose.IsEnd() && t.CacheHit { // it says nothing about later builds
			return math.Inf(1)
		} else if t.Purpose.IsEnd() {
			most = max(most, t.Build+t.Wall)
		}
	}
	return most
}

// learn leaves out the commits that change nothing of what has been opened so far, and takes back those that touch
// what was opened since. If then no commit is left that explains the launches, all are taken back.
func learn(r *Run) {
	l := &r.Ledger.learned
	// Both ends must have told what they open: what only the bad side reads is where the culprit may be.
	if l.of >= 0 && l.ends[0] && l.ends[1] && (l.compare(r, longest(r.Ledger)) || l.differs != nil) {
		l.of, l.differs = l.asked, l.latest
	}
	if l.of > 0 && !explained(r) {
		r.Unlearn("no single commit that changes a file that was opened explains the launches")
	}
	if r.Span.learned == l.of {
		return
	}
	if r.Span.learned = l.of; !r.Span.narrow(*l) {
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
	leftOut := func(c bisect.Commit) bool { return r.Span.LeftOut(r.Span.Index[c.ID]) }
	if l.of < 0 || len(l.builds) == 0 && !slices.ContainsFunc(r.Span.Commits, leftOut) {
		return false
	}
	l.of, r.Span.learned, l.differs, l.latest, l.builds, l.apart = -1, -1, nil, nil, nil, true
	r.Span.narrow(*l)
	if why != "" {
		r.Account.Warn(why + ": something is read that was not seen, so every commit was searched")
	}
	anew(r)
	return true
}

// takeEqual takes in that a commit was not launched, as it builds to what another one does: they behave alike, which clears
// those between them, unless every culprit is wanted: one may have been made good. The commit is launched if it is asked for again.
func takeEqual(r *Run, t Trial) {
	l, id := &r.Ledger.learned, t.Candidate.Commit
	if l.apart || r.Search.All {
		return
	}
	l.builds = append(l.builds, [2]string{id, t.Shared})
	if !r.Span.narrow(*l) || r.Span.Blind && r.Unlearn("no commit is left but those that build to what others do") {
		return
	}
	anew(r)
	v := r.Question.Verdict(r, Visit{At: r.Span.Place(id)})
	v.Why = fmt.Sprintf("not launched: its build is that of %s", bisect.ShortID(t.Shared))
	r.Account.Judged(bisect.Step{Commit: id, Role: bisect.RoleSearch, Verdict: v, Inferred: true, Remaining: Remaining(r), Belief: believed(r)})
}

// DoubtBuilds takes back, for the rest of the search, that commits of equal builds behave alike; it returns false where none was
// left out for that. The many launches around the commit that this led to go, too: they would outweigh those of the ends.
func DoubtBuilds(r *Run, why string) bool {
	l := &r.Ledger.learned
	if len(l.builds) == 0 {
		return false
	}
	l.builds, l.apart = nil, true
	r.Span.narrow(*l)
	r.Ledger.void(func(t Trial) bool { return r.Span.holds(t.Candidate.Commit) && !t.Purpose.IsEnd() })
	r.Account.Warn(why + ": commits with equal builds were launched after all")
	anew(r)
	return true
}

// equate gives commits of equal builds one key, as those of equal inputs have.
func equate(p *Span, commits []bisect.Commit, builds [][2]string) {
	for _, b := range builds {
		var keys [2]string
		for n, id := range b {
			if i, known := p.Index[id]; known && i >= 0 {
				keys[n] = commits[i].Key
			} else if known {
				keys[n] = p.GoodKey
			}
		}
		from, to := keys[0], keys[1]
		if from == p.GoodKey {
			from, to = to, from
		}
		for i := range commits {
			if from != "" && to != "" && commits[i].Key == from {
				commits[i].Key = to
			}
		}
	}
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
	p.narrow(r.Ledger.learned)
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

// narrow makes those commits neutral that do not count by what was learned, and those unlikely that differ only nearby,
// and reports whether that changes any. With nothing learned it takes all back.
func (p *Span) narrow(l learned) (changed bool) {
	commits, factor := simplify(p, l.differs)
	equate(p, commits, l.builds)
	for i, now := range commits {
		changed = changed || now.Neutral != p.Commits[i].Neutral || now.Key != p.Commits[i].Key
		p.Commits[i] = now
	}
	if changed = changed || !slices.Equal(factor, p.factor); changed {
		p.factor = factor
		p.Clear()
	}
	return changed
}

// simplify returns the commits of a span as git log simplifies a history. Those that differ from their parents in nothing
// that was opened are neutral, besides those of equal declared inputs, and so is a merge that does not differ from one
// parent that descends from the good end: what its other parents bring does not count then, unless it gets to the bad end
// otherwise. A commit that is like a parent gets its key, so that they share their launches. factor is that of each
// commit's prior; a merge that differs only nearby from one parent has brought no more than that.
func simplify(p *Span, d differences) (out []bisect.Commit, factor []float64) {
	out, factor = slices.Clone(p.declared), slices.Repeat([]float64{1}, len(p.declared))
	if len(d) == 0 {
		return out, factor
	}
	onward, counts := make([]bool, len(out)), make([]bool, len(out)) // they descend from the good end; the bad end from them
	for i, c := range out {
		onward[i] = slices.Contains(c.Parents, p.Good.Commit) || slices.ContainsFunc(c.InRange, func(k int) bool { return onward[k] })
	}
	counts[len(out)-1] = true
	none := len(out)
	like := slices.Repeat([]int{none}, len(out)) // the parent that a commit is like
	for i, c := range slices.Backward(out) {
		if !counts[i] {
			out[i].Neutral = true
			continue
		}
		same := 0 // of its parents
		for n, of := range d[c.ID] {
			switch k, known := p.Index[c.Parents[n]]; of {
			case bisect.Same:
				if same++; like[i] == none && known && (k < 0 || onward[k]) {
					like[i] = k
				}
			case bisect.Nearby:
				factor[i] = nearby
			}
		}
		for _, k := range c.InRange {
			counts[k] = counts[k] || like[i] == none || k == like[i]
		}
		out[i].Neutral = c.Neutral || like[i] != none || same > 0 && same == len(c.Parents)
	}
	keys := append([]string{p.GoodKey}, make([]string, none+1)...) // of the good end, of each commit, and of none
	for i, k := range like {
		out[i].Key = cmp.Or(keys[k+1], out[i].Key)
		keys[i+1] = out[i].Key
	}
	return out, factor
}
