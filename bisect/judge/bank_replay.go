package judge

// replay runs the launches through the filters anew, with the present noise. Sets that no launch has
// told apart yet share a filter until one does. Sets that are next to impossible keep theirs, and their
// distance to the likeliest one: that bounds the time of a decision.
func (m *Model) replay() {
	const few, many = 100, 300
	negligible := 1e-7
	if len(m.launches) > many {
		negligible = 1e-5
	}
	post := m.posterior()
	top, _ := m.top()
	old := m.sets[top].filter.logL
	var alive, gone []int
	for j := range m.sets {
		if len(m.launches) > few && post[j] < negligible {
			gone = append(gone, j)
		} else {
			alive = append(alive, j)
		}
	}
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

// part parts every group of sets into those that tested commit c reaches and the others.
func (m *Model) part(groups [][]int, filters []filter, c int) ([][]int, []filter) {
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
