package bisect

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// table is a Judge that knows the truth.
type table struct {
	bad    map[string]bool
	broken map[string]bool
	dawdle map[string]bool // good, but slow enough to be stopped early
	asked  []string
	waits  bool
	fail   error // returned after failAt questions
	failAt int
}

func (t *table) verdict(id string) Verdict {
	switch {
	case t.broken[id]:
		return Verdict{Call: Untestable, Probability: 1, Class: BuildFailed, Why: "does not build"}
	case t.bad[id]:
		return Verdict{Call: Bad, Probability: 0.997, Class: Timeout, Phase: "load"}
	}
	return Verdict{Call: Good, Probability: 0.99, Class: OK}
}

func (t *table) Ends(_ context.Context, good, bad Candidate) (Ends, error) {
	e := Ends{Good: t.verdict(good.Commit), Bad: t.verdict(bad.Commit), Complaint: Complaint{Class: Timeout, Phase: "load"}}
	e.Differ = e.Good.Call == Good && e.Bad.Call == Bad
	return e, nil
}

func (t *table) Judge(_ context.Context, c Candidate) (Verdict, error) {
	t.asked = append(t.asked, c.Commit)
	if t.fail != nil && len(t.asked) > t.failAt {
		return Verdict{}, t.fail
	}
	v := t.verdict(c.Commit)
	if !t.waits && v.Call == Good && t.dawdle[c.Commit] {
		v = Verdict{Call: Bad, Probability: 0.997, Class: Timeout, Phase: "load"}
	}
	v.Early = !t.waits && v.Call == Bad
	return v, nil
}

func (t *table) Patient() { t.waits = true }

func (t *table) Confirm(_ context.Context, k Candidate, parents []Candidate) (c Confirmation, err error) {
	c.Culprit = t.verdict(k.Commit)
	for _, p := range parents {
		c.Parents = append(c.Parents, t.verdict(p.Commit))
	}
	return c, nil
}

// named gives a drawn history ids and full parent lists; a commit without parents in the range
// hangs on the good end.
func named(cs []Commit) []Commit {
	for i := range cs {
		cs[i].ID = "c" + strconv.Itoa(i)
		cs[i].Parents = nil
		for _, p := range cs[i].InRange {
			cs[i].Parents = append(cs[i].Parents, "c"+strconv.Itoa(p))
		}
		if len(cs[i].Parents) == 0 {
			cs[i].Parents = []string{"good"}
		}
	}
	return cs
}

// The whole job on random DAGs with broken commits: the planted culprit is named and confirmed,
// or is among the suspects; nobody else is ever named.
func TestFindOnRandomDAGs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := named(drawHistory(t, 80))
		culprit := rapid.IntRange(0, len(cs)-1).Draw(t, "culprit")
		truth := &table{bad: map[string]bool{}, broken: map[string]bool{}}
		for i, c := range cs {
			truth.bad[c.ID] = reaches(cs, i, culprit)
			truth.broken[c.ID] = i < len(cs)-1 && rapid.IntRange(0, 9).Draw(t, "broken") == 0
		}
		s := Search{Commits: cs, Good: Candidate{Commit: "good"}, Judge: truth}
		f, err := s.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		switch f.Result {
		case Found:
			k := f.Culprits[0]
			if k.Commit != cs[culprit].ID {
				t.Fatalf("named %s, planted %s", k.Commit, cs[culprit].ID)
			}
			if k.Confidence <= 0 || k.Confidence > 1 || k.Merge != (len(k.Parents) > 1) {
				t.Fatalf("%+v", k)
			}
		case Inconclusive:
			sum, in := 0.0, false
			for _, x := range f.Suspects {
				sum += x.Probability
				in = in || x.Commit == cs[culprit].ID
			}
			if !in || len(f.Suspects) < 2 || sum < 0.999 || sum > 1.001 {
				t.Fatalf("suspects %+v, planted %s", f.Suspects, cs[culprit].ID)
			}
		default:
			t.Fatalf("result %s", f.Result)
		}
	})
}

