package search

import (
	"cmp"
	"fmt"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// account is what a run has concluded so far.
type account struct {
	f      bisect.Finding
	metric string // that the run is about; "" for a failure
	onStep func(bisect.Step)
}

func (a *account) warn(text string) { a.f.Warnings = append(a.f.Warnings, text) }

// judged reports a judgement.
func (a *account) judged(s bisect.Step) {
	s.Verdict.Metric = a.metric
	a.f.Steps = append(a.f.Steps, s)
	if a.onStep != nil {
		a.onStep(s)
	}
}

// relay passes on a judgement made inside a part of the range, whose ends and parents are no good
// commits for anything else.
func (a *account) relay(s bisect.Step) {
	switch s.Role {
	case bisect.RoleGoodEnd:
		s.Role = bisect.RoleFrom
	case bisect.RoleBadEnd:
		s.Role = bisect.RoleTo
	case bisect.RoleParent:
		s.Role = bisect.RoleBefore
	}
	a.judged(s)
}

// ends keeps the comparison of the ends; a new beginning reports it only once.
func (a *account) ends(r *run, e bisect.Ends) {
	f := &a.f
	first := f.Ends.Why == "" && len(f.Steps) == 0
	f.Ends, f.Complaint = e, e.Complaint
	if first {
		a.judged(bisect.Step{Commit: r.span.good.Commit, Role: bisect.RoleGoodEnd, Verdict: e.Good})
		a.judged(bisect.Step{Commit: r.span.id(r.span.bad()), Role: bisect.RoleBadEnd, Verdict: e.Bad})
	}
	switch {
	case e.Untestable, e.Unclear:
		a.inconclusive(r)
	case !e.Differ:
		f.Result = bisect.NoDifference
	}
}

// reportLooked reports what is known about commits that were launched before the ends were known.
func reportLooked(r *run) {
	q, ok := r.q.(*failure)
	if !ok || r.inner || r.rounds > 0 {
		return
	}
	for _, t := range r.s.Looked {
		if i := r.span.place(t.Candidate.Commit); !r.span.isEnd(i) {
			r.out.judged(bisect.Step{Commit: t.Candidate.Commit, Role: bisect.RoleWalkBack, Verdict: q.judge(t.Outcome, 1), Remaining: remaining(r)})
		}
	}
}

// credible is the share of the probability that the suspects listed hold. A bad commit may pass by chance, which leaves
// a little of it to every commit that a single launch has cleared.
func credible(q question) float64 {
	if _, timed := q.(*level); timed {
		return 0.99
	}
	return 0.97
}

// remaining is how many commits hold the culprit almost surely.
func remaining(r *run) int { return len(r.b.Credible(credible(r.q))) }

// delta is the chance of a wrong answer that the search may leave, half of what is allowed in all; the proof may
// leave the other half.
func (o Options) delta() float64 {
	if o.Error > 0 {
		return min(0.25, o.Error/2)
	}
	return 0.005
}

// inconclusive ends the run with what is known: the likeliest commits that together hold the culprit almost surely.
func (a *account) inconclusive(r *run) {
	b, share := r.b, credible(r.q)
	if b == nil { // no launch says anything
		b, share = belief.NewFailures(r.span.commits, r.span.prior, 0, true), 1
	}
	a.f.Result, a.f.Suspects = bisect.Inconclusive, []bisect.SuspectCommit{}
	for _, s := range b.Credible(share) {
		a.f.Suspects = append(a.f.Suspects, suspect(r, s.Index, s.Probability))
	}
}

// suspect puts a suspect into the terms of a finding.
func suspect(r *run, i int, p float64) bisect.SuspectCommit {
	s := bisect.SuspectCommit{Commit: r.span.id(i), Probability: p}
	if !r.span.usable[i] && r.q != nil {
		s.Why = "untestable"
		for _, t := range r.led.of(s.Commit, "") {
			if _, a := r.q.read(t); a != speaks {
				s.Why = whyNot(r.q, t.Outcome, a)
			}
		}
	}
	return s
}

// whyNot says why a launch says nothing about the complaint.
func whyNot(q question, o bisect.Outcome, a answer) string {
	l, timed := q.(*level)
	switch {
	case a == another:
		return "fails in another way: " + o.Describe()
	case timed && o.Class == bisect.OK && l.channel.Metric.Exact:
		return "its build does not report " + l.channel.Name()
	case timed && o.Class == bisect.OK:
		return "it sent no value of " + cmp.Or(l.channel.Lacks(o), l.channel.Name())
	}
	return o.Describe()
}

// conclude names the culprit, which is right with probability p, or the set that untestable commits keep together; fill
// adds what the proof has shown.
func (a *account) conclude(r *run, members []int, p float64, fill func(out *bisect.Culprit)) {
	f := &a.f
	weights := r.b.Weights()
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
	c := r.span.commits[members[0]]
	out := bisect.Culprit{
		Commit: c.ID, Parents: c.Parents, Merge: len(c.Parents) > 1,
		Class: f.Complaint.Class, Phase: f.Complaint.Phase, Confidence: p, Confirmed: true,
	}
	fill(&out)
	if x := misfit(r, members[0]); x.Misfits() {
		out.Confidence = min(out.Confidence, doubted)
		a.warn(fmt.Sprintf("the launches do not fit one change alone: those of %s would come by chance with a probability of %.1g\nhint: the range may hold other changes (--all looks for every one), or that commit may be unlike its neighbours for a reason of its own", bisect.ShortID(r.span.id(x.Index)), x.P))
	}
	if r.s.Fast {
		out.Confirmed, out.Confidence = false, min(out.Confidence, unproven)
		a.warn("not proven, as --fast asks: culprit and parents were not launched from clean builds at their full limits\nhint: without --fast the proof is made")
	}
	f.Result, f.Culprits = bisect.Found, []bisect.Culprit{out}
}

// doubted is the most that an answer states which some launches contradict.
const doubted = 0.9

// misfit checks the model that the answer rests on against the launches.
func misfit(r *run, culprit int) belief.Misfit {
	switch b := r.b.(type) {
	case *belief.Levels:
		return belief.CheckLevels(b)
	case *belief.Failures:
		return b.Misfit(culprit)
	}
	return belief.Misfit{P: 1}
}

// warnOthers reports the commits that were set aside because they fail in another way: no commit is
// blamed for that here, but a user may want to search for it next.
func (a *account) warnOthers() {
	count, example := map[string]int{}, map[string]string{}
	var kinds []string
	for _, s := range a.f.Steps {
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
		a.warn(fmt.Sprintf("%d of the commits tested fail in another way (%s) and were set aside, such as %s\nhint: to find where that came from, search again with --bad %s",
			count[kind], kind, bisect.ShortID(example[kind]), bisect.ShortID(example[kind])))
	}
}

// Progress is how far a search is and what it will still take.
type Progress struct {
	Suspects         float64 // the number of equally likely suspects that would be as hard to tell apart
	Probability      float64 // of the likeliest suspect
	ExpectedLaunches float64 // to the end, proof included
	ExpectedSeconds  float64 // the same by what a launch has taken so far, builds and pauses included
}

// tell reports the progress by a belief; before the search, pairs of launches of both ends have been compared by it.
func tell(r *run, b belief.Belief, pairs int) {
	if r.s.OnProgress == nil || b == nil {
		return
	}
	var p Progress
	entropy := 0.0
	for _, w := range b.Weights() {
		if p.Probability = max(p.Probability, w); w > 0 {
			entropy -= w * math.Log(w)
		}
	}
	p.Suspects = math.Exp(entropy)
	if m, ok := b.(*belief.Levels); ok {
		p.ExpectedLaunches = expected(m, pairs, entropy, r.least, math.Log((1-r.s.delta())/r.s.delta()))
	} else {
		p.ExpectedLaunches = entropy/math.Ln2 + 3
	}
	if n := len(r.led.made); n > 0 {
		p.ExpectedSeconds = p.ExpectedLaunches * (r.led.end - r.led.first) / float64(n)
	}
	r.s.OnProgress(p)
}
