package judge

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// The rules of a search for a complaint that may show only sometimes.
const (
	maxWeighed  = 600  // launches after the plain search
	alikeTrust  = 0.95 // that ends are called alike
	alikePrior  = 0.02 // that ends that differed in one launch each do not differ
	maxOdd      = 6    // launches in a row that tell nothing
	strongCount = 6    // launches that all ended alike, which no rate explains on both sides
)

// flakySearch is the state of a search by all launches together.
type flakySearch struct {
	plain   *Plain
	ctx     context.Context
	s       *bisect.Search
	f       *bisect.Finding
	commits []bisect.Commit
	index   map[string]int // of a commit id in the range; GoodEnd for all that is good by assumption
	usable  []bool
	within  []bool // commits below the bad end; all, unless the range holds several changes
	ev      *belief.Failures
	lost    map[launchKey]string // what could not be launched from a clean build, and why
	redone  bool                 // everything is built clean by now
	odd     int                  // launches in a row that tell nothing
	from    int                  // launches when this search began
}

// SearchFlaky proves what the launches so far point to, or goes on with the launch that promises most
// information for its expected cost. See [bisect.FlakySearcher].
func (p *Plain) SearchFlaky(ctx context.Context, s *bisect.Search, f *bisect.Finding) error {
	w := &flakySearch{plain: p, ctx: ctx, s: s, f: f, commits: slices.Clone(s.Commits), index: map[string]int{}, lost: map[launchKey]string{}, from: len(p.trials)}
	w.usable, w.within = make([]bool, len(w.commits)), make([]bool, len(w.commits))
	for i, c := range w.commits {
		w.index[c.ID], w.within[i] = i, true
	}
	w.index[s.Good.Commit] = belief.GoodEnd
	w.rebuild()
	if w.ev.Cleared() {
		w.distrustKeys(w.commits[len(w.commits)-1].ID)
	}
	err := w.all()
	if err != nil {
		w.suspects()
	}
	return err
}

// all searches until something is proven or nothing more can be.
func (w *flakySearch) all() error {
	for {
		b := w.ev.Posterior()
		k := b.Top()
		if w.manyChanges() {
			continue
		}
		if acted, err := w.oddTwins(); err != nil {
			return err
		} else if acted && w.over() == "" {
			continue
		}
		set := w.ev.Peers(k)
		switch {
		case b.Alike >= alikeTrust:
			if done, err := w.proveAlike(b); done || err != nil {
				return err
			}
			continue
		case b.Weight[k] >= 1-w.doubt(b, k):
			set = []int{k}
		case sum(b.Weight, set) >= 1-w.doubt(b, k) && !w.ev.Parted(set, w.launchable):
			if acted, err := w.again(set); err != nil {
				return err
			} else if acted {
				continue
			}
		default:
			done, err := w.search(b, k)
			if done || err != nil {
				return err
			}
			continue
		}
		if done, err := w.prove(b, set); done || err != nil {
			return err
		}
	}
}

// search makes the launch that promises most; done when there is none.
func (w *flakySearch) search(b belief.Posterior, k int) (done bool, err error) {
	why := w.over()
	i, ok := belief.GoodEnd, false
	if why == "" {
		if i, ok = w.next(b); !ok {
			if acted, err := w.again(indices(b.Credible(credible))); acted || err != nil {
				return false, err
			}
			why = "no launch promises to tell the suspects apart"
		}
	}
	if why != "" {
		return w.giveUp(why), nil
	}
	id, purpose := w.s.Good.Commit, bisect.EndGood
	if i >= 0 {
		id, purpose = w.commits[i].ID, bisect.Searching
	}
	if p := w.parentLike(k, i); i == len(w.commits)-1 {
		purpose = bisect.EndBad
	} else if p != "" && b.Weight[k] > 0.9 {
		id, purpose = p, bisect.ConfirmParent // it counts for the proof as well
	}
	_, err = w.try(id, purpose)
	return false, err
}

// Launches that failed in another way: one may be the machine's doing, as a time-out is on one that is loaded.
const (
	maxOther = 3 // of a commit set it aside for good
	maxVain  = 4 // made again in vain are enough: these commits do fail
)

