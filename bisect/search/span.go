package search

import (
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// Span is a range under search: its commits, which of them can be the culprit, and which can be launched. Slices are
// indexed like Commits, which stand parents first with the bad end last; belief.GoodEnd is the index of the good end.
type Span struct {
	Commits []bisect.Commit
	Good    bisect.Candidate
	GoodKey string           // fingerprint of the good end's inputs
	Index   map[string]int   // of a commit id; GoodEnd for the good end
	weight  []float64        // of each commit before equal inputs clear any
	factor  []float64        // of the weight, by what was learned
	Prior   []float64        // of each commit as the culprit; 0 clears it
	Within  []bool           // commits below the bad end; all, unless the range holds several changes
	Usable  []bool           // can be launched
	Proven  []bool           // has told something about the complaint before
	alike   map[string][]int // the commits of equal inputs, by their key, where there are several
	mute    map[string]bool  // keys of inputs that cannot be tested: they say nothing of what lies between their commits
	Blind   bool             // the ends have equal inputs: if they differ all the same, any commit may be to blame

	declared []bisect.Commit // Commits before anything was learned
	learned  int             // learned.of, as far as Commits follow it
}

// NewSpan returns the span of a range whose good end has the inputs goodKey. It keeps no reference to commits.
func NewSpan(commits []bisect.Commit, good bisect.Candidate, goodKey string) *Span {
	n := len(commits)
	p := &Span{Commits: slices.Clone(commits), declared: slices.Clone(commits), Good: good, GoodKey: goodKey, Index: make(map[string]int, n), weight: make([]float64, n), factor: slices.Repeat([]float64{1}, n), Within: make([]bool, n), Usable: make([]bool, n), Proven: make([]bool, n)}
	for i, c := range commits {
		p.Index[c.ID], p.Within[i], p.weight[i] = i, true, 1
	}
	p.Index[good.Commit] = belief.GoodEnd
	p.Clear()
	return p
}

// Weigh replaces the weights of the commits as culprits, relative to each other; weights of 0 or less leave a commit's
// as it was.
func (p *Span) Weigh(weights []float64) {
	for i, w := range weights {
		if w > 0 {
			p.weight[i] = w
		}
	}
	p.Clear()
}

// Clear makes Prior, Usable and Blind anew from the weights, Within and the keys. A commit is cleared (prior 0) if
// blaming it would mean that commits of equal inputs behave differently. If that clears all of them, the keys say
// nothing about this complaint (Blind), and all are suspects.
func (p *Span) Clear() {
	p.Prior = make([]float64, len(p.Commits))
	p.alike = map[string][]int{}
	first := make(map[string]int, len(p.Commits)) // of each key
	for i, c := range p.Commits {
		p.Usable[i] = !c.Neutral || i == len(p.Commits)-1
		if !c.Neutral && p.Within[i] {
			p.Prior[i] = p.weight[i] * p.factor[i]
		}
		if c.Key == "" {
			continue
		}
		if k, ok := first[c.Key]; !ok {
			first[c.Key] = i
		} else if p.alike[c.Key] == nil {
			p.alike[c.Key] = []int{k, i}
		} else {
			p.alike[c.Key] = append(p.alike[c.Key], i)
		}
	}
	alike := func(i int) bool { return p.Within[i] && !p.mute[p.Commits[i].Key] }
	for _, i := range bisect.ClearedByInputs(p.Commits, p.GoodKey, alike) {
		p.Prior[i] = 0
	}
	if p.Blind = slices.Max(p.Prior) == 0; p.Blind {
		for i := range p.Prior {
			p.Prior[i], p.Usable[i] = p.weight[i], true
		}
	}
}

// forgetKeys makes every commit a candidate of its own, neutral ones included.
func (p *Span) forgetKeys() {
	for i := range p.Commits {
		p.Commits[i].Key, p.Commits[i].Neutral = "", false
	}
	p.declared = slices.Clone(p.Commits)
	p.Clear()
}

// Id is the id of the commit with an index, GoodEnd included.
func (p *Span) Id(i int) string {
	if i < 0 {
		return p.Good.Commit
	}
	return p.Commits[i].ID
}

// Place is the index of a commit. One before the range counts as the good end.
func (p *Span) Place(id string) int {
	if i, ok := p.Index[id]; ok {
		return i
	}
	return belief.GoodEnd
}

// holds reports whether a commit lies in the range; the good end does not.
func (p *Span) holds(id string) bool { i, ok := p.Index[id]; return ok && i >= 0 }

// Bad is the index of the bad end.
func (p *Span) Bad() int { return len(p.Commits) - 1 }

func (p *Span) IsEnd(i int) bool { return i < 0 || i == p.Bad() }

// Launchable reports whether commit i can be launched and says something about this change; the good end always does.
func (p *Span) Launchable(i int) bool { return i < 0 || p.Usable[i] && p.Within[i] }

// Purpose is the purpose of a launch of commit i that the search, not the proof, asks for.
func (p *Span) Purpose(i int) bisect.Purpose {
	switch {
	case i < 0:
		return bisect.EndGood
	case i == p.Bad():
		return bisect.EndBad
	}
	return bisect.Searching
}

// Sides returns the commits to launch for the claim that a set holds the culprit: the culprit and its parents, or the
// nearest commits around a set of several that cannot be distinguished.
func (p *Span) Sides(set []int) (culprit string, parents []string) {
	if c := p.Commits[set[0]]; len(set) == 1 && p.Launchable(set[0]) {
		return c.ID, c.Parents
	}
	after, before := p.Bad(), p.Good.Commit
	sure := func(i int) bool { return p.Launchable(i) || p.LeftOut(i) } // the proof trusts no guess
	reaches := func(i int, every bool) bool {
		in := bisect.Ancestors(p.Commits, i)
		return slices.ContainsFunc(set, func(k int) bool { return in[k] != every }) != every
	}
	for i := p.Bad(); i >= 0; i-- {
		if sure(i) && reaches(i, true) {
			after = i
		}
	}
	for i, in := range bisect.Ancestors(p.Commits, after) {
		if in && sure(i) && !reaches(i, false) {
			before = p.Commits[i].ID
		}
	}
	return p.Commits[after].ID, []string{before}
}

// EqualTo lists the other commits with the inputs of commit i; nil where it has none, or no key.
func (p *Span) EqualTo(i int) (out []int) {
	for _, k := range p.alike[p.Commits[i].Key] {
		if k != i {
			out = append(out, k)
		}
	}
	return out
}

// FirstParent is the index of the first of a commit's parents; ok is false where that lies before the range.
func (p *Span) FirstParent(parents []string) (int, bool) {
	if len(parents) == 0 {
		return 0, false
	}
	i, ok := p.Index[parents[0]]
	return i, ok
}

// chances returns the probability that a commit never launched can be tested, nil where no commit turned out broken.
// Broken commits come in runs: the neighbour of one is taken to be broken as well with 0.8, the next with 0.8², and so
// on.
func (p *Span) chances(launched map[string]bool) func(i int) float64 {
	const spread = 0.8
	var broken []int
	for i, c := range p.Commits {
		if !p.Usable[i] && !c.Neutral && launched[c.ID] {
			broken = append(broken, i)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	far := bisect.Distances(p.Commits, broken)
	return func(i int) float64 { return 1 - math.Pow(spread, float64(far[i])) }
}
