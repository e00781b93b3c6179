package find

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/search"
)

// foreseen makes trials of a line of commits, and counts the rounds of builds that a machine would need which makes so
// many at a time, each as long as the others.
type foreseen struct {
	bad    string // fails from here on
	built  map[bisect.Request]bool
	wishes []bisect.Request
	width  int
	rounds int
}

// numbered is a line of n commits, from 1, with so many digits.
func numbered(n, digits int) (commits []bisect.Commit) {
	for i := range n {
		commit := bisect.Commit{ID: fmt.Sprintf("c%0*d", digits, i+1), Parents: []string{fmt.Sprintf("c%0*d", digits, i)}}
		if i > 0 {
			commit.InRange = []int{i - 1}
		}
		commits = append(commits, commit)
	}
	return commits
}

// build is what of a request its build depends on.
func build(r bisect.Request) bisect.Request {
	return bisect.Request{Candidate: r.Candidate, Purpose: r.Purpose, Clean: r.Clean}
}

func (f *foreseen) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	if !f.built[build(r)] {
		f.rounds++
		f.built[build(r)] = true
		n := f.width - 1
		for _, w := range f.wishes {
			if w = build(w); n > 0 && !f.built[w] {
				f.built[w] = true
				n--
			}
		}
	}
	if r.Candidate.Commit >= f.bad {
		return bisect.Outcome{Class: bisect.Wrong, Wall: 1, Built: true, Build: 8}, nil
	}
	return bisect.Outcome{Class: bisect.OK, Wall: 1, Built: true, Build: 8}, nil
}

// The builds that are foreseen are those that are asked for: with 15 at a time each round settles four levels.
func TestForeseenBuildsAreAskedFor(t *testing.T) {
	for _, c := range []struct{ commits, width, most int }{{791, 1, 15}, {200, 2, 10}, {791, 15, 6}, {60, 15, 5}, {2, 15, 4}} {
		worst := 0
		for k := range 12 {
			commits := numbered(c.commits, 5)
			at := min(c.commits-1, (2*k+1)*c.commits/24)
			f := &foreseen{bad: commits[at].ID, built: map[bisect.Request]bool{}, width: c.width}
			s := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "c00000"}, Sampler: f, Width: c.width}
			s.Ahead = func(next []bisect.Request) { f.wishes = next }
			s.Differs = func([]string, int) [][]bisect.Difference { return make([][]bisect.Difference, len(commits)) } // that the ends may still narrow the search delays nothing
			found, err := Culprits(t.Context(), s)
			if err != nil || len(found.Culprits) != 1 || found.Culprits[0].Commit != commits[at].ID {
				t.Fatalf("%d commits, the bad one %d: %+v, %v", c.commits, at, found.Culprits, err)
			}
			worst = max(worst, f.rounds)
		}
		t.Logf("%d commits, %d builds at a time: at most %d rounds", c.commits, c.width, worst)
		if worst > c.most {
			t.Errorf("%d commits, %d builds at a time: %d rounds, want at most %d", c.commits, c.width, worst, c.most)
		}
	}
}

