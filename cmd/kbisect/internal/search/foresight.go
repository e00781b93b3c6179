package search

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/capacity"
)

// foresight fills free slots with the trials that a search will probably ask for next. To find them it repeats the
// search with the launches known so far and follows what it asks for. It changes neither the search nor its
// results; at worst a trial was wasted.
type foresight struct {
	session *session.Session
	batch   *[]bisect.Request // what the search has announced; nil if it announces nothing
}

// start fills the slots until stop is called, which waits for their trials and returns their error. again repeats
// the search from its beginning and sets chance to the probability that the trial it asks for next will fail. With
// one slot there is nothing to fill.
func (f foresight) start(again func(ctx context.Context, below bisect.Sampler, chance *float64)) (stop func() error) {
	s := f.session
	if len(s.Slots.Each) == 1 {
		return func() error { return nil }
	}
	var chance float64
	ahead := &bisect.Foresight{
		Again: func(ctx context.Context, below bisect.Sampler) { again(ctx, below, &chance) },
		Known: s.Ledger.Recall,
		Guess: func(r bisect.Request) []bisect.Guess { return f.guess(r, chance) },
	}
	gauge := capacity.New(0)
	var took float64 // seconds, to foresee the last time
	s.Slots.Next = func(ctx context.Context, n int) []bisect.Request {
		if next := f.announced(); len(next) > 0 {
			return next
		}
		pass, fail, ok := session.Examples(s.Launches)
		// A search of hundreds of short launches takes longer to repeat than to go on with.
		if !ok || s.Spent() || took > (pass.Wall+fail.Wall)/2+pass.Build {
			return nil
		}
		if s.Slots.Careful {
			n = f.room(gauge)
		}
		began := time.Now()
		defer func() { took = time.Since(began).Seconds() }()
		return ahead.Next(ctx, n)
	}
	return func() error {
		s.Slots.Next = nil
		return s.Slots.Stop()
	}
}

// announced is what the search has announced and what has not been made yet.
func (f foresight) announced() []bisect.Request {
	if f.batch == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(*f.batch), func(r bisect.Request) bool {
		_, made := f.session.Ledger.Recall(r)
		return made
	})
}

// room is how many trials may run at a time if nobody has said that they share nothing. It is more than one only if
// both ends, launched alone, were plain cases and used enough processor time for it to be worth it. A command that
// mostly waits is left alone: it may wait for something of which there is only one, such as a port or a lock.
func (f foresight) room(g *capacity.Gauge) (n int) {
	const worth = 0.5 // seconds of processor time
	s := f.session
	pass, fail, _ := session.Examples(s.Launches)
	plain := func(l report.Launch) bool {
		return !l.Purpose.IsEnd() || l.Outcome.Class == bisect.OK == (l.Purpose == bisect.EndGood)
	}
	for _, l := range s.Launches {
		if s.OneByOne || fail.Class == bisect.Timeout || max(pass.CPU, fail.CPU) < worth || !plain(l) {
			return 0
		}
	}
	// Processors in use are processor time by wall time; the gauge admits as many trials as the machine then has room for.
	used := 0.0
	for _, o := range []bisect.Outcome{pass, fail} {
		if o.Wall > 0 {
			used = max(used, o.CPU/o.Wall)
		}
	}
	g.Learn(used, max(pass.Memory, fail.Memory))
	for n < len(s.Pipes) && g.Admits(n, 0) {
		n++
	}
	return n
}

// guess is what a trial may end as, by the examples of both ends; none for a trial that must run alone, or for one more
// launch of a candidate that another slot would have to build anew for longer than the launch takes. A trial that has
// run for longer than passing ones do will probably fail.
func (f foresight) guess(r bisect.Request, chance float64) []bisect.Guess {
	s := f.session
	pass, fail, ok := session.Examples(s.Launches)
	// A number cannot be guessed as an ending can, and what must run alone cannot be made ahead.
	if !ok || s.Alone(r) || r.Timing || r.Nth > 0 && pass.Build > pass.Wall {
		return nil
	}
	const late = 1.5 // times the wall time of a passing trial
	if ran, yes := s.Slots.Running(r); yes && ran.Seconds() > late*(pass.Wall+pass.Build) && fail.Wall > ran.Seconds() {
		chance = max(chance, 0.9)
	}
	return bisect.Guesses(r, pass, fail, chance)
}

