package judge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// multiCulprit is the search for every culprit of complaints that show in the class of a launch: each segment
// of the range in which commits fail in one way has a commit that began it.
type multiCulprit struct {
	run   *slowdownRun
	ended map[int]bisect.Outcome // what each commit ended as, by index
	tried map[segment]bool
	found []culprit
}

// segment is a commit that is good and a later one that is bad, neighbours on the trunk among those
// that were judged.
type segment struct {
	lo, hi int
	kind   bisect.Complaint
}

// culprit is a culprit with its place and what began there.
type culprit struct {
	index int
	kind  bisect.Complaint
	bisect.Culprit
}

// classes goes on where a search has ended: probes all over the range find what was introduced and fixed
// in between, and every way to fail that was met is searched for where it began. Without probing it
// goes by what is known.
func (r *slowdownRun) classes(probing bool) error {
	k := &multiCulprit{run: r, tried: map[segment]bool{}}
	for _, c := range r.f.Culprits {
		k.found = append(k.found, culprit{r.index[c.Commit], r.f.Complaint, c})
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
		if r.over() || len(k.found) >= maxNamed {
			open = append(open, fmt.Sprintf("%s from %s to %s", s.kind, bisect.ShortID(r.id(s.lo)), bisect.ShortID(r.id(s.hi))))
			continue
		}
		if err := k.search(s); err != nil {
			return err
		}
	}
	k.conclude(open, probing, whole)
	return nil
}

// learn gathers how the commits ended; a commit fails when it failed at least as often as it did not.
func (k *multiCulprit) learn() {
	k.ended = map[int]bisect.Outcome{}
	balance := map[int]int{}
	take := func(commit string, o bisect.Outcome) {
		i, known := k.run.index[commit]
		if !known {
			return
		}
		old, seen := k.ended[i]
		switch {
		case o.Class == bisect.OK:
			balance[i]++
		case !seen || old.Class == bisect.OK || old.Early:
			k.ended[i] = o
			balance[i]--
		default:
			balance[i]--
		}
		if !seen && o.Class == bisect.OK {
			k.ended[i] = o
		}
	}
	for _, commit := range slices.Sorted(maps.Keys(k.run.plain.looked)) {
		take(commit, k.run.plain.looked[commit])
	}
	for _, t := range k.run.plain.Sampler.(*once).made {
		take(t.Candidate.Commit, t.Outcome)
	}
	for i, n := range balance {
		if n > 0 {
			k.ended[i] = bisect.Outcome{Class: bisect.OK, Phase: k.ended[i].Phase}
		}
	}
}

// probe launches commits all over the range, once each; whole is false where the budget did not
// last.
func (k *multiCulprit) probe() (whole bool, err error) {
	for _, i := range bisect.Probes(k.run.commits, k.run.prior, manyProbes, func(i int) bool { return !k.run.commits[i].Neutral }) {
		if _, known := k.ended[i]; known {
			continue
		}
		if k.run.over() {
			return false, nil
		}
		o, n, err := k.run.plain.launches(k.run.ctx, bisect.Candidate{Commit: k.run.id(i)}, bisect.Searching)
		if err != nil {
			return false, err
		}
		k.run.launches += n
		k.run.step(bisect.Step{Commit: k.run.id(i), Role: bisect.RoleProbe, Verdict: k.run.plain.read.verdict(o, n)})
	}
	k.learn()
	return true, nil
}

// kind is the complaint that an outcome shows; ok is false where it shows none, or none that is asked
// for.
func (k *multiCulprit) kind(o bisect.Outcome) (c bisect.Complaint, ok bool) {
	if o.Class == bisect.OK || o.Class == bisect.Skip || o.Class == bisect.Infra {
		return c, false
	}
	if k.run.f.Complaint.Class != bisect.Slow && k.run.f.Complaint.Matches(o) {
		return k.run.f.Complaint, true
	}
	e := readComplaint(k.run.plain.Options, o)
	return e.Complaint, e.Differ
}

