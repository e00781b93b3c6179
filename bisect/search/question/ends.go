package question

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/search"
)

const (
	// How often a bad end is launched that has not failed yet.
	rareTries  = 30 // where a failure is looked for; a complaint of every tenth launch is then seen with 96 %
	blindTries = 5  // where nothing was said, and there is no metric to compare

	clearly = 0.9 // probability that the ends differ in how often they fail, from which that becomes the question
)

// Ends implements search.Question. The ends are compared in the first round only.
func (q *Failure) Ends(r *search.Run) (bisect.Ends, error) {
	if q.About == nil {
		e, err := (&endTrials{q, r}).compare()
		if err != nil {
			return e, err
		}
		q.Complaint, q.About = e.Complaint, &e
	}
	// A later round changes what is known of the commits between the ends, not of the ends.
	if !q.About.Differ {
		return *q.About, nil
	}
	r.BlindEnds()
	r.Begin(q.Belief(r))
	return *q.About, nil
}

// endTrials is the comparison of two ends by how their launches end.
type endTrials struct {
	q *Failure
	r *search.Run
}

// compare reads the complaint off the bad end, which has been launched at least once, as has the good end.
func (c *endTrials) compare() (bisect.Ends, error) {
	good, bad := c.r.Span.Good.Commit, c.r.Span.Id(c.r.Span.Bad())
	g, ng := c.r.Ledger.Decisive(good, bisect.EndGood)
	b, nb := c.r.Ledger.Decisive(bad, bisect.EndBad)
	if c.mayPass(g, b) {
		return c.rareEnds(g, b)
	}
	e := ReadEnds(c.r.Search.Options, g, b)
	if e.Differ || e.Untestable || g.Class != bisect.OK || b.Class != bisect.OK {
		c.q.Complaint = e.Complaint
		e.Good, e.Bad = c.q.Judge(g, ng), c.q.Judge(b, nb)
		return e, nil
	}
	e = withVerdicts(e, g, b)
	// A failure was asked for, so that a hint about metrics would be beside the point.
	if c.r.Search.Any || c.r.Search.Find != "" && c.r.Search.Find != bisect.Slow {
		return e, nil
	}
	return unmeasured(c.r.Search.Options, e, g, b), nil
}

// mayPass reports whether one launch of each end does not settle the question: the bad end may fail in another launch,
// or the good end has failed although it may well pass.
func (c *endTrials) mayPass(g, b bisect.Outcome) bool {
	// Whoever names a failure says that it happens: then more launches are made to see it.
	wanted := c.r.Search.Any || c.r.Search.Find != ""
	switch {
	case c.r.Search.Find == bisect.Slow, c.r.Search.Find == bisect.BuildFailed, g.Untestable(), b.Untestable(), g.Phase == "build", b.Phase == "build":
		return false
	case g.Class != bisect.OK:
		return wanted && (b.Class == g.Class || b.Class == bisect.OK)
	case b.Class == bisect.OK:
		return wanted || c.r.Search.Find == "" && len(metric.Channels(c.r.Search.Metrics, g, b)) == 0
	}
	return slices.ContainsFunc(c.r.Ledger.Of(c.r.Span.Id(c.r.Span.Bad()), bisect.EndBad), func(t search.Trial) bool { return t.Class == bisect.OK })
}