// What the build of the good end has opened so far tells which commits to build beside it. It affects nothing but builds ahead:
// the search asks for the same launches as one that hears nothing, as a resumed one does.
func TestBuildsFollowTheBuildOfTheGoodEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		commits := numbered(20+rng.IntN(300), 3)
		last := commits[len(commits)-1].ID
		bad := commits[rng.IntN(len(commits))].ID
		files := func() (opened []string) { // of which a commit changes the one that its number ends in
			for k := range 10 {
				if rng.IntN(3) > 0 || bad[3] == byte('0'+k) || last[3] == byte('0'+k) {
					opened = append(opened, fmt.Sprint(k))
				}
			}
			return opened
		}
		whole, part := files(), files()
		ask := func(listens bool) (asked []bisect.Request) {
			var heard func([]string, float64)
			var wishes []bisect.Request
			s := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "c000"}, Width: 15, Ahead: func(next []bisect.Request) { wishes = next }}
			s.Differs = func(opened []string, _ int) (out [][]bisect.Difference) {
				for _, c := range commits {
					d := bisect.Same
					if slices.Contains(opened, c.ID[3:]) {
						d = bisect.Different
					}
					out = append(out, []bisect.Difference{d})
				}
				return out
			}
			if listens {
				s.Listen = func(h func([]string, float64)) { heard = h }
			}
			s.Sampler = sampled(func(r bisect.Request) (bisect.Outcome, error) {
				asked = append(asked, r)
				if listens && (heard != nil) != (r.Purpose == bisect.EndGood && r.Nth == 0) {
					t.Fatalf("seed %d: at %s it is listened: %v", seed, r.Purpose, heard != nil)
				}
				if heard != nil {
					before := len(wishes)
					heard(part, 1)
					searched := slices.DeleteFunc(slices.Clone(wishes), func(w bisect.Request) bool { return w.Purpose != bisect.Searching })
					if before == 0 || len(searched) == 0 || slices.ContainsFunc(searched, func(w bisect.Request) bool { return !slices.Contains(part, w.Candidate.Commit[3:]) }) {
						t.Fatalf("seed %d: %d wishes, then %v, of what changes %v", seed, before, searched, part)
					}
				}
				o := bisect.Outcome{Class: bisect.OK, Wall: 1, Opened: whole}
				if r.Candidate.Commit >= bad {
					o.Class = bisect.Wrong
				}
				return o, nil
			})
			if found, err := Culprits(t.Context(), s); err != nil || len(found.Culprits) != 1 || found.Culprits[0].Commit != bad {
				t.Fatalf("seed %d: %+v, %v", seed, found.Culprits, err)
			}
			return asked
		}
		if with, without := ask(true), ask(false); !slices.Equal(with, without) {
			t.Errorf("seed %d: asked for %v, and without listening for %v", seed, with, without)
		}
	}
}

// What the good end opens tells which commits to build while the bad end is launched, which may take long.
func TestBuildsFollowTheGoodEnd(t *testing.T) {
	commits := numbered(64, 2)
	touched := map[string]bool{"c03": true, "c17": true, "c24": true, "c40": true, "c41": true, "c59": true, "c60": true}
	var wishes, beside []bisect.Request // the latest, and those while the bad end is launched
	asked := map[string]bool{}
	s := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "c00"}, Width: 15}
	s.Ahead = func(next []bisect.Request) { wishes = next }
	s.Differs = func([]string, int) (out [][]bisect.Difference) {
		for _, c := range commits {
			d := bisect.Same
			if touched[c.ID] {
				d = bisect.Different
			}
			out = append(out, []bisect.Difference{d})
		}
		return out
	}
	s.Sampler = sampled(func(r bisect.Request) (bisect.Outcome, error) {
		switch r.Purpose {
		case bisect.EndBad:
			beside = wishes
		case bisect.Searching:
			asked[r.Candidate.Commit] = true
		}
		o := bisect.Outcome{Class: bisect.OK, Wall: 1, Opened: []string{"kernel.cu"}}
		if r.Candidate.Commit >= "c40" {
			o.Class = bisect.Wrong
		}
		return o, nil
	})
	if found, err := Culprits(t.Context(), s); err != nil || len(found.Culprits) != 1 || found.Culprits[0].Commit != "c40" {
		t.Fatalf("%+v, %v", found.Culprits, err)
	}
	built := map[string]bool{}
	for _, r := range beside {
		if built[r.Candidate.Commit] = true; r.Purpose == bisect.Searching && !touched[r.Candidate.Commit] {
			t.Errorf("%s, which changes nothing that was opened, is built beside the launch of the bad end", r.Candidate.Commit)
		}
	}
	for id := range asked {
		if !built[id] {
			t.Errorf("%s was searched, and not built beside the launch of the bad end: %v", id, beside)
		}
	}
}

