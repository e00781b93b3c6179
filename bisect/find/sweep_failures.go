package find

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/search/question"
)

const (
	manyProbes = 16 // commits that a sweep looks at besides the ends and what is named
	maxNamed   = 12 // culprits; then the rest of the range is left alone
)

// failureSweep is the search for every culprit of complaints that show in the class of a launch: each segment of the
// range in which commits fail in one way has a commit that began it.
type failureSweep struct {
	r     *search.Run
	ended map[int]bisect.Outcome // what each commit ended as, by index
	tried map[segment]bool
	found []culprit
}

// segment is a good commit and a later one that is bad in one way, neighbours on the trunk among those that were
// judged. Both are indices; lo may be belief.GoodEnd.
type segment struct {
	lo, hi int
	kind   bisect.Complaint
}

// culprit is a culprit with its place and the complaint that began there.
type culprit struct {
	index int
	kind  bisect.Complaint
	bisect.Culprit
}

// sweepFailures goes on where a search has ended. Probes all over the range find what was introduced and fixed in
// between, and each way of failing that was met is searched for where it began. With probing false, it goes by the
// launches there are.
//
// Each search may add commits that fail in yet another way, so segments are picked one at a time until none is left; a
// segment is never tried twice.
func (j *job) sweepFailures(probing bool) error {
	k := &failureSweep{r: j.r, tried: map[segment]bool{}}
	for _, c := range j.r.Account.Finding.Culprits {
		k.found = append(k.found, culprit{j.r.Span.Index[c.Commit], j.r.Account.Finding.Complaint, c})
	}
	k.learn()
	if o, ok := k.ended[belief.GoodEnd]; !ok || o.Class != bisect.OK {
		return nil
	}
	whole := true
	if probing {
		var err error
		if whole, err = k.probe(); err != nil {
			return err
		}
	}
	var open []string
	for {
		s, ok := k.next()
		if !ok {
			break
		}
		k.tried[s] = true
		if j.r.Over() != "" || len(k.found) >= maxNamed {
			open = append(open, fmt.Sprintf("%s from %s to %s", s.kind, bisect.ShortID(j.r.Span.Id(s.lo)), bisect.ShortID(j.r.Span.Id(s.hi))))
			continue
		}
		if err := k.search(s); err != nil {
			return err
		}
	}
	k.conclude(open, probing, whole)
	return nil
}

// learn gathers how the commits ended, from all launches that name one: a commit counts as failing when it failed at
// least as often as not. A failure that was stopped early gives way to one that was not.
func (k *failureSweep) learn() {
	k.ended = map[int]bisect.Outcome{}
	balance := map[int]int{}
	for _, t := range k.r.Ledger.Made {
		i, known := k.r.Span.Index[t.Candidate.Commit]
		if !known {
			continue
		}
		old, seen := k.ended[i]
		switch {
		case t.Class == bisect.OK:
			balance[i]++
		case !seen || old.Class == bisect.OK || old.Early:
			k.ended[i] = t.Outcome
			balance[i]--
		default:
			balance[i]--
		}
		if !seen && t.Class == bisect.OK {
			k.ended[i] = t.Outcome
		}
	}
	for i, n := range balance {
		if n > 0 {
			k.ended[i] = bisect.Outcome{Class: bisect.OK, Phase: k.ended[i].Phase}
		}
	}
}

