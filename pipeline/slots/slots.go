// Package slots makes trials side by side: the one that a search asks for, and those that it will probably ask for next
// ([Slots]). Functions that it is given say which trials these are and which must run alone; it decides which of them
// run in which slot, and which are cancelled. It must not know how a trial is made.
package slots

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// Slots is a Sampler that makes trials side by side, one in each slot: the one that is asked for, and those that will
// probably be asked for after it. Trials that will not be asked for any more are cancelled. It serves one goroutine, in
// which it calls its functions too; the sampler of a slot makes one trial at a time.
type Slots struct {
	Each  []bisect.Sampler                                   // one for each slot, from 0
	Alone func(bisect.Request) bool                          // nothing may run beside it; it gets the first slot
	Next  func(ctx context.Context, n int) []bisect.Request  // what will be asked for, see [bisect.Foresight.Next]; may be nil
	Keep  func(bisect.Request, bisect.Outcome) error         // stores a trial that was made before it was asked for
	Wait  func(slot int) (over func())                       // the search waits for the trial in a slot; may be nil
	OnEnd func(slot int)                                     // a slot has nothing to do; may be nil
	Made  func(slot int, r bisect.Request, o bisect.Outcome) // a trial was made; called while its slot is idle; may be nil
	Begin func(slot int)                                     // an idle slot is about to begin; may be nil
	Holds func(slot int, r bisect.Request) bool              // an idle slot has what r launches, built; may be nil
	Until time.Time                                          // what runs then ends in [bisect.ErrSpent]; zero: never
	// Careful is for trials that may share something, such as a file or a port, because the user has not said that
	// they share nothing. Their outcomes say which ran beside others; what is begun ahead is left to end by itself, as
	// a killed command may leave something behind; and a proof has only launches of the same commit beside it.
	Careful bool

	left      map[int]bool // slots that get no more trials
	running   []*running
	ended     chan *running           // as many as there are slots, so that no trial blocks
	failed    map[bisect.Request]bool // failed by the machine's fault before they were asked for; not begun ahead again
	cut       bool                    // a trial that was asked for was cut off
	cancelled int                     // trials that were cancelled
	wasted    time.Duration           // on these
}

// running is a trial in a slot.
type running struct {
	bisect.Request
	slot    int
	began   time.Time
	cancel  context.CancelFunc
	stopped bool
	beside  bool // another one ran meanwhile
	outcome bisect.Outcome
	err     error
}

// Sample makes a trial, or waits for it if it is being made already. Meanwhile it fills the other slots. Its error is
// that of the trial, [bisect.ErrSpent] at Until, or that of Keep for another trial.
func (s *Slots) Sample(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
	if s.ended == nil {
		s.ended, s.failed = make(chan *running, len(s.Each)), map[bisect.Request]bool{}
	}
	alone := s.Alone(r)
	if alone || !s.fits(r) {
		if err := s.Stop(); err != nil {
			return bisect.Outcome{}, err
		}
	}
	mine := s.find(r)
	if mine == nil {
		if err := s.yield(r); err != nil {
			return bisect.Outcome{}, err
		}
		mine = s.start(ctx, r)
	}
	if s.Wait != nil {
		defer s.Wait(mine.slot)()
	}
	for {
		if !alone && len(s.ended) == 0 { // what has ended is taken in first, as it changes what will be asked for
			s.fill(ctx, r)
		}
		if s.wait(mine); len(s.ended) == 0 {
			continue
		}
		x := s.next()
		if x == mine {
			s.cut = s.cut || errors.Is(x.err, bisect.ErrSpent)
			return x.outcome, x.err
		}
		if err := s.keep(x); err != nil {
			return bisect.Outcome{}, err
		}
	}
}

// fits reports whether a trial may run beside those that run.
func (s *Slots) fits(r bisect.Request) bool {
	return !s.Careful || !slices.ContainsFunc(s.running, func(x *running) bool {
		return x.Purpose != r.Purpose || r.Purpose != bisect.Searching && x.Candidate != r.Candidate
	})
}

// wait waits for the end of a trial, or until the one that was asked for has taken twice as long as it has now: the
// longer a trial takes, the likelier it fails, which changes what will be asked for next. The trial stays in s.ended.
func (s *Slots) wait(mine *running) {
	const soon = 250 * time.Millisecond
	again := time.NewTimer(max(soon, time.Since(mine.began)))
	defer again.Stop()
	select {
	case x := <-s.ended:
		s.ended <- x
	case <-again.C:
	}
}

// Running is for how long a trial has been made so far, and whether it is being made at all.
func (s *Slots) Running(r bisect.Request) (time.Duration, bool) {
	if x := s.find(r); x != nil {
		return time.Since(x.began), true
	}
	return 0, false
}

// Spent reports that a trial was cut off at Until although it was asked for.
func (s *Slots) Spent() bool { return s.cut }

// Cancelled is how many trials were cancelled because they would not be asked for any more, and the time that they took.
func (s *Slots) Cancelled() (trials int, took time.Duration) { return s.cancelled, s.wasted }

// Stop cancels all trials that run or, with Careful, waits for them. Those that have ended by themselves are kept. It
// returns the first error of Keep, when no trial runs any more.
func (s *Slots) Stop() (err error) {
	for _, x := range s.running {
		s.spare(x)
	}
	for len(s.running) > 0 {
		if e := s.keep(s.next()); err == nil {
			err = e
		}
	}
	return err
}

// find is the running trial that answers a request, or nil. One that was stopped answers nothing.
func (s *Slots) find(r bisect.Request) *running {
	if i := slices.IndexFunc(s.running, func(x *running) bool { return x.Request == r && !x.stopped }); i >= 0 {
		return s.running[i]
	}
	return nil
}