// Trials that are stopped early may take good commits for bad ones; the answer is the one of the
// whole limit all the same, and what was known without haste is not asked again.
func TestEarlyStopsNeverChangeTheAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := named(drawHistory(t, 80))
		culprit := rapid.IntRange(0, len(cs)-1).Draw(t, "culprit")
		truth := &table{bad: map[string]bool{}, broken: map[string]bool{}, dawdle: map[string]bool{}}
		for i, c := range cs {
			truth.bad[c.ID] = reaches(cs, i, culprit)
			truth.dawdle[c.ID] = rapid.Bool().Draw(t, "dawdles")
			truth.broken[c.ID] = i < len(cs)-1 && rapid.IntRange(0, 19).Draw(t, "broken") == 0
		}
		s := Search{Commits: cs, Good: Candidate{Commit: "good"}, Judge: truth}
		f, err := s.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f.Result == Found && f.Culprits[0].Commit != cs[culprit].ID {
			t.Fatalf("named %s, planted %s", f.Culprits[0].Commit, cs[culprit].ID)
		}
		if f.Result == Inconclusive && !slices.ContainsFunc(f.Suspects, func(x SuspectCommit) bool { return x.Commit == cs[culprit].ID }) {
			t.Fatalf("suspects %+v, planted %s", f.Suspects, cs[culprit].ID)
		}
		asked := map[string]int{}
		for _, id := range truth.asked {
			asked[id]++
			if asked[id] > 1 && !truth.dawdle[id] && !truth.bad[id] {
				t.Fatalf("%s, known to be good, was asked about again", id)
			}
		}
	})
}

func TestEqualInputsShareOneAnswer(t *testing.T) {
	cs := named(line(64))
	truth := &table{bad: map[string]bool{}}
	for i := range cs {
		cs[i].Key = "k" + strconv.Itoa(i/4) // every four commits hold the same inputs...
		cs[i].Neutral = i%4 != 0            // ...so only the first of them can matter
		truth.bad[cs[i].ID] = i >= 40
	}
	s := Search{Commits: cs, Good: Candidate{Commit: "good"}, GoodKey: "other", Judge: truth}
	f, err := s.Find(t.Context())
	if err != nil || f.Result != Found || f.Culprits[0].Commit != "c40" {
		t.Fatalf("%v %+v", err, f)
	}
	if len(truth.asked) > 4 || f.Matter != 16 {
		t.Errorf("asked %v of %d that matter", truth.asked, f.Matter)
	}
	// A revert in the middle brings the good end's inputs back.
	cs = named(line(64))
	for i := range cs {
		cs[i].Key = "k" + strconv.Itoa(i)
	}
	cs[31].Key = "start"
	s = Search{Commits: cs, Good: Candidate{Commit: "good"}, GoodKey: "start", Judge: truth}
	f, err = s.Find(t.Context())
	if err != nil || f.Result != Found || f.Inferred != 1 || f.Culprits[0].Commit != "c40" {
		t.Fatalf("%v %d inferred %+v", err, f.Inferred, f.Culprits)
	}
}

func TestMergeWhoseParentsAreAllGoodIsTheCulprit(t *testing.T) {
	cs := []Commit{
		{ID: "a", Parents: []string{"good"}},
		{ID: "b", Parents: []string{"good"}},
		{ID: "m", Parents: []string{"a", "b"}, InRange: []int{0, 1}},
		{ID: "z", Parents: []string{"m"}, InRange: []int{2}},
	}
	s := Search{Commits: cs, Good: Candidate{Commit: "good"}, Judge: &table{bad: map[string]bool{"m": true, "z": true}}}
	f, err := s.Find(t.Context())
	if err != nil || f.Result != Found || f.Culprits[0].Commit != "m" || !f.Culprits[0].Merge || !f.Culprits[0].Confirmed {
		t.Fatalf("%v %+v", err, f)
	}
}

