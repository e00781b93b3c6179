package search

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// failing reads every outcome that is not ok as the complaint, but for skips; it wants launches in a hurry.
type failing struct{ Question }

func (failing) Rules() Rules { return Rules{Hurry: "warmup"} }

func (failing) Shape(r *bisect.Request, patient bool) {
	if !patient && r.Purpose == bisect.Searching {
		r.Hurry = "warmup"
	}
}

func (failing) Read(t Trial) (belief.Launch, Answer) {
	switch t.Class {
	case bisect.OK:
		return belief.Launch{}, Speaks
	case bisect.Skip:
		return belief.Launch{}, Silent
	}
	return belief.Launch{Failed: true}, Speaks
}

// sampler answers with what it is told to, and keeps what it was asked for.
type sampler struct {
	asked  []bisect.Request
	answer func(bisect.Request) (bisect.Outcome, error)
}

func (s *sampler) Sample(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
	s.asked = append(s.asked, r)
	return s.answer(r)
}

// Whatever is launched in whatever order: launches are numbered by commit and purpose without a gap, none is made twice,
// and the tallies are those of the launches that still count.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &sampler{answer: func(r bisect.Request) (bisect.Outcome, error) {
			return bisect.Outcome{Class: rapid.SampledFrom([]bisect.Class{bisect.OK, bisect.Crash, bisect.Skip}).Draw(t, "class"), Wall: 1}, nil
		}}
		l := NewLedger(&Search{Sampler: s})
		type key struct {
			commit string
			why    bisect.Purpose
		}
		next, tally := map[key]int{}, map[key]belief.Tally{}
		for range rapid.IntRange(1, 30).Draw(t, "launches") {
			k := key{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "commit"), rapid.SampledFrom([]bisect.Purpose{bisect.EndGood, bisect.Searching, bisect.ConfirmCulprit}).Draw(t, "purpose")}
			if rapid.IntRange(0, 9).Draw(t, "void") == 0 {
				l.void(func(x Trial) bool { return x.Candidate.Commit == k.commit })
				for other := range tally {
					if other.commit == k.commit {
						delete(tally, other)
					}
				}
				continue
			}
			x, err := l.Launch(t.Context(), failing{}, k.commit, k.why)
			if err != nil || x.Nth != next[k] {
				t.Fatalf("launch %d of %v has the number %d: %v", next[k], k, x.Nth, err)
			}
			if x.Clean != (k.why == bisect.ConfirmCulprit) || (x.Hurry != "") != (k.why == bisect.Searching) {
				t.Fatalf("%v: clean %v, hurry %q", k, x.Clean, x.Hurry)
			}
			next[k]++
			sum := tally[k]
			switch x.Class {
			case bisect.OK:
				sum.Passes++
			case bisect.Crash:
				sum.Fails++
			}
			tally[k] = sum
			if again, err := l.Sample(t.Context(), x.Request); err != nil || again.Class != x.Class {
				t.Fatal("a launch that was made is not the same when it is asked for again")
			}
		}
		for k := range next {
			if got := l.Tally(failing{}, k.commit, k.why); got.Fails != tally[k].Fails || got.Passes != tally[k].Passes {
				t.Fatalf("%v: tally %+v, want %+v", k, got, tally[k])
			}
		}
		if len(s.asked) != len(l.Made) || len(s.asked) != l.Launches {
			t.Fatalf("%d made, %d kept, %d counted", len(s.asked), len(l.Made), l.Launches)
		}
	})
}

// A launch that the machine spoiled is no trial: it is not kept, and made anew when it is asked for again.
func TestLedgerKeepsNoErrors(t *testing.T) {
	broken := errors.New("no device")
	s := &sampler{answer: func(bisect.Request) (bisect.Outcome, error) { return bisect.Outcome{}, broken }}
	l := NewLedger(&Search{Sampler: s})
	x, err := l.Launch(t.Context(), failing{}, "a", bisect.Searching)
	if !errors.Is(err, broken) || len(l.Made) != 0 {
		t.Fatal(err, l.Made)
	}
	s.answer = func(bisect.Request) (bisect.Outcome, error) { return bisect.Outcome{Class: bisect.OK}, nil }
	if again, err := l.Sample(t.Context(), x.Request); err != nil || again.Class != bisect.OK || len(s.asked) != 2 {
		t.Fatal(again, err, len(s.asked))
	}
}

