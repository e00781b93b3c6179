// Package effects finds which flags, and which flags together, cost or gain how much of a metric: a
// two-level design screens all of them at once, a search over models picks the few terms that explain
// the launches, and fresh launches with all else off confirm each.
package effects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/kbisect/kbisect/bisect"
)

// Search finds which flags, and which pairs of flags, cost or gain how much of a metric. It screens
// all of them at once by a two-level design, picks the few terms (flags, pairs, and threes of the
// strongest) that explain the launches, and confirms each by fresh launches with all other flags off.
type Search struct {
	Atoms []string // names, 64 at most

	// Run makes the launch of ordinal nth, from 0, of a configuration, and returns the natural logarithm
	// of the metric. A launch that gave none is not usable, and why says so; an error stops the study.
	Run func(ctx context.Context, on []bool, nth int) (level float64, usable bool, why string, err error)

	Valid  func(on []bool) []bool // the nearest valid configuration; nil: all are valid. It may change its argument
	Spent  func() bool            // no launch is made once it says true; nil: never
	Higher bool                   // larger is better

	Runs   int     // launches for screening at most, those of the base configuration apart; 0: what Effect asks for, up to three designs
	Effect float64 // smallest change worth reporting, as a fraction; 0 stands for 0.03
	Error  float64 // chance that an effect is reported that is none; 0 stands for 0.01
	Seed   uint64

	// OnLaunch is told of every launch, with how many there were and how many more are expected; may be nil.
	OnLaunch func(made int, left float64)
}

// Effect is what one flag, or two that are on together, do to the metric, beyond what parts of it
// do alone.
type Effect struct {
	Terms []string `json:"terms"`
	Ratio float64  `json:"ratio"` // on over off
	Low   float64  `json:"low"`   // of its 95 % interval
	High  float64  `json:"high"`
	Share float64  `json:"share,omitempty"` // of the total, by logarithms; 0 where the total is not clear of none
	Why   string   `json:"why,omitempty"`   // of one that is not reported: why not
}

// FailedRun is a configuration that gave no number.
type FailedRun struct {
	On  []string `json:"on"`
	Why string   `json:"why"`
}

// Ranking is the answer of [Search.Find].
type Ranking struct {
	Effects  []Effect       `json:"effects"`  // confirmed, largest first
	Dropped  []Effect       `json:"dropped"`  // suspected and not confirmed
	Active   []string       `json:"active"`   // flags that stand out by Lenth's test: a hint, not a verdict
	Total    *bisect.Effect `json:"total"`    // everything on against everything off; nil where that could not be run
	CV       float64        `json:"cv"`       // spread of one launch, as a fraction
	Smallest float64        `json:"smallest"` // an effect of a flag below this fraction may have been missed
	Launches int            `json:"launches"`
	Failed   []FailedRun    `json:"failed"`
	Complete bool           `json:"complete"` // nothing cut it short or was left unexplained
	Higher   bool           `json:"higher"`   // larger is better
	Warnings []string       `json:"warnings"`
}

// Find makes the study.
func (e Search) Find(ctx context.Context) (Ranking, error) {
	s, err := newStudy(e)
	if err != nil {
		return Ranking{}, err
	}
	if err := s.screen(ctx); err != nil {
		return Ranking{}, err
	}
	if err := s.confirm(ctx); err != nil {
		return Ranking{}, err
	}
	return s.rank(), nil
}

// study is one run of Find.
type study struct {
	Search
	rng      *rand.Rand
	launches int
	left     float64         // launches expected
	count    map[flagSet]int // launches by configuration
	runs     []launch        // the usable ones
	failed   []FailedRun
	cut      bool               // the budget ended it
	terms    []flagSet          // that the launches can tell apart
	merged   map[int]int        // atom that no launch told from an earlier one
	models   []model            // of terms, best first
	noise    noise              // under the best model
	tests    map[flagSet]*trial // of the terms that were suspected
}

func newStudy(e Search) (*study, error) {
	if len(e.Atoms) == 0 {
		return nil, errors.New("effects: no flags to study")
	}
	if len(e.Atoms) > 64 {
		return nil, fmt.Errorf("effects: %d flags are too many to study\nhint: choose 64 of them", len(e.Atoms))
	}
	if e.Effect <= 0 {
		e.Effect = 0.03
	}
	if e.Error <= 0 {
		e.Error = 0.01
	}
	if e.Valid == nil {
		e.Valid = func(on []bool) []bool { return on }
	}
	if e.Spent == nil {
		e.Spent = func() bool { return false }
	}
	s := &study{Search: e, rng: rand.New(rand.NewPCG(e.Seed, 0x65666665637473)), count: map[flagSet]int{}, tests: map[flagSet]*trial{}}
	return s, nil
}

