package find

import (
	"context"
	"errors"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/search/question"
	"github.com/kbisect/kbisect/bisect/sets"
)

// SetOracle tells by launches whether sets of changes show the complaint that sets the ends apart. Where the complaint
// is a class, one launch answers; where it is a metric, a set is launched in turn with the good end.
//
// The first two tests must be those of the ends: sets.Baseline, which is the good end, and then sets.AllChanges, the
// bad end, from which the complaint is read. It is not safe for concurrent use.
type SetOracle struct {
	// Candidate makes what a set stands for into something to launch. Its error ends the search.
	Candidate func(sets.Set) (bisect.Candidate, error)
	Sampler   bisect.Sampler
	search.Options
	Clean bool // certificates come from clean builds
	Class bool // only how launches end tells ends apart, no metric does
	// Timed says that a launch which confirms a safe set finds the same as one which times it, so that it is both, in turn
	// with launches of the good end.
	Timed bool
	Spent func() bool // reports that the budget is used up, for launches in turn; may be nil
	// Parts says that sets are parts of a change, so that most are not programs anyone has written: one that ends in
	// another exception than the bad end fails for a reason of its own.
	Parts bool

	good    bisect.Candidate
	outcome bisect.Outcome // of the good end
	q       question.Failure
	ends    bisect.Ends
	led     *search.Ledger
	slow    *levels.Belief // holds the noise, where the complaint is a metric
	level   *question.Level
	unfit   int // pairs, in all tests, whose times could not be compared
}

// Ends is what the two ends have shown, once both were tested.
func (o *SetOracle) Ends() bisect.Ends { return o.ends }

// mostSetPairs is the number of pairs of launches after which a set that is not yet told slow or not is left unjudged.
const mostSetPairs = 40

// Test implements [sets.Oracle]. Errors are those of Candidate and of the Sampler.
func (o *SetOracle) Test(ctx context.Context, r sets.Request) (sets.Result, error) {
	c, err := o.Candidate(r.Set)
	if err != nil {
		return sets.Result{}, err
	}
	if o.led == nil {
		o.led = search.NewLedger(&search.Search{Sampler: o.Sampler, Options: o.Options})
	}
	switch {
	case r.Purpose == sets.Baseline && r.Nth == 0:
		return o.goodEnd(ctx, c)
	case r.Purpose == sets.AllChanges && r.Nth == 0:
		return o.badEnd(ctx, c)
	case o.slow != nil:
		return o.compare(ctx, c, r)
	}
	req := o.request(c, r)
	x, err := o.led.Sample(ctx, req)
	if err == nil && req.Timing && x.Class == bisect.OK {
		if _, err = o.led.Sample(ctx, bisect.Request{Candidate: o.good, Purpose: bisect.EndGood, Nth: r.Nth, Timing: true}); errors.Is(err, bisect.ErrSpent) {
			err = nil // what the set did is known
		}
	}
	if err == nil && r.Purpose == sets.AllChanges && !o.ends.Differ {
		return o.Read(x.Outcome), nil // a flaky complaint: this launch of the bad end may be the first to show it
	}
	return o.result(x.Outcome), err
}

// request asks for the trial of a test where the complaint is a class. A test that need not be Full may be stopped
// once no good run could still be in the phase.
func (o *SetOracle) request(c bisect.Candidate, r sets.Request) bisect.Request {
	out := bisect.Request{Candidate: c, Purpose: bisect.Purpose(r.Purpose), Nth: r.Nth, Clean: o.Clean && r.Clean, Past: r.Past, BuildOnly: o.Builds}
	if !r.Full && o.q.Complaint.Class == bisect.Timeout {
		out.Hurry = o.q.Hurry()
	}
	out.Timing = o.Timed && r.Purpose == sets.Seeding && out.Hurry == "" && out.Past == 0
	return out
}

func (o *SetOracle) goodEnd(ctx context.Context, c bisect.Candidate) (sets.Result, error) {
	x, err := o.led.Sample(ctx, bisect.Request{Candidate: c, Purpose: bisect.EndGood, BuildOnly: o.Builds})
	o.good, o.outcome = c, x.Outcome
	return o.result(x.Outcome), err
}

// badEnd launches the bad end and reads off what sets the ends apart: how they end or, where both end well, a metric.
func (o *SetOracle) badEnd(ctx context.Context, c bisect.Candidate) (sets.Result, error) {
	x, err := o.led.Sample(ctx, bisect.Request{Candidate: c, Purpose: bisect.EndBad, BuildOnly: o.Builds})
	if err != nil {
		return sets.Result{}, err
	}
	out, g := o.Read(x.Outcome), o.outcome
	if g.Class != bisect.OK || x.Class != bisect.OK || o.Class {
		return out, nil
	}
	return o.slowEnd(ctx, c, out)
}

// Read reads the complaint off an outcome of the bad end, and makes it the one of this oracle.
func (o *SetOracle) Read(x bisect.Outcome) sets.Result {
	g := o.outcome
	e := question.ReadEnds(o.Options, g, x)
	if e.Complaint.Class == bisect.Timeout && o.Phase == "" {
		e.Complaint.AnyPhase = true // what moves a time-out to another phase does not fix it
	}
	if o.Parts {
		e.Complaint.Error = x.Error
	}
	o.ends, o.q.Complaint = e, e.Complaint
	out := o.result(x)
	if !e.Differ && x.Failed() && !g.Failed() {
		out.Answer = sets.Unjudged
	}
	return out
}

