package pipeline

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// The first process of a candidate is enough where those of both ends gave what later ones give.
func TestFirsts(t *testing.T) {
	type numbers map[string]float64 // by case
	outcome := func(caches Caches, n numbers) bisect.Outcome {
		o := bisect.Outcome{Class: bisect.OK, Caches: string(caches)}
		for name, v := range n {
			o.Series = append(o.Series, bisect.Series{Metric: "t", Case: name, Unit: "us", Values: []float64{v}})
		}
		return o
	}
	one := func(values ...float64) (out []numbers) {
		for _, v := range values {
			out = append(out, numbers{"": v})
		}
		return out
	}
	for name, c := range map[string]struct {
		coldGood, good, coldBad, bad []numbers
		want                         bool
	}{
		"the same":                          {one(100), one(100, 101), one(130), one(130, 129), true},
		"a little off, and a large step":    {one(103), one(100, 100), one(134), one(130, 130), true},
		"as far off as the step":            {one(130), one(100, 101), one(131), one(130, 129), false},
		"off at the bad end only":           {one(100), one(100, 101), one(150), one(130, 129), false},
		"one of the first ones off":         {one(100, 120), one(100, 101), one(130), one(130, 129), false},
		"off by less than they scatter":     {one(100), one(100, 104), one(138), one(130, 136), true},
		"they scatter as much as they step": {one(100), one(100, 130), one(130), one(130, 101), false},
		"one later one":                     {one(100), one(100), one(130), one(130, 129), false},
		"no first one":                      {nil, one(100, 101), one(130), one(130, 129), false},
		"no number":                         {one(100), one(100, math.NaN()), one(130), one(130, 129), false},
		"one case of two steps": {[]numbers{{"a": 100, "b": 9}}, []numbers{{"a": 100, "b": 7}, {"a": 101, "b": 7.01}},
			[]numbers{{"a": 130, "b": 9}}, []numbers{{"a": 130, "b": 7}, {"a": 129, "b": 7.01}}, true},
		"both do, and one is off": {[]numbers{{"a": 100, "b": 9}}, []numbers{{"a": 100, "b": 7}, {"a": 101, "b": 7.01}},
			[]numbers{{"a": 130, "b": 9}}, []numbers{{"a": 130, "b": 8}, {"a": 129, "b": 8.01}}, false},
		"a case that the bad end lacks": {[]numbers{{"a": 100, "b": 9}}, []numbers{{"a": 100, "b": 9}, {"a": 101, "b": 9.01}},
			one(130), one(130, 129), false},
	} {
		var f firsts
		for why, n := range map[bisect.Purpose][2][]numbers{bisect.EndGood: {c.coldGood, c.good}, bisect.EndBad: {c.coldBad, c.bad}} {
			for i, caches := range []Caches{Cold, Warm} {
				for _, v := range n[i] {
					f.learn(bisect.Request{Purpose: why}, outcome(caches, v))
				}
			}
		}
		if got := f.serve("t"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if f.serve("") || f.serve("other") {
			t.Errorf("%s: of another metric", name)
		}
	}
}

// A candidate of a search is launched once where the first process gives what the later ones give, and says for which
// metric it counts. A program whose first process is slower is launched twice, and so is what proves an answer.
func TestFirstLaunchCounts(t *testing.T) {
	for name, c := range map[string]struct {
		late int // what the first process is slower by
		want string
	}{"warmed up": {0, "cold"}, "not warmed up": {25, "cold warm"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timed := func(us int) []fixtures.Change {
				return script(fmt.Sprintf(`d=$TRITON_CACHE_DIR; mkdir -p $d; n=%d
if [ -e $d/made ]; then echo warm >>$BENCH_LOG; else echo cold >>$BENCH_LOG; touch $d/made; n=$((n+%d)); fi
echo "sample: $n us" >&$KBISECT_FD`, us, c.late))
			}
			b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{Run: time.Minute}, timed(100), timed(130), timed(131))
			b.Config.Recipe.SampleMetric = "t"
			ask := func(commit int, r bisect.Request) bisect.Outcome {
				t.Helper()
				r.Candidate = bisect.Candidate{Commit: b.ids[commit]}
				o, err := b.Sample(t.Context(), r)
				if err != nil || o.Class != bisect.OK {
					t.Fatal(o, err)
				}
				return o
			}
			for nth := range 2 {
				ask(0, bisect.Request{Purpose: bisect.EndGood, Nth: nth, Timing: true})
				ask(1, bisect.Request{Purpose: bisect.EndBad, Nth: nth, Timing: true})
			}
			b.said()
			o := ask(2, bisect.Request{Purpose: bisect.Searching, Timing: true, Wants: "t"})
			if got := b.said(); got != c.want || (o.Only == "t") != (c.want == "cold") || o.Unfit != "" {
				t.Errorf("launched %q, counts for %q only, unfit %q", got, o.Only, o.Unfit)
			}
			if o := ask(2, bisect.Request{Purpose: bisect.Searching, Nth: 1, Timing: true, Wants: "t"}); b.said() != "warm" || o.Only != "" {
				t.Errorf("once more: %+v", o)
			}
			if o := ask(2, bisect.Request{Purpose: bisect.ConfirmCulprit, Timing: true}); b.said() != "cold warm" || o.Only != "" {
				t.Errorf("for the proof: %+v", o)
			}
		})
	}
}
