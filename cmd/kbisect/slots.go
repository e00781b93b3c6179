package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// slotCount is how many trials are made at a time: as many as --jobs allows, each on a device of its own;
// where no device is used, as many as there are processors. Without --jobs it is one: what is given
// several devices may need them all.
func slotCount(j *Session) int {
	switch jobs := j.policy.Jobs; {
	case jobs < 2:
		return 1
	case len(j.gpus.watches) > 0:
		return min(jobs, len(j.gpus.watches))
	case slices.Equal(j.policy.GPUs, []string{"none"}), j.gpus.none:
		return min(jobs, runtime.NumCPU())
	}
	return 1
}

// openPipes makes a pipeline for each slot. Only the first builds ahead of trials.
func (j *Session) openPipes(config pipeline.Config) error {
	n := slotCount(j)
	for i := range n {
		c := config
		if i > 0 {
			c.Slot, c.Jobs = i, 1
			c.Dir, c.Session = fmt.Sprintf("%s.%d", config.Dir, i+1), fmt.Sprintf("%s.%d", config.Session, i+1)
		}
		if n > 1 && len(config.Devices) > 0 {
			c.Devices = []*gpu.Watch{config.Devices[i]}
		}
		p, err := pipeline.New(c)
		if err != nil {
			return errors.Join(err, j.closePipes())
		}
		j.pipes = append(j.pipes, p)
	}
	j.pipe = j.pipes[0]
	return nil
}

// closePipes ends what still runs and removes the folders of all slots.
func (j *Session) closePipes() (first error) {
	if j.slots != nil {
		first = j.slots.Stop()
	}
	for _, p := range j.pipes {
		if err := p.Close(); first == nil {
			first = err
		}
	}
	return first
}

// sampler makes trials in the slots; past is what earlier attempts of the session took.
func (j *Session) sampler(past time.Duration) *pipeline.Slots {
	began := time.Now().Add(-past)
	s := &pipeline.Slots{Alone: j.alone, Keep: func(r bisect.Request, o bisect.Outcome) error { return j.ledger.Keep(r, o) }}
	for i, p := range j.pipes {
		each := bisect.Sampler(p)
		if i == 0 {
			each = leader{p, j.pipes[1:]}
		}
		s.Each = append(s.Each, clocked{each, began})
	}
	if len(j.pipes) > 1 {
		s.OnEnd = j.ui.Idle
	}
	return s
}

// leader is the slot in which the good end is launched; the others learn from it.
type leader struct {
	*pipeline.Pipeline
	others []*pipeline.Pipeline
}

// Sample implements bisect.Sampler.
func (l leader) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o, err := l.Pipeline.Sample(ctx, r)
	if err == nil && r.Purpose == bisect.EndGood {
		for _, p := range l.others {
			p.Learn(r, o)
			p.Follow(l.Pipeline)
		}
	}
	return o, err
}

// learn tells every slot of a remembered trial.
func (j *Session) learn(r bisect.Request, o bisect.Outcome) {
	for _, p := range j.pipes {
		p.Learn(r, o)
	}
}

// redo makes every build from now on a clean one.
func (j *Session) redo() {
	if err := j.slots.Stop(); err != nil {
		j.ui.Warn(err.Error())
	}
	for _, p := range j.pipes {
		p.Clean()
	}
}

// alone reports that nothing may run beside a trial: its times matter, or it tells how long trials take;
// or it is to prove a time-out, where all slots share the processors.
func (j *Session) alone(r bisect.Request) bool {
	switch r.Purpose {
	case bisect.EndGood, bisect.EndBad, bisect.FindGood:
		return true
	}
	_, fail, ok := j.examples()
	return r.Timing || ok && fail.Class == bisect.Timeout && r.Hurry == "" && len(j.gpus.watches) == 0
}

// examples are a launch that ended well and one that showed the complaint, of the ends; ok is false where
// there are none, and where the complaint is about the time that builds take.
func (j *Session) examples() (pass, fail bisect.Outcome, ok bool) {
	for _, l := range j.launches {
		end := l.Purpose == bisect.EndGood || l.Purpose == bisect.EndBad || l.Purpose == bisect.FindGood
		switch o := l.Outcome; {
		case !end || o.Class == bisect.Skip:
		case o.Class == bisect.OK:
			pass = o
		default:
			fail = o
		}
	}
	timedBuild := fail.Class == bisect.Timeout && fail.Phase == "build"
	return pass, fail, pass.Class != "" && fail.Class != "" && !timedBuild
}

