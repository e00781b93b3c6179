package sets

import (
	"math"

	"github.com/kbisect/kbisect/bisect/sets/internal/odds"
	"github.com/kbisect/kbisect/bisect/sets/lattice"
)

// Progress is what a search has taken and will probably still take. It is an estimate: how many more guilty sets there
// are, and what the parts of a composite atom show, is known only once they come up.
type Progress struct {
	Made    int     // tests so far
	Spent   float64 // seconds of these
	Tests   float64 // still to be made
	Verify  float64 // of these, to verify the set in hand
	Seconds float64 // of these, by what answers have cost so far
	Timed   int     // safe sets that are still to be timed, which are not tests
	Launch  float64 // seconds of a launch that passes
}

// estimate reads off the parts of a search how far it is. It changes nothing.
type estimate struct {
	tester *tester
	scope  *scope
	found  *Finding
	all    *enumeration
	claims claims
	timed  bool // safe sets will be timed
}

// now is the progress at this moment.
func (e *estimate) now() Progress {
	p := e.left()
	c := e.tester.counts()
	p.Made, p.Spent = c.Tests, c.Seconds
	return p
}

// left estimates what is still to be done: the guilty set that is looked for, its verification, the seeds
// that will then be left, claims that are not answered, and the safe sets to be timed.
func (e *estimate) left() Progress {
	t := e.tester
	price := odds.Prices{Fail: t.cost[Fail].Usual(t.expected.Fail), Pass: t.cost[Pass].Usual(t.expected.Pass)}
	passes, fails := e.enough()
	each := t.weight.Or(1) // a test may count for several
	pass, fail, verify := e.claims.open(), 0.0, 0.0
	open := e.seeds()
	finder := e.all.finder
	if finder.hunt != nil {
		p, f := finder.hunt.Tests(price)
		pass, fail = pass+p, fail+f
	}
	if finder.hunt != nil || len(finder.proving) > 0 {
		p, f := e.verification(passes, fails)
		pass, fail, verify = pass+p/each, fail+f/each, (p+f)/each
	}
	if e.all.divided && e.all.expand != nil && !e.all.expanded { // what is guilty will be looked into
		const parts = 4
		p, f := (&odds.Hunt{Nats: math.Log(parts), Among: parts}).Tests(price)
		pass, fail = pass+p+(passes-e.ofNothing(passes))/each, fail+f+fails/each
	}
	pass += open * passes / each
	if e.all.seed != nil && open > 0 {
		pass -= min(passes, float64(t.memory.tally(e.all.seed).Pass)) / each
	}
	out := Progress{Tests: pass + fail, Verify: verify, Seconds: pass*price.Pass + fail*price.Fail, Launch: min(price.Pass, t.expected.Pass)}
	if e.timed {
		out.Timed = min(mostTimed, len(e.found.Safe)+int(math.Round(open)))
		for _, s := range e.found.Safe {
			if s.Effect != nil {
				out.Timed--
			}
		}
	}
	return out
}

// enough is how many tests of a set a verification takes, as far as the chances are known: to pass, and to fail, of
// which one is not counted.
func (e *estimate) enough() (passes, fails float64) {
	t := e.tester
	if t.repeats < 2 {
		return float64(max(0, t.repeats)), 0
	}
	n, m := t.repeats, t.repeats
	for a := undecided; n < mostVotes && a != Pass; n++ {
		a, _ = t.memory.surely(odds.Tally{Pass: n}, hidden)
	}
	for a := undecided; m < mostVotes && a != Fail; m++ {
		a, _ = t.memory.surely(odds.Tally{Fail: m}, mistaken)
	}
	return float64(n - 1), float64(m)
}

// verification is the tests that the verification of the guilty set still takes.
func (e *estimate) verification(passes, fails float64) (pass, fail float64) {
	set := e.all.finder.proving
	if len(set) == 0 {
		size := e.size()
		single := max(0, 2-size) // about how likely it is one atom, without which nothing is on
		return size*passes - single*e.ofNothing(passes), fails
	}
	for _, a := range set.Atoms() {
		if x := e.tester.memory.tally(e.scope.space.Drop(set, Of(a))); x.Verdict != odds.Innocent {
			pass += max(0, passes-float64(x.Pass))
		}
	}
	return pass, max(0, fails-float64(e.tester.memory.tally(set).Fail))
}

// size is how many atoms the guilty set that is looked for is expected to have; 1 where none is looked for.
func (e *estimate) size() float64 {
	switch f := e.all.finder; {
	case len(f.proving) > 0:
		return float64(f.proving.Len())
	case f.hunt != nil:
		return f.hunt.Size()
	}
	return 1
}

// ofNothing is how many of the passes that a verification takes have been seen with nothing on.
func (e *estimate) ofNothing(passes float64) float64 {
	return min(passes, float64(e.tester.memory.tally(nil).Pass))
}

// seeds is how many maximal safe sets are still to be tested if no further guilty set comes up: one for each minimal
// set that hits all of them.
func (e *estimate) seeds() float64 {
	switch {
	case e.all.goal == One, e.all.goal == All && e.all.done:
		return 0
	case e.all.goal == Keep:
		return float64(max(0, 1-len(e.found.Safe)))
	}
	n := float64(len(lattice.LeastHits(minimalOf(e.found.Minimal)))) * e.size()
	return max(0, n-float64(len(e.found.Safe)+len(e.all.blocked)))
}
