package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/bisect/sets/lattice"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/capacity"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/memory"
	"github.com/kbisect/kbisect/pipeline/slots"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// virtual runs trials of a planted truth that take as long as their outcome says, on a virtual clock.
type virtual struct {
	truth func(bisect.Request) bisect.Outcome
}

func (v virtual) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o := v.truth(r)
	over, cancel := context.WithTimeout(ctx, time.Duration(o.Wall*float64(time.Second))) // no timer's channel, see the pipeline's slots_test.go
	defer cancel()
	<-over.Done()
	if err := context.Cause(ctx); err != nil {
		return bisect.Outcome{}, err
	}
	return o, nil
}

// virtualJob is a job with n slots whose trials are virtual.
func virtualJob(n int, truth func(bisect.Request) bisect.Outcome) *session.Session {
	j := &session.Session{
		Policy: &policy.Policy{Seed: 1, Jobs: n}, Display: progress.New(io.Discard, true, false), Devices: &session.Devices{},
		Record: &store.Session{}, Began: time.Now(), KeptSteps: 1 << 30,
	}
	for range n {
		j.Pipes = append(j.Pipes, &pipeline.Pipeline{})
	}
	j.Pipe = j.Pipes[0]
	j.Slots = &slots.Slots{Alone: j.Alone, Keep: func(r bisect.Request, o bisect.Outcome) error {
		_, err := j.Ledger.Keep(r, o)
		return err
	}}
	for range n {
		j.Slots.Each = append(j.Slots.Each, virtual{truth})
	}
	j.Ledger = &memory.Sampler{Next: j.Slots, Known: map[bisect.TrialID][]bisect.Outcome{}, Used: func(r bisect.Request, o bisect.Outcome) {
		j.Launches = append(j.Launches, report.Launch{Candidate: r.Candidate, Purpose: r.Purpose, Nth: r.Nth, Outcome: o})
	}}
	j.Memory = j.Ledger
	return j
}

// ended is what a launch shows that is bad, or good.
func ended(bad bool, class bisect.Class, r bisect.Request) bisect.Outcome {
	o := bisect.Outcome{Class: bisect.OK, Wall: 12}
	if !bad {
		return o
	}
	o = bisect.Outcome{Class: class, Phase: "run", Wall: 12}
	if class == bisect.Timeout {
		if o.Wall, o.Whole = 180, true; r.Hurry != "" {
			o.Wall, o.Early = max(bisect.Patience(12), 2*r.Past), true
		}
	}
	return o
}

// lasts runs a search with n slots and returns how long it took and how many launches it made. Repeated from its
// ledger it must make none.
func lasts(t *testing.T, n int, truth func(bisect.Request) bisect.Outcome, search func(context.Context, *session.Session) error) (took time.Duration, launches int) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		j := virtualJob(n, truth)
		if err := search(t.Context(), j); err != nil {
			t.Error(err)
		}
		made := func() (n int) {
			for _, trials := range j.Ledger.Known {
				n += len(trials)
			}
			return n
		}
		took, launches = time.Since(began), made()
		again := virtualJob(n, truth)
		again.Ledger.Known = j.Ledger.Known
		if err := search(t.Context(), again); err != nil || made() > launches {
			t.Errorf("%d launches more by the same ledger, %v", made()-launches, err)
		}
	})
	return took, launches
}

