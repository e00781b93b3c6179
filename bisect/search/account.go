package search

import (
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// Account is what a run has concluded so far. It is written as the run goes, so that a search which is cut off still
// has an answer: whatever Finding holds at that moment.
type Account struct {
	Finding bisect.Finding
	Metric  string // that the run is about; "" for a failure
	onStep  func(bisect.Step)
}

// Warn adds a warning to the finding: one sentence, with what the user can do about it after "\nhint: ".
func (a *Account) Warn(text string) { a.Finding.Warnings = append(a.Finding.Warnings, text) }

// Judged adds a judgement to the steps of the finding and reports it to Search.OnStep.
func (a *Account) Judged(s bisect.Step) {
	s.Verdict.Metric = a.Metric
	a.Finding.Steps = append(a.Finding.Steps, s)
	if a.onStep != nil {
		a.onStep(s)
	}
}

// relay passes on a judgement from the run over a part of the range. Its ends, and the parent that it proves, are good
// or bad only with respect to that part, so they get roles of their own.
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

// Ends records the comparison of the ends. Each new round compares them again; only the first comparison is reported
// as judgements.
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

// reportLooked reports the commits that were launched before the ends were known, on the walk back to a good one. It
// leaves out what one launch cannot judge (a timed question), and what was reported before: a part of the range and a
// new round share the ledger.
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

// Remaining is the size of the smallest set of commits that holds the culprit with the probability Rules.Credible.
func Remaining(r *Run) int { return len(r.Belief.Credible(r.Question.Rules().Credible)) }

// believed is the belief of a run as it is kept with each step: see masses.
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

// mass is the probability p that the culprit is one of the commits from..to, both included.
type mass struct {
	from, to int
	p        float64
}

// masses condenses weights: each commit of at least `likely` stands alone, and the less likely ones between two of
// these share one entry. Entries below `nothing` are left out, so that the log of a long search stays short. While
// open is true, the last entry takes in the commits that follow.
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

// Inconclusive ends the run without a culprit: the suspects are the likeliest commits that together hold it with the
// probability Rules.Credible. Before any belief there is, they are all commits with a prior.
func (a *Account) Inconclusive(r *Run) {
	b, share := r.Belief, 1.0
	if b == nil { // the run ended before the ends were known to differ
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

// Conclude ends the run with an answer. A single member is the culprit, right with probability p; fill adds to it what
// the proof has shown. Several members are commits that only untestable ones lie between: no launch can tell them
// apart, so they become the suspects, weighted by the belief. A culprit that the launches do not fit (belief.Misfit)
// or that was not proven (Fast) is stated with less confidence, and a warning.
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
		a.Warn(fmt.Sprintf("the launches do not fit one change alone: those of %s would come by chance with a probability of %.1g\nhint: the range may hold other changes (--all looks for every one), or that commit may be unlike its neighbours for another reason", bisect.ShortID(r.Span.Id(x.Index)), x.P))
	}
	if r.Search.Fast {
		out.Confirmed, out.Confidence = false, min(out.Confidence, unproven)
		a.Warn("not proven, as --fast asks: culprit and parents were not launched from clean builds at their full limits\nhint: without --fast the proof is made")
	}
	f.Result, f.Culprits = bisect.Found, []bisect.Culprit{out}
}

// doubted is the most confidence that is stated for an answer which some launches contradict.
const doubted = 0.9

// WarnOthers reports the commits that were set aside because they fail with another complaint. This search blames no
// commit for that; the user may want to search for it next.
func (a *Account) WarnOthers() {
	commits := map[string][]string{}
	var kinds []string
	for _, s := range a.Finding.Steps {
		if !s.Verdict.Other || s.Inferred {
			continue
		}
		kind := bisect.Outcome{Class: s.Verdict.Class, Phase: s.Verdict.Phase}.Describe()
		if commits[kind] == nil {
			kinds = append(kinds, kind)
		}
		if !slices.Contains(commits[kind], s.Commit) {
			commits[kind] = append(commits[kind], s.Commit)
		}
	}
	for _, kind := range kinds {
		of, first := commits[kind], bisect.ShortID(commits[kind][0])
		text := fmt.Sprintf("%d of the commits tested fail in another way (%s) and were set aside, such as %s", len(of), kind, first)
		if len(of) == 1 {
			text = fmt.Sprintf("commit %s fails in another way (%s) and was set aside", first, kind)
		}
		a.Warn(text + "\nhint: to find where that came from, search again with --bad " + first)
	}
}
