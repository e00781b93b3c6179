package find

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/search/question"
)

// fixes finds where the metric improved again: between neighbouring probes of which the later one is clearly better.
func (e *levelSweep) fixes() {
	r := e.r
	e.fixed = e.survey.moves(func(d, sd float64) bool { return -d > question.Remarkable*sd && -d > r.Least })
	for _, p := range e.fixed {
		commits, _ := bisect.Between(r.Span.Commits, p.lo, p.hi)
		r.Account.Finding.Fixes = append(r.Account.Finding.Fixes, bisect.Fix{After: r.Span.Id(p.lo), By: r.Span.Id(p.hi), Commits: len(commits), Effect: *e.q.Effect(p.step, p.sd)})
	}
}

// division takes the difference between the ends of a sweep apart into shares. All launches between two changes are
// taken together as one level, and every step is a difference of these levels; so the shares add up to 1 and their
// errors belong together.
type division struct{ e *levelSweep }

// share gives the culprits and fixes their shares of the difference between the ends and, where there are several,
// their effects from the joint fit. Commits between two known changes are taken to be level unless their halves
// differ. They may hide a change all the same: the intervals are widened for that, by a second fit that lets the
// halves differ.
//
// It needs launches on both sides of every change; a share whose step has no level stays nil.
func (v division) share() {
	f := &v.e.r.Account.Finding
	holds := v.held()
	halves := v.halves(holds)
	even := v.fit(func(i int) string {
		if key := holds(i); key == "" || halves.even(key) {
			return key
		}
		return fmt.Sprint(holds(i), i)
	})
	all, also := v.split(even), v.split(halves.stretches)
	if all.rest == nil || also.rest == nil {
		return
	}
	unseen := halves.unseen(all.largest)
	take := func(k int) *bisect.Share {
		if all.shares[k] == nil || also.shares[k] == nil {
			return nil
		}
		return blend(all.shares[k], also.shares[k], unseen)
	}
	for i := range f.Culprits {
		if x := all.effects[i]; x != nil && len(all.effects) > 1 && !v.e.q.Channel.Metric.Exact {
			f.Culprits[i].Effect = x
		}
		f.Culprits[i].Share = take(i)
	}
	for i := range f.Fixes {
		k := len(f.Culprits) + i
		if f.Fixes[i].Share = take(k); all.effects[k] != nil {
			f.Fixes[i].Effect = *all.effects[k]
		}
	}
	f.Rest = blend(all.rest, also.rest, unseen)
}

// blend widens the 95 % interval of a share s for the probability p that the truth is another: to the 2.5 % and 97.5 %
// quantiles of the mixture of both, each a normal distribution with a width of its own on either side. The value and
// at least the interval of s stay.
func blend(s, other *bisect.Share, p float64) *bisect.Share {
	const z = 1.96 / math.Sqrt2
	below := func(s *bisect.Share, x float64) float64 {
		side := s.Value - s.Low
		if x > s.Value {
			side = s.High - s.Value
		}
		return math.Erfc(z*(s.Value-x)/max(side, 1e-9)) / 2
	}
	quantile := func(q float64) float64 {
		lo, hi := min(s.Low, other.Low), max(s.High, other.High)
		for range 50 {
			if x := (lo + hi) / 2; (1-p)*below(s, x)+p*below(other, x) < q {
				lo = x
			} else {
				hi = x
			}
		}
		return (lo + hi) / 2
	}
	return &bisect.Share{Value: s.Value, Low: min(s.Low, quantile(0.025)), High: max(s.High, quantile(0.975))}
}

// parts is the difference between the ends, taken apart. The slices hold the culprits first and then the fixes, in the
// order of the sweep.
type parts struct {
	shares  []*bisect.Share // of the culprits and of the fixes; nil where there is none
	effects []*bisect.Effect
	rest    *bisect.Share
	largest float64 // step, a logarithm
}

