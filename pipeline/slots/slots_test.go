package slots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// yard watches trials that take what their candidates say, in seconds, and mean nothing else.
type yard struct {
	t       *testing.T
	mu      sync.Mutex
	at      []*bisect.Request // what is made in each slot
	made    []string          // in the order of their ends; what was stopped is marked
	most    int               // trials seen at a time
	broken  string            // a candidate that the machine fails at, once
	kept    []string
	keepErr error
}

// place is one slot of a yard.
type place struct {
	*yard
	slot int
}

func (p place) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	p.enter(r)
	var seconds float64
	fmt.Sscanf(r.Candidate.Assign, "%f", &seconds)
	// no timer's channel: with those the runtime of Go 1.26 crashed once, in a bubble under the race detector
	over, cancel := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
	defer cancel()
	<-over.Done()
	err := context.Cause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[p.slot] = nil
	name := r.Candidate.Commit
	if err == nil && p.broken == name {
		p.broken, err = "", &bisect.InfraError{What: "testing", Err: errors.New("no power")}
	}
	if err != nil {
		name += "!"
	}
	p.made = append(p.made, name)
	return bisect.Outcome{Class: bisect.OK, Why: r.Candidate.Commit}, err
}

func (p place) enter(r bisect.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at[p.slot] != nil {
		p.t.Errorf("two trials in slot %d: %+v and %+v", p.slot, *p.at[p.slot], r)
	}
	p.at[p.slot] = &r
	n := 0
	for i, x := range p.at {
		if x == nil {
			continue
		}
		n++
		if i != p.slot && (x.ID() == r.ID() || (x.Timing || r.Timing) && r.On == 0) {
			p.t.Errorf("beside each other: %+v and %+v", *x, r)
		}
	}
	p.most = max(p.most, n)
}

func newYard(t *testing.T, n int) (*yard, *Slots) {
	y := &yard{t: t, at: make([]*bisect.Request, n)}
	s := &Slots{Alone: func(r bisect.Request) bool { return r.Timing }}
	s.Keep = func(r bisect.Request, o bisect.Outcome) error {
		if o.Why != r.Candidate.Commit {
			t.Errorf("%s has the outcome of %s", r.Candidate.Commit, o.Why)
		}
		y.kept = append(y.kept, r.Candidate.Commit)
		return y.keepErr
	}
	for i := range n {
		s.Each = append(s.Each, place{y, i})
	}
	return y, s
}

func lasting(name string, seconds float64) bisect.Request {
	return bisect.Request{Candidate: bisect.Candidate{Commit: name, Assign: fmt.Sprint(seconds)}, Purpose: bisect.Searching}
}

// foretold is a list of trials that will be asked for, as far as they are not kept already.
func (y *yard) foretold(list ...bisect.Request) func(context.Context, int) []bisect.Request {
	y.kept = nil
	return func(_ context.Context, n int) (open []bisect.Request) {
		for _, r := range list {
			if !slices.Contains(y.kept, r.Candidate.Commit) {
				open = append(open, r)
			}
		}
		return open[:min(n, len(open))]
	}
}

// sample asks for a trial and returns how long that took.
func sample(t *testing.T, s *Slots, r bisect.Request) time.Duration {
	t.Helper()
	began := time.Now()
	o, err := s.Sample(t.Context(), r)
	if err != nil || o.Why != r.Candidate.Commit {
		t.Fatalf("%s: %+v, %v", r.Candidate.Commit, o, err)
	}
	return time.Since(began)
}

