package pipeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/fixtures/faults"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/memory"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// Whole searches over real processes and a scripted device, into each of which faults of the
// machine are injected that a seed draws. The machine's fault never becomes a word against a commit.

const (
	injections  = 12               // in each test run; make faults makes more
	atATime     = 6                // searches; they sleep more than they compute
	searchSlack = 30 * time.Second // what faults may add to what the trials of a search need
)

func TestInjectedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("the searches take a minute")
	}
	disks := faults.CanMount(t, "a disk that is full or read-only")
	tally := newTally()
	seeds := make(chan uint64)
	var pool sync.WaitGroup
	for range atATime {
		pool.Go(func() {
			for seed := range seeds {
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { inject(t, seed, disks, tally) })
			}
		})
	}
	for _, seed := range faults.Seeds(t, injections) {
		seeds <- seed
	}
	close(seeds)
	pool.Wait()
	t.Log("injections by kind, and how their searches ended:\n" + tally.String())
}

// inject makes one search with faults, and a second one over what the first remembered, without.
func inject(t *testing.T, seed uint64, disks bool, tally *tally) {
	r := newRig(t, seed, disks)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %s", seed, r)
		}
	}()
	first := r.search(true)
	r.healAll()
	tally.add(r.faults, first)
	r.check(first)
	second := r.search(false)
	if second.Result != bisect.Found || second.Culprits[0].Commit != r.planted || !second.Culprits[0].Confirmed {
		t.Errorf("after the faults: %s; the first search ended as %s", r.describe(second), r.describe(first))
	}
	r.nothingLeft()
}

// rig is one search to inject faults into.
type rig struct {
	t       *testing.T
	rng     *mathrand.Rand
	home    string
	session string
	class   string // of the complaint
	style   string // of the build
	repo    *source.Repo
	commits []bisect.Commit
	good    string
	planted string
	faults  []*fault
	kept    map[bisect.TrialID][]byte // as on disk
	device  *device

	pipe    *Pipeline
	trials  int           // requests so far
	need    time.Duration // what the trials took by themselves
	pending sync.WaitGroup
}

// String tells what is needed to understand a failure.
func (r *rig) String() string {
	parts := []string{fmt.Sprintf("%d commits, build %s, complaint %s, planted %s", len(r.commits), cmp.Or(r.style, "none"), r.class, bisect.ShortID(r.planted))}
	for _, f := range r.faults {
		parts = append(parts, f.String())
	}
	return strings.Join(parts, "; ")
}

func newRig(t *testing.T, seed uint64, disks bool) *rig {
	t.Helper()
	r := &rig{t: t, rng: mathrand.New(mathrand.NewPCG(seed, 7)), home: t.TempDir(), session: "fault-" + rand.Text(), kept: map[bisect.TrialID][]byte{}}
	r.class = []string{"wrong", "wrong", "wrong", "wrong", "wrong", "crash", "crash", "crash", "timeout", "timeout", "slow"}[r.rng.IntN(11)]
	r.style = []string{"", "", "copy", "make"}[r.rng.IntN(4)]
	r.history(2 + r.rng.IntN(map[bool]int{true: 2, false: 4}[r.class == "slow"])) // slow takes many launches
	r.device = &device{id: fmt.Sprintf("GPU-%d", seed)}
	for range 1 + r.rng.IntN(3) {
		f := r.draw(disks)
		if f.once && slices.ContainsFunc(r.faults, func(g *fault) bool { return g.once }) {
			continue // of two such on one commit the second is laid to the candidate, as it must be
		}
		r.faults = append(r.faults, f)
	}
	if slices.ContainsFunc(r.faults, func(f *fault) bool { return f.disk }) {
		mountDisk(t, r.disk())
	}
	return r
}

// history builds a repository of n commits after the good end, one of which is planted.
func (r *rig) history(n int) {
	r.t.Helper()
	planted := 1 + r.rng.IntN(n)
	made, err := fixtures.Replay(fixtures.Line(n+1, func(i int) []fixtures.Change {
		prog := program(r.class, i >= planted)
		return []fixtures.Change{
			fixtures.Script("prog.sh", prog), fixtures.Write("n", strconv.Itoa(i)),
			fixtures.Write("Makefile", "prog: prog.sh n\n\tcp prog.sh prog; cat n >>prog\n"),
		}
	}), filepath.Join(r.home, "repo"))
	if err != nil {
		r.t.Fatal(err)
	}
	if r.repo, err = source.Open(made.Dir); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.repo.Close() })
	for i, label := range made.Order[1:] {
		c := bisect.Commit{ID: made.Commits[label], Parents: []string{made.Commits[made.Order[i]]}}
		if i > 0 {
			c.InRange = []int{i - 1}
		}
		r.commits = append(r.commits, c)
	}
	r.good, r.planted = made.Commits["0"], made.Commits[strconv.Itoa(planted)]
}