// A launch beside others counts if it passed, or failed exactly as the bad end did in the search or as the first one of the
// culprit's proof; else it is made again alone, and what the first one opened stays known.
func TestBesideOthersInAnotherWay(t *testing.T) {
	bad := bisect.Outcome{Class: bisect.Wrong, Phase: "run", Exit: 1, Error: "ValueError", Wall: 1}
	for _, x := range []struct {
		name   string
		change func(*bisect.Outcome)
		why    bisect.Purpose
		nth    int
		again  bool
	}{
		{"as the bad end", func(*bisect.Outcome) {}, bisect.Searching, 0, false},
		{"in a proof", func(*bisect.Outcome) {}, bisect.ConfirmParent, 0, true},
		{"the culprit", func(*bisect.Outcome) {}, bisect.ConfirmCulprit, 0, false},
		{"the culprit once more", func(*bisect.Outcome) {}, bisect.ConfirmCulprit, 1, true},
		{"the bad end", func(*bisect.Outcome) {}, bisect.EndBad, 0, true},
		{"the bad end passed", func(o *bisect.Outcome) { *o = bisect.Outcome{Class: bisect.OK} }, bisect.EndBad, 0, true},
		{"it passed", func(o *bisect.Outcome) { *o = bisect.Outcome{Class: bisect.OK} }, bisect.ConfirmParent, 0, false},
		{"another exception", func(o *bisect.Outcome) { o.Error = "OutOfMemoryError" }, bisect.Searching, 0, true},
		{"another exit code", func(o *bisect.Outcome) { o.Exit = 2 }, bisect.Searching, 0, true},
		{"another phase", func(o *bisect.Outcome) { o.Phase = "build" }, bisect.Searching, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			j := virtualJob(1, func(bisect.Request) bisect.Outcome { return bad })
			j.Launches = []report.Launch{
				{Purpose: bisect.EndGood, Outcome: bisect.Outcome{Class: bisect.OK}}, {Purpose: bisect.EndBad, Outcome: bad},
			}
			r := bisect.Request{Candidate: bisect.Candidate{Commit: "c"}, Purpose: x.why, Nth: x.nth}
			o := bad
			x.change(&o)
			o.Beside, o.Opened = true, []string{"check.py"}
			j.Ledger.Known[r.ID()] = []bisect.Outcome{o}
			got, err := (&careful{session: j}).Sample(t.Context(), r)
			if got.Beside == x.again || len(got.Opened) != 1 || err != nil && !errors.Is(err, errDiffer) {
				t.Errorf("%s: made again %v, %v", x.name, !got.Beside, err)
			}
		})
	}
}

// A commit whose launches all ran beside others gets one alone before a proof rests on it.
func TestCrowded(t *testing.T) {
	c := bisect.Candidate{Commit: "c"}
	id := func(why bisect.Purpose, nth int) bisect.TrialID {
		return bisect.TrialID{Candidate: c, Purpose: why, Nth: nth}
	}
	beside, alone := []bisect.Outcome{{Beside: true}}, []bisect.Outcome{{}}
	for _, x := range []struct {
		made [3][]bisect.Outcome
		want bool
	}{
		{[3][]bisect.Outcome{beside, beside, beside}, true}, {[3][]bisect.Outcome{beside, alone, beside}, false}, {[3][]bisect.Outcome{beside, nil, beside}, false},
	} {
		j := virtualJob(1, nil)
		j.Ledger.Known[id(bisect.Searching, 0)], j.Ledger.Known[id(bisect.ConfirmParent, 0)], j.Ledger.Known[id(bisect.ConfirmParent, 1)] = x.made[0], x.made[1], x.made[2]
		j.Ledger.Known[bisect.TrialID{Candidate: bisect.Candidate{Commit: "other"}}] = alone
		if got := crowded(j, c); got != x.want {
			t.Errorf("%v: %v", x.made, got)
		}
	}
}

// A search over sets comes to the same finding by the same tests with any number of slots, and takes less time with
// more of them.
func TestSlotsSearchSets(t *testing.T) {
	t.Parallel()
	for _, class := range []bisect.Class{bisect.Wrong, bisect.Timeout} {
		var took [5]time.Duration
		var launches [5]int
		for seed := range uint64(5) {
			rng := rand.New(rand.NewPCG(seed, 13))
			atoms := 4 + rng.IntN(28)
			var guilty []sets.Set
			for range 1 + rng.IntN(2) {
				guilty = append(guilty, sets.Of(rng.Perm(atoms)[:1+rng.IntN(3)]...))
			}
			truth := func(r bisect.Request) bisect.Outcome {
				on, _ := lattice.ParseKey(r.Candidate.Assign)
				return ended(slices.ContainsFunc(guilty, func(g sets.Set) bool { return g.In(on) }), class, r)
			}
			space, err := sets.NewSpace(make([]sets.Atom, atoms))
			if err != nil {
				t.Fatal(err)
			}
			var first sets.Finding
			for _, n := range []int{1, 2, 4} {
				d, made := lasts(t, n, truth, func(ctx context.Context, j *session.Session) error {
					a := axis{space: space, words: sets.Set.Key, goal: sets.All, sampler: j.Memory, class: true, candidate: func(s sets.Set) (bisect.Candidate, error) {
						return bisect.Candidate{Assign: s.Key()}, nil
					}}
					a.again = func() axis { return a }
					made := newSetSearch(j)
					_, err := made.along(ctx, a)
					if err != nil {
						return err
					}
					if n == 1 {
						first = made.found.Finding
					} else if !reflect.DeepEqual(made.found.Finding, first) {
						t.Errorf("%s, seed %d, %d slots: another finding\n%+v\n%+v", class, seed, n, made.found.Finding, first)
					}
					return nil
				})
				took[n], launches[n] = took[n]+d, launches[n]+made
			}
		}
		checkSpeedup(t, class, "sets", took, launches)
	}
}