// probe launches commits all over the range, once each; whole is false where the budget ended first.
func (k *failureSweep) probe() (whole bool, err error) {
	in := k.r.Span
	q, ok := k.r.Question.(*question.Failure)
	if !ok {
		q = &question.Failure{}
	}
	for _, i := range bisect.Probes(in.Commits, in.Prior, manyProbes, func(i int) bool { return !in.Commits[i].Neutral }) {
		if _, known := k.ended[i]; known {
			continue
		}
		if k.r.Over() != "" {
			return false, nil
		}
		t, err := k.r.Ledger.Launch(k.r.Ctx, q, in.Id(i), bisect.Searching)
		if search.Cut(k.r, err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		k.r.Account.Judged(bisect.Step{Commit: in.Id(i), Role: bisect.RoleProbe, Verdict: q.Judge(t.Outcome, 1)})
	}
	k.learn()
	return true, nil
}

// kind is the complaint that an outcome shows; ok is false where it shows none, or none that was asked for.
func (k *failureSweep) kind(o bisect.Outcome) (c bisect.Complaint, ok bool) {
	if o.Class == bisect.OK || o.Class == bisect.Skip || o.Class == bisect.Infra {
		return c, false
	}
	if main := k.r.Account.Finding.Complaint; main.Class != bisect.Slow && main.Matches(o) {
		return main, true
	}
	e := question.ReadComplaint(k.r.Search.Options, o)
	return e.Complaint, e.Differ
}

// next picks a segment that no culprit explains yet; ok is false where none is left. The complaint of the search comes
// first, then the others in the order in which they appear along the trunk. A commit that is untestable, or fails in
// another way than the complaint, stays inside a segment.
func (k *failureSweep) next() (segment, bool) {
	judged := []int{belief.GoodEnd}
	for _, i := range bisect.Trunk(k.r.Span.Commits) {
		if _, ok := k.ended[i]; ok {
			judged = append(judged, i)
		}
	}
	var all []bisect.Complaint
	if c := k.r.Account.Finding.Complaint; c.Class != "" && c.Class != bisect.Slow {
		all = append(all, c)
	}
	for _, i := range judged {
		if c, ok := k.kind(k.ended[i]); ok && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	for _, c := range all {
		good := -2 // none yet; belief.GoodEnd is -1
		for _, i := range judged {
			switch (&question.Failure{Complaint: c}).Judge(k.ended[i], 1).Call {
			case bisect.Good:
				good = i
			case bisect.Bad:
				if s := (segment{good, i, c}); good != -2 && !k.tried[s] && !k.explained(s) {
					return s, true
				}
				good = -2
			}
		}
	}
	return segment{}, false
}

// explained reports whether a known culprit of the same complaint lies within a segment.
func (k *failureSweep) explained(s segment) bool {
	_, index := bisect.Between(k.r.Span.Commits, s.lo, s.hi)
	return slices.ContainsFunc(k.found, func(f culprit) bool { return f.kind == s.kind && slices.Contains(index, f.index) })
}

// search looks for the commit that began the failures of a segment. Its ends were launched before, so they are taken
// as they are.
func (k *failureSweep) search(s segment) error {
	sub, _ := search.Within(k.r, s.lo, s.hi)
	q := &question.Failure{Complaint: s.kind}
	q.About = &bisect.Ends{Differ: true, Complaint: s.kind, Why: "as launched before", Good: q.Judge(k.ended[s.lo], 1), Bad: q.Judge(k.ended[s.hi], 1)}
	sub.Question = q
	err := sub.Locate()
	f, whole := &sub.Account.Finding, &k.r.Account.Finding
	whole.Warnings = append(whole.Warnings, f.Warnings...)
	whole.Spent = whole.Spent || f.Spent
	if err != nil {
		return err
	}
	for _, c := range f.Culprits {
		k.found = append(k.found, culprit{k.r.Span.Index[c.Commit], s.kind, c})
	}
	if len(f.Culprits) == 0 && !slices.EqualFunc(f.Suspects, whole.Suspects, func(a, b bisect.SuspectCommit) bool { return a.Commit == b.Commit }) {
		k.r.Account.Warn(fmt.Sprintf("%s begins between %s and %s as well; the culprit of that is one of %d commits", s.kind, bisect.ShortID(k.r.Span.Id(s.lo)), bisect.ShortID(k.r.Span.Id(s.hi)), len(f.Suspects)))
	}
	k.learn()
	return nil
}

// conclude puts the culprits in order and warns of what was not looked at: open lists segments that were not searched,
// whole says that all probes were launched.
func (k *failureSweep) conclude(open []string, probing, whole bool) {
	f := &k.r.Account.Finding
	slices.SortStableFunc(k.found, func(a, b culprit) int { return cmp.Compare(a.index, b.index) })
	f.Culprits = nil
	for _, s := range k.found {
		f.Culprits = append(f.Culprits, s.Culprit)
	}
	if len(k.found) > 0 {
		f.Result = bisect.Found
		if f.Complaint.Class == "" {
			f.Complaint = k.found[0].kind
		}
	}
	if f.Result == bisect.NoDifference && (!whole || len(open) > 0) {
		f.Result = bisect.Inconclusive // alike ends say nothing of what lies between
	}
	if len(open) > 0 {
		k.r.Account.Warn("not searched, because the budget was used up or there are too many: " + words.Listed(open, 3))
	}
	switch {
	case !whole:
		k.r.Account.Warn("the probes of the range were not all launched, the budget was used up: what was introduced and fixed in between may have been missed")
	case probing:
		k.r.Account.Warn(fmt.Sprintf("what was introduced and fixed between two of the commits tested, up to %s apart, is not seen", words.Count(k.widest(), "commit")))
	}
}

// widest is the largest number of commits between two neighbours on the trunk that were tested.
func (k *failureSweep) widest() int {
	n, last := 0, belief.GoodEnd
	for _, i := range bisect.Trunk(k.r.Span.Commits) {
		if _, ok := k.ended[i]; !ok {
			continue
		}
		between, _ := bisect.Between(k.r.Span.Commits, last, i)
		n, last = max(n, len(between)), i
	}
	return n
}
