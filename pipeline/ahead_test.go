package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/ahead"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// jobs makes a bench build ahead whatever the machine has.
func (b *bench) jobs(n int) {
	b.ahead = ahead.New(context.WithoutCancel(b.t.Context()), b.workspaces.root, n, b.Config.Recipe.Learn)
}

// wishes are requests of a search for some commits.
func (b *bench) wishes(list ...int) (out []bisect.Request) {
	for _, i := range list {
		out = append(out, bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[i]}, Purpose: bisect.Searching})
	}
	return out
}

// What is built ahead is used once and for what it is; what is not asked for is dropped.
func TestBuildAhead(t *testing.T) {
	var commits [][]fixtures.Change
	for i := range 12 {
		commits = append(commits, []fixtures.Change{
			fixtures.Script("build.sh", fmt.Sprintf("#!/bin/sh\necho build%d >>$BENCH_LOG; sleep 0.1; echo %d >built\ntest %d != 5", i, i, i)),
			fixtures.Script("run.sh", fmt.Sprintf("#!/bin/sh\nexec test $(cat built) = %d", i)),
		})
	}
	b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, trial.Limits{}, commits...)
	b.jobs(3)
	c := b.wishes
	for i, next := range [][]bisect.Request{c(1, 8), c(9, 2), c(3, 10), c(4), c(5, 9), c(0, 11), nil, c(8)} {
		b.Ahead(next)
		b.ahead.Launch()() // of another trial, which ends before this one is asked for
		want := bisect.OK
		if i == 5 {
			want = bisect.BuildFailed
		}
		if o := b.test(i, bisect.Searching); o.Class != want || !o.Built {
			t.Errorf("commit %d: %s, built %v", i, o.Describe(), o.Built)
		}
	}
	said := strings.Fields(b.said())
	count := map[string]int{}
	for _, s := range said {
		count[s]++
	}
	for i := 1; i <= 5; i++ { // asked for right after they were announced; the last one cannot be built
		if count[fmt.Sprintf("build%d", i)] != 1 {
			t.Errorf("commit %d was built %d times: %v", i, count[fmt.Sprintf("build%d", i)], said)
		}
	}
	b.Ahead(c(10, 11)) // under way when the bench is closed
	b.test(8, bisect.Searching)
}

