package bisect

import "slices"

// ClearedByInputs lists the commits that cannot be to blame as long as commits of equal inputs behave alike. The good end has
// the inputs goodKey. Commits of which alike is false clear none, nor do neutral ones.
func ClearedByInputs(commits []Commit, goodKey string, alike func(i int) bool) (cleared []int) {
	for _, group := range equalInputs(commits, goodKey, alike) {
		cleared = append(cleared, around(commits, group)...)
	}
	return cleared
}

// equalInputs groups the commits that brought inputs which had been there before with the first commit to have them; the
// good end is the first of its own. Each group is ascending, and only groups of two or more are returned, others as
// nil.
//
// Groups that alternate are left out too: where a change was made, reverted and made again, clearing what lies between
// equal inputs would clear every change. If two kinds of inputs that alternate do behave differently, the range holds
// several changes anyway. In a history where alternation would take too long to rule out, nothing is cleared, which
// costs only launches.
func equalInputs(commits []Commit, goodKey string, alike func(i int) bool) (groups [][]int) {
	const patience = 200 // steps a commit
	of := map[string]int{}
	for i, c := range commits {
		if c.Key != "" && !c.Neutral && alike(i) {
			g, ok := of[c.Key]
			if !ok {
				if g, of[c.Key] = len(groups), len(groups); c.Key == goodKey {
					groups = append(groups, []int{-1})
				} else {
					groups = append(groups, nil)
				}
			}
			groups[g] = append(groups[g], i)
		}
	}
	n := len(commits)
	member, after, before := slices.Repeat([]int{-1}, n), make([]bool, n), make([]bool, n)
	for g, group := range groups {
		for _, i := range group {
			if len(group) > 1 && i >= 0 {
				member[i] = g
			}
		}
	}
	alternate := make([]bool, len(groups))
	steps := 0
	for g, group := range groups {
		if len(group) == 1 {
			continue
		}
		low, high := max(0, group[0]), group[len(group)-1]
		if steps += high - low; steps > patience*n {
			return nil
		}
		in := map[int]int{} // commits of another group that descend from one of this and that another of this reaches
		for i := low; i <= high; i++ {
			after[i] = group[0] < 0 || member[i] == g || slices.ContainsFunc(commits[i].InRange, func(k int) bool { return k >= low && after[k] })
			before[i] = member[i] == g
		}
		for i := high; i >= low; i-- {
			if before[i] && after[i] && member[i] >= 0 {
				in[member[i]]++
			}
			for _, k := range commits[i].InRange {
				if before[i] && k >= low {
					before[k] = true
				}
			}
		}
		for other, k := range in {
			if size := len(groups[other]); other != g && k < size && !(k == size-1 && groups[other][0] < 0) {
				alternate[g], alternate[other] = true, true
			}
		}
	}
	for g := range groups {
		if alternate[g] || len(groups[g]) == 1 {
			groups[g] = nil
		}
	}
	return groups
}

// around lists the commits that some members of a group reach and others do not; the good end reaches none. It
// walks down from the newest member with one bit per member, 63 of them at a time beside the first, and ends where no
// commit is left that only some of them reach.
func around(commits []Commit, group []int) (out []int) {
	reached := make(map[int]uint64)
	for rest := group; len(rest) > 1; {
		some := rest[1:min(64, len(rest))] // beside the first of all
		rest = rest[len(some):]
		clear(reached)
		all, open := uint64(1)<<(len(some)+1)-1, 0
		reach := func(i int, by uint64) {
			was := reached[i]
			if now := was | by; now != was {
				reached[i] = now
				if was == 0 && now != all {
					open++
				} else if was != 0 && now == all {
					open--
				}
			}
		}
		for k, i := range some {
			reach(i, 2<<k)
		}
		if group[0] >= 0 {
			reach(group[0], 1)
		}
		for i := some[len(some)-1]; open > 0; i-- {
			by := reached[i]
			if by == 0 {
				continue
			}
			if by != all {
				out = append(out, i)
				open--
			}
			for _, k := range commits[i].InRange {
				reach(k, by)
			}
		}
	}
	return out
}