// rareEnds launches the bad end until it fails once, at most rareTries or blindTries times. A good end that has failed
// is launched once more: if it fails again it is not a good end. Whether the bad end fails more often than the good one
// is left to the belief, which weighs commits and ends alike.
func (c *endTrials) rareEnds(g, b bisect.Outcome) (bisect.Ends, error) {
	good, bad := c.r.Span.Good.Commit, c.r.Span.Id(c.r.Span.Bad())
	first, tries := g, blindTries
	if c.r.Search.Any || c.r.Search.Find != "" {
		tries = rareTries
	}
	if g.Class != bisect.OK { // a good end that fails again is none
		again, err := c.r.Ledger.Launch(c.r.Ctx, c.q, good, bisect.EndGood)
		if err != nil {
			return bisect.Ends{}, err
		}
		if again.Class != bisect.OK {
			e := ReadEnds(c.r.Search.Options, again.Outcome, b)
			e.Good, e.Bad = c.q.Judge(again.Outcome, 2), c.q.Judge(b, 1)
			return e, nil
		}
		g = again.Outcome
	}
	e, n := ReadEnds(c.r.Search.Options, g, b), 1
	// g is a pass from here on, so ReadEnds tells them apart as soon as the bad end fails.
	for ; !e.Differ && n < tries && c.r.Over() == ""; n++ {
		t, err := c.r.Ledger.Launch(c.r.Ctx, c.q, bad, bisect.EndBad)
		if err != nil {
			return e, err
		}
		b = t.Outcome
		e = ReadEnds(c.r.Search.Options, g, b)
	}
	if !e.Differ {
		switch {
		case b.Class != bisect.OK:
		case first.Class == bisect.OK:
			e.Why = fmt.Sprintf("both ends pass, the bad end in %d of %[1]d launches", n)
			if tries == blindTries {
				e.Hint = fmt.Sprintf("if it fails only sometimes, --find any launches it up to %d times; %s", rareTries, e.Hint)
			}
		default:
			e.Why = fmt.Sprintf("the good end failed in 1 of 2 launches (%s), the bad end in none of %d", first.Describe(), n)
			e.Hint = "are the ends swapped? kbisect looks for what got worse between a good end and a later bad one"
		}
		return withVerdicts(e, g, b), nil
	}
	c.q.Complaint = e.Complaint
	e.Why = c.counts()
	e.Good, e.Bad = c.q.Judge(g, c.r.Ledger.Tally(c.q, good, "").Launches()), c.q.Judge(b, c.r.Ledger.Tally(c.q, bad, "").Launches())
	return e, nil
}

// alike ends a run whose ends do not differ with probability p, once enough launches at the full limit have said so. A run that
// is over before it is clear that they do differ ends too, as unclear. done and acted are those of search.Question.Settled.
func (c *endTrials) alike(p float64) (done, acted bool, err error) {
	if p < 1-credible {
		return false, false, nil
	}
	over, bad := c.r.Over(), c.r.Span.Id(c.r.Span.Bad())
	id := c.r.Ledger.EarlyOnly()
	if good := c.r.Span.Good.Commit; c.r.Ledger.Unconfirmed(good) { // which has to fail as the bad end does
		id = good
	}
	switch {
	case over != "" && !c.r.GiveUp(over):
		return false, true, nil
	case over != "":
	case p < alikeTrust:
		return false, false, nil
	case id != "": // it may be slow and pass: then trials lied
		_, err := c.r.Try(id, bisect.ConfirmCulprit)
		return false, true, err
	case c.r.Ledger.Tally(c.q, bad, "").Launches() < rareTries: // it may fail often all the same, for a reason that no commit explains
		_, err := c.r.Try(bad, bisect.EndBad)
		return false, true, err
	}
	f := &c.r.Account.Finding
	e := &f.Ends
	e.Why, e.Differ = c.counts(), false
	if over != "" {
		e.Unclear = true
		e.Why += ": too few to tell whether the bad end fails more often"
		e.Hint = "name a bad end that fails more often with --bad, or a command that runs the program several times and fails when one of them does"
		return true, false, nil
	}
	f.Result, f.Complaint, e.Complaint, e.OtherGood = bisect.NoDifference, bisect.Complaint{}, bisect.Complaint{}, true
	e.Hint = "the good end fails as often, so nothing changed; name an older good end with --good, or a bad end that fails more often with --bad"
	return true, false, nil
}