// Beside a long launch, more builds are made than can run at a time. A likelier one then takes the workspace of the least likely.
func TestBuildsAheadFillIdleTime(t *testing.T) {
	until := filepath.Join(t.TempDir(), "until") // so many are built
	wait := func(builds string) {
		if err := os.WriteFile(until, []byte(builds), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	commits := [][]fixtures.Change{{
		fixtures.Script("build.sh", "#!/bin/sh\necho x$KBISECT_PURPOSE-$(cat f) >>$BENCH_LOG\n"),
		fixtures.Script("run.sh", "#!/bin/sh\nwhile [ $(grep -c xsearch $BENCH_LOG) -lt $(cat "+until+") ]; do sleep 0.01; done\n"),
		fixtures.Write("f", "0"),
	}}
	for i := range 12 {
		commits = append(commits, []fixtures.Change{fixtures.Write("f", fmt.Sprint(i+1))})
	}
	b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, trial.Limits{}, commits...)
	b.jobs(4)
	if wide, more := b.Width(); wide != 5 || more != 4 {
		t.Errorf("with four jobs %d builds at a time, and %d more", wide, more)
	}
	wait("9")
	b.Ahead(b.wishes(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
	if o := b.test(0, bisect.EndGood); o.Class != bisect.OK {
		t.Error(o.Describe())
	}
	wait("10")
	b.Ahead(b.wishes(12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
	if o := b.test(0, bisect.EndGood); o.Class != bisect.OK {
		t.Error(o.Describe())
	}
	built := map[string]bool{} // one more than once, if it made room while the least likely was still being built
	for _, x := range strings.Fields(b.said()) {
		if commit, ahead := strings.CutPrefix(x, "xsearch-"); ahead {
			built[commit] = true
		}
	}
	if n := strings.Count(b.said(), "xsearch"); len(built) != 10 || !built["12"] || built["10"] || built["11"] || n > 11 {
		t.Errorf("%d builds ahead, of %v, want one in each workspace, and one more", n, built)
	}
	b.Ahead(nil)
}

// While times are taken, builds ahead stand still.
func TestBuildAheadStandsStill(t *testing.T) {
	tick := filepath.Join(t.TempDir(), "ticks")
	busy := []fixtures.Change{
		fixtures.Script("build.sh", "#!/bin/sh\nwhile [ ! -e "+tick+".stop ]; do echo x >>"+tick+"; sleep 0.01; done\n"),
		fixtures.Script("run.sh", "#!/bin/sh\n"),
	}
	timed := []fixtures.Change{
		fixtures.Script("build.sh", "#!/bin/sh\n"),
		fixtures.Script("run.sh", "#!/bin/sh\nsleep 0.2; a=$(wc -c <"+tick+"); sleep 1; b=$(wc -c <"+tick+"); echo \"metric ticks: $((b - a))\" >&$KBISECT_FD\n"),
	}
	b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, trial.Limits{}, timed, busy)
	b.jobs(2)
	t.Cleanup(func() { os.WriteFile(tick+".stop", nil, 0o666) })
	b.Ahead(b.wishes(1))
	b.test(0, bisect.Searching)
	for started := time.Now(); time.Since(started) < 20*time.Second; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(tick); err == nil {
			break
		}
	}
	ticks := func(timing bool) float64 {
		o, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.Searching, Timing: timing})
		if err != nil || len(o.Series) != 1 {
			t.Fatalf("%+v, %v", o, err)
		}
		return o.Series[0].Values[0]
	}
	free := 0.0
	for n := 0; n < 20 && free == 0; n++ { // on a busy machine a build ahead may wait for a second
		free = ticks(false)
	}
	if held := ticks(true); free == 0 || held != 0 {
		t.Errorf("the build went %v ticks beside a trial, and %v beside one whose times count", free, held)
	}
	if err := os.WriteFile(tick+".stop", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if o := b.test(1, bisect.Searching); o.Class != bisect.OK || !o.Built {
		t.Error(o.Describe())
	}
}

// A build ahead that is cancelled ends while trials go on, and must not touch what they use; the race detector
// watches. The build ignores SIGTERM and leaves many temporary files, so that a trial or two end between its
// death and the end of its goroutine.
func TestCancelledBuildAheadSharesNothing(t *testing.T) {
	t.Parallel()
	const spin = "#!/bin/sh\ntrap '' TERM\ncd $TMPDIR && seq -f f%g 6000 | xargs touch\nwhile :; do sleep 0.01; done\n"
	commit := func(build string) []fixtures.Change {
		return []fixtures.Change{fixtures.Script("build.sh", build), fixtures.Script("run.sh", "#!/bin/sh\nexit 1\n")}
	}
	for range 2 {
		b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, trial.Limits{}, commit("#!/bin/sh\n"), commit(spin), commit(spin+"\n"))
		b.jobs(2)
		for nth := range 25 {
			b.Ahead(b.wishes(1 + nth/6%2)) // where it changes, what is being built is cancelled
			r := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.Searching, Nth: nth}
			if o, err := b.Sample(t.Context(), r); err != nil || o.Class != bisect.Wrong {
				t.Fatalf("%s, %v", o.Describe(), err)
			}
		}
	}
}

// Both ends and the first commits of a search are built at once, and so are the clean builds of a proof, of which none
// is taken for another.
func TestBuildAheadFromTheFirstSecond(t *testing.T) {
	meet := t.TempDir()
	// Each build waits for the four others: it ends only if they are all made at a time.
	build := fixtures.Script("build.sh", "#!/bin/sh\necho $KBISECT_PURPOSE-$KBISECT_COMMIT >>$BENCH_LOG; touch "+meet+"/$KBISECT_PURPOSE-$KBISECT_COMMIT\nwhile [ $(ls "+meet+" | wc -l) -lt 5 ]; do sleep 0.01; done\n")
	run := fixtures.Script("run.sh", "#!/bin/sh\n")
	b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, trial.Limits{}, []fixtures.Change{build, run}, []fixtures.Change{fixtures.Write("f", "1")}, []fixtures.Change{fixtures.Write("f", "2")})
	b.jobs(5)
	of := func(i int, why bisect.Purpose) bisect.Request {
		return bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[i]}, Purpose: why, Clean: why == bisect.ConfirmCulprit || why == bisect.ConfirmParent}
	}
	all := []bisect.Request{of(0, bisect.EndGood), of(2, bisect.EndBad), of(1, bisect.Searching), of(1, bisect.ConfirmCulprit), of(0, bisect.ConfirmParent)}
	b.Ahead(all[1:])
	for _, r := range all {
		if o, err := b.Sample(t.Context(), r); err != nil || o.Class != bisect.OK {
			t.Fatalf("%s: %s, %v", r.Purpose, o.Describe(), err)
		}
	}
	if said := strings.Fields(b.said()); len(said) != len(all) {
		t.Errorf("%d builds of %d requests: %v", len(said), len(all), said)
	}
}