// history fills the slots with what the search of a history will ask for, until stop is called.
func (f foresight) history(plan search.Search) (stop func() error) {
	// The repetitions get copies and no callbacks: what they assume must not reach the display, the store or the search
	// that is really going on.
	plan.OnProgress, plan.OnProspect, plan.Weigh, plan.OnStep, plan.Spent, plan.Left, plan.Ahead, plan.Listen, plan.Soon, plan.Redo, plan.Batch, plan.Apart = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
	const most = 5000 // commits: repeating the search of a larger range takes too long
	return f.start(func(ctx context.Context, below bisect.Sampler, chance *float64) {
		if len(plan.Commits) > most {
			return
		}
		again := plan
		again.Sampler = bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
			switch r.Purpose { // what a proof will show is expected; all else is as likely to pass as to fail
			case bisect.ConfirmCulprit:
				*chance = 0.95
			case bisect.ConfirmParent:
				*chance = 0.05
			default:
				*chance = 0.5
			}
			return below.Sample(ctx, r)
		})
		_, _ = find.Culprits(ctx, &again) // only its requests matter
	})
}

// sets fills the slots with what a search over sets will ask for. fresh makes that search from its beginning. It fills
// none if trials may run ahead only with care (see room).
func (f foresight) sets(fresh func(below bisect.Sampler) (*sets.Search, *find.SetOracle), sampler bisect.Sampler) (stop func() error) {
	if f.session.Slots.Careful {
		return func() error { return nil }
	}
	over := func(below bisect.Sampler) bisect.Sampler { return below }
	if e, ok := sampler.(*evidence); ok {
		before := e.clone(nil)
		over = func(below bisect.Sampler) bisect.Sampler { return before.clone(below) }
	}
	return f.start(func(ctx context.Context, below bisect.Sampler, chance *float64) {
		again, oracle := fresh(over(below))
		again.Oracle = setChance{oracle, chance}
		_, _ = again.Find(ctx) // only its requests matter
	})
}

// builds starts the builds of what will probably be asked for next, except for remembered trials.
func (f foresight) builds(next []bisect.Request) {
	s := f.session
	s.Pipe.Ahead(slices.DeleteFunc(next, func(r bisect.Request) bool {
		return len(s.Memory.Known[r.ID()]) > 0
	}))
}

// errDiffer ends a search whose launches beside others do not agree with those made alone.
var errDiffer = errors.New("launches beside others end differently from those alone")

// careful hands out the launches of a search that may have run beside others. Such a launch counts if it passed or
// showed what the bad end shows; any other is made again, alone.
type careful struct {
	session *session.Session
	used    bool // a launch that ran beside others was handed out
}

// Sample implements bisect.Sampler. Its error is errDiffer once launches beside others are seen to differ.
func (c *careful) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	s := c.session
	if r.Purpose == bisect.ConfirmParent && crowded(s, r.Candidate) {
		pipeline.Quiet(s.Pipe)
	}
	o, err := s.Memory.Sample(ctx, r)
	differ := false // the launch alone ended otherwise than the one beside others
	if err == nil && o.Beside && !c.expected(r, o) {
		const apart = 2000 // from the launches that the search numbers
		first, alone := o, r
		alone.Nth, alone.AnyStart = r.Nth+apart, !r.Timing // it may find what the first one compiled
		s.OneByOne = true
		pipeline.Quiet(s.Pipe)
		o, err = s.Memory.Sample(ctx, alone)
		s.OneByOne, differ = false, o.Class != first.Class
		o.Opened = first.Opened
	}
	c.used = c.used || o.Beside
	if err == nil && (differ || session.Disagree(s)) {
		return o, errDiffer
	}
	return o, err
}