// again launches a commit once more that failed in another way and would tell the suspects apart.
func (w *flakySearch) again(suspects []int) (acted bool, err error) {
	vain := 0
	for _, c := range w.commits {
		vain += max(0, w.plain.trials.others(w.plain.read, c.ID)-1)
	}
	if len(suspects) < 2 || vain >= maxVain || w.s.Others || w.over() != "" {
		return false, nil
	}
	for i, c := range w.commits {
		if w.usable[i] || !w.within[i] || w.plain.trials.others(w.plain.read, c.ID) == 0 || w.plain.trials.others(w.plain.read, c.ID) >= maxOther {
			continue
		}
		if w.ev.Parted(suspects, func(k int) bool { return k == i }) {
			_, err := w.try(c.ID, bisect.Searching)
			return true, err
		}
	}
	return false, nil
}

func indices(suspects []bisect.Suspect) (out []int) {
	for _, s := range suspects {
		out = append(out, s.Index)
	}
	return out
}

// parentLike is the parent of commit k that commit i is, or whose inputs it has as long as launches of equal
// inputs ended alike; "" if there is none that can be launched from a clean build.
func (w *flakySearch) parentLike(k, i int) string {
	if i < 0 {
		return ""
	}
	for _, p := range w.commits[k].Parents {
		at := w.place(p)
		alike := at == i || at >= 0 && w.commits[i].Key != "" && w.commits[i].Key == w.commits[at].Key && w.certain()
		if alike && w.lost[launchKey{p, bisect.ConfirmParent}] == "" {
			return p
		}
	}
	return ""
}

// certain reports that all launches of equal inputs ended alike so far.
func (w *flakySearch) certain() bool {
	seen := map[string]belief.Tally{}
	for _, i := range w.ev.Tested() {
		id := cmp.Or(w.commits[i].Key, w.commits[i].ID)
		seen[id] = seen[id].Plus(w.ev.Of(i))
		if t := seen[id]; t.Fails > 0 && t.Passes > 0 {
			return false
		}
	}
	return true
}

// try makes one launch and takes in what it shows.
func (w *flakySearch) try(id string, why bisect.Purpose) (bisect.Outcome, error) {
	o, err := w.plain.launch(w.ctx, bisect.Candidate{Commit: id}, why)
	if err != nil {
		return o, err
	}
	i, v := w.place(id), w.plain.read.verdict(o, 1)
	switch {
	case v.Call != bisect.Untestable:
		w.odd = 0
		if i >= 0 {
			w.usable[i] = true
		}
		if o.Class == bisect.OK && w.liedEarly(id, o) {
			w.takeTime(fmt.Sprintf("given the whole limit, commit %s does not show the complaint: trials that were stopped early are made again", bisect.ShortID(id)))
			break
		}
		w.count(i, v.Call == bisect.Bad)
	case why == bisect.ConfirmCulprit || why == bisect.ConfirmParent:
		w.lost[launchKey{id, why}] = v.Why
	case i >= 0 && why == bisect.Searching && w.ev.Of(i).Launches() == 0:
		w.usable[i] = false
	default:
		w.odd++
	}
	if why == bisect.Searching {
		b := w.ev.Posterior()
		if p := w.ev.Bad(b, i); v.Call == bisect.Bad {
			v.Probability = p
		} else if v.Call == bisect.Good {
			v.Probability = 1 - p
		}
		w.step(bisect.Step{Commit: id, Role: bisect.RoleSearch, Verdict: v, Remaining: len(b.Credible(credible))})
	}
	return o, nil
}

// place is the index of a commit; what lies before the range is good like the good end.
func (w *flakySearch) place(id string) int {
	if i, ok := w.index[id]; ok {
		return i
	}
	return belief.GoodEnd
}

// count adds one launch to the evidence, unless it is about another change.
func (w *flakySearch) count(i int, failed bool) {
	if i < 0 || w.within[i] {
		w.ev.Add(i, failed)
	}
}