// A build that was killed beside others is made again alone before it counts.
func TestCrowdedBuildIsMadeAgainAlone(t *testing.T) {
	at := filepath.Join(t.TempDir(), "ticks")
	run := fixtures.Script("run.sh", "#!/bin/sh\n")
	b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, trial.Limits{},
		[]fixtures.Change{run, fixtures.Script("build.sh", "#!/bin/sh\n"+
			"if [ -e "+at+".killed ]; then a=$(wc -c <"+at+"); sleep 0.3; b=$(wc -c <"+at+"); test $a = $b; exit; fi\n"+
			"while [ ! -s "+at+" ]; do sleep 0.01; done; touch "+at+".killed; kill -9 $$\n")},
		[]fixtures.Change{run, fixtures.Script("build.sh", "#!/bin/sh\nwhile :; do echo x >>"+at+"; sleep 0.01; done\n")})
	b.jobs(2)
	b.Ahead(b.wishes(1))
	if o := b.test(0, bisect.Searching); o.Class != bisect.OK || !o.Built || len(o.Repeated) > 0 {
		t.Errorf("%s, repeated for %q", o.Describe(), o.Repeated)
	}
}

// While the ends may still tell which commits matter, none is built on a guess; but beside ends that take long to build the
// first commits of the search are.
func TestCommitsAreBuiltBesideEndsThatTakeLong(t *testing.T) {
	for _, long := range []bool{false, true} {
		t.Run(fmt.Sprint(long), func(t *testing.T) {
			t.Parallel()
			build := "#!/bin/sh\necho $KBISECT_PURPOSE >>$BENCH_LOG\n"
			if long { // the ends are built when a commit is
				build += "while ! grep -q search $BENCH_LOG; do sleep 0.01; done\n"
			}
			files := []fixtures.Change{fixtures.Script("build.sh", build), fixtures.Script("run.sh", "#!/bin/sh\n")}
			b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, trial.Limits{}, files, []fixtures.Change{fixtures.Write("f", "1")}, []fixtures.Change{fixtures.Write("f", "2")})
			b.Config.Recipe.Learn = true
			b.jobs(4)
			if b.ahead.Began = time.Now(); !long { // however busy this machine is
				b.ahead.Began = b.ahead.Began.Add(time.Hour)
			}
			bad := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[2]}, Purpose: bisect.EndBad}
			b.Ahead(append([]bisect.Request{bad}, b.wishes(1)...))
			b.test(0, bisect.EndGood)
			b.test(2, bisect.EndBad)
			b.Ahead(nil)
			if built := strings.Contains(b.said(), "search"); built != long {
				t.Errorf("a commit was built beside the ends: %v; builds: %q", built, b.said())
			}
		})
	}
}

