package question

import (
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
)

// The rules of the proof of a slowdown.
const (
	contradicts = 3 // standard deviations by which the pairs contradict the step of the search
	maxFailures = 3 // proofs that come to nothing before all is begun anew
)

// contest is a test of one claim with the candidates that it is about and what their launches showed.
type contest struct {
	culprit, parent string
	members         []int // that the belief took for the culprit
	test            levels.StepTest
	exact           *bisect.Exact // the last numbers, of a metric that has them
	lost            string        // why one of the two could not be launched
	lostAt          string        // which of them
	late            *search.Trial // its launch, where it fails at its end alone, which is not awaited in the search
	vain            [2]int        // launches of parent and culprit, each in a row, that told nothing
}

// alpha is the chance of error that the proof of one claim may leave.
func (v *levelProof) alpha() float64 {
	if v.q.Part != nil {
		return v.r.Search.Delta() / float64(max(1, v.q.Part.Claims))
	}
	return v.r.Search.Delta()
}

// levelProof is the proof of a claim about a step.
type levelProof struct {
	q *Level
	r *search.Run
}

// Prove implements search.Question: the culprit against each of its parents or, where untestable commits blur it, the first
// commit after the set against the last before it.
func (q *Level) Prove(r *search.Run, members []int) (done bool, err error) {
	m, v := r.Belief.(*levels.Belief), &levelProof{q, r}
	culprit, parents := r.Span.Sides(members)
	var rounds []*contest
	verdict := 1
	for _, p := range parents {
		c := v.contest(m, members, culprit, p)
		if err := v.fight(m, c); err != nil {
			return false, err
		}
		rounds = append(rounds, c)
		if call := v.call(m, c); c.lost == "" && call < 1 {
			verdict = call
			break
		}
	}
	proven := verdict > 0 && !slices.ContainsFunc(rounds, func(c *contest) bool { return c.lost != "" })
	if !proven && r.Over() == "" && r.Unlearn(fmt.Sprintf("%s could not be shown to differ from its parent", bisect.ShortID(culprit))) {
		return false, nil
	}
	v.reportContests(m, rounds, verdict, len(members))
	if slices.ContainsFunc(rounds, func(c *contest) bool { return c.late != nil && search.SetAside(r, c.lostAt) }) {
		return false, nil
	}
	now, p := m.Top()
	// The launches of the proof are in the belief as well, and may have moved it to another commit, or taken launches back.
	still := p >= 1-r.Search.Delta() && slices.Equal(now, members) && r.Belief == belief.Belief(m)
	own, sd, pair := v.share(m, rounds)
	adjacent := func(t search.Trial) int { return slices.Index([]string{pair.parent, pair.culprit}, t.Candidate.Commit) }
	if verdict > 0 && still && byMedians(q, r, adjacent) {
		return false, nil
	}
	switch {
	case verdict > 0 && still && !q.Channel.Metric.Exact && own < metric.EffectMargin*r.Least: // less than is worth a search
		q.unconfirmed(r)
		return true, nil
	case verdict > 0 && still:
		rest := v.rest(m, own, sd, pair)
		if rest != "" && search.DoubtBuilds(r, "the commit found first does not explain all that the ends differ by") {
			q.contests = nil
			return false, nil
		}
		r.Account.Conclude(r, members, p*(1-r.Search.Delta()), func(out *bisect.Culprit) {
			if rest != "" {
				r.Account.Warn(rest)
			}
			out.Effect = q.Effect(own, sd)
			out.Effect.Exact = pair.exact
			v.proven(out, p, rounds)
		})
		return true, nil
	case r.Over() != "":
		return r.GiveUp(r.Over()), nil
	case verdict < 0 && still, q.failed+1 >= maxFailures:
		q.failed = 0
		v.begun()
		return false, nil
	}
	q.failed++
	return false, nil
}