// counts says how often each end failed, in one sentence.
func (c *endTrials) counts() string {
	bad := c.r.Span.Id(c.r.Span.Bad())
	tg, tb := c.r.Ledger.Tally(c.q, c.r.Span.Good.Commit, ""), c.r.Ledger.Tally(c.q, bad, "")
	how := c.r.Ledger.Last(bad, func(t search.Trial) bool { l, a := c.q.Read(t); return a == search.Speaks && l.Failed })
	return fmt.Sprintf("the bad end fails in %d of %d launches (%s), the good end in %d of %d", tb.Fails, tb.Launches(), how.Describe(), tg.Fails, tg.Launches())
}

// FailsMore reports whether the launches made for a metric fail clearly more often at the bad end than at the good
// one, in whatever way.
func FailsMore(r *search.Run) bool {
	// Any failure counts: the question is only whether there is something besides the metric.
	q := &Failure{Complaint: bisect.Complaint{Any: true}}
	b := q.Belief(r).(*belief.Failures)
	for _, i := range []int{belief.GoodEnd, r.Span.Bad()} {
		for _, t := range r.Ledger.Of(r.Span.Id(i), r.Span.Purpose(i)) {
			if l, a := q.Read(t); a == search.Speaks {
				l.Index = i
				b.Add(l)
			}
		}
	}
	return b.Of(r.Span.Bad()).Fails > 0 && 1-b.Posterior().Alike > clearly
}

// withVerdicts adds the verdicts of two ends that both passed.
func withVerdicts(e bisect.Ends, g, b bisect.Outcome) bisect.Ends {
	e.Good = bisect.Verdict{Call: bisect.Good, Probability: 1, Class: g.Class, Why: g.Describe(), Trials: 1}
	e.Bad = bisect.Verdict{Call: bisect.Good, Probability: 1, Class: b.Class, Why: b.Describe(), Trials: 1}
	return e
}

// ReadEnds says all that one launch of each end, g good and b bad, can settle. Differ is true only where the bad end failed and
// the good one did not; the Complaint is set then. Ends that both pass do not differ here: metrics are compared elsewhere.
func ReadEnds(o search.Options, g, b bisect.Outcome) bisect.Ends {
	var e bisect.Ends
	// Of two ends that fail, what to do next depends on how, so each case has its hint.
	// The good end comes first: without a good one, a bad end proves nothing.
	switch {
	case g.Untestable() && b.Class == g.Class:
		e.Why = fmt.Sprintf("neither end can be tested: good end %s; bad end %s", g.Describe(), b.Describe())
		e.Hint, e.OtherGood = "name other ends with --good and --bad", true
		if g.Class == bisect.BuildFailed {
			e.Check = "does the build command work in a fresh clone? candidates hold only what is committed; "
			e.Hint = e.Check + "else name an older good end with --good"
		}
	case g.Untestable():
		e.Untestable = true
		e.Why = "the good end cannot be tested: " + g.Describe()
		e.Hint, e.OtherGood = "name another good end with --good, one that builds and runs", true
	case g.Class != bisect.OK && b.Class == bisect.OK:
		e.Why = fmt.Sprintf("the good end is bad (%s) and the bad end is good", g.Describe())
		e.Hint = "either the ends are swapped, or the range holds a fix; kbisect looks for what got worse between a good end and a later bad one"
	case g.Class == b.Class && g.Class != bisect.OK:
		e.Why = fmt.Sprintf("both ends fail in the same way: good end %s; bad end %s", g.Describe(), b.Describe())
		e.Hint, e.OtherGood = "name an older good end with --good, or let --find-good look for one", true
		if g.Class == bisect.Timeout {
			e.Check = "is the limit too short (--limit, or the limits in kbisect.toml)? "
			e.Hint = e.Check + "else name an older good end with --good"
		}
	case g.Class != bisect.OK:
		e.Why = "the good end is bad: " + g.Describe()
		e.Hint, e.OtherGood = "name a good end that passes with --good, or let --find-good look for one", true
	case b.Class == bisect.Skip:
		e.Untestable = true
		e.Why = "the bad end cannot be tested: " + b.Describe()
		e.Hint = "name another bad end with --bad"
	case b.Class == bisect.OK:
		e.Why = "both ends pass"
		if o.Find == "" {
			e.Hint = cmp.Or(o.Untimed, "to look for a slowdown of a program that sends no samples, try --find slow --metric wall")
			if why := unlike(o.Metrics, g, b); why != "" {
				e.Hint = why + "; --find slow --metric wall compares the time of the whole run instead"
			}
		}
	default:
		if e = ReadComplaint(o, b); e.Differ && o.Find == bisect.BuildFailed {
			e.Why = "the bad end does not build"
		}
	}
	return e
}