// rebuild weighs all launches anew.
func (w *flakySearch) rebuild() {
	alike := alikePrior
	if w.f.Ends.Sometimes {
		alike = rareAlike
	}
	w.ev = belief.NewFailures(w.commits, w.priors(), alike)
	for i, c := range w.commits {
		w.usable[i] = !c.Neutral || i == len(w.commits)-1
	}
	for _, t := range w.plain.trials {
		i := w.place(t.Candidate.Commit)
		switch n := w.plain.read.shows(t.Outcome); {
		case n != belief.Tally{}:
			w.count(i, n.Fails > 0)
			if i >= 0 {
				w.usable[i] = true
			}
		case i >= 0 && t.Purpose == bisect.Searching && w.ev.Of(i).Launches() == 0:
			w.usable[i] = false
		}
	}
}

// priors are the weights of the commits as culprits. One that would tell commits of equal inputs apart
// is none.
func (w *flakySearch) priors() []float64 {
	prior := make([]float64, len(w.commits))
	alike := map[string][]int{}
	for i, c := range w.commits {
		switch {
		case c.Neutral || !w.within[i]:
		case c.Prior > 0:
			prior[i] = c.Prior
		default:
			prior[i] = 1
		}
		if c.Key != "" {
			alike[c.Key] = append(alike[c.Key], i)
		}
	}
	for _, c := range w.commits {
		group := alike[c.Key]
		delete(alike, c.Key)
		isGood := c.Key == w.s.GoodKey
		if len(group) == 0 || len(group) == 1 && !isGood {
			continue
		}
		first := bisect.Ancestors(w.commits, group[0])
		for _, i := range group {
			for k, in := range bisect.Ancestors(w.commits, i) {
				if isGood && in || in != first[k] {
					prior[k] = 0
				}
			}
		}
	}
	return prior
}

// launchable reports a commit that can be launched and speaks about this change.
func (w *flakySearch) launchable(i int) bool { return w.usable[i] && w.within[i] }

// next is the launch that promises most information for its expected cost.
func (w *flakySearch) next(b belief.Posterior) (next int, ok bool) {
	f := w.ev.Forecast(b)
	pass, fail, build := w.plain.trials.prices(w.plain.read, w.plain.patient)
	best := 0.0
	consider := func(i int, share, extra float64) {
		p, info := f.Of(i)
		if v := share * info / (p*fail + (1-p)*pass + extra); info > 1e-9 && v > best*(1+1e-9) {
			best, next, ok = v, i, true
		}
	}
	consider(belief.GoodEnd, 1, 0)
	chances := w.chances()
	for i := range w.commits {
		switch {
		case !w.launchable(i):
		case w.ev.Of(i).Launches() > 0:
			consider(i, 1, 0)
		default:
			consider(i, chances[i], belief.BuildShare*build)
		}
	}
	return next, ok
}

// chances are those of commits that were never launched to be testable: broken commits come in runs,
// so that the neighbour of one is broken too four times out of five.
func (w *flakySearch) chances() []float64 {
	const spread = 0.8
	out := make([]float64, len(w.commits))
	far := math.Inf(1)
	mark := func(i int) {
		far++
		if !w.usable[i] && !w.commits[i].Neutral {
			far = 0
		}
		out[i] = min(out[i], 1-math.Pow(spread, far))
	}
	for i := range out {
		out[i] = 1
		mark(i)
	}
	far = math.Inf(1)
	for i := len(out) - 1; i >= 0; i-- {
		mark(i)
	}
	return out
}

// delta is the chance of a wrong answer that the evidence may leave: half of what is allowed in all.
func (w *flakySearch) delta() float64 {
	if w.plain.Error > 0 {
		return min(0.25, w.plain.Error/2)
	}
	return 0.005
}

// doubt is what may be left of it when commit k is believed to be the culprit: less where good commits
// were seen to fail as well.
func (w *flakySearch) doubt(b belief.Posterior, k int) float64 {
	if belief.NoisyShare(b.Bad[k], b.All.Minus(b.Bad[k])) > 0.1 {
		return w.delta() / 5
	}
	return w.delta()
}

func (w *flakySearch) step(s bisect.Step) {
	w.f.Steps = append(w.f.Steps, s)
	if w.s.OnStep != nil {
		w.s.OnStep(s)
	}
}

func (w *flakySearch) warn(text string) { w.f.Warnings = append(w.f.Warnings, text) }

func sum(v []float64, at []int) (total float64) {
	for _, i := range at {
		total += v[i]
	}
	return total
}