// When a proof begins, the clean builds of both sides are foreseen. No guess of the search takes their place where the search
// is over then; that for a failure goes on, and the culprit is launched once more.
func TestProofsBuildBothSidesAtOnce(t *testing.T) {
	commits := numbered(16, 2)
	for at := 1; at < len(commits)-1; at++ {
		for _, slow := range []bool{false, true} {
			bad, parent := commits[at].ID, commits[at].Parents[0]
			var wishes, first []bisect.Request // the latest, and those when the proof begins
			s := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "c00"}, Width: 3, Options: search.Options{Metrics: []metric.Metric{{Name: "time"}}}}
			s.Ahead = func(next []bisect.Request) { wishes = next }
			rng, clock := rand.New(rand.NewPCG(uint64(at), 3)), 0.0
			s.Sampler = sampled(func(r bisect.Request) (bisect.Outcome, error) {
				if r.Clean && first == nil {
					first = wishes
				}
				o := bisect.Outcome{Class: bisect.OK, Wall: 1, Built: true, Build: 8}
				if clock++; slow {
					y := 1 + 0.002*rng.NormFloat64()
					if r.Candidate.Commit >= bad {
						y *= 1.3
					}
					o.At, o.Series = clock, []bisect.Series{{Metric: "time", Unit: "s", Values: []float64{y}}}
				} else if r.Candidate.Commit >= bad {
					o.Class = bisect.Wrong
				}
				return o, nil
			})
			if found, err := Culprits(t.Context(), s); err != nil || len(found.Culprits) != 1 || found.Culprits[0].Commit != bad {
				t.Fatalf("%s, slow %v: %+v, %v", bad, slow, found.Culprits, err)
			}
			want := map[bisect.Request]bool{
				{Candidate: bisect.Candidate{Commit: parent}, Purpose: bisect.ConfirmParent, Clean: true}: true,
				{Candidate: bisect.Candidate{Commit: bad}, Purpose: bisect.ConfirmCulprit, Clean: true}:   true,
			}
			if !slow {
				want[bisect.Request{Candidate: bisect.Candidate{Commit: bad}, Purpose: bisect.Searching}] = true
			}
			got := map[bisect.Request]bool{}
			for _, r := range first {
				if slow || want[build(r)] {
					got[build(r)] = true
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s, slow %v: %v, want %v", bad, slow, got, want)
			}
		}
	}
}

// With processors for a wrong guess, the proof of the culprit is announced before the launch that decides on it, whatever
// that shows, and no more than two proofs are at a time.
func TestProofsAreAnnouncedBeforeTheDecision(t *testing.T) {
	const n = 16
	commits := numbered(n, 2)
	for at := range n - 1 {
		bad, announced := commits[at].ID, map[bisect.Request]bool{}
		var deciding map[bisect.Request]bool // what was announced when a commit was launched for the first time
		s := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "c00"}, Eager: true}
		s.Soon = func(next []bisect.Request) {
			announced = map[bisect.Request]bool{}
			proofs := 0
			for _, r := range next {
				if announced[build(r)] = true; r.Clean {
					proofs++
				}
			}
			if proofs > 4 || len(next) > proofs+15 {
				t.Errorf("%d launches are announced: %v", len(next), next)
			}
		}
		s.Sampler = sampled(func(r bisect.Request) (bisect.Outcome, error) {
			if r.Purpose == bisect.Searching && r.Nth == 0 {
				deciding = announced
			}
			if r.Candidate.Commit >= bad {
				return bisect.Outcome{Class: bisect.Wrong, Wall: 1}, nil
			}
			return bisect.Outcome{Class: bisect.OK, Wall: 1}, nil
		})
		found, err := Culprits(t.Context(), s)
		if err != nil || len(found.Culprits) != 1 || found.Culprits[0].Commit != bad {
			t.Fatalf("%s: %+v, %v", bad, found.Culprits, err)
		}
		for why, id := range map[bisect.Purpose]string{bisect.ConfirmCulprit: bad, bisect.ConfirmParent: commits[at].Parents[0]} {
			if !deciding[bisect.Request{Candidate: bisect.Candidate{Commit: id}, Purpose: why, Clean: true}] {
				t.Errorf("%s: %s of %s was not announced before the last commit was launched: %v", bad, why, id, deciding)
			}
		}
	}
}

