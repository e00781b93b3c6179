package pipeline

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/capacity"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// needsPython skips a test where there is none.
func needsPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: no python3")
	}
}

// idleDevice is a device that nobody uses.
func idleDevice() []*gpu.Watch {
	return []*gpu.Watch{gpu.Scripted(gpu.Device{UUID: "GPU-1"}, func(int) gpu.Reading { return gpu.Reading{} }, nil)}
}

// timed is a launch of a commit whose times count.
func (b *bench) timed(why bisect.Purpose, commit int) bisect.Request {
	return bisect.Request{Purpose: why, Candidate: bisect.Candidate{Commit: b.ids[commit]}, Timing: true}
}

// early is another pipeline over the same history, in which launches may begin before their turn. change completes its
// configuration.
func (b *bench) early(change func(c *Config)) *Pipeline {
	b.t.Helper()
	c := b.Config
	c.Dir += "-early"
	c.Recipe.Prestart = true
	change(&c)
	p, err := New(context.WithoutCancel(b.t.Context()), c)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return p
}

// A launch that loads beside the one before it holds device memory, but does not count as another user's process. A
// process of another user still does.
func TestHeadStartSharesNoDevice(t *testing.T) {
	for _, other := range []bool{false, true} {
		t.Run(fmt.Sprint("another process ", other), func(t *testing.T) {
			t.Parallel()
			on := t.TempDir() // a file for each process on the device
			body := script(fmt.Sprintf(`touch %[1]s/$$; trap 'rm %[1]s/$$' EXIT
sleep 0.5
echo "phase: compile" >&$KBISECT_FD; sleep 0.3; echo "phase: measure" >&$KBISECT_FD; echo "sample: 10 us" >&$KBISECT_FD`, on))
			b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{Run: time.Minute}, body, body, body)
			p := b.early(func(c *Config) {
				c.Recipe.SampleMetric = "t"
				c.Devices = []*gpu.Watch{gpu.Scripted(gpu.Device{UUID: "GPU-1"}, func(int) gpu.Reading {
					var x gpu.Reading
					entries, _ := os.ReadDir(on)
					for i := range entries {
						x.Processes = append(x.Processes, gpu.Process{PID: i + 1})
					}
					return x
				}, nil)}
			})
			sample := func(r bisect.Request) bisect.Outcome {
				o, err := p.Sample(t.Context(), r)
				if err != nil || o.Class != bisect.OK {
					t.Fatal(o, err)
				}
				return o
			}
			sample(b.timed(bisect.EndGood, 0))
			if other {
				if err := os.WriteFile(filepath.Join(on, "other"), nil, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			parent, culprit := b.timed(bisect.ConfirmParent, 1), b.timed(bisect.ConfirmCulprit, 2)
			Soon(p, []bisect.Request{culprit})
			for _, r := range []bisect.Request{parent, culprit} {
				if o := sample(r); (len(o.Marks) > 0) != other || len(o.Repeated) > 0 && !other {
					t.Errorf("%v: %v, made again: %v", r.Purpose, o.Marks, o.Repeated)
				}
				if r == parent && !p.headStart.Has(culprit) {
					t.Error("the culprit has not begun")
				}
			}
		})
	}
}

// besideBench notes when it begins, has compiled and is over. The good end goes on loading until the bad one has got as far as
// AWAIT says. EXTRA is more of its load.
const besideBench = `import os, sys, time
log = open(os.environ["BENCH_LOG"], "a+", buffering=1)
why = os.environ["KBISECT_PURPOSE"]
def note(what):
    log.write("%s %s %f\n" % (why, what, time.monotonic()))
note("begun")
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
EXTRA
end = time.monotonic() + 20
while why == "end-good" and "AWAIT" and time.monotonic() < end:
    log.seek(0)
    if "end-bad AWAIT" in log.read():
        break
    time.sleep(0.01)
SAYS
note("over")
sys.exit(STATUS)
`

// The bad end loads beside the good one and, with the harness, compiles; it does no more until that has ended. What ran beside
// another is made again where that may be why it failed, or where it did not tell when it had loaded.
func TestEndsLoadBesideEachOther(t *testing.T) {
	needsPython(t)
	const says = `out.write("phase: compile\n")
FAILS
time.sleep(0.5) # in which it is stopped, if it has to be
note("compiled")
WARMS
note("warm")
out.write("CHECKSphase: measure\n")
time.sleep(0.1)
out.write("sample: 10 us\nphase: teardown\n")`
	// The longest time for which it stands still once it warms up, in which what others have launched may still run.
	const still = `longest = 0
for _ in range(200):
    time.sleep(0.005)
    now = time.monotonic()
    longest, before = max(longest, now - before), now
log.write("%s stood %f\n" % (why, longest))`
	const alone = "log.seek(0)\nif why == 'end-bad' and 'end-good over' not in log.read(): sys.exit(1)"
	const waits = `note("compiling")
if why == "end-good":
    time.sleep(0.5)
while why == "end-bad" and "end-good warm" not in log.read():
    time.sleep(0.01)
    log.seek(0)`
	for _, x := range []struct {
		name                string
		extra, await, check string // of the bad end; say nothing: it speaks no protocol
		fails               string // in its compile phase
		harness, timing     bool
		straight            bool // it takes times after it has compiled, without a warm-up
		slow                bool // it compiles until the good end has warmed up
		limits              map[string]kernels.Limit
		class               bisect.Class // of the bad end
		beside              bool
		good, bad           int // processes
	}{
		{name: "as it should be", await: "begun", check: "pass", class: bisect.OK, beside: true, good: 1, bad: 1},
		{name: "a wrong result", await: "begun", check: "fail 3 of 8 values differ", class: bisect.Wrong, beside: true, good: 1, bad: 1},
		{name: "nothing is said", await: "over", class: bisect.OK, beside: true, good: 2, bad: 2},
		{name: "it fails where another one runs", await: "begun", check: "pass", extra: alone, class: bisect.OK, beside: true, good: 1, bad: 2},
		{name: "with the harness", await: "compiled", check: "pass", harness: true, class: bisect.OK, beside: true, good: 1, bad: 1},
		{name: "with times", await: "compiled", check: "pass", harness: true, timing: true, class: bisect.OK, beside: true, good: 1, bad: 1},
		{name: "it still compiles when times begin", await: "compiling", check: "pass", harness: true, timing: true, slow: true, fails: waits, class: bisect.OK, beside: true, good: 1, bad: 1},
		{name: "it takes times right after it has compiled", await: "compiled", check: "pass", harness: true, timing: true, straight: true, class: bisect.OK, beside: true, good: 1, bad: 2},
		{name: "it fails to compile where another one runs", await: "begun", check: "pass", fails: alone, harness: true, class: bisect.OK, beside: true, good: 1, bad: 2},
		{name: "limits that the good end sets", check: "pass", limits: map[string]kernels.Limit{"load": {Times: 100}}, class: bisect.OK, good: 1, bad: 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			body := func(check string) []fixtures.Change {
				text, status, extra := strings.NewReplacer("CHECKS", "phase: check\\ncheck: "+check+"\\n", "WARMS", "before = time.monotonic()\nout.write('phase: warmup\\n')\nWARMTH\ntime.sleep(0.5)", "FAILS", x.fails).Replace(says), "0", x.extra
				if x.slow {
					text = strings.ReplaceAll(text, "WARMTH", still)
				}
				if x.straight {
					text = strings.NewReplacer("CHECKS", "", "WARMS", "", "FAILS", "").Replace(says)
				}
				if x.harness {
					extra += "# kbisect_harness"
				}
				if check == "" {
					text = ""
				} else if check != "pass" {
					status = "1"
				}
				return []fixtures.Change{fixtures.Write("bench.py", strings.NewReplacer("EXTRA", extra, "AWAIT", x.await, "SAYS", strings.ReplaceAll(text, "WARMTH", ""), "STATUS", status).Replace(besideBench))}
			}
			good := "pass"
			if x.check == "" {
				good = ""
			}
			b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute, Phases: x.limits}, body(good), body(x.check))
			p := b.early(func(c *Config) {
				c.Devices = idleDevice()
			})
			ends := []bisect.Request{
				{Purpose: bisect.EndGood, Candidate: bisect.Candidate{Commit: b.ids[0]}, Timing: x.timing}, {Purpose: bisect.EndBad, Candidate: bisect.Candidate{Commit: b.ids[1]}, Timing: x.timing},
			}
			Soon(p, ends[1:])
			for i, want := range []bisect.Class{bisect.OK, x.class} {
				if o, err := p.Sample(t.Context(), ends[i]); err != nil || o.Class != want {
					t.Errorf("%s: %v, %v", ends[i].Purpose, o, err)
				}
			}
			text, err := os.ReadFile(filepath.Join(b.home, "log"))
			if err != nil {
				t.Fatal(err)
			}
			longest := 0.0
			first, last, n := map[string]float64{}, map[string]float64{}, map[string]int{}
			for line := range strings.Lines(string(text)) {
				var why, what string
				var at float64
				if _, err := fmt.Sscan(line, &why, &what, &at); err != nil {
					t.Fatal(err)
				}
				if what == "stood" && why == "end-good" {
					longest = at
				}
				if what = why + " " + what; n[what] == 0 {
					first[what] = at
				}
				n[what]++
				last[what] = at
			}
			if x.slow && longest < 0.15 {
				t.Errorf("the good end stood still for %.3f s when its times began:\n%s", longest, text)
			}
			if n["end-good begun"] != x.good || n["end-bad begun"] != x.bad || (first["end-bad begun"] < first["end-good over"]) != x.beside ||
				x.check != "" && x.bad == 1 && ((first["end-bad compiled"] < last["end-good over"]) != (x.harness && !x.slow) || first["end-bad warm"] < last["end-good over"]) {
				t.Errorf("%s", text)
			}
		})
	}
}