// ReadComplaint takes the complaint from a bad end that failed. Where it is not the one asked for, Differ is false and
// the Complaint empty.
func ReadComplaint(o search.Options, b bisect.Outcome) bisect.Ends {
	c := bisect.Complaint{Class: b.Class, Any: o.Any}
	if b.Class == bisect.Timeout {
		c.Phase, c.Whole = b.Phase, b.Whole
		c.AnyPhase = o.Find == bisect.Timeout && o.Phase == ""
	}
	e := bisect.Ends{Complaint: c, Why: "bad end: " + b.Describe()}
	switch {
	case o.Find != "" && o.Find != b.Class:
		e.Why = fmt.Sprintf("the bad end does not show the complaint asked for (%s) but another: %s", o.Find, b.Describe())
	case o.Phase != "" && o.Phase != b.Phase && !strings.HasSuffix(b.Phase, "/"+o.Phase): // "check" is test/check, too
		e.Why = fmt.Sprintf("the bad end does not show the complaint asked for (phase %s) but another: %s", o.Phase, b.Describe())
	default:
		e.Differ = true
		return e
	}
	e.Complaint = bisect.Complaint{}
	e.Hint = "leave out --find and --phase to search for what the bad end does show"
	return e
}

// unmeasured explains ends that both pass where a slow metric was asked for and neither end reports it.
func unmeasured(o search.Options, e bisect.Ends, g, b bisect.Outcome) bisect.Ends {
	if o.Find == bisect.Slow && len(o.Metrics) > 0 {
		e.Why = fmt.Sprintf("both ends pass, and neither sent a value of %s", o.Metrics[0].Name)
		if why := unlike(o.Metrics, g, b); why != "" {
			e.Why = "both ends pass, and " + why
		}
		e.Hint = "send samples on KBISECT_FD, or choose one of " + strings.Join(metric.SentByBoth(g, b), ", ") + " with --metric"
	}
	return e
}

// unlike says why values that at least one end sent cannot be compared; "" when neither sent any. The first metric for
// which there is a reason counts.
func unlike(ms []metric.Metric, g, b bisect.Outcome) string {
	sides := [2]string{"the good end", "the bad end"}
	for _, m := range ms {
		for side, o := range []bisect.Outcome{g, b} {
			if named := slices.ContainsFunc(o.Series, func(s bisect.Series) bool { return s.Metric == m.Name }); named && len(metric.Cases(m, o)) == 0 {
				return fmt.Sprintf("%s of %s is not above 0, or beyond every measurement: there is no ratio", m.Name, sides[side])
			}
		}
		clash := metric.Clashes([]metric.Metric{m}, [2]bisect.Outcome{g, b}, sides)
		switch a, c := metric.Cases(m, g), metric.Cases(m, b); {
		case len(a) > 0 && len(c) == 0:
			return "only the good end sent values of " + m.Name
		case len(c) > 0 && len(a) == 0:
			return "only the bad end sent values of " + m.Name
		case clash != nil:
			return clash[0]
		case len(a) > 0 && metric.InCommon(a, c) == nil:
			return fmt.Sprintf("the ends have no case of %s in common: %s at the good end, %s at the bad one", m.Name, words.Listed(a, 3), words.Listed(c, 3))
		}
	}
	return ""
}
