package find

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/search"
)

// findAll searches commits 1..n for every culprit.
func (d *device) findAll(t testing.TB, o search.Options, edit func(*search.Search)) bisect.Finding {
	t.Helper()
	commits := make([]bisect.Commit, d.n)
	for i := range commits {
		commits[i] = bisect.Commit{ID: strconv.Itoa(i + 1), Parents: []string{strconv.Itoa(i)}, Key: "k" + strconv.Itoa(i+1)}
		if i > 0 {
			commits[i].InRange = []int{i - 1}
		}
	}
	b := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "0"}, GoodKey: "k0", Sampler: d, Options: o, All: true}
	if edit != nil {
		edit(b)
	}
	f, err := Culprits(t.Context(), b)
	if err != nil || f.Err != nil {
		t.Fatal(err, f.Err)
	}
	return f
}

// culprits lists class and commit of each culprit.
func culprits(f bisect.Finding) []string {
	var out []string
	for _, c := range f.Culprits {
		out = append(out, string(c.Class)+" "+c.Commit)
	}
	slices.Sort(out)
	return out
}

// Where every commit is probed, the culprits are exactly the commits that fail in a way in which their
// parent, which ended well, does not.
func TestAllNamesEveryBeginning(t *testing.T) {
	ways := []bisect.Outcome{
		{Class: bisect.OK}, {Class: bisect.OK}, {Class: bisect.Crash, Phase: "run"}, {Class: bisect.Wrong}, {Class: bisect.Timeout, Phase: "load"},
		{Class: bisect.BuildFailed, Phase: "build"}, {Class: bisect.Skip},
	}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 5))
		d := newDevice(1+rng.IntN(17), seed)
		truth := make([]bisect.Outcome, d.n+1)
		truth[0].Class = bisect.OK
		var want []string
		for i := 1; i <= d.n; i++ {
			truth[i] = truth[i-1]
			if rng.IntN(3) == 0 || i == d.n {
				truth[i] = ways[rng.IntN(len(ways)-i/d.n)] // the last one is no skip
			}
			built := truth[i-1].Class != bisect.BuildFailed && truth[i-1].Class != bisect.Skip
			if c := truth[i].Class; c != bisect.OK && c != bisect.Skip && (truth[i-1].Class == bisect.OK || c == bisect.BuildFailed && built) {
				want = append(want, string(c)+" "+strconv.Itoa(i))
			}
		}
		slices.Sort(want)
		d.class = func(i int) bisect.Outcome {
			if truth[i].Class == bisect.OK {
				return bisect.Outcome{}
			}
			return truth[i]
		}
		f := d.findAll(t, plain, nil)
		if got := culprits(f); !slices.Equal(got, want) {
			t.Fatalf("seed %d: named %v, want %v\n%v\n%s %q", seed, got, want, truth, f.Result, f.Warnings)
		}
		if d.launches > 3*d.n+8*len(want)+28 { // each is proven by several launches of its parent
			t.Errorf("seed %d: %d launches for %d commits and %d culprits", seed, d.launches, d.n, len(want))
		}
	}
}

// In a long range the probes find a stretch of any kind that is longer than their distance.
func TestAllFindsStretchesThatWereMended(t *testing.T) {
	d := newDevice(256, 1)
	d.class = func(i int) bisect.Outcome {
		switch {
		case i >= 40 && i < 70, i >= 120 && i < 150, i >= 230:
			return bisect.Outcome{Class: bisect.Crash, Phase: "run"}
		case i >= 180 && i < 200:
			return bisect.Outcome{Class: bisect.Wrong}
		}
		return bisect.Outcome{}
	}
	f := d.findAll(t, plain, nil)
	if got := culprits(f); !slices.Equal(got, []string{"crash 120", "crash 230", "crash 40", "wrong 180"}) || f.Result != bisect.Found || d.launches > 80 {
		t.Errorf("%v %v, %d launches, %q", got, f.Result, d.launches, f.Warnings)
	}
	d = newDevice(256, 1) // the ends are alike
	d.class = func(i int) bisect.Outcome {
		if i >= 100 && i < 130 {
			return bisect.Outcome{Class: bisect.Timeout, Phase: "load"}
		}
		return bisect.Outcome{}
	}
	f = d.findAll(t, search.Options{Find: bisect.Timeout}, nil)
	if got := culprits(f); !slices.Equal(got, []string{"timeout 100"}) || f.Complaint.Class != bisect.Timeout {
		t.Errorf("equal ends: %v %v %q", got, f.Result, f.Warnings)
	}
	f = newDevice(256, 1).findAll(t, search.Options{Find: bisect.Timeout}, nil)
	if f.Result != bisect.NoDifference || len(f.Culprits) > 0 {
		t.Errorf("nothing to find: %v %v", f.Result, f.Culprits)
	}
}

