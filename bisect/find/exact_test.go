package find_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// built is a Sampler of builds with exact numbers, and of runs with noisy times.
type built struct {
	at     map[string]int
	series func(i int) []bisect.Series // -1 is the good end
	time   func(i int) float64
	rng    *rand.Rand
	builds map[string]bool
	asked  int
	runs   int
	budget int // launches; 0: any number
}

func (b *built) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	i, ok := b.at[r.Candidate.Commit]
	if !ok {
		i = -1
	}
	b.asked++
	o := bisect.Outcome{Class: bisect.OK, At: float64(b.asked), Build: 30, Built: !b.builds[r.Candidate.Commit]}
	b.builds[r.Candidate.Commit] = true
	o.Series = b.series(i)
	if !r.BuildOnly {
		b.runs++
		o.Wall = 1
		if b.time != nil {
			o.Series = append(o.Series, bisect.Series{Metric: "time", Unit: "s", Values: []float64{b.time(i) * (1 + 0.005*b.rng.NormFloat64())}})
		}
	}
	return o, nil
}

func exactSearch(t *testing.T, n int, s *built, all bool, ms ...metric.Metric) (bisect.Finding, *built) {
	t.Helper()
	return exactSearchFor(t, n, s, func(b *search.Search) { b.All = all }, ms...)
}

