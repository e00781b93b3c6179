package search

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// Account is what a run has concluded so far.
type Account struct {
	Finding bisect.Finding
	Metric  string // that the run is about; "" for a failure
	onStep  func(bisect.Step)
}

func (a *Account) Warn(text string) { a.Finding.Warnings = append(a.Finding.Warnings, text) }

// Judged reports a judgement.
func (a *Account) Judged(s bisect.Step) {
	s.Verdict.Metric = a.Metric
	a.Finding.Steps = append(a.Finding.Steps, s)
	if a.onStep != nil {
		a.onStep(s)
	}
}

// relay passes on a judgement made inside a part of the range, whose ends and parents are no good
// commits for anything else.
func (a *Account) relay(s bisect.Step) {
	switch s.Role {
	case bisect.RoleGoodEnd:
		s.Role = bisect.RoleFrom
	case bisect.RoleBadEnd:
		s.Role = bisect.RoleTo
	case bisect.RoleParent:
		s.Role = bisect.RoleBefore
	}
	a.Judged(s)
}

// Ends keeps the comparison of the ends; a new beginning reports it only once.
func (a *Account) Ends(r *Run, e bisect.Ends) {
	f := &a.Finding
	first := f.Ends.Why == "" && len(f.Steps) == 0
	f.Ends, f.Complaint = e, e.Complaint
	if first {
		a.Judged(bisect.Step{Commit: r.Span.Good.Commit, Role: bisect.RoleGoodEnd, Verdict: e.Good})
		a.Judged(bisect.Step{Commit: r.Span.Id(r.Span.Bad()), Role: bisect.RoleBadEnd, Verdict: e.Bad})
	}
	switch {
	case e.Untestable, e.Unclear:
		a.Inconclusive(r)
	case !e.Differ:
		f.Result = bisect.NoDifference
	}
}

// reportLooked reports what is known about commits that were launched before the ends were known.
func reportLooked(r *Run) {
	if r.Question.Rules().Timed || r.Inner || r.Rounds > 0 {
		return
	}
	for _, t := range r.Search.Looked {
		if i := r.Span.Place(t.Candidate.Commit); !r.Span.IsEnd(i) {
			r.Account.Judged(bisect.Step{Commit: t.Candidate.Commit, Role: bisect.RoleWalkBack, Verdict: r.Question.Verdict(r, Visit{i, 1, t.Outcome}), Remaining: Remaining(r)})
		}
	}
}

// Remaining is the size of the smallest set of commits that almost surely includes the culprit.
func Remaining(r *Run) int { return len(r.Belief.Credible(r.Question.Rules().Credible)) }

// believed is where a run thinks the culprit is.
func believed(r *Run) (out []bisect.Mass) {
	for _, m := range masses(r.Belief.Weights()) {
		x := bisect.Mass{From: r.Span.Id(m.from), P: m.p}
		if m.to > m.from {
			x.To = r.Span.Id(m.to)
		}
		out = append(out, x)
	}
	return out
}

// mass is the probability of the commits from one to another.
type mass struct {
	from, to int
	p        float64
}

// masses puts weights together: commits that may well be the culprit stand alone, those between them in one. What is
// next to impossible is left out, so that a long search stays short.
func masses(weights []float64) (out []mass) {
	const likely, nothing = 1.0 / 16, 1e-4
	open := false
	for i, w := range weights {
		switch {
		case w >= likely:
			out, open = append(out, mass{i, i, w}), false
		case w == 0 && !open: // it begins no run
		case open:
			last := &out[len(out)-1]
			if last.p += w; w > 0 {
				last.to = i
			}
		default:
			out, open = append(out, mass{i, i, w}), true
		}
	}
	return slices.DeleteFunc(out, func(m mass) bool { return m.p < nothing })
}

