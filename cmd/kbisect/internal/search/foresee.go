package search

import (
	"context"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/sets"
)

// foresee fills the slots, until forget is called, with what a search will ask for. again makes that search
// once more from its beginning, and tells how likely a failure of each trial is.
func (j *Search) foresee(again func(ctx context.Context, below bisect.Sampler, chance *float64)) (forget func() error) {
	if len(j.session.Pipes) == 1 {
		return func() error { return nil }
	}
	var chance float64
	f := &bisect.Foresight{
		Again: func(ctx context.Context, below bisect.Sampler) { again(ctx, below, &chance) },
		Known: j.session.Ledger.Recall,
		Guess: func(r bisect.Request) []bisect.Guess { return j.guess(r, chance) },
	}
	j.session.Slots.Next = func(ctx context.Context, n int) []bisect.Request {
		if _, _, ok := j.session.Examples(); !ok || j.session.Spent() {
			return nil
		}
		return f.Next(ctx, n)
	}
	return func() error {
		j.session.Slots.Next = nil
		return j.session.Slots.Stop()
	}
}

// guess is what a trial may show. One that has run for longer than those do that end well will hardly
// be one of them.
func (j *Search) guess(r bisect.Request, chance float64) []bisect.Guess {
	pass, fail, ok := j.session.Examples()
	if !ok || j.session.Alone(r) {
		return nil
	}
	const late = 1.5
	if ran, yes := j.session.Slots.Running(r); yes && ran.Seconds() > late*(pass.Wall+pass.Build) && fail.Wall > ran.Seconds() {
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
func (j *Search) foreseeHistory(bank judge.SlowdownSearch, plain *judge.Plain) (forget func() error) {
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
func (j *Search) foreseeSets(fresh func(below bisect.Sampler) (*sets.Search, *judge.SetOracle), sampler bisect.Sampler) (forget func() error) {
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