// A slow metric, and commits on the way that fail in a way of their own.
func TestAllSlowAndFailing(t *testing.T) {
	d := slowAt(1, 128, 90, 0.10, 0.004)
	d.class = func(i int) bisect.Outcome {
		if i >= 30 && i < 50 {
			return bisect.Outcome{Class: bisect.Wrong, Why: "exit 1"}
		}
		return bisect.Outcome{}
	}
	f := d.findAll(t, plain, nil)
	if got := culprits(f); !slices.Equal(got, []string{"slow 90", "wrong 30"}) {
		t.Fatalf("%v %q", got, f.Warnings)
	}
	for _, c := range f.Culprits {
		if (c.Class == bisect.Slow) != (c.Share != nil) || c.Share != nil && (c.Share.Value < 0.9 || c.Share.Value > 1.1) {
			t.Errorf("%+v", c)
		}
	}
	o := plain
	o.Find = bisect.Slow
	if got := culprits(d.findAll(t, o, nil)); !slices.Equal(got, []string{"slow 90"}) {
		t.Errorf("only slow: %v", got)
	}
}

// The budget ends the search for more with what is known, and says what was left out.
func TestAllSpent(t *testing.T) {
	d := newDevice(256, 1)
	d.class = func(i int) bisect.Outcome {
		if i >= 40 && i < 70 || i >= 230 {
			return bisect.Outcome{Class: bisect.Crash, Phase: "run"}
		}
		return bisect.Outcome{}
	}
	f := d.findAll(t, plain, func(b *search.Search) { b.Spent = func() bool { return d.launches >= 24 } })
	if got := culprits(f); !slices.Equal(got, []string{"crash 230"}) && !slices.Equal(got, []string{"crash 40"}) || !f.Spent || !strings.Contains(strings.Join(f.Warnings, "\n"), "budget") {
		t.Errorf("%v %v %q", got, f.Spent, f.Warnings)
	}
	d = slowAt(1, 128, 90, 0.10, 0.004)
	f = d.findAll(t, plain, func(b *search.Search) { b.Spent = func() bool { return d.launches >= 40 } })
	if got := culprits(f); !slices.Equal(got, []string{"slow 90"}) || !f.Spent || !strings.Contains(strings.Join(f.Warnings, "\n"), "budget") {
		t.Errorf("slow: %v %v %q", got, f.Spent, f.Warnings)
	}
}

// A launch that the budget cuts off ends a search with what is known before it, wherever that is: it accuses nobody, and no
// other is made.
func TestCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		device func() *device
		all    bool
		step   int
	}{
		"failures": {func() *device {
			d := newDevice(64, 1)
			d.class = func(i int) bisect.Outcome {
				if i >= 20 && i < 30 || i >= 50 {
					return bisect.Outcome{Class: bisect.Crash, Phase: "run"}
				}
				return bisect.Outcome{}
			}
			return d
		}, true, 1},
		"slower": {func() *device { return slowAt(1, 64, 40, 0.10, 0.004) }, true, 3},
		"a step": {func() *device { return slowAt(1, 64, 40, 0.10, 0.004) }, false, 1},
	} {
		only := func(b *search.Search) { b.All = c.all }
		d := c.device()
		whole := d.findAll(t, plain, only)
		if whole.Spent || len(whole.Culprits) == 0 {
			t.Fatalf("%s: %+v", name, whole)
		}
		made := d.launches
		for cut := 0; cut < made; cut += c.step {
			d, refused := c.device(), 0
			f := d.findAll(t, plain, func(b *search.Search) {
				only(b)
				b.Sampler = bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
					if d.launches == cut {
						refused++
						return bisect.Outcome{}, bisect.ErrSpent
					}
					return d.Sample(ctx, r)
				})
				b.Spent = func() bool { return refused > 0 }
			})
			if !f.Spent || f.Result != bisect.Inconclusive && f.Result != bisect.Found || refused != 1 {
				t.Errorf("%s, cut off after %d of %d launches: %s, spent %v, %d launches more", name, cut, made, f.Result, f.Spent, refused)
			}
			for _, c := range culprits(f) {
				if !slices.Contains(culprits(whole), c) {
					t.Errorf("%s, cut off after %d of %d launches: %s is accused", name, cut, made, c)
				}
			}
			if cut < 2 && (!f.Ends.Unclear || f.Ends.Hint == "") {
				t.Errorf("%s, cut off after %d: %+v", name, cut, f.Ends)
			}
		}
	}
}
