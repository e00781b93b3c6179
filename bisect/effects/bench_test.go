package effects

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// planted is a set of flags with known effects and noise.
type planted struct {
	n       int
	truth   map[flagSet]float64 // ln of the ratio
	cv      float64
	drift   float64 // standard deviation of an Ornstein-Uhlenbeck process, tau 300 s, 13 s a launch
	soiled  float64 // share of launches that take 10 % longer
	fails   func(on []bool) string
	rng     *rand.Rand
	wander  float64
	started bool
	runs    int
}

// of is a set of flags.
func of(atoms ...int) (t flagSet) {
	for _, a := range atoms {
		t |= 1 << a
	}
	return t
}

func plant(n int, cv float64, seed uint64) *planted {
	return &planted{n: n, cv: cv, truth: map[flagSet]float64{}, rng: rand.New(rand.NewPCG(seed, 99))}
}

// caseSeven is a +30 %, b +15 %, c and d together +50 %.
func caseSeven(n int, cv float64, seed uint64) *planted {
	p := plant(n, cv, seed)
	p.truth = map[flagSet]float64{of(0): math.Log(1.3), of(1): math.Log(1.15), of(2, 3): math.Log(1.5)}
	return p
}

func (p *planted) level(on []bool) float64 {
	y := 0.0
	for t, v := range p.truth {
		together := true
		for a, x := range on {
			together = together && (x || !t.holds(1<<a))
		}
		if together {
			y += v
		}
	}
	return y
}

func (p *planted) run(_ context.Context, on []bool, _ int) (float64, bool, string, error) {
	p.runs++
	if p.fails != nil {
		if why := p.fails(on); why != "" {
			return 0, false, why, nil
		}
	}
	keep := math.Exp(-13.0 / 300)
	if !p.started {
		keep, p.started = 0, true
	}
	p.wander = keep*p.wander + p.drift*math.Sqrt(1-keep*keep)*p.rng.NormFloat64()
	y := p.level(on) + p.wander + p.cv*p.rng.NormFloat64()
	if p.rng.Float64() < p.soiled {
		y += math.Log(1.1)
	}
	return y, true, "", nil
}

// study is the search with its defaults for these flags, which are called a, b, c and so on.
func (p *planted) study(seed uint64) Search {
	names := make([]string, p.n)
	for i := range names {
		names[i] = string(rune('a' + i%26))
		if i >= 26 {
			names[i] = "a" + names[i]
		}
	}
	return Search{Atoms: names, Run: p.run, Seed: seed}
}

// marks says how an answer compares with the truth: all planted terms are in it, it holds nothing else,
// and the planted ones come in the right order; and by how much the worst ratio is off.
type marks struct {
	found, exact, ranked bool
	mains                bool // all planted single flags are in it
	off                  float64
	covered, intervals   int
	extra                int
}

func (p *planted) mark(effects []Effect) marks {
	got := map[string]Effect{}
	var order []float64
	m := marks{ranked: true, mains: true}
	for _, e := range effects {
		got[strings.Join(e.Terms, " ")] = e
	}
	names := p.study(0).Atoms
	for t, v := range p.truth {
		var parts []string
		for a, x := range names {
			if t.holds(1 << a) {
				parts = append(parts, x)
			}
		}
		name := strings.Join(parts, " ")
		e, ok := got[name]
		if !ok {
			m.off, m.ranked = math.Inf(1), false
			m.mains = m.mains && t.size() > 1
			continue
		}
		m.intervals++
		if e.Low <= math.Exp(v) && e.High >= math.Exp(v) {
			m.covered++
		}
		m.off = max(m.off, math.Abs(e.Ratio-math.Exp(v)))
		got[name] = Effect{Terms: []string{"", "planted"}, Ratio: v}
	}
	m.found = !math.IsInf(m.off, 1)
	for _, e := range effects {
		if g := got[strings.Join(e.Terms, " ")]; len(g.Terms) == 2 && g.Terms[1] == "planted" && g.Terms[0] == "" {
			order = append(order, -math.Abs(g.Ratio))
		} else {
			m.extra++
		}
	}
	m.exact = m.found && m.extra == 0
	m.ranked = m.ranked && slices.IsSorted(order)
	return m
}

// screened is what the screening alone would say.
func (p *planted) screened(t testing.TB, e Search) (marks, int) {
	l, err := newLab(e)
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.screen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &confirmation{l, f, map[flagSet]*trial{}}
	for _, x := range f.best() {
		c.tests[x] = &trial{verdict: 1}
	}
	return p.mark(result{l, f, c}.ranking().Effects), l.launches
}