// slowEnd compares two ends that both end well by their metrics. To the search of a history they are a range of one
// commit, so that the rules for calling ends different are the same. The noise of these launches later decides how
// many pairs a set takes. out is the answer where the ends do not differ.
func (o *SetOracle) slowEnd(ctx context.Context, c bisect.Candidate, out sets.Result) (sets.Result, error) {
	bad := bisect.Commit{ID: c.String(), Parents: []string{o.good.String()}}
	s := &search.Search{Commits: []bisect.Commit{bad}, Good: bisect.Candidate{Commit: o.good.String()}, Spent: o.Spent, Options: o.Options}
	s.Sampler = parsed{o.Sampler}
	o.led.ByText(s)
	run := search.NewRun(ctx, s, o.led, search.NewSpan(s.Commits, s.Good, ""))
	if err := (&job{run}).ask(); err != nil {
		return out, err
	}
	q, slow := run.Question.(*question.Level)
	if !slow {
		return out, nil
	}
	e, err := q.Ends(run)
	if err != nil {
		return out, err
	}
	run.Account.Ends(run, e)
	o.ends, o.q.Complaint = e, e.Complaint
	if e.Differ {
		o.level, o.slow = q, run.Belief.(*levels.Belief)
		step, _ := o.slow.Step()
		out.Answer, out.Class, out.Slow = sets.Fail, bisect.Slow, math.Exp(step)
	}
	return out, nil
}

// parsed launches candidates that the search of a history knows only by their text, as the ids of commits.
type parsed struct{ next bisect.Sampler }

func (s parsed) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	r.Candidate = bisect.ParseCandidate(r.Candidate.Commit)
	return s.next.Sample(ctx, r)
}

// result reads one outcome against the complaint. Before the complaint is known every failure counts. A pass that took
// longer than a good run can is Between: slow, but no time-out.
func (o *SetOracle) result(x bisect.Outcome) sets.Result {
	r := sets.Result{Seconds: x.Wall, Class: x.Class, Phase: x.Phase, Early: x.Early}
	if x.Built {
		r.Seconds += x.Build
	}
	took, usual := phaseTime(x, o.q.Complaint), phaseTime(o.outcome, o.q.Complaint)
	if usual > 0 {
		r.Slow = took / usual
	}
	switch {
	case x.Class == bisect.OK:
		r.Answer = sets.Pass
		r.Between = o.q.Complaint.Class == bisect.Timeout && usual > 0 && took > bisect.Patience(usual)
	case o.q.Complaint.Class != "" && o.q.Complaint.Matches(x):
		r.Answer = sets.Fail
	case x.Untestable(), o.q.Complaint.Class != "":
		r.Answer = sets.Unjudged
	default:
		r.Answer = sets.Fail
	}
	return r
}

// phaseTime is how long a trial took in the phase that a complaint is about, in seconds.
func phaseTime(x bisect.Outcome, c bisect.Complaint) float64 {
	for _, p := range x.Phases {
		if p.Name == c.Phase && !c.Whole {
			return p.Seconds
		}
	}
	return x.Wall
}

// compare tells by pairs of launches, one of the good end and one of the set, whether the set is as slow as the bad
// end. The order within a pair alternates, against drift. The test is the one of a culprit (levels.StepTest), so a set
// that has half the step may be left unjudged.
func (o *SetOracle) compare(ctx context.Context, c bisect.Candidate, r sets.Request) (sets.Result, error) {
	out := sets.Result{}
	step, _ := o.slow.Step()
	test := levels.StepTest{Step: step}
	noise, alpha := o.slow.Noise(), o.Options.Delta()
	for test.Pairs() < mostSetPairs && test.Decided(noise, alpha) == 0 && (o.Spent == nil || !o.Spent()) {
		var pair [2]belief.Launch // good end, set
		ok := true
		for k := range 2 {
			side := (k + test.Pairs()) % 2
			x, err := o.launch(ctx, []bisect.Candidate{o.good, c}[side], r, side == 1)
			if err != nil {
				return out, err
			}
			out.Seconds += x.Wall
			if side == 1 && x.Class != bisect.OK {
				out.Answer, out.Class, out.Phase = sets.Unjudged, x.Class, x.Phase
				return out, nil
			}
			l, a := o.level.Read(x)
			pair[side], ok = l, ok && a == search.Speaks
		}
		// A pair counts only whole. Too many that do not end the test: the machine is then no place to compare times.
		if ok {
			test.Add(pair[0], pair[1])
		} else if o.unfit++; o.unfit > metric.MaxUnfit {
			break
		}
	}
	out.Launches = test.Pairs()
	out.Class, out.Slow = bisect.OK, math.Exp(test.Median())
	switch test.Decided(noise, alpha) {
	case 1:
		out.Answer, out.Class = sets.Fail, bisect.Slow
	case -1:
		out.Answer = sets.Pass
	default:
		out.Answer = sets.Unjudged
	}
	return out, nil
}

// launch makes the next launch of one side of a comparison. Its numbers go on where the comparison of the ends has
// stopped, so that no launch is taken for an earlier one.
func (o *SetOracle) launch(ctx context.Context, c bisect.Candidate, r sets.Request, tested bool) (search.Trial, error) {
	why := bisect.EndGood
	if tested {
		why = bisect.Purpose(r.Purpose)
	}
	return o.led.Sample(ctx, bisect.Request{Candidate: bisect.Candidate{Commit: c.String()}, Purpose: why, Nth: o.led.Number(c.String(), why), Clean: tested && o.Clean && r.Clean, Timing: true})
}