// lockingBench compiles for as long as another process of the culprit holds a lock, and takes that lock in a later phase.
const lockingBench = `import fcntl, os, time
lock, held, why = open(os.environ["BENCH_LOG"], "w"), os.environ["BENCH_LOG"] + "-held", os.environ["KBISECT_PURPOSE"]
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
time.sleep(0.4)
out.write("phase: compile\n")
if why == "confirm-culprit":
    fcntl.flock(lock, fcntl.LOCK_EX)
    open(held, "w").close()
    time.sleep(1)
    fcntl.flock(lock, fcntl.LOCK_UN)
end = time.monotonic() + 20
while why == "confirm-parent" and not os.path.exists(held) and time.monotonic() < end:
    time.sleep(0.01)
for phase in ("warmup", "check", "measure"):
    if phase == "warmup" and why == "end-good" and LONG == 0:
        continue
    out.write("phase: %s\n" % phase)
    time.sleep(LONG)
    if phase == "PHASE":
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_UN)
out.write("sample: 10 us\nphase: teardown\n")
`

// A launch that waits for what one holds that stands still goes on once that one is ended, and counts. One that was only
// stopped in its work goes on with it instead.
func TestHeadStartThatHoldsALock(t *testing.T) {
	needsPython(t)
	for _, c := range []struct{ phase, warmup string }{{"warmup", "0"}, {"check", "0"}, {"warmup", "0.05"}, {"check", "0.05"}} {
		t.Run(c.phase+" "+c.warmup, func(t *testing.T) {
			t.Parallel()
			compiles := c.warmup != "0" // beside others, since it warms up afterwards
			body := []fixtures.Change{fixtures.Write("bench.py", strings.NewReplacer("PHASE", c.phase, "LONG", c.warmup).Replace(lockingBench))}
			b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, body, append(body, fixtures.Write("next", "")))
			p := b.early(func(c *Config) { c.Recipe.SampleMetric = "t" })
			for i, r := range []bisect.Request{b.timed(bisect.EndGood, 0), b.timed(bisect.ConfirmParent, 0), b.timed(bisect.ConfirmCulprit, 1)} {
				if i == 1 {
					Soon(p, []bisect.Request{b.timed(bisect.ConfirmCulprit, 1)})
				}
				o, err := p.Sample(t.Context(), r)
				if err != nil || o.Class != bisect.OK || len(o.Repeated) > 0 {
					t.Errorf("%s: %v, %v; made again: %v", r.Purpose, o.Describe(), err, o.Repeated)
				}
				if culprit := b.timed(bisect.ConfirmCulprit, 1); i == 1 && p.headStart.Has(culprit) != compiles {
					t.Errorf("the culprit was ended: %v", compiles)
				}
			}
		})
	}
}