// checkSpeedup logs the gain of more slots; 2 and 4 slots must take at most a share of the time of one. It is smaller
// for a time-out, which is proven at its full limit with nothing beside it.
func checkSpeedup(t *testing.T, class bisect.Class, what string, took [5]time.Duration, launches [5]int) {
	t.Helper()
	what = string(class) + ", " + what
	two, four := 0.8, 0.6
	if class == bisect.Timeout {
		two, four = 0.95, 0.9
	}
	ratio := func(n int) float64 { return took[n].Seconds() / took[1].Seconds() }
	for _, n := range []int{1, 2, 4} {
		t.Logf("%s: %d slots: %.0f s (%.2f), %d launches", what, n, took[n].Seconds(), ratio(n), launches[n])
	}
	if ratio(2) > two || ratio(4) > four {
		t.Errorf("%s: %.2f and %.2f of the time with 2 and 4 slots, want %.2f and %.2f", what, ratio(2), ratio(4), two, four)
	}
}

// The same for the commits of a history.
func TestSlotsSearchHistory(t *testing.T) {
	t.Parallel()
	for _, class := range []bisect.Class{bisect.Wrong, bisect.Timeout} {
		var took [5]time.Duration
		var launches [5]int
		for seed := range uint64(5) {
			rng := rand.New(rand.NewPCG(seed, 14))
			commits := 2 + rng.IntN(100)
			culprit, broken := rng.IntN(commits), rng.IntN(3*commits)
			truth := func(r bisect.Request) bisect.Outcome {
				var i int
				fmt.Sscanf(r.Candidate.Commit, "%d", &i)
				if i == broken && i != culprit && i != commits-1 {
					return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build", Wall: 3}
				}
				return ended(i >= culprit, class, r)
			}
			var first bisect.Finding
			for _, n := range []int{1, 2, 4} {
				d, made := lasts(t, n, truth, func(ctx context.Context, j *session.Session) error {
					j.Range, j.Policy.Good = lineOf(commits), fmt.Sprintf("%040d", -1)
					f, err := Of(j, j.Policy.Judge).History(ctx)
					if n == 1 {
						first = f
					} else if !reflect.DeepEqual(f, first) {
						t.Errorf("%s, seed %d, %d slots: another finding\n%+v\n%+v", class, seed, n, f, first)
					}
					return err
				})
				took[n], launches[n] = took[n]+d, launches[n]+made
			}
			if len(first.Culprits) != 1 || first.Culprits[0].Commit != fmt.Sprintf("%040d", culprit) {
				if broken < culprit-1 || broken > culprit+1 {
					t.Errorf("%s, seed %d: %s %+v", class, seed, first.Result, first.Culprits)
				}
			}
		}
		checkSpeedup(t, class, "history", took, launches)
	}
}

// crowd runs trials that may share something with those beside them.
type crowd struct {
	virtual
	shares string // what
	*under
}

// under are the trials under way.
type under struct {
	sync.Mutex
	running []bisect.Request
	beside  int // trials that began beside others
}

func (c crowd) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	c.Lock()
	first := r
	if len(c.running) > 0 {
		first = c.running[0]
		c.beside++
	}
	c.running = append(c.running, r)
	c.Unlock()
	o, err := c.virtual.Sample(ctx, r)
	c.Lock()
	defer c.Unlock()
	c.running = slices.DeleteFunc(c.running, func(x bisect.Request) bool { return x == r })
	if err != nil || first == r {
		return o, err
	}
	switch c.shares {
	case "a port: who comes later fails":
		return bisect.Outcome{Class: bisect.Wrong, Phase: "run", Wall: 12, CPU: 9}, nil
	case "a lock: who comes later cannot be tested":
		return bisect.Outcome{Class: bisect.Skip, Phase: "run", Exit: 125, Wall: 12, CPU: 9}, nil
	case "a server: who comes first answers":
		return c.truth(first), nil
	case "a file: who comes later passes":
		return bisect.Outcome{Class: bisect.OK, Wall: 12, CPU: 9}, nil
	}
	return o, nil
}