// trialsOf makes trials of commit a: "e" one that was stopped early, "p" one at its full limit of the proof, "o" one
// that passed there, "." another, "E" and so on the same of commit b.
func trialsOf(l *Ledger, what string) {
	for i, c := range what {
		x := Trial{Request: bisect.Request{Candidate: bisect.Candidate{Commit: "a"}, Purpose: bisect.Searching, Nth: i}, Outcome: bisect.Outcome{Class: bisect.Timeout, Wall: 1}}
		if c < 'a' && c != '.' {
			x.Candidate.Commit, c = "b", c-'A'+'a'
		}
		switch c {
		case 'e':
			x.Hurry, x.Early = "warmup", true
		case 'p':
			x.Purpose = bisect.ConfirmCulprit
		case 'o':
			x.Purpose, x.Class = bisect.ConfirmCulprit, bisect.OK
		case 's': // started early, and wrong
			x.Tentative, x.Early, x.Ahead, x.Class = true, true, true, bisect.Wrong
		case 'w':
			x.Class = bisect.Wrong
		case 'r', 'g': // started early, and right; and not started early
			x.AnyStart, x.Ahead, x.Class = true, c == 'r', bisect.OK
		}
		l.keep(x)
	}
}

func TestLedgerEarly(t *testing.T) {
	for _, c := range []struct {
		made   string
		early  bool
		only   string // the commit that has to be launched without haste
		always bool
	}{
		{"", false, "", false},
		{"..", false, "", false},
		{"e", true, "a", false},
		{"eE", true, "a", false},
		{"eEE", true, "b", false},
		{"eee", true, "a", true},
		{"eee.", true, "a", false},
		{"ep", true, "", false},
		{"epEE", true, "b", false},
		{"epppEE", true, "", false}, // three launches without haste are enough for all
		{"sw", true, "a", true},
		{"sp", true, "", true},
	} {
		l := NewLedger(&Search{})
		trialsOf(l, c.made)
		if l.Early() != c.early || l.EarlyOnly() != c.only || l.alwaysEarly() != c.always {
			t.Errorf("%q: early %v, only %q, always %v; want %v, %q, %v", c.made, l.Early(), l.EarlyOnly(), l.alwaysEarly(), c.early, c.only, c.always)
		}
		l.void(func(Trial) bool { return true })
		if l.Early() || l.EarlyOnly() != "" || l.alwaysEarly() {
			t.Errorf("%q: void trials count", c.made)
		}
	}
	for made, want := range map[string]bool{"": false, ".": false, "E": false, "e": true, "ee": true, "e.": false, "ep": false, "eo": true, "eoo": true, "eooo": false, "s": true, "so": true, "sw": false} {
		l := NewLedger(&Search{})
		if trialsOf(l, made); l.Unconfirmed("a") != want {
			t.Errorf("%q: unconfirmed %v", made, !want)
		}
	}
	for _, c := range []struct {
		made string
		wall float64 // seconds of the launch that passes; one that was stopped early took 1
		lied bool
	}{{"e", 0.5, false}, {"e", 2, true}, {"E", 2, false}, {"s", 2, false}, {"ss", 0.5, true}, {"ssw", 2, false}, {"sso", 2, false}} {
		l := NewLedger(&Search{})
		trialsOf(l, c.made)
		passed := Trial{Request: bisect.Request{Candidate: bisect.Candidate{Commit: "a"}, Purpose: bisect.ConfirmCulprit, Nth: 9}, Outcome: bisect.Outcome{Class: bisect.OK, Wall: c.wall}}
		if l.keep(passed); l.liedEarly("a", passed) != "" != c.lied {
			t.Errorf("%q, and a pass of %g s: %q", c.made, c.wall, l.liedEarly("a", passed))
		}
	}
}

func TestLedgerPassesEarlyOnly(t *testing.T) {
	for made, want := range map[string]bool{"": false, "rr": false, "rw": false, "rrw": true, "wrr": true, "rrwg": false, "rrws": false, "RRw": false, "ww": false} {
		l := NewLedger(&Search{})
		trialsOf(l, made)
		if passesEarlyOnly(l, failing{}, "a") != want {
			t.Errorf("%q: %v", made, !want)
		}
	}
}

// A commit that passes with help and fails without, or the other way round, gets no help until it wavers without.
func TestLedgerDoubtsHelp(t *testing.T) {
	for made, want := range map[string]bool{"": false, "rr": false, "gg": false, "rw": true, "gs": true, "srw": true, "rs": true, "rrwww": true, "gw": false, "rwg": false, "Rw": false} {
		l := NewLedger(&Search{})
		trialsOf(l, made)
		if helpDoubted(l, failing{}, "a") != want {
			t.Errorf("%q: %v", made, !want)
		}
		s := &sampler{answer: func(bisect.Request) (bisect.Outcome, error) { return bisect.Outcome{Class: bisect.OK}, nil }}
		l.Search.Sampler = s
		if _, err := l.Launch(t.Context(), helped{}, "a", bisect.ConfirmParent); err != nil || s.asked[0].AnyStart == want || s.asked[0].Tentative == want {
			t.Errorf("%q: %v, asked for %+v", made, err, s.asked)
		}
	}
}