// exclusiveBench cannot compile beside another one, and leaves a lock behind if it is killed meanwhile.
const exclusiveBench = `import os, sys, time
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
lock, why = os.environ["BENCH_LOG"] + "-lock", os.environ["KBISECT_PURPOSE"]
held, end = lock + "-held", time.monotonic() + 20
time.sleep(0.4)
out.write("phase: compile\n")
while why == "confirm-parent" and not os.path.exists(held) and time.monotonic() < end:
    time.sleep(0.01)
try:
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
except FileExistsError:
    sys.exit(3)
if why == "confirm-culprit":
    open(held, "w").close()
    time.sleep(1)
os.remove(lock)
for phase in ("warmup", "measure"):
    out.write("phase: %s\n" % phase)
    time.sleep(0.1)
out.write("sample: 10 us\nphase: teardown\n")
`

// A launch that has begun is not killed while it works, so that it leaves no lock behind for the one that failed beside it or for
// those after that.
func TestHeadStartLeavesNoLock(t *testing.T) {
	needsPython(t)
	for _, next := range []bisect.Purpose{bisect.ConfirmParent, bisect.Searching} {
		t.Run(string(next), func(t *testing.T) {
			t.Parallel()
			body := []fixtures.Change{fixtures.Write("bench.py", exclusiveBench)}
			b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, body, append(body, fixtures.Write("next", "")), append(body, fixtures.Write("next", "1")))
			p := b.early(func(c *Config) { c.Recipe.SampleMetric = "t" })
			culprit := b.timed(bisect.ConfirmCulprit, 2)
			for i, r := range []bisect.Request{b.timed(bisect.EndGood, 0), b.timed(next, 0), b.timed(bisect.Searching, 1), culprit} {
				Soon(p, nil)
				if i == 1 {
					Soon(p, []bisect.Request{culprit})
				}
				o, err := p.Sample(t.Context(), r)
				if again := len(o.Repeated) > 0; err != nil || o.Class != bisect.OK || again && i != 1 && i != 2 {
					t.Errorf("%s: %v, %v; made again: %v", r.Purpose, o.Describe(), err, o.Repeated)
				}
				if i == 1 && next == bisect.ConfirmParent && len(o.Repeated) != 1 {
					t.Error("it was not launched beside the culprit")
				}
			}
			if p.headStart.Begun() > 0 {
				t.Error("what was not wanted any more is still there")
			}
		})
	}
}

