package lattice

import (
	"cmp"
	"math"
	"slices"
)

// mostNodes bounds one search for the cheapest hitting set; beyond, its result may not be the cheapest.
const mostNodes = 200000

// hitting is one search for a cheapest hitting set, by branch and bound.
type hitting struct {
	space *Space
	hit   []Set
	avoid []Set
	best  Set
	cost  float64
	found bool
	nodes int
}

// Cheapest returns the cheapest set, by the weights of the space, that has an atom of each of hit and covers none of
// avoid; an atom takes along all that requires it. ok is false when there is none; exact says that this, or that none
// is cheaper, is proven.
func Cheapest(space *Space, hit, avoid []Set) (best Set, ok, exact bool) {
	h := &hitting{space: space, hit: slices.Clone(hit), avoid: avoid, cost: math.Inf(1)}
	slices.SortStableFunc(h.hit, func(a, b Set) int { return cmp.Compare(a.Len(), b.Len()) })
	h.branch(nil, 0, nil)
	return h.best, h.found, h.nodes <= mostNodes
}

// branch tries each atom of the first set not hit yet; banned are those tried before.
func (h *hitting) branch(chosen Set, cost float64, banned Set) {
	if h.nodes++; h.nodes > mostNodes || cost >= h.cost-1e-9 {
		return
	}
	for _, a := range h.avoid {
		if a.In(chosen) {
			return
		}
	}
	next, least := h.left(chosen, banned)
	if next == nil {
		h.best, h.cost, h.found = chosen, cost, true
		return
	}
	if cost+least >= h.cost-1e-9 {
		return
	}
	for _, c := range h.choices(next, chosen, banned) {
		if !c.set.Meets(banned) {
			h.branch(chosen.Or(c.set), cost+c.cost, banned)
		}
		banned = banned.Or(Of(c.atom))
	}
}

// choice is one way to hit a set.
type choice struct {
	atom int
	set  Set // the atom with all that requires it
	cost float64
}

// choices lists the atoms that hit a set, the cheapest first.
func (h *hitting) choices(target, chosen, banned Set) []choice {
	var list []choice
	for _, i := range target.Minus(banned).Atoms() {
		set := h.space.users[i]
		list = append(list, choice{i, set, h.space.Weight(set.Minus(chosen))})
	}
	slices.SortStableFunc(list, func(a, b choice) int { return cmp.Compare(a.cost, b.cost) })
	return list
}

// left is the smallest set that is not hit, and a lower bound of what hitting all the rest costs: the sum over sets
// that have nothing in common, each by its cheapest atom. What an atom takes along may hit several sets, so only the
// atom itself is counted.
func (h *hitting) left(chosen, banned Set) (Set, float64) {
	var next, used Set
	least := 0.0
	for _, t := range h.hit {
		if t.Meets(chosen) {
			continue
		}
		open := t.Minus(banned)
		if next == nil || open.Len() < next.Minus(banned).Len() {
			next = t
		}
		if open.Meets(used) {
			continue
		}
		used = used.Or(open)
		w := math.Inf(1)
		for _, i := range open.Atoms() {
			w = min(w, h.space.atoms[i].Weight)
		}
		least += w
	}
	return next, least
}

// LeastHits lists the minimal sets that hit all of the sets. With more than 64 it stops, and the list is of the first
// sets only.
func LeastHits(list []Set) []Set {
	const many = 64
	hits := []Set{nil}
	for _, g := range list {
		var next []Set
		for _, h := range hits {
			if h.Meets(g) {
				next = minimalWith(next, h)
				continue
			}
			for _, a := range g.Atoms() {
				next = minimalWith(next, h.Or(Of(a)))
			}
		}
		if hits = next; len(hits) > many {
			return hits
		}
	}
	return hits
}

// minimalWith adds a set to sets none of which holds another, and drops those that hold it.
func minimalWith(list []Set, set Set) []Set {
	if slices.ContainsFunc(list, func(t Set) bool { return t.In(set) }) {
		return list
	}
	return append(slices.DeleteFunc(list, func(t Set) bool { return set.In(t) }), set)
}
