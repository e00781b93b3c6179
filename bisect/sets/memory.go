package sets

import (
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// entry is what is known about one set from tests of its own.
type entry struct {
	set                   Set
	pass, fail, undecided int
	seen                  tally  // all its tests, those included that were dropped since
	final                 Answer // by a certificate, or an end; empty: none
	early                 bool   // every failure was stopped before the full limit
	class                 bisect.Class
	row                   int // of the last test in the ledger
}

// answer is what single tests let the set be taken for.
func (e *entry) answer() (Answer, bool) {
	switch {
	case e.final != "":
		return e.final, true
	case e.undecided > 0:
		return Unresolved, true
	case e.pass > e.fail:
		return Pass, true
	case e.fail > e.pass:
		return Fail, true
	}
	return "", false
}

// memory keeps the answers of a search, and infers more: a subset of what passes passes, a superset
// of what fails fails. Of single tests it keeps the maximal sets that pass and the minimal ones that fail.
type memory struct {
	once       bool // each set is run once: answers are taken to come every time
	noisy      bool // some set has answered both ways
	entries    map[string]*entry
	list       []*entry // in the order of their first test
	pass, fail []Set
	dropped    []Set // passed once, and hold a set that was certified to fail
	evidence   map[tally]*evidence
	rates      rates
	guilty     map[tally]float64 // chance; nil: to be worked out
}

func newMemory(once bool) *memory {
	return &memory{once: once, entries: map[string]*entry{}, evidence: map[tally]*evidence{}}
}

func (m *memory) at(set Set) *entry {
	key := set.Key()
	e := m.entries[key]
	if e == nil {
		e = &entry{set: set}
		m.entries[key] = e
		m.list = append(m.list, e)
	}
	return e
}

// tally is what tests of a set itself have shown.
func (m *memory) tally(set Set) tally {
	if e := m.entries[set.Key()]; e != nil {
		return e.seen
	}
	return tally{}
}

// add takes in the result of one test, row of the ledger.
func (m *memory) add(set Set, res Result, row int) {
	e := m.at(set)
	e.row = row
	e.class = res.Class
	switch res.Answer {
	case Pass:
		e.pass++
		e.seen.pass += votes(res)
	case Fail:
		e.early = res.Early && (e.early || e.fail == 0)
		e.fail++
		e.seen.fail += votes(res)
	default:
		e.undecided++
	}
	m.guilty = nil
	m.noisy = m.noisy || !m.once && e.seen.pass > 0 && e.seen.fail > 0
	m.extend(e)
}

// mostWeight is how many tests a result of many launches counts for at most.
const mostWeight = 8

// votes is how many tests a result counts for.
func votes(res Result) int {
	return min(max(1, res.Launches), mostWeight)
}

// end takes in the answer of one of the ends, which is what it is said to be.
func (m *memory) end(set Set, a Answer) {
	m.at(set).seen.final = a
	m.guilty = nil
	m.settle(set, a)
}

// settle takes in an answer that repeated tests agreed on, and drops single answers against it.
func (m *memory) settle(set Set, a Answer) {
	e := m.at(set)
	e.final = a
	for _, o := range m.list {
		if o.final != "" {
			continue
		}
		was, _ := o.answer()
		switch {
		case a == Fail && was == Pass && set.In(o.set):
			m.dropped = append(m.dropped, o.set)
			o.pass, o.fail = 0, 0
		case a == Pass && was == Fail && o.set.In(set):
			o.pass, o.fail = 0, 0
		}
	}
	m.rebuild()
}

// forgetEarly drops failures that were only supposed: runs were stopped too early to tell.
func (m *memory) forgetEarly() {
	for _, e := range m.list {
		if e.early && e.fail > 0 {
			e.fail, e.seen.fail, e.early = 0, 0, false
			if e.final == Fail {
				e.final = ""
			}
		}
	}
	m.guilty = nil
	m.rebuild()
}

func (m *memory) rebuild() {
	m.pass, m.fail = nil, nil
	for _, e := range m.list {
		m.extend(e)
	}
}

// extend takes an entry into the antichains.
func (m *memory) extend(e *entry) {
	switch a, _ := e.answer(); a {
	case Pass:
		m.pass = outermost(m.pass, e.set, func(s, t Set) bool { return s.In(t) })
	case Fail:
		m.fail = outermost(m.fail, e.set, func(s, t Set) bool { return t.In(s) })
	}
}

// outermost adds a set to an antichain; lesser says that the first set follows from the second.
func outermost(chain []Set, set Set, lesser func(s, t Set) bool) []Set {
	for _, t := range chain {
		if lesser(set, t) {
			return chain
		}
	}
	return append(slices.DeleteFunc(chain, func(t Set) bool { return lesser(t, set) }), set)
}

// answer is what a set is taken for by tests of its own: a single one, as long as no set has answered
// both ways.
func (m *memory) answer(e *entry) (Answer, bool) {
	const enough = 0.03 // doubt that a search may go on with
	if !m.noisy || e.undecided > 0 || e.seen.final != "" {
		return e.answer()
	}
	return m.surely(e.seen, enough)
}

// surely is the answer that a tally gives with a doubt that is bounded.
func (m *memory) surely(t tally, doubt float64) (Answer, bool) {
	switch chance := m.chance(t); {
	case chance >= 1-doubt:
		return Fail, true
	case chance <= doubt:
		return Pass, true
	}
	return "", false
}

// chance is how likely a set with this tally is guilty, by all that is known of the chances of tests.
func (m *memory) chance(t tally) float64 {
	if m.guilty == nil {
		m.weigh()
	}
	p, ok := m.guilty[t]
	if !ok {
		p = m.rates.guilty(m.weight(t))
		m.guilty[t] = p
	}
	return p
}

// weigh learns the two chances. What has only passed says nothing of the first, since how many of such
// sets are guilty is not known.
func (m *memory) weigh() {
	count := map[tally]int{}
	for _, e := range m.list {
		t := e.seen
		if t.fail == 0 {
			t.final = Pass
		}
		count[t]++
	}
	m.rates = newRates(count, m.weight)
	m.guilty = map[tally]float64{}
}

// weight is the evidence of a tally, which is worked out once.
func (m *memory) weight(t tally) *evidence {
	if m.evidence[t] == nil {
		m.evidence[t] = t.evidence()
	}
	return m.evidence[t]
}

// infer says what a set is taken for, and which set showed it. It knows nothing where a set that passes
// and one that fails speak against each other.
func (m *memory) infer(set Set) (a Answer, from Set, ok bool) {
	if e := m.entries[set.Key()]; e != nil {
		if a, ok := m.answer(e); ok {
			return a, set, true
		}
	}
	pass, fail := m.known()
	above, passes := member(pass, func(p Set) bool { return set.In(p) })
	below, fails := member(fail, func(f Set) bool { return f.In(set) })
	switch {
	case passes && !fails:
		return Pass, above, true
	case fails && !passes:
		return Fail, below, true
	}
	return "", nil, false
}

// known lists sets that pass and sets that fail, all that matter.
func (m *memory) known() (pass, fail []Set) {
	if !m.noisy {
		return m.pass, m.fail
	}
	for _, e := range m.list {
		switch a, _ := m.answer(e); a {
		case Pass:
			pass = append(pass, e.set)
		case Fail:
			fail = append(fail, e.set)
		}
	}
	return pass, fail
}

func member(list []Set, is func(Set) bool) (Set, bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return nil, false
}

// smallest is the least set known to fail inside within.
func (m *memory) smallest(within Set) Set {
	best := within
	_, fail := m.known()
	for _, f := range fail {
		if f.In(within) && f.Len() < best.Len() {
			best = f
		}
	}
	return best
}

// drop forgets the sets that hold an atom.
func (m *memory) drop(atom int) {
	m.list = slices.DeleteFunc(m.list, func(e *entry) bool { return e.set.Has(atom) })
	m.dropped = slices.DeleteFunc(m.dropped, func(s Set) bool { return s.Has(atom) })
	m.guilty = nil
}

// rename puts other sets in the place of those tested; a space has been refined.
func (m *memory) rename(to func(Set) Set) {
	m.entries = map[string]*entry{}
	for _, e := range m.list {
		e.set = to(e.set)
		m.entries[e.set.Key()] = e
	}
	for i := range m.dropped {
		m.dropped[i] = to(m.dropped[i])
	}
	m.rebuild()
}