// crowded reports that a commit was launched a few times, and each time beside others: no proof rests on these alone. While
// others still run for which a launch alone would have to wait, it may be one more.
func crowded(s *session.Session, of bisect.Candidate) bool {
	few := 3 // a proof needs five
	if pipeline.Crowded(s.Pipe) {
		few++
	}
	n := 0
	for id, all := range s.Ledger.Known {
		if id.Candidate != of {
			continue
		}
		if n += len(all); slices.ContainsFunc(all, func(o bisect.Outcome) bool { return !o.Beside }) {
			return false
		}
	}
	return n >= few
}

// expected reports whether a launch beside others ended as one of the ends did when it was launched alone: it passed,
// or a searched commit failed in exactly the same way as the bad end. So may the culprit the first time: where that can run
// beside others, the proof asks for it again. What the bad end shows is known from launches alone.
func (c *careful) expected(r bisect.Request, o bisect.Outcome) bool {
	_, fail, _ := session.Examples(c.session.Launches)
	searched := r.Purpose == bisect.Searching || r.Purpose == bisect.ConfirmCulprit && r.Nth == 0
	return o.Class == bisect.OK && r.Purpose != bisect.EndBad || searched && o.EndsAs(fail)
}

// again reports that a search has to be repeated with launches made alone: those beside others contradict it, or it
// rests on them without a proof. It then makes the session launch one at a time.
func (c *careful) again(f bisect.Finding, commits []bisect.Commit) (bool, error) {
	s := c.session
	differ := errors.Is(f.Err, errDiffer) || c.contradict(f, commits)
	proven := f.Result == bisect.Found && f.Culprits[0].Confirmed
	if s.OneByOne || !differ && (!c.used || proven || f.Err != nil || f.Spent) {
		return false, nil
	}
	if differ {
		s.Warn("launches beside others ended differently from launches alone: the command shares something, so that every launch was made alone\nhint: --jobs 1 does so from the beginning")
	}
	s.Display.Say("searching again, one launch at a time")
	return true, session.Separate(s)
}

// contradict reports a launch beside others that passed although it contains the culprit, or failed although it
// does not.
func (c *careful) contradict(f bisect.Finding, commits []bisect.Commit) bool {
	if f.Result != bisect.Found {
		return false
	}
	at := map[string]int{}
	for i, x := range commits {
		at[x.ID] = i
	}
	return slices.ContainsFunc(c.session.Launches, func(l report.Launch) bool {
		i, ok := at[l.Candidate.Commit]
		return ok && l.Outcome.Beside && (l.Outcome.Class != bisect.OK) != bisect.Ancestors(commits, i)[at[f.Culprits[0].Commit]]
	})
}

// setChance notes the chance of a failure that a search over sets expects of each test.
type setChance struct {
	next   sets.Oracle
	chance *float64
}

// Test implements sets.Oracle.
func (o setChance) Test(ctx context.Context, r sets.Request) (sets.Result, error) {
	*o.chance = r.Chance
	return o.next.Test(ctx, r)
}

// evidence answers with launches of earlier searches before it makes new ones. Each launch answers once: a second
// request for the same commit asks for another launch.
type evidence struct {
	next bisect.Sampler
	made map[string][]bisect.Outcome // not used yet, by commit, oldest first
}

// newEvidence takes the launches of some commits, without flags, that were not cut short.
func newEvidence(s *session.Session, commits ...string) *evidence {
	e := &evidence{next: s.Memory, made: map[string][]bisect.Outcome{}}
	for _, l := range s.Launches {
		for _, c := range commits {
			if l.Candidate == (bisect.Candidate{Commit: c}) && !l.Outcome.Early {
				e.made[c] = append(e.made[c], l.Outcome)
			}
		}
	}
	return e
}

// Sample implements bisect.Sampler.
func (e *evidence) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	c := r.Candidate.Commit
	if list := e.made[c]; len(list) > 0 && r.Candidate.Assign == "" {
		e.made[c] = list[1:]
		return list[0], nil
	}
	return e.next.Sample(ctx, r)
}

// clone copies the launches that were not used yet, for a repetition over next. The lists are shared, which is safe
// because Sample only cuts them off at their beginning.
func (e *evidence) clone(next bisect.Sampler) *evidence {
	return &evidence{next, maps.Clone(e.made)}
}
