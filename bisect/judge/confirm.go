package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// maxConfirm bounds the confirmation of one culprit, in pairs of launches with each parent.
const maxConfirm = 120

// contest is a test of one claim with the candidates that it is about and what their launches showed.
type contest struct {
	culprit, parent string
	test            belief.StepTest
	exact           *bisect.Exact // the last numbers, of a metric that has them
	lost            string        // why one of the two could not be launched
	lostParent      bool
}

// confirm tests afresh that set j brought the slowdown: its only commit against each of its parents,
// or, where untestable commits blur the culprit, the first commit after the set against the last
// before it. done ends the search, again asks for a new beginning; neither: it goes on.
func (r *slowdownRun) confirm(j int) (done, again bool, err error) {
	members := r.model.Members(j)
	culprit, parents := r.sides(members)
	d, _ := r.model.Step()
	var rounds []*contest
	verdict := 1
	for _, p := range parents {
		c := &contest{test: belief.StepTest{Step: d}, culprit: culprit, parent: p}
		if err := r.fight(c); err != nil {
			return false, false, err
		}
		rounds = append(rounds, c)
		if call := c.test.Decided(r.model.Noise(), r.alpha()); c.lost == "" && call < 1 {
			verdict = call
			break
		}
	}
	r.reportContests(rounds, verdict, len(members))
	now, p := r.model.Top()
	still := p >= 1-r.delta() && slices.Equal(r.model.Members(now), members)
	switch {
	case verdict > 0 && still:
		r.conclude(members, rounds)
		return true, false, nil
	case r.over():
		r.inconclusive()
		return true, false, nil
	case verdict < 0 && still:
		return false, true, nil
	}
	r.failed++
	return false, r.failed >= maxFailures, nil
}

// sides returns the commits to launch for a set: the culprit and its parents, or the nearest commits
// around a set of several.
func (r *slowdownRun) sides(members []int) (culprit string, parents []string) {
	if len(members) == 1 {
		c := r.commits[members[0]]
		return c.ID, c.Parents
	}
	after, before := len(r.commits)-1, belief.GoodEnd
	for i := len(r.commits) - 1; i >= 0; i-- {
		in := bisect.Ancestors(r.commits, i)
		if r.usable[i] && !slices.ContainsFunc(members, func(k int) bool { return !in[k] }) {
			after = i
		}
	}
	below := bisect.Ancestors(r.commits, after)
	for i, in := range below {
		if in && r.usable[i] {
			reach := bisect.Ancestors(r.commits, i)
			if !slices.ContainsFunc(members, func(k int) bool { return reach[k] }) {
				before = i
			}
		}
	}
	return r.id(after), []string{r.id(before)}
}

// fight launches culprit and parent side by side, in turning order, until the claim is decided. The
// launches inform the belief as well.
func (r *slowdownRun) fight(c *contest) error {
	for c.test.Pairs() < maxConfirm && c.test.Decided(r.model.Noise(), r.alpha()) == 0 && !r.over() {
		var y, at [2]float64
		for k := range 2 {
			side := k
			if c.test.Pairs()%2 == 1 {
				side = 1 - k
			}
			l, ok, err := r.confirmLaunch(c, side == 1)
			if err != nil || c.lost != "" {
				return err
			}
			if !ok {
				y[side] = math.NaN()
				continue
			}
			y[side], at[side] = l.Y, l.At
		}
		if x := y[1] - y[0]; !math.IsNaN(x) {
			c.test.Add(x, at[1]-at[0])
			if r.picked.Metric.Exact {
				c.exact = &bisect.Exact{Value: r.number(y[1]), Parent: r.number(y[0])}
			}
		}
	}
	return nil
}

// confirmLaunch launches one side of a contest from a clean build. A side that fails every time is
// lost to it.
func (r *slowdownRun) confirmLaunch(c *contest, culprit bool) (l belief.Launch, ok bool, err error) {
	id, why := c.parent, bisect.ConfirmParent
	if culprit {
		id, why = c.culprit, bisect.ConfirmCulprit
	}
	i, known := r.index[id]
	if !known {
		i = -2 // lies before the range, and is no reference that the belief knows
	}
	o, err := r.launch(id, i, why)
	if err != nil {
		return l, false, err
	}
	if l, ok = r.level(o); ok {
		r.unfit = 0
		l.Index = i
		if known {
			r.model.Add(l)
		}
		return l, true, nil
	}
	r.unfit++
	if o.Class != bisect.OK && r.unfit >= 3 || o.Class == bisect.OK && o.Unfit == "" {
		c.lost, c.lostParent = o.Describe(), !culprit
	}
	return l, false, nil
}

