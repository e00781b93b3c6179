package find_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// kernelsOf are the numbers of a build: name and number in turn.
func kernelsOf(metric string, pairs ...any) (out []bisect.Series) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, number(metric, pairs[i].(string), float64(pairs[i+1].(int))))
	}
	return out
}

// Kernels that come, go and change their names between the ends of a search: what is searched for, and what
// is said where there is nothing to search for.
func TestExactKernels(t *testing.T) {
	registers, spills, stack := metric.Metric{Name: "registers", Exact: true}, metric.Metric{Name: "spills", Exact: true}, metric.Metric{Name: "stack", Exact: true}
	from := func(at int, before, after []bisect.Series) func(int) []bisect.Series {
		return func(i int) []bisect.Series {
			if i >= at {
				return after
			}
			return before
		}
	}
	for _, c := range []struct {
		name   string
		metric metric.Metric
		series func(int) []bisect.Series
		want   string // the culprit; "" where there is nothing to search for
		exact  bisect.Exact
		says   string // of the ends
		knows  string // among the warnings
	}{
		{"a new kernel spills", spills, from(23, kernelsOf("spills", "a", 0), kernelsOf("spills", "a", 0, "b", 40)), "c023", bisect.Exact{Value: 40}, "spills of b, bad end against good end: 40 against 0 (no such kernel)", ""},
		{"a new kernel has registers", registers, from(23, kernelsOf("registers", "a", 32, "z", 8), kernelsOf("registers", "a", 32, "b", 255, "z", 8)), "", bisect.Exact{}, "registers, bad end against good end: 2 numbers compared, none of which changed", "only the bad end has these kernels, which are not compared by registers: b 255"},
		{"a kernel that spills has a new name", spills, from(23, kernelsOf("spills", "a", 0, "old", 40), kernelsOf("spills", "a", 0, "new", 40)), "", bisect.Exact{}, "spills of a, bad end against good end: 0 against 0", "only the good end has these kernels, which are not compared by spills: old 40"},
		{"and spills more", spills, from(23, kernelsOf("spills", "a", 0, "old", 40), kernelsOf("spills", "a", 0, "new", 48)), "c023", bisect.Exact{Value: 48}, "48 against 0 (no such kernel)", "old 40"},
		{"the kernel that spilled is gone", spills, from(23, kernelsOf("spills", "a", 0, "b", 40), kernelsOf("spills", "a", 0)), "", bisect.Exact{}, "better, not worse: spills of b, bad end against good end: 0 (no such kernel) against 40", ""},
		{"other template arguments", stack, from(41, kernelsOf("stack", "walk<float, 16>", 64, "walk<double, 8>", 64), kernelsOf("stack", "walk<float, 24>", 96, "walk<double, 8>", 64)), "c041", bisect.Exact{Value: 96, Parent: 64}, "stack of walk<float, 24>, bad end against good end: 96 against 64 (walk<float, 16>)", ""},
		{"others again in between", stack, func(i int) []bisect.Series {
			return kernelsOf("stack", [3]string{"walk<16>", "walk<20>", "walk<24>"}[int(step(i, 20, 0, 1)+step(i, 41, 0, 1))], int(step(i, 41, 64, 96)), "b", 0)
		}, "c041", bisect.Exact{Value: 96, Parent: 64}, "96 against 64 (walk<16>)", ""},
		{"no kernel in common", registers, func(i int) []bisect.Series {
			return [][]bisect.Series{kernelsOf("registers", "gelu", 12, "gelu2", 10), kernelsOf("registers", "fwd1", 12, "fwd2", 18)}[int(step(i, 30, 0, 1))]
		}, "c030", bisect.Exact{Value: 18, Parent: 12}, "registers of the worst kernel, bad end against good end: 18 (fwd2) against 12 (gelu)", "only the good end has these kernels, so that the worst of each build is compared by registers: gelu 12, gelu2 10"},
		{"nothing anywhere", spills, func(int) []bisect.Series { return kernelsOf("spills", "a", 0) }, "", bisect.Exact{}, "spills of a, bad end against good end: 0 against 0", ""},
	} {
		f, s := exactSearch(t, 64, &built{series: c.series}, false, c.metric)
		switch {
		case c.want == "" && f.Result != bisect.NoDifference:
			t.Errorf("%s: %s %+v, %s", c.name, f.Result, f.Culprits, f.Ends.Why)
		case c.want != "" && (f.Result != bisect.Found || f.Culprits[0].Commit != c.want || *f.Culprits[0].Effect.Exact != c.exact):
			t.Errorf("%s: %s %+v, %s", c.name, f.Result, f.Culprits, f.Ends.Why)
		}
		if known := strings.Join(f.Warnings, "\n"); !strings.Contains(f.Ends.Why, c.says) || !strings.Contains(known, c.knows) || strings.Contains(known, "this machine is noisy") {
			t.Errorf("%s: %s; to know %q", c.name, f.Ends.Why, f.Warnings)
		}
		if c.exact.Parent > 0 == strings.Contains(f.Ends.Why, "counts as a half") && c.want != "" || strings.Contains(f.Ends.Why, "0 against 0;") {
			t.Errorf("%s: %s", c.name, f.Ends.Why)
		}
		t.Logf("%s: %s %s; %q; %d launches", c.name, f.Result, f.Ends.Why, f.Warnings, s.asked)
	}
}