// named is the running trial with an id, or nil, whatever its time limit: two with one id are not made at a time.
func (s *Slots) named(id bisect.TrialID) *running {
	if i := slices.IndexFunc(s.running, func(x *running) bool { return x.ID() == id }); i >= 0 {
		return s.running[i]
	}
	return nil
}

// yield makes room for a trial: it waits until no trial with the same id runs and its slot, or any, is free. What has
// to go is stopped unless the search will ask for it: a trial with the same id, else the one in the wanted slot, else
// the one that began last.
func (s *Slots) yield(r bisect.Request) error {
	for {
		x := s.named(r.ID())
		if _, free := s.free(r); x == nil && !free {
			x = s.running[len(s.running)-1]
			if i := slices.IndexFunc(s.running, func(x *running) bool { return x.slot == r.On-1 }); i >= 0 {
				x = s.running[i]
			}
		}
		if x == nil {
			return nil
		}
		// Launches on given devices come in batches, and all of a batch is asked for.
		if x.On == 0 || x.Request != r && x.ID() == r.ID() {
			s.spare(x)
		}
		if err := s.keep(s.next()); err != nil {
			return err
		}
	}
}

// spare gives up a trial, unless it has to end by itself. Its slot is free when it has ended.
func (s *Slots) spare(x *running) {
	if !s.Careful {
		x.stopped = true
		x.cancel()
	}
}

// Leave gives a slot no more trials: its device has turned out to differ from the others.
func (s *Slots) Leave(slot int) {
	if s.left == nil {
		s.left = map[int]bool{}
	}
	s.left[slot] = true
}

// free is a slot for a trial and whether it can begin there now: the slot of its device, else an idle one that has its
// build, else the first idle one.
func (s *Slots) free(r bisect.Request) (slot int, ok bool) {
	busy := func(slot int) bool {
		return s.left[slot] || slices.ContainsFunc(s.running, func(x *running) bool { return x.slot == slot })
	}
	if r.On > 0 {
		return min(r.On, len(s.Each)) - 1, !busy(min(r.On, len(s.Each)) - 1)
	}
	if s.Holds != nil {
		for slot := range s.Each {
			if !busy(slot) && s.Holds(slot, r) {
				return slot, true
			}
		}
	}
	for slot < len(s.Each) && busy(slot) {
		slot++
	}
	return slot, slot < len(s.Each)
}

// start begins a trial in a free slot, which there must be.
func (s *Slots) start(ctx context.Context, r bisect.Request) *running {
	slot, _ := s.free(r)
	if s.Begin != nil {
		s.Begin(slot)
	}
	x := &running{Request: r, slot: slot, began: time.Now()}
	if s.Until.IsZero() {
		ctx, x.cancel = context.WithCancel(ctx)
	} else {
		ctx, x.cancel = context.WithDeadlineCause(ctx, s.Until, bisect.ErrSpent)
	}
	if len(s.running) > 0 && s.Careful {
		for _, y := range append(s.running, x) {
			y.beside = true
		}
	}
	s.running = append(s.running, x)
	go func() {
		defer x.cancel()
		x.outcome, x.err = s.Each[slot].Sample(ctx, r)
		if x.err != nil && context.Cause(ctx) == bisect.ErrSpent {
			x.err = bisect.ErrSpent
		}
		s.ended <- x
	}()
	return x
}

// fill gives free slots something to do. It looks twice as many trials ahead as there are slots: a running trial that
// is not among these is cancelled, and one that is among the later half gives way to one of the first half.
func (s *Slots) fill(ctx context.Context, asked bisect.Request) {
	if len(s.Each) == 1 || s.Next == nil {
		return
	}
	next := s.Next(ctx, 2*len(s.Each))
	next = slices.DeleteFunc(next, func(r bisect.Request) bool { return s.failed[r] || s.Alone(r) })
	first := next[:min(len(next), len(s.Each))]
	if slices.ContainsFunc(next, func(r bisect.Request) bool { return r.On > 0 }) {
		first = next // which slots these take is given
	}
	for _, x := range s.running {
		if x.Request != asked && !slices.Contains(next, x.Request) {
			s.spare(x)
		}
	}
	for _, r := range first {
		_, free := s.free(r)
		switch {
		case s.named(r.ID()) != nil, !s.fits(r):
		case free:
			s.start(ctx, r)
		case r.On > 0: // its device is busy; another slot may still be free for the next one
		default:
			less := func(x *running) bool { return x.Request != asked && !slices.Contains(first, x.Request) }
			if i := slices.IndexFunc(s.running, less); i >= 0 {
				s.spare(s.running[i])
			}
			return // its slot is given away when it has ended
		}
	}
}

// next waits for the end of a trial and frees its slot.
func (s *Slots) next() *running {
	x := <-s.ended
	x.outcome.Beside = x.outcome.Beside || x.beside
	s.running = slices.DeleteFunc(s.running, func(o *running) bool { return o == x })
	if s.OnEnd != nil {
		s.OnEnd(x.slot)
	}
	if s.Made != nil && x.err == nil {
		s.Made(x.slot, x.Request, x.outcome)
	}
	return x
}

// keep takes in a trial that ended before it was asked for. One that the machine spoiled is made again when it is.
func (s *Slots) keep(x *running) error {
	if x.err == nil {
		return s.Keep(x.Request, x.outcome)
	}
	if !x.stopped {
		s.failed[x.Request] = true
		return nil
	}
	s.cancelled++
	s.wasted += time.Since(x.began)
	return nil
}
