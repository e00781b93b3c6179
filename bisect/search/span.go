package search

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// span is a range under search: its commits, who of them can be the culprit, and who can be launched. Commits go by
// their index; GoodEnd is the good end.
type span struct {
	commits []bisect.Commit
	good    bisect.Candidate
	goodKey string           // fingerprint of the good end's inputs
	index   map[string]int   // of a commit id; GoodEnd for the good end
	weight  []float64        // of each commit before equal inputs clear any
	prior   []float64        // of each commit as the culprit; 0 clears it
	within  []bool           // commits below the bad end; all, unless the range holds several changes
	usable  []bool           // can be launched
	proven  []bool           // has told something about the complaint before
	alike   map[string][]int // the commits of equal inputs, by their key
	blind   bool             // the ends have equal inputs: if they differ all the same, any commit may be to blame
}

func newSpan(commits []bisect.Commit, good bisect.Candidate, goodKey string) *span {
	n := len(commits)
	p := &span{commits: slices.Clone(commits), good: good, goodKey: goodKey, index: make(map[string]int, n), weight: make([]float64, n), within: make([]bool, n), usable: make([]bool, n), proven: make([]bool, n)}
	for i, c := range commits {
		p.index[c.ID], p.within[i], p.weight[i] = i, true, 1
		if c.Prior > 0 {
			p.weight[i] = c.Prior
		}
	}
	p.index[good.Commit] = belief.GoodEnd
	p.clear()
	return p
}

// weigh replaces the weights of the commits as culprits.
func (p *span) weigh(weights []float64) {
	for i, w := range weights {
		if w > 0 {
			p.weight[i] = w
		}
	}
	p.clear()
}

// clear makes the priors: a commit is cleared that would tell commits of equal inputs apart.
func (p *span) clear() {
	p.prior = make([]float64, len(p.commits))
	p.alike = map[string][]int{}
	for i, c := range p.commits {
		p.usable[i] = !c.Neutral || i == len(p.commits)-1
		if !c.Neutral && p.within[i] {
			p.prior[i] = p.weight[i]
		}
		if c.Key != "" {
			p.alike[c.Key] = append(p.alike[c.Key], i)
		}
	}
	for i, c := range p.commits {
		group := p.alike[c.Key]
		isGood := c.Key == p.goodKey
		if len(group) == 0 || group[0] != i || len(group) == 1 && !isGood {
			continue
		}
		first := bisect.Ancestors(p.commits, group[0])
		for _, i := range group {
			for k, in := range bisect.Ancestors(p.commits, i) {
				if isGood && in || in != first[k] {
					p.prior[k] = 0
				}
			}
		}
	}
	if p.blind = slices.Max(p.prior) == 0; p.blind {
		for i := range p.prior {
			p.prior[i], p.usable[i] = p.weight[i], true
		}
	}
}

// forgetKeys makes every commit a candidate of its own.
func (p *span) forgetKeys() {
	for i := range p.commits {
		p.commits[i].Key, p.commits[i].Neutral = "", false
	}
	p.clear()
}

// id is the commit with an index.
func (p *span) id(i int) string {
	if i < 0 {
		return p.good.Commit
	}
	return p.commits[i].ID
}

// place is the index of a commit; what lies before the range is good like the good end.
func (p *span) place(id string) int {
	if i, ok := p.index[id]; ok {
		return i
	}
	return belief.GoodEnd
}

// holds reports a commit of the range.
func (p *span) holds(id string) bool { i, ok := p.index[id]; return ok && i >= 0 }

// bad is the index of the bad end.
func (p *span) bad() int { return len(p.commits) - 1 }

func (p *span) isEnd(i int) bool { return i < 0 || i == p.bad() }

// launchable reports a commit that can be launched and speaks about this change.
func (p *span) launchable(i int) bool { return i < 0 || p.usable[i] && p.within[i] }

// purpose is that of a launch that the search asks for.
func (p *span) purpose(i int) bisect.Purpose {
	switch {
	case i < 0:
		return bisect.EndGood
	case i == p.bad():
		return bisect.EndBad
	}
	return bisect.Searching
}

// sides returns the commits to launch for the claim that a set holds the culprit: the culprit and its parents, or the
// nearest commits around a set of several that cannot be told apart.
func (p *span) sides(set []int) (culprit string, parents []string) {
	if c := p.commits[set[0]]; len(set) == 1 && p.launchable(set[0]) {
		return c.ID, c.Parents
	}
	after, before := p.bad(), p.good.Commit
	reaches := func(i int, every bool) bool {
		in := bisect.Ancestors(p.commits, i)
		return slices.ContainsFunc(set, func(k int) bool { return in[k] != every }) != every
	}
	for i := p.bad(); i >= 0; i-- {
		if p.launchable(i) && reaches(i, true) {
			after = i
		}
	}
	for i, in := range bisect.Ancestors(p.commits, after) {
		if in && p.launchable(i) && !reaches(i, false) {
			before = p.commits[i].ID
		}
	}
	return p.commits[after].ID, []string{before}
}

// equalTo lists the commits with the inputs of commit i, itself left out.
func (p *span) equalTo(i int) (out []int) {
	for _, k := range p.alike[p.commits[i].Key] {
		if k != i {
			out = append(out, k)
		}
	}
	return out
}

// firstParent is the place of the first of a commit's parents; false where that lies before the range.
func (p *span) firstParent(parents []string) (int, bool) {
	if len(parents) == 0 {
		return 0, false
	}
	i, ok := p.index[parents[0]]
	return i, ok
}

// chances are those of commits that were never launched to be testable: broken commits come in runs, so that the
// neighbour of one is broken too four times out of five.
func (p *span) chances(launched map[string]bool) func(i int) float64 {
	const spread = 0.8
	var broken []int
	for i, c := range p.commits {
		if !p.usable[i] && !c.Neutral && launched[c.ID] {
			broken = append(broken, i)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	far := bisect.Distances(p.commits, broken)
	return func(i int) float64 { return 1 - math.Pow(spread, float64(far[i])) }
}