// split takes the difference between the ends apart: what is left after all known steps is the rest. Shares are nil
// where a step or the whole has no level.
func (v division) split(l stretches) (out parts) {
	in := v.e.r.Span
	whole, ok := l.step(belief.GoodEnd, in.Bad())
	left := slices.Clone(whole)
	take := func(lo, hi int) {
		var share *bisect.Share
		var effect *bisect.Effect
		if own, known := l.step(lo, hi); ok && known {
			for k := range left {
				left[k] -= own[k]
			}
			d := l.value(own)
			share, effect, out.largest = l.share(own, whole), v.e.q.Effect(d, math.Sqrt(l.product(own, own))), max(out.largest, math.Abs(d))
		}
		out.shares, out.effects = append(out.shares, share), append(out.effects, effect)
	}
	for _, n := range v.e.named {
		before, in := in.FirstParent(n.Parents)
		if !in {
			before = belief.GoodEnd
		}
		take(before, n.index)
	}
	for _, p := range v.e.fixed {
		take(p.lo, p.hi)
	}
	if ok {
		out.rest = l.share(left, whole)
	}
	return out
}

// held tells which of the known changes a commit holds, as a text with + or - for each: commits of the same text are
// taken to have the same level. It is "" for a commit that may or may not hold a fix, as its place is known only to
// lie between two probes.
func (v division) held() func(i int) string {
	in := v.e.r.Span
	n := len(v.e.named) + len(v.e.fixed)
	keys := make([][]byte, len(in.Commits))
	for i := range keys {
		keys[i] = bytes.Repeat([]byte{'-'}, n)
	}
	mark := func(change int, holds []bool) {
		for i, h := range holds {
			if h {
				keys[i][change] = '+'
			}
		}
	}
	for k, c := range v.e.named {
		mark(k, bisect.Descendants(in.Commits, c.index))
	}
	unclear := make([]bool, len(in.Commits))
	for k, p := range v.e.fixed {
		holds := bisect.Descendants(in.Commits, p.hi)
		mark(len(v.e.named)+k, holds)
		_, within := bisect.Between(in.Commits, p.lo, p.hi)
		for _, c := range within {
			for i, after := range bisect.Descendants(in.Commits, c) {
				unclear[i] = unclear[i] || after && !holds[i]
			}
		}
	}
	return func(i int) string {
		switch {
		case i == belief.GoodEnd:
			return strings.Repeat("-", n)
		case unclear[i]:
			return ""
		}
		return string(keys[i])
	}
}

// stretches are levels fitted to commits in groups: those of one key have one level.
type stretches struct {
	levels.Profile
	key   func(i int) string // of a commit; "": it has no level
	level map[string]int     // of a key
	wide  float64            // half of a 95 % interval, standard deviations
}

// fit fits one level to the launches of all commits with the same key.
func (v division) fit(key func(i int) string) stretches {
	out := stretches{key: key, level: map[string]int{}, wide: question.Width}
	if v.e.q.Channel.Metric.Exact {
		out.wide = 0
	}
	var at []int
	var launches []belief.Launch
	for _, l := range v.e.q.Ledger(v.e.r, nil) {
		name := key(l.Index)
		if name == "" {
			continue
		}
		k, known := out.level[name]
		if !known {
			k = len(at)
			out.level[name], at = k, append(at, k)
		}
		l.Index = k
		launches = append(launches, l)
	}
	out.Profile = levels.FitProfile(at, launches)
	return out
}

// halves are the levels of the earlier and of the later half, by launches, of each group of commits that hold the same
// changes. Where the halves differ, the group holds a change that is not known.
type halves struct {
	stretches
	ends map[string][2]int // the oldest and the newest commit launched of each
}