// foresee fills the slots, until forget is called, with what a search will ask for. again makes that search
// once more from its beginning, and tells how likely a failure of each trial is.
func (j *job) foresee(again func(ctx context.Context, below bisect.Sampler, chance *float64)) (forget func() error) {
	if len(j.session.pipes) == 1 {
		return func() error { return nil }
	}
	var chance float64
	f := &bisect.Foresight{
		Again: func(ctx context.Context, below bisect.Sampler) { again(ctx, below, &chance) },
		Known: j.session.ledger.Recall,
		Guess: func(r bisect.Request) []bisect.Guess { return j.guess(r, chance) },
	}
	j.session.slots.Next = func(ctx context.Context, n int) []bisect.Request {
		if _, _, ok := j.session.examples(); !ok || j.session.spent() {
			return nil
		}
		return f.Next(ctx, n)
	}
	return func() error {
		j.session.slots.Next = nil
		return j.session.slots.Stop()
	}
}

// guess is what a trial may show. One that has run for longer than those do that end well will hardly
// be one of them.
func (j *job) guess(r bisect.Request, chance float64) []bisect.Guess {
	pass, fail, ok := j.session.examples()
	if !ok || j.session.alone(r) {
		return nil
	}
	const late = 1.5
	if ran, yes := j.session.slots.Running(r); yes && ran.Seconds() > late*(pass.Wall+pass.Build) && fail.Wall > ran.Seconds() {
		chance = max(chance, 0.9)
	}
	return bisect.Guesses(r, pass, fail, chance)
}

// chanceOf is that of a failure in a search of a history: even, but where the answer is expected.
func chanceOf(r bisect.Request) float64 {
	switch r.Purpose {
	case bisect.ConfirmCulprit:
		return 0.95
	case bisect.ConfirmParent:
		return 0.05
	}
	return 0.5
}

// mostForeseen is the largest range whose search is made again on the way: it takes a moment each time.
const mostForeseen = 5000

// foreseeHistory fills the slots with what the search of a history will ask for.
func (j *job) foreseeHistory(bank judge.SlowdownSearch, plain *judge.Plain) (forget func() error) {
	if len(bank.Search.Commits) > mostForeseen {
		return func() error { return nil }
	}
	before := plain.Clone()
	bank.OnProgress, bank.Weigh = nil, nil
	bank.Search.OnStep, bank.Search.Spent, bank.Search.Ahead, bank.Search.Redo = nil, nil, nil, nil
	return j.foresee(func(ctx context.Context, below bisect.Sampler, chance *float64) {
		again := bank
		again.Sampler = chancing{below, chance}
		p := before.Clone()
		p.Sampler, again.Search.Judge = again.Sampler, p
		_, _ = again.Find(ctx) // what it asks for is what is wanted
	})
}

// chancing tells the chance of a failure of every trial that passes through.
type chancing struct {
	bisect.Sampler
	chance *float64
}

// Sample implements bisect.Sampler.
func (s chancing) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	*s.chance = chanceOf(r)
	return s.Sampler.Sample(ctx, r)
}

// foreseeSets fills the slots with what a search over sets will ask for; fresh makes it from its beginning.
func (j *job) foreseeSets(fresh func(below bisect.Sampler) (*sets.Search, *judge.SetOracle), sampler bisect.Sampler) (forget func() error) {
	over := func(below bisect.Sampler) bisect.Sampler { return below }
	if e, ok := sampler.(*evidence); ok {
		before := e.clone(nil)
		over = func(below bisect.Sampler) bisect.Sampler { return before.clone(below) }
	}
	return j.foresee(func(ctx context.Context, below bisect.Sampler, chance *float64) {
		s, oracle := fresh(over(below))
		s.Oracle = expecting{oracle, chance}
		_, _ = s.Find(ctx) // what it asks for is what is wanted
	})
}

// expecting tells what a search thinks of every test that it asks for.
type expecting struct {
	sets.Oracle
	chance *float64
}

// Test implements sets.Oracle.
func (o expecting) Test(ctx context.Context, r sets.Request) (sets.Result, error) {
	*o.chance = r.Chance
	return o.Oracle.Test(ctx, r)
}

// clone copies what was not used yet.
func (e *evidence) clone(next bisect.Sampler) *evidence {
	made := map[string][]bisect.Outcome{}
	for c, list := range e.made {
		made[c] = list
	}
	return &evidence{next, made}
}

// deviceless reports a machine on which no program can find a device to run on.
func deviceless() bool {
	for _, pattern := range []string{"/dev/nvidia*", "/dev/dxg", "/dev/kfd", "/dev/dri/renderD*"} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 {
			return false
		}
	}
	return true
}