// Without --jobs trials of a search run beside one another where that pays. Whatever they share, the answer is that of trials
// which run one by one.
func TestTrialsAheadWithCare(t *testing.T) {
	if capacity.New(0).Most() < 2 || capacity.New(0).Short() {
		t.Skip("SKIPPED: two processors and some memory are needed to make two trials at a time")
	}
	t.Parallel()
	for _, shares := range []string{
		"nothing", "nothing, and takes little time", "a port: who comes later fails", "a lock: who comes later cannot be tested",
		"a server: who comes first answers", "a file: who comes later passes",
	} {
		var took [5]time.Duration
		var launches [5]int
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 15))
			commits := 10 + rng.IntN(50)
			culprit := rng.IntN(commits)
			truth := func(r bisect.Request) bisect.Outcome {
				var i int
				fmt.Sscanf(r.Candidate.Commit, "%d", &i)
				o := ended(i >= culprit, bisect.Wrong, r)
				if o.CPU = 9; shares == "nothing, and takes little time" {
					o.CPU = 0.1
				}
				return o
			}
			var first bisect.Finding
			for _, n := range []int{1, 2} {
				took1, made := lasts(t, n, truth, func(ctx context.Context, j *session.Session) error {
					j.Range, j.Policy.Good, j.Policy.Jobs = lineOf(commits), fmt.Sprintf("%040d", -1), 0
					j.Slots.Careful = n > 1
					now := &under{}
					for i := range j.Slots.Each {
						j.Slots.Each[i] = crowd{virtual{truth}, shares, now}
					}
					f, err := Of(j, j.Policy.Judge).History(ctx)
					switch {
					case n == 1:
						first = f
					case len(f.Culprits) != 1 || f.Culprits[0].Commit != fmt.Sprintf("%040d", culprit) || !f.Culprits[0].Confirmed:
						t.Errorf("%s, seed %d: %s %+v, want %d", shares, seed, f.Result, f.Culprits, culprit)
					case !reflect.DeepEqual(f, first):
						t.Errorf("%s, seed %d: another finding\n%+v\n%+v", shares, seed, f, first)
					case shares == "nothing, and takes little time" && now.beside > 0:
						t.Errorf("seed %d: %d launches beside others", seed, now.beside)
					}
					return err
				})
				took[n], launches[n] = took[n]+took1, launches[n]+made
			}
		}
		ratio := took[2].Seconds() / took[1].Seconds()
		t.Logf("%s: %.2f of the time, %d launches, %d one by one", shares, ratio, launches[2], launches[1])
		if shares == "nothing" && ratio > 0.9 { // the ends and half of the proof run alone
			t.Errorf("%.2f of the time", ratio)
		}
	}
}

// lineOf is a range of commits in a line.
func lineOf(commits int) *source.Range {
	line := &source.Range{}
	for i := range commits {
		c := source.RangeCommit{ID: fmt.Sprintf("%040d", i), Key: fmt.Sprint(i)}
		if c.Parents = []string{fmt.Sprintf("%040d", i-1)}; i > 0 {
			c.InRange = []int{i - 1}
		}
		line.Commits = append(line.Commits, c)
	}
	return line
}

// Nothing that shares its processors runs beside the proof of a time-out; trials on their own devices do.
func TestAlone(t *testing.T) {
	ends := []report.Launch{
		{Purpose: bisect.EndGood, Outcome: bisect.Outcome{Class: bisect.OK, Wall: 1}},
		{Purpose: bisect.EndBad, Outcome: bisect.Outcome{Class: bisect.Timeout, Phase: "run", Wall: 9}},
	}
	early := bisect.Request{Purpose: bisect.Searching, Hurry: "run"}
	proof := bisect.Request{Purpose: bisect.ConfirmCulprit}
	for _, x := range []struct {
		r                bisect.Request
		devices          int
		wantAll, noGuess bool
	}{
		{early, 0, false, false}, {proof, 0, true, true}, {proof, 2, false, false},
		{bisect.Request{Purpose: bisect.Searching, Timing: true}, 2, true, true}, {bisect.Request{Purpose: bisect.EndGood, Nth: 3}, 2, true, true},
	} {
		j := &session.Session{Policy: &policy.Policy{}, Devices: &session.Devices{Held: gpu.Held{Watches: make([]*gpu.Watch, x.devices)}}, Launches: ends, Slots: &slots.Slots{}}
		if got := j.Alone(x.r); got != x.wantAll || (len(foresight{session: j}.guess(x.r, 0.5)) == 0) != x.noGuess {
			t.Errorf("%+v on %d devices: alone %v, %d guesses", x.r, x.devices, got, len(foresight{session: j}.guess(x.r, 0.5)))
		}
	}
}