// helped is failing with launches that bear any start.
type helped struct{ failing }

func (helped) Shape(r *bisect.Request, _ bool) { r.AnyStart, r.Tentative = true, true }

// A split is uneven only where the two answers cost very differently; a failure that need not run to its limit is cheap.
func TestLedgerPrices(t *testing.T) {
	made := func(class bisect.Class, wall, build float64) Trial {
		return Trial{Request: bisect.Request{Candidate: bisect.Candidate{Commit: "a"}}, Outcome: bisect.Outcome{Class: class, Wall: wall, Built: build > 0, Build: build}}
	}
	for _, c := range []struct {
		name string
		made []Trial
		want belief.Prices
	}{
		{"nothing is known", nil, belief.Prices{Pass: 1, Fail: 1}},
		{"alike", []Trial{made(bisect.OK, 3, 8), made(bisect.OK, 5, 0), made(bisect.Crash, 6, 4)}, belief.Prices{Pass: 6, Fail: 6, Build: 6}},
		{"a time-out may be stopped at twice a pass, which is not dear enough for an uneven split", []Trial{made(bisect.OK, 3, 0), made(bisect.Timeout, 179, 0)}, belief.Prices{Pass: 6, Fail: 6}},
		{"skips cost nothing that is known", []Trial{made(bisect.OK, 3, 0), made(bisect.Skip, 500, 0)}, belief.Prices{Pass: 4, Fail: 1}},
	} {
		l := NewLedger(&Search{})
		for i, x := range c.made {
			x.Nth = i
			l.keep(x)
		}
		got := l.prices(failing{})
		if got.Pass != c.want.Pass || got.Fail != c.want.Fail || got.Build != c.want.Build {
			t.Errorf("%s: pass %v, fail %v, build %v; want %v, %v, %v", c.name, got.Pass, got.Fail, got.Build, c.want.Pass, c.want.Fail, c.want.Build)
		}
		l.Patient = true
		if slow := l.prices(failing{}); len(c.made) == 2 && c.made[1].Class == bisect.Timeout && slow.Fail != 180 {
			t.Errorf("without haste a failure costs its limit, not %v", slow.Fail)
		}
	}
}

// The launches of an end count up to the first that is not ok.
func TestLedgerDecisive(t *testing.T) {
	l := NewLedger(&Search{})
	for i, class := range []bisect.Class{bisect.OK, bisect.OK, bisect.Wrong, bisect.OK} {
		l.keep(Trial{Request: bisect.Request{Candidate: bisect.Candidate{Commit: "a"}, Purpose: bisect.EndBad, Nth: i}, Outcome: bisect.Outcome{Class: class}})
	}
	if o, n := l.Decisive("a", bisect.EndBad); o.Class != bisect.Wrong || n != 3 {
		t.Error(o.Class, n)
	}
	if o, n := l.Decisive("a", bisect.EndGood); o.Class != "" || n != 0 {
		t.Error(o.Class, n)
	}
	if o := l.Last("a", func(x Trial) bool { return x.Class == bisect.OK }); o.Class != bisect.OK {
		t.Error(o)
	}
}

// Time-outs that were seen before the good end was known say nothing where it names phases: they are made again.
func TestLedgerLooksAgain(t *testing.T) {
	looked := []Trial{
		{Request: bisect.Request{Candidate: bisect.Candidate{Commit: "a"}, Purpose: bisect.FindGood}, Outcome: bisect.Outcome{Class: bisect.Timeout}},
		{Request: bisect.Request{Candidate: bisect.Candidate{Commit: "b"}, Purpose: bisect.FindGood}, Outcome: bisect.Outcome{Class: bisect.Crash}},
	}
	for _, speaks := range []bool{false, true} {
		l := NewLedger(&Search{Looked: looked})
		l.LookAgain(bisect.Outcome{Class: bisect.OK, Speaks: speaks})
		var void []bool
		for _, x := range l.Made {
			void = append(void, x.Void)
		}
		if !slices.Equal(void, []bool{speaks, false}) {
			t.Errorf("the good end names phases %v: void %v", speaks, void)
		}
		if n := l.Number("a", bisect.FindGood); speaks && n == 0 {
			t.Error("the launch made again has the number of the one before it")
		}
	}
}