// halves fits the levels of the halves. The key of a later half is that of its group with "late" added.
func (v division) halves(holds func(i int) string) halves {
	made, ends := map[int]int{}, map[string][2]int{}
	var commits []int
	for _, l := range v.e.q.Ledger(v.e.r, nil) {
		if made[l.Index]++; made[l.Index] == 1 {
			commits = append(commits, l.Index)
		}
	}
	slices.Sort(commits)
	all, before, late := map[string]int{}, map[string]int{}, map[int]bool{}
	for _, i := range commits {
		all[holds(i)] += made[i]
	}
	for _, i := range commits {
		key := holds(i)
		if before[key] == 0 {
			ends[key] = [2]int{i, i}
		}
		late[i] = 2*before[key]+made[i] > all[key] && before[key] > 0
		before[key], ends[key] = before[key]+made[i], [2]int{ends[key][0], i}
	}
	return halves{v.fit(func(i int) string {
		if key := holds(i); key == "" || !late[i] {
			return key
		}
		return holds(i) + "late"
	}), ends}
}

// even reports whether the halves of a group agree. Where they do not, each commit of it is fitted by itself.
func (h halves) even(key string) bool {
	a, b := h.level[h.key(h.ends[key][0])], h.level[h.key(h.ends[key][1])]
	d, sd := h.Diff(a, b)
	return a == b || math.Abs(d) <= question.Remarkable*sd
}

// unseen is the probability that some group which looks level holds a change of about the known size (a logarithm).
// For each group it is the Bayes factor of its halves' difference d, whose variance is either the noise alone or noise
// + size²: N(d; 0, noise+size²) / N(d; 0, noise). The factors are averaged, as the change may be in any of the groups.
func (h halves) unseen(size float64) float64 {
	const before = 0.5 // looking at the launches
	sum, n := 0.0, 0
	for key := range h.ends {
		a, b := h.level[h.key(h.ends[key][0])], h.level[h.key(h.ends[key][1])]
		if n++; a == b || h.wide == 0 { // a number without noise hides nothing
			sum += h.wide / question.Width
			continue
		}
		d, sd := h.Diff(a, b)
		noise := sd * sd * h.wide * h.wide / 4
		both := noise + size*size
		sum += math.Sqrt(noise/both) * math.Exp(d*d/2*(1/noise-1/both))
	}
	odds := before / (1 - before) * sum / float64(n)
	return odds / (1 + odds)
}

// step is what the level rises by from commit lo to hi, as a contrast: weights by level that add up to 0. ok is false
// where one of the two has no level.
func (l stretches) step(lo, hi int) (weights []float64, ok bool) {
	a, low := l.level[l.key(lo)]
	b, high := l.level[l.key(hi)]
	if !low || !high {
		return nil, false
	}
	weights = make([]float64, len(l.At))
	weights[b]++
	weights[a]--
	return weights, true
}

// product is the covariance of two contrasts. As the weights of each add up to 0, the variances of differences are
// enough: cov(a, b) = -½ Σ a_i b_j var(level_i - level_j).
func (l stretches) product(a, b []float64) (v float64) {
	for i := range a {
		for j := range b {
			if a[i] != 0 && b[j] != 0 {
				_, sd := l.Diff(i, j)
				v -= a[i] * b[j] * sd * sd / 2
			}
		}
	}
	return v
}

// value is the size of the step that a contrast stands for, a logarithm.
func (l stretches) value(a []float64) (v float64) {
	for k, w := range a {
		d, _ := l.Diff(0, k)
		v += w * d
	}
	return v
}

// share is one step as a share of the whole, with the 95 % interval of a ratio of two correlated estimates (Fieller
// 1954). It is nil where the interval would not be bounded: the whole may then be nothing.
func (l stretches) share(own, whole []float64) *bisect.Share {
	a, d, z := l.value(own), l.value(whole), l.wide*l.wide
	square := d*d - z*l.product(whole, whole)
	if square <= 0 {
		return nil
	}
	middle := (a*d - z*l.product(own, whole)) / square
	off := math.Sqrt(max(0, middle*middle-(a*a-z*l.product(own, own))/square))
	return &bisect.Share{Value: a / d, Low: middle - off, High: middle + off}
}