// What will be asked for is made meanwhile and kept; a trial that hangs holds up nobody else, and is
// stopped once nobody would ask for it any more.
func TestSlotsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, s := newYard(t, 2)
		a, b, c, d, hangs := lasting("a", 10), lasting("b", 3), lasting("c", 4), lasting("d", 10), lasting("hangs", 1e6)
		s.Next = y.foretold(a, b, c)
		if took := sample(t, s, a); took != 10*time.Second || !slices.Equal(y.kept, []string{"b", "c"}) {
			t.Errorf("a: %v, kept %v", took, y.kept)
		}
		s.Next = y.foretold(d, hangs)
		if took := sample(t, s, d); took != 10*time.Second || y.most != 2 {
			t.Errorf("d: %v, %d at a time", took, y.most)
		}
		s.Next = y.foretold(lasting("e", 1), lasting("f", 1)) // made behind what hangs, as soon as that has stopped
		sample(t, s, lasting("e", 1))
		s.Next = nil // e is not asked for again
		sample(t, s, lasting("f", 1))
		if err := s.Stop(); err != nil || !slices.Contains(y.made, "hangs!") || slices.Contains(y.kept, "hangs") {
			t.Errorf("%v: made %v, kept %v", err, y.made, y.kept)
		}
		if n, took := s.Cancelled(); n != 1 || took != 10*time.Second {
			t.Errorf("cancelled %d trials, %v", n, took)
		}
	})
}

// A trial is made in the slot that has its build, if that is idle.
func TestSlotsUseTheBuildThatTheyHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, s := newYard(t, 3)
		var in []int
		s.Begin = func(slot int) { in = append(in, slot) }
		s.Holds = func(slot int, r bisect.Request) bool { return slot == 2 && r.Candidate.Commit == "built" }
		sample(t, s, lasting("built", 1))
		sample(t, s, lasting("other", 1))
		s.Next = y.foretold(lasting("built", 1))
		sample(t, s, lasting("other", 1))
		if want := []int{2, 0, 0, 2}; !slices.Equal(in, want) {
			t.Errorf("trials began in slots %v, want %v", in, want)
		}
	})
}

// Trials of a batch begin at once, each on its device; two on one device follow each other. What slots learn of others they
// learn before they begin.
func TestSlotsOfDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, s := newYard(t, 2)
		s.Alone = func(bisect.Request) bool { return false }
		on := func(device int, name string, seconds float64) bisect.Request {
			r := lasting(name, seconds)
			r.On, r.Timing = device, true
			return r
		}
		var order []string
		s.Begin = func(slot int) { order = append(order, fmt.Sprint("begin ", slot)) }
		s.Made = func(slot int, r bisect.Request, _ bisect.Outcome) {
			order = append(order, fmt.Sprint(r.Candidate.Commit, " in ", slot))
		}
		a, b, c, d := on(1, "a", 5), on(1, "b", 5), on(2, "c", 5), on(2, "d", 5)
		s.Next = y.foretold(a, b, c, d)
		began := time.Now()
		for _, r := range []bisect.Request{a, b, c, d} {
			if !slices.Contains(y.kept, r.Candidate.Commit) {
				sample(t, s, r)
				y.kept = append(y.kept, r.Candidate.Commit)
			}
		}
		if took := time.Since(began); took > 11*time.Second || y.most != 2 || len(y.made) != 4 {
			t.Errorf("%v, %d at a time, %v", took, y.most, y.made)
		}
		if order[0] != "begin 0" || order[1] != "begin 1" || !slices.Contains(order, "a in 0") || !slices.Contains(order, "d in 1") {
			t.Errorf("%v", order)
		}
		s.Next = nil
		s.Leave(1)
		if slot, ok := s.free(lasting("e", 1)); slot != 0 || !ok {
			t.Errorf("slot %d, %v", slot, ok)
		}
		sample(t, s, lasting("e", 1))
		if _, ok := s.free(on(2, "f", 1)); ok {
			t.Error("a slot that was left takes a trial")
		}
	})
}

