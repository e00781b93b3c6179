package find

import (
	"context"
	"math"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/search/question"
	"github.com/kbisect/kbisect/bisect/sets"
)

// SetOracle answers by launches whether sets of changes show the complaint that tells the ends apart.
// One launch answers where the complaint is a class; where it is a metric, launches in turn with the
// good end do. It serves one goroutine.
type SetOracle struct {
	Candidate func(sets.Set) (bisect.Candidate, error)
	Sampler   bisect.Sampler
	search.Options
	Clean bool        // certificates come from clean builds
	Class bool        // only how launches end tells ends apart, no metric does
	Spent func() bool // reports that the budget is used up, for launches in turn; may be nil
	Parts bool        // sets are parts of changes, no whole programs: another exception than the bad end's is of their own

	good    bisect.Candidate
	outcome bisect.Outcome // of the good end
	q       question.Failure
	ends    bisect.Ends
	led     *search.Ledger
	slow    *levels.Belief // holds the noise, where the complaint is a metric
	level   *question.Level
	unfit   int
}

// Ends is what the two ends have shown, once both were tested.
func (o *SetOracle) Ends() bisect.Ends { return o.ends }

// mostSetPairs bounds the launches by which a set is told slow or not.
const mostSetPairs = 40

// Test implements [sets.Oracle].
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
	x, err := o.led.Sample(ctx, o.request(c, r))
	if err == nil && r.Purpose == sets.AllChanges && !o.ends.Differ {
		return o.Read(x.Outcome), nil // its complaint does not come every time
	}
	return o.result(x.Outcome), err
}

// request asks for the trial of a test.
func (o *SetOracle) request(c bisect.Candidate, r sets.Request) bisect.Request {
	out := bisect.Request{Candidate: c, Purpose: bisect.Purpose(r.Purpose), Nth: r.Nth, Clean: o.Clean && r.Clean, Past: r.Past, BuildOnly: o.Builds}
	if !r.Full && o.q.Complaint.Class == bisect.Timeout {
		out.Hurry = o.q.Hurry()
	}
	return out
}

func (o *SetOracle) goodEnd(ctx context.Context, c bisect.Candidate) (sets.Result, error) {
	x, err := o.led.Sample(ctx, bisect.Request{Candidate: c, Purpose: bisect.EndGood, BuildOnly: o.Builds})
	o.good, o.outcome = c, x.Outcome
	return o.result(x.Outcome), err
}

// badEnd launches the bad end and reads off what tells the ends apart: how they end, or else a metric.
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

// Read reads off an outcome of the bad end how it ends other than the good end.
func (o *SetOracle) Read(x bisect.Outcome) sets.Result {
	g := o.outcome
	e := question.ReadEnds(o.Options, g, x)
	if e.Complaint.Class == bisect.Timeout && o.Phase == "" {
		e.Complaint.AnyPhase = true // what moves a time-out to another phase does not mend it
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

// slowEnd compares ends that both end well by their metrics, as a search of a history does.
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

// parsed reads candidates that a search of a history knows by their text only.
type parsed struct{ next bisect.Sampler }

func (s parsed) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	r.Candidate = bisect.ParseCandidate(r.Candidate.Commit)
	return s.next.Sample(ctx, r)
}

// result reads one outcome against the complaint.
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

// compare tells by launches in turn with the good end whether a set is as slow as the bad end, or half
// so.
func (o *SetOracle) compare(ctx context.Context, c bisect.Candidate, r sets.Request) (sets.Result, error) {
	out := sets.Result{}
	step, _ := o.slow.Step()
	test := levels.StepTest{Step: step}
	noise, alpha := o.slow.Noise(), o.Options.Delta()
	for test.Pairs() < mostSetPairs && test.Decided(noise, alpha) == 0 && (o.Spent == nil || !o.Spent()) {
		var y, at [2]float64
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
			y[side], at[side], ok = l.Y, l.At, ok && a == search.Speaks
		}
		if ok {
			test.Add(y[1]-y[0], at[1]-at[0])
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

// launch makes the next launch of one side of a comparison. It goes on counting where the comparison of
// the ends has stopped, so that no launch of either is taken for another.
func (o *SetOracle) launch(ctx context.Context, c bisect.Candidate, r sets.Request, tested bool) (search.Trial, error) {
	why := bisect.EndGood
	if tested {
		why = bisect.Purpose(r.Purpose)
	}
	return o.led.Sample(ctx, bisect.Request{Candidate: bisect.Candidate{Commit: c.String()}, Purpose: why, Nth: o.led.Number(c.String(), why), Clean: tested && o.Clean && r.Clean, Timing: true})
}
