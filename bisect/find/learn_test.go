package find_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// guesser tells from which parents commits differ in nothing that was opened, which may be wrong: each commit opens a file of
// its own, and some are taken for a parent until certain files were opened.
type guesser struct {
	next    bisect.Sampler
	until   map[[2]int]string // by commit and number of the parent: the file that tells them apart; "": none does
	commits []bisect.Commit
	silent  int // says nothing each time that the number of files opened can be divided by it: comparing them does not pay; 0: never
}

func (g guesser) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	o, err := g.next.Sample(ctx, r)
	o.Opened = []string{"main", r.Candidate.Commit}
	return o, err
}

func (g guesser) differs(opened []string, _ int) [][]bisect.Difference {
	if g.silent > 0 && len(opened)%g.silent == 0 {
		return nil
	}
	out := make([][]bisect.Difference, len(g.commits))
	for i, c := range g.commits {
		for n := range c.Parents {
			d := bisect.Difference(1 + (i+n)%2) // whichever
			if file, guessed := g.until[[2]int{i, n}]; guessed && (file == "" || !slices.Contains(opened, file)) {
				d = bisect.Same
			}
			out[i] = append(out[i], d)
		}
	}
	return out
}

// drawGuess takes any commits of a history for any of their parents, the culprit too.
func drawGuess(t *rapid.T, cs []bisect.Commit, next bisect.Sampler) guesser {
	g := guesser{next: next, until: map[[2]int]string{}, commits: cs, silent: rapid.SampledFrom([]int{0, 2, 3}).Draw(t, "silent")}
	share := rapid.SampledFrom([]float64{0.2, 0.6, 0.95, 1}).Draw(t, "share left out")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "guess"), 0))
	for i, c := range cs {
		for n := range c.Parents {
			switch x := rng.Float64(); {
			case x < share/2:
				g.until[[2]int{i, n}] = ""
			case x < share:
				g.until[[2]int{i, n}] = cs[rng.IntN(len(cs))].ID
			}
		}
	}
	return g
}

// Whatever was learned wrongly of what commits read, no other commit than the culprit is named for a failure, and where
// commits cannot be tested it is among the suspects.
func TestWrongGuessesAccuseNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawHistory(t, 60)
		culprit := rapid.IntRange(0, len(cs)-1).Draw(t, "culprit")
		broken := make([]bool, len(cs))
		if at := rapid.IntRange(0, 2*len(cs)).Draw(t, "broken"); at < len(cs)-1 {
			broken[at] = true
		}
		x := &truth{bad: func(i int) bool { return bisect.Ancestors(cs, i)[culprit] }, broken: func(i int) bool { return broken[i] }}
		g := drawGuess(t, cs, x)
		f, err := x.find(t, cs, func(s *search.Search) { s.Sampler, s.Differs = g, g.differs })
		if err != nil {
			t.Fatal(err)
		}
		named := []string{}
		for _, c := range f.Culprits {
			named = append(named, c.Commit)
		}
		for _, s := range f.Suspects {
			named = append(named, s.Commit)
		}
		single := len(indistinguishable(cs, culprit, broken)) == 1
		if !slices.Contains(named, cs[culprit].ID) || f.Result == bisect.Found && len(named) > 1 || single && f.Result != bisect.Found {
			t.Fatalf("%s: named %v, planted %d, %d left out, misread %v: %q", f.Result, named, culprit, f.Unread, f.Misread, f.Warnings)
		}
		if f.Matter+f.Unread != f.Range || f.Misread && f.Unread > 0 {
			t.Fatalf("%d of %d may matter, %d left out, misread %v", f.Matter, f.Range, f.Unread, f.Misread)
		}
	})
}

// The same of a slowdown.
func TestWrongGuessesAboutASlowdown(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		commits := line(40)
		culprit := rng.IntN(40)
		g := guesser{until: map[[2]int]string{}, commits: commits}
		for i := range commits {
			if i == culprit && seed%2 == 0 || i != culprit && rng.IntN(3) > 0 {
				g.until[[2]int{i, 0}] = ""
			}
		}
		at := 0.0
		g.next = bisect.SamplerFunc(func(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
			i, err := strconv.Atoi(r.Candidate.Commit[1:])
			y := 1.0
			if err == nil && i >= culprit {
				y = 1.3
			}
			at += 2
			return bisect.Outcome{Class: bisect.OK, Wall: 1, At: at, Series: []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{y * (1 + 0.01*rng.NormFloat64())}}}}, nil
		})
		s := search.Search{Commits: commits, Good: bisect.Candidate{Commit: "good"}, GoodKey: "good", Sampler: g, Differs: g.differs, Options: search.Options{Metrics: []metric.Metric{{Name: "time"}}, Effect: 0.03, Error: 0.01}}
		f, err := find.Culprits(t.Context(), &s)
		if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != commits[culprit].ID || f.Misread != (seed%2 == 0) {
			t.Errorf("seed %d: %v %s %v, want %s, misread %v: %q", seed, err, f.Result, f.Culprits, commits[culprit].ID, f.Misread, f.Warnings)
		}
	}
}