// valid is the valid configuration nearest to one.
func (s *study) valid(x flagSet) (y flagSet) {
	for a, on := range s.Valid(s.bools(x)) {
		if on {
			y |= 1 << a
		}
	}
	return y
}

func (s *study) bools(x flagSet) []bool {
	on := make([]bool, len(s.Atoms))
	for a := range on {
		on[a] = x.holds(1 << a)
	}
	return on
}

// all is the configuration with as much on as is valid, none the base.
func (s *study) all() flagSet  { return s.valid(math.MaxUint64) }
func (s *study) none() flagSet { return s.valid(0) }

// launch makes one launch of a valid configuration, unless the budget is spent.
func (s *study) launch(ctx context.Context, r launch) error {
	if s.cut = s.cut || s.Spent(); s.cut {
		return nil
	}
	y, usable, why, err := s.Run(ctx, s.bools(r.on), s.count[r.on])
	if err != nil {
		return err
	}
	s.count[r.on]++
	r.y, r.at, r.weight = y, s.launches, 1
	s.launches++
	if s.left = max(0, s.left-1); s.OnLaunch != nil {
		s.OnLaunch(s.launches, s.left)
	}
	if !usable || math.IsNaN(y) || math.IsInf(y, 0) {
		s.failed = append(s.failed, FailedRun{s.names(r.on), why})
		return nil
	}
	s.runs = append(s.runs, r)
	return nil
}

// names lists the atoms of a set.
func (s *study) names(x flagSet) []string {
	names := []string{}
	for a, name := range s.Atoms {
		if x.holds(1 << a) {
			names = append(names, name)
		}
	}
	return names
}

// plan chooses the size of the first design: twice as many columns as there are atoms, and its mirror
// image, where that can be afforded.
func (s *study) plan() (size int, fold bool, err error) {
	n := len(s.Atoms)
	most := s.Runs
	if most <= 0 {
		most = math.MaxInt
	}
	if n <= 4 {
		for size = 16; size >= max(4, 1<<n); size /= 2 {
			if size <= most {
				return size, false, nil
			}
		}
	}
	for size = designSize(2 * (n + 1)); n > 4 && size > n; size -= 4 {
		if 2*size <= most && hadamard(size) != nil {
			return size, true, nil
		}
	}
	if size = designSize(n + 1); size <= most && n > 4 {
		return size, false, nil
	}
	return 0, false, fmt.Errorf("effects: %d launches are too few to study %d flags\nhint: allow at least %d, better %d", most, n, max(4, designSize(n+1)), s.best())
}

// best is how many launches the first design would like.
func (s *study) best() int {
	if len(s.Atoms) <= 4 {
		return 16
	}
	return 2 * designSize(2*(len(s.Atoms)+1))
}

// screen runs the design, and more of them while an effect worth reporting could still hide.
func (s *study) screen(ctx context.Context) error {
	size, fold, err := s.plan()
	if err != nil {
		return err
	}
	rows := twoLevel(len(s.Atoms), size, fold, s.rng)
	limit := s.Runs
	if limit <= 0 {
		limit = 3 * len(rows)
	}
	for done := 0; ; {
		design := shuffled(rows, s.rng)
		s.left = float64(len(design) + usualFresh)
		for _, r := range design {
			on := s.none()
			if r != nil {
				on = s.valid(r.on(len(s.Atoms)))
			}
			if err := s.launch(ctx, launch{on: on, row: r}); err != nil {
				return err
			}
		}
		done += len(rows)
		s.choose()
		if s.cut || done+size > limit || s.smallest() <= s.Effect {
			return nil
		}
		rows = twoLevel(len(s.Atoms), size, false, s.rng)
	}
}

// choose fits models to all launches so far. Which launches were disturbed and how the machine drifts
// depends on the model, and the model on that, so it goes in turn.
func (s *study) choose() {
	s.candidates()
	price := s.prices()
	s.noise = noise{}
	plainly(s.runs)
	for range 3 {
		cols := columns(s.runs, s.terms)
		s.noise.whiten(s.runs, cols)
		models := products(cols).search(price)
		same := len(s.models) > 0 && s.noise.sd > 0 && models[0].terms == s.models[0].terms
		s.models = models
		if same {
			return
		}
		s.noise = fitNoise(s.runs, s.modelTerms())
	}
}

