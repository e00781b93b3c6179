package pipeline

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// What ends a step once may have been anybody; what ends it again was the candidate.
func TestEndedOnce(t *testing.T) {
	const once = "test -e $BENCH_LOG.once || { touch $BENCH_LOG.once; "
	ends := map[string]string{
		"killed": "kill -KILL $$", "stopped": "kill -STOP $$", "supervisor killed": "kill -KILL $PPID; sleep 9",
		"disk full for a moment": "echo write: No space left on device; exit 1",
	}
	for name, end := range ends {
		for _, step := range []string{"build", "run"} {
			t.Run(step+" "+name, func(t *testing.T) {
				t.Parallel()
				plan := kernels.Plan{Run: []string{"./run.sh"}}
				if step == "build" {
					plan = kernels.Plan{Build: []string{"./run.sh"}, Run: []string{"true"}}
				}
				b := newBench(t, plan, trial.Limits{Build: time.Second, Run: time.Second}, script(once+end+"; }"), script(end))
				if o := b.test(0, bisect.Searching); o.Class != bisect.OK || len(o.Repeated) != 1 {
					t.Errorf("once: %s, repeated %q", o.Describe(), o.Repeated)
				}
				if o := b.test(1, bisect.Searching); o.Class == bisect.OK || len(o.Repeated) > 1 {
					t.Errorf("always: %s, repeated %q", o.Describe(), o.Repeated)
				}
			})
		}
	}
}

// Whoever clears the caches in mid-search stops the search; no candidate is blamed for it. A
// candidate that removes its own tree is.
func TestWorkingFolderRemoved(t *testing.T) {
	b := newBench(t, kernels.Plan{Build: []string{"true"}, Run: []string{"./run.sh"}}, trial.Limits{}, script("true"), script("rm -rf \"$PWD\"; exit 3"))
	if o := b.test(1, bisect.Searching); o.Class != bisect.Wrong {
		t.Error(o.Describe())
	}
	b.test(0, bisect.EndGood)
	if err := errors.Join(os.RemoveAll(b.Config.Dir), os.Remove(b.Config.Dir+".lock")); err != nil {
		t.Fatal(err)
	}
	_, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.EndGood, Nth: 1})
	var infra *bisect.InfraError
	if !errors.As(err, &infra) || !strings.Contains(err.Error(), "hint:") {
		t.Error(err)
	}
}