// silentBench says nothing. It takes a while to fill empty caches, and fails where STATUS is 1.
const silentBench = `import os, sys, time
log = open(os.environ["BENCH_LOG"], "a", buffering=1)
cache = os.environ["TRITON_CACHE_DIR"] + "/kernel"
name = "%s-%s" % (os.environ["KBISECT_PURPOSE"], os.getpid())
cold = not os.path.exists(cache)
log.write("%s begun %f\n" % (name, time.monotonic()))
time.sleep(1.2)
if cold:
    os.makedirs(os.path.dirname(cache), exist_ok=True)
    open(cache, "w").close()
log.write("%s %s %f\n" % (name, "cold" if cold else "warm", time.monotonic()))
sys.exit(STATUS)
`

// A program that says nothing runs to its end beside others where results alone count, on a device with processors to spare.
// Its outcome tells so, and it can be launched again with nothing beside it and what it compiled.
func TestSilentProgramsRunFreely(t *testing.T) {
	needsPython(t)
	body := func(status string) []fixtures.Change {
		return []fixtures.Change{fixtures.Write("bench.py", strings.ReplaceAll(silentBench, "STATUS", status))}
	}
	for _, eager := range []bool{true, false} {
		t.Run(fmt.Sprint("processors to spare ", eager), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, body("0"), body("1"), body("0 "), body("1 "))
			p := b.early(func(c *Config) {
				c.Eager = eager
				c.Devices = idleDevice()
			})
			of := func(why bisect.Purpose, commit, nth int) bisect.Request {
				r := bisect.Request{Purpose: why, Candidate: bisect.Candidate{Commit: b.ids[commit]}, Nth: nth, AnyStart: !why.IsEnd() || nth > 0}
				r.Clean = why == bisect.ConfirmParent || why == bisect.ConfirmCulprit
				return r
			}
			good, bad := of(bisect.EndGood, 0, 0), of(bisect.EndBad, 1, 0)
			search, parent, culprit := of(bisect.Searching, 2, 0), of(bisect.ConfirmParent, 2, 0), of(bisect.ConfirmCulprit, 3, 0)
			again := of(bisect.ConfirmCulprit, 3, 2000)
			for _, x := range []struct {
				request bisect.Request
				soon    []bisect.Request
				class   bisect.Class
				beside  bool
			}{
				{good, []bisect.Request{bad}, bisect.OK, true}, {bad, nil, bisect.Wrong, true}, {of(bisect.EndBad, 1, 2000), nil, bisect.Wrong, false},
				{search, []bisect.Request{parent, culprit}, bisect.OK, true}, {parent, []bisect.Request{parent, culprit}, bisect.OK, true},
				{culprit, []bisect.Request{culprit}, bisect.Wrong, true}, {again, nil, bisect.Wrong, false},
			} {
				if Soon(p, x.soon); x.soon == nil {
					Quiet(p)
				}
				o, err := p.Sample(t.Context(), x.request)
				if err != nil || o.Class != x.class || o.Beside != (x.beside && eager) || len(o.Repeated) > 0 {
					t.Errorf("%s %d: %v, %v; beside others: %v; made again: %v", x.request.Purpose, x.request.Nth, o.Describe(), err, o.Beside, o.Repeated)
				}
			}
			text, err := os.ReadFile(filepath.Join(b.home, "log"))
			if err != nil {
				t.Fatal(err)
			}
			begun, over, order := map[string]float64{}, map[string]float64{}, []string{}
			cold := 0
			for line := range strings.Lines(string(text)) {
				var name, what string
				var at float64
				if _, err := fmt.Sscan(line, &name, &what, &at); err != nil {
					t.Fatal(err)
				}
				if what == "begun" {
					begun[name], order = at, append(order, name)
					continue
				}
				if over[name] = at; what == "cold" {
					cold++
				}
			}
			last := order[len(order)-1]
			for name, end := range over {
				if name != last && end > begun[last] {
					t.Errorf("%s ran beside the last one:\n%s", name, text)
				}
			}
			// The search finds what the ends compiled, the last launch what the first one of its proof did, and the bad end made again
			// what it compiled the first time.
			if len(order) != 7 || cold != 4 || !strings.HasPrefix(last, "confirm-culprit") {
				t.Errorf("%d of %d launches were cold, want 4 of 7:\n%s", cold, len(order), text)
			}
		})
	}
}

