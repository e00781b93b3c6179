package proc

import (
	"sync"
	"time"
)

// phases is the clock of a trial: one timer for the limit of the whole process
// and that of the phase in force, whichever comes first. It counts from the
// start of the leader and stands still while the tree is frozen.
type phases struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool

	started time.Time
	whole   time.Duration

	phase   string
	limit   time.Duration
	entered time.Duration // on this clock

	held     bool          // a pause was asked for, and its beginning is not yet known
	from, to time.Time     // the last pause; while it lasts, to is zero
	before   time.Duration // the sum of those before
	last     time.Duration // the last stamp

	hit   bool          // a limit was reached
	hitAt time.Duration // and when, on this clock
}

// over reports whether a line came after the limit that ended the process: lines that a
// program writes while it is being killed do not belong to the trial.
func (c *phases) over(stamp time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hit && stamp > c.hitAt
}

// newPhases returns the clock of s, stopped until start.
func newPhases(s Spec) *phases {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &phases{timer: t, whole: s.Limit, phase: s.Phase, limit: s.PhaseLimit}
}

// start starts the clock.
func (c *phases) start(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = at
	c.arm()
}

// apply enters the phase of t at the given time.
func (c *phases) apply(t Transition, at time.Time) {
	if t.Phase == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase, c.limit, c.entered = t.Phase, t.Limit, c.own(at)
	c.arm()
}

// stamp is read for the callbacks: it never returns less than before, although the
// beginning of a pause becomes known a little late.
func (c *phases) stamp(at time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, c.own(at))
	return c.last
}

// read returns what the clock showed at a time.
func (c *phases) read(at time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own(at)
}

// own is read, for times that are not before the last pause but one.
func (c *phases) own(at time.Time) time.Duration {
	d := at.Sub(c.started) - c.before
	if c.from.IsZero() || !at.After(c.from) {
		return d
	}
	if !c.to.IsZero() && c.to.Before(at) {
		at = c.to
	}
	return d - at.Sub(c.from)
}

// hold suspends the limits until pause is called with the time at which the tree was
// brought to a halt.
func (c *phases) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
	c.arm()
}

// pause stops the clock at a time, until resume. A limit that was reached before
// stays reached.
func (c *phases) pause(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before += c.to.Sub(c.from)
	c.from, c.to, c.held = at, time.Time{}, false
	c.arm()
}

// resume ends a pause.
func (c *phases) resume(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = at
	c.arm()
}

// frozen reports whether the clock stands still.
func (c *phases) frozen() bool { return !c.from.IsZero() && c.to.IsZero() }

// stop stops the clock for good.
func (c *phases) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}

// deadline returns the earlier limit, and whether there is one.
func (c *phases) deadline() (at time.Duration, whole, ok bool) {
	if c.limit > 0 {
		at, ok = c.entered+c.limit, true
	}
	if c.whole > 0 && (!ok || c.whole <= at) {
		return c.whole, true, true
	}
	return at, false, ok
}

func (c *phases) arm() {
	at, _, ok := c.deadline()
	left := at - c.own(time.Now())
	if !ok || c.stopped || c.held || c.frozen() && left > 0 {
		c.timer.Stop()
		return
	}
	c.timer.Reset(max(left, 0))
}

// expired returns the limit that has been reached, and stops the clock then. It
// returns nil when a new phase came before the timer was looked at.
func (c *phases) expired() *Timeout {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, whole, ok := c.deadline()
	now := c.own(time.Now())
	if !ok || c.stopped || c.held || now < at {
		c.arm()
		return nil
	}
	c.stopped = true
	c.hit, c.hitAt = true, at
	if whole {
		return &Timeout{Phase: c.phase, Limit: c.whole, Elapsed: now, Whole: true}
	}
	return &Timeout{Phase: c.phase, Limit: c.limit, Elapsed: now - c.entered}
}
