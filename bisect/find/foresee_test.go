package find

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// rounds makes trials of a planted truth, n at a time, and counts how often it had to wait.
type rounds struct {
	t     *testing.T
	truth func(bisect.Request) bisect.Outcome
	next  bisect.Foresight
	n     int
	known map[bisect.TrialID]bisect.Outcome
	count int
	made  int
	asked map[bisect.TrialID]bool
	wall  float64
}

func (s *rounds) recall(r bisect.Request) (bisect.Outcome, bool) {
	o, ok := s.known[r.ID()]
	return o, ok && o.Hurried == r.Hurry && o.Beyond == r.Past
}

func (s *rounds) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	s.asked[r.ID()] = true
	if o, ok := s.recall(r); ok {
		return o, nil
	}
	batch := []bisect.Request{r}
	if s.n > 1 && !atEnd(r) {
		if batch = s.next.Next(ctx, s.n); len(batch) == 0 || batch[0] != r {
			s.t.Fatalf("asked for %+v, foreseen was %+v", r, batch)
		}
	}
	longest := 0.0
	for _, r := range batch {
		o := s.truth(r)
		o.Hurried, o.Beyond = r.Hurry, r.Past
		s.known[r.ID()] = o
		longest = max(longest, o.Wall)
		s.made++
	}
	s.count++
	s.wall += longest
	return s.known[r.ID()], nil
}

func atEnd(r bisect.Request) bool {
	return r.Purpose == bisect.EndGood || r.Purpose == bisect.EndBad
}

// planted is a space of changes, some of which are to blame together.
type planted struct {
	space  *sets.Space
	guilty []sets.Set
	needs  [][2]int // builds need, not told to the search
	class  bisect.Class
	goal   sets.Goal
	claims []sets.Claim
	hidden float64 // share of failures that pass
	seed   uint64
	ends   [2]bisect.Outcome
}

func plant(t *testing.T, seed uint64, hidden float64) *planted {
	rng := rand.New(rand.NewPCG(seed, 11))
	n := 2 + rng.IntN(11)
	atoms := make([]sets.Atom, n)
	p := &planted{class: []bisect.Class{bisect.Wrong, bisect.Timeout}[seed%2], goal: sets.Goal(rng.IntN(3)), hidden: hidden, seed: seed}
	for i := 1; i < n; i++ {
		switch x := rng.Float64(); {
		case x < 0.1:
			atoms[i].Requires = []int{rng.IntN(i)}
		case x < 0.2:
			p.needs = append(p.needs, [2]int{i, rng.IntN(i)})
		}
	}
	for range 1 + rng.IntN(3) {
		p.guilty = append(p.guilty, sets.Of(rng.Perm(n)[:min(n, 1+rng.IntN(3))]...))
	}
	if rng.IntN(3) == 0 {
		p.claims = []sets.Claim{{Name: "one", Atoms: sets.Of(rng.IntN(n))}}
	}
	var err error
	if p.space, err = sets.NewSpace(atoms); err != nil {
		t.Fatal(err)
	}
	p.ends = [2]bisect.Outcome{p.outcome(bisect.Request{}), p.outcome(bisect.Request{Candidate: bisect.Candidate{Commit: p.space.Whole().Key()}, Purpose: bisect.EndBad})}
	return p
}

// outcome is that of a launch.
func (p *planted) outcome(r bisect.Request) bisect.Outcome {
	on, _ := lattice.ParseKey(r.Candidate.Commit)
	for _, x := range p.needs {
		if on.Has(x[0]) && !on.Has(x[1]) {
			return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build", Wall: 2}
		}
	}
	rng := rand.New(rand.NewPCG(p.seed, uint64(len(on.Key())+1000*on.Len()+100000*r.Nth)))
	rng.Uint64()
	lucky := r.Purpose != bisect.EndBad && rng.Float64() < p.hidden
	if lucky || !slices.ContainsFunc(p.guilty, func(g sets.Set) bool { return g.In(on) }) {
		return bisect.Outcome{Class: bisect.OK, Wall: 12}
	}
	o := bisect.Outcome{Class: p.class, Phase: "warmup", Wall: 4}
	if p.class == bisect.Timeout {
		if o.Wall = 180; r.Hurry != "" {
			o.Wall, o.Early = 29, true
		}
	}
	return o
}

// tellChance passes on what a search thinks of the test that it asks for.
type tellChance struct {
	sets.Oracle
	chance *float64
}

func (o tellChance) Test(ctx context.Context, r sets.Request) (sets.Result, error) {
	*o.chance = r.Chance
	return o.Oracle.Test(ctx, r)
}

func (p *planted) search(s bisect.Sampler, chance *float64) sets.Search {
	oracle := &SetOracle{Sampler: s, Class: true, Candidate: func(s sets.Set) (bisect.Candidate, error) {
		return bisect.Candidate{Commit: s.Key()}, nil
	}}
	return sets.Search{Space: p.space, Oracle: tellChance{oracle, chance}, Goal: p.goal, Claims: p.claims}
}

// find makes the search with n slots.
func (p *planted) find(t *testing.T, n int) (sets.Finding, *rounds) {
	s := &rounds{t: t, truth: p.outcome, n: n, known: map[bisect.TrialID]bisect.Outcome{}, asked: map[bisect.TrialID]bool{}}
	chance := 0.0
	s.next = bisect.Foresight{
		Known: s.recall,
		Again: func(ctx context.Context, below bisect.Sampler) {
			again := p.search(below, &chance)
			if _, err := again.Find(ctx); err != nil {
				t.Error(err)
			}
		},
		Guess: func(r bisect.Request) []bisect.Guess {
			if atEnd(r) {
				return nil
			}
			return bisect.Guesses(r, p.ends[0], p.ends[1], chance)
		},
	}
	var own float64
	search := p.search(s, &own)
	f, err := search.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f, s
}

// With any number of slots a search takes the same way to the same answer, test by test, and waits less
// often.
func TestSlotsGiveTheSameSets(t *testing.T) {
	for _, x := range []struct {
		name   string
		seeds  uint64
		hidden float64
	}{{"certain", 120, 0}, {"hidden 10 %", 24, 0.1}} {
		var alone, side [5]rounds
		for seed := range x.seeds {
			p := plant(t, seed, x.hidden)
			one, first := p.find(t, 1)
			n := 2 + int(seed%3)
			f, s := p.find(t, n)
			if !reflect.DeepEqual(f, one) {
				t.Fatalf("%s, seed %d: %d slots: another finding\n%+v\n%+v", x.name, seed, n, f, one)
			}
			if s.count > first.count || !reflect.DeepEqual(s.asked, first.asked) {
				t.Errorf("%s, seed %d: %d slots: %d rounds instead of %d", x.name, seed, n, s.count, first.count)
			}
			alone[n].add(first)
			side[n].add(s)
		}
		for n, most := range map[int]float64{2: 0.7, 3: 0.6, 4: 0.5} {
			ratio := float64(side[n].count) / float64(alone[n].count)
			t.Logf("%s: %d slots: %.2f of the rounds, %.2f of the trials, %.2f of the time", x.name, n,
				ratio, float64(side[n].made)/float64(alone[n].made), side[n].wall/alone[n].wall)
			if ratio > most {
				t.Errorf("%s: %d slots: %.2f of the rounds, want %.2f", x.name, n, ratio, most)
			}
		}
	}
}

func (s *rounds) add(o *rounds) {
	s.count, s.made, s.wall = s.count+o.count, s.made+o.made, s.wall+o.wall
}