// slowToCompile compiles for 3.2 s what it has not compiled yet, by a name that all candidates share, as torch's extensions do.
const slowToCompile = `import os, time
log = open(os.environ["BENCH_LOG"], "a", buffering=1)
who = "%s-%s" % (os.environ["KBISECT_PURPOSE"], KERNEL)
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
def note(what):
    log.write("%s %s %f %d\n" % (who, what, time.monotonic(), os.getpid()))
note("begun")
time.sleep(0.4)
out.write("phase: compile\n")
built = os.environ["TORCH_EXTENSIONS_DIR"] + "/kernel"
try:
    old = open(built).read()
except OSError:
    old = ""
if old != "KERNEL":
    time.sleep(3.2)
    os.makedirs(os.path.dirname(built), exist_ok=True)
    open(built, "w").write("KERNEL")
    note("compiled")
out.write("phase: warmup\n")
time.sleep(0.5)
out.write("phase: measure\n")
note("measures")
time.sleep(0.2)
note("measured")
out.write("sample: %d us\nphase: teardown\n" % (KERNEL + int(open(built).read())))
`

// Where the good end compiles for long and there are processors to spare, the commits that the search asks for next compile beside
// one another, in workspaces of their own. They take their times one after the other, in their turn, and what is not wanted ends.
func TestSearchCompilesAhead(t *testing.T) {
	needsPython(t)
	t.Parallel()
	var commits [][]fixtures.Change
	for i := range 6 {
		commits = append(commits, []fixtures.Change{fixtures.Write("bench.py", strings.ReplaceAll(slowToCompile, "KERNEL", fmt.Sprint(i+1)))})
	}
	b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, commits...)
	p := b.early(func(c *Config) { c.Eager, c.Recipe.SampleMetric = true, "t" })
	p.room = capacity.New(8)
	sample := func(why bisect.Purpose, i, nth int, soon ...bisect.Request) {
		t.Helper()
		Soon(p, soon)
		r := b.timed(why, i)
		r.Nth = nth
		o, err := p.Sample(t.Context(), r)
		if err != nil || o.Class != bisect.OK || len(o.Repeated) > 0 || len(o.Series) == 0 || math.Abs(o.Series[0].Values[0]*1e6-float64(2*(i+1))) > 1e-9 {
			t.Errorf("%s %d: %v, %v, %v; made again: %v", why, i, o.Describe(), err, o.Series, o.Repeated)
		}
	}
	sample(bisect.EndGood, 0, 0)
	p.together, p.fit = true, 8 // as with a device
	two, three, four, five := b.timed(bisect.Searching, 1), b.timed(bisect.Searching, 2), b.timed(bisect.Searching, 3), b.timed(bisect.Searching, 4)
	sample(bisect.EndBad, 5, 0, two, three, four, five)
	sample(bisect.Searching, 2, 0, three, two, five)
	if p.headStart.Has(four) {
		t.Error("what is not wanted any more goes on")
	}
	sample(bisect.Searching, 4, 0, five, two)
	sample(bisect.Searching, 2, 1, two)
	sample(bisect.Searching, 1, 0, two)
	text, err := os.ReadFile(filepath.Join(b.home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	first, n, busy := map[string]float64{}, map[string]int{}, ""
	for line := range strings.Lines(string(text)) {
		var who, what string
		var at float64
		if _, err := fmt.Sscan(line, &who, &what, &at); err != nil {
			t.Fatal(err)
		}
		if n[who+" "+what]++; n[who+" "+what] == 1 {
			first[who+" "+what] = at
		}
		switch {
		case what == "measures" && busy != "", what == "measured" && busy != who:
			t.Errorf("%s %s while %q takes times:\n%s", who, what, busy, text)
		case what == "measures":
			busy = who
		case what == "measured":
			busy = ""
		}
	}
	for _, who := range []string{"search-2", "search-3", "search-5"} {
		if first[who+" begun"] > first["end-bad-6 measured"] || n[who+" compiled"] != 1 {
			t.Errorf("%s has not compiled once, beside the bad end:\n%s", who, text)
		}
	}
	if n["search-4 measured"] > 0 {
		t.Errorf("what was not wanted any more took times:\n%s", text)
	}
}

// Whether the ends have compiled at the same time shows in how long each of them took: one may have waited for the other.
func TestEndsThatCompileTogether(t *testing.T) {
	needsPython(t)
	work := "    time.sleep(3.2)\n"
	for name, compile := range map[string]string{"together": work, "by turns": "    import fcntl\n    fcntl.flock(log, fcntl.LOCK_EX)\n" + work + "    fcntl.flock(log, fcntl.LOCK_UN)\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var commits [][]fixtures.Change
			for _, n := range []string{"1", "2"} {
				text := "# as by kbisect_harness\n" + strings.NewReplacer("KERNEL", n, work, compile).Replace(slowToCompile)
				commits = append(commits, []fixtures.Change{fixtures.Write("bench.py", text)})
			}
			b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, commits...)
			p := b.early(func(c *Config) {
				c.Eager, c.Recipe.SampleMetric = true, "t"
				c.Devices = idleDevice()
			})
			Soon(p, []bisect.Request{b.timed(bisect.EndBad, 1)})
			for i, why := range []bisect.Purpose{bisect.EndGood, bisect.EndBad} {
				if o, err := p.Sample(t.Context(), b.timed(why, i)); err != nil || o.Class != bisect.OK {
					t.Fatalf("%s: %v, %v", why, o.Describe(), err)
				}
			}
			if want := name == "together"; p.together != want || p.compiles < 3 {
				t.Errorf("together: %v, want %v; they compiled for %.1f s", p.together, want, p.compiles)
			}
		})
	}
}

