package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

const (
	manyProbes = 16 // commits that a sweep looks at besides the ends and what is named
	passes     = 3  // launches of each
)

// survey is the levels of the ends and of probes between them, oldest first.
type survey struct {
	belief.Profile
	whole bool // all launches were made
}

// rise is a pair of neighbouring probes of different levels.
type rise struct {
	lo, hi int // indices of the commits
	step   float64
}

// probes launches commits all over the range: forth, back and forth again, so that neighbours stand
// side by side in time and drift does not come between them. The culprits that are known and their
// parents are among them, so that no segment holds their steps.
func (r *slowdownRun) probes(known []named) (*survey, error) {
	at := r.chain(known)
	s := &survey{whole: true}
	for pass := range passes {
		for _, i := range at {
			if r.over() {
				s.whole = false
				break
			}
			if err := r.glance(i); err != nil {
				return nil, err
			}
		}
		if pass < passes-1 {
			slices.Reverse(at)
		}
	}
	at = slices.DeleteFunc(at, func(i int) bool { return !r.isEnd(i) && !r.usable[i] })
	s.Profile = belief.FitProfile(at, r.ledger())
	return s, nil
}

// chain is the good end, the probes and the bad end.
func (r *slowdownRun) chain(known []named) []int {
	trunk := bisect.Trunk(r.commits)
	at := bisect.Probes(r.commits, r.prior, manyProbes, func(i int) bool { return r.usable[i] })
	for _, n := range known {
		if !slices.Contains(trunk, n.index) {
			continue
		}
		at = append(at, n.index)
		if p, ok := r.index[firstOf(r.commits[n.index].Parents)]; ok && p != belief.GoodEnd && slices.Contains(trunk, p) && r.usable[p] {
			at = append(at, p)
		}
	}
	at = append(at, belief.GoodEnd, len(r.commits)-1)
	slices.Sort(at) // on the trunk the order of indices is that of descent
	return slices.Compact(at)
}

func firstOf(v []string) string {
	if len(v) == 0 {
		return ""
	}
	return v[0]
}

// glance launches one probe. A commit that fails is set aside; times that may not be compared are
// measured once more.
func (r *slowdownRun) glance(i int) error {
	if !r.isEnd(i) && !r.usable[i] {
		return nil
	}
	for range 2 {
		o, err := r.launch(r.id(i), i, r.purpose(i))
		if err != nil {
			return err
		}
		if _, ok := r.level(o); ok {
			r.unfit = 0
			return nil
		}
		r.unfit++
		if o.Class != bisect.OK || o.Unfit == "" {
			if !r.isEnd(i) && !r.proven[i] {
				r.setAside(i, o)
				return nil
			}
		}
	}
	return nil
}

// ends is how much the bad end lies above the good one.
func (s *survey) ends() (d, sd float64) { return s.Diff(0, len(s.At)-1) }

// rising lists the pairs of neighbours of which the later one is worse, largest first.
func (s *survey) rising(least float64) []rise {
	var out []rise
	for k := 1; k < len(s.At); k++ {
		if d, sd := s.Diff(k-1, k); d > rises*sd && d > least {
			out = append(out, rise{s.At[k-1], s.At[k], d})
		}
	}
	slices.SortStableFunc(out, func(a, b rise) int { return cmp.Compare(b.step, a.step) })
	return out
}

// falling lists the pairs of which the later one is clearly better, oldest first; step is positive.
func (s *survey) falling(least float64) []rise {
	var out []rise
	for k := 1; k < len(s.At); k++ {
		if d, sd := s.Diff(k-1, k); -d > falls*sd && -d > least {
			out = append(out, rise{s.At[k-1], s.At[k], -d})
		}
	}
	return out
}

// blind is the step between neighbours that may well go unseen.
func (s *survey) blind() float64 {
	worst := 0.0
	for k := 1; k < len(s.At); k++ {
		if _, sd := s.Diff(k-1, k); sd < 0.5 {
			worst = math.Max(worst, sd)
		}
	}
	return 2 * rises * worst
}

// widest is the largest number of commits between two neighbours, the later one included.
func (s *survey) widest(commits []bisect.Commit) int {
	n := 0
	for k := 1; k < len(s.At); k++ {
		between, _ := bisect.Between(commits, s.At[k-1], s.At[k])
		n = max(n, len(between))
	}
	return n
}
