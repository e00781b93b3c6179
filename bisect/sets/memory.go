package sets

import (
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// entry is what is known about one set from tests of its own.
type entry struct {
	set                   Set
	pass, fail, undecided int
	final                 Answer // by a certificate, or an end; empty: none
	early                 bool   // every failure was stopped before the full limit
	class                 bisect.Class
	row                   int // of the last test in the ledger

}

// levels is how many votes can be asked for at most; what is final counts as many.
const levels = 2

// answer is what the set is taken for when need votes are asked for.
func (e *entry) answer(need int) (Answer, bool) {
	switch {
	case e.final != "":
		return e.final, true
	case e.undecided > 0:
		return Unresolved, true
	case e.pass >= need && e.pass > e.fail:
		return Pass, true
	case e.fail >= need && e.fail > e.pass:
		return Fail, true
	}
	return "", false
}

// memory keeps the answers of a search, and infers more: a subset of what passes passes, a superset
// of what fails fails. For each number of votes it keeps the maximal sets that pass and the minimal
// ones that fail.
type memory struct {
	entries map[string]*entry
	list    []*entry // in the order of their first test
	pass    [levels][]Set
	fail    [levels][]Set
	dropped []Set // passed once, and hold a set that was certified to fail
}

func newMemory() *memory { return &memory{entries: map[string]*entry{}} }

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

// add takes in the result of one test, row of the ledger.
func (m *memory) add(set Set, res Result, row int) {
	e := m.at(set)
	e.row = row
	e.class = res.Class
	switch res.Answer {
	case Pass:
		e.pass++
	case Fail:
		e.early = res.Early && (e.early || e.fail == 0)
		e.fail++
	default:
		e.undecided++
	}
	m.extend(e)
}

// settle takes in an answer that repeated tests agreed on, and drops single answers against it.
func (m *memory) settle(set Set, a Answer) {
	e := m.at(set)
	e.final = a
	for _, o := range m.list {
		if o.final != "" {
			continue
		}
		was, _ := o.answer(1)
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
			e.fail, e.early = 0, false
			if e.final == Fail {
				e.final = ""
			}
		}
	}
	m.rebuild()
}

func (m *memory) rebuild() {
	m.pass, m.fail = [levels][]Set{}, [levels][]Set{}
	for _, e := range m.list {
		m.extend(e)
	}
}

// extend takes an entry into the antichains.
func (m *memory) extend(e *entry) {
	for k := range levels {
		switch a, _ := e.answer(k + 1); a {
		case Pass:
			m.pass[k] = outermost(m.pass[k], e.set, func(s, t Set) bool { return s.In(t) })
		case Fail:
			m.fail[k] = outermost(m.fail[k], e.set, func(s, t Set) bool { return t.In(s) })
		}
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

// infer says what a set is taken for when need votes are asked for, and which set showed it. It knows
// nothing where a set that passes and one that fails speak against each other.
func (m *memory) infer(set Set, need int) (a Answer, from Set, ok bool) {
	if e := m.entries[set.Key()]; e != nil {
		if a, ok := e.answer(need); ok {
			return a, set, true
		}
	}
	above, passes := member(m.pass[need-1], func(p Set) bool { return set.In(p) })
	below, fails := member(m.fail[need-1], func(f Set) bool { return f.In(set) })
	switch {
	case passes && !fails:
		return Pass, above, true
	case fails && !passes:
		return Fail, below, true
	}
	return "", nil, false
}

func member(list []Set, is func(Set) bool) (Set, bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return nil, false
}

// smallest is the least set known to fail inside within.
func (m *memory) smallest(within Set, need int) Set {
	best := within
	for _, f := range m.fail[need-1] {
		if f.In(within) && f.Len() < best.Len() {
			best = f
		}
	}
	return best
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

// fickle counts the sets that both passed and failed.
func (m *memory) fickle() int {
	n := 0
	for _, e := range m.list {
		if e.pass > 0 && e.fail > 0 {
			n++
		}
	}
	return n
}
