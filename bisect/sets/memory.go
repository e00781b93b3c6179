package sets

import (
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/sets/internal/odds"
)

// entry is what the tests of one set have shown.
type entry struct {
	set                  Set
	pass, fail, unjudged int
	seen                 odds.Tally // all its tests, also those that were dropped from pass and fail
	final                Answer     // by repeated tests, or of an end; empty: none
	early                bool       // every failure was stopped before the full limit
	class                bisect.Class
	nth                  map[Purpose]int // tests that were begun
}

// answer is what the majority of tests says.
func (e *entry) answer() (Answer, bool) {
	switch {
	case e.final != "":
		return e.final, true
	case e.unjudged > 0:
		return Unjudged, true
	case e.pass > e.fail:
		return Pass, true
	case e.fail > e.pass:
		return Fail, true
	}
	return "", false
}

// memory keeps the answers of a search and infers more from them: a subset of what passes passes, a superset of what
// fails fails.
type memory struct {
	steady  bool // each set is tested once: answers are taken to come every time
	noisy   bool // some set has answered both ways
	entries map[string]*entry
	list    []*entry // in the order of their first test
	masked  []Set    // passed, and hold a set that was settled to fail
	chances odds.Chances
	learned bool // chances are up to date
}

func newMemory(steady bool) *memory { return &memory{steady: steady, entries: map[string]*entry{}} }

func (m *memory) at(set Set) *entry {
	key := set.Key()
	e := m.entries[key]
	if e == nil {
		e = &entry{set: set, nth: map[Purpose]int{}}
		m.entries[key] = e
		m.list = append(m.list, e)
	}
	return e
}

// tally is what tests of the set itself have shown.
func (m *memory) tally(set Set) odds.Tally {
	if e := m.entries[set.Key()]; e != nil {
		return e.seen
	}
	return odds.Tally{}
}

// add takes in the result of one test.
func (m *memory) add(set Set, res Result) {
	e := m.at(set)
	e.class = res.Class
	switch res.Answer {
	case Pass:
		e.pass++
		e.seen.Pass += votes(res)
	case Fail:
		e.early = res.Early && (e.early || e.fail == 0)
		e.fail++
		e.seen.Fail += votes(res)
	default:
		e.unjudged++
	}
	m.learned = false
	m.noisy = m.noisy || !m.steady && e.seen.Pass > 0 && e.seen.Fail > 0
}

// mostWeight is how many tests a result of many launches counts for at most.
const mostWeight = 8

// votes is how many tests a result counts for.
func votes(res Result) int { return min(max(1, res.Launches), mostWeight) }

// settleEnd takes in the answer of an end, which holds by definition.
func (m *memory) settleEnd(set Set, a Answer) {
	m.at(set).seen.Verdict = odds.Innocent
	if a == Fail {
		m.at(set).seen.Verdict = odds.Guilty
	}
	m.settle(set, a)
}

// settle takes in an answer that repeated tests agreed on, and drops single answers that contradict it. Sets that
// passed although they hold one that fails are kept in masked, to be explained.
func (m *memory) settle(set Set, a Answer) {
	m.learned = false
	m.at(set).final = a
	for _, o := range m.list {
		was, _ := o.answer()
		above := a == Fail && was == Pass && set.In(o.set)
		if above {
			m.masked = append(m.masked, o.set)
		}
		if o.final == "" && (above || a == Pass && was == Fail && o.set.In(set)) {
			o.pass, o.fail = 0, 0
		}
	}
}

// forgetEarly drops failures that were stopped too early to be sure of.
func (m *memory) forgetEarly() {
	for _, e := range m.list {
		if e.early && e.fail > 0 {
			e.fail, e.seen.Fail, e.early = 0, 0, false
			if e.final == Fail {
				e.final = ""
			}
		}
	}
	m.learned = false
}