// program is a candidate: it needs its disk, sends what a trial may send, and misbehaves if it is bad.
func program(class string, bad bool) string {
	lines := []string{"#!/bin/sh", "head -c 20000 /dev/zero >$TMPDIR/scratch || exit 9", "echo phase: warmup >&$KBISECT_FD", "sleep 0.03"}
	sample := "10"
	if bad {
		switch class {
		case "wrong":
			lines = append(lines, "exit 3")
		case "crash":
			lines = append(lines, "kill -SEGV $$")
		case "timeout":
			lines = append(lines, "sleep 60")
		case "slow":
			sample = "13"
		}
	}
	return strings.Join(append(lines, "echo phase: measure >&$KBISECT_FD", "echo sample: "+sample+" us >&$KBISECT_FD", "exit 0", ""), "\n")
}

func (r *rig) plan() kernels.Plan {
	switch r.style {
	case "copy":
		return kernels.Plan{Build: []string{"sh", "-c", "cp prog.sh prog"}, Outputs: []string{"prog"}, Run: []string{"sh", "./prog"}}
	case "make":
		return kernels.Plan{Build: []string{"make", "-s"}, Incremental: true, BuildFiles: []string{"Makefile"}, Run: []string{"sh", "./prog"}}
	}
	return kernels.Plan{Run: []string{"./prog.sh"}}
}

func (r *rig) disk() string { return filepath.Join(r.home, "disk") }

// search makes a pipeline, as a process would that begins or resumes the search, and finds.
func (r *rig) search(faults bool) bisect.Finding {
	r.t.Helper()
	p, err := r.open(faults)
	if err != nil {
		return bisect.Finding{Result: bisect.Broken, Err: err, Suspects: []bisect.SuspectCommit{{Commit: r.planted}}}
	}
	r.pipe, r.trials, r.need = p, 0, 0
	ctx, cancel := context.WithTimeout(r.t.Context(), 4*time.Minute)
	defer cancel()
	remembers := &memory.Sampler{Next: r.sampler(faults), Known: r.known(), Save: r.save, Used: p.Learn}
	s := &search.Search{
		Commits: r.commits, Good: bisect.Candidate{Commit: r.good}, Redo: p.Clean, Sampler: remembers,
		Options: search.Options{Metrics: []metric.Metric{{Name: "t"}}, Effect: 0.03, Error: 0.05},
	}
	began := time.Now()
	f, err := find.Culprits(ctx, s)
	if err != nil {
		r.t.Errorf("the search could not begin: %v", err)
	}
	if took := time.Since(began) - r.need; took > searchSlack {
		r.t.Errorf("the search took %v more than its trials", took)
	}
	r.pending.Wait()
	if err := p.Close(); err != nil && !faults {
		r.t.Error(err)
	}
	return f
}

func (r *rig) open(faults bool) (*Pipeline, error) {
	builds, err := cache.Open(filepath.Join(r.home, "builds"))
	if err != nil {
		return nil, err
	}
	c := Config{
		Recipe:  trial.Recipe{Repo: r.repo, Plan: r.plan(), SampleMetric: "t", Cache: builds, Logs: filepath.Join(r.home, "logs"), Env: os.Environ()},
		Limits:  trial.Limits{Build: 20 * time.Second, Run: 5 * time.Second, Phases: map[string]kernels.Limit{"warmup": {Abs: time.Second}}},
		Session: r.session,
		Dir:     filepath.Join(r.disk(), "work", r.session),
		Devices: []*gpu.Watch{gpu.Scripted(gpu.Device{UUID: r.device.id}, nil, nil)},
	}
	if faults {
		c.Devices = []*gpu.Watch{gpu.Scripted(gpu.Device{UUID: r.device.id}, r.device.read, r.device.events)}
	}
	p, err := New(r.t.Context(), c)
	if err != nil {
		return nil, err
	}
	p.machine.greeting, p.machine.hello = met(), r.greeting(c.Dir) // to compile one for each search takes long
	return p, nil
}

// met is a greeting that is over.
func met() *greeting {
	g := &greeting{cancel: func() {}, over: make(chan struct{})}
	close(g.over)
	return g
}

