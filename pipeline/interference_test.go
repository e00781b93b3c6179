package pipeline

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/fixtures"
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
				unseen := name == "supervisor killed" // before it could say that the program runs: then another one starts it
				if o := b.test(0, bisect.Searching); o.Class != bisect.OK || len(o.Repeated) != 1 && !(unseen && len(o.Repeated) == 0) {
					t.Errorf("once: %s, repeated %q", o.Describe(), o.Repeated)
				}
				if o := b.test(1, bisect.Searching); o.Class == bisect.OK || len(o.Repeated) > 1 {
					t.Errorf("always: %s, repeated %q", o.Describe(), o.Repeated)
				}
			})
		}
	}
}

// Whoever clears caches removes what trials need, here a part of it. What the candidates remove themselves is theirs: the first
// is launched twice for it, and no other.
func TestRemovedOnce(t *testing.T) {
	const once = "test -e $BENCH_LOG.once || { touch $BENCH_LOG.once; "
	for name, c := range map[string]struct{ build, run string }{
		"a file of the commit":    {run: "rm data/deep/x; exit 3"},
		"a folder of the commit":  {run: "rm -r data; exit 3"},
		"a file of its git":       {run: "rm .git/HEAD; exit 3"},
		"TMPDIR":                  {run: "rm -r $TMPDIR; exit 3"},
		"caches":                  {run: "rm -r ${XDG_CACHE_HOME%/*}; exit 3"},
		"all":                     {run: "rm -r ${PWD%/*}; exit 3"},
		"an output":               {run: "rm prog; kill -SEGV $$"},
		"an output of this build": {build: "rm prog"},
		"the program":             {build: "rm run.sh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hand := func(guard, do string) string {
				if do == "" {
					return "true"
				}
				return guard + do + map[bool]string{true: "; }"}[guard != ""]
			}
			commit := func(guard string) []fixtures.Change {
				return append(script("mkdir -p $XDG_CACHE_HOME; "+hand(guard, c.run)), fixtures.Write("data/deep/x", "1"), fixtures.Write("data/y", guard),
					fixtures.Script("build.sh", "#!/bin/sh\ncp run.sh prog\n"+hand(guard, c.build)+"\n"))
			}
			b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}, Outputs: []string{"prog"}}, trial.Limits{},
				commit(once), commit(""), append(commit(""), fixtures.Write("data/y", "2")))
			if o := b.test(0, bisect.EndGood); o.Class != bisect.OK || len(o.Repeated) != 1 {
				t.Errorf("once: %s, repeated %q", o.Describe(), o.Repeated)
			}
			for i, tries := range []int{2, 1} {
				if o := b.test(1+i, bisect.Searching); o.Class == bisect.OK || len(o.Repeated) != tries-1 {
					t.Errorf("commit %d: %s, repeated %q", 1+i, o.Describe(), o.Repeated)
				}
			}
		})
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
	for err, hinted := range map[error]bool{
		&bisect.InfraError{What: "preparing it", Err: &os.PathError{Op: "open", Path: "tree", Err: os.ErrNotExist}}: true,
		&bisect.InfraError{What: "preparing it", Err: os.ErrPermission}:                                             false,
		&trial.CommandError{Command: "x", Err: os.ErrNotExist}:                                                      false,
	} {
		if _, advice := hint.Split(resumable(err)); (advice != "") != hinted {
			t.Errorf("%v: hint %q", err, advice)
		}
	}
	if err := errors.Join(os.RemoveAll(b.Config.Dir), os.Remove(b.Config.Dir+".lock")); err != nil {
		t.Fatal(err)
	}
	_, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.EndGood, Nth: 1})
	var infra *bisect.InfraError
	if !errors.As(err, &infra) || !strings.Contains(err.Error(), "hint:") {
		t.Error(err)
	}
}