// Inconclusive ends the run with what is known: the likeliest commits that together almost surely include the culprit.
func (a *Account) Inconclusive(r *Run) {
	b, share := r.Belief, 1.0
	if b == nil { // no launch says anything
		b = belief.NewFailures(r.Span.Commits, r.Span.Prior, true)
	} else {
		share = r.Question.Rules().Credible
	}
	a.Finding.Result, a.Finding.Suspects = bisect.Inconclusive, []bisect.SuspectCommit{}
	for _, s := range b.Credible(share) {
		a.Finding.Suspects = append(a.Finding.Suspects, suspect(r, s.Index, s.Probability))
	}
}

// suspect puts a suspect into the terms of a finding.
func suspect(r *Run, i int, p float64) bisect.SuspectCommit {
	s := bisect.SuspectCommit{Commit: r.Span.Id(i), Probability: p}
	if !r.Span.Usable[i] && r.Question != nil {
		s.Why = "untestable"
		for _, t := range r.Ledger.Of(s.Commit, "") {
			if _, a := r.Question.Read(t); a != Speaks {
				s.Why = WhyNot(r.Question, t.Outcome, a)
			}
		}
	}
	return s
}

// WhyNot says why a launch says nothing about the complaint.
func WhyNot(q Question, o bisect.Outcome, a Answer) string {
	switch {
	case a == Another:
		return "fails in another way: " + o.Describe()
	case o.Class == bisect.OK:
		return q.Missing(o)
	}
	return o.Describe()
}

// Conclude names the culprit, which is right with probability p, or the set that untestable commits keep together; fill
// adds what the proof has shown.
func (a *Account) Conclude(r *Run, members []int, p float64, fill func(out *bisect.Culprit)) {
	f := &a.Finding
	weights := r.Belief.Weights()
	if len(members) > 1 {
		f.Result, f.Suspects = bisect.Inconclusive, nil
		total := 0.0
		for _, i := range members {
			total += weights[i]
		}
		for _, i := range members {
			f.Suspects = append(f.Suspects, suspect(r, i, weights[i]/total))
		}
		return
	}
	c := r.Span.Commits[members[0]]
	out := bisect.Culprit{
		Commit: c.ID, Parents: c.Parents, Merge: len(c.Parents) > 1,
		Class: f.Complaint.Class, Phase: f.Complaint.Phase, Confidence: p, Confirmed: true,
	}
	fill(&out)
	if x := r.Belief.Misfit(members[0]); x.Misfits() {
		out.Confidence = min(out.Confidence, doubted)
		a.Warn(fmt.Sprintf("the launches do not fit one change alone: those of %s would come by chance with a probability of %.1g\nhint: the range may hold other changes (--all looks for every one), or that commit may be unlike its neighbours for a reason of its own", bisect.ShortID(r.Span.Id(x.Index)), x.P))
	}
	if r.Search.Fast {
		out.Confirmed, out.Confidence = false, min(out.Confidence, unproven)
		a.Warn("not proven, as --fast asks: culprit and parents were not launched from clean builds at their full limits\nhint: without --fast the proof is made")
	}
	f.Result, f.Culprits = bisect.Found, []bisect.Culprit{out}
}

// doubted is the most that an answer states which some launches contradict.
const doubted = 0.9

// WarnOthers reports the commits that were set aside because they fail with another complaint. This search blames no
// commit for that; the user may want to search for it next.
func (a *Account) WarnOthers() {
	count, example := map[string]int{}, map[string]string{}
	var kinds []string
	for _, s := range a.Finding.Steps {
		if !s.Verdict.Other || s.Inferred {
			continue
		}
		kind := bisect.Outcome{Class: s.Verdict.Class, Phase: s.Verdict.Phase}.Describe()
		if count[kind] == 0 {
			kinds, example[kind] = append(kinds, kind), s.Commit
		}
		count[kind]++
	}
	for _, kind := range kinds {
		a.Warn(fmt.Sprintf("%d of the commits tested fail in another way (%s) and were set aside, such as %s\nhint: to find where that came from, search again with --bad %s",
			count[kind], kind, bisect.ShortID(example[kind]), bisect.ShortID(example[kind])))
	}
}