// With processors for a wrong guess, each commit that the search launches was announced before the decision that led to it.
func TestDecisionsAreAnnounced(t *testing.T) {
	for _, n := range []int{5, 10, 23, 47, 64, 90} {
		commits := numbered(n, 2)
		for _, timed := range []bool{false, true} {
			for at := range n - 1 {
				bad := commits[at].ID
				var announced, before map[string]bool
				rng := rand.New(rand.NewPCG(uint64(n), uint64(at)))
				s := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "c00"}, Eager: true}
				s.Metrics = []metric.Metric{{Name: "time"}}
				s.Soon = func(next []bisect.Request) {
					now := map[string]bool{}
					for _, r := range next {
						now[r.Candidate.Commit] = now[r.Candidate.Commit] || r.Purpose == bisect.Searching
					}
					announced = now
				}
				launched := map[string]bool{}
				s.Sampler = sampled(func(r bisect.Request) (bisect.Outcome, error) {
					if id := r.Candidate.Commit; r.Purpose == bisect.Searching && !launched[id] {
						if (timed || len(launched) > 0) && !before[id] {
							t.Errorf("%s, timed %v: %s was launched, and not announced when the commit before it was: %v", bad, timed, id, before)
						}
						launched[id] = true
					}
					before = announced
					o := bisect.Outcome{Class: bisect.OK, Wall: 1}
					if r.Candidate.Commit >= bad && !timed {
						o.Class = bisect.Wrong
					}
					if timed {
						us := 100.0
						if r.Candidate.Commit >= bad {
							us = 200
						}
						o.Series = []bisect.Series{{Metric: "time", Unit: "us", Values: []float64{us * (1 + 0.01*rng.NormFloat64())}}}
					}
					return o, nil
				})
				found, err := Culprits(t.Context(), s)
				if err != nil || len(found.Culprits) != 1 || found.Culprits[0].Commit != bad {
					t.Fatalf("%s: %+v, %v", bad, found, err)
				}
			}
		}
	}
}

// Where proofs begin beside the search, the first launch of the culprit's serves as the search's own, and one more follows
// the decision: among commits of which each was as likely, it is never launched by the search once it is all but sure.
func TestProofsServeTheSearch(t *testing.T) {
	const n = 16
	commits := numbered(n, 2)
	saved := 0
	for at := range n - 1 {
		bad := commits[at].ID
		launches := map[bool]map[bisect.Purpose]int{}
		for _, eager := range []bool{false, true} {
			made := map[bisect.Purpose]int{}
			s := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "c00"}, Eager: eager}
			s.Sampler = sampled(func(r bisect.Request) (bisect.Outcome, error) {
				if r.Candidate.Commit < bad {
					return bisect.Outcome{Class: bisect.OK, Wall: 1}, nil
				}
				if r.Candidate.Commit == bad {
					made[r.Purpose]++
				}
				return bisect.Outcome{Class: bisect.Wrong, Wall: 1}, nil
			})
			found, err := Culprits(t.Context(), s)
			if err != nil || len(found.Culprits) != 1 || found.Culprits[0].Commit != bad || !found.Culprits[0].Confirmed {
				t.Fatalf("%s: %+v, %v", bad, found.Culprits, err)
			}
			launches[eager] = made
		}
		if launches[false][bisect.ConfirmCulprit] != 1 || launches[true][bisect.ConfirmCulprit] != 2 {
			t.Errorf("%s: launched for its proof %d times, and %d times where proofs begin early", bad, launches[false][bisect.ConfirmCulprit], launches[true][bisect.ConfirmCulprit])
		}
		saved += launches[false][bisect.Searching] - launches[true][bisect.Searching]
	}
	if saved == 0 {
		t.Error("no proof has served a search")
	}
}

// A culprit that has loaded for its proof is launched in place of the bad end, which differs from it in nothing that is read.
func TestProofServesInPlaceOfTheBadEnd(t *testing.T) {
	const n = 16
	for at := 1; at < n-1; at++ {
		commits := numbered(n, 2)
		for i := range commits {
			commits[i].Key, commits[i].Neutral = commits[min(i, at)].ID, i > at
		}
		bad, made := commits[at].ID, []bisect.Request{}
		s := &search.Search{Commits: commits, Good: bisect.Candidate{Commit: "c00"}, Eager: true}
		s.Sampler = sampled(func(r bisect.Request) (bisect.Outcome, error) {
			if made = append(made, r); r.Candidate.Commit < bad {
				return bisect.Outcome{Class: bisect.OK, Wall: 1}, nil
			}
			return bisect.Outcome{Class: bisect.Wrong, Wall: 1}, nil
		})
		found, err := Culprits(t.Context(), s)
		if err != nil || len(found.Culprits) != 1 || found.Culprits[0].Commit != bad || !found.Culprits[0].Confirmed {
			t.Fatalf("%s: %+v, %v", bad, found.Culprits, err)
		}
		first := slices.IndexFunc(made, func(r bisect.Request) bool { return r.Purpose == bisect.ConfirmCulprit })
		if again := slices.ContainsFunc(made[:first], func(r bisect.Request) bool { return r.Purpose == bisect.EndBad && r.Nth > 0 }); again {
			t.Errorf("%s: the bad end was launched again before the culprit was:\n%v", bad, made)
		}
	}
}