// loadingBench compiles as it loads, which only the probe tells apart: in the good end, and not where times count.
const loadingBench = `import os, time
why = os.environ["KBISECT_PURPOSE"]
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
time.sleep(0.4)
if why == "end-good":
    out.write("phase: extension\n")
    time.sleep(2)
elif why == "confirm-parent":
    time.sleep(7)
for phase in ("compile", "warmup", "measure"):
    out.write("phase: %s\n" % phase)
    time.sleep(0.1)
out.write("sample: 10 us\nphase: teardown\n")
`

// One that takes longer to load than the good end did is not taken for one that waits for a lock, if the good end was seen to
// compile meanwhile.
func TestHeadStartBesideASlowLoad(t *testing.T) {
	needsPython(t)
	t.Parallel()
	body := []fixtures.Change{fixtures.Write("bench.py", loadingBench)}
	b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, body, append(body, fixtures.Write("next", "")))
	p := b.early(func(c *Config) { c.Recipe.SampleMetric = "t" })
	culprit := b.timed(bisect.ConfirmCulprit, 1)
	for i, r := range []bisect.Request{b.timed(bisect.EndGood, 0), b.timed(bisect.ConfirmParent, 0), culprit} {
		if i == 1 {
			Soon(p, []bisect.Request{culprit})
		}
		o, err := p.Sample(t.Context(), r)
		if err != nil || o.Class != bisect.OK || len(o.Repeated) > 0 {
			t.Errorf("%s: %v, %v; made again: %v", r.Purpose, o.Describe(), err, o.Repeated)
		}
		if i == 1 && !p.headStart.Has(culprit) {
			t.Error("the culprit was ended")
		}
	}
}

