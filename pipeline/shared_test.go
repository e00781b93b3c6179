package pipeline

import (
	"context"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// Commits of which the same is built share a launch, unless they differ in what is read when it runs.
func TestEqualBuildsShareALaunch(t *testing.T) {
	plan := kernels.Plan{
		Build: []string{"sh", "-c", `grep -v '^#' a.c >out; printf 'out: a.c\n' >out.d`}, Outputs: []string{"out"},
		Run: []string{"sh", "-c", `echo ran >>"$BENCH_LOG"; ! grep -q bug out data`}, Depfiles: []string{"out.d"},
	}
	a, data := func(text string) fixtures.Change { return fixtures.Write("a.c", text) }, func(text string) fixtures.Change { return fixtures.Write("data", text) }
	b := newBench(t, plan, trial.Limits{},
		[]fixtures.Change{a("x\n"), data("ok")},
		[]fixtures.Change{a("# a comment\nx\n")}, // as before
		[]fixtures.Change{data("a bug")},         // what runs is the same, what it reads is not
		[]fixtures.Change{data("ok")},            // as the first again
		[]fixtures.Change{a("bug\n")},
		[]fixtures.Change{a("bug\n# known\n")},
	)
	for i, want := range []struct {
		class  bisect.Class
		shared int // the commit that was launched, -1: it was itself
	}{{bisect.OK, -1}, {bisect.OK, 0}, {bisect.Wrong, -1}, {bisect.OK, 0}, {bisect.Wrong, -1}, {bisect.Wrong, 4}} {
		shared := ""
		if want.shared >= 0 {
			shared = b.ids[want.shared]
		}
		if o := b.test(i, bisect.Searching); o.Class != want.class || o.Shared != shared {
			t.Errorf("commit %d: %s, shared with %q, not %q", i, o.Describe(), o.Shared, shared)
		}
	}
	for _, why := range []bisect.Purpose{bisect.EndBad, bisect.ConfirmCulprit, bisect.ConfirmParent} {
		if o := b.test(1, why); o.Shared != "" {
			t.Errorf("%s shares a launch", why)
		}
	}
	timed, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[1]}, Purpose: bisect.Searching, Timing: true})
	if err != nil || timed.Shared != "" {
		t.Errorf("times are shared: %v", err)
	}
	b.recipe.Paths = []string{"a.c"} // then data is declared to matter to nobody
	if o := b.test(2, bisect.Searching); o.Shared == "" {
		t.Error("a file outside of the paths keeps commits from sharing")
	}
}

// Where it is known what a launch opens, commits that differ in other files as well share it. One that comes where the launch
// listed nothing is passed over for times alone, which the search may take back.
func TestEqualBuildsBesideFilesThatNothingOpens(t *testing.T) {
	plan := kernels.Plan{
		Build: []string{"sh", "-c", `ls >/dev/null; grep -v '^#' a.c >out; printf 'out: a.c\n' >out.d`}, Outputs: []string{"out"},
		Run: []string{"sh", "-c", "cat out data; ls listed"}, Depfiles: []string{"out.d"},
	}
	write := fixtures.Write
	b := newBench(t, plan, trial.Limits{},
		[]fixtures.Change{write("a.c", "x\n"), write("data", "1"), write("notes", "1"), write("listed/a", "")},
		[]fixtures.Change{write("a.c", "# a comment\nx\n"), write("notes", "2")},
		[]fixtures.Change{write("data", "2")},
		[]fixtures.Change{write("data", "1"), write("more", "1")},
		[]fixtures.Change{write("listed/b", "")},
	)
	b.recipe.Learn = true
	for i, want := range [][2]bool{{}, {true, true}, {}, {false, true}, {}} {
		for k, shared := range want {
			r := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[i]}, Purpose: bisect.Searching, Timing: k == 1}
			if o, err := b.Sample(t.Context(), r); err != nil || o.Class != bisect.OK || (o.Shared != "") != shared {
				t.Errorf("commit %d, timed: %v: %s, shared with %q, %v", i, r.Timing, o.Describe(), o.Shared, err)
			}
		}
	}
	// Of times it is only said that they are alike, until they are asked for again.
	for nth, want := range []string{b.ids[0], ""} {
		o, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[1]}, Purpose: bisect.Searching, Nth: nth, Timing: true})
		if err != nil || o.Shared != want || len(o.Series) > 0 || (o.Wall > 0) != (want == "") {
			t.Errorf("launch %d for its times is shared with %q: %+v, %v", nth, o.Shared, o, err)
		}
	}
}

// Where devices are watched, a known-good program is made beside the first trial, and is not lost with it where that ends
// without a launch.
func TestGreetingOutlivesItsTrial(t *testing.T) {
	plan := kernels.Plan{Build: []string{"test", "-e", "ok"}, Run: []string{"true"}}
	b := newBench(t, plan, trial.Limits{}, []fixtures.Change{fixtures.Write("a", "")}, []fixtures.Change{fixtures.Write("ok", "")})
	b.machine.devices = []*gpu.Watch{gpu.Scripted(gpu.Device{UUID: "GPU-1"}, nil, nil)}
	for i, want := range []bisect.Class{bisect.BuildFailed, bisect.OK} {
		ctx, cancel := context.WithCancel(t.Context())
		o, err := b.Sample(ctx, bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[i]}, Purpose: bisect.Searching})
		cancel()
		if err != nil || o.Class != want {
			t.Fatalf("commit %d: %s, %v", i, o.Describe(), err)
		}
	}
	if warning, err := b.machine.greeted(t.Context()); warning != "" || err != nil || b.machine.hello == nil || !b.machine.hello.worked {
		t.Errorf("the known-good program: %+v, %q, %v", b.machine.hello, warning, err)
	}
}
