package bisect

import "slices"

// Linear is a range without branches: the commits of a list, oldest first, that follow the good end.
func Linear(good string, ids ...string) []Commit {
	commits := make([]Commit, len(ids))
	for i, id := range ids {
		commits[i] = Commit{ID: id, Parents: []string{good}}
		if i > 0 {
			commits[i].InRange = []int{i - 1}
		}
		good = id
	}
	return commits
}

// Trunk lists, oldest first, the commits of the range that its last one reaches along first parents, or along those of equal
// inputs, where a merge has brought nothing else.
func Trunk(commits []Commit) []int {
	at := make(map[string]int, len(commits))
	for i, c := range commits {
		at[c.ID] = i
	}
	trunk := []int{len(commits) - 1}
	for {
		c := commits[trunk[len(trunk)-1]]
		if len(c.Parents) == 0 {
			break
		}
		p, in := at[c.Parents[0]]
		in = in && slices.Contains(c.InRange, p)
		for _, k := range c.InRange {
			if c.Key != "" && commits[k].Key == c.Key && !(in && commits[p].Key == c.Key) {
				p, in = k, true
			}
		}
		if !in {
			break
		}
		trunk = append(trunk, p)
	}
	slices.Reverse(trunk)
	return trunk
}

// Probes picks up to n usable commits of the trunk, without its last one, such that the weights between neighbours are
// as even as can be.
func Probes(commits []Commit, weight []float64, n int, usable func(i int) bool) []int {
	mass := NewGraph(commits).Masses(weight)
	total := mass[len(commits)-1]
	trunk := Trunk(commits)
	trunk = slices.DeleteFunc(trunk[:len(trunk)-1], func(i int) bool { return !usable(i) })
	var out []int
	k := 0
	for p := 1; p <= n && k < len(trunk); p++ {
		want := total * float64(p) / float64(n+1)
		for k+1 < len(trunk) && mass[trunk[k]] < want {
			k++
		}
		if len(out) == 0 || out[len(out)-1] != trunk[k] {
			out = append(out, trunk[k])
		}
	}
	return out
}

// Descendants marks commit i and everything in the range that reaches it.
func Descendants(commits []Commit, i int) []bool {
	in := make([]bool, len(commits))
	in[i] = true
	for j := i + 1; j < len(commits); j++ {
		in[j] = slices.ContainsFunc(commits[j].InRange, func(p int) bool { return in[p] })
	}
	return in
}

// Between returns the commits that hi reaches and lo does not, as a range of its own, with the index of each in the
// range that it is taken from. A lo below 0 stands for the good end.
func Between(commits []Commit, lo, hi int) (sub []Commit, index []int) {
	in := Ancestors(commits, hi)
	if lo >= 0 {
		for i, below := range Ancestors(commits, lo) {
			in[i] = in[i] && !below
		}
	}
	to := make([]int, len(commits))
	for i, ok := range in {
		if !ok {
			continue
		}
		c := commits[i]
		c.InRange = nil
		for _, p := range commits[i].InRange {
			if in[p] {
				c.InRange = append(c.InRange, to[p])
			}
		}
		to[i] = len(sub)
		sub, index = append(sub, c), append(index, i)
	}
	return sub, index
}