// A build that tells nothing of a metric is set aside; it is not one whose kernels have none of it.
func TestExactUntold(t *testing.T) {
	series := func(i int) []bisect.Series {
		if i == 31 {
			return kernelsOf("registers", "a", 32)
		}
		return append(kernelsOf("spills", "a", 0), kernelsOf("spills", "b", 40)[:int(step(i, 32, 0, 1))]...)
	}
	f, _ := exactSearch(t, 64, &built{series: series}, false, metric.Metric{Name: "spills", Exact: true})
	if f.Result != bisect.Inconclusive || len(f.Suspects) != 2 || f.Suspects[0].Commit != "c031" {
		t.Errorf("%s %+v %+v", f.Result, f.Culprits, f.Suspects)
	}
}

// With improvements asked for, a kernel that no longer spills is found, however its function was instanced.
func TestExactKernelsImproved(t *testing.T) {
	s := &built{series: func(i int) []bisect.Series {
		return kernelsOf("spills", [2]string{"k<4>", "k<2>"}[int(step(i, 9, 0, 1))], int(step(i, 9, 40, 0)))
	}}
	f, _ := exactSearchFor(t, 64, s, func(b *search.Search) { b.Faster, b.Options.Find = true, bisect.Slow }, metric.Metric{Name: "spills", Exact: true})
	if f.Result != bisect.Found || f.Culprits[0].Commit != "c009" || *f.Culprits[0].Effect.Exact != (bisect.Exact{Value: 0, Parent: 40}) {
		t.Errorf("%s %+v %s", f.Result, f.Culprits, f.Ends.Why)
	}
}

// Whatever way a number takes from a good end to a worse bad one, a commit that raised it above its parent's
// is found, by a bisection and nothing more.
func TestExactPropertyAnyWay(t *testing.T) {
	const n = 40
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 3))
		v := make([]int, n+1)
		v[0] = 32 + rng.IntN(8)
		for i := range n {
			v[i+1] = v[i]
			if rng.IntN(6) == 0 {
				v[i+1] = 24 + rng.IntN(40)
			}
		}
		v[n] = max(v[n], v[0]+2)
		f, s := exactSearch(t, n, &built{series: func(i int) []bisect.Series { return kernelsOf("registers", "k", v[i+1]) }}, false, metric.Metric{Name: "registers", Exact: true})
		if f.Result != bisect.Found || !f.Culprits[0].Confirmed {
			t.Fatalf("seed %d: %s %+v %q, of %v", seed, f.Result, f.Suspects, f.Warnings, v)
		}
		i := s.at[f.Culprits[0].Commit]
		if e := f.Culprits[0].Effect.Exact; v[i+1] <= v[i] || *e != (bisect.Exact{Value: float64(v[i+1]), Parent: float64(v[i])}) || s.asked > 10 {
			t.Errorf("seed %d: commit %d, %+v, %d launches, of %v", seed, i, e, s.asked, v)
		}
	}
}