// compiling is a pipeline in which commits compile ahead, quickly, after both ends. Commit number 3 of 8 runs more lines before it
// is measured.
func compiling(t *testing.T, third string) (b *bench, p *Pipeline, sample func(r bisect.Request, soon ...bisect.Request) bisect.Outcome) {
	needsPython(t)
	t.Parallel()
	text := strings.NewReplacer("time.sleep(3.2)", "time.sleep(0.4)", "note(\"measures\")\n", "note(\"measures\")\nif KERNEL == 3:\n    "+third+"\n").Replace(slowToCompile)
	var commits [][]fixtures.Change
	for i := range 8 {
		commits = append(commits, []fixtures.Change{fixtures.Write("bench.py", strings.ReplaceAll(text, "KERNEL", fmt.Sprint(i+1)))})
	}
	b = newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, commits...)
	p = b.early(func(c *Config) {
		c.Eager, c.Recipe.SampleMetric = true, "t"
		c.Devices = idleDevice()
	})
	sample = func(r bisect.Request, soon ...bisect.Request) bisect.Outcome {
		t.Helper()
		Soon(p, soon)
		o, err := p.Sample(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	sample(b.timed(bisect.EndGood, 0))
	sample(b.timed(bisect.EndBad, 7))
	p.room, p.compiles, p.together, p.fit = capacity.New(8), worthCompiling, true, 8
	times := maps.Clone(p.reference.Times)
	for phase := range times { // on a busy machine a phase may take long without waiting for another launch
		times[phase] += time.Minute
	}
	p.reference.Times = times
	return b, p, sample
}

// A resumed search, which knows the ends without a launch of them, learns from its first launch how long a commit compiles.
func TestResumedSearchLearnsHowLongItCompiles(t *testing.T) {
	b, p, sample := compiling(t, "pass")
	p.compiles, p.together = 0, false
	if sample(b.timed(bisect.Searching, 1)); p.compiles < 0.3 || p.together {
		t.Errorf("%.2f s, together: %v", p.compiles, p.together)
	}
}

// Where results count, the next commits of the search compile beside one another once one had to compile for long what the ends had
// not. A commit that finds what an end has compiled shows nothing of that kind.
func TestSearchForResultsCompilesAhead(t *testing.T) {
	needsPython(t)
	t.Parallel()
	const kernel = "(8 if KERNEL > 6 else max(KERNEL, 3))" // the first three have that of the good end, the last two that of the bad one
	text := strings.NewReplacer(`"TORCH_EXTENSIONS_DIR"] + "/kernel"`, `"TRITON_CACHE_DIR"] + "/%d" % `+kernel, `old != "KERNEL"`, `not old`,
		"out.write(\"phase: measure\\n\")", "out.write(\"phase: check\\n\")", `out.write("sample: %d us\nphase: teardown\n" % (KERNEL + int(open(built).read())))`, `raise SystemExit(KERNEL > 4)`).Replace(slowToCompile)
	var commits [][]fixtures.Change
	for i := range 8 {
		commits = append(commits, []fixtures.Change{fixtures.Write("bench.py", strings.ReplaceAll(text, "KERNEL", fmt.Sprint(i+1)))})
	}
	b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, commits...)
	p := b.early(func(c *Config) {
		c.Eager = true
		c.Devices = idleDevice()
	})
	p.room = capacity.New(8)
	of := func(why bisect.Purpose, commit int) bisect.Request {
		return bisect.Request{Purpose: why, Candidate: bisect.Candidate{Commit: b.ids[commit]}, AnyStart: !why.IsEnd()}
	}
	soon := []bisect.Request{of(bisect.Searching, 2), of(bisect.Searching, 3), of(bisect.Searching, 5), of(bisect.Searching, 6)}
	for i, r := range append([]bisect.Request{of(bisect.EndGood, 0), of(bisect.EndBad, 7)}, soon...) {
		want := bisect.OK
		if r.Candidate == soon[2].Candidate || r.Candidate == soon[3].Candidate || r.Purpose == bisect.EndBad {
			want = bisect.Wrong
		}
		Soon(p, soon[max(0, i-2):])
		if o, err := p.Sample(t.Context(), r); err != nil || o.Class != want || len(o.Repeated) > 0 {
			t.Errorf("%s: %v, %v; made again: %v", r.Purpose, o.Describe(), err, o.Repeated)
		}
	}
	data, err := os.ReadFile(filepath.Join(b.home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	log := string(data)
	for before, want := range map[string]int{"search-3 measured": 1, "search-4 measured": 2, "search-6 measures": 4} {
		if first, _, _ := strings.Cut(log, before); strings.Count(first, " begun")-2 != want {
			t.Errorf("%d had begun before %s, want %d:\n%s", strings.Count(first, " begun")-2, before, want, log)
		}
	}
	for who, want := range map[string]int{"search-3": 0, "search-4": 1, "search-6": 1, "search-7": 0} {
		if n := strings.Count(log, who+" compiled"); n != want || strings.Count(log, who+" measured") != 1 {
			t.Errorf("%s compiled %d times, want %d:\n%s", who, n, want, log)
		}
	}
}

// What a launch uses that has little to compile says nothing of those that compile.
func TestRoomIsThatOfWhatCompiles(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("NOT TESTED: there is one processor")
	}
	p := &Pipeline{room: capacity.New(0)}
	for _, seconds := range []float64{60, 0.5} {
		o := bisect.Outcome{Wall: seconds + 0.5, CPU: 60, Phases: []bisect.PhaseTime{{Name: "compile", Seconds: seconds}}}
		learnCompiling(p, &workspace.Workspace{}, bisect.Request{Purpose: bisect.EndGood}, trial.Launched{Outcome: o}, false)
	}
	if !p.room.Admits(1, 0) || p.compiles != 60 {
		t.Errorf("no room for a second one, after %.0f s", p.compiles)
	}
}

// cachingBench notes whether it was started early, and fills caches if told to. Early, it takes a microsecond more.
const cachingBench = `import os, time
from many import early
name = "%s early %s" % (os.environ["KBISECT_PURPOSE"], early)
out = os.fdopen(int(os.environ["KBISECT_FD"]), "w", buffering=1)
out.write("phase: compile\n")
kernel = os.environ["TRITON_CACHE_DIR"] + "/kernel"
if COMPILES and not os.path.exists(kernel):
    os.makedirs(os.path.dirname(kernel), exist_ok=True)
    open(kernel, "w").close()
    name += " compiled"
with open(os.environ["BENCH_LOG"], "a") as log:
    log.write(name + "\n")
out.write("phase: warmup\n")
time.sleep(0.5)
out.write("phase: measure\n")
out.write("sample: %d us\nphase: teardown\n" % (US + early))
`

// The first process of each side of a proof starts early if it is to fill caches alone. Where it has filled none it does not count,
// but one that is started as ever.
func TestProofsFillCachesEarly(t *testing.T) {
	needsPython(t)
	site := t.TempDir()
	var imports strings.Builder
	for i := range 220 {
		fmt.Fprintf(&imports, "import m%d\n", i)
		if err := os.WriteFile(filepath.Join(site, fmt.Sprintf("m%d.py", i)), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(site, "many.py"), []byte(imports.String()+"import sys, time\ntime.sleep(0.4)\nearly = not hasattr(sys.modules['__main__'], '__file__')\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name       string
		eager      bool
		ends, side string // whether they compile
		fills      bool   // its first process starts early
		want       []string
		processes  int // the last of which counts
	}{
		{"it fills caches", true, "True", "True", true, []string{"early True compiled"}, 2},
		{"it has none to fill", true, "True", "False", true, []string{"early True", "early False"}, 2},
		{"nothing fills caches", true, "False", "False", false, []string{"early False"}, 1},
		{"few processors", false, "True", "True", false, []string{"early False compiled"}, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			body := func(compiles, us string) []fixtures.Change {
				return []fixtures.Change{fixtures.Write("bench.py", strings.NewReplacer("COMPILES", compiles, "US", us).Replace(cachingBench))}
			}
			b := newBench(t, kernels.Plan{Run: []string{"python3", "bench.py"}}, trial.Limits{Run: time.Minute}, body(x.ends, "50"), body(x.side, "70"), body(x.ends, "90"))
			b.recipe.Env = append(b.recipe.Env, "PYTHONPATH="+site)
			p := b.early(func(c *Config) { c.Eager, c.Recipe.SampleMetric, c.Recipe.Env = x.eager, "t", b.recipe.Env })
			for _, r := range []bisect.Request{b.timed(bisect.EndGood, 0), b.timed(bisect.EndBad, 2)} {
				for r.Nth = range 2 {
					if o, err := p.Sample(t.Context(), r); err != nil || o.Class != bisect.OK {
						t.Fatal(o.Describe(), err)
					}
				}
			}
			good := b.timed(bisect.EndGood, 0)
			good.Nth = 2
			imports := func(w *workspace.Workspace) bool { return !p.prestart.Ready(w) }
			for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) { // a few import at a time
				if expect(p, orderOf(p, good, 1)); (len(p.workspaces.next) > 0) != x.fills || !slices.ContainsFunc(p.workspaces.next, imports) {
					break
				}
			}
			parent := b.timed(bisect.ConfirmParent, 1)
			parent.Clean = true
			o, err := p.Sample(t.Context(), parent)
			if err != nil || o.Class != bisect.OK || len(o.Series) == 0 {
				t.Fatal(o.Describe(), err)
			}
			text, err := os.ReadFile(filepath.Join(b.home, "log"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(string(text)) {
				if what, is := strings.CutPrefix(strings.TrimSpace(line), "confirm-parent "); is {
					got = append(got, what)
				}
			}
			if len(got) != x.processes || !slices.Equal(got[:len(x.want)], x.want) {
				t.Fatalf("its processes: %q, want %d, of which the first are %q\n%s", got, x.processes, x.want, text)
			}
			want := map[bool]float64{true: 71e-6, false: 70e-6}[strings.HasPrefix(got[len(got)-1], "early True")]
			if math.Abs(o.Series[0].Values[0]-want) > 1e-12 {
				t.Errorf("it took %g s, its last process %g s", o.Series[0].Values[0], want)
			}
		})
	}
}

// made counts how often a commit was compiled for the search.
func (b *bench) made(commit int) int {
	text, err := os.ReadFile(filepath.Join(b.home, "log"))
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Count(string(text), fmt.Sprintf("search-%d compiled", commit+1))
}

// After a contradiction nothing is left of what was compiled ahead.
func TestContradictionForgetsWhatCompiledAhead(t *testing.T) {
	b, p, sample := compiling(t, "pass")
	var soon []bisect.Request
	for i := 1; i < 5; i++ {
		soon = append(soon, b.timed(bisect.Searching, i))
	}
	for i, r := range soon {
		sample(r, soon[i:]...)
	}
	p.Clean()
	for i, r := range soon {
		r.Nth = 1
		if sample(r); b.made(i+1) != 2 {
			t.Errorf("commit %d was compiled %d times", i+1, b.made(i+1))
		}
	}
}

// What has begun with caches that others have filled does not answer a request for a launch that finds none.
func TestWhatHasBegunAnswersItsRequestOnly(t *testing.T) {
	b, p, sample := compiling(t, "pass")
	next := b.timed(bisect.Searching, 2)
	sample(b.timed(bisect.Searching, 1), next)
	if !p.headStart.Has(next) {
		t.Fatal("it has not begun")
	}
	next.Timing = false
	if p.headStart.Has(next) {
		t.Error("another request has begun as well")
	}
	if o := sample(next, next); o.Class != bisect.OK || b.made(2) != 2 {
		t.Errorf("%v; it was compiled %d times", o.Describe(), b.made(2))
	}
}

// A commit that fails, alone too, does not keep others from compiling ahead; one that fails beside others only does.
func TestFailureBesideOthers(t *testing.T) {
	for name, c := range map[string]struct {
		third string
		goes  bool
	}{
		"alone too":     {"raise SystemExit(1)", true},
		"beside others": {`if any(x.startswith("search-4 begun") and os.path.exists("/proc/" + x.split()[3]) for x in open(log.name)): raise SystemExit(1)`, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, p, sample := compiling(t, c.third)
			three, four, five := b.timed(bisect.Searching, 2), b.timed(bisect.Searching, 3), b.timed(bisect.Searching, 4)
			sample(b.timed(bisect.Searching, 1), three, four)
			if o := sample(three, three, four); len(o.Repeated) != 1 || (o.Class == bisect.OK) == c.goes {
				t.Errorf("%v; made again: %v", o.Describe(), o.Repeated)
			}
			sample(four, four, five)
			if p.headStart.Has(five) != c.goes {
				t.Errorf("the next one has begun: %v", !c.goes)
			}
		})
	}
}