// The parent of the culprit is bad although a later commit is good: the search goes on below it.
func TestParentThatIsBadAfterAll(t *testing.T) {
	cs := named(line(16))
	truth := &table{bad: map[string]bool{}}
	for i, c := range cs {
		truth.bad[c.ID] = i >= 3 && i <= 5 || i >= 8 // good again at 6 and 7
	}
	f, err := (&Search{Commits: cs, Good: Candidate{Commit: "good"}, Judge: truth}).Find(t.Context())
	if err != nil || f.Result != Found || f.Culprits[0].Commit != "c3" && f.Culprits[0].Commit != "c8" {
		t.Fatalf("%v %+v", err, f)
	}
}

func TestMachineTroubleAccusesNobody(t *testing.T) {
	cs := named(line(64))
	truth := &table{bad: map[string]bool{}, fail: &InfraError{What: "testing", Err: errors.New("device lost")}, failAt: 2}
	for i, c := range cs {
		truth.bad[c.ID] = i >= 40
	}
	f, err := (&Search{Commits: cs, Good: Candidate{Commit: "good"}, Judge: truth}).Find(t.Context())
	var infra *InfraError
	if err != nil || f.Result != Broken || len(f.Culprits) > 0 || !errors.As(f.Err, &infra) || len(f.Suspects) != 16 {
		t.Fatalf("%v %v %d suspects, %v", err, f.Result, len(f.Suspects), f.Err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	truth.fail = context.Canceled
	if f, _ := (&Search{Commits: cs, Good: Candidate{Commit: "good"}, Judge: truth}).Find(ctx); f.Result != Interrupted {
		t.Errorf("result %s after an interrupt", f.Result)
	}
}

func TestBudgetEndsWithWhatIsKnown(t *testing.T) {
	cs := named(line(64))
	truth := &table{bad: map[string]bool{}}
	for i, c := range cs {
		truth.bad[c.ID] = i >= 40
	}
	s := Search{Commits: cs, Good: Candidate{Commit: "good"}, Judge: truth, Spent: func() bool { return len(truth.asked) >= 3 }}
	f, err := s.Find(t.Context())
	if err != nil || f.Result != Inconclusive || len(f.Suspects) != 8 {
		t.Fatalf("%v %v, %d suspects", err, f.Result, len(f.Suspects))
	}
}

// Paths that leave out what matters make commits look equal that are not: the search notices,
// looks at every commit, and names the planted one.
func TestIncompletePaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := named(line(rapid.IntRange(2, 40).Draw(t, "n")))
		culprit := rapid.IntRange(0, len(cs)-1).Draw(t, "culprit")
		key, truth := 0, &table{bad: map[string]bool{}}
		for i := range cs {
			truth.bad[cs[i].ID] = i >= culprit
			neutral := i == culprit || rapid.Bool().Draw(t, "neutral")
			if !neutral {
				key++
			}
			cs[i].Neutral, cs[i].Key = neutral, "k"+strconv.Itoa(key)
		}
		redone := false
		f, err := (&Search{Commits: cs, Good: Candidate{Commit: "good"}, GoodKey: "k0", Judge: truth, Redo: func() { redone = true }}).Find(t.Context())
		if err != nil || f.Result != Found || f.Culprits[0].Commit != cs[culprit].ID || !redone {
			t.Fatalf("planted %d, redone %v: %+v, %v", culprit, redone, f, err)
		}
	})
}

func TestCandidateIsReadBack(t *testing.T) {
	for _, c := range []Candidate{
		{}, {Commit: "abc"}, {Commit: "abc", Assign: "compile=off,graph=1:2"},
	} {
		if back := ParseCandidate(c.String()); back != c {
			t.Errorf("%q: %+v, want %+v", c.String(), back, c)
		}
	}
}