// A build reports what it has opened while it runs. What is then asked for ahead is built at once, beside it.
func TestCommitsAreBuiltBesideTheEndThatTellsOfThem(t *testing.T) {
	build := "#!/bin/sh\necho $KBISECT_PURPOSE >>$BENCH_LOG; cat kernel.c\nwhile ! grep -q search $BENCH_LOG; do sleep 0.01; done\n"
	files := []fixtures.Change{fixtures.Script("build.sh", build), fixtures.Script("run.sh", "#!/bin/sh\n"), fixtures.Write("kernel.c", "x")}
	b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, trial.Limits{}, files, []fixtures.Change{fixtures.Write("kernel.c", "1")}, []fixtures.Change{fixtures.Write("f", "2")})
	b.Config.Recipe.Learn = true
	b.jobs(4)
	b.ahead.Began = time.Now().Add(time.Hour) // no end takes long
	bad := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[2]}, Purpose: bisect.EndBad}
	b.Ahead([]bisect.Request{bad})
	var told [][]string
	Listen(b.Pipeline, func(opened []string, after float64) {
		if told = append(told, opened); after <= 0 {
			t.Errorf("told after %v s", after)
		}
		if slices.Contains(opened, "kernel.c") {
			b.Ahead(append([]bisect.Request{bad}, b.wishes(1)...))
		}
	})
	b.test(0, bisect.EndGood)
	Listen(b.Pipeline, nil)
	n, want := len(told), []string{"build.sh", "kernel.c"}
	if n < 2 || !slices.ContainsFunc(told[:n-1], func(o []string) bool { return slices.Equal(o, want) }) || !slices.Equal(told[n-1], want) {
		t.Errorf("told %q, want %q while it is built and afterwards", told, want)
	}
	b.test(2, bisect.EndBad)
	if said := b.said(); !strings.Contains(said, "search") || n != len(told) {
		t.Errorf("told %d times, then %d; builds: %q", n, len(told), said)
	}
	b.Ahead(nil)
}

// The clean build of a proof waits for the ordinary one of the same commit, which it can copy, but only where builds leave
// something to copy.
func TestCleanBuildsFollowThoseThatTheyCopy(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			t.Parallel()
			build := "#!/bin/sh\ncc -c f.c\ntest $KBISECT_PURPOSE = end-good && exit\necho begin-$KBISECT_PURPOSE >>$BENCH_LOG\nsleep 0.3\n"
			if !kept { // the builds are made at the same time
				build = "#!/bin/sh\necho begin-$KBISECT_PURPOSE >>$BENCH_LOG\ntest $KBISECT_PURPOSE = end-good && exit\nwhile ! grep -q confirm $BENCH_LOG; do sleep 0.01; done\n"
			}
			files := []fixtures.Change{fixtures.Script("build.sh", build+"echo end-$KBISECT_PURPOSE >>$BENCH_LOG\n"), fixtures.Script("run.sh", "#!/bin/sh\n"), fixtures.Write("f.c", "int f;")}
			b := newBench(t, kernels.Plan{Build: []string{"./build.sh"}, Run: []string{"./run.sh"}}, trial.Limits{}, files, []fixtures.Change{fixtures.Write("f.c", "int g;")})
			b.Config.Recipe.Objects = true
			b.jobs(4)
			b.test(0, bisect.EndGood)
			proof := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[1]}, Purpose: bisect.ConfirmCulprit, Clean: true}
			b.Ahead(append(b.wishes(1), proof))
			b.test(0, bisect.EndGood)
			b.test(1, bisect.Searching)
			if o, err := b.Sample(t.Context(), proof); err != nil || o.Class != bisect.OK {
				t.Fatalf("%s, %v", o.Describe(), err)
			}
			said := b.said()
			if searched, proven := strings.Index(said, "end-search"), strings.Index(said, "begin-confirm"); searched < 0 || proven < 0 || kept != (searched < proven) {
				t.Errorf("objects kept: %v; builds: %q", kept, said)
			}
		})
	}
}

// A commit that is proven a second time, as a parent and no longer as a culprit, gets a folder of its own: that of its first
// proof may have gone to a build ahead.
func TestProofsHaveFoldersOfTheirOwn(t *testing.T) {
	b := newBench(t, kernels.Plan{Build: []string{"true"}, Run: []string{"true"}}, trial.Limits{}, nil)
	r := bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0]}, Purpose: bisect.ConfirmCulprit, Clean: true}
	first, err := b.workspaces.get(r)
	if err != nil {
		t.Fatal(err)
	}
	b.workspaces.open[b.workspaces.name(r)], err = b.workspaces.get(bisect.Request{Purpose: bisect.EndGood})
	if err != nil {
		t.Fatal(err)
	}
	delete(b.workspaces.open, "good") // its workspace stands for the one that was built ahead
	r.Purpose = bisect.ConfirmParent
	second, err := b.workspaces.get(r)
	if err != nil || first.Folder == second.Folder {
		t.Fatalf("%v, folders %s and %s", err, first.Folder, second.Folder)
	}
	if _, err := os.Stat(first.Dir); err != nil {
		t.Error(err)
	}
	if err := first.Remove(); err != nil {
		t.Error(err)
	}
}