// reportContests tells what the confirmation showed.
func (r *slowdownRun) reportContests(rounds []*contest, verdict, suspects int) {
	for i, c := range rounds {
		if c.test.Pairs() == 0 && c.lost == "" { // the budget ended first
			continue
		}
		words := fmt.Sprintf("launched in turn with %s: median ratio %.4f, %d pairs, odds of a step e^%.1f", bisect.ShortID(c.parent), r.effect(c.test.Median(), 0).Ratio, c.test.Pairs(), c.test.LogOdds(r.model.Noise()))
		if c.exact != nil {
			words = fmt.Sprintf("%s: %s, and %s in %s", r.picked.Name(), r.exactValue(c.culprit), r.exactValue(c.parent), bisect.ShortID(c.parent))
		}
		if c.lost != "" {
			words = c.lost
		}
		good := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: 1 - r.alpha(), Trials: c.test.Pairs(), Why: "launched in turn with " + bisect.ShortID(c.culprit)}
		if r.picked.Metric.Exact {
			good.Why = "built anew, as " + bisect.ShortID(c.culprit)
		}
		bad := bisect.Verdict{Call: bisect.Bad, Class: r.class(), Probability: 1 - r.alpha(), Trials: c.test.Pairs(), Why: words}
		if i == len(rounds)-1 && verdict < 1 {
			bad.Call, bad.Class = bisect.Good, bisect.OK
			if verdict == 0 {
				bad.Call = bisect.Untestable
			}
		}
		if c.lost != "" {
			lost := &bad
			if c.lostParent {
				lost = &good
			}
			lost.Call, lost.Class, lost.Why = bisect.Untestable, bisect.Skip, c.lost
		}
		if i == 0 || i == len(rounds)-1 && verdict < 1 {
			r.step(bisect.Step{Commit: c.culprit, Role: bisect.RoleCulprit, Verdict: bad, Remaining: suspects})
		}
		r.step(bisect.Step{Commit: c.parent, Role: bisect.RoleParent, Verdict: good, Remaining: suspects})
	}
}

// share is the effect of the culprit itself. The step that the search has found is that between the
// ends; where the pairs of the confirmation contradict it, the range holds other changes besides, and
// the pairs are what speaks of this one.
func (r *slowdownRun) share(rounds []*contest) *bisect.Effect {
	own, sd := r.model.Step()
	least, err := math.Inf(1), 0.0
	var exact *bisect.Exact
	for _, c := range rounds {
		if enough := c.test.Pairs() >= belief.MinPairs || r.model.Noise().Exact && c.test.Pairs() > 0; enough && c.test.Median() < least {
			least, err, exact = c.test.Median(), c.test.Deviation(r.model.Noise()), c.exact
		}
	}
	far := 1.5
	if r.model.Noise().Modes() { // few pairs may well lie on one side of the modes
		far = 3
	}
	if !math.IsInf(least, 1) && math.Abs(least-own) >= far*math.Hypot(err, sd) {
		own, sd = least, err
	}
	r.tellRest(own, sd)
	e := r.effect(own, sd)
	e.Exact = exact
	return e
}

// tellRest says that the culprit's own step is not all that the ends differ by, where one culprit was
// looked for.
func (r *slowdownRun) tellRest(own, sd float64) {
	if r.part != nil || r.All {
		return
	}
	whole, err := 0.0, 0.0
	if r.model.Noise().Exact {
		whole = r.exact.step(r.exact.pick)
	} else {
		whole, err = belief.FitProfile([]int{belief.GoodEnd, len(r.commits) - 1}, r.ledger()).Diff(0, 1)
	}
	if rest := math.Abs(whole - own); rest > 3*math.Hypot(err, sd) && rest > 0.1*math.Abs(whole) {
		r.warn(fmt.Sprintf("the culprit changes %s to %.3f times its parent's, the ends differ by a factor of %.3f: the range holds other changes as well\nhint: --all looks for every one of them",
			r.picked.Name(), r.effect(own, sd).Ratio, r.effect(whole, err).Ratio))
	}
}

// conclude names the culprit, or the set that untestable commits keep together.
func (r *slowdownRun) conclude(members []int, rounds []*contest) {
	if len(members) > 1 {
		r.suspect(members)
		return
	}
	i := members[0]
	c := r.commits[i]
	_, p := r.model.Top()
	out := bisect.Culprit{
		Commit: c.ID, Parents: c.Parents, Merge: len(c.Parents) > 1, Class: r.class(),
		Confirmed: true, Confidence: p * (1 - r.alpha()),
	}
	out.Effect, out.Besides = r.share(rounds), r.besides(i, rounds)
	for _, x := range rounds {
		if x.lost == "" {
			continue
		}
		out.Confirmed, out.Confidence = false, min(p, 0.9)
		who := fmt.Sprintf("culprit %s", bisect.ShortID(x.culprit))
		if x.lostParent {
			who = fmt.Sprintf("parent %s", bisect.ShortID(x.parent))
		}
		r.warn(fmt.Sprintf("%s could not be launched for the confirmation (%s): the answer rests on the search alone", who, x.lost))
	}
	if r.Fast {
		out.Confirmed, out.Confidence = false, min(out.Confidence, unproven)
		r.warn("not proven, as --fast asks: culprit and parents were not launched from clean builds\nhint: without --fast the proof is made")
	}
	r.f.Result, r.f.Culprits = bisect.Found, []bisect.Culprit{out}
}

// suspect ends the search with the commits that untestable ones keep together.
func (r *slowdownRun) suspect(members []int) {
	weights := r.model.Weights()
	r.f.Result, r.f.Suspects = bisect.Inconclusive, nil
	for _, i := range members {
		r.f.Suspects = append(r.f.Suspects, r.suspected(i, weights[i]))
	}
}

// suspected puts a suspect into the terms of a finding.
func (r *slowdownRun) suspected(i int, p float64) bisect.SuspectCommit {
	s := bisect.SuspectCommit{Commit: r.commits[i].ID, Probability: p}
	if !r.usable[i] {
		s.Why = "untestable"
	}
	return s
}

// inconclusive ends the search with what is known: the likeliest commits that together are the
// culprit almost surely.
func (r *slowdownRun) inconclusive() {
	r.f.Result, r.f.Suspects = bisect.Inconclusive, nil
	m := r.model
	if m == nil {
		m = belief.NewLevels(r.commits, r.prior)
	}
	for _, s := range m.Credible(credible) {
		r.f.Suspects = append(r.f.Suspects, r.suspected(s.Index, s.Probability))
	}
}