// candidates lists the terms that differ from each other in some launch, single atoms first: where b
// requires a, b and the pair of both are the same thing. Terms that fresh launches refuted are out.
func (s *study) candidates() {
	s.terms, s.merged = nil, map[int]int{}
	first := map[string]flagSet{} // by the launches that have it on
	for _, t := range s.conceivable() {
		col := make([]byte, len(s.runs))
		for i, r := range s.runs {
			if r.on.holds(t) {
				col[i] = 1
			}
		}
		f, twin := first[string(col)]
		switch x := s.tests[t]; {
		case !slices.Contains(col, 0) || !slices.Contains(col, 1):
		case twin && t.size() == 1:
			s.merged[bits.TrailingZeros64(uint64(t))] = bits.TrailingZeros64(uint64(f))
		case !twin:
			first[string(col)] = t
			if x == nil || x.verdict >= 0 {
				s.terms = append(s.terms, t)
			}
		}
	}
}

// With more atoms than manyAtoms a pair is looked for only where one of its parts is among the leaders.
const (
	manyAtoms = 11
	nLeaders  = 5
)

// conceivable are all atoms, pairs of them, and threes among the leaders. Without the threes, what is
// one would be taken for a chain of pairs that fresh launches refute one by one.
func (s *study) conceivable() []flagSet {
	var one, two, three []flagSet
	lead := s.leaders()
	for a := range s.Atoms {
		one = append(one, 1<<a)
		for b := range a {
			pair := flagSet(1<<a | 1<<b)
			if len(s.Atoms) <= manyAtoms || pair&lead != 0 {
				two = append(two, pair)
			}
			for c := range b {
				if t := pair | 1<<c; lead.holds(t) {
					three = append(three, t)
				}
			}
		}
	}
	return slices.Concat(one, two, three)
}

// leaders are the atoms with the largest contrasts: an AND of several shows in each of them.
func (s *study) leaders() (lead flagSet) {
	atoms, size := make([]int, len(s.Atoms)), make([]float64, len(s.Atoms))
	for a := range atoms {
		atoms[a] = a
		size[a] = math.Abs(contrast(s.runs, func(r launch) bool { return r.on.holds(1 << a) }))
	}
	slices.SortStableFunc(atoms, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	for _, a := range atoms[:min(nLeaders, len(atoms))] {
		lead |= 1 << a
	}
	return lead
}

// contrast is the mean of the runs of a design that are on less that of those which are off.
func contrast(runs []launch, on func(launch) bool) float64 {
	var sum, n [2]float64
	for _, r := range runs {
		if r.row == nil {
			continue
		}
		side := 0
		if on(r) {
			side = 1
		}
		sum[side] += r.y
		n[side]++
	}
	if n[0] == 0 || n[1] == 0 {
		return 0
	}
	return sum[1]/n[1] - sum[0]/n[0]
}

// prices are what each term costs a model, by the number of its like: single atoms and pairs among the
// leaders are the likeliest.
func (s *study) prices() []float64 {
	const among = nLeaders * (nLeaders + 1) / 2
	lead := s.leaders()
	price := make([]float64, len(s.terms)+1)
	for c, t := range s.terms {
		like := among
		if t.size() > 2 || !lead.holds(t) {
			like = max(4*among, len(s.terms))
		}
		price[c+1] = 2 * math.Log(float64(like))
	}
	return price
}

// modelTerms are the terms of the best model.
func (s *study) modelTerms() []flagSet {
	var out []flagSet
	for _, c := range s.models[0].terms[:s.models[0].n] {
		out = append(out, s.terms[c-1])
	}
	return out
}

// smallest is the effect of one flag that would have been found nine times in ten, as a fraction.
func (s *study) smallest() float64 {
	const ninety = 1.28
	n := float64(len(s.runs))
	worst := 0.0
	for a := range s.Atoms {
		on := 0.0
		for _, r := range s.runs {
			if r.on.holds(1 << a) {
				on++
			}
		}
		if p := on / n; p > 0 && p < 1 {
			worst = max(worst, s.noise.sd/math.Sqrt(n*p*(1-p)))
		}
	}
	price := 2 * math.Log(float64(max(15, len(s.terms))))
	return math.Expm1((math.Sqrt(math.Log(n)+price) + ninety) * worst)
}