// What runs when the budget is used up is cut off, what was begun ahead too; what ended before is kept.
func TestSlotsUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, s := newYard(t, 2)
		s.Until = time.Now().Add(15 * time.Second)
		a, b, c := lasting("a", 10), lasting("b", 3), lasting("c", 1e6)
		s.Next = y.foretold(a, b, c)
		sample(t, s, a)
		if s.Spent() {
			t.Error("spent too soon")
		}
		began := time.Now()
		if _, err := s.Sample(t.Context(), lasting("d", 1e6)); !errors.Is(err, bisect.ErrSpent) || !s.Spent() || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v, spent %v", err, time.Since(began), s.Spent())
		}
		if _, err := s.Sample(t.Context(), lasting("e", 1)); !errors.Is(err, bisect.ErrSpent) {
			t.Errorf("begun after the end: %v", err)
		}
		if err := s.Stop(); err != nil || !slices.Equal(y.kept, []string{"b"}) {
			t.Errorf("%v: kept %v", err, y.kept)
		}
	})
}

// A trial that was begun ahead is waited for, not made again; one of the same name that was asked for in
// another way is.
func TestSlotsTakeWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, s := newYard(t, 2)
		a, b := lasting("a", 4), lasting("b", 10)
		hurried := b
		hurried.Hurry = bisect.WholeTrial
		s.Next = y.foretold(a, b)
		sample(t, s, a)
		s.Next = y.foretold(b)
		if took := sample(t, s, b); took != 6*time.Second || strings.Join(y.made, " ") != "a b" {
			t.Errorf("%v, made %v", took, y.made)
		}
		s.Next = y.foretold(a, b)
		sample(t, s, a)
		s.Next = y.foretold(hurried)
		if took := sample(t, s, hurried); took != 10*time.Second || strings.Join(y.made, " ") != "a b a b! b" {
			t.Errorf("%v, made %v", took, y.made)
		}
	})
}

// Nothing runs beside a trial whose times count.
func TestSlotsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, s := newYard(t, 3)
		a, b, timed := lasting("a", 1), lasting("b", 10), lasting("timed", 5)
		timed.Timing = true
		s.Next = y.foretold(a, b, timed)
		sample(t, s, a)
		if took := sample(t, s, timed); took != 5*time.Second || strings.Join(y.made, " ") != "a b! timed" {
			t.Errorf("%v, made %v", took, y.made)
		}
	})
}

// What the machine failed at ahead of time is made when it is asked for, and not before; other trouble
// stops the search.
func TestSlotsTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, s := newYard(t, 2)
		a, b := lasting("a", 4), lasting("b", 1)
		y.broken = "b"
		s.Next = y.foretold(a, b)
		sample(t, s, a)
		if strings.Join(y.made, " ") != "b! a" {
			t.Errorf("made %v", y.made)
		}
		sample(t, s, b)
		y.broken = "a"
		var infra *bisect.InfraError
		if _, err := s.Sample(t.Context(), a); !errors.As(err, &infra) {
			t.Errorf("asked for: %v", err)
		}
		y.keepErr = errors.New("the disk is full")
		s.Next = y.foretold(a, lasting("c", 1))
		if _, err := s.Sample(t.Context(), a); !errors.Is(err, y.keepErr) {
			t.Errorf("keeping: %v", err)
		}
		y.keepErr = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Sample(ctx, b); err == nil { // at the same instant either may win
			t.Log("it ended in time")
		}
		if _, err := s.Sample(ctx, lasting("d", 9)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted: %v", err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// Whatever is foretold, rightly or not: every trial asked for is made as asked for, none beside one of
// its name or beside one whose times count, and nothing is left over.
func TestSlotsAtRandom(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 12))
			y, s := newYard(t, 1+rng.IntN(4))
			any := func() bisect.Request {
				r := lasting(string(rune('a'+rng.IntN(8))), float64(rng.IntN(6)))
				r.Nth, r.Timing = rng.IntN(2), rng.IntN(8) == 0
				if rng.IntN(4) == 0 {
					r.Hurry = "load"
				}
				return r
			}
			s.Next = func(_ context.Context, n int) (list []bisect.Request) {
				for range rng.IntN(n + 1) {
					list = append(list, any())
				}
				return list
			}
			for range 30 {
				sample(t, s, any())
			}
			if err := s.Stop(); err != nil || y.most > len(s.Each) {
				t.Errorf("seed %d: %v, %d at a time", seed, err, y.most)
			}
		})
	}
}
