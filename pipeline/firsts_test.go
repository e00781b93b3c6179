package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// A candidate of a search finds what the ends have compiled, and is launched once where nothing is left to compile. Where
// something is, and in a proof, it is launched once if the first process gives what the later ones give, and says for which
// metric it counts; else twice.
func TestFirstLaunchCounts(t *testing.T) {
	for name, c := range map[string]struct {
		late          int    // what the first process is slower by
		key           string // of what it compiles
		search, proof string
		only          [2]string
	}{
		"warmed up":                       {0, "made", "warm", "cold", [2]string{"", "t"}},
		"not warmed up":                   {25, "made", "warm", "cold warm", [2]string{}},
		"warmed up, compiles its own":     {0, "made-$n", "cold", "cold", [2]string{"t", "t"}},
		"not warmed up, compiles its own": {25, "made-$n", "cold warm", "cold warm", [2]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timed := func(us int) []fixtures.Change {
				return script(fmt.Sprintf(`d=$TRITON_CACHE_DIR; mkdir -p $d; n=%[1]d
if [ -e $d/%[2]s ]; then echo warm >>$BENCH_LOG; else echo cold >>$BENCH_LOG; touch $d/%[2]s; n=$((n+%[3]d)); fi
echo "sample: $n us" >&$KBISECT_FD`, us, c.key, c.late))
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
			if got := b.said(); got != c.search || o.Only != c.only[0] || o.Unfit != "" {
				t.Errorf("launched %q, counts for %q only, unfit %q", got, o.Only, o.Unfit)
			}
			if o := ask(2, bisect.Request{Purpose: bisect.Searching, Nth: 1, Timing: true, Wants: "t"}); b.said() != "warm" || o.Only != "" {
				t.Errorf("once more: %+v", o)
			}
			o = ask(2, bisect.Request{Purpose: bisect.ConfirmCulprit, Timing: true, Wants: "t"})
			if got := b.said(); got != c.proof || o.Only != c.only[1] {
				t.Errorf("launched %q for the proof: %+v", got, o)
			}
		})
	}
}