// answer is what its own tests say about a set: the majority as long as no set has answered both ways, and after that
// only what leaves little doubt.
func (m *memory) answer(e *entry) (Answer, bool) {
	const enough = 0.03 // doubt that a search may go on with
	if !m.noisy || e.unjudged > 0 || e.seen.Verdict != odds.Open {
		return e.answer()
	}
	return m.surely(e.seen, enough)
}

// surely is the answer that a tally gives with at most so much doubt.
func (m *memory) surely(t odds.Tally, doubt float64) (Answer, bool) {
	if !m.learned {
		m.learn()
	}
	switch chance := m.chances.Guilty(t); {
	case chance >= 1-doubt:
		return Fail, true
	case chance <= doubt:
		return Pass, true
	}
	return "", false
}

// learn works out how often guilty sets fail, and how often others do. A set that has only passed says nothing about
// the former, since nobody knows how many such sets are guilty.
func (m *memory) learn() {
	count := map[odds.Tally]int{}
	for _, e := range m.list {
		t := e.seen
		if t.Fail == 0 {
			t.Verdict = odds.Innocent
		}
		count[t]++
	}
	m.chances.Learn(count)
	m.learned = true
}

// voted is the answer on which at least so many tests of a set agree, with at most so much doubt. One failure is not
// counted: among many sets tested, the search is led to one that failed by chance.
func (m *memory) voted(set Set, repeats int, doubt float64) (Answer, bool) {
	e := m.at(set)
	t := e.seen
	switch {
	case e.unjudged > 0 || m.steady || t.Verdict == odds.Innocent:
		return e.answer()
	case t.Verdict == odds.Guilty: // only how often it fails is not known
		return Fail, t.Fail > repeats
	case t.Pass >= repeats:
		if a, ok := m.surely(t, doubt); ok && a == Pass {
			return Pass, true
		}
	}
	if t.Fail--; t.Fail < repeats {
		return "", false
	}
	a, ok := m.surely(t, mistaken)
	return a, ok && a == Fail
}

// infer says what a set is taken for, and which set showed it. ok is false where nothing is known, and where a set
// that passes and one that fails contradict each other.
func (m *memory) infer(set Set) (a Answer, from Set, ok bool) {
	if e := m.entries[set.Key()]; e != nil {
		if a, ok := m.answer(e); ok {
			return a, set, true
		}
	}
	above := m.first(Pass, func(e Set) bool { return set.In(e) })
	below := m.first(Fail, func(e Set) bool { return e.In(set) })
	switch {
	case above != nil && below == nil:
		return Pass, above.set, true
	case below != nil && above == nil:
		return Fail, below.set, true
	}
	return "", nil, false
}

// first is the first set tested that has an answer and fits, or nil.
func (m *memory) first(want Answer, fits func(Set) bool) *entry {
	for _, e := range m.list {
		if fits(e.set) {
			if a, _ := m.answer(e); a == want {
				return e
			}
		}
	}
	return nil
}

// smallest is the smallest set known to fail inside within.
func (m *memory) smallest(within Set) Set {
	best := within
	for _, e := range m.list {
		if e.set.Len() < best.Len() && e.set.In(within) {
			if a, _ := m.answer(e); a == Fail {
				best = e.set
			}
		}
	}
	return best
}

// drop forgets the sets that hold an atom.
func (m *memory) drop(atom int) {
	m.list = slices.DeleteFunc(m.list, func(e *entry) bool { return e.set.Has(atom) })
	m.masked = slices.DeleteFunc(m.masked, func(s Set) bool { return s.Has(atom) })
	m.learned = false
}

// rename puts other sets in the place of those tested, after atoms were divided.
func (m *memory) rename(to func(Set) Set) {
	m.entries = map[string]*entry{}
	for _, e := range m.list {
		e.set = to(e.set)
		m.entries[e.set.Key()] = e
	}
	for i := range m.masked {
		m.masked[i] = to(m.masked[i])
	}
}
