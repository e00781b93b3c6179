package judge

import (
	"context"
	"fmt"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// Launches of ends of which the bad one does not fail at once.
const (
	rareTries  = 30   // of the bad end, where a failure is looked for
	blindTries = 5    // of the bad end, where nothing was said and nothing else is compared
	endCap     = 80   // of both, until they are told apart
	rareAlike  = 0.02 // that they do not differ, before any was launched
	endTrust   = 0.9  // that they differ: then they are searched, which goes on weighing the question
	endDoubt   = 0.02 // that they differ: then there is nothing to search
)

// mayPass reports ends that one launch each does not settle: the bad end may fail in another launch,
// or the good end has failed although it may well pass.
func (p *Plain) mayPass(g, b bisect.Outcome) bool {
	switch {
	case p.Find == bisect.Slow, p.Find == bisect.BuildFailed, untestable(g), untestable(b), g.Phase == "build", b.Phase == "build":
		return false
	case g.Class != bisect.OK:
		return p.wanted() && (b.Class == g.Class || b.Class == bisect.OK)
	case b.Class == bisect.OK:
		return p.wanted() || p.Find == "" && !p.comparable(g, b)
	}
	return p.Repeat > 1 && p.passed(p.bad)
}

// passed reports that a candidate passed at least once.
func (p *Plain) passed(c bisect.Candidate) bool {
	for _, t := range p.trials {
		if t.Candidate == c && t.Class == bisect.OK {
			return true
		}
	}
	return false
}

// rareEnds launches the bad end until it fails once, and then both ends until it is clear whether the
// bad one fails more often.
func (p *Plain) rareEnds(ctx context.Context, g, b bisect.Outcome) (bisect.Ends, error) {
	first, tries := g, blindTries
	if p.wanted() {
		tries = rareTries
	}
	if g.Class != bisect.OK { // a good end that fails again is none
		again, err := p.launch(ctx, p.good, bisect.EndGood)
		if err != nil {
			return bisect.Ends{}, err
		}
		if again.Class != bisect.OK {
			e := readEnds(p.Options, again, b)
			e.Good, e.Bad = p.read.verdict(again, 2), p.read.verdict(b, 1)
			return e, nil
		}
		g = again
	}
	e, n := readEnds(p.Options, g, b), 1
	for ; !e.Differ && n < tries; n++ {
		var err error
		if b, err = p.launch(ctx, p.bad, bisect.EndBad); err != nil {
			return e, err
		}
		e = readEnds(p.Options, g, b)
	}
	if !e.Differ {
		switch {
		case b.Class != bisect.OK:
		case first.Class == bisect.OK:
			e.Why = fmt.Sprintf("both ends end well, the bad end in each of %d launches", n)
		default:
			e.Why = fmt.Sprintf("the good end failed in 1 of 2 launches (%s), the bad end in none of %d", first.Describe(), n)
			e.Hint = "are the ends swapped? kbisect looks for what got worse between a good end and a later bad one"
		}
		return withVerdicts(e, g, b), nil
	}
	p.read.complaint = e.Complaint
	p.read.fails, p.read.badRuns = 1, n
	return p.tellApart(ctx, g, b, e)
}

// tellApart launches both ends by turns until it is clear whether the bad one fails more often.
func (p *Plain) tellApart(ctx context.Context, g, b bisect.Outcome, e bisect.Ends) (bisect.Ends, error) {
	for {
		tg, tb := p.tallyOf(p.good), p.tallyOf(p.bad)
		same := 1 / (1 + (1-rareAlike)/rareAlike*math.Exp(belief.LogEnds(tb, tg)-belief.LogAlike(tb.Plus(tg))))
		e.Sometimes = true
		e.Why = fmt.Sprintf("the bad end fails in %d of %d launches (%s), the good end in %d of %d", tb.Fails, tb.Launches(), b.Describe(), tg.Fails, tg.Launches())
		e.Good, e.Bad = p.read.verdict(g, tg.Launches()), p.read.verdict(b, tb.Launches())
		switch {
		case 1-same >= endTrust:
			return e, nil
		case 1-same <= endDoubt:
			e.Differ = false
			e.Complaint, p.read.complaint = bisect.Complaint{}, bisect.Complaint{}
			e.OtherGood = true
			e.Hint = "failures that come as often at the good end are no change; name an older good end with --good"
			return e, nil
		case tg.Launches()+tb.Launches() >= endCap:
			e.Differ, e.Unclear = false, true
			e.Why += ": too few to tell whether the bad end fails more often"
			e.Hint = "name a bad end that fails more often with --bad, or a command that runs the program several times and fails when one of them does"
			return e, nil
		}
		c, why := p.good, bisect.EndGood
		rate := belief.FailNext(belief.LogAlike, tb.Plus(tg))
		ifBad := func(t belief.Tally) float64 { return belief.LogEnds(t, tg) }
		ifGood := func(t belief.Tally) float64 { return belief.LogEnds(tb, t) }
		if belief.ClaimInfo(same, rate, belief.FailNext(ifBad, tb)) > belief.ClaimInfo(same, rate, belief.FailNext(ifGood, tg)) {
			c, why = p.bad, bisect.EndBad
		}
		if _, err := p.launch(ctx, c, why); err != nil {
			return e, err
		}
	}
}

// tallyOf counts what the launches of a candidate showed of the complaint.
func (p *Plain) tallyOf(c bisect.Candidate) (t belief.Tally) {
	for _, x := range p.trials {
		if x.Candidate == c {
			t = t.Plus(p.read.shows(x.Outcome))
		}
	}
	return t
}

// dropped are failures that were set aside while times were compared.
type dropped struct {
	failed, launches int
	how              string
	class            bisect.Class
}

// droppedLog holds them by the end that was launched.
type droppedLog map[bisect.Purpose]dropped

// note takes in one launch of an end that was made for its times.
func (l *droppedLog) note(why bisect.Purpose, o bisect.Outcome) {
	if *l == nil {
		*l = droppedLog{}
	}
	d := (*l)[why]
	d.launches++
	if o.Class != bisect.OK && !untestable(o) {
		d.failed++
		d.how, d.class = o.Describe(), o.Class
	}
	(*l)[why] = d
}

// warning says that the bad end failed in some of the launches that were made for their times,
// and the good end in none; "" when that is not so.
func (l droppedLog) warning() string {
	g, b := l[bisect.EndGood], l[bisect.EndBad]
	if b.failed == 0 || g.failed > 0 {
		return ""
	}
	return fmt.Sprintf("while times were compared the bad end failed in %d of %d launches (%s) and the good end in none of %d: that was set aside here\nhint: to find where it came from, search with --find %s",
		b.failed, b.launches, b.how, g.launches, b.class)
}