// next picks a segment that no culprit explains: complaint after complaint in the order in which they
// were met along the trunk, that of the search first.
func (k *multiCulprit) next() (segment, bool) {
	judged := []int{belief.GoodEnd}
	for _, i := range bisect.Trunk(k.run.commits) {
		if _, ok := k.ended[i]; ok {
			judged = append(judged, i)
		}
	}
	var all []bisect.Complaint
	if c := k.run.f.Complaint; c.Class != "" && c.Class != bisect.Slow {
		all = append(all, c)
	}
	for _, i := range judged {
		if c, ok := k.kind(k.ended[i]); ok && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	for _, c := range all {
		good := -2
		for _, i := range judged {
			switch (&reading{complaint: c}).verdict(k.ended[i], 1).Call {
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

// explained reports that a culprit of the same complaint lies within.
func (k *multiCulprit) explained(s segment) bool {
	_, index := bisect.Between(k.run.commits, s.lo, s.hi)
	return slices.ContainsFunc(k.found, func(f culprit) bool { return f.kind == s.kind && slices.Contains(index, f.index) })
}

// settledEnds is a plain judge of ends that were judged before.
type settledEnds struct {
	*Plain
	ends bisect.Ends
}

// Ends implements bisect.Judge.
func (j *settledEnds) Ends(context.Context, bisect.Candidate, bisect.Candidate) (bisect.Ends, error) {
	return j.ends, nil
}

// Patient implements bisect.Judge; what was stopped early is made again.
func (j *settledEnds) Patient() {
	j.Plain.Patient()
	maps.DeleteFunc(j.looked, func(_ string, o bisect.Outcome) bool { return o.Early })
}

// search looks for the commit that introduced the failure of a segment.
func (k *multiCulprit) search(s segment) error {
	p := &Plain{Sampler: k.run.plain.Sampler, Options: k.run.Options, count: k.run.plain.count, read: reading{complaint: s.kind, fails: 1, badRuns: 1}, patient: k.run.plain.patient, looked: map[string]bisect.Outcome{}}
	for i, o := range k.ended {
		p.looked[k.run.id(i)] = o
	}
	commits, _ := bisect.Between(k.run.commits, s.lo, s.hi)
	search := k.run.Search
	search.Commits, search.Good, search.GoodKey, search.Tested = commits, bisect.Candidate{Commit: k.run.id(s.lo)}, k.run.Search.GoodKey, nil
	if s.lo != belief.GoodEnd {
		search.GoodKey = k.run.commits[s.lo].Key
	}
	search.OnStep, search.Others = k.run.relay, true
	search.Judge = &settledEnds{p, bisect.Ends{Differ: true, Complaint: s.kind, Good: p.read.verdict(k.ended[s.lo], 1), Bad: p.read.verdict(k.ended[s.hi], 1)}}
	before := len(k.run.plain.Sampler.(*once).made)
	f, err := search.Find(k.run.ctx)
	if err == nil {
		err = f.Err
	}
	if err != nil {
		return err
	}
	k.run.launches += len(k.run.plain.Sampler.(*once).made) - before
	k.run.f.Inferred += f.Inferred
	k.run.f.Warnings = append(k.run.f.Warnings, f.Warnings...)
	k.run.f.Spent = k.run.f.Spent || f.Spent
	for _, c := range f.Culprits {
		k.found = append(k.found, culprit{k.run.index[c.Commit], s.kind, c})
	}
	if len(f.Culprits) == 0 && !slices.EqualFunc(f.Suspects, k.run.f.Suspects, func(a, b bisect.SuspectCommit) bool { return a.Commit == b.Commit }) {
		k.run.warn(fmt.Sprintf("%s begins between %s and %s as well; the culprit of that is one of %d commits", s.kind, bisect.ShortID(k.run.id(s.lo)), bisect.ShortID(k.run.id(s.hi)), len(f.Suspects)))
	}
	k.learn()
	return nil
}

// relay passes on a judgement made inside a part of the range, whose ends and parents are no good
// commits for anything else.
func (r *slowdownRun) relay(s bisect.Step) {
	if name, ok := map[bisect.Role]bisect.Role{bisect.RoleGoodEnd: bisect.RoleFrom, bisect.RoleBadEnd: bisect.RoleTo, bisect.RoleParent: bisect.RoleBefore}[s.Role]; ok {
		s.Role = name
	}
	r.step(s)
}

// conclude orders the culprits and says what was not looked at.
func (k *multiCulprit) conclude(open []string, probing, whole bool) {
	slices.SortStableFunc(k.found, func(a, b culprit) int { return cmp.Compare(a.index, b.index) })
	k.run.f.Culprits = nil
	for _, s := range k.found {
		k.run.f.Culprits = append(k.run.f.Culprits, s.Culprit)
	}
	if len(k.found) > 0 {
		k.run.f.Result = bisect.Found
		if k.run.f.Complaint.Class == "" {
			k.run.f.Complaint = k.found[0].kind
		}
	}
	if k.run.f.Result == bisect.NoDifference && (!whole || len(open) > 0) {
		k.run.f.Result = bisect.Inconclusive // alike ends say nothing of what lies between
	}
	if len(open) > 0 {
		k.run.warn("not searched, because the budget was used up or there are too many: " + lists(open, 3))
	}
	switch {
	case !whole:
		k.run.warn("the probes of the range were not all launched, the budget was used up: what was introduced and fixed in between may have been missed")
	case probing:
		k.run.warn(fmt.Sprintf("what was introduced and fixed between two of the commits tested, up to %s apart, is not seen", count(k.widest(), "commit")))
	}
}

// widest is the largest number of commits between two neighbours on the trunk that were tested.
func (k *multiCulprit) widest() int {
	n, last := 0, belief.GoodEnd
	for _, i := range bisect.Trunk(k.run.commits) {
		if _, ok := k.ended[i]; !ok {
			continue
		}
		between, _ := bisect.Between(k.run.commits, last, i)
		n, last = max(n, len(between)), i
	}
	return n
}