// contest is the test of a claim, which goes on where an earlier proof of the same claim left it.
func (v *levelProof) contest(m *levels.Belief, members []int, culprit, parent string) *contest {
	for _, c := range v.q.contests {
		if c.culprit == culprit && c.parent == parent && c.lost == "" {
			c.members = members
			return c
		}
	}
	c := &contest{test: levels.Claim(m, members[0]), culprit: culprit, parent: parent, members: members}
	v.q.contests = append(v.q.contests, c)
	return c
}

// begun begins another round after proofs that refuted the search.
func (v *levelProof) begun() {
	if v.r.Rounds == search.MaxRounds {
		m := v.r.Belief.(*levels.Belief)
		if d, sd := m.Step(); d < metric.EffectMargin*v.r.Least || d < metric.ClearlyDiffer*sd {
			v.q.unconfirmed(v.r)
			v.r.Rounds++
			return
		}
	}
	v.r.Contradicted("fresh launches contradicted the search: searching again from clean builds")
}

// fight launches culprit and parent side by side until the claim is decided. The launches inform the belief as well.
func (v *levelProof) fight(m *levels.Belief, c *contest) error {
	announced := 0
	for made := 0; c.test.Pairs() < metric.MaxPairs && v.r.Over() == ""; made++ {
		if made == announced {
			if open, err := v.open(m, c); err != nil || !open {
				return err
			}
			announced += v.announce(m, c, made)
		}
		var pair [2]belief.Launch // parent, culprit
		whole := true
		// The sides take turns in going first, as in the comparison of the ends, against drift.
		for k := range 2 {
			side := k
			if levels.Turned(made) {
				side = 1 - k
			}
			l, ok, err := v.launchSide(m, c, side == 1)
			if err != nil || c.lost != "" {
				return err
			}
			pair[side], whole = l, whole && ok
		}
		if whole {
			c.test.Add(pair[0], pair[1])
			if v.q.Channel.Metric.Exact {
				c.exact = &bisect.Exact{Value: v.q.number(pair[1].Y), Parent: v.q.number(pair[0].Y)}
			}
		}
	}
	return nil
}

// open reports that a contest takes more pairs. Before a claim stands, ends in doubt are launched again.
func (v *levelProof) open(m *levels.Belief, c *contest) (bool, error) {
	for {
		call := v.call(m, c)
		if call <= 0 || v.r.Belief != belief.Belief(m) || !doubtful(v.q, m) {
			return call == 0, nil
		}
		if acted, err := moreOfEnds(v.r); err != nil || !acted {
			return false, err
		}
	}
}

// call is what a contest says so far, see [levels.StepTest.Decided]. Once the belief holds another commit for likelier than
// not, this one is not worth more pairs.
func (v *levelProof) call(m *levels.Belief, c *contest) int {
	if now, p := m.Top(); c.test.Pairs() >= levels.MinPairs && p > 0.5 && !slices.Equal(now, c.members) {
		return -1
	}
	c.test.Beside(m)
	return c.test.Decided(m.Noise(), v.alpha())
}

// announce announces the next pairs of a contest after those made, as many as are probably needed, and returns their number.
func (v *levelProof) announce(m *levels.Belief, c *contest, made int) int {
	_, noise := m.MidLaunch(c.test.Step)
	need := math.Ceil(planOf(v.r, m).Pairs(c.test.Step, noise))
	n := search.PairsAtOnce(v.r, max(levels.MinPairs, int(min(metric.MaxPairs, need))-c.test.Pairs()))
	var next []search.Wanted
	for k := range 2 * n {
		w := search.Wanted{Commit: c.parent, Purpose: bisect.ConfirmParent, On: search.DeviceOfPair(v.r, c.test.Pairs()+k/2)}
		if (k%2 == 1) != levels.Turned(made+k/2) {
			w.Commit, w.Purpose = c.culprit, bisect.ConfirmCulprit
		}
		next = append(next, w)
	}
	search.Announce(v.r, next)
	return n
}