// In a large range, commits are compared only as far as the launches that this saves are worth it.
func TestComparingCommitsPays(t *testing.T) {
	commits := line(2000)
	for _, seconds := range []float64{0.01, 10} {
		halvings, asked := []int{}, 0
		s := search.Search{Commits: commits, Good: bisect.Candidate{Commit: "good"}}
		s.Differs = func(_ []string, halving int) [][]bisect.Difference {
			halvings = append(halvings, halving)
			if halving < 1000 {
				return nil
			}
			out := slices.Repeat([][]bisect.Difference{{bisect.Same}}, len(commits))
			out[700] = []bisect.Difference{bisect.Different}
			return out
		}
		at := 0.0
		s.Sampler = bisect.SamplerFunc(func(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
			o := bisect.Outcome{Class: bisect.OK, Wall: seconds, At: at, Opened: []string{"main"}}
			if i := slices.IndexFunc(commits, func(c bisect.Commit) bool { return c.ID == r.Candidate.Commit }); i >= 700 {
				o.Class, o.Phase = bisect.Crash, "run"
			}
			asked++
			at += seconds
			return o, nil
		})
		f, err := find.Culprits(t.Context(), &s)
		narrowed := seconds > 1
		if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != commits[700].ID || (f.Unread == len(commits)-1) != narrowed || (asked < 12) != narrowed {
			t.Errorf("launches of %g s: %v %s %v, %d left out, %d launches, %v", seconds, err, f.Result, f.Culprits, f.Unread, asked, halvings)
		}
	}
}

// Commits that were left out are candidates again where comparing them has ceased to pay, and are left out once more where it
// pays again.
func TestComparingCommitsPaysAgain(t *testing.T) {
	commits := line(2000)
	s := search.Search{Commits: commits, Good: bisect.Candidate{Commit: "good"}}
	s.Differs = func(opened []string, halving int) [][]bisect.Difference {
		if len(opened) == 2 && halving < 5000 {
			return nil
		}
		out := slices.Repeat([][]bisect.Difference{{bisect.Same}}, len(commits))
		for i := 0; i < len(commits); i += 100 {
			out[i] = []bisect.Difference{bisect.Different}
		}
		return out
	}
	var asked []int
	at := 0.0
	s.Sampler = bisect.SamplerFunc(func(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
		o := bisect.Outcome{Class: bisect.OK, Wall: 1, At: at, Opened: []string{"main"}}
		if asked = append(asked, slices.IndexFunc(commits, func(c bisect.Commit) bool { return c.ID == r.Candidate.Commit })); len(asked) > 2 {
			o.Opened = append(o.Opened, "more")
		}
		if len(asked) > 3 {
			o.Wall = 30
		}
		if asked[len(asked)-1] >= 700 {
			o.Class, o.Phase = bisect.Crash, "run"
		}
		at += o.Wall
		return o, nil
	})
	f, err := find.Culprits(t.Context(), &s)
	if err != nil || f.Result != bisect.Found || f.Culprits[0].Commit != commits[700].ID || f.Matter != 20 {
		t.Fatalf("%v %s %v, %d matter", err, f.Result, f.Culprits, f.Matter)
	}
	for k, i := range asked[2:] {
		if counts := i%100 == 0 || i == 699; counts == (k == 1) {
			t.Errorf("launch %d was of commit %d: %v", k+3, i, asked)
		}
	}
}

// A merge that differs from a parent in nothing that was opened is that parent: neither it nor what its other parents bring
// is launched, as in git log.
func TestMergesLikeAParent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawHistory(t, 60)
		culprit := rapid.IntRange(0, len(cs)-1).Draw(t, "culprit")
		index := map[string]int{"good": -1}
		for i, c := range cs {
			index[c.ID] = i
		}
		bad := func(id string) bool { return index[id] >= 0 && bisect.Ancestors(cs, index[id])[culprit] }
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "contents"), 0))
		content := map[string]string{"good": "good"} // of what is opened
		for i, c := range cs {
			content[c.ID] = c.ID
			p := c.Parents[rng.IntN(len(c.Parents))]
			if i != culprit && rng.IntN(4) > 0 && bad(p) == bad(c.ID) {
				content[c.ID] = content[p]
			}
		}
		of := func(c bisect.Commit) (out []bisect.Difference) {
			for _, p := range c.Parents {
				d := bisect.Same
				if content[p] != content[c.ID] {
					d = bisect.Difference(1 + rng.IntN(2))
				}
				out = append(out, d)
			}
			return out
		}
		differs := func([]string, int) (out [][]bisect.Difference) {
			for _, c := range cs {
				out = append(out, of(c))
			}
			return out
		}
		sampler := bisect.SamplerFunc(func(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
			id := r.Candidate.Commit
			if r.Purpose == bisect.Searching && slices.Contains(of(cs[index[id]]), bisect.Same) {
				t.Fatalf("%s was searched, which is like one of its parents %v", id, cs[index[id]].Parents)
			}
			o := bisect.Outcome{Class: bisect.OK, Wall: 1, Opened: []string{"main"}}
			if bad(id) {
				o.Class = bisect.Wrong
			}
			return o, nil
		})
		f, err := find.Culprits(t.Context(), &search.Search{Commits: cs, Good: bisect.Candidate{Commit: "good"}, GoodKey: "good", Sampler: sampler, Differs: differs})
		if err != nil || f.Misread || len(f.Culprits) != 1 || f.Culprits[0].Commit != cs[culprit].ID {
			t.Fatalf("planted %s: %v, %+v, misread %v: %q", cs[culprit].ID, err, f.Culprits, f.Misread, f.Warnings)
		}
	})
}
