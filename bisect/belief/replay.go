package belief

import (
	"cmp"
	"slices"
)

// replay runs the launches through the filters anew, with the present noise. Sets that no launch has
// told apart yet share a filter until one does. Sets that hardly count keep theirs, and their distance to
// the likeliest one: that bounds the time of a decision.
func (m *Levels) replay() {
	top, _ := m.Top()
	old := m.sets[top].filter.logL
	alive, gone := m.worthwhile()
	groups := [][]int{alive}
	filters := []filter{newFilter(m.noise)}
	seen := make([]bool, len(m.commits))
	for i := range m.launches {
		l := m.scaled(i)
		if l.Index != GoodEnd && !seen[l.Index] {
			seen[l.Index] = true
			groups, filters = m.part(groups, filters, l.Index)
		}
		for k := range groups {
			filters[k].add(l, m.holds(l.Index, groups[k][0]), m.noise)
		}
	}
	for k, group := range groups {
		for _, j := range group {
			m.sets[j].filter = filters[k].clone()
		}
	}
	for _, j := range gone {
		m.sets[j].filter.logL += m.sets[top].filter.logL - old
	}
}

// worthwhile parts the sets into those that a replay follows, the likely ones and of many launches no more
// than there is time for, and the others.
func (m *Levels) worthwhile() (alive, gone []int) {
	const (
		few, many = 100, 300 // launches
		work      = 30_000   // launches times Gaussians that are followed
		least     = 12       // sets that are followed in any case
	)
	negligible, steps := 1e-7, len(m.launches)
	if steps > many {
		negligible = 1e-5
	}
	if m.noise.Modes() {
		steps *= 2 * maxParts
	}
	post := m.posterior()
	order := make([]int, len(m.sets))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(post[b], post[a]) })
	n := len(order)
	for n > 1 && len(m.launches) > few && (post[order[n-1]] < negligible || n > max(least, work/steps)) {
		n--
	}
	alive, gone = order[:n], order[n:]
	slices.Sort(alive)
	return alive, gone
}

// part parts every group of sets into those that tested commit c reaches and the others.
func (m *Levels) part(groups [][]int, filters []filter, c int) ([][]int, []filter) {
	for k, group := range groups {
		var in, out []int
		for _, j := range group {
			if m.holds(c, j) {
				in = append(in, j)
			} else {
				out = append(out, j)
			}
		}
		if len(in) > 0 && len(out) > 0 {
			groups[k] = out
			groups, filters = append(groups, in), append(filters, filters[k].clone())
		}
	}
	return groups, filters
}
