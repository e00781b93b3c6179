package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// Slots is a Sampler that makes trials side by side, one in each slot: the one that is asked for, and those that will
// probably be asked for after it. Trials that will not be asked for any more are cancelled. It serves one goroutine,
// and the slots one each.
type Slots struct {
	Each  []bisect.Sampler                                   // one for each slot, from 0
	Alone func(bisect.Request) bool                          // nothing may run beside it; it gets the first slot
	Next  func(ctx context.Context, n int) []bisect.Request  // what will be asked for, see [bisect.Foresight.Next]; may be nil
	Keep  func(bisect.Request, bisect.Outcome) error         // takes in a trial that was made before it was asked for
	Wait  func(slot int) (over func())                       // the search waits for the trial in a slot; may be nil
	OnEnd func(slot int)                                     // a slot has nothing to do; may be nil
	Made  func(slot int, r bisect.Request, o bisect.Outcome) // a trial was made; called while its slot is idle; may be nil
	Begin func(slot int)                                     // an idle slot is about to begin; may be nil
	Until time.Time                                          // what runs then ends in [bisect.ErrSpent]; zero: never
	// Careful is for trials that nobody has said to share nothing. Their outcomes say what ran beside others; what
	// is begun ahead ends by itself, since a command that is killed may leave something behind; and a proof has
	// only launches of the same commit beside it.
	Careful bool

	left    map[int]bool // slots that get no more trials
	running []*running
	ended   chan *running           // as many as there are slots, so that no trial blocks
	failed  map[bisect.Request]bool // failed by the machine's fault before they were asked for; not begun ahead again
	cut     bool                    // a trial that was asked for was cut off
	lost    int                     // trials that were cancelled
	wasted  time.Duration           // on these
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

// stop ends a trial before its time.
func (x *running) stop() {
	x.stopped = true
	x.cancel()
}

// Sample makes a trial, or waits for it if it is being made already.
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
		if !alone && len(s.ended) == 0 { // else there is more to go by
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

// wait waits for the end of a trial, or until the one that was asked for has taken twice as long as it has now: a long
// trial is likely to fail, which changes what will be asked for next.
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

// Running reports whether a trial is being made, and for how long.
func (s *Slots) Running(r bisect.Request) (time.Duration, bool) {
	if x := s.find(r); x != nil {
		return time.Since(x.began), true
	}
	return 0, false
}

// Spent reports that a trial was cut off at Until although it was asked for.
func (s *Slots) Spent() bool { return s.cut }

// Lost is how many trials were cancelled because they would not be asked for any more, and the time that they took.
func (s *Slots) Lost() (trials int, took time.Duration) { return s.lost, s.wasted }

// Stop cancels the trials that were not asked for, or waits for them. Those that have ended by themselves are kept.
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

// find is the running trial that answers a request, started ahead of it; one that was stopped answers nothing.
func (s *Slots) find(r bisect.Request) *running {
	if i := slices.IndexFunc(s.running, func(x *running) bool { return x.Request == r && !x.stopped }); i >= 0 {
		return s.running[i]
	}
	return nil
}

// named finds the trial of an id, however it was asked for: two of one id are not made at a time.
func (s *Slots) named(id bisect.TrialID) *running {
	if i := slices.IndexFunc(s.running, func(x *running) bool { return x.ID() == id }); i >= 0 {
		return s.running[i]
	}
	return nil
}

// yield makes room for a trial.
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
		if x.On == 0 || x.Request != r && x.ID() == r.ID() { // those of a batch are all asked for
			s.spare(x)
		}
		if err := s.keep(s.next()); err != nil {
			return err
		}
	}
}

// spare gives up a trial, unless it has to end by itself.
func (s *Slots) spare(x *running) {
	if !s.Careful {
		x.stop()
	}
}

// Leave gives a slot no more trials.
func (s *Slots) Leave(slot int) {
	if s.left == nil {
		s.left = map[int]bool{}
	}
	s.left[slot] = true
}

// free is a slot for a trial: that of its device, or the first that is idle.
func (s *Slots) free(r bisect.Request) (slot int, ok bool) {
	busy := func(slot int) bool {
		return s.left[slot] || slices.ContainsFunc(s.running, func(x *running) bool { return x.slot == slot })
	}
	if r.On > 0 {
		return min(r.On, len(s.Each)) - 1, !busy(min(r.On, len(s.Each)) - 1)
	}
	for slot < len(s.Each) && busy(slot) {
		slot++
	}
	return slot, slot < len(s.Each)
}

// start makes a trial in a free slot.
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

// fill gives free slots something to do. Likely trials replace unlikely ones; those that will not be asked for any
// more are cancelled.
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
		case r.On > 0:
		default:
			s.replace(asked, first)
			return // its slot is given away when it has ended
		}
	}
}

// replace stops a trial that is less likely to be asked for than some that have no slot.
func (s *Slots) replace(asked bisect.Request, first []bisect.Request) {
	for _, x := range s.running {
		if x.Request != asked && !slices.Contains(first, x.Request) {
			s.spare(x)
			return
		}
	}
}

// next waits for the end of a trial; its slot is free then.
func (s *Slots) next() *running {
	x := <-s.ended
	x.outcome.Beside = x.beside
	s.running = slices.DeleteFunc(s.running, func(o *running) bool { return o == x })
	if s.OnEnd != nil {
		s.OnEnd(x.slot)
	}
	if s.Made != nil && x.err == nil {
		s.Made(x.slot, x.Request, x.outcome)
	}
	return x
}

// keep takes in a trial that was not asked for yet. One that the machine spoiled is made again when it is.
func (s *Slots) keep(x *running) error {
	if x.err == nil {
		return s.Keep(x.Request, x.outcome)
	}
	if !x.stopped {
		s.failed[x.Request] = true
		return nil
	}
	s.lost++
	s.wasted += time.Since(x.began)
	return nil
}