func exactSearchFor(t *testing.T, n int, s *built, with func(*search.Search), ms ...metric.Metric) (bisect.Finding, *built) {
	t.Helper()
	commits := make([]bisect.Commit, n)
	s.at, s.builds, s.rng = map[string]int{}, map[string]bool{}, rand.New(rand.NewPCG(1, 2))
	for i := range commits {
		parent := "good"
		if i > 0 {
			parent = commits[i-1].ID
		}
		commits[i] = bisect.Commit{ID: fmt.Sprintf("c%03d", i), Parents: []string{parent}, Key: fmt.Sprint(i)}
		if i > 0 {
			commits[i].InRange = []int{i - 1}
		}
		s.at[commits[i].ID] = i
	}
	b := &search.Search{
		Commits: commits, Good: bisect.Candidate{Commit: "good"}, Spent: func() bool { return s.budget > 0 && s.asked >= s.budget }, Sampler: s,
		Options: search.Options{Metrics: ms, Effect: 0.03, Error: 0.01},
	}
	with(b)
	f, err := find.Culprits(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return f, s
}

func number(metric, kernel string, v float64) bisect.Series {
	return bisect.Series{Metric: metric, Case: kernel, Values: []float64{v}}
}

// step is after from commit at on, and before until then.
func step(i, at int, before, after float64) float64 {
	if i >= at {
		return after
	}
	return before
}

// A number of the build is found by bisection: one build a commit, and nothing is run but the ends.
func TestExactMetrics(t *testing.T) {
	registers, spills := metric.Metric{Name: "registers", Exact: true}, metric.Metric{Name: "spills", Exact: true}
	for _, c := range []struct {
		name   string
		metric metric.Metric
		series func(i int) []bisect.Series
		want   string
		exact  bisect.Exact
	}{
		{"registers 64 to 72", registers, func(i int) []bisect.Series { return []bisect.Series{number("registers", "k", step(i, 40, 64, 72))} }, "c040", bisect.Exact{Value: 72, Parent: 64}},
		{"spills 0 to 40", spills, func(i int) []bisect.Series { return []bisect.Series{number("spills", "k", step(i, 7, 0, 40))} }, "c007", bisect.Exact{Value: 40, Parent: 0}},
		{"shared 0 to 48 KiB in one of two", metric.Metric{Name: "shared", Exact: true}, func(i int) []bisect.Series {
			return []bisect.Series{number("shared", "a", 0), number("shared", "k", step(i, 63, 0, 49152))}
		}, "c063", bisect.Exact{Value: 49152, Parent: 0}},
		{"two steps", registers, func(i int) []bisect.Series {
			return []bisect.Series{number("registers", "k", step(i, 20, 64, 66)+step(i, 44, 0, 14))}
		}, "c044", bisect.Exact{Value: 80, Parent: 66}},
		{"occupancy", metric.Metric{Name: "blocks", Exact: true, Higher: true}, func(i int) []bisect.Series { return []bisect.Series{number("blocks", "k", step(i, 0, 8, 6))} }, "c000", bisect.Exact{Value: 6, Parent: 8}},
	} {
		f, s := exactSearch(t, 64, &built{series: c.series}, false, c.metric)
		if f.Result != bisect.Found || f.Culprits[0].Commit != c.want || !f.Culprits[0].Confirmed {
			t.Errorf("%s: %s %+v, %s", c.name, f.Result, f.Culprits, f.Ends.Why)
		}
		if e := f.Culprits[0].Effect; e.Exact == nil || *e.Exact != c.exact {
			t.Errorf("%s: %+v, want %+v", c.name, e, c.exact)
		}
		if two := c.name == "two steps"; two != strings.Contains(strings.Join(f.Warnings, ""), "the range holds other changes as well") {
			t.Errorf("%s: to know %q", c.name, f.Warnings)
		}
		if len(s.builds) > 8 || s.asked > 10 || s.runs > 2 { // the ends, a bisection of 64 and the confirmation
			t.Errorf("%s: %d builds, %d launches, %d runs", c.name, len(s.builds), s.asked, s.runs)
		}
		t.Logf("%s: %d builds, %d launches; %s; warnings %q", c.name, len(s.builds), s.asked, f.Ends.Why, f.Warnings)
	}
}

// Wherever a budget ends a search, what is known by then is told.
func TestExactSpent(t *testing.T) {
	registers := metric.Metric{Name: "registers", Exact: true}
	for budget := 1; budget < 14; budget++ {
		s := &built{budget: budget, series: func(i int) []bisect.Series { return []bisect.Series{number("registers", "k", step(i, 40, 64, 72))} }}
		f, _ := exactSearch(t, 64, s, false, registers)
		if f.Result != bisect.Found && !f.Spent || f.Result == bisect.Found && (f.Culprits[0].Commit != "c040" || f.Culprits[0].Effect.Exact == nil) {
			t.Errorf("%d launches: %+v", budget, f)
		}
	}
}

// Times and numbers of the build may be looked for together: what stands first in the list goes first.
func TestExactAndTimes(t *testing.T) {
	registers, time := metric.Metric{Name: "registers", Exact: true}, metric.Metric{Name: "time"}
	numbers := func(i int) []bisect.Series { return []bisect.Series{number("registers", "k", step(i, 40, 64, 72))} }
	slow := func(i int) float64 { return step(i, 10, 1, 1.2) }
	even := func(int) float64 { return 1 }
	for _, c := range []struct {
		time func(int) float64
		ms   []metric.Metric
		want string
	}{
		{slow, []metric.Metric{time, registers}, "c010"},
		{slow, []metric.Metric{registers, time}, "c040"},
		{even, []metric.Metric{time, registers}, "c040"},
		{even, []metric.Metric{registers, time}, "c040"},
	} {
		f, s := exactSearch(t, 64, &built{series: numbers, time: c.time}, false, c.ms...)
		if f.Result != bisect.Found || f.Culprits[0].Commit != c.want {
			t.Errorf("%v: %s %+v, %s", c.ms, f.Result, f.Culprits, f.Ends.Why)
		}
		t.Logf("%v: %s, %d builds, %d runs", c.ms, c.want, len(s.builds), s.runs)
	}
	same := func(int) []bisect.Series { return []bisect.Series{number("registers", "k", 64)} }
	if f, _ := exactSearch(t, 8, &built{series: same}, false, registers); f.Result != bisect.NoDifference {
		t.Errorf("equal ends: %s, %s", f.Result, f.Ends.Why)
	}
}

// With --all every step is named.
func TestExactStaircase(t *testing.T) {
	stairs := func(i int) []bisect.Series {
		return []bisect.Series{number("registers", "k", step(i, 20, 64, 72)+step(i, 44, 0, 16))}
	}
	f, s := exactSearch(t, 64, &built{series: stairs}, true, metric.Metric{Name: "registers", Exact: true})
	var got []string
	for _, c := range f.Culprits {
		got = append(got, c.Commit)
	}
	if len(got) != 2 || got[0] != "c020" || got[1] != "c044" {
		t.Fatalf("culprits %v, warnings %q", got, f.Warnings)
	}
	for k, planted := range []float64{math.Log(72.0/64) / math.Log(88.0/64), math.Log(88.0/72) / math.Log(88.0/64)} {
		if s := f.Culprits[k].Share; s == nil || math.Abs(s.Low-planted)+math.Abs(s.High-planted) > 1e-4 {
			t.Errorf("share %+v, want %v without an error", s, planted)
		}
	}
	t.Logf("%d builds, %d launches", len(s.builds), s.asked)
}