// greeting is a known-good program that has worked.
func (r *rig) greeting(dir string) *hello {
	h := &hello{Hello: harness.Hello{Name: "sh", Run: []string{"./hello"}}, dir: filepath.Join(dir, "hello"), env: os.Environ(), cookie: r.session + "-hello", worked: true}
	if err := errors.Join(os.MkdirAll(h.dir, 0o777), os.WriteFile(filepath.Join(h.dir, "hello"), []byte("#!/bin/sh\necho hello\n"), 0o777)); err != nil {
		r.t.Fatal(err)
	}
	return h
}

// known is what is on disk.
func (r *rig) known() map[bisect.TrialID][]bisect.Outcome {
	known := map[bisect.TrialID][]bisect.Outcome{}
	for id, data := range r.kept {
		var o bisect.Outcome
		if err := json.Unmarshal(data, &o); err != nil {
			r.t.Fatal(err)
		}
		known[id] = []bisect.Outcome{o}
	}
	return known
}

func (r *rig) save(q bisect.Request, o bisect.Outcome) (bisect.Outcome, error) {
	for _, f := range r.faults {
		if f.kind == "ledger" && f.on {
			return o, fmt.Errorf("write the ledger: %w", os.ErrPermission)
		}
	}
	data, err := json.Marshal(o)
	r.kept[q.ID()] = data
	return o, err
}

// sampler is the pipeline, with faults that begin before or in the trials for which they are drawn.
func (r *rig) sampler(faults bool) bisect.SamplerFunc {
	return func(ctx context.Context, q bisect.Request) (bisect.Outcome, error) {
		if faults {
			for _, f := range r.faults {
				r.turn(ctx, f)
			}
		}
		r.trials++
		o, err := r.pipe.Sample(ctx, q)
		r.need += time.Duration((o.Wall + o.Build) * float64(time.Second))
		return o, err
	}
}

// check holds the finding of a search with faults against what was planted.
func (r *rig) check(f bisect.Finding) {
	r.t.Helper()
	suspected := slices.ContainsFunc(f.Suspects, func(s bisect.SuspectCommit) bool { return s.Commit == r.planted })
	var infra *bisect.InfraError
	var stuck *proc.StuckError
	switch {
	case f.Result == bisect.Found && f.Culprits[0].Commit == r.planted:
	case f.Result == bisect.Inconclusive && suspected:
	case f.Result == bisect.Broken && suspected && (errors.As(f.Err, &infra) || errors.As(f.Err, &stuck)):
	default:
		r.t.Errorf("wrong: %s", r.describe(f))
	}
}

func (r *rig) describe(f bisect.Finding) string {
	s := fmt.Sprintf("%s (%v)", f.Result, f.Err)
	for _, c := range f.Culprits {
		s += fmt.Sprintf(" %s confirmed %v", bisect.ShortID(c.Commit), c.Confirmed)
	}
	for _, c := range f.Suspects {
		s += fmt.Sprintf(" suspect %s", bisect.ShortID(c.Commit))
	}
	if f.Ends.Why != "" {
		s += ", ends: " + f.Ends.Why
	}
	for _, step := range f.Steps {
		s += fmt.Sprintf("\n  %s %s: %s, %s", step.Role, bisect.ShortID(step.Commit), step.Verdict.Call, step.Verdict.Why)
	}
	return s + "\n  warnings: " + strings.Join(f.Warnings, "; ")
}

// nothingLeft looks for processes and folders after the last search.
func (r *rig) nothingLeft() {
	r.t.Helper()
	for _, pid := range carriersOf(r.session) {
		r.t.Errorf("process %d is still there", pid)
	}
	if left, _ := filepath.Glob(filepath.Join(r.disk(), "work", "*")); len(left) > 0 {
		r.t.Errorf("left behind: %q", left)
	}
}

// tally counts how the searches ended into which each kind of fault was injected.
type tally struct {
	mu    sync.Mutex
	count map[string]map[string]int
}

func newTally() *tally { return &tally{count: map[string]map[string]int{}} }

func (c *tally) add(faults []*fault, f bisect.Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range faults {
		if c.count[x.kind] == nil {
			c.count[x.kind] = map[string]int{}
		}
		if x.done {
			c.count[x.kind][string(f.Result)]++
		} else {
			c.count[x.kind]["not reached"]++
		}
	}
}

func (c *tally) String() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c.count)) {
		fmt.Fprintf(&b, "%-24s %v\n", kind, c.count[kind])
	}
	return b.String()
}