func (p *planted) find(t testing.TB, e Search) Ranking {
	r, err := e.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tally counts marks over seeds.
type tally struct {
	n, mains, found, exact, ranked, close, covered, intervals, extra, launches int
}

func (c *tally) add(m marks, launches int) {
	count := func(n *int, ok bool) {
		if ok {
			*n++
		}
	}
	count(&c.mains, m.mains)
	count(&c.found, m.found)
	count(&c.exact, m.exact)
	count(&c.ranked, m.ranked)
	count(&c.close, m.off <= 0.05)
	c.n++
	c.covered += m.covered
	c.intervals += m.intervals
	c.extra += m.extra
	c.launches += launches
}

func (c tally) String() string {
	pc := func(k int) float64 { return 100 * float64(k) / float64(c.n) }
	return fmt.Sprintf("singles %5.1f  found %5.1f  exact %5.1f  ranked %5.1f  within 5 points %5.1f  coverage %5.1f  extra %.3f  launches %5.1f",
		pc(c.mains), pc(c.found), pc(c.exact), pc(c.ranked), pc(c.close), 100*float64(c.covered)/float64(max(1, c.intervals)), float64(c.extra)/float64(c.n), float64(c.launches)/float64(c.n))
}

// oneAtATime is a rival: each flag alone against the base, or each left out of all, launches shared
// out evenly, three standard errors taken for an effect.
func (p *planted) oneAtATime(launches int, leaveOut bool) []Effect {
	each := max(2, launches/(p.n+1))
	levels := func(flip int) (mean, square float64) {
		for range each {
			on := make([]bool, p.n)
			for i := range on {
				on[i] = leaveOut != (i == flip)
			}
			y, _, _, _ := p.run(context.Background(), on, 0)
			mean += y / float64(each)
			square += y * y
		}
		return mean, square - float64(each)*mean*mean
	}
	base, sum := levels(-1)
	diff := make([]float64, p.n)
	for i := range diff {
		m, q := levels(i)
		sum += q
		if diff[i] = m - base; leaveOut {
			diff[i] = -diff[i]
		}
	}
	se := math.Sqrt(sum / float64((p.n+1)*(each-1)) * 2 / float64(each))
	var out []Effect
	for i, d := range diff {
		if math.Abs(d) > 3*se {
			out = append(out, Effect{Terms: []string{p.study(0).Atoms[i]}, Ratio: math.Exp(d)})
		}
	}
	return out
}

// TestBenchEffects prints what the study achieves against what it should, KBISECT_BENCH_EFFECTS=trials.
func TestBenchEffects(t *testing.T) {
	trials, _ := strconv.Atoi(os.Getenv("KBISECT_BENCH_EFFECTS"))
	if trials == 0 {
		t.Skip("set KBISECT_BENCH_EFFECTS to a number of trials")
	}
	targets := map[int]string{7: "100/87/100 99/87/99 68/59/67", 11: "100/88/100 100/88/100 88/79/87", 15: "100/88/100 100/88/100 95/84/94"}
	only := os.Getenv("KBISECT_BENCH_EFFECTS_CELL") // such as 7
	for _, n := range []int{7, 11, 15} {
		name := strconv.Itoa(n)
		if only != "" && only != name {
			continue
		}
		for i, cv := range []float64{0.03, 0.05, 0.10} {
			var screen, full, alone, out tally
			for seed := range uint64(trials) {
				p := caseSeven(n, cv, seed)
				e := p.study(seed)
				m, made := p.screened(t, e)
				screen.add(m, made)
				p = caseSeven(n, cv, seed)
				e.Run = p.run
				r := p.find(t, e)
				full.add(p.mark(r.Effects), r.Launches)
				p = caseSeven(n, cv, seed)
				alone.add(p.mark(p.oneAtATime(r.Launches, false)), r.Launches)
				out.add(p.mark(p.oneAtATime(r.Launches, true)), r.Launches)
			}
			t.Logf("flags %-3s cv %2.0f %%  target found/exact/ranked %s", name, 100*cv, strings.Fields(targets[n])[i])
			t.Logf("   screening     %v", screen)
			t.Logf("   with fresh    %v", full)
			t.Logf("   one at a time %v", alone)
			t.Logf("   leave one out %v", out)
		}
	}
	for _, n := range []int{7, 15, 31} {
		if only != "" && only != "nothing" {
			break
		}
		named, launches := 0, 0
		for seed := range uint64(trials) {
			p := plant(n, 0.02, seed)
			p.drift, p.soiled = 0.005, 0.02
			e := p.study(seed)
			r := p.find(t, e)
			launches += r.Launches
			if len(r.Effects) > 0 {
				named++
			}
		}
		t.Logf("nothing among %d flags, cv 2 %%, typical drift and disturbance: %.1f %% name an effect, target 1; %.0f launches", n, 100*float64(named)/float64(trials), float64(launches)/float64(trials))
	}
}
