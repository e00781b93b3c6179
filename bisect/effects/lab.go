package effects

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kbisect/kbisect/bisect"
)

// lab makes the launches of a study and keeps those that gave a number, in order of time.
type lab struct {
	study    Search
	rng      *rand.Rand
	launches int
	left     float64         // launches expected
	count    map[flagSet]int // launches by configuration
	runs     []launch        // the usable ones
	failed   int
	failure  string // the first, with its configuration
	spent    bool   // the budget ended it
}

// newLab checks a study and fills its defaults in: effects of 3 %, an error of 1 %.
func newLab(e Search) (*lab, error) {
	if len(e.Atoms) == 0 {
		return nil, errors.New("effects: there are no flags to study")
	}
	if len(e.Atoms) > 64 {
		return nil, fmt.Errorf("effects: expected at most 64 flags, got %d\nhint: choose 64 of them", len(e.Atoms))
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
	return &lab{study: e, rng: rand.New(rand.NewPCG(e.Seed, 0x65666665637473)), count: map[flagSet]int{}}, nil
}

// valid is the valid configuration nearest to one.
func (l *lab) valid(x flagSet) (y flagSet) {
	for a, on := range l.study.Valid(l.bools(x)) {
		if on {
			y |= 1 << a
		}
	}
	return y
}

// bools is a configuration as the caller of the study knows it: one switch for each flag.
func (l *lab) bools(x flagSet) []bool {
	on := make([]bool, len(l.study.Atoms))
	for a := range on {
		on[a] = x.holds(1 << a)
	}
	return on
}

// all is the valid configuration with the most on, none the base.
func (l *lab) all() flagSet  { return l.valid(math.MaxUint64) }
func (l *lab) none() flagSet { return l.valid(0) }

// launch makes one launch of a valid configuration. Once the budget is spent it does nothing, and says so in l.spent
// rather than by an error.
func (l *lab) launch(ctx context.Context, r launch) error {
	if l.spent = l.spent || l.study.Spent(); l.spent {
		return nil
	}
	y, usable, why, err := l.study.Run(ctx, l.bools(r.on), l.count[r.on])
	if l.spent = errors.Is(err, bisect.ErrSpent); l.spent {
		return nil
	}
	if err != nil {
		return err
	}
	l.count[r.on]++
	r.y, r.at, r.weight = y, l.launches, 1
	l.launches++
	if l.left = max(0, l.left-1); l.study.OnLaunch != nil {
		l.study.OnLaunch(l.launches, l.left)
	}
	if !usable || math.IsNaN(y) || math.IsInf(y, 0) {
		if l.failed++; l.failed == 1 {
			l.failure = fmt.Sprintf("%s with %s on", why, listed(l.names(r.on)))
		}
		return nil
	}
	l.runs = append(l.runs, r)
	return nil
}

// names lists the atoms of a set.
func (l *lab) names(x flagSet) []string {
	names := []string{}
	for a, name := range l.study.Atoms {
		if x.holds(1 << a) {
			names = append(names, name)
		}
	}
	return names
}

// plan is the size of the first design: every combination of up to four atoms, else two columns for each atom, and
// the mirror image of all rows (fold; sets.md 4d).
func (l *lab) plan() (size int, fold bool) {
	n := len(l.study.Atoms)
	if n <= 4 {
		return 16, false
	}
	return designSize(2 * (n + 1)), true
}

// screen runs the design, and further ones while an effect worth reporting could still hide, up to three times the
// launches of the first. It returns what all launches say.
func (l *lab) screen(ctx context.Context) (*fit, error) {
	size, fold := l.plan()
	n := len(l.study.Atoms)
	rows := twoLevel(n, size, fold, l.rng)
	limit := 3 * len(rows)
	for done := 0; ; {
		design := shuffled(rows, l.rng)
		l.left = float64(len(design) + usualFresh)
		for _, r := range design {
			on := l.none()
			if r != nil {
				on = l.valid(r.on(n))
			}
			if err := l.launch(ctx, launch{on: on, design: r != nil}); err != nil {
				return nil, err
			}
		}
		done += len(rows)
		f := fitModels(n, l.runs, nil)
		if l.spent || done+size > limit || f.smallest() <= l.study.Effect {
			return f, nil
		}
		rows = twoLevel(n, size, false, l.rng)
	}
}

// effect turns an estimate of a term into an effect with its 95 % interval.
func (l *lab) effect(t flagSet, e estimate) Effect {
	reach := e.reach(0.05)
	return Effect{Terms: l.names(t), Ratio: math.Exp(e.beta), Low: math.Exp(e.beta - reach), High: math.Exp(e.beta + reach)}
}
