package bisect

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Guess is something that a trial may show, with the chance that it does.
type Guess struct {
	Outcome Outcome
	Chance  float64
}

// Foresight says which trials a search will probably ask for, so that several can be made at the same time. Everything
// a search does follows from the outcomes of its trials. So it is run again, with the outcomes that are known and with
// guesses behind them: what it asks for then is what it will ask for if the guesses come true. The search itself knows
// nothing of this, and comes to the same answer by the same trials, however many of them were made before it asked.
type Foresight struct {
	// Again makes the search again from its beginning, by the Sampler given, until that returns an error.
	// It must leave the search that is under way as it is.
	Again func(context.Context, Sampler)
	// Known is the outcome of a trial that was made.
	Known func(Request) (Outcome, bool)
	// Guess says what a trial may show. A trial of which it says nothing is not foreseen, nor is what
	// comes behind it.
	Guess func(Request) []Guess
}

const (
	leastChance = 0.1 // of being asked for: less likely trials are not worth the machine's time
	moreLooks   = 8   // how often a search is made again, besides once for every trial that is listed
)

// errUnknown ends a search that is made again, where what is known ends.
var errUnknown = errors.New("this trial was not made yet")

// branch is a way that the search may go: the outcomes assumed, and how likely all of them are.
type branch struct {
	assumed map[Request]Outcome
	chance  float64
}

// Next lists up to n trials that the search will ask for, the likeliest first. The very first is the one that it waits
// for.
func (f *Foresight) Next(ctx context.Context, n int) []Request {
	var list []Request
	open := []branch{{chance: 1}}
	for looks := n + moreLooks; looks > 0 && len(list) < n && len(open) > 0 && ctx.Err() == nil; looks-- {
		i := likeliest(open)
		b := open[i]
		if open = slices.Delete(open, i, i+1); b.chance < leastChance {
			break
		}
		r, ok := f.ask(ctx, b.assumed)
		if !ok {
			continue
		}
		guesses := f.Guess(r)
		if len(guesses) > 0 && !slices.Contains(list, r) {
			list = append(list, r)
		}
		for _, g := range guesses {
			assumed := maps.Clone(b.assumed)
			if assumed == nil {
				assumed = map[Request]Outcome{}
			}
			assumed[r] = g.Outcome
			open = append(open, branch{assumed, b.chance * g.Chance})
		}
	}
	return list
}

func likeliest(open []branch) int {
	best := 0
	for i, b := range open {
		if b.chance > open[best].chance {
			best = i
		}
	}
	return best
}

// ask makes the search again and returns the first trial whose outcome is neither known nor assumed;
// ok is false when it ends without.
func (f *Foresight) ask(ctx context.Context, assumed map[Request]Outcome) (r Request, ok bool) {
	s := &foreseen{Foresight: f, assumed: assumed}
	f.Again(ctx, s)
	return s.asked, s.stuck
}

// foreseen answers a search that is made again.
type foreseen struct {
	*Foresight
	assumed map[Request]Outcome
	asked   Request
	stuck   bool
}

// Sample implements Sampler.
func (s *foreseen) Sample(_ context.Context, r Request) (Outcome, error) {
	if s.stuck {
		return Outcome{}, errUnknown
	}
	if o, ok := s.Known(r); ok {
		return o, nil
	}
	if o, ok := s.assumed[r]; ok {
		return o, nil
	}
	s.asked, s.stuck = r, true
	return Outcome{}, errUnknown
}

// Guesses are what a trial may show, going by trials before it that showed one thing or the other; chance is that of
// the failure, which comes as early as the request allows.
func Guesses(r Request, pass, fail Outcome, chance float64) []Guess {
	if fail.Class == Timeout && r.Hurry != "" {
		fail.Early = true
		fail.Wall = min(fail.Wall, Patience(max(pass.Wall, r.Past)))
	}
	return []Guess{{pass, 1 - chance}, {fail, chance}}
}