// launchSide launches one side of a contest from a clean build. A side that fails every time is lost to it.
func (v *levelProof) launchSide(m *levels.Belief, c *contest, culprit bool) (l belief.Launch, ok bool, err error) {
	id, why, vain := c.parent, bisect.ConfirmParent, &c.vain[0]
	if culprit {
		id, why, vain = c.culprit, bisect.ConfirmCulprit, &c.vain[1]
	}
	t, err := v.r.Ledger.Launch(v.r.Ctx, v.q, id, why)
	if err != nil {
		return l, false, err
	}
	l, a := v.q.Read(t)
	if a == search.Speaks {
		v.r.Vain, *vain = 0, 0
		if i, known := v.r.Span.Index[id]; known { // a parent before the range has no place in the belief
			l.Index = i
			m.Add(l)
		}
		return l, true, nil
	}
	v.r.Vain, *vain = v.r.Vain+1, *vain+1
	// One failure may be chance; what sends no number at all will not do so later.
	if t.Class != bisect.OK && *vain >= 3 || a == search.Silent && t.Class == bisect.OK {
		if c.lost, c.lostAt = t.Describe(), id; t.Phase == "teardown" {
			c.late = &t
		}
	}
	return l, false, nil
}

// reportContests tells what the proof showed.
func (v *levelProof) reportContests(m *levels.Belief, rounds []*contest, verdict, suspects int) {
	for i, c := range rounds {
		if c.test.Pairs() == 0 && c.lost == "" { // the budget ended first
			continue
		}
		// Only the odds: how far it moved is the effect, which rests on more launches than these pairs.
		text := fmt.Sprintf("%s for a step from %s, %s in turn", words.Odds(c.test.LogOdds(m.Noise())), bisect.ShortID(c.parent), words.Count(c.test.Pairs(), "pair"))
		if c.exact != nil {
			text = fmt.Sprintf("%s: %s, and %s in %s", v.q.Channel.Name(), exactValue(v.q, v.r.Ledger, c.culprit), exactValue(v.q, v.r.Ledger, c.parent), bisect.ShortID(c.parent))
		}
		good := bisect.Verdict{Call: bisect.Good, Class: bisect.OK, Probability: 1 - v.r.Search.Delta(), Trials: c.test.Pairs(), Why: "launched in turn with " + bisect.ShortID(c.culprit)}
		if v.q.Channel.Metric.Exact {
			good.Why = "built anew, as " + bisect.ShortID(c.culprit)
		}
		bad := bisect.Verdict{Call: bisect.Bad, Class: v.q.class(), Probability: 1 - v.r.Search.Delta(), Trials: c.test.Pairs(), Why: text}
		// Only the last contest can have failed: those before it were won, or there would be none after them.
		last := i == len(rounds)-1
		if last && verdict < 1 {
			bad.Call, bad.Class = bisect.Good, bisect.OK
			if verdict == 0 {
				bad.Call = bisect.Untestable
			}
		}
		if c.lost != "" {
			lost := &bad
			if c.lostAt == c.parent {
				lost = &good
			}
			lost.Call, lost.Class, lost.Why = bisect.Untestable, bisect.Skip, c.lost
			if c.late != nil {
				lost.Class, lost.Phase, lost.Other = c.late.Class, c.late.Phase, true
			}
		}
		if i == 0 || last && verdict < 1 {
			v.r.Account.Judged(bisect.Step{Commit: c.culprit, Role: bisect.RoleCulprit, Verdict: bad, Remaining: suspects})
		}
		v.r.Account.Judged(bisect.Step{Commit: c.parent, Role: bisect.RoleParent, Verdict: good, Remaining: suspects})
	}
}

// proven fills in what the culprit did beside its effect, and what could not be launched for the proof.
func (v *levelProof) proven(out *bisect.Culprit, p float64, rounds []*contest) {
	out.Class = v.q.class()
	out.Besides = v.besides(out.Commit, rounds)
	for _, x := range rounds {
		if x.lost == "" {
			continue
		}
		out.Confirmed, out.Confidence = false, min(p, 0.9)
		who := "culprit"
		if x.lostAt == x.parent {
			who = "parent"
		}
		v.r.Account.Warn(fmt.Sprintf("%s %s could not be launched for the confirmation (%s): the answer rests on the search alone", who, bisect.ShortID(x.lostAt), x.lost))
	}
}

