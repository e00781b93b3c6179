package proc

import (
	"sync"
	"time"
)

// phases is the clock of a trial: one timer for the limit of the whole process
// and that of the phase in force, whichever comes first.
type phases struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool

	started time.Time
	whole   time.Duration

	phase   string
	limit   time.Duration
	entered time.Time
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
	c.started, c.entered = at, at
	c.arm()
}

// apply enters the phase of t at the given time.
func (c *phases) apply(t Transition, at time.Time) {
	if t.Phase == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase, c.limit, c.entered = t.Phase, t.Limit, at
	c.arm()
}

// stop stops the clock for good.
func (c *phases) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}

// deadline returns the earlier limit, and whether there is one.
func (c *phases) deadline() (at time.Time, whole, ok bool) {
	if c.limit > 0 {
		at, ok = c.entered.Add(c.limit), true
	}
	if end := c.started.Add(c.whole); c.whole > 0 && (!ok || !end.After(at)) {
		return end, true, true
	}
	return at, false, ok
}

func (c *phases) arm() {
	at, _, ok := c.deadline()
	if !ok || c.stopped {
		c.timer.Stop()
		return
	}
	c.timer.Reset(time.Until(at))
}

// expired returns the limit that has been reached, and stops the clock then. It
// returns nil when a new phase came before the timer was looked at.
func (c *phases) expired() *Timeout {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, whole, ok := c.deadline()
	now := time.Now()
	if !ok || c.stopped || now.Before(at) {
		c.arm()
		return nil
	}
	c.stopped = true
	if whole {
		return &Timeout{Phase: c.phase, Limit: c.whole, Elapsed: now.Sub(c.started), Whole: true}
	}
	return &Timeout{Phase: c.phase, Limit: c.limit, Elapsed: now.Sub(c.entered)}
}