// share is the step of the culprit itself, with its error, and the contest that it rests on. The step that the search has found
// is that between the ends; where the pairs of the proof contradict it, the range holds other changes besides, and the pairs
// are what speaks of this one.
func (v *levelProof) share(m *levels.Belief, rounds []*contest) (own, sd float64, pair *contest) {
	own, sd = m.Step()
	least, err, pair := math.Inf(1), 0.0, &contest{}
	for _, c := range rounds {
		enough := c.test.Pairs() >= levels.MinPairs || c.test.Pairs() > 0 && c.test.Decided(m.Noise(), v.alpha()) > 0
		if enough && c.test.Median() < least {
			least, err, pair = c.test.Median(), c.test.Deviation(m.Noise()), c
		}
	}
	if !math.IsInf(least, 1) && math.Abs(least-own) >= contradicts*math.Hypot(err, sd) {
		own, sd = least, err
	}
	return own, sd, pair
}

// rest says that the culprit's own step is not all that the ends differ by, where one culprit was looked for; "" elsewhere.
func (v *levelProof) rest(m *levels.Belief, own, sd float64, pair *contest) string {
	if v.r.Inner || v.r.Search.All {
		return ""
	}
	whole, err := 0.0, 0.0
	if m.Noise().Exact {
		whole = v.q.Exact.Step(v.q.Exact.pick)
	} else {
		whole, err = levels.FitProfile([]int{belief.GoodEnd, v.r.Span.Bad()}, v.q.Ledger(v.r, nil)).Diff(0, 1)
	}
	rest, off := whole-own, math.Hypot(err, sd)
	if parent, known := v.r.Span.Index[pair.parent]; known && !m.Noise().Exact {
		rest, off = levels.Rest(v.q.Ledger(v.r, nil), parent, v.r.Span.Index[pair.culprit], v.r.Span.Bad())
	}
	if rest = math.Abs(rest); rest <= 3*off || rest <= 0.1*math.Abs(whole) {
		return ""
	}
	return fmt.Sprintf("%s: %s by the culprit, %s between the ends, so the range holds other changes as well\nhint: --all looks for every one of them",
		v.q.Channel.Name(), words.Change(v.q.Effect(own, sd).Ratio), words.Change(v.q.Effect(whole, err).Ratio))
}

// besides is what the culprit did to the metric beside the number that was searched for: to all cases together where that
// was one case, and to the case that it moved most where that was all of them. A case counts if it is clearly above others.
func (v *levelProof) besides(culprit string, rounds []*contest) []bisect.Effect {
	parent := slices.IndexFunc(rounds, func(c *contest) bool {
		_, known := v.r.Span.Index[c.parent]
		return known && c.lost == "" && c.test.Pairs() > 0
	})
	if parent < 0 || v.q.Channel.Metric.Exact {
		return nil
	}
	at := []int{v.r.Span.Index[rounds[parent].parent], v.r.Span.Index[culprit]}
	isOK := func(t search.Trial) bool { return t.Class == bisect.OK }
	all := metric.Channels([]metric.Metric{v.q.Channel.Metric}, v.r.Ledger.Last(rounds[parent].parent, isOK), v.r.Ledger.Last(culprit, isOK))
	whole, err := 0.0, 0.0
	var most *bisect.Effect
	clear := math.Sqrt(Remarkable*Remarkable + 2*math.Log(float64(max(1, len(all)-1))))
	far := v.r.Least
	made := inParts(v.r.Ledger)
	for _, c := range all {
		if v.r.Ctx.Err() != nil {
			return nil
		}
		of := v.q.With(c)
		d, sd := levels.FitProfile(at, of.Ledger(v.r, made)).Diff(0, 1)
		switch {
		case !c.All && v.q.Channel.All:
			if d-whole > far && d-whole > clear*math.Hypot(sd, err) {
				most, far = of.Effect(d, sd), d-whole
			}
		case c.All && v.q.Channel.All:
			whole, err = d, sd
		case c.All:
			most = of.Effect(d, sd)
		}
	}
	if most == nil {
		return nil
	}
	return []bisect.Effect{*most}
}
